"""What came with contexts, and was expected: one table of a bounded size, which forgets."""

from libc.stdint cimport int32_t, uint32_t

cdef extern from "../../kernels/evidence.h" nogil:
    cpdef enum:
        # how fast sums fade, so many ways side by side
        SPEEDS "STREAMTREE_SPEEDS"
        # by speed what came, and by speed what was expected
        SUMS "STREAMTREE_SUMS"


cpdef enum:
    # labels that are told apart
    MOST_LABELS = 32


cdef struct Record:
    # behind it lie the sums: SUMS of every label
    uint32_t key        # of the context, an odd number; 0: the slot is free
    uint32_t last       # the number of the row that came with it last
    uint32_t labels     # those that came with it, or were expected, by bit
    uint32_t unused


cdef class ContextCounts:
    cdef char* records
    cdef readonly int32_t n_slots       # a power of 2, or 0
    cdef readonly int32_t n_used
    cdef readonly int32_t n_places      # labels for which a record has sums
    cdef size_t size                    # bytes of a record

    cdef inline Record* at(self, int32_t slot) noexcept nogil:
        return <Record*> &self.records[slot * self.size]

    cdef inline float* counts_of(self, Record* record) noexcept nogil:
        return <float*> &record[1]

    cdef int32_t find(self, uint32_t key) noexcept nogil
    cdef Record* find_or_add(self, uint32_t key, uint32_t last, uint32_t row) noexcept nogil
    cdef int make_room(self, int32_t n_labels, int32_t n_more, uint32_t row) except -1 nogil
    cdef int _lay(self, int32_t n_slots, int32_t n_places, uint32_t row) except -1 nogil
    cdef int clear(self) except -1 nogil
    cdef dict state(self)
    cdef int take_state(self, dict state) except -1
