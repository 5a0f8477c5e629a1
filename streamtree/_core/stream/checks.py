"""What must hold of what is kept of a stream: names, labels, scales, rows."""

from collections.abc import Hashable

import numpy as np

from streamtree._core.store.checks import check_counts, check_finite, check_rows, require
from streamtree._core.stream.features import Category, Shared
from streamtree._core.stream.labels import MOST_WAITING
from streamtree._core.stream.scales import COLLECTING, ON_TRIAL
from streamtree._core.stream.window import (
    FIRST_ENTRIES,
    FIRST_SLOTS,
    SPARSE_PARTS,
    WEIGHT_FLOOR,
    full_capacity,
)


def check_names(names, what):
    """Raise StateError unless names or labels are a list without repetitions."""
    require(type(names) is list and all(isinstance(name, Hashable) for name in names), what)
    # a Category is equal to a tuple, but is another name
    distinct = {(type(name) is Category, type(name) is Shared, name) for name in names}
    shared = [name.number for name in names if type(name) is Shared]
    require(all(type(number) is int and number >= 0 for number in shared), what)
    require(len(distinct) == len(names) and all(name == name for name in names), what)


def check_label_state(state):
    """Raise StateError unless the index can trust what is said beside the labels."""
    waiting = state["waiting_labels"]
    again = state["labels_came_again"]
    require(len(again) == len(state["labels"]) and (again <= 1).all(), "the labels that came again")
    repeats = state["label_repeats"]
    require(type(repeats) is int and 0 <= repeats < 2**62, "rows whose label had come before")
    check_names(waiting, "the labels that wait")
    require(
        len(waiting) <= MOST_WAITING and not set(waiting) & set(state["labels"]),
        "the labels that wait",
    )


def check_scales(scales):
    """Raise StateError unless records of scales can be trusted."""
    for field in (
        "counted", "look_at", "n_part", "n_changes", "block_begin", "refresh_at", "forgotten",
        "n_units",
    ):
        require((scales[field] >= 0).all(), f"{field} of a scale")
    phases = scales["phase"]
    require(((phases >= COLLECTING) & (phases <= ON_TRIAL)).all(), "the phase of a scale")
    for field in ("has_varied", "is_dense", "is_listed"):
        require(((scales[field] == 0) | (scales[field] == 1)).all(), f"{field} of a scale")
    check_finite(
        scales, "center", "pivot", "part_pivot", "low", "high", "last", "unit_center", "origin"
    )
    check_finite(scales, "factor", "unit_deviation", at_least=0.0)


def check_scaler(scaler, n_columns):
    """Raise StateError unless `ColumnScaler.restore` can trust a state."""
    columns = scaler["columns"]
    require(len(columns) == n_columns, "the number of columns")
    check_counts(scaler["rows"])
    check_finite(np.array([scaler["mean_norm"]]), at_least=0.0)
    require((columns["birth"] >= 0).all(), "birth of a column")
    check_scales(columns)
    has_origin = columns["origin"] != 0
    ranks = np.sort(columns["origin_rank"][has_origin])
    require(np.array_equal(ranks, np.arange(1, len(ranks) + 1)), "the origin of a column")
    require((columns["origin_rank"][~has_origin] == 0).all(), "the origin of a column")
    # of targets nobody asks for the first unit
    is_other = columns["n_units"] > 0
    require((columns["unit_deviation"][is_other] > 0.0).all(), "the first unit of a column")


def check_intake(state):
    """Raise StateError unless an Intake can be made from what a snapshot says of it."""
    check_names(state["features"], "the features")
    for names in ("labels", "targets"):
        if state.get(names) is not None:
            check_names(state[names], f"the {names}")
    if state.get("labels") is not None:
        check_label_state(state)
    check_scaler(state["scaler"], len(state["features"]))


