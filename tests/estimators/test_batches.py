"""A batch is a loop: by every route the same stream gives the same bytes."""

import datetime
import pickle
import warnings
from decimal import Decimal
from functools import partial

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from support.isolated import run_isolated
from support.strategies import arrays, chunkings, settings
from support.streams import as_dicts, blobs, changing_rows

from streamtree import (
    LOMTreeClassifier,
    ModelTreeClassifier,
    NonGreedyTreeMultiTargetRegressor,
    SoftTreeRegressor,
)


def learn_loop(model, rows, labels, weights=None):
    for i, (x, y) in enumerate(zip(rows, labels, strict=True)):
        model.learn_one(x, y, w=1.0 if weights is None else weights[i])
    return model


def by_rows(rows, labels, weights=None, **params):
    return pickle.dumps(learn_loop(LOMTreeClassifier(**params), rows, labels, weights))


def by_batch(X, labels, weights=None, **params):
    model = LOMTreeClassifier(**params)
    model.learn_many(X, labels, weights)
    return pickle.dumps(model)


def messy_csr(X, kind, rng):
    """The same matrix with shuffled indices, explicit zeros and cells in two halves."""
    data, indices, indptr = [], [], [0]
    for line in X:
        cells = []
        for j, value in enumerate(line.tolist()):
            if value != 0.0 and rng.random() < 0.3:
                cells += [(j, value / 2), (j, value / 2)]
            elif value != 0.0 or rng.random() < 0.3:
                cells.append((j, value))
        for at in rng.permutation(len(cells)):
            indices.append(cells[at][0])
            data.append(cells[at][1])
        indptr.append(len(data))
    parts = np.array(data), np.array(indices, dtype=np.int32), np.array(indptr, dtype=np.int32)
    return kind(parts, shape=X.shape)


PARAMS = [
    {"grace_period": 5, "max_leaf_classes": 2},
    {"algorithm": "paper", "learning_rate": 1e-4, "max_splits": 9, "swap_resistance": 1},
    {"loss": "logistic", "seed": 3, "grace_period": 5, "max_splits": 4, "swap_resistance": 1,
     "max_leaf_classes": 3},
]
params_cases = pytest.mark.parametrize("params", PARAMS, ids=["stream", "paper", "seeded"])


def mixed_matrix(n=500):
    """Whole numbers from 0 to 255 in dense, sparse and constant columns, and labels."""
    rng = np.random.default_rng(8)
    X, y = blobs(n, classes=7, features=6, spread=12.0, seed=8)
    X = np.clip(np.round(X * 3 + 100), 0, 255)
    sparse = (rng.random((n, 12)) < 0.15) * rng.integers(1, 9, size=(n, 12))
    half = (rng.random((n, 2)) < 0.5) * rng.integers(1, 200, size=(n, 2))
    return np.hstack([X, sparse, half, np.full((n, 1), 3.0), np.zeros((n, 1))]), y


@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
@params_cases
def test_every_array_route_gives_the_bytes_of_the_loop(params):
    X, y = mixed_matrix()
    rng = np.random.default_rng(0)
    expected = by_rows(as_dicts(X), y.tolist(), **params)
    assert pickle.loads(expected).n_splits > 1
    for name, batch in {
        "float64": X,
        "float64 in Fortran's order": np.asfortranarray(X),
        "float64 strided": np.repeat(X, 2, axis=1)[:, ::2],
        "float64 read-only": np.frombuffer(X.tobytes()).reshape(X.shape),
        "float64 of the other byte order": X.astype(X.dtype.newbyteorder()),
        "float32": X.astype(np.float32),
        "float16": X.astype(np.float16),
        "longdouble": X.astype(np.longdouble),
        "uint8": X.astype(np.uint8),
        "int16": X.astype(np.int16),
        "uint64": X.astype(np.uint64),
        "matrix": np.asmatrix(X),
        "csr_matrix": sp.csr_matrix(X),
        "csr_array": sp.csr_array(X),
        "csr_array of float32": sp.csr_array(X.astype(np.float32)),
        "csr_array of uint8": sp.csr_array(X.astype(np.uint8)),
        "csc_array": sp.csc_array(X),
        "coo_matrix": sp.coo_matrix(X),
        "lil_matrix": sp.lil_matrix(X),
        "messy csr_matrix": messy_csr(X, sp.csr_matrix, rng),
        "messy csr_array": messy_csr(X, sp.csr_array, rng),
        "pandas": pd.DataFrame(X),
        "pandas of mixed dtypes": pd.DataFrame(X).astype({0: "uint8", 1: "Int64", 2: "float32"}),
    }.items():
        assert by_batch(batch, y, **params) == expected, name


@params_cases
def test_every_frame_gives_the_bytes_of_the_loop(params):
    X, y = mixed_matrix()
    names = [f"column {j}" for j in range(X.shape[1])]
    expected = by_rows(as_dicts(X, names), y.tolist(), **params)
    for name, frame, labels in (
        ("pandas", pd.DataFrame(X, columns=names), pd.Series(y)),
        ("pandas with an index", pd.DataFrame(X, columns=names, index=range(900, 400, -1)), y),
        ("polars", pl.DataFrame(X, schema=names), pl.Series(y)),
        ("polars of ints", pl.DataFrame(X.astype(np.int64), schema=names), y.tolist()),
        ("pyarrow", pa.table(dict(zip(names, X.T, strict=True))), pa.array(y)),
        ("a batch of pyarrow", pa.record_batch(dict(zip(names, X.T, strict=True))), pa.array(y)),
    ):
        assert by_batch(frame, labels, **params) == expected, name


