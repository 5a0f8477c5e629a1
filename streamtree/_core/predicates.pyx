"""The search for the predicate of a leaf: what its branches would gain, and whether that is sure.

A predicate is a threshold of a column or a nominal feature with a branch for every value; rows
without the feature have a branch of their own.
"""

from libc.math cimport HUGE_VAL, fabs, log, sqrt
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport free, qsort
from libc.string cimport memcpy, memset

from streamtree._core.histograms cimport Histogram, Leaf
from streamtree._core.memory cimport regrown
from streamtree._core.solvers cimport (
    LOG, ROUNDING, SQUARED, Scale, Share, alpha_linf, gain_l1, gain_log_l1, shares_multiclass,
    sigmoid,
)

# what a split gains on noise, per degree of freedom: charged when predicates are compared
cdef double NOISE_GAIN = 1.0


cdef struct Member:
    int32_t group
    int32_t column
    int32_t place
    int32_t unused


cdef int by_group(const void* a, const void* b) noexcept nogil:
    cdef const Member* x = <const Member*> a
    cdef const Member* y = <const Member*> b
    if x.group != y.group:
        return 1 if x.group > y.group else -1
    return 1 if x.column > y.column else -1


cdef inline double divergence(double q, double p) noexcept nogil:
    """The Kullback-Leibler divergence of Bernoulli shares."""
    cdef double value = 0.0
    if q > 0.0:
        value += q * log(q / p)
    if q < 1.0:
        value += (1.0 - q) * log((1.0 - q) / (1.0 - p))
    return value


cdef bint exceeds(
    int loss, const double* branch, double weight, const double* totals, double total, int32_t n,
    double squares, double lam, double level
) noexcept nogil:
    """Whether a branch differs from the rest of its node beyond penalty and chance.

    Of a class with the share p in the node, the branch has e more than its part. Were there
    nothing to learn, a branch at least as far from p as it still is after lambda is taken
    off e would have a chance of about exp(-g), where g is the likelihood ratio of two shares
    against one (Chernoff's bound, of the branch and of the rest); `level` is the g to beat.
    Of numbers, e must exceed lambda + s (sqrt(2 V level) + level), a Bernstein bound for
    tails like those of an exponential with the standard deviation s of the node.
    """
    cdef double rest = total - weight
    cdef double e, p, g, s
    cdef int32_t i
    if weight <= 0.0 or rest <= ROUNDING * total:
        return False
    if loss == SQUARED:
        s = squares / total - (totals[1] / total) * (totals[1] / total)
        s = sqrt(s) if s > 0.0 else 0.0
        e = fabs(branch[1] - weight * (totals[1] / total)) - lam
        return e > s * (sqrt(2.0 * level * weight * (rest / total)) + level)
    for i in range(n):
        p = totals[i] / total
        e = fabs(branch[i] - weight * p) - lam
        if e <= 0.0 or p >= 1.0:
            continue
        if branch[i] < weight * p:
            e = -e
        g = (weight * divergence(p + e / weight, p)
             + rest * divergence(min(max(p - e / rest, 0.0), 1.0), p))
        if g > level:
            return True
    return False


cdef int begin_look(Look* look, const double* values, double delta) except -1 nogil:
    """Make what a search needs; the fields above `parent` are set, `values` are the node's."""
    cdef const Leaf* leaf = look.leaf
    cdef int32_t i, n = leaf.n_sums, n_sums = n + 2, group
    cdef size_t most = leaf.n + 3
    cdef Member* members
    cdef int32_t n_members = 0
    cdef double rest = 1.0
    cdef double candidates = 0.0
    look.parent = <double*> regrown(
        NULL, (4 * n_sums + 3 * most) * sizeof(double) + most * sizeof(int32_t)
        + most * sizeof(Member) + (n_sums + 2 * most) * sizeof(Share)
    )
    look.branch = look.parent + n_sums
    look.other = look.branch + n_sums
    look.counts = look.other + n_sums
    look.positive = look.counts + n_sums
    look.negative = look.positive + most
    look.alpha = look.negative + most
    look.shares = <Share*> (look.alpha + most)
    members = <Member*> (look.shares + n_sums + 2 * most)
    look.order = <int32_t*> (members + most)
    look.share = sigmoid(look.bias)
    look.at_zero = look.at_one = -1
    if look.loss != SQUARED:
        for i in range(n):
            look.parent[i] = values[leaf.labels[i]]
            rest -= look.parent[i]
            if leaf.labels[i] == 0:
                look.at_zero = i
            elif leaf.labels[i] == 1:
                look.at_one = i
        look.parent[n] = max(rest, 0.0)
    for i in range(leaf.n):
        candidates += leaf.histograms[i].n_bins
        group = look.groups[leaf.histograms[i].column]
        if group < 0:
            look.order[look.n_numbers] = i
            look.n_numbers += 1
        else:
            members[n_members].group = group
            members[n_members].column = leaf.histograms[i].column
            members[n_members].place = i
            n_members += 1
    qsort(members, n_members, sizeof(Member), by_group)
    for i in range(n_members):
        look.order[look.n_numbers + i] = members[i].place
    look.level = log(
        2.0 * candidates * max(1, n - 1) * (leaf.looks * (leaf.looks + 1.0)) / delta
    )
    look.level *= leaf.weight_squares / leaf.weight
    return 0


