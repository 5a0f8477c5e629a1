"""What the leaves of a tree predict with their models, and where their models ask for a split.

Under the topmost model of a way all models share its numbering of the classes, so that what two
of them say can be mixed. A leaf mixes its own with the topmost one, each at two learning rates,
by their progressive log losses. As long as it is of use, all of them start from what naive Bayes
says (see naivebayes.pxd) and learn what is missing.
"""

cimport cython
from libc.stdint cimport int32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memset

from streamtree._core.additive cimport (
    KNOTS, MOST_CLASSES, RATES, LeafModel, add_parts, clone_model, find_parts, free_model,
    has_met, make_parts, meet, model_bytes, record_width, train_parts,
)
from streamtree._core.memory cimport regrown
from streamtree._core.naivebayes cimport (
    NaiveBayes, count_row, free_bayes, is_of_use, learn_trust, new_bayes, write_prior,
)
from streamtree._core.readings cimport Reading, RowReader
from streamtree._core.scaling cimport ColumnScaler
from streamtree._core.splitsearch cimport (
    Candidate, Search, SplitFinder, exported_search, floats, import_search,
)
from streamtree._core.tables cimport (
    Table, TableExport, import_table, table_bytes, table_find, table_free, table_insert,
)
from streamtree._core.types cimport Parts

import numpy as np

cdef extern from "softmax.h":
    void judge_experts "streamtree_judge"(
        float* losses, const float* said, float fading, float least, float temperature, int first,
        float* shares
    ) noexcept nogil
    void logistic "streamtree_logistic"(const float* scores, float* probabilities) noexcept nogil
    void mix_four "streamtree_mix"(
        const float* probabilities, Py_ssize_t apart, const float* shares, int n, float* mixed
    ) noexcept nogil
    void softmax "streamtree_softmax"(
        const float* scores, int n, float* probabilities
    ) noexcept nogil
    float sum_of_squares "streamtree_squares"(const float* values, Py_ssize_t n) noexcept nogil

cdef enum:
    TOP = 0         # whose model it is: the topmost one's or the leaf's own
    OWN = 1

cdef float[RATES] RELATIVE_RATES = [1.0, 6.0]
# of the sums of squared gradients, at every step of a model
cdef float KEPT = 0.999
# added to them: the first steps need not be the largest
cdef float SQUARE_OFFSET = 0.2
# added to the mean squared norm of the rows, by which rates are divided
cdef double NORM_OFFSET = 4.0
# of the losses by which experts are weighed
cdef float FADING = 0.98
cdef float TEMPERATURE = 0.3
cdef float LEAST_PROBABILITY = 1e-3
# of a row that is worth learning
cdef float LEAST_ERROR = 0.07
# An example of more weight counts as one of this: squares stay within single precision.
cdef double MOST_WEIGHT = 1e6


