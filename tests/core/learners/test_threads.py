"""Who may be inside a model at the same time: predictions side by side, learning alone."""

import concurrent.futures
import pickle
import threading

import numpy as np
import pytest
import scipy.sparse as sp
from support.estimators import state_of
from support.isolated import run_isolated
from support.marks import first_quick
from support.streams import as_dicts, blobs
from support.threads import STATE_CALLS, outcome, trained, while_inside

from streamtree import LOMTreeClassifier, ModelTreeClassifier


def test_predictions_run_side_by_side():
    model, X = trained()
    X = np.tile(X, (10, 1))
    batches = [X[i::4] for i in range(4)] + [sp.csr_array(X[i::4]) for i in range(4)]
    expected = [model.predict_many(batch) for batch in batches]
    proba = [model.predict_proba_many(batch) for batch in batches]
    before = pickle.dumps(model)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for _ in range(5):
            many = list(pool.map(model.predict_many, batches))
            many_proba = list(pool.map(model.predict_proba_many, batches))
            assert all(map(np.array_equal, many, expected))
            assert all(map(np.array_equal, many_proba, proba))
    assert pickle.dumps(model) == before


def test_single_predictions_run_beside_many():
    model, X = trained()
    rows = as_dicts(X[:500])
    big = np.tile(X, (20, 1))
    one = [model.predict_one(x) for x in rows]
    top = [model.predict_topk_one(x, 3) for x in rows]
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        many = pool.submit(model.predict_many, big)
        singles = [pool.submit(lambda: [model.predict_one(x) for x in rows]) for _ in range(3)]
        tops = pool.submit(lambda: [model.predict_topk_one(x, 3) for x in rows])
        assert all(single.result() == one for single in singles)
        assert tops.result() == top
        assert np.array_equal(many.result()[:3000], model.predict_many(X))


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_threads_merge_names_that_share_columns_each_for_itself(n_jobs):
    X, y = blobs(400, 3, features=1500, spread=2.0)
    model = ModelTreeClassifier(max_bytes=2**18)
    with pytest.warns(UserWarning, match="share a few columns"):
        model.learn_many(X[:20], y[:20])
    batches = [X, X[::-1].copy()]
    expected = [model.predict_proba_many(batch) for batch in batches]
    model._core.n_jobs = n_jobs
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for _ in range(5):
            said = pool.map(model.predict_proba_many, batches)
            assert all(map(np.array_equal, said, expected))


ROW = {0: 1.0, 3: -2.0, "new": 4.0}
LEARNING_CALLS = {
    "learn_one": lambda model: model.learn_one(ROW, 0),
    "learn_many": lambda model: model.learn_many(np.ones((5, 3)), [0] * 5),
    "test_then_learn_many": lambda model: model.test_then_learn_many(np.ones((5, 3)), [0] * 5),
    "learn_many sparse": lambda model: model.learn_many(sp.csr_array(np.ones((5, 3))), [0] * 5),
}
PREDICTING_CALLS = {
    "predict_one": lambda model: model.predict_one(ROW),
    "predict_proba_one": lambda model: model.predict_proba_one(ROW),
    "predict_topk_one": lambda model: model.predict_topk_one(ROW),
    "predict_many": lambda model: model.predict_many(np.ones((5, 3))),
    "predict_proba_many": lambda model: model.predict_proba_many(np.ones((5, 3))),
}


@pytest.mark.parametrize("name", [*LEARNING_CALLS, *PREDICTING_CALLS])
def test_nothing_runs_beside_learning(name):
    model, _ = trained()
    alone, _ = trained()
    call = {**LEARNING_CALLS, **PREDICTING_CALLS}[name]
    kind, message = while_inside(model, "learning", lambda: outcome(lambda: call(model)))
    assert kind == "refused"
    assert "learning" in message or "in use" in message
    # the model is as usable as before, and the refused call left nothing
    assert "new" not in model.snapshot()["features"]
    X, y = blobs(3000, 20, features=10, spread=2.0, seed=1)
    model.learn_many(X, y)
    assert pickle.dumps(pickle.loads(pickle.dumps(model))) == pickle.dumps(model)
    # blobs of another seed were learned last, and once more what was learned at first
    assert np.mean(model.predict_many(X) == y) > np.mean(alone.predict_many(X) == y) - 0.2


@pytest.mark.parametrize("name", LEARNING_CALLS)
def test_no_learning_runs_beside_predictions(name):
    model, _ = trained()
    before = pickle.dumps(model)
    call = LEARNING_CALLS[name]
    kind, message = while_inside(model, "predicting", lambda: outcome(lambda: call(model)))
    assert kind == "refused"
    assert "in use" in message
    assert pickle.dumps(model) == before
    call(model)  # now it may
    assert pickle.dumps(model) != before


@pytest.mark.parametrize("name", PREDICTING_CALLS)
def test_predictions_run_beside_predictions(name):
    model, _ = trained()
    call = PREDICTING_CALLS[name]
    expected = call(model)
    kind, result = while_inside(model, "predicting", lambda: outcome(lambda: call(model)))
    assert kind == "done"
    assert np.array_equal(np.array(result, dtype=object), np.array(expected, dtype=object))


