"""Counting, comparing and arranging the labels declared in labels.pxd."""

cimport cython
from libc.stdint cimport int32_t, uint32_t
from libc.string cimport memcpy, memset

from streamtree._core.leaves.additive cimport MOST_CLASSES, Parts
from streamtree._core.store.budget cimport counted_room, give_back, spacious
from streamtree._core.store.state cimport export_records, import_records

import numpy as np

cdef enum:
    # of dividing a group by means
    ROUNDS = 12

# The share of the variance of rows that has to lie between labels for their means to arrange them.
# Where it is less, rows say little of a label: frequent ones are best kept together.
cdef double LEAST_BETWEEN = 0.2
# A label whose rows weigh less counts as one without rows: the square of the inverse is finite.
cdef double LEAST_COUNTED = 1e-150
# Of more rows than so many, the mean of a label fades: sums stay within single precision.
cdef double MOST_COUNTED = 65536.0

cdef LabelRecord _blank
RECORDS = np.asarray(<LabelRecord[:1]> &_blank).dtype


cdef void sort_placed(Placed* labels, int32_t n) noexcept nogil:
    """By ascending keys; equals stay in order. Groups are small."""
    cdef Placed here
    cdef int32_t i, j
    for i in range(1, n):
        here = labels[i]
        j = i
        while j > 0 and labels[j - 1].key > here.key:
            labels[j] = labels[j - 1]
            j -= 1
        labels[j] = here


cdef int32_t middle(const Placed* labels, int32_t n) noexcept nogil:
    """How many of the labels, in their order, go left: so that sides have the same weight."""
    cdef int32_t k, least = (n + 2) // 3, cut = least
    cdef double total = 0.0, below = 0.0, nearest = -1.0, distance
    for k in range(n):
        total += labels[k].weight
    for k in range(n - least + 1):
        distance = below - 0.5 * total if below > 0.5 * total else 0.5 * total - below
        if k >= least and (nearest < 0.0 or distance < nearest):
            cut, nearest = k, distance
        below += labels[k].weight
    return cut


cdef void fade(LabelRecord* record, float* sums) noexcept nogil:
    """Let what was counted of a label so far count half."""
    cdef int i
    for i in range(SKETCH):
        sums[i] *= <float> 0.5
    record.counted *= 0.5
    record.squares *= 0.5
    record.norms *= 0.5


