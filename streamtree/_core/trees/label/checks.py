"""What must hold of the states of label trees."""

import numpy as np

from streamtree._core.leaves.additive import blank_model
from streamtree._core.leaves.checks import check_postings, check_softmax
from streamtree._core.store.checks import (
    check_counts,
    check_finite,
    check_links,
    check_same_kind,
    require,
)


def check_label_tree(state, n_columns, n_outputs, *, max_classes, sketch, whole, kind):
    """Raise StateError unless a LabelTree can trust a state.

    `sketch` is the size of a projected row, `whole` the tree of the only group, None if there is
    none, and `kind` its state.
    """
    nodes, labels, left = state["nodes"], state["labels"], state["links"]["left"]
    depths = check_links(state["links"])
    require(len(nodes) == len(left), "the number of nodes")
    check_labels(labels, state["sums"], n_outputs, sketch)
    require(len(state["sums"]) == n_outputs or not state["has_groups"], "the sums")
    check_finite(nodes, "weight", "seen", "used", at_least=0.0)
    require(((nodes["by_means"] & ~1) == 0).all(), "how labels were arranged")
    require((nodes["by_means"][left < 0] == 0).all(), "how labels were arranged")
    check_finite(np.array([state["lead"]]))
    for name in ("most_lead", "differing", "compared", "mean_norm", "rows"):
        check_finite(np.array([state[name]]), at_least=0.0)
    check_counts(state["hand"], state["n_swaps"])
    require(state["hand"] <= len(nodes), "the node that forgot last")
    has_groups = state["has_groups"]
    require(state["says"].shape == (2, 2), "what groups and counts have to say")
    check_finite(state["says"])
    check_finite(state["says"][:, 1], at_least=0.0)
    require(len(state["postings"]) == has_groups, "the columns of labels")
    for postings in state["postings"]:
        check_postings(postings, n_columns, n_outputs)
    # as long as it is not settled there is a whole tree, and then one of the two
    expected = not (has_groups and state["is_settled"])
    require(len(state["whole"]) == expected, "the tree of the only group")
    for part in state["whole"]:
        require(whole is not None, "the tree of the only group")
        check_same_kind(part, kind)
        whole.check_state(part, n_columns, n_outputs)
    if has_groups:
        require(n_outputs > max_classes, "the labels of groups")
        check_groups(state["links"], depths, nodes["n_labels"], labels, max_classes)
    else:
        require(len(nodes) == 1 and (labels["group"] == -1).all(), "the group of a label")
        require(nodes["n_labels"][0] == 0, "the labels of a group")
    check_models(state["tests"], range(len(nodes)), n_columns)
    leaves = (left < 0).nonzero()[0].tolist() if has_groups else []
    check_models(state["models"], leaves, n_columns)
    for test, below in zip(state["tests"], left, strict=True):
        require(test["stride"] == 0, "the test of a node")
        for table in (test["linear"], test["knots"]):
            # it begins when the group is divided
            is_empty = len(table["keys"]) == 0 == table["capacity"]
            require(below >= 0 or is_empty, "the test of a group")
    for model in state["models"]:
        n_labels = nodes["n_labels"][model["node"]]
        require(model["stride"] >= max(n_labels, 4), "the labels of a model")


def check_labels(labels, sums, n_outputs, sketch):
    """Check what is known of every label, and the sums of its rows."""
    require(len(labels) == n_outputs, "the number of labels")
    require(len(sums) in (0, n_outputs), "the sums")
    require(sums.shape[1] == sketch, "the sums of a label")
    check_finite(labels, "weight", "counted", "squares", "norms", "used", at_least=0.0)
    check_finite(sums)


def check_models(models, nodes, n_columns):
    """Check the models of some nodes."""
    kind = {"node": 0, **blank_model()}
    require(len(models) == len(nodes), "the models of the nodes")
    for model, node in zip(models, nodes, strict=True):
        check_same_kind(model, kind)
        require(model["node"] == node, "the node of a model")
        check_softmax(model, n_columns)


def check_groups(links, depths, n_labels, labels, max_classes):
    """Check that every label of a group has a place of its own, and what nodes say of their
    number."""
    group, place = labels["group"], labels["place"]
    inside = group >= 0
    require(((group >= -1) & (group < len(links))).all(), "the group of a label")
    require((links["left"][group[inside]] < 0).all(), "the group of a label")
    counts = np.bincount(group[inside], minlength=len(links))
    require((n_labels[links["left"] < 0] > 0).all(), "a group without labels")
    require((counts <= max_classes).all(), "the labels of a group")
    # by group and place: places are to be 0, 1, 2, ... in each
    order = np.lexsort((place[inside], group[inside]))
    places = place[inside][order]
    firsts = np.repeat(np.cumsum(counts) - counts, counts)
    require((places == np.arange(len(places)) - firsts).all(), "the place of a label")
    # from the deepest on; the root is node 0
    for node in np.argsort(-depths[1:], kind="stable") + 1:
        counts[links["parent"][node]] += counts[node]
    require((counts == n_labels).all(), "the labels below a node")
