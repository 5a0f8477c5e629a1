"""A mixture of contexts against a plain reference: the same fields, cuts, sums and corrections.

The reference is told what a twin of the model says of a row, that is asked before it learns. The
model itself is never asked, and has the same bytes.
"""

import pickle
from types import SimpleNamespace

import numpy as np
import pytest
from reference.contexts import MOST_CUTS, MOST_LABELS, ReferenceContexts, ReferenceMeans, Table
from support.contexts import alone, member_said, numbers_alone, shares_of
from support.marks import first_quick
from support.snapshots import part_of

from streamtree._core.stream.features import Category

# what is computed in single precision, some ten thousand times after each other
CLOSE = 1e-4
# a sum of numbers in single precision
SAID_CLOSE = 2e-5


def stream(concept, n, n_labels, seed=0):
    """Dicts and labels: two columns go together; and what the concept names."""
    rng = np.random.default_rng(seed)
    rows, labels = [], []
    for i in range(n):
        a, b = rng.normal(size=2)
        x = {"a": a, "b": b, "few": 1.0 + rng.integers(5), "one": 3.0}
        label = int(2.5 * abs(a + 2 * (b > 0))) + int(x["few"])
        if "kinds" in concept:
            # one of many categories, and one that has few
            x |= {"kind": f"k{rng.integers(40)}", "shape": f"s{rng.integers(5)}"}
            label += x["shape"] in ("s1", "s3")
        if "names" in concept:
            # ten columns of whole numbers, one that has fractions later, and one that never repeats
            x["row"] = 5.0 + i
            x["shop"] = 1000.0 + 7 * rng.integers(60)
            x |= {f"number {j}": float(rng.integers(-40, 40)) for j in range(8)}
            x["size"] = float(rng.integers(50)) + 0.5 * (i > 400)
            label += int(x["shop"]) % 3
        if "gaps" in concept and i > 20:
            # until zeros are listed, what is missing counts as zero
            for name in [name for name in x if rng.random() < 0.15]:
                del x[name]
        if "late" in concept and i > 100:
            x["late"] = rng.gamma(2.0)
        if "scale" in concept and i > 380:
            x |= {name: 1.0 + 0.05 * x[name] for name in ("a", "b") if name in x}
        rows.append({
            name: cell if isinstance(cell, str) else float(np.float32(cell))
            for name, cell in x.items()
        })
        labels.append(label % (n_labels if "labels" not in concept or i > 150 else 2))
    return rows, labels


def cells(x):
    """A row as the reference reads it."""
    return {
        name: Category(name, cell) if isinstance(cell, str) else np.float32(cell)
        for name, cell in x.items()
    }


def compare_fields(state, names, reference):
    fields, places = state["fields"], state["fields"]["fields"]
    assert len(places) == len(reference.fields)
    for record, cuts, field in zip(places, fields["cuts"], reference.fields, strict=True):
        name = names[record["column"]]
        assert (name.name if field.is_feature else name) == field.name
        if field.is_feature:
            # the first category
            ties = [one.name if isinstance(one, Category) else None for one in names]
            assert record["column"] == ties.index(field.name)
        assert record["is_feature"] == field.is_feature
        assert record["n_changes"] == field.n_changes
        for flag in ("has_many", "has_fractions", "is_named"):
            assert record[flag] == getattr(field, flag)
        assert cuts[: record["n_cuts"]].tolist() == field.cuts
        assert (cuts[record["n_cuts"]:] == np.finfo(np.float32).max).all()
        assert len(cuts) == MOST_CUTS + 1
    assert fields["seen"] == reference.seen
    assert fields["last"].tolist() == reference.last
    assert fields["most_pairs"] == reference.most_pairs


def compare_counts(state, reference):
    """All records, slot by slot."""
    counts, slots = state["counts"], reference.table.slots
    assert (counts["slots"], counts["places"]) == (len(slots), reference.table.n_places)
    taken = [slot for slot, record in enumerate(slots) if record is not None]
    assert counts["records"]["slot"].tolist() == taken
    others = [slots[slot] for slot in taken]
    assert counts["records"]["key"].tolist() == [other.key for other in others]
    assert counts["records"]["last"].tolist() == [other.last for other in others]
    masks = [sum(1 << label for label in other.labels) for other in others]
    assert counts["records"]["labels"].tolist() == masks
    if others:
        wanted = np.array([(other.came, other.expected) for other in others]).swapaxes(1, 2)
        wanted = wanted.reshape(len(others), MOST_LABELS, -1)
        assert np.allclose(counts["counts"], wanted[:, : counts["places"]], rtol=CLOSE, atol=CLOSE)
        assert not wanted[:, counts["places"]:].any()


def compare_weights(state, reference):
    wanted = [reference.weights[name] for _, name in reference.contexts]
    assert not state["weights"][len(wanted):].any()
    for found, weights in zip(state["weights"], wanted, strict=False):
        assert np.allclose(found[0], weights.weights, rtol=CLOSE, atol=CLOSE)
        assert np.allclose(found[1], weights.squares, rtol=CLOSE, atol=CLOSE)


