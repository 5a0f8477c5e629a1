"""A few of every attack in the suite; all of them with `pytest -m attack`."""

import re

import pytest
from support.estimators import NAMES
from support.isolated import run_isolated
from support.marks import first_quick
from support.shortage import can_run_short

QUICK = {
    "streams": 5, "malformed": 150, "files": 80, "kills": 11, "interrupts": 11, "crowds": 3,
    "shortage": 4, "changes": 6, "doors": 1,
}
FULL = {
    "streams": 20_000, "malformed": 10_000, "files": 20_000, "kills": 300, "interrupts": 200,
    "crowds": 110, "shortage": 500, "changes": 500, "doors": 200, "soak": 100_000_000,
}
# seeds of what went wrong once, and is not covered by a test of its own
FOUND = [("streams", 91015, "LOMTreeClassifier")]


def attacked(name, n, seed, only=None, timeout=120):
    if name == "shortage" and not can_run_short():
        pytest.skip("the allocator is replaced by C, and of glibc only")
    code = f"import attack.{name}; print(attack.{name}.run({n}, {seed}, {only!r}))"
    return run_isolated(code, timeout=timeout)


@pytest.mark.parametrize("name", first_quick(QUICK))
def test_a_few(name):
    print(attacked(name, QUICK[name], seed=5))


@pytest.mark.parametrize(("name", "seed", "only"), FOUND)
def test_what_was_found_is_mended(name, seed, only):
    print(attacked(name, 1, seed, only))


@pytest.mark.attack
@pytest.mark.parametrize("name", [name for name in QUICK if name != "streams"])
def test_all(name):
    said = attacked(name, FULL[name], seed=1000, timeout=7200)
    print(said)
    if name == "files":
        # the rest is refused; were nearly all, little would be tested
        assert int(re.search(r"which (\d+) loaded", said).group(1)) > FULL[name] // 20


@pytest.mark.attack
@pytest.mark.parametrize("name", ["streams", "soak"])
@pytest.mark.parametrize("estimator", NAMES)
def test_all_of_one(name, estimator):
    print(attacked(name, FULL[name], 1000, estimator, timeout=7200))
