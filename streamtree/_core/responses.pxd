"""Linear models of several outputs, one gate or one leaf of a soft tree: header-only kernels.

A record holds the `capacity` weights of a column, one for each output, and behind them as many
sums of squared gradients; with one output that is the record of linear.pxd. `slots` is as there.
Every output has its own sum, so that the loops over outputs vectorise without reordering.
"""

from libc.math cimport exp, fabs, log, log1p, sqrt
from libc.stdint cimport int32_t

from streamtree._core.linear cimport dot, sgd_step


cdef enum Response:
    NUMBER = 0      # loss (F - r)^2 / 2
    LOGIT = 1       # two classes: cross-entropy of sigmoid(F)
    LOGITS = 2      # k classes: cross-entropy of softmax(F)


cdef inline double sigmoid(double score) noexcept nogil:
    """1 / (1 + exp(-score)), without overflow."""
    cdef double small
    if score >= 0.0:
        return 1.0 / (1.0 + exp(-score))
    small = exp(score)
    return small / (1.0 + small)


cdef inline void softmax(double* logits, int32_t n) noexcept nogil:
    """Turn n logits into probabilities, in place."""
    cdef double largest = logits[0], total = 0.0
    cdef int32_t i
    for i in range(1, n):
        largest = max(largest, logits[i])
    for i in range(n):
        logits[i] = exp(logits[i] - largest)
        total += logits[i]
    for i in range(n):
        logits[i] /= total


cdef inline double response_loss(
    int kind, const double* response, int32_t n, double target, double* slopes
) noexcept nogil:
    """The loss of a response against its target; writes d loss / d response.

    The target is a number, 0 or 1, or the number of the class.
    """
    cdef int32_t i, label
    cdef double score
    if kind == NUMBER:
        slopes[0] = response[0] - target
        return 0.5 * slopes[0] * slopes[0]
    if kind == LOGIT:
        slopes[0] = sigmoid(response[0]) - target
        score = response[0] if target > 0.0 else -response[0]
        return log1p(exp(-score)) if score > 0.0 else log1p(exp(score)) - score
    label = <int32_t> target
    for i in range(n):
        slopes[i] = response[i]
    softmax(slopes, n)
    score = slopes[label]
    slopes[label] -= 1.0
    return -log(score) if score > 1e-300 else 690.0


cdef inline void respond(
    const double* bias, const double* records, Py_ssize_t width, const int32_t* slots,
    const double* values, Py_ssize_t n_values, int32_t n, double* out
) noexcept nogil:
    """Write the n responses of a model; a slot of -1 has no record and adds nothing."""
    cdef Py_ssize_t i
    cdef int32_t c
    cdef const double* record
    cdef double value
    if n == 1 and width == 2:
        out[0] = bias[0] + dot(records, slots, values, n_values)
        return
    for c in range(n):
        out[c] = bias[c]
    for i in range(n_values):
        if slots != NULL and slots[i] < 0:
            continue
        record = &records[width * (slots[i] if slots != NULL else i)]
        value = values[i]
        for c in range(n):
            out[c] += record[c] * value


cdef inline void respond_sgd(
    double* bias, double* records, Py_ssize_t width, const int32_t* slots, const double* values,
    Py_ssize_t n_values, int32_t n, const double* slopes, double rate
) noexcept nogil:
    """One plain gradient step for every output."""
    cdef Py_ssize_t i
    cdef int32_t c
    cdef double* record
    for i in range(n_values):
        record = &records[width * (slots[i] if slots != NULL else i)]
        for c in range(n):
            record[c] -= rate * slopes[c] * values[i]
    for c in range(n):
        bias[c] -= rate * slopes[c]


cdef inline double adaptive_step(double* squares, double gradient, double prior) noexcept nogil:
    """Add a gradient to a sum of squares that started at `prior`; gradient / root of the sum."""
    squares[0] += gradient * gradient
    return gradient / sqrt(squares[0] + prior)


cdef inline void adagrad(
    double* bias, double* records, const int32_t* slots, const double* values, Py_ssize_t n,
    double* steps, double slope, double rate, double prior, double reach
) noexcept nogil:
    """One AdaGrad step of a model of one output, which moves its response by at most `reach`."""
    cdef double change, bias_step, lane0 = 0.0, lane1 = 0.0
    cdef Py_ssize_t i
    # roots and quotients first and alone, so that the compiler takes several at once
    if slots == NULL:
        for i in range(n):
            steps[i] = adaptive_step(&records[2 * i + 1], slope * values[i], prior)
    else:
        for i in range(n):
            steps[i] = adaptive_step(
                &records[2 * <Py_ssize_t> slots[i] + 1], slope * values[i], prior
            )
    bias_step = adaptive_step(&bias[1], slope, prior)
    i = 0
    while i + 2 <= n:
        lane0 += steps[i] * values[i]
        lane1 += steps[i + 1] * values[i + 1]
        i += 2
    if i < n:
        lane0 += steps[i] * values[i]
    change = fabs(rate * (lane0 + lane1 + bias_step))
    if change > reach:
        rate *= reach / change
    if slots == NULL:
        for i in range(n):
            records[2 * i] -= rate * steps[i]
    else:
        for i in range(n):
            records[2 * <Py_ssize_t> slots[i]] -= rate * steps[i]
    bias[0] -= rate * bias_step


cdef inline void adagrad_many(
    double* bias, double* records, Py_ssize_t width, const int32_t* slots, const double* values,
    Py_ssize_t n_values, int32_t n, const double* slopes, double rate, double prior
) noexcept nogil:
    """One AdaGrad step for every output."""
    cdef Py_ssize_t i, capacity = width // 2
    cdef int32_t c
    cdef double* weights
    cdef double* squares
    cdef double gradient, value
    for i in range(n_values):
        weights = &records[width * (slots[i] if slots != NULL else i)]
        squares = weights + capacity
        value = values[i]
        for c in range(n):
            gradient = slopes[c] * value
            squares[c] += gradient * gradient
            weights[c] -= rate * gradient / sqrt(squares[c] + prior)
    for c in range(n):
        bias[capacity + c] += slopes[c] * slopes[c]
        bias[c] -= rate * slopes[c] / sqrt(bias[capacity + c] + prior)
