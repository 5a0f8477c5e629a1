"""How the members of an ensemble are pooled: header-only kernels.

Labels by a log-linear pool, p(c) ~ product over m of p_m(c)^b_m, whose exponents follow the log
loss, by Newton's method (see newton.pxd) or, within trees of many labels, by its gradients; numbers
by a linear pool, f = sum of w_m f_m, whose weights sum to one and follow exponentiated gradients. A
step along a gradient is divided by the root of the fading squares of such.
"""

from libc.math cimport exp, fabs, log, sqrt
from libc.stdint cimport int32_t, int64_t


cdef enum:
    # a row of more weight counts as so many
    MOST_REPEATS = 10
    # deviations of the target: errors and differences of members are taken to be no larger
    MOST_DEVIATIONS = 3
    # a label has at least this part of an equal share, whatever a member says
    LEAST_PARTS = 1000
    # curvatures and squares of gradients fade: the last so many rows count
    MEMORY = 1000
    # one of so many parts is added to them, so that rounding errors are no slopes
    LEAST_SQUARES = 100
    # exponents stay between these
    LEAST_EXPONENT = -1
    MOST_EXPONENT = 8
    # what is added counts for a half as long as its mean square is less than one part of so many
    # of the targets' variance
    SPREAD_PARTS = 1000
    # a weight is at least one of so many parts
    WEIGHT_PARTS = 500
    # what a member is worth is looked at every so many rows, and no sooner than after so many
    LOOK_ROWS = 1000
    TRIAL_ROWS = 2000
    # if it is too little the member rests for so many rows; twice as long where it woke in vain
    REST_ROWS = 4000
    LONGEST_REST = 8000


cdef struct Say:
    # how much groups or counts of a tree of many labels have to say
    double weight       # the exponent in a log-linear pool
    double squares      # fading squares of the gradients


cdef struct Trust:
    # how far to follow what is added to a number: fading means, in deviations
    double product      # of what was missing and what was added
    double spread       # of the square of the latter


cdef struct Watch:
    # whether a member is worth asking
    int64_t rows        # that it was asked since it began, or was woken
    int32_t left        # rows for which it still rests
    int32_t next_rest   # for how many it would rest


cdef inline bint is_due(const Watch* watch) noexcept nogil:
    """Whether it is time to look what a member is worth that was asked of a row."""
    return watch.rows % LOOK_ROWS == 0 and watch.rows >= TRIAL_ROWS


cdef inline void take_logs(double* shares, int32_t n) noexcept nogil:
    """Turn the shares of n labels into their logarithms; none is 0."""
    cdef double least = 1.0 / LEAST_PARTS / n
    cdef double log_least = log(least)
    cdef int32_t label
    for label in range(n):
        shares[label] = log(shares[label]) if shares[label] > least else log_least


cdef inline double mean_log(const double* logs, const double* pooled, int32_t n) noexcept nogil:
    """The mean of what a member says of n labels, by their shares in the pool."""
    cdef double mean = 0.0
    cdef int32_t i
    for i in range(n):
        mean += pooled[i] * logs[i]
    return mean


cdef inline double scaled_slope(double* squares, double slope) noexcept nogil:
    """A slope over the root of its fading squares, itself among them."""
    squares[0] = (1.0 - 1.0 / MEMORY) * squares[0] + slope * slope
    return slope / sqrt(squares[0] + 1.0 / LEAST_SQUARES)


cdef inline double as_exponent(double weight) noexcept nogil:
    return min(max(weight, <double> LEAST_EXPONENT), <double> MOST_EXPONENT)


cdef inline void move_exponent(Say* say, double slope, double rate, double weight) noexcept nogil:
    say.weight += rate * min(weight, <double> MOST_REPEATS) * scaled_slope(&say.squares, slope)
    say.weight = as_exponent(say.weight)


cdef inline double in_deviations(double distance, double deviation) noexcept nogil:
    if not fabs(distance) < MOST_DEVIATIONS * deviation:
        return MOST_DEVIATIONS if distance > 0.0 else -MOST_DEVIATIONS
    return distance / deviation


cdef inline double trust_of(const Trust* trust) noexcept nogil:
    """The slope of what was missing on what was added, from 0 to 1; a half at first."""
    cdef double first = 1.0 / SPREAD_PARTS
    cdef double slope = (trust.product + first / 2) / (trust.spread + first)
    return min(max(slope, 0.0), 1.0)


cdef inline void trust_learn(Trust* trust, double missing, double added) noexcept nogil:
    trust.product += (missing * added - trust.product) / MEMORY
    trust.spread += (added * added - trust.spread) / MEMORY


cdef inline void move_weight(double* share, double* squares, double slope, double rate,
                             double weight) noexcept nogil:
    """As `move_exponent`, for a weight; `share_out` follows for all of them."""
    share[0] *= exp(rate * min(weight, <double> MOST_REPEATS) * scaled_slope(squares, slope))


cdef inline void share_out(double* shares, int32_t n) noexcept nogil:
    """Let n weights sum to one, each of them at least a small part before."""
    cdef double total = 0.0
    cdef int32_t i
    for i in range(n):
        total += shares[i]
    for i in range(n):
        shares[i] = max(shares[i] / total, 1.0 / WEIGHT_PARTS)
    total = 0.0
    for i in range(n):
        total += shares[i]
    for i in range(n):
        shares[i] /= total
