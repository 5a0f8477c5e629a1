"""Leaves that predict by naive Bayes over their histograms, by a linear model, or by the path.

Linear models read standardised values; those of numbers answer in deviations of all targets from
their mean. An adaptive leaf counts how often each of the three would have been right before a row
was learned, and predicts by the best.
"""

cimport cython
from libc.math cimport HUGE_VAL, log, sqrt
from libc.stdint cimport int32_t
from libc.string cimport memcpy, memset

from streamtree._core.kernels.linear cimport Inputs, StepRule, adagrad_steps, respond
from streamtree._core.kernels.losses cimport argmax, softmax
from streamtree._core.kernels.moments cimport moments_add, moments_variance
from streamtree._core.leaves.explanation cimport Explanation, columns_of, softmax_parts
from streamtree._core.leaves.leaf cimport LeafModels
from streamtree._core.splits.histograms cimport (
    Histogram, LeafStatistics, Statistics, find_bin, find_histogram,
)
from streamtree._core.splits.scoretest cimport Residuals
from streamtree._core.store.budget cimport (
    counted, counted_room, counted_zeros, give_back, has_room, may_take_rare,
)
from streamtree._core.store.tables cimport map_bytes, map_find, map_put, table_free
from streamtree._core.stream.context cimport Context
from streamtree._core.stream.row cimport (
    LISTED, STANDARD, Example, Prediction, Row, Scratch, View,
)

import numpy as np

from streamtree._core.leaves.checks import check_histogram_leaves

cdef enum:
    # a leaf compares what it could predict with on its first rows, then on one of so many
    MANY_JUDGED = 64
    JUDGED_PARTS = 4
    MAX_BINS = 16           # of statistics that no tree shares

# added to every bin of every class
cdef double BAYES_PRIOR = 0.5
# how much weight a leaf gives to how well its parent's models did
cdef double INHERITED_WEIGHT = 50.0
# Of the linear models. The prior keeps first gradients, which may be tiny, from steps as long as
# any: on 77 classes of short texts .03 of accuracy are gained, and .002 on average.
cdef double RATE = 0.6
cdef double PRIOR = 0.1
# how many deviations from the mean a target counts at most when a linear model learns it
cdef double TARGET_LIMIT = 5.0
# a linear model of numbers predicts nothing farther from a leaf's mean than so many deviations
cdef double NUMBER_LIMIT = 3.0


cdef int32_t majority(const Statistics* leaf) noexcept nogil:
    """The label that a leaf met most, whatever its statistics are of."""
    cdef int32_t i, best = 0
    for i in range(1, leaf.n_sums):
        if leaf.before[i] + leaf.totals[i] > leaf.before[best] + leaf.totals[best]:
            best = i
    return leaf.labels[best]


cdef double limited(double value, double middle, double reach) noexcept nogil:
    """The number nearest to `value` that is not farther than `reach` from `middle`."""
    if value > middle + reach:
        return middle + reach
    return value if value >= middle - reach else middle - reach


cdef size_t bytes_of_model(const LinearModel* model) noexcept nogil:
    return (
        sizeof(LinearModel) + <size_t> (model.capacity + 1) * 2 * model.width * sizeof(double)
        + model.capacity * sizeof(int32_t) + map_bytes(&model.by_column)
    )


cdef void free_model(LinearModel* model) noexcept nogil:
    if model != NULL:
        give_back(model.records)
        give_back(model.columns)
        table_free(&model.by_column)
        give_back(model)


cdef inline double bayes_factor(const Statistics* leaf, const Histogram* histogram,
                                Py_ssize_t place, int32_t i) noexcept nogil:
    """How likely a bin of a column is, given the label i."""
    cdef double room = BAYES_PRIOR * (histogram.n_bins + 1)
    return (histogram.sums[place * leaf.width + i] + BAYES_PRIOR) / (leaf.totals[i] + room)


cdef int best_predictor(const LinearModel* model, int kind, bint of_labels) noexcept nogil:
    """Who predicts: of an adaptive leaf, what was right most often there."""
    cdef int best = PATH
    if kind != ADAPTIVE:
        return kind
    # of numbers there is no naive Bayes
    if of_labels and model.scores[<int> BAYES] > model.scores[best]:
        best = BAYES
    if model.scores[<int> LINEAR] > model.scores[best]:
        best = LINEAR
    return best


