"""Mixtures of contexts: what came with columns in bins, one, two and three at a time.

Of every context it is counted how often labels came with it, or summed what numbers did, at four
speeds of forgetting. What the counts say is mixed by weights that follow the log loss (logistic
mixing, Mahoney 2005; Mattern 2012); what the means of numbers say, by weights that follow the
squared error. Nothing is grown, so what changes fast is followed.
"""

cimport cython
from libc.math cimport log, sqrt
from libc.stdint cimport int32_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from streamtree._core.kernels.losses cimport softmax
from streamtree._core.kernels.moments cimport moments_add, moments_variance
from streamtree._core.kernels.pooling cimport MOST_DEVIATIONS, in_deviations
from streamtree._core.leaves.explanation cimport Explanation, softmax_parts
from streamtree._core.store.budget cimport counted_zeros, give_back
from streamtree._core.store.memory cimport prefetch
from streamtree._core.stream.context cimport Context
from streamtree._core.stream.fields cimport column_in
from streamtree._core.stream.row cimport (
    LISTED, TABLE, Example, Prediction, Row, Scratch, remember, remembers,
)
from streamtree._core.trees.contexts.counts cimport MOST_LABELS, SPEEDS, ContextCounts, Record
from streamtree._core.trees.contexts.fields cimport LAST, MOST_CONTEXTS, ContextFields
from streamtree._core.trees.tree cimport OneLeaf, Tree

import numpy as np

from streamtree._core.store.state import check_counts, check_finite, require
from streamtree._core.trees.contexts.counts import check_counts_of_contexts
from streamtree._core.trees.contexts.fields import check_fields
from streamtree._core.trees.tree import check_targets

cdef extern from "../../kernels/evidence.h" nogil:
    void say_all "streamtree_say_all"(
        const float* counts, uint32_t labels, const float* fading, const float* scales,
        const float* weights, float* evidence, float* sums)
    void move_weights "streamtree_move_weights"(
        const float* evidence, uint32_t labels, const float* shares, int label, float* weights,
        float* squares, float rate, float kept, float most)
    void say_mean "streamtree_say_mean"(
        const float* sums, const float* fading, const float* weights, float* evidence,
        double* said)
    void move_means "streamtree_move_means"(
        const float* evidence, float error, float* weights, float* squares, float rate,
        float kept, float most)
    void fading_of "streamtree_fading"(uint32_t age, const float* rates, float* fading)
    void fade "streamtree_fade"(float* counts, uint32_t labels, const float* fading)

cdef enum:
    # a row of more weight counts as so many
    MOST_REPEATS = 10
    # no count becomes larger: rows of the largest weight, at the slowest speed
    MOST_COUNT = 1100000

# a count is worth 1/e after 30, 300, 3,000 or 100,000 rows, by speed
cdef float[SPEEDS] RATES = [1.0 / 30, 1.0 / 300, 1.0 / 3000, 1.0 / 100000]
# the step size of the weights, what is left of the squares of their slopes after a row, and the
# largest weight
cdef float RATE = 0.05
cdef float KEPT = 0.9999
cdef float MOST_WEIGHT = 8.0
# all weights together at first, times the root of their number
cdef double FIRST_WEIGHT = 0.5
# of every label, added to the counts of all rows
cdef double HALF = 0.5


cdef enum:
    # of a context of numbers: of weights, and of weighted deviations
    N_SUMS = 2


cdef inline float* evidence_of(const Mixed* mixed, int32_t i) noexcept nogil:
    """What a context says, by label and speed; only of the labels that it came with."""
    return <float*> &mixed[1] + i * mixed.n_labels * SPEEDS


cdef inline float repeats_of(const Example* example) noexcept nogil:
    """As how many rows an example counts."""
    return <float> min(example.weight, <double> MOST_REPEATS)


