"""What has nothing to say makes no tree: the tests of splits hold over all looks of a leaf."""

import numpy as np
import pytest

from streamtree import LOMTreeClassifier, ModelTreeClassifier

# of a leaf to split at all on noise
DELTA = 0.3
TREES = 30


@pytest.mark.parametrize("kind", ["few", "many", "zeros"])
def test_few_model_trees_split_on_noise(kind):
    """Many columns go together in a row that is far from the others: that is no evidence."""
    n_split = 0
    for seed in range(TREES):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(3000, 6 if kind == "few" else 20))
        if kind == "zeros":
            X = (X > 0.5).astype(float)
        model = ModelTreeClassifier(seed=seed)
        model.learn_many(X, rng.integers(2 + seed % 2, size=3000).tolist())
        n_split += model.n_nodes > 1
    # two deviations above the level
    assert n_split <= TREES * DELTA + 2.0 * np.sqrt(TREES * DELTA * (1.0 - DELTA))


def test_every_round_of_candidates_is_twice_as_long_as_the_one_before():
    rng = np.random.default_rng(0)
    model = ModelTreeClassifier(grace_period=1, delta=1e-9)
    rounds = []
    for _ in range(100):
        model.learn_many(rng.normal(size=(50, 4)), rng.integers(2, size=50).tolist())
        search = model.snapshot()["tree"]["searches"][0]
        if len(search["columns"]) == 0:
            rounds.append(search["looks"])
    assert model.n_nodes == 1
    assert rounds == [10, 30, 70]


def test_small_seeds_draw_other_candidates():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 20)), rng.integers(2, size=200).tolist()
    drawn = set()
    for seed in range(8):
        model = ModelTreeClassifier(seed=seed)
        model.learn_many(X, y)
        drawn.add(frozenset(model.snapshot()["tree"]["searches"][0]["columns"].tolist()))
    assert len(drawn) > 4


@pytest.mark.filterwarnings("ignore:.* features have come")
def test_columns_that_come_once_do_not_put_off_the_looks_of_a_leaf():
    rng = np.random.default_rng(3)
    plain, flooded = ModelTreeClassifier(), ModelTreeClassifier()
    for i in range(1000):
        x, y = {"a": rng.normal()}, int(rng.integers(2))
        plain.learn_one(x, y)
        flooded.learn_one(x | {f"column {i}": 1.0}, y)
    looks = [model.snapshot()["tree"]["searches"][0]["looks"] for model in (plain, flooded)]
    assert plain.n_nodes == flooded.n_nodes == 1
    assert looks[0] == looks[1] > 5


@pytest.mark.slow
@pytest.mark.parametrize("estimator", [ModelTreeClassifier, LOMTreeClassifier])
def test_trees_stay_small_on_noise(estimator):
    rng = np.random.default_rng(0)
    model = estimator()
    model.learn_many(rng.normal(size=(400_000, 6)), rng.integers(3, size=400_000).tolist())
    assert model.n_nodes < 60
