"""One small Ray cluster for all tests of a process.

To start one takes seconds, so drivers in processes of their own join it, where that they have their
own is not what is tested.
"""

import os
import sys

import pytest

# before Ray is imported
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_AUTH_MODE", "disabled")


@pytest.fixture
def address(cluster):
    """Where other drivers find the cluster."""
    return cluster.get_runtime_context().gcs_address


@pytest.fixture(scope="session")
def _end_of_cluster():
    yield
    if "ray" in sys.modules:
        sys.modules["ray"].shutdown()


@pytest.fixture
def cluster(_end_of_cluster):
    ray = pytest.importorskip("ray", reason="Ray is not installed")
    pytest.importorskip("ray.exceptions", reason="Ray is not installed")
    # where a page of the docs has run between two tests it has ended the cluster
    if not ray.is_initialized():
        ray.init(
            num_cpus=4, include_dashboard=False, log_to_driver=False,
            object_store_memory=80 * 2**20, configure_logging=False,
        )
    return ray
