"""Leaf models that mix additive softmax models at two learning rates, by their progressive losses.

A leaf begins with a model of its own. Where it splits, both children go on from a copy, and what
they copied becomes their common model, and that of all below: every leaf mixes its own with it. The
common model numbers the classes for all of them. As long as it is of use, they all start from what
naive Bayes says (see naivebayes.pxd) and learn what is missing.
"""

cimport cython
from libc.stdint cimport int32_t
from libc.string cimport memset

from streamtree._core.kernels.additive cimport (
    judge_experts, logistic, mix_four, softmax_of, sum_of_squares,
)
from streamtree._core.kernels.linear cimport NORM_OFFSET
from streamtree._core.kernels.losses cimport argmax
from streamtree._core.leaves.additive cimport (
    MOST_CLASSES, RATES, UNMET, AdditiveModel, AdditiveStep, Parts, add_fine_column,
    add_fine_records, add_parts, by_column, clone_model, exported_fine, exported_model, find_parts,
    free_model, has_met, import_fine, import_model, make_parts, meet, model_bytes, part_records,
    train_parts,
)
from streamtree._core.leaves.explanation cimport Explanation, softmax_parts
from streamtree._core.leaves.leaf cimport LeafModels
from streamtree._core.leaves.naivebayes cimport (
    NaiveBayes, count_row, exported_bayes, free_bayes, import_bayes, is_of_use,
    learn_trust, new_bayes, prior_parts, write_prior,
)
from streamtree._core.splits.scoretest cimport Residuals
from streamtree._core.store.budget cimport (
    bytes_allowed, counted, counted_nodes, counted_room, counted_zeros, give_back, has_room,
    spacious,
)
from streamtree._core.store.state cimport export_floats
from streamtree._core.store.tables cimport (
    MAP_UNIVERSE, TableExport, import_table, table_bytes, table_find, table_free, table_insert,
)
from streamtree._core.stream.row cimport (
    ENCODED, Example, Prediction, Row, Scratch, bounded_weight, places_for, remember, remembers,
)
from streamtree._core.stream.scales cimport ColumnScale

import numpy as np

from streamtree._core.leaves.checks import check_mixtures


cdef enum:
    # A model that meets its third class takes almost three times as much, beside what it was;
    # later ones take less.
    WIDER = 4
    # a model is small, and copied as it is, if that many would find room
    SMALL_PARTS = 256

cdef float[RATES] RELATIVE_RATES = [1.0, 6.0]
# of the sums of squared gradients, at every step of a model
cdef float DECAY = 0.999
# added to them: the first steps need not be the largest
cdef float SQUARE_OFFSET = 0.2
# of the losses by which experts are weighed
cdef float FADING = 0.98
cdef float TEMPERATURE = 0.3
cdef float LEAST_PROBABILITY = 1e-3
# of a row that is worth learning
cdef float LEAST_ERROR = 0.07


