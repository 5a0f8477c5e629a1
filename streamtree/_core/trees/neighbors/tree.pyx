"""Nearest neighbors: what the rows came with that are most like the one at hand.

Rows differ by the sum of what their columns do, and of how long ago they came, each with a weight.
The weights are learned: they follow what is lost by what the nearest rows say, by gradients, as in
neighborhood components analysis (Goldberger et al. 2004), so that columns that tell nothing soon
count for nothing.
"""

cimport cython
from libc.math cimport exp, fabs, sqrt
from libc.stdint cimport int32_t
from libc.string cimport memset

from streamtree._core.kernels.losses cimport argmax
from streamtree._core.kernels.moments cimport moments_add, moments_variance
from streamtree._core.kernels.pooling cimport (
    MOST_REPEATS, in_deviations, scaled_slope, trust_learn, trust_of,
)
from streamtree._core.leaves.explanation cimport Explanation
from streamtree._core.store.budget cimport counted_zeros, give_back
from streamtree._core.stream.context cimport Context
from streamtree._core.stream.fields cimport Candidate, column_in
from streamtree._core.stream.row cimport (
    LISTED, STANDARD, TABLE, Example, Prediction, Row, Scratch, remember, remembers,
)
from streamtree._core.trees.neighbors.rows cimport (
    LANES, MOST_FIELDS, NEAREST, NeighborRows, Query, add_apart, age_of, is_number,
    is_same, krige, nearest,
)
from streamtree._core.trees.tree cimport OneLeaf, Tree

import numpy as np

from streamtree._core.trees.neighbors.checks import check_neighbors
from streamtree._core.trees.tree import check_targets, check_trust

cdef enum:
    # rows that show which columns there are; then it is looked as often as that again, up to
    BEFORE_FIELDS = 16
    LOOK_ROWS = 256
    # so many rows ago is one unit
    AGE = 4096

# of a field: how it is scaled, and what follows from it, its weight, slope and place in the order
cdef size_t FIELD_BYTES = sizeof(Scale) + 2 * sizeof(float) + sizeof(int32_t)

# the step size of the logarithms
cdef double RATE = 0.2
# all weights of fields together at first; that of age; as how many rows all rows count
cdef double FIRST_WEIGHT = 10.0
cdef double FIRST_DOUBT = 0.3
# of a number as a name, at first, the logarithm of its scale
cdef double NAMES_LOG = -3.0
# logarithms stay between these
cdef double LEAST_LOG = -8.0
cdef double MOST_LOG = 8.0
# of kriging: how much faster distances count than numbers become unlike, and their noise
cdef float VARIES = 0.1
cdef double NOISE = 0.03
# slopes that are less move nothing
cdef double LEAST_SLOPE = 1e-5
# of every label, added to how many of the rows had it
cdef double HALF = 0.5


cdef Scale* new_scales(int32_t n) except? NULL nogil:
    """Room for what is known of n fields, and for what follows from it; none for no field."""
    return <Scale*> counted_zeros(n * FIELD_BYTES) if n else NULL


cdef inline void move(Scale* scale, double slope, double weight) noexcept nogil:
    """A step down a slope."""
    scale.log -= RATE * weight * scaled_slope(&scale.squares, slope)
    scale.log = min(max(scale.log, LEAST_LOG), MOST_LOG)


