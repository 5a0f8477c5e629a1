from libc.stdint cimport int32_t

from streamtree._core.features cimport FeatureIndex, RowBuffer
from streamtree._core.labels cimport LabelIndex
from streamtree._core.rows cimport RowSource
from streamtree._core.scaling cimport ColumnScaler
from streamtree._core.shrinkage cimport Shrinkage
from streamtree._core.types cimport Row


cdef class Learner:
    cdef readonly FeatureIndex features
    cdef readonly ColumnScaler scaler
    cdef RowBuffer raw
    cdef RowBuffer scaled
    cdef bint is_learning
    cdef int n_predicting
    cdef bint _is_reading

    cdef int begin_learning(self) except -1
    cdef int begin_predicting(self) except -1
    cdef RowBuffer read_known(self, object x)
    cdef int check_example(self, object x, double w) except -1
    cdef int commit_example(self) except -1
    cdef int end_batch(self, RowSource source, columns) except -1
    cdef list path_of(self, Row row)
    cdef object node_depths(self)
    cdef dict state(self)
    cdef int take_state(self, dict state) except -1


cdef class ClassifierCore(Learner):
    cdef readonly LabelIndex labels

    cdef void expect(self, int32_t label) noexcept nogil
    cdef void approach(self, int32_t label) noexcept nogil
    cdef int learn_row(self, Row row, int32_t label, double weight) except -1 nogil
    cdef int32_t predict_row(self, Row row) noexcept nogil
    cdef void predict_proba_row(self, Row row, double* out) noexcept nogil


cdef class RegressorCore(Learner):
    cdef readonly list targets
    cdef readonly int32_t n_targets
    cdef bint shrinks           # towards the mean of the targets, as far as that pays
    cdef double[::1] _target
    cdef double[::1] _predicted
    cdef Shrinkage[::1] _shrinkage

    cdef int make_room(self, int32_t n_targets) except -1
    cdef int learn_example(self, Row row, const double* target, double weight) except -1 nogil
    cdef void answer(self, Row row, double* out) noexcept nogil
    cdef int learn_row(self, Row row, const double* target, double weight) except -1 nogil
    cdef void predict_row(self, Row row, double* out) noexcept nogil
    cdef int name_targets(self, list names) except -1
    cdef int check_target(self, object y) except -1
