"""Where a leaf with a model should split: at a threshold on either side of which the model errs
differently.

A score test of the hypothesis that one model serves both sides. The gradient of the loss with
respect to the weights, for a contrast of the classes and summed in buckets of parts, would then
have the same mean on both.
"""

cimport cython
from libc.math cimport cbrt, log, sqrt
from libc.stdint cimport int32_t, uint32_t, uint64_t
from libc.string cimport memset

from streamtree._core.additive cimport KNOTS
from streamtree._core.readings cimport Reading, RowReader, value_of
from streamtree._core.rng cimport splitmix64
from streamtree._core.scaling cimport has_varied
from streamtree._core.types cimport Parts, Row

import numpy as np

cdef extern from "math.h":
    float fabsf(float x) noexcept nogil

cdef enum:
    LOOKS_PER_ROUND = 10
    GRACE_PERIODS = 7       # between two looks
    LEAST_PATIENCE = 50     # rows: a round needs some to find anything

# of a row that is worth counting for the candidates
cdef float LEAST_SLOPE = 0.2
# A side with a smaller share of the rows is no side.
cdef double MIN_SIDE = 0.03


cdef double normal_quantile(double tail) noexcept nogil:
    """The z that a standard normal exceeds with a small probability (Abramowitz & Stegun 26.2.23).
    """
    cdef double t = sqrt(-2.0 * log(tail))
    return t - (2.515517 + t * (0.802853 + t * 0.010328)) / (
        1.0 + t * (1.432788 + t * (0.189269 + t * 0.001308))
    )


cdef float contrast(int32_t leaf, int32_t round_, int32_t n_classes, const float* p,
                    int32_t place) noexcept nogil:
    """The slope of the loss along the contrast of a round, a row of a Hadamard matrix.

    Each sets about half of the classes against the others, and all of them tell every two apart.
    """
    cdef uint32_t size = 2, row, word
    cdef float slope = 0.0
    cdef int32_t k
    while size < <uint32_t> n_classes:
        size *= 2
    row = 1 + <uint32_t> (
        splitmix64((<uint64_t> leaf << 32) ^ <uint64_t> round_) % (size - 1)
    )
    for k in range(n_classes):
        word = <uint32_t> k & row
        word ^= word >> 4
        word ^= word >> 2
        word ^= word >> 1
        slope += (p[k] - (k == place)) * (<float> 1.0 - <float> 2.0 * <float> (word & 1))
    return slope


cdef inline void add_buckets(Candidate* candidate, const float* sums, const float* squares,
                             float weight) noexcept nogil:
    cdef int b
    candidate.weight += weight
    for b in range(BUCKETS):
        candidate.sums[b] += sums[b]
        candidate.squares[b] += squares[b]


