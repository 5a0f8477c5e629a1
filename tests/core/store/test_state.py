"""The checks of a state before the core is given it."""

import numpy as np
import pytest

from streamtree._core.store.checks import (
    StateError,
    check_counts,
    check_finite,
    check_rows,
    check_same_kind,
    check_tables,
)

BLANK = {
    "names": [], "size": 0, "tree": {"values": np.zeros(0), "nodes": np.zeros(0, dtype="i4,f8")},
}


def test_a_state_of_the_same_kind_is_accepted():
    tree = {"values": np.ones(3), "nodes": np.zeros(2, dtype="i4,f8"), "more": None}
    check_same_kind({"names": ["a"], "size": 5, "tree": tree}, BLANK)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (None, "state"),
        ({}, "lacks"),
        (BLANK | {"names": ()}, "state/names"),
        (BLANK | {"size": True}, "state/size"),
        (BLANK | {"tree": []}, "state/tree"),
        (BLANK | {"tree": BLANK["tree"] | {"values": [1.0]}}, "state/tree/values"),
        (BLANK | {"tree": BLANK["tree"] | {"values": np.zeros((1, 1))}}, "state/tree/values"),
        (BLANK | {"tree": BLANK["tree"] | {"nodes": np.zeros(0, dtype="i8,f8")}}, "tree/nodes"),
    ],
)
def test_a_state_of_another_kind_is_not(wrong, message):
    with pytest.raises(StateError, match=message):
        check_same_kind(wrong, BLANK)


@pytest.mark.parametrize("count", [-1, 1.0, True, None, 2**63])
def test_counts(count):
    check_counts(0, 5, 2**63 - 1)
    with pytest.raises(StateError, match="count"):
        check_counts(0, count)


def test_numbers_are_finite_and_not_below_a_bound():
    records = np.array([(1.0, -1.0), (0.0, np.inf)], dtype=[("a", "f8"), ("b", "f8")])
    check_finite(records, "a", at_least=0.0)
    check_finite(records["b"][:1])
    for wrong in ((records, "b"), (records["b"],)):
        with pytest.raises(StateError, match="out of range"):
            check_finite(*wrong)
    with pytest.raises(StateError, match="b out of range"):
        check_finite(records[:1], "a", "b", at_least=0.0)


def test_rows_are_consecutive():
    check_rows(np.array([0]), 0)
    check_rows(np.array([0, 0, 2, 5]), 5)
    # the last one overflows when neighbours are subtracted
    for starts in ([], [1, 5], [0, 4], [0, 6, 5], [0, 2**62, -(2**62) - 2**61, 5]):
        with pytest.raises(StateError, match="begin"):
            check_rows(np.array(starts, dtype=np.int64), 5)


def exported(*tables):
    """Tables of records of two numbers, given as their lists of keys, as a state has them."""
    keys = np.array([key for table in tables for key in table], dtype=np.int32)
    starts = np.cumsum([0, *map(len, tables)])
    return {
        "starts": starts, "keys": keys, "records": np.ones((len(keys), 2)),
        "capacities": np.zeros(len(tables), dtype=np.int32),
    }


@pytest.mark.parametrize("tables", [[], [[]], [[0, 1, 9]], [[5], [], [2, 3], [1]], [[], [4], []]])
def test_sound_tables_are_accepted(tables):
    check_tables(exported(*tables), len(tables), 10, 2)


@pytest.mark.parametrize(
    ("part", "values", "message"),
    [
        ("starts", [0, 2], "the number of tables"),
        ("starts", [0, 3, 2, 4], "begin"),
        ("starts", [1, 2, 2, 4], "begin"),
        ("starts", [0, 2, 2, 3], "begin"),
        ("records", np.ones((4, 3)), "the records"),
        ("keys", [-1, 2, 0, 3], "a key out of range"),
        ("keys", [1, 2, 0, 10], "a key out of range"),
        ("keys", [2, 2, 0, 3], "the order"),
        ("keys", [1, 2, 3, 0], "the order"),
    ],
)
def test_unsound_tables_are_not(part, values, message):
    tables = exported([1, 2], [], [0, 3])
    check_tables(tables, 3, 10, 2)
    tables[part] = np.array(values, dtype=tables[part].dtype)
    with pytest.raises(StateError, match=message):
        check_tables(tables, 3, 10, 2)
