"""Nearest neighbours against a plain reference: the same rows, weights and answers.

Every stream has columns of many values, so that no two rows are as near as each other: whether
distances are in single or double precision, the same rows are the nearest.
"""

from itertools import pairwise

import numpy as np
import pytest
from reference.neighbors import MOST_ROWS, ReferenceMeans, ReferenceNeighbours, Values
from support.marks import first_quick
from support.neighbors import alone, member_said, numbers_alone
from support.snapshots import last_of

from streamtree._core.stream.features import Category

# Distances are sums of up to 70 products in single precision, and weights follow them for some
# hundred rows; what is said is off by about as much as the logarithms of weights are.
CLOSE = 2e-4
SAID_CLOSE = 2e-5
# short of memory, with many columns: rows go before a stream ends; numbers have no part for labels
SHORT = {"max_bytes": 2**18}
SHORT_ROWS, SHORT_NUMBERED_ROWS = 512, 608


def stream(concept, n, seed=0):
    """Dicts and numbers: one column matters most; and what the concept names."""
    rng = np.random.default_rng(seed)
    rows, numbers = [], []
    for i in range(n):
        x = dict(zip("abcd", rng.normal(size=4).tolist(), strict=True))
        number = np.sin(2 * x["a"]) + 0.3 * x["b"] * ("heavy" not in concept)
        if "kinds" in concept:
            x |= {"kind": f"k{rng.integers(3)}", "shape": f"s{rng.integers(5)}"}
            number += x["shape"] in ("s1", "s3")
        if "wide" in concept:
            x |= {f"other {j}": cell for j, cell in enumerate(rng.normal(size=44).tolist())}
        if "shops" in concept or "names" in concept:
            x["shop"] = 5e6 + 7 * rng.integers(60)
            number += x["shop"] % 3 - 1 if "names" in concept else x["shop"] % 4
        if "names" in concept:
            x |= whole_numbers(rng, i)
        if "gaps" in concept and i > 20:
            x = {name: cell for name, cell in x.items() if rng.random() > 0.15}
        if "late" in concept and i > 100:
            x |= {"late": rng.gamma(2.0), "late kind": f"l{rng.integers(2)}"}
        if "early" in concept and i < 18:
            x |= {"early": rng.gamma(2.0), "early kind": f"e{rng.integers(2)}"}
        if "scale" in concept and i > 200:
            x["a"] = 1.0 + 2.0 * x["a"]
        if "nothing" in concept and i > 18:
            x = {}
        rows.append(x)
        numbers.append(number)
    return rows, np.array(numbers)


def whole_numbers(rng, i):
    """Columns that may be names, and some that are not."""
    x = {
        # in more than 23 bits
        "user": 2.0**23 + rng.integers(2**23 - 1),
        # zeros of both signs; few values at a time; too few; with fractions at last
        "signed": float(rng.integers(-30, 30)) * rng.choice([-1.0, 1.0]),
        "seldom": 1.0 + rng.integers(70 if rng.random() < 0.07 else 8),
        "few": 1.0 + rng.integers(25),
        "size": float(rng.integers(50)) + 0.5 * (i in (210, 300)),
    }
    x |= {f"number {j}": float(rng.integers(-40, 40)) for j in range(6)}
    if i > 40:
        x |= {f"number {j}": np.nan for j in range(6) if rng.random() < 0.1}
    if i > 140:
        x["late name"] = 1.0 + rng.integers(300)
    return x


def cells(x):
    """A row as the reference reads it."""
    return {
        name: Category(name, cell) if isinstance(cell, str) else cell for name, cell in x.items()
    }


def weights_of(concept, n):
    if "heavy" in concept:
        return np.full(n, 6.0)
    if "weights" not in concept:
        return np.ones(n)
    weights = np.random.default_rng(1).gamma(0.3, 6.0, size=n)
    assert weights.min() < 1e-6 < 10 < weights.max()
    return weights


def settings_of(concept, short_rows):
    """Of the forest; and how many rows there are room for, of these where memory is short."""
    return (SHORT, short_rows) if "wide" in concept else ({}, MOST_ROWS)


def compare_rows(state, names, reference):
    """All rows, the oldest first."""
    rows, n = state["rows"], len(reference.rows)
    assert len(rows["fields"]) == len(reference.fields)
    assert (len(rows["targets"]), state["seen"]) == (n, reference.seen)
    is_full = n and n == rows["capacity"]
    order = (rows["next"] + np.arange(n)) % n if is_full else np.arange(n)
    targets = [row.target for row in reference.rows]
    assert np.array_equal(rows["targets"][order], targets)
    weights = [row.weight for row in reference.rows]
    assert np.array_equal(rows["weights"][order], np.float32(weights))
    places = enumerate(zip(rows["fields"].tolist(), reference.fields, strict=True))
    for f, ((column, is_exact), field) in places:
        name = names[column]
        assert (name.name if field.is_feature else name) == field.name
        assert is_exact == field.is_exact
        found = rows["cells"][order, f]
        wanted = [row.cells[f] for row in reference.rows]
        if field.is_feature:
            kinds = dict(zip(wanted, found.tolist(), strict=True))
            assert [kinds[cell] for cell in wanted] == found.tolist()
            assert len(set(kinds.values())) == len(kinds)
            assert kinds.get(0, 0) == 0
        elif field.is_exact:
            assert found.view(np.uint32).tolist() == wanted
        else:
            assert np.allclose(found.view(np.float32), wanted, rtol=1e-6, atol=1e-6)


