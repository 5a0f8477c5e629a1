"""The one shape in which every example reaches a learner."""

from libc.stdint cimport int32_t, uint64_t


cdef struct Parts:
    # A row as leaf models read it, see additive.pxd: keys of linear weights, then of knots.
    # Room for three numbers a value, and one. `order` and `presence` have room for a number a
    # value, and one, `by_column` for two.
    int32_t* keys
    float* values
    float* steps
    float* presence     # by linear part: 1 where a column that does not vary is not zero, else 0
    int32_t* top_slots
    int32_t* own_slots
    int32_t* bayes_slots
    uint64_t* order
    double* by_column


cdef struct Row:
    # `n` pairs (column, value); a column that is not listed contributes nothing.
    const int32_t* columns
    const double* values
    Py_ssize_t n
    int32_t top         # the largest column
    bint is_full        # the columns are 0, 1, …, n - 1
    # scratch for n numbers each, so that concurrent readers do not share any
    int32_t* slots
    double* steps
    const Parts* parts
