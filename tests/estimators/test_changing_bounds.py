"""`max_bytes` that changes while a model learns, and streams for which there is no room."""

import math
import pickle
import random

import numpy as np
import pandas as pd
import pytest

from streamtree import (
    ExtraTreeClassifier,
    ForestClassifier,
    LOMTreeClassifier,
    ModelTreeClassifier,
    SelfTerminatingTreeClassifier,
    SoftTreeClassifier,
    load,
)

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*each is a column of its own", "ignore:.*different labels"
)
LEAST = 2**18


@pytest.mark.parametrize(("estimator", "lowered_at"), [
    (ExtraTreeClassifier, 2553), (ForestClassifier, 2231),
])
def test_trees_that_had_no_room_to_grow_recover(estimator, lowered_at, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(9000, 20))
    y = (X[:, 0] * X[:, 1] > 0).astype(int)
    model = estimator()
    for first, end, bound in [
        (0, lowered_at, 200_000_000), (lowered_at, lowered_at + 600, LEAST),
        (lowered_at + 600, len(y), 200_000_000),
    ]:
        model.max_bytes = bound
        model.learn_many(X[first:end], y[first:end])
        model.save(tmp_path / "model")
    assert (load(tmp_path / "model").predict_many(X) == model.predict_many(X)).all()


@pytest.mark.parametrize(("first", "then"), [(300_000, LEAST), (LEAST, None), (LEAST, 10**6)])
def test_names_that_shared_columns_are_read_anew(first, then):
    words = [f"word {i}" for i in range(1500)]
    loop = SoftTreeClassifier(max_bytes=first)
    for i, word in enumerate(words):
        loop.learn_one({"a": word}, i % 2)
    batch = pickle.loads(pickle.dumps(loop))
    for model in (loop, batch):
        model.max_bytes = then
    copied = pickle.loads(pickle.dumps(loop))
    x = {"a": words[-1]}
    loop.learn_one(x, 1)
    copied.learn_one(x, 1)
    batch.learn_many(pd.DataFrame([x]), [1])
    assert pickle.dumps(loop) == pickle.dumps(copied) == pickle.dumps(batch)


def test_a_copy_takes_what_its_original_takes():
    """Groups are given up until few nodes are left, as few as a new tree has at once."""
    rng = random.Random(390)
    model = LOMTreeClassifier()
    for i in range(4000):
        if i == 1354:
            model.max_bytes = 300_000
        x = {"a": rng.gauss(0, 1)}
        try:
            model.learn_one(x, int(x["a"] > 0) if rng.random() < 0.5 else i // 2 + 5)
        except ValueError:
            assert i > 1354
        if i % 40 == 0:
            copied = pickle.loads(pickle.dumps(model))
            assert copied._core.learned_bytes == model._core.learned_bytes


def test_labels_for_which_a_tree_has_no_room_are_there_all_the_same():
    rng = random.Random(0)
    members = ("soft", "model", "extra", "self_terminating")
    forest = ForestClassifier(n_trees=1, members=members, max_bytes=LEAST)
    for _ in range(600):
        x = {"a": rng.gauss(0, 1), "b": rng.gauss(0, 1)}
        try:
            forest.learn_one(x, rng.randrange(1000))
        except ValueError:
            assert len(forest.labels) > 30
    tree = forest.member("self_terminating")
    assert type(tree) is SelfTerminatingTreeClassifier
    assert len(tree.snapshot()["tree"]["counts"][0]) < len(tree.labels)
    assert list(tree.structure()[0]["counts"]) == tree.labels
    assert sum(forest.feature_importances().values()) == pytest.approx(1.0)
    assert tree.decision_path(x)
    assert tree.draw().source


@pytest.mark.parametrize("weight", [5e-324, 1e-315])
def test_weights_that_are_hardly_numbers(weight):
    rng = random.Random(0)
    forest = ForestClassifier(n_trees=1, members=("extra", "model"))
    for model in (ModelTreeClassifier(), forest):
        for _ in range(900):
            x = {name: rng.gauss(0, 1) for name in "abc"}
            shares = model.predict_proba_one(x)
            assert not shares or math.fsum(shares.values()) == pytest.approx(1.0)
            model.learn_one(x, rng.randrange(300), w=weight)
        assert len(model.labels) > 256


def test_no_member_rests_in_a_copy_that_lets_none_rest():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2600, 3))
    y = (X[:, 0] + 0.1 * rng.normal(size=len(X)) > 0).astype(int)
    forest = ForestClassifier(n_trees=2)
    forest.learn_many(X, y)
    assert forest.snapshot()["tree"]["watches"]["left"].any()
    awake = forest.clone({"rests": False}, include_attributes=True)
    assert not awake.snapshot()["tree"]["watches"]["left"].any()
    awake.learn_many(X, y)
    assert pickle.dumps(pickle.loads(pickle.dumps(awake))) == pickle.dumps(awake)
