"""The solvers that sort, and a way to every solver from Python, for tests and references."""

from libc.math cimport exp, fabs, log, sqrt
from libc.stdint cimport int32_t
from libc.stdlib cimport qsort

from streamtree._core.kernels.losses cimport sigmoid

import numpy as np

cdef enum:
    # Newton's steps within bounds end long before this.
    MAX_STEPS = 100


cdef struct Active:
    # the branches whose value is at +-r, as sums over which G(r) is one formula
    double first
    double second
    double third


cdef int larger_scale_first(const void* a, const void* b) noexcept nogil:
    cdef const Scale* x = <const Scale*> a
    cdef const Scale* y = <const Scale*> b
    if x.size != y.size:
        return 1 if x.size < y.size else -1
    return 1 if x.branch > y.branch else -1


cdef double slope_sum(int loss, const Active* active, double b, double r) noexcept nogil:
    """G(r): how fast the active branches' loss falls in r, see `alpha_linf`."""
    if loss == LOGISTIC:
        return active.first - active.second * sigmoid(b + r) - active.third * sigmoid(r - b)
    if loss == EXPONENTIAL:
        return active.first * exp(-r) - active.second * exp(r)
    return active.first - active.second * r


cdef double radius(
    int loss, const Active* active, double b, double lam, double low, double high
) noexcept nogil:
    """The root of G(r) = lambda in [low, high], where G falls.

    squared      (first - lambda) / second
    exponential  t = exp(r): second t^2 + lambda t - first = 0
    """
    cdef double r
    if loss == SQUARED:
        r = (active.first - lam) / active.second
    elif loss == EXPONENTIAL:
        r = log(2.0 * active.first / (
            lam + sqrt(lam * lam + 4.0 * active.first * active.second)
        ))
    else:
        r = logistic_radius(active, b, lam, &low, &high)
    if not r >= low:
        return low
    return r if r <= high else high


cdef double logistic_radius(
    const Active* active, double b, double lam, double* low, double* high
) noexcept nogil:
    """`radius` of the logistic loss; draws low and high closer around it.

    With t = exp(r), k = first - lambda and a = exp(b) it is a root of
    (k - second - third) t^2 + (k (a + 1/a) - second a - third / a) t + k = 0, which is then made
    exact by Newton's steps within bounds, for the terms may cancel.
    """
    cdef double second = active.second, third = active.third
    cdef double k = active.first - lam
    cdef double a = exp(b)
    cdef double p = k - second - third
    cdef double q = k * (a + 1.0 / a) - second * a - third / a
    cdef double root = q * q - 4.0 * p * k
    cdef double r = 0.5 * (low[0] + high[0])
    cdef double step, slope, value
    if root >= 0.0:
        # of the two forms of each root the one whose terms have the same sign
        root = -0.5 * (q + (sqrt(root) if q >= 0.0 else -sqrt(root)))
        if root != 0.0 and k / root > 0.0 and low[0] <= log(k / root) <= high[0]:
            r = log(k / root)
        elif p != 0.0 and root / p > 0.0 and low[0] <= log(root / p) <= high[0]:
            r = log(root / p)
    for _ in range(MAX_STEPS):
        value = slope_sum(LOGISTIC, active, b, r) - lam
        if value > 0.0:
            low[0] = r
        else:
            high[0] = r
        slope = (second * sigmoid(b + r) * sigmoid(-b - r)
                 + third * sigmoid(r - b) * sigmoid(b - r))
        step = value / slope if slope > 0.0 else 0.0
        if not low[0] <= r + step <= high[0] or slope <= 0.0:
            step = 0.5 * (low[0] + high[0]) - r
        r += step
        if fabs(step) <= 1e-15 * (1.0 + r):
            break
    return r


cdef double gain_of(
    const Branches* branches, double lam, double r, const double* alpha
) noexcept nogil:
    """How much lower loss + lambda r is at these alphas than at 0."""
    cdef int loss = branches.loss
    cdef const double* positive = branches.positive
    cdef const double* negative = branches.negative
    cdef double gain = 0.0, b = branches.b
    cdef int32_t j
    for j in range(branches.n):
        if alpha[j] != 0.0:
            if loss == SQUARED:
                gain += alpha[j] * (
                    excess(SQUARED, positive[j], negative[j], b) - 0.5 * positive[j] * alpha[j]
                )
            else:
                gain += (node_loss(loss, positive[j], negative[j], b)
                         - node_loss(loss, positive[j], negative[j], b + alpha[j]))
    return gain - lam * r


