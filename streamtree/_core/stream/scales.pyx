"""The phases of a scale.

*Collecting.* Of the first values the least and the greatest are kept apart. A gross outlier among
them, far out by all others, counts as a value at the edge, so that no single value spoils a scale
from the start.

*Settled.* Sums run over all values; one far out counts as one at the edge. Every block of values
is held against all that came before.

*On trial.* Where a block was strange, the next values are collected besides. If they have another
unit, the sums begin anew with them, and standardised values look as before; else nothing has
happened. What is natural in a stream is no other unit: a column of a few values, or one that moves
on slowly, so that any short part of it is narrow.
"""

from libc.math cimport fabs, isfinite, sqrt

cdef enum:
    TRIAL_COUNT = 64        # values of a trial
    BLOCK = 128             # values of a block

# A block is strange where its mean is so many deviations away from that of all before, its variance
# so many times as large (a value at the edge counts as one of 100 variances) or its deviation one
# of `UNIT` parts.
cdef double STRANGE_DISTANCE = 4.0
cdef double STRANGE_GROWTH = 20.0
# Another unit: deviations are this many times as large or as small, or means so many of the larger
# deviations apart. Smaller changes are followed as the sums take them in.
cdef double UNIT = 20.0
cdef double UNIT_DISTANCE = 8.0
# Values of another unit stay where they are: the mean of a half is no more deviations from that of
# both. Of a column that grows evenly it is .87 away, of independent values .13.
cdef double STAYS_WITHIN = 0.5


cdef void collect(ColumnScale* scale, double value) noexcept nogil:
    """Let a value into the sums of a part, which the two extremes are kept out of."""
    cdef double outer = value
    scale.n_part += 1
    scale.n_changes += value != scale.last
    scale.last = value
    if scale.n_part == 1:
        scale.low = scale.high = value
        return
    if value < scale.low:
        value, scale.low = scale.low, outer
    elif value > scale.high:
        value, scale.high = scale.high, outer
    scale.has_varied |= scale.low < scale.high
    if scale.n_part == 2:
        return
    if scale.n_part == 3:
        # the one in the middle
        scale.part_pivot = value
    value -= scale.part_pivot
    scale.part_sum += value
    scale.part_squares += value * value
    if scale.n_part == TRIAL_COUNT // 2:
        scale.half_mean = scale.part_pivot + scale.part_sum / (scale.n_part - 2)


cdef bint count_unsettled(ColumnScale* scale, double value) noexcept nogil:
    """As `count_value`, of a scale that collects values."""
    cdef bint had_varied = scale.has_varied
    collect(scale, value)
    if scale.phase == ON_TRIAL:
        value = within_reach(scale, value)
    elif scale.counted == 0:
        scale.pivot = value
    add_value(scale, value)
    return scale.has_varied and not had_varied


cdef inline bint is_mixed(const ColumnScale* scale) noexcept nogil:
    """Whether the values collected are of many kinds."""
    return 2 * scale.n_changes >= scale.n_part


cdef double unit_of_part(const ColumnScale* scale, double* mean) noexcept nogil:
    """The deviation of the values collected, the two extremes left out; 0 if they cannot tell.

    Their mean is written from the pivot.
    """
    cdef double n = scale.n_part - 2, unit
    if scale.n_part < LEAST_TRUSTED:
        return 0.0
    mean[0] = scale.part_sum / n
    unit = sqrt(max(scale.part_squares / n - mean[0] * mean[0], 0.0))
    # values that are mostly one have their distance from 0 for a measure
    return unit if is_mixed(scale) else max(unit, fabs(scale.part_pivot))


cdef bint is_far_out(const ColumnScale* scale, double value, double reach) noexcept nogil:
    """Whether a value is more than `reach` deviations from the mean of the values collected."""
    cdef double mean, unit = unit_of_part(scale, &mean)
    return unit > 0.0 and fabs(value - scale.part_pivot - mean) > reach * unit


cdef bint has_gross_outlier(const ColumnScale* scale) noexcept nogil:
    return is_far_out(scale, scale.low, GROSS) or is_far_out(scale, scale.high, GROSS)


cdef void sums_of_part(
    const ColumnScale* scale, double* pivot, double* total, double* squares
) noexcept nogil:
    """Write the sums of the values collected, three at least, outliers as values at the edge."""
    cdef double mean, low, high, unit = unit_of_part(scale, &mean)
    low = scale.low - scale.part_pivot
    high = scale.high - scale.part_pivot
    if unit > 0.0:
        low = max(low, mean - OUTLIER * unit)
        high = min(high, mean + OUTLIER * unit)
    pivot[0] = scale.part_pivot
    total[0] = scale.part_sum + (low + high)
    squares[0] = scale.part_squares + (low * low + high * high)


