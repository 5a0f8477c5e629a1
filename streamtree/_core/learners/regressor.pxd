from libc.stdint cimport int32_t

from streamtree._core.kernels.shrinkage cimport Shrinkage
from streamtree._core.learners.learner cimport Learner
from streamtree._core.stream.intake cimport Workspace
from streamtree._core.stream.row cimport Example, Prediction
from streamtree._core.stream.scales cimport ColumnScale


cdef class Regressor(Learner):
    cdef readonly list targets
    cdef readonly bint shrinks          # towards the mean of the targets, as far as that pays
    cdef readonly bint is_robust        # no target far out is learned as it is
    cdef ColumnScale[::1] _scales       # of the targets
    cdef double[:, ::1] _learned        # the range of what the tree has learned, by target
    cdef double[::1] _within
    cdef double[::1] _target
    cdef double[::1] _predicted
    cdef Shrinkage[::1] _shrinkage

    cdef int _set_scales(self, scales) except -1
    cdef bint _bound(self, const double* targets) noexcept nogil
    cdef int _learn_within(self, Workspace workspace, const Example* example, bint zeros_implied,
                           Prediction* out) except -1 nogil
    cdef void _judge(self, Shrinkage* state, double* said, double target, double weight,
                     bint answers) noexcept nogil
    cdef int make_room(self, int32_t n_targets) except -1
    cdef int name_targets(self, list names) except -1
    cdef list check_target(self, object y)
