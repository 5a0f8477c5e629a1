"""A bound on memory under floods of names, categories and labels, and what is left of accuracy."""

import sys
from contextlib import suppress

import numpy as np
import pytest
from support.estimators import ESTIMATORS

pytestmark = pytest.mark.filterwarnings("ignore:.* ha(s|ve) (had|come)")
BOUNDED = [kind for kind in ESTIMATORS if "max_bytes" in kind()._get_params()]
MAX_BYTES, ROWS = 600_000, 3000


def hits_and_size(estimator, floods):
    """How well the second half of a stream was predicted, and what the model takes in the end."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(ROWS, 4))
    classes = np.digitize(X[:, 0] + X[:, 1], [-0.7, 0.7])
    model, right, largest = estimator(max_bytes=MAX_BYTES), [], 0
    classifies = hasattr(model, "predict_proba_one")
    for i in range(ROWS):
        x = dict(zip("abcd", X[i].tolist(), strict=True))
        if floods:
            x |= {f"column {i}": 1.0, "user": f"user {i}"}
        number = float(classes[i]) + X[i, 2]
        y = int(classes[i]) if classifies else number
        if "MultiTarget" in estimator.__name__:
            y = {"y": number}
        if 2 * i >= ROWS:
            said = model.predict_one(x)
            said = said["y"] if isinstance(said, dict) else said
            right.append(said == y if classifies else (said - number) ** 2)
        model.learn_one(x, y)
        if floods and classifies and i % 2:
            # or it is refused
            with suppress(ValueError):
                model.learn_one(x, f"label {i}")
        if i % 100 == 99:
            largest = max(largest, sys.getsizeof(model))
    if classifies:
        return np.mean(right), largest
    return 1.0 - np.mean(right) / np.var(classes + X[:, 2]), largest


@pytest.mark.parametrize("estimator", BOUNDED, ids=lambda estimator: estimator.__name__)
def test_floods_stay_within_max_bytes_and_leave_most_of_the_accuracy(estimator):
    calm, _ = hits_and_size(estimator, floods=False)
    score, largest = hits_and_size(estimator, floods=True)
    assert largest <= 1.1 * MAX_BYTES
    assert score > calm - 0.1
