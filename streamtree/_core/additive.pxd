"""Additive softmax models of one node: tables of single-precision weights.

A row is read in parts. Every value has a linear weight; the value of a column that varies has two
more, those of the knots around it, so that what a column says may be any piecewise linear
function of its value. Part 0 is the bias.

A record holds the weights of a part: for every learning rate one number a class (`stride` of
them, or one for two classes), and behind them the sum of squared gradients, which all share. A
class that the model has not met has the bias UNMET, and so a probability of zero.
"""

from libc.stdint cimport int32_t

from streamtree._core.tables cimport Table
from streamtree._core.types cimport Parts


cpdef enum:
    RATES = 2           # models side by side, one for each learning rate
    KNOTS = 8           # of a column
    MOST_CLASSES = 256


cdef struct LeafModel:
    Table linear        # column + 1, 0 for the bias -> record
    Table knots         # KNOTS * column + knot -> record
    int32_t stride      # 1: up to two classes and one score; else classes, a multiple of 4


cdef inline int record_width(int32_t stride) noexcept nogil:
    """The width of a record as a table counts it, in pairs of single-precision numbers."""
    return (RATES * stride + 2) // 2


# how a record of so many classes becomes one of more
ctypedef void (*CopyRecord)(
    const float* record, int32_t stride, float* grown, int32_t wide
) noexcept nogil


cdef void add_table(
    const Table* table, int32_t stride, const int32_t* slots, const float* values, Py_ssize_t n,
    float* scores, int n_scores
) noexcept nogil
cdef void add_parts(
    const LeafModel* model, const Parts* parts, Py_ssize_t n_linear, Py_ssize_t n,
    const int32_t* slots, float* scores
) noexcept nogil
cdef void train_parts(
    LeafModel* model, const Parts* parts, Py_ssize_t n_linear, Py_ssize_t n, const int32_t* slots,
    float square, float offset, float keep, const float* slopes
) noexcept nogil
cdef const int32_t* find_parts(
    const LeafModel* model, const Parts* parts, Py_ssize_t n_linear, Py_ssize_t n,
    int32_t n_columns, int32_t* room, bint* is_complete
) noexcept nogil
cdef int make_parts(
    LeafModel* model, const Parts* parts, Py_ssize_t n_linear, Py_ssize_t n, int32_t n_columns,
    int32_t* slots
) except -1 nogil
cdef bint has_met(const LeafModel* model, int32_t place) noexcept nogil
cdef int meet(LeafModel* model, int32_t place, int32_t n_classes, int32_t n_columns) except -1 nogil
cdef int widen_tables(
    LeafModel* model, int32_t n_classes, int32_t n_columns, CopyRecord copy
) except -1 nogil
cdef int clone_model(LeafModel* model, const LeafModel* source) except -1 nogil
cdef void free_model(LeafModel* model) noexcept nogil
cdef size_t model_bytes(const LeafModel* model) noexcept nogil
