"""How strongly the estimates of nodes are drawn to those above: learned from what comes.

The squared error of the shares of labels, or of a number, is a smooth function of the strength. Its
logarithm follows the slope of that over a fading sum of squared slopes: least squares (Gauss 1809),
a row at a time. Trees whose mean is what is said share one, for the mean of many trees needs less
of it than each of them alone. Where a label stands out less of it is used, see `ExtraNodes.shares`.
The log loss of labels would do as well for many trees; of one it asks for so much that fewer labels
are right, and it is rows that nobody expected that ask for it.
"""

cimport cython
from libc.math cimport exp, log, sqrt
from libc.stdint cimport int32_t, int64_t

from streamtree._core.kernels.moments cimport moments_add, moments_variance
from streamtree._core.kernels.pooling cimport MOST_REPEATS, in_deviations
from streamtree._core.stream.row cimport Example


cdef enum:
    # about so many rows are remembered
    MEMORY = 500
    # so many mean squared errors are in the curvature before any row
    DAMPING = 5

# by which its logarithm moves with a row, at most
cdef double MOST_MOVE = 0.1
# Squared errors are taken to be no less: where there is one label, they are what rounding leaves.
cdef double LEAST_ERRORS = 1e-4
# between which it stays; it begins with 1
cdef double LEAST = 0.01
cdef double MOST = 1000.0
# for its checks, in Python
LEAST_LOG, MOST_LOG = log(LEAST), log(MOST)


@cython.final
cdef class Strength:
    """A number that is given stays; None: it is learned, see `is_learned`."""

    def __cinit__(self, value):
        self.configure(value)

    cdef int configure(self, object value) except -1:
        """Set what is given, or go on with what was learned."""
        self.is_learned = value is None
        self.value = exp(self.log) if value is None else value
        return 0

    cdef void learn(self, const Example* example, const double* said, const double* slopes,
                    int32_t n_labels) noexcept nogil:
        """What was said of an example, the shares of labels or a number, and the slopes of that by
        the logarithm of the strength."""
        cdef double weight = min(example.weight, <double> MOST_REPEATS)
        # of the errors their square, their product with the slopes, and the square of these
        cdef double square = 0.0, product = 0.0, curvature = 0.0, error, slope, deviation
        cdef int32_t i
        if example.targets == NULL:
            for i in range(n_labels):
                error = (i == example.label) - said[i]
                square += error * error
                product += error * slopes[i]
                curvature += slopes[i] * slopes[i]
        else:
            # in deviations of the targets before it
            deviation = sqrt(moments_variance(&self.targets))
            moments_add(&self.targets, example.targets[0], weight)
            if not deviation > 0.0:
                return
            error = in_deviations(example.targets[0] - said[0], deviation)
            slope = in_deviations(slopes[0], deviation)
            square, product, curvature = error * error, error * slope, slope * slope
        self.rows += 1
        self.errors += (square - self.errors) / min(self.rows, <int64_t> MEMORY)
        self.curvature += weight * curvature - self.curvature / MEMORY
        slope = weight * product / (self.curvature + DAMPING * max(self.errors, LEAST_ERRORS))
        self.log += min(max(-MOST_MOVE, slope), MOST_MOVE)
        self.log = min(max(log(LEAST), self.log), log(MOST))
        self.value = exp(self.log)

    cdef dict state(self):
        return {
            "log": self.log, "curvature": self.curvature, "errors": self.errors, "rows": self.rows,
            "targets": self.targets,
        }

    cdef int take_state(self, dict state) except -1:
        # what bounds are to the last bit may differ from machine to machine
        self.log = min(max(log(LEAST), <double> state["log"]), log(MOST))
        self.curvature, self.errors = state["curvature"], state["errors"]
        self.rows, self.targets = state["rows"], state["targets"]
        if self.is_learned:
            self.value = exp(self.log)
        return 0
