"""What may speak for a leaf besides its path: naive Bayes over its histograms, a linear model.

Linear models see columns in deviations from their running means; those of numbers answer in
deviations of all targets from their mean. A leaf's record of who was right is kept here too.
"""

from libc.math cimport exp, fabs, sqrt
from libc.stdint cimport int32_t, int64_t

from streamtree._core.histograms cimport (
    ADAPTIVE, BAYES, LINEAR, PATH, Histogram, Leaf, find_bin, find_histogram,
)
from streamtree._core.types cimport Row

cdef enum:
    # a leaf compares what it could say on its first rows, then on one of so many
    MANY_JUDGED = 64
    JUDGED_PARTS = 4

# added to every bin of every class
cdef double BAYES_PRIOR = 0.5
# of the linear models: step size, and how many deviations from its mean a value counts at most
cdef double RATE = 0.6
cdef double STANDARD_LIMIT = 5.0
# a linear model of numbers says nothing farther from a leaf's mean than so many deviations
cdef double NUMBER_LIMIT = 3.0


cdef int32_t largest(const double* numbers, int32_t n) noexcept nogil:
    """Where the largest of n numbers is, the first of equals."""
    cdef int32_t i, best = 0
    for i in range(1, n):
        if numbers[i] > numbers[best]:
            best = i
    return best


cdef inline double standard(const Standard* column, double value) noexcept nogil:
    value = (value - column.center) * column.factor
    if value > STANDARD_LIMIT:
        return STANDARD_LIMIT
    return value if value >= -STANDARD_LIMIT else -STANDARD_LIMIT


cdef void standardise(Standard* standards, int64_t n_rows, Row row) noexcept nogil:
    """Count row number `n_rows`, from 1, into the mean and deviation of its columns."""
    cdef Standard* column
    cdef double value, mean, variance
    cdef Py_ssize_t i
    for i in range(row.n):
        column = &standards[row.columns[i]]
        value = row.values[i]
        if column.n == 0:
            column.pivot = value
            column.birth = n_rows - 1
        value -= column.pivot
        column.n += 1
        column.sum += value
        column.squares += value * value
        if column.n < column.refresh_at:
            continue
        column.refresh_at = column.n + 1 + column.n // 16
        mean = column.sum / column.n
        variance = max(column.squares / column.n - mean * mean, 0.0)
        mean += column.pivot
        column.center = 0.0
        # a column that few rows list, or with one value only, would vanish if centred
        if variance > 1e-20 * mean * mean and 4 * column.n >= n_rows - column.birth + 8:
            column.center = mean
        else:
            variance += mean * mean
        column.factor = 1.0 / sqrt(variance) if variance > 0.0 else 0.0
        if not column.factor < 1e200 or not fabs(column.center) < 1e200:
            column.center = column.factor = 0.0


cdef int speaker_of(const Leaf* leaf, int leaf_model) noexcept nogil:
    """Who speaks for a leaf: of an adaptive one, what was right most often there."""
    cdef int best = PATH
    if leaf == NULL:
        return PATH
    if leaf_model != ADAPTIVE:
        return leaf_model
    # of numbers there is no naive Bayes
    if leaf.scores[<int> BAYES] > leaf.scores[best] and leaf.labels != NULL:
        best = BAYES
    if leaf.scores[<int> LINEAR] > leaf.scores[best]:
        best = LINEAR
    return best


cdef bint bayes(
    const Leaf* leaf, const double* counts, Row row, double* shares
) noexcept nogil:
    """Class shares by naive Bayes over the bins of a leaf; returns whether there are any.

    `counts` are the weights of all labels at the leaf's node; shares[i] is that of the leaf's i-th
    label, up to one factor for all.
    """
    cdef const Histogram* histogram
    cdef const double* sums
    cdef int32_t i, place, n = leaf.n_sums
    cdef double most, room
    cdef Py_ssize_t position
    if n < 2 or n > MAX_MODELLED:
        return False
    for i in range(n):
        shares[i] = counts[leaf.labels[i]]
    for position in range(row.n):
        histogram = find_histogram(leaf, row.columns[position], position)
        if histogram == NULL:
            continue
        place = find_bin(histogram, row.values[position])
        if place < 0:
            continue
        sums = &histogram.sums[<size_t> place * leaf.width]
        room = BAYES_PRIOR * (histogram.n_bins + 1)
        most = 0.0
        for i in range(n):
            shares[i] *= (sums[i] + BAYES_PRIOR) / (leaf.totals[i] + room)
            most = max(most, shares[i])
        if most < 1e-100:
            for i in range(n):
                shares[i] *= 1e100
    return True