cdef class Neighbors(OneLeaf):
    """What neighbors of labels and of numbers share: the rows, and the weights of columns."""

    def __cinit__(self, *args, **kwargs):
        self.views = LISTED | STANDARD | TABLE
        self.memo_size = sizeof(Found)
        self.gives_back = True

    def __dealloc__(self):
        give_back(self.scales)

    cdef int bind(self, Context context) except -1:
        self.rows.context = context
        return Tree.bind(self, context)

    # ------------------------------------------------------------------------ one example

    cdef Found* found(self, const Row* row, Scratch* scratch) noexcept nogil:
        """The nearest rows, and what each has to say: it is in the memo, or comes there."""
        cdef Found* found = <Found*> scratch.memo
        if not remembers(scratch, <const void*> self, row) or found.rows != self.seen:
            self._look_up(row, found)
            remember(scratch, <const void*> self, row)
        return found

    cdef void _look_up(self, const Row* row, Found* found) noexcept nogil:
        cdef Query query
        cdef int32_t i
        found.rows, found.n = self.seen, 0
        found.left = found.total = FIRST_DOUBT * exp(self.doubt.log)
        if self.rows.n_fields:
            self.rows.read(row, found.cells)
            self._ask(found, &query)
            found.n = nearest(&query, &found.near)
        for i in range(found.n):
            found.says[i] = self.rows.weights[found.near.places[i]] * exp(
                <double> found.near.distances[0] - <double> found.near.distances[i]
            )
            found.total += found.says[i]

    cdef void _ask(self, const Found* found, Query* query) noexcept nogil:
        """Describe the rows, and the one that others are compared with."""
        self.rows.describe(query)
        query.n_numbers, query.fields = self.n_numbers, self.order
        query.row, query.weights = found.cells, self.weights
        query.age_weight = self.age_weight

    cdef void _follow(self, Found* found, const double* slopes, double doubt,
                      double weight) noexcept nogil:
        """Let the weights follow the slopes of what is lost by distances, of all but the first row.

        What a row has to say depends on how much farther than the first one it is. `doubt` is the
        slope by the logarithm of what all rows say.
        """
        cdef Query query
        cdef int32_t i, f
        cdef double total = 0.0, by_age = 0.0, by_common = 0.0, slope
        cdef bint has_moved = False
        weight = min(weight, <double> MOST_REPEATS)
        move(&self.doubt, doubt, weight)
        self._ask(found, &query)
        memset(self.slopes, 0, self.rows.n_fields * sizeof(float))
        for i in range(found.n - 1, -1, -1):
            slope = slopes[i] if i else -total
            if fabs(slope) > LEAST_SLOPE:
                add_apart(&query, found.near.places[i], <float> slope, self.slopes)
                by_age += slope * age_of(&query, found.near.places[i])
                total += slope
                has_moved = True
        if not has_moved:
            return
        for f in range(self.rows.n_fields):
            slope = <double> self.weights[f] * <double> self.slopes[f]
            by_common += slope
            move(&self.scales[f], slope, weight)
        move(&self.common, by_common, weight)
        move(&self.age, <double> query.age_weight * by_age, weight)
        self._weigh()

    cdef void _weigh(self) noexcept nogil:
        """Compute the weights, and the order of the fields: what counts most comes first."""
        cdef int32_t i, f, at, n = self.rows.n_fields
        cdef double all = FIRST_WEIGHT / max(n, 1)
        self.age_weight = <float> (exp(self.age.log) / AGE)
        for f in range(n):
            self.weights[f] = <float> (all * exp(self.common.log + self.scales[f].log))
        for i in range(n):
            f, at = self.order[i], i
            while at > 0 and self._is_before(f, self.order[at - 1]):
                self.order[at] = self.order[at - 1]
                at -= 1
            self.order[at] = f

    cdef bint _is_before(self, int32_t f, int32_t g) noexcept nogil:
        cdef bint first = is_number(&self.rows.fields[f])
        if first != is_number(&self.rows.fields[g]):
            return first
        return self.weights[f] > self.weights[g] or (
            self.weights[f] == self.weights[g] and f < g
        )

    cdef int _push(self, const Row* row, const Found* found,
                   const Example* example) except -1 nogil:
        """Let a row in that was looked up; and see whether there are other columns."""
        # what is remembered of rows is of no use where they are laid out anew
        self.seen += 1
        if self.rows.n_fields:
            self.rows.push(row, found.cells, example)
        if self.seen % LOOK_ROWS == 0 or (
            BEFORE_FIELDS <= self.seen < LOOK_ROWS and self.seen & (self.seen - 1) == 0
        ):
            self._take_fields()
        return 0

    cdef int _take_fields(self) except -1 nogil:
        """Take other fields if there are others; those that stay keep their weights."""
        cdef Candidate[MOST_FIELDS] fields
        cdef Scale* scales
        cdef Scale* dropped
        cdef int32_t f, g, n = self.rows.find_fields(fields), n_before = self.rows.n_fields
        cdef bint are_others = n != n_before
        for f in range(min(n, n_before)):
            are_others = are_others or not is_same(&fields[f], &self.rows.fields[f])
        if not are_others:
            return 0
        scales = new_scales(n)
        for f in range(n):
            scales[f].log = NAMES_LOG if fields[f].is_exact else 0.0
            for g in range(n_before):
                if is_same(&self.rows.fields[g], &fields[f]):
                    scales[f] = self.scales[g]
        dropped = scales
        try:
            self.rows.take_fields(fields, n)
            dropped = self.scales
        finally:
            give_back(dropped)
        self._take_scales(scales)
        return 0

    cdef void _take_scales(self, Scale* scales) noexcept nogil:
        """Take what is known of the fields; behind it there is room for what follows from it."""
        cdef int32_t f, n = self.rows.n_fields
        self.scales = scales
        self.weights = <float*> &scales[n]
        self.slopes = &self.weights[n]
        self.order = <int32_t*> &self.slopes[n]
        self.n_numbers = 0
        for f in range(n):
            self.order[f] = f
            self.n_numbers += is_number(&self.rows.fields[f])
        self._weigh()

    # ------------------------------------------------------------------------ explanation

    cdef int _explain(self, const Row* row, Scratch* scratch, Explanation out,
                      double before) except -1:
        """From what all rows say: columns share by how much nearer in them the nearest rows are."""
        cdef double said = self.output_below(0, row, scratch, out)
        cdef Found* found = self.found(row, scratch)
        cdef Query query
        cdef int32_t f, i, place
        cdef double share
        out.add_bias(before)
        if found.n == 0:
            return out.add_bias(said - before)
        self._ask(found, &query)
        nearer = np.zeros(self.rows.n_fields, dtype=np.float32)
        cdef float[::1] view = nearer
        for place in range(self.rows.size):
            add_apart(&query, place, <float> (1.0 / self.rows.size), &view[0])
        for i in range(found.n):
            share = -found.says[i] / (found.total - found.left)
            add_apart(&query, found.near.places[i], <float> share, &view[0])
        columns = np.empty(self.rows.n_fields, dtype=np.int32)
        for f in range(self.rows.n_fields):
            view[f] = max(view[f] * self.weights[f], <float> 0.0)
            columns[f] = column_in(
                row, self.context, self.rows.fields[f].column, self.rows.fields[f].group
            )
        return out.spread(columns, nearer.astype(np.float64), said - before)

    @property
    def moved(self):
        """Pairs of a column and how far two rows in turn are apart in it, as weighted."""
        cdef Found found
        cdef Query query
        cdef int32_t f, place
        sizes = np.zeros(self.rows.n_fields, dtype=np.float32)
        cdef float[::1] view = sizes
        for place in range(1, self.rows.size if self.rows.n_fields else 0):
            for f in range(self.rows.n_fields):
                found.cells[f] = self.rows.cells_of(place - 1)[f * LANES]
            self._ask(&found, &query)
            add_apart(&query, place, 1.0, &view[0])
        return [
            (self.rows.fields[f].column, self.weights[f] * float(view[f]))
            for f in range(self.rows.n_fields)
        ]

    # ------------------------------------------------------------------------------ state

    cdef dict state(self):
        cdef int32_t f
        return {
            "rows": self.rows.state(), "seen": self.seen,
            "scales": np.array([
                (scale["log"], scale["squares"]) for scale in [
                    self.common, self.age, self.doubt,
                    *[self.scales[f] for f in range(self.rows.n_fields)],
                ]
            ]),
        }

    cdef int take_state(self, dict state) except -1:
        cdef const double[:, ::1] scales = state["scales"]
        cdef Scale* fields
        cdef int32_t f, n
        self.rows.take_state(state["rows"])
        self.seen = state["seen"]
        self.common = Scale(scales[0, 0], scales[0, 1])
        self.age = Scale(scales[1, 0], scales[1, 1])
        self.doubt = Scale(scales[2, 0], scales[2, 1])
        n = self.rows.n_fields
        give_back(self.scales)
        self.scales = NULL
        fields = new_scales(n)
        for f in range(n):
            fields[f] = Scale(scales[3 + f, 0], scales[3 + f, 1])
        self._take_scales(fields)
        return 0


