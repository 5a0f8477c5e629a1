"""Mixtures of contexts: where what others say is wrong, by columns in bins, one to three at a time.

Of every context it is counted how often labels came with it, and how often they were expected to:
the sum of their shares, as the others and the mixture together said them before; of numbers, what
was missing in what the others said. All fade at two speeds, numbers at one of them besides with
every row that has the context. The evidence, the logarithm of the one over the other, or the mean
of what was missing, is mixed by weights that follow the log loss (logistic mixing, Mahoney 2005;
Mattern 2012), or the squared error.
"""

cimport cython
from libc.float cimport DBL_MIN
from libc.math cimport log, sqrt
from libc.stdint cimport int32_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from streamtree._core.kernels.losses cimport softmax
from streamtree._core.kernels.moments cimport moments_add, moments_variance
from streamtree._core.kernels.pooling cimport MOST_DEVIATIONS, MOST_REPEATS, in_deviations
from streamtree._core.leaves.explanation cimport Explanation
from streamtree._core.store.budget cimport counted_zeros, give_back
from streamtree._core.store.memory cimport prefetch
from streamtree._core.stream.context cimport Context
from streamtree._core.stream.fields cimport column_in
from streamtree._core.stream.row cimport (
    LISTED, TABLE, Example, Prediction, Row, Scratch, remember, remembers,
)
from streamtree._core.trees.contexts.counts cimport (
    MOST_LABELS, SPEEDS, SUMS, ContextCounts, Record,
)
from streamtree._core.trees.contexts.fields cimport LAST, MOST_CONTEXTS, ContextFields
from streamtree._core.trees.tree cimport Corrector, Tree

import numpy as np

from streamtree._core.trees.contexts.checks import (
    check_contexts_of_labels,
    check_contexts_of_numbers,
)
from streamtree._core.trees.tree import check_targets

cdef extern from "../../kernels/evidence.h" nogil:
    void say_all "streamtree_say_all"(
        const float* counts, uint32_t labels, const float* fading, const float* priors,
        const float* weights, float* evidence, double* sums)
    void move_weights "streamtree_move_weights"(
        const float* evidence, uint32_t labels, const float* shares, int label, float* weights,
        float* squares, float rate, float kept, float most)
    void say_mean "streamtree_say_mean"(
        const float* sums, const float* fading, const float* priors, const float* weights,
        float* evidence, double* said)
    void move_means "streamtree_move_means"(
        const float* evidence, float error, float* weights, float* squares, float rate,
        float kept, float most)
    void fading_of "streamtree_fading"(
        uint32_t age, const float* rates, const float* losses, float* fading)
    void fade "streamtree_fade"(float* counts, uint32_t labels, const float* fading)
    void count_label "streamtree_count_label"(
        float* counts, uint32_t labels, const float* expected, int label, float weight)

cdef enum:
    # no count becomes larger: rows of the largest weight, at the slowest speed
    MOST_COUNT = 1100000
    # bytes that come from memory together
    LINE = 64

# a sum is worth 1/e after 3,000 or 100,000 rows, by speed
cdef float[SUMS] RATES = [1.0 / 3000, 1.0 / 100000, 1.0 / 3000, 1.0 / 100000]
# Besides they lose so much of their logarithm whenever the context comes. Numbers that a name
# stands for change from one time to the next; of labels such short memories tell little.
cdef float[SUMS] LOSSES_OF_LABELS = [0.0, 0.0, 0.0, 0.0]
cdef float[SUMS] LOSSES_OF_NUMBERS = [0.4, 0.0, 0.4, 0.0]
# the step size of the weights, what is left of the squares of their slopes after a row, and the
# largest weight
cdef float RATE = 0.05
cdef float KEPT = 0.9999
cdef float MOST_WEIGHT = 8.0
# added to what came, and to what was expected of a label, by speed; and as so many rows of which no
# number was missing
cdef float[SUMS] PRIORS = [2.0, 0.5, 2.0, 0.5]
cdef float[SPEEDS] PRIOR_ROWS = [5.0, 1.0]
# a label is looked for where its share is not less
cdef double LEAST_SHARE = 0.001


cdef inline float* evidence_of(const Mixed* mixed, int32_t i) noexcept nogil:
    """What a context says, by label and speed; only of the labels that were looked for there."""
    return <float*> &mixed[1] + i * mixed.n_labels * SPEEDS


cdef inline float repeats_of(const Example* example) noexcept nogil:
    """As how many rows an example counts."""
    return <float> min(example.weight, <double> MOST_REPEATS)


