"""Forests that begin anew: where all has changed a new one takes over."""

import copy
import pickle

import numpy as np
import pytest
from scipy import sparse
from support.restarts import joined, rows_of, small
from support.shortage import can_run_short, run_short

from streamtree import ForestClassifier, ForestRegressor
from streamtree._core.store.checks import StateError
from streamtree.serialization import from_bytes, to_bytes

FORESTS = [ForestClassifier, ForestRegressor]
forests = pytest.mark.parametrize("estimator", FORESTS)
# for how many rows a new one is tried out, at least
TRIED = 2048


def errors(model, X, y):
    """By how much numbers miss, or labels, which are in an order."""
    return np.abs(np.asarray(model.test_then_learn_many(X, y), dtype=float) - y)


def amid_a_trial(estimator, **params):
    """A forest beside which a new one learns."""
    model = small(estimator, **params)
    model.learn_many(*rows_of(estimator, 2500, 0))
    X, y = rows_of(estimator, 600, 1)
    for i in range(0, 600, 10):
        model.learn_many(X[i:i + 10], y[i:i + 10])
        if model._core.challenger is not None:
            return model
    pytest.fail("there is no new forest")


@forests
def test_a_new_forest_takes_over_where_all_has_changed(estimator):
    found = {}
    for restarts in (True, False):
        model = small(estimator, restarts=restarts)
        model.learn_many(*rows_of(estimator, 6000, 0))
        before = model._core.tree
        found[restarts] = errors(model, *rows_of(estimator, 3000, 1))
        assert (model._core.tree is not before) is restarts
        # in the end there is one
        assert model._core.challenger is None
    assert found[True].mean() < 0.8 * found[False].mean()
    assert found[True][1000:].mean() < 0.8 * found[False][1000:].mean()


@forests
def test_what_passes_costs_nothing_that_was_learned(estimator):
    X, y = rows_of(estimator, 9000, 0)
    y[5000:5400] = np.random.default_rng(1).permutation(y)[:400]
    found = {}
    for restarts in (True, False):
        model = small(estimator, restarts=restarts)
        model.learn_many(X[:5000], y[:5000])
        before = model._core.tree
        model.learn_many(X[5000:5400], y[5000:5400])
        assert (model._core.challenger is not None) is restarts
        found[restarts] = errors(model, X[5400:], y[5400:])
        assert model._core.tree is before
        assert model._core.challenger is None
    assert found[True][600:].mean() < 1.05 * found[False][600:].mean()


@forests
def test_a_batch_is_a_loop_and_threads_are_one(estimator):
    X, y = joined(rows_of(estimator, 2500, 0), rows_of(estimator, 2600, 1))
    models = [small(estimator) for _ in range(4)]
    models[1].n_jobs = 2
    said = [models[k].test_then_learn_many(X, y) for k in (0, 1)]
    assert (said[0] == said[1]).all()
    models[2].learn_many(sparse.csr_matrix(X), y)
    had = 0
    for i, (row, target) in enumerate(zip(X.tolist(), y.tolist(), strict=True)):
        x = dict(enumerate(row))
        told = models[3].predict_one(x)
        assert i == 0 or told == said[0][i]
        models[3].learn_one(x, target)
        had += models[3]._core.challenger is not None
    assert had >= TRIED
    for model in models[1:]:
        assert pickle.dumps(model.snapshot()) == pickle.dumps(models[0].snapshot())


@forests
def test_a_copy_amid_a_trial_goes_on_as_if_nothing_had_happened(estimator):
    model = amid_a_trial(estimator)
    copies = [pickle.loads(pickle.dumps(model)), copy.deepcopy(model)]
    X, y = rows_of(estimator, 2600, 1, seed=1)
    said = model.test_then_learn_many(X, y)
    assert model._core.challenger is None
    for other in copies:
        assert other._core.challenger is not None
        assert (other.test_then_learn_many(X, y) == said).all()
        assert pickle.dumps(other.snapshot()) == pickle.dumps(model.snapshot())


@forests
def test_what_is_told_amid_a_trial_is_of_the_forest_that_answers(estimator):
    model = amid_a_trial(estimator)
    x = dict(enumerate([0.5, -1.0, 0.3, 2.0]))
    assert model.member("soft")._core.challenger is None
    assert sum(model.feature_importances().values()) == pytest.approx(1.0)
    said = model.predict_one(x)
    assert model.debug_one(x).splitlines()[-1].startswith("predicts")
    assert model.predict_one(x) == said
    other = from_bytes(to_bytes(model))
    assert other._core.challenger is not None
    assert to_bytes(other) == to_bytes(model)
    assert other._core.learned_bytes == model._core.learned_bytes


