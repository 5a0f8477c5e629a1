"""The search for the predicate of a leaf: what its branches would gain, and whether that is sure.

A predicate is a threshold of a column or a nominal feature with a branch for every value; rows
without the feature have a branch of their own.
"""

from libc.math cimport HUGE_VAL, fabs, log, sqrt
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport free, qsort
from libc.string cimport memcpy, memset

from streamtree._core.kernels.losses cimport LOGISTIC, SQUARED, sigmoid
from streamtree._core.kernels.significance cimport bernoulli_divergence, level_of_look
from streamtree._core.kernels.solvers cimport (
    ROUNDING, Branches, Scale, Share, alpha_linf, gain_l1, gain_log_l1, shares_multiclass,
)
from streamtree._core.splits.histograms cimport Histogram, Statistics, bin_weight
from streamtree._core.store.memory cimport regrown

# what a split gains on noise, per degree of freedom: charged when predicates are compared
cdef double NOISE_GAIN = 1.0
# how many deviations of a leaf's numbers a row of a branch counts for at most
cdef double FAR = 4.0


cdef struct Member:
    # a category's histogram
    int32_t group
    int32_t column
    int32_t place


cdef int by_group(const void* a, const void* b) noexcept nogil:
    cdef const Member* x = <const Member*> a
    cdef const Member* y = <const Member*> b
    if x.group != y.group:
        return 1 if x.group > y.group else -1
    return 1 if x.column > y.column else -1


cdef bint exceeds(int loss, const BranchSums* branch, double lam, double level) noexcept nogil:
    """Whether a branch differs from the rest of its node beyond penalty and chance.

    Of a class with the share p in the node, the branch has e more than its part. Were there
    nothing to learn, a branch at least as far from p as it still is after lambda is taken
    off e would have a chance of about exp(-g), where g is the likelihood ratio of two shares
    against one (Chernoff's bound, of the branch and of the rest); `level` is the g to beat.
    Of numbers, e must exceed lambda + s (sqrt(2 V level) + level), a Bernstein bound for
    tails like those of an exponential with the standard deviation s of the node. No row counts for
    more than a few of these deviations.
    """
    cdef double weight = branch.weight, total = branch.total
    cdef double rest = total - weight
    cdef double e, p, g, s
    cdef int32_t i
    if weight <= 0.0 or rest <= ROUNDING * total:
        return False
    if loss == SQUARED:
        p = branch.totals[1] / total
        s = branch.target_squares / total - p * p
        s = sqrt(s) if s > 0.0 else 0.0
        e = min(fabs(branch.sums[1] - weight * p), FAR * s * weight) - lam
        return e > s * deviations_of(weight, rest / total, level)
    for i in range(branch.n):
        p = branch.totals[i] / total
        e = fabs(branch.sums[i] - weight * p) - lam
        if e <= 0.0 or p >= 1.0:
            continue
        if branch.sums[i] < weight * p:
            e = -e
        g = (weight * bernoulli_divergence(p + e / weight, p)
             + rest * bernoulli_divergence(min(max(p - e / rest, 0.0), 1.0), p))
        if g > level:
            return True
    return False


cdef double deviations_of(double weight, double rest, double level) noexcept nogil:
    """What numbers of a branch must be off together; `rest` is the share of what is beside it."""
    return sqrt(2.0 * level * weight * rest) + level


cdef void set_order(PredicateSearch* search, Member* members) noexcept nogil:
    """Put the histograms of numbers first, then those of categories by feature."""
    cdef const Statistics* leaf = search.leaf
    cdef int32_t i, group, n_members = 0
    for i in range(leaf.n):
        group = search.groups[leaf.histograms[i].column]
        if group < 0:
            search.order[search.n_numbers] = i
            search.n_numbers += 1
        else:
            members[n_members].group = group
            members[n_members].column = leaf.histograms[i].column
            members[n_members].place = i
            n_members += 1
    qsort(members, n_members, sizeof(Member), by_group)
    for i in range(n_members):
        search.order[search.n_numbers + i] = members[i].place


cdef int begin_search(PredicateSearch* search, const double* values, double delta) except -1 nogil:
    """Make what a search needs; the fields above `parent` are set, `values` are the node's."""
    cdef const Statistics* leaf = search.leaf
    cdef int32_t i, n = leaf.n_sums, n_sums = n + 2
    cdef size_t most = leaf.n + 3
    cdef Member* members
    cdef double rest = 1.0, mean
    cdef double noise = leaf.weight_squares / leaf.weight * max(1, n - 1)
    search.parent = <double*> regrown(
        NULL, (4 * n_sums + 3 * most) * sizeof(double) + 2 * most * sizeof(int32_t)
        + most * sizeof(Member) + (n_sums + 2 * most) * sizeof(Share)
    )
    search.branch = search.parent + n_sums
    search.other = search.branch + n_sums
    search.counts = search.other + n_sums
    search.positive = search.counts + n_sums
    search.negative = search.positive + most
    search.alpha = search.negative + most
    search.shares = <Share*> (search.alpha + most)
    members = <Member*> (search.shares + n_sums + 2 * most)
    search.order = <int32_t*> (members + most)
    search.grows = search.order + most
    set_order(search, members)
    search.share = sigmoid(search.bias)
    search.at_zero = search.at_one = -1
    if search.loss == SQUARED:
        mean = leaf.totals[1] / leaf.weight
        noise *= leaf.target_squares / leaf.weight - mean * mean
    else:
        for i in range(n):
            search.parent[i] = values[leaf.labels[i]]
            rest -= search.parent[i]
            if leaf.labels[i] == 0:
                search.at_zero = i
            elif leaf.labels[i] == 1:
                search.at_one = i
        search.parent[n] = max(rest, 0.0)
    search.charge = NOISE_GAIN * noise if search.charges else 0.0
    search.level = level_of(search, delta)
    return 0


