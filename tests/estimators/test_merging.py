"""Models of one structure made one."""

import copy

import numpy as np
import pytest
from river import preprocessing
from support.streams import as_dicts, blobs

import streamtree
from streamtree import (
    NonGreedyTreeClassifier,
    NonGreedyTreeMultiTargetRegressor,
    NonGreedyTreeRegressor,
    merge,
)
from streamtree.serialization import from_bytes, to_bytes

KINDS = [NonGreedyTreeClassifier, NonGreedyTreeRegressor, NonGreedyTreeMultiTargetRegressor]


def stream(kind, n=1500, seed=0):
    X, y = blobs(n, 3, features=4, spread=2.0, seed=seed)
    if kind is NonGreedyTreeClassifier:
        return X, y
    numbers = X[:, 0] * X[:, 1] + y
    return X, numbers if kind is NonGreedyTreeRegressor else np.stack([numbers, X[:, 2]], axis=1)


def shards(kind, **params):
    """A start after 500 rows, and two models that went on with 300 and 700 others."""
    X, y = stream(kind)
    start = kind(depth=3, warm_up=200, **params)
    start.learn_many(X[:500], y[:500])
    models = [copy.deepcopy(start), copy.deepcopy(start)]
    models[0].learn_many(X[500:800], y[500:800])
    models[1].learn_many(X[800:], y[800:])
    return start, models, X, y


def splits_of(model):
    """Offsets and weights of the splits as they are used, shape (n_nodes, 1 + n_columns)."""
    state = model.snapshot()
    tree = state["tree"]
    table = np.zeros((len(tree["nodes"]), 1 + len(state["features"])))
    table[:, 0] = tree["nodes"]["bias"]
    for node, begin in enumerate(tree["weights"]["starts"][:-1]):
        rows = slice(begin, tree["weights"]["starts"][node + 1])
        table[node, 1 + tree["weights"]["keys"][rows]] = tree["weights"]["records"][rows, 0]
    return table * tree["nodes"]["scale"][:, None]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("params", [{}, {"batch_size": 10, "momentum": 0.5}])
def test_parameters_are_means_weighted_by_rows(kind, params):
    start, models, X, y = shards(kind, **params)
    merged = merge(models, start=start)
    expected = 0.3 * splits_of(models[0]) + 0.7 * splits_of(models[1])
    np.testing.assert_allclose(splits_of(merged), expected, rtol=1e-12, atol=1e-15)
    nodes = merged.snapshot()["tree"]["nodes"]
    inner = merged.snapshot()["tree"]["links"]["left"] >= 0
    squares = (expected[inner] ** 2).sum(axis=1)
    np.testing.assert_allclose((nodes["norm"] * nodes["scale"] ** 2)[inner], squares, rtol=1e-12)
    # a mean of points in a ball is in the ball
    assert (squares <= merged.max_norm * (1 + 1e-12)).all()
    merged.learn_many(X[:100], y[:100])
    assert np.isfinite(merged.predict_many(X)).all()


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_counted_is_that_of_one_model_of_all_rows(kind):
    start, models, X, y = shards(kind)
    one = copy.deepcopy(start)
    one.learn_many(X[500:], y[500:])
    merged, expected = merge(models, start=start).snapshot(), one.snapshot()
    assert merged["scaler"]["rows"] == 1500
    columns, ours = expected["scaler"]["columns"], merged["scaler"]["columns"]
    for field in ("counted", "zeros", "birth", "pivot", "phase"):
        np.testing.assert_array_equal(ours[field], columns[field])
    # outliers count as values at the edge of the scale that was known then
    for field in ("sum", "sum_squares"):
        np.testing.assert_allclose(ours[field], columns[field], rtol=1e-6, atol=1e-6)
    totals = merged["tree"]["totals"]
    for field in totals.dtype.names:
        np.testing.assert_allclose(totals[field], expected["tree"]["totals"][field], rtol=1e-9)
    assert merged["tree"]["n_learned"] == 1500
    if kind is not NonGreedyTreeClassifier:
        for field in ("weight", "rows"):
            np.testing.assert_array_equal(
                merged["shrinkage"][field], expected["shrinkage"][field]
            )
        np.testing.assert_array_equal(merged["learned_range"], expected["learned_range"])


