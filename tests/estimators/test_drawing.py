"""Drawings: what is in their boxes, and that pictures can be made of them."""

import itertools
import re
import sys
from xml.dom import minidom

import numpy as np
import pytest
from support.estimators import learned, stream_of, targets_of, tree_cases
from support.streams import changing_rows

from streamtree import (
    ModelTreeClassifier,
    SelfTerminatingTreeClassifier,
    SoftTreeRegressor,
)
from streamtree.drawing import TreeDrawing
from streamtree.inspection import NodeView, with_inner_nodes


def nominal_tree(n_cities=60, n=6_000):
    """A tree whose root has a branch for every city; some cities split further."""
    rng = np.random.default_rng(0)
    model = SelfTerminatingTreeClassifier(leaf_model="majority", max_bytes=10**7)
    weights = 1.0 / np.arange(1, n_cities + 1)
    cities = rng.choice(n_cities, size=n, p=weights / weights.sum())
    for city, hour in zip(cities.tolist(), rng.uniform(0, 24, n).tolist(), strict=True):
        late = (city % 3 == 0) == (hour > 12) if city < 6 else city % 2
        model.learn_one({"city": f"city {city}", "hour": hour}, "late" if late else "on time")
    return model


@tree_cases
def test_every_node_has_a_box_unless_it_is_counted(estimator, params):
    rows, classes = changing_rows(800, 3)
    model = learned(estimator, params, rows, targets_of(estimator, classes))
    boxes = model.draw(max_depth=None, max_branches=10**6).boxes
    assert len(boxes) == model.n_nodes
    assert len({box.name for box in boxes}) == len(boxes)
    assert sum(box.is_leaf for box in boxes) == model.n_leaves
    for depth, most in [(0, 3), (1, 2), (2, 5), (None, 2)]:
        boxes = model.draw(max_depth=depth, max_branches=most).boxes
        text = "\n".join(line for box in boxes for line in (*box.title, *box.lines))
        hidden = sum(int(n.replace(",", "")) for n in re.findall(r"(\S+) nodes? below", text))
        hidden += sum(int(n.replace(",", "")) for n in re.findall(r"(\S+) more branches", text))
        assert len(boxes) + hidden == model.n_nodes + text.count("more branches")
        for box in boxes:
            assert all(0.0 <= part <= 1.0 for part in box.colour)
            assert not box.bar or sum(share for _, share in box.bar) == pytest.approx(1.0)


@tree_cases
def test_no_box_shows_how_the_model_names_its_columns(estimator, params):
    rows, classes = changing_rows(800, 3)
    model = learned(estimator, params, rows, targets_of(estimator, classes))
    x = rows[0]
    for text in (model.draw(max_depth=None).source, model.debug_one(x), str(model.to_dict())):
        assert "Category" not in text
    assert "Category" not in model.to_dataframe().to_string()
    assert not any("Category" in repr(name) for name in model.feature_importances())


def test_branches_of_a_category_share_a_box():
    model = nominal_tree()
    assert model.draw().boxes[0].title == ("city",)
    boxes = model.draw(max_branches=6).boxes
    below_root = [box for box in boxes if box.parent == "n0"]
    n_branches = (model.to_dataframe()["depth"] == 1).sum()
    assert len(below_root) == 6
    assert below_root[-1].title == (f"{n_branches - 5} more branches",)
    assert below_root[-1].edge == "others"
    assert sum(box.share for box in below_root) == pytest.approx(1.0, abs=0.02)
    # in order of their examples
    assert [box.edge for box in below_root[:3]] == ["= city 0", "= city 1", "= city 2"]


@pytest.mark.parametrize(
    ("said", "line"),
    [(lambda n: n, "3.25"), (lambda n: {"a": n, "b": -n}, "a: 3.25")],
    ids=["number", "numbers"],
)
def test_numbers_of_branches_that_share_a_box_have_their_mean(said, line):
    views = with_inner_nodes([
        NodeView(0, -1, 0, test="city", strengths={"city": 1.0}, feature="city"),
        *(NodeView(i, 0, 1, f"= {i}", weight=w, prediction=said(float(i)))
          for i, w in ((1, 8.0), (2, 7.0), (3, 3.0), (4, 1.0))),
    ])
    drawing = TreeDrawing(views, max_branches=3)
    box = drawing.boxes[-1]
    assert box.title == ("2 more branches",)
    assert box.lines[0] == line
    assert box.lines[-1] == "21 % of the examples"
    # 3.25 of 1 to 4
    assert box.colour == drawing.colours.of(NodeView(5, 0, 1, prediction=said(3.25)))