cdef void end_look(Look* look) noexcept nogil:
    free(look.parent)


cdef double gain(Look* look, const double* sums) noexcept nogil:
    """What one branch gains under the l1 penalty."""
    cdef int32_t i, n = look.leaf.n_sums
    cdef double positive, negative
    if look.loss == SQUARED:
        if sums[0] <= 0.0:
            return 0.0
        return gain_l1(SQUARED, sums[0], sums[1], look.bias, look.lam)
    if look.is_two_class:
        positive = sums[look.at_one] if look.at_one >= 0 else 0.0
        negative = sums[look.at_zero] if look.at_zero >= 0 else 0.0
        if look.loss == LOG:
            return gain_log_l1(positive, negative, look.bias, look.share, look.lam)
        return gain_l1(look.loss, positive, negative, look.bias, look.lam)
    for i in range(n):
        look.counts[i] = sums[i]
    # the labels that the leaf has not met are one that no branch has
    look.counts[n] = 0.0
    return shares_multiclass(
        look.counts, look.parent, n + 1, 2.0 * look.lam, NULL, look.shares
    )


cdef int32_t n_branches(Look* look, Split* split) noexcept nogil:
    """How many branches a predicate may have, the one for missing values included."""
    return 3 if split.predicate == THRESHOLD else split.n + 1


cdef bint branch(Look* look, Split* split, int32_t number,
                 int32_t* key) noexcept nogil:
    """Write the sums of a branch to `look.branch`; returns whether anything is in it."""
    cdef const Leaf* leaf = look.leaf
    cdef const Histogram* histogram
    cdef int32_t i, j, k, n = leaf.n_sums
    cdef double* sums = look.branch
    cdef bint is_missing = number == n_branches(look, split) - 1
    cdef int64_t rows = 0
    cdef bint any_bin = False
    if is_missing:
        key[0] = MISSING
        memcpy(sums, leaf.totals, n * sizeof(double))
    else:
        memset(sums, 0, n * sizeof(double))
    for j in range(split.n):
        histogram = &leaf.histograms[look.order[split.first + j]]
        rows += histogram.rows
        if is_missing:
            for i in range(histogram.n_bins):
                for k in range(n):
                    sums[k] -= histogram.sums[<size_t> i * leaf.width + k]
        elif split.predicate == NOMINAL and j == number:
            key[0] = histogram.column
            any_bin = histogram.n_bins > 0
            memcpy(sums, histogram.sums, n * sizeof(double))
        elif split.predicate == THRESHOLD:
            key[0] = number
            for i in range(histogram.n_bins):
                if (i <= split.cut) == (number == 0):
                    any_bin = True
                    for k in range(n):
                        sums[k] += histogram.sums[<size_t> i * leaf.width + k]
    return rows < leaf.rows if is_missing else any_bin


cdef double gain_of_branches(Look* look, Split* split) noexcept nogil:
    """What a predicate gains under the l-infinity penalty: its branches together."""
    cdef int32_t number, key, n = 0
    cdef double* sums = look.branch
    for number in range(n_branches(look, split)):
        if not branch(look, split, number, &key):
            continue
        if look.loss == SQUARED:
            look.positive[n] = sums[0]
            look.negative[n] = sums[1]
        else:
            look.positive[n] = sums[look.at_one] if look.at_one >= 0 else 0.0
            look.negative[n] = sums[look.at_zero] if look.at_zero >= 0 else 0.0
        n += 1
    return alpha_linf(look.loss, look.positive, look.negative, n, look.bias, look.lam,
                      look.alpha, <Scale*> look.shares)


cdef void consider(Look* look, Split* split, Split* best) noexcept nogil:
    """Keep a candidate that is better than the best so far."""
    if look.is_linf:
        split.score += gain_of_branches(look, split)
    if best.predicate == NONE or split.score > best.score or (
        split.score == best.score and split.tie > best.tie
    ):
        best[0] = split[0]


