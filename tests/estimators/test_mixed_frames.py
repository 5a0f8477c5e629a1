"""Frames of numbers and categories: every batch is its rows, byte for byte."""

import math
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from support.estimators import as_batch, cases, state_of, targets_of
from support.marks import first_quick

from streamtree import ForestClassifier, ModelTreeClassifier
from streamtree._core.stream.features import Category
from streamtree.batches import Batch


def frame_of(n, seed=0):
    """Numbers, strings, categories and codes, of which some come late and some are missing."""
    rng = np.random.default_rng(seed)
    classes = rng.integers(0, 4, n)
    size = rng.normal(size=n) + classes
    size[rng.random(n) < 0.1] = np.nan
    late = np.where(np.arange(n) < n // 2, np.nan, rng.normal(size=n))
    word = np.array([f"w{(c + i // 100) % 7}" for i, c in enumerate(classes)], dtype=object)
    word[rng.random(n) < 0.1] = None
    mixed = [float(c) if i % 3 else f"m{c}" for i, c in enumerate(classes)]
    frame = pd.DataFrame({
        "size": size, "late": late, "word": word, "mixed": pd.Series(mixed, dtype=object),
        "kind": pd.Categorical([f"k{(c * 5 + i) % 11}" for i, c in enumerate(classes)]),
        "code": rng.integers(0, 6, n), "once": [f"o{i}" if i % 9 == 0 else None for i in range(n)],
        "count": rng.integers(0, 50, n), "flag": classes > 1, "nothing": [None] * n,
    })
    return frame, classes


def as_rows(frame):
    """The rows as dicts of Python's own values."""
    columns = [
        [None if cell is None or cell != cell else cell for cell in frame[name].tolist()]
        for name in frame.columns
    ]
    return [dict(zip(frame.columns, cells, strict=True)) for cells in zip(*columns, strict=True)]


@cases
@pytest.mark.parametrize("is_short", first_quick([False, True]))
def test_batches_are_their_rows(estimator, params, is_short):
    frame, classes = frame_of(200)
    y = targets_of(estimator, classes)
    weights = np.where(np.arange(200) % 7 == 3, 0.0, 1.0)
    settings = {**params, "nominal_attributes": ["code"]}
    if is_short:
        # of which names have so little that some share their columns
        settings["max_bytes"] = 2**19
    looped, said = estimator(**settings), []
    for x, target, w in zip(as_rows(frame), y, weights.tolist(), strict=True):
        said.append(looped.predict_one(x))
        looped.learn_one(x, target, w=w)
    # row by row at first, and where one of the columns comes
    for cuts in ([*range(10), *range(90, 115), 200], range(0, 201, 50), [0, 200]):
        model, told = estimator(**settings), []
        for part in map(slice, cuts, cuts[1:]):
            told.extend(as_rows_of(model.test_then_learn_many(
                frame[part], as_batch(y[part]), weights[part]
            )))
        np.testing.assert_equal(state_of(model), state_of(looped))
        np.testing.assert_equal(told[1:], said[1:])
    asked = as_rows_of(looped.predict_many(frame))
    np.testing.assert_equal(asked, [looped.predict_one(x) for x in as_rows(frame)])


def as_rows_of(said):
    """What is said of every row."""
    return said.to_dict("records") if isinstance(said, pd.DataFrame) else list(said)


def test_polars_frames_are_those_of_pandas():
    frame, classes = frame_of(300)
    del frame["mixed"], frame["nothing"]
    frame["word"] = frame["word"].astype("string")
    models = [ModelTreeClassifier(nominal_attributes=["code"]) for _ in range(3)]
    models[0].learn_many(frame, classes)
    models[1].learn_many(pl.from_pandas(frame), classes)
    models[2].learn_many(pl.from_pandas(frame).to_arrow(), classes)
    files = {pickle.dumps(model) for model in models}
    assert len(files) == 1


def test_they_are_learned_without_dicts():
    frame, _ = frame_of(100)
    assert Batch(frame, frozenset(["code"])).source is not None
    array = np.random.default_rng(0).integers(0, 5, (50, 3))
    assert Batch(array, frozenset([1])).source is not None
    for cell in (b"bytes", math.inf, 10**400, (1,), pd.Timestamp("2026-01-01")):
        assert Batch(pd.DataFrame({"a": pd.Series(["x", cell], dtype=object)})).source is None


@pytest.mark.parametrize("cell", [math.inf, 10**400, (1,), b"bytes"])
def test_what_is_no_cell_is_refused_by_its_name(cell):
    model = ModelTreeClassifier()
    frame = pd.DataFrame({"a": ["x", "y"], "b": pd.Series(["x", cell], dtype=object)})
    before = pickle.dumps(model)
    with pytest.raises((TypeError, ValueError), match="feature 'b'"):
        model.learn_many(frame, [0, 1])
    assert pickle.dumps(model) == before


@pytest.mark.parametrize("cells", [["x", "y"], [1.0, 2.0]])
def test_names_that_are_those_of_columns_are_refused(cells):
    model = ModelTreeClassifier()
    frame = pd.DataFrame([[cell] for cell in cells], columns=pd.Index([Category("a", "b")],
                         tupleize_cols=False, dtype=object))
    for ask in (lambda: model.learn_many(frame, [0, 1]), lambda: model.predict_many(frame)):
        with pytest.raises(TypeError, match="Category"):
            ask()


def test_threads_read_them_too():
    frame, classes = frame_of(300)
    models = []
    for n_jobs in (1, 2):
        model = ForestClassifier(seed=1)
        model.n_jobs = n_jobs
        model.learn_many(frame, classes)
        models.append(pickle.dumps(model.snapshot()))
    assert models[0] == models[1]
