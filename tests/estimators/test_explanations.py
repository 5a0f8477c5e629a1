"""What models say of their predictions: paths end in them, contributions sum to them."""

import numpy as np
import pytest
from river import base
from support.estimators import (
    ESTIMATORS,
    TREES,
    as_batch,
    cases,
    defaults,
    learned,
    stream_of,
    targets_of,
)
from support.streams import as_dicts, changing_rows

from streamtree import (
    LOMTreeClassifier,
    ModelTreeClassifier,
    NonGreedyTreeClassifier,
    SelfTerminatingTreeClassifier,
    SelfTerminatingTreeRegressor,
    SoftTreeClassifier,
    SoftTreeRegressor,
)
from streamtree._core.ensembles.ensemble import MeanPool
from streamtree._core.ensembles.pools import LinearPool, LogLinearPool
from streamtree._core.learners.classifier import Classifier
from streamtree._core.learners.explaining import explain
from streamtree._core.learners.regressor import Regressor

# what sums of contributions may be off by, relative to the sizes of the numbers
DIGITS = 1e-9


def trained(estimator, params, n=1_500, seed=0):
    rows, classes = changing_rows(n, 4, seed=seed)
    return learned(estimator, params, rows, targets_of(estimator, classes))


def parts_of(model, x):
    """(score, what the parts sum to) of every explanation of an example."""
    made_of = model.contributions_one(x)
    several = isinstance(model, base.MultiTargetRegressor)
    for part in made_of.values() if several else [made_of]:
        sizes = sum(map(abs, part["features"].values())) + abs(part["bias"])
        yield part["score"], part["bias"] + sum(part["features"].values()), max(sizes, 1.0)


def predicted(model, x):
    """What the scores of the explanations are to be."""
    said = model.predict_one(x)
    if isinstance(model, base.Classifier):
        return [model.predict_proba_one(x)[said]]
    return list(said.values()) if isinstance(said, dict) else [said]


@pytest.mark.slow
@defaults
def test_many_paths_and_contributions_end_in_the_prediction(estimator, params):
    check_explanations(estimator, params, 4_000)


@cases
def test_paths_and_contributions_end_in_the_prediction(estimator, params):
    check_explanations(estimator, params, 150)


def check_explanations(estimator, params, n):
    model = trained(estimator, params)
    rows, _ = changing_rows(n, 4, seed=1)
    if estimator in TREES:
        views = {view.node: view for view in model._views()}
        assert repr(model.decision_path(rows[0])) == repr(model._path(rows[0], views))
    for x in [*rows, {}, {"never": 1.0}, {"kind": "new"}]:
        if estimator in TREES:
            # as `decision_path`, which describes all nodes anew
            assert model._path(x, views)[-1]["prediction"] == model.predict_one(x)
        explained = list(parts_of(model, x))
        assert [score for score, _, _ in explained] == predicted(model, x)
        for score, total, size in explained:
            assert abs(score - total) <= DIGITS * size


@cases
def test_the_last_line_of_debug_one_is_the_prediction(estimator, params):
    model = trained(estimator, params)
    for x in changing_rows(20, 4, seed=2)[0]:
        last = model.debug_one(x).splitlines()[-1]
        said = model.predict_one(x)
        if isinstance(model, base.Classifier):
            assert last == f"predicts {said} ({model.predict_proba_one(x)[said]:.4g})"
        elif isinstance(said, dict):
            assert last == "predicts " + ", ".join(f"{k}: {v:.6g}" for k, v in said.items())
        else:
            assert last == f"predicts {said:.6g}"


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_before_any_learning(estimator):
    model = estimator()
    made_of = model.contributions_one({"a": 1.0})
    if isinstance(model, base.Classifier):
        assert made_of == {"label": None, "score": 0.0, "bias": 0.0, "features": {}}
        with pytest.raises(ValueError, match="label 'x' was never learned"):
            model.contributions_one({"a": 1.0}, "x")
    elif isinstance(model, base.MultiTargetRegressor):
        assert made_of == {}
    else:
        assert made_of == {"score": 0.0, "bias": 0.0, "features": {}}
    if estimator in TREES:
        assert model.decision_path({"a": 1.0})[-1]["prediction"] == model.predict_one({})


