"""What must hold of a state before compiled code is given it; the shared pieces of the checks.

The core trusts the state it restores: a link or a column that is out of range would read and write
memory that is not the model's. So a state from outside is checked here first, field by field, and
by every estimator's `_check_state` for what is its own.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from streamtree._core.features import Category

__all__ = [
    "StateError",
    "check_counts",
    "check_finite",
    "check_links",
    "check_names",
    "check_rows",
    "check_same_kind",
    "check_scaler",
    "check_tables",
    "require",
]


class StateError(ValueError):
    """A state that no model can be in."""


def require(holds: Any, what: str) -> None:
    """Raise by `what` unless a condition holds."""
    if not holds:
        raise StateError(f"inconsistent state: {what}")


def check_same_kind(state: Any, like: Any, path: str = "state") -> None:
    """Check that a state has the parts, types and dtypes of that of an untrained model."""
    if isinstance(like, dict):
        require(isinstance(state, dict), path)
        for key, part in like.items():
            require(key in state, f"{path} lacks {key!r}")
            check_same_kind(state[key], part, f"{path}/{key}")
    elif isinstance(like, np.ndarray):
        is_same = getattr(state, "dtype", None) == like.dtype and state.ndim == like.ndim
        require(is_same, f"the type of {path}")
    else:
        require(type(state) is type(like), f"the type of {path}")


def check_names(names: Any, what: str) -> int:
    """Check that names or labels are a list without repetitions; returns their number."""
    require(type(names) is list, what)
    # a Category is equal to a tuple, but is another name
    distinct = {(type(name) is Category, name) for name in names}
    require(len(distinct) == len(names) and all(name == name for name in names), what)
    return len(names)


def check_counts(*numbers: Any) -> None:
    """Check that numbers are integers of at least 0."""
    for number in numbers:
        require(type(number) is int and 0 <= number < 2**63, "a count is not a count")


def check_finite(records: np.ndarray[Any, Any], *fields: str, at_least: float = -np.inf) -> None:
    """Check that fields of records, or a plain array, are finite and not below a bound."""
    for values in [records[field] for field in fields] if fields else [records]:
        holds = np.isfinite(values).all() and (values >= at_least).all()
        require(holds, f"{', '.join(fields) or 'an array'} out of range")


def check_scaler(scaler: dict[str, Any], n_columns: int) -> None:
    """Check the statistics of the columns."""
    columns = scaler["columns"]
    require(len(columns) == n_columns, "the number of columns")
    check_counts(scaler["rows"])
    # values that are not scaled may overflow in it
    require(not scaler["mean_norm"] <= 0, "the mean norm")
    for field in ("nonzeros", "birth", "refresh_at"):
        require((columns[field] >= 0).all(), f"{field} of a column")
    require(np.isin(columns["is_dense"], (0, 1)).all(), "is_dense of a column")
    check_finite(columns, "pivot", "center")
    check_finite(columns, "factor", at_least=0.0)


def check_links(links: np.ndarray[Any, Any], spare: bool = False) -> np.ndarray[Any, Any]:
    """Check that parents and children are one binary tree; returns the depth of every node.

    With `spare` there may be nodes beside the tree, without parent and children; their depth is 0.
    """
    size = len(links)
    parent, left, right = (links[name].astype(np.int64) for name in ("parent", "left", "right"))
    require(0 < size < 2**31 and parent[0] == -1, "the root")
    inner = np.flatnonzero(left != -1)
    children = np.concatenate([left[inner], right[inner]])
    require((right[left == -1] == -1).all(), "a node with one child")
    require(((children > 0) & (children < size)).all(), "a child out of range")
    expected = np.full(size, -1)
    expected[children] = np.concatenate([inner, inner])
    # nobody is a child twice, and every child knows whose it is
    require((expected >= 0).sum() == len(children), "a child of two")
    require((expected == parent).all(), "parents and children")
    # jumps to the ancestor, twice as far each time: whoever never gets past the top is in a cycle
    above = np.append(np.where(expected < 0, size, expected), size)
    depths = (above < size).astype(np.int64)
    for _ in range(size.bit_length()):
        depths += depths[above]
        above = above[above]
    require((above == size).all(), "a cycle")
    apart = np.flatnonzero(expected[1:] < 0) + 1
    require(not len(apart) or (spare and (left[apart] == -1).all()), "a node beside the tree")
    return depths[:size]


def check_tables(tables: dict[str, Any], n_tables: int, n_keys: int, width: int) -> None:
    """Check tables: where each begins, its keys, ascending below `n_keys`, and their records.

    `width` is the number of doubles of a record in the core.
    """
    starts, keys, records = tables["starts"], tables["keys"], tables["records"]
    require(len(starts) == n_tables + 1, "the number of tables")
    check_rows(starts, len(keys))
    require(records.shape == (len(keys), width), "the records of the tables")
    if len(keys):
        require(keys.min() >= 0 and keys.max() < n_keys, "a key out of range")
        ascends = keys[1:] > keys[:-1]
        # the first key of a table need not be larger than the last one of the table before
        borders = starts[1:-1]
        ascends[borders[(borders > 0) & (borders < len(keys))] - 1] = True
        require(ascends.all(), "the order of the keys")


def check_rows(starts: np.ndarray[Any, Any], n_entries: int) -> None:
    """Check that `starts` divides `n_entries` entries into consecutive runs."""
    holds = (
        len(starts) > 0
        and starts[0] == 0
        and starts[-1] == n_entries
        and (starts[1:] >= starts[:-1]).all()
    )
    require(holds, "where the entries of a row or table begin")
