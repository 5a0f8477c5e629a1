"""The best real values of a node's branches under a penalised loss: pure functions of numbers.

Notation of Goldman & Singer: a branch holds the weight `positive` (mu) of the positives and
`negative` (nu) of the negatives, or for squared loss the sums `weight` and `total` of w and w y;
b is the bias, the sum of the real values above; alpha is what the branch adds to it; f = b + alpha.

    logistic     mu ln(1 + exp(-f)) + nu ln(1 + exp(f))
    hinge        mu max(0, 1 - f) + nu max(0, 1 + f)
    ramp         hinge less mu max(0, -f) + nu max(0, f): the difference of two hinges
    exponential  mu exp(-f) + nu exp(f)
    squared      weight f^2 / 2 - total f

The penalty is lambda |alpha| per branch (p = 1), or lambda max |alpha| over the branches of a
predicate (p = infinity). Every solver minimises loss + penalty exactly. |f| stays within
SCORE_BOUND, which a pure branch without penalty would leave for infinity; where that matters the
loss is below 1e-14 of the weight.
"""

from libc.math cimport exp, fabs, log, sqrt
from libc.stdint cimport int32_t

from streamtree._core.kernels.losses cimport (
    EXPONENTIAL, HINGE, LOGISTIC, RAMP, SQUARED, loss_slope, loss_value
)


cdef enum:
    SCORE_BOUND = 35


cdef extern from *:
    """
    #define STREAMTREE_ROUNDING 1e-12
    #define STREAMTREE_SMALLEST_SHARE 1e-15
    #define STREAMTREE_UNLIMITED 1e100
    """
    # an excess below this share of the branch's weight is rounding
    const double ROUNDING "STREAMTREE_ROUNDING"
    # the smallest share that a class is taken to have where its branch comes from
    const double SMALLEST_SHARE "STREAMTREE_SMALLEST_SHARE"
    # no limit to alpha
    const double UNLIMITED "STREAMTREE_UNLIMITED"


cdef struct Share:
    # one class in one branch: its share there, and in what the node above predicts
    double count
    double parent


cdef struct Branches:
    # the n branches of a predicate, below one bias
    const double* positive
    const double* negative
    int32_t n
    int loss
    double b


cdef struct Scale:
    # one branch, by the size of its best value alone
    double size
    double alpha
    int32_t branch


cdef inline double bounded(double f) noexcept nogil:
    if f > SCORE_BOUND:
        return SCORE_BOUND
    return f if f >= -SCORE_BOUND else -SCORE_BOUND


cdef inline double node_loss(
    int loss, double positive, double negative, double f
) noexcept nogil:
    """The loss of a branch at f; for squared loss of (weight, total), without the constant."""
    if loss == SQUARED:
        return (0.5 * positive * f - negative) * f
    return positive * loss_value(loss, f, 1.0) + negative * loss_value(loss, f, -1.0)


cdef inline double excess(int loss, double positive, double negative, double b) noexcept nogil:
    """- d loss / d f at b of a smooth loss: what the branch has more than its bias accounts for.

    logistic     mu - m sigma(b) = mu sigma(-b) - nu sigma(b)
    exponential  mu exp(-b) - nu exp(b)
    squared      total - weight b
    """
    if loss == SQUARED:
        return negative - positive * b
    return -positive * loss_slope(loss, b, 1.0) - negative * loss_slope(loss, b, -1.0)


cdef inline double best_of_kinks(
    int loss, double positive, double negative, double b, double lam, double limit
) noexcept nogil:
    """The best alpha of a piecewise linear loss with |alpha| <= limit: one of its kinks.

    Those are 0, 1 - b and -1 - b, for the ramp -b as well, and the two limits; 0 if equal.
    """
    cdef double best = node_loss(loss, positive, negative, b)
    cdef double alpha = 0.0, value, candidate
    cdef int i
    best -= ROUNDING * (positive + negative)
    for i in range(5):
        if i == 0:
            candidate = 1.0 - b
        elif i == 1:
            candidate = -1.0 - b
        elif i == 2:
            candidate = limit
        elif i == 3:
            candidate = -limit
        elif loss == RAMP:
            candidate = -b
        else:
            continue
        if fabs(candidate) <= limit and fabs(candidate) < UNLIMITED:
            value = node_loss(loss, positive, negative, b + candidate) + lam * fabs(candidate)
            if value < best:
                best = value
                alpha = candidate
    return alpha


