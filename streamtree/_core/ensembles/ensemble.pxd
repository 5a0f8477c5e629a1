from streamtree._core.leaves.explanation cimport Explanation
from streamtree._core.stream.row cimport Example, Prediction, Row, Scratch
from streamtree._core.trees.tree cimport Tree


cdef class Ensemble(Tree):
    cdef readonly list members
    cdef void** trees               # the same, borrowed
    cdef Py_ssize_t* places         # of a member's first Scratch
    cdef Py_ssize_t n_members

    cdef Tree member(self, Py_ssize_t m)
    cdef Py_ssize_t n_outputs(self) noexcept nogil
    cdef int ask(self, const Row* row, Scratch* scratch) noexcept nogil
    cdef int teach(self, const Row* row, const Example* example, Scratch* scratch,
                   bint asks) except -1 nogil
    cdef void prepare(self, double* said) noexcept nogil
    cdef void pool(self, Scratch* scratch) noexcept nogil
    cdef void judge_members(self, const Example* example, Scratch* scratch) noexcept nogil
    cdef void judge_pool(self, const Example* example, Scratch* scratch) noexcept nogil
    cdef double member_weight(self, Py_ssize_t m) noexcept nogil
    cdef list member_explanations(self, const Row* row, Scratch* scratch, Explanation out)
    cdef void answer(self, const Scratch* scratch, Prediction* out) noexcept nogil
    cdef dict own_state(self)
    cdef int take_own_state(self, dict state) except -1


cdef class MeanPool(Ensemble):
    pass
