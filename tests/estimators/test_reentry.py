"""Names whose own code calls the model that is just reading them."""

import pickle

import pytest
from support.estimators import cases, targets_of
from support.isolated import run_isolated

from streamtree import SelfTerminatingTreeClassifier, SelfTerminatingTreeRegressor


class Caller:
    """A name that does something whenever it is hashed or compared."""

    act = None

    def __init__(self, key):
        self.key = key

    def __repr__(self):
        # trees of models order their columns by it
        return f"Caller({self.key!r})"

    def _called(self):
        act, Caller.act = Caller.act, None
        if act is not None:
            try:
                act()
            finally:
                Caller.act = act

    def __hash__(self):
        self._called()
        return hash(self.key)

    def __eq__(self, other):
        self._called()
        return isinstance(other, Caller) and self.key == other.key


@pytest.mark.slow
def test_nested_predictions_have_rows_of_their_own():
    run_isolated(
        """
        import pickle

        import numpy as np
        from river import base
        from streamtree._core.learners.explaining import find_ways
        from support.estimators import CASES, targets_of

        class Caller:
            act = None
            def __init__(self, key):
                self.key = key
            def __repr__(self):
                return f"Caller({self.key})"
            def __hash__(self):
                self.called()
                return hash(self.key)
            def __eq__(self, other):
                self.called()
                return isinstance(other, Caller) and self.key == other.key
            def called(self):
                act, Caller.act = Caller.act, None
                if act is not None:
                    act()
                    Caller.act = act

        for case in CASES:
            estimator, params = case.values
            model = estimator(**params)
            wide = {i: 1.0 for i in range(200)}
            y = targets_of(estimator, [0, 1, 2])
            for i in range(60):
                x = {"plain": float(i % 5), Caller(i % 4): float(i % 3), "c": "t", **wide}
                model.learn_one(x, y[i % 3])
            calls = [lambda x: model.predict_one(x), lambda x: find_ways(model._core, x)]
            if isinstance(model, base.Classifier):
                calls += [
                    lambda x: model.predict_proba_one(x), lambda x: model.predict_topk_one(x, 2),
                    lambda x: model.predict_topk_one(x, 100),
                ]
            def row(value):
                # other objects than those read last, or nothing would be compared
                return {"plain": value, Caller(1): 2.0, Caller(9): 3.0, "c": "t", **wide}
            before = pickle.dumps(model.snapshot()["tree"])
            expected = [call(row(1.0)) for call in calls]
            count = 0
            for nested in [*calls, lambda x: model.predict_many(np.ones((3, 2)))]:
                for call, said in zip(calls, expected):
                    def act():
                        global count
                        count += 1
                        nested({"plain": -7.0, Caller(3): -5.0, "c": "u", 5: 9.0})
                        # until the rows of the outer call would have been moved
                        nested({**{(i, j): 1.0 for i in range(40) for j in range(20)}, **wide})
                        # the lock: a prediction is under way
                        try:
                            model.learn_one({"plain": 1.0}, y[0])
                        except RuntimeError as error:
                            assert "in use" in str(error)
                        else:
                            raise AssertionError("it learned while it predicted")
                    x = row(1.0)
                    Caller.act = act
                    found = call(x)
                    Caller.act = None
                    assert repr(found) == repr(said), (case.id, found, said)
            assert count > 10
            assert pickle.dumps(model.snapshot()["tree"]) == before
        """
    )


@cases
def test_a_name_that_learns_while_it_is_learned_is_refused(estimator, params):
    y = targets_of(estimator, [0, 1])
    model, plain = estimator(**params), estimator(**params)
    for each in (model, plain):
        for i in range(40):
            each.learn_one({Caller(i % 3): float(i % 5), "a": 1.0 * i}, y[i % 2])
    refused = []

    def act():
        for call in (
            lambda: model.learn_one({"other": 1.0}, y[1]),
            lambda: model.predict_one({"a": 1.0}),
            lambda: model.snapshot(),
        ):
            try:
                call()
            except RuntimeError as error:
                refused.append(error)

    x, new = {Caller(1): 2.0, "a": 3.0}, {Caller(7): 1.0, Caller(2): 4.0}
    Caller.act = act
    try:
        model.learn_one(x, y[0])
        model.learn_one(new, y[1])
    finally:
        Caller.act = None
    plain.learn_one({Caller(1): 2.0, "a": 3.0}, y[0])
    plain.learn_one({Caller(7): 1.0, Caller(2): 4.0}, y[1])
    assert len(refused) >= 3
    assert pickle.dumps(model.snapshot()["tree"]) == pickle.dumps(plain.snapshot()["tree"])


@pytest.mark.parametrize(
    "estimator", [SelfTerminatingTreeClassifier, SelfTerminatingTreeRegressor]
)
def test_grow_has_the_model_before_it_reads_the_rows(estimator):
    """A name that learns while `grow` reads it must not get rows in between."""
    y = targets_of(estimator, [0, 1] * 20)
    rows = [{"a": float(i), Caller(i % 3): 1.0} for i in range(40)]
    model, plain = estimator(), estimator()
    refused = []

    def act():
        try:
            model.learn_one({"other": 1.0}, y[0])
        except RuntimeError as error:
            refused.append(error)

    Caller.act = act
    try:
        model.grow(rows, y)
    finally:
        Caller.act = None
    plain.grow(rows, y)
    assert refused
    assert pickle.dumps(model.snapshot()) == pickle.dumps(plain.snapshot())


@pytest.mark.parametrize(
    "estimator", [SelfTerminatingTreeClassifier, SelfTerminatingTreeRegressor]
)
@pytest.mark.parametrize("bad", ["value", "mapping", "target", "weight", "rows", "name"])
def test_grow_checks_all_rows_before_it_takes_any(estimator, bad):
    y = targets_of(estimator, [0, 1] * 20)
    rows = [{"a": float(i), "b": "xy"[i % 2]} for i in range(40)]
    w = [1.0] * 40
    if bad == "value":
        rows[39] = {"a": 1.0, "new": object()}
    elif bad == "mapping":
        rows[39] = [1.0]
    elif bad == "target":
        y[39] = None
    elif bad == "weight":
        w[39] = -1.0
    elif bad == "rows":
        y = y[:39]
    model = estimator()
    before = pickle.dumps(model)

    def act():
        raise LookupError("this name does not want to be looked at")

    if bad == "name":
        name = Caller(1)
        rows[39] = {name: 1.0}
        Caller.act = act
    try:
        with pytest.raises((TypeError, ValueError, LookupError)):
            model.grow(rows, y, w)
    finally:
        Caller.act = None
    assert pickle.dumps(model) == before
    model.grow([{"a": float(i)} for i in range(40)], targets_of(estimator, [0, 1] * 20))
    assert model.n_nodes >= 1
    with pytest.raises(RuntimeError, match="learned"):
        model.grow([{"a": 1.0}], targets_of(estimator, [0]))
