"""What must hold of the states of leaf models."""

import numpy as np

from streamtree._core.leaves.additive import FINE_KEYS, MOST_CLASSES, RATES, blank_model
from streamtree._core.leaves.postings import BLANK, MOST_POSTED, WEIGHT_FLOOR
from streamtree._core.splits.checks import check_statistics
from streamtree._core.store.checks import (
    check_finite,
    check_rows,
    check_same_kind,
    check_tables,
    require,
)
from streamtree._core.stream.encoding import FINE_KNOTS, KNOTS


def check_model(model, n_columns, least_stride=1):
    """Raise StateError unless `import_model` can trust a state."""
    stride = model["stride"]
    require(
        stride == 1 or (least_stride <= stride <= MOST_CLASSES and stride % 4 == 0),
        "the classes of a leaf model",
    )
    check_records(model["linear"], stride, n_columns + 1)
    check_records(model["knots"], stride, KNOTS * n_columns)


def check_fine(fine, stride, n_columns):
    """Raise StateError unless `import_fine` can trust a state of a model of so many classes."""
    check_same_kind(fine, {"columns": np.empty(0, np.int32), **blank_model()["knots"]})
    columns = fine["columns"]
    n_keys = FINE_KNOTS * len(columns)
    require(0 < n_keys <= FINE_KEYS, "the columns that a leaf looks at closely")
    require(((columns >= 0) & (columns < n_columns)).all(), "a column that a leaf looks at closely")
    require(len(set(columns.tolist())) == len(columns), "a column that a leaf looks at closely")
    check_records(fine, stride, n_keys)


def check_records(table, stride, n_keys):
    """Raise StateError unless `imported` can trust a table of records of so many classes."""
    starts = np.array([0, len(table["keys"])])
    check_tables(
        {**table, "starts": starts, "capacities": np.array([table["capacity"]])}, 1, n_keys,
        RATES * stride + 2,
    )
    check_finite(table["records"])
    # behind the weights the sum of squares, and a number that fills the pair
    check_finite(table["records"][:, max(RATES * stride, 1)], at_least=0.0)


def check_bayes(state, n_columns):
    """Raise StateError unless `import_bayes` can trust a state."""
    numbers = ("trust", "squares", "rows", "weight")
    check_same_kind(state, {**blank_model(), **dict.fromkeys(numbers, 0.0)})
    check_model(state, n_columns)
    for name in numbers:
        check_finite(np.array([state[name]]), at_least=0.0)
    for name in ("linear", "knots"):
        check_finite(state[name]["records"], at_least=0.0)
    require(state["trust"] > 0.0, "the trust of a leaf model")
    require(state["stride"] > 0, "the counts of a leaf model")


def check_softmax(model, n_columns):
    """Raise StateError unless a state can be that of a model of labels, or of two sides."""
    check_model(model, n_columns, least_stride=0)
    stride = max(model["stride"], 1)
    for name in ("linear", "knots"):
        check_finite(model[name]["records"][:, stride:], at_least=0.0)


def check_postings(postings, n_columns, n_labels):
    """Raise StateError unless `take_state` can trust a state."""
    check_same_kind(postings, BLANK)
    starts, lists, posted = postings["starts"], postings["lists"], postings["postings"]
    labels, numbers = postings["labels"], postings["numbers"]
    require(len(labels) <= n_labels and len(lists) <= n_columns, "the columns of labels")
    check_finite(labels, "rows", "columns", at_least=0.0)
    require(lists.shape == (len(starts) - 1, 2), "the number of lists")
    check_rows(starts, len(posted))
    lengths = np.diff(starts)
    require((lengths <= MOST_POSTED).all(), "the length of a list")
    check_finite(lists, at_least=0.0)
    check_finite(posted["weight"], at_least=0.0)
    turns = lists[:, 1]
    require(((turns == np.floor(turns)) & (turns < MOST_POSTED)).all(), "the turn of a list")
    require((lists[:, 0][lengths > 0] >= WEIGHT_FLOOR).all(), "the weight of a list")
    require((posted["weight"] <= 1e30).all(), "the weight of a posting")
    require(((posted["label"] >= 0) & (posted["label"] < len(labels))).all(), "a label of a list")
    require((labels["columns"][posted["label"]] >= WEIGHT_FLOOR).all(), "the columns of a label")
    pairs = np.repeat(np.arange(len(lists)), lengths) * (len(labels) + 1) + posted["label"]
    require(len(np.unique(pairs)) == len(pairs), "a label that is listed twice")
    require(numbers.shape == (3,), "the numbers of the lists")
    check_finite(numbers, at_least=0.0)
    require((numbers <= 1e30).all(), "the numbers of the lists")
    require(numbers[2] == np.floor(numbers[2]) and numbers[2] < 2**31, "the turn of lists")


