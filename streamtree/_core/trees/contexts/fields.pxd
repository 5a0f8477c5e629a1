"""Which contexts a row is in: its columns in bins, one, two and three at a time."""

from libc.stdint cimport int32_t, uint32_t, uint64_t

from streamtree._core.stream.context cimport Context
from streamtree._core.stream.row cimport Row

cdef enum:
    MOST_FIELDS = 64
    # of two fields, and of three a third as many; of more labels than so many fewer
    MOST_PAIRS = 48
    FEW_PAIRS = 18
    MANY_LABELS = 12
    MOST_CONTEXTS = 128         # of all three kinds together
    # so many rows are kept to see where bins end; the first time fewer
    BLOCK = 256
    # cuts that `bin_of` looks at
    ROOM = 64


cdef struct Field:
    int32_t column      # of numbers, or the first of the feature's categories
    int32_t group       # the feature with categories, else -1
    uint32_t name       # a hash of the name of the column or feature
    int32_t n_cuts
    uint32_t n_changes  # how often the cuts became others
    float[64] cuts      # those that are not there are above all


cdef struct FieldsOf:
    # the fields of a context; -1: it has fewer
    int32_t[3] fields
    uint64_t name       # by which it is known


cdef class ContextFields:
    cdef Context context
    cdef Field* fields
    cdef readonly int32_t n_fields
    cdef FieldsOf* contexts
    cdef readonly int32_t n_contexts
    cdef int32_t most_pairs
    cdef float* sample          # by field, the values of the last rows
    cdef readonly int32_t n_sampled
    cdef bint has_cut           # whether a block has shown where bins end

    cdef int bind(self, Context context) except -1
    cdef void keys_of(self, const Row* row, uint32_t* keys) noexcept nogil
    cdef bint push(self, const Row* row) noexcept nogil
    cdef int look(self) except -1 nogil
    cdef int32_t _list(self, Field* found) noexcept nogil
    cdef int _choose(self, const Field* found, int32_t n) except -1 nogil
    cdef int _take(self, const Field* found, int32_t n, const FieldsOf* list,
                   int32_t m) except -1 nogil
    cdef void _cut(self, int32_t f) noexcept nogil
    cdef dict state(self)
    cdef int take_state(self, dict state) except -1
