from libc.stdint cimport int32_t, int64_t, uint32_t

from streamtree._core.kernels.moments cimport Moments
from streamtree._core.stream.row cimport Example, Row, Scratch
from streamtree._core.trees.contexts.counts cimport MOST_LABELS, SPEEDS, SUMS, ContextCounts, Record
from streamtree._core.trees.contexts.fields cimport MOST_CONTEXTS, ContextFields
from streamtree._core.trees.tree cimport Corrector


cdef struct Weights:
    # of a context, by speed
    float[SPEEDS] weights
    float[SPEEDS] squares       # fading, of the slopes


cdef struct Found:
    # the contexts of a row
    uint32_t[MOST_CONTEXTS] keys
    int32_t[MOST_CONTEXTS] slots        # of the records, -1 where there is none
    float[MOST_CONTEXTS][SUMS] fading       # of their sums


cdef struct Counted:
    # what is counted of a row with each of its contexts
    uint32_t row        # its number
    float weight
    int32_t label
    uint32_t labels     # that were looked for, and the label, by bit
    float missing       # of a number: in what the others said, in deviations


cdef struct Mixed:
    # of the row that was looked at last; behind it lies what every context says
    int32_t n_labels
    int64_t rows        # that were learned before it
    double[MOST_LABELS] said    # what all contexts together say
    uint32_t[MOST_CONTEXTS] labels      # that have evidence, by context and bit
    Found found


cdef struct MixedMeans:
    # the same of a number
    int64_t rows
    double said         # in deviations of the targets
    float[MOST_CONTEXTS][SPEEDS] evidence
    Found found


cdef class Contexts(Corrector):
    cdef ContextFields fields
    cdef ContextCounts counts
    cdef Weights* weights       # by context
    cdef float* losses          # of sums, by speed, whenever a context comes
    cdef int64_t rows           # learned
    cdef bint was_told          # what was expected of the row that is learned next
    cdef Counted counted        # what is to be learned of the row that was noted
    cdef void* noted            # what was found for it, a memo; NULL: contexts are not counted
    cdef bint is_late           # that was put off

    cdef Record* _find(self, Found* found, int32_t i) noexcept nogil
    cdef void _begin(self, const Row* row, Found* found) noexcept nogil
    cdef void _count(self, const Found* found) noexcept nogil
    cdef void _count_in(self, Record* record, const float* fading) noexcept nogil
    cdef bint _is_mixed(self, const Row* row, const Scratch* scratch) noexcept nogil
    cdef void _mix(self, const Row* row, Scratch* scratch) noexcept nogil
    cdef void _describe(self, const Example* example) noexcept nogil
    cdef void _learn_noted(self) noexcept nogil
    cdef int _look(self) except -1 nogil
    cdef list _fields_of(self, int32_t i)
    cdef int _add_moves(self, dict moves, int32_t i, const Row* row, object part) except -1


cdef class ContextTree(Contexts):
    cdef float[MOST_LABELS] expected    # of the row that is learned next

    cdef bint _says(self) noexcept nogil


cdef class ContextMeans(Contexts):
    cdef Moments targets
    cdef double expected                # by the others, of the row that is learned next

    cdef double _deviation(self) noexcept nogil
    cdef double _missing(self, const Example* example) noexcept nogil
