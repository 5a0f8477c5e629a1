"""What a label tree knows of every label: in which group it is, and the mean of its rows.

A mean is kept in a random projection (signed feature hashing), so a label takes the same bytes
whatever the number of columns. By the means the labels of a group are arranged that is divided.
"""

from libc.stdint cimport int32_t, uint32_t

from streamtree._core.leaves.additive cimport Parts

cdef enum:
    # a row, projected, has so many numbers
    SKETCH = 64


cdef struct LabelRecord:
    double weight           # of the examples of the label
    # of the examples whose rows were counted
    double counted          # weight
    double squares          # sum of squared weights
    double norms            # sum of weighted squared norms
    double used             # the number of the last row
    int32_t group           # the node in whose group it is, -1: in none
    int32_t place           # in the group


cdef struct Placed:
    # a label of a group that is to be divided
    double key
    double weight
    int32_t place


cdef class Labels:
    cdef LabelRecord* records   # by label
    cdef int32_t n_records
    cdef float* sums            # by label: of its rows, projected; while there may be groups
    cdef int32_t n_sums

    cdef int reserve(self, int32_t n) except -1 nogil
    cdef size_t bytes_for(self, int32_t n) noexcept nogil
    cdef int reserve_sums(self, int32_t n) except -1 nogil
    cdef void count(
        self, int32_t label, const Parts* parts, const uint32_t* hashes, double weight
    ) noexcept nogil
    cdef void forget_groups(self) noexcept nogil
    cdef bint has_mean(self, int32_t label) noexcept nogil
    cdef double distance(self, int32_t a, int32_t b) noexcept nogil
    cdef bint order(
        self, const int32_t* group, int32_t n, int32_t* places, int32_t* cut
    ) noexcept nogil
    cdef object state(self, int32_t n)
    cdef object state_of_sums(self, int32_t n)
    cdef int take_state(self, object records, object sums) except -1

    cdef double _inverse(self, int32_t label) noexcept nogil
    cdef void _mean(self, const int32_t* group, int32_t n, double* mean) noexcept nogil
    cdef double _share_between(self, const int32_t* group, int32_t n) noexcept nogil
    cdef void _arrange(self, const int32_t* group, Placed* labels, int32_t n) noexcept nogil
