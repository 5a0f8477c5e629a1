from libc.stdint cimport int32_t

from streamtree._core.leaves.explanation cimport Explanation
from streamtree._core.splits.scoretest cimport Residuals
from streamtree._core.stream.context cimport Context
from streamtree._core.stream.row cimport Example, Prediction, Row, Scratch


cdef class LeafModels:
    cdef Context context
    cdef readonly int views
    # see Tree
    cdef size_t memo_size
    cdef size_t memo_place_size
    # what the tree itself predicts for the row to be learned, for models that compare themselves
    # with it; -1 and NaN: nothing
    cdef int32_t tree_label
    cdef double tree_number

    cdef int bind(self, Context context) except -1
    cdef int reserve(self, int32_t n) except -1 nogil
    cdef int open(self, int32_t node) except -1 nogil
    cdef int clone(self, int32_t node, int32_t child) except -1 nogil
    cdef int look_closely(self, int32_t node, int32_t column) except -1 nogil
    cdef void clear(self, int32_t node) noexcept nogil
    cdef bint predict(self, int32_t node, const Row* row, Scratch* scratch,
                      Prediction* out) noexcept nogil
    cdef int explain(self, int32_t node, const Row* row, Scratch* scratch, Explanation out,
                     double difference) except -1
    cdef bint learn(self, int32_t node, const Row* row, const Example* example, Scratch* scratch,
                    Prediction* out) except -1 nogil
    cdef void residuals(self, int32_t node, Scratch* scratch, Residuals* out) noexcept nogil
    cdef size_t bytes_of(self, int32_t node) noexcept nogil
    cdef dict state(self, int32_t n_nodes)
    cdef int take_state(self, dict state) except -1