@cython.final
cdef class NeighborTree(Neighbors):
    """The shares of labels among the nearest rows, each with what it has to say."""

    def __cinit__(self):
        self.rows = NeighborRows(False)
        self.label_bytes = sizeof(int32_t)

    cdef double _share(self, int32_t label) noexcept nogil:
        """The share of a label in all rows that there are."""
        cdef int32_t n = self.rows.counts[label] if label < self.rows.n_counted else 0
        return (n + HALF) / (self.rows.size + HALF * self.context.n_labels)

    cdef void predict(self, const Row* row, Scratch* scratch, Prediction* out) noexcept nogil:
        cdef const Found* found = self.found(row, scratch)
        cdef double* shares = out.shares if out.shares != NULL else scratch.shares
        cdef int32_t i, label, n = self.context.n_labels
        for label in range(n):
            shares[label] = found.left * self._share(label)
        for i in range(found.n):
            shares[self.rows.labels[found.near.places[i]]] += found.says[i]
        for label in range(n):
            shares[label] /= found.total
        out.label = argmax(shares, n)

    cdef int learn(self, const Row* row, const Example* example, Scratch* scratch,
                   Prediction* out) except -1 nogil:
        cdef Found* found
        cdef double[NEAREST] slopes
        cdef double same, by_doubt
        cdef int32_t i
        if out != NULL:
            self.predict(row, scratch, out)
        found = self.found(row, scratch)
        scratch.memo_serial = 0
        if found.n:
            by_doubt = same = found.left * self._share(example.label)
            for i in range(found.n):
                if self.rows.labels[found.near.places[i]] == example.label:
                    same += found.says[i]
            for i in range(found.n):
                slopes[i] = -found.says[i] / found.total
                if self.rows.labels[found.near.places[i]] == example.label:
                    slopes[i] += found.says[i] / same
            by_doubt = found.left / found.total - by_doubt / same
            self._follow(found, slopes, by_doubt, example.weight)
        return self._push(row, found, example)

    cdef int explain(self, const Row* row, Scratch* scratch, Explanation out) except -1:
        return self._explain(row, scratch, out, self._share(out.output))

    def check_state(self, dict state, Py_ssize_t n_columns, Py_ssize_t n_outputs):
        """Raise StateError unless `take_state` can trust a state."""
        check_neighbors(state, n_columns, n_outputs, LEAST_LOG, MOST_LOG)