@cython.final
cdef class Labels:
    """Records by label, and sums of rows by label as long as there are or may be groups."""

    def __dealloc__(self):
        give_back(self.records)
        give_back(self.sums)

    cdef int reserve(self, int32_t n) except -1 nogil:
        cdef int32_t label, before = self.n_records
        self.records = <LabelRecord*> counted_room(
            self.records, &self.n_records, n, sizeof(LabelRecord)
        )
        for label in range(before, self.n_records):
            self.records[label].group = -1
        return 0

    cdef size_t bytes_for(self, int32_t n) noexcept nogil:
        """How many bytes more records and sums of so many labels will take."""
        cdef size_t size = 0
        if n > self.n_records:
            size += (spacious(n) - self.n_records) * sizeof(LabelRecord)
        if n > self.n_sums:
            size += (spacious(n) - self.n_sums) * SKETCH * sizeof(float)
        return size

    cdef int reserve_sums(self, int32_t n) except -1 nogil:
        self.sums = <float*> counted_room(self.sums, &self.n_sums, n, SKETCH * sizeof(float))
        return 0

    cdef void forget_groups(self) noexcept nogil:
        """Keep the weights of labels alone."""
        cdef int32_t label
        give_back(self.sums)
        self.sums = NULL
        self.n_sums = 0
        for label in range(self.n_records):
            self.records[label] = LabelRecord(
                self.records[label].weight, 0.0, 0.0, 0.0, 0.0, -1, 0
            )

    # ----------------------------------------------------------------------------- means

    cdef void count(
        self, int32_t label, const Parts* parts, const uint32_t* hashes, double weight
    ) noexcept nogil:
        """Count a row in the mean of its label, for which there is room."""
        cdef LabelRecord* record = &self.records[label]
        cdef float* sums = &self.sums[<size_t> label * SKETCH]
        cdef double linear = 0.0, value
        cdef uint32_t word
        cdef Py_ssize_t i
        # without the bias, which comes first
        for i in range(1, parts.row.n_linear):
            value = parts.row.values[i]
            linear += value * value
            # by names, for columns may be numbered in another order
            word = hashes[parts.row.keys[i] - 1]
            if word >> 31:
                value = -value
            sums[word % SKETCH] += <float> (weight * value)
        record.counted += weight
        record.squares += weight * weight
        record.norms += weight * linear
        if record.counted * record.counted > MOST_COUNTED * record.squares:
            fade(record, sums)

    cdef inline double _inverse(self, int32_t label) noexcept nogil:
        """What makes the sums of a label its mean; 0 for one without rows."""
        cdef double weight = self.records[label].counted
        return 1.0 / weight if weight >= LEAST_COUNTED else 0.0

    cdef bint has_mean(self, int32_t label) noexcept nogil:
        """Whether rows of a label were counted."""
        return self._inverse(label) > 0.0

    cdef double distance(self, int32_t a, int32_t b) noexcept nogil:
        """The squared distance of two means."""
        cdef const float* one = &self.sums[<size_t> a * SKETCH]
        cdef const float* other = &self.sums[<size_t> b * SKETCH]
        cdef double of_one = self._inverse(a), of_other = self._inverse(b), apart
        # four sums side by side, so that none has to wait for another
        cdef double[4] sums
        cdef int i, lane
        for lane in range(4):
            sums[lane] = 0.0
        for i in range(0, SKETCH, 4):
            for lane in range(4):
                apart = of_one * one[i + lane] - of_other * other[i + lane]
                sums[lane] += apart * apart
        return (sums[0] + sums[1]) + (sums[2] + sums[3])

    cdef void _mean(self, const int32_t* group, int32_t n, double* mean) noexcept nogil:
        """The mean of the means of a group's labels; those without rows say nothing."""
        cdef const float* sums
        cdef double inverse
        cdef int32_t k, i, n_known = 0
        memset(mean, 0, SKETCH * sizeof(double))
        for k in range(n):
            inverse = self._inverse(group[k])
            sums = &self.sums[<size_t> group[k] * SKETCH]
            n_known += inverse > 0.0
            for i in range(SKETCH):
                mean[i] += inverse * sums[i]
        for i in range(SKETCH):
            mean[i] /= max(n_known, 1)

    cdef double _share_between(self, const int32_t* group, int32_t n) noexcept nogil:
        """The share of the variance of rows that lies between the labels of a group, from 0 to 1.

        It is estimated without the bias of few examples; labels count alike.
        """
        cdef const LabelRecord* record
        cdef const float* sums
        cdef double[SKETCH] mean
        cdef double within = 0.0, free = 0.0, between = 0.0, noise = 0.0, square, inverse
        cdef double of_mean
        cdef int32_t k, i, n_known = 0
        self._mean(group, n, mean)
        for k in range(n):
            record = &self.records[group[k]]
            inverse = self._inverse(group[k])
            if inverse == 0.0:
                continue
            sums = &self.sums[<size_t> group[k] * SKETCH]
            square = 0.0
            for i in range(SKETCH):
                of_mean = inverse * sums[i]
                square += of_mean * of_mean
                between += (of_mean - mean[i]) * (of_mean - mean[i])
            n_known += 1
            within += record.norms - record.counted * square
            free += record.counted - inverse * record.squares
            noise += inverse * (inverse * record.squares)
        if n_known < 2 or free <= 0.0:
            return 0.0
        within = max(within, 0.0) / free
        # what lies between means of few examples is in part the variance within
        between = between / (n_known - 1) - within * noise / n_known
        return between / (between + within) if between > 0.0 else 0.0

    cdef void _arrange(self, const int32_t* group, Placed* labels, int32_t n) noexcept nogil:
        """Order labels so that the means of the halves lie far apart: 2-means with equal sides.

        It begins with the direction from the most frequent label to the one farthest from it.
        """
        cdef const float* sums
        cdef double[SKETCH] mean
        cdef double[SKETCH] direction
        cdef double inverse, distance, farthest = -1.0
        cdef int32_t k, i, side, heaviest = -1, far = 0
        cdef int _turn
        self._mean(group, n, mean)
        # of those with rows, of which there are two
        for k in range(n):
            if self._inverse(group[k]) > 0.0 and (
                heaviest < 0 or self.records[group[k]].weight > self.records[group[heaviest]].weight
            ):
                heaviest = k
        for k in range(n):
            if self._inverse(group[k]) == 0.0:
                continue
            distance = self.distance(group[k], group[heaviest])
            if distance > farthest:
                farthest, far = distance, k
        for i in range(SKETCH):
            direction[i] = (
                self._inverse(group[far]) * self.sums[<size_t> group[far] * SKETCH + i]
                - self._inverse(group[heaviest])
                * self.sums[<size_t> group[heaviest] * SKETCH + i]
            )
        for _turn in range(ROUNDS):
            for k in range(n):
                sums = &self.sums[<size_t> group[labels[k].place] * SKETCH]
                inverse = self._inverse(group[labels[k].place])
                labels[k].key = 0.0
                for i in range(SKETCH if inverse > 0.0 else 0):
                    labels[k].key += (inverse * sums[i] - mean[i]) * direction[i]
            sort_placed(labels, n)
            memset(direction, 0, sizeof(direction))
            for k in range(n):
                sums = &self.sums[<size_t> group[labels[k].place] * SKETCH]
                inverse = self._inverse(group[labels[k].place])
                side = n // 2 - n if k < n // 2 else n // 2
                for i in range(SKETCH if inverse > 0.0 else 0):
                    direction[i] += side * (inverse * sums[i] - mean[i])

    # -------------------------------------------------------------------------- dividing

    cdef bint order(
        self, const int32_t* group, int32_t n, int32_t* places, int32_t* cut
    ) noexcept nogil:
        """Arrange the labels of a group that is to be divided: their places in order, and how many
        go left. Returns whether that is by means; else it is by frequency."""
        cdef Placed labels[MOST_CLASSES]
        cdef bint by_means = self._share_between(group, n) >= LEAST_BETWEEN
        cdef int32_t k
        for k in range(n):
            labels[k].place = k
            labels[k].weight = self.records[group[k]].weight
            labels[k].key = -labels[k].weight
        if by_means:
            self._arrange(group, labels, n)
            cut[0] = n // 2
        else:
            sort_placed(labels, n)
            cut[0] = middle(labels, n)
        for k in range(n):
            places[k] = labels[k].place
        return by_means

    # ----------------------------------------------------------------------------- state

    cdef object state(self, int32_t n):
        """What is known of so many labels, but for the sums, as a record array of shape (n,)."""
        self.reserve(n)
        return export_records(self.records, sizeof(LabelRecord), n, RECORDS)

    cdef object state_of_sums(self, int32_t n):
        """The sums of so many labels, of shape (n, SKETCH), or (0, SKETCH)."""
        cdef float[:, ::1] out
        n = n if self.n_sums else 0
        sums = np.zeros((n, SKETCH), dtype=np.float32)
        if n:
            self.reserve_sums(n)
            out = sums
            memcpy(&out[0, 0], self.sums, sums.nbytes)
        return sums

    cdef int take_state(self, object records, object sums) except -1:
        cdef const float[:, ::1] view
        cdef int32_t n = <int32_t> len(records)
        self.reserve(n)
        if n:
            import_records(self.records, sizeof(LabelRecord), records)
        if len(sums):
            self.reserve_sums(n)
            view = np.ascontiguousarray(sums)
            memcpy(self.sums, &view[0, 0], n * SKETCH * sizeof(float))
        return 0