@cython.final
cdef class SplitFinder:
    """How leaves look for their splits; what each has seen so far is in its `Search`."""

    def __cinit__(self, RowReader reader, uint64_t seed):
        self.reader = reader
        self.seed = seed

    def configure(self, *, double grace_period, double delta):
        """Set what may change while the tree grows."""
        self.grace_period = grace_period
        self.delta = delta

    cdef void watch(self, Search* search, int32_t leaf, const Reading* reading, const float* p,
                    int32_t n_classes, int32_t place, double weight) noexcept nogil:
        """Count an example of a leaf, whose model gave the classes the probabilities p."""
        cdef Candidate* candidate
        cdef const Parts* parts = reading.row.parts
        cdef float sums[BUCKETS]
        cdef float squares[BUCKETS]
        cdef float slope
        cdef uint32_t bucket
        cdef int32_t key
        cdef Py_ssize_t i
        cdef int m
        if search.n == 0:
            self.begin_round(search, leaf, reading.row)
            if search.n == 0:
                return
        search.rows += <float> weight
        if n_classes <= 2:
            slope = p[1] - (place == 1)
        else:
            slope = contrast(leaf, search.looks // LOOKS_PER_ROUND, n_classes, p, place)
        if fabsf(slope) < LEAST_SLOPE:
            # it would hardly count
            return
        slope *= <float> weight
        search.watched += <float> weight
        for m in range(BUCKETS):
            sums[m] = 0.0
        for i in range(1, reading.n_linear):
            bucket = self.reader.hashes[parts.keys[i] - 1] % BUCKETS
            sums[bucket] += slope * parts.values[i]
        for i in range(reading.n_linear, reading.n):
            key = parts.keys[i]
            bucket = (self.reader.hashes[key // KNOTS] + 1 + <uint32_t> (key % KNOTS)) % BUCKETS
            sums[bucket] += slope * parts.values[i]
        for m in range(BUCKETS):
            squares[m] = sums[m] * sums[m]
            search.sums[m] += sums[m]
            search.squares[m] += squares[m]
        for m in range(search.n):
            candidate = &search.candidates[m]
            if value_of(reading, candidate.column) > candidate.threshold:
                add_buckets(candidate, sums, squares, <float> weight)

    cdef void begin_round(self, Search* search, int32_t leaf, const Row* row) noexcept nogil:
        """Draw candidates: columns of this row at random, cut at its values.

        A column is drawn by the hash of its name, so that the order of the columns is no matter.
        """
        cdef uint64_t seed, word, best_word
        cdef Py_ssize_t i, best
        cdef int32_t looks = search.looks
        cdef int m
        memset(search, 0, sizeof(Search))
        search.looks = looks
        search.next_look = self.patience()
        if row.n == 0:
            return
        for m in range(CANDIDATES):
            seed = splitmix64(self.seed ^ (<uint64_t> leaf << 32) ^ (<uint64_t> looks << 8) ^ m)
            best = 0
            best_word = 0
            for i in range(row.n):
                word = splitmix64(seed ^ self.reader.hashes[row.columns[i]])
                if word >= best_word:
                    best, best_word = i, word
            search.candidates[m].column = row.columns[best]
            search.candidates[m].threshold = <float> row.values[best]
            if not has_varied(&self.reader.scaler._columns[row.columns[best]]):
                # halfway to the zeros
                search.candidates[m].threshold *= 0.5
        search.n = CANDIDATES

    cdef float patience(self) noexcept nogil:
        """The weight of the examples between two looks."""
        cdef double least = max(LEAST_PATIENCE, self.reader.n_columns)
        return <float> max(GRACE_PERIODS * self.grace_period, least)

    cdef const Candidate* found(self, Search* search) noexcept nogil:
        """The threshold at which a leaf should split now, NULL if there is none."""
        cdef const Candidate* candidate
        cdef const Candidate* best = NULL
        cdef double share, right, left, difference, variance, statistic, z, best_z, level
        cdef int m, b, n
        if search.n == 0 or search.rows < search.next_look:
            return NULL
        search.looks += 1
        search.next_look += self.patience()
        # the levels of all looks of a leaf sum up to delta
        level = self.delta / (<double> CANDIDATES * search.looks * (search.looks + 1.0))
        best_z = normal_quantile(level)
        for m in range(search.n):
            candidate = &search.candidates[m]
            share = candidate.weight / max(search.watched, 1e-30)
            if share < MIN_SIDE or share > 1.0 - MIN_SIDE:
                continue
            statistic = 0.0
            n = 0
            for b in range(BUCKETS):
                right = candidate.squares[b]
                left = search.squares[b] - right
                variance = share * share * left + (1.0 - share) * (1.0 - share) * right
                if right <= 0.0 or left <= 1e-6 * search.squares[b] or variance <= 1e-12:
                    continue
                difference = candidate.sums[b] - share * search.sums[b]
                statistic += difference * difference / variance
                n += 1
            if n == 0:
                continue
            # Wilson & Hilferty: the cube root of a chi-squared variable is nearly normal
            z = 2.0 / (9.0 * n)
            z = (cbrt(statistic / n) - (1.0 - z)) / sqrt(z)
            if z > best_z:
                best, best_z = candidate, z
        if search.looks % LOOKS_PER_ROUND == 0:
            # the next row begins another round
            search.n = 0
        return best


cdef object floats(const float* values, Py_ssize_t n):
    return np.asarray(<const float[:n]> values).copy() if n else np.empty(0, dtype=np.float32)


cdef dict exported_search(const Search* search):
    cdef const Candidate* candidate
    cdef int m
    columns = np.empty(search.n, dtype=np.int32)
    numbers = np.empty((search.n, 2 + 2 * BUCKETS), dtype=np.float32)
    for m in range(search.n):
        candidate = &search.candidates[m]
        columns[m] = candidate.column
        numbers[m, 0] = candidate.threshold
        numbers[m, 1] = candidate.weight
        numbers[m, 2:2 + BUCKETS] = floats(candidate.sums, BUCKETS)
        numbers[m, 2 + BUCKETS:] = floats(candidate.squares, BUCKETS)
    return {
        "rows": search.rows, "watched": search.watched, "next_look": search.next_look,
        "looks": search.looks, "sums": floats(search.sums, BUCKETS),
        "squares": floats(search.squares, BUCKETS), "columns": columns, "candidates": numbers,
    }


cdef int import_search(Search* search, dict state) except -1:
    cdef const float[::1] sums = state["sums"], squares = state["squares"]
    cdef const float[:, ::1] numbers = np.ascontiguousarray(state["candidates"])
    cdef const int32_t[::1] columns = state["columns"]
    cdef int m, b
    search.rows = state["rows"]
    search.watched = state["watched"]
    search.next_look = state["next_look"]
    search.looks = state["looks"]
    search.n = <int32_t> columns.shape[0]
    for b in range(BUCKETS):
        search.sums[b] = sums[b]
        search.squares[b] = squares[b]
    for m in range(search.n):
        search.candidates[m].column = columns[m]
        search.candidates[m].threshold = numbers[m, 0]
        search.candidates[m].weight = numbers[m, 1]
        for b in range(BUCKETS):
            search.candidates[m].sums[b] = numbers[m, 2 + b]
            search.candidates[m].squares[b] = numbers[m, 2 + BUCKETS + b]
    return 0
