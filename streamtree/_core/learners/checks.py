"""What must hold of the state of learners, besides that of their trees."""

import numpy as np

from streamtree._core.store.checks import check_counts, check_finite, require
from streamtree._core.stream.checks import check_scales


def check_course(course):
    """Raise StateError unless a tree can go on from these losses."""
    check_counts(course["n"])
    require(course["n"] < 2**62, "rows that were judged")
    losses = [course[name] for name in ("rows", "sum", "first", "late", "capped")]
    check_finite(np.array(losses), at_least=0.0)


def check_regressor(state):
    """Raise StateError unless `Regressor.restore` can trust a state; returns how many targets."""
    shrinkage, targets = state["shrinkage"], state["targets"]
    n_targets = 1 if targets is None else len(targets)
    require(shrinkage.shape == (n_targets,), "the shrinkage of the targets")
    check_finite(shrinkage, "mean", "product")
    check_finite(
        shrinkage, "weight", "variance", "judged_weight", "spread", "share", "rows",
        "judged", at_least=0,
    )
    require((shrinkage["share"] <= 1).all(), "the shrinkage of the targets")
    require(state["target_scales"].shape == (n_targets,), "the scales of the targets")
    check_scales(state["target_scales"])
    require(state["learned_range"].shape == (n_targets, 2), "the range of the targets")
    check_finite(state["learned_range"])
    return n_targets
