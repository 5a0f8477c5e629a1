"""Snapshots, read as tests compare them."""

import itertools


def tables(state):
    """[{key: record}] by node, from flat arrays."""
    return [
        dict(zip(state["keys"][a:b].tolist(), state["records"][a:b].tolist(), strict=True))
        for a, b in itertools.pairwise(state["starts"])
    ]
