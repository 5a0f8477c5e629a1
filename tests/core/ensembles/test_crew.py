"""Threads that share the rows of a batch: the very bits of one thread."""

import _thread
import pickle
import threading
import time
from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
from support.signals import interrupted_after
from support.streams import changing_rows

import streamtree
from streamtree._core.ensembles.ensemble import MeanPool
from streamtree._core.ensembles.extratrees import extra_trees
from streamtree._core.ensembles.pools import LinearPool, LogLinearPool
from streamtree._core.learners.classifier import Classifier
from streamtree._core.learners.regressor import Regressor
from streamtree._core.trees.frequencies import FrequencyTree
from streamtree.batches import Batch

CLASSIFIERS = [
    "ModelTreeClassifier", "LOMTreeClassifier", "SoftTreeClassifier",
    "NonGreedyTreeClassifier", "SelfTerminatingTreeClassifier",
]
REGRESSORS = ["SoftTreeRegressor", "NonGreedyTreeRegressor", "SelfTerminatingTreeRegressor"]


def tree_of(name):
    # one that has not learned, for another model
    return getattr(streamtree, name)()._tree_maker()()


def trees(n=10, has_numbers=False):
    seeds = list(range(n))
    return extra_trees(seeds, window_length=300, has_numbers=has_numbers, strength=None)


def forest():
    members = [trees(), *map(tree_of, CLASSIFIERS), FrequencyTree(20)]
    return LogLinearPool(members, [0.2] * 7)


def nested():
    inner = LogLinearPool([trees(3), tree_of("ModelTreeClassifier")], [0.5, 0.5])
    return LogLinearPool([MeanPool([inner, trees(2)]), FrequencyTree(20)], [0.9, 0.1])


def numbers():
    members = [trees(10, True), *map(tree_of, REGRESSORS)]
    return LinearPool(members, [0.25] * 4, rate=0.1)


TREES = {
    "trees": trees, "forest": forest, "nested": nested, "numbers": numbers,
    # with all members, among them one that corrects the others
    "all": partial(tree_of, "ForestClassifier"), "all numbers": partial(tree_of, "ForestRegressor"),
}


def learner(kind, **settings):
    make = Regressor if "numbers" in kind else Classifier
    return make(TREES[kind](), **settings)


