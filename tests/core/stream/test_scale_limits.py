"""Standardised values are numbers within limits, whatever the scales are."""

import numpy as np
import pytest
from support.isolated import run_isolated

from streamtree import LOMTreeClassifier, ModelTreeClassifier
from streamtree._core.store.checks import StateError


def test_no_scale_lets_a_value_become_nan():
    run_isolated("""
        import math
        import numpy as np
        from streamtree import LOMTreeClassifier, ModelTreeClassifier, SoftTreeClassifier

        X = np.random.default_rng(0).normal(size=(200, 3))
        row = {0: -1e308, 1: 1.0}
        for estimator in (LOMTreeClassifier, ModelTreeClassifier, SoftTreeClassifier):
            learned = estimator()
            learned.learn_many(X, X[:, 0] > 0)
            state = learned.snapshot()
            # its difference from the value overflows
            state["scaler"]["columns"]["center"][0] = 1e308
            state["scaler"]["columns"]["factor"][0] = 0.0
            model = estimator()
            model._core.check_state(state)
            model._core.restore(state)
            for _ in range(3):
                shares = model.predict_proba_one(row)
                assert math.isclose(sum(shares.values()), 1.0), shares
                model.learn_one(row, True)
                model.learn_one({0: -1e308}, False)
            assert np.isfinite(model.predict_proba_many(np.array([[-1e308, 0.0, 1.0]]))).all()
    """)


@pytest.mark.parametrize("estimator", [LOMTreeClassifier, ModelTreeClassifier])
def test_a_leaf_model_without_room_for_classes_is_refused(estimator):
    model = estimator()
    model.learn_many(np.eye(3), [0, 1, 0])
    state = model.snapshot()
    tree = state["tree"]["whole"][0] if "whole" in state["tree"] else state["tree"]
    saved = tree["leaves"]["models"][0]
    empty = np.empty(0, dtype=np.int32)
    for name in ("linear", "knots"):
        saved[name] = {"keys": empty, "records": np.empty((0, 2), dtype=np.float32)}
    saved["stride"] = 0
    with pytest.raises(StateError):
        estimator()._core.check_state(state)
