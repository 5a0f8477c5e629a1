"""Kernels of linear models whose records are (weight, sum of squared gradients) pairs.

`slots[i]` is the record of `values[i]`; slot s keeps its weight at records[2 s]. No slots at all
(NULL) means slot i for value i, as in a row that shows every column. Sums run over a fixed
number of lanes, so that they vectorise and give the same bits everywhere.
"""

from libc.math cimport fabs, sqrt
from libc.stdint cimport int32_t


cdef inline double dot(
    const double* records, const int32_t* slots, const double* values, Py_ssize_t n
) noexcept nogil:
    """Sum of weight times value. Without slots record i belongs to value i."""
    cdef double lane0 = 0.0, lane1 = 0.0, lane2 = 0.0, lane3 = 0.0
    cdef Py_ssize_t i = 0
    if slots == NULL:
        while i + 4 <= n:
            lane0 += records[2 * i] * values[i]
            lane1 += records[2 * i + 2] * values[i + 1]
            lane2 += records[2 * i + 4] * values[i + 2]
            lane3 += records[2 * i + 6] * values[i + 3]
            i += 4
        while i < n:
            lane0 += records[2 * i] * values[i]
            i += 1
        return (lane0 + lane1) + (lane2 + lane3)
    while i + 4 <= n:
        lane0 += weight_at(records, slots[i]) * values[i]
        lane1 += weight_at(records, slots[i + 1]) * values[i + 1]
        lane2 += weight_at(records, slots[i + 2]) * values[i + 2]
        lane3 += weight_at(records, slots[i + 3]) * values[i + 3]
        i += 4
    while i < n:
        lane0 += weight_at(records, slots[i]) * values[i]
        i += 1
    return (lane0 + lane1) + (lane2 + lane3)


cdef inline double weight_at(const double* records, int32_t slot) noexcept nogil:
    """A slot of -1 has no record and counts as weight 0."""
    return records[2 * <Py_ssize_t> slot] if slot >= 0 else 0.0


cdef inline double sgd_step(
    double* bias, double* records, const int32_t* slots, const double* values, Py_ssize_t n,
    double slope, double rate,
) noexcept nogil:
    """One plain gradient step; returns by how much the score changes."""
    cdef double factor = rate * slope
    cdef double norm = 1.0
    cdef Py_ssize_t i
    for i in range(n):
        records[2 * <Py_ssize_t> (slots[i] if slots != NULL else i)] -= factor * values[i]
        norm += values[i] * values[i]
    bias[0] -= factor
    return -factor * norm


cdef inline double adaptive_step(double* squares, double gradient, double keep) noexcept nogil:
    """Fade the sum of squared gradients, add the new one, return gradient / root."""
    squares[0] = keep * squares[0] + gradient * gradient
    # the constant makes 0/0 a 0; it is far below the square of any gradient that matters
    return gradient / sqrt(squares[0] + 1e-300)


cdef inline double adagrad_step(
    double* bias, double* records, const int32_t* slots, const double* values, Py_ssize_t n,
    double* steps, double slope, double rate, double keep, double reach,
) noexcept nogil:
    """One AdaGrad step with fading memory; returns by how much the score changes.

    `keep` is the share of the squared gradients that survives an update (1: AdaGrad as
    published). A step that would move the score further than `reach` is shortened to it.
    `steps` is scratch for n numbers.
    """
    cdef double change, bias_step, shorten = 1.0
    cdef double lane0 = 0.0, lane1 = 0.0
    cdef Py_ssize_t i
    # roots and quotients first and alone, so that the compiler takes several at once
    if slots == NULL:
        for i in range(n):
            steps[i] = adaptive_step(&records[2 * i + 1], slope * values[i], keep)
    else:
        for i in range(n):
            steps[i] = adaptive_step(
                &records[2 * <Py_ssize_t> slots[i] + 1], slope * values[i], keep
            )
    bias_step = adaptive_step(&bias[1], slope, keep)
    i = 0
    while i + 2 <= n:
        lane0 += steps[i] * values[i]
        lane1 += steps[i + 1] * values[i + 1]
        i += 2
    if i < n:
        lane0 += steps[i] * values[i]
    change = rate * (lane0 + lane1 + bias_step)
    if fabs(change) > reach:
        shorten = reach / fabs(change)
    rate *= shorten
    if slots == NULL:
        for i in range(n):
            records[2 * i] -= rate * steps[i]
    else:
        for i in range(n):
            records[2 * <Py_ssize_t> slots[i]] -= rate * steps[i]
    bias[0] -= rate * bias_step
    return -shorten * change