def compare(model, twin, reference):
    snapshot, state = model.snapshot(), part_of(model)
    assert pickle.dumps(snapshot) == pickle.dumps(twin.snapshot())
    assert state["rows"] == reference.rows
    compare_fields(state, snapshot["features"], reference)
    compare_counts(state, reference)
    compare_weights(state, reference)


def is_compared(i, n):
    return i % 80 in (15, 16, 17, 79) or i in (254, 255, 256, 257, 273, 511, 512, n - 1)


CASES = [
    ("plain", 400, 2),
    ("gaps", 400, 3),
    ("gaps kinds late", 400, 5),
    ("scale weights", 700, 2),
    ("late labels weights", 400, 6),
    # fewer pairs
    ("kinds labels", 400, 16),
    ("names gaps", 620, 3),
]


@pytest.mark.parametrize(("concept", "n", "n_labels"), first_quick(CASES))
def test_it_says_what_the_reference_says(concept, n, n_labels):
    rows, labels = stream(concept, n, n_labels)
    weights = np.ones(n)
    if "weights" in concept:
        weights = np.random.default_rng(1).gamma(0.3, 6.0, size=n)
        assert weights.max() > 10
    model, twin, reference, order = alone(), alone(), ReferenceContexts(), {}
    for i, (x, y, w) in enumerate(zip(rows, labels, weights.tolist(), strict=True)):
        row, told = cells(x), None
        if i:
            pooled, wanted = shares_of(twin, x), reference.predict(row, len(order))
            assert np.abs(member_said(twin, x) - wanted).max() < SAID_CLOSE, i
            if y in order:
                left = 1 - twin.member_weights["contexts"]
                told = reference.in_full(np.array(pooled), left, wanted)
        model.learn_one(x, y, w=w)
        twin.learn_one(x, y, w=w)
        label = order.setdefault(y, len(order))
        reference.learn(row, label, w, len(order), told)
        if is_compared(i, n):
            compare(model, twin, reference)
    assert len(order) > 0.8 * n_labels
    most = max(field.n_changes for field in reference.fields)
    assert most > 1 or "scale" not in concept
    names = {field.name for field in reference.fields}
    assert {"kind", "shape"} <= names or "kinds" not in concept
    # a correction that is large enough to be seen
    assert np.abs(wanted).max() > 0.01
    n_named = sum(field.is_named for field in reference.fields)
    assert n_named == (8 if "names" in concept else 0)


@pytest.mark.parametrize(("concept", "n"), first_quick([
    ("plain", 400), ("gaps kinds late weights", 560), ("names gaps scale", 620),
]))
def test_of_numbers_it_says_what_the_reference_says(concept, n):
    rows, labels = stream(concept, n, 40)
    rng, weights = np.random.default_rng(1), np.ones(n)
    if "weights" in concept:
        weights = rng.gamma(0.3, 6.0, size=n)
    targets = 100.0 + 7.0 * np.array(labels) + rng.normal(size=n)
    model, twin, reference, trusts = numbers_alone(), numbers_alone(), ReferenceMeans(), set()
    for i, (x, y, w) in enumerate(zip(rows, targets.tolist(), weights.tolist(), strict=True)):
        row, pooled = cells(x), twin.predict_one(x)
        close = SAID_CLOSE * reference.deviation
        wanted, trust = reference.predict(row), reference.trust()
        assert member_said(twin, x)[0] == pytest.approx(wanted, abs=close), i
        assert twin.member_weights["contexts"] == pytest.approx(trust, abs=CLOSE), i
        trusts.add(trust)
        model.learn_one(x, y, w=w)
        twin.learn_one(x, y, w=w)
        reference.judge(pooled, wanted, y)
        reference.learn(row, y, w, pooled - trust * wanted)
        if is_compared(i, n):
            compare(model, twin, reference)
            for name in ("weight", "mean", "squares"):
                assert part_of(model)["targets"][name] == pytest.approx(getattr(reference, name))
            worth = model.snapshot()["tree"]["trust"]
            assert worth == pytest.approx([reference.product, reference.spread], abs=CLOSE)
    assert len(reference.contexts) > 10
    # corrections are followed in part, too
    assert len(trusts) > 5
    assert min(trusts) < 1


def test_where_the_table_becomes_smaller_no_record_drives_out_a_newer_one():
    rng, model = np.random.default_rng(0), alone()
    X = rng.normal(size=(1500, 20))
    model.learn_many(X, rng.integers(2, size=len(X)))
    before, table = part_of(model)["counts"], Table()
    table.slots = [None] * before["slots"]
    for slot, key, last, _ in before["records"].tolist():
        table.slots[slot] = SimpleNamespace(key=key, last=last)
    # records become larger where a third label is known, and there is room for fewer
    table.make_room(3, 0, len(X))
    model.learn_many(X[:2], [2, 2])
    after = part_of(model)["counts"]
    assert (before["slots"], after["slots"]) == (65536, 32768) == (65536, len(table.slots))
    found = {slot: (key, last) for slot, key, last, _ in after["records"].tolist()}
    lost = len(before["records"]) - len(found)
    assert lost > 1000
    for slot, record in enumerate(table.slots):
        if record is not None and found[slot][1] != len(X) + 1:
            assert found[slot] == (record.key, record.last)
