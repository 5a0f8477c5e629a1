"""Losses of a score against a target of -1 or +1: header-only, pure functions of numbers.

A loss is one int in a learner's state; the functions switch on it.
"""

from libc.math cimport exp, fabs, log1p


cpdef enum Loss:
    LOGISTIC = 0
    HINGE = 1
    SQUARED = 2
    ABSOLUTE = 3


cdef inline double loss_value(int loss, double score, double target) noexcept nogil:
    """Domain: any score, target -1 or +1.

    logistic  ln(1 + exp(-t s))        hinge     max(0, 1 - t s)
    squared   (s - t)^2 / 2            absolute  |s - t|
    """
    cdef double margin = target * score
    if loss == LOGISTIC:
        # exp never overflows: its argument is never positive
        return log1p(exp(-margin)) if margin > 0 else log1p(exp(margin)) - margin
    if loss == HINGE:
        return 1.0 - margin if margin < 1.0 else 0.0
    if loss == SQUARED:
        return 0.5 * (score - target) * (score - target)
    return fabs(score - target)


cdef inline double loss_slope(int loss, double score, double target) noexcept nogil:
    """d loss / d score; a subgradient where the loss has a kink (0 at the kink itself)."""
    cdef double margin = target * score
    cdef double small
    if loss == LOGISTIC:
        if margin > 0:
            small = exp(-margin)
            return -target * small / (1.0 + small)
        return -target / (1.0 + exp(margin))
    if loss == HINGE:
        return -target if margin < 1.0 else 0.0
    if loss == SQUARED:
        return score - target
    if score > target:
        return 1.0
    return -1.0 if score < target else 0.0


cdef inline double loss_reach(int loss, double score, double target) noexcept nogil:
    """How far one step may move the score: to the minimum of the loss, not past it.

    The logistic loss has no minimum; a step of at most 1 past the target keeps it finite.
    """
    if loss == LOGISTIC:
        return fabs(score - target) + 1.0
    return fabs(score - target)
