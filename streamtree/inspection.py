"""Trees as people read them: drawings, tables, paths, importances.

Every estimator describes its nodes as `NodeView`s, made from its snapshot; what is made of them
here is the same for all.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from streamtree._core.stream.features import Category

__all__ = ["NodeView", "TreeDrawing"]


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
    strengths
        By feature, how strongly the node's test looks at it, with sign: weights of standardised
        values for an oblique test. Empty at a leaf.
    test
        The test in words; empty at a leaf.
    weight
        Of the examples behind the node, as far as the model keeps it.
    prediction
        What the node says: a label, a number, or numbers by target; None if nothing. That of an
        inner node is the mean of the leaves below.
    shares
        Of the classes, by label; empty for a regressor.
    values
        Further numbers by name.

    """

    node: int
    parent: int
    depth: int
    branch: str = ""
    test: str = ""
    strengths: Mapping[Any, float] = field(default_factory=dict)
    weight: float = 0.0
    prediction: Any = None
    shares: Mapping[Any, float] = field(default_factory=dict)
    values: Mapping[str, float] = field(default_factory=dict)

    @property
    def is_leaf(self) -> bool:
        """Whether the node asks nothing."""
        return not self.test


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
            weights[view.parent] = weights.get(view.parent, 0.0) + weight
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


def linear_test(strengths: Mapping[Any, float], offset: float, most: int = 3) -> str:
    """A linear test in words, with the strongest few of its features."""
    ranked = strongest(strengths)
    terms = [f"{weight:+.3g}*{feature}" for feature, weight in ranked[:most]]
    rest = [f"... {len(ranked) - most} more"] if len(ranked) > most else []
    return " ".join([*terms, *rest, f"{offset:+.3g}"])


def strongest(strengths: Mapping[Any, float]) -> list[tuple[Any, float]]:
    """Features by falling strength; ties go by name, those of strength 0 are left out."""
    present = [(feature, weight) for feature, weight in strengths.items() if weight != 0.0]
    return sorted(present, key=lambda item: (-abs(item[1]), repr(item[0])))


def records(views: Iterable[NodeView]) -> list[dict[str, Any]]:
    """One flat dict for every node."""
    return [
        {
            "node": view.node,
            "parent": view.parent,
            "depth": view.depth,
            "is_leaf": view.is_leaf,
            "branch": view.branch,
            "test": view.test,
            "weight": view.weight,
            "prediction": view.prediction,
            **view.values,
        }
        for view in views
    ]


def as_tree(views: Sequence[NodeView]) -> dict[str, Any]:
    """Nested dicts of what JSON can hold; names and labels that it cannot become their repr."""
    made: dict[int, dict[str, Any]] = {}
    for view in views:
        made[view.node] = {
            "node": view.node,
            "branch": view.branch,
            "test": view.test,
            "features": {_key(name): weight for name, weight in strongest(view.strengths)},
            "weight": view.weight,
            "prediction": _plain(view.prediction),
            "values": {name: _plain(value) for name, value in view.values.items()},
            "children": [],
        }
    for view in views:
        if view.parent >= 0:
            made[view.parent]["children"].append(made[view.node])
    return made[views[0].node]


def _key(name: Any) -> str:
    return name if isinstance(name, str) else repr(name)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {_key(name): _plain(inner) for name, inner in value.items()}
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return repr(value)
    return value if isinstance(value, (bool, int, float, str, type(None))) else repr(value)


def importances(views: Sequence[NodeView]) -> dict[Any, float]:
    """Share of every feature in the tests, each weighted by the examples behind its node."""
    totals: dict[Any, float] = {}
    for view in views:
        size = sum(abs(weight) for weight in view.strengths.values())
        if size <= 0.0 or view.weight <= 0.0:
            continue
        for feature, weight in view.strengths.items():
            totals[feature] = totals.get(feature, 0.0) + view.weight * abs(weight) / size
    total = sum(totals.values())
    return {feature: weight / total for feature, weight in strongest(totals)} if total else {}


def path_text(views: Mapping[int, NodeView], path: Sequence[tuple[int, float | None]]) -> str:
    """The nodes of a path in words: each test, what it gave, and what the node would say."""
    lines = []
    for depth, (node, score) in enumerate(path):
        view = views[node]
        said = "" if view.prediction is None else f", predicts {_short(view.prediction)}"
        lines.append(f"{'  ' * depth}node {node} (weight {view.weight:.6g}{said})")
        if score is not None:
            following = views[path[depth + 1][0]].branch if depth + 1 < len(path) else ""
            value = "" if math.isnan(score) else f" {score:.6g},"
            lines.append(f"{'  ' * depth}  {view.test}:{value} goes {following}")
    return "\n".join(lines)


def _short(prediction: Any) -> str:
    if isinstance(prediction, float):
        return f"{prediction:.6g}"
    if isinstance(prediction, Mapping):
        return ", ".join(f"{name}: {_short(value)}" for name, value in prediction.items())
    return repr(prediction)


