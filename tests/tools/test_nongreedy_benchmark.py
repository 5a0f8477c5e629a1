"""The benchmark of the non-greedy trees, on small generated sets."""

from __future__ import annotations

import numpy as np
import pytest
from support.programs import program

from streamtree import NonGreedyTreeClassifier

greedy = program("greedy")
reports = program("report")
benchmark = program("nongreedy_depth")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A data folder with small sets of the names that the sections ask for."""
    monkeypatch.setenv("STREAMTREE_DATA", str(tmp_path))
    rng = np.random.default_rng(0)
    X = rng.integers(0, 200, size=(400, 6)).astype(np.uint8)
    y = (X[:, 0].astype(int) + X[:, 1] > X[:, 2].astype(int) + X[:, 3]).astype(np.int32)
    np.savez(tmp_path / "mnist.npz", X=X, y=y, train_size=300)
    codes = rng.integers(0, 3, size=(400, 5)).astype(np.uint8)
    y = (codes.sum(axis=1) > 5).astype(np.int32)
    np.savez(
        tmp_path / "connect4_2class.npz", X=codes, y=y, categorical=np.ones(5, dtype=bool)
    )
    return tmp_path


@pytest.fixture
def run(tmp_path):
    """A run that draws its plots."""
    return reports.Run(reports.Report(), 1, tmp_path, tmp_path)


# ------------------------------------------------------------------ random oblique trees


def information_gain(labels, side):
    """By the definition, in nats and summed over the rows."""

    def entropy(part):
        shares = np.unique(part, return_counts=True)[1] / max(len(part), 1)
        return -len(part) * float((shares * np.log(shares)).sum())

    return entropy(labels) - entropy(labels[side]) - entropy(labels[~side])


def test_split_of_a_level_has_the_largest_gain_of_all_directions_and_thresholds():
    rng = np.random.default_rng(1)
    scores = rng.normal(size=(60, 4)).astype(np.float32)
    labels = rng.integers(0, 3, size=60)
    place = rng.integers(0, 2, size=60)
    columns, thresholds = greedy._best_splits(scores, np.eye(3)[labels], place, 2)
    for node in (0, 1):
        here = place == node
        best = max(
            information_gain(labels[here], scores[here, column] > value)
            for column in range(4)
            for value in scores[here, column]
        )
        found = information_gain(labels[here], scores[here, columns[node]] > thresholds[node])
        # sums in another order
        assert found == pytest.approx(best, rel=1e-9)


def test_first_levels_are_the_tree_of_that_depth():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(500, 5))
    y = (X[:, 0] * X[:, 1] > 0).astype(int) + (X[:, 2] > 1)
    deep, shallow = greedy.RandomObliqueTree(7).fit(X, y), greedy.RandomObliqueTree(3).fit(X, y)
    np.testing.assert_array_equal(deep.predict(X, 3), shallow.predict(X))
    right = [(deep.predict(X, d) == y).mean() for d in range(8)]
    assert right == sorted(right)
    assert right[7] > right[0] + 0.2


def test_pure_node_is_not_split():
    X = np.arange(8.0)[:, None]
    model = greedy.RandomObliqueTree(3).fit(X, np.repeat([0, 1], 4))
    assert (model.predict(X) == np.repeat([0, 1], 4)).all()
    assert np.isinf(model._levels[1][2]).all()


# ----------------------------------------------------------------------------- settings


def test_one_hot_has_a_column_for_every_code():
    X = np.array([[3, 0], [1, 0], [3, 2]], dtype=np.uint8)
    assert benchmark.one_hot(X).tolist() == [[0, 1, 1, 0], [1, 0, 1, 0], [0, 1, 0, 1]]


def test_co2_alone_is_a_greedy_tree_that_joint_training_fills_up():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(300, 4))
    y = (X[:, 0] + X[:, 1] > 0).astype(int)
    alone = benchmark.co2(X, y, depth=6)
    joint = NonGreedyTreeClassifier(depth=6, warm_up=300)
    joint.learn_many(X, y)
    assert joint.n_leaves == 64
    assert alone.n_leaves < 64  # pure nodes stay leaves
    assert (alone.predict_many(X) == y).mean() > 0.95


def test_tuning_never_sees_the_test_rows_and_takes_the_best(monkeypatch):
    seen = []

    def train(X, y, depth, answer):
        seen.append(len(y))
        return lambda rows: np.full(len(rows), answer)

    monkeypatch.setitem(benchmark.CANDIDATES, "fake", [{"answer": 0}, {"answer": 1}])
    monkeypatch.setattr(benchmark, "trainers", lambda passes: {"fake": train})
    y = np.repeat([0, 1], [90, 10])
    assert benchmark.tuned("fake", np.zeros((100, 1)), y, 3) == {"answer": 1}
    assert seen == [90, 90]


def test_passes_see_every_row_and_the_rate_falls(monkeypatch):
    calls = []

    class Model:
        learning_rate = 2.0

        def __init__(self, **settings):
            self.settings = settings

        def learn_many(self, X, y):
            calls.append((self.learning_rate, X[:, 0].tolist()))

    monkeypatch.setattr(benchmark, "NonGreedyTreeClassifier", Model)
    X = np.arange(20.0)[:, None]
    benchmark.learned(X, np.zeros(20), 2, depth=3)
    rates = [rate for rate, _ in calls]
    assert rates[0] == 2.0
    assert rates == sorted(rates, reverse=True)
    assert rates[-1] > 0
    for part in (calls[: benchmark.PARTS], calls[benchmark.PARTS :]):
        assert sorted(value for _, values in part for value in values) == list(range(20))
    model = benchmark.learned(X, np.zeros(20), 6, warm_up=None)
    assert model.settings["warm_up"] == 20
    # as many passes fewer as the warm-up makes over the same rows
    assert len(calls) == (2 + 6 - benchmark.WARM_UP_PASSES) * benchmark.PARTS


# ----------------------------------------------------------------------------- sections


def test_leaves_are_those_of_the_predictions():
    rng = np.random.default_rng(4)
    X = rng.normal(size=(400, 5))
    y = (X[:, 0] > X[:, 1]).astype(int) + (X[:, 2] > 0)
    model = benchmark.learned(
        X, y, 3, depth=5, algorithm="paper", start="axis", warm_up=400, learning_rate=0.1
    )
    places = benchmark.leaves(model, X)
    assert len(np.unique(places)) > 4
    shares = np.array(model.predict_proba_many(X))
    for leaf in np.unique(places):
        assert np.unique(shares[places == leaf], axis=0).shape[0] == 1


@pytest.mark.slow
@pytest.mark.usefixtures("folder")
def test_depth_norm_and_time_print_and_draw_what_they_measure(run, monkeypatch, capsys):
    monkeypatch.setattr(benchmark, "DEPTHS", (2, 3))
    monkeypatch.setattr(benchmark, "PASSES", 5)
    monkeypatch.setattr(benchmark, "TUNING_PASSES", 1)
    monkeypatch.setattr(benchmark, "NORM_ROWS", 200)
    monkeypatch.setattr(benchmark, "NORM_DEPTHS", (3,))
    monkeypatch.setattr(benchmark, "TIME_DEPTHS", (2, 10, 11))
    benchmark.depth(run)
    benchmark.norm(run)
    benchmark.time(run)
    out = capsys.readouterr().out
    for method in benchmark.trainers(1):
        # two sets, two depths
        lines = [line for line in out.splitlines() if line.startswith(f"{method}  ")]
        assert len(lines) >= 4, method
        assert all(0.4 < float(line.split("%")[0].split()[-1]) / 100 <= 1 for line in lines)
    assert "goal: connect4_2class, depth 3: the best on test; measured:" in out
    assert "goal: mnist, depth 10, one pass: test accuracy >= 91.0%" in out
    assert "goal: depth 3: the smallest max_norm leaves fewer leaves" in out
    assert "goal: the fast inference grows about with depth^2" in out
    for name in ("depth", "norm", "time"):
        assert (run.plots / f"nongreedy_{name}.png").read_bytes().startswith(b"\x89PNG")


def test_regression_sets_are_those_of_numbers_with_rows_enough(folder, run, capsys):
    rng = np.random.default_rng(5)
    X = rng.normal(size=(1_001, 2)).astype(np.float32)
    for name, n in (("long", 1_001), ("short", 1_000)):
        np.savez(folder / f"{name}.npz", X=X[:n], y=X[:n, 0] + 6)
    assert benchmark.regression_sets() == ["long"]
    benchmark.regress(run)
    out = capsys.readouterr().out
    assert "goal: kin8nm: R^2 >= 0.45; measured: -: not measured" in out
    assert "at the least (long): ok" in out


def test_first_example_counts_for_nothing_in_r2():
    class Last:
        last = 0.0

        def predict_one(self, x):
            return self.last

        def learn_one(self, x, y):
            self.last = y

    # the last target is always right from the second example on, but for one step
    targets = [1000.0, 1000.0, 1002.0, 1002.0]
    assert benchmark.prequential_r2(Last(), [{}] * 4, targets) == pytest.approx(1 - 4 / (8 / 3))


def test_categories_are_told_to_those_who_must_know_them(folder):
    data = program("data").load("connect4_2class")
    rows, labels = benchmark.stream_of(data)
    task = benchmark.task_of(data, rows)
    assert task.n_classes == 2
    assert set(task.categories) == set(range(5))
    assert task.categories[0] == ["0", "1", "2"]
    assert len(labels) == 400


@pytest.mark.slow
def test_speed_compares_both_spans(run, capsys):
    benchmark.speed(run, n=600, n_warm=200)
    out = capsys.readouterr().out
    assert "goal: learn_one against river HoeffdingTree's, from the start: >= 15x" in out
    assert "goal: learn_one against river HoeffdingTree's, past the warm-up: >= 15x" in out