@pytest.mark.parametrize("kind", KINDS)
def test_models_that_learned_nothing_more_predict_as_the_start(kind):
    start, _, X, _ = shards(kind)
    same = merge([copy.deepcopy(start), copy.deepcopy(start), start], start=start)
    np.testing.assert_allclose(same.predict_many(X), start.predict_many(X), rtol=1e-9)
    assert same.snapshot()["scaler"]["rows"] == 500


def test_the_same_models_give_the_same_bytes_and_stay_as_they_were(tmp_path):
    start, models, X, y = shards(NonGreedyTreeClassifier)
    before = [model.snapshot() for model in (*models, start)]
    for name in "ab":
        merge(models, start=start).save(tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    for model, state in zip((*models, start), before, strict=True):
        np.testing.assert_equal(model.snapshot(), state)
    loaded, merged = streamtree.load(tmp_path / "a"), merge(models, start=start)
    for model in (loaded, merged):
        model.learn_many(X, y)
    np.testing.assert_equal(loaded.snapshot(), merged.snapshot())


def test_names_and_labels_are_matched_by_name():
    X, y = blobs(1200, 4, features=4, spread=3.0)
    start = NonGreedyTreeClassifier(depth=3, start="zeros")
    models = [copy.deepcopy(start), copy.deepcopy(start)]
    names = [["a", "b", "c", "d"], ["c", "a", "e", "b"]]
    for i, model in enumerate(models):
        for x, label in zip(as_dicts(X[i::2], names[i]), y[i::2].tolist(), strict=True):
            if label != 3 * i:
                model.learn_one(x, f"class {label}")
    merged = merge(models, start=start)
    other = merge(models[::-1], start=start)
    assert merged.snapshot()["features"] == ["a", "b", "c", "d", "e"]
    assert other.snapshot()["features"] == ["c", "a", "e", "b", "d"]
    assert set(merged.labels) == set(other.labels) == {f"class {i}" for i in range(4)}
    x = dict(zip("abcde", [1.0, -1.0, 0.5, 2.0, -0.5], strict=True))
    ours, theirs = merged.predict_proba_one(x), other.predict_proba_one(x)
    assert ours == pytest.approx(theirs, rel=1e-9)
    columns = merged.snapshot()["scaler"]["columns"]
    at = {name: i for i, name in enumerate(merged.snapshot()["features"])}
    n = [int((y[i::2] != 3 * i).sum()) for i in range(2)]
    assert columns["counted"][at["a"]] == sum(n)
    assert columns["counted"][at["d"]] == n[0]
    # of all rows, those since its birth are the ones of the model that has it
    assert columns["birth"][at["d"]] == n[1]


@pytest.mark.parametrize("known", [60, 0])
def test_rows_whose_label_had_come_before_are_those_of_one_model(known):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 3)), rng.integers(12, size=300)
    whole = NonGreedyTreeClassifier(depth=2, start="zeros")
    whole.learn_many(X[:known], y[:known])
    shards = [copy.deepcopy(whole) for _ in range(3)]
    start = copy.deepcopy(whole)
    for i, shard in enumerate(shards):
        shard.learn_many(X[known + i::3], y[known + i::3])
    whole.learn_many(X[known:], y[known:])
    merged = streamtree.merge(shards, start=start)
    repeats = whole.snapshot()["label_repeats"]
    assert merged.snapshot()["label_repeats"] == repeats == 300 - len(set(y.tolist()))


def test_averaging_follows_one_model():
    """Replicas merged every 500 rows stay within two points of one model on all rows."""
    X, y = blobs(8000, 5, features=6, spread=1.2, seed=3)
    one = NonGreedyTreeClassifier(depth=4, warm_up=1000)
    one.learn_many(X[:6000], y[:6000])
    start = NonGreedyTreeClassifier(depth=4, warm_up=1000)
    start.learn_many(X[:1000], y[:1000])
    for first in range(1000, 6000, 500):
        models = [copy.deepcopy(start), copy.deepcopy(start)]
        for i, model in enumerate(models):
            rows = slice(first + i, first + 500, 2)
            model.learn_many(X[rows], y[rows])
        start = merge(models, start=start)
    scores = [np.mean(model.predict_many(X[6000:]) == y[6000:]) for model in (one, start)]
    assert scores[0] > 0.6
    assert scores[1] > scores[0] - 0.02


