"""Label trees: groups of labels, tests of sides, the beam, and what they do at their bounds."""

import itertools
import math
import pickle
import sys

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from reference.labeltree import ReferenceLabelTree
from scipy import sparse
from support.estimators import state_of
from support.isolated import run_isolated
from support.marks import first_quick
from support.shortage import can_run_short, run_short
from support.strategies import streams

from streamtree import LOMTreeClassifier, diagnostics
from streamtree._core.store.checks import StateError
from streamtree.serialization import from_bytes, to_bytes


def texts(n, n_labels, seed, n_words=120):
    """Rows of word indices, and labels of Zipf frequencies: each label has words of its own."""
    rng = np.random.default_rng(seed)
    frequency = 1.0 / np.arange(1, n_labels + 1)
    labels = rng.choice(n_labels, size=n, p=frequency / frequency.sum())
    words = rng.integers(n_words, size=(n_labels, 3))
    rows = []
    for label in labels:
        noise = rng.integers(n_words, size=3)
        rows.append(np.unique(np.append(rng.permutation(words[label])[:2], noise)))
    return rows, labels.tolist()


def as_dict(words):
    return {f"w{word}": 1.0 for word in words.tolist()}


def as_csr(rows, n_words=120):
    starts = np.append(0, np.cumsum([len(row) for row in rows]))
    return sparse.csr_matrix(
        (np.ones(starts[-1]), np.concatenate(rows), starts), shape=(len(rows), n_words)
    )


def groups_of(model):
    """The state of a model that has settled on groups, or is comparing them."""
    return model.snapshot()["tree"]


def learned(rows, labels, **params):
    model = LOMTreeClassifier(**params)
    for row, label in zip(rows, labels, strict=True):
        model.learn_one(as_dict(row), label)
    return model


# ------------------------------------------------------------------------ the reference


def weights_of(model, node):
    stride, linear = model["stride"], model["linear"]
    return {
        (key - 1 if key else None, place): float(record[place])
        for key, record in zip(linear["keys"].tolist(), linear["records"], strict=True)
        for place in range(1 if node.left is not None else min(stride, len(node.labels)))
        if record[place]
    }


def assert_same(model, reference):
    state = groups_of(model)
    numbers = {id(node): i for i, node in enumerate(reference.nodes)}
    for i, node in enumerate(reference.nodes):
        link, stats = state["links"][i], state["nodes"][i]
        for name in ("parent", "left", "right"):
            other = getattr(node, name)
            assert link[name] == (-1 if other is None else numbers[id(other)])
        assert stats["n_labels"] == len(node.below())
        assert stats["weight"] == pytest.approx(node.weight)
        assert stats["seen"] == pytest.approx(node.seen)
        assert stats["by_means"] == node.by_means
        test = {column: w for (column, _), w in weights_of(state["tests"][i], node).items()}
        for column, (weight, _) in node.test.items():
            # single precision on one side
            assert test.get(column, 0.0) == pytest.approx(weight, rel=1e-3, abs=1e-4)
    for model_state in state["models"]:
        node = reference.nodes[model_state["node"]]
        found = weights_of(model_state, node)
        for column, records in node.model.items():
            for place, label in enumerate(node.labels):
                expected = records.get(label, (0.0,))[0]
                assert found.get((column, place), 0.0) == pytest.approx(
                    expected, rel=1e-3, abs=1e-4
                )
    for number, label in enumerate(reference.labels):
        record = state["labels"][number]
        assert record["group"] == (numbers[id(label.group)] if label.group else -1)
        for name in ("weight", "counted", "squares", "norms"):
            assert record[name] == pytest.approx(getattr(label, name))
        sums = pytest.approx(label.sums.tolist(), rel=1e-5, abs=1e-6)
        assert state["sums"][number].tolist() == sums
    assert state["says"].tolist() == [pytest.approx(say, rel=1e-3) for say in reference.says]
    postings = state["postings"][0]
    for column, start in enumerate(postings["starts"][:-1].tolist()):
        posted = postings["postings"][start:postings["starts"][column + 1]]
        assert dict(posted.tolist()) == pytest.approx(reference.counts.lists.get(column, {}))


