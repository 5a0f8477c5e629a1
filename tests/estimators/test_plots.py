"""What the plots draw, without a screen."""

import doctest
import sys

import pytest
from support.lomtrees import majority_tree
from support.streams import blobs

from streamtree import plots
from streamtree.diagnostics import Recorder

matplotlib = pytest.importorskip("matplotlib")


@pytest.fixture(autouse=True)
def pyplot():
    matplotlib.use("Agg")
    from matplotlib import pyplot

    yield pyplot
    pyplot.close("all")


@pytest.fixture(scope="module")
def records():
    X, y = blobs(1_200, classes=6, features=4, spread=2.0)
    recorder = Recorder(majority_tree(), X[1_000:], y[1_000:])
    for start in range(0, 1_000, 50):
        recorder.learn_many(X[start : start + 50], y[start : start + 50])
    recorder.record()
    return recorder.records


def drawn(line):
    return line.get_xdata().tolist(), line.get_ydata().tolist()


def test_accuracy_is_one_line_for_every_learner(records, tmp_path):
    examples = [record["n_examples"] for record in records]
    axes = plots.plot_accuracy({"tree": records, "other": ([100, 200], [0.25, 0.5])})
    assert [line.get_label() for line in axes.lines] == ["tree", "other"]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["tree", "other"]
    assert drawn(axes.lines[0]) == (examples, [1 - record["error"] for record in records])
    assert drawn(axes.lines[1]) == ([100, 200], [0.25, 0.5])
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("examples", "prequential accuracy")
    axes.figure.savefig(tmp_path / "accuracy.png")
    assert (tmp_path / "accuracy.png").stat().st_size > 5_000
    same = plots.plot_accuracy({"tree": records}, axes, of="test_error")
    assert same is axes
    assert drawn(axes.lines[2])[1] == [1 - record["test_error"] for record in records]


def test_shape_is_leaves_above_and_depth_below(records, pyplot):
    upper, lower = plots.plot_shape(records)
    assert drawn(upper.lines[0])[1] == [record["n_leaves"] for record in records]
    assert drawn(lower.lines[0])[1] == [record["height"] for record in records]
    assert drawn(lower.lines[1])[1] == [record["mean_depth"] for record in records]
    figure, axes = pyplot.subplots(1, 2)
    assert plots.plot_shape(records, axes) == list(axes)
    figure.canvas.draw()


@pytest.mark.parametrize("prefix", ["", "test_"])
def test_criteria_go_from_0_to_1(records, prefix):
    axes = plots.plot_criteria(records, prefix=prefix)
    assert len(axes.lines) == 4
    for line, name in zip(axes.lines, plots.LABELS, strict=True):
        splits, heights = drawn(line)
        assert splits == [record["n_splits"] for record in records]
        assert (min(heights), max(heights)) == (0.0, 1.0)
        values = [record[prefix + name] for record in records]
        low, high = min(values), max(values)
        assert [low + h * (high - low) for h in heights] == pytest.approx(values)
    assert plots.plot_criteria(records[:1]).lines[0].get_ydata().tolist() == [0.0]


def test_nothing_and_nonsense_are_refused(records, pyplot):
    before = pyplot.get_fignums()
    for call, message in [
        (lambda: plots.plot_accuracy({}), "at least one curve"),
        (lambda: plots.plot_accuracy({"a": []}), "curve 'a' must be records, or two sequences"),
        (lambda: plots.plot_accuracy({"a": ([1, 2], [0.5])}), "curve 'a'"),
        (lambda: plots.plot_accuracy({"a": records}, of="errors"), "record 0 has no 'errors'"),
        (lambda: plots.plot_shape([]), "at least one record"),
        (lambda: plots.plot_shape([{"n_examples": 3}]), "record 0 has no 'n_leaves'"),
        (lambda: plots.plot_criteria([records[0], {}]), "record 1 has no 'n_splits'"),
    ]:
        with pytest.raises(ValueError, match=message):
            call()
    assert pyplot.get_fignums() == before


def test_without_matplotlib_the_error_says_what_to_install(records, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    for draw in (plots.plot_shape, plots.plot_criteria, lambda r: plots.plot_accuracy({"a": r})):
        with pytest.raises(ImportError, match="pip install matplotlib"):
            draw(records)


def test_the_examples_run():
    result = doctest.testmod(plots)
    assert result.attempted > 0
    assert result.failed == 0