def test_classes_have_colours_and_pure_nodes_strong_ones():
    views = with_inner_nodes([
        NodeView(0, -1, 0, test="a > 1", strengths={"a": 1.0}, feature="a"),
        NodeView(1, 0, 1, "no", weight=10.0, prediction="x", shares={"x": 0.6, "y": 0.4}),
        NodeView(2, 0, 1, "yes", weight=30.0, prediction="y", shares={"y": 1.0}),
    ])
    drawing = TreeDrawing(views)
    root, mixed, pure = drawing.boxes
    assert drawing.colours.named()[0] == ("y", drawing.colours.of_label("y"))
    assert pure.title == ("y  100 %",)
    assert mixed.title == ("x  60 %",)
    assert mixed.lines == ("y  40 %", "25 % of the examples")
    assert root.lines == ("y  85 %", "x  15 %", "all examples")
    assert mixed.bar == ((drawing.colours.of_label("y"), 0.4), (drawing.colours.of_label("x"), 0.6),
                         ((0.62, 0.62, 0.62), 0.0))

    def strength(box):
        return sum(abs(1.0 - part) for part in box.colour)

    assert strength(pure) > 2 * strength(mixed)
    assert f'fillcolor="#{"".join(f"{round(255 * part):02x}" for part in pure.colour)}"' in (
        drawing.source
    )


def test_numbers_go_from_one_colour_to_another():
    views = with_inner_nodes([
        NodeView(0, -1, 0, test="a > 1", strengths={"a": 1.0}, feature="a"),
        *(NodeView(i, 0, 1, "no", weight=1.0, prediction=float(i)) for i in (1, 2, 3)),
    ])
    root, low, middle, high = TreeDrawing(views).boxes
    assert root.colour == middle.colour
    assert min(middle.colour) > 0.9
    assert low.colour[2] > low.colour[0] + 0.4
    assert high.colour[0] > high.colour[2] + 0.4
    assert [box.title for box in (low, middle, high)] == [("1",), ("2",), ("3",)]


def test_quotes_and_dollars_in_names_are_taken_as_they_are(tmp_path):
    pytest.importorskip("matplotlib")
    views = with_inner_nodes([
        NodeView(0, -1, 0, test='"a\\b$" > 0$', strengths={'"a\\b"': 1.0}, feature="a"),
        NodeView(1, 0, 1, "<= 0", weight=1.0, prediction='say "$x$"', shares={'say "$x$"': 1.0}),
        NodeView(2, 0, 1, "> 0", weight=3.0, prediction="y", shares={"y": 1.0}),
    ])
    drawing = TreeDrawing(views)
    assert r"\"a\\b$\" > 0$" in drawing.source
    assert drawing.source.count('"') % 2 == 0
    drawing.save(str(tmp_path / "tree.png"))


@pytest.mark.parametrize("letter", ["\ud800", "\x00", "\x01", "\n", "\x85", "\ufffe"])
def test_letters_that_no_picture_can_show_are_written_as_escapes(letter, tmp_path):
    pytest.importorskip("matplotlib")
    name, escape = f"a{letter}b", f"a{repr(letter)[1:-1]}b"
    label = 20 * letter
    views = with_inner_nodes([
        NodeView(0, -1, 0, test=name, strengths={name: 1.0}, feature=name),
        NodeView(1, 0, 1, f"= {name}", weight=1.0, prediction=label, shares={label: 1.0},
                 uses=(name,)),
        NodeView(2, 0, 1, "others", weight=3.0, prediction=name, shares={name: 1.0}),
        NodeView(3, 0, 1, "none", weight=3.0, prediction=name),
    ])
    drawing = TreeDrawing(views)
    root, first, second, third = drawing.boxes
    assert root.title == third.title == (escape,)
    assert first.edge == f"= {escape}"
    assert f"by {escape}" in first.lines
    assert second.title == (f"{escape}  100 %",)
    # they are cut as they are written
    assert all(len(line) < 40 for box in drawing.boxes for line in (*box.title, *box.lines))
    drawing.source.encode()
    drawing.save(str(tmp_path / "tree.svg"))
    minidom.parse(str(tmp_path / "tree.svg"))
    minidom.parseString(drawing._repr_mimebundle_()["image/svg+xml"])
    texts = drawing.plot().get_legend().get_texts()
    assert texts[0].get_text() == escape


