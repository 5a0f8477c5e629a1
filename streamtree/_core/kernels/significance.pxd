"""Tests of significance: quantiles, divergences and bounds, as pure functions of numbers."""

from libc.math cimport cbrt, log, sqrt


cdef inline double normal_quantile(double tail) noexcept nogil:
    """The z that a standard normal exceeds with a small probability (Abramowitz & Stegun 26.2.23).
    """
    cdef double t = sqrt(-2.0 * log(tail))
    return t - (2.515517 + t * (0.802853 + t * 0.010328)) / (
        1.0 + t * (1.432788 + t * (0.189269 + t * 0.001308))
    )


# Wilson & Hilferty: the cube root of a chi-squared variable is nearly normal.

cdef inline double chi_squared_quantile(double df, double z) noexcept nogil:
    """The value of chi-squared with `df` degrees of freedom that is as rare as z of a normal."""
    cdef double root = 2.0 / (9.0 * df)
    root = 1.0 - root + z * sqrt(root)
    return df * root * root * root


cdef inline double chi_squared_z(double statistic, double df) noexcept nogil:
    """The z of a normal that is as rare as a value of chi-squared; turns the other one round."""
    cdef double variance = 2.0 / (9.0 * df)
    return (cbrt(statistic / df) - (1.0 - variance)) / sqrt(variance)


cdef inline double log_ratio(double count, double expected) noexcept nogil:
    """count * ln(count / expected), 0 for a count of 0: a term of G statistics and entropies."""
    return count * log(count / expected) if count > 0.0 else 0.0


cdef inline double bernoulli_divergence(double q, double p) noexcept nogil:
    """The Kullback-Leibler divergence of a share q from a share p."""
    return log_ratio(q, p) + log_ratio(1.0 - q, 1.0 - p)


cdef inline double mixture_bound(
    double count, double variance, double mixture, double level
) noexcept nogil:
    """The square that the square of a sum exceeds at any time with a chance of `level` (Robbins).

    A sum of `count` numbers without drift, whose squared deviations add up to `variance`; the
    bound is tightest where the count is near `mixture`.
    """
    return (count + mixture) / count * variance * (
        log((count + mixture) / mixture) - 2.0 * log(level)
    )


cdef inline double level_of_look(double delta, double looks) noexcept nogil:
    """The level of a test's look number `looks` = 1, 2, ...: those of all looks add up to delta."""
    return delta / (looks * (looks + 1.0))
