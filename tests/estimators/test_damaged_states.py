"""States that no model can be in, which `check_state` must refuse before the core sees them."""

import copy

import numpy as np
import pytest
from support.estimators import cases, learned, stream_of, targets_of
from support.streams import changing_rows

from streamtree._core.store.checks import StateError


def trained(estimator, params):
    rows, classes = changing_rows(300, 4)
    return learned(estimator, params, rows, targets_of(estimator, classes))


def places(state):
    """Every (container, key) at which a part of a state stands, those of lists left out."""
    for key, part in state.items():
        yield state, key
        if isinstance(part, dict):
            yield from places(part)


def some_places(state):
    """All of a tree; of a forest, whose members are alike, some."""
    found = list(places(state))
    return found[:: 1 + len(found) // 80]


def refuses(model, state):
    """Whether a new core refuses a state, as it does one of a file."""
    try:
        with np.errstate(all="ignore"):
            model.clone()._core.check_state(state)
    except StateError:
        return True
    return False


@cases
def test_an_undamaged_state_is_accepted(estimator, params):
    model = trained(estimator, params)
    model._core.check_state(model.snapshot())
    estimator(**params)._core.check_state(model.snapshot())
    estimator(**params)._core.check_state(estimator(**params).snapshot())


@cases
def test_parts_that_are_missing_or_of_another_type_are_refused(estimator, params):
    model = trained(estimator, params)
    whole = model.snapshot()
    for container, key in some_places(whole):
        part = container.pop(key)
        assert refuses(model, whole), key
        is_array = isinstance(part, np.ndarray)
        container[key] = np.zeros(part.shape, dtype="S1") if is_array else b"bytes"
        assert refuses(model, whole), key
        container[key] = part
    assert not refuses(model, whole)


@cases
def test_arrays_that_are_too_short_or_too_long_are_refused(estimator, params):
    model = trained(estimator, params)
    whole = model.snapshot()
    for container, key in some_places(whole):
        part = container[key]
        if isinstance(part, np.ndarray) and len(part):
            for array in (part[:-1], np.concatenate([part, part[-1:]])):
                container[key] = array
                assert refuses(model, whole), (key, len(array) - len(part))
            container[key] = part
    assert not refuses(model, whole)


@cases
def test_names_and_scales_that_do_not_fit_are_refused(estimator, params):
    model = trained(estimator, params)

    def damaged(change):
        state = copy.deepcopy(model.snapshot())
        change(state)
        return state

    changes = [
        lambda s: s["features"].pop(),
        lambda s: s["features"].append("one more"),
        lambda s: s["features"].__setitem__(0, s["features"][1]),
        lambda s: s["features"].__setitem__(0, float("nan")),
        lambda s: s["features"].__setitem__(0, {}),
        lambda s: s["scaler"]["columns"]["center"].__setitem__(0, np.nan),
        lambda s: s["scaler"]["columns"]["factor"].__setitem__(0, np.inf),
        lambda s: s["scaler"].update(rows=-1),
        lambda s: s["scaler"].update(mean_norm=np.nan),
    ]
    if "labels" in model.snapshot():
        changes += [
            lambda s: s["labels"].append(s["labels"][0]), lambda s: s["labels"].pop(),
        ]
    else:
        changes += [
            lambda s: s["shrinkage"]["mean"].__setitem__(0, np.nan),
            lambda s: s["shrinkage"]["share"].__setitem__(0, 1.5),
            lambda s: s["shrinkage"]["weight"].__setitem__(0, -1.0),
        ]
    for i, change in enumerate(changes):
        assert refuses(model, damaged(change)), i


@cases
def test_a_state_that_was_checked_goes_on(estimator, params):
    X, y = stream_of(estimator, 300)
    model = learned(estimator, params, [dict(enumerate(x)) for x in X.tolist()], y)
    other = estimator(**params)
    other._core.check_state(model.snapshot())
    other._core.restore(model.snapshot())
    for x, target in zip(X[:100].tolist(), y, strict=False):
        for each in (model, other):
            each.learn_one(dict(enumerate(x)), target)
    assert repr(model.snapshot()) == repr(other.snapshot())


def test_a_state_of_another_kind_is_refused():
    from streamtree import LOMTreeClassifier, ModelTreeClassifier

    model, other = LOMTreeClassifier(), ModelTreeClassifier()
    with pytest.raises(StateError):
        model._core.check_state(other.snapshot())
    with pytest.raises(StateError):
        other._core.check_state(model.snapshot())
    for nothing in ({}, {"tree": {}}, {"tree": None}):
        with pytest.raises(StateError):
            model._core.check_state(nothing)
