"""The learners as scikit-learn's estimators."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
from support.estimators import ESTIMATORS
from support.isolated import run_isolated
from support.streams import blobs

pytest.importorskip("sklearn")

from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import streamtree
import streamtree.sklearn as wrapped
from streamtree.base import StreamClassifier, StreamRegressor

WEIGHTS = "learning a row once with weight 2 is not learning it twice, in any online learner"
NAMES = sorted(
    each.__name__
    for each in ESTIMATORS
    if issubclass(each, (StreamClassifier, StreamRegressor))
)
CLASSIFIERS = [name for name in NAMES if name.endswith("Classifier")]


def made(name, **params):
    return getattr(wrapped, name)(**params)


# one of each kind: what is wrapped is looked at by the tests of the learners
@parametrize_with_checks(
    [made("ModelTreeClassifier"), made("SoftTreeRegressor"), made("ForestClassifier")],
    expected_failed_checks=lambda estimator: {
        "check_sample_weight_equivalence_on_dense_data": WEIGHTS,
        "check_sample_weight_equivalence_on_sparse_data": WEIGHTS,
    },
)
def test_the_checks_of_scikit_learn(estimator, check):
    check(estimator)


def test_every_learner_of_one_target_is_there():
    assert wrapped.__all__ == NAMES
    with pytest.raises(AttributeError, match=r"only .*ModelTreeClassifier"):
        _ = wrapped.NoSuchTree
    for name in NAMES:
        ours = getattr(streamtree, name)()._get_params()
        threads = {"n_jobs": None} if name.startswith("Forest") else {}
        assert made(name).get_params() == {**ours, "shuffle": True, **threads}


@pytest.mark.parametrize("name", NAMES)
def test_without_shuffling_it_is_the_learner(name):
    X, y = blobs(300, 3, features=4, spread=2.0)
    X[::7, 1] = np.nan
    w = np.random.default_rng(0).integers(1, 4, len(y)).astype(float)
    y = y if name in CLASSIFIERS else X[:, 0] + y
    plain = getattr(streamtree, name)()
    plain.learn_many(X, y, w)
    fitted = made(name, shuffle=False).fit(X, y, sample_weight=w)
    parts = made(name)
    for rows in (slice(0, 120), slice(120, 300)):
        parts.partial_fit(X[rows], y[rows], sample_weight=w[rows])
    again = pickle.loads(pickle.dumps(fitted))
    sparse = made(name, shuffle=False).fit(sp.csr_matrix(X), y, sample_weight=w)
    for model in (fitted, parts, again, sparse):
        assert pickle.dumps(model.model_) == pickle.dumps(plain)
        np.testing.assert_array_equal(model.predict(X), plain.predict_many(X))
        assert model.n_features_in_ == 4
    if name in CLASSIFIERS:
        shares = fitted.predict_proba(X)
        assert fitted.classes_.tolist() == [0, 1, 2]
        np.testing.assert_allclose(shares.sum(axis=1), 1.0, atol=1e-9)
        order = [plain.labels.index(label) for label in (0, 1, 2)]
        np.testing.assert_array_equal(shares, plain.predict_proba_many(X)[:, order])


def mixed(n=400, seed=0):
    rng = np.random.default_rng(seed)
    kind, size = rng.choice(["u", "v", "w"], n), rng.choice(["small", "large"], n)
    number = rng.normal(size=n)
    y = np.where(number > 1.0 * (kind == "u") - 0.5 * (size == "large"), "yes", "no")
    return {"number": number, "kind": kind, "size": size}, y


@pytest.mark.parametrize("name", CLASSIFIERS)
@pytest.mark.parametrize("backend", ["pandas", "polars"])
def test_frames_with_strings_and_categories(name, backend):
    columns, y = mixed()
    if backend == "pandas":
        X = pd.DataFrame(columns)
        X["size"] = X["size"].astype("category")
    else:
        X = pl.DataFrame(columns).with_columns(pl.col("size").cast(pl.Categorical))
    model = made(name).fit(X[:300], y[:300])
    assert model.feature_names_in_.tolist() == ["number", "kind", "size"]
    assert np.mean(model.predict(X[300:]) == y[300:]) > 0.7
    assert model.score(X[300:], y[300:]) > 0.7
    assert model.predict_proba(X[300:]).shape == (100, 2)
    assert model.feature_importances_.shape == (3,)
    with pytest.raises(ValueError, match="feature names"):
        model.predict(X[["kind", "number", "size"]])


@pytest.mark.parametrize("name", ["ModelTreeClassifier", "SoftTreeRegressor"])
def test_a_record_batch_is_a_table(name):
    columns, y = mixed()
    y = pa.array(y == "yes")
    table = pa.table(columns)
    (batch,) = table.to_batches()
    for method in ("fit", "partial_fit"):
        models = [getattr(made(name), method)(X, y) for X in (table, batch)]
        assert pickle.dumps(models[0]) == pickle.dumps(models[1])
        assert models[1].score(batch, y) > 0.3
        np.testing.assert_array_equal(models[0].predict(table), models[0].predict(batch))


EMPTY = {
    "no rows": {"number": [], "kind": [], "size": []},
    "no columns": {},
}


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
@pytest.mark.parametrize("empty", EMPTY)
@pytest.mark.parametrize("frame", [pa.table, pa.record_batch, pd.DataFrame, pl.DataFrame])
def test_frames_of_nothing_are_refused(frame, empty):
    columns, y = mixed()
    model, nothing = made("ModelTreeClassifier"), frame(EMPTY[empty])
    for call in (
        lambda: model.fit(nothing, []), lambda: model.partial_fit(nothing, []),
        lambda: model.fit(frame(columns), y).predict(nothing), lambda: model.predict_proba(nothing),
        lambda: model.partial_fit(nothing, []),
    ):
        with pytest.raises(ValueError, match=r"0 sample|X has 0 features"):
            call()


def test_rows_without_columns_and_frames_without_rows_yet_are_refused():
    X, model = pd.DataFrame({"a": [0.0, 1.0] * 30}), made("ModelTreeClassifier")
    with pytest.raises(ValueError, match=r"0 feature\(s\) \(shape=\(60, 0\)\)"):
        model.fit(X[[]], [0, 1] * 30)
    for call in (lambda lazy: model.fit(lazy, [0, 1] * 30), model.fit(X, [0, 1] * 30).predict):
        with pytest.raises(TypeError, match="a data frame, got LazyFrame"):
            call(pl.from_pandas(X).lazy())


def test_columns_go_by_name_or_by_place():
    X, y = blobs(300, 3, features=3, spread=2.0)
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    named = made("ModelTreeClassifier", grace_period=1e9).fit(frame, y)
    plain = made("ModelTreeClassifier", grace_period=1e9).fit(X, y)
    assert {str(name) for name in named.model_.feature_importances()} <= {"a", "b", "c"}
    np.testing.assert_array_equal(named.predict(frame), plain.predict(X))
    with pytest.warns(UserWarning, match="valid feature names"):
        np.testing.assert_array_equal(named.predict(X), plain.predict(X))
    numbered = made("ModelTreeClassifier", grace_period=1e9).fit(pd.DataFrame(X), y)
    np.testing.assert_array_equal(numbered.predict(X), plain.predict(X))


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
@pytest.mark.filterwarnings("ignore:X (has|does not have valid) feature names")
def test_sparse_rows_and_frames_have_the_same_columns(frame):
    X, y = blobs(300, 3, features=3, spread=2.0)
    rows, named = sp.csr_array(X), frame({name: X[:, i] for i, name in enumerate("abc")})
    for first, second in ((rows, named), (named, rows), (named, pd.DataFrame(X))):
        model = made("ModelTreeClassifier").fit(first, y)
        np.testing.assert_array_equal(model.predict(second), model.predict(first))
        wanted = clone(model).partial_fit(first, y).partial_fit(first, y)
        mixed = clone(model).partial_fit(first, y).partial_fit(second, y)
        assert pickle.dumps(mixed.model_) == pickle.dumps(wanted.model_)
        np.testing.assert_array_equal(mixed.feature_importances_, wanted.feature_importances_)


@pytest.mark.parametrize("name", NAMES)
def test_strings_in_columns_that_go_by_numbers(name):
    columns, y = mixed()
    X, y = pd.DataFrame(columns), y if name in CLASSIFIERS else (y == "yes") * 1.0
    X.columns = [7, 3, 5]
    model = made(name, shuffle=False).fit(X, y)
    plain = getattr(streamtree, name)()
    plain.learn_many(X.set_axis(range(3), axis=1), y)
    assert pickle.dumps(model.model_) == pickle.dumps(plain)
    assert not hasattr(model, "feature_names_in_")
    assert model.feature_importances_.sum() == pytest.approx(1.0)


def test_importances_of_columns_that_names_share_are_nobodys():
    X = pd.DataFrame({"u": [f"u{i}" for i in range(3000)], "b": range(3000)})
    with pytest.warns(UserWarning, match="share a few columns"):
        model = made("ModelTreeClassifier", max_bytes=2**18).fit(X, [0, 1, 2] * 1000)
    own = model.model_.feature_importances()
    assert model.feature_importances_.tolist() == [own["u"], own["b"]]
    assert 0.0 < model.feature_importances_.sum() < 1.0


def test_importances_tell_the_column_that_matters():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 3))
    y = np.sin(3.0 * X[:, 1])
    model = made("SelfTerminatingTreeRegressor").fit(X, y)
    assert model.feature_importances_.argmax() == 1
    assert model.feature_importances_.sum() == pytest.approx(1.0)


def test_sorted_rows_are_shuffled():
    X, y = load_iris(return_X_y=True)
    scores = {
        shuffle: cross_val_score(made("ModelTreeClassifier", shuffle=shuffle), X, y).mean()
        for shuffle in (True, False)
    }
    assert scores[True] > 0.93
    assert scores[False] < scores[True]


def test_labels_that_come_later():
    X, y = blobs(300, 3, features=3, spread=3.0)
    names = np.array(["b", "c", "a"])[y]
    model = made("ModelTreeClassifier").partial_fit(X[:5], np.full(5, "b"))
    assert model.predict_proba(X[:2]).tolist() == [[1.0], [1.0]]
    model.partial_fit(X, names)
    assert model.classes_.tolist() == ["a", "b", "c"]
    assert model.predict_proba(X).argmax(axis=1).tolist() == [
        "abc".index(each) for each in model.predict(X)
    ]
    given = made("ModelTreeClassifier").partial_fit(X[:5], np.full(5, "b"), classes=["b", "a", "c"])
    assert given.predict_proba(X[:1]).tolist() == [[0.0, 1.0, 0.0]]
    with pytest.raises(ValueError, match="not in classes"):
        given.partial_fit(X[:1], ["d"])
    with pytest.raises(ValueError, match="differ from those before"):
        given.partial_fit(X[:1], ["a"], classes=["a", "b"])
    assert given.classes_.tolist() == ["a", "b", "c"]
    fresh = made("ModelTreeClassifier")
    with pytest.raises(ValueError, match=r"'c', which is not in classes=\['a' 'b'\]"):
        fresh.partial_fit(X, names, classes=["a", "b"])
    assert vars(fresh) == vars(made("ModelTreeClassifier"))


def test_labels_that_another_thread_learns_amid_a_prediction(monkeypatch):
    """It learned the last two rows just after the model has said what it says."""
    X, y = np.arange(8.0).reshape(8, 1), np.array(list("bcbcbcad"))
    fitted = made("ModelTreeClassifier").partial_fit(X[:6], y[:6])
    before = fitted.predict_proba(X)
    ask = fitted.model_.predict_proba_many

    def ask_and_learn(rows):
        said = ask(rows)
        fitted.partial_fit(X[6:], y[6:])
        return said

    monkeypatch.setattr(fitted.model_, "predict_proba_many", ask_and_learn)
    said = fitted.predict_proba(X)
    assert fitted.classes_.tolist() == list("abcd")
    assert said[:, 1:3].tolist() == before.tolist()
    assert not said[:, [0, 3]].any()


@pytest.mark.parametrize("kinds", [(int, str), (str, int), (object, float)])
def test_labels_of_another_kind_are_refused(kinds):
    X, y = blobs(100, 2, features=3, spread=2.0)
    first, second = (y.astype(str).astype(kind) for kind in kinds)
    model = made("ModelTreeClassifier").partial_fit(X, first)
    said = model.predict_proba(X)
    with pytest.raises(ValueError, match=r"labels like '?0.*before are like '?0"):
        model.partial_fit(X, second)
    np.testing.assert_array_equal(model.predict_proba(X), said)
    with pytest.raises(ValueError, match="not in classes"):
        made("ModelTreeClassifier").partial_fit(X, second, classes=np.unique(first))


@pytest.mark.parametrize("unit", ["ns", "s"])
def test_labels_that_are_dates(unit):
    X, y = blobs(100, 2, features=3, spread=2.0)
    days = (np.datetime64("2025-01-01") + y).astype(f"datetime64[{unit}]")
    model = made("ModelTreeClassifier").fit(X, days)
    plain = made("ModelTreeClassifier").fit(X, y)
    np.testing.assert_array_equal(model.predict(X), model.classes_[plain.predict(X)])
    np.testing.assert_array_equal(model.predict_proba(X), plain.predict_proba(X))


@pytest.mark.parametrize("kind", ["datetime64[ns]", "timedelta64[s]", str])
def test_targets_that_are_no_numbers_are_refused(kind):
    with pytest.raises(TypeError, match="y must be numeric, got dtype"):
        made("SoftTreeRegressor").fit(np.zeros((3, 1)), np.arange(3).astype(kind))


X_GOOD, Y_GOOD = blobs(100, 2, features=3, spread=2.0)
BAD = {
    "length": (X_GOOD, np.arange(7, 9), {}),
    "negative weight": (X_GOOD, Y_GOOD + 7, {"sample_weight": -np.ones(100)}),
    "large weight": (X_GOOD, Y_GOOD + 7, {"sample_weight": np.full(100, 1e101)}),
    "infinite cell": (X_GOOD + np.inf, Y_GOOD + 7, {}),
    "infinite cell of a frame": (pd.DataFrame(X_GOOD + np.inf), Y_GOOD + 7, {}),
    "columns": (X_GOOD[:, :2], Y_GOOD + 7, {"sample_weight": -np.ones(100)}),
}


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("method", ["fit", "partial_fit"])
@pytest.mark.parametrize("name", ["ModelTreeClassifier", "SoftTreeRegressor"])
def test_a_failed_call_leaves_all_as_it_was(name, method, bad):
    X, y, others = BAD[bad]
    for model in (made(name), made(name).fit(X_GOOD, Y_GOOD)):
        model.set_params(learning_rate=0.5)
        before = pickle.dumps(model)
        with pytest.raises(ValueError, match=r"rows|weight|infinit|features|w must be"):
            getattr(model, method)(X, y, **others)
        assert pickle.dumps(model) == before


@pytest.mark.parametrize("learned", [0, 60])
def test_rows_that_were_learned_before_an_interrupt_stay(learned, monkeypatch):
    learn_many = streamtree.ModelTreeClassifier.learn_many

    def interrupted(self, X, y, w=None):
        learn_many(self, X[:learned], y[:learned])
        error = KeyboardInterrupt()
        error.rows_learned = learned
        raise error

    model = made("ModelTreeClassifier").partial_fit(X_GOOD, Y_GOOD)
    monkeypatch.setattr(streamtree.ModelTreeClassifier, "learn_many", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.partial_fit(X_GOOD, Y_GOOD + 1)
    assert model.classes_.tolist() == sorted(model.model_.labels)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X_GOOD, Y_GOOD + 7)
    assert model.classes_.tolist() == sorted(model.model_.labels)


def test_set_params_reaches_a_learner_that_goes_on():
    X, y = blobs(200, 2, features=3, spread=2.0)
    model = made("ModelTreeClassifier").partial_fit(X, y)
    model.set_params(learning_rate=0.5).partial_fit(X, y)
    assert model.model_.learning_rate == 0.5
    with pytest.raises(AttributeError, match=r"'leaf_model' is fixed .*`fit` begins anew"):
        model.set_params(leaf_model="softmax").partial_fit(X, y)
    assert model.fit(X, y).model_.leaf_model == "softmax"


def test_in_a_pipeline_and_a_search():
    X, y = blobs(400, 3, features=4, spread=1.5)
    search = GridSearchCV(
        make_pipeline(StandardScaler(), made("ModelTreeClassifier")),
        {"modeltreeclassifier__learning_rate": [0.1, 2.5]}, cv=3,
    ).fit(X, y)
    assert search.best_score_ > 0.7
    assert clone(search.best_estimator_[-1]).learning_rate in (0.1, 2.5)


def test_without_scikit_learn_the_import_says_what_to_install():
    said = run_isolated(
        """
        import sys
        sys.modules["sklearn"] = None
        try:
            import streamtree.sklearn
        except ImportError as error:
            print(error)
        """
    )
    assert "pip install 'streamtree-learn[sklearn]'" in said


@pytest.mark.parametrize("name", ["ForestClassifier", "ForestRegressor"])
def test_forests_work_in_as_many_threads_as_they_are_told(name):
    X, y = blobs(200, 2, features=3, spread=2.0)
    one, two = made(name).fit(X, y), made(name, n_jobs=2).fit(X, y)
    assert (one.model_.n_jobs, two.model_.n_jobs) == (1, 2)
    assert (one.predict(X) == two.predict(X)).all()
    again = clone(two).partial_fit(X, y)
    assert again.model_.n_jobs == 2
    two.set_params(n_jobs=None).predict(X)
    assert two.model_.n_jobs == 1
    with pytest.raises(ValueError, match="n_jobs must be -1 or at least 1"):
        made(name, n_jobs=0).fit(X, y)


def test_logarithms_of_probabilities():
    X, y = blobs(200, 3, features=3, spread=2.0)
    fitted = made("ModelTreeClassifier").fit(X, y)
    assert np.allclose(np.exp(fitted.predict_log_proba(X)), fitted.predict_proba(X))


def test_nominal_attributes_name_columns_that_there_are():
    X = pd.DataFrame({70: [1, 2, 3] * 20, 71: [0.5] * 60})
    y = [0, 1, 0] * 20
    with pytest.raises(ValueError, match=r"no column 70; .* by their places from 0"):
        made("ModelTreeClassifier", nominal_attributes=[70]).fit(X, y)
    assert made("ModelTreeClassifier", nominal_attributes=[0]).fit(X, y).score(X, y) == 1.0
    assert made("ModelTreeClassifier", nominal_attributes=[0]).fit(X.to_numpy(), y).score(
        X.to_numpy(), y
    ) == 1.0
    with pytest.raises(TypeError, match="must be a list of names, got RangeIndex"):
        made("ModelTreeClassifier", nominal_attributes=X.columns).fit(X, y)


def test_parameters_of_scikit_learn_that_are_not_here_say_what_is():
    with pytest.raises(TypeError, match=r"'class_weight': .* fit\(X, y, sample_weight\)"):
        made("ModelTreeClassifier", class_weight="balanced")
