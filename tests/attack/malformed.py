"""Matrices and frames that are not what they say: a clear error, never foreign memory."""

import pickle
import random
import warnings
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import scipy.sparse as sp
from support.estimators import as_batch, targets_of

from attack.checks import check_batch_answers, check_state, estimators, told_of

INDICES = [-(2**31), -5, -1, 0, 1, 4, 5, 8, 100, 10**6, 2**31 - 1]
FORMATS = ["csr", "csc", "coo", "bsr", "dia", "lil", "dok"]
DTYPES = [
    "f8", "f4", "f2", "g", ">f8", "i1", "u1", "i8", "u8", ">i4", "?", "c16", "O", "U3", "S2",
    "M8[s]", "m8[s]", [("a", "f8")],
]


def sparse(rng, n):
    """A sparse matrix in which somebody has been busy."""
    cells = np.array([[rng.choice([0, 0, 1, -2, 0.5]) for _ in range(5)] for _ in range(n)])
    kind = rng.choice([sp.csr_array, sp.csr_matrix])
    X = kind(cells).asformat(rng.choice(FORMATS))
    for _ in range(rng.choice([0, 1, 1, 2])):
        try:
            spoil(rng, X)
        except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError):
            continue  # scipy would not have it
    return X


def spoil(rng, X):
    """One thing about a sparse matrix that is not true any more."""
    parts = [
        name for name in ("data", "indices", "indptr", "row", "col", "offsets", "rows", "coords")
        if hasattr(X, name)
    ]
    kind = rng.randrange(6)
    part = rng.choice(parts) if parts else None
    array = getattr(X, part) if part else None
    if kind == 0 or not isinstance(array, np.ndarray) or not array.size:
        for flag in ("has_canonical_format", "has_sorted_indices"):
            setattr(X, flag, True)
        if isinstance(array, np.ndarray) and array.ndim == 1:
            array[:] = array[::-1].copy()
    elif kind == 1 and array.dtype.kind in "iu":
        array[rng.randrange(len(array))] = rng.choice(INDICES)
    elif kind == 1 and array.dtype.kind == "f":
        array.flat[rng.randrange(array.size)] = rng.choice([np.inf, -np.inf, np.nan, 1e308])
    elif kind == 2:
        setattr(X, part, array[: rng.randrange(len(array))])
    elif kind == 3:
        setattr(X, part, np.concatenate([array, array]))
    elif kind == 4:
        setattr(X, part, array.astype(rng.choice(["f8", "i8", "u4", "i2", "O", "?"])))
    else:
        X._shape = (rng.choice([0, 1, X.shape[0], 100]), rng.choice([0, 1, 3, 5, 10**4]))


def dense(rng, n):
    """An array of any type, order and number of dimensions, or what is not even that."""
    dtype = rng.choice(DTYPES)
    shape = rng.choice([(n, 5), (n, 5), (n, 0), (0, 5), (n,), (n, 5, 1), ()])
    X = np.zeros(shape, dtype=dtype)
    if X.dtype.kind in "iuf" and X.size and rng.random() < 0.8:
        with np.errstate(all="ignore"):
            X.flat[rng.randrange(X.size)] = rng.choice([1, 100])
            if X.dtype.kind == "f":
                X.flat[rng.randrange(X.size)] = rng.choice([np.nan, np.inf, 1.0])
    kind = rng.randrange(6)
    if kind == 0:
        X = np.asfortranarray(X)
    elif kind == 1 and X.ndim == 2:
        X = X[::-1, ::-1]
    elif kind == 2:
        X = np.ma.array(X, mask=rng.random() < 0.5)
    elif kind == 3:
        X.flags.writeable = False
    elif kind == 4:
        X = rng.choice([X.tolist(), None, "text", {}, 3.0, [{"a": 1.0}]])
    return X


