from libc.stdint cimport int32_t

from streamtree._core.features cimport FeatureIndex, RowBuffer
from streamtree._core.labels cimport LabelIndex
from streamtree._core.rows cimport RowSource
from streamtree._core.scaling cimport ColumnScaler
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


cdef class ClassifierCore(Learner):
    cdef readonly LabelIndex labels

    cdef int learn_row(self, Row row, int32_t label, double weight) except -1 nogil
    cdef int32_t predict_row(self, Row row) noexcept nogil
    cdef void predict_proba_row(self, Row row, double* out) noexcept nogil