@forests
def test_a_state_amid_a_trial_is_checked(estimator):
    model = amid_a_trial(estimator)
    core, state = model._core, model.snapshot()
    core.check_state(state)
    for name, value in (("challenged", -1), ("challenged", TRIED), ("challenged", None)):
        with pytest.raises(StateError):
            core.check_state({**state, name: value})
    for part in ({}, {**state["challenger"], "rows": -1}, None):
        with pytest.raises(StateError):
            core.check_state({**state, "challenger": part})
    course = {**state["challenger"]["course"], "late": np.nan}
    with pytest.raises(StateError):
        core.check_state({**state, "challenger": {**state["challenger"], "course": course}})


@forests
def test_both_forests_count_and_stay_within_the_bound(estimator):
    model = amid_a_trial(estimator, max_bytes=3_000_000)
    alone = model.clone()
    alone.learn_many(*rows_of(estimator, 2500, 0))
    assert model._core.learned_bytes > alone._core.learned_bytes
    X, y = rows_of(estimator, 2000, 1, seed=2)
    for i in range(0, 2000, 50):
        model.learn_many(X[i:i + 50], y[i:i + 50])
        assert model._core.n_bytes <= 3_000_000
    # where most of it is taken there is no room for a second one
    model = small(estimator, max_bytes=300_000)
    model.learn_many(*rows_of(estimator, 5000, 0))
    model.learn_many(*rows_of(estimator, 300, 1))
    assert model._core.challenger is None


@forests
def test_new_forests_may_be_allowed_and_not_amid_a_trial(estimator):
    model = amid_a_trial(estimator)
    model.restarts = False
    assert model._core.challenger is None
    model.learn_many(*rows_of(estimator, 1000, 1))
    assert model._core.challenger is None
    with pytest.raises(TypeError, match="restarts must be True or False, got 'no'"):
        model.restarts = "no"
    with pytest.raises(TypeError, match="restarts must be True or False, got 1"):
        estimator(restarts=1)


def test_labels_and_features_may_be_new_amid_a_trial():
    model = amid_a_trial(ForestClassifier)
    X, y = rows_of(ForestClassifier, 1200, 1, seed=3)
    for i, (row, label) in enumerate(zip(X.tolist(), y.tolist(), strict=True)):
        x = dict(enumerate(row)) | {"late": i % 7, "kind": f"kind {i % 3}"}
        shares = model.predict_proba_one(x)
        assert sum(shares.values()) == pytest.approx(1.0)
        model.learn_one(x, "another" if i % 5 == 0 else label)
    assert "another" in model.predict_proba_one({})
    core = model._core
    core.check_state(core.snapshot())


def test_a_forest_within_a_forest_does_not_begin_anew_by_itself():
    model = ForestClassifier(members=(small(ForestClassifier), "soft"), restarts=False)
    before = model._core.tree
    model.learn_many(*joined(*[rows_of(ForestClassifier, 2500, k) for k in (0, 1)]))
    assert model._core.tree is before
    assert model._core.challenger is None


AMID_A_TRIAL = """
import numpy as np
from support.shortage import after_failures
from support.restarts import joined, rows_of, small
from streamtree import ForestClassifier

X, y = joined(*[rows_of(ForestClassifier, 2500, k) for k in (0, 1)])
model = small(ForestClassifier)
model.learn_many(X[:2400], y[:2400])
X, y = X[2400:], y[2400:]
for model in after_failures(
    model, X, y, lambda model: model._core.{what}, n_requests={n}, n_behind=300
):
    shares = model.predict_proba_one(dict(enumerate(X[0])))
    assert np.isfinite(list(shares.values())).all()
print("done")
"""


@pytest.mark.slow
@pytest.mark.skipif(not can_run_short(), reason="needs a C compiler and glibc")
@pytest.mark.parametrize("what", ["challenger is not None", "snapshot().get('challenged')"])
def test_a_forest_goes_on_where_memory_runs_out_for_another_one(what):
    assert run_short(AMID_A_TRIAL.format(what=what, n=60)) == "done\n"