def test_contributions_of_all_labels_sum_to_nothing():
    """What one label gains the others lose, feature by feature."""
    for estimator in (LOMTreeClassifier, ModelTreeClassifier, SoftTreeClassifier):
        model = trained(estimator, {})
        x = changing_rows(3, 4, seed=3)[0][-1]
        parts = [model.contributions_one(x, label) for label in model.labels]
        assert sum(part["bias"] for part in parts) == pytest.approx(1.0)
        for feature in parts[0]["features"]:
            total = sum(part["features"][feature] for part in parts)
            assert total == pytest.approx(0.0, abs=2e-3), (estimator, feature)


def test_a_linear_regressor_says_its_weights_times_the_values():
    X, y = stream_of(SoftTreeRegressor, 400)
    model = SoftTreeRegressor(max_nodes=1)
    model.learn_many(X, y)
    state = model.snapshot()
    tree, scales = state["tree"], state["scaler"]["columns"]
    unit, seen = tree["target_unit"], tree["target_range"]
    kept = 1.0 - state["shrinkage"]["share"][0]
    n_compared = 0
    for x in as_dicts(X[:50]):
        made_of = model.contributions_one(x)
        assert made_of["bias"] == pytest.approx(model.predict_one({}))
        standard = (np.array(list(x.values())) - scales["center"]) * scales["factor"]
        parts = tree["leaves"]["records"][: len(x), 0] * standard / unit["factor"]
        number = unit["center"] + tree["leaf_offsets"][0, 0] / unit["factor"] + parts.sum()
        if abs(standard).max() < 5.0 and seen["low"] < number < seen["high"]:
            n_compared += 1
            found = [made_of["features"][i] for i in range(len(x))]
            assert found == pytest.approx((kept * parts).tolist())
    assert n_compared > 20


def test_the_parts_of_an_additive_model_follow_the_values_left_out():
    """Where one column decides all, it has all; one that says nothing has nothing."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3_000, 3))
    y = (X[:, 1] > 0).astype(int)
    for estimator in (ModelTreeClassifier, SoftTreeClassifier, SelfTerminatingTreeClassifier):
        model = estimator()
        model.learn_many(X, y)
        x = {0: 0.1, 1: 1.5, 2: -0.2}
        features = model.contributions_one(x)["features"]
        assert next(iter(features)) == 1
        assert features[1] > 0.35
        assert sum(abs(part) for feature, part in features.items() if feature != 1) < 0.1


def test_a_majority_tree_shares_out_what_its_tests_change():
    """Threshold tests: each step is the change of the class shares of its node, by its column."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4_000, 2))
    y = 2 * (X[:, 0] > 0) + (X[:, 1] > 0)
    model = SelfTerminatingTreeClassifier(leaf_model="majority")
    model.learn_many(X, y)
    made_of = model.contributions_one({0: 1.0, 1: 1.0})
    assert made_of["label"] == 3
    assert made_of["bias"] == pytest.approx(0.25, abs=0.03)
    assert made_of["features"][0] + made_of["features"][1] == pytest.approx(0.74, abs=0.04)
    # either column first: a half or a quarter of the whole
    assert all(part > 0.2 for part in made_of["features"].values())


def test_categories_count_for_their_feature():
    rows = [{"colour": "red" if i % 3 else "blue", "n": float(i % 7)} for i in range(900)]
    labels = [i % 3 > 0 for i in range(900)]
    for estimator in ESTIMATORS:
        if not issubclass(estimator, base.Classifier):
            continue
        model = learned(estimator, {}, rows, labels)
        features = model.contributions_one({"colour": "blue", "n": 2.0})["features"]
        assert set(features) <= {"colour", "n"}
        importances = model.feature_importances()
        assert next(iter(importances)) == "colour", estimator
        assert importances["colour"] > 0.9, estimator


def test_a_tree_of_one_leaf_has_importances():
    """Its model decides everything."""
    X, y = stream_of(ModelTreeClassifier, 300)
    for model in (
        ModelTreeClassifier(grace_period=10**9), LOMTreeClassifier(grace_period=10**9),
        SoftTreeClassifier(max_nodes=1), SelfTerminatingTreeClassifier(grace_period=10**9),
        SoftTreeRegressor(max_nodes=1), SelfTerminatingTreeRegressor(grace_period=10**9),
    ):
        targets = targets_of(type(model), [int(label[-1]) for label in y], X)
        model.learn_many(X, targets)
        assert model.n_nodes == 1
        importances = model.feature_importances()
        assert set(importances) == set(range(5))
        assert sum(importances.values()) == pytest.approx(1.0)


