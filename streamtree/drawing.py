"""Pictures of trees: by matplotlib, and as source text for graphviz."""

from __future__ import annotations

import io
import json
import os
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from streamtree.inspection import (
    NodeView,
    column_text,
    feature_text,
    short,
    strongest,
    with_inner_nodes,
)
from streamtree.modelfile import replacing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["TreeDrawing", "save_figure", "with_ending"]

Colour = tuple[float, float, float]

# told apart with any eyes (Okabe and Ito, 2008), strong enough to be blended with white
_PALETTE: tuple[Colour, ...] = (
    (0.00, 0.45, 0.70), (0.90, 0.62, 0.00), (0.00, 0.62, 0.45), (0.80, 0.47, 0.65),
    (0.84, 0.37, 0.00), (0.34, 0.71, 0.91), (0.72, 0.68, 0.15), (0.55, 0.40, 0.75),
)
_GREY: Colour = (0.62, 0.62, 0.62)
# what a box is blended with white at least and at most: text in it stays readable
_FAINTEST, _STRONGEST = 0.08, 0.75
# in inches: of a box, a line of text, the bar of shares, and the room between boxes
_WIDTH, _LINE, _BAR, _GAP, _SPACE = 2.35, 0.165, 0.09, 1.0, 0.16
# of a picture at least, and of a name in its legend
_LEAST_WIDTH, _NAME_WIDTH = 5.0, 1.6
_FONT_SIZE = 8.5
# characters that fit a box, lines that a test may take, and terms of a linear one
_CHARACTERS, _MOST_LINES, _MOST_TERMS = 32, 4, 3
# control characters, and what else XML forbids: no picture can show them
_UNSHOWN = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


def with_ending(path: str) -> str:
    """The path of a picture, which is a png if nothing else is said."""
    stem, ending = os.path.splitext(path)
    return path if ending[1:] else f"{stem}.png"


def save_figure(figure: Figure, path: str) -> None:
    """Write a figure of matplotlib, as a whole or not at all."""
    path = with_ending(path)
    with replacing(path) as file:
        figure.savefig(
            file, format=os.path.splitext(path)[1][1:], dpi=150, facecolor="white"
        )


@dataclass(frozen=True)
class Box:
    """What is drawn of a node, or of branches that share a box."""

    name: str
    parent: str
    edge: str
    title: tuple[str, ...]
    lines: tuple[str, ...]
    colour: Colour
    bar: tuple[tuple[Colour, float], ...]
    share: float
    is_leaf: bool

    @property
    def height(self) -> float:
        """In inches."""
        n_lines = len(self.title) + len(self.lines) + 1
        return _LINE * n_lines + (_BAR if self.bar else 0.0)


