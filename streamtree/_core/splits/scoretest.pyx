"""Where a leaf with a model should split: at a threshold on either side of which the model errs
differently.

A score test of the hypothesis that one model serves both sides. The gradient of the loss with
respect to the weights, summed in buckets of parts, for each along a contrast of the classes of its
own, would then have the same mean on both. Of the thresholds that pass, a leaf takes the one where
the gradients differ most: a small difference may be the surest.

Candidates are tried in rounds, each twice as long as the one before, up to a bound: more rows show
what few do not.
"""

cimport cython
from libc.math cimport HUGE_VAL, sqrt
from libc.stdint cimport int32_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from streamtree._core.kernels.rng cimport splitmix64
from streamtree._core.kernels.significance cimport chi_squared_z, level_of_look, normal_quantile
from streamtree._core.store.budget cimport counted_zeros, give_back, has_room
from streamtree._core.store.state cimport export_floats
from streamtree._core.stream.encoding cimport KNOTS, encoded_value
from streamtree._core.stream.row cimport MOST_PLACES, EncodedRow, Row, View, bounded_weight
from streamtree._core.stream.scales cimport n_shown

import numpy as np

cdef extern from "math.h":
    float fabsf(float x) noexcept nogil

cdef enum:
    LOOKS_PER_ROUND = 10    # of the first round
    LONGEST = 8             # times as long as the first: no round is longer
    GRACE_PERIODS = 7       # between two looks
    # The candidates of a round count as so many tests at the least, see TEST_SHARE
    LEAST_TESTS = 5
    LEAST_PATIENCE = 50     # rows: a round needs some to find anything

# As which part of them they count if that is more: their rows overlap. On noise (100 trees of 4,000
# rows; 6, 20 and 40 normal columns, 8 skewed, 40 of 0 and 1; two labels and three) .14 to .38 of
# trees split at a level of 0.3; on 10 columns of rank 2 .48.
cdef double TEST_SHARE = 0.4
# of a row that is worth counting for the candidates: of how much its class was missed
cdef float LEAST_SLOPE = 0.2
# more than any leaf sees, and a number that can be kept
cdef float MOST_PATIENCE = 1e30
# Added to the correlations of buckets with themselves. With .1 trees lose .0008 in the mean of 21
# sets, each under five namings of its columns.
cdef double RIDGE = 0.03
# A side with a smaller share of the rows is no side.
cdef double MIN_SIDE = 0.03


cdef struct Correlations:
    # of the buckets
    double[BUCKETS * BUCKETS] factor    # the Cholesky factor, row by row
    double freedom                      # degrees of freedom that are left to each


