"""Sparse matrices of very many columns: they are read, and cost, as what they store."""

import pickle
import time

import numpy as np
import pytest
import scipy.sparse as sp
from support.estimators import as_batch, defaults, stream_of
from support.streams import prequential

from streamtree import ModelTreeClassifier
from streamtree.batches import WIDE

WIDTH = 2**20


def wide(n=120, seed=0):
    """A matrix of words by their hashes, and the same rows as dicts."""
    rng = np.random.default_rng(seed)
    places = rng.choice(WIDTH, size=60, replace=False)
    rows = []
    for _ in range(n):
        stored = np.sort(rng.choice(places, size=5, replace=False))
        rows.append(dict(zip(stored.tolist(), rng.integers(1, 4, size=5) / 2.0, strict=True)))
    rows[3][int(places[0])] = float("nan")
    indptr = np.cumsum([0, *map(len, rows)])
    sorted_rows = [dict(sorted(row.items())) for row in rows]
    X = sp.csr_array(
        (np.concatenate([list(row.values()) for row in sorted_rows]),
         np.concatenate([list(row) for row in sorted_rows]), indptr),
        shape=(n, WIDTH),
    )
    return X, sorted_rows


@defaults
def test_wide_matrices_are_what_they_store(estimator, params):
    X, rows = wide()
    _, targets = stream_of(estimator, len(rows))
    batch, parts, loop = (estimator(**params) for _ in range(3))
    said = batch.test_then_learn_many(X, as_batch(targets))
    for start in range(0, len(rows), 13):
        parts.learn_many(X[start:start + 13], as_batch(targets[start:start + 13]))
    expected = prequential(loop, rows, targets)
    assert pickle.dumps(batch) == pickle.dumps(parts) == pickle.dumps(loop)
    if not isinstance(expected[0], dict):
        assert said.tolist() == expected
        assert batch.predict_many(X).tolist() == [loop.predict_one(x) for x in rows]
    assert len(batch.snapshot()["features"]) <= 60


def test_rows_without_weight_bring_no_columns():
    X, rows = wide(4)
    model, plain = ModelTreeClassifier(), ModelTreeClassifier()
    model.learn_many(X, [0, 1, 0, 1], w=[1.0, 0.0, 0.0, 1.0])
    for i in (0, 3):
        plain.learn_one(rows[i], i % 2)
    assert pickle.dumps(model) == pickle.dumps(plain)


@pytest.mark.parametrize("method", ["learn", "predict"])
def test_a_row_costs_what_it_stores(method):
    def seconds(width):
        model = ModelTreeClassifier()
        best = np.inf
        for _ in range(5):
            X = sp.csr_array((np.ones(3), [1, 5, 9], [0, 3]), shape=(1, width))
            start = time.process_time()
            for _ in range(20):
                if method == "learn":
                    model.learn_many(X, [1])
                else:
                    model.predict_many(X)
            best = min(best, time.process_time() - start)
        return best

    assert seconds(WIDTH) < 5.0 * seconds(WIDE + 1) + 0.01


