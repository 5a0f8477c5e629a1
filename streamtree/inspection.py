"""Trees as people read them: tables, paths in words, importances.

Every estimator describes its nodes as `NodeView`s, made from an outline of its state; what is made
of them here is the same for all. What is said of a row comes from the compiled code that predicts.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from streamtree._core.stream.encoding import KNOT_RANGE, KNOTS
from streamtree._core.stream.features import Category

__all__ = [
    "NodeView", "column_text", "distinct_texts", "feature_of", "feature_text", "is_encodable",
    "short",
]

# How many (leaf, probe, output) triples importances ask for: a few seconds. Where there are more,
# the heaviest leaves stand for all.
_MOST_ASKED = 2 * 10**7
# leaves of which a drawing tells what their models use
_MOST_USING = 64
# features or categories that a test or a leaf names
_MOST_NAMED = 3
# shows first so many contributions of a row, and sums up the others
_MOST_SHOWN = 12


@dataclass(frozen=True)
class NodeView:
    """What there is to say about one node.

    Attributes
    ----------
    node, parent
        Numbers of the node and of its parent, -1 at the root.
    depth
        Of the root 0.
    branch
        What the parent's test must answer to lead here; empty at the root.
    test
        The test in words; empty at a leaf.
    strengths
        By column, how strongly the node's test looks at it, with sign: weights of standardised
        values for an oblique test. Empty at a leaf.
    feature
        The feature that the test compares with a threshold, or whose categories it tells apart;
        None of a linear test.
    weight
        Of the examples behind the node, as far as the model keeps it.
    prediction
        What the node says: a label, a number, or numbers by target; None if nothing. That of an
        inner node is the mean of the leaves below.
    shares
        Of the classes, by label; empty for a regressor.
    values
        Further numbers by name.
    uses
        The features that move most what the model of a leaf says; empty where it has none, or they
        were not asked for.

    """

    node: int
    parent: int
    depth: int
    branch: str = ""
    test: str = ""
    strengths: Mapping[Any, float] = field(default_factory=dict)
    feature: Any = None
    weight: float = 0.0
    prediction: Any = None
    shares: Mapping[Any, float] = field(default_factory=dict)
    values: Mapping[str, float] = field(default_factory=dict)
    uses: Sequence[Any] = ()

    @property
    def is_leaf(self) -> bool:
        """Whether the node asks nothing."""
        return not self.test


def feature_of(column: Any) -> Any:
    """The feature that a column belongs to: a category is a column of its own."""
    return column.name if isinstance(column, Category) else column


def feature_text(feature: Any) -> str:
    """The name of a feature as people read it; columns of arrays go by numbers."""
    if isinstance(feature, int) and not isinstance(feature, bool):
        return f"x[{feature}]"
    return feature if isinstance(feature, str) else repr(feature)


def column_text(column: Any) -> str:
    """The name of a column as people read it."""
    if isinstance(column, Category):
        return f"{feature_text(column.name)} = {column.value}"
    return feature_text(column)


def is_encodable(name: Any) -> bool:
    """Whether a name is no string, or one that UTF-8 can hold: without lone surrogates."""
    return not isinstance(name, str) or not any("\ud800" <= letter <= "\udfff" for letter in name)


def encodable(name: Any) -> Any:
    """A name, as its representation if it is a string that UTF-8 cannot hold."""
    return name if is_encodable(name) else repr(name)


def distinct_texts(names: list[Any], text_of: Callable[[Any], str] = str) -> list[str]:
    """Names as strings; as representations where two are the same ("1" and 1), or no UTF-8."""
    texts = list(map(text_of, names))
    counts = Counter(texts)
    texts = [
        text if counts[text] == 1 and is_encodable(text) else repr(name)
        for text, name in zip(texts, names, strict=True)
    ]
    # one may be what another is represented by
    return texts if len({*texts}) == len(texts) else list(map(repr, names))


def with_inner_nodes(views: Sequence[NodeView]) -> list[NodeView]:
    """Give inner nodes the weight and the mean prediction of the leaves below them.

    Parents come before their children in `views`, or after; any order will do.
    """
    sums: dict[int, dict[Any, float]] = {}
    weights: dict[int, float] = {}
    filled = {view.node: view for view in views}
    for view in sorted(views, key=lambda view: -view.depth):
        if view.is_leaf:
            parts = view.shares or _numbers(view.prediction)
            total = {name: view.weight * value for name, value in parts.items()}
            weight = view.weight
        else:
            total = sums.pop(view.node, {})
            weight = weights.get(view.node, 0.0)
            filled[view.node] = _inner(view, total, weight)
        if view.parent >= 0:
            _add(weights, view.parent, weight)
            above = sums.get(view.parent, {})
            # the smaller into the larger: thousands of classes are moved seldom
            small, large = sorted((above, total), key=len)
            for name, value in small.items():
                large[name] = large.get(name, 0.0) + value
            sums[view.parent] = large
    return [filled[view.node] for view in views]


def _inner(view: NodeView, total: Mapping[Any, float], weight: float) -> NodeView:
    if weight <= 0.0 or not total:
        return replace(view, weight=weight)
    means = {name: value / weight for name, value in total.items()}
    if _NUMBER in means:
        return replace(view, weight=weight, prediction=means[_NUMBER])
    if any(name[:1] == (_NUMBER,) for name in means if isinstance(name, tuple)):
        return replace(view, weight=weight, prediction={k[1]: v for k, v in means.items()})
    return replace(view, weight=weight, prediction=max(means, key=means.__getitem__), shares=means)


# stands for the one number of a regressor where labels are keys otherwise
_NUMBER = object()


def _numbers(prediction: Any) -> dict[Any, float]:
    if prediction is None:
        return {}
    if isinstance(prediction, Mapping):
        return {(_NUMBER, name): value for name, value in prediction.items()}
    return {_NUMBER: prediction} if isinstance(prediction, float) else {}


def linear_test(strengths: Mapping[Any, float], offset: float) -> str:
    """A linear test in words, with the strongest few of its features."""
    first = heapq.nlargest(_MOST_NAMED, strengths.items(), key=lambda item: abs(item[1]))
    terms = [f"{weight:+.3g} ({column_text(column)})" for column, weight in first if weight != 0.0]
    n_others = sum(weight != 0.0 for weight in strengths.values()) - len(terms)
    rest = [f"and {n_others} more"] if n_others else []
    return " ".join([*terms, *rest, f"{offset:+.3g}"])


def set_test(feature: Any, values: Sequence[str]) -> str:
    """A test for a set of categories in words, with the first few of them."""
    n_others = len(values) - _MOST_NAMED
    shown = [*values[:_MOST_NAMED], *([f"{n_others} more"] if n_others > 0 else [])]
    return f"{feature_text(feature)} in {{{', '.join(shown)}}}"


def shares_of_features(
    parts: Iterable[tuple[int, float]], names: Sequence[Any]
) -> dict[Any, float]:
    """What columns have, by feature and as shares that sum to 1; those that have nothing go."""
    totals: dict[Any, float] = {}
    for column, part in parts:
        _add(totals, feature_of(names[column]), part)
    whole = sum(totals.values())
    return {feature: part / whole for feature, part in totals.items() if part}


def strongest(strengths: Mapping[Any, float]) -> list[tuple[Any, float]]:
    """Columns by falling strength; ties go by name, those of strength 0 are left out."""
    present = [(column, weight) for column, weight in strengths.items() if weight != 0.0]
    return sorted(present, key=lambda item: (-abs(item[1]), repr(item[0])))


def records(views: Iterable[NodeView]) -> list[dict[str, Any]]:
    """One flat dict for every node."""
    return [
        {
            "node": view.node,
            "parent": view.parent,
            "depth": view.depth,
            "is_leaf": view.is_leaf,
            "branch": encodable(view.branch),
            "test": encodable(view.test),
            "weight": view.weight,
            "prediction": encodable(view.prediction),
            **view.values,
        }
        for view in views
    ]


def as_tree(views: Sequence[NodeView]) -> dict[str, Any]:
    """Nested dicts of what JSON can hold; names and labels that it cannot become their repr."""
    made: dict[int, dict[str, Any]] = {}
    features = _texts(name for view in views for name in view.strengths)
    said = [view.prediction for view in views if isinstance(view.prediction, Mapping)]
    outputs = _texts(name for each in said for name in each)
    for view in views:
        made[view.node] = {
            "node": view.node,
            "branch": view.branch,
            "test": view.test,
            "features": _plain(dict(strongest(view.strengths)), features),
            "weight": view.weight,
            "prediction": _plain(view.prediction, outputs),
            "values": {name: _plain(value, outputs) for name, value in view.values.items()},
            "children": [],
        }
    for view in views:
        if view.parent >= 0:
            made[view.parent]["children"].append(made[view.node])
    return made[views[0].node]


def _texts(names: Iterable[Any]) -> dict[Any, str]:
    """By name, what JSON calls it: as people read it, or its repr."""
    found = list(dict.fromkeys(names))
    texts = distinct_texts(
        found, lambda name: column_text(name) if isinstance(name, (str, Category)) else repr(name)
    )
    return dict(zip(found, texts, strict=True))


def _plain(value: Any, texts: Mapping[Any, str]) -> Any:
    if isinstance(value, Mapping):
        return {texts[name]: _plain(inner, texts) for name, inner in value.items()}
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return repr(value)
    return value if isinstance(value, (bool, int, float, str, type(None))) else repr(value)


def split_effects(views: Sequence[NodeView]) -> dict[Any, Any]:
    """By how much tests move what is said, on average over all examples; by feature.

    That is the weight of a child times the distance of what it says from what its parent says, as
    `distance` has it, shared out among the columns of the test by the sizes of their weights.
    """
    by_node = {view.node: view for view in views}
    totals: dict[Any, Any] = {}
    for view in views:
        above = by_node.get(view.parent)
        if above is None or view.weight <= 0.0:
            continue
        moved = view.weight * distance(view, above)
        # weights of the paper's algorithms may be beyond all numbers
        sizes = np.minimum(np.abs(list(above.strengths.values())), 1e300)
        sizes = np.nan_to_num(sizes).tolist()
        size = sum(sizes) or 1.0
        for column, part in zip(above.strengths, sizes, strict=True):
            _add(totals, feature_of(column), moved * (part / size))
    return totals


def distance(view: NodeView, other: NodeView) -> Any:
    """How far apart two nodes are: half the differences of class shares, or of every target."""
    if view.shares or other.shares:
        labels = {**view.shares, **other.shares}
        return np.array([0.5 * math.fsum(
            abs(view.shares.get(label, 0.0) - other.shares.get(label, 0.0)) for label in labels
        )])
    ours, theirs = _numbers(view.prediction), _numbers(other.prediction)
    return np.array([abs(ours[name] - theirs[name]) for name in ours if name in theirs] or [0.0])


def _add(totals: dict[Any, Any], feature: Any, amount: Any) -> None:
    totals[feature] = totals.get(feature, 0.0) + amount


def probes(state: Mapping[str, Any]) -> list[tuple[Any, tuple[int, float], float]]:
    """Rows of one value that show what a column does to leaf models.

    Returns (feature, (column, value), weight): the column at one deviation to either side of its
    mean; of a category, or a column that is mostly zero or missing, its usual value. The weight is
    the mean absolute deviation that a move of 1 on such rows makes.
    """
    found = []
    rows = max(1, state["scaler"]["rows"])
    scales = zip(state["features"], state["scaler"]["columns"], strict=True)
    for column, (name, scale) in enumerate(scales):
        share = min(1.0, max(0, int(scale["counted"] + scale["forgotten"])) / rows)
        size = 1.0 / scale["factor"] if scale["factor"] > 0.0 else 1.0
        if isinstance(name, Category):
            found.append((name.name, (column, 1.0), 2.0 * share * (1.0 - share)))
        elif scale["is_dense"]:
            center = float(scale["center"])
            found += [(name, (column, center + side * float(size)), 0.5) for side in (-1.0, 1.0)]
        else:
            found.append((name, (column, float(size)), 2.0 * share * (1.0 - share)))
    return [probe for probe in found if probe[2] > 0.0 and math.isfinite(probe[1][1])]


def leaf_effects(
    views: Sequence[NodeView], state: Mapping[str, Any], measure_moves: Any
) -> dict[Any, Any]:
    """By how much the columns move what the models of leaves say; as `split_effects`.

    `measure_moves` is that of the core: it asks the leaves themselves, of rows of one value.
    """
    asked, n_outputs = probes(state), len(state.get("labels") or state.get("targets") or " ")
    leaves = sorted((view for view in views if view.is_leaf), key=lambda view: -view.weight)
    most = _MOST_ASKED // max(1, len(asked) * (20 + n_outputs))
    leaves, total = leaves[: max(1, most)], sum(view.weight for view in leaves)
    weights = np.array([view.weight for view in leaves])
    if not asked or weights.sum() <= 0.0:
        return {}
    moves = measure_moves([probe for _, probe, _ in asked], [view.node for view in leaves])
    moves = total / weights.sum() * np.einsum("plt,l->pt", moves, weights)
    effects: dict[Any, Any] = {}
    for (feature, _, weight), move in zip(asked, moves, strict=True):
        _add(effects, feature, weight * move)
    return effects


def with_uses(
    views: Sequence[NodeView],
    state: Mapping[str, Any],
    measure_moves: Any,
    max_depth: int | None,
) -> list[NodeView]:
    """Tell of the heaviest leaves, down to a depth, which features their models use most."""
    asked = probes(state)
    leaves = [view for view in views if view.is_leaf and not _is_below(view, max_depth)]
    leaves = sorted(leaves, key=lambda view: -view.weight)[:_MOST_USING]
    if not asked or not leaves:
        return list(views)
    moves = measure_moves([probe for _, probe, _ in asked], [view.node for view in leaves])
    moves = moves.sum(axis=2)
    uses = {}
    for leaf, column in zip(leaves, moves.T.tolist(), strict=True):
        totals: dict[Any, float] = {}
        for (feature, _, weight), move in zip(asked, column, strict=True):
            _add(totals, feature, weight * move)
        uses[leaf.node] = [feature for feature, _ in strongest(totals)[:_MOST_NAMED]]
    return [replace(view, uses=uses.get(view.node, ())) for view in views]


def _is_below(view: NodeView, max_depth: int | None) -> bool:
    return max_depth is not None and view.depth > max_depth


def importances(*effects: Mapping[Any, Any]) -> dict[Any, float]:
    """The share of every feature in the effects, the mean over several targets; largest first."""
    totals: dict[Any, Any] = {}
    for part in effects:
        for feature, effect in part.items():
            _add(totals, feature, effect)
    whole = sum(totals.values(), np.zeros(1))
    counts = whole > 0.0
    if not counts.any():
        return {}
    return dict(strongest({
        feature: float(np.mean(effect[counts] / whole[counts]))
        for feature, effect in totals.items()
    }))


def path_text(
    steps: Sequence[Mapping[str, Any]],
    views: Mapping[int, NodeView],
    x: Mapping[Any, Any],
    counts: bool,
) -> list[str]:
    """The nodes that a row reaches in words: each test, what it gave, and what is said there."""
    lines = []
    for place, step in enumerate(steps):
        if step["node"] is None:
            continue
        view = views[step["node"]]
        indent = "  " * view.depth
        notes = [f"weight {view.weight:,.6g}"] if counts else []
        notes += [f"{step['share']:.1%} of the example"] if step["share"] < 1.0 else []
        words = f" ({', '.join(notes)})" if notes else ""
        lines.append(f"{indent}node {view.node}{words}: {said(step)}")
        if step["score"] is None:
            continue
        goes = ""
        if step["share"] == 1.0 and place + 1 < len(steps) and steps[place + 1]["share"] == 1.0:
            goes = f", goes {views[steps[place + 1]['node']].branch}"
        if view.feature is None:
            goes = f" is {step['score']:.6g}{goes}"
        else:
            goes = f"; it is {short(x.get(view.feature, 'missing'))}{goes}"
        lines.append(f"{indent}  {view.test}{goes}")
    return lines


def said(step: Mapping[str, Any]) -> str:
    """A prediction in words, with its probability if it is of a class."""
    if step["prediction"] is None:
        return "nothing"
    share = f" ({step['probability']:.4g})" if "probability" in step else ""
    return short(step["prediction"]) + share


def contributions_text(explained: Mapping[str, Any], x: Mapping[Any, Any]) -> list[str]:
    """A table of contributions: the bias, the largest ones, the sum of the others."""
    ranked = list(explained["features"].items())
    shown = ranked[:_MOST_SHOWN] if len(ranked) > _MOST_SHOWN + 1 else ranked
    rest = ranked[len(shown) :]
    lines = [f"  {explained['bias']:+12.6g}  bias, where nothing is known"]
    for feature, amount in shown:
        value = f" = {short(x[feature])}" if feature in x else ""
        lines.append(f"  {amount:+12.6g}  {feature_text(feature)}{value}")
    if rest:
        lines.append(f"  {math.fsum(amount for _, amount in rest):+12.6g}  {len(rest)} more")
    return [*lines, f"  {explained['score']:12.6g}  in all"]


def short(value: Any) -> str:
    """A prediction or a value in few characters."""
    if isinstance(value, float):
        # all digits before the point, and then two: large ones may lie close together, as
        # nanoseconds since 1970 do
        whole = len(f"{abs(value):.0f}")
        return f"{value:.6g}" if whole <= 6 or whole > 19 else f"{value:.{whole + 2}g}"
    if isinstance(value, Mapping):
        return ", ".join(f"{name}: {short(number)}" for name, number in value.items())
    return value if isinstance(value, str) else repr(value)


@dataclass(frozen=True)
class NodeTest:
    """The test of a node: in words, by columns, and what it answers to lead left and right."""

    words: str
    strengths: Mapping[Any, float]
    branches: tuple[str, str]
    feature: Any = None


def linear_tests(
    names: Sequence[Any],
    tables: Mapping[str, Any],
    offsets: Mapping[int, tuple[float, float]],
    branches: tuple[str, str],
) -> dict[int, NodeTest]:
    """The linear tests of nodes.

    Parameters
    ----------
    names
        Of the columns.
    tables
        The weights of all nodes, by column.
    offsets
        By node that has such a test, its offset and what to multiply weights and offset with.
    branches
        What the test must give to lead left and right.

    """
    starts, keys, values = tables["starts"], tables["keys"], tables["records"][:, 0]
    tests = {}
    for node, (offset, factor) in offsets.items():
        span = slice(starts[node], starts[node + 1])
        strengths = {
            names[key]: float(factor * value)
            for key, value in zip(keys[span].tolist(), values[span].tolist(), strict=True)
        }
        tests[node] = NodeTest(linear_test(strengths, float(factor * offset)), strengths, branches)
    return tests


def in_present_unit(scale: Any, value: float) -> float:
    """A value in the unit that its column had first, in the one that it has now.

    `scale` is the record of the column in the state of a scaler.
    """
    if not scale["n_units"] or not scale["factor"]:
        return value
    deviations = (value - scale["unit_center"]) / scale["unit_deviation"]
    return float(scale["center"] + deviations / scale["factor"])


def threshold_tests(state: Mapping[str, Any], columns: Any, thresholds: Any) -> dict[int, NodeTest]:
    """The tests of nodes at thresholds of standardised columns, in the columns' own units."""
    scales, tests = state["scaler"]["columns"], {}
    for node in (columns >= 0).nonzero()[0].tolist():
        column, name = int(columns[node]), state["features"][columns[node]]
        factor, center = float(scales["factor"][column]), float(scales["center"][column])
        threshold = center + (float(thresholds[node]) / factor if factor else 0.0)
        words = column_text(name)
        if not isinstance(name, Category):
            words += f" > {short(threshold)}"
        tests[node] = NodeTest(words, {name: 1.0}, ("no", "yes"), feature_of(name))
    return tests


