"""What must hold of a model after anything, and how a failure is told."""

import math
import pickle
import tempfile
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from river import base
from support.estimators import ESTIMATORS

import streamtree

# the sum of a thousand shares may be off by their roundings
SUM = 1e-9


def estimators(only=None):
    return [estimator for estimator in ESTIMATORS if only in (None, estimator.__name__)]


class Broken(AssertionError):
    """What an attack found, with the seed that finds it again."""


@contextmanager
def told_of(where):
    """What fails here says where it did: the estimator, the seed."""
    try:
        yield
    except Exception as error:
        raise Broken(f"{where}: {error!r}") from error


def divided(attack, n, seed, only):
    """Attack n times, the estimators in turn; returns the sum of what came of it."""
    chosen, total = estimators(only), 0
    for each in range(seed, seed + n):
        estimator = chosen[each % len(chosen)]
        with told_of(f"{estimator.__name__}, seed {each}"):
            total += attack(estimator, each)
    return total


def check_answers(model, x):
    """All numbers that are said of a row are finite, and probabilities are."""
    said = model.predict_one(x)
    if not isinstance(model, base.Classifier):
        numbers = list(said.values()) if isinstance(said, dict) else [said]
        assert all(map(math.isfinite, numbers)), f"{said!r} is predicted of {x!r}"
        return
    shares = model.predict_proba_one(x)
    assert list(shares) == model.labels, shares
    check_shares(np.array([list(shares.values())]))
    top = model.predict_topk_one(x, 3)
    assert len(top) == min(3, len(shares)), top
    if shares:
        assert said in model.labels, said
        assert all(share == shares[label] for label, share in top), (top, shares)


def check_shares(shares):
    assert np.isfinite(shares).all(), shares
    assert (shares >= 0.0).all(), shares
    if shares.shape[1]:
        assert (np.abs(shares.sum(axis=1) - 1.0) < SUM).all(), (shares, shares.sum(axis=1))


def check_batch_answers(model, X):
    said = model.predict_many(X)
    if isinstance(model, base.Classifier):
        check_shares(np.asarray(model.predict_proba_many(X), dtype=np.float64))
    else:
        assert np.isfinite(np.asarray(said, dtype=np.float64)).all(), said


def check_state(model, *, on_disk=False, had_shortage=False):
    """Its own check accepts the state of a model, and what comes back is the same model.

    It takes as many bytes, unless a request for memory has failed.
    """
    model._new_core().check_state(model.snapshot())
    whole = pickle.dumps(model)
    copy = pickle.loads(whole)
    assert pickle.dumps(copy) == whole, "a copy is not the same"
    taken = [each._core.learned_bytes for each in (model, copy)]
    assert had_shortage or taken[0] == taken[1], f"a copy takes {taken[1]} bytes, not {taken[0]}"
    if on_disk:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "some.model"
            try:
                model.save(path)
            except TypeError as error:
                # a name or label that is no number or text
                if "a model file cannot keep" not in str(error) or path.exists():
                    raise
                return
            assert pickle.dumps(streamtree.load(path)) == whole, "a file is not the same"


def check_refused(model, call, allowed=(ValueError, TypeError)):
    """Do what must raise; the model is then as it was."""
    before = pickle.dumps(model)
    try:
        call()
    except allowed:
        assert pickle.dumps(model) == before, "a refused call changed the model"
        return
    raise AssertionError("bad input was not refused")