cdef bint linear(
    const Leaf* leaf, const Standard* standards, Row row, double* shares
) noexcept nogil:
    """Class shares by the softmax of a leaf's linear model; returns whether there are any."""
    cdef const Histogram* histogram
    cdef int32_t i, n = leaf.n_sums
    cdef double value, most, total = 0.0
    cdef Py_ssize_t position
    if n < 2 or n > MAX_MODELLED:
        return False
    for i in range(n):
        shares[i] = leaf.offsets[i]
    for position in range(row.n):
        histogram = find_histogram(leaf, row.columns[position], position)
        if histogram != NULL:
            value = standard(&standards[row.columns[position]], row.values[position])
            for i in range(n):
                shares[i] += value * histogram.model[i]
    most = shares[largest(shares, n)]
    for i in range(n):
        shares[i] = exp(shares[i] - most)
        total += shares[i]
    for i in range(n):
        shares[i] /= total
    return True


cdef double linear_number(
    const Leaf* leaf, const Standard* standards, Row row
) noexcept nogil:
    """The linear model's number, in deviations of all targets from their mean."""
    cdef const Histogram* histogram
    cdef double value = leaf.offsets[0]
    cdef Py_ssize_t position
    for position in range(row.n):
        histogram = find_histogram(leaf, row.columns[position], position)
        if histogram != NULL:
            value += histogram.model[0] * standard(
                &standards[row.columns[position]], row.values[position]
            )
    return value


cdef double mean_of(const double* sums, double* deviation) noexcept nogil:
    """The mean of targets from their sums w, w y and w y^2, and their standard deviation."""
    cdef double mean = sums[1] / sums[0]
    deviation[0] = sqrt(max(sums[2] / sums[0] - mean * mean, 0.0))
    return mean


cdef double guarded(double value, const double* all_sums, const double* sums) noexcept nogil:
    """A linear model's number in the unit of the targets, not far from what its node saw."""
    cdef double deviation, mean = mean_of(all_sums, &deviation)
    value = mean + value * deviation
    mean = mean_of(sums, &deviation)
    deviation *= NUMBER_LIMIT
    if value > mean + deviation:
        return mean + deviation
    return value if value >= mean - deviation else mean - deviation


cdef void train(
    Leaf* leaf, const Standard* standards, Row row, const double* slopes, double weight
) noexcept nogil:
    """One step of AdaGrad on the log loss, or for numbers on half the squared error.

    `slopes` holds what the model says, less what is so.
    """
    cdef Histogram* histogram
    cdef int32_t i, n = leaf.n_sums if leaf.labels != NULL else 1
    cdef double value, gradient
    cdef double rate = RATE / sqrt(1.0 + row.n)
    cdef Py_ssize_t position
    for i in range(n):
        gradient = weight * slopes[i]
        if gradient != 0.0:
            leaf.offsets[leaf.width + i] += gradient * gradient
            leaf.offsets[i] -= rate * gradient / sqrt(leaf.offsets[leaf.width + i])
    for position in range(row.n):
        histogram = find_histogram(leaf, row.columns[position], position)
        if histogram == NULL:
            continue
        value = weight * standard(&standards[row.columns[position]], row.values[position])
        for i in range(n):
            gradient = value * slopes[i]
            if gradient != 0.0:
                histogram.model[leaf.width + i] += gradient * gradient
                histogram.model[i] -= (
                    rate * gradient / sqrt(histogram.model[leaf.width + i])
                )


cdef void judge_label(
    Leaf* leaf, int leaf_model, const Standard* standards, double* counts, Row row, int32_t place,
    bint path_is_right, double weight
) noexcept nogil:
    """Score the answers that a leaf could have given, then train its linear model."""
    cdef double* count = &counts[leaf.labels[place]]
    cdef double counted = count[0]
    cdef double[MAX_MODELLED] shares
    cdef bint compares = leaf_model == ADAPTIVE and (
        leaf.rows < MANY_JUDGED or leaf.rows % JUDGED_PARTS == 0
    )
    # as before this row was counted
    count[0] = counted - weight
    if compares and bayes(leaf, counts, row, shares):
        leaf.scores[<int> BAYES] += weight * (largest(shares, leaf.n_sums) == place)
        leaf.scores[<int> PATH] += weight * path_is_right
    count[0] = counted
    if linear(leaf, standards, row, shares):
        leaf.scores[<int> LINEAR] += weight * compares * (largest(shares, leaf.n_sums) == place)
        shares[place] -= 1.0
        train(leaf, standards, row, shares, weight)


cdef void judge_number(
    Leaf* leaf, const Standard* standards, const double* all_sums, const double* sums, Row row,
    double target, double path_error, double weight
) noexcept nogil:
    """The same for numbers, by squared errors."""
    cdef double deviation, error, mean = mean_of(all_sums, &deviation)
    cdef double value = linear_number(leaf, standards, row)
    error = guarded(value, all_sums, sums) - target
    leaf.scores[<int> LINEAR] -= weight * error * error
    leaf.scores[<int> PATH] -= weight * path_error * path_error
    if deviation > 0.0:
        error = value - (target - mean) / deviation
        error = min(max(error, -STANDARD_LIMIT), STANDARD_LIMIT)
        train(leaf, standards, row, &error, weight)