cdef class Contexts(OneLeaf):
    """What mixtures of labels and of numbers share: contexts, their records, and weights."""

    def __cinit__(self):
        self.views = LISTED | TABLE
        self.gives_back = True
        self.fields = ContextFields()
        self.counts = ContextCounts()

    def __dealloc__(self):
        give_back(self.weights)

    cdef int bind(self, Context context) except -1:
        Tree.bind(self, context)
        return self.fields.bind(context)

    cdef bint needs_all_rows(self) noexcept nogil:
        return self.context.n_labels <= MOST_LABELS and self.fields.has_names()

    # ------------------------------------------------------------------------ one example

    cdef void _begin(self, const Row* row, Found* found) noexcept nogil:
        """Find the contexts of a row."""
        cdef int32_t i
        cdef uint32_t mask = <uint32_t> self.counts.n_slots - 1
        self.fields.keys_of(row, found.keys)
        for i in range(self.fields.n_contexts if self.counts.n_slots else 0):
            prefetch(self.counts.at(found.keys[i] >> 1 & mask))

    cdef Record* _find(self, Found* found, int32_t i) noexcept nogil:
        """The record of a context of a row, with what is left of its counts; or NULL."""
        cdef Record* record = self.counts.find(found.keys[i])
        found.slots[i] = -1
        if record != NULL:
            found.slots[i] = self.counts.slot_of(record)
            fading_of(<uint32_t> self.rows - record.last, RATES, found.fading[i])
        return record

    cdef void _count(self, const Found* found, const Counted* row) noexcept nogil:
        """Count a row with all its contexts, those that are there first."""
        cdef float[SPEEDS] none
        cdef uint32_t now = <uint32_t> self.rows
        cdef int32_t i
        for i in range(self.fields.n_contexts):
            if found.slots[i] >= 0:
                self._count_in(self.counts.at(found.slots[i]), found.fading[i], row)
        for i in range(self.fields.n_contexts):
            if found.slots[i] < 0:
                self._count_in(self.counts.find_or_add(found.keys[i], now, now), none, row)

    cdef void _count_in(self, Record* record, const float* fading,
                        const Counted* row) noexcept nogil:
        """Count it in one record."""

    cdef float _first_weight(self) noexcept nogil:
        """The weight of a context and speed at first."""
        return 0.0

    cdef int _look(self) except -1 nogil:
        """See whether there are other contexts; those that stay keep their weights."""
        cdef int32_t i, j, n_before = self.fields.n_contexts, s
        cdef float first
        cdef uint64_t[MOST_CONTEXTS] names
        cdef Weights[MOST_CONTEXTS] before
        for i in range(n_before):
            names[i], before[i] = self.fields.contexts[i].name, self.weights[i]
        try:
            if n_before == 0:
                self.weights = <Weights*> counted_zeros(MOST_CONTEXTS * sizeof(Weights))
            if not self.fields.look():
                return 0
        finally:
            if self.fields.n_contexts == 0:
                give_back(self.weights)
                self.weights = NULL
        first = self._first_weight()
        for i in range(self.fields.n_contexts):
            memset(&self.weights[i], 0, sizeof(Weights))
            for s in range(SPEEDS):
                # exact values have to show first that they are names
                self.weights[i].weights[s] = 0.0 if self.fields.is_exact(i) else first
            for j in range(n_before):
                if names[j] == self.fields.contexts[i].name:
                    self.weights[i] = before[j]
        return 0

    # ------------------------------------------------------------------------ explanation

    cdef list _fields_of(self, int32_t i):
        cdef int32_t k, n = self.fields.n_fields
        places = [self.fields.contexts[i].fields[k] for k in range(3)]
        if self.fields.is_exact(i):
            return [places[0] - n - LAST]
        return [place for place in places if 0 <= place < n]

    cdef int _add_moves(self, dict moves, int32_t i, const Row* row, object part) except -1:
        """Share what a context adds evenly among its columns; returns how many these are."""
        fields = self._fields_of(i)
        for f in fields:
            column = column_in(
                row, self.context, self.fields.fields[f].column, self.fields.fields[f].group
            )
            moves[column] = moves.get(column, 0.0) + part / len(fields)
        return len(fields)

    @property
    def moved(self):
        """Pairs of a column and how far a context of it moved what was said, as weights tell."""
        cdef int32_t i, f, s
        cdef double size
        pairs = []
        for i in range(self.fields.n_contexts):
            fields = self._fields_of(i)
            size = sum([
                abs(self.weights[i].weights[s]) * self.weights[i].squares[s] ** 0.5
                for s in range(SPEEDS)
            ])
            for f in fields:
                pairs.append((self.fields.fields[f].column, size / len(fields)))
        return pairs

    # ------------------------------------------------------------------------------ state

    cdef dict _contexts_state(self):
        cdef int32_t i, s
        weights = np.zeros((MOST_CONTEXTS, 2, SPEEDS), dtype=np.float32)
        cdef float[:, :, ::1] view = weights
        for i in range(self.fields.n_contexts):
            for s in range(SPEEDS):
                view[i, 0, s] = self.weights[i].weights[s]
                view[i, 1, s] = self.weights[i].squares[s]
        return {
            "fields": self.fields.state(), "counts": self.counts.state(), "weights": weights,
            "rows": self.rows,
        }

    cdef int _take_contexts(self, dict state) except -1:
        cdef const float[:, :, ::1] weights = state["weights"]
        cdef int32_t i, s
        self.fields.take_state(state["fields"])
        self.counts.take_state(state["counts"])
        give_back(self.weights)
        self.weights = NULL
        if self.fields.n_contexts:
            self.weights = <Weights*> counted_zeros(MOST_CONTEXTS * sizeof(Weights))
        for i in range(self.fields.n_contexts):
            for s in range(SPEEDS):
                self.weights[i].weights[s] = weights[i, 0, s]
                self.weights[i].squares[s] = weights[i, 1, s]
        self.rows = state["rows"]
        return 0

    def _check_contexts(self, dict state, Py_ssize_t n_columns, Py_ssize_t n_labels,
                        Py_ssize_t n_places):
        """Raise StateError unless `_take_contexts` can trust a state."""
        weights = state["weights"]
        check_counts(state["rows"])
        check_fields(state["fields"], n_columns, n_labels)
        check_counts_of_contexts(state["counts"], n_places)
        require(weights.shape == (MOST_CONTEXTS, 2, SPEEDS), "the weights of contexts")
        require((np.abs(weights[:, 0]) <= MOST_WEIGHT).all(), "the weights of contexts")
        require((np.isfinite(weights) & (weights[:, 1:] >= 0)).all(), "the weights of contexts")


