"""Running mean and variance of weighted numbers (West 1979)."""


cdef struct Moments:
    double weight
    double mean
    double squares      # sum of weight times squared distance from the mean


cdef inline double mean_add(
    double* mean, double* total, double value, double weight
) noexcept nogil:
    """Let a number into a weighted mean; returns its share of the weight."""
    cdef double share
    total[0] += weight
    share = weight / total[0] if total[0] > 0.0 else 0.0
    mean[0] += share * (value - mean[0])
    return share


cdef inline void moments_add(Moments* moments, double value, double weight) noexcept nogil:
    cdef double distance = value - moments.mean
    cdef double share = mean_add(&moments.mean, &moments.weight, value, weight)
    # a product that no rounding makes negative
    moments.squares += (1.0 - share) * weight * distance * distance


cdef inline double moments_variance(const Moments* moments) noexcept nogil:
    """0 before the first number."""
    return moments.squares / moments.weight if moments.weight > 0.0 else 0.0
