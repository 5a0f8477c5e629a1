"""Pictures of how learners fare and how trees grow. Needs matplotlib."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_accuracy", "plot_criteria", "plot_shape"]

Records = Sequence[Mapping[str, float]]

LABELS = {
    "entropy": "entropy",
    "gini": "Gini entropy",
    "modified_gini": "modified Gini entropy",
    "error": "error",
}


def plot_accuracy(
    curves: Mapping[str, Any], axes: Axes | None = None, *, of: str = "error"
) -> Axes:
    """Draw prequential accuracy against the number of examples, a line for every learner.

    Parameters
    ----------
    curves
        By the name of the learner, either the `records` of a `streamtree.diagnostics.Recorder`, or
        a pair of sequences of equal length: numbers of examples, and accuracies from 0 to 1.
    axes
        What to draw on; new axes by default.
    of
        Which error of a record to take: `"error"` (since the record before), `"mean_error"` or
        `"test_error"`.

    Returns
    -------
    The axes.

    Raises
    ------
    ImportError
        If matplotlib is not installed.
    ValueError
        If there is nothing to draw, or a curve is neither of the two.

    Examples
    --------
    >>> from river import datasets
    >>> from streamtree import LOMTreeClassifier
    >>> from streamtree.diagnostics import Recorder
    >>> from streamtree.plots import plot_accuracy
    >>> recorder = Recorder(LOMTreeClassifier(leaf_model="majority"))
    >>> for x, y in datasets.ImageSegments():
    ...     recorder.learn_one(x, y)
    >>> last = recorder.record()
    >>> axes = plot_accuracy({"LOMtree": recorder.records}, of="mean_error")
    >>> print(f"{axes.lines[0].get_ydata()[-1]:.3f}")
    0.839

    """
    if not curves:
        raise ValueError("curves must hold at least one curve")
    points = {name: _accuracy(name, curve, of) for name, curve in curves.items()}
    if axes is None:
        axes = _new_axes(1)[0]
    for name, (examples, accuracy) in points.items():
        axes.plot(examples, accuracy, label=name)
    axes.set_xlabel("examples")
    axes.set_ylabel("accuracy on test rows" if of == "test_error" else "prequential accuracy")
    axes.yaxis.set_major_formatter(_percent())
    axes.grid(alpha=0.3)
    axes.legend()
    return axes


def _accuracy(name: str, curve: Any, of: str) -> tuple[list[float], list[float]]:
    if len(curve) and all(isinstance(record, Mapping) for record in curve):
        errors = _column(curve, of, f"curve {name!r}")
        return _column(curve, "n_examples"), [1.0 - error for error in errors]
    if len(curve) != 2 or len(curve[0]) != len(curve[1]) or not len(curve[0]):
        raise ValueError(
            f"curve {name!r} must be records, or two sequences of equal length that are not empty"
        )
    return list(curve[0]), list(curve[1])


def plot_shape(records: Records, axes: Sequence[Axes] | None = None) -> list[Axes]:
    """Draw how a tree grew: its leaves, its height and the mean depth of its leaves.

    Parameters
    ----------
    records
        The `records` of a `streamtree.diagnostics.Recorder`.
    axes
        Two axes to draw on, for leaves and for depth; new ones by default.

    Returns
    -------
    The two axes.

    Raises
    ------
    ImportError
        If matplotlib is not installed.
    ValueError
        If there are no records, or they are not a recorder's.

    """
    examples = _column(records, "n_examples")
    lines = {name: _column(records, name) for name in ("n_leaves", "height", "mean_depth")}
    upper, lower = _new_axes(2) if axes is None else axes
    upper.plot(examples, lines["n_leaves"], drawstyle="steps-post")
    upper.set_ylabel("leaves")
    lower.plot(examples, lines["height"], drawstyle="steps-post", label="height")
    lower.plot(examples, lines["mean_depth"], label="mean depth of leaves, by weight")
    lower.set_ylabel("depth")
    lower.set_xlabel("examples")
    lower.legend()
    for each in (upper, lower):
        each.set_ylim(bottom=0)
        each.grid(alpha=0.3)
    return [upper, lower]


def plot_criteria(records: Records, axes: Axes | None = None, *, prefix: str = "") -> Axes:
    """Draw the criteria of a tree and its error against the number of splits.

    As in fig. 3 of Choromanska, Choromanski & Bojarski (2016) every curve is brought to [0, 1]:
    its least value is drawn as 0, its greatest as 1.

    Parameters
    ----------
    records
        The `records` of a `streamtree.diagnostics.Recorder`.
    axes
        What to draw on; new axes by default.
    prefix
        `"test_"` draws criteria and error of the test rows.

    Returns
    -------
    The axes.

    Raises
    ------
    ImportError
        If matplotlib is not installed.
    ValueError
        If there are no records, or they are not a recorder's.

    """
    splits = _column(records, "n_splits")
    lines = {label: _column(records, prefix + name) for name, label in LABELS.items()}
    if axes is None:
        axes = _new_axes(1)[0]
    for label, values in lines.items():
        low, high = min(values), max(values)
        scaled = [(value - low) / (high - low) if high > low else 0.0 for value in values]
        axes.plot(splits, scaled, label=label, linestyle="--" if label == "error" else "-")
    axes.set_xlabel("splits")
    axes.set_ylabel("from least to greatest")
    axes.grid(alpha=0.3)
    axes.legend()
    return axes


def _column(records: Records, name: str, of: str = "records") -> list[float]:
    if not len(records):
        raise ValueError(f"{of} must hold at least one record")
    missing = next((i for i, record in enumerate(records) if name not in record), None)
    if missing is not None:
        raise ValueError(f"{of}: record {missing} has no {name!r}")
    return [record[name] for record in records]


def _new_axes(n: int) -> list[Axes]:
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError(
            "plots need matplotlib: pip install matplotlib, or streamtree-learn[cli]"
        ) from error
    _, axes = pyplot.subplots(n, sharex=True, squeeze=False, layout="constrained")
    return list(axes[:, 0])


def _percent() -> Any:
    from matplotlib.ticker import PercentFormatter

    return PercentFormatter(1.0, decimals=0)
