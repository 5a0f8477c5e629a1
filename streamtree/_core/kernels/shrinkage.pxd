"""Between the mean of the targets and what a learner predicts: a header-only kernel.

Where there is little to be learned, predictions err more than the mean does. What is answered is
therefore mean + slope (prediction - mean), the slope being that of the targets on the predictions
made just before they were learned: near 1 for a learner that is worth following, 0 for noise.
"""

from libc.math cimport sqrt
from libc.stdint cimport int64_t

from streamtree._core.kernels.moments cimport mean_add

cdef enum:
    # Predictions are judged on the first rows, then on one of so many.
    MANY_JUDGED = 1000
    JUDGED_PARTS = 4
    # The slope is 1 before the first row is judged; that counts as so many rows.
    PRIOR_ROWS = 5
    # A judged row has at least this part in the means, so that old rows are forgotten.
    MOST_PARTS = 2000


cdef struct Shrinkage:
    # means rather than sums, so that targets and weights of any size stay finite
    double weight
    double mean             # of the targets
    double variance         # mean squared distance of a target from the mean before it
    double judged_weight
    double product          # mean (target - mean) (prediction - mean)
    double spread           # mean (prediction - mean)^2
    double share            # 1 - slope: how far predictions are drawn towards the mean
    int64_t rows
    int64_t judged


cdef inline bint is_to_judge(const Shrinkage* state) noexcept nogil:
    """Whether the next prediction is to be judged."""
    return 0 < state.rows and (state.rows < MANY_JUDGED or state.rows % JUDGED_PARTS == 0)


cdef inline void judge(
    Shrinkage* state, double prediction, double target, double weight
) noexcept nogil:
    """Compare a prediction with its target, before `admit` counts the target."""
    cdef double part, slope, distance = prediction - state.mean
    cdef double prior = PRIOR_ROWS * state.variance
    state.judged += 1
    state.judged_weight += weight
    part = max(weight / state.judged_weight, 1.0 / MOST_PARTS)
    state.product += part * ((target - state.mean) * distance - state.product)
    state.spread += part * (distance * distance - state.spread)
    prior += state.judged * state.spread
    if not prior > 0.0:
        return
    # in doubt a little more than the estimate: half a standard error
    slope = 1.0 + (state.judged * (state.product - state.spread)) / prior
    slope += 0.5 * sqrt(state.variance / prior)
    state.share = min(max(1.0 - slope, 0.0), 1.0)


cdef inline void admit(Shrinkage* state, double target, double weight) noexcept nogil:
    """Let a target into mean and variance."""
    cdef double distance = target - state.mean
    cdef double part = mean_add(&state.mean, &state.weight, target, weight)
    state.rows += 1
    if state.rows > 1:
        state.variance += part * (distance * distance - state.variance)


cdef inline double shrunken(const Shrinkage* state, double prediction) noexcept nogil:
    """What to answer where the learner predicts this."""
    return prediction + state.share * (state.mean - prediction)