def compare_values(state, reference):
    """What columns of numbers have had; of other fields nothing is known."""
    places = zip(state["rows"]["values"], state["rows"]["bits"], reference.fields, strict=True)
    for found, words, field in places:
        values = reference.values.get(field) or Values()
        assert found["n_rows"] == values.n_rows
        assert found["n_bits"] == len(values.places)
        bits = sum(int(word) << 64 * i for i, word in enumerate(words))
        assert bits == sum(1 << place for place in values.places)
        assert found["has_many"] == values.has_many
        assert found["has_fractions"] == values.has_fractions


def compare_scales(state, reference):
    parts = [reference.common, reference.age, reference.doubt]
    parts += [reference.scales[field] for field in reference.fields]
    wanted = [(part.log, part.squares) for part in parts]
    assert np.allclose(state["scales"], wanted, rtol=CLOSE, atol=CLOSE)


def compare(model, reference, is_whole):
    """Rows only where the whole is compared: they do not change once they are there."""
    snapshot = model.snapshot()
    state = last_of(snapshot)
    if is_whole:
        compare_rows(state, snapshot["features"], reference)
    compare_values(state, reference)
    compare_scales(state, reference)
    return state


def is_whole(i, n):
    return i % 100 in (15, 16, 31, 63, 99) or i in (255, 256, 511, 512, n - 1)


def looks(reference):
    """By field, whether it is looked at."""
    return dict(zip(reference.fields, reference.are_looked_at().tolist(), strict=True))


def check_fields(concept, seen):
    """What became of the fields of a stream; after every row it was seen what `looks` says."""
    names = {field.name for one in seen for field in one if field.is_exact}
    last = [field.name for field in seen[-1] if field.is_exact]
    if "heavy" in concept:
        # numbers that are not looked at, and are again
        changes = {(a.get(field), b[field]) for a, b in pairwise(seen) for field in b}
        assert {(True, False), (False, True)} <= changes
    if "names" in concept:
        # one was known to be none, and one came late; there would be ten
        assert len(last) == 8
        assert "size" in names
        assert "late name" in last
        assert not {"few", "seldom", "size"} & set(last)
        assert any(one[field] for one in seen for field in one if field.is_exact)
    elif "shops" in concept:
        assert last == ["shop"]
    else:
        assert not names


CASES = [
    ("plain", 300, 2),
    ("gaps late", 300, 3),
    ("gaps kinds late early weights", 560, 5),
    ("scale weights", 560, 2),
    ("late labels weights kinds", 300, 16),
    ("early nothing", 530, 2),
    ("wide gaps kinds", 620, 2),
    ("heavy", 400, 4),
    ("shops", 620, 4),
    ("shops gaps late weights", 560, 3),
    ("names gaps", 620, 3),
    ("names kinds late weights", 560, 12),
]


@pytest.mark.parametrize(("concept", "n", "n_labels"), first_quick(CASES))
def test_it_says_what_the_reference_says(concept, n, n_labels):
    rows, numbers = stream(concept, n)
    labels = np.searchsorted(np.quantile(numbers, np.arange(1, n_labels) / n_labels), numbers)
    if "labels" in concept:
        labels[:150] %= 2
    weights = weights_of(concept, n)
    settings, most_rows = settings_of(concept, SHORT_ROWS)
    model, reference, order = alone(**settings), ReferenceNeighbours(most_rows), {}
    seen = []
    for i, (x, y, w) in enumerate(zip(rows, labels.tolist(), weights.tolist(), strict=True)):
        row = cells(x)
        if i:
            wanted = reference.predict(row, len(order))
            assert np.abs(member_said(model, x) - wanted).max() < SAID_CLOSE, i
        model.learn_one(x, y, w=w)
        label = order.setdefault(y, len(order))
        reference.learn(row, label, w, len(order))
        compare(model, reference, is_whole(i, n))
        seen.append(looks(reference))
    assert len(order) == n_labels
    n_fields = {field.name for field in reference.fields}
    assert ("late kind" in n_fields) == ("late" in concept)
    assert not any(name.startswith("early") for name in n_fields)
    check_fields(concept, seen)


@pytest.mark.parametrize(("concept", "n"), first_quick([
    ("plain", 300), ("gaps kinds late early weights", 560), ("scale", 400),
    ("wide gaps kinds", 716), ("shops gaps", 620),
    ("names weights late", 560),
]))
def test_of_numbers_it_says_what_the_reference_says(concept, n):
    rows, numbers = stream(concept, n)
    numbers, weights = 100.0 + 7.0 * numbers, weights_of(concept, n)
    settings, most_rows = settings_of(concept, SHORT_NUMBERED_ROWS)
    model, reference, trusts = numbers_alone(**settings), ReferenceMeans(most_rows), set()
    seen = []
    for i, (x, y, w) in enumerate(zip(rows, numbers.tolist(), weights.tolist(), strict=True)):
        row = cells(x)
        if i:
            wanted = reference.predict(row)
            close = SAID_CLOSE * reference.deviation
            assert member_said(model, x)[0] == pytest.approx(wanted, abs=close, rel=1e-12), i
        model.learn_one(x, y, w=w)
        reference.learn(row, y, w)
        trusts.add(reference.trust())
        state = compare(model, reference, is_whole(i, n))
        seen.append(looks(reference))
        for name in ("weight", "mean", "squares"):
            assert state["targets"][name] == pytest.approx(getattr(reference, name))
        worth = reference.product, reference.spread
        assert state["worth"] == pytest.approx(worth, rel=CLOSE, abs=CLOSE)
    check_fields(concept, seen)
    # kriging is followed in part, too
    assert len(trusts) > 10
    assert min(trusts) < 1