def test_models_that_do_not_fit_are_refused():
    start, models, X, y = shards(NonGreedyTreeClassifier)
    with pytest.raises(ValueError, match="no model"):
        merge([])
    with pytest.raises(TypeError, match="ModelTreeClassifier has no fixed structure"):
        merge([streamtree.ModelTreeClassifier()])
    with pytest.raises(TypeError, match="cannot merge NonGreedyTreeRegressor with NonGreedyTreeC"):
        merge([models[0], NonGreedyTreeRegressor()])
    with pytest.raises(ValueError, match=r"differ in 'fear': 0.3 in one, 0.5 in another"):
        merge([models[0], models[0].clone({"fear": 0.5})])
    young = start.clone()
    young.learn_many(X[:100], y[:100])
    with pytest.raises(ValueError, match="still in its warm-up"):
        merge([young, young])
    small = NonGreedyTreeClassifier(depth=3, warm_up=200)
    small.learn_many(np.ones((400, 1)), np.zeros(400, dtype=int))
    with pytest.raises(ValueError, match="different splits"):
        merge([models[0], small])
    with pytest.raises(ValueError, match="fewer rows than the start"):
        merge([start], start=models[0])
    batched = NonGreedyTreeClassifier(depth=3, start="zeros", batch_size=7)
    batched.learn_many(X[:10], y[:10])
    with pytest.raises(ValueError, match="mini-batch"):
        merge([batched])
    held = NonGreedyTreeClassifier(depth=3, start="zeros", objective="surrogate", hold=20)
    held.learn_many(X[:30], y[:30])
    with pytest.raises(ValueError, match="hold"):
        merge([held, held])
    kinds = [NonGreedyTreeClassifier(depth=2, start="zeros") for _ in range(2)]
    kinds[0].learn_one({"colour": "red"}, 0)
    kinds[1].learn_one({"colour": 1.0}, 0)
    with pytest.raises(ValueError, match="'colour' is a category in one model and a number"):
        merge(kinds)
    several = [NonGreedyTreeMultiTargetRegressor(depth=2, start="zeros") for _ in range(2)]
    several[0].learn_one({"a": 1.0}, {"p": 1.0})
    several[1].learn_one({"a": 1.0}, {"q": 1.0})
    with pytest.raises(ValueError, match="different targets"):
        merge(several)
    with pytest.raises(TypeError, match="Pipeline has no fixed structure"):
        merge([preprocessing.StandardScaler() | models[0]])
    ours, theirs = (NonGreedyTreeClassifier(depth=2, start="zeros") for _ in range(2))
    ours.learn_one({"a": 1.0}, 0)
    theirs.learn_one({"b": 1.0}, 0)
    with pytest.raises(ValueError, match="the start has columns that no model has"):
        merge([ours], start=theirs)


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_that_has_learned_nothing_changes_nothing(kind):
    X, y = stream(kind)
    # far from 0, where those that have learned nothing begin
    y = y if kind is NonGreedyTreeClassifier else y + 1e6
    one = kind(depth=3, start="zeros")
    nothing = one.clone()
    one.learn_many(X[:20], y[:20])
    for models in ([one, nothing], [nothing, one]):
        for start in (None, nothing):
            merged = merge(models, start=start)
            said = merged.predict_many(X[:20])
            np.testing.assert_allclose(said, one.predict_many(X[:20]), rtol=1e-9)
            merged.learn_many(X[20:30], y[20:30])
            assert merged.snapshot()["tree"]["n_learned"] == 30


def test_a_start_that_has_learned_nothing_has_any_targets():
    X, y = stream(NonGreedyTreeMultiTargetRegressor)
    start = NonGreedyTreeMultiTargetRegressor(depth=3, start="zeros")
    models = [copy.deepcopy(start), copy.deepcopy(start)]
    for i, model in enumerate(models):
        model.learn_many(X[i::2], y[i::2])
    for merged in (merge(models, start=start), merge(models)):
        assert merged.snapshot()["targets"] == [0, 1]
        assert np.corrcoef(merged.predict_many(X)[:, 0], y[:, 0])[0, 1] > 0.5


def test_squares_of_the_largest_values_are_merged_without_a_warning():
    start = NonGreedyTreeClassifier(depth=2, start="zeros")
    X = np.array([[1e300], [-1e300]] * 50)
    start.learn_many(X, X[:, 0] > 0)
    merged = merge([copy.deepcopy(start), copy.deepcopy(start)], start=start)
    assert to_bytes(from_bytes(to_bytes(merged))) == to_bytes(merged)
    assert merged.predict_many(X).tolist() == start.predict_many(X).tolist()