def frame(rng, n):
    """A frame of columns that no model expects."""
    kinds = {
        "numbers": lambda: [rng.gauss(0, 1) for _ in range(n)],
        "integers": lambda: [rng.choice([0, 2**62, None]) for _ in range(n)],
        "words": lambda: [rng.choice(["a", "", None]) for _ in range(n)],
        "mixed": lambda: [rng.choice(["a", 1.0, None, True, 2**70]) for _ in range(n)],
        "decimals": lambda: [rng.choice([Decimal("1.5"), None]) for _ in range(n)],
        "categories": lambda: pd.Categorical([rng.choice([1, 2, 3]) for _ in range(n)]),
        "dates": lambda: pd.date_range("2020", periods=n),
        "lists": lambda: [[1.0]] * n,
        "bytes": lambda: [b"x"] * n,
        "infinite": lambda: [rng.choice([1.0, np.inf]) for _ in range(n)],
        "nullable": lambda: pd.array([rng.choice([1, None]) for _ in range(n)], dtype="Int64"),
        "complex": lambda: [1j] * n,
        "objects": lambda: [object()] * n,
        "wide": lambda: pl.Series([1] * n, dtype=pl.Int128),
    }
    names = [rng.choice(["a", "b", 0, 1, None, ("x", 1), float("nan")]) for _ in range(3)]
    columns = [kinds[rng.choice(list(kinds))]() for _ in names]
    backend = rng.choice(["pandas", "pandas", "polars", "pyarrow"])
    try:
        if backend == "pandas":
            X = pd.concat([pd.Series(c) for c in columns], axis=1)
            X.columns = pd.Index(names, tupleize_cols=False, dtype=object)
        elif backend == "polars":
            X = pl.DataFrame({str(name): c for name, c in zip(names, columns, strict=True)})
        else:
            X = pa.table({str(name): c for name, c in zip(names, columns, strict=True)})
    except Exception:
        return None  # the library would not have it
    return X


def targets(rng, estimator, n):
    y = targets_of(estimator, [i % 2 for i in range(n)])
    kind = rng.randrange(12)
    if kind == 0:
        return y[:-1] if y else [0]
    if kind == 1:
        return np.ma.array(np.arange(float(n)), mask=[i == 0 for i in range(n)])
    if kind == 2:
        return rng.choice([None, 3.0, "text", {}, np.zeros((n, 2, 2)), [None] * n, [[1]] * n])
    if kind == 3:
        return [10**400] * n
    return as_batch(y) if n else y


def weights(rng, n):
    return rng.choice([
        None, None, None, 1.0, [1.0] * n, [0.0] * n, [1.0] * (n + 1), [-1.0] * n, [10**400] * n,
        np.ma.array(np.ones(n), mask=n > 0), "text", [None] * n, [[1.0]] * n, float("nan"),
    ])


def attack(model, seed):
    """One batch to learn or to predict; it is taken or refused, and the model is whole."""
    rng = random.Random(seed)
    n = rng.choice([1, 2, 4, 9])
    X = rng.choice([sparse, sparse, dense, frame])(rng, n)
    y, w = targets(rng, type(model), n), weights(rng, n)
    predict = [model.predict_many]
    if hasattr(model, "labels"):
        predict.append(model.predict_proba_many)
    learn = [model.learn_many, model.test_then_learn_many]
    call = rng.choice([*predict, *learn])
    before = pickle.dumps(model)
    try:
        call(X) if call in predict else call(X, y, w)
    except (ValueError, TypeError):
        assert pickle.dumps(model) == before, "a refused batch changed the model"
        return False
    if call in predict:
        assert pickle.dumps(model) == before, "a prediction changed the model"
    elif X.shape[0]:
        check_batch_answers(model, X)
    return True


def run(n, seed=0, only=None):
    """n batches, divided among the estimators."""
    taken = 0
    chosen = estimators(only)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for number, estimator in enumerate(chosen):
            for each in range(seed + number, seed + n, len(chosen)):
                if (each - seed) // len(chosen) % 50 == 0:
                    # columns of zeros: categories come in as new ones
                    model = estimator()
                    model.learn_many(np.eye(5), as_batch(targets_of(estimator, range(5))[:2] * 2
                                                         + targets_of(estimator, [0])))
                with told_of(f"{estimator.__name__}, seed {each}"):
                    taken += attack(model, each)
            check_state(model)
    return f"{n} batches, of which {taken} were taken"