cdef void consider_numbers(Look* look, int32_t place, Split* best) noexcept nogil:
    """All thresholds of a column."""
    cdef const Leaf* leaf = look.leaf
    cdef const Histogram* histogram = &leaf.histograms[look.order[place]]
    cdef int32_t i, k, key, n = leaf.n_sums
    cdef double* sums
    cdef double missing_gain = 0.0, low, high, charge = 0.0
    cdef bint has_missing
    cdef Split split
    memset(&split, 0, sizeof(Split))
    split.predicate = THRESHOLD
    split.column = histogram.column
    split.tie = look.ties[histogram.column]
    split.first = place
    split.n = 1
    has_missing = branch(look, &split, 2, &key)
    if has_missing and not look.is_linf:
        missing_gain = gain(look, look.branch)
    if look.charges:
        charge = NOISE_GAIN * leaf.weight_squares / leaf.weight * max(1, n - 1)
        if look.loss == SQUARED:
            charge *= (leaf.target_squares - leaf.totals[1] * leaf.totals[1] / leaf.weight)
            charge /= leaf.weight
    # `branch` holds what is left of the cut, `other` what is right of it
    memset(look.other, 0, n * sizeof(double))
    for i in range(histogram.n_bins):
        for k in range(n):
            look.other[k] += histogram.sums[<size_t> i * leaf.width + k]
    memset(look.branch, 0, n * sizeof(double))
    for i in range(histogram.n_bins):
        sums = &histogram.sums[<size_t> i * leaf.width]
        split.cut = i
        if i == histogram.n_bins - 1:
            # every value against none
            if not has_missing:
                return
            split.threshold = HUGE_VAL
            memcpy(look.branch, leaf.totals, n * sizeof(double))
            split.score = -charge
            if not look.is_linf:
                branch(look, &split, 0, &key)
                split.score += gain(look, look.branch) + missing_gain
            consider(look, &split, best)
            return
        low = histogram.high[i]
        high = histogram.low[i + 1]
        split.threshold = 0.5 * low + 0.5 * high
        if not low <= split.threshold < high:
            split.threshold = low
        split.score = -charge * (2 if has_missing else 1)
        if not look.is_linf:
            for k in range(n):
                look.branch[k] += sums[k]
                look.other[k] -= sums[k]
            split.score += (
                gain(look, look.branch) + gain(look, look.other) + missing_gain
            )
        consider(look, &split, best)


cdef void consider_categories(Look* look, Split* best) noexcept nogil:
    """Every nominal feature: a branch for each of its values."""
    cdef const Leaf* leaf = look.leaf
    cdef int32_t place = look.n_numbers, group, key, number, n = leaf.n_sums
    cdef int32_t n_present
    cdef double charge = 0.0
    cdef Split split
    if look.charges:
        charge = NOISE_GAIN * leaf.weight_squares / leaf.weight * max(1, n - 1)
        if look.loss == SQUARED:
            charge *= (leaf.target_squares - leaf.totals[1] * leaf.totals[1] / leaf.weight)
            charge /= leaf.weight
    while place < leaf.n:
        memset(&split, 0, sizeof(Split))
        group = look.groups[leaf.histograms[look.order[place]].column]
        split.predicate = NOMINAL
        split.column = group
        split.tie = look.ties[leaf.histograms[look.order[place]].column]
        split.first = place
        while place < leaf.n and look.groups[
            leaf.histograms[look.order[place]].column
        ] == group:
            split.n += 1
            place += 1
        n_present = 0
        for number in range(split.n + 1):
            if branch(look, &split, number, &key):
                n_present += 1
                if not look.is_linf:
                    split.score += gain(look, look.branch)
        split.score -= charge * (n_present - 1)
        if n_present >= 2:
            consider(look, &split, best)


cdef void best_split(Look* look, Split* best) noexcept nogil:
    """The candidate of the largest score; its predicate is NONE if there is none."""
    cdef int32_t i
    memset(best, 0, sizeof(Split))
    for i in range(look.n_numbers):
        consider_numbers(look, i, best)
    consider_categories(look, best)


cdef double spread_of(const Leaf* leaf, const double* sums) noexcept nogil:
    """The squares of a branch's targets, taken to vary as the leaf's do around its mean."""
    cdef double mean, variance
    if sums[0] <= 0.0:
        return 0.0
    mean = sums[1] / sums[0]
    variance = leaf.target_squares / leaf.weight - (leaf.totals[1] / leaf.weight) ** 2
    return sums[0] * (mean * mean + max(variance, 0.0))