def test_importances_follow_what_moves_predictions():
    """A number of 3 a + b, with noise columns: about three parts of four, one, and none."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6_000, 4))
    for estimator in (SoftTreeRegressor, SelfTerminatingTreeRegressor):
        model = estimator()
        model.learn_many(X, 3 * X[:, 0] + X[:, 1])
        importances = model.feature_importances()
        assert importances[0] == pytest.approx(0.75, abs=0.12)
        assert importances[1] == pytest.approx(0.25, abs=0.12)
        assert importances.get(2, 0.0) + importances.get(3, 0.0) < 0.05


@pytest.mark.parametrize(
    ("pool", "names"),
    [
        (lambda trees: Classifier(LogLinearPool(trees, [0.6, 0.5, 0.3])), "labels"),
        (lambda trees: Classifier(MeanPool(trees)), "labels"),
        (lambda trees: Regressor(MeanPool(trees)), "numbers"),
        (lambda trees: Regressor(LinearPool(trees, [0.5, 0.5, 0.0], rate=0.1)), "numbers"),
    ],
    ids=["log-linear", "mean of labels", "mean of numbers", "linear"],
)
@pytest.mark.parametrize("n_classes", [2, 4])
def test_an_ensemble_adds_up_its_members(pool, names, n_classes):
    if names == "labels":
        members = (ModelTreeClassifier, SoftTreeClassifier, NonGreedyTreeClassifier)
    else:
        members = (SoftTreeRegressor, SelfTerminatingTreeRegressor, SoftTreeRegressor)
    core = pool([member()._core.tree for member in members])
    rows, classes = changing_rows(800, n_classes)
    classes = [label % n_classes for label in classes]
    for x, y in zip(rows, targets_of(members[0], classes), strict=True):
        core.learn_one(x, y, 1.0)
    for x in [*rows[:100], {}]:
        score, bias, columns = explain(core, x, 0)
        if names == "labels":
            assert score == next(iter(core.predict_proba_one(x).values()))
        else:
            assert score == core.predict_one(x)
        assert abs(score - bias - sum(columns.values())) <= DIGITS


def test_frames_and_arrays_explain_alike():
    X, y = stream_of(LOMTreeClassifier, 500)
    one, other = LOMTreeClassifier(), LOMTreeClassifier()
    one.learn_many(X, as_batch(y))
    for x, label in zip(as_dicts(X), y, strict=True):
        other.learn_one(x, label)
    for x in as_dicts(X[:20]):
        assert one.contributions_one(x) == other.contributions_one(x)
        assert one.debug_one(x) == other.debug_one(x)


@pytest.mark.parametrize(
    "model",
    [
        LOMTreeClassifier(algorithm="paper"),
        NonGreedyTreeClassifier(algorithm="paper", objective="surrogate", depth=3),
        SoftTreeClassifier(algorithm="paper", penalty="l1"),
    ],
    ids=lambda model: type(model).__name__,
)
def test_of_huge_values_the_parts_are_finite_and_sum_to_the_score(model):
    rng = np.random.default_rng(0)
    huge = [1e155, -1e155, 0.0, 1e300, -1e307]
    for _ in range(300):
        x = {"a": float(rng.choice(huge)), "b": float(rng.normal())}
        model.learn_one(x, int(x["b"] > 0))
        for score, total, size in parts_of(model, x):
            assert abs(score - total) <= DIGITS * size < np.inf


@pytest.mark.parametrize("n_classes", [2, 5])
@pytest.mark.parametrize("params", [
    {"learning_rate": 1.0, "algorithm": "paper", "leaf": "linear"},
    {"learning_rate": 1.0, "algorithm": "paper", "leaf": "linear", "routing": "hard"},
    {"learning_rate": 1e308}, {"learning_rate": 1e308, "routing": "hard"},
])
def test_weights_that_lead_anywhere_are_explained(params, n_classes):
    X = np.random.default_rng(0).normal(size=(3000, 4))
    y = np.digitize(X[:, 0], np.linspace(-1, 1, n_classes - 1) if n_classes > 2 else [0.0])
    X = X * 1e6 if "algorithm" in params else X
    model = SoftTreeClassifier(delta=0.9, window=20, penalty_share=0.1, **params)
    model.learn_many(X, y)
    with np.errstate(over="raise", divide="raise", invalid="raise"):
        for row in [*X[:20].tolist(), [1e300, -1e300], [-1e300, 1e300]]:
            ((score, total, size),) = parts_of(model, dict(enumerate(row)))
            assert abs(score - total) <= DIGITS * size