@cython.final
cdef class ModelLeaves:
    """The models of all leaves; which node is a leaf, and on which way, is for the tree to know.

    `top` is the first node on a way that has a model, which may be the leaf itself.
    """

    def __cinit__(self, ColumnScaler scaler, bint is_adaptive, uint64_t seed):
        self.scaler = scaler
        self.reader = RowReader(scaler, is_adaptive)
        self.finder = SplitFinder(self.reader, seed)
        self.mean_norm = 1.0

    def configure(self, *, int32_t max_classes, size_t max_size, double learning_rate,
                  double grace_period, double delta):
        """Set what may change while the tree grows."""
        self.max_classes = max_classes
        self.max_size = max_size
        self.learning_rate = learning_rate
        self.finder.configure(grace_period=grace_period, delta=delta)

    def __dealloc__(self):
        cdef int32_t node
        for node in range(self.capacity):
            self.free_state(node)
        free(self.sites)

    cdef size_t n_bytes(self) noexcept nogil:
        """What the models take; their tree reports it, which knows when they move about."""
        cdef int32_t node
        cdef const State* state
        cdef size_t total = self.capacity * sizeof(Site)
        total += self.reader.n_bytes()
        for node in range(self.capacity):
            state = self.sites[node].state
            if state != NULL:
                total += sizeof(State) + model_bytes(&state.model)
                total += table_bytes(&state.places, 1)
                total += state.classes_capacity * sizeof(int32_t)
                total += sizeof(Search) if state.search != NULL else 0
                if state.bayes != NULL:
                    total += sizeof(NaiveBayes) + model_bytes(&state.bayes.counts)
        return total

    cdef int reserve(self, int32_t capacity) except -1 nogil:
        cdef int32_t node
        if capacity <= self.capacity:
            return 0
        capacity += capacity // 2
        self.sites = <Site*> regrown(self.sites, capacity * sizeof(Site))
        for node in range(self.capacity, capacity):
            self.sites[node].state = NULL
            self.sites[node].column = -1
            self.sites[node].threshold = 0.0
        self.capacity = capacity
        return 0

    cdef int open(self, int32_t node, bint is_topmost) except -1 nogil:
        """Make a node a leaf whose model begins anew."""
        cdef State* state = <State*> calloc(1, sizeof(State))
        cdef Search* search = <Search*> calloc(1, sizeof(Search))
        cdef bint has_bayes = is_topmost and self.reader.has_knots
        cdef NaiveBayes* bayes = new_bayes() if has_bayes else NULL
        self.clear(node)
        if state == NULL or search == NULL or has_bayes and bayes == NULL:
            free(state)
            free(search)
            free_bayes(bayes)
            with gil:
                raise MemoryError("streamtree: the model found no memory to grow")
        state.model.stride = 1
        state.search = search
        state.bayes = bayes
        self.sites[node].state = state
        weigh(state, True)
        return 0

    cdef void clear(self, int32_t node) noexcept nogil:
        self.free_state(node)
        self.sites[node].column = -1
        self.sites[node].threshold = 0.0

    cdef void free_state(self, int32_t node) noexcept nogil:
        cdef State* state = self.sites[node].state
        if state == NULL:
            return
        empty_state(state)
        free(state)
        self.sites[node].state = NULL

    cdef void crowd(self, int32_t node) noexcept nogil:
        """Do without a model from now on: the leaf has too many classes."""
        cdef State* state = self.sites[node].state
        empty_state(state)
        state.is_crowded = True

    cdef void hand_places(self, int32_t node, int32_t heir) noexcept nogil:
        """Before a topmost model goes, give the child that stays what its subtree relies on."""
        cdef State* state = self.sites[node].state
        cdef State* below = self.sites[heir].state
        if state == NULL:
            return
        if below == NULL:
            self.sites[heir].state = state
            self.sites[node].state = NULL
            return
        below.places = state.places
        below.classes = state.classes
        below.n_classes = state.n_classes
        below.classes_capacity = state.classes_capacity
        below.bayes = state.bayes
        weigh(below, True)
        memset(&state.places, 0, sizeof(Table))
        state.classes = NULL
        state.bayes = NULL

    # -------------------------------------------------------------- prediction

    cdef void add_scores(self, Reading* reading, const LeafModel* model, int whose,
                         Opinion* opinion, float* scores) noexcept nogil:
        """Find the records of a row in a model, and add up the scores that they give."""
        cdef const Parts* parts = reading.row.parts
        opinion.slots[whose] = find_parts(
            model, parts, reading.n_linear, reading.n, self.scaler.size,
            parts.top_slots if whose == TOP else parts.own_slots, &opinion.is_complete[whose],
        )
        add_parts(model, parts, reading.n_linear, reading.n, opinion.slots[whose], scores)

    cdef void respond(self, Reading* reading, const LeafModel* model, int whose,
                      Opinion* opinion) noexcept nogil:
        """Write what the experts of one model say."""
        cdef float scores[RATES * MOST_CLASSES]
        cdef int32_t k, stride = model.stride
        cdef float* p = &opinion.probabilities[whose * RATES * MOST_CLASSES]
        cdef int rate
        memset(scores, 0, max(RATES * stride, EXPERTS) * sizeof(float))
        self.add_scores(reading, model, whose, opinion, scores)
        if stride == 1:
            for rate in range(RATES if opinion.has_prior else 0):
                scores[rate] += opinion.prior[1] - opinion.prior[0]
            respond_of_two(scores, 0, RATES, p)
        for rate in range(RATES):
            if stride > 1:
                for k in range(min(stride, opinion.n_classes) if opinion.has_prior else 0):
                    scores[rate * stride + k] += opinion.prior[k]
                softmax(&scores[rate * stride], stride, p)
            # between n_classes and stride there are zeros already: UNMET is the bias
            for k in range(max(stride, 4), (opinion.n_classes + 3) // 4 * 4):
                p[k] = 0.0
            p += MOST_CLASSES

    cdef void mix(self, Reading* reading, int32_t top, int32_t leaf,
                  Opinion* opinion) noexcept nogil:
        """Write what every expert says of the classes, and the mixture."""
        cdef const State* state = self.sites[leaf].state
        cdef const State* above = self.sites[top].state
        cdef float scores[EXPERTS]
        cdef int expert
        opinion.n_classes = above.n_classes
        opinion.first = RATES if top == leaf else 0
        if opinion.n_classes == 0:
            return
        opinion.has_prior = above.bayes != NULL
        if opinion.has_prior:
            write_prior(
                above.bayes, reading, self.scaler.size, opinion.n_classes, opinion.prior
            )
        if state.model.stride == 1 == above.model.stride:
            # one exp and one quotient for all of them
            memset(scores, 0, sizeof(scores))
            self.add_scores(reading, &state.model, OWN, opinion, &scores[RATES])
            if top != leaf:
                self.add_scores(reading, &above.model, TOP, opinion, scores)
            for expert in range(EXPERTS if opinion.has_prior else 0):
                scores[expert] += opinion.prior[1] - opinion.prior[0]
            respond_of_two(scores, opinion.first, EXPERTS, opinion.probabilities)
        else:
            self.respond(reading, &state.model, OWN, opinion)
            if top != leaf:
                self.respond(reading, &above.model, TOP, opinion)
        mix_experts(opinion, state.shares)

    cdef int32_t predict(self, Reading* reading, int32_t top, int32_t leaf) noexcept nogil:
        """The most likely class, -1 if the models know none."""
        cdef Opinion opinion
        cdef int32_t k, best = 0
        self.mix(reading, top, leaf, &opinion)
        if opinion.n_classes == 0:
            return -1
        for k in range(1, opinion.n_classes):
            if opinion.mixed[k] > opinion.mixed[best]:
                best = k
        return self.sites[top].state.classes[best]

    cdef bint predict_proba(self, Reading* reading, int32_t top, int32_t leaf,
                            double* out) noexcept nogil:
        """Write the probability of the classes that the models know; returns whether they do."""
        cdef Opinion opinion
        cdef int32_t k
        cdef double total = 0.0
        self.mix(reading, top, leaf, &opinion)
        for k in range(opinion.n_classes):
            total += opinion.mixed[k]
        for k in range(opinion.n_classes):
            out[self.sites[top].state.classes[k]] = opinion.mixed[k] / total
        return opinion.n_classes > 0

    # ---------------------------------------------------------------- learning

    cdef int32_t place_of(self, int32_t top, int32_t label) noexcept nogil:
        """The number of a class among those of a topmost model, -1 if it has none."""
        cdef const Table* places = &self.sites[top].state.places
        cdef int32_t slot = table_find(places, label) if label >= 0 else -1
        return <int32_t> places.records[slot] - 1 if slot >= 0 else -1

    cdef int admit(self, int32_t top, int32_t label, int32_t n_labels) except -2 nogil:
        """As `place_of`, numbering a class that is new; -1 if there is no room for it."""
        cdef int32_t place = self.place_of(top, label)
        if place >= 0 or self.sites[top].state.n_classes >= min(self.max_classes, MOST_CLASSES):
            return place
        return self.add_class(top, label, n_labels)

    cdef int add_class(self, int32_t top, int32_t label, int32_t n_labels) except -1 nogil:
        cdef State* state = self.sites[top].state
        cdef int32_t slot, capacity
        if state.n_classes == state.classes_capacity:
            capacity = state.classes_capacity + state.classes_capacity // 2 + 4
            state.classes = <int32_t*> regrown(state.classes, capacity * sizeof(int32_t))
            state.classes_capacity = capacity
        slot = table_insert(&state.places, 1, label, n_labels)
        state.classes[state.n_classes] = label
        state.n_classes += 1
        state.places.records[slot] = state.n_classes
        return state.n_classes - 1

    cdef bint learn(self, Reading* reading, int32_t top, int32_t leaf, int32_t label,
                    int32_t n_labels, double weight) except -1 nogil:
        """Learn an example; returns False if its class finds no room in the topmost model."""
        cdef State* state = self.sites[leaf].state
        cdef State* above = self.sites[top].state
        cdef Opinion opinion
        cdef int32_t place = self.admit(top, label, n_labels)
        cdef float said[EXPERTS]
        cdef float norm, square, right
        cdef int expert
        if place < 0:
            return False
        weight = min(weight, MOST_WEIGHT)
        self.rows += 1.0
        norm = sum_of_squares(reading.row.parts.values, reading.n)
        self.mean_norm += (norm - self.mean_norm) / self.rows
        self.mix(reading, top, leaf, &opinion)
        for expert in range(opinion.first, EXPERTS):
            said[expert] = opinion.probabilities[expert * MOST_CLASSES + place]
        judge_experts(
            state.losses, said, FADING, LEAST_PROBABILITY, TEMPERATURE, opinion.first,
            state.shares,
        )
        if above.bayes != NULL:
            self.learn_bayes(reading, above, &opinion, place, weight)
        right = opinion.mixed[place]
        if opinion.n_classes <= 2:
            square = (<float> 1.0 - right) * (<float> 1.0 - right)
        else:
            opinion.mixed[place] = right - <float> 1.0
            square = sum_of_squares(opinion.mixed, opinion.n_classes)
        self.finder.watch(
            state.search, leaf, reading, &opinion.probabilities[OWN * RATES * MOST_CLASSES],
            opinion.n_classes, place, weight,
        )
        if square < LEAST_ERROR * LEAST_ERROR:
            return True
        self.train(reading, &state.model, OWN, &opinion, place, square, weight)
        if top != leaf:
            self.train(reading, &above.model, TOP, &opinion, place, square, weight)
        return True

    cdef int train(self, Reading* reading, LeafModel* model, int whose, Opinion* opinion,
                   int32_t place, float square, double weight) except -1 nogil:
        """One step of a model."""
        cdef const Parts* parts = reading.row.parts
        cdef int32_t* room = parts.top_slots if whose == TOP else parts.own_slots
        cdef const float* p = &opinion.probabilities[whose * RATES * MOST_CLASSES]
        cdef float slopes[RATES * MOST_CLASSES]
        cdef float rate, offset
        cdef Py_ssize_t n_linear = reading.n_linear, n = reading.n
        cdef int32_t k, stride
        cdef int r
        if not has_met(model, place):
            meet(model, place, opinion.n_classes, self.scaler.size)
            self.respond(reading, model, whose, opinion)
        if not opinion.is_complete[whose]:
            make_parts(model, parts, n_linear, n, self.scaler.size, room)
        square *= <float> (weight * weight)
        # weights of another scale are to take the same steps; no root of nothing for tiny ones
        offset = <float> (SQUARE_OFFSET * weight * weight + 1e-30)
        stride = model.stride
        for r in range(RATES):
            rate = <float> (
                RELATIVE_RATES[r] * weight * self.learning_rate / (self.mean_norm + NORM_OFFSET)
            )
            if stride == 1:
                slopes[r] = rate * (p[r * MOST_CLASSES + 1] - (place == 1))
                continue
            for k in range(stride):
                slopes[r * stride + k] = rate * p[r * MOST_CLASSES + k]
            slopes[r * stride + place] = rate * (p[r * MOST_CLASSES + place] - <float> 1.0)
        train_parts(
            model, parts, n_linear, n, opinion.slots[whose] if opinion.is_complete[whose] else room,
            square, offset, KEPT, slopes,
        )
        return 0

    cdef int learn_bayes(self, Reading* reading, State* state, const Opinion* opinion,
                         int32_t place, double weight) except -1 nogil:
        """Count a row, and learn how far to trust the counts; no further when it is not at all."""
        cdef float slope = -opinion.prior[place]
        cdef int32_t k
        for k in range(opinion.n_classes):
            slope += opinion.mixed[k] * opinion.prior[k]
        learn_trust(state.bayes, slope, opinion.n_classes)
        if is_of_use(state.bayes):
            count_row(state.bayes, reading, self.scaler.size, place, weight)
        else:
            free_bayes(state.bayes)
            state.bayes = NULL
        return 0

    # --------------------------------------------------------------- the split

    cdef const Candidate* found(self, int32_t leaf) noexcept nogil:
        """The threshold at which the leaf should split now, NULL if there is none."""
        cdef const State* state = self.sites[leaf].state
        cdef const Candidate* best = self.finder.found(state.search)
        # a split copies the model
        if best != NULL and self.n_bytes() + model_bytes(&state.model) > self.max_size:
            return NULL
        return best

    cdef int divide(self, int32_t top, int32_t node, int32_t left, int32_t right,
                    int32_t column, float threshold) except -1 nogil:
        """Let the children of a node go on from its model; a topmost model stays where it is."""
        cdef State* state = self.sites[node].state
        cdef State* child
        cdef int side
        cdef int expert
        for side in range(2):
            self.open(right if side else left, False)
            child = self.sites[right if side else left].state
            clone_model(&child.model, &state.model)
            for expert in range(EXPERTS):
                child.losses[expert] = state.losses[expert]
            if top == node:
                for expert in range(RATES):
                    child.losses[expert] = state.losses[RATES + expert]
            weigh(child, False)
        self.sites[node].column = column
        self.sites[node].threshold = threshold
        if top == node:
            free(state.search)
            state.search = NULL
        else:
            self.free_state(node)
        return 0

    # ------------------------------------------------------------------- state

    cdef dict state(self, int32_t n_nodes):
        """What was learned, by node and, where there is a model, in a dict for each."""
        cdef const State* part
        cdef int32_t node
        columns = np.empty(n_nodes, dtype=np.int32)
        thresholds = np.empty(n_nodes, dtype=np.float32)
        parts = []
        for node in range(n_nodes):
            columns[node] = self.sites[node].column
            thresholds[node] = self.sites[node].threshold
            part = self.sites[node].state
            if part == NULL:
                continue
            classes = np.empty(part.n_classes, dtype=np.int32)
            if part.n_classes:
                classes[:] = <const int32_t[:part.n_classes]> part.classes
            parts.append({
                "node": node, "is_crowded": bool(part.is_crowded), "classes": classes,
                "losses": floats(part.losses, EXPERTS), "shares": floats(part.shares, EXPERTS),
                **exported_model(&part.model),
                "search": exported_search(part.search) if part.search != NULL else None,
                "bayes": exported_bayes(part.bayes) if part.bayes != NULL else None,
            })
        return {
            "columns": columns, "thresholds": thresholds, "parts": parts,
            "mean_norm": self.mean_norm, "rows": self.rows,
        }

    cdef int take_state(self, dict state, list names, int32_t n_labels) except -1:
        """Take over what `state` gave; a table of a model has keys of as many columns as names."""
        cdef int32_t node, n_columns = <int32_t> len(names)
        cdef State* part
        cdef int expert
        self.mean_norm = state["mean_norm"]
        self.rows = state["rows"]
        for name in names:
            self.reader.add_column(name)
        self.reserve(<int32_t> len(state["columns"]))
        for node in range(<int32_t> len(state["columns"])):
            self.clear(node)
            self.sites[node].column = state["columns"][node]
            self.sites[node].threshold = state["thresholds"][node]
        for saved in state["parts"]:
            node = saved["node"]
            column, threshold = self.sites[node].column, self.sites[node].threshold
            self.open(node, saved["bayes"] is not None)
            self.sites[node].column = column
            self.sites[node].threshold = threshold
            part = self.sites[node].state
            part.is_crowded = saved["is_crowded"]
            import_model(&part.model, n_columns, saved)
            if saved["bayes"] is not None:
                import_bayes(part.bayes, n_columns, saved["bayes"])
            for label in saved["classes"].tolist():
                self.add_class(node, label, n_labels)
            for expert in range(EXPERTS):
                part.losses[expert] = saved["losses"][expert]
                part.shares[expert] = saved["shares"][expert]
            if saved["search"] is None:
                free(part.search)
                part.search = NULL
            else:
                import_search(part.search, saved["search"])
        return 0


cdef inline void respond_of_two(const float* scores, int first, int last,
                                float* p) noexcept nogil:
    """Write the probabilities of two classes from the differences of their scores."""
    cdef float right[EXPERTS]
    cdef int expert
    logistic(scores, right)
    for expert in range(first, last):
        p[expert * MOST_CLASSES] = <float> 1.0 - right[expert]
        p[expert * MOST_CLASSES + 1] = right[expert]
        p[expert * MOST_CLASSES + 2] = p[expert * MOST_CLASSES + 3] = 0.0


cdef inline void mix_experts(Opinion* opinion, const float* shares) noexcept nogil:
    """The mean of what the experts say, each by its share."""
    cdef const float* p = opinion.probabilities
    cdef int32_t k
    cdef int expert
    if opinion.first == 0:
        mix_four(p, MOST_CLASSES, shares, (opinion.n_classes + 3) // 4 * 4, opinion.mixed)
        return
    for k in range((opinion.n_classes + 3) // 4 * 4):
        opinion.mixed[k] = 0.0
        for expert in range(opinion.first, EXPERTS):
            opinion.mixed[k] += shares[expert] * p[expert * MOST_CLASSES + k]


cdef void weigh(State* state, bint is_topmost) noexcept nogil:
    """Turn progressive losses into shares of the mixture."""
    cdef float* said = [1.0, 1.0, 1.0, 1.0]
    judge_experts(
        state.losses, said, 1.0, LEAST_PROBABILITY, TEMPERATURE, RATES if is_topmost else 0,
        state.shares,
    )


cdef void empty_state(State* state) noexcept nogil:
    """Give the memory of its parts back."""
    free_model(&state.model)
    free_bayes(state.bayes)
    table_free(&state.places)
    free(state.classes)
    free(state.search)
    memset(state, 0, sizeof(State))


cdef dict exported_bayes(const NaiveBayes* bayes):
    return {
        **exported_model(&bayes.counts), "trust": bayes.trust, "squares": bayes.squares,
        "rows": bayes.rows, "weight": bayes.weight,
    }


cdef int import_bayes(NaiveBayes* bayes, int32_t n_columns, dict state) except -1:
    import_model(&bayes.counts, n_columns, state)
    bayes.trust = state["trust"]
    bayes.squares = state["squares"]
    bayes.rows = state["rows"]
    bayes.weight = state["weight"]
    return 0


cdef dict exported_model(const LeafModel* model):
    return {
        "stride": model.stride, "linear": exported(&model.linear, model.stride),
        "knots": exported(&model.knots, model.stride),
    }


cdef int import_model(LeafModel* model, int32_t n_columns, dict state) except -1:
    model.stride = state["stride"]
    imported(&model.linear, model.stride, n_columns + 1, state["linear"])
    imported(&model.knots, model.stride, KNOTS * n_columns, state["knots"])
    return 0


cdef dict exported(const Table* table, int32_t stride):
    cdef TableExport export = TableExport(record_width(stride))
    export.add(table)
    arrays = export.arrays()
    return {"keys": arrays["keys"], "records": arrays["records"].view(np.float32)}


cdef int imported(Table* table, int32_t stride, int32_t universe, dict arrays) except -1:
    keys = arrays["keys"]
    records = np.ascontiguousarray(arrays["records"]).view(np.float64)
    return import_table(
        table, record_width(stride), universe,
        {"starts": [0, len(keys)], "keys": keys, "records": records}, 0,
    )
