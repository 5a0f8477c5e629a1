"""Softmax models of the labels of a group, and logistic ones of two sides, with AdaGrad by weight.

They lie in the tables of additive models (see additive.pxd), with other records: a weight for every
label, behind them their sums of squared gradients, and nothing behind. Models of two sides have a
stride of 0: a record is one weight and its sum. Every label has its rate of its own, however
seldom it comes: shared sums would not let rare labels learn, and sums that fade would forget them.
Sums of two sides may fade.
"""

from libc.stdint cimport int32_t

from streamtree._core.leaves.additive cimport AdditiveModel, Parts


cdef struct StepSize:
    float rate
    float offset        # added to the sums of squares
    float decay         # share of the sums that survives a step


cdef void prefetch_parts(const AdditiveModel* model, const Parts* parts) noexcept nogil
cdef double side_score(const AdditiveModel* model, Parts* parts) noexcept nogil
cdef bint step_side(
    AdditiveModel* model, Parts* parts, double slope, const StepSize* size
) except -1 nogil
cdef void label_shares(
    const AdditiveModel* model, Parts* parts, int32_t n_labels, float* shares
) noexcept nogil
cdef void label_logs(
    const AdditiveModel* model, Parts* parts, int32_t n_labels, float* logs
) noexcept nogil
cdef bint step_labels(
    AdditiveModel* model, Parts* parts, int32_t n_labels, int32_t place, float* shares,
    double weight, const StepSize* size
) except -1 nogil
cdef void forget_least(AdditiveModel* model, int32_t n_columns) noexcept nogil
cdef void forget_label(AdditiveModel* model, int32_t place) noexcept nogil
cdef int make_room(AdditiveModel* model, int32_t n_labels, int32_t n_columns) except -1 nogil
cdef int take_part(
    AdditiveModel* part, const AdditiveModel* model, const int32_t* places, int32_t n_labels,
    int32_t n_columns
) except -1 nogil
cdef int take_mixture(
    AdditiveModel* model, const AdditiveModel* mixture, int32_t n_labels, int32_t n_columns
) except -1 nogil
cdef int take_difference(
    AdditiveModel* test, const AdditiveModel* model, const int32_t* places, int32_t n_labels,
    int32_t cut, int32_t n_columns
) except -1 nogil
