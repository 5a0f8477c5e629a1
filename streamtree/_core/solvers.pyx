"""The solvers that sort, and a way to every solver from Python, for tests and references."""

from libc.math cimport exp, fabs, log, sqrt
from libc.stdint cimport int32_t
from libc.stdlib cimport qsort

import numpy as np


cdef int larger_scale_first(const void* a, const void* b) noexcept nogil:
    cdef const Scale* x = <const Scale*> a
    cdef const Scale* y = <const Scale*> b
    if x.size != y.size:
        return 1 if x.size < y.size else -1
    return 1 if x.branch > y.branch else -1


cdef double slope_sum(int loss, double first, double second, double third, double b,
                      double r) noexcept nogil:
    """G(r): how fast the active branches' loss falls in r, see `alpha_linf`."""
    if loss == LOG:
        return first - second * sigmoid(b + r) - third * sigmoid(r - b)
    if loss == EXPONENTIAL:
        return first * exp(-r) - second * exp(r)
    return first - second * r


cdef double radius(int loss, double first, double second, double third, double b, double lam,
                   double low, double high) noexcept nogil:
    """The root of G(r) = lambda in [low, high], where G falls.

    squared      (first - lambda) / second
    exponential  t = exp(r): second t^2 + lambda t - first = 0
    log          t = exp(r): with k = first - lambda, and a = exp(b),
                 (k - second - third) t^2 + (k (a + 1/a) - second a - third / a) t + k = 0,
                 then made exact by Newton's steps within bounds, for the terms may cancel
    """
    cdef double r, k, a, p, q, root, step, slope, value
    if loss == SQUARED:
        r = (first - lam) / second
    elif loss == EXPONENTIAL:
        r = log(2.0 * first / (lam + sqrt(lam * lam + 4.0 * first * second)))
    else:
        k = first - lam
        a = exp(b)
        p = k - second - third
        q = k * (a + 1.0 / a) - second * a - third / a
        root = q * q - 4.0 * p * k
        r = 0.5 * (low + high)
        if root >= 0.0:
            # of the two forms of each root the one whose terms have the same sign
            root = -0.5 * (q + (sqrt(root) if q >= 0.0 else -sqrt(root)))
            if root != 0.0 and k / root > 0.0 and low <= log(k / root) <= high:
                r = log(k / root)
            elif p != 0.0 and root / p > 0.0 and low <= log(root / p) <= high:
                r = log(root / p)
        for _ in range(100):
            value = slope_sum(LOG, first, second, third, b, r) - lam
            if value > 0.0:
                low = r
            else:
                high = r
            slope = (second * sigmoid(b + r) * sigmoid(-b - r)
                     + third * sigmoid(r - b) * sigmoid(b - r))
            step = value / slope if slope > 0.0 else 0.0
            if not low <= r + step <= high or slope <= 0.0:
                step = 0.5 * (low + high) - r
            r += step
            if fabs(step) <= 1e-15 * (1.0 + r):
                break
    if not r >= low:
        return low
    return r if r <= high else high


cdef double gain_of(int loss, const double* positive, const double* negative, int32_t n,
                    double b, double lam, double r, const double* alpha) noexcept nogil:
    cdef double gain = 0.0
    cdef int32_t j
    for j in range(n):
        if alpha[j] != 0.0:
            if loss == SQUARED:
                gain += alpha[j] * (
                    excess(SQUARED, positive[j], negative[j], b) - 0.5 * positive[j] * alpha[j]
                )
            else:
                gain += (node_loss(loss, positive[j], negative[j], b)
                         - node_loss(loss, positive[j], negative[j], b + alpha[j]))
    return gain - lam * r


cdef double kinked_linf(int loss, const double* positive, const double* negative, int32_t n,
                        double b, double lam, double* alpha) noexcept nogil:
    """Piecewise linear losses: the best r is 0 or the size of a kink, |1 - b|, |1 + b|, |b|.

    Between two of them every branch is best at a kink of its own or at +-r, so that the
    objective is a minimum of linear functions of r: concave, best at an end.
    """
    cdef double[4] limits
    cdef double gain, best = 0.0, best_limit = 0.0
    cdef int32_t j
    cdef int i, turn
    limits[0] = fabs(1.0 - b)
    limits[1] = fabs(1.0 + b)
    limits[2] = fabs(b)
    for j in range(n):
        alpha[j] = 0.0
        best += ROUNDING * (positive[j] + negative[j])
    for turn in range(2):
        for i in range(3):
            if turn == 1 and limits[i] != best_limit:
                continue
            for j in range(n):
                alpha[j] = best_of_kinks(loss, positive[j], negative[j], b, 0.0, limits[i])
            gain = gain_of(loss, positive, negative, n, b, lam, limits[i], alpha)
            if turn == 1:
                return gain
            if gain > best:
                best = gain
                best_limit = limits[i]
        if best_limit == 0.0:
            break
    for j in range(n):
        alpha[j] = 0.0
    return 0.0


