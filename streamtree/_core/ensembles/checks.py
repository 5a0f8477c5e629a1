"""What must hold of the state of pools."""

import numpy as np

from streamtree._core.store.checks import check_counts, check_finite, require
from streamtree._core.trees.tree import check_targets, check_trust


def check_pool(state, n_members):
    """Raise StateError unless a pool of any kind can trust a state."""
    for name in ("says", "shares", "refused"):
        require(len(state[name]) == n_members, "the number of members")
    check_finite(state["says"])
    require(((state["refused"] & ~1) == 0).all(), "whether a member asked for more")
    check_finite(state["shares"], at_least=0.0)
    require(sum(state["shares"]) < 1.001, "the shares of the members")
    check_counts(state["rows"], state["next_sharing"])
    require(state["next_sharing"] >= state["rows"], "when memory is shared out")


def check_log_linear_pool(state, counted, least_asked, rests, exponents):
    """Raise StateError unless `LogLinearPool.take_own_state` can trust the state of a pool.

    At least `least_asked` of the members `counted` never rest; `rests` are how many rows the others
    may; `exponents` the least and the largest.
    """
    watches, says, curvatures = state["watches"], state["says"], state["curvatures"]
    n_members = len(says)
    require(len(watches) == n_members, "the number of members")
    rows = watches["rows"]
    require(((rows >= 0) & (rows < 2**62)).all(), "rows that members were asked")
    require(((watches["left"] >= 0) & (watches["left"] <= max(rests))).all(), "rests")
    require(np.isin(watches["next_rest"], rests).all(), "rests")
    left = watches["left"][counted]
    require((left == 0).sum() >= min(least_asked, len(left)), "rests of all")
    require(((says >= exponents[0]) & (says <= exponents[1])).all(), "exponents")
    require((says[watches["left"] > 0] == 0.0).all(), "exponents of members that rest")
    require(curvatures.shape == (n_members, n_members), "the curvatures")
    check_finite(np.array([state["losses"]]), at_least=0.0)
    # false for NaN; a row adds at most MOST_REPEATS times the square of the least logarithm
    require((np.abs(curvatures) < 1e8).all(), "the curvatures")
    require(not np.triu(curvatures, 1).any(), "the curvatures")
    curvatures = curvatures + np.tril(curvatures, -1).T
    require(np.linalg.eigvalsh(curvatures)[0] > -1e-3, "the curvatures")


def check_linear_pool(state, n_pooled, n_slopes, n_recent):
    """Raise StateError unless `LinearPool.take_own_state` can trust the state of a pool."""
    check_targets(state["targets"])
    check_finite(state["says"], at_least=0.0)
    require(abs(sum(state["says"][:n_pooled]) - 1.0) < 1e-3, "the weights of the members")
    check_trust(state["trust"])
    require((state["says"][n_pooled:] <= 1.0).all(), "how far contexts are followed")
    check_finite(state["squares"], at_least=0.0)
    require(len(state["squares"]) == n_pooled, "the number of members")
    check_finite(state["recent"])
    check_finite(state["worth"])
    check_counts(state["judged"])
    require(state["judged"] < 2**62, "rows that were judged")
    require(state["recent"].shape == (n_recent,), "the last targets")
    require(state["worth"].shape == (2,), "what corrections are worth")
    require(state["worth"][1] >= 0.0, "what corrections are worth")
    _check_ridge(state["ridge"], n_slopes)


def _check_ridge(sums, n):
    """Sums of products are those of rows, and slopes no larger than such can make them."""
    require(sums.shape == ((n + 2) * n,), "the correction of a pool")
    # false for NaN
    require((np.abs(sums) < 1e6).all(), "the correction of a pool")
    products = sums[2 * n:].reshape(n, n)
    require(np.array_equal(products, products.T), "the correction of a pool")
    require(np.linalg.eigvalsh(products)[0] > -1e-3, "the correction of a pool")
