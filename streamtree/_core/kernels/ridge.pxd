"""Ridge regression on a stream: a header-only kernel.

Products of inputs and targets are summed up and fade. After every row the slopes come nearer to
those that minimise squared error and penalty, by one round of coordinate descent: since the sums of
squares and the penalty only let it fall, nothing can run away, whatever the inputs are.
"""

from libc.stdint cimport int32_t

from streamtree._core.kernels.pooling cimport MEMORY, MOST_REPEATS


cdef enum:
    # the weight of the penalty, as a sum of squares of an input
    PENALTY = 20


cdef struct Ridge:
    # behind the n slopes lie the fading sums of inputs times targets, and of inputs times inputs
    double* slopes
    int32_t n


cdef inline size_t ridge_bytes(int32_t n) noexcept nogil:
    """What `slopes` and the sums take; they begin with zeros."""
    return (n + 2) * n * sizeof(double)


cdef inline void ridge_learn(Ridge* ridge, const double* inputs, double target,
                             double weight) noexcept nogil:
    cdef int32_t i, k, n = ridge.n
    cdef double* slopes = ridge.slopes
    cdef double* sums = &slopes[n]
    cdef double* products = &sums[n]
    cdef double left, kept = 1.0 - 1.0 / MEMORY
    weight = min(weight, <double> MOST_REPEATS)
    for i in range(n):
        sums[i] = kept * sums[i] + weight * (inputs[i] * target)
        for k in range(n):
            products[i * n + k] = kept * products[i * n + k] + weight * (inputs[i] * inputs[k])
    for i in range(n):
        left = sums[i]
        for k in range(n):
            left -= products[i * n + k] * slopes[k]
        slopes[i] += (left - PENALTY * slopes[i]) / (products[i * n + i] + PENALTY)
