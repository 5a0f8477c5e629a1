"""Newton's method on a stream: a header-only kernel.

A row tells the slope of its loss by each of n weights, and the curvature. Curvatures are summed up
and fade; after every row the weights move by its slope, divided by them. So weights of inputs that
say nearly the same move together, and all of them less and less, until the stream changes.
"""

from libc.math cimport sqrt
from libc.stdint cimport int32_t

from streamtree._core.kernels.pooling cimport MEMORY


cdef enum:
    # added to the curvature by every weight: the first rows do not move them far
    DAMPING = 20
    # a row moves a weight by at most one of so many parts
    MOST_MOVED = 10
    # What a weight is worth is told without damping, but for what keeps that finite where inputs
    # are the same.
    LEAST_DAMPING = 1


cdef struct Newton:
    # Behind the fading sums of curvatures, of which the lower half is used, lies room for the row
    # at hand: the factor of their matrix, slopes or what they are solved to.
    double* curvatures
    int32_t n


cdef inline size_t newton_bytes(size_t n) noexcept nogil:
    """What sums and room take; the sums begin with zeros."""
    return (2 * n + 1) * n * sizeof(double)


cdef inline double* newton_slopes(Newton* newton) noexcept nogil:
    """Where slopes are written, and what `newton_solve` makes of them."""
    return &newton.curvatures[2 * newton.n * newton.n]


cdef inline void newton_fade(Newton* newton) noexcept nogil:
    """A row comes: what is known of others counts less."""
    cdef int32_t i
    for i in range(newton.n * newton.n):
        newton.curvatures[i] *= 1.0 - 1.0 / MEMORY


cdef inline void newton_add(Newton* newton, const double* inputs, double weight) noexcept nogil:
    """Let the row at hand have a curvature: inputs times inputs, by a weight."""
    cdef int32_t i, k
    cdef double part
    for i in range(newton.n):
        part = weight * inputs[i]
        for k in range(i + 1):
            newton.curvatures[i * newton.n + k] += part * inputs[k]


cdef inline void newton_forget(Newton* newton, int32_t i) noexcept nogil:
    """Nothing is known of a weight."""
    cdef int32_t k
    for k in range(newton.n):
        newton.curvatures[i * newton.n + k] = newton.curvatures[k * newton.n + i] = 0.0


cdef inline void newton_factor(Newton* newton, double damping) noexcept nogil:
    """Cholesky's factor of the curvatures, for `newton_solve`; its diagonal is inverted.

    Column by column: rows do not wait for each other.
    """
    cdef int32_t i, j, k, n = newton.n
    cdef double* factor = &newton.curvatures[n * n]
    cdef double left
    for j in range(n):
        for i in range(j, n):
            left = newton.curvatures[i * n + j]
            for k in range(j):
                left -= factor[i * n + k] * factor[j * n + k]
            if i > j:
                factor[i * n + j] = left * factor[j * n + j]
            else:
                # what inputs add to it is no less than zero, but for rounding
                factor[j * n + j] = 1.0 / sqrt(max(left, 0.0) + damping)


cdef inline void newton_solve(Newton* newton) noexcept nogil:
    """Divide slopes by the curvatures."""
    cdef int32_t i, k, n = newton.n
    cdef const double* factor = &newton.curvatures[n * n]
    cdef double* slopes = newton_slopes(newton)
    for i in range(n):
        for k in range(i):
            slopes[i] -= factor[i * n + k] * slopes[k]
        slopes[i] *= factor[i * n + i]
    for i in range(n - 1, -1, -1):
        for k in range(i + 1, n):
            slopes[i] -= factor[k * n + i] * slopes[k]
        slopes[i] *= factor[i * n + i]


cdef inline double newton_step(double slope) noexcept nogil:
    """How far a row moves a weight whose slope, divided by the curvatures, is this."""
    return min(max(slope, -1.0 / MOST_MOVED), 1.0 / MOST_MOVED)


cdef inline double newton_worth(Newton* newton, int32_t i, double weight) noexcept nogil:
    """By how much the losses that count would be more without a weight, the others set anew.

    How far these then move is left in `newton_slopes`.
    """
    cdef double* moves = newton_slopes(newton)
    cdef double variance
    cdef int32_t k
    for k in range(newton.n):
        moves[k] = k == i
    newton_solve(newton)
    variance = moves[i]
    for k in range(newton.n):
        moves[k] *= -weight / variance
    return 0.5 * weight * weight / variance