cdef int add_column(LinearModel* model, int32_t column) except -1 nogil:
    """Give a column the next place; there is room for it."""
    map_put(&model.by_column, column, model.n)
    model.columns[model.n] = column
    model.n_plain += column == model.n == model.n_plain
    model.n += 1
    return 0


cdef const int32_t* places_of(const LinearModel* model, const View* view,
                              int32_t* slots) noexcept nogil:
    """Where the records of a row's columns are, -1 for none; NULL: those of value i at i."""
    cdef Py_ssize_t i
    cdef int32_t hint
    if view.is_full and view.n <= model.n_plain:
        return NULL
    for i in range(view.n):
        slots[i] = view.columns[i]
        if slots[i] >= model.n_plain:
            hint = <int32_t> i
            if hint >= model.n or model.columns[hint] != slots[i]:
                hint = map_find(&model.by_column, slots[i])
            slots[i] = hint
    return slots


@cython.final
cdef class HistogramLeaves(LeafModels):
    """Models of the leaves of one tree; of labels, or of one number.

    The statistics are those that a tree collects anyway, if it shares them, or their own.
    """

    def __cinit__(self, int kind, bint of_labels=True):
        self.kind = kind
        self.of_labels = of_labels
        self.has_linear = kind in (LINEAR, ADAPTIVE)
        self.is_owner = True
        self.statistics = LeafStatistics(of_labels, MAX_BINS)
        self.views = LISTED | (STANDARD if self.has_linear else 0)

    def __dealloc__(self):
        cdef int32_t node
        for node in range(self.capacity):
            free_model(self.models[node])
        give_back(self.models)

    cdef int share(self, LeafStatistics statistics) except -1:
        """Use the statistics of a tree, which opens, counts and closes them itself.

        A leaf's are to be open before its model is, and closed after it.
        """
        self.is_owner = False
        self.statistics = statistics
        return 0

    # -------------------------------------------------------------------------- memory

    cdef int bind(self, Context context) except -1:
        self.context = self.statistics.context = context
        return 0

    cdef int reserve(self, int32_t n) except -1 nogil:
        self.models = <LinearModel**> counted_room(
            self.models, &self.capacity, n, sizeof(LinearModel*)
        )
        if self.is_owner:
            self.statistics.reserve(n)
        return 0

    cdef int open(self, int32_t node) except -1 nogil:
        self.clear(node)
        if self.is_owner:
            self.statistics.open(node)
        return self.add_model(node)

    cdef int add_model(self, int32_t node) except -1 nogil:
        """A new model for a node that has statistics."""
        cdef LinearModel* model = <LinearModel*> counted_zeros(sizeof(LinearModel))
        try:
            if self.has_linear:
                self.resize(model, 0, self.width_for(node))
            self.models[node] = model
        finally:
            if self.models[node] == NULL:
                free_model(model)
        return 0

    cdef int32_t width_for(self, int32_t node) noexcept nogil:
        """How many outputs a model has room for: as many as the statistics have for sums."""
        return min(self.statistics.nodes[node].width, MAX_MODELLED) if self.of_labels else 1

    cdef void clear(self, int32_t node) noexcept nogil:
        if self.models[node] != NULL:
            free_model(self.models[node])
            self.models[node] = NULL
        if self.is_owner:
            self.statistics.close(node)

    cdef size_t bytes_of(self, int32_t node) noexcept nogil:
        cdef size_t total = 0
        if self.models[node] != NULL:
            total += bytes_of_model(self.models[node])
            if self.is_owner:
                total += self.statistics.nodes[node].bytes
        return total

    cdef int resize(self, LinearModel* model, int32_t capacity, int32_t width) except -1 nogil:
        """Give a model room for so many columns and outputs."""
        cdef double* records
        cdef int32_t i, old = model.width, kept = min(old, width)
        if capacity > model.capacity:
            model.columns = <int32_t*> counted(model.columns, capacity * sizeof(int32_t))
        records = <double*> counted_zeros(<size_t> (capacity + 1) * 2 * width * sizeof(double))
        for i in range(model.n + 1 if model.records != NULL else 0):
            memcpy(&records[<size_t> i * 2 * width], &model.records[<size_t> i * 2 * old],
                   kept * sizeof(double))
            memcpy(&records[(<size_t> i * 2 + 1) * width],
                   &model.records[(<size_t> i * 2 + 1) * old], kept * sizeof(double))
        give_back(model.records)
        model.records = records
        model.capacity = capacity
        model.width = width
        return 0

    cdef int locate(self, LinearModel* model, const View* view, int32_t* slots) except -1 nogil:
        """Make the records of a row's columns that are not there yet; `slots` has -1 for them.

        Returns how many are still absent, because there is no room for them.
        """
        cdef Py_ssize_t i
        cdef int32_t missing = 0, rare = 0
        cdef bint has_rare
        for i in range(view.n):
            missing += slots[i] < 0
        if missing == 0:
            return 0
        # what is rare is not to take the place of other leaves
        has_rare = may_take_rare()
        for i in range(0 if has_rare else view.n):
            rare += slots[i] < 0 and self.context.is_rare(view.columns[i])
        missing -= rare
        if model.n + missing > model.capacity:
            i = max(4, model.capacity)
            while i < model.n + missing:
                i *= 2
            if not has_room(<size_t> i * 2 * model.width * sizeof(double)):
                return missing + rare
            self.resize(model, <int32_t> i, model.width)
        for i in range(view.n):
            if slots[i] < 0 and (has_rare or not self.context.is_rare(view.columns[i])):
                slots[i] = model.n
                add_column(model, view.columns[i])
        return rare

    # ------------------------------------------------------------------------- growth

    cdef int clone(self, int32_t node, int32_t child) except -1 nogil:
        """Start a model with the weights of its parent's, for the labels that are counted there.
        """
        cdef const LinearModel* source = self.models[node]
        cdef int i
        self.open(child)
        if source == NULL:
            return 0
        for i in range(3):
            self.models[child].scores[i] = source.scores[i] * (
                INHERITED_WEIGHT / max(self.statistics.nodes[node].weight, 1.0)
            )
        # the bins are empty, so that naive Bayes has to prove itself anew
        self.models[child].scores[<int> BAYES] = 0.0
        if self.is_owner:
            self.carry_over(node, child)
        if self.has_linear:
            self.copy_weights(node, child)
        return 0

    cdef int carry_over(self, int32_t node, int32_t child) except -1 nogil:
        """Let a child expect what its parent met; a tree that shares its statistics knows better.
        """
        cdef const Statistics* parent = self.statistics.nodes[node]
        cdef Statistics* leaf
        cdef double part = 1.0
        cdef int32_t i, place
        if parent.weight > INHERITED_WEIGHT:
            part = INHERITED_WEIGHT / parent.weight
        for i in range(parent.n_sums):
            place = i
            if self.of_labels:
                place = self.statistics.place(child, parent.labels[i])
            leaf = self.statistics.nodes[child]
            leaf.before[place] = part * parent.totals[i]
            leaf.squares_before = part * parent.target_squares
        return 0

    cdef int copy_weights(self, int32_t node, int32_t child) except -1 nogil:
        cdef const LinearModel* source = self.models[node]
        cdef LinearModel* model = self.models[child]
        cdef const Statistics* parent = self.statistics.nodes[node]
        cdef const Statistics* leaf = self.statistics.nodes[child]
        cdef int32_t i, j, place
        cdef int32_t n = min(parent.n_sums if self.of_labels else 1, source.width)
        cdef double* records
        cdef const double* old
        self.resize(model, source.capacity, self.width_for(child))
        for i in range(source.n):
            add_column(model, source.columns[i])
        for j in range(n):
            place = map_find(&leaf.by_label, parent.labels[j]) if self.of_labels else 0
            if not 0 <= place < model.width:
                continue
            for i in range(source.n + 1):
                old = &source.records[<size_t> i * 2 * source.width]
                records = &model.records[<size_t> i * 2 * model.width]
                records[place] = old[j]
                records[model.width + place] = old[source.width + j]
        return 0

    # ---------------------------------------------------------------------- prediction

    cdef bint bayes(self, int32_t node, const View* row, double* shares) noexcept nogil:
        """Class shares by naive Bayes, up to one factor for all; returns whether there are any."""
        cdef const Statistics* leaf = self.statistics.nodes[node]
        cdef const Histogram* histogram
        cdef int32_t i, place, n = leaf.n_sums
        cdef double most
        cdef Py_ssize_t position
        # what has no histograms only knows how frequent its labels are
        if n < 2 or n > MAX_MODELLED or leaf.n == 0:
            return False
        for i in range(n):
            shares[i] = leaf.before[i] + leaf.totals[i]
        for position in range(row.n):
            histogram = find_histogram(leaf, row.columns[position], position)
            if histogram == NULL:
                continue
            place = find_bin(histogram, row.values[position])
            if place < 0:
                continue
            most = 0.0
            for i in range(n):
                shares[i] *= bayes_factor(leaf, histogram, place, i)
                most = max(most, shares[i])
            if most < 1e-100:
                for i in range(n):
                    # where all weights are next to nothing, nothing may be left of any
                    shares[i] = shares[i] * 1e100 if most > 0.0 else 1.0
        return True

    cdef bint linear(self, int32_t node, Inputs* x, double* outputs) noexcept nogil:
        """The outputs of the linear model, of labels as shares; returns whether there are any."""
        cdef const LinearModel* model = self.models[node]
        cdef int32_t n = self.statistics.nodes[node].n_sums if self.of_labels else 1
        cdef Py_ssize_t width = 2 * model.width
        if n > MAX_MODELLED or n > model.width or (self.of_labels and n < 2):
            return False
        respond(model.records, model.records + width, width, x, n, outputs)
        if self.of_labels:
            softmax(outputs, n)
        return True

    cdef double guarded(self, int32_t node, double value) noexcept nogil:
        """A linear model's number in the unit of the targets, not far from what its leaf met."""
        cdef const Statistics* leaf = self.statistics.nodes[node]
        cdef double weight = leaf.before[0] + leaf.totals[0]
        cdef double mean = (leaf.before[1] + leaf.totals[1]) / weight
        cdef double variance = (leaf.squares_before + leaf.target_squares) / weight - mean * mean
        value = self.targets.mean + value * sqrt(moments_variance(&self.targets))
        return limited(value, mean, NUMBER_LIMIT * sqrt(max(variance, 0.0)))

    cdef bint predict(self, int32_t node, const Row* row, Scratch* scratch,
                      Prediction* out) noexcept nogil:
        cdef const LinearModel* model = self.models[node]
        cdef const Statistics* leaf = self.statistics.nodes[node]
        cdef double[MAX_MODELLED] shares
        cdef double total = 0.0
        cdef Inputs x
        cdef int32_t i, best
        cdef int who = PATH if model == NULL else best_predictor(model, self.kind, self.of_labels)
        if who == LINEAR:
            x = Inputs(row.standard.values, places_of(model, &row.standard, scratch.slots),
                       row.standard.n, scratch.steps, 0)
            if not self.linear(node, &x, shares):
                return False
        elif who != BAYES or not self.bayes(node, &row.listed, shares):
            return False
        if not self.of_labels:
            if leaf.before[0] + leaf.totals[0] <= 0.0:
                return False
            out.shares[0] = self.guarded(node, shares[0])
            return True
        best = argmax(shares, leaf.n_sums)
        out.label = leaf.labels[best]
        if out.shares != NULL:
            for i in range(leaf.n_sums):
                total += shares[i]
            for i in range(leaf.n_sums):
                out.shares[leaf.labels[i]] = shares[i] / total
        return True

    cdef int explain(self, int32_t node, const Row* row, Scratch* scratch, Explanation out,
                     double difference) except -1:
        cdef const LinearModel* model = self.models[node]
        cdef const Statistics* leaf = self.statistics.nodes[node]
        cdef int who = PATH if model == NULL else best_predictor(model, self.kind, self.of_labels)
        cdef const View* view = &row.standard if who == LINEAR else &row.listed
        cdef int32_t place = 0
        if who == PATH:
            return out.add_bias(difference)
        base, parts = self.scores(node, row, scratch, who)
        if self.of_labels:
            place = map_find(&leaf.by_label, out.output)
            if place < 0:
                return out.add_bias(difference)
            parts = softmax_parts(base, parts, place)
        else:
            parts = parts[:, 0] * sqrt(moments_variance(&self.targets))
        return out.spread(columns_of(view), parts, difference)

    cdef tuple scores(self, int32_t node, const Row* row, Scratch* scratch, int who):
        """The scores of a row without values, and what every value of a row adds to them."""
        cdef const LinearModel* model = self.models[node]
        cdef const Statistics* leaf = self.statistics.nodes[node]
        cdef const View* view = &row.standard if who == LINEAR else &row.listed
        cdef const int32_t* slots
        cdef const Histogram* histogram
        cdef int32_t k, n = leaf.n_sums if self.of_labels else 1
        cdef Py_ssize_t i, slot
        base, parts = np.zeros(n), np.zeros((view.n, n))
        cdef double[:, ::1] out = parts
        if who == LINEAR:
            slots = places_of(model, view, scratch.slots)
            for k in range(n):
                base[k] = model.records[k]
            for i in range(view.n):
                slot = i if slots == NULL else slots[i]
                for k in range(n if slot >= 0 else 0):
                    out[i, k] = view.values[i] * model.records[(slot + 1) * 2 * model.width + k]
            return base, parts
        for k in range(n):
            base[k] = log(max(leaf.before[k] + leaf.totals[k], 1e-300))
        for i in range(view.n):
            histogram = find_histogram(leaf, view.columns[i], i)
            slot = -1 if histogram == NULL else find_bin(histogram, view.values[i])
            for k in range(n if slot >= 0 else 0):
                out[i, k] = log(bayes_factor(leaf, histogram, slot, k))
        return base, parts

    # ------------------------------------------------------------------------ learning

    cdef bint learn(self, int32_t node, const Row* row, const Example* example, Scratch* scratch,
                    Prediction* out) except -1 nogil:
        cdef LinearModel* model = self.models[node]
        cdef Inputs x
        if out != NULL and not self.predict(node, row, scratch, out):
            out.label = -1
        self.residual.n = 0
        if model == NULL:
            return False
        memset(&x, 0, sizeof(Inputs))
        if self.has_linear:
            x.values, x.n, x.steps = row.standard.values, row.standard.n, scratch.steps
            x.slots = places_of(model, &row.standard, scratch.slots)
            if x.slots != NULL:
                x.n_absent = self.locate(model, &row.standard, scratch.slots)
        if self.of_labels:
            self.learn_label(node, row, example, &x)
        else:
            self.learn_number(node, example, &x)
        if self.is_owner:
            self.statistics.count(node, &row.listed, example, True)
        return True

    cdef int learn_label(self, int32_t node, const Row* row, const Example* example,
                         Inputs* x) except -1 nogil:
        """Score what the leaf could have predicted with, then train its linear model."""
        cdef LinearModel* model = self.models[node]
        cdef int32_t i, n, place = self.statistics.place(node, example.label), path
        cdef const Statistics* leaf = self.statistics.nodes[node]
        cdef double[MAX_MODELLED] shares
        cdef StepRule rule
        cdef bint compares = self.kind == ADAPTIVE and (
            leaf.rows < MANY_JUDGED or leaf.rows % JUDGED_PARTS == 0
        )
        n = leaf.n_sums
        if compares and 2 <= n <= MAX_MODELLED:
            path = self.tree_label
            if path < 0:
                path = majority(leaf)
            model.scores[<int> PATH] += example.weight * (path == example.label)
            if self.bayes(node, &row.listed, shares):
                model.scores[<int> BAYES] += example.weight * (argmax(shares, n) == place)
        if not self.has_linear or n > MAX_MODELLED:
            return 0
        if model.width < self.width_for(node) and has_room(2 * bytes_of_model(model)):
            self.resize(model, model.capacity, self.width_for(node))
        if self.linear(node, x, shares):
            model.scores[<int> LINEAR] += example.weight * compares * (
                argmax(shares, n) == place
            )
            if self.is_owner:
                # a tree of its own searches may ask what the model errs by
                self.residual.n, self.residual.place = n, place
                self.residual.n_parts = row.encoded.n
                for i in range(n):
                    self.last[i] = <float> shares[i]
            shares[place] -= 1.0
            for i in range(n):
                shares[i] *= example.weight
            rule = StepRule(RATE / sqrt(1.0 + x.n), 1.0, PRIOR, HUGE_VAL)
            adagrad_steps(model.records, model.records + 2 * model.width, 2 * model.width, x, n,
                          shares, &rule)
        return 0

    cdef void residuals(self, int32_t node, Scratch* scratch, Residuals* out) noexcept nogil:
        out[0] = self.residual
        out.p = self.last

    cdef int learn_number(self, int32_t node, const Example* example, Inputs* x) except -1 nogil:
        """The same for numbers, by squared errors."""
        cdef LinearModel* model = self.models[node]
        cdef const Statistics* leaf = self.statistics.nodes[node]
        cdef double weight = leaf.before[0] + leaf.totals[0], target = example.targets[0]
        cdef double value, error, deviation
        cdef StepRule rule
        self.linear(node, x, &value)
        if weight > 0.0:
            error = self.guarded(node, value) - target
            model.scores[<int> LINEAR] -= example.weight * error * error
            error = self.tree_number
            if error != error:
                error = (leaf.before[1] + leaf.totals[1]) / weight
            error -= target
            model.scores[<int> PATH] -= example.weight * error * error
        moments_add(&self.targets, target, example.weight)
        deviation = sqrt(moments_variance(&self.targets))
        if deviation > 0.0:
            error = limited(value - (target - self.targets.mean) / deviation, 0.0, TARGET_LIMIT)
            error *= example.weight
            rule = StepRule(RATE / sqrt(1.0 + x.n), 1.0, PRIOR, HUGE_VAL)
            adagrad_steps(model.records, model.records + 2, 2, x, 1, &error, &rule)
        return 0

    # --------------------------------------------------------------------------- state

    cdef dict state(self, int32_t n_nodes):
        cdef int32_t node
        models = [
            {"node": node, **self._exported(node)}
            for node in range(n_nodes) if self.models[node] != NULL
        ]
        moments = [self.targets.weight, self.targets.mean, self.targets.squares]
        return {
            "models": models, "targets": np.array(moments, dtype=np.float64),
            "statistics": self.statistics.state() if self.is_owner else [],
        }

    def _exported(self, int32_t node):
        """A model as plain arrays, columns in order; the record of the bias comes first."""
        cdef const LinearModel* model = self.models[node]
        cdef int32_t i, n = 0
        if self.has_linear:
            n = self.statistics.nodes[node].n_sums if self.of_labels else model.width
        columns = np.array([model.columns[i] for i in range(model.n)], dtype=np.int32)
        records = np.zeros((model.n + 1, 2, n))
        if self.has_linear:
            shape = (model.n + 1, 2, model.width)
            size = (model.n + 1) * 2 * model.width
            here = np.asarray(<double[:size]> model.records).reshape(shape)[:, :, :n]
            # a label may be new to the statistics only
            records[:, :, :here.shape[2]] = here
        order = np.argsort(columns)
        return {
            "columns": columns[order],
            "records": np.ascontiguousarray(records[np.append(0, order + 1)]),
            "scores": np.array([model.scores[i] for i in range(3)]), "width": model.width,
        }

    cdef int take_state(self, dict state) except -1:
        """Take over what `state` gave; there is room for all nodes, and shared statistics."""
        cdef LinearModel* model
        cdef const double[:, :, ::1] records
        cdef int32_t node, i, j, k
        for node in range(self.capacity):
            self.clear(node)
        if self.is_owner:
            self.statistics.take_state(state["statistics"])
        for part in state["models"]:
            node = part["node"]
            records, columns = part["records"], part["columns"].tolist()
            self.add_model(node)
            model = self.models[node]
            scores = part["scores"].tolist()
            for i in range(3):
                model.scores[i] = scores[i]
            if not self.has_linear:
                continue
            # the capacity that `locate` gives
            i = 0 if not columns else 4
            while i < len(columns):
                i *= 2
            # the statistics may have room for more outputs than the model has yet
            self.resize(model, i, min(<int32_t> part["width"], model.width))
            for column in columns:
                add_column(model, column)
            for i in range(model.n + 1):
                for j in range(2):
                    for k in range(min(<int32_t> records.shape[2], model.width)):
                        model.records[(<size_t> i * 2 + j) * model.width + k] = records[i, j, k]
        (self.targets.weight, self.targets.mean, self.targets.squares) = state["targets"].tolist()
        return 0

    def check_state(self, dict state, Py_ssize_t n_nodes, Py_ssize_t n_columns,
                    Py_ssize_t n_outputs):
        return check_histogram_leaves(
            state, n_nodes, n_columns, n_outputs, of_labels=self.of_labels, is_owner=self.is_owner,
            has_linear=self.has_linear, most_outputs=MAX_MODELLED,
        )
