"""Boosted trees against a plain reference: the same splits, values and answers."""

import numpy as np
import pytest
from reference.boosting import N_TREES, ReferenceBoosting, growths
from reference.extratree import Buckets, name_hash, side
from reference.lomtree import splitmix64
from support.boosted import alone
from support.marks import first_quick
from support.snapshots import part_of

from streamtree import ForestRegressor
from streamtree._core.learners.explaining import ask_members
from streamtree._core.stream.features import Category

# sums in single precision
CLOSE = 1e-4
N_COMPARED = 6
# rows that several columns may divide the same way
FEW = 60


def order_of(names):
    """The names of the columns in the order of their hashes."""
    hashes = {name: splitmix64(name_hash(name)) % 2**32 for name in names}
    for name in ("kind", "shape"):
        hashes[name] = name_hash(name)  # the tie of its categories
    return sorted(names, key=hashes.__getitem__)


def cells(x, columns):
    return [
        (Category(name, x[name]) if name in x else None) if name in ("kind", "shape")
        else np.float32(x.get(name, np.nan))
        for name in columns
    ]


def numbers(rng, n):
    return {name: rng.normal(size=n).tolist() for name in "abcd"}


def stream(concept, n, seed=0):
    """Dicts, and what they stand for: numbers, of which labels are made."""
    rng = np.random.default_rng(seed)
    columns = numbers(rng, n)
    a, b = np.array(columns["a"]), np.array(columns["b"])
    score = np.where(a > 0.2, b, -b) + 0.3 * rng.normal(size=n)
    if "kinds" in concept:
        kinds, shapes = rng.integers(40, size=n), rng.integers(5, size=n)
        columns |= {"kind": [f"k{i}" for i in kinds], "shape": [f"s{i}" for i in shapes]}
        score += np.cos(kinds) + 0.5 * shapes
    if "wide" in concept:
        columns |= {f"w{i}": (0.1 + rng.random(n)).tolist() for i in range(76)}
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    if "gaps" in concept:
        for name, part in (("a", 0.2), ("c", 0.5), *[("kind", 0.2)] * ("kinds" in concept)):
            for i in np.flatnonzero(rng.random(n) < part):
                # until zeros are listed, what is missing counts as zero
                if i > 20:
                    score[i] += 1.0
                    del rows[i][name]
    return rows, score


def targets_of(score, n_labels):
    """Labels by quantiles, in the order in which they come; of no labels the numbers."""
    if n_labels == 0:
        return score.tolist()
    found = np.searchsorted(np.quantile(score, np.arange(1, n_labels) / n_labels), score).tolist()
    seen = {}
    return [seen.setdefault(label, len(seen)) for label in found]


def known_test(record, names, columns):
    """The test of a node, as the reference has it."""
    name, bound = names[record["column"]], record["threshold"]
    if record["salt"]:
        name, bound = name.name, Buckets(int(record["members"]), int(record["salt"]))
    return columns.index(name), bound, bool(record["missing_right"])


def compare_trees(stages, names, reference, columns, rows):
    """Go down trees and those of the reference together; returns how many tests are the same."""
    n, n_same, nodes = 0, 0, stages["nodes"]
    waiting = list(zip(stages["roots"].tolist(), reference.trees, strict=False))
    while waiting:
        place, node = waiting.pop()
        record = nodes[place]
        children = [record["next"], record["next"] + 1]
        assert record["n_rows"] == len(node.rows)
        assert (record["column"] >= 0) == bool(node.children)
        if not node.children:
            values = stages["values"][record["next"]]
            assert np.allclose(values, node.values, rtol=CLOSE, atol=CLOSE)
            continue
        test = known_test(record, names, columns)
        assert test[0] == node.test[0] or record["n_rows"] < FEW
        assert record["gain"] == pytest.approx(node.gain, rel=1e-3)
        # what divides its rows the same way is as good: there rounding decides
        sides = [[side(rows[i], *each) for i in node.rows] for each in (test, node.test)]
        if sides[0] != sides[1]:
            assert sides[0] == [not each for each in sides[1]]
            children.reverse()
        n, n_same = n + 1, n_same + (test == node.test)
        waiting += zip(children, node.children, strict=True)
    for root, tree in zip(stages["roots"], reference.trees, strict=False):
        assert known_test(nodes[root], names, columns) == tree.test
    return n_same / n


