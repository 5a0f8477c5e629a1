"""Which contexts a row is in: columns in bins, one, two and three at a time, and last labels."""

from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t

from streamtree._core.kernels.bins cimport BINS as MOST_BINS
from streamtree._core.stream.context cimport Context
from streamtree._core.stream.fields cimport Candidate
from streamtree._core.stream.row cimport Row

cpdef enum:
    MOST_FIELDS = 64
    # contexts of two fields; where there are more labels than so many, fewer
    MOST_PAIRS = 45
    FEW_PAIRS = 15
    MANY_LABELS = 12
    # one of three fields for so many of two
    PAIRS_A_TRIPLE = 5
    # of the last label and the last two, and of the last one and a field
    LAST = 2
    MOST_AFTER = 6
    # of the exact values of a column
    MOST_NAMED = 8
    MOST_CONTEXTS = 136         # of all kinds together
    # so many rows are kept to see where bins end
    BLOCK = 256
    # cuts that `bin_of` looks at
    ROOM = MOST_BINS


cdef struct Field:
    int32_t column      # of numbers, or the first of the feature's categories
    int32_t group       # the feature with categories, else -1
    uint32_t name       # a hash of the name of the column or feature
    int32_t n_cuts
    uint32_t n_changes  # how often the cuts became others
    bint has_many       # different values in some block, of which at least one came again
    bint has_fractions  # among them
    bint is_named       # there is a context of its exact values
    float[ROOM] cuts      # those that are not there are above all


cdef struct FieldsOf:
    # The fields of a context; -1: it has fewer. Behind the fields come the last label, the last
    # two, and the fields once more, by their exact values.
    int32_t[3] fields
    uint64_t name       # by which it is known


cdef class ContextFields:
    cdef Context context
    cdef Field* fields
    cdef readonly int32_t n_fields
    cdef FieldsOf* contexts
    cdef readonly int32_t n_contexts
    cdef int32_t most_pairs
    cdef bint has_labels        # the last ones make contexts, too
    cdef float* sample          # by field, a ring of the values of the last rows
    cdef int64_t seen           # rows since there are these fields
    cdef int32_t[LAST] last     # labels, the newest first; -1 before there were any

    cdef int bind(self, Context context) except -1
    cdef void keys_of(self, const Row* row, uint32_t* keys) noexcept nogil
    cdef void push(self, const Row* row, int32_t label) noexcept nogil
    cdef void cut(self) noexcept nogil
    cdef bint is_exact(self, int32_t i) noexcept nogil
    cdef bint has_names(self) noexcept nogil
    cdef bint is_due(self) noexcept nogil
    cdef int look(self) except -1 nogil
    cdef int32_t _list(self, Candidate* found) noexcept nogil
    cdef int _take(self, const Candidate* found, int32_t n,
                   int32_t most_pairs) except -1 nogil
    cdef int32_t _contexts_of(self, const Candidate* found, int32_t n,
                              FieldsOf* list) noexcept nogil
    cdef Field _field_of(self, const Candidate* found) noexcept nogil
    cdef bint _may_name(self, int32_t f, int32_t* n_named) noexcept nogil
    cdef void _cut(self, int32_t f) noexcept nogil
    cdef dict state(self)
    cdef int take_state(self, dict state) except -1