cdef double level_of(const PredicateSearch* search, double delta) noexcept nogil:
    """What a branch must exceed, for as many candidates as could.

    One that would not exceed the level of a single candidate, were all of its rows of the rarest
    label, or as far off as rows count, is none (Tarone, 1990): so columns that came a few times
    only do not count.
    """
    cdef const Statistics* leaf = search.leaf
    cdef const Histogram* histogram
    cdef double unit = leaf.weight_squares / leaf.weight
    cdef double chance = level_of_look(delta, leaf.looks) / (2.0 * max(1, leaf.n_sums - 1))
    cdef double rarest = leaf.weight, candidates = 0.0, weight, rest, level = -log(chance) * unit
    cdef bint may_exceed
    cdef int32_t i, k
    for k in range(leaf.n_sums):
        if leaf.totals[k] > 0.0:
            rarest = min(rarest, leaf.totals[k])
    for i in range(leaf.n):
        histogram = &leaf.histograms[i]
        weight = 0.0
        for k in range(histogram.n_bins):
            weight += bin_weight(leaf, &histogram.sums[<size_t> k * leaf.width])
        if search.loss == SQUARED:
            rest = max(1.0 - weight / leaf.weight, 0.0)
            may_exceed = FAR * weight >= deviations_of(weight, rest, level)
        else:
            may_exceed = weight * log(leaf.weight / rarest) >= level
        if may_exceed:
            candidates += histogram.n_bins
    return log(max(1.0, candidates) / chance) * unit


cdef void end_search(PredicateSearch* search) noexcept nogil:
    free(search.parent)


cdef double gain(PredicateSearch* search, const double* sums) noexcept nogil:
    """What one branch gains under the l1 penalty."""
    cdef int32_t i, n = search.leaf.n_sums
    cdef double positive, negative
    if search.loss == SQUARED:
        if sums[0] <= 0.0:
            return 0.0
        return gain_l1(SQUARED, sums[0], sums[1], search.bias, search.lam)
    if search.is_two_class:
        positive = sums[search.at_one] if search.at_one >= 0 else 0.0
        negative = sums[search.at_zero] if search.at_zero >= 0 else 0.0
        if search.loss == LOGISTIC:
            return gain_log_l1(positive, negative, search.bias, search.share, search.lam)
        return gain_l1(search.loss, positive, negative, search.bias, search.lam)
    for i in range(n):
        search.counts[i] = sums[i]
    # the labels that the leaf has not met are one that no branch has
    search.counts[n] = 0.0
    return shares_multiclass(
        search.counts, search.parent, n + 1, 2.0 * search.lam, NULL, search.shares
    )


cdef int32_t n_branches(const Split* split) noexcept nogil:
    """How many branches a predicate may have, the one for missing values included."""
    return 3 if split.predicate == THRESHOLD else split.n + 1


cdef bint branch(PredicateSearch* search, Split* split, int32_t number,
                 int32_t* key) noexcept nogil:
    """Write the sums of a branch to `search.branch`; returns whether anything is in it."""
    cdef const Statistics* leaf = search.leaf
    cdef const Histogram* histogram
    cdef int32_t i, j, k, n = leaf.n_sums
    cdef double* sums = search.branch
    cdef int64_t rows = 0
    cdef bint any_bin = False
    # the last one is of rows that have none of the columns
    if number == n_branches(split) - 1:
        key[0] = MISSING
        memcpy(sums, leaf.totals, n * sizeof(double))
        for j in range(split.n):
            histogram = &leaf.histograms[search.order[split.first + j]]
            rows += histogram.rows
            for i in range(histogram.n_bins):
                for k in range(n):
                    sums[k] -= histogram.sums[<size_t> i * leaf.width + k]
        return rows < leaf.rows
    if split.predicate == NOMINAL:
        histogram = &leaf.histograms[search.order[split.first + number]]
        key[0] = histogram.column
        memcpy(sums, histogram.sums, n * sizeof(double))
        return histogram.n_bins > 0
    histogram = &leaf.histograms[search.order[split.first]]
    key[0] = number
    memset(sums, 0, n * sizeof(double))
    for i in range(histogram.n_bins):
        if (i <= split.cut) == (number == 0):
            any_bin = True
            for k in range(n):
                sums[k] += histogram.sums[<size_t> i * leaf.width + k]
    return any_bin


