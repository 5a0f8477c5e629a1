"""Several models made one: trees of one structure are averaged.

All of it happens on snapshots, and what comes out passes the same checks as a model file.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from streamtree._core.stream.features import Category
from streamtree._core.stream.labels import MOST_WAITING
from streamtree._core.stream.scales import SETTLED
from streamtree.base import StreamModel, is_itself
from streamtree.nongreedy import (
    NonGreedyTreeClassifier,
    NonGreedyTreeMultiTargetRegressor,
    NonGreedyTreeRegressor,
)

__all__ = ["merge"]

Model = TypeVar("Model", bound=StreamModel)
State = dict[str, Any]
Array = NDArray[Any]

FIXED = (NonGreedyTreeClassifier, NonGreedyTreeRegressor, NonGreedyTreeMultiTargetRegressor)
# a model that merging gives has tables as if they were new
NEW_CAPACITY = 1


def merge(models: Sequence[Model], *, start: Model | None = None) -> Model:
    """One model of several that learned different rows, side by side.

    Trees of fixed structure (`NonGreedyTreeClassifier` and its regressors) are averaged. They must
    have the same splits, that is, come from one model whose warm-up was over (or that had
    `start="zeros"`). Weights, offsets and outputs of leaves become means, weighted by the rows that
    each model has learned since the start. Counts, sums and moments (of classes, targets, columns)
    are added up exactly. Names and labels are matched by name; new ones come behind those of the
    first model.

    Parameters
    ----------
    models
        At least one model, all of one class with the same parameters. They are not changed.
    start
        The model from which all of them set out, so that what it had learned counts once. None if
        they had learned nothing then.

    Returns
    -------
    A new model. Where nothing was learned since the start, it is as the start, up to rounding.

    Raises
    ------
    TypeError
        If the models are not of one class, or of one that grows: shards of such trees say
        together what a row is, see `streamtree.ModelPool`.
    ValueError
        If parameters or splits differ, a warm-up or a mini-batch is not over, another tree is tried
        out or has taken over, or what is a category in one model is a number in another.

    References
    ----------
    [^1]: McDonald, R., Hall, K. and Mann, G., 2010. Distributed training strategies for the
        structured perceptron. NAACL. (Iterative parameter mixing.)

    Examples
    --------
    >>> import copy, numpy as np, streamtree
    >>> rng = np.random.default_rng(1)
    >>> X = rng.normal(size=(6000, 4))
    >>> y = X[:, 0] * X[:, 1] > 0
    >>> start = streamtree.NonGreedyTreeClassifier(depth=4)
    >>> start.learn_many(X[:2000], y[:2000])
    >>> left, right = copy.deepcopy(start), copy.deepcopy(start)
    >>> left.learn_many(X[2000:4000], y[2000:4000])
    >>> right.learn_many(X[4000:], y[4000:])
    >>> both = streamtree.merge([left, right], start=start)
    >>> both.snapshot()["scaler"]["rows"]
    6000

    """
    models = list(models)
    if not models:
        raise ValueError("there is no model to merge")
    first = models[0]
    everyone = models if start is None else [*models, start]
    for model in everyone:
        if not is_itself(model, FIXED):
            raise TypeError(
                f"{type(model).__name__} has no fixed structure that could be averaged; "
                "streamtree.ModelPool lets several models predict together"
            )
        if type(model) is not type(first):
            raise TypeError(f"cannot merge {type(model).__name__} with {type(first).__name__}")
        check_same_parameters(first, model)
    merged = first.clone()
    state = merge_states(
        [model.snapshot() for model in models],
        merged.snapshot() if start is None else start.snapshot(), has_start=start is not None,
    )
    # sums of what was finite may not be
    merged._core.check_state(state)
    merged._core.restore(state)
    return merged


def merge_states(states: list[State], base: State, *, has_start: bool) -> State:
    """As `merge`, with snapshots; of models of one class with the same parameters."""
    states = _with_targets(states, base)
    _check_fit(states, base if has_start else states[0])
    if not set(base["features"]).issubset(name for state in states for name in state["features"]):
        raise ValueError("the start has columns that no model has: they have not set out from it")
    # squares of the largest values are infinite, and what they differ by is no number
    with np.errstate(over="ignore", invalid="ignore"):
        return _merged(states, base)


def check_same_parameters(model: StreamModel, other: StreamModel) -> None:
    """Raise ValueError for the first parameter in which two models differ."""
    theirs = other._get_params()
    for name, value in model._get_params().items():
        if theirs[name] != value:
            raise ValueError(
                f"the models differ in {name!r}: {value!r} in one, {theirs[name]!r} in another"
            )


def _with_targets(states: list[State], base: State) -> list[State]:
    """States; those that know no names of several targets yet have those of the others."""
    like = next((state for state in (base, *states) if state.get("targets")), None)
    if like is None:
        return states
    blank = {
        part: np.zeros_like(like[part]) for part in ("shrinkage", "target_scales", "learned_range")
    }
    return [
        state if state["targets"] else {**state, **blank, "targets": like["targets"]}
        for state in states
    ]


def _check_fit(states: list[State], base: State) -> None:
    """Raise ValueError unless models have one structure and are in the middle of nothing."""
    categories, numbers = set(), set()
    # a start that has learned nothing has none yet
    targets = base.get("targets") or states[0].get("targets")
    for state in states:
        tree = state["tree"]
        if "challenge" in state:
            raise ValueError("a model tries out another tree: none does with restarts=False")
        if tree["warm_up"]["n_rows"]:
            raise ValueError("a model is still in its warm-up: its splits are not settled")
        if tree["in_batch"] or tree["touched"]:
            raise ValueError("a model is in the middle of a mini-batch: batch_size rows make one")
        if len(tree["held"]["keys"]) or (tree["nodes"]["held_round"] >= 0).any():
            raise ValueError("models with hold keep their splits for a round and cannot be merged")
        if not np.array_equal(tree["links"], base["tree"]["links"]):
            raise ValueError("the models have different splits: let them set out from one model")
        if state.get("targets") != targets:
            raise ValueError(
                f"the models have different targets: {state['targets']!r} and {targets!r}"
            )
        for name in state["features"]:
            if type(name) is Category:
                categories.add(name[0])
            else:
                numbers.add(name)
    for name in categories & numbers:
        raise ValueError(
            f"feature {name!r} is a category in one model and a number in another"
        )


def _union(lists: list[list[Hashable]]) -> tuple[list[Any], list[Array]]:
    """All names in order of appearance, and for every list where its names are among them."""
    places: dict[Hashable, int] = {}
    numbers = [
        np.array([places.setdefault(name, len(places)) for name in names], dtype=np.int64)
        for names in lists
    ]
    return list(places), numbers


def _merged(states: list[State], base: State) -> State:
    rows = np.array([state["scaler"]["rows"] - base["scaler"]["rows"] for state in states])
    if (rows < 0).any():
        raise ValueError("a model has learned fewer rows than the start has")
    if any(state["tree"]["n_learned"] < base["tree"]["n_learned"] for state in states):
        raise ValueError(
            "a model has begun anew: with restarts=False only a regressor does, in its first 32 "
            "rows; let each learn so many before the first merge"
        )
    shares = rows / rows.sum() if rows.sum() else np.full(len(states), 1 / len(states))
    features, columns = _union([base["features"], *(state["features"] for state in states)])
    merged: State = {
        # how the one has erred that has learned most
        "course": states[int(np.argmax(rows))]["course"],
        "features": features,
        "scaler": {
            "columns": _merged_columns(states, base, columns, len(features), rows),
            "rows": int(base["scaler"]["rows"] + rows.sum()),
            "mean_norm": _mean(shares, [state["scaler"]["mean_norm"] for state in states]),
        },
    }
    if "labels" in base:
        merged["labels"], outputs = _union(
            [base["labels"], *(state["labels"] for state in states)]
        )
        merged |= _merged_waiting(states, base, merged["labels"], outputs)
    else:
        n_targets = len(states[0]["shrinkage"])
        outputs = [np.arange(n_targets)] * (len(states) + 1)
        merged["targets"] = states[0]["targets"]
        merged |= _merged_targets(states, base, shares)
    merged["tree"] = _merged_tree(states, base, shares, columns[1:], outputs)
    return merged


def _merged_waiting(
    states: list[State], base: State, labels: list[Any], outputs: list[Array]
) -> State:
    """Which labels came more than once, in how many rows any did, and which wait for that."""
    again, times = np.zeros(len(labels), dtype=np.uint8), np.zeros(len(labels), dtype=int)
    for state, numbers in zip(states, outputs[1:], strict=True):
        again[numbers] |= state["labels_came_again"]
        times[numbers] += 1
    # what the start knew came once, before it was spread
    times[outputs[0]] = 0
    repeats = base["label_repeats"] + int((times[times > 1] - 1).sum())
    repeats += sum(state["label_repeats"] - base["label_repeats"] for state in states)
    waiting = dict.fromkeys(label for state in states for label in state["waiting_labels"])
    for label in labels:
        waiting.pop(label, None)
    return {
        "labels_came_again": again | (times > 1).astype(np.uint8),
        # models that do not come from the start may have fewer than it has
        "label_repeats": max(repeats, 0),
        "waiting_labels": list(waiting)[-MOST_WAITING:],
    }


def _mean(shares: Array, values: list[Any]) -> float:
    return float(np.dot(shares, values))


# ------------------------------------------------------------------------------- scales


def _merged_columns(
    states: list[State], base: State, numbers: list[Array], n_columns: int, rows: Array
) -> Array:
    """The scales of all columns."""
    records = base["scaler"]["columns"]
    merged = np.zeros(n_columns, dtype=records.dtype)
    base_rows = base["scaler"]["rows"]
    where = [{int(c): i for i, c in enumerate(known)} for known in numbers]
    for column in range(n_columns):
        own = [
            state["scaler"]["columns"][place[column]] if column in place else None
            for state, place in zip(states, where[1:], strict=True)
        ]
        before = records[where[0][column]] if column in where[0] else None
        scale = _merged_scale([s for s in own if s is not None], before)
        zeros_before = 0 if before is None else before["zeros"]
        scale["zeros"] = zeros_before + sum(s["zeros"] - zeros_before for s in own if s is not None)
        if before is None:
            # as many rows since its birth as there are in all models that have it
            since = sum(
                base_rows + n - s["birth"] for n, s in zip(rows, own, strict=True) if s is not None
            )
            scale["birth"] = max(0, base_rows + int(rows.sum()) - since)
        merged[column] = scale
    return merged


def _merged_scale(scales: list[Any], before: Any) -> Any:
    """One scale of several that went on from one, if there was one; not its zeros and birth."""
    # where some have begun anew in another unit, the sums of the others are of no use
    latest = max((int(s["n_units"]), int(s["forgotten"])) for s in scales)
    known = [s for s in scales if (int(s["n_units"]), int(s["forgotten"])) == latest]
    settled = [s for s in known if s["phase"] == SETTLED]
    largest = max(known, key=lambda s: s["counted"])
    merged = largest.copy()
    if not settled:
        return merged
    is_shared = (
        before is not None and before["phase"] == SETTLED
        and (int(before["n_units"]), int(before["forgotten"])) == latest
    )
    pivot = float(settled[0]["pivot"])
    sums = np.array([_sums_about(s, pivot) for s in settled])
    if is_shared:
        start = np.array(_sums_about(before, pivot))
        total = start + (sums - start).sum(axis=0)
    else:
        total = sums.sum(axis=0)
    counted = int(total[0])
    merged["pivot"], merged["counted"] = pivot, counted
    merged["sum"], merged["sum_squares"] = total[1], max(total[2], total[1] ** 2 / counted)
    merged["has_varied"] = max(s["has_varied"] for s in settled)
    # a new block; the exact center and factor are computed at the next value
    merged["phase"] = SETTLED
    merged["block_begin"] = merged["refresh_at"] = merged["look_at"] = counted
    merged["block_sum"], merged["block_squares"] = merged["sum"], merged["sum_squares"]
    weights = sums[:, 0] / sums[:, 0].sum()
    for field in ("center", "factor"):
        merged[field] = _mean(weights, [s[field] for s in settled])
    for field in ("is_dense", "is_listed"):
        merged[field] = largest[field]
    return merged


def _sums_about(scale: Any, pivot: float) -> tuple[float, float, float]:
    """Count, sum and squares of a scale, taken from another pivot."""
    n, total, moved = float(scale["counted"]), float(scale["sum"]), float(scale["pivot"]) - pivot
    squares = float(scale["sum_squares"]) + 2.0 * moved * total + n * moved * moved
    return n, total + n * moved, squares


# ------------------------------------------------------------------------------ targets


def _merged_targets(states: list[State], base: State, shares: Array) -> State:
    """What regressors know of their targets."""
    shrinkage = states[0]["shrinkage"].copy()
    scales = states[0]["target_scales"].copy()
    for target in range(len(shrinkage)):
        for field in shrinkage.dtype.names:
            values = [state["shrinkage"][target][field] for state in states]
            if field in ("weight", "judged_weight", "rows", "judged"):
                before = base["shrinkage"][target][field] if len(base["shrinkage"]) else 0
                shrinkage[target][field] = before + sum(value - before for value in values)
            else:
                shrinkage[target][field] = _mean(shares, values)
        before = base["target_scales"][target] if len(base["target_scales"]) else None
        scales[target] = _merged_scale([s["target_scales"][target] for s in states], before)
    # a model that has learned nothing has none
    learned_some = [state for state in states if state["scaler"]["rows"]] or states
    ranges = np.array([state["learned_range"] for state in learned_some])
    learned = np.stack([ranges[..., 0].min(axis=0), ranges[..., 1].max(axis=0)], axis=-1)
    return {"shrinkage": shrinkage, "target_scales": scales, "learned_range": learned}


def _moments(records: Array, n: int, places: Array) -> Array:
    """Weight, weight times mean and sum of squares about 0, by class or target, shape (n, 3)."""
    sums = np.zeros((n, 3))
    weight, mean = records["weight"], records["mean"]
    sums[places[: len(records)], 0] = weight
    sums[places[: len(records)], 1] = weight * mean
    sums[places[: len(records)], 2] = records["squares"] + weight * mean * mean
    return sums


def _merged_totals(trees: list[State], base: State, outputs: list[Array]) -> Array:
    n = max((int(p[: len(t["totals"])].max(initial=-1)) + 1 for t, p in
             zip([base, *trees], outputs, strict=True)), default=0)
    start = _moments(base["totals"], n, outputs[0])
    total = start + sum(
        _moments(tree["totals"], n, places) - start
        for tree, places in zip(trees, outputs[1:], strict=True)
    )
    merged = np.zeros(n, dtype=base["totals"].dtype)
    merged["weight"] = total[:, 0]
    merged["mean"] = np.divide(total[:, 1], total[:, 0], out=np.zeros(n), where=total[:, 0] > 0)
    merged["squares"] = np.maximum(0.0, total[:, 2] - total[:, 1] * merged["mean"])
    return merged


# --------------------------------------------------------------------------------- tree


def _merged_tree(
    states: list[State], base: State, shares: Array, columns: list[Array], outputs: list[Array]
) -> State:
    trees, start = [state["tree"] for state in states], base["tree"]
    first = trees[0]
    totals = _merged_totals(trees, start, outputs)
    nodes = first["nodes"].copy()
    scales = np.array([tree["nodes"]["scale"] for tree in trees])
    # what is stored is to be in the unit of the squared gradients beside it
    nodes["scale"] = shares @ scales
    factors = scales / nodes["scale"]
    for field, power in (("bias", 1), ("bias_squares", 0)):
        nodes[field] = sum(
            share * tree["nodes"][field] * factor**power
            for share, tree, factor in zip(shares, trees, factors, strict=True)
        )
    nodes["bias_velocity"] = nodes["bias_pending"] = 0.0
    weights = _merged_tables(
        [tree["weights"] for tree in trees], columns, shares,
        [np.stack([factor, np.ones(len(factor))], axis=1) for factor in factors],
    )
    owners = np.repeat(np.arange(len(nodes)), np.diff(weights["starts"]))
    nodes["norm"] = nodes["bias"] ** 2 + np.bincount(
        owners, weights["records"][:, 0] ** 2, minlength=len(nodes)
    )
    is_classifier = "labels" in base
    visits = np.array([tree["nodes"]["visits"] for tree in trees])
    # leaves of classes have logits, all else has means of what came there
    has_logits = is_classifier & (first["links"]["left"] < 0)
    said, knows = _merged_outputs(trees, shares, visits, outputs[1:], len(totals), has_logits)
    nodes["n_outputs"] = np.where(knows, len(totals), 0)
    nodes["visits"] = shares @ visits
    if is_classifier:
        taught = knows & has_logits
        nodes["log_sum"][taught] = np.logaddexp.reduce(said[taught, :, 0], axis=1)
    has_moving = any(len(tree["moving_outputs"]) for tree in trees)
    n_learned = start["n_learned"]
    return {
        **first,
        "nodes": nodes,
        "weights": weights,
        # velocities begin anew
        "moving": _no_tables(first["moving"], len(nodes)),
        "held": _no_tables(first["held"], len(nodes)),
        "outputs": said[knows].ravel(),
        "moving_outputs": np.zeros(said[knows].size if has_moving else 0),
        "totals": totals,
        "total": float(start["total"] + sum(tree["total"] - start["total"] for tree in trees)),
        "n_learned": n_learned + sum(tree["n_learned"] - n_learned for tree in trees),
    }


def _no_tables(like: State, n: int) -> State:
    return {
        "starts": np.zeros(n + 1, dtype=np.int64),
        "keys": like["keys"][:0],
        "records": like["records"][:0],
        "capacities": np.zeros(n, dtype=np.int32),
    }


def _merged_tables(
    tables: list[State], columns: list[Array], shares: Array, factors: list[Array]
) -> State:
    """The weighted mean of tables by node; what a model lacks counts as zero.

    `factors` has for every model and node what its records are multiplied by.
    """
    owners, keys, records = [], [], []
    for table, places, share, factor in zip(tables, columns, shares, factors, strict=True):
        owner = np.repeat(np.arange(len(table["starts"]) - 1), np.diff(table["starts"]))
        owners.append(owner)
        keys.append(places[table["keys"]])
        records.append(share * table["records"] * factor[owner])
    all_keys = np.concatenate(keys).astype(np.int64)
    width = all_keys.max(initial=0) + 1
    unique, place = np.unique(np.concatenate(owners) * width + all_keys, return_inverse=True)
    total = np.zeros((len(unique), tables[0]["records"].shape[1]))
    np.add.at(total, place, np.concatenate(records))
    sizes = np.bincount(unique // width, minlength=len(tables[0]["starts"]) - 1)
    return {
        "starts": np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        "keys": (unique % width).astype(np.int32),
        "records": total,
        "capacities": np.where(sizes > 0, NEW_CAPACITY, 0).astype(np.int32),
    }


def _merged_outputs(
    trees: list[State], shares: Array, visits: Array, places: list[Array], n: int,
    has_logits: Array,
) -> tuple[Array, Array]:
    """The outputs of all nodes with pairs of value and squares, and which nodes have any.

    Shape (n_nodes, n, 2): a class that a leaf never met has output 0.
    """
    weights = np.repeat(shares[:, None], visits.shape[1], axis=1)
    # means count as much as the examples in them
    total = visits.sum(axis=0)
    np.divide(visits, total, out=weights, where=(total > 0) & ~has_logits)
    merged = np.zeros((visits.shape[1], n, 2))
    knows = np.zeros(len(merged), dtype=bool)
    for tree, weight, place in zip(trees, weights, places, strict=True):
        known = tree["nodes"]["n_outputs"]
        owner = np.repeat(np.arange(len(known)), known)
        # labels of other models may come between
        own = place[np.arange(len(owner)) - np.repeat(np.cumsum(known) - known, known)]
        merged[owner, own] += weight[owner, None] * tree["outputs"].reshape(-1, 2)
        knows |= known > 0
    return merged, knows
