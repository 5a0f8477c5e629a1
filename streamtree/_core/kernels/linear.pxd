"""Kernels of linear models of one output or of several.

With one output, records are (weight, sum of squared gradients) pairs. With several, a record of
`width` numbers holds width / 2 weights, one for each output, and behind them as many sums of
squared gradients; a bias is laid out as a record. Sums run over a fixed number of lanes, so that
they vectorise and give the same bits everywhere.
"""

from libc.math cimport fabs, sqrt
from libc.stdint cimport int32_t

cdef enum:
    # scores beyond this carry no information; the bound keeps every sum finite
    SCORE_LIMIT = 1000000000
    # Added to the mean squared norm of rows, by which rates are divided: without it, rows of two or
    # three words learn by leaps.
    NORM_OFFSET = 4


cdef struct Inputs:
    # The values of a row and the records of a model that belong to them.
    const double* values
    # the record of each value; NULL: record i belongs to value i; -1: there is none, its weight
    # counts as 0 and is not trained
    const int32_t* slots
    Py_ssize_t n
    double* steps           # scratch for n numbers; only AdaGrad steps of one output use it
    Py_ssize_t n_absent     # values without a record; steps look at it


cdef struct StepRule:
    # How far an AdaGrad step goes: sum of squares <- decay * sum + gradient^2, and then
    # step = rate * gradient / sqrt(sum + prior). With decay = 1 it is AdaGrad as published.
    double rate
    double decay
    double prior
    double reach            # a step moves the score by at most this


cdef inline double dot(const double* records, const Inputs* x) noexcept nogil:
    """Sum of weight times value."""
    cdef double lane0 = 0.0, lane1 = 0.0, lane2 = 0.0, lane3 = 0.0
    cdef const double* values = x.values
    cdef const int32_t* slots = x.slots
    cdef Py_ssize_t i = 0, n = x.n
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


cdef inline double limited(double score) noexcept nogil:
    """A finite score; NaN, which only overflow can make, counts as 0."""
    if not score <= SCORE_LIMIT:
        return SCORE_LIMIT if score > 0 else 0.0
    return score if score >= -SCORE_LIMIT else -SCORE_LIMIT


cdef inline double sgd_step(
    double* bias, double* records, const Inputs* x, double slope, double rate
) noexcept nogil:
    """One plain gradient step; returns by how much the score changes."""
    cdef const double* values = x.values
    cdef const int32_t* slots = x.slots
    cdef double factor = rate * slope
    cdef double norm = 1.0
    cdef Py_ssize_t i
    for i in range(x.n):
        if x.n_absent and slots[i] < 0:
            continue
        records[2 * <Py_ssize_t> (slots[i] if slots != NULL else i)] -= factor * values[i]
        norm += values[i] * values[i]
    bias[0] -= factor
    return -factor * norm


cdef inline double adaptive_root(
    double* squares, double gradient, double decay, double prior
) noexcept nogil:
    """Decay the sum of squared gradients and add the new one; what the step is divided by."""
    squares[0] = decay * squares[0] + gradient * gradient
    return sqrt(squares[0] + prior)


cdef inline double adaptive_step(
    double* squares, double gradient, double decay, double prior
) noexcept nogil:
    """As `adaptive_root`; returns gradient / root."""
    return gradient / adaptive_root(squares, gradient, decay, prior)


cdef inline double adagrad_step_of_known(
    double* bias, double* records, const Inputs* x, double slope, const StepRule* rule
) noexcept nogil:
    """`adagrad_step` where some values have no record."""
    cdef double change, bias_step, rate = rule.rate
    cdef double* record
    cdef Py_ssize_t i
    bias_step = change = adaptive_step(&bias[1], slope, rule.decay, rule.prior)
    for i in range(x.n):
        if x.slots[i] < 0:
            continue
        record = &records[2 * <Py_ssize_t> x.slots[i]]
        x.steps[i] = adaptive_step(&record[1], slope * x.values[i], rule.decay, rule.prior)
        change += x.steps[i] * x.values[i]
    change *= rate
    if fabs(change) > rule.reach:
        rate *= rule.reach / fabs(change)
        change *= rule.reach / fabs(change)
    for i in range(x.n):
        if x.slots[i] >= 0:
            records[2 * <Py_ssize_t> x.slots[i]] -= rate * x.steps[i]
    bias[0] -= rate * bias_step
    return -change