cdef void moments_of(const ColumnScale* scale, double* mean, double* variance) noexcept nogil:
    """Write mean and variance of the values in the sums; there is one at least."""
    cdef double n = scale.counted, total = scale.sum, squares = scale.sum_squares
    cdef double pivot = scale.pivot
    if scale.phase == COLLECTING and has_gross_outlier(scale):
        sums_of_part(scale, &pivot, &total, &squares)
    total /= n
    mean[0] = pivot + total
    variance[0] = squares / n - total * total


cdef void moments_before(const ColumnScale* scale, double* mean, double* variance) noexcept nogil:
    """Write mean and variance of the values before the block, or before the one that was strange.
    """
    cdef double n = scale.block_begin, total = scale.block_sum / n
    mean[0] = scale.pivot + total
    variance[0] = scale.block_squares / n - total * total


cdef void begin_block(ColumnScale* scale) noexcept nogil:
    scale.phase = SETTLED
    scale.block_sum, scale.block_squares = scale.sum, scale.sum_squares
    scale.block_begin = scale.counted


cdef bint is_strange(const ColumnScale* scale) noexcept nogil:
    """Whether the block that ends does not look as all before it."""
    cdef double length = scale.counted - scale.block_begin, before, variance
    cdef double mean = (scale.sum - scale.block_sum) / length
    cdef double now = (scale.sum_squares - scale.block_squares) / length - mean * mean
    moments_before(scale, &before, &variance)
    before -= scale.pivot
    return not isfinite(variance) or (
        fabs(mean - before) > STRANGE_DISTANCE * sqrt(max(variance, 0.0))
        or now > STRANGE_GROWTH * variance or now * (UNIT * UNIT) < variance
    )


cdef void begin_trial(ColumnScale* scale) noexcept nogil:
    scale.phase = ON_TRIAL
    scale.n_part = scale.n_changes = 0
    scale.part_sum = scale.part_squares = 0.0


cdef bint is_other_unit(const ColumnScale* scale) noexcept nogil:
    """Whether the values collected on trial have another unit than those before."""
    cdef double mean, before, deviation, deviation_before, total, squares
    moments_before(scale, &before, &deviation_before)
    if not (isfinite(before) and isfinite(deviation_before)):
        return True
    deviation_before = sqrt(max(deviation_before, 0.0))
    sums_of_part(scale, &mean, &total, &squares)
    total /= scale.n_part
    mean += total
    deviation = sqrt(max(squares / scale.n_part - total * total, 0.0))
    if not is_mixed(scale):
        # mostly one value: that one has to be another
        return fabs(mean) > UNIT * fabs(before) or fabs(before) > UNIT * fabs(mean)
    return fabs(mean - scale.half_mean) < STAYS_WITHIN * deviation and (
        deviation > UNIT * deviation_before or deviation_before > UNIT * deviation
        or fabs(mean - before) > UNIT_DISTANCE * max(deviation, deviation_before)
    )


cdef void take_part(ColumnScale* scale) noexcept nogil:
    """Go on with the values collected; all others are forgotten."""
    sums_of_part(scale, &scale.pivot, &scale.sum, &scale.sum_squares)
    scale.forgotten += scale.counted - scale.n_part
    scale.counted = scale.n_part


cdef bint advance(ColumnScale* scale) noexcept nogil:
    """Pass to the next phase if it is time to; returns whether the values have another unit now."""
    cdef bint is_other = False
    if scale.phase == SETTLED:
        if scale.counted < scale.block_begin + BLOCK:
            return False
        if is_strange(scale):
            begin_trial(scale)
            return False
    elif scale.phase == ON_TRIAL:
        if scale.n_part < TRIAL_COUNT:
            return False
        is_other = is_other_unit(scale)
        if is_other:
            take_part(scale)
            scale.n_units += 1
    else:
        if scale.n_part < TRUSTED_COUNT:
            return False
        if has_gross_outlier(scale):
            take_part(scale)
    begin_block(scale)
    return is_other


cdef void plan(ColumnScale* scale, bint is_refreshed) noexcept nogil:
    """Set when to look next."""
    if is_refreshed:
        scale.refresh_at = scale.counted + 1 + scale.counted // REFRESH_PARTS
    if scale.phase == SETTLED:
        scale.look_at = scale.block_begin + BLOCK
    else:
        scale.look_at = scale.counted - scale.n_part
        scale.look_at += TRIAL_COUNT if scale.phase == ON_TRIAL else TRUSTED_COUNT
    scale.look_at = min(scale.refresh_at, scale.look_at)


cdef bint count_number(ColumnScale* scale, double number) noexcept nogil:
    """Count a number of which zero is a value as any other; returns whether it has another unit."""
    cdef double mean, variance
    cdef bint is_other, is_due
    count_value(scale, number)
    if scale.counted < scale.look_at:
        return False
    is_other = advance(scale)
    is_due = is_other or scale.counted >= scale.refresh_at
    if is_due:
        moments_of(scale, &mean, &variance)
        scale.center = mean
        # as long as all are alike, the factor is 0
        scale.factor = 1.0 / sqrt(variance) if 0.0 < variance else 0.0
    plan(scale, is_due)
    return is_other
