"""Soft trees against a plain reference and numerical derivatives, and what they promise."""

import dataclasses
import itertools
import math
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from reference.softtree import ReferenceSoftTree, loss, sigmoid, softmax
from river import datasets, ensemble, evaluate, metrics, preprocessing
from scipy import special
from support.marks import first_quick
from support.programs import program
from support.snapshots import tables
from support.streams import (
    as_dicts,
    blobs,
    changing_rows,
    is_compared,
    prequential,
    prequential_accuracy,
    prequential_accuracy_many,
)

from streamtree import SoftTreeClassifier, SoftTreeRegressor

benchmark_data = program("data")
soft_trees = program("soft_trees")

# Relative: both sides add the same numbers in another order, and a thousand steps of gates that
# follow each other's slopes carry the rounding of one sum into the next.
CLOSE = 1e-7


def close(compiled, reference):
    return math.isclose(compiled, reference, rel_tol=CLOSE, abs_tol=CLOSE)


def assert_same_linear(offsets, table, columns, linear):
    """Offsets and records, (weights, squares) each, against a linear model of the reference."""
    expected = [*linear.bias, *linear.bias_squares]
    assert all(map(close, offsets, expected)), (offsets, expected)
    zero = np.zeros(len(linear.bias))
    for feature in {columns[key] for key in table} | set(linear.weights):
        record = table.get(columns.index(feature), [0.0] * 2 * len(zero))
        expected = [*linear.weights.get(feature, zero), *linear.squares.get(feature, zero)]
        assert all(map(close, record, expected)), (feature, record, expected)


def assert_same_tree(model, reference):
    """The compiled model's snapshot holds what the reference holds, node by node."""
    snapshot = model.snapshot()
    state = snapshot["tree"]
    assert (model.n_splits, model.n_collapses) == (reference.n_splits, reference.n_collapses)
    assert model.n_nodes == reference.n_nodes
    columns = [tuple(name) if isinstance(name, tuple) else name for name in snapshot["features"]]
    gates, leaves = tables(state["gates"]), tables(state["leaves"])
    assert len(gates) == len(reference.pool)
    for number, node in reference.pool.items():
        stats, link = state["nodes"][number], state["links"][number]
        assert stats["depth"] == node.depth
        if node.depth < 0:
            continue
        first = node.pair[0].number if node.pair else -1
        assert stats["pair"] == first
        assert (link["left"], link["right"]) == ((first, first + 1) if node.is_split else (-1, -1))
        assert (stats["windows"], stats["tries"]) == (node.windows, node.tries)
        assert stats["count"] == len(node.gains)
        assert close(stats["gain_sum"], sum(node.gains))
        assert close(stats["gain_squares"], sum(gain**2 for gain in node.gains))
        assert_same_linear(
            [stats["gate_bias"], stats["gate_squares"]], gates[number], columns, node.gate
        )
        assert_same_linear(state["leaf_offsets"][number], leaves[number], columns, node.leaf)


def close_answers(model, reference, x):
    compiled, expected = model.predict_one(x), reference.predict_one(x)
    if reference.is_number:
        return close(compiled, expected)
    shares, expected_shares = model.predict_proba_one(x), reference.predict_proba_one(x)
    assert list(shares) == list(expected_shares)
    return all(close(shares[label], expected_shares[label]) for label in shares) and (
        compiled == expected or close(shares[compiled], shares[expected])
    )


def follow(estimator, params, rows, targets, weights=None):
    """Run both side by side, compare as they go, return the compiled model."""
    model = estimator(**params)
    # the reference has no bound, reads no rows, and does not begin anew
    settings = model._get_params()
    del settings["max_bytes"], settings["nominal_attributes"], settings["restarts"]
    reference = ReferenceSoftTree(is_number=estimator is SoftTreeRegressor, **settings)
    for i, (x, y) in enumerate(zip(rows, targets, strict=True)):
        w = 1.0 if weights is None else weights[i]
        assert close_answers(model, reference, x)
        model.learn_one(x, y, w=w)
        reference.learn_one(x, y, w=w)
        if is_compared(i, len(rows)):
            assert_same_tree(model, reference)
    return model


