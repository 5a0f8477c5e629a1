"""Marks of parametrized cases."""

import pytest

# the quick half knows the defaults of estimators
VARIANT = (pytest.mark.slow, pytest.mark.variant)


def first_quick(values):
    """Values of a parameter, or tuples of those of several, of which all but the first are slow."""
    first, *others = values
    cases = [value if isinstance(value, tuple) else (value,) for value in others]
    return [first, *(pytest.param(*case, marks=pytest.mark.slow) for case in cases)]