def voting_leaves(
    state: Mapping[str, Any], classes: Mapping[str, Any], votes: Any, majorities: Any
) -> dict[int, dict[str, Any]]:
    """What is said of leaves that count the votes of their classes, by node."""
    labels, leaves = state["labels"], {}
    for node in (state["tree"]["links"]["left"] < 0).nonzero()[0].tolist():
        span = slice(classes["starts"][node], classes["starts"][node + 1])
        total, majority = float(votes[node]), int(majorities[node])
        leaves[node] = {
            "weight": total,
            "prediction": labels[majority] if majority >= 0 else None,
            "shares": {
                labels[key]: vote / total
                for key, vote in zip(
                    classes["keys"][span].tolist(), classes["records"][span, 0].tolist(),
                    strict=True,
                )
                if vote > 0.0
            },
        }
    return leaves


def groups(state: Mapping[str, Any]) -> dict[int, dict[str, Any]]:
    """What is said of groups of labels, by node: each label by its share of the examples."""
    tree, names = state["tree"], state["labels"]
    leaves: dict[int, dict[str, Any]] = {
        node: {"weight": float(tree["nodes"]["weight"][node]), "prediction": None, "shares": {}}
        for node in (tree["links"]["left"] < 0).nonzero()[0].tolist()
    }
    records = tree["labels"]
    for number in np.argsort(-records["weight"], kind="stable").tolist():
        node, weight = int(records["group"][number]), float(records["weight"][number])
        if node < 0:
            continue
        leaf = leaves[node]
        if leaf["prediction"] is None:
            leaf["prediction"] = names[number]
        if weight > 0.0:
            leaf["shares"][names[number]] = weight / leaf["weight"]
    return leaves