def check_mixtures(
    state, n_nodes, n_columns, n_outputs, *, kind, places, max_classes, has_knots, has_rest
):
    """Raise StateError unless MixtureLeaves can trust a state; returns the nodes with models.

    `kind` is the state of a model that has learned nothing, `places` the most that its classes
    have.
    """
    for number in ("mean_norm", "rows"):
        check_finite(np.array([state[number]]), at_least=0.0)
    nodes, used = set(), {}
    for i, saved in enumerate(state["models"]):
        require(isinstance(saved, dict), "a leaf model")
        check_same_kind(saved, {**kind, "bayes": saved.get("bayes"), "fine": saved.get("fine")})
        node, top = saved["node"], saved["top"]
        require(-1 <= node < n_nodes and node not in nodes, "the node of a leaf model")
        check_saved(saved, kind, n_columns, n_outputs, max_classes, places)
        require(saved["bayes"] is None or has_knots, "naive Bayes of a leaf model")
        # only what a leaf learned on from another has them
        may_look = has_knots and top >= 0
        require(saved["fine"] is None or may_look, "what a leaf looks at closely")
        if node < 0:
            used[i] = False
            require(top == -1, "the common model of a common model")
        else:
            nodes.add(node)
        if top != -1:
            require(top in used, "the common model of a leaf")
            used[top] = True
            has_none = saved["bayes"] is None and not len(saved["classes"])
            require(has_none, "a leaf's own classes")
        rest = saved["rest"]["keys"]
        require(
            not len(rest) or (
                has_rest and len(saved["classes"]) == max_classes
                and saved["classes"][max_classes - 1] in rest
            ), "the rest of a leaf model's classes",
        )
    require(all(used.values()), "a common model that no leaf has")
    return nodes


def check_saved(saved, kind, n_columns, n_labels, max_classes, places):
    """Raise StateError unless `import_state` can trust a state."""
    classes = saved["classes"].tolist()
    require(len(set(classes)) == len(classes) <= max_classes, "a leaf's classes")
    require(all(0 <= label < n_labels for label in classes), "a leaf's classes")
    check_model(saved, n_columns)
    if saved["fine"] is not None:
        check_fine(saved["fine"], saved["stride"], n_columns)
    if saved["bayes"] is not None:
        check_bayes(saved["bayes"], n_columns)
    for model in (saved, saved["bayes"] or saved):
        require(model["stride"] <= places, "the classes of a leaf model")
    for name in ("losses", "shares"):
        require(len(saved[name]) == len(kind[name]), f"the {name} of a leaf")
        check_finite(saved[name], at_least=0.0)
    rest, label = saved["rest"], saved["rest_class"]
    check_finite(np.array([saved["rest_weight"]]), at_least=0.0)
    tables = {
        "starts": np.array([0, len(rest["keys"])]), "keys": rest["keys"],
        "records": rest["weights"].reshape(-1, 1), "capacities": np.zeros(1, dtype=np.int32),
    }
    check_tables(tables, 1, n_labels, 1)
    check_finite(rest["weights"], at_least=5e-324)
    known = label in rest["keys"] if len(rest["keys"]) else label == -1
    require(known, "the rest of a leaf model's classes")
    require(label == -1 or saved["rest_weight"] > 0.0, "the rest of a leaf model's classes")


def check_histogram_leaves(
    state, n_nodes, n_columns, n_outputs, *, of_labels, is_owner, has_linear, most_outputs
):
    """Raise StateError unless HistogramLeaves can trust a state; returns the nodes with models."""
    require(state["targets"].shape == (3,), "the targets of the leaves")
    check_finite(state["targets"][::2], at_least=0.0)
    check_finite(state["targets"])
    nodes = set()
    for part in state["models"]:
        check_same_kind(part, {
            "node": 0, "columns": np.empty(0, np.int32), "records": np.empty((0, 0, 0)),
            "scores": np.empty(0), "width": 0,
        })
        columns, records, scores = part["columns"], part["records"], part["scores"]
        require(0 <= part["node"] < n_nodes and part["node"] not in nodes, "a leaf's node")
        nodes.add(part["node"])
        require((columns[1:] > columns[:len(columns) - 1]).all(), "the order of the columns")
        require(((columns >= 0) & (columns < n_columns)).all(), "a column of a leaf")
        require(records.shape[:2] == (len(columns) + 1, 2), "a leaf's linear model")
        require(scores.shape == (3,), "the scores of a leaf")
        require(has_linear <= part["width"] <= most_outputs, "the outputs of a leaf")
        check_finite(records)
        check_finite(records[:, 1], at_least=0.0)
        check_finite(scores)
    owned = check_statistics(state["statistics"], of_labels, n_nodes, n_columns, n_outputs)
    require(owned == (nodes if is_owner else set()), "the statistics of the leaves")
    return nodes