cdef void transform(float* sums, uint32_t size) noexcept nogil:
    """The fast Walsh-Hadamard transform of a power of two numbers, 4 at the least: their sums with
    the signs of every row of a Hadamard matrix."""
    cdef float left[4]
    cdef float right[4]
    cdef float* at
    cdef uint32_t half = 4, i
    cdef int k
    for i in range(size // 4):
        at = &sums[4 * i]
        left[0], left[1], right[0], right[1] = (
            at[0] + at[1], at[0] - at[1], at[2] + at[3], at[2] - at[3]
        )
        for k in range(2):
            at[k], at[k + 2] = left[k] + right[k], left[k] - right[k]
    while half < size:
        for i in range(size // 8):
            at = &sums[4 * i + (4 * i & ~(half - 1))]
            for k in range(4):
                left[k], right[k] = at[k], at[half + k]
            for k in range(4):
                at[k], at[half + k] = left[k] + right[k], left[k] - right[k]
        half *= 2


cdef bint find_slopes(int32_t leaf, int32_t round_, const Residuals* residuals,
                      float* slopes) noexcept nogil:
    """Write the slope of the loss for every bucket; False if the row would hardly count.

    Of more than two classes it is along a row of a Hadamard matrix, of each bucket another one as
    far as there are so many. Each sets about half of the classes against the others, and all of
    them tell every two apart.
    """
    cdef float sums[MOST_PLACES]
    cdef float slope
    cdef uint32_t size = 4, row
    cdef int b
    if residuals.n <= 2:
        slope = residuals.p[1] - (residuals.place == 1)
        for b in range(BUCKETS):
            slopes[b] = slope
        return fabsf(slope) >= LEAST_SLOPE
    # no slope is steeper
    if <float> 1.0 - residuals.p[residuals.place] < LEAST_SLOPE:
        return False
    while size < <uint32_t> residuals.n:
        size *= 2
    memset(sums, 0, size * sizeof(float))
    memcpy(sums, residuals.p, residuals.n * sizeof(float))
    sums[residuals.place] -= <float> 1.0
    transform(sums, size)
    # all but the first, the sum of everything
    row = <uint32_t> (splitmix64((<uint64_t> leaf << 32) ^ <uint64_t> round_) % (size - 1))
    for b in range(BUCKETS):
        row = row + 1 if row < size - 1 else 1
        slopes[b] = <float> 0.5 * sums[row]
    return True


cdef int32_t round_of(int32_t looks) noexcept nogil:
    """The number of the round that a leaf is in after so many looks."""
    cdef int32_t length = looks // LOOKS_PER_ROUND + 1
    cdef int32_t number = length // LONGEST
    length = min(length, <int32_t> LONGEST)
    while length > 1:
        length //= 2
        number += 1
    return number


cdef inline void add_buckets(Candidate* candidate, const float* sums, const float* squares,
                             float weight) noexcept nogil:
    cdef int b
    candidate.weight += weight
    for b in range(BUCKETS):
        candidate.sums[b] += sums[b]
        candidate.squares[b] += squares[b]


cdef inline void add_products(float* products, const float* sums) noexcept nogil:
    cdef int b, c
    for b in range(1, BUCKETS):
        for c in range(b):
            products[c] += sums[b] * sums[c]
        products += b


@cython.final
cdef class SplitFinder:
    """How leaves look for their splits; what each has seen so far is in its `SplitSearch`."""

    def __cinit__(self, uint64_t seed):
        # the bits of small seeds would only put the candidates of a round in another order
        self.seed = seed * <uint64_t> 0x9E3779B97F4A7C15

    def configure(self, *, double grace_period, double delta):
        """Set what may change while the tree grows."""
        self.grace_period = grace_period
        self.delta = delta

    cdef int watch(self, SplitSearch* search, int32_t leaf, const Row* row,
                   const Residuals* residuals, double weight) except -1 nogil:
        """Count an example of a leaf, of which its model said this."""
        cdef Candidate* candidate
        cdef const EncodedRow* parts = &row.encoded
        cdef const uint32_t* hashes = self.context.features.hashes
        cdef float sums[BUCKETS]
        cdef float squares[BUCKETS]
        cdef float slopes[BUCKETS]
        cdef uint32_t bucket
        cdef int32_t key
        cdef Py_ssize_t i
        cdef int m
        weight = bounded_weight(weight)
        if search.n == 0:
            self.begin_round(search, leaf, row)
            if search.n == 0:
                return 0
        search.rows += <float> weight
        if not find_slopes(leaf, round_of(search.looks), residuals, slopes):
            return 0
        for m in range(BUCKETS):
            slopes[m] *= <float> weight
        search.watched += <float> weight
        for m in range(BUCKETS):
            sums[m] = 0.0
        for i in range(1, parts.n_linear):
            bucket = hashes[parts.keys[i] - 1] % BUCKETS
            sums[bucket] += slopes[bucket] * parts.values[i]
        for i in range(parts.n_linear, residuals.n_parts):
            key = parts.keys[i]
            bucket = (hashes[key // KNOTS] + 1 + <uint32_t> (key % KNOTS)) % BUCKETS
            sums[bucket] += slopes[bucket] * parts.values[i]
        for m in range(BUCKETS):
            squares[m] = sums[m] * sums[m]
            search.sums[m] += sums[m]
            search.squares[m] += squares[m]
        add_products(search.products, sums)
        for m in range(search.n):
            candidate = &search.candidates[m]
            if encoded_value(row, candidate.column) > candidate.threshold:
                add_buckets(candidate, sums, squares, <float> weight)
        return 0

    cdef int begin_round(self, SplitSearch* search, int32_t leaf, const Row* row) except -1 nogil:
        """Draw candidates: columns of this row at random, cut at its values.

        Those whose names have the largest hashes, so that the order of the columns is no matter.
        With a seed these are two of three: trees of other seeds are to differ.
        """
        cdef int32_t[CANDIDATES] drawn
        cdef uint64_t[CANDIDATES] words
        cdef int32_t looks = search.looks, column
        cdef uint64_t word, seed = splitmix64(
            self.seed ^ (<uint64_t> leaf << 32) ^ (<uint64_t> looks << 8)
        )
        cdef const View* values = &row.standard
        cdef Candidate* candidate
        cdef Py_ssize_t i, most = values.n if self.seed == 0 else (2 * values.n + 2) // 3
        cdef int m, n = 0
        most = min(most, <Py_ssize_t> CANDIDATES)
        if most == 0 or not has_room(most * sizeof(Candidate)):
            return 0
        for i in range(values.n):
            word = splitmix64(seed ^ self.context.features.hashes[values.columns[i]])
            if n == most and word <= words[n - 1]:
                continue
            n = min(n + 1, <int> most)
            m = n - 1
            while m > 0 and words[m - 1] < word:
                words[m], drawn[m] = words[m - 1], drawn[m - 1]
                m -= 1
            words[m], drawn[m] = word, <int32_t> i
        candidate = <Candidate*> counted_zeros(n * sizeof(Candidate))
        memset(search, 0, sizeof(SplitSearch))
        search.looks = looks
        search.next_look = self.patience()
        search.candidates, search.n = candidate, n
        for m in range(n):
            column = values.columns[drawn[m]]
            candidate[m].column = column
            candidate[m].threshold = <float> values.values[drawn[m]]
            if not self.context.scaler.columns[column].has_varied:
                # halfway to the zeros
                candidate[m].threshold *= 0.5
        return 0

    cdef float patience(self) noexcept nogil:
        """The weight of the examples between two looks.

        One for each column at least, but for those that came once: they tell nothing.
        """
        cdef double least = max(LEAST_PATIENCE, GRACE_PERIODS * self.grace_period), again = 0.0
        cdef int32_t column, n = self.context.scaler.n_born
        if n > least:
            for column in range(n):
                again += n_shown(&self.context.scaler.columns[column]) > 1
        return <float> min(max(least, again), MOST_PATIENCE)

    cdef bint found(self, SplitSearch* search, Candidate* best) noexcept nogil:
        """Whether a leaf should split now; at which threshold is written to `best`."""
        cdef bint is_found = False
        cdef double z, level, least_z, apart, most_apart = -1.0
        cdef Correlations correlations
        cdef int m
        if search.n == 0 or search.rows < search.next_look:
            return False
        search.looks += 1
        search.next_look += self.patience()
        # the levels of all looks of a leaf sum up to delta, as far as TEST_SHARE is right
        level = level_of_look(self.delta, search.looks)
        least_z = normal_quantile(level / max(<double> LEAST_TESTS, TEST_SHARE * search.n))
        factorise(search, &correlations)
        for m in range(search.n):
            z = score_test(search, &search.candidates[m], &correlations, &apart)
            if z > least_z and apart > most_apart:
                best[0], most_apart, is_found = search.candidates[m], apart, True
        if round_of(search.looks) > round_of(search.looks - 1):
            # the next row begins another round
            clear_candidates(search)
        return is_found


cdef void clear_candidates(SplitSearch* search) noexcept nogil:
    give_back(search.candidates)
    search.candidates, search.n = NULL, 0


cdef void free_search(SplitSearch* search) noexcept nogil:
    if search != NULL:
        clear_candidates(search)
        give_back(search)


cdef size_t most_search_bytes(int32_t n_columns) noexcept nogil:
    """What a search among so many columns takes at most."""
    return sizeof(SplitSearch) + min(n_columns, <int32_t> CANDIDATES) * sizeof(Candidate)


cdef void factorise(const SplitSearch* search, Correlations* out) noexcept nogil:
    """How the buckets go together: all parts of a row are multiplied by one slope.

    Without this, what they have in common would count once for every bucket.
    """
    cdef double* factor = out.factor
    cdef double* row = factor
    cdef const float* products = search.products
    cdef double scale
    cdef int b, c, i
    for b in range(BUCKETS):
        for c in range(b + 1):
            scale = sqrt(<double> search.squares[b] * <double> search.squares[c])
            if b == c:
                row[c] = 1.0 + RIDGE
            elif scale > 0.0:
                row[c] = products[c] / scale
            else:
                row[c] = 0.0
            for i in range(c):
                row[c] -= row[i] * factor[c * BUCKETS + i]
            if b == c:
                # of a matrix that somebody made up it may be anything
                row[c] = sqrt(max(row[c], RIDGE))
            else:
                row[c] /= factor[c * BUCKETS + c]
        row += BUCKETS
        products += b
    out.freedom = 1.0 - RIDGE * squared_inverse(factor) / BUCKETS


cdef double squared_inverse(const double* factor) noexcept nogil:
    """The sum of squares of the inverse of a lower triangle."""
    cdef double column[BUCKETS]
    cdef double total = 0.0
    cdef int b, c, i
    for i in range(BUCKETS):
        for b in range(i, BUCKETS):
            column[b] = 1.0 if b == i else 0.0
            for c in range(i, b):
                column[b] -= factor[b * BUCKETS + c] * column[c]
            column[b] /= factor[b * BUCKETS + b]
            total += column[b] * column[b]
    return total


cdef double score_test(
    const SplitSearch* search, const Candidate* candidate, const Correlations* correlations,
    double* apart
) noexcept nogil:
    """How surely the two sides of a candidate differ: a standard normal z if they do not.

    How far they are `apart` is the same sum, but what buckets have in common counts for each.
    """
    cdef double right, left, variance, difference, statistic = 0.0
    cdef const double* factor = correlations.factor
    cdef double white[BUCKETS]
    cdef double share = candidate.weight / max(search.watched, 1e-30)
    cdef int b, c, n = 0
    apart[0] = 0.0
    if share < MIN_SIDE or share > 1.0 - MIN_SIDE:
        return -HUGE_VAL
    for b in range(BUCKETS):
        right = candidate.squares[b]
        left = search.squares[b] - right
        variance = share * share * left + (1.0 - share) * (1.0 - share) * right
        difference = 0.0
        if right > 0.0 and left > 1e-6 * search.squares[b] and variance > 1e-12:
            difference = (candidate.sums[b] - share * search.sums[b]) / sqrt(variance)
            apart[0] += difference * difference
            n += 1
        for c in range(b):
            difference -= factor[b * BUCKETS + c] * white[c]
        white[b] = difference / factor[b * BUCKETS + b]
        statistic += white[b] * white[b]
    return chi_squared_z(statistic, correlations.freedom * n) if n else -HUGE_VAL


# ----------------------------------------------------------------------------------- state


cdef dict exported_search(const SplitSearch* search):
    cdef const Candidate* candidate
    cdef int m
    columns = np.empty(search.n, dtype=np.int32)
    numbers = np.empty((search.n, 2 + 2 * BUCKETS), dtype=np.float32)
    cdef int32_t[::1] columns_view = columns
    cdef float[:, ::1] view = numbers
    for m in range(search.n):
        candidate = &search.candidates[m]
        columns_view[m] = candidate.column
        view[m, 0] = candidate.threshold
        view[m, 1] = candidate.weight
        memcpy(&view[m, 2], candidate.sums, BUCKETS * sizeof(float))
        memcpy(&view[m, 2 + BUCKETS], candidate.squares, BUCKETS * sizeof(float))
    return {
        "rows": search.rows, "watched": search.watched, "next_look": search.next_look,
        "looks": search.looks, "sums": export_floats(search.sums, BUCKETS),
        "squares": export_floats(search.squares, BUCKETS),
        "products": export_floats(search.products, PAIRS),
        "columns": columns, "candidates": numbers,
    }


cdef int import_search(SplitSearch* search, dict state) except -1:
    cdef const float[::1] sums = state["sums"], squares = state["squares"]
    cdef const float[::1] products = state["products"]
    cdef const float[:, ::1] numbers = np.ascontiguousarray(state["candidates"])
    cdef const int32_t[::1] columns = state["columns"]
    cdef int m
    search.rows = state["rows"]
    search.watched = state["watched"]
    search.next_look = state["next_look"]
    search.looks = state["looks"]
    if columns.shape[0]:
        search.candidates = <Candidate*> counted_zeros(columns.shape[0] * sizeof(Candidate))
    search.n = <int32_t> columns.shape[0]
    memcpy(search.sums, &sums[0], BUCKETS * sizeof(float))
    memcpy(search.squares, &squares[0], BUCKETS * sizeof(float))
    memcpy(search.products, &products[0], PAIRS * sizeof(float))
    for m in range(search.n):
        search.candidates[m].column = columns[m]
        search.candidates[m].threshold = numbers[m, 0]
        search.candidates[m].weight = numbers[m, 1]
        memcpy(search.candidates[m].sums, &numbers[m, 2], BUCKETS * sizeof(float))
        memcpy(search.candidates[m].squares, &numbers[m, 2 + BUCKETS], BUCKETS * sizeof(float))
    return 0


cdef SplitSearch _blank
# of a leaf that has seen nothing: the types of the parts of a state
BLANK = exported_search(&_blank)