@cython.final
cdef class ContextTree(Contexts):
    """Says nothing of labels until there are contexts, and where there are too many labels."""

    def __cinit__(self):
        self.memo_size = sizeof(Mixed)
        self.memo_place_size = MOST_CONTEXTS * SPEEDS * sizeof(float)

    # ------------------------------------------------------------------------ one example

    cdef bint _says(self) noexcept nogil:
        """Whether something is said of the labels."""
        return self.fields.n_contexts and 1 < self.context.n_labels <= MOST_LABELS

    cdef void predict(self, const Row* row, Scratch* scratch, Prediction* out) noexcept nogil:
        cdef double* shares = out.shares if out.shares != NULL else scratch.shares
        cdef Mixed* mixed = <Mixed*> scratch.memo
        cdef int32_t label, n = self.context.n_labels
        if not self._says():
            for label in range(n):
                shares[label] = 1.0 / n
        else:
            if not self._is_mixed(row, scratch):
                self._mix(row, n, mixed)
                remember(scratch, <const void*> self, row)
            memcpy(shares, mixed.shares, n * sizeof(double))
        out.label = 0
        for label in range(1, n):
            if shares[label] > shares[out.label]:
                out.label = label

    cdef void _scales(self, int32_t n, float* scales, double* scores) noexcept nogil:
        """By label and speed, one over its share in all rows; its log by the fastest to `scores`.
        """
        cdef double[SPEEDS] totals
        cdef int32_t label, s
        for s in range(SPEEDS):
            totals[s] = n * HALF
            for label in range(n):
                totals[s] += self.labels[label][s]
        for label in range(n):
            for s in range(SPEEDS):
                scales[label * SPEEDS + s] = <float> (
                    totals[s] / (self.labels[label][s] + HALF)
                )
            scores[label] = -log(scales[label * SPEEDS])

    cdef bint _is_mixed(self, const Row* row, const Scratch* scratch) noexcept nogil:
        """Whether the memo says what would be found for a row."""
        cdef const Mixed* mixed = <const Mixed*> scratch.memo
        return (
            remembers(scratch, <const void*> self, row) and mixed.rows == self.rows
            and mixed.n_labels == self.context.n_labels
        )

    cdef void _mix(self, const Row* row, int32_t n, Mixed* mixed) noexcept nogil:
        """Find what is to be said of n labels, and what goes into it.

        A label that never came with a context has no evidence there: what all labels have in
        common is left out, for it moves no share.
        """
        cdef float[MOST_LABELS * SPEEDS] scales
        cdef float[MOST_LABELS * SPEEDS] sums
        cdef Record* record
        cdef int32_t i, label, s
        mixed.n_labels, mixed.rows = n, self.rows
        self._begin(row, &mixed.found)
        self._scales(n, scales, mixed.shares)
        memset(sums, 0, n * SPEEDS * sizeof(float))
        for i in range(self.fields.n_contexts):
            record = self._find(&mixed.found, i)
            mixed.labels[i] = 0
            if record != NULL:
                mixed.labels[i] = record.labels
                say_all(
                    self.counts.counts_of(record), record.labels, mixed.found.fading[i], scales,
                    self.weights[i].weights, evidence_of(mixed, i), sums,
                )
        for label in range(n):
            for s in range(SPEEDS):
                mixed.shares[label] += sums[label * SPEEDS + s]
        softmax(mixed.shares, n)

    cdef int learn(self, const Row* row, const Example* example, Scratch* scratch,
                   Prediction* out) except -1 nogil:
        cdef int32_t n = self.context.n_labels
        cdef Mixed* mixed = <Mixed*> scratch.memo
        cdef Counted counted
        cdef bint is_laid
        if out != NULL:
            self.predict(row, scratch, out)
        if n > MOST_LABELS:
            return self.counts.clear()
        if self.fields.n_contexts:
            is_laid = self.counts.make_room(n, self.fields.n_contexts, <uint32_t> self.rows)
            if is_laid or not self._is_mixed(row, scratch):
                self._mix(row, n, mixed)
            counted = Counted(example.label, repeats_of(example), 0.0)
            self._move(mixed, &counted)
            self._count(&mixed.found, &counted)
        scratch.memo_serial = 0
        self._count_label(example)
        self.rows += 1
        self.fields.push(row, example.label)
        return self._look() if self.fields.is_due() else 0

    cdef void _move(self, const Mixed* mixed, const Counted* row) noexcept nogil:
        """Let the weights follow the log loss."""
        cdef float[MOST_LABELS] shares
        cdef int32_t i, label
        cdef float rate = RATE * row.weight
        for label in range(mixed.n_labels):
            shares[label] = <float> mixed.shares[label]
        for i in range(self.fields.n_contexts):
            if mixed.labels[i]:
                move_weights(
                    evidence_of(mixed, i), mixed.labels[i], shares, row.label,
                    self.weights[i].weights, self.weights[i].squares, rate, KEPT, MOST_WEIGHT,
                )

    cdef void _count_in(self, Record* record, const float* fading,
                        const Counted* row) noexcept nogil:
        cdef float* counts = self.counts.counts_of(record)
        cdef int32_t s
        if record.last != <uint32_t> self.rows:
            fade(counts, record.labels, fading)
        for s in range(SPEEDS):
            counts[row.label * SPEEDS + s] += row.weight
        record.labels |= <uint32_t> 1 << row.label
        record.last = <uint32_t> self.rows
    cdef void _count_label(self, const Example* example) noexcept nogil:
        cdef float[SPEEDS] fading
        cdef int32_t label, s
        fading_of(1, RATES, fading)
        for label in range(min(self.context.n_labels, <int32_t> MOST_LABELS)):
            for s in range(SPEEDS):
                self.labels[label][s] *= fading[s]
        for s in range(SPEEDS):
            self.labels[example.label][s] += min(example.weight, <double> MOST_REPEATS)

    cdef float _first_weight(self) noexcept nogil:
        return <float> (FIRST_WEIGHT / sqrt(max(self.fields.n_contexts, 1) * SPEEDS))

    # ------------------------------------------------------------------------ explanation

    cdef int explain(self, const Row* row, Scratch* scratch, Explanation out) except -1:
        """From the shares of the labels lately: what a context adds, its columns share evenly."""
        cdef int32_t i, label, s, n = self.context.n_labels
        cdef double said = self.output_below(0, row, scratch, out), part
        cdef float[MOST_LABELS * SPEEDS] scales
        cdef const Mixed* mixed = <const Mixed*> scratch.memo
        cdef double[::1] before = np.zeros(n + 1), parts
        if not self._says() or out.output >= n:
            return out.add_bias(said)
        self._scales(n, scales, &before[0])
        moves = {}
        for i in range(self.fields.n_contexts):
            evidence = np.zeros(n)
            parts = evidence
            for label in range(n):
                if mixed.labels[i] >> label & 1:
                    for s in range(SPEEDS):
                        parts[label] += self.weights[i].weights[s] * (
                            evidence_of(mixed, i)[label * SPEEDS + s]
                        )
            if self._add_moves(moves, i, row, evidence) == 0:
                for label in range(n):
                    before[label] += parts[label]
        start = np.array(before[:n])
        softmax(&before[0], n)
        part = before[out.output]
        out.add_bias(part)
        columns, ways = np.array(list(moves), dtype=np.int32), np.array(list(moves.values()))
        return out.spread(columns, softmax_parts(start, ways, out.output), said - part)

    # ------------------------------------------------------------------------------ state

    cdef dict state(self):
        cdef int32_t i, s, n = min(self.context.n_labels, <int32_t> MOST_LABELS)
        state = self._contexts_state()
        state["labels"] = np.array([
            [self.labels[i][s] for s in range(SPEEDS)] for i in range(MOST_LABELS)
        ])[:n].copy()
        return state

    cdef int take_state(self, dict state) except -1:
        cdef const double[:, ::1] labels = state["labels"]
        cdef int32_t i, s
        self._take_contexts(state)
        memset(self.labels, 0, sizeof(self.labels))
        for i in range(<int32_t> labels.shape[0]):
            for s in range(SPEEDS):
                self.labels[i][s] = labels[i, s]
        return 0

    def check_state(self, dict state, Py_ssize_t n_columns, Py_ssize_t n_outputs):
        """Raise StateError unless `take_state` can trust a state."""
        labels = state["labels"]
        self._check_contexts(state, n_columns, n_outputs, n_outputs)
        require((state["counts"]["counts"] >= 0).all(), "the counts of contexts")
        require(labels.shape == (min(n_outputs, MOST_LABELS), SPEEDS), "the counts of labels")
        check_finite(labels.reshape(-1), at_least=0.0)
        require((labels <= MOST_COUNT).all(), "the counts of labels")


