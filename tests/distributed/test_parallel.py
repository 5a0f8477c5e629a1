"""One model on several workers: what a plain loop over replicas gives, whoever dies."""

import copy
import os
import signal

import numpy as np
import pytest
from support.programs import program
from support.streams import blobs

from streamtree import (
    ModelTreeClassifier,
    NonGreedyTreeClassifier,
    NonGreedyTreeRegressor,
    SoftTreeRegressor,
    merge,
)
from streamtree.serialization import to_bytes

pytest.importorskip("ray.exceptions", reason="Ray is not installed")

from streamtree.distributed import DataParallel

pytestmark = [pytest.mark.usefixtures("cluster"), pytest.mark.slow]
N_WORKERS, MERGE_ROWS = 2, 400


def stream(n=2900):
    return blobs(n, 4, features=4, spread=1.5, seed=2)


def in_one_process(model, X, y):
    """Replicas that learn half of the rows to a merge each; and what they said before."""
    start, said, merged_at = copy.deepcopy(model), [], 0
    replicas = [copy.deepcopy(model) for _ in range(N_WORKERS)]
    shares = False
    for row, (x, target) in enumerate(zip(X, y, strict=True)):
        own = [replicas[(row - merged_at) * N_WORKERS // MERGE_ROWS]] if shares else replicas
        answers = [replica.test_then_learn_many(x[None], [target])[0] for replica in own]
        said.append(answers[0])
        if row + 1 - merged_at == MERGE_ROWS:
            merged_at = row + 1
            if shares:
                start = merge(replicas, start=start)
                replicas = [copy.deepcopy(start) for _ in range(N_WORKERS)]
            elif not replicas[0].snapshot()["tree"]["warm_up"]["n_rows"]:
                start, shares = copy.deepcopy(replicas[0]), True
    return merge(replicas, start=start), said


@pytest.mark.parametrize("size", [250, 333])
def test_replicas_are_merged_as_in_one_process(size, tmp_path):
    X, y = stream()
    model = NonGreedyTreeClassifier(depth=3, warm_up=600, restarts=False)
    expected, said = in_one_process(model, X, y)
    rng = np.random.default_rng(size)
    with DataParallel(
        model, N_WORKERS, merge_rows=MERGE_ROWS, folder=tmp_path, checkpoint_rows=800
    ) as parallel:
        ours = []
        for number, at in enumerate(range(0, 2000, size)):
            rows = slice(at, min(2000, at + size))
            if number in (2, 5):
                os.kill(parallel._crew.pids()[int(rng.integers(2))], signal.SIGKILL)
            ours += parallel.test_then_learn_many(X[rows], y[rows]).tolist()
        assert ours == said[:2000]
        assert parallel.n_restarts == 2
    # the driver is gone: on from the last checkpoint, which was at a merge
    with DataParallel(
        model, N_WORKERS, merge_rows=MERGE_ROWS, folder=tmp_path, checkpoint_rows=800
    ) as parallel:
        assert parallel.position == 1600
        again = list(parallel.run([(X[1600:2300], y[1600:2300]), (X[2300:], y[2300:])]))
        assert np.concatenate(again).tolist() == said[1600:]
        assert to_bytes(parallel.model()) == to_bytes(expected)
        correct = np.mean(parallel.predict_many(X) == y)
        assert correct == pytest.approx(np.mean(expected.predict_many(X) == y), abs=0.02)


def test_replicas_that_are_averaged_do_not_begin_anew():
    with pytest.raises(ValueError, match=r"set model\.restarts = False"):
        DataParallel(NonGreedyTreeRegressor(), 2)
    # that form never does
    DataParallel(NonGreedyTreeRegressor(algorithm="paper"), 2).close()


def test_numbers_and_weights():
    X, y = stream(1500)
    target, w = X[:, 0] * 3 + y, np.random.default_rng(0).integers(3, size=1500)
    model = NonGreedyTreeRegressor(depth=3, start="zeros", restarts=False)
    with DataParallel(model, 2, merge_rows=2000) as parallel:
        parallel.learn_many(X[:701], target[:701], w[:701])
        # the other replica has learned nothing
        first = model.clone()
        first.learn_many(X[:701], target[:701], w[:701])
        assert parallel.predict_many(X).tolist() == first.predict_many(X).tolist()
        parallel.learn_many(X[701:], target[701:], w[701:])
        replicas = [model.clone() for _ in range(2)]
        for i, replica in enumerate(replicas):
            rows = slice(1000 * i, 1000 * (i + 1))
            replica.learn_many(X[rows], target[rows], w[rows])
        merged = merge(replicas, start=model)
        assert to_bytes(parallel.model()) == to_bytes(merged)
        said = parallel.predict_many(X)
        assert said.dtype == np.float64
        assert said[::2].tolist() == replicas[0].predict_many(X[::2]).tolist()


def test_trees_that_grow_are_a_forest_of_shards():
    X, y = stream(1500)
    labels = [f"class {i}" for i in y.tolist()]
    with DataParallel(ModelTreeClassifier(), 3) as parallel:
        first = parallel.test_then_learn_many(X[:500], labels[:500])
        assert first.tolist() == [None] * 500
        parallel.learn_many(X[500:], labels[500:])
        pool = parallel.model()
        shards = pool.models
        for i, shard in enumerate(shards):
            one = ModelTreeClassifier()
            one.learn_many(X[i::3], labels[i::3])
            assert to_bytes(shard) == to_bytes(one)
        order = shards[0].labels
        total = sum(
            shard.predict_proba_many(X)[:, [shard.labels.index(name) for name in order]]
            for shard in shards
        )
        expected = [order[i] for i in total.argmax(axis=1)]
        assert parallel.predict_many(X).tolist() == expected
        assert pool.predict_many(X).tolist() == expected
    table = pytest.importorskip("pyarrow").table(list(X.T), names=["a", "b", "c", "d"])
    for rows in (X, table):
        with DataParallel(SoftTreeRegressor(), 2) as parallel:
            parallel.learn_many(rows, X[:, 0])
            said = [shard.predict_many(rows) for shard in parallel.model().models]
            assert parallel.predict_many(rows).tolist() == np.mean(said, axis=0).tolist()


def test_the_models_of_the_benchmark_can_be_replicated():
    for make in program("scaling").PROTOTYPES.values():
        with DataParallel(make(), 2) as model:
            model.learn_many(*stream(50))
            assert model.position == 50