@pytest.mark.parametrize("name", first_quick(STATE_CALLS))
def test_the_state_is_not_read_while_it_changes(name):
    """Reading tables that another thread reallocates: an error at most, never a crash."""
    run_isolated(
        f"""
        import pickle
        from support import threads

        model, _ = threads.trained()
        call = threads.STATE_CALLS[{name!r}]
        done = refused = 0
        for _ in range(3):
            # over and over while the tree grows, to meet it at its worst
            kinds = threads.while_inside(
                model, "learning",
                lambda: [threads.outcome(lambda: call(model))[0] for _ in range(20)],
            )
            done += kinds.count("done")
            refused += kinds.count("refused")
        assert done + refused == 60
        if {name!r} in ("pickle", "deepcopy", "snapshot"):
            # a copy of half a step is no state of the model
            assert refused == 60, (done, refused)
        model = pickle.loads(pickle.dumps(model))
        model.learn_one({{0: 1.0}}, 0)
        """
    )


def test_an_error_frees_the_model():
    model, X = trained()
    for bad in (
        lambda: model.learn_one({0: float("inf")}, 0),
        lambda: model.learn_one({0: 1.0}, None),
        lambda: model.learn_one({0: 1.0}, 0, w=-1.0),
        lambda: model.predict_one({0: b"bytes"}),
        lambda: model.predict_proba_one({0: b"bytes"}),
        lambda: model.predict_topk_one({0: b"bytes"}),
        lambda: model.learn_many(np.full((2, 2), np.inf), [0, 1]),
        lambda: model.predict_many(np.full((2, 2), np.inf)),
    ):
        with pytest.raises((TypeError, ValueError)):
            bad()
        model.learn_one({0: 1.0}, 0)  # raises if somebody were still inside
        model.predict_many(X[:10])


def test_threads_that_learn_in_turns():
    """With a lock of the user's own, threads may share a model."""
    X, y = blobs(2000, 5, features=5, spread=3.0, seed=3)
    rows, labels = as_dicts(X), y.tolist()
    model, lock = ModelTreeClassifier(), threading.Lock()

    def work(start):
        for i in range(start, 2000, 4):
            with lock:
                model.predict_one(rows[i])
                model.learn_one(rows[i], labels[i])

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    assert model.snapshot()["tree"]["nodes"]["votes"][0] > 0
    assert model.snapshot()["scaler"]["rows"] == 2000
    assert np.mean(model.predict_many(X) == y) > 0.8


# ------------------------------------------------------------------- top k


@pytest.mark.parametrize("params", [{}, {"algorithm": "paper", "learning_rate": 0.05}])
def test_top_k_is_the_head_of_the_probabilities(params):
    X, y = blobs(3000, classes=30, features=6, spread=1.5, seed=5)
    model = LOMTreeClassifier(grace_period=5, **params)
    names = [f"label {label}" for label in y]
    model.learn_many(X, names)
    for x in as_dicts(X[:300]):
        proba = model.predict_proba_one(x)
        everything = model.predict_topk_one(x, 1000)
        assert dict(everything) == proba  # the same numbers to the last bit
        shares = [share for _, share in everything]
        assert shares == sorted(proba.values(), reverse=True)
        assert everything[0][0] == model.predict_one(x)
        assert len(shares) == 1 or shares[0] > shares[1]
        for k in (1, 2, 5, 30):
            assert model.predict_topk_one(x, k) == everything[:k]
        assert model.predict_topk_one(x) == everything[:5]
        assert model.predict_topk_one(x, np.int64(3)) == everything[:3]
        # labels of one probability stand in the order of their learning
        order = [(-share, model.labels.index(label)) for label, share in everything]
        assert order == sorted(order)


def test_top_k_of_a_new_leaf():
    """A leaf without votes of its own says what its parent said, by all three methods."""
    rng = np.random.default_rng(0)
    seen_empty = 0
    for _ in range(10):
        model = LOMTreeClassifier(algorithm="paper", learning_rate=0.01)
        for label in "aabbbb":
            model.learn_one({"x": float(rng.normal()), "y": 1.0}, label)
        state = state_of(model)
        # the first b split the root, which said a; all of them went to one side
        assert sorted(state["nodes"]["votes"].tolist()) == [0.0, 3.0, 4.0]
        for value in np.linspace(-9.0, 9.0, 20).tolist():
            x = {"x": value, "y": 1.0}
            top = model.predict_topk_one(x)
            if model.predict_one(x) == "a":  # only the leaf without votes says so
                seen_empty += 1
                assert top == [("a", 0.75), ("b", 0.25)]
            else:
                # four votes and one, of which a half is b's and a half is shared; rounded twice
                assert dict(top) == pytest.approx({"b": 4.75 / 5, "a": 0.25 / 5}, rel=1e-15)
                assert top[0][0] == "b"
            assert model.predict_proba_one(x) == dict(top)
    assert seen_empty > 0