@cython.final
cdef class NeighborMeans(Neighbors):
    """The mean of the targets of the nearest rows, each with what it has to say."""

    def __cinit__(self):
        self.rows = NeighborRows(True)

    cdef void _look_up(self, const Row* row, Found* found) noexcept nogil:
        cdef int32_t i
        Neighbors._look_up(self, row, found)
        found.mean = 0.0
        for i in range(found.n):
            found.mean += found.says[i] / found.total * (
                self.rows.targets[found.near.places[i]] - self.targets.mean
            )
        found.kriged = self._krige(found) if found.n else 0.0

    cdef double _krige(self, const Found* found) noexcept nogil:
        """What the nearest rows say, as a distance from the mean of all."""
        cdef Query query
        cdef double[NEAREST] numbers
        cdef double[NEAREST] noise
        cdef int32_t i, place
        self._ask(found, &query)
        for i in range(found.n):
            place = found.near.places[i]
            numbers[i] = self.rows.targets[place] - self.targets.mean
            noise[i] = NOISE / self.rows.weights[place]
        return krige(&query, &found.near, found.n, numbers, noise, VARIES, found.left)

    cdef void predict(self, const Row* row, Scratch* scratch, Prediction* out) noexcept nogil:
        cdef const Found* found = self.found(row, scratch)
        out.shares[0] = self.targets.mean + (
            found.mean + trust_of(&self.trust) * (found.kriged - found.mean)
        )

    cdef int learn(self, const Row* row, const Example* example, Scratch* scratch,
                   Prediction* out) except -1 nogil:
        cdef Found* found = self.found(row, scratch)
        cdef double[NEAREST] slopes
        cdef double deviation = sqrt(moments_variance(&self.targets)), mean = self.targets.mean
        cdef double error, added, by_doubt
        cdef int32_t i
        if out != NULL:
            self.predict(row, scratch, out)
        scratch.memo_serial = 0
        if found.n and deviation > 0.0:
            error = in_deviations(mean + found.mean - example.targets[0], deviation)
            added = in_deviations(found.kriged - found.mean, deviation)
            trust_learn(&self.trust, -error, added)
            for i in range(found.n):
                slopes[i] = -error * found.says[i] / found.total * in_deviations(
                    self.rows.targets[found.near.places[i]] - mean - found.mean, deviation
                )
            by_doubt = error * found.left / found.total * in_deviations(-found.mean, deviation)
            self._follow(found, slopes, by_doubt, example.weight)
        moments_add(&self.targets, example.targets[0], example.weight)
        return self._push(row, found, example)

    cdef int explain(self, const Row* row, Scratch* scratch, Explanation out) except -1:
        return self._explain(row, scratch, out, self.targets.mean)

    cdef dict state(self):
        state = Neighbors.state(self)
        state["worth"] = np.array([self.trust.product, self.trust.spread])
        state["targets"] = self.targets
        return state

    cdef int take_state(self, dict state) except -1:
        self.targets = state["targets"]
        self.trust.product, self.trust.spread = state["worth"]
        return Neighbors.take_state(self, state)

    def check_state(self, dict state, Py_ssize_t n_columns, Py_ssize_t n_outputs):
        """Raise StateError unless `take_state` can trust a state."""
        check_neighbors(state, n_columns, 0, LEAST_LOG, MOST_LOG)
        check_targets(state["targets"])
        check_trust(state["worth"])