@cython.final
cdef class MixtureLeaves(LeafModels):
    """The models of all leaves.

    With `has_rest` classes beyond `max_classes` share the last place, and go by their frequency
    there; without it a leaf has no room for them.
    """

    def __cinit__(self, *, bint has_knots, bint has_rest, **settings):
        self.views = ENCODED
        self.memo_size = sizeof(ExpertOutputs)
        # the prior, the mixture, and what the experts say
        self.memo_place_size = (2 + EXPERTS) * sizeof(float)
        self.has_knots = has_knots
        self.has_rest = has_rest
        self.mean_norm = 1.0
        self.configure(**settings)

    def configure(self, *, int32_t max_classes, double learning_rate):
        """Set what may change while the tree grows."""
        self.max_classes = min(max_classes, MOST_CLASSES)
        self.learning_rate = learning_rate

    def __dealloc__(self):
        cdef int32_t node
        for node in range(self.capacity):
            self.clear(node)
        give_back(self.states)

    cdef size_t bytes_of(self, int32_t node) noexcept nogil:
        return model_bytes(&self.states[node].model) if self.states[node] != NULL else 0

    cdef int reserve(self, int32_t n) except -1 nogil:
        self.states = <ModelState**> counted_nodes(
            self.states, &self.capacity, n, sizeof(ModelState*)
        )
        return 0

    cdef int open(self, int32_t node) except -1 nogil:
        cdef ModelState* state = new_state(self.has_knots)
        self.clear(node)
        self.states[node] = state
        return 0

    cdef int clone(self, int32_t node, int32_t child) except -1 nogil:
        cdef ModelState* state = self.states[node]
        cdef ModelState* copy = new_state(False)
        cdef bint is_first = state.top == NULL
        cdef const ColumnScale* scales = NULL
        cdef int expert
        self.clear(child)
        self.states[child] = copy
        # a column that came once would be in the copies of all leaves below
        if self.bytes_of(node) > bytes_allowed() // SMALL_PARTS:
            scales = self.context.scaler.columns
        clone_model(&copy.model, &state.model, scales)
        if is_first and state.n_users == 0:
            # the leaf itself, until it is cleared
            state.n_users = 1
        copy.top = state if is_first else state.top
        copy.top.n_users += 1
        for expert in range(EXPERTS):
            copy.losses[expert] = state.losses[expert]
        if is_first:
            # what the model was worth as the leaf's own it now is worth as the common one
            for expert in range(RATES):
                copy.losses[expert] = state.losses[RATES + expert]
        weigh(copy)
        return 0

    cdef int look_closely(self, int32_t node, int32_t column) except -1 nogil:
        """As for all leaf models: fine knots, which have learned nothing yet, join the others."""
        if self.has_knots and self.context.scaler.columns[column].has_varied:
            add_fine_column(&self.states[node].model, column)
        return 0

    cdef void clear(self, int32_t node) noexcept nogil:
        """As for all leaf models; a common model lives on with those who have it."""
        release(self.states[node])
        self.states[node] = NULL

    cdef const ModelState* common(self) noexcept nogil:
        """The model that numbers the classes for all leaves, unless they were too many for it."""
        cdef int32_t node = 0
        while self.states[node] == NULL:
            node += 1
        return top_of(self.states[node])

    # -------------------------------------------------------------------------- prediction

    cdef inline void look_at(self, Parts* parts, const Row* row, Scratch* scratch,
                             int i) noexcept nogil:
        parts.row = &row.encoded
        parts.n = row.encoded.n if self.has_knots else row.encoded.n_linear
        parts.n_columns = self.context.n_columns
        parts.room = scratch.part_slots[i]
        parts.steps = scratch.part_steps
        # those that are common have none
        parts.fine = scratch.fine if i == 1 else NULL

    cdef ExpertOutputs* outputs(self, int32_t node, const Row* row,
                                Scratch* scratch) noexcept nogil:
        """What the experts of a leaf say of a row; if it was asked last, it is there already."""
        cdef ExpertOutputs* outputs = <ExpertOutputs*> scratch.memo
        if remembers(scratch, <const void*> self, row) and outputs.node == node:
            return outputs
        remember(scratch, <const void*> self, row)
        outputs.node = node
        outputs.place = -1
        outputs.apart = scratch.memo_places
        outputs.prior = <float*> (outputs + 1)
        outputs.mixed = outputs.prior + outputs.apart
        outputs.probabilities = outputs.mixed + outputs.apart
        self.look_at(&outputs.common, row, scratch, 0)
        self.look_at(&outputs.own, row, scratch, 1)
        self.look_at(&outputs.counts, row, scratch, 2)
        self.mix(node, outputs)
        return outputs

    cdef void respond(self, const AdditiveModel* model, Parts* parts, ExpertOutputs* outputs,
                      float* p) noexcept nogil:
        """Write what the experts of one model say."""
        cdef float scores[RATES * MOST_CLASSES]
        cdef float* at = scores
        cdef const float* prior = outputs.prior
        cdef int32_t k, stride = model.stride
        cdef int rate
        memset(scores, 0, max(RATES * stride, EXPERTS) * sizeof(float))
        find_parts(model, parts)
        add_parts(model, parts, scores, RATES * stride)
        if stride == 1:
            for rate in range(RATES if outputs.has_prior else 0):
                scores[rate] += outputs.prior[1] - outputs.prior[0]
            respond_of_two(scores, 0, RATES, p, outputs.apart)
        for _ in range(RATES):
            if stride > 1:
                for k in range(min(stride, outputs.n_classes) if outputs.has_prior else 0):
                    at[k] += prior[k]
                softmax_of(at, stride, p)
            # between n_classes and stride there are zeros already: UNMET is the bias
            for k in range(max(stride, 4), (outputs.n_classes + 3) // 4 * 4):
                p[k] = 0.0
            p += outputs.apart
            at += stride

    cdef void mix(self, int32_t node, ExpertOutputs* outputs) noexcept nogil:
        """Write what every expert says of the classes, and the mixture."""
        cdef const ModelState* state = self.states[node]
        cdef const ModelState* top = top_of(state)
        cdef bint is_top = top == state
        cdef float scores[EXPERTS]
        cdef int expert
        outputs.n_classes = top.n_classes
        outputs.first = RATES if is_top else 0
        if outputs.n_classes == 0:
            return
        outputs.has_prior = top.bayes != NULL
        if outputs.has_prior:
            write_prior(top.bayes, &outputs.counts, outputs.n_classes, outputs.prior)
        if state.model.stride == 1 == top.model.stride:
            # one exp and one quotient for all of them
            memset(scores, 0, sizeof(scores))
            find_parts(&state.model, &outputs.own)
            add_parts(&state.model, &outputs.own, &scores[RATES], RATES)
            if not is_top:
                find_parts(&top.model, &outputs.common)
                add_parts(&top.model, &outputs.common, scores, RATES)
            for expert in range(EXPERTS if outputs.has_prior else 0):
                scores[expert] += outputs.prior[1] - outputs.prior[0]
            respond_of_two(
                scores, outputs.first, EXPERTS, outputs.probabilities, outputs.apart
            )
        else:
            self.respond(&state.model, &outputs.own, outputs, said_by_own(outputs))
            if not is_top:
                self.respond(&top.model, &outputs.common, outputs, outputs.probabilities)
        mix_experts(outputs, state.shares)

    cdef void say(self, const ModelState* top, const ExpertOutputs* outputs, int32_t* label,
                  double* shares) noexcept nogil:
        """Turn the mixture into the most likely class and, unless NULL, the shares of all."""
        cdef int32_t k, slot, n = outputs.n_classes, best = argmax(outputs.mixed, n)
        cdef double total = 0.0, rest = 0.0, more = 0.0
        label[0] = top.classes[best]
        if top.rest_class >= 0:
            # the last place is that of several classes: to each by its frequency
            slot = table_find(&top.rest, top.rest_class)
            rest = outputs.mixed[n - 1] * top.rest.records[slot] / top.rest_weight
            if best == n - 1:
                best = argmax(outputs.mixed, n - 1)
                label[0] = top.classes[best] if outputs.mixed[best] >= rest else top.rest_class
        if shares == NULL:
            return
        for k in range(n):
            total += outputs.mixed[k]
        if total == 0.0:
            # steps were so large that places without a label have the largest scores
            more, total = 1.0, n
        for k in range(n if top.rest_class < 0 else n - 1):
            shares[top.classes[k]] = (outputs.mixed[k] + more) / total
        if top.rest_class >= 0:
            rest = (outputs.mixed[n - 1] + more) / total
            for slot in range(top.rest.capacity):
                if top.rest.keys[slot] >= 0:
                    # the quotient first: one over the weight may be too large for a number
                    shares[top.rest.keys[slot]] = rest * (
                        top.rest.records[slot] / top.rest_weight
                    )

    cdef bint predict(self, int32_t node, const Row* row, Scratch* scratch,
                      Prediction* out) noexcept nogil:
        cdef const ExpertOutputs* outputs = self.outputs(node, row, scratch)
        if outputs.n_classes == 0:
            return False
        self.say(top_of(self.states[node]), outputs, &out.label, out.shares)
        return True

    cdef int explain(self, int32_t node, const Row* row, Scratch* scratch, Explanation out,
                     double difference) except -1:
        cdef const ModelState* state = self.states[node]
        cdef const ModelState* top = top_of(state)
        cdef ExpertOutputs* outputs = self.outputs(node, row, scratch)
        cdef int32_t place = place_in(top, out.output)
        if place < 0 and table_find(&top.rest, out.output) >= 0:
            place = outputs.n_classes - 1
        if place < 0:
            return out.add_bias(difference)
        prior = np.zeros((outputs.own.n, outputs.n_classes))
        if outputs.has_prior:
            prior = prior_parts(top.bayes, &outputs.counts, outputs.n_classes)
        columns, parts = self.expert_parts(
            &state.model, &outputs.own, prior, &state.shares[RATES], place
        )
        if top != state:
            parts += self.expert_parts(
                &top.model, &outputs.common, prior, state.shares, place
            )[1]
        return out.spread(columns, parts, difference)

    cdef tuple expert_parts(self, const AdditiveModel* model, Parts* parts, object prior,
                            const float* shares, int32_t place):
        """The columns of a row, and what each adds to what the experts of a model say of a place.
        """
        cdef int32_t stride = model.stride, known = 2 if stride == 1 else stride
        cdef Py_ssize_t i
        cdef int rate
        values = np.empty((parts.n, 1))
        for i in range(parts.n):
            values[i, 0] = parts.row.values[i]
        find_parts(model, parts)
        records = part_records(model, parts, RATES * stride) * values
        add_fine_records(model, parts, records)
        total = 0.0
        for rate in range(RATES):
            scores = prior.copy()
            if stride == 1:
                # the one score is the difference of two
                scores[:, 1:2] += records[:, rate:rate + 1]
            else:
                scores[:, :known] += records[:, rate * stride:][:, :min(known, scores.shape[1])]
            # the model has not met these classes
            scores[0, known:] = UNMET
            base, columns, sums = by_column(parts, scores)
            total = total + shares[rate] * softmax_parts(base, sums, place)
        return columns, total

    # ---------------------------------------------------------------------------- learning

    cdef int place_of(self, ModelState* top, int32_t label) except -2 nogil:
        """The number of a class among those of a model, a new one if there is room, else -1.

        Records of more classes take more memory than the model may have: then it is -1, too.
        """
        cdef int32_t place = place_in(top, label)
        if place >= 0:
            return place
        if top.n_classes >= self.max_classes:
            if self.has_rest:
                return top.n_classes - 1
            return -1
        if top.n_classes >= 2 and top.n_classes >= top.model.stride and not has_room(
            WIDER * state_bytes(top)
        ):
            return -1
        top.classes = <int32_t*> counted_room(
            top.classes, &top.classes_capacity, top.n_classes + 1, sizeof(int32_t)
        )
        top.classes[top.n_classes] = label
        top.n_classes += 1
        return top.n_classes - 1

    cdef bint learn(self, int32_t node, const Row* row, const Example* example, Scratch* scratch,
                    Prediction* out) except -1 nogil:
        cdef ModelState* state = self.states[node]
        cdef ModelState* top = top_of(state)
        cdef ExpertOutputs* outputs
        cdef float said[EXPERTS]
        cdef float norm, square, right
        cdef double weight = bounded_weight(example.weight)
        cdef int expert
        cdef int32_t place, n_before = top.n_classes
        if out != NULL:
            out.label = -1
            self.predict(node, row, scratch, out)
        place = self.place_of(top, example.label)
        if place < 0 and state.top != NULL and top.n_classes >= self.max_classes:
            # other leaves have filled the common model: this one begins anew
            self.open(node)
            state = top = self.states[node]
            place = self.place_of(top, example.label)
            n_before = -1
        if place < 0:
            return False
        if place == self.max_classes - 1 and self.has_rest:
            self.count_rest(top, example)
        if top.n_classes != n_before:
            scratch.memo_serial = 0
        outputs = self.outputs(node, row, scratch)
        # what is there now is changed below
        scratch.memo_serial = 0
        outputs.place = place
        self.rows += 1.0
        norm = sum_of_squares(row.encoded.values, outputs.own.n)
        self.mean_norm += (norm - self.mean_norm) / self.rows
        for expert in range(outputs.first, EXPERTS):
            said[expert] = outputs.probabilities[expert * outputs.apart + place]
        judge_experts(
            state.losses, said, FADING, LEAST_PROBABILITY, TEMPERATURE, outputs.first,
            state.shares,
        )
        if top.bayes != NULL:
            self.learn_bayes(top, outputs, weight)
        right = outputs.mixed[place]
        if outputs.n_classes <= 2:
            square = (<float> 1.0 - right) * (<float> 1.0 - right)
        else:
            outputs.mixed[place] = right - <float> 1.0
            square = sum_of_squares(outputs.mixed, outputs.n_classes)
        if square < LEAST_ERROR * LEAST_ERROR:
            return True
        self.train(&state.model, &outputs.own, outputs, said_by_own(outputs), square, weight)
        if top != state:
            self.train(
                &top.model, &outputs.common, outputs, outputs.probabilities, square, weight
            )
        return True

    cdef int count_rest(self, ModelState* top, const Example* example) except -1 nogil:
        """Count a class that shares the last place with others, or is alone there so far."""
        cdef int32_t slot
        cdef int32_t label = example.label
        if top.rest_class < 0 and place_in(top, label) >= 0:
            # alone: nothing to be told apart, but what it weighs will be asked for
            top.rest_weight += example.weight
            return 0
        if top.rest_class < 0:
            # the second one: what came before was the first
            slot = table_insert(&top.rest, 1, top.classes[top.n_classes - 1], MAP_UNIVERSE)
            top.rest.records[slot] = top.rest_weight
            top.rest_class = top.classes[top.n_classes - 1]
        slot = table_insert(&top.rest, 1, label, MAP_UNIVERSE)
        top.rest.records[slot] += example.weight
        top.rest_weight += example.weight
        if top.rest.records[slot] > top.rest.records[table_find(&top.rest, top.rest_class)]:
            top.rest_class = label
        return 0

    cdef void residuals(self, int32_t node, Scratch* scratch, Residuals* out) noexcept nogil:
        cdef const ExpertOutputs* outputs = <const ExpertOutputs*> scratch.memo
        out.p = said_by_own(outputs)
        out.n = outputs.n_classes
        out.place = outputs.place
        out.n_parts = outputs.own.n

    cdef int train(self, AdditiveModel* model, Parts* parts, ExpertOutputs* outputs, float* p,
                   float square, double weight) except -1 nogil:
        """One step of a model, whose experts said p."""
        cdef float slopes[RATES * MOST_CLASSES]
        cdef float with_new[RATES * MOST_CLASSES]
        cdef AdditiveStep step
        cdef float rate
        cdef int32_t k, stride, place = outputs.place
        cdef int r
        if not has_met(model, place):
            if place >= model.stride and not has_room(WIDER * model_bytes(model)):
                return 0
            meet(model, place, outputs.n_classes, parts.n_columns)
            # what was said stays for the residuals
            p = with_new
            self.respond(model, parts, outputs, p)
        make_parts(model, parts)
        step.square = square * <float> (weight * weight)
        # weights of another scale are to take the same steps; no root of nothing for tiny ones
        step.offset = <float> (SQUARE_OFFSET * weight * weight + 1e-30)
        step.decay = DECAY
        step.slopes = slopes
        stride = model.stride
        for r in range(RATES):
            rate = <float> (
                RELATIVE_RATES[r] * weight * self.learning_rate / (self.mean_norm + NORM_OFFSET)
            )
            if stride == 1:
                slopes[r] = rate * (p[1] - (place == 1))
            else:
                for k in range(stride):
                    slopes[r * stride + k] = rate * p[k]
                slopes[r * stride + place] = rate * (p[place] - <float> 1.0)
            p += outputs.apart
        train_parts(model, parts, &step)
        return 0

    cdef int learn_bayes(self, ModelState* top, ExpertOutputs* outputs,
                         double weight) except -1 nogil:
        """Count a row, and learn how far to trust the counts; no further when it is not at all."""
        cdef float slope = -outputs.prior[outputs.place]
        cdef int32_t k
        for k in range(outputs.n_classes):
            slope += outputs.mixed[k] * outputs.prior[k]
        learn_trust(top.bayes, slope, outputs.n_classes)
        if is_of_use(top.bayes):
            count_row(top.bayes, &outputs.counts, outputs.place, weight)
        else:
            free_bayes(top.bayes)
            top.bayes = NULL
        return 0

    # ------------------------------------------------------------------------------- state

    cdef dict state(self, int32_t n_nodes):
        """What was learned, in a dict for every model; a common one comes before those below."""
        cdef const ModelState* state
        cdef int32_t node
        models, numbers = [], {}
        for node in range(n_nodes):
            state = self.states[node]
            if state == NULL:
                continue
            top = -1
            if state.top != NULL:
                top = numbers.setdefault(<size_t> state.top, len(models))
                if top == len(models):
                    models.append({"node": -1, "top": -1, **exported_state(state.top)})
            models.append({"node": node, "top": top, **exported_state(state)})
        return {"models": models, "mean_norm": self.mean_norm, "rows": self.rows}

    cdef int take_state(self, dict state) except -1:
        cdef int32_t node
        cdef ModelState* made
        cdef dict tops = {}
        self.mean_norm = state["mean_norm"]
        self.rows = state["rows"]
        for node in range(self.capacity):
            self.clear(node)
        for i, saved in enumerate(state["models"]):
            made = new_state(False)
            if saved["top"] >= 0:
                made.top = <ModelState*> <size_t> tops[saved["top"]]
                made.top.n_users += 1
            if saved["node"] >= 0:
                self.states[<int32_t> saved["node"]] = made
            else:
                made.n_users = 0
                tops[i] = <size_t> made
            import_state(made, saved, self.context.n_columns)
        return 0

    def check_state(self, dict state, Py_ssize_t n_nodes, Py_ssize_t n_columns,
                    Py_ssize_t n_outputs):
        cdef ModelState blank
        memset(&blank, 0, sizeof(ModelState))
        blank.model.stride = 1
        kind = {"node": 0, "top": 0, **exported_state(&blank)}
        return check_mixtures(
            state, n_nodes, n_columns, n_outputs, kind=kind, places=places_for(n_outputs),
            max_classes=self.max_classes, has_knots=self.has_knots, has_rest=self.has_rest,
        )


cdef inline ModelState* top_of(const ModelState* state) noexcept nogil:
    """Who numbers the classes."""
    return state.top if state.top != NULL else <ModelState*> state


cdef ModelState* new_state(bint has_bayes) except NULL nogil:
    """A model that has learned nothing, of one leaf."""
    cdef ModelState* state = <ModelState*> counted_zeros(sizeof(ModelState))
    cdef bint is_done = False
    try:
        if has_bayes:
            state.bayes = new_bayes()
        is_done = True
    finally:
        if not is_done:
            give_back(state)
    state.model.stride = 1
    state.rest_class = -1
    weigh(state)
    return state


cdef void release(ModelState* state) noexcept nogil:
    """Free a model, unless it is the common one of others, and the common one after its last."""
    cdef ModelState* top = NULL
    if state == NULL:
        return
    if state.n_users:
        top = state
    else:
        top = state.top
        free_state(state)
    if top != NULL:
        top.n_users -= 1
        if top.n_users == 0:
            free_state(top)


cdef int32_t place_in(const ModelState* top, int32_t label) noexcept nogil:
    """The place of a class, or -1; as a rule its own number, else few are to be looked at."""
    cdef int32_t place
    if 0 <= label < top.n_classes and top.classes[label] == label:
        return label
    for place in range(top.n_classes):
        if top.classes[place] == label:
            return place
    return -1


cdef void free_state(ModelState* state) noexcept nogil:
    free_model(&state.model)
    free_bayes(state.bayes)
    table_free(&state.rest)
    give_back(state.classes)
    give_back(state)


cdef size_t state_bytes(const ModelState* state) noexcept nogil:
    cdef size_t total = sizeof(ModelState) + model_bytes(&state.model)
    total += table_bytes(&state.rest, 1) + state.classes_capacity * sizeof(int32_t)
    if state.bayes != NULL:
        total += sizeof(NaiveBayes) + model_bytes(&state.bayes.counts)
    return total


cdef inline float* said_by_own(const ExpertOutputs* outputs) noexcept nogil:
    """What the leaf's own experts say."""
    return &outputs.probabilities[RATES * outputs.apart]


cdef inline void respond_of_two(const float* scores, int first, int last, float* p,
                                Py_ssize_t apart) noexcept nogil:
    """Write the probabilities of two classes from the differences of their scores."""
    cdef float right[EXPERTS]
    cdef int expert
    logistic(scores, right)
    for expert in range(first, last):
        p[expert * apart] = <float> 1.0 - right[expert]
        p[expert * apart + 1] = right[expert]
        p[expert * apart + 2] = p[expert * apart + 3] = 0.0


cdef inline void mix_experts(ExpertOutputs* outputs, const float* shares) noexcept nogil:
    """The mean of what the experts say, each by its share."""
    cdef const float* p = outputs.probabilities
    cdef int32_t k
    cdef int expert
    if outputs.first == 0:
        mix_four(p, outputs.apart, shares, (outputs.n_classes + 3) // 4 * 4, outputs.mixed)
        return
    for k in range((outputs.n_classes + 3) // 4 * 4):
        outputs.mixed[k] = 0.0
        for expert in range(outputs.first, EXPERTS):
            outputs.mixed[k] += shares[expert] * p[expert * outputs.apart + k]


cdef void weigh(ModelState* state) noexcept nogil:
    """Turn progressive losses into shares of the mixture."""
    cdef float* said = [1.0, 1.0, 1.0, 1.0]
    judge_experts(
        state.losses, said, 1.0, LEAST_PROBABILITY, TEMPERATURE,
        RATES if state.top == NULL else 0, state.shares,
    )


cdef dict exported_state(const ModelState* state):
    cdef TableExport rest = TableExport(1)
    cdef int32_t k
    rest.add(&state.rest)
    weights = rest.arrays()
    classes = np.array([state.classes[k] for k in range(state.n_classes)], dtype=np.int32)
    return {
        "classes": classes, "losses": export_floats(state.losses, EXPERTS),
        "shares": export_floats(state.shares, EXPERTS), **exported_model(&state.model),
        "fine": exported_fine(&state.model),
        "bayes": exported_bayes(state.bayes) if state.bayes != NULL else None,
        "rest": {"keys": weights["keys"], "weights": weights["records"][:, 0].copy()},
        "rest_weight": state.rest_weight, "rest_class": state.rest_class,
    }


cdef int import_state(ModelState* state, dict saved, int32_t n_columns) except -1:
    cdef int32_t k, n = <int32_t> len(saved["classes"])
    cdef int expert
    import_model(&state.model, n_columns, saved)
    import_fine(&state.model, saved["fine"])
    if saved["bayes"] is not None:
        state.bayes = new_bayes()
        import_bayes(state.bayes, n_columns, saved["bayes"])
    if n:
        state.classes_capacity = <int32_t> spacious(n)
        state.classes = <int32_t*> counted(NULL, state.classes_capacity * sizeof(int32_t))
    for k in range(n):
        state.classes[k] = saved["classes"][k]
    state.n_classes = n
    rest = saved["rest"]
    import_table(
        &state.rest, 1, MAP_UNIVERSE,
        {"starts": [0, len(rest["keys"])], "keys": rest["keys"],
         "records": rest["weights"].reshape(len(rest["keys"]), 1), "capacities": [0]}, 0,
    )
    state.rest_weight = saved["rest_weight"]
    state.rest_class = saved["rest_class"]
    for expert in range(EXPERTS):
        state.losses[expert] = saved["losses"][expert]
        state.shares[expert] = saved["shares"][expert]
    return 0
