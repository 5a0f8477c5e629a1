"""Trees and forests that begin anew: where all has changed a new one takes over."""

import copy
import pickle

import numpy as np
import pytest
from scipy import sparse
from support.restarts import joined, rows_of, small
from support.shortage import can_run_short, run_short

from streamtree import (
    ExtraTreeClassifier,
    ExtraTreeRegressor,
    ForestClassifier,
    ForestRegressor,
    LOMTreeClassifier,
    ModelTreeClassifier,
    NonGreedyTreeClassifier,
    NonGreedyTreeMultiTargetRegressor,
    NonGreedyTreeRegressor,
    SelfTerminatingTreeClassifier,
    SoftTreeClassifier,
    merge,
)
from streamtree._core.store.checks import StateError
from streamtree.serialization import from_bytes, to_bytes

FORESTS = [ForestClassifier, ForestRegressor]
forests = pytest.mark.parametrize("estimator", FORESTS)
TREES = [
    ExtraTreeClassifier, ExtraTreeRegressor, ModelTreeClassifier, SelfTerminatingTreeClassifier,
]
each = pytest.mark.parametrize("estimator", [*FORESTS, *TREES])
# for how many rows a new one is tried out, at least
TRIED = 2048


def errors(model, X, y):
    """By how much numbers miss, or labels, which are in an order."""
    return np.abs(np.asarray(model.test_then_learn_many(X, y), dtype=float) - y)


def amid_a_trial(estimator, **params):
    """A model beside which a new one learns."""
    model = small(estimator, **params)
    model.learn_many(*rows_of(estimator, 2500, 0))
    X, y = rows_of(estimator, 600, 1)
    for i in range(0, 600, 10):
        model.learn_many(X[i:i + 10], y[i:i + 10])
        if model._core.challenger is not None:
            return model
    pytest.fail("there is no new one")


@each
def test_a_new_one_takes_over_where_all_has_changed(estimator):
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


@pytest.mark.parametrize(
    "estimator", [NonGreedyTreeClassifier, SelfTerminatingTreeClassifier]
)
def test_a_tree_of_noisy_labels_is_given_up_where_a_guess_errs_less(estimator):
    """It errs so much in any case that it can hardly err far more."""
    X, signs = joined(*[rows_of(estimator, 5000, k) for k in (0, 1)])
    y = (signs > 2) ^ (np.random.default_rng(2).random(len(X)) < 0.2)
    found = {}
    for restarts in (True, False):
        model = estimator(restarts=restarts)
        before = model._core.tree
        said = model.test_then_learn_many(X, y)
        assert (model._core.tree is not before) is restarts
        found[restarts] = np.mean(said[5000:] == y[5000:])
    assert found[True] > found[False] + 0.01


@each
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


@each
def test_a_batch_is_a_loop_and_threads_are_one(estimator):
    X, y = joined(rows_of(estimator, 2500, 0), rows_of(estimator, 2600, 1))
    models = [small(estimator) for _ in range(4)]
    if estimator in FORESTS:
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


@each
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


@pytest.mark.parametrize(("estimator", "params"), [
    (LOMTreeClassifier, {}), (LOMTreeClassifier, {"leaf_model": "majority"}),
    (ModelTreeClassifier, {}), (SelfTerminatingTreeClassifier, {}), (SoftTreeClassifier, {}),
])
def test_a_copy_takes_as_much_where_a_new_one_has_met_few_labels(estimator, params):
    X = np.random.default_rng(0).normal(size=(2900, 4))
    y = ((X[:, 0] > 0) ^ (np.arange(2900) >= 2500)).astype(int)
    y[:40] = range(40)
    model = estimator(**params)
    model.learn_many(X[:2500], y[:2500])
    is_amid = False
    for row, label in zip(X[2500:].tolist(), y[2500:].tolist(), strict=True):
        model.learn_one(dict(enumerate(row)), label)
        if not is_amid and model._core.challenger is not None:
            is_amid = True
            copied = copy.deepcopy(model)
            assert copied._core.learned_bytes == model._core.learned_bytes
    assert is_amid
    assert copy.deepcopy(model)._core.learned_bytes == model._core.learned_bytes


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