cdef inline double alpha_l1(
    int loss, double positive, double negative, double b, double lam
) noexcept nogil:
    """The alpha that minimises loss(b + alpha) + lambda |alpha|; 0 means: do not grow.

    With the excess e of the branch, 0 if |e| <= lambda; else, with s = sign(e),
    logistic     logit((mu - lambda s) / m) - b
    exponential  ln t with nu exp(b) t^2 + lambda s t - mu exp(-b) = 0, t > 0
    squared      (e - lambda s) / weight
    hinge, ramp  the best of the kinks, see `best_of_kinks`
    """
    cdef double e, s, up, down, root, f
    if loss == HINGE or loss == RAMP:
        return best_of_kinks(loss, positive, negative, b, lam, UNLIMITED)
    e = excess(loss, positive, negative, b)
    if loss == SQUARED:
        if fabs(e) <= lam + ROUNDING * (fabs(negative) + positive * fabs(b)):
            return 0.0
        return (e - lam if e > 0 else e + lam) / positive
    if loss == LOGISTIC:
        if fabs(e) <= lam + ROUNDING * (positive + negative):
            return 0.0
        s = 1.0 if e > 0 else -1.0
        up = positive - lam * s
        down = negative + lam * s
    else:
        up = positive * exp(-b)
        down = negative * exp(b)
        if fabs(e) <= lam + ROUNDING * (up + down):
            return 0.0
        s = 1.0 if e > 0 else -1.0
        root = sqrt(lam * lam + 4.0 * up * down)
        # t as a quotient whose terms do not cancel; the bias is added below
        if s > 0:
            up, down = 2.0 * up, lam + root
        else:
            up, down = lam + root, 2.0 * down
    if not up > 0.0:
        f = -SCORE_BOUND
    elif not down > 0.0:
        f = SCORE_BOUND
    else:
        f = bounded(log(up / down) + (0.0 if loss == LOGISTIC else b))
    # beyond the bound there is nothing left to gain
    return f - b if (f - b) * s > 0.0 else 0.0


cdef inline double gain_l1(
    int loss, double positive, double negative, double b, double lam
) noexcept nogil:
    """How much lower loss + penalty is at the best alpha than at alpha = 0."""
    cdef double alpha = alpha_l1(loss, positive, negative, b, lam)
    cdef double gain
    if alpha == 0.0:
        return 0.0
    if loss == SQUARED:
        gain = (excess(SQUARED, positive, negative, b) - 0.5 * positive * alpha) * alpha
    else:
        gain = (node_loss(loss, positive, negative, b)
                - node_loss(loss, positive, negative, b + alpha))
    gain -= lam * fabs(alpha)
    return gain if gain > 0.0 else 0.0


cdef inline double gain_log_l1(
    double positive, double negative, double b, double share, double lam
) noexcept nogil:
    """`gain_l1` of the logistic loss where share = sigma(b) is at hand, in two logarithms.

    With p = (mu - lambda s) / m and u = sigma(b) the gain is
    mu ln(p / u) + nu ln((1 - p) / (1 - u)) - lambda |alpha|, alpha the difference of the two.
    """
    cdef double m = positive + negative
    cdef double e = positive * (1.0 - share) - negative * share
    cdef double up, down
    if fabs(e) <= lam + ROUNDING * m:
        return 0.0
    up = positive - lam if e > 0.0 else positive + lam
    down = negative + lam if e > 0.0 else negative - lam
    # near 0 or 1 a share has few digits left
    if up <= 0.0 or down <= 0.0 or fabs(b) > 10.0:
        return gain_l1(LOGISTIC, positive, negative, b, lam)
    up = log(up / (m * share))
    down = log(down / (m * (1.0 - share)))
    m = positive * up + negative * down - lam * fabs(up - down)
    return m if m > 0.0 else 0.0


# p = infinity, and many classes: need room for their sorting

cdef double alpha_linf(
    const Branches* branches, double lam, double* alpha, Scale* scratch
) noexcept nogil
cdef double shares_multiclass(
    const double* counts, const double* parent, int32_t n, double lam, double* shares,
    Share* scratch
) noexcept nogil