cdef double gain_within(
    const Branches* branches, double lam, double limit, double* alpha
) noexcept nogil:
    """Write the best alphas of a piecewise linear loss with |alpha| <= limit; returns the gain."""
    cdef int32_t j
    for j in range(branches.n):
        alpha[j] = best_of_kinks(
            branches.loss, branches.positive[j], branches.negative[j], branches.b, 0.0, limit
        )
    return gain_of(branches, lam, limit, alpha)


cdef double kinked_linf(const Branches* branches, double lam, double* alpha) noexcept nogil:
    """Piecewise linear losses: the best r is 0 or the size of a kink, |1 - b|, |1 + b|, |b|.

    Between two of them every branch is best at a kink of its own or at +-r, so that the
    objective is a minimum of linear functions of r: concave, best at an end.
    """
    cdef double[3] limits
    cdef double gain, best = 0.0, best_limit = 0.0
    cdef int32_t j
    cdef int i
    limits[0] = fabs(1.0 - branches.b)
    limits[1] = fabs(1.0 + branches.b)
    limits[2] = fabs(branches.b)
    for j in range(branches.n):
        best += ROUNDING * (branches.positive[j] + branches.negative[j])
    for i in range(3):
        gain = gain_within(branches, lam, limits[i], alpha)
        if gain > best:
            best = gain
            best_limit = limits[i]
    if best_limit > 0.0:
        return gain_within(branches, lam, best_limit, alpha)
    for j in range(branches.n):
        alpha[j] = 0.0
    return 0.0


cdef double largest_alpha(const Branches* branches, double lam, Scale* scales) noexcept nogil:
    """The root r of G(r) = lambda > 0, 0 where there is none, see `alpha_linf`; sorts scales."""
    cdef int loss = branches.loss
    cdef double b = branches.b, positive, negative, low
    cdef Active active = Active(0.0, 0.0, 0.0)
    cdef int32_t i
    qsort(scales, branches.n, sizeof(Scale), larger_scale_first)
    for i in range(branches.n):
        positive = branches.positive[scales[i].branch]
        negative = branches.negative[scales[i].branch]
        if loss == SQUARED:
            active.first += fabs(excess(SQUARED, positive, negative, b))
            active.second += positive
        elif loss == EXPONENTIAL:
            active.first += positive * exp(-b) if scales[i].alpha > 0 else negative * exp(b)
            active.second += negative * exp(b) if scales[i].alpha > 0 else positive * exp(-b)
        elif scales[i].alpha > 0:
            active.first += positive
            active.second += positive + negative
        else:
            active.first += negative
            active.third += positive + negative
        low = scales[i + 1].size if i + 1 < branches.n else 0.0
        if low < scales[i].size and slope_sum(loss, &active, b, low) >= lam:
            return radius(loss, &active, b, lam, low, scales[i].size)
    return 0.0


cdef double alpha_linf(
    const Branches* branches, double lam, double* alpha, Scale* scratch
) noexcept nogil:
    """The alphas that minimise sum of losses + lambda max |alpha|; returns the gain over 0.

    All 0 if sum |e_j| <= lambda. Else alpha_j = clip(best alone, -r, r), where r > 0 is the root
    of G(r) = lambda, G(r) the sum over the branches with |best alone| > r of |d loss / d alpha|
    at +-r. G falls, and between two of the sorted sizes it is one formula: `radius`.
    """
    cdef int loss = branches.loss
    cdef double total = 0.0, r = 0.0, gain, positive, negative
    cdef int32_t j
    if loss == HINGE or loss == RAMP:
        return kinked_linf(branches, lam, alpha)
    for j in range(branches.n):
        positive = branches.positive[j]
        negative = branches.negative[j]
        alpha[j] = alpha_l1(loss, positive, negative, branches.b, 0.0)
        if alpha[j] != 0.0:
            total += fabs(excess(loss, positive, negative, branches.b))
        r = max(r, fabs(alpha[j]))
        scratch[j].alpha = alpha[j]
        scratch[j].size = fabs(alpha[j])
        scratch[j].branch = j
    if lam > 0.0:
        r = 0.0 if total <= lam else largest_alpha(branches, lam, scratch)
    for j in range(branches.n):
        if fabs(alpha[j]) > r:
            alpha[j] = r if alpha[j] > 0 else -r
    gain = gain_of(branches, lam, r, alpha)
    return gain if gain > 0.0 else 0.0