cdef class Contexts(Corrector):
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

    cdef void rest(self, bint rests) noexcept nogil:
        # what was heard was of another row
        self.was_told = False
        Tree.rest(self, rests)

    cdef bint needs_all_rows(self) noexcept nogil:
        return self.context.n_labels <= MOST_LABELS and self.fields.has_names()

    # ------------------------------------------------------------------------ one example

    cdef void _begin(self, const Row* row, Found* found) noexcept nogil:
        """Find the contexts of a row."""
        cdef int32_t i
        cdef size_t line
        cdef uint32_t mask = <uint32_t> self.counts.n_slots - 1
        cdef const char* record
        self.fields.keys_of(row, found.keys)
        for i in range(self.fields.n_contexts if self.counts.n_slots else 0):
            record = <const char*> self.counts.at(found.keys[i] >> 1 & mask)
            for line in range((self.counts.size + LINE - 1) // LINE):
                prefetch(&record[line * LINE])

    cdef Record* _find(self, Found* found, int32_t i) noexcept nogil:
        """The record of a context of a row, with what is left of its sums; or NULL."""
        cdef int32_t slot = self.counts.find(found.keys[i])
        cdef Record* record
        found.slots[i] = slot
        if slot < 0:
            return NULL
        record = self.counts.at(slot)
        fading_of(<uint32_t> self.rows - record.last, RATES, self.losses, found.fading[i])
        return record

    cdef bint _is_mixed(self, const Row* row, const Scratch* scratch) noexcept nogil:
        """Whether the memo says what would be found for a row."""

    cdef void _mix(self, const Row* row, Scratch* scratch) noexcept nogil:
        """Find what is to be said, and what goes into it."""

    cdef void _describe(self, const Example* example) noexcept nogil:
        """What is to be counted."""

    cdef int learn(self, const Row* row, const Example* example, Scratch* scratch,
                   Prediction* out) except -1 nogil:
        cdef int32_t n = max(self.context.n_labels, 1)
        cdef bint is_laid, is_counted = self.fields.n_contexts and self.was_told
        self.was_told = False
        if n > MOST_LABELS:
            return self.counts.clear()
        if is_counted:
            is_laid = self.counts.make_room(n, self.fields.n_contexts, <uint32_t> self.rows)
            if is_laid or not self._is_mixed(row, scratch):
                self._mix(row, scratch)
            self._describe(example)
        scratch.memo_serial = 0
        self.noted, self.is_late = scratch.memo if is_counted else NULL, True
        self.rows += 1
        self.fields.push(row, example.label)
        if not self.fields.is_due():
            return 0
        self.catch_up()
        return self._look()

    cdef void catch_up(self) noexcept nogil:
        if self.is_late:
            self.is_late = False
            if self.noted != NULL:
                self._learn_noted()
            self.fields.cut()

    cdef void _learn_noted(self) noexcept nogil:
        """Let the weights follow, and count the contexts of the row."""

    cdef void _count(self, const Found* found) noexcept nogil:
        """Count a row with all its contexts, those that are there first."""
        cdef float[SUMS] none
        cdef uint32_t now = self.counted.row
        cdef int32_t i
        for i in range(self.fields.n_contexts):
            if found.slots[i] >= 0:
                self._count_in(self.counts.at(found.slots[i]), found.fading[i])
        for i in range(self.fields.n_contexts):
            if found.slots[i] < 0:
                self._count_in(self.counts.find_or_add(found.keys[i], now, now), none)

    cdef void _count_in(self, Record* record, const float* fading) noexcept nogil:
        """Count it in one record."""

    cdef int _look(self) except -1 nogil:
        """See whether there are other contexts; those that stay keep their weights."""
        cdef int32_t i, j, n_before = self.fields.n_contexts
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
        for i in range(self.fields.n_contexts):
            memset(&self.weights[i], 0, sizeof(Weights))
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

    cdef dict state(self):
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

    cdef int take_state(self, dict state) except -1:
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


@cython.final
cdef class ContextTree(Contexts):
    """Says nothing of labels until there are contexts, and where there are too many labels."""

    def __cinit__(self):
        self.losses = LOSSES_OF_LABELS
        self.memo_size = sizeof(Mixed)
        self.memo_place_size = MOST_CONTEXTS * SPEEDS * sizeof(float)

    # ------------------------------------------------------------------------ one example

    cdef bint _says(self) noexcept nogil:
        """Whether something is said of the labels."""
        return self.fields.n_contexts and 1 < self.context.n_labels <= MOST_LABELS

    cdef void predict(self, const Row* row, Scratch* scratch, Prediction* out) noexcept nogil:
        cdef Mixed* mixed = <Mixed*> scratch.memo
        cdef int32_t n = self.context.n_labels
        self.catch_up()
        if not self._says():
            memset(out.shares, 0, n * sizeof(double))
            return
        if not self._is_mixed(row, scratch):
            self._mix(row, scratch)
            remember(scratch, <const void*> self, row)
        memcpy(out.shares, mixed.said, n * sizeof(double))

    cdef bint _is_mixed(self, const Row* row, const Scratch* scratch) noexcept nogil:
        cdef const Mixed* mixed = <const Mixed*> scratch.memo
        return (
            remembers(scratch, <const void*> self, row) and mixed.rows == self.rows
            and mixed.n_labels == self.context.n_labels
        )

    cdef void _mix(self, const Row* row, Scratch* scratch) noexcept nogil:
        """Of a label that was never looked for in a context there is no evidence."""
        cdef Mixed* mixed = <Mixed*> scratch.memo
        cdef Record* record
        cdef int32_t i, n = self.context.n_labels
        mixed.n_labels, mixed.rows = n, self.rows
        self._begin(row, &mixed.found)
        memset(mixed.said, 0, n * sizeof(double))
        for i in range(self.fields.n_contexts):
            record = self._find(&mixed.found, i)
            mixed.labels[i] = 0
            if record != NULL:
                mixed.labels[i] = record.labels
                say_all(
                    self.counts.counts_of(record), record.labels, mixed.found.fading[i], PRIORS,
                    self.weights[i].weights, evidence_of(mixed, i), mixed.said,
                )

    cdef void hear(self, const double* pooled, double left, Scratch* scratch) noexcept nogil:
        cdef double[MOST_LABELS] shares
        cdef int32_t label, n = self.context.n_labels
        self.was_told = pooled != NULL and n <= MOST_LABELS
        if not self.was_told:
            return
        for label in range(n):
            shares[label] = log(max(pooled[label], DBL_MIN)) + left * scratch.shares[label]
        softmax(shares, n)
        for label in range(n):
            self.expected[label] = <float> shares[label]

    cdef void _describe(self, const Example* example) noexcept nogil:
        cdef Counted* row = &self.counted
        cdef int32_t label
        row.row, row.label = <uint32_t> self.rows, example.label
        row.weight = repeats_of(example)
        row.labels = <uint32_t> 1 << row.label
        for label in range(self.context.n_labels):
            if self.expected[label] >= LEAST_SHARE:
                row.labels |= <uint32_t> 1 << label

    cdef void _learn_noted(self) noexcept nogil:
        """The weights follow the log loss."""
        cdef const Mixed* mixed = <const Mixed*> self.noted
        cdef const Counted* row = &self.counted
        cdef int32_t i
        cdef uint32_t labels
        cdef float rate = RATE * row.weight
        for i in range(self.fields.n_contexts):
            labels = mixed.labels[i] & row.labels
            if labels:
                move_weights(
                    evidence_of(mixed, i), labels, self.expected, row.label,
                    self.weights[i].weights, self.weights[i].squares, rate, KEPT, MOST_WEIGHT,
                )
        self._count(&mixed.found)

    cdef void _count_in(self, Record* record, const float* fading) noexcept nogil:
        cdef const Counted* row = &self.counted
        cdef float* counts = self.counts.counts_of(record)
        if record.last != row.row:
            fade(counts, record.labels, fading)
        count_label(counts, row.labels, self.expected, row.label, row.weight)
        record.labels |= row.labels
        record.last = row.row

    # ------------------------------------------------------------------------ explanation

    cdef int explain(self, const Row* row, Scratch* scratch, Explanation out) except -1:
        """By how much it moves the score of a label away from those of the others on average: what
        a context adds, its columns share evenly."""
        cdef int32_t i, label, s, n = self.context.n_labels
        cdef double part, rest = 0.0
        cdef const Mixed* mixed = <const Mixed*> scratch.memo
        if not self._says() or out.output >= n:
            return 0
        self.output_below(0, row, scratch, out)
        moves = {}
        for i in range(self.fields.n_contexts):
            part = 0.0
            for label in range(n):
                if mixed.labels[i] >> label & 1:
                    for s in range(SPEEDS):
                        part += self.weights[i].weights[s] * (
                            evidence_of(mixed, i)[label * SPEEDS + s]
                        ) * (1.0 if label == out.output else -1.0 / (n - 1))
            if self._add_moves(moves, i, row, part) == 0:
                rest += part
        return out.add(rest, moves, 1.0)

    # ------------------------------------------------------------------------------ state

    def check_state(self, dict state, Py_ssize_t n_columns, Py_ssize_t n_outputs):
        """Raise StateError unless `take_state` can trust a state."""
        check_contexts_of_labels(state, n_columns, n_outputs, MOST_WEIGHT, MOST_COUNT)


@cython.final
cdef class ContextMeans(Contexts):
    """Of every context it is summed how far targets were from what the others said, in deviations
    of the targets. A mean of that, drawn to nothing where rows are few, is what the context says.
    """

    def __cinit__(self):
        self.losses = LOSSES_OF_NUMBERS
        self.memo_size = sizeof(MixedMeans)
        self.fields.has_labels = False

    # ------------------------------------------------------------------------ one example

    cdef double _deviation(self) noexcept nogil:
        return sqrt(moments_variance(&self.targets))

    cdef double _missing(self, const Example* example) noexcept nogil:
        """How far a target is from what the others said, in deviations."""
        cdef double deviation = self._deviation()
        if not deviation > 0.0:
            return 0.0
        return in_deviations(example.targets[0] - self.expected, deviation)

    cdef void predict(self, const Row* row, Scratch* scratch, Prediction* out) noexcept nogil:
        cdef MixedMeans* mixed = <MixedMeans*> scratch.memo
        self.catch_up()
        out.shares[0] = 0.0
        if self.fields.n_contexts:
            if not self._is_mixed(row, scratch):
                self._mix(row, scratch)
                remember(scratch, <const void*> self, row)
            out.shares[0] = self._deviation() * mixed.said

    cdef bint _is_mixed(self, const Row* row, const Scratch* scratch) noexcept nogil:
        return (
            remembers(scratch, <const void*> self, row)
            and (<const MixedMeans*> scratch.memo).rows == self.rows
        )

    cdef void _mix(self, const Row* row, Scratch* scratch) noexcept nogil:
        cdef MixedMeans* mixed = <MixedMeans*> scratch.memo
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
                    self.counts.counts_of(record), mixed.found.fading[i], PRIOR_ROWS,
                    self.weights[i].weights, mixed.evidence[i], &mixed.said,
                )
        # nothing farther out is missing
        mixed.said = in_deviations(mixed.said, 1.0)

    cdef void hear(self, const double* pooled, double left, Scratch* scratch) noexcept nogil:
        self.was_told = pooled != NULL
        if self.was_told:
            self.expected = pooled[0] - (1.0 - left) * scratch.shares[0]

    cdef void _describe(self, const Example* example) noexcept nogil:
        self.counted.row, self.counted.weight = <uint32_t> self.rows, repeats_of(example)
        self.counted.missing = <float> self._missing(example)

    cdef int learn(self, const Row* row, const Example* example, Scratch* scratch,
                   Prediction* out) except -1 nogil:
        Contexts.learn(self, row, example, scratch, out)
        moments_add(&self.targets, example.targets[0], example.weight)
        return 0

    cdef void _learn_noted(self) noexcept nogil:
        """The weights follow the squared error."""
        cdef const MixedMeans* mixed = <const MixedMeans*> self.noted
        cdef const Counted* row = &self.counted
        cdef int32_t i
        cdef float error = row.missing - <float> mixed.said, rate = RATE * row.weight
        for i in range(self.fields.n_contexts):
            if mixed.found.slots[i] >= 0:
                move_means(
                    mixed.evidence[i], error, self.weights[i].weights,
                    self.weights[i].squares, rate, KEPT, MOST_WEIGHT,
                )
        self._count(&mixed.found)

    cdef void _count_in(self, Record* record, const float* fading) noexcept nogil:
        cdef const Counted* row = &self.counted
        cdef float* sums = self.counts.counts_of(record)
        cdef float missing = row.weight * row.missing, most
        cdef int32_t s
        if record.last != row.row:
            fade(sums, record.labels, fading)
        for s in range(SPEEDS):
            sums[s] += row.weight
            # no mean is farther out than the rows, however both are rounded as they fade
            most = MOST_DEVIATIONS * sums[s]
            sums[SPEEDS + s] = min(max(sums[SPEEDS + s] + missing, -most), most)
        record.labels = 1
        record.last = row.row

    # ------------------------------------------------------------------------ explanation

    cdef int explain(self, const Row* row, Scratch* scratch, Explanation out) except -1:
        """What a context adds, its columns share evenly."""
        cdef int32_t i, s
        cdef double said = self.output_below(0, row, scratch, out), part
        cdef const MixedMeans* mixed = <const MixedMeans*> scratch.memo
        moves = {}
        for i in range(self.fields.n_contexts):
            part = 0.0
            for s in range(SPEEDS):
                part += self.weights[i].weights[s] * mixed.evidence[i][s]
            self._add_moves(moves, i, row, part)
        columns = np.array(list(moves), dtype=np.int32)
        return out.spread(columns, np.array(list(moves.values())), said)

    # ------------------------------------------------------------------------------ state

    cdef dict state(self):
        state = Contexts.state(self)
        state["targets"] = self.targets
        return state

    cdef int take_state(self, dict state) except -1:
        self.targets = state["targets"]
        return Contexts.take_state(self, state)

    def check_state(self, dict state, Py_ssize_t n_columns, Py_ssize_t n_outputs):
        """Raise StateError unless `take_state` can trust a state."""
        check_contexts_of_numbers(state, n_columns, MOST_WEIGHT, MOST_DEVIATIONS)
        check_targets(state["targets"])