cdef inline double adagrad_step(
    double* bias, double* records, const Inputs* x, double slope, const StepRule* rule
) noexcept nogil:
    """One AdaGrad step; returns by how much the score changes.

    A step that would move the score further than the rule's reach is shortened to it.
    """
    cdef const double* values = x.values
    cdef const int32_t* slots = x.slots
    cdef double* steps = x.steps
    cdef double rate = rule.rate, decay = rule.decay, prior = rule.prior
    cdef double change, bias_step, shorten = 1.0
    cdef double lane0 = 0.0, lane1 = 0.0
    cdef Py_ssize_t i, n = x.n
    if x.n_absent:
        return adagrad_step_of_known(bias, records, x, slope, rule)
    # roots and quotients first and alone, so that the compiler takes several at once
    if slots == NULL:
        for i in range(n):
            steps[i] = adaptive_step(&records[2 * i + 1], slope * values[i], decay, prior)
    else:
        for i in range(n):
            steps[i] = adaptive_step(
                &records[2 * <Py_ssize_t> slots[i] + 1], slope * values[i], decay, prior
            )
    bias_step = adaptive_step(&bias[1], slope, decay, prior)
    i = 0
    while i + 2 <= n:
        lane0 += steps[i] * values[i]
        lane1 += steps[i + 1] * values[i + 1]
        i += 2
    if i < n:
        lane0 += steps[i] * values[i]
    change = rate * (lane0 + lane1 + bias_step)
    if fabs(change) > rule.reach:
        shorten = rule.reach / fabs(change)
    rate *= shorten
    if slots == NULL:
        for i in range(n):
            records[2 * i] -= rate * steps[i]
    else:
        for i in range(n):
            records[2 * <Py_ssize_t> slots[i]] -= rate * steps[i]
    bias[0] -= rate * bias_step
    return -shorten * change


cdef inline void respond(
    const double* bias, const double* records, Py_ssize_t width, const Inputs* x, int32_t n,
    double* out
) noexcept nogil:
    """Write the n outputs of a model."""
    cdef const double* values = x.values
    cdef const int32_t* slots = x.slots
    cdef const double* record
    cdef double value
    cdef Py_ssize_t i
    cdef int32_t c
    if n == 1 and width == 2:
        out[0] = bias[0] + dot(records, x)
        return
    for c in range(n):
        out[c] = bias[c]
    for i in range(x.n):
        if slots != NULL and slots[i] < 0:
            continue
        record = &records[width * (slots[i] if slots != NULL else i)]
        value = values[i]
        for c in range(n):
            out[c] += record[c] * value


cdef inline void sgd_steps(
    double* bias, double* records, Py_ssize_t width, const Inputs* x, int32_t n,
    const double* slopes, double rate
) noexcept nogil:
    """One plain gradient step for every output."""
    cdef const double* values = x.values
    cdef const int32_t* slots = x.slots
    cdef double* record
    cdef Py_ssize_t i
    cdef int32_t c
    for i in range(x.n):
        if x.n_absent and slots[i] < 0:
            continue
        record = &records[width * (slots[i] if slots != NULL else i)]
        for c in range(n):
            record[c] -= rate * slopes[c] * values[i]
    for c in range(n):
        bias[c] -= rate * slopes[c]


cdef inline void adagrad_steps(
    double* bias, double* records, Py_ssize_t width, const Inputs* x, int32_t n,
    const double* slopes, const StepRule* rule
) noexcept nogil:
    """One AdaGrad step for every output. The rule's reach is not looked at."""
    cdef const double* values = x.values
    cdef const int32_t* slots = x.slots
    cdef double rate = rule.rate, decay = rule.decay, prior = rule.prior
    cdef double* weights
    cdef double* squares
    cdef double gradient, value
    cdef Py_ssize_t i, capacity = width // 2
    cdef int32_t c
    for i in range(x.n):
        if x.n_absent and slots[i] < 0:
            continue
        weights = &records[width * (slots[i] if slots != NULL else i)]
        squares = weights + capacity
        value = values[i]
        for c in range(n):
            gradient = slopes[c] * value
            weights[c] -= rate * gradient / adaptive_root(&squares[c], gradient, decay, prior)
    for c in range(n):
        bias[c] -= rate * slopes[c] / adaptive_root(&bias[capacity + c], slopes[c], decay, prior)