def test_booleans_are_numbers():
    X, y = mixed_matrix(200)
    X = X > 3
    expected = by_rows(as_dicts(X), y.tolist(), grace_period=5)
    for batch in (X, X.astype(float), np.asfortranarray(X), sp.csr_array(X), pd.DataFrame(X)):
        assert by_batch(batch, y, grace_period=5) == expected


@given(
    X=arrays(max_columns=4, max_rows=60), params=settings, data=st.data(), seed=st.integers(0, 99)
)
def test_routes_agree_on_any_array(X, params, data, seed):
    """Dicts, dense and sparse, whole and in chunks, weighted; the sparse one is a mess."""
    rng = np.random.default_rng(seed)
    y = rng.integers(3, size=len(X)).tolist()
    w = rng.choice([0.0, 0.7, 1.0, 2.5], size=len(X))
    expected = by_rows(as_dicts(X), y, w.tolist(), **params)
    assert by_batch(X, y, w, **params) == expected
    assert by_batch(messy_csr(X, sp.csr_array, rng), y, w, **params) == expected
    model = LOMTreeClassifier(**params)
    for rows in data.draw(chunkings(len(X))):
        part = X[rows] if rng.random() < 0.5 else messy_csr(X[rows], sp.csr_matrix, rng)
        model.learn_many(part, y[rows], w[rows])
        if rng.random() < 0.3:
            model = pickle.loads(pickle.dumps(model))
    assert pickle.dumps(model) == expected


@given(
    X=arrays(cells=st.sampled_from([0.0, 1.0, 2.0, -7.5, float("nan")])),
    params=settings,
    data=st.data(),
    seed=st.integers(0, 99),
)
def test_missing_cells_are_missing_features(X, params, data, seed):
    rng = np.random.default_rng(seed)
    y = rng.integers(3, size=len(X)).tolist()
    without = [
        {j: value for j, value in enumerate(line) if value == value} for line in X.tolist()
    ]
    expected = by_rows(without, y, **params)
    as_none = [{j: None if v != v else v for j, v in enumerate(line)} for line in X.tolist()]
    assert by_rows(as_dicts(X), y, **params) == expected
    assert by_rows(as_none, y, **params) == expected
    assert by_batch(X, y, **params) == expected
    assert by_batch(X.astype(np.float32), y, **params) == expected
    assert by_batch(sp.csr_array(X), y, **params) == expected
    assert by_batch(pd.DataFrame(X), y, **params) == expected
    assert by_batch(pd.DataFrame(X).convert_dtypes(), y, **params) == expected
    masked = np.ma.masked_array(np.nan_to_num(X, nan=4.0), mask=np.isnan(X))
    assert by_batch(masked, y, **params) == expected
    model = LOMTreeClassifier(**params)
    for rows in data.draw(chunkings(len(X))):
        model.learn_many(X[rows] if rng.random() < 0.5 else sp.csr_array(X[rows]), y[rows])
    assert pickle.dumps(model) == expected


@given(seed=st.integers(0, 10**6), params=settings)
def test_columns_come_and_go_between_chunks(seed, params):
    """Chunks of different widths; a sparse chunk implies zeros in its own columns only."""
    rng = np.random.default_rng(seed)
    loop, batch = LOMTreeClassifier(**params), LOMTreeClassifier(**params)
    for _ in range(5):
        n, p = int(rng.integers(0, 12)), int(rng.integers(0, 9))
        X = rng.integers(-2, 3, size=(n, p)).astype(float) * (rng.random((n, p)) < 0.6)
        y = rng.integers(4, size=n).tolist()
        learn_loop(loop, as_dicts(X), y)
        batch.learn_many(X if rng.random() < 0.5 else sp.csr_array(X), y)
        if rng.random() < 0.5:  # and dicts of some of the columns in between
            rows = [{int(j): float(rng.integers(3)) for j in rng.integers(9, size=3)}]
            learn_loop(loop, rows, [1])
            learn_loop(batch, rows, [1])
        assert pickle.dumps(batch) == pickle.dumps(loop)