cdef double alpha_linf(int loss, const double* positive, const double* negative, int32_t n,
                       double b, double lam, double* alpha, Scale* scratch) noexcept nogil:
    """The alphas that minimise sum of losses + lambda max |alpha|; returns the gain over 0.

    All 0 if sum |e_j| <= lambda. Else alpha_j = clip(best alone, -r, r), where r > 0 is the root
    of G(r) = lambda, G(r) the sum over the branches with |best alone| > r of |d loss / d alpha|
    at +-r. G falls, and between two of the sorted sizes it is one formula: `radius`.
    """
    cdef double first = 0.0, second = 0.0, third = 0.0, total = 0.0, r, low, gain
    cdef double largest = 0.0
    cdef int32_t i, j
    if loss == HINGE or loss == RAMP:
        return kinked_linf(loss, positive, negative, n, b, lam, alpha)
    for j in range(n):
        alpha[j] = alpha_l1(loss, positive[j], negative[j], b, 0.0)
        if alpha[j] != 0.0:
            total += fabs(excess(loss, positive[j], negative[j], b))
        largest = max(largest, fabs(alpha[j]))
        scratch[j].alpha = alpha[j]
        scratch[j].size = fabs(alpha[j])
        scratch[j].branch = j
    r = largest
    if lam > 0.0 and total <= lam:
        r = 0.0
    elif lam > 0.0:
        qsort(scratch, n, sizeof(Scale), larger_scale_first)
        for i in range(n):
            j = scratch[i].branch
            # the active branches as sums over which G is one formula
            if loss == SQUARED:
                first += fabs(excess(SQUARED, positive[j], negative[j], b))
                second += positive[j]
            elif loss == EXPONENTIAL:
                first += (positive[j] * exp(-b) if alpha[j] > 0 else negative[j] * exp(b))
                second += (negative[j] * exp(b) if alpha[j] > 0 else positive[j] * exp(-b))
            elif alpha[j] > 0:
                first += positive[j]
                second += positive[j] + negative[j]
            else:
                first += negative[j]
                third += positive[j] + negative[j]
            low = scratch[i + 1].size if i + 1 < n else 0.0
            if low < scratch[i].size and slope_sum(loss, first, second, third, b, low) >= lam:
                r = radius(loss, first, second, third, b, lam, low, scratch[i].size)
                break
        else:
            r = 0.0
    for j in range(n):
        if fabs(alpha[j]) > r:
            alpha[j] = r if alpha[j] > 0 else -r
    gain = gain_of(loss, positive, negative, n, b, lam, r, alpha)
    return gain if gain > 0.0 else 0.0


cdef double shares_multiclass(const double* counts, const double* parent, int32_t n,
                              double lam, double* shares, Share* scratch) noexcept nogil:
    """Log loss of n classes, penalty lambda max_i |alpha_i|; returns the gain over alpha = 0.

    With q the class shares of the branch, u those that the node above predicts and
    l = lambda / weight of the branch: nothing grows if |q - u|_1 <= l. Else the shares are
    p_i = clip(q_i, lo u_i, hi u_i) with

        sum (q_i - hi u_i)+ = l / 2        sum (lo u_i - q_i)+ = l / 2

    two water-fillings, solved exactly by Newton's method in a few passes, as both sums are
    piecewise linear and convex; alpha_i = ln(p_i / u_i) - ln(hi lo) / 2 and the penalty is
    lambda ln(hi / lo) / 2. `shares` may be NULL.
    """
    cdef double weight = 0.0, distance = 0.0, hi = 1.0, lo = 1.0, above, below
    cdef double q_above, u_above, q_below, u_below, counts_above, counts_below
    cdef double u, q, p, gain = 0.0, half
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
    # from 1, where both sums are above l / 2, `hi` only rises and `lo` only falls
    while True:
        q_above = u_above = q_below = u_below = 0.0
        for i in range(n):
            # no branches: which classes count is hard to predict
            q = scratch[i].count
            u = scratch[i].parent
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
    # without penalty a class that the branch lacks would go to minus infinity
    lo = max(lo, SMALLEST_SHARE)
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


def loss_value(int loss, double positive, double negative, double f):
    """The loss of a branch whose score is f."""
    return node_loss(loss, positive, negative, f)


def solve_l1(int loss, double positive, double negative, double b, double lam):
    """(alpha, gain) of one branch under lambda |alpha|."""
    return (
        alpha_l1(loss, positive, negative, b, lam), gain_l1(loss, positive, negative, b, lam)
    )


def log_gain(double positive, double negative, double b, double lam):
    """The gain of `solve_l1` for log loss, by the shorter way."""
    return gain_log_l1(positive, negative, b, sigmoid(b), lam)


def solve_linf(int loss, const double[::1] positive, const double[::1] negative, double b,
               double lam):
    """(alphas, gain) of the branches of a predicate under lambda max |alpha|."""
    cdef int32_t n = <int32_t> positive.shape[0]
    alphas = np.zeros(n)
    cdef double[::1] out = alphas
    cdef char[::1] scratch = np.zeros(n * sizeof(Scale), dtype=np.int8).view(np.byte)
    gain = alpha_linf(
        loss, &positive[0], &negative[0], n, b, lam, &out[0], <Scale*> &scratch[0]
    )
    return alphas, gain


def solve_multiclass(const double[::1] counts, const double[::1] parent, double lam):
    """(shares, gain) of one branch: class shares p that replace the parent's."""
    cdef int32_t n = <int32_t> counts.shape[0]
    shares = np.zeros(n)
    cdef double[::1] out = shares
    cdef char[::1] scratch = np.zeros(n * sizeof(Share), dtype=np.int8).view(np.byte)
    gain = shares_multiclass(
        &counts[0], &parent[0], n, lam, &out[0], <Share*> &scratch[0]
    )
    return shares, gain