cdef void fill(
    const Share* classes, int32_t n, double half, double* highest, double* lowest
) noexcept nogil:
    """The factors hi and lo of `shares_multiclass`."""
    cdef double hi = 1.0, lo = 1.0, above, below, u, q
    cdef double q_above, u_above, q_below, u_below, counts_above, counts_below
    cdef int32_t i
    # from 1, where both sums are above l / 2, `hi` only rises and `lo` only falls
    while True:
        q_above = u_above = q_below = u_below = 0.0
        for i in range(n):
            # no branches: which classes count is hard to predict
            q = classes[i].count
            u = classes[i].parent
            counts_above = q > hi * u
            counts_below = q < lo * u
            q_above += counts_above * q
            u_above += counts_above * u
            q_below += counts_below * q
            u_below += counts_below * u
        # without any class left they are infinite, or no number
        above = (q_above - half) / u_above
        below = (q_below + half) / u_below
        if not (above > hi or below < lo):
            break
        if above > hi:
            hi = above
        if below < lo:
            lo = below
    highest[0] = hi
    # without penalty a class that the branch lacks would go to minus infinity
    lowest[0] = max(lo, SMALLEST_SHARE)


cdef double shares_multiclass(
    const double* counts, const double* parent, int32_t n, double lam, double* shares,
    Share* scratch
) noexcept nogil:
    """Cross-entropy of n classes, penalty lambda max_i |alpha_i|; returns the gain over alpha = 0.

    With q the class shares of the branch, u those that the node above predicts and
    l = lambda / weight of the branch: nothing grows if |q - u|_1 <= l. Else the shares are
    p_i = clip(q_i, lo u_i, hi u_i) with

        sum (q_i - hi u_i)+ = l / 2        sum (lo u_i - q_i)+ = l / 2

    two water-fillings, solved exactly by Newton's method in a few passes, as both sums are
    piecewise linear and convex; alpha_i = ln(p_i / u_i) - ln(hi lo) / 2 and the penalty is
    lambda ln(hi / lo) / 2. `shares` may be NULL.
    """
    cdef double weight = 0.0, distance = 0.0, gain = 0.0, half, hi, lo, u, q, p
    cdef int32_t i
    for i in range(n):
        weight += counts[i]
    if weight <= 0.0:
        half = 1.0
    else:
        for i in range(n):
            u = max(parent[i], SMALLEST_SHARE)
            scratch[i].count = counts[i] / weight
            scratch[i].parent = u
            distance += fabs(scratch[i].count - u)
        half = 0.5 * lam / weight
    if weight <= 0.0 or distance <= 2.0 * half + ROUNDING:
        if shares != NULL:
            for i in range(n):
                shares[i] = parent[i]
        return 0.0
    fill(scratch, n, half, &hi, &lo)
    for i in range(n):
        q = scratch[i].count
        u = scratch[i].parent
        p = min(max(q, lo * u), hi * u)
        if q > 0.0:
            gain += q * log(p / u)
        if shares != NULL:
            shares[i] = p
    gain -= half * log(hi / lo)
    return weight * gain if gain > 0.0 else 0.0


# ---------------------------------------------------------------- from Python, for tests


def branch_loss(int loss, double positive, double negative, double f):
    """The loss of a branch whose score is f."""
    return node_loss(loss, positive, negative, f)


def solve_l1(int loss, double positive, double negative, double b, double lam):
    """(alpha, gain) of one branch under lambda |alpha|."""
    return (
        alpha_l1(loss, positive, negative, b, lam), gain_l1(loss, positive, negative, b, lam)
    )


def log_gain(double positive, double negative, double b, double lam):
    """The gain of `solve_l1` for the logistic loss, by the shorter way."""
    return gain_log_l1(positive, negative, b, sigmoid(b), lam)


def solve_linf(
    int loss, const double[::1] positive, const double[::1] negative, double b, double lam
):
    """(alphas, gain) of the branches of a predicate under lambda max |alpha|."""
    cdef int32_t n = <int32_t> positive.shape[0]
    alphas = np.zeros(n)
    cdef double[::1] out = alphas
    cdef char[::1] scratch = np.zeros(n * sizeof(Scale), dtype=np.byte)
    cdef Branches branches = Branches(&positive[0], &negative[0], n, loss, b)
    gain = alpha_linf(&branches, lam, &out[0], <Scale*> &scratch[0])
    return alphas, gain


def solve_multiclass(const double[::1] counts, const double[::1] parent, double lam):
    """(shares, gain) of one branch: class shares p that replace the parent's."""
    cdef int32_t n = <int32_t> counts.shape[0]
    shares = np.zeros(n)
    cdef double[::1] out = shares
    cdef char[::1] scratch = np.zeros(n * sizeof(Share), dtype=np.byte)
    gain = shares_multiclass(&counts[0], &parent[0], n, lam, &out[0], <Share*> &scratch[0])
    return shares, gain
