"""A forest whose members are spread: the answers and bytes of the forest in one process."""

import os
import pickle
import signal

import numpy as np
import pandas as pd
import pytest
from support.streams import blobs

from streamtree import (
    ExtraTreeClassifier,
    ForestClassifier,
    ForestRegressor,
    ModelTreeClassifier,
    SelfTerminatingTreeClassifier,
    SoftTreeRegressor,
)
from streamtree.serialization import to_bytes

pytest.importorskip("ray.exceptions", reason="Ray is not installed")

from streamtree.distributed import ShardedForest
from streamtree.distributed.worker import SequenceError

pytestmark = [pytest.mark.usefixtures("cluster"), pytest.mark.slow]


def stream(n=1500):
    X, y = blobs(n, 4, features=4, spread=1.5, seed=3)
    # a column that begins late, one that changes its unit, labels that are new in the middle
    X[: n // 3, 3] = np.nan
    X[n // 2 :, 2] *= 1000.0
    return X, [f"class {i}" for i in np.where(np.arange(n) < n // 2, y % 3, y).tolist()]


FORESTS = [
    (ForestClassifier(seed=1, window=300, rests=False, restarts=False), 3),
    (
        ForestClassifier(2, (
            ModelTreeClassifier(), ForestClassifier(2, ("extra", "lom"), window=200),
            "recent_labels", ExtraTreeClassifier(window=150),
        # no member takes half of its share: then shares would change in one process
        ), max_bytes=2**21, rests=False, restarts=False), 2,
    ),
]


@pytest.mark.parametrize(("forest", "n_workers"), FORESTS)
def test_a_forest_says_what_it_says_in_one_process(forest, n_workers, tmp_path):
    X, y = stream()
    w = np.random.default_rng(1).integers(3, size=len(y))
    one = forest.clone()
    with ShardedForest(forest, n_workers, folder=tmp_path, checkpoint_rows=600) as sharded:
        for number, at in enumerate(range(0, 1400, 200)):
            rows = slice(at, at + 200)
            if number in (2, 5):
                os.kill(sharded._crew.pids()[number % n_workers], signal.SIGKILL)
            if number % 2:
                sharded.learn_many(X[rows], y[rows], w[rows])
                one.learn_many(X[rows], y[rows], w[rows])
                continue
            said = sharded.test_then_learn_many(X[rows], y[rows], w[rows], proba=True)
            expected = one.test_then_learn_many(X[rows], y[rows], w[rows], proba=True)
            assert said.tolist() == expected.tolist()
        assert sharded.predict_many(X).tolist() == one.predict_many(X).tolist()
        assert sharded.predict_proba_many(X).tolist() == one.predict_proba_many(X).tolist()
        assert to_bytes(sharded.model()) == to_bytes(one)
        assert (sharded.position, sharded.n_restarts) == (1400, 2)
    # the driver is gone: on from the last checkpoint
    with ShardedForest(forest, n_workers, folder=tmp_path) as sharded:
        assert sharded.position == 1200
        sharded.learn_many(X[1200:1400], y[1200:1400], w[1200:1400])
        rest = list(sharded.run([(X[1400:1450], y[1400:1450]), (X[1450:], y[1450:])]))
        expected = one.test_then_learn_many(X[1400:], y[1400:])
        assert np.concatenate(rest).tolist() == expected.tolist()
        assert to_bytes(sharded.model()) == to_bytes(one)


def test_members_that_are_spread_do_not_rest_and_the_forest_does_not_begin_anew():
    members = ("model", "soft", "boosted", "recent_labels", "contexts")
    forest = ForestClassifier(members=members, rests=False, restarts=False)
    one = forest.clone()
    rng = np.random.default_rng(1)
    X = rng.normal(size=(6000, 2))
    y = (X[:, 0] > 0) ^ (rng.random(len(X)) < 0.2)
    with ShardedForest(forest, 2) as sharded:
        for at in range(0, 6000, 1500):
            rows = slice(at, at + 1500)
            said = sharded.test_then_learn_many(X[rows], y[rows], proba=True)
            expected = one.test_then_learn_many(X[rows], y[rows], proba=True)
            assert said.tolist() == expected.tolist()
        assert pickle.dumps(sharded.model().snapshot()) == pickle.dumps(one.snapshot())
    resting = ForestClassifier(members=members)
    resting.learn_many(X[:5000], y[:5000])
    assert resting.snapshot()["tree"]["watches"]["left"].any()
    with pytest.raises(ValueError, match="rests = False"):
        ShardedForest(resting, 2)
    resting.rests = False
    with pytest.raises(ValueError, match="restarts = False"):
        ShardedForest(resting, 2)
    resting.restarts = False
    one = resting.clone()
    one._core.restore(resting.snapshot())
    with ShardedForest(resting, 2) as sharded:
        said = sharded.test_then_learn_many(X, y, proba=True)
        assert said.tolist() == one.test_then_learn_many(X, y, proba=True).tolist()


def test_numbers_and_frames():
    X, _ = stream(1200)
    target = 3 * X[:, 0] - X[:, 1]
    # one of the first is far out: the trees start again
    target[2] = 1e6
    frame = pd.DataFrame(X, columns=list("abcd")).assign(kind=np.where(X[:, 0] > 0, "x", "y"))
    members = ("extra", "soft", "contexts", SoftTreeRegressor(max_nodes=7), "last_targets")
    forest = ForestRegressor(4, members, window=200, restarts=False)
    one = forest.clone()
    with ShardedForest(forest, 2) as sharded:
        for at in range(0, 1200, 300):
            part, numbers = frame[at : at + 300], target[at : at + 300]
            said = sharded.test_then_learn_many(part, numbers)
            assert said.equals(one.test_then_learn_many(part, numbers))
        assert sharded.predict_many(frame).equals(one.predict_many(frame))
        assert to_bytes(sharded.model()) == to_bytes(one)


def test_what_cannot_be_learned_is_refused():
    X, y = stream(200)
    with pytest.raises(TypeError, match="forest must be a forest, got ModelTreeClassifier"):
        ShardedForest(ModelTreeClassifier())
    forest = ForestClassifier(members=("model", "soft"), rests=False, restarts=False)
    with pytest.raises(ValueError, match="n_workers must be at most 2"):
        ShardedForest(forest, 3)
    with ShardedForest(forest, 2) as sharded:
        sharded.learn_many(X, y)
        bad = X.copy()
        bad[3, 1] = np.inf
        for arguments, error in (
            ((bad, y), "feature 1: the value inf is infinite"), ((X, y[:5]), "y has 5"),
            ((X, y, -1.0), "w must be"),
        ):
            with pytest.raises(ValueError, match=error):
                sharded.learn_many(*arguments)
        with pytest.raises(ValueError, match="infinite"):
            sharded.predict_many(bad)
        assert sharded.position == 200
        one = forest.clone()
        one.learn_many(X, y)
        assert to_bytes(sharded.model()) == to_bytes(one)


def test_what_members_refuse_is_told_to_who_sent_it():
    X, y = stream(400)
    labels = (X[:, 0] > 0).tolist()
    hinge = SelfTerminatingTreeClassifier(loss="hinge")
    forest = ForestClassifier(2, ("extra", hinge), window=200, rests=False, restarts=False)
    one = forest.clone()
    with ShardedForest(forest, 2) as sharded:
        sharded.learn_many(X[:200], iter(labels[:200]))
        sharded.learn_many(X[200:300], y[200:300])
        said = sharded.test_then_learn_many(X[300:], labels[300:])
        with pytest.raises(ValueError, match="a third label"):
            sharded.wait()
        with pytest.raises(ValueError, match="a third label"):
            sharded.test_then_learn_many(X[200:300], y[200:300])
        one.learn_many(X[:200], labels[:200])
        assert said.tolist() == one.test_then_learn_many(X[300:], labels[300:]).tolist()
        assert to_bytes(sharded.model()) == to_bytes(one)


def test_an_interrupt_is_harmless_or_known(monkeypatch, tmp_path):
    X, y = stream(400)
    forest = ForestClassifier(2, ("extra", "model"), window=200, rests=False, restarts=False)
    one = forest.clone()
    one.learn_many(X[:300], y[:300])
    with ShardedForest(forest, 2, folder=tmp_path) as sharded:
        sharded.learn_many(X[:200], y[:200])
        with monkeypatch.context() as patched:
            patched.setattr(sharded._crew, "results", interrupted)
            with pytest.raises(KeyboardInterrupt):
                # while it waits
                sharded.checkpoint()
        sharded.learn_many(X[200:300], y[200:300])
        assert to_bytes(sharded.model()) == to_bytes(one)
        sharded.checkpoint()
        with monkeypatch.context() as patched:
            patched.setattr(sharded._own, "hear", interrupted)
            with pytest.raises(KeyboardInterrupt):
                # while it learns
                sharded.test_then_learn_many(X[300:], y[300:])
        for call in (sharded.checkpoint, sharded.model, lambda: sharded.predict_many(X)):
            with pytest.raises(SequenceError, match="go on from the last checkpoint"):
                call()
    with ShardedForest(forest, 2, folder=tmp_path) as sharded:
        assert sharded.position == 300
        assert to_bytes(sharded.model()) == to_bytes(one)


def interrupted(*arguments):
    raise KeyboardInterrupt