@cython.final
cdef class ContextMeans(Contexts):
    """Says the mean of the targets until there are contexts.

    Of every context it is summed how far targets were from their mean, in deviations. A mean of
    that, drawn to nothing where rows are few, is what the context says.
    """

    def __cinit__(self):
        self.memo_size = sizeof(MixedMeans)
        self.fields.has_labels = False

    # ------------------------------------------------------------------------ one example

    cdef double _deviation(self) noexcept nogil:
        return sqrt(moments_variance(&self.targets))

    cdef double _in_deviations(self, const Example* example) noexcept nogil:
        """How far a target is from the mean."""
        cdef double deviation = self._deviation()
        if not deviation > 0.0:
            return 0.0
        return in_deviations(example.targets[0] - self.targets.mean, deviation)

    cdef void predict(self, const Row* row, Scratch* scratch, Prediction* out) noexcept nogil:
        cdef MixedMeans* mixed = <MixedMeans*> scratch.memo
        out.shares[0] = self.targets.mean
        if self.fields.n_contexts:
            if not self._is_mixed(row, scratch):
                self._mix(row, mixed)
                remember(scratch, <const void*> self, row)
            out.shares[0] += self._deviation() * mixed.said

    cdef bint _is_mixed(self, const Row* row, const Scratch* scratch) noexcept nogil:
        """Whether the memo says what would be found for a row."""
        return (
            remembers(scratch, <const void*> self, row)
            and (<const MixedMeans*> scratch.memo).rows == self.rows
        )

    cdef void _mix(self, const Row* row, MixedMeans* mixed) noexcept nogil:
        """Find what is to be said, and what goes into it."""
        cdef Record* record
        cdef int32_t i
        mixed.rows, mixed.said = self.rows, 0.0
        self._begin(row, &mixed.found)
        for i in range(self.fields.n_contexts):
            record = self._find(&mixed.found, i)
            if record == NULL:
                memset(mixed.evidence[i], 0, SPEEDS * sizeof(float))
            else:
                say_mean(
                    self.counts.counts_of(record), mixed.found.fading[i],
                    self.weights[i].weights, mixed.evidence[i], &mixed.said,
                )
        # farther out no target is taken for
        mixed.said = in_deviations(mixed.said, 1.0)

    cdef int learn(self, const Row* row, const Example* example, Scratch* scratch,
                   Prediction* out) except -1 nogil:
        cdef MixedMeans* mixed = <MixedMeans*> scratch.memo
        cdef Counted counted
        cdef bint is_laid
        if out != NULL:
            self.predict(row, scratch, out)
        if self.fields.n_contexts:
            is_laid = self.counts.make_room(
                N_SUMS, self.fields.n_contexts, <uint32_t> self.rows
            )
            if is_laid or not self._is_mixed(row, scratch):
                self._mix(row, mixed)
            counted = Counted(-1, repeats_of(example), self._in_deviations(example))
            self._move(mixed, &counted)
            self._count(&mixed.found, &counted)
        scratch.memo_serial = 0
        moments_add(&self.targets, example.targets[0], example.weight)
        self.rows += 1
        self.fields.push(row, -1)
        return self._look() if self.fields.is_due() else 0

    cdef void _move(self, const MixedMeans* mixed, const Counted* row) noexcept nogil:
        """Let the weights follow the squared error."""
        cdef int32_t i
        cdef float error = <float> (row.number - mixed.said), rate = RATE * row.weight
        for i in range(self.fields.n_contexts):
            if mixed.found.slots[i] >= 0:
                move_means(
                    mixed.evidence[i], error, self.weights[i].weights,
                    self.weights[i].squares, rate, KEPT, MOST_WEIGHT,
                )

    cdef void _count_in(self, Record* record, const float* fading,
                        const Counted* row) noexcept nogil:
        cdef float* sums = self.counts.counts_of(record)
        cdef float number = row.weight * <float> row.number, most
        cdef int32_t s
        if record.last != <uint32_t> self.rows:
            fade(sums, record.labels, fading)
        for s in range(SPEEDS):
            sums[s] += row.weight
            # no mean is farther out than the rows, however both are rounded as they fade
            most = MOST_DEVIATIONS * sums[s]
            sums[SPEEDS + s] = min(max(sums[SPEEDS + s] + number, -most), most)
        record.labels = (1 << N_SUMS) - 1
        record.last = <uint32_t> self.rows

    cdef float _first_weight(self) noexcept nogil:
        """The mean of what all contexts say."""
        return <float> (1.0 / (max(self.fields.n_contexts, 1) * SPEEDS))

    # ------------------------------------------------------------------------ explanation

    cdef int explain(self, const Row* row, Scratch* scratch, Explanation out) except -1:
        """From the mean of the targets: what a context adds, its columns share evenly."""
        cdef int32_t i, s
        cdef double said = self.output_below(0, row, scratch, out), part
        cdef const MixedMeans* mixed = <const MixedMeans*> scratch.memo
        out.add_bias(self.targets.mean)
        moves = {}
        for i in range(self.fields.n_contexts):
            part = 0.0
            for s in range(SPEEDS):
                part += self.weights[i].weights[s] * mixed.evidence[i][s]
            self._add_moves(moves, i, row, part)
        columns = np.array(list(moves), dtype=np.int32)
        return out.spread(columns, np.array(list(moves.values())), said - self.targets.mean)

    # ------------------------------------------------------------------------------ state

    cdef dict state(self):
        state = self._contexts_state()
        state["targets"] = self.targets
        return state

    cdef int take_state(self, dict state) except -1:
        self.targets = state["targets"]
        return self._take_contexts(state)

    def check_state(self, dict state, Py_ssize_t n_columns, Py_ssize_t n_outputs):
        """Raise StateError unless `take_state` can trust a state."""
        self._check_contexts(state, n_columns, 0, N_SUMS)
        require(state["counts"]["places"] in (0, N_SUMS), "the sums of contexts")
        sums = state["counts"]["counts"].reshape(-1, N_SUMS, SPEEDS).astype(np.float64)
        # false for negative weights, too
        most = 1.001 * MOST_DEVIATIONS * sums[:, 0]
        require((np.abs(sums[:, 1]) <= most).all(), "the sums of contexts")
        check_targets(state["targets"])
