"""Annotations of public methods name what there is."""

import inspect
import typing

import pytest
from support.estimators import ESTIMATORS


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_annotations_can_be_read(estimator):
    for name, method in inspect.getmembers(estimator, inspect.isfunction):
        if method.__module__.startswith("streamtree") and not name.startswith("_"):
            typing.get_type_hints(method)