CASES = [
    ("plain", 2, 460, {}),
    ("plain", 0, 460, {"seed": 7}),
    ("plain", 3, 460, {"seed": 2**64 - 1}),
    ("gaps", 2, 460, {}),
    ("gaps weights", 0, 460, {}),
    ("gaps kinds", 0, 700, {"window": 300}),
    ("kinds", 2, 700, {"window": 300}),
    ("gaps kinds", 5, 700, {}),
    # bins end by a sample of the rows
    ("plain", 2, 1200, {}),
    ("gaps kinds", 3, 1200, {"seed": 5}),
    # a tree looks at some of the columns
    ("wide", 2, 240, {}),
    ("wide", 3, 240, {}),
]


def both(concept, n_labels, n, **settings):
    """A model after its last growth, the reference of it, rows and their cells; and columns."""
    rows, score = stream(concept, n)
    targets = targets_of(score, n_labels)
    weights = [1.0] * n
    if n_labels or "weights" in concept:
        # with labels that weigh the same, too many splits are as good as each other
        weights = np.random.default_rng(1).gamma(2.0, size=n).tolist()
    model = alone(n_labels, **settings)
    for x, y, w in zip(rows, targets, weights, strict=True):
        model.learn_one(x, y, w=w)
    assert part_of(model)["growth"]["rows"] == 0
    columns = order_of(sorted({name for x in rows for name in x}))
    first, end, seed = list(growths(n, model.window, model.seed or 0))[-1]
    rows = rows[first:end]
    seen = [cells(x, columns) for x in rows]
    part = slice(first, end)
    reference = ReferenceBoosting(seen, np.array(targets[part]), weights[part], n_labels, seed)
    return model, reference, rows, seen, columns


@pytest.mark.parametrize(("concept", "n_labels", "n", "settings"), first_quick(CASES))
def test_the_first_trees_are_those_of_the_reference(concept, n_labels, n, settings):
    model, reference, _, seen, columns = both(concept, n_labels, n, **settings)
    for _ in range(N_COMPARED):
        reference.add_tree()
    stages = part_of(model)["stages"]
    assert len(stages["roots"]) == N_TREES
    assert stages["n_labels"] == n_labels
    assert np.allclose(stages["base"], reference.base, rtol=1e-9)
    assert stages["unit"] == pytest.approx(reference.unit, rel=1e-9)
    nodes, names = stages["nodes"], model.snapshot()["features"]
    assert compare_trees(stages, names, reference, columns, seen) > 0.9
    # tests of all kinds were met
    inner = nodes[nodes["column"] >= 0]
    assert (inner["salt"] > 0).any() == ("kinds" in concept)
    assert set(inner["missing_right"].tolist()) == {0, 1}


@pytest.mark.parametrize("n_labels", first_quick([0, 2, 3]))
def test_it_says_what_the_reference_says(n_labels):
    model, reference, rows, seen, _ = both("gaps kinds weights", n_labels, 240, window=200)
    for _ in range(N_TREES):
        reference.add_tree()
    said = np.array([ask_members(model._core, x)[0] for x in rows])
    wanted = np.array([reference.predict(row) for row in seen])
    assert np.abs(said - wanted).max() < CLOSE


def test_targets_as_large_as_they_may_be_leave_a_model_that_can_be_read():
    model = ForestRegressor(members=("boosted",), window=200)
    X = np.column_stack([np.random.default_rng(0).normal(size=130), np.arange(130) % 2])
    model.learn_many(X, np.where(X[:, 1] > 0.0, 1e100, -1e100), np.resize([0.33, 0.3, 0.3], 130))
    model._new_core().check_state(model.snapshot())
