from libc.stdint cimport int32_t

from streamtree._core.leaves.explanation cimport Explanation
from streamtree._core.stream.row cimport Example, Prediction, Row, Scratch
from streamtree._core.trees.tree cimport Tree


cdef struct Part:
    # a tree that is no ensemble, of an ensemble or of one of its members: all borrowed
    void* tree
    void* ledger        # the Budget of what it learns
    void* owner         # the ensemble that pools what it says
    Py_ssize_t place    # of its first Scratch
    bint corrects       # it is a Corrector


cdef struct Lesson:
    # a row that all parts of an ensemble learn
    const Row* row
    const Example* example
    Scratch* scratch
    bint asks           # they say before what the row would have been


cdef class Exchange:
    cdef list here                  # whether a member is in this process
    cdef double[:, :, ::1] rows     # what members say, by row, output and member
    cdef readonly Py_ssize_t n_rows     # that are behind it


cdef class Ensemble(Tree):
    cdef readonly list members
    cdef list names                 # of the members, for errors; None: they go by number
    cdef Exchange exchange          # None: all members are here
    cdef list budgets               # of the members
    cdef void** trees               # the members, borrowed
    cdef void** ledgers             # their budgets, borrowed
    cdef Py_ssize_t* places         # of a member's first Scratch
    cdef bint* is_pool              # whether a member is an ensemble
    cdef bint* is_here              # whether it is in this process
    cdef Py_ssize_t n_members
    cdef Py_ssize_t corrector       # the member that corrects the others, the last one, or -1
    cdef bint has_correctors        # it has one, or a member does
    cdef Part* parts                # of all members
    cdef int32_t n_parts
    cdef void* put_off_by           # the Lessons that may have a row for the pool to learn, or NULL

    cdef Tree member(self, Py_ssize_t m)
    cdef int _list_parts(self) except -1
    cdef bint is_passed(self, Py_ssize_t m) noexcept nogil
    cdef list first_shares(self)
    cdef list shares(self)
    cdef Py_ssize_t n_outputs(self) noexcept nogil
    cdef int ask(self, const Row* row, Scratch* scratch) noexcept nogil
    cdef int begin(self, const Row* row, const Example* example, Scratch* scratch,
                   bint is_shared) except -1 nogil
    cdef bint is_helped(self, const Scratch* scratch) noexcept nogil
    cdef int teach(self, const Lesson* lesson) except -1 nogil
    cdef void end(self, const Example* example, Scratch* scratch) noexcept nogil
    cdef int correct(self, const Row* row, const Example* example,
                     Scratch* scratch) except -1 nogil
    cdef void prepare(self, double* said) noexcept nogil
    cdef void pool_all(self, Scratch* scratch) noexcept nogil
    cdef void pool(self, Scratch* scratch) noexcept nogil
    cdef void judge_members(self, const Example* example, Scratch* scratch) noexcept nogil
    cdef void judge_pool(self, const Example* example, Scratch* scratch) noexcept nogil
    cdef void tell(self, const double* pooled, Scratch* scratch) noexcept nogil
    cdef bint may_put_off(self) noexcept nogil
    cdef void learn_pooling(self, const Example* example, Scratch* scratch) noexcept nogil
    cdef list member_explanations(self, const Row* row, Scratch* scratch, Explanation out)
    cdef void answer(self, const Scratch* scratch, Prediction* out) noexcept nogil
    cdef dict own_state(self)
    cdef int take_own_state(self, dict state) except -1


cdef class MeanPool(Ensemble):
    pass