@pytest.mark.parametrize("route", ["dense", "sparse"])
def test_labels_that_come_late_leave_what_was_before_alone(route):
    """A batch knows all its labels from the start; that must not change a bit."""
    X, y = blobs(3000, classes=12, features=5, spread=3.0, seed=1)
    y[1500:] += 100 * (np.arange(1500) // 7)
    w = np.random.default_rng(0).uniform(0.1, 2.0, size=3000)
    expected = by_rows(as_dicts(X), y.tolist(), w.tolist())
    assert by_batch(X if route == "dense" else sp.csr_array(X), y, w) == expected
    model = LOMTreeClassifier()
    for rows in (slice(0, 700), slice(700, 1600), slice(1600, 3000)):
        model.learn_many(X[rows], y[rows], w[rows])
        model = pickle.loads(pickle.dumps(model))
    assert pickle.dumps(model) == expected


# ------------------------------------------------------------- frames with text


def frame_rows(n=300):
    """Rows with text, numbers, booleans and gaps under the same names, and labels."""
    rng = np.random.default_rng(4)
    rows, labels = [], []
    for _ in range(n):
        y = int(rng.integers(3))
        rows.append(
            {
                "colour": ["red", "green", "blue"][(y + int(rng.random() < 0.2)) % 3],
                "size": None if rng.random() < 0.1 else float(y + rng.normal()),
                "spare": "red" if rng.random() < 0.5 else None,  # a text of another column
                "flag": bool(rng.random() < 0.5),
                "count": int(rng.integers(5)),
            }
        )
        labels.append(["zero", "one", "red"][y])
    return rows, labels


FRAMES = {
    "pandas": pd.DataFrame,
    "pandas objects": lambda rows: pd.DataFrame(rows, dtype=object),
    "pandas nullable": lambda rows: pd.DataFrame(rows).convert_dtypes(),
    "pandas categories": lambda rows: pd.DataFrame(rows).astype(
        {"colour": "category", "spare": "category"}
    ),
    "polars": pl.DataFrame,
    "polars categories": lambda rows: pl.DataFrame(rows).with_columns(
        pl.col("colour", "spare").cast(pl.Categorical)
    ),
    "pyarrow": pa.Table.from_pylist,
}


@pytest.mark.parametrize("kind", FRAMES)
def test_a_frame_with_text_is_a_loop_over_dicts(kind):
    rows, labels = frame_rows()
    weights = np.random.default_rng(1).choice([0.0, 1.0, 2.0], size=len(rows))
    frame = FRAMES[kind](rows)
    assert by_batch(frame, labels, grace_period=5) == by_rows(rows, labels, grace_period=5)
    params = {"grace_period": 5, "leaf_model": "majority"}
    model = LOMTreeClassifier(**params)
    model.learn_many(frame, labels, weights)
    loop = learn_loop(LOMTreeClassifier(**params), rows, labels, weights.tolist())
    assert pickle.dumps(model) == pickle.dumps(loop)
    assert model.n_splits >= 2
    predicted = model.predict_many(frame)
    predicted = predicted.to_pylist() if kind == "pyarrow" else predicted.to_list()
    assert predicted == [loop.predict_one(x) for x in rows]
    assert proba_lists(model.predict_proba_many(frame)) == [
        list(loop.predict_proba_one(x).values()) for x in rows
    ]


def proba_lists(frame):
    if isinstance(frame, pa.Table):
        return [list(row.values()) for row in frame.to_pylist()]
    return frame.to_numpy().tolist()


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_a_bad_cell_in_a_frame_with_text_changes_nothing(kind):
    rows, labels = frame_rows(20)
    model = learn_loop(ModelTreeClassifier(), rows, labels)
    before = pickle.dumps(model)
    rows[17]["size"] = float("inf")
    with pytest.raises(ValueError, match=r"'size'.*infinite"):
        model.learn_many(FRAMES[kind](rows), [*labels[:19], "new"])
    with pytest.raises(ValueError, match=r"'size'.*infinite"):
        model.predict_many(FRAMES[kind](rows))
    frame = FRAMES[kind](rows[:3])
    stamps = [datetime.datetime(2024, 2, 29)] * 3
    frame = (
        frame.assign(stamp=stamps)
        if kind == "pandas"
        else frame.with_columns(pl.Series("stamp", stamps))
    )
    with pytest.raises(TypeError, match="'stamp'"):
        model.learn_many(frame, labels[:3])
    assert pickle.dumps(model) == before


# ------------------------------------------------------------------ predictions


def prediction_batches(X):
    rng = np.random.default_rng(0)
    yield "float64", X
    yield "float32", X.astype(np.float32)
    yield "csr_array", sp.csr_array(X)
    yield "messy csr_matrix", messy_csr(X, sp.csr_matrix, rng)
    yield "pandas", pd.DataFrame(X)


@params_cases
def test_many_predictions_are_those_of_single_rows(params):
    X, y = mixed_matrix()
    model = LOMTreeClassifier(**params)
    model.learn_many(X[:300], y[:300])
    before = pickle.dumps(model)
    rows = as_dicts(X)
    one = [model.predict_one(x) for x in rows]
    proba = [model.predict_proba_one(x) for x in rows]
    assert len(set(one)) > 1
    for name, batch in prediction_batches(X):
        assert model.predict_many(batch).tolist() == one, name
        many = model.predict_proba_many(batch)
        columns = list(many) if name == "pandas" else model.labels
        # exactly: both read the same votes
        assert [dict(zip(columns, p, strict=True)) for p in np.asarray(many).tolist()] == proba
    assert pickle.dumps(model) == before


@given(X=arrays(max_columns=5), params=settings, seed=st.integers(0, 99))
def test_many_predictions_are_those_of_single_rows_on_any_array(X, params, seed):
    rng = np.random.default_rng(seed)
    y = rng.choice(["a", "b", "c", "d"], size=len(X))
    model = LOMTreeClassifier(**params)
    model.learn_many(X[:, : 1 + X.shape[1] // 2], y)  # some columns stay unknown
    rows = as_dicts(X)
    X[0, 0] = rows[0][0] = float("nan")
    for _, batch in prediction_batches(X):
        assert list(model.predict_many(batch)) == [model.predict_one(x) for x in rows]
        many = model.predict_proba_many(batch)
        assert np.asarray(many).tolist() == [
            list(model.predict_proba_one(x).values()) for x in rows
        ]


def test_predictions_before_any_learning():
    model = ModelTreeClassifier()
    X = np.ones((3, 2))
    assert model.predict_one({0: 1.0}) is None
    assert model.predict_proba_one({0: 1.0}) == {}
    assert model.predict_topk_one({0: 1.0}) == []
    assert model.predict_many(X).tolist() == [None] * 3
    assert model.predict_proba_many(X).shape == (3, 0)
    assert model.predict_many(sp.csr_array(X)).tolist() == [None] * 3
    frame = pd.DataFrame(X, index=[5, 6, 7])
    assert model.predict_many(frame).tolist() == [None] * 3
    assert model.predict_proba_many(frame).shape == (3, 0)
    assert list(model.predict_proba_many(frame).index) == [5, 6, 7]
    assert model.predict_many(pl.DataFrame(X)).to_list() == [None] * 3
    several = NonGreedyTreeMultiTargetRegressor()
    for predict in (model.predict_proba_many, several.predict_many):
        assert predict(pa.table({"a": [1.0] * 3})).shape == (3, 0)
        # older ones of polars have no rows without columns
        assert predict(pl.DataFrame(X)).shape == pl.DataFrame(X).drop("column_0", "column_1").shape


def test_frames_come_back_in_kind():
    X, y = blobs(100, classes=3, features=3, spread=4.0)
    names = ["a", "b", "c"]
    labels = np.array(["x", "y", "z"])[y]
    model = ModelTreeClassifier(grace_period=5)
    index = pd.Index(range(1000, 1100), name="row")
    frame = pd.DataFrame(X, columns=names, index=index)
    model.learn_many(frame, labels)
    series, proba = model.predict_many(frame), model.predict_proba_many(frame)
    assert isinstance(series, pd.Series)
    assert isinstance(proba, pd.DataFrame)
    assert series.index.equals(index)
    assert proba.index.equals(index)
    assert list(proba.columns) == model.labels
    polars = pl.DataFrame(X, schema=names)
    assert isinstance(model.predict_many(polars), pl.Series)
    assert isinstance(model.predict_proba_many(polars), pl.DataFrame)
    assert model.predict_many(polars).to_list() == series.to_list()
    assert model.predict_proba_many(polars).columns == model.labels
    assert isinstance(model.predict_many(X), np.ndarray)


@pytest.mark.parametrize(
    "labels", [[1, 2, 3], [True, False, True], ["a", "b", "a"], [0.5, 1.5, 0.5]], ids=repr
)
@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_frames_give_labels_back(kind, labels):
    frame = kind({"f": [1.0, 2.0, 3.0] * 20})
    model = ModelTreeClassifier(grace_period=5)
    model.learn_many(frame, labels * 20)
    predicted = model.predict_many(frame).to_list()
    assert predicted == [model.predict_one({"f": float(i % 3 + 1)}) for i in range(60)]
    assert type(predicted[0]) is type(labels[0])


# ----------------------------------------------------------------- empty and odd


@pytest.mark.parametrize(
    "empty",
    [
        np.empty((0, 4)),
        np.empty((0, 0)),
        sp.csr_array((0, 4)),
        pd.DataFrame({"a": []}),
        pd.DataFrame({"a": pd.Series([], dtype=str)}),
        pl.DataFrame({"a": [], "b": []}),
        pl.DataFrame(),
        pa.table({"a": pa.array([], pa.float64()), "b": pa.array([], pa.string())}),
        pa.table({}),
        pa.record_batch({}),
    ],
    ids=lambda X: f"{type(X).__module__.split('.')[0]}-{X.shape[1]}",
)
def test_an_empty_batch_changes_nothing(empty):
    model = ModelTreeClassifier()
    before = pickle.dumps(model)
    model.learn_many(empty, [])
    model.learn_many(empty, [], [])
    model.learn_many(empty, [], 2.0)
    assert pickle.dumps(model) == before
    assert len(model.predict_many(empty)) == 0
    model.learn_one({"a": 1.0}, 0)
    assert len(model.predict_many(empty)) == 0
    assert model.predict_proba_many(empty).shape[0] == 0


def test_rows_without_columns_are_examples():
    expected = by_rows([{}] * 3, [1, 2, 2])
    assert by_batch(np.empty((3, 0)), [1, 2, 2]) == expected
    assert by_batch(sp.csr_array((3, 0)), [1, 2, 2]) == expected
    table = pa.table({"a": [1.0, 2.0, 3.0]}).select([])
    assert by_batch(table, [1, 2, 2]) == expected
    assert by_batch(table.to_batches()[0], [1, 2, 2]) == expected


@pytest.mark.parametrize("kind", FRAMES)
@pytest.mark.parametrize("labels", ["xy", [1, 2], [0.5, 1.5], [True, False]], ids=repr)
def test_what_is_said_of_no_rows_has_the_type_of_what_is_said_of_some(kind, labels):
    frame = FRAMES[kind](frame_rows(2)[0])
    classifier, regressor = ModelTreeClassifier(), SoftTreeRegressor()
    classifier.learn_many(frame, list(labels))
    regressor.learn_many(frame, [1.0, 2.0])
    for predict in (classifier.predict_many, classifier.predict_proba_many, regressor.predict_many):
        some, none = predict(frame), predict(frame[:0])
        for name in ("type", "dtype", "dtypes", "schema"):
            wanted = getattr(some, name, None)
            assert np.all(getattr(none, name, None) == wanted), wanted


def test_one_weight_may_serve_for_all():
    X, y = blobs(100, classes=3, features=3, spread=4.0)
    assert by_batch(X, y, 2.5) == by_batch(X, y, [2.5] * 100) == by_batch(X, y, np.full(100, 2.5))
    assert by_batch(X, y, 1) == by_batch(X, y) == by_batch(X, y, None)
    assert by_batch(X, y, np.float32(2.5)) == by_batch(X, y, pd.Series([2.5] * 100))


@pytest.mark.parametrize(
    "weigh", [lambda keep: keep, lambda keep: keep * 2.0], ids=["bool", "float"]
)
def test_rows_of_weight_zero_might_as_well_not_be_there(weigh):
    X, y = mixed_matrix(200)
    rng = np.random.default_rng(0)
    X[rng.random(X.shape) < 0.1] = np.nan
    keep = rng.random(200) < 0.5
    X[:, 3] = np.where(keep, np.nan, 1.0)  # a column that only these rows have
    X[~keep, 5] = 77.0
    kept = weigh(keep)[keep]
    for route in (np.asarray, sp.csr_array, pd.DataFrame):
        full = by_batch(route(X), y, weigh(keep), grace_period=5)
        assert full == by_batch(X[keep], y[keep], kept, grace_period=5)
        nothing = by_batch(route(X), y, np.zeros(200))
        assert nothing == pickle.dumps(LOMTreeClassifier())
    assert 3 not in pickle.loads(full).snapshot()["features"]


@pytest.mark.parametrize(
    "labels", [["a", "b"], ("a", "b"), np.array(["a", "b"]), pd.Series(["a", "b"], index=[7, 3]),
               pd.Series(["a", "b"], dtype="category"), pl.Series(["a", "b"]), pa.array(["a", "b"]),
               np.array(["a", "b"], dtype=object), iter(["a", "b"])],
    ids=lambda y: f"{type(y).__module__.split('.')[0]}-{type(y).__name__}",
)
def test_labels_come_in_any_sequence(labels):
    X = np.array([[1.0], [2.0]])
    assert by_batch(X, labels) == by_rows([{0: 1.0}, {0: 2.0}], ["a", "b"])


BAD_BATCHES = {
    "a list": ([[1.0, 2.0]], TypeError, "list"),
    "a dict": ({"a": [1.0]}, TypeError, "dict"),
    "None": (None, TypeError, "NoneType"),
    "one dimension": (np.ones(2), ValueError, "two dimensions"),
    "three dimensions": (np.ones((1, 2, 2)), ValueError, "two dimensions"),
    "strings": (np.array([["a", "b"]]), TypeError, "numeric"),
    "objects": (np.array([[1.0, None]], dtype=object), TypeError, "numeric"),
    "complex": (np.ones((1, 2), dtype=complex), TypeError, "numeric"),
    "dates": (np.array([["2024-02-29"]], dtype="M8[D]"), TypeError, "numeric"),
    "durations": (np.ones((1, 2), dtype="m8[s]"), TypeError, "numeric"),
    "sparse complex": (sp.csr_array(np.ones((1, 2), dtype=complex)), TypeError, "numeric"),
    "infinite": (np.array([[1.0, np.inf]]), ValueError, "feature 1: .*infinite"),
    "infinite float32": (np.array([[-np.inf, np.nan]], np.float32), ValueError, "feature 0"),
    "infinite sparse": (sp.csr_array([[0.0, 0.0, -np.inf]]), ValueError, "feature 2"),
    "infinite pandas": (pd.DataFrame({"a": [1.0], "b": [np.inf]}), ValueError, "feature 'b'"),
    "infinite polars": (pl.DataFrame({"a": [1.0], "b": [np.inf]}), ValueError, "feature 'b'"),
    "columns twice": (pd.DataFrame([[1.0, 2.0]], columns=["a", "a"]), ValueError, "'a'"),
    "dates in pandas": (pd.DataFrame({"a": pd.to_datetime(["2024"])}), TypeError, "feature 'a'"),
    "lists in polars": (pl.DataFrame({"a": [[1.0]]}), TypeError, "feature 'a'"),
    "bytes in polars": (pl.DataFrame({"a": [b"x"]}), TypeError, "feature 'a'"),
}


@pytest.mark.parametrize("name", BAD_BATCHES)
def test_a_bad_batch_changes_nothing(name):
    X, error, message = BAD_BATCHES[name]
    model = learn_loop(ModelTreeClassifier(), *changing_rows(50, classes=3))
    before = pickle.dumps(model)
    with pytest.raises(error, match=message):
        model.learn_many(X, ["new"])
    with pytest.raises(error, match=message):
        model.predict_many(X)
    with pytest.raises(error, match=message):
        model.predict_proba_many(X)
    assert pickle.dumps(model) == before


@pytest.mark.parametrize(
    ("labels", "weights", "error", "message"),
    [
        (["a"], None, ValueError, "2 rows.*1 labels"),
        (["a", "b", "c"], None, ValueError, "2 rows.*3 labels"),
        (np.array([["a", "b"]]), None, ValueError, "y.*dimension"),
        ("ab", None, TypeError, "y"),
        (b"ab", None, TypeError, "y"),
        (7, None, TypeError, "y"),
        (None, None, TypeError, "y"),
        (["a", "b"], [1.0], ValueError, "2 rows.*w"),
        (["a", "b"], [1.0, 1.0, 1.0], ValueError, "2 rows.*w"),
        (["a", "b"], [[1.0], [1.0]], ValueError, "2 rows.*w"),
    ],
)
def test_lengths_that_differ_change_nothing(labels, weights, error, message):
    model = learn_loop(ModelTreeClassifier(), *changing_rows(50, classes=3))
    before = pickle.dumps(model)
    for X in (np.ones((2, 3)), sp.csr_array(np.ones((2, 3))), pd.DataFrame({"a": ["s", "t"]})):
        with pytest.raises(error, match=message):
            model.learn_many(X, labels, weights)
    assert pickle.dumps(model) == before


def test_inputs_are_left_alone():
    X, y = mixed_matrix(100)
    X[3, 2] = np.nan
    messy = messy_csr(X, sp.csr_array, np.random.default_rng(0))
    copies = X.copy(), messy.copy(), y.copy()
    model = ModelTreeClassifier(grace_period=5)
    weights = np.ones(100)
    for batch in (X, messy, pd.DataFrame(X)):
        model.learn_many(batch, y, weights)
        model.predict_proba_many(batch)
    assert np.array_equal(X, copies[0], equal_nan=True)
    assert np.array_equal(messy.data, copies[1].data, equal_nan=True)
    assert np.array_equal(messy.indices, copies[1].indices)
    assert np.array_equal(y, copies[2])
    before = pickle.dumps(model)
    X[:] = -1.0
    weights[:] = 7.0
    assert pickle.dumps(model) == before


# ------------------------------------------------------------ what must not be believed


def test_malformed_matrices_are_refused():
    """scipy reads foreign memory for some of these: in a process of its own."""
    run_isolated(
        """
        import pickle
        import numpy as np, pytest
        from streamtree import ModelTreeClassifier
        from support.matrices import MALFORMED

        model = ModelTreeClassifier()
        model.learn_many(np.ones((4, 5)), [0, 1, 0, 1])
        before = pickle.dumps(model)
        for make in MALFORMED.values():
            X = make()
            for call in (model.predict_many, lambda X: model.learn_many(X, [0] * X.shape[0])):
                with pytest.raises(ValueError):
                    call(X)
            assert pickle.dumps(model) == before
        """
    )


def test_indices_that_are_no_integers_are_refused():
    X = sp.csr_matrix(np.eye(2))
    X.indices = np.array([0.0, 1.5])
    with pytest.raises(ValueError, match="dtype float64"):
        ModelTreeClassifier().learn_many(X, [0, 1])


def test_columns_beyond_32_bits_are_other_columns():
    places = np.array([1, 2**32 + 1]), np.array([0, 1, 2])
    X = sp.csr_array((np.ones(2), *places), shape=(2, 2**33))
    model = ModelTreeClassifier()
    model.learn_many(X, [0, 1])
    assert model._core.features.names == [1, 2**32 + 1]


def test_flags_of_scipy_may_be_old():
    """Duplicates and unsorted indices count, whatever the flags say."""
    rows = ([0, 0, 3, 1], [0, 2, 4])
    X = sp.csr_matrix((np.array([1.0, 2.0, 3.0, 4.0]), *rows), shape=(2, 5))
    X.has_canonical_format = X.has_sorted_indices = True
    models = [ModelTreeClassifier(), ModelTreeClassifier()]
    models[0].learn_many(X, ["a", "b"])
    models[1].learn_many(sp.csr_matrix([[3.0, 0, 0, 0, 0], [0, 4.0, 0, 3.0, 0]]), ["a", "b"])
    assert pickle.dumps(models[0]) == pickle.dumps(models[1])


@pytest.mark.parametrize("estimator", [ModelTreeClassifier, SoftTreeRegressor])
def test_masked_targets_and_weights_are_refused(estimator):
    model = estimator()
    before = pickle.dumps(model)
    masked = np.ma.array([1.0, 2.0, 3.0], mask=[False, True, False])
    with pytest.raises(ValueError, match=r"^y "):
        model.learn_many(np.ones((3, 1)), masked)
    with pytest.raises(ValueError, match=r"^w "):
        model.learn_many(np.ones((3, 1)), [1.0, 2.0, 3.0], masked)
    assert pickle.dumps(model) == before
    model.learn_many(np.ones((3, 1)), np.ma.array([1.0, 2.0, 3.0]), np.ma.array([1.0, 2.0, 3.0]))


@pytest.mark.parametrize("categories", [[3, 1, 2], [0.5, 1.5, 2.5], [True, False, True]])
def test_categories_of_pandas_are_categories(categories):
    frame = pd.DataFrame({"c": pd.Categorical([*categories, None]), "x": 1.0})
    texts = pd.DataFrame({"c": [*map(str, categories), None], "x": 1.0})
    models = [ModelTreeClassifier(), ModelTreeClassifier()]
    for model, X in zip(models, (frame, texts), strict=True):
        model.learn_many(X, [0, 1, 0, 1])
    assert pickle.dumps(models[0]) == pickle.dumps(models[1])
    assert models[0].snapshot()["features"][0] == ("c", str(categories[0]))


def test_dictionaries_of_pyarrow_are_categories():
    model = ModelTreeClassifier()
    model.learn_many(pa.table({"c": pa.array([7, None, 8]).dictionary_encode()}), [0, 1, 0])
    assert model.snapshot()["features"] == [("c", "7"), ("c", "8")]


def polars_or_pyarrow(frame):
    return [pl.DataFrame(frame), pa.table(frame)]


@pytest.mark.parametrize("which", [0, 1])
def test_labels_of_several_types_in_frames_of_one_type(which):
    X = polars_or_pyarrow({"a": [1.0, 2.0, 3.0]})[which]
    model = ModelTreeClassifier()
    said = model.test_then_learn_many(X, [1, "1", 2])
    for _ in range(50):
        model.learn_many(X, [1, "1", 2])
    names = ["1", "'1'", "2"]
    proba = model.predict_proba_many(X)
    assert list(getattr(proba, "columns", None) if which == 0 else proba.column_names) == names
    predicted = model.predict_many(X)
    assert (predicted.to_list() if which == 0 else predicted.to_pylist()) == names
    assert (said.to_list() if which == 0 else said.to_pylist())[0] is None


def test_labels_that_are_written_like_others_have_columns_of_their_own():
    labels = ["", 1, "1", "'1'"]
    model = ModelTreeClassifier()
    model.learn_many(pd.DataFrame({"a": np.zeros(4)}), labels)
    proba = model.predict_proba_many(pl.DataFrame({"a": [1.0]}))
    assert proba.columns == ["''", "1", "'1'", '"\'1\'"']
    assert list(model.predict_proba_many(pd.DataFrame({"a": [1.0]})).columns) == labels


@pytest.mark.parametrize("labels", [[("a",), ("a", "b")], [("a", 1), ("a", None)]])
def test_columns_of_pandas_may_be_tuples(labels):
    frame = pd.DataFrame({"a": [0.0, 1.0]})
    model = ModelTreeClassifier()
    model.learn_many(frame, labels)
    assert list(model.predict_proba_many(frame).columns) == labels


def test_a_frame_of_pandas_gives_any_labels_as_they_are():
    X, labels = pd.DataFrame({"a": [1.0, 2.0, 3.0]}), [10**400, "1", (1, 2)]
    model = ModelTreeClassifier()
    for _ in range(50):
        model.learn_many(X, labels)
    assert model.predict_many(X).tolist() == labels


def test_one_long_label_does_not_widen_all():
    model = ModelTreeClassifier()
    model.learn_many(np.eye(3), ["long" * 10**5, "b", "c"])
    assert model.predict_many(np.zeros((1000, 3))).nbytes < 10**5


@pytest.mark.parametrize("mixed", [False, True])
def test_wide_numbers_of_frames(mixed):
    """Numbers that numpy has no type for."""
    models = []
    more = {"word": ["x", "y"]} if mixed else {}
    for X in (
        pl.DataFrame(
            {"a": pl.Series([3, None], dtype=pl.Int128), "b": [Decimal("0.5"), None], **more}
        ),
        pa.table({"a": [Decimal(3), None], "b": [Decimal("0.5"), None], **more}),
        pd.DataFrame({"a": [Decimal(3), None], "b": [Decimal("0.5"), None], **more}),
        pd.DataFrame({"a": [3.0, np.nan], "b": [0.5, np.nan], **more}),
    ):
        models.append(ModelTreeClassifier())
        models[-1].learn_many(X, [0, 1])
    assert all(pickle.dumps(model) == pickle.dumps(models[-1]) for model in models)


def test_wide_integers_are_targets_and_weights():
    models, kind = [], pl.Int128
    for y, w in (
        (pl.Series([2**70, 3], dtype=kind), pl.Series([1, 2], dtype=kind)), ([2**70, 3], [1, 2])
    ):
        models.append(SoftTreeRegressor())
        models[-1].learn_many(np.ones((2, 1)), y, w)
    assert pickle.dumps(models[0]) == pickle.dumps(models[1])
    before = pickle.dumps(models[0])
    with pytest.raises(ValueError, match=r"y must be from .* got nan"):
        models[0].learn_many(np.ones((2, 1)), pl.Series([1, None], dtype=kind))
    assert pickle.dumps(models[0]) == before


def test_integers_beyond_all_floats_are_out_of_bounds():
    model = SoftTreeRegressor()
    before = pickle.dumps(model)
    for call in (
        lambda: model.learn_many(np.ones((1, 1)), [10**400]),
        lambda: model.learn_many(np.ones((1, 1)), [1.0], [10**400]),
        lambda: model.learn_one({"a": 1.0}, -(10**400)),
        lambda: model.learn_one({"a": 1.0}, 1.0, w=10**400),
    ):
        with pytest.raises(ValueError, match=r"must be from"):
            call()
    assert pickle.dumps(model) == before
    model.learn_many(np.ones((2, 1)), [Decimal(2), 10**30], [2**70, 1])


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_names_that_utf8_cannot_hold_come_back(library):
    frame = pytest.importorskip(library).DataFrame({"a": [0.0, 1.0] * 30})
    labels = ["\ud800", "b"] * 30
    model = ModelTreeClassifier()
    model.learn_many(frame, labels)
    # only pandas has room for them as they are
    first = "\ud800" if library == "pandas" else repr("\ud800")
    assert list(model.predict_many(frame)) == [first, "b"] * 30
    shares = model.predict_proba_many(frame)
    assert list(shares.columns) == [first, "b"]
    assert shares.to_numpy().tolist() == [
        list(model.predict_proba_one({"a": a}).values()) for a in [0.0, 1.0] * 30
    ]


@pytest.mark.parametrize("labels", [
    pd.DataFrame({"label": ["spam"]}), pl.DataFrame({"label": ["spam"]}), pa.table({"l": ["spam"]}),
    {"spam"}, {"spam": 1},
])
def test_what_has_no_order_of_labels_is_refused(labels):
    model = ModelTreeClassifier()
    with pytest.raises(TypeError, match="y must be a sequence of labels, got"):
        model.learn_many(pd.DataFrame({"a": [1.0]}), labels)
    assert model.labels == []


@pytest.mark.parametrize("frame", [
    lambda numbers: pa.table({"x": numbers}),
    lambda numbers: pl.DataFrame({"x": numbers}),
    lambda numbers: pd.DataFrame({"x": pd.array(numbers, pd.ArrowDtype(pa.decimal128(20, 3)))}),
])
def test_decimals_are_the_floats_next_to_them(frame):
    numbers = [Decimal("2.55"), Decimal("1234567.89"), None, Decimal("-0.1")]
    batch, loop = SoftTreeRegressor(), SoftTreeRegressor()
    batch.learn_many(frame(numbers), [1.0, 2.0, 3.0, 4.0])
    for number, y in zip(numbers, [1.0, 2.0, 3.0, 4.0], strict=True):
        loop.learn_one({"x": number}, y)
    assert pickle.dumps(batch) == pickle.dumps(loop)


def test_columns_that_tell_nothing_are_warned_of():
    as_numbers = pd.DataFrame({"zip": [1, 2, 3, 4] * 10, "id": [5, 6] * 20, "size": [0.5] * 40})
    as_texts = as_numbers.astype({"zip": "category", "id": "category"})
    y = [0, 1, 1, 0] * 10
    strings, numbers = ModelTreeClassifier(), ModelTreeClassifier()
    strings.learn_many(as_texts, y)
    numbers.learn_many(as_numbers, y)
    for act in (
        strings.predict_many, strings.predict_proba_many, lambda X: strings.clone(
            include_attributes=True
        ).test_then_learn_many(X, y),
    ):
        with pytest.warns(UserWarning, match="numbers were learned as categories") as told:
            act(as_numbers)
        # all columns at once, at the line that calls
        assert len(told) == 1
        assert "'zip', 'id'" in str(told[0].message)
        assert told[0].filename == __file__
    with pytest.warns(UserWarning, match="columns with categories were learned as numbers"):
        numbers.learn_many(as_texts, y)
    for X in (as_numbers.to_numpy(), as_numbers.add_prefix("x")):
        with pytest.warns(UserWarning, match=r"none of the columns of X, .*knows 'zip', 'id'"):
            strings.predict_many(X)


@pytest.mark.parametrize("cells", [
    [None, None], [float("nan"), None], ["a", 1.0], ["a", None], [Decimal("1.5"), Decimal("2.5")],
    [np.float64(2.5), None],
])
@pytest.mark.parametrize("make", [pd.DataFrame, partial(pl.DataFrame, strict=False)])
def test_columns_that_are_missing_or_mixed_are_not_warned_of(make, cells):
    model = ModelTreeClassifier(nominal_attributes=["c"])
    X = make({"a": ["a", "b"] * 10, "b": [1.0, 2.0] * 10, "c": [1, 2] * 10, "d": ["x", "y"] * 10})
    model.learn_many(X, [0, 1] * 10)
    rows = {"a": cells, "b": [None, 1.0], "c": [1, 2], "d": ["x", "y"], "new": [1.0, 2.0]}
    if type(cells[0]) in (Decimal, np.float64):
        # such cells make dicts of the rows, and nothing is known of what stands behind them
        rows |= {"a": ["a", "b"], "b": cells}
    X = make({name: pd.Series(column, dtype=object).tolist() for name, column in rows.items()})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.predict_many(X)
        model.predict_many(X[:0])
        ModelTreeClassifier().predict_many(X)


@pytest.mark.parametrize("dtype", ["Int64", "Float64", "boolean", object, "int64[pyarrow]"])
def test_missing_cells_of_pandas_are_missing_in_strange_columns_too(dtype):
    model = ModelTreeClassifier()
    model.learn_many(pd.DataFrame({"a": ["x", "y", "z"], "b": [1.0, 2.0, 3.0]}), [0, 1, 0])
    X = pd.DataFrame({"a": pd.Series([pd.NA, 1, 0], dtype=dtype), "b": [1.0, 2.0, 3.0]})
    with pytest.warns(UserWarning, match="columns with numbers were learned as categories: 'a'|"
                                         "different features: 'a'"):
        model.predict_many(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.predict_many(X[:1])


def test_new_words_are_not_warned_of():
    model = ModelTreeClassifier()
    model.learn_many(sp.csr_matrix(np.eye(3, 100_000)), [0, 1, 0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.predict_many(sp.csr_matrix(np.eye(1, 100_000, 50_000)))


@pytest.mark.parametrize("labels", [[3, 4], [True, False], [1.5, 2.5], ["a", "b"]])
def test_rows_before_any_label_have_none_in_pandas(labels):
    X, y = pd.DataFrame({"a": [1.0, 2.0, 1.0, 2.0]}), pd.Series(labels * 2)
    said = ModelTreeClassifier().test_then_learn_many(X, y)
    assert said.dtype == object
    assert said.tolist()[0] is None
    assert all(type(label) is type(y.tolist()[0]) for label in said.tolist()[1:])