def check_kept(state, n_columns, n_labels, n_targets):
    """Raise StateError unless `KeptRows.take_state` can trust a state.

    `n_labels` bounds the labels, where rows have no targets.
    """
    n = state.get("n")
    check_counts(n)
    if n == 0:
        return
    entries = np.shape(state.get("columns"))
    kinds = {
        "starts": (np.int64, (n + 1,)), "columns": (np.int32, entries),
        "values": (np.float64, entries), "labels": (np.int32, (n,)),
        "targets": (np.float64, (n, n_targets)), "weights": (np.float64, (n,)),
    }
    for part, (dtype, shape) in kinds.items():
        array = state.get(part)
        require(isinstance(array, np.ndarray), f"the {part} of the kept rows")
        is_right = array.dtype == dtype and array.shape == shape
        require(is_right, f"the {part} of the kept rows")
    columns, labels = state["columns"], state["labels"]
    require(columns.ndim == 1, "the columns of the kept rows")
    check_rows(state["starts"], len(columns))
    require(((columns >= 0) & (columns < n_columns)).all(), "a column of a kept row")
    rows = np.repeat(np.arange(n), np.diff(state["starts"]))
    cells = np.sort(rows * max(n_columns, 1) + columns)
    require((cells[1:] > cells[:len(cells) - 1]).all(), "a column of a kept row twice")
    known = labels == -1 if n_targets else (labels >= 0) & (labels < n_labels)
    require(known.all(), "a label of a kept row")
    check_finite(state["values"])
    check_finite(state["targets"])
    # a sum of weights of 0 stands for no rows at all
    check_finite(state["weights"], at_least=5e-324)


def check_window(state, length, n_columns, n_labels, n_targets):
    """Raise StateError unless `Window.take_state` can trust a state.

    `n_labels` bounds the labels, where rows have no targets.
    """
    size = state["size"]
    capacity, lists = state["capacity"], state["list_capacity"]
    check_counts(size, state["length"], capacity, lists, state["n_origins"])
    require(state["n_origins"] <= n_columns, "the origins of the window")
    require(state["length"] == length, "the length of the window")
    require(capacity <= full_capacity(length), "the length of the window")
    n = min(size, capacity)
    require(capacity > 0 or size == 0, "the slots")
    require(capacity <= max(FIRST_SLOTS, 2 * n), "the slots")
    field_of, columns, groups = state["field_of"], state["columns"], state["groups"]
    starts, entries = state["starts"], len(state["list_columns"])
    numbers = int((columns >= 0).sum())
    shapes = {
        "numbers": (numbers, n), "codes": (len(columns) - numbers, n),
        "labels": (0 if n_targets else n,), "targets": (n if n_targets else 0,),
        "weights": (n,), "starts": (n + 1,), "list_values": (entries,),
    }
    for part, shape in shapes.items():
        require(state[part].shape == shape, f"the {part} of the window")
    require(len(field_of) <= n_columns, "a column of the window")
    require(len(groups) == len(columns), "the fields of the window")
    is_number = columns >= 0
    require(((columns >= -1) & (columns < len(field_of))).all(), "a field of the window")
    require((groups[is_number] == -1).all(), "a field of the window")
    kinds = groups[~is_number]
    require(((kinds >= 0) & (kinds < n_columns)).all(), "a field of the window")
    require(len(np.unique(kinds)) == len(kinds), "a field of the window")
    require(((field_of >= -1) & (field_of < len(columns))).all(), "a column of the window")
    places = np.flatnonzero(is_number)
    require((field_of[columns[is_number]] == places).all(), "a column of the window")
    require(len(np.unique(columns[is_number])) == len(places), "a column of the window")
    owners = np.isin(field_of, places)
    require(owners.sum() == len(places), "a column of the window")
    for part in ("codes", "list_columns"):
        columns = state[part]
        lowest = -1 if part == "codes" else 0
        require(
            ((columns >= lowest) & (columns < len(field_of))).all(), "a category of the window"
        )
    require(not np.isinf(state["numbers"]).any(), "a value of the window")
    check_finite(state["list_values"])
    check_finite(state["targets"])
    # as `push` bounds them, in single precision
    check_finite(state["weights"], at_least=np.float32(WEIGHT_FLOOR))
    labels = state["labels"]
    require(((labels >= 0) & (labels < n_labels)).all(), "a label of the window")
    check_rows(starts, entries)
    has_lists = bool((field_of < 0).any())
    require(entries <= lists <= (has_lists and max(FIRST_ENTRIES, SPARSE_PARTS * entries)), "lists")
    require(lists == 0 or (lists >= FIRST_ENTRIES and lists & (lists - 1) == 0), "lists")