class TreeDrawing:
    """A drawing of a tree: a picture where matplotlib is installed, and source for graphviz.

    The tree grows from left to right. Lines are as wide as the share of the examples that went
    along them.

    Attributes
    ----------
    boxes
        What is drawn, the root first.
    source
        The drawing in graphviz's language DOT.

    """

    def __init__(
        self,
        views: Sequence[NodeView],
        max_depth: int | None = None,
        max_branches: int = 8,
        note: str = "",
        counts: bool = True,
    ) -> None:
        self.note = note
        self.colours = _Colours(views, max_depth)
        self.boxes = _boxes(views, self.colours, max_depth, max_branches, counts)
        self.source = _dot(self.boxes)

    def __str__(self) -> str:
        return self.source

    def plot(self, axes: Axes | None = None) -> Axes:
        """Draw by matplotlib, on new axes of the right size by default; returns the axes.

        Raises
        ------
        ImportError
            If matplotlib is not installed.

        """
        try:
            from matplotlib import patches
            from matplotlib.figure import Figure
        except ImportError:
            raise ImportError(
                "a picture needs matplotlib: pip install matplotlib; "
                "the drawing's `source` is for graphviz and needs neither"
            ) from None
        places, width, height = _layout(self.boxes)
        width, names = max(width, _LEAST_WIDTH), self.colours.named()
        n_columns = int(width / _NAME_WIDTH)
        height_below = 0.4 + 0.25 * -(-len(names) // n_columns)
        if axes is None:
            size = (width + 0.3, height + height_below + 0.15)
            axes = Figure(figsize=size).add_axes((0.0, 0.0, 1.0, 1.0))
        axes.set_xlim(-0.15, width + 0.15)
        axes.set_ylim(height + height_below, -0.15)
        axes.axis("off")
        for box in self.boxes:
            if box.parent:
                _draw_edge(axes, box, places[box.parent], places[box.name])
        for box in self.boxes:
            _draw_box(axes, box, places[box.name])
        axes.text(0.0, height + 0.2, self.note, va="center", fontsize=_FONT_SIZE, color="0.35")
        axes.legend(
            handles=[
                patches.Patch(
                    facecolor=colour, edgecolor="0.4", label=_cut(label, 16).replace("$", r"\$")
                )
                for label, colour in names
            ],
            loc="lower left", bbox_to_anchor=(0.0, 0.0), ncols=n_columns, frameon=False,
            fontsize=_FONT_SIZE,
        )
        return axes

    def save(self, path: str) -> None:
        """Write a picture; the ending of the file's name says which: png, svg, pdf, ...

        The file is either whole in its place or, on any error, as it was.

        Raises
        ------
        ImportError
            If matplotlib is not installed.

        """
        save_figure(self._figure(), path)

    def _figure(self) -> Any:
        return self.plot().figure

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        """The picture for notebooks, or the source where no picture can be made."""
        try:
            figure = self._figure()
        except ImportError:
            return {"text/plain": self.source}
        picture = io.StringIO()
        figure.savefig(picture, format="svg")
        return {"image/svg+xml": picture.getvalue()}


# ---------------------------------------------------------------------------- colours


class _Colours:
    """A colour for each of the most frequent classes, or for every number."""

    def __init__(self, views: Sequence[NodeView], max_depth: int | None) -> None:
        drawn = [view for view in views if max_depth is None or view.depth <= max_depth]
        shares = views[0].shares
        found = [_number(view.prediction) for view in drawn if not view.shares]
        numbers = [number for number in found if number is not None]
        ranked = sorted(shares, key=lambda label: (-shares[label], repr(label)))
        self.by_label: dict[Any, Colour] = dict(zip(ranked, _PALETTE, strict=False))
        self.n_others = len(shares) - len(self.by_label)
        self.low: float = min(numbers, default=0.0)
        self.high: float = max(numbers, default=0.0)

    def of(self, view: NodeView) -> Colour:
        """Stronger the purer a node is; from blue to orange for numbers from low to high."""
        if view.shares:
            first, second = [*sorted(view.shares.values(), reverse=True), 0.0][:2]
            purity = (first - second) / (1.0 - second) if second < 1.0 else 0.0
            return _blend(self.of_label(view.prediction), purity)
        number = _number(view.prediction)
        if number is None or self.high <= self.low:
            return _blend(_GREY, 0.0)
        place = 2.0 * (number - self.low) / (self.high - self.low) - 1.0
        return _blend(_PALETTE[1] if place > 0.0 else _PALETTE[0], abs(place))

    def of_label(self, label: Any) -> Colour:
        return self.by_label.get(label, _GREY)

    def bar(self, shares: Mapping[Any, float]) -> tuple[tuple[Colour, float], ...]:
        """The shares of the classes side by side, those without a colour last."""
        parts = [(self.of_label(label), shares.get(label, 0.0)) for label in self.by_label]
        rest = 1.0 - sum(share for _, share in parts)
        return (*parts, (_GREY, max(0.0, rest))) if shares else ()

    def named(self) -> list[tuple[str, Colour]]:
        """What a legend says."""
        if self.by_label:
            names = [(short(label), colour) for label, colour in self.by_label.items()]
            others = (f"{self.n_others} other{'s' * (self.n_others > 1)}", _GREY)
            return [*names, others] if self.n_others else names
        if self.high <= self.low:
            return []
        return [
            (f"{self.low:.4g} (least)", _blend(_PALETTE[0], 1.0)),
            (f"{self.high:.4g} (most)", _blend(_PALETTE[1], 1.0)),
        ]


def _number(prediction: Any) -> float | None:
    """The number of a regressor, of several the first."""
    if isinstance(prediction, Mapping):
        return next(iter(prediction.values()), None)
    return prediction if isinstance(prediction, float) else None


def _blend(colour: Colour, strength: float) -> Colour:
    part = _FAINTEST + (_STRONGEST - _FAINTEST) * min(max(strength, 0.0), 1.0)
    red, green, blue = (1.0 - part * (1.0 - value) for value in colour)
    return (red, green, blue)


# ------------------------------------------------------------------------------ boxes


def _boxes(
    views: Sequence[NodeView],
    colours: _Colours,
    max_depth: int | None,
    max_branches: int,
    counts: bool,
) -> list[Box]:
    children: dict[int, list[NodeView]] = {}
    for view in views:
        children.setdefault(view.parent, []).append(view)
    below = _nodes_below(views)
    total = views[0].weight
    boxes: list[Box] = []
    waiting = [views[0]]
    while waiting:
        view = waiting.pop()
        hidden = below[view.node] if view.depth == max_depth else 0
        boxes.append(_box(view, colours, view.weight / total if total else 0.0, hidden, counts))
        branches = [] if hidden else children.get(view.node, [])
        shown, others = _grouped(branches, max_branches)
        waiting += reversed(shown)
        if others:
            boxes.append(_group(others, colours, total, below, counts))
    return _in_order(boxes)


def _in_order(boxes: Sequence[Box]) -> list[Box]:
    """Depth first; the box of several branches is the last child of its parent."""
    children: dict[str, list[Box]] = {}
    for box in boxes:
        children.setdefault(box.parent, []).append(box)
    ordered, waiting = [], [boxes[0]]
    while waiting:
        box = waiting.pop()
        ordered.append(box)
        waiting += sorted(
            reversed(children.get(box.name, [])), key=lambda child: child.name[0] != "m"
        )
    return ordered


def _nodes_below(views: Sequence[NodeView]) -> dict[int, int]:
    below = dict.fromkeys((view.node for view in views), 0)
    for view in sorted(views, key=lambda view: -view.depth):
        if view.parent >= 0:
            below[view.parent] += 1 + below[view.node]
    return below


def _grouped(branches: list[NodeView], most: int) -> tuple[list[NodeView], list[NodeView]]:
    """Those to be drawn, and those that share a box: one alone is drawn as it is."""
    if len(branches) <= max(most, 2):
        return branches, []
    ranked = sorted(branches, key=lambda view: -view.weight)
    return ranked[: most - 1], ranked[most - 1 :]


def _box(
    view: NodeView, colours: _Colours, share: float, hidden: int, counts: bool
) -> Box:
    said = _said(view)
    title = _asked(view) if view.test else said[:1]
    lines = list(said if view.test else said[1:])
    if view.uses:
        lines.append(_cut(f"by {', '.join(map(feature_text, view.uses))}", _CHARACTERS))
    if counts and view.weight > 0.0:
        lines.append("all examples" if view.parent < 0 else f"{_percent(share)} of the examples")
    elif counts:
        lines.append("no examples yet")
    if hidden:
        lines.append(f"{hidden:,} node{'s' * (hidden > 1)} below")
    return Box(
        f"n{view.node}", f"n{view.parent}" if view.parent >= 0 else "", _shown(view.branch),
        tuple(title), tuple(lines), colours.of(view), colours.bar(view.shares), share, view.is_leaf,
    )


def _group(
    branches: list[NodeView],
    colours: _Colours,
    total: float,
    below: Mapping[int, int],
    counts: bool,
) -> Box:
    """The box of several branches."""
    n_below, parent = sum(below[view.node] for view in branches), branches[0].parent
    # as an inner node has it, of which the branches are the leaves
    inner = NodeView(parent, parent, branches[0].depth - 1, "others", test="which?")
    mean = with_inner_nodes([inner, *(replace(view, test="") for view in branches)])[0]
    view = replace(mean, test="")
    box = _box(view, colours, view.weight / total if total else 0.0, n_below, counts)
    title = (f"{len(branches):,} more branches",)
    return Box(
        f"m{view.parent}", box.parent, box.edge, title, (*_said(view), *box.lines[-1 - bool(
            n_below):]), box.colour, box.bar, box.share, True,
    )


def _said(view: NodeView) -> list[str]:
    """What a node says: the first classes with their shares, or numbers."""
    if view.shares:
        ranked = sorted(view.shares.items(), key=lambda item: (-item[1], repr(item[0])))
        return [f"{_cut(short(label), 24)}  {_percent(share)}" for label, share in ranked[:2]]
    if isinstance(view.prediction, Mapping):
        return [
            _cut(f"{short(name)}: {number:.4g}", _CHARACTERS)
            for name, number in list(view.prediction.items())[:_MOST_LINES]
        ]
    if view.prediction is None:
        return ["nothing yet"] if not view.test else []
    number = isinstance(view.prediction, float)
    return [f"{view.prediction:.4g}" if number else _cut(short(view.prediction), _CHARACTERS)]


def _percent(share: float) -> str:
    if 0.0 < share < 0.001:
        return "< 0.1 %"
    return f"{100 * share:.{0 if share > 0.1 else 1}f} %"


def _shown(text: str) -> str:
    """A text with escapes for letters that no picture can show."""
    return _UNSHOWN.sub(lambda found: repr(found[0])[1:-1], text)


def _cut(text: str, most: int) -> str:
    text = _shown(text)
    return text if len(text) <= most else text[: most - 1] + "…"


def _asked(view: NodeView) -> list[str]:
    """The test of a node: of a linear one the strongest terms, one a line."""
    if view.feature is not None:
        return _wrapped(view.test)
    ranked = strongest(view.strengths)
    lines = [
        _cut(f"{weight:+.3g} ({column_text(column)})", _CHARACTERS)
        for column, weight in ranked[:_MOST_TERMS]
    ]
    return [*lines, f"and {len(ranked) - len(lines)} more"] if len(ranked) > len(lines) else lines


def _wrapped(text: str) -> list[str]:
    text = _shown(text)
    lines = textwrap.wrap(text, _CHARACTERS) or [text]
    if len(lines) > _MOST_LINES:
        lines = [*lines[: _MOST_LINES - 1], _cut(" ".join(lines[_MOST_LINES - 1 :]), _CHARACTERS)]
    return lines


# ----------------------------------------------------------------------------- picture


def _layout(boxes: Sequence[Box]) -> tuple[dict[str, tuple[float, float]], float, float]:
    """Where the middle of the left edge of every box is, and the size of the whole, in inches."""
    depth: dict[str, int] = {}
    heights: dict[str, float] = {}
    children: dict[str, list[Box]] = {}
    for box in boxes:
        depth[box.name] = depth[box.parent] + 1 if box.parent else 0
        children.setdefault(box.parent, []).append(box)
    for box in reversed(boxes):
        needed = sum(heights[child.name] for child in children.get(box.name, ()))
        heights[box.name] = max(needed, box.height + _SPACE)
    places, tops = {}, {boxes[0].name: 0.0}
    for box in boxes:
        top, height = tops[box.name], heights[box.name]
        places[box.name] = (depth[box.name] * (_WIDTH + _GAP), top + height / 2)
        below = children.get(box.name, [])
        top += (height - sum(heights[child.name] for child in below)) / 2
        for child in below:
            tops[child.name] = top
            top += heights[child.name]
    width = (max(depth.values()) + 1) * (_WIDTH + _GAP) - _GAP
    return places, width, heights[boxes[0].name]


def _draw_edge(
    axes: Axes, box: Box, start: tuple[float, float], end: tuple[float, float]
) -> None:
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    left, right = start[0] + _WIDTH, end[0]
    middle = (left + right) / 2
    curve = Path(
        [(left, start[1]), (middle, start[1]), (middle, end[1]), (right, end[1])],
        [Path.MOVETO, Path.CURVE4, Path.CURVE4, Path.CURVE4],
    )
    axes.add_patch(PathPatch(
        curve, fill=False, edgecolor="0.55", linewidth=0.8 + 7.0 * box.share, capstyle="butt",
    ))
    axes.text(
        right - 0.06, end[1], _cut(box.edge, 16), ha="right", va="center", fontsize=_FONT_SIZE - 1,
        color="0.25", parse_math=False,
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.0, "alpha": 0.85},
    )