@each
def test_a_state_amid_a_trial_is_checked(estimator):
    model = amid_a_trial(estimator)
    core, state = small(estimator)._core, model.snapshot()
    core.check_state(state)
    # the other way round, too
    model._core.check_state(small(estimator).snapshot())
    good = state["challenge"]
    course = {**good["course"], "late": np.nan}
    for forged in (
        {}, None, {"tree": good["tree"]}, {**good, "rows": -1}, {**good, "rows": TRIED},
        {**good, "tree": {}}, {**good, "course": course}, {**good, "course": {}},
    ):
        with pytest.raises(StateError):
            core.check_state({**state, "challenge": forged})
    with pytest.raises(StateError):
        core.check_state({**state, "course": course})
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


@each
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


@each
def test_a_new_one_does_not_tell_whether_parameters_were_set_before(estimator):
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


@each
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


@each
def test_the_old_one_answers_again_where_that_turns_round(estimator):
    model = small(estimator)
    model.learn_many(*rows_of(estimator, 6000, 0))
    before, seen = model._core.tree, []
    # so many that the new one answers for a while, and no more
    n = 400 if estimator in FORESTS else 600
    X, y = joined(rows_of(estimator, n, 1), rows_of(estimator, 3000, 0, seed=1))
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


def test_errors_of_several_targets_count_in_the_units_of_their_scales():
    X, y = joined(*[rows_of(ForestRegressor, 3000, k) for k in (0, 1)])
    # small errors of the one in a large unit are not to hide those of the others
    many = np.column_stack([y, -y, 1e6 * X[:, 3]])
    found = {}
    for restarts in (True, False):
        model = NonGreedyTreeMultiTargetRegressor(restarts=restarts)
        before = model._core.tree
        said = np.asarray(model.test_then_learn_many(X, many))
        assert (model._core.tree is not before) is restarts
        found[restarts] = np.abs(said[3000:, 0] - y[3000:]).mean()
    assert found[True] < 0.8 * found[False]


def test_a_tree_of_many_labels_is_not_followed():
    """To ask for the shares of all of them would take longer than to learn the row."""
    model = LOMTreeClassifier()
    X, y = rows_of(ForestClassifier, 300, 0)
    model.learn_many(X, y)
    assert model.snapshot()["course"]["n"] > 290
    for label in range(10, 10 + 256):
        model.learn_many(X[:2], [label, label])
    before = model.snapshot()["course"]["n"]
    model.learn_many(X, y)
    assert model.snapshot()["course"]["n"] == before


@pytest.mark.parametrize(
    "estimator", [LOMTreeClassifier, NonGreedyTreeClassifier, SoftTreeClassifier]
)
def test_the_forms_of_the_papers_do_not_begin_anew(estimator):
    params = {"leaf_model": "majority"} if estimator is LOMTreeClassifier else {}
    model = estimator(algorithm="paper", **params)
    X, y = joined(*[rows_of(estimator, 2500, k) for k in (0, 1)])
    before = model._core.tree
    model.learn_many(X, y)
    model.learning_rate = 0.2
    model.learn_many(X, -y)
    assert model._core.tree is before
    assert model.snapshot()["course"]["n"] == 0


def test_models_amid_a_trial_are_not_merged():
    model = amid_a_trial(NonGreedyTreeRegressor)
    with pytest.raises(ValueError, match="a model tries out another tree"):
        merge([model, copy.deepcopy(model)], start=model)


def test_models_that_have_begun_anew_are_not_merged_with_their_start():
    start = NonGreedyTreeRegressor(start="zeros")
    X = np.random.default_rng(0).normal(size=(6000, 2))
    y = X @ [1.0, 2.0]
    start.learn_many(X, y)
    model, other = copy.deepcopy(start), copy.deepcopy(start)
    model.learn_many(X[:3000], -y[:3000])
    other.learn_many(X[:100], y[:100])
    assert model._core.challenger is None
    with pytest.raises(ValueError, match="a model has begun anew"):
        merge([other, model], start=start)
    courses = [each.snapshot()["course"] for each in (start, other, merge([other], start=start))]
    assert courses[0] != courses[1]
    assert courses[2] == pytest.approx(courses[1])