def stream(kind, n=1500, seed=0):
    """Rows with gaps, a column and labels that come late, and a column in another unit."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 6))
    X[:, 4] = np.round(X[:, 4])
    X[n // 2 :, 3] *= 1000.0
    score = X[:, 0] + X[:, 1] * X[:, 2] + 0.3 * rng.normal(size=n)
    X[rng.random(X.shape) < 0.05] = np.nan
    X[: n // 3, 5] = np.nan
    if "numbers" in kind:
        return X, score
    labels = np.where(score > 1.0, 2, score > 0.0)
    return X, np.where((np.arange(n) > n // 2) & (score < -1.0), 3, labels)


def learn(core, X, y, w=None, says=None):
    batch = Batch(X)
    if isinstance(core, Regressor):
        targets = np.ascontiguousarray(np.reshape(y, (-1, 1)), dtype=float)
        return core.learn_many(
            batch.rows(), batch.names, batch.first_rows(w), None, targets, w, says
        )
    return core.learn_many(
        batch.rows(), batch.names, batch.first_rows(w), [int(label) for label in y], w, says
    )


def predict(core, X):
    batch = Batch(X)
    says = {} if isinstance(core, Regressor) else {"says": "shares"}
    return core.predict_many(batch.rows(), batch.names, **says)


def state_of(core):
    return pickle.dumps(core.snapshot())


@pytest.mark.parametrize("n_jobs", [2, 3, 4])
@pytest.mark.parametrize("kind", TREES)
def test_arrays_leave_the_bits_of_one_thread(kind, n_jobs):
    X, y = stream(kind)
    one, several = learner(kind), learner(kind, n_jobs=n_jobs)
    learn(one, X, y)
    learn(several, X, y)
    assert state_of(several) == state_of(one)
    assert several.learned_bytes == one.learned_bytes
    assert np.array_equal(predict(several, X), predict(one, X))
    assert n_jobs > 2 or len(np.unique(predict(one, X), axis=0)) > 100


@pytest.mark.parametrize("kind", TREES)
def test_what_was_predicted_before_is_what_one_thread_says(kind):
    X, y = stream(kind, seed=1)
    w = np.random.default_rng(2).choice([0.0, 0.5, 1.0, 3.0], size=len(y))
    says = "shares" if "numbers" not in kind else "numbers"
    one, several, silent = learner(kind), learner(kind, n_jobs=3), learner(kind, n_jobs=2)
    said = learn(one, X, y, w, says)
    assert np.array_equal(learn(several, X, y, w, says), said)
    learn(silent, X, y, w)
    assert state_of(several) == state_of(one) == state_of(silent)


@pytest.mark.parametrize("kind", TREES)
def test_sparse_rows_leave_the_bits_of_one_thread(kind):
    rng = np.random.default_rng(3)
    X = sp.random_array((900, 120), density=0.08, rng=rng, format="csr")
    score = X @ rng.normal(size=120)
    y = score if "numbers" in kind else (score > 0).astype(int) + (score > 0.5)
    one, several = learner(kind), learner(kind, n_jobs=2)
    learn(one, X, y)
    learn(several, X, y)
    assert state_of(several) == state_of(one)
    assert np.array_equal(predict(several, X), predict(one, X))


@pytest.mark.parametrize("kind", TREES)
def test_batches_of_any_size_leave_the_bits_of_a_loop(kind):
    X, y = stream(kind, 900, seed=4)
    rows, loop = [dict(enumerate(x)) for x in X.tolist()], learner(kind)
    several, begin = learner(kind, n_jobs=2), 0
    for x, target in zip(rows, y.tolist(), strict=True):
        loop.learn_one({k: v for k, v in x.items() if v == v}, target, 1.0)
    for size in (1, 2, 63, 64, 65, 100, 128, 0, 3, 474):
        learn(several, X[begin : begin + size], y[begin : begin + size])
        begin += size
    assert begin == len(X)
    assert state_of(several) == state_of(loop)


@pytest.mark.slow
def test_members_that_rest_and_wake_leave_the_bits_of_one_thread():
    X, y = stream("all", 9000, seed=5)
    one, several, rests = learner("all"), learner("all", n_jobs=2), []
    for begin in range(0, len(X), 300):
        for core in (one, several):
            learn(core, X[begin : begin + 300], y[begin : begin + 300])
        state = several.snapshot()
        assert pickle.dumps(state) == state_of(one)
        rests.append(tuple(state["tree"]["watches"]["left"] > 0))
    # each of these is another set of members
    assert len(set(rests)) > 2


@pytest.mark.parametrize("place", [0, 30])
def test_a_forest_that_starts_again_amid_a_batch_leaves_the_bits_of_one_thread(place):
    """The pool of the old one had a row to learn when it went."""
    X, y = stream("numbers", 400)
    y[0] = 1e9
    models = [
        Regressor(numbers(), make_tree=numbers, n_jobs=n_jobs) for n_jobs in (1, 2)
    ]
    trees_before = models[1].tree
    for core in models:
        learn(core, X[:place], y[:place])
        learn(core, X[place:], y[place:])
    assert models[1].tree is not trees_before
    assert state_of(models[1]) == state_of(models[0])


def test_the_number_of_threads_may_change_and_is_not_part_of_a_model():
    X, y = stream("trees")
    one, several = learner("trees"), learner("trees", n_jobs=2)
    for begin, n_jobs in enumerate((3, 1, 2)):
        part = slice(500 * begin, 500 * begin + 500)
        several.n_jobs = n_jobs
        learn(one, X[part], y[part])
        learn(several, X[part], y[part])
    assert state_of(several) == state_of(one)
    copied = learner("trees", n_jobs=4)
    copied.check_state(one.snapshot())
    copied.restore(one.snapshot())
    learn(copied, X, y)
    learn(one, X, y)
    assert state_of(copied) == state_of(one)
    assert copied.learned_bytes == one.learned_bytes


def test_a_bound_is_shared_out_so_that_threads_change_nothing():
    X, y = stream("forest", 3000)
    one = learner("forest", max_bytes=6_000_000)
    several = learner("forest", max_bytes=6_000_000, n_jobs=2)
    free = learner("forest")
    for core in (one, several, free):
        learn(core, X, y)
    assert state_of(several) == state_of(one) != state_of(free)
    copied = learner("forest", max_bytes=6_000_000, n_jobs=2)
    copied.restore(one.snapshot())
    learn(copied, X, y)
    learn(one, X, y)
    assert state_of(copied) == state_of(one)


@pytest.mark.parametrize("kind", ["forest", "numbers"])
def test_an_interruption_leaves_the_model_of_the_rows_that_were_learned(kind):
    X, y = stream(kind, 20_000)
    in_time = 0
    for milliseconds in (3, 20, 60):
        one, several = learner(kind), learner(kind, n_jobs=3)
        try:
            with interrupted_after(milliseconds / 1000):
                learn(several, X, y)
        except KeyboardInterrupt as error:
            n = getattr(error, "rows_learned", 0)
            in_time += n < len(X)
            learn(one, X[:n], y[:n])
            assert state_of(several) == state_of(one)
            # and it goes on
            learn(one, X[n : n + 300], y[n : n + 300])
            learn(several, X[n : n + 300], y[n : n + 300])
            assert state_of(several) == state_of(one)
    assert in_time


def test_predictions_in_threads_can_be_interrupted():
    X, y = stream("trees", 20_000)
    core = learner("trees", n_jobs=2)
    learn(core, X[:1000], y[:1000])
    many = np.tile(X, (20, 1))
    with pytest.raises(KeyboardInterrupt), interrupted_after(0.01):
        predict(core, many)
    # nobody is inside any more
    learn(core, X[:100], y[:100])


def test_errors_of_rows_end_a_batch_in_threads():
    core = learner("trees", n_jobs=2)
    X, y = stream("trees")
    learn(core, X, y)
    before = state_of(core)
    with pytest.raises(ValueError, match="names for"):
        core.learn_many(Batch(X).rows(), [0], [0], y.tolist(), None, None)
    assert state_of(core) == before
    with pytest.raises(ValueError, match="names for"):
        core.predict_many(Batch(X).rows(), [0])
    learn(core, X, y)


def test_threads_go_with_the_batch():
    X, y = stream("forest")
    core = learner("forest", n_jobs=4)
    before = _thread._count()
    learn(core, X, y)
    predict(core, X)
    end = time.monotonic() + 30.0
    while _thread._count() > before and time.monotonic() < end:
        # the last ones may still be on their way out
        time.sleep(0.001)
    assert _thread._count() <= before


def test_dicts_are_predicted_by_one_thread():
    rows, labels = changing_rows(200, 3)
    core = learner("trees", n_jobs=2)
    for x, label in zip(rows, labels, strict=True):
        core.learn_one(x, label, 1.0)
    expected = [list(core.predict_proba_one(x).values()) for x in rows]
    assert core.predict_many(rows, [], "shares").tolist() == expected


@pytest.mark.slow
def test_many_batches_side_by_side():
    X, y = stream("forest", 600)
    one = learner("forest")
    for _ in range(4):
        learn(one, X, y)
    expected, errors = state_of(one), []

    def work(n_jobs):
        core = learner("forest", n_jobs=n_jobs)
        for begin in range(0, 2400, 75):
            part = np.arange(begin, begin + 75) % 600
            learn(core, X[part], y[part])
            predict(core, X)
        if state_of(core) != expected:
            errors.append(n_jobs)

    threads = [threading.Thread(target=work, args=(2 + i % 3,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
