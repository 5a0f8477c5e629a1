"""The estimators of the package, for the tests that hold for all of them."""

import pytest

import streamtree
from streamtree.base import StreamTree

PUBLIC = [getattr(streamtree, name) for name in streamtree.__all__]
ESTIMATORS = [item for item in PUBLIC if isinstance(item, type) and issubclass(item, StreamTree)]
NAMES = [estimator.__name__ for estimator in ESTIMATORS]
CASES = [
    pytest.param(estimator, params, id=f"{estimator.__name__}-{number}")
    for estimator in ESTIMATORS
    for number, params in enumerate(estimator._unit_test_params())
]
cases = pytest.mark.parametrize(("estimator", "params"), CASES)
