"""Mean and deviation that no single value spoils, and that follow a change of unit."""

from libc.math cimport fabs
from libc.stdint cimport int32_t, int64_t


cdef enum:
    OUTLIER = 10            # deviations: a value farther out is counted as one at this edge
    REFRESH_PARTS = 16      # scales are computed anew when the count has grown by a 16th

cdef enum:
    LEAST_TRUSTED = 8       # values that tell whether an extreme among them is a gross outlier
    TRUSTED_COUNT = 32      # values that settle a scale
    GROSS = 50              # deviations of a few values: of a gross outlier among them

cpdef enum:
    COLLECTING      # the first values; they are collected besides
    SETTLED         # the scale is trusted to tell an outlier
    ON_TRIAL        # the same, while the next values are collected besides


cdef struct ColumnScale:
    # what every value needs
    double center           # what is subtracted; 0 for a sparse column
    double factor           # what is multiplied; 0 while nothing is known
    double pivot            # sums are taken from there
    double sum              # of value - pivot
    double sum_squares
    int64_t counted         # values behind the sums
    int64_t look_at         # the count at which there is something to do
    int32_t phase
    int32_t has_varied      # whether there were two different values
    # of the values collected
    double low              # the two extremes,
    double high
    double part_pivot       # and the sums of the others
    double part_sum
    double part_squares
    double last             # the newest
    double half_mean        # on trial: of the first half of them
    int32_t n_part
    int32_t n_changes       # how often one differed from the one before
    # of a settled scale
    double block_sum        # the sums when the block began
    double block_squares
    int64_t block_begin     # the count when the block began
    int64_t refresh_at      # the count at which center and factor are next computed
    int64_t forgotten       # values that are no longer in the sums
    # only of columns
    int64_t zeros           # explicit ones, less the rows in which zero was not implied
    int64_t birth           # rows seen before the column was first named
    double unit_center      # once another unit began: the center in that of the first values,
    double unit_deviation   # and what a standardised value is multiplied with
    int32_t n_units         # how often another unit began
    int32_t is_dense        # centred; its zeros are values
    int32_t is_listed       # its zeros are listed where values are not scaled
    int32_t origin_rank     # which of all columns that have an origin it was, from 1 on; else 0
    double origin           # what is taken off in single precision; 0: nothing


cdef inline double within_reach(const ColumnScale* scale, double value) noexcept nogil:
    """The value, or the edge that it lies beyond."""
    cdef double distance = (value - scale.center) * scale.factor
    if fabs(distance) > OUTLIER:
        return scale.center + (OUTLIER if distance > 0.0 else -OUTLIER) / scale.factor
    return value


cdef inline bint add_value(ColumnScale* scale, double value) noexcept nogil:
    """Let a value into the sums as it is; returns whether it is the first that differs."""
    scale.counted += 1
    value -= scale.pivot
    scale.sum += value
    scale.sum_squares += value * value
    if scale.has_varied or value == 0.0:
        return False
    scale.has_varied = True
    return True


cdef inline bint count_value(ColumnScale* scale, double value) noexcept nogil:
    """Let a value into the sums; returns whether it is the first that differs.

    One far out is counted as one at the edge: a sentinel such as 99999 must not flatten all others
    for ever. `look_at` is to be looked at then.
    """
    if scale.phase != SETTLED:
        return count_unsettled(scale, value)
    return add_value(scale, within_reach(scale, value))


cdef inline int64_t n_shown(const ColumnScale* scale) noexcept nogil:
    """How many values there were, in the sums or not."""
    return scale.counted + scale.forgotten


cdef bint count_unsettled(ColumnScale* scale, double value) noexcept nogil
cdef void moments_of(const ColumnScale* scale, double* mean, double* variance) noexcept nogil
cdef void moments_before(const ColumnScale* scale, double* mean, double* variance) noexcept nogil
cdef bint is_far_out(const ColumnScale* scale, double value, double reach) noexcept nogil
cdef bint advance(ColumnScale* scale) noexcept nogil
cdef void plan(ColumnScale* scale, bint is_refreshed) noexcept nogil
cdef bint count_number(ColumnScale* scale, double number) noexcept nogil
