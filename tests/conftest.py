"""What every test runs under: fixed seeds, no deadlines, no database of past examples."""

import gc
import random

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

# derandomize: the same examples at every run, so that a failure is never a matter of luck
settings.register_profile(
    "fixed",
    derandomize=True,
    database=None,
    deadline=None,
    max_examples=40,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("fixed")


def pytest_collection_modifyitems(config, items):
    """Leave out the long attacks unless they are asked for by name."""
    if "attack" not in config.option.markexpr:
        long = [item for item in items if item.get_closest_marker("attack")]
        config.hook.pytest_deselected(items=long)
        items[:] = [item for item in items if item not in long]


def pytest_collection_finish():
    """What was imported and collected stays: it is not to be looked through for garbage."""
    gc.freeze()


@pytest.fixture(autouse=True)
def _fixed_seeds():
    """river's checks shuffle features with the module-level generator."""
    random.seed(20140601)
    np.random.seed(20140601)  # noqa: NPY002 - river's models without a seed draw from it