def test_a_picture_is_written_as_a_whole_or_not_at_all(tmp_path, monkeypatch):
    backend = pytest.importorskip("matplotlib.backends.backend_svg")
    path = tmp_path / "tree.svg"
    path.write_text("an older picture")

    def fail(renderer):
        raise RuntimeError("half way")

    monkeypatch.setattr(backend.RendererSVG, "finalize", fail)
    drawing = ModelTreeClassifier().draw()
    with pytest.raises(RuntimeError, match="half way"):
        drawing.save(str(path))
    assert path.read_text() == "an older picture"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    "make", [ModelTreeClassifier, SelfTerminatingTreeClassifier, SoftTreeRegressor]
)
def test_pictures_are_files_and_pages_of_a_notebook(make, tmp_path):
    pytest.importorskip("matplotlib")
    X, y = stream_of(make, 1_500, classes=6)
    model = make()
    model.learn_many(X, y)
    drawing = model.draw(max_depth=1, max_branches=3)
    for ending, first in [("png", b"\x89PNG"), ("pdf", b"%PDF"), ("SVG", b"<?xml")]:
        path = tmp_path / f"tree.{ending}"
        drawing.save(str(path))
        assert path.read_bytes().startswith(first)
    drawing.save(str(tmp_path / "no ending"))
    assert (tmp_path / "no ending.png").exists()
    assert drawing._repr_mimebundle_()["image/svg+xml"].startswith("<?xml")
    axes = drawing.plot()
    assert drawing.plot(axes) is axes
    words = [text.get_text() for text in axes.texts]
    assert any(" > " in word or "(x[" in word or "<=" in word for word in words) or (
        model.n_nodes == 1
    )


def test_boxes_do_not_overlap():
    from streamtree.drawing import _WIDTH, _layout

    for model in (nominal_tree(), ModelTreeClassifier()):
        if model.n_nodes == 1:
            X, y = stream_of(ModelTreeClassifier, 3_000, classes=6)
            model.learn_many(X, y)
        boxes = model.draw(max_depth=None).boxes
        places, width, height = _layout(boxes)
        by_column = {}
        for box in boxes:
            x, y = places[box.name]
            assert 0.0 <= x <= width - _WIDTH + 1e-9
            assert box.height / 2 <= y <= height - box.height / 2
            by_column.setdefault(x, []).append((y - box.height / 2, y + box.height / 2))
        for spans in by_column.values():
            spans.sort()
            assert all(a[1] < b[0] for a, b in itertools.pairwise(spans))


def test_without_matplotlib_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    drawing = ModelTreeClassifier().draw()
    with pytest.raises(ImportError, match="pip install matplotlib"):
        drawing.save("tree.png")
    assert drawing._repr_mimebundle_() == {"text/plain": drawing.source}


@tree_cases
def test_arguments_are_checked(estimator, params):
    model = estimator(**params)
    assert len(model.draw().boxes) == model.n_nodes
    for wrong in (-1, 1.5, "1", True):
        with pytest.raises((TypeError, ValueError), match="max_depth"):
            model.draw(max_depth=wrong)
        with pytest.raises((TypeError, ValueError), match="max_branches"):
            model.draw(max_branches=wrong)


def test_leaves_with_models_tell_what_they_use():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3_000, 4))
    model = ModelTreeClassifier(grace_period=10**9)
    model.learn_many(X, (X[:, 2] + 0.3 * X[:, 1] > 0).astype(int))
    (leaf,) = model.draw().boxes
    assert "by x[2], x[1]" in "".join(leaf.lines)
    (leaf,) = SelfTerminatingTreeClassifier(leaf_model="majority").draw().boxes
    assert not any(line.startswith("by ") for line in leaf.lines)