@pytest.mark.parametrize(
    ("max_classes", "beam", "n_subjects"),
    first_quick([(3, 1, 0), (5, 2, 0), (16, 4, 0), (16, 4, 2)]),
)
def test_every_step_equals_the_reference(max_classes, beam, n_subjects):
    """Labels are arranged by means; where rows say nothing of them, by frequency."""
    rows, labels = texts(500, 50, seed=max_classes)
    if n_subjects:
        rows = [
            np.append(row, 120 + label % n_subjects)
            for row, label in zip(rows, labels, strict=True)
        ]
    model, reference = compared(rows, labels, max_leaf_classes=max_classes, beam=beam)
    assert len(reference.nodes) > 50 // max_classes
    assert any(node.by_means for node in reference.nodes)
    # small groups are divided before much is known of their labels
    if max_classes < 16:
        assert not all(node.by_means for node in reference.nodes if node.left is not None)
    assert model.n_swaps == 0


@pytest.mark.slow
def test_groups_that_are_no_longer_used_give_their_place_as_in_the_reference():
    rows, labels = texts(1500, 60, seed=7)
    # ten new labels every 150 rows, of 20 that come
    labels = [10 * (i // 150) + label % 20 for i, label in enumerate(labels)]
    model, reference = compared(
        rows, labels, max_leaf_classes=4, max_splits=12, swap_resistance=1.5
    )
    assert model.n_splits == 12
    # some of a label, some of a whole group: then others have other numbers
    assert model.n_swaps > 20
    links = groups_of(model)["links"]
    assert (links["parent"] > np.arange(len(links))).any()
    assert sum(label.group is None for label in reference.labels) > 20


def compared(rows, labels, *, max_leaf_classes, beam=4, **params):
    """A model, and the reference that learned the same, of which every step was the same."""
    model = LOMTreeClassifier(max_leaf_classes=max_leaf_classes, beam=beam, **params)
    # no two labels are to be equally probable: the reference sums in another order
    weights = np.random.default_rng(1).uniform(0.5, 2.0, size=len(rows)).tolist()
    reference, order = None, {}
    for i, (row, label, weight) in enumerate(zip(rows, labels, weights, strict=True)):
        order.setdefault(label, len(order))
        model.learn_one(as_dict(row), label, w=weight)
        columns = model._core.features.names
        values = {columns.index(name): 1.0 for name in as_dict(row)}
        if reference is not None:
            reference.names = columns
            reference.learn_one(values, order[label], weight)
        elif groups_of(model)["has_groups"]:
            reference = ReferenceLabelTree(
                groups_of(model), columns, max_classes=max_leaf_classes, beam=beam, **params
            )
        if reference is not None and (i < 30 or i % 25 == 0):
            assert_same(model, reference)
            # the whole tree may still be the one that speaks
            if not groups_of(model)["is_whole"]:
                said = list(model.predict_proba_one(as_dict(row)).values())
                assert said == pytest.approx(
                    reference.predict_proba_one(values).tolist(), rel=1e-3, abs=1e-5
                )
    assert model._core.tree.has_groups
    return model, reference


# ------------------------------------------------------------------------------- labels


def test_few_labels_are_those_of_a_model_tree():
    from streamtree import ModelTreeClassifier

    rows, labels = texts(400, 12, seed=3)
    ours, other = LOMTreeClassifier(), ModelTreeClassifier()
    ours.learn_many(as_csr(rows), labels)
    other.learn_many(as_csr(rows), labels)
    assert not ours._core.tree.has_groups
    asked = as_csr(rows[:50])
    assert ours.predict_proba_many(asked).tolist() == other.predict_proba_many(asked).tolist()


def grouped(state):
    """The groups of the labels that have one: those of less than four examples may wait."""
    labels = state["labels"]
    # rows of different weights count as a number of equal ones
    is_frequent = labels["counted"] ** 2 >= 4 * labels["squares"]
    assert (labels["group"][is_frequent] >= 0).all()
    return labels["group"][labels["group"] >= 0]


def assert_disjoint(state, max_classes, n_labels):
    """Every label of four examples is in one group; the depth is logarithmic."""
    left, groups = state["links"]["left"], grouped(state)
    assert (left[groups] < 0).all()
    counts = np.bincount(groups, minlength=len(left))
    assert (counts[left < 0] > 0).all()
    assert counts.max() <= max_classes
    assert state["nodes"]["n_labels"][0] == len(groups) <= n_labels


@hypothesis_settings(max_examples=60)
@given(stream=streams(), params=st.fixed_dictionaries({
    "max_leaf_classes": st.integers(2, 4), "beam": st.integers(1, 4),
}))
def test_any_stream_gives_a_sound_label_tree(stream, params):
    model = LOMTreeClassifier(**params)
    for x, y, w in stream:
        model.learn_one(x, y, w=w)
    state = groups_of(model)
    if state["has_groups"]:
        assert_disjoint(state, params["max_leaf_classes"], len(model.labels))
        model._core.check_state(model.snapshot())
    for x, _, _ in stream[:5]:
        proba = model.predict_proba_one(x)
        if proba:
            assert sum(proba.values()) == pytest.approx(1.0, abs=1e-9)
            assert min(proba.values()) > 0.0
            assert proba[model.predict_one(x)] == max(proba.values())
    assert pickle.dumps(pickle.loads(pickle.dumps(model))) == pickle.dumps(model)


def clusters(n, seed):
    """Rows around the means of 96 labels, which lie in clusters of six."""
    rng = np.random.default_rng(seed)
    means = np.repeat(3.0 * rng.normal(size=(16, 8)), 6, axis=0) + rng.normal(size=(96, 8))
    labels = rng.integers(96, size=n)
    return means[labels] + 0.5 * rng.normal(size=(n, 8)), labels


def test_labels_whose_means_are_close_share_a_group():
    X, y = clusters(4000, seed=31)
    model = LOMTreeClassifier(max_leaf_classes=24)
    model.learn_many(X[:3000], y[:3000].tolist())
    state = groups_of(model)
    assert state["nodes"]["by_means"][0]
    group = dict(zip(model.labels, state["labels"]["group"].tolist(), strict=True))
    alike = [group[label] == group[label - label % 6] for label in range(96)]
    # by chance it would be one in three
    assert np.mean(alike) > 0.7
    assert np.mean(np.array(model.predict_many(X[3000:])) == y[3000:]) > 0.75


def test_labels_that_rows_do_not_tell_are_arranged_by_frequency():
    rng = np.random.default_rng(33)
    labels = np.minimum(rng.geometric(0.04, size=3000), 60)
    model = LOMTreeClassifier(max_leaf_classes=16)
    model.learn_many(rng.normal(size=(3000, 8)), labels.tolist())
    state = groups_of(model)
    inner = state["links"]["left"] >= 0
    assert inner.any()
    assert not state["nodes"]["by_means"][inner].any()
    assert not state["nodes"]["by_means"][~inner].any()


def test_means_of_very_many_rows_fade():
    n = 150_000
    model = LOMTreeClassifier(max_leaf_classes=4)
    labels = np.arange(n) % 2
    model.learn_many(np.where(labels, 1.0, -1.0)[:, None], labels.tolist())
    records, sums = (groups_of(model)[name] for name in ("labels", "sums"))
    assert (records["counted"] <= 65536).all()
    assert (records["counted"] > 32768).all()
    assert (np.abs(sums).sum(axis=1) / records["counted"] == pytest.approx(1.0, abs=1e-3))


@pytest.mark.parametrize("order", ["shuffled", "sorted", "blocks", "falling"])
@pytest.mark.parametrize("max_classes", [2, 8])
def test_the_depth_is_logarithmic_in_any_order(order, max_classes):
    rows, labels = texts(1500, 150, seed=5)
    labels = np.array(labels)
    keys = {
        "shuffled": np.arange(len(labels)),
        "sorted": labels,
        "falling": -labels,
        "blocks": labels // 20,
    }
    order = np.argsort(keys[order], kind="stable")
    model = LOMTreeClassifier(max_leaf_classes=max_classes)
    model.learn_many(as_csr([rows[i] for i in order]), labels[order].tolist())
    n_labels = len(set(labels.tolist()))
    state = groups_of(model)
    assert_disjoint(state, max_classes, n_labels)
    assert model._core.tree.depths().max() <= 2 * math.log2(n_labels)


def test_rows_that_are_tested_first_leave_the_same_groups():
    rows, labels = texts(300, 100, seed=8)
    models = [LOMTreeClassifier(max_leaf_classes=16) for _ in range(2)]
    models[0].learn_many(as_csr(rows), labels)
    models[1].test_then_learn_many(as_csr(rows), labels)
    assert pickle.dumps(models[0]) == pickle.dumps(models[1])
    assert np.isfinite(groups_of(models[1])["says"]).all()


def test_a_label_tree_learns_many_labels():
    rows, labels = texts(6000, 100, seed=7)
    model = LOMTreeClassifier(max_leaf_classes=16)
    said = model.test_then_learn_many(as_csr(rows), labels)
    right = np.array(said) == np.array(labels)
    majority = np.bincount(labels).max() / len(labels)
    assert right[3000:].mean() > majority + 0.35
    assert right[5000:].mean() > right[:1000].mean() + 0.1


def test_wider_beams_find_more():
    rows, labels = texts(4000, 100, seed=9)
    errors = []
    for beam in (1, 4, 64):
        model = LOMTreeClassifier(max_leaf_classes=4, beam=beam)
        model.learn_many(as_csr(rows[:3000]), labels[:3000])
        said = model.predict_many(as_csr(rows[3000:]))
        errors.append((np.array(said) != np.array(labels[3000:])).mean())
    assert errors[1] < errors[0]
    assert errors[2] <= errors[1] + 0.01


# --------------------------------------------------------------------------- prediction


@pytest.mark.parametrize("beam", [1, 3, 64])
def test_probabilities_labels_and_top_labels_agree(beam):
    rows, labels = texts(900, 60, seed=11)
    model = learned(rows, labels, max_leaf_classes=4, beam=beam)
    for row in [*rows[:30], np.array([], dtype=int)]:
        x = as_dict(row)
        shares = model.predict_proba_one(x)
        assert sum(shares.values()) == pytest.approx(1.0)
        assert min(shares.values()) > 0.0
        best = model.predict_one(x)
        assert shares[best] == max(shares.values())
        for count in (1, 5, 1000):
            top = model.predict_topk_one(x, count)
            assert len(top) == min(count, len(shares))
            expected = sorted(shares.values(), reverse=True)[:count]
            assert [share for _, share in top] == pytest.approx(expected, rel=1e-12)
            assert top[0][0] == best
            assert all(share == pytest.approx(shares[label]) for label, share in top)


def test_a_sparse_batch_equals_a_loop_over_dicts():
    rows, labels = texts(300, 60, seed=13)
    loop = learned(rows, labels, max_leaf_classes=8)
    batch = LOMTreeClassifier(max_leaf_classes=8)
    frame = pd.DataFrame.sparse.from_spmatrix(
        as_csr(rows), columns=[f"w{word}" for word in range(120)]
    )
    batch.learn_many(frame, labels)
    ours, other = batch.snapshot()["tree"], loop.snapshot()["tree"]
    assert ours["labels"].tolist() == other["labels"].tolist()
    asked = [as_dict(row) for row in rows[:40]]
    assert [batch.predict_one(x) for x in asked] == [loop.predict_one(x) for x in asked]
    for x in asked[:10]:
        assert batch.predict_proba_one(x) == loop.predict_proba_one(x)


@pytest.mark.parametrize("max_bytes", [262144, 400_000])
def test_where_memory_is_short_a_batch_equals_its_rows(max_bytes):
    rows, labels = texts(300, 60, seed=13)
    X = as_csr(rows)
    batch, loop = (LOMTreeClassifier(max_leaf_classes=8, max_bytes=max_bytes) for _ in range(2))
    batch.learn_many(X, labels)
    for i, label in enumerate(labels):
        loop.learn_many(X[i : i + 1], [label])
    assert pickle.dumps(batch) == pickle.dumps(loop)


def test_without_room_for_both_groups_go_on_without_the_whole_tree():
    """The whole tree has learned as many labels as it may, of many columns, when others come."""
    rows, labels = texts(4000, 60, seed=13, n_words=1000)
    order = np.argsort(np.array(labels) >= 30, kind="stable").tolist()
    X, y = as_csr([rows[i] for i in order], 1000), np.array(labels)[order]
    model = LOMTreeClassifier(max_leaf_classes=32, max_bytes=1_600_000)
    roomy = LOMTreeClassifier(max_leaf_classes=32)
    for each in (model, roomy):
        each.learn_many(X, y)
    assert model._core.tree.is_settled
    assert model._core.tree.has_groups
    assert not roomy._core.tree.is_settled
    assert model._core.n_bytes <= 1_600_000
    assert np.mean(model.predict_many(X[-300:]) == y[-300:]) > 0.5


@pytest.mark.parametrize("max_bytes", [4_000_000, 4_500_000, 5_000_000])
def test_where_groups_find_no_room_the_whole_tree_gives_way(max_bytes):
    rows, labels = texts(3000, 600, seed=13, n_words=1000)
    X = as_csr(rows, 1000)
    model = LOMTreeClassifier(max_leaf_classes=128, max_bytes=max_bytes)
    model.learn_many(X[:750], labels[:750])
    assert not model._core.tree.is_settled
    n_leaves = model.n_leaves
    model.learn_many(X[750:], labels[750:])
    # before 10,000 rows were compared
    assert model._core.tree.is_settled
    assert model._core.tree.has_groups
    assert model.n_leaves > n_leaves
    assert model._core.n_bytes <= max_bytes


def test_where_memory_is_short_what_hardly_learned_is_forgotten():
    """Labels go on finding a group, and the bound costs little."""
    rows, labels = texts(12_000, 400, seed=41, n_words=2000)
    X = as_csr(rows, 2000)
    errors = []
    for max_bytes in (4_000_000, None):
        model = LOMTreeClassifier(max_leaf_classes=32, max_bytes=max_bytes)
        model.learn_many(X[:10_000], labels[:10_000])
        errors.append(np.mean(np.array(model.predict_many(X[10_000:])) != labels[10_000:]))
        state = groups_of(model)
        assert len(grouped(state)) > 300
        # which node forgot last
        assert (state["hand"] > 0) == (max_bytes is not None)
        if max_bytes is not None:
            assert model._core.n_bytes <= max_bytes
            for each in (*state["tests"], *state["models"]):
                # a bias is not forgotten
                assert len(each["linear"]["keys"]) == 0 or each["linear"]["keys"][0] == 0
    assert errors[0] < errors[1] + 0.03


def test_where_memory_is_short_a_saved_model_goes_on_as_if_it_had_not_been_saved():
    rows, labels = texts(6000, 400, seed=43, n_words=2000)
    X = as_csr(rows, 2000)
    model = LOMTreeClassifier(max_leaf_classes=32, max_bytes=2_000_000)
    model.learn_many(X[:4000], labels[:4000])
    again = pickle.loads(pickle.dumps(model))
    hand = groups_of(model)["hand"]
    for each in (model, again):
        each.learn_many(X[4000:], labels[4000:])
    assert groups_of(model)["hand"] != hand
    assert pickle.dumps(again) == pickle.dumps(model)


def labels_that_change(seed):
    """Dense rows, ten new labels every 400 of them, of 60 that come."""
    rng = np.random.default_rng(seed)
    y = 10 * (np.arange(12_000) // 400) + rng.integers(60, size=12_000)
    return 3.0 * rng.normal(size=(y.max() + 1, 32))[y] + rng.normal(size=(len(y), 32)), y


def test_where_memory_is_short_labels_that_come_later_find_a_place():
    """Rows are dense, so that nobody else knows a label that is in no group."""
    settings = (None, 4.0), (600_000, 4.0), (600_000, 1e12)
    errors = {setting: [] for setting in settings}
    for seed in (4, 5, 6):
        X, y = labels_that_change(seed)
        for max_bytes, swap_resistance in settings:
            model = LOMTreeClassifier(
                max_leaf_classes=32, max_bytes=max_bytes, swap_resistance=swap_resistance
            )
            said = np.array(model.test_then_learn_many(X, y))
            errors[max_bytes, swap_resistance].append((said[-4000:] != y[-4000:]).mean())
            assert (model.n_swaps > 0) == (max_bytes is not None and swap_resistance == 4.0)
    free, bounded, without_swaps = (np.mean(errors[setting]) for setting in settings)
    assert bounded < free + 0.015
    # else they find none
    assert without_swaps > 0.9
    # what was given up joins again, after four rows, when it comes back
    label = int(y[:400].max())
    model = LOMTreeClassifier(max_leaf_classes=32, max_bytes=600_000)
    model.learn_many(X, y)
    assert groups_of(model)["labels"]["group"][pd.unique(y).tolist().index(label)] == -1
    again = (y == label).nonzero()[0]
    model.learn_many(X[again], y[again])
    assert model.predict_one(dict(enumerate(X[again[0]]))) == label


def test_a_copy_of_a_tree_that_gave_up_groups_goes_on_as_it():
    """It takes the same bytes, so that it finds the same room."""
    rng = np.random.default_rng(3)
    later = 300 + 10 * (np.arange(4500) // 400) + rng.integers(20, size=4500)
    y = np.append(rng.integers(300, size=3000), later)
    X = 3.0 * rng.normal(size=(y.max() + 1, 16))[y] + rng.normal(size=(len(y), 16))
    one = LOMTreeClassifier(max_leaf_classes=8, max_bytes=700_000, swap_resistance=1.0)
    other = LOMTreeClassifier(max_leaf_classes=8, max_bytes=700_000, swap_resistance=1.0)
    for start in range(0, len(y), 500):
        part = slice(start, start + 500)
        one.learn_many(X[part], y[part])
        other.learn_many(X[part], y[part])
        other = pickle.loads(pickle.dumps(other))
        assert other._core.learned_bytes == one._core.learned_bytes
    assert one.n_swaps > 100
    assert pickle.dumps(other) == pickle.dumps(one)


def test_labels_from_before_there_were_groups_are_in_use():
    rng = np.random.default_rng(4)
    y = np.append(rng.integers(32, size=3000), 32 + np.arange(60) // 2)
    X = rng.normal(size=(len(y), 4))
    model = LOMTreeClassifier(max_leaf_classes=32, max_splits=1)
    model.learn_many(X, y)
    assert model._core.tree.has_groups
    # each of them came in the last 4 rows for every label
    assert set(groups_of(model)["labels"]["group"][:32].tolist()) <= {0, 1, 2}
    assert model.n_swaps == 0


def test_too_little_memory_is_a_bound_not_an_end():
    rows, labels = texts(3000, 100, seed=15)
    model = LOMTreeClassifier(max_leaf_classes=8, max_bytes=262144)
    model.learn_many(as_csr(rows), labels)
    assert model._core.n_bytes <= 262144
    assert model.predict_one(as_dict(rows[0])) in set(labels)


# --------------------------------------------------------------- groups or the whole tree


def test_where_regions_have_few_labels_the_whole_tree_goes_on():
    """Places on a map: groups learn faster, but thresholds tell of more in the end."""
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(30500, 2))
    y = (np.floor(X * 17) @ [17, 1]).astype(int)
    model = LOMTreeClassifier(max_leaf_classes=64)
    model.learn_many(X, y.tolist())
    tree = model._core.tree
    assert tree.is_settled
    assert not tree.has_groups
    again = pickle.loads(pickle.dumps(model))
    assert pickle.dumps(again) == pickle.dumps(model)
    assert again._core.learned_bytes == model._core.learned_bytes
    again.learn_many(X[:500], y[:500].tolist())
    model.learn_many(X[:500], y[:500].tolist())
    assert pickle.dumps(again) == pickle.dumps(model)


def test_where_labels_have_words_of_their_own_groups_win():
    rows, labels = texts(10_600, 100, seed=17)
    model = LOMTreeClassifier(max_leaf_classes=8)
    model.learn_many(as_csr(rows), labels)
    assert model._core.tree.is_settled
    assert model._core.tree.has_groups
    assert groups_of(model)["whole"] == []


# --------------------------------------------------------------------------- inspection


def test_diagnostics_know_the_groups():
    rows, labels = texts(1500, 60, seed=19)
    model = learned(rows, labels, max_leaf_classes=8)
    assert not groups_of(model)["is_whole"]
    summary = diagnostics.split_summary(model)
    # no label is on both sides
    assert summary["purity"] == pytest.approx(0.0)
    left, right = diagnostics.split_counts(model)
    assert not (left * right).any()
    share = left.sum() / (left.sum() + right.sum())
    assert summary["objective"] == pytest.approx(4 * share * (1 - share))
    assert summary["least_balance"] - 1e-9 <= summary["balance"]
    criteria = diagnostics.tree_criteria(model)
    assert 0 < criteria["entropy"] < math.log(60)


def test_inspection_tells_of_groups():
    rows, labels = texts(1500, 60, seed=19)
    model = learned(rows, labels, max_leaf_classes=8)
    x = as_dict(rows[-1])
    path = model.decision_path(x)
    assert path[-1]["node"] is None
    assert path[-1]["prediction"] == model.predict_one(x)
    shares = [step["share"] for step in path if step["score"] is None]
    assert sum(shares) == pytest.approx(2.0)
    told = model.contributions_one(x)
    assert told["bias"] + sum(told["features"].values()) == pytest.approx(told["score"])
    assert set(told["features"]) <= set(x)
    assert model.debug_one(x).splitlines()[-1].startswith(f"predicts {model.predict_one(x)} (")
    assert model.draw() is not None


# -------------------------------------------------------------------------------- files


def damaged(state):
    """States with groups that no model can be in, by what was done to them."""
    tree = state["tree"]
    n_nodes, n_labels = len(tree["nodes"]), len(tree["labels"])
    inner = int((tree["links"]["left"] >= 0).nonzero()[0][0])

    def changed(name, field, at, value):
        array = tree[name].copy()
        array[field][at] = value
        return {**state, "tree": {**tree, name: array}}

    yield "a group out of range", changed("labels", "group", 0, n_nodes)
    yield "a group that is an inner node", changed("labels", "group", 0, inner)
    yield "no group", changed("labels", "group", 0, -2)
    yield "a place out of range", changed("labels", "place", 0, n_labels)
    yield "a place below zero", changed("labels", "place", 0, -1)
    yield "a weight that is none", changed("labels", "weight", 0, math.nan)
    yield "more labels than there are", changed("nodes", "n_labels", 0, n_labels + 1)
    yield "an endless sum", changed("labels", "norms", 0, math.inf)
    yield "nothing counted", changed("labels", "counted", 0, -1.0)
    yield "another way to arrange labels", changed("nodes", "by_means", 0, 2)
    for name, values in (
        ("whole", [tree["tests"][0]]),
        ("tests", tree["tests"][1:]),
        ("tests", tree["models"]),
        ("models", tree["models"][:-1]),
        ("models", tree["models"] + tree["models"][:1]),
        ("has_groups", False),
        ("is_settled", not tree["is_settled"]),
        ("lead", math.nan),
        ("most_lead", -1.0),
        ("rows", math.inf),
        ("hand", n_nodes + 1),
        ("n_swaps", -1),
        ("sums", tree["sums"][:-1]),
        ("sums", tree["sums"][:, :-1]),
        ("sums", tree["sums"] * np.float32(math.nan)),
    ):
        yield f"other {name}", {**state, "tree": {**tree, name: values}}
    small = {**tree["models"][0], "stride": 1}
    yield "a small model", {**state, "tree": {**tree, "models": [small, *tree["models"][1:]]}}
    leaf = int((tree["links"]["left"] < 0).nonzero()[0][0])
    yield "a group that is arranged", changed("nodes", "by_means", leaf, 1)
    taught = {**tree["tests"][inner], "node": leaf}
    tests = [*tree["tests"][:leaf], taught, *tree["tests"][leaf + 1:]]
    yield "a group with a test", {**state, "tree": {**tree, "tests": tests}}
    far = {**tree["tests"][0], "node": n_nodes}
    yield "a far test", {**state, "tree": {**tree, "tests": [far, *tree["tests"][1:]]}}


def test_damaged_states_are_refused():
    rows, labels = texts(700, 40, seed=21)
    model = learned(rows, labels, max_leaf_classes=8)
    state = model.snapshot()
    fresh = LOMTreeClassifier(max_leaf_classes=8)
    fresh._core.check_state(state)
    n_tried = 0
    for what, bad in damaged(state):
        with pytest.raises(ValueError, match="inconsistent state"):
            LOMTreeClassifier(max_leaf_classes=8)._core.check_state(bad)
        n_tried += bool(what)
    assert n_tried > 15


def with_room_for(state, stride):
    """A state whose leaf models have room for so many labels."""
    for saved in state["tree"]["whole"][0]["leaves"]["models"]:
        saved["stride"] = stride
        for part in ("linear", "knots"):
            n_records = len(saved[part]["keys"])
            saved[part]["records"] = np.ones((n_records, 2 * stride + 2), dtype=np.float32)
    return state


def test_models_of_a_state_may_have_room_for_a_few_more_labels():
    rows, labels = texts(300, 7, seed=21)
    model = learned(rows, labels, max_leaf_classes=7)
    other = LOMTreeClassifier(max_leaf_classes=7)
    # rooms for what is said of labels have a quarter more, by eights
    other._core.check_state(with_room_for(model.snapshot(), 8))
    with pytest.raises(StateError, match="the classes of a leaf model"):
        other._core.check_state(with_room_for(model.snapshot(), 12))
    other._core.restore(with_room_for(model.snapshot(), 8))
    for label in (*range(7, 40), *labels):
        other.learn_one(as_dict(rows[label % 300]), label)
    other._core.check_state(other.snapshot())


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="needs a bound of the address space")
def test_a_group_that_finds_no_memory_to_divide_stays_whole():
    run_isolated('''
        import ctypes, resource
        import numpy as np
        from scipy import sparse
        from streamtree import LOMTreeClassifier

        def check(model):
            state = model.snapshot()
            labels = state["tree"]["labels"]
            model._core.tree.check_state(state["tree"], len(state["features"]), len(labels))

        # blocks of some size are asked of the system, which has a bound
        ctypes.CDLL(None).mallopt(-3, 4096)
        rng = np.random.default_rng(45)
        n, n_words, n_labels = 6000, 4000, 400
        y = rng.integers(n_labels, size=n)
        own = rng.integers(n_words, size=(n_labels, 4))
        X = sparse.lil_array((n, n_words))
        for i in range(n):
            X[i, own[y[i]]] = X[i, rng.integers(n_words, size=8)] = 1.0
        X = X.tocsr()
        model = LOMTreeClassifier(max_leaf_classes=64, max_bytes=None)
        model.learn_many(X[:500], y[:500])
        failed = 0
        for start in range(500, n, 10):
            used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
            most = used + int(rng.integers(2**19))
            resource.setrlimit(resource.RLIMIT_AS, (most, resource.RLIM_INFINITY))
            try:
                model.learn_many(X[start:start + 10], y[start:start + 10])
            except MemoryError:
                failed += 1
            finally:
                resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY,) * 2)
            if failed and start % 250 == 0:
                check(model)
        check(model)
        assert failed, "no allocation failed"
    ''')


SETTLING = '''
import numpy as np
from streamtree import LOMTreeClassifier
from support.shortage import after_failures

rng = np.random.default_rng(3)
X = rng.uniform(size=(30_000, 2))
y = rng.integers(6, size=16)[np.floor(X * 4).astype(int) @ [4, 1]].tolist()
model = LOMTreeClassifier(max_leaf_classes=3, max_bytes=None, restarts=False)
has_settled = lambda model: model._core.tree.is_settled
for model in after_failures(model, X, y, has_settled, n_requests=16, n_behind=100):
    assert model._core.tree.has_groups != model._core.tree.is_settled
    model._new_core().check_state(model.snapshot())
'''


@pytest.mark.skipif(not can_run_short(), reason="the allocator is replaced by C, of glibc only")
def test_the_row_with_which_the_whole_tree_wins_may_find_no_memory():
    run_short(SETTLING)


def test_no_rate_is_too_large_for_a_file():
    rows, labels = texts(700, 40, seed=21)
    model = learned(rows, labels, max_leaf_classes=8, leaf_learning_rate=1000)
    np.testing.assert_equal(state_of(from_bytes(to_bytes(model))), state_of(model))


@pytest.mark.parametrize("n", [60, 300, 700])
def test_a_saved_model_goes_on_as_if_it_had_not_been_saved(n):
    rows, labels = texts(900, 60, seed=23)
    model = learned(rows[:n], labels[:n], max_leaf_classes=8)
    again = pickle.loads(pickle.dumps(model))
    for row, label in itertools.islice(zip(rows, labels, strict=True), n, n + 150):
        model.learn_one(as_dict(row), label)
        again.learn_one(as_dict(row), label)
    assert pickle.dumps(again) == pickle.dumps(model)