def side_tests(state: Mapping[str, Any]) -> dict[int, NodeTest]:
    """The tests of a label tree: of a piecewise linear part the mean slope is shown."""
    tree, names = state["tree"], state["features"]
    tests = {}
    for node in (tree["links"]["left"] >= 0).nonzero()[0].tolist():
        linear, knots = tree["tests"][node]["linear"], tree["tests"][node]["knots"]
        weights = dict(zip(linear["keys"].tolist(), linear["records"][:, 0].tolist(), strict=True))
        offset = weights.pop(0, 0.0)
        slopes = {key - 1: weight for key, weight in weights.items()}
        rises = zip(knots["keys"].tolist(), knots["records"][:, 0].tolist(), strict=True)
        for key, weight in rises:
            column, knot = divmod(key, KNOTS)
            if knot in (0, KNOTS - 1):
                rise = weight if knot else -weight
                _add(slopes, column, rise / KNOT_RANGE)
        strengths = {names[column]: slope for column, slope in sorted(slopes.items())}
        tests[node] = NodeTest(linear_test(strengths, offset), strengths, ("<= 0", "> 0"))
    return tests


def binary_views(
    links: Any, tests: Mapping[int, NodeTest], leaves: Mapping[int, Mapping[str, Any]]
) -> list[NodeView]:
    """The nodes of a binary tree.

    Parameters
    ----------
    links
        Of the tree's state.
    tests
        Of every inner node.
    leaves
        For every leaf what its `NodeView` says besides its place.

    """
    views = []
    waiting = [(0, -1, 0, "")]
    while waiting:
        node, parent, depth, branch = waiting.pop()
        left, right = int(links["left"][node]), int(links["right"][node])
        if left < 0:
            views.append(NodeView(node, parent, depth, branch, **leaves[node]))
            continue
        test = tests[node]
        views.append(
            NodeView(node, parent, depth, branch, test.words, test.strengths, test.feature)
        )
        waiting += [(right, node, depth + 1, test.branches[1])]
        waiting += [(left, node, depth + 1, test.branches[0])]
    return with_inner_nodes(views)