def bent_plane(n, features=3, seed=0):
    """Rows, and numbers that one linear model cannot give."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, features))
    return X, 3.0 * np.abs(X[:, 0] + 0.5 * X[:, 1]) + X[:, 2] + 0.1 * rng.normal(size=n)


def stream(kind, n=900, seed=0):
    """Rows and targets: a number, or 2 or 4 classes that no plane divides."""
    if kind == "number":
        X, y = bent_plane(n, seed=seed)
        return as_dicts(X), (100.0 * y + 7.0).tolist()
    X, y = blobs(n, classes=8, features=3, spread=2.5, seed=seed)
    return as_dicts(X), [f"class {label % int(kind)}" for label in y.tolist()]


def estimator_of(kind):
    return SoftTreeRegressor if kind == "number" else SoftTreeClassifier


# a tree must grow, and shrink, within the few rows that a reference in plain Python can follow
EAGER = {"delta": 0.95, "window": 40.0, "max_nodes": 9}
PLAIN = {**EAGER, "algorithm": "paper", "learning_rate": 0.1}
KINDS = ["number", "2", "4"]
kinds = pytest.mark.parametrize("kind", KINDS)


@pytest.mark.slow
@kinds
@pytest.mark.parametrize(
    "params",
    first_quick([
        EAGER,
        {**EAGER, "leaf": "constant", "seed": 5},
        {**EAGER, "update": "newest", "routing": "hard"},
        {**EAGER, "penalty": "l1", "penalty_share": 0.02, "min_reach": 0.1},
        {**EAGER, "penalty": "l2", "penalty_share": 0.02, "max_depth": 2},
    ]),
    ids=["defaults", "constant", "newest", "l1", "l2"],
)
def test_every_step_equals_the_reference(kind, params):
    rows, targets = stream(kind)
    model = follow(estimator_of(kind), params, rows, targets)
    assert model.n_splits >= 1


@pytest.mark.slow
@kinds
@pytest.mark.parametrize(
    "params",
    [
        PLAIN,
        {**PLAIN, "leaf": "linear", "update": "all"},
        {**PLAIN, "penalty": "l1", "penalty_share": 0.003, "update": "all"},
        {**PLAIN, "penalty": "l2", "penalty_share": 0.01},
    ],
    ids=["paper", "linear", "l1", "l2"],
)
def test_every_step_of_the_papers_equals_the_reference(kind, params):
    rows, targets = stream(kind)
    if kind == "number":  # plain steps want targets of the order of 1
        targets = [(y - 7.0) / 300.0 for y in targets]
    model = follow(estimator_of(kind), params, rows, targets)
    assert model.n_splits >= 1


@kinds
def test_every_step_on_changing_weighted_rows_equals_the_reference(kind):
    rows, classes = changing_rows(500, classes=4 if kind == "4" else 1, seed=2)
    targets = classes
    if kind == "number":
        targets = [1e6 * (math.sin(y) + x.get("number 2", 0.3)) for x, y in
                   zip(rows, classes, strict=True)]
    weights = np.random.default_rng(5).choice([0.0, 0.5, 1.0, 3.0], size=len(rows)).tolist()
    follow(estimator_of(kind), EAGER, rows, targets, weights)


@pytest.mark.slow
@pytest.mark.parametrize("window", [40.0, 400.0], ids=["no gain", "sure loss"])
def test_every_step_of_a_collapse_equals_the_reference(window):
    """A bend that straightens: the split is worth its place no more."""
    X, y = bent_plane(1500, seed=4)
    y[500:] = X[500:, 2]
    params = {**EAGER, "window": window, "max_nodes": 3}
    model = follow(SoftTreeRegressor, params, as_dicts(X), y.tolist())
    assert model.n_collapses >= 1


# ------------------------------------------------------------- gradients, by differences


def node_parameters(snapshot):
    """Gates and leaves of the tree itself, from a snapshot: {number: (offsets, {column: w})}."""
    state = snapshot["tree"]
    gates, leaves = tables(state["gates"]), tables(state["leaves"])
    k = state["leaf_offsets"].shape[1] // 2
    n_columns = len(snapshot["features"])
    parameters = {}
    pending = [0]
    while pending:
        node = pending.pop()
        left = int(state["links"][node]["left"])
        if left < 0:
            model = np.zeros((k, n_columns + 1))
            model[:, -1] = state["leaf_offsets"][node][:k]
            for column, record in leaves[node].items():
                model[:, column] = record[:k]
        else:
            model = np.zeros((1, n_columns + 1))
            model[:, -1] = state["nodes"][node]["gate_bias"]
            for column, record in gates[node].items():
                model[:, column] = record[0]
            pending += [left, left + 1]
        parameters[node] = model
    return parameters


def response_of(state, parameters, x, node=0):
    """F(x) by its definition."""
    score = parameters[node] @ x
    left = int(state["links"][node]["left"])
    if left < 0:
        return score
    share = sigmoid(score[0])
    return share * response_of(state, parameters, x, left) + (1.0 - share) * response_of(
        state, parameters, x, left + 1
    )


def objective(state, parameters, x, target, is_number, penalty, share):
    """(1 - lambda) loss + lambda times the penalty on all gates."""
    value, _ = loss(response_of(state, parameters, x), target, is_number)
    gates = [w for node, w in parameters.items() if state["links"][node]["left"] >= 0]
    powers = {"l1": np.abs, "l2": np.square}
    return (1.0 - share) * value + share * sum(powers[penalty](w).sum() for w in gates)


@kinds
@pytest.mark.parametrize("leaf", ["constant", "linear"])
@pytest.mark.parametrize(("penalty", "share"), [("l1", 0.0), ("l1", 0.01), ("l2", 0.01)])
def test_a_plain_step_follows_the_numerical_gradient(kind, leaf, penalty, share):
    rows, targets = stream(kind, n=3000)
    if kind == "number":
        targets = [(y - 7.0) / 300.0 for y in targets]
    model = estimator_of(kind)(
        algorithm="paper", leaf=leaf, update="all", learning_rate=0.1, penalty=penalty,
        penalty_share=share, delta=0.9, window=50, max_nodes=7, min_reach=0.0,
    )
    for x, y in zip(rows[:-3], targets[:-3], strict=True):
        model.learn_one(x, y)
    assert model.n_nodes >= 5
    # a step so short that its direction is the gradient, and nothing decided meanwhile
    rate = 1e-6
    model.mutate({"learning_rate": rate, "delta": 1e-300, "window": 1e9, "max_nodes": 1})
    for x, y in zip(rows[-3:], targets[-3:], strict=True):
        before = model.snapshot()
        features = np.array([x[name] for name in before["features"]] + [1.0])
        target = y if kind == "number" else model.labels.index(y)
        start, tree = node_parameters(before), before["tree"]
        predicted = response_of(tree, start, features)
        if kind == "number":
            assert model.predict_one(x) == pytest.approx(predicted[0], rel=1e-9)
        else:
            shares = softmax(np.array([-predicted[0] / 2, predicted[0] / 2])
                             if kind == "2" else predicted)
            assert list(model.predict_proba_one(x).values()) == pytest.approx(list(shares))
        model.learn_one(x, y)
        after = node_parameters(model.snapshot())
        assert set(after) == set(start)
        for node, w in start.items():
            is_leaf = tree["links"][node]["left"] < 0
            for place in np.ndindex(*w.shape):
                if is_leaf and leaf == "constant" and place[1] < w.shape[1] - 1:
                    assert after[node][place] == 0.0
                    continue
                values, step = [], 1e-6
                for sign in (1.0, -1.0):
                    moved = {**start, node: w.copy()}
                    moved[node][place] += sign * step
                    values.append(objective(
                        tree, moved, features, target, kind == "number", penalty, share
                    ))
                gradient = (values[0] - values[1]) / (2 * step)
                moved_by = (w[place] - after[node][place]) / rate
                if penalty == "l1" and not is_leaf and abs(w[place]) < step:
                    # at the kink any slope between those on its sides, both here and there
                    assert abs(moved_by - gradient) <= 2 * share * (1 + 1e-6)
                    continue
                # absolute: rounding of the objective over 2e-6, and of a weight over the rate
                assert moved_by == pytest.approx(gradient, rel=1e-6, abs=1e-6 * (1 + abs(w[place])))


# ------------------------------------------------------------------------- the penalties


@kinds
def test_without_lambda_both_penalties_give_the_same_model(kind):
    rows, targets = stream(kind)
    for params in (EAGER, PLAIN if kind != "number" else EAGER):
        snapshots = []
        for penalty in ("l1", "l2"):
            model = estimator_of(kind)(**params, penalty=penalty)
            for x, y in zip(rows, targets, strict=True):
                model.learn_one(x, y)
            snapshots.append(pickle.dumps(model.snapshot()))
            assert model.n_splits >= 1
            assert model.zero_share == 0.0
        assert snapshots[0] == snapshots[1]


def test_with_l1_the_share_of_zeros_grows_with_lambda():
    zeros = {"l1": [], "l2": []}
    for penalty, shares in itertools.product(zeros, [(0.0, 1e-3, 1e-2, 3e-2)]):
        for share in shares:
            found = [soft_trees.sparse_gates(seed, penalty, share)[0] for seed in range(4)]
            zeros[penalty].append(np.mean(found))
    assert zeros["l1"] == sorted(zeros["l1"])
    assert zeros["l1"][0] == 0.0
    assert zeros["l1"][-1] > 0.3  # measured: .52 over ten seeds
    assert zeros["l2"] == [0.0] * 4


# -------------------------------------------------------------------- growth and collapse


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", ["2 classes", "5 classes"])
def test_on_random_labels_the_tree_stays_a_leaf(kind, seed):
    rng = np.random.default_rng(seed)
    model = SoftTreeClassifier()
    model.learn_many(rng.normal(size=(20_000, 6)), rng.integers(int(kind[0]), size=20_000))
    assert model.n_splits == 0


@pytest.mark.slow
def test_on_random_labels_it_stays_a_leaf_in_19_of_20_seeds():
    report = soft_trees.Report()
    soft_trees.noise(report, 1)
    assert report.n_ok == 2


def test_a_split_collapses_when_it_has_stopped_paying():
    rng = np.random.default_rng(2)
    X, y = bent_plane(4000, seed=2)
    model = SoftTreeRegressor(max_nodes=3)
    model.learn_many(X[:600], y[:600])
    assert model.n_nodes == 3
    model.learn_many(X[600:], rng.normal(size=3400))
    assert model.n_collapses == 1
    assert model.n_nodes == 1


@pytest.mark.parametrize("limits", [{"max_nodes": 5}, {"max_depth": 1}, {"max_depth": 0}, {}])
def test_limits_are_kept(limits):
    X, y = bent_plane(6000, seed=1)
    y = np.abs(X).sum(axis=1)
    model = SoftTreeRegressor(delta=0.9, window=50, **{"max_nodes": 31, **limits})
    for start in range(0, 6000, 500):
        model.learn_many(X[start : start + 500], y[start : start + 500])
        assert model.n_nodes <= model.max_nodes
        assert model.height <= model.max_depth
    expected = {"max_nodes": 5, "max_depth": 3 if limits.get("max_depth") else 1}
    if limits:
        assert model.n_nodes == expected[next(iter(limits))]
    else:
        assert model.n_nodes > 5


def test_mutated_limits_stop_growth_and_let_it_go_on():
    X, _ = bent_plane(9000, seed=1)
    y = np.abs(X).sum(axis=1)
    model = SoftTreeRegressor(delta=0.9, window=50, max_nodes=3)
    model.learn_many(X[:3000], y[:3000])
    assert model.n_nodes == 3
    model.mutate({"max_nodes": 15})
    model.learn_many(X[3000:6000], y[3000:6000])
    grown = model.n_nodes
    assert grown > 3
    model.mutate({"max_nodes": 1})  # no more splits, none undone
    model.learn_many(X[6000:6100], y[6000:6100])
    assert model.n_nodes == grown


def test_seeds_give_different_trees_and_each_the_same_again():
    X, y = blobs(3000, classes=6, features=4, spread=2.0)
    snapshots = []
    for seed in (None, 0, 1, 2, 2):
        model = SoftTreeClassifier(seed=seed)
        model.learn_many(X, y)
        snapshots.append(pickle.dumps(model.snapshot()["tree"]["gates"]))
    assert snapshots[0] == snapshots[1]
    assert snapshots[3] == snapshots[4]
    assert len(set(snapshots)) == 3


# ----------------------------------------------------------------------------- prediction


def checkers(n, seed=0):
    X = np.random.default_rng(seed).normal(size=(n, 4))
    return X, (X[:, 0] * X[:, 1] > 0).astype(int)


def test_hard_prediction_is_the_leaf_at_the_end_of_the_more_probable_path():
    X, y = checkers(6000)
    model = SoftTreeClassifier(delta=0.5)
    model.learn_many(X, y)
    soft = model.predict_proba_many(X[:300])
    model.mutate({"routing": "hard"})
    state = model.snapshot()
    parameters = node_parameters(state)
    links, scales = state["tree"]["links"], state["scaler"]["columns"]
    scaled = np.clip((X[:300] - scales["center"]) * scales["factor"], -5, 5)
    for row, shares in zip(scaled, model.predict_proba_many(X[:300]), strict=True):
        x, node = np.append(row, 1.0), 0
        while links[node]["left"] >= 0:
            goes_left = (parameters[node] @ x)[0] >= 0.0
            node = int(links[node]["left"]) + (not goes_left)
        assert shares[1] == pytest.approx(sigmoid((parameters[node] @ x)[0]), rel=1e-9)
    hard = model.predict_proba_many(X[:300])
    assert not np.array_equal(soft, hard)
    assert np.mean(hard.argmax(axis=1) == soft.argmax(axis=1)) > 0.9


@kinds
@pytest.mark.parametrize("routing", ["soft", "hard"])
def test_what_learning_gives_out_is_what_was_predicted(kind, routing):
    rows, targets = stream(kind, n=700)
    alone, loop = (estimator_of(kind)(**EAGER, routing=routing) for _ in range(2))
    expected = prequential(loop, rows, targets)
    X = np.array([list(x.values()) for x in rows])
    assert list(alone.test_then_learn_many(X, targets)) == expected
    assert pickle.dumps(alone) == pickle.dumps(loop)
    assert loop.n_splits > 0


@pytest.mark.parametrize("classes", [64, 65, 130])
def test_many_classes_one_block_after_the_other(classes):
    X, y = blobs(4000, classes, features=6, spread=4.0, seed=1)
    model = SoftTreeClassifier(delta=0.9, window=50)
    model.learn_many(X, y)
    shares = model.predict_proba_many(X[:500])
    predicted = model.predict_many(X[:500])
    assert predicted.tolist() == [model.labels[i] for i in shares.argmax(axis=1)]
    assert np.mean(predicted == y[:500]) > 0.5
    tops = model.predict_topk_one(as_dicts(X[:1])[0], 4)
    assert [p for _, p in tops] == sorted(shares[0].tolist(), reverse=True)[:4]


def test_classes_that_come_late_are_learned():
    X, y = blobs(6000, classes=5, features=4, spread=3.0, seed=3)
    keep = (y < 2) | (np.arange(6000) > 2000) & (y < 3) | (np.arange(6000) > 3000)
    X, y = X[keep], y[keep]
    model = SoftTreeClassifier()
    hits = prequential_accuracy_many(model, X, y)
    assert hits > 0.9
    assert np.mean(model.predict_many(X[-800:]) == y[-800:]) > 0.9


def test_many_sparse_columns():
    """Words: tables turn into hash tables, and absent columns stay as they are."""
    rng = np.random.default_rng(1)
    n, words = 3000, 4000
    y = rng.integers(3, size=n)
    preferred = rng.integers(words, size=(3, 40))
    columns = np.hstack([
        np.take_along_axis(preferred[y], rng.integers(40, size=(n, 6)), axis=1),
        rng.integers(words, size=(n, 6)),
    ])
    X = sp.csr_array((np.ones(n * 12), columns.ravel(), np.arange(0, n * 12 + 1, 12)), (n, words))
    X.sum_duplicates()
    for params in ({"delta": 0.9, "window": 50}, PLAIN):
        model = SoftTreeClassifier(**params)
        assert prequential_accuracy_many(model, X, y) > 0.6
        again = pickle.loads(pickle.dumps(model))
        again.learn_many(X[:50], y[:50])
        model.learn_many(X[:50], y[:50])
        assert pickle.dumps(again) == pickle.dumps(model)


# ------------------------------------------------------------------------------- learning


def test_what_no_plane_divides():
    X, y = checkers(8000)
    assert prequential_accuracy_many(SoftTreeClassifier(max_nodes=1), X, y) < 0.6
    model = SoftTreeClassifier()
    assert prequential_accuracy_many(model, X, y) > 0.85
    assert model.n_nodes > 1


def test_raw_columns_need_no_scaler():
    X, y = blobs(4000, classes=6, features=5, spread=2.0, seed=2)
    plain = prequential_accuracy_many(SoftTreeClassifier(), X, y)
    moved = X * [1e3, 1e-3, 1.0, 1e6, 1.0] + [0.0, 1.0, 1e4, -1e7, 5.0]
    assert prequential_accuracy_many(SoftTreeClassifier(), moved, y) > plain - 0.01


def test_image_segments_and_phishing():
    for data, at_least in ((datasets.ImageSegments(), 0.88), (datasets.Phishing(), 0.88)):
        rows, labels = zip(*data, strict=True)
        assert prequential_accuracy(SoftTreeClassifier(), rows, labels) > at_least


def r2(predicted, y):
    return 1.0 - np.sum((y - predicted) ** 2) / np.sum((y - np.mean(y)) ** 2)


def prequential_numbers(model, X, y):
    predicted = np.zeros(len(y))
    for i in range(len(y)):
        predicted[i] = model.predict_many(X[i : i + 1])[0]
        model.learn_many(X[i : i + 1], y[i : i + 1])
    return predicted


def test_a_number_that_no_plane_gives():
    X, y = bent_plane(6000)
    assert r2(prequential_numbers(SoftTreeRegressor(max_nodes=1), X, y), y) < 0.4
    model = SoftTreeRegressor()
    assert r2(prequential_numbers(model, X, y), y) > 0.85
    assert model.n_nodes > 1


@pytest.mark.parametrize(("unit", "zero"), [(1e6, 5e7), (1e-6, 0.0), (-1.0, 1000.0)])
def test_targets_in_any_unit(unit, zero):
    X, y = bent_plane(2000, seed=6)
    plain, moved = SoftTreeRegressor(), SoftTreeRegressor()
    plain.learn_many(X, y)
    moved.learn_many(X, unit * y + zero)
    if unit < 0:  # the sides of the gates are not mirrored: as good, not the same
        accuracy = r2(moved.predict_many(X), unit * y + zero)
        assert accuracy == pytest.approx(r2(plain.predict_many(X), y), abs=0.05)
        return
    expected = unit * plain.predict_many(X) + zero
    # relative to the spread: two thousand steps carry the rounding of the first means along
    assert np.abs(moved.predict_many(X) - expected).max() < 1e-4 * unit * y.std()


@pytest.mark.parametrize("algorithm", ["stream", "paper"])
@pytest.mark.parametrize("outlier", [1e3, 1e9, 1e100])
def test_predictions_stay_in_the_range_of_the_targets(algorithm, outlier):
    X, y = bent_plane(1500, seed=7)
    y[700] = outlier
    X[900] *= 1e6
    rate = {"learning_rate": 0.1} if algorithm == "paper" else {}
    model = SoftTreeRegressor(algorithm=algorithm, delta=0.9, window=50, **rate)
    predicted = prequential_numbers(model, X, y)
    low, high = np.minimum.accumulate(y), np.maximum.accumulate(y)
    assert np.all(predicted[1:] >= low[:-1])
    assert np.all(predicted[1:] <= high[:-1])
    if algorithm == "stream" and outlier < 1e6:
        assert r2(predicted[1200:], y[1200:]) > 0.3  # one outlier is not the end


def test_weights_count():
    X, y = bent_plane(1000)
    model, heavy = SoftTreeRegressor(max_nodes=1), SoftTreeRegressor(max_nodes=1)
    z = np.where(np.arange(1000) % 2, y + 10.0, y)
    model.learn_many(X, z)
    heavy.learn_many(X, z, np.where(np.arange(1000) % 2, 9.0, 1.0))
    assert heavy.predict_many(X).mean() > model.predict_many(X).mean() + 2.0


# ------------------------------------------------------------------------ at home in river


def test_in_pipelines_and_ensembles_of_river():
    made = {
        "scaled": preprocessing.StandardScaler() | SoftTreeClassifier(),
        "bagging": ensemble.BaggingClassifier(SoftTreeClassifier(), 3, seed=1),
        "voting": ensemble.VotingClassifier([SoftTreeClassifier(seed=seed) for seed in (1, 2)]),
    }
    for name, model in made.items():
        measured = metrics.Accuracy() + metrics.LogLoss()
        measured = metrics.Accuracy() if name == "voting" else measured
        evaluate.progressive_val_score(datasets.Phishing(), model, measured)
        accuracy = measured if name == "voting" else measured[0]
        assert accuracy.get() > 0.87, name  # measured: .88 to .90
        if name != "voting":
            assert measured[1].get() < 0.32, name
    for model in (
        preprocessing.StandardScaler() | SoftTreeRegressor(),
        ensemble.BaggingRegressor(SoftTreeRegressor(), 3, seed=1),
    ):
        error = evaluate.progressive_val_score(datasets.TrumpApproval(), model, metrics.MAE())
        assert error.get() < 0.6  # measured: .42 alone; the mean so far gives 1.9


# ------------------------------------------------------------------------------ parameters

BAD_PARAMETERS = {
    "learning_rate": [0, -1.0, math.nan, math.inf, "1", True],
    "penalty": ["", "L1", "none", None, 1],
    "penalty_share": [-0.1, 1, 1.0, math.nan, "0", True],
    "max_nodes": [0, -1, 2.0, "3", True, 2**31],
    "max_depth": [-1, 61, 2.0, True],
    "delta": [0, 1, -0.1, math.nan, "low"],
    "window": [0, 0.5, math.nan, math.inf],
    "min_reach": [-0.1, 0.51, math.nan, "0"],
    "routing": ["", "Soft", None],
    "leaf": ["", "Linear", 0],
    "update": ["", "none", 0],
    "algorithm": ["", "Paper", None],
    "max_bytes": [0, 100, 2**18 - 1, 1.0, "1", True],
    "seed": [-1, 2**64, 1.0, "1", True],
    "nominal_attributes": ["a", 1, {"a": 1}],
    "restarts": [1, None, "yes"],
}
both = pytest.mark.parametrize("estimator", [SoftTreeClassifier, SoftTreeRegressor])


@pytest.mark.parametrize(("algorithm", "kind", "rate"), [
    ("stream", "2", 5.0), ("stream", "4", 5.0), ("stream", "number", 3.0), ("paper", "4", 0.1),
    ("paper", "number", 0.1),
])
def test_the_rate_suits_the_algorithm_and_the_task(algorithm, kind, rate):
    rows, targets = stream(kind, n=100)
    plain = estimator_of(kind)(algorithm=algorithm)
    named = estimator_of(kind)(algorithm=algorithm, learning_rate=rate)
    for x, y in zip(rows, targets, strict=True):
        plain.learn_one(x, y)
        named.learn_one(x, y)
    assert pickle.dumps(plain.snapshot()) == pickle.dumps(named.snapshot())


@both
@pytest.mark.parametrize("name", BAD_PARAMETERS)
def test_a_bad_parameter_is_named(estimator, name):
    assert set(BAD_PARAMETERS) == set(estimator()._get_params())
    for value in BAD_PARAMETERS[name]:
        with pytest.raises((TypeError, ValueError), match=rf"^{name} must be "):
            estimator(**{name: value})


@both
@pytest.mark.parametrize(
    "params",
    [
        {"learning_rate": 1e-300, "window": 1, "delta": 1e-300},
        {"learning_rate": 1e300, "delta": 0.999, "window": 1},
        {"algorithm": "paper", "learning_rate": 1e300, "delta": 0.999, "window": 1},
        {"max_nodes": 2**30, "max_depth": 60, "min_reach": 0.5, "seed": 2**64 - 1},
        {"penalty": "l1", "penalty_share": 0.999999, "delta": 0.9},
    ],
    ids=repr,
)
def test_parameters_at_their_bounds(estimator, params):
    X, y = blobs(400, classes=3, features=3, spread=3.0)
    model = estimator(**params)
    model.learn_many(X, y.tolist())
    many = model.predict_many(X) if estimator is SoftTreeRegressor else model.predict_proba_many(X)
    assert np.isfinite(many).all()
    assert pickle.dumps(pickle.loads(pickle.dumps(model))) == pickle.dumps(model)


@both
def test_fixed_parameters_refuse_and_mutable_ones_reach_the_core(estimator):
    X, y = bent_plane(800)
    y = y if estimator is SoftTreeRegressor else (y > y.mean()).astype(int)
    for name, value in (("leaf", "constant"), ("update", "newest"), ("seed", 3)):
        with pytest.raises(AttributeError, match=name):
            setattr(estimator(), name, value)
    changes = {
        "learning_rate": 1.0, "penalty_share": 0.01, "max_nodes": 1, "max_depth": 0, "delta": 0.9,
        "window": 50.0, "min_reach": 0.2, "routing": "hard",
    }
    plain = estimator()
    plain.learn_many(X, y)
    for name, value in changes.items():
        changed, made = estimator(), estimator(**{name: value})
        changed.mutate({name: value})
        for model in (changed, made):
            model.learn_many(X, y)
        assert pickle.dumps(changed) == pickle.dumps(made)
        assert pickle.dumps(changed) != pickle.dumps(plain)


# --------------------------------------------------------------------------- the benchmark


def test_the_f_test_is_alpaydins():
    a = np.array([0.9, 0.8, 0.85, 0.85, 0.9, 0.9, 0.8, 0.8, 0.85, 0.9])
    assert soft_trees.f_test(a, a) == 1.0
    assert soft_trees.f_test(a, a - 0.1) < 1e-6
    b = a - [0.02, 0.0, 0.01, 0.03, 0.0, 0.02, 0.04, 0.01, 0.02, 0.01]
    differences = (a - b).reshape(5, 2)
    f = np.sum(differences**2) / np.sum((differences[:, 0] - differences[:, 1]) ** 2)
    # 1 - cdf of F(10, 5), by the incomplete beta function
    expected = special.betainc(2.5, 5.0, 5.0 / (5.0 + 10.0 * f))
    assert soft_trees.f_test(a, b) == pytest.approx(expected)


def test_wins_and_ranks_count_what_they_say():
    ten = np.linspace(0.0, 0.001, 10)[:, None]
    results = [np.array([[0.5, 0.6, 0.9, 0.7, 0.8]]) + ten * [1, 2, 3, 4, 5]] * 3
    counts = soft_trees.wins(results, 1.0)
    assert counts[2].tolist() == [3, 3, 0, 3, 3]
    assert counts[:, 2].tolist() == [0] * 5
    ranks, difference = soft_trees.mean_ranks(results, 1.0)
    assert ranks.tolist() == [5, 4, 1, 3, 2]
    assert difference == pytest.approx(2.728 * math.sqrt(5 * 6 / (6 * 3)), rel=1e-3)  # Demsar's q


def test_the_papers_comparison_runs_on_a_set_with_categories_and_gaps():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(240, 3))
    X[:, 2] = rng.integers(3, size=240)
    y = (X[:, 0] + (X[:, 2] == 1) > 0.3).astype(np.int32)
    X[::9, 1] = np.nan
    data = benchmark_data.Data(
        "made", X, y, None, np.array([False, False, True]), ["a", "b", "c"]
    )
    accuracy, nodes = soft_trees.compare(data, 3, soft_trees.LITERAL)
    assert accuracy.shape == nodes.shape == (10, 5)
    assert (accuracy.mean(axis=0) > 0.75).all()
    assert (nodes >= 1).all()
    assert (nodes[:, 1] == 1).all()
    fold = next(iter(soft_trees.folds(data)))
    assert [len(part[1]) for part in (fold.train, fold.validation, fold.test)] == [80, 80, 80]


def test_prequential_numbers_of_the_benchmark():
    rows, labels = [{"a": 1.0}] * 4, [0, 1, 0, 0]

    class Constant:
        def predict_proba_one(self, x):
            return {0: 3.0, 1: 1.0}  # counts, as MOA gives

        def learn_one(self, x, y):
            pass

    accuracy, log_loss = soft_trees.prequential(Constant(), rows, labels)
    assert accuracy == 0.75
    assert log_loss == pytest.approx(-(3 * math.log(0.75) + math.log(0.25)) / 4)
    assert soft_trees.log_loss_of({}, 1) == pytest.approx(-math.log(1e-15))
    X, y = bent_plane(500)
    score = soft_trees.prequential_r2(SoftTreeRegressor(), X, y)
    predicted = prequential_numbers(SoftTreeRegressor(), X, y)
    assert score == pytest.approx(r2(predicted[1:], y[1:]))


@pytest.fixture
def tiny_sets(tmp_path, monkeypatch):
    """A data folder with one set of classes and two of numbers, and no MOA."""
    monkeypatch.setenv("STREAMTREE_DATA", str(tmp_path))
    X, y = blobs(300, classes=3, features=4, spread=3.0)
    np.savez(tmp_path / "tiny.npz", X=X, y=y.astype(np.int32))
    X, y = bent_plane(1200)
    np.savez(tmp_path / "bent.npz", X=X, y=y.astype(np.float32))
    np.savez(tmp_path / "few.npz", X=X[:900], y=y[:900].astype(np.float32))
    monkeypatch.setattr(soft_trees, "LINEAR_GOALS", {"tiny": 0.5})
    monkeypatch.setattr(soft_trees, "R2_GOALS", {"bent": 0.3})
    name = "CapyMOA HoeffdingTree"
    absent = dataclasses.replace(soft_trees.PEERS[name], module="no_such_library")
    monkeypatch.setitem(soft_trees.PEERS, name, absent)


@pytest.mark.usefixtures("tiny_sets")
def test_the_sections_on_classes_and_numbers_judge_what_they_measure(capsys):
    soft_trees.main(["classes", "numbers"])
    out = capsys.readouterr().out
    assert "goal: tiny better than river HoeffdingTree; measured: accuracy " in out
    assert "goal: tiny better than CapyMOA HoeffdingTree; measured: -: not measured" in out
    assert "skipped CapyMOA HoeffdingTree: no_such_library is not installed" in out
    assert "goal: bent >= 0.3; measured: 0." in out
    assert "measured: bent 0." in out
    assert "few" not in out.split("## numbers")[1].split("goal")[0]
    assert "1 not measured" in out


@pytest.mark.slow
def test_the_speed_section_times_a_tree_of_15_nodes(monkeypatch, capsys):
    report = soft_trees.Report()
    soft_trees.speed(report, 1)
    assert "learn_one against river HoeffdingTree's: >= 15x as fast" in capsys.readouterr().out
    X, y = soft_trees.checkers(10_000, 10, seed=1)
    model = soft_trees.grown(as_dicts(X), y.tolist())
    assert model.n_nodes == 15


@pytest.mark.parametrize("arguments", [["no_such_section"], ["noise", "--repeats", "0"]])
def test_program_refuses_what_it_does_not_know(arguments, capsys):
    with pytest.raises(SystemExit):
        soft_trees.main(arguments)
    assert "error:" in capsys.readouterr().err


@pytest.mark.slow
def test_program_runs_a_section(monkeypatch, capsys):
    monkeypatch.setattr(soft_trees, "NOISE_ROWS", 500)
    monkeypatch.setattr(soft_trees, "NOISE_SEEDS", 2)
    soft_trees.main(["noise"])
    out = capsys.readouterr().out
    assert "## noise: splits on 500 random targets, 2 seeds" in out
    assert "2 goals ok, 0 missed, 0 not measured" in out


@pytest.mark.filterwarnings("ignore:.* ha(s|ve) (had|come)")
def test_rare_columns_take_no_room_from_gates():
    rng = np.random.default_rng(0)
    model = SoftTreeClassifier(max_bytes=1_000_000)
    for i, row in enumerate(rng.normal(size=(6000, 6)).tolist()):
        x = dict(zip("abcdef", row, strict=True))
        model.learn_one(x | {f"column {i}": 1.0}, int(row[0] * row[1] + row[2] > 0))
    # some 1,800 with all that came
    assert len(model.snapshot()["tree"]["gates"]["keys"]) < 1500


@pytest.mark.filterwarnings("ignore:y has had")
def test_a_tree_that_begins_late_with_a_label_without_room_learns_some_class():
    rng = np.random.default_rng(0)
    model = SoftTreeClassifier(max_bytes=2**18, max_nodes=1)
    model.learn_many(rng.normal(size=(500, 20)), list(range(100)) * 5)
    for i in range(60):
        X = rng.normal(size=(100, 20))
        model.learn_many(X, 99 - ((X[:, 0] > 0) ^ (i >= 30)))
        if "challenge" in model.snapshot():
            break
    # it sees the last two labels only
    assert model.snapshot()["challenge"]["tree"]["n_classes"] == 1
