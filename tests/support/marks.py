"""Marks of parametrized cases."""

import pytest

# the quick half knows the defaults of estimators
VARIANT = (pytest.mark.slow, pytest.mark.variant)


def first_quick(values):
    """The values of a parameter, of which all but the first are slow."""
    first, *others = values
    return [first, *(pytest.param(value, marks=pytest.mark.slow) for value in others)]