def linear_tests(
    names: Sequence[Any], tables: Mapping[str, Any], nodes: Iterable[int], offsets: Any
) -> dict[int, tuple[dict[Any, float], str]]:
    """The linear tests of nodes, as strengths by feature and in words.

    Parameters
    ----------
    names
        Of the features.
    tables
        The weights of all nodes, by column.
    nodes
        The nodes that have such a test.
    offsets
        For every node the offset of its test and what to multiply weights and offset with.

    """
    starts, keys, values = tables["starts"], tables["keys"], tables["records"][:, 0]
    tests = {}
    for node in nodes:
        offset, factor = offsets[node]
        span = slice(starts[node], starts[node + 1])
        strengths = {
            names[key]: float(factor * value)
            for key, value in zip(keys[span].tolist(), values[span].tolist(), strict=True)
        }
        tests[node] = strengths, linear_test(strengths, float(factor * offset))
    return tests


def threshold_tests(
    state: Mapping[str, Any], columns: Any, thresholds: Any
) -> dict[int, tuple[dict[Any, float], str]]:
    """The tests of nodes at thresholds of standardised columns, in the columns' own units."""
    scales, tests = state["scaler"]["columns"], {}
    for node in (columns >= 0).nonzero()[0].tolist():
        column, name = int(columns[node]), state["features"][columns[node]]
        factor, center = float(scales["factor"][column]), float(scales["center"][column])
        threshold = center + (float(thresholds[node]) / factor if factor else 0.0)
        if isinstance(name, Category):
            words = f"{name.name} is {name.value!r}"
        else:
            words = f"{name} > {threshold:.6g}"
        tests[node] = {name: 1.0}, words
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


def binary_views(
    links: Any,
    tests: Mapping[int, tuple[Mapping[Any, float], str]],
    leaves: Mapping[int, Mapping[str, Any]],
    branches: tuple[str, str],
) -> list[NodeView]:
    """The nodes of a binary tree.

    Parameters
    ----------
    links
        Of the tree's state.
    tests
        Of every inner node: strengths by feature, and the test in words.
    leaves
        For every leaf what its `NodeView` says besides its place.
    branches
        What the test must give to lead left and right.

    """
    views = []
    waiting = [(0, -1, 0, "")]
    while waiting:
        node, parent, depth, branch = waiting.pop()
        left, right = int(links["left"][node]), int(links["right"][node])
        if left < 0:
            views.append(NodeView(node, parent, depth, branch, **leaves[node]))
            continue
        strengths, test = tests[node]
        views.append(NodeView(node, parent, depth, branch, test, strengths))
        waiting += [(right, node, depth + 1, branches[1]), (left, node, depth + 1, branches[0])]
    return with_inner_nodes(views)


class TreeDrawing:
    """A drawing of a tree: graphviz source, and a picture where graphviz is installed.

    Attributes
    ----------
    source
        The drawing in graphviz's language DOT.

    """

    def __init__(self, views: Sequence[NodeView], max_depth: int | None = None) -> None:
        self.source = _dot(views, max_depth)

    def __str__(self) -> str:
        return self.source

    def render(self, path: str, format: str = "png") -> str:
        """Write a picture by the graphviz package and program; returns the file's name.

        Raises
        ------
        ImportError
            If the Python package graphviz is not installed.

        """
        return str(self._graph().render(path, format=format, cleanup=True))

    def _graph(self) -> Any:
        try:
            import graphviz
        except ImportError:
            raise ImportError(
                "a picture needs graphviz: pip install graphviz, and its program dot; "
                "the drawing's `source` needs neither"
            ) from None
        return graphviz.Source(self.source)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        """The picture for notebooks, or the source where no picture can be made."""
        try:
            return {"image/svg+xml": self._graph().pipe(format="svg", encoding="utf-8")}
        except Exception:
            # whatever keeps graphviz from drawing: a notebook still shows the text
            return {"text/plain": self.source}


def _dot(views: Sequence[NodeView], max_depth: int | None) -> str:
    lines = ["digraph tree {", '  node [shape=box, fontname="Helvetica", fontsize=10];']
    hidden: dict[int, int] = {}
    for view in views:
        if max_depth is not None and view.depth > max_depth:
            if view.depth == max_depth + 1:
                hidden[view.parent] = hidden.get(view.parent, 0) + 1
            continue
        said = [] if view.prediction is None else [_short(view.prediction)]
        values = [f"{name} {_short(value)}" for name, value in view.values.items()]
        text = [*([view.test] if view.test else []), *said, *values, f"weight {view.weight:.6g}"]
        style = ", style=rounded" if view.is_leaf else ""
        lines.append(f"  n{view.node} [label={_quoted(text)}{style}];")
        if view.parent >= 0:
            lines.append(f"  n{view.parent} -> n{view.node} [label={_quoted([view.branch])}];")
    for parent, count in hidden.items():
        lines.append(f"  m{parent} [label={_quoted([f'{count} below'])}, shape=plaintext];")
        lines.append(f"  n{parent} -> m{parent} [style=dashed];")
    return "\n".join([*lines, "}"])


def _quoted(lines: Iterable[str]) -> str:
    # JSON escapes what DOT wants escaped: quotes and backslashes
    return json.dumps("\n".join(lines), ensure_ascii=False)
