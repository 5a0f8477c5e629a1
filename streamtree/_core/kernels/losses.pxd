"""Losses and the functions that they are made of: header-only, pure functions of numbers.

A loss is one int in a learner's state; the functions switch on it.
"""

cimport cython
from libc.math cimport exp, fabs, log, log1p
from libc.stdint cimport int32_t


cpdef enum Loss:
    # of a score against a target of -1 or +1
    LOGISTIC = 0
    HINGE = 1
    SQUARED = 2
    ABSOLUTE = 3
    RAMP = 4
    EXPONENTIAL = 5


cdef enum Response:
    # what the outputs of a model stand for
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


cdef inline double softplus(double score) noexcept nogil:
    """ln(1 + exp(score)), without overflow."""
    return score + log1p(exp(-score)) if score > 0.0 else log1p(exp(score))


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


cdef inline int32_t argmax(const cython.floating* numbers, int32_t n) noexcept nogil:
    """Where the largest of n numbers is, the first of equals."""
    cdef int32_t i, best = 0
    for i in range(1, n):
        if numbers[i] > numbers[best]:
            best = i
    return best


cdef inline double log_sum_exp(
    const double* values, Py_ssize_t stride, Py_ssize_t n
) noexcept nogil:
    """ln of the sum of exp(value) over n > 0 values that lie `stride` numbers apart."""
    cdef double largest = values[0], total = 0.0
    cdef Py_ssize_t i
    for i in range(1, n):
        largest = max(largest, values[stride * i])
    for i in range(n):
        total += exp(values[stride * i] - largest)
    return largest + log(total)


cdef inline double loss_value(int loss, double score, double target) noexcept nogil:
    """Domain: any score s, target t of -1 or +1.

    logistic     ln(1 + exp(-t s))       squared      (s - t)^2 / 2
    hinge        max(0, 1 - t s)         absolute     |s - t|
    ramp         hinge, at most 1        exponential  exp(-t s)
    """
    cdef double margin = target * score
    if loss == LOGISTIC:
        return softplus(-margin)
    if loss == SQUARED:
        return 0.5 * (score - target) * (score - target)
    if loss == ABSOLUTE:
        return fabs(score - target)
    if loss == EXPONENTIAL:
        return exp(-margin)
    if not margin < 1.0:
        return 0.0
    return 1.0 - margin if loss == HINGE or margin > 0.0 else 1.0


cdef inline double loss_slope(int loss, double score, double target) noexcept nogil:
    """d loss / d score.

    Where the loss has a kink: 0 at its least value, -t at the upper one of the ramp.
    """
    cdef double margin = target * score
    if loss == LOGISTIC:
        return -target * sigmoid(-margin)
    if loss == SQUARED:
        return score - target
    if loss == ABSOLUTE:
        if score > target:
            return 1.0
        return -1.0 if score < target else 0.0
    if loss == EXPONENTIAL:
        return -target * exp(-margin)
    if not margin < 1.0 or loss == RAMP and margin < 0.0:
        return 0.0
    return -target


cdef inline double loss_reach(int loss, double score, double target) noexcept nogil:
    """How far one step may move the score: to the minimum of the loss, not past it.

    The logistic and the exponential loss have no minimum; a step of at most 1 past the target
    keeps the score finite.
    """
    if loss == LOGISTIC or loss == EXPONENTIAL:
        return fabs(score - target) + 1.0
    return fabs(score - target)


cdef inline double response_loss(
    int kind, const double* response, int32_t n, double target, double* slopes
) noexcept nogil:
    """The loss of a response against its target; writes d loss / d response.

    The target is a number, 0 or 1, or the number of the class.
    """
    cdef int32_t i, label
    cdef double share
    if kind == NUMBER:
        slopes[0] = response[0] - target
        return 0.5 * slopes[0] * slopes[0]
    if kind == LOGIT:
        slopes[0] = sigmoid(response[0]) - target
        return softplus(-response[0] if target > 0.0 else response[0])
    label = <int32_t> target
    for i in range(n):
        slopes[i] = response[i]
    softmax(slopes, n)
    share = slopes[label]
    slopes[label] -= 1.0
    # about -ln of the smallest double, where the share has none left
    return -log(share) if share > 1e-300 else 690.0