def _draw_box(axes: Axes, box: Box, place: tuple[float, float]) -> None:
    from matplotlib.patches import FancyBboxPatch, Rectangle

    left, top = place[0], place[1] - box.height / 2
    axes.add_patch(FancyBboxPatch(
        (left, top), _WIDTH, box.height, boxstyle=f"round,pad=0,rounding_size={_LINE / 2}",
        facecolor=box.colour, edgecolor="0.35", linewidth=1.2 if box.is_leaf else 0.7,
    ))
    y = top + _LINE
    for number, line in enumerate((*box.title, *box.lines)):
        axes.text(
            left + _WIDTH / 2, y, line, ha="center", va="center", fontsize=_FONT_SIZE,
            fontweight="bold" if number < len(box.title) else "normal", parse_math=False,
        )
        y += _LINE
    x, bottom = left + 0.12, top + box.height - _BAR - 0.05
    for colour, share in box.bar:
        width = share * (_WIDTH - 0.24)
        axes.add_patch(Rectangle((x, bottom), width, _BAR, facecolor=colour, edgecolor="none"))
        x += width


# --------------------------------------------------------------------------- graphviz


def _dot(boxes: Iterable[Box]) -> str:
    lines = [
        "digraph tree {",
        "  rankdir=LR;",
        '  node [shape=box, style="filled,rounded", fontname="Helvetica", fontsize=10];',
        '  edge [fontname="Helvetica", fontsize=9, color="#8c8c8c"];',
    ]
    for box in boxes:
        text = _quoted([*box.title, *box.lines])
        colour = "#" + "".join(f"{round(255 * part):02x}" for part in box.colour)
        lines.append(f'  {box.name} [label={text}, fillcolor="{colour}"];')
        if box.parent:
            width = f"penwidth={0.8 + 7.0 * box.share:.2f}"
            lines.append(f"  {box.parent} -> {box.name} [label={_quoted([box.edge])}, {width}];")
    return "\n".join([*lines, "}"])


def _quoted(lines: Iterable[str]) -> str:
    # JSON escapes what DOT wants escaped: quotes and backslashes
    return json.dumps("\n".join(lines), ensure_ascii=False)
