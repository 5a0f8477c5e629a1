"""What must hold of a state before compiled code is given it.

The core trusts the state it restores: a link or a column that is out of range would read and write
memory that is not the model's. So a state from outside is checked first, field by field. What is
shared of these checks is here; in every folder, `checks` has those of its structs. They are plain
Python, for they run once a file, and compiled they were a quarter of the core.
"""

import numpy as np


class StateError(ValueError):
    """A state that no model can be in."""


def require(holds, what):
    """Raise by `what` unless a condition holds."""
    if not holds:
        raise StateError(f"inconsistent state: {what}")


def check_same_kind(state, like, path="state"):
    """Check that a state has the parts, types and dtypes of that of an untrained model."""
    # a list of (state, like, path) that are still to be compared
    waiting = [(state, like, path)]
    while waiting:
        state, like, path = waiting.pop()
        if isinstance(like, dict):
            require(isinstance(state, dict), path)
            for key, part in like.items():
                require(key in state, f"{path} lacks {key!r}")
                waiting.append((state[key], part, f"{path}/{key}"))
        elif isinstance(like, np.ndarray):
            # a large table of a file comes in pieces, which are no array but say what they are
            require(hasattr(state, "dtype"), f"the type of {path}")
            is_same = state.dtype == like.dtype and state.ndim == like.ndim
            require(is_same, f"the type of {path}")
        else:
            require(type(state) is type(like), f"the type of {path}")


def check_counts(*numbers):
    """Check that numbers are integers of at least 0."""
    for number in numbers:
        require(type(number) is int and 0 <= number < 2**63, "a count is not a count")


def check_finite(records, *fields, at_least=-np.inf):
    """Check that fields of records, or a plain array, are finite and not below a bound."""
    for values in [records[field] for field in fields] if fields else [records]:
        holds = np.isfinite(values).all() and (values >= at_least).all()
        require(holds, f"{', '.join(fields) or 'an array'} out of range")


def check_rows(starts, n_entries):
    """Check that `starts` divides `n_entries` entries into consecutive runs."""
    last = len(starts) - 1
    holds = (
        last >= 0
        and starts[0] == 0
        and starts[last] == n_entries
        and (starts[1:] >= starts[:last]).all()
    )
    require(holds, "where the entries of a row or table begin")


def check_tables(tables, n_tables, n_keys, width):
    """Check tables: where each begins, its keys, ascending below `n_keys`, and their records.

    `width` is the number of doubles of a record in the core.
    """
    starts, keys, records = tables["starts"], tables["keys"], tables["records"]
    require(len(starts) == n_tables + 1, "the number of tables")
    check_rows(starts, len(keys))
    require(records.shape == (len(keys), width), "the records of the tables")
    require(tables["capacities"].shape == (n_tables,), "the capacities of the tables")
    if len(keys):
        require(keys.min() >= 0 and keys.max() < n_keys, "a key out of range")
        ascends = keys[1:] > keys[:len(keys) - 1]
        # the first key of a table need not be larger than the last one of the table before
        borders = starts[1:n_tables]
        ascends[borders[(borders > 0) & (borders < len(keys))] - 1] = True
        require(ascends.all(), "the order of the keys")


def check_links(links, spare=False, binary=True):
    """Check that links are one tree; returns the depth of every node.

    With `spare` there may be nodes beside the tree, without parent and children; their depth is 0.
    Without `binary` a node may have any number of children.
    """
    size = len(links)
    require(0 < size < 2**31, "the root")
    parent, left, right, after = (
        links[name].astype(np.int64) for name in ("parent", "left", "right", "next")
    )
    require(parent[0] == after[0] == -1, "the root")
    require(((left == -1) == (right == -1)).all(), "a node with one child")
    inner, followed = np.flatnonzero(left != -1), np.flatnonzero(after != -1)
    # every child comes after one node: its parent, or the child before it
    before, children = np.append(inner, followed), np.append(left[inner], after[followed])
    for nodes in (children, right[inner]):
        require(((nodes > 0) & (nodes < size)).all(), "a child out of range")
    above = np.full(size, size)
    above[children] = before
    require((above < size).sum() == len(children), "a child of two")
    expected = np.full(size, -1)
    expected[left[inner]] = inner
    expected[after[followed]] = parent[followed]
    require((expected == parent).all(), "parents and children")
    is_last = (parent[right[inner]] == inner) & (after[right[inner]] == -1)
    require(is_last.all(), "the last child")
    if binary:
        require((after[left[inner]] == right[inner]).all(), "a node without two children")
    # jumps to the node before, twice as far each time: whoever never gets past the top is in a
    # cycle; from a parent it is a step down
    above = np.append(above, size)
    depths = np.zeros(size + 1, dtype=np.int64)
    depths[left[inner]] = 1
    for _ in range(size.bit_length()):
        depths += depths[above]
        above = above[above]
    require((above == size).all(), "a cycle")
    apart = np.flatnonzero(parent[1:] < 0) + 1
    is_spare = (left[apart] == -1) & (after[apart] == -1)
    require(not len(apart) or (spare and is_spare.all()), "a node beside the tree")
    return depths[:size]