cdef double gain_of_branches(PredicateSearch* search, Split* split) noexcept nogil:
    """What a predicate gains under the l-infinity penalty: its branches together."""
    cdef int32_t number, key, n = 0
    cdef double* sums = search.branch
    cdef Branches branches
    for number in range(n_branches(split)):
        if not branch(search, split, number, &key):
            continue
        if search.loss == SQUARED:
            search.positive[n] = sums[0]
            search.negative[n] = sums[1]
        else:
            search.positive[n] = sums[search.at_one] if search.at_one >= 0 else 0.0
            search.negative[n] = sums[search.at_zero] if search.at_zero >= 0 else 0.0
        n += 1
    branches = Branches(search.positive, search.negative, n, search.loss, search.bias)
    return alpha_linf(&branches, search.lam, search.alpha, <Scale*> search.shares)


cdef void consider(PredicateSearch* search, Split* split, Split* best) noexcept nogil:
    """Keep a candidate that is better than the best so far."""
    if search.is_linf:
        split.score += gain_of_branches(search, split)
    if best.predicate == NONE or split.score > best.score or (
        split.score == best.score and split.tie > best.tie
    ):
        best[0] = split[0]


cdef double between(double low, double high) noexcept nogil:
    """A threshold with `low` on its left and `high` on its right."""
    cdef double middle = 0.5 * low + 0.5 * high
    return middle if low <= middle < high else low


cdef void consider_numbers(PredicateSearch* search, int32_t place, Split* best) noexcept nogil:
    """All thresholds of a column."""
    cdef const Statistics* leaf = search.leaf
    cdef const Histogram* histogram = &leaf.histograms[search.order[place]]
    cdef int32_t i, k, key, n = leaf.n_sums
    cdef double* sums
    cdef double missing_gain = 0.0
    cdef bint has_missing
    cdef Split split
    memset(&split, 0, sizeof(Split))
    split.predicate = THRESHOLD
    split.column = histogram.column
    split.tie = search.ties[histogram.column]
    split.first = place
    split.n = 1
    has_missing = branch(search, &split, 2, &key)
    if has_missing and not search.is_linf:
        missing_gain = gain(search, search.branch)
    # `branch` holds what is left of the cut, `other` what is right of it
    memset(search.branch, 0, n * sizeof(double))
    memset(search.other, 0, n * sizeof(double))
    for i in range(histogram.n_bins):
        for k in range(n):
            search.other[k] += histogram.sums[<size_t> i * leaf.width + k]
    for i in range(histogram.n_bins - 1):
        sums = &histogram.sums[<size_t> i * leaf.width]
        split.cut = i
        split.threshold = between(histogram.high[i], histogram.low[i + 1])
        split.score = -search.charge * (2 if has_missing else 1)
        if not search.is_linf:
            for k in range(n):
                search.branch[k] += sums[k]
                search.other[k] -= sums[k]
            split.score += (
                gain(search, search.branch) + gain(search, search.other) + missing_gain
            )
        consider(search, &split, best)
    if has_missing and histogram.n_bins:
        # every value against none
        split.cut = histogram.n_bins - 1
        split.threshold = HUGE_VAL
        split.score = -search.charge
        if not search.is_linf:
            branch(search, &split, 0, &key)
            split.score += gain(search, search.branch) + missing_gain
        consider(search, &split, best)


cdef void consider_categories(PredicateSearch* search, Split* best) noexcept nogil:
    """Every nominal feature: a branch for each of its values."""
    cdef const Statistics* leaf = search.leaf
    cdef int32_t place = search.n_numbers, column, key, number, n_present
    cdef Split split
    while place < leaf.n:
        memset(&split, 0, sizeof(Split))
        column = leaf.histograms[search.order[place]].column
        split.predicate = NOMINAL
        split.column = search.groups[column]
        split.tie = search.ties[column]
        split.first = place
        while place < leaf.n and split.column == search.groups[
            leaf.histograms[search.order[place]].column
        ]:
            split.n += 1
            place += 1
        n_present = 0
        for number in range(split.n + 1):
            if branch(search, &split, number, &key):
                n_present += 1
                if not search.is_linf:
                    split.score += gain(search, search.branch)
        split.score -= search.charge * (n_present - 1)
        if n_present >= 2:
            consider(search, &split, best)


cdef void best_split(PredicateSearch* search, Split* best) noexcept nogil:
    """The candidate of the largest score; its predicate is NONE if there is none."""
    cdef int32_t i
    memset(best, 0, sizeof(Split))
    for i in range(search.n_numbers):
        consider_numbers(search, i, best)
    consider_categories(search, best)


cdef double squares_of(const Statistics* leaf, const double* sums) noexcept nogil:
    """The squares of a branch's targets, taken to vary as the leaf's do around its mean."""
    cdef double mean, variance
    if sums[0] <= 0.0:
        return 0.0
    mean = sums[1] / sums[0]
    variance = leaf.target_squares / leaf.weight - (leaf.totals[1] / leaf.weight) ** 2
    return sums[0] * (mean * mean + max(variance, 0.0))
