"""Additive softmax models of one node: tables of single-precision weights.

A row is read in parts, see stream/encoding: part 0 is the bias, then come linear parts, then knots.

A record holds the weights of a part: for every learning rate one number a class (`stride` of
them, or one for two classes), and behind them the sum of squared gradients, which all share. A
class that the model has not met has the bias UNMET, and so a probability of zero.
"""

from libc.stdint cimport int32_t

from streamtree._core.store.tables cimport Table
from streamtree._core.stream.row cimport MOST_FINE, MOST_PLACES, EncodedRow, FineKnots
from streamtree._core.stream.scales cimport ColumnScale


cpdef enum:
    RATES = 2           # models side by side, one for each learning rate
    MOST_CLASSES = MOST_PLACES

cdef enum:
    UNMET = -10_000     # the score of a place without a label, the bias of a class not met
    ROOM_PARTS = 8      # records have room for one part of so many classes more


cdef struct FineRecords:
    # of the columns that a model looks at closely
    Table knots         # FINE_KNOTS * place of the column in `columns` + knot -> record
    int32_t columns[MOST_FINE]
    int32_t n


cdef struct AdditiveModel:
    Table linear        # column + 1, 0 for the bias -> record
    Table knots         # KNOTS * column + knot -> record
    FineRecords* fine   # NULL: it looks at no column closely
    int32_t stride      # 1: up to two classes and one score; else classes, a multiple of 4


cdef struct Parts:
    # what a model reads of a row, and where it finds its records
    const EncodedRow* row
    Py_ssize_t n            # parts that it reads: all, or the linear ones
    int32_t n_columns       # of the stream
    const int32_t* slots    # of the records of the parts, -1 where there is none
    bint is_complete        # there is a record for every part
    int32_t* room           # for slots
    float* steps            # for a number a part
    FineKnots* fine         # besides; NULL: the model has none


cdef struct AdditiveStep:
    float square            # the squared gradient of the scores, which all of them share
    float offset            # added to the sums of squares: the first steps need not be the largest
    float decay             # share of the sums that survives a step
    const float* slopes     # of the scores, times their rates


cdef inline int record_width(int32_t stride) noexcept nogil:
    """The width of a record as a table counts it, in pairs of single-precision numbers."""
    return (RATES * stride + 2) // 2


cdef inline int32_t stride_for(int32_t n) noexcept nogil:
    """Room for so many classes."""
    return min((n + 3) // 4 * 4, MOST_CLASSES)


# how a record of so many classes becomes one of more
ctypedef void (*CopyRecord)(
    const float* record, int32_t stride, float* grown, int32_t wide
) noexcept nogil


cdef void add_table(
    const Table* table, int32_t stride, const int32_t* slots, const float* values, Py_ssize_t n,
    float* scores, int n_scores
) noexcept nogil
cdef void add_parts(
    const AdditiveModel* model, const Parts* parts, float* scores, int n_scores
) noexcept nogil
cdef void train_parts(AdditiveModel* model, const Parts* parts,
                      const AdditiveStep* step) noexcept nogil
cdef bint next_run(const Parts* parts, Py_ssize_t* start, Py_ssize_t* end) noexcept nogil
cdef void find_parts(const AdditiveModel* model, Parts* parts) noexcept nogil
cdef int make_parts(AdditiveModel* model, Parts* parts) except -1 nogil
cdef object part_records(const AdditiveModel* model, const Parts* parts, int width)
cdef int add_fine_records(const AdditiveModel* model, const Parts* parts,
                          object scores) except -1
cdef tuple by_column(const Parts* parts, object scores)
cdef bint has_met(const AdditiveModel* model, int32_t place) noexcept nogil
cdef int meet(
    AdditiveModel* model, int32_t place, int32_t n_classes, int32_t n_columns
) except -1 nogil
cdef int add_fine_column(AdditiveModel* model, int32_t column) except -1 nogil
cdef int widen_tables(
    AdditiveModel* model, int32_t n_classes, int32_t n_columns, CopyRecord copy
) except -1 nogil
cdef int clone_model(
    AdditiveModel* model, const AdditiveModel* source, const ColumnScale* scales
) except -1 nogil
cdef void free_model(AdditiveModel* model) noexcept nogil
cdef size_t model_bytes(const AdditiveModel* model) noexcept nogil
cdef dict exported_model(const AdditiveModel* model)
cdef int import_model(AdditiveModel* model, int32_t n_columns, dict state) except -1
cdef dict exported_fine(const AdditiveModel* model)
cdef int import_fine(AdditiveModel* model, dict state) except -1
