"""How the members of an ensemble are pooled: header-only kernels.

Labels by a log-linear pool, p(c) ~ product over m of p_m(c)^b_m, whose exponents follow the
gradient of the log loss; numbers by a linear pool, f = sum of w_m f_m, whose weights sum to one and
follow exponentiated gradients. Either step is divided by the root of the fading squares of its
gradients.
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
    # the squares of gradients fade: the last so many rows count
    MEMORY = 1000
    # one of so many parts is added to them, so that rounding errors are no slopes
    LEAST_SQUARES = 100
    # exponents stay between these
    LEAST_EXPONENT = -1
    MOST_EXPONENT = 8
    # a weight is at least one of so many parts
    WEIGHT_PARTS = 500
    # A member rests when its exponent was smaller than one of so many parts, in the mean of so many
    # rows, and no sooner than after so many.
    IDLE_PARTS = 20
    LOOK_ROWS = 1000
    TRIAL_ROWS = 2000
    # for so many rows; twice as long where it had been woken in vain
    REST_ROWS = 4000
    LONGEST_REST = 8000


cdef struct Say:
    # how much a member has to say
    double weight       # its exponent in a log-linear pool, its weight in a linear one
    double squares      # fading squares of the gradients


cdef struct Watch:
    # whether a member is worth asking
    double size         # of its exponent: the sum over the rows of the look at hand
    int64_t rows        # that it was asked since it began, or was woken
    int32_t left        # rows for which it still rests
    int32_t next_rest   # for how many it would rest


cdef inline bint is_idle(Watch* watch, double exponent) noexcept nogil:
    """Count a row of a member that was asked; whether it has had next to nothing to say for long.
    """
    cdef bint is_small
    watch.size += fabs(exponent)
    watch.rows += 1
    if watch.rows % LOOK_ROWS:
        return False
    is_small = watch.size * IDLE_PARTS < LOOK_ROWS
    watch.size = 0.0
    if watch.rows < TRIAL_ROWS:
        return False
    if not is_small:
        watch.next_rest = REST_ROWS
    return is_small


cdef inline void take_logs(double* shares, int32_t n) noexcept nogil:
    """Turn the shares of n labels into their logarithms; none is 0."""
    cdef double least = 1.0 / LEAST_PARTS / n
    cdef double log_least = log(least)
    cdef int32_t label
    for label in range(n):
        shares[label] = log(shares[label]) if shares[label] > least else log_least


cdef inline double slope_of(const double* logs, const double* pooled, int32_t n,
                            int32_t label) noexcept nogil:
    """What more of an exponent adds to the log of the pool's share of a label."""
    cdef double mean = 0.0
    cdef int32_t i
    for i in range(n):
        mean += pooled[i] * logs[i]
    return logs[label] - mean


cdef inline double scaled_slope(Say* say, double slope) noexcept nogil:
    """A slope over the root of its fading squares, itself among them."""
    say.squares = (1.0 - 1.0 / MEMORY) * say.squares + slope * slope
    return slope / sqrt(say.squares + 1.0 / LEAST_SQUARES)


cdef inline void move_exponent(Say* say, double slope, double rate, double weight) noexcept nogil:
    say.weight += rate * min(weight, <double> MOST_REPEATS) * scaled_slope(say, slope)
    say.weight = min(max(say.weight, <double> LEAST_EXPONENT), <double> MOST_EXPONENT)


cdef inline double in_deviations(double distance, double deviation) noexcept nogil:
    if not fabs(distance) < MOST_DEVIATIONS * deviation:
        return MOST_DEVIATIONS if distance > 0.0 else -MOST_DEVIATIONS
    return distance / deviation


cdef inline void move_weight(Say* say, double slope, double rate, double weight) noexcept nogil:
    """As `move_exponent`, for a weight; `share_out` follows for all of them."""
    say.weight *= exp(rate * min(weight, <double> MOST_REPEATS) * scaled_slope(say, slope))


cdef inline void share_out(Say* says, int32_t n) noexcept nogil:
    """Let n weights sum to one, each of them at least a small part before."""
    cdef double total = 0.0
    cdef int32_t i
    for i in range(n):
        total += says[i].weight
    for i in range(n):
        says[i].weight = max(says[i].weight / total, 1.0 / WEIGHT_PARTS)
    total = 0.0
    for i in range(n):
        total += says[i].weight
    for i in range(n):
        says[i].weight /= total
