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
    core, state = small(estimator)._core, model.snapshot()
    core.check_state(state)
    # the other way round, too
    model._core.check_state(small(estimator).snapshot())
    good = state["challenge"]
    course = {**good["tree"]["course"], "late": np.nan}
    for forged in (
        {}, None, {"tree": good["tree"]}, {**good, "rows": -1}, {**good, "rows": TRIED},
        {**good, "tree": {}}, {**good, "tree": {**good["tree"], "rows": -1}},
        {**good, "tree": {**good["tree"], "course": course}},
    ):
        with pytest.raises(StateError):
            core.check_state({**state, "challenge": forged})
    with pytest.raises(StateError):
        small(estimator, restarts=False)._core.check_state(state)


@forests
def test_both_forests_count_and_stay_within_the_bound(estimator):
    model = amid_a_trial(estimator, max_bytes=3_000_000)
    both = model._core.learned_bytes
    X, y = rows_of(estimator, 2000, 1, seed=2)
    for i in range(0, 2000, 50):
        model.learn_many(X[i:i + 50], y[i:i + 50])
        assert model._core.n_bytes <= 3_000_000
    other = amid_a_trial(estimator, max_bytes=3_000_000)
    other.restarts = False
    assert other._core.learned_bytes < both
    # where most of it is taken there is no room for a second one
    model = small(estimator, max_bytes=400_000)
    model.learn_many(*rows_of(estimator, 2500, 0))
    assert 2 * model._core.learned_bytes > 400_000 // 8 * 5
    for _ in range(60):
        model.learn_many(*rows_of(estimator, 10, 1))
        assert model._core.challenger is None


@forests
def test_a_trial_ends_where_parameters_change(estimator):
    model = amid_a_trial(estimator)
    assert model.clone({"max_bytes": None}, include_attributes=True)._core.challenger is None
    assert model.clone(include_attributes=True)._core.challenger is not None
    model.max_bytes = 5_000_000
    assert model._core.challenger is None
    model = amid_a_trial(estimator)
    model.restarts = False
    assert model._core.challenger is None
    model.learn_many(*rows_of(estimator, 64, 1))
    model.learn_one({0: 1.0}, 7)
    assert model._core.challenger is None
    assert pickle.dumps(pickle.loads(pickle.dumps(model))) == pickle.dumps(model)


@forests
def test_a_new_forest_does_not_tell_whether_parameters_were_set_before(estimator):
    model = small(estimator, max_bytes=10_000_000)
    model.learn_many(*rows_of(estimator, 1000, 0))
    model.max_bytes = 20_000_000
    model.learn_many(*rows_of(estimator, 1500, 0, seed=1))
    other = pickle.loads(pickle.dumps(model))
    X, y = rows_of(estimator, 600, 1)
    had = 0
    for i in range(0, 600, 10):
        for each in (model, other):
            each.learn_many(X[i:i + 10], y[i:i + 10])
        had += model._core.challenger is not None
        assert pickle.dumps(model.snapshot()) == pickle.dumps(other.snapshot())
    assert had


@forests
def test_what_restarts_may_be(estimator):
    for value in ("no", 1, None):
        with pytest.raises(TypeError, match="restarts must be True or False, got"):
            estimator(restarts=value)
        with pytest.raises(TypeError, match="restarts must be True or False, got"):
            estimator().restarts = value


def test_labels_and_features_may_be_new_amid_a_trial():
    model = amid_a_trial(ForestClassifier)
    X, y = rows_of(ForestClassifier, 1200, 1, seed=3)
    for i, (row, label) in enumerate(zip(X.tolist(), y.tolist(), strict=True)):
        x = dict(enumerate(row)) | {"late": i % 7, "kind": f"kind {i % 3}"}
        assert sum(model.predict_proba_one(x).values()) == pytest.approx(1.0)
        model.learn_one(x, "another" if i % 5 == 0 else label)
    assert model._core.challenger is not None
    assert "another" in model.predict_proba_one({})
    small(ForestClassifier)._core.check_state(model.snapshot())


@pytest.mark.parametrize("seed", range(3))
def test_threads_are_one_where_labels_are_new_amid_a_trial(seed):
    """Rows that are not judged put the looks at losses out of step."""
    models = [ForestClassifier(3, window=1000) for _ in range(2)]
    models[1].n_jobs = 2
    X, y = joined(
        rows_of(ForestClassifier, 2500, 0), *[rows_of(ForestClassifier, 1500, k) for k in (1, 3)]
    )
    y = y.tolist()
    w = np.random.default_rng(seed).choice([0.0, 1.0, 10.0], size=len(y))
    for at in (2900, 3000 + seed, 4411):
        y[at], w[at] = f"new {at}", 1.0
    had = 0
    for i in range(0, len(y), 100):
        for model in models:
            model.learn_many(X[i:i + 100], y[i:i + 100], w[i:i + 100])
        had += models[0]._core.challenger is not None
        assert pickle.dumps(models[0].snapshot()) == pickle.dumps(models[1].snapshot())
    assert had > 10


@forests
def test_the_old_forest_answers_again_where_that_turns_round(estimator):
    model = small(estimator)
    model.learn_many(*rows_of(estimator, 6000, 0))
    before, seen = model._core.tree, []
    X, y = joined(rows_of(estimator, 400, 1), rows_of(estimator, 3000, 0, seed=1))
    for i in range(0, len(y), 20):
        model.learn_many(X[i:i + 20], y[i:i + 20])
        seen.append(model._core.tree is before)
    assert not all(seen)
    assert seen[-1]
    assert model._core.challenger is None


def test_a_scale_that_is_another_one_is_a_change_too():
    """Of both forests the errors count in one unit, whatever deviations they have met."""
    X, y = rows_of(ForestRegressor, 6000, 0)
    y[4000:] *= -30.0
    found = [errors(ForestRegressor(restarts=restarts), X, y)[5000:] for restarts in (True, False)]
    assert found[0].mean() < 0.95 * found[1].mean()


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
@pytest.mark.parametrize(
    "what", ["challenger is not None", "snapshot().get('challenge', {}).get('rows')"]
)
def test_a_forest_goes_on_where_memory_runs_out_for_another_one(what):
    assert run_short(AMID_A_TRIAL.format(what=what, n=60)) == "done\n"
