"""Snapshots, read as tests compare them."""

import copy
import itertools

import pytest

from streamtree._core.store.checks import StateError


def tables(state):
    """[{key: record}] by node, from flat arrays."""
    return [
        dict(zip(state["keys"][a:b].tolist(), state["records"][a:b].tolist(), strict=True))
        for a, b in itertools.pairwise(state["starts"])
    ]


def last_of(state):
    """What a snapshot of a forest says of its last member."""
    members = state["tree"]["members"]
    return members[str(len(members) - 1)]


def part_of(model):
    """What a forest's last member, or its only one, has learned."""
    return last_of(model.snapshot())


def changed(part, key, value, place=None, field=None):
    """A damage to the last member of a forest: of a whole entry, or of one place of an array."""
    def damage(state):
        entries = last_of(state)
        holder = entries[part] if part else entries
        if place is None:
            holder[key] = value
        else:
            (holder[key][field] if field else holder[key])[place] = value
    return damage


def assert_refused(model, damage):
    """A state is accepted as it is, and not with a damage."""
    state, other = copy.deepcopy(model.snapshot()), model.clone()
    other._core.check_state(state)
    damage(state)
    with pytest.raises(StateError):
        other._core.check_state(state)