def test_a_regressor_that_has_begun_anew_in_its_first_rows_is_not_merged():
    X = np.random.default_rng(0).normal(size=(64, 2))
    y = X @ [1.0, 2.0]
    y[20] = 1e6
    start = NonGreedyTreeRegressor(start="zeros", restarts=False)

    def learn_and_merge(start, rows):
        models = []
        for half in (rows[: len(rows) // 2], rows[len(rows) // 2 :]):
            models.append(copy.deepcopy(start))
            models[-1].learn_many(X[half], y[half])
        return merge(models, start=start)

    for at in range(0, 56, 8):
        start = learn_and_merge(start, range(at, at + 8))
    with pytest.raises(ValueError, match="only a regressor does, in its first 32 rows"):
        learn_and_merge(start, range(56, 64))
    start = learn_and_merge(NonGreedyTreeRegressor(start="zeros", restarts=False), range(64))
    assert learn_and_merge(start, range(8)).snapshot()["scaler"]["rows"] == 72


def test_how_a_forest_has_erred_is_not_how_its_members_have():
    model = small(ForestRegressor)
    model.learn_many(*rows_of(ForestRegressor, 1500, 0))
    assert model.snapshot()["course"]["n"] > 1400
    for member in (model.member("soft"), model.member("extra", tree=0)):
        assert member.snapshot()["course"]["n"] == 0


@pytest.mark.parametrize("estimator", [LOMTreeClassifier, ModelTreeClassifier])
def test_a_trial_ends_where_labels_are_too_many_to_be_followed(estimator):
    """Else a new one that was not judged yet would take over."""
    model = estimator()
    label = np.arange(6000) % 250
    X = np.column_stack([label % 5, label // 5 % 5, label // 25]).astype(float)
    model.learn_many(X[:4000], label[:4000])
    before = model._core.tree
    for i in range(4000, 6000):
        model.learn_one(dict(enumerate(X[i])), 249 - int(label[i]))
        if model._core.challenger is not None:
            break
    for label in range(1000, 1007):
        assert model._core.challenger is not None
        model.learn_many(X[:2], [label, label])
    assert len(model.labels) == 257
    for i in range(200):
        model.learn_one(dict(enumerate(X[i])), 1000 + i % 7)
        assert model._core.tree is before
        assert model._core.challenger is None


def follow_wide(model, n_columns, at):
    """Learn wide rows of six labels, of which the other way round holds from row `at` on."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(at + 2400, n_columns))
    told = X[:, 0] + 2.0 * X[:, 1]
    y = np.digitize(told * np.repeat([1.0, -1.0], [at, 2400]), [-2.0, -1.0, 0.0, 1.0, 2.0])
    for i in range(0, len(y), 50):
        model.learn_many(X[i:i + 50], y[i:i + 50])
        yield model


def test_both_windows_stay_within_the_bound():
    """A window of its own would have filled all of the memory for each."""
    had = 0
    for model in follow_wide(ExtraTreeClassifier(window=100_000, max_bytes=600_000), 4, at=2300):
        had += model._core.challenger is not None
        assert model._core.learned_bytes <= 600_000 // 8 * 5
    assert had


def test_a_new_one_finds_room_for_labels_beside_one_that_takes_much():
    model = SoftTreeClassifier(max_bytes=700_000)
    before, least = model._core.tree, []
    for _ in follow_wide(model, 60, at=3000):
        if model._core.challenger is not None:
            least.append(model.snapshot()["challenge"]["tree"]["n_classes"])
    assert min(least) == 6
    assert model._core.tree is not before


def test_what_is_asked_does_not_change_what_is_learned():
    """A row that was predicted before is learned as one that was not."""
    for estimator in TREES:
        X, y = joined(*[rows_of(estimator, 2500, k) for k in (0, 1)])
        model, asked = small(estimator), small(estimator)
        model.learn_many(X, y)
        for row, target in zip(X.tolist(), y.tolist(), strict=True):
            x = dict(enumerate(row))
            if issubclass(estimator, ExtraTreeClassifier | ModelTreeClassifier):
                asked.predict_proba_one(x)
            asked.predict_one(x)
            asked.learn_one(x, target)
        assert pickle.dumps(model.snapshot()) == pickle.dumps(asked.snapshot())


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
