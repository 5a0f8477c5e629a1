from libc.stdint cimport int32_t, int64_t

from streamtree._core.leaves.explanation cimport Explanation
from streamtree._core.store.budget cimport Budget, Ledger
from streamtree._core.stream.intake cimport Intake, Workspace
from streamtree._core.stream.row cimport Example, Prediction
from streamtree._core.stream.sources cimport RowSource
from streamtree._core.trees.tree cimport Tree


cdef double float_of(object value, object name) except? -1.0
cdef double as_weight(object w) except -1.0


cdef class Examples:
    # what is to be learned of the rows of a batch
    cdef int32_t[::1] labels            # None where there are targets; -1: no tree is to see it
    cdef const double[:, ::1] targets
    cdef const double[::1] weights      # None for 1 each

    cdef Example of(self, Py_ssize_t i) noexcept nogil


cdef class Learner:
    cdef readonly Intake intake
    cdef readonly Tree tree
    cdef readonly Tree challenger       # of a tree that may be outdated; None: there is none
    cdef Workspace aside                # what the challenger says and remembers of a row
    cdef Budget aside_budget            # of what it has learned
    cdef int64_t challenge_rows     # since it began, or the two changed places
    cdef readonly bint restarts     # a tree that may be outdated is challenged
    cdef double* said           # of a row whose loss is followed, where nobody asked
    cdef int64_t n_said         # there is room for so many labels or targets
    cdef object _make_tree      # makes another tree; None: it cannot be made
    cdef dict _settings         # what was configured since the tree was made, else None
    cdef Budget budget          # of what the tree has learned
    cdef object _max_bytes
    cdef frozenset _nominal
    cdef public int32_t n_jobs  # threads that learn or predict the rows of a batch
    cdef size_t _bytes
    cdef Py_ssize_t rows_learned        # of the batch that is learned, or was learned last
    cdef Ledger* _before        # whom the thread that learns counted for before

    cdef int look(self, Workspace workspace, const Example* example, bint zeros_implied,
                  Prediction* out) except -1 nogil
    cdef int look_only(self, Workspace workspace, bint zeros_implied,
                       Prediction* out) except -1 nogil
    cdef void foretell_before(self, Workspace workspace, const Example* example,
                              Prediction* out) noexcept nogil
    cdef int learn(self, Workspace workspace, const Example* example, bint zeros_implied,
                   Prediction* out) except -1 nogil
    cdef int foretell(self, Workspace workspace, Prediction* out) noexcept nogil
    cdef int answer(self, Workspace workspace, Prediction* out) noexcept nogil
    cdef void settle(self, Prediction* out) noexcept nogil
    cdef int settle_explanation(self, Explanation out) except -1
    cdef Py_ssize_t n_outputs(self) noexcept nogil
    cdef int learn_dict(self, x, y, w) except -1
    cdef object predict_dict(self, x)
    cdef int _bind(self, Intake intake) except -1
    cdef object _tree_bytes(self)
    cdef object _bytes_for_labels(self)
    cdef int _set_bound(self) except -1
    cdef int _bound_trees(self) except -1
    cdef bint _count(self, Workspace workspace, bint zeros_implied) except -1 nogil
    cdef int _begin_challenge(self) except -1
    cdef int _make_challenger(self, object bytes) except -1
    cdef bint _is_followed(self) noexcept nogil
    cdef int _make_said(self) except -1 nogil
    cdef int _challenge(self, Workspace workspace, const Example* example, bint is_new,
                        bint is_followed) except -1 nogil
    cdef int _judge_challenge(self) except -1
    cdef int _end_challenge(self) except -1
    cdef int begin_learning(self) except -1
    cdef void end_learning(self) noexcept
    cdef int predict_rows(self, RowSource source, list names, int32_t[::1] labels,
                          double[:, ::1] shares) except -1
    cdef int learn_rows(self, RowSource source, Examples examples, int32_t[::1] labels,
                        double[:, ::1] shares) except -1
    cdef int learn_row(self, Workspace own, const Example* example, bint zeros_implied,
                       Prediction* out) except -1 nogil
    cdef int begin_batch(self) except -1
    cdef int end_batch(self, RowSource source) except -1
    cdef int begin_growing(self) except -1
    cdef int forget(self) except -1
    cdef int take_back(self) except -1
    cdef Tree _new_tree(self)
    cdef int start_again(self) except -1
    cdef int replace_tree(self, Tree tree) except -1
    cdef int _forget_answers(self) except -1
    cdef int grow_rows(self, rows, list names, list first_rows, Examples examples) except -1
    cdef object examine_row(self, x, Examples examples)
