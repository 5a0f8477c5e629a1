"""What a mixture of contexts promises: bins, the same state on every way, and whatever comes."""

import copy
import math
import pickle
import sys

import numpy as np
import pytest
from support.contexts import alone, member_said, numbers_alone, shares_of
from support.marks import first_quick
from support.neighbors import alone as neighbors_alone
from support.neighbors import numbers_alone as neighbors_numbers_alone
from support.snapshots import assert_refused, changed, part_of
from support.streams import as_dicts, learned_rows, prequential, prequential_accuracy

import streamtree
from streamtree import ForestClassifier, ForestRegressor
from streamtree._core.learners.explaining import ask_members
from streamtree._core.stream.features import Category

RECUT = 600
MANY_LABELS = pytest.mark.filterwarnings("ignore:y has had")


def square(n, seed=0):
    """Rows of three columns, and a label by the signs of two of them."""
    X = np.random.default_rng(seed).normal(size=(n, 3))
    return X, (X[:, 0] * X[:, 1] > 0).astype(int).tolist()


def learned(model, X, y):
    return learned_rows(model, as_dicts(X), y)


def cuts_of(values, model=None):
    """Where the bins of a column end, and how often they were cut."""
    model = model or alone()
    model.learn_many(np.reshape(values, (-1, 1)), np.arange(len(values)) % 2)
    fields = part_of(model)["fields"]
    record = fields["fields"][0]
    return fields["cuts"][0, : record["n_cuts"]].tolist(), int(record["n_changes"])


# ------------------------------------------------------------------------------------------ cuts


# rows before there are fields, and those that say where bins end
FIRST, CUT = 16, 16 + 256


def test_few_values_have_a_bin_each():
    values = np.random.default_rng(0).integers(1, 20, size=CUT)
    model = alone()
    assert cuts_of(values[:-1], model) == ([], 0)
    cuts, n_changes = cuts_of(values[-1:], model)
    assert cuts == [i + 0.5 for i in range(1, 19)]
    assert n_changes == 1


def test_many_values_share_bins_by_ranks():
    values = np.random.default_rng(0).gamma(1.0, size=CUT)
    cuts, _ = cuts_of(values)
    # those of the rows after the first ones
    bins = np.bincount(np.searchsorted(cuts, values[FIRST:]))
    assert bins.tolist() == [11] * 23 + [3]


def test_a_value_that_fills_a_bin_has_it_to_itself():
    values = 1.0 + np.random.default_rng(0).random(CUT)
    values[::3] = 1.5
    cuts, _ = cuts_of(values)
    bins = np.searchsorted(cuts, np.float32(values[FIRST:]))
    here = bins == np.searchsorted(cuts, 1.5)
    assert (values[FIRST:][here] == 1.5).all()
    assert np.bincount(bins[~here]).max() <= 11


def test_a_constant_column_has_one_bin():
    assert cuts_of(np.full(RECUT, 3.0)) == ([], 0)


def test_a_column_is_cut_anew_only_where_that_helps():
    rng = np.random.default_rng(0)
    model = alone()
    _, n_changes = cuts_of(rng.normal(size=CUT), model)
    assert n_changes == 1
    again, n_changes = cuts_of(rng.normal(size=3 * 256), model)
    assert n_changes <= 2
    once, n_changes = cuts_of(rng.normal(size=3 * 256), model)
    assert (once, n_changes) == (again, n_changes)
    # all in one bin
    other, n_more = cuts_of(5.0 + 0.01 * rng.normal(size=2 * 256), model)
    assert n_more > n_changes
    assert other != once


def test_values_at_the_bounds_of_single_precision():
    values = np.random.default_rng(0).random(400) * np.resize([1e300, -1e300, 1e-300, 5.0], 400)
    model = alone()
    cuts, _ = cuts_of(values, model)
    assert np.isfinite(cuts).all()
    model._core.check_state(model.snapshot())


def n_contexts_of(model):
    """How many contexts there are: those whose weights have had slopes to follow."""
    return int(part_of(model)["weights"][:, 1].any(axis=1).sum())


# ---------------------------------------------------------------------------------- the same bits


def test_the_order_of_features_and_of_their_coming_does_not_matter():
    X, y = square(400)
    names = [f"c{i}" for i in range(12)]
    X = np.hstack([X, np.random.default_rng(1).normal(size=(len(X), 9))])
    models = [alone(), alone()]
    for x, target in zip(as_dicts(X, names), y, strict=True):
        for model, row in zip(models, (x, dict(reversed(x.items()))), strict=True):
            model.learn_one(row, target)
    for x in as_dicts(X[:50], names):
        assert np.allclose(*(member_said(model, x) for model in models), rtol=0, atol=1e-6)


def test_every_way_to_learn_gives_the_same_bytes():
    X, y = square(420)
    one = learned(alone(), X, y)
    models = [one]
    for size in (1, 7, 133, 420):
        model = alone()
        for first in range(0, len(y), size):
            model.learn_many(X[first:first + size], y[first:first + size])
        models.append(model)
    asked = alone()
    asked.test_then_learn_many(X, y)
    before, between = alone(), alone()
    for i, (x, target) in enumerate(zip(as_dicts(X), y, strict=True)):
        before.predict_one(x)
        if i % 3 == 0:
            before.predict_proba_one({0: 0.5})
        before.learn_one(x, target)
        between.predict_proba_one({0: 0.5})
        between.learn_one(x, target)
    files = {pickle.dumps(model.snapshot()) for model in [*models, before, between]}
    assert len(files) == 1
    assert pickle.dumps(part_of(asked)) == pickle.dumps(part_of(one))
    said = [shares_of(one, x) for x in as_dicts(X[:20])]
    assert said == np.asarray(one.predict_proba_many(X[:20])).tolist()


def test_every_way_to_learn_numbers_gives_the_same_bytes():
    X, _ = square(420)
    y = (X[:, 0] * X[:, 1]).tolist()
    models = [learned(numbers_alone(), X, y), numbers_alone(), numbers_alone(), numbers_alone()]
    for first in range(0, len(y), 50):
        models[1].learn_many(X[first:first + 50], y[first:first + 50])
    models[2].test_then_learn_many(X, y)
    for x, target in zip(as_dicts(X), y, strict=True):
        models[3].predict_one(x)
        models[3].learn_one(x, target)
    assert len({pickle.dumps(model.snapshot()) for model in models}) == 1
    assert part_of(models[0])["weights"][:, 0].any()


def odd_rows(n):
    """Numbers, categories, gaps, and labels that come later."""
    rng = np.random.default_rng(0)
    for i in range(n):
        x = {"a": rng.normal(), "b": rng.normal(), "kind": f"k{rng.integers(9)}"}
        if i % 5 == 4:
            del x[("a", "b", "kind")[i % 3]]
        if i > 90:
            x["late"] = float(rng.integers(4))
        yield x, int(rng.integers(2 + i // 60))


def number_of(x, label):
    return label + x.get("a", 0.0)


@pytest.mark.parametrize("make", first_quick([alone, numbers_alone]))
def test_a_copy_of_any_row_goes_on(make, tmp_path):
    """Amid new labels and columns; whether the row before was asked, or that which comes next."""
    model, whole = make(), make()
    for i, (x, label) in enumerate(odd_rows(420)):
        y = label if make is alone else number_of(x, label)
        if i % 7 == 3:
            model.predict_one(x)
        for each in (model, whole):
            each.learn_one(x, y)
        model._core.check_state(model.snapshot())
        if i % 40 == 13:
            model.save(tmp_path / "model")
            model = streamtree.load(tmp_path / "model")
        else:
            model = copy.deepcopy(model) if i % 2 else pickle.loads(pickle.dumps(model))
        assert member_said(model, x).tolist() == member_said(whole, x).tolist()
    assert pickle.dumps(model) == pickle.dumps(whole)
    assert part_of(whole)["weights"][:, 0].any()


@pytest.mark.parametrize("make", [ForestClassifier, ForestRegressor])
def test_two_threads_give_the_bytes_of_one(make):
    """Amid a batch come labels and a column that are new, and rows that are only predicted."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(900, 4))
    y = (X[:, 0] * X[:, 1] > 0).astype(int) + 2 * rng.integers(0, 1 + np.arange(900) // 40)
    X[:500, 3] = np.nan
    w = rng.integers(0, 9, 900) / 4.0
    nested = make(members=("soft", "contexts"))
    members = ("extra", "soft", "neighbors", "contexts", nested)
    models = [make(members=members, n_trees=3, seed=1) for _ in range(2)]
    models[1].n_jobs = 2
    for first in range(0, len(y), 450):
        rows = slice(first, first + 450)
        one, two = (model.test_then_learn_many(X[rows], y[rows], w[rows]) for model in models)
        assert one.tolist() == two.tolist()
    assert models[1].n_jobs == 2
    assert pickle.dumps(models[0].snapshot()) == pickle.dumps(models[1].snapshot())
    assert part_of(models[1])["weights"][:, 0].any()
    assert list(models[0].member_weights)[-1] == "contexts"


# ------------------------------------------------------------------------------- damaged states


DAMAGES = [
    *[changed("fields", "fields", value, 0, "column") for value in (-1, 10**6)],
    *[
        changed("fields", "fields", value, 0, name) for value in (-1, 2)
        for name in ("is_feature", "has_many", "has_fractions", "is_named")
    ],
    *[changed("fields", "fields", value, 0, "n_cuts") for value in (-1, 64)],
    *[changed("fields", "cuts", value, (0, 0)) for value in (np.nan, np.inf)],
    changed("fields", "cuts", np.zeros((3, 63), np.float32)),
    *[changed("fields", "sample", value, (0, 0)) for value in (np.inf, -np.inf)],
    *[changed("fields", "seen", value) for value in (-1, 0, 256, 10**9, 1.0)],
    *[changed("fields", "last", value, 0) for value in (-2, 3)],
    *[changed("fields", "most_pairs", value) for value in (-1, 0, 49)],
    *[changed("counts", "records", value, 0, "slot") for value in (-1, 10**6)],
    changed("counts", "records", 1023, 0, "slot"),
    changed("counts", "records", 0, 0, "key"),
    *[changed("counts", "records", value, 0, "labels") for value in (8, 2**31)],
    # what came, and what was expected, at each speed
    *[
        changed("counts", "counts", value, (0, 0, k)) for k in range(4)
        for value in (-1e-3, np.nan, np.inf, 1.2e6)
    ],
    changed("counts", "counts", np.zeros((1000, 2, 4), np.float32)),
    changed("counts", "counts", np.zeros((1000, 2, 2), np.float32)),
    *[changed("counts", "slots", value) for value in (-1, 0, 32, 1000, 2**21, 1024.0)],
    *[changed("counts", "places", value) for value in (-1, 0, 1, 33, 2.0)],
    *[changed(None, "weights", value, (0, 0, 0)) for value in (8.5, -8.5, np.nan, np.inf)],
    *[changed(None, "weights", value, (0, 1, 0)) for value in (-1.0, np.nan, np.inf)],
    *[changed(None, "weights", np.zeros(shape, np.float32)) for shape in ((1, 2, 2), (136, 2, 4))],
    *[changed(None, "rows", value) for value in (-1, 2**63, 1.0)],
]


@pytest.fixture(scope="module")
def model_of_two():
    return learned(alone(), *square(250))


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_states_are_refused(model_of_two, damage):
    assert_refused(model_of_two, damage)


FORGED = [
    changed("fields", "fields", 1, slice(None), "is_feature"),
    changed("fields", "fields", 0, slice(None), "column"),
    changed("fields", "fields", 1, slice(None), "is_named"),
    changed("fields", "fields", 0, slice(None), "has_fractions"),
    changed("fields", "fields", 2**32 - 1, slice(None), "n_changes"),
    changed("fields", "fields", 63, slice(None), "n_cuts"),
    changed("fields", "cuts", -3e38, slice(None)),
    changed("fields", "sample", np.nan, slice(None)),
    changed("counts", "records", 7, slice(None), "key"),
    changed("counts", "records", 0, slice(None), "labels"),
    changed("counts", "records", 2**32 - 1, slice(None), "last"),
    changed("counts", "counts", 1.1e6, slice(None)),
    # nothing came, whatever was expected; and the other way round
    changed("counts", "counts", 0.0, (..., slice(0, 2))),
    changed("counts", "counts", 0.0, (..., slice(2, 4))),
    changed(None, "weights", 8.0, (slice(None), 0)),
    changed(None, "weights", 3.4e38, (slice(None), 1)),
    changed(None, "rows", 2**40),
]


@pytest.mark.parametrize("damage", FORGED)
def test_what_is_accepted_goes_on(model_of_two, damage):
    """Numbers that a file may say, though no model would."""
    state, model = copy.deepcopy(model_of_two.snapshot()), model_of_two.clone()
    damage(state)
    model._core.check_state(state)
    model._core.restore(state)
    X, y = square(300, seed=1)
    for x in as_dicts(X[:5]):
        assert np.isfinite(member_said(model, x)).all()
        assert model.contributions_one(x, 1)
    learned(model, X, y)
    assert np.isfinite(member_said(model, {0: 1.0})).all()
    model._core.check_state(model.snapshot())


@pytest.fixture(scope="module")
def model_of_numbers():
    X, _ = square(400)
    return learned(numbers_alone(), X, X[:, 0] + X[:, 1] * X[:, 2])


@pytest.mark.parametrize("damage", [
    *[
        changed("counts", "counts", value, (0, 0, k)) for k in range(2)
        for value in (-1.0, 0.0, np.nan, np.inf)
    ],
    *[
        changed("counts", "counts", value, (0, 0, 2 + k)) for k in range(2)
        for value in (-1e9, 1e9, np.nan, np.inf)
    ],
    *[changed("counts", "places", value) for value in (0, 2, 3, 4)],
    changed("counts", "records", 2, 0, "labels"),
    *[changed("fields", "last", value, 0) for value in (-2, 0)],
    *[changed("targets", "squares", value) for value in (-1.0, np.nan)],
    *[changed("targets", "weight", value) for value in (-1.0, np.nan)],
    *[changed("targets", "mean", value) for value in (np.inf, 1e102)],
    changed("targets", "squares", 1e290),
    changed("targets", "weight", 5e-324),
])
def test_damaged_states_of_numbers_are_refused(model_of_numbers, damage):
    assert_refused(model_of_numbers, damage)


def of_pool(key, place, value):
    """A damage to what the pool knows of its members."""
    def damage(state):
        state["tree"][key][place] = value
    return damage


@pytest.mark.parametrize("damage", [
    # how far contexts are followed
    *[of_pool("says", 1, value) for value in (-1e-3, 1.001, np.nan, np.inf)],
    # that weights sum to one is asked of the others
    of_pool("says", 0, 0.5),
    *[of_pool("trust", 0, value) for value in (-9.1, 9.1, np.nan, np.inf)],
    *[of_pool("trust", 1, value) for value in (-1e-3, 9.1, np.nan, np.inf)],
])
def test_damaged_trust_is_refused(model_of_numbers, damage):
    assert_refused(model_of_numbers, damage)


@pytest.mark.parametrize("key", ["says", "trust", "squares"])
def test_trust_of_another_size_is_refused(model_of_numbers, key):
    def damage(state):
        state["tree"][key] = np.append(state["tree"][key], 0.0)

    assert_refused(model_of_numbers, damage)


@pytest.mark.parametrize(("place", "value"), [(0, 9.0), (0, -9.0), (1, 9.0), (1, 0.0)])
def test_trust_that_is_accepted_goes_on(model_of_numbers, place, value):
    state, model = copy.deepcopy(model_of_numbers.snapshot()), model_of_numbers.clone()
    of_pool("trust", place, value)(state)
    model._core.restore(state)
    X, _ = square(50, seed=1)
    for x in as_dicts(X):
        model.learn_one(x, x[0])
        assert 0 <= model.member_weights["contexts"] <= 1
        assert np.isfinite(model.predict_one(x))
    model._core.check_state(model.snapshot())


def test_a_feature_of_categories_has_no_many_numbers():
    model = alone()
    for i in range(300):
        model.learn_one({"kind": f"k{i % 5}"}, i % 2)
    assert_refused(model, changed("fields", "fields", 1, slice(None), "has_many"))


def test_sums_that_were_rounded_for_long_can_be_read_again():
    """Sums of large weights fade side by side, and each is rounded on its own."""
    rng, model = np.random.default_rng(0), numbers_alone()
    for _ in range(3):
        rare = rng.random(50_000) < 0.01
        X = np.column_stack([1.0 + rare, np.full(len(rare), 2.0)])
        model.learn_many(X, np.where(rare, 0.0, 1.0), w=np.where(rare, 1e4, 2.66))
        model._core.check_state(model.snapshot())


def test_many_columns_take_no_more_than_half_of_the_room():
    rng = np.random.default_rng(0)
    model = numbers_alone(max_bytes=2**18)
    X = rng.integers(40, size=(600, 120)).astype(float)
    for start in range(0, len(X), 20):
        model.learn_many(X[start : start + 20], X[start : start + 20, 0])
        assert sys.getsizeof(model) < 1.05 * 2**18
    assert len(part_of(model)["fields"]["fields"]) < 64


@pytest.mark.parametrize("damage", [
    changed("counts", "counts", 3e38, (..., slice(0, 2))),
    changed("counts", "counts", 0.0, (..., slice(2, 4))),
    changed(None, "weights", -8.0, (slice(None), 0)),
    changed(None, "weights", 3.4e38, (slice(None), 1)),
    changed("targets", "mean", 1e100),
    changed("targets", "squares", 1e200),
])
def test_what_is_accepted_of_numbers_goes_on(model_of_numbers, damage):
    state, model = copy.deepcopy(model_of_numbers.snapshot()), model_of_numbers.clone()
    damage(state)
    model._core.check_state(state)
    model._core.restore(state)
    X, _ = square(300, seed=1)
    learned(model, X, X[:, 0])
    assert np.isfinite(member_said(model, {0: 1.0})).all()
    assert np.isfinite(list(model.contributions_one({0: 1.0})["features"].values())).all()
    model._core.check_state(model.snapshot())


# ----------------------------------------------------------------------------------- many of them


@MANY_LABELS
def test_of_many_labels_it_says_nothing():
    X, y = square(600)
    model = learned(alone(), X, y)
    taken = model._core.learned_bytes
    assert part_of(model)["counts"]["slots"] == 4096
    for i, x in enumerate(as_dicts(X[:120])):
        model.learn_one(x, i % 40)
        model._core.check_state(model.snapshot())
    assert len(model.labels) == 40
    assert part_of(model)["counts"]["slots"] == 0
    # frequencies of 40 labels take some more
    assert model._core.learned_bytes < taken - 4096 * 48 + 40 * 8
    assert member_said(model, x).tolist() == [0.0] * 40
    assert model.contributions_one(x, 0)["features"] == {}


@MANY_LABELS
def test_of_more_than_twelve_labels_there_are_fewer_pairs():
    X = np.random.default_rng(0).normal(size=(800, 12))
    for n_labels, n_contexts in ((12, 12 + 45 + 9 + 8), (13, 12 + 15 + 3 + 8)):
        model = alone()
        model.learn_many(X, np.arange(800) % n_labels)
        assert n_contexts_of(model) in range(n_contexts - 2, n_contexts + 1)


def test_of_many_columns_some_are_looked_at():
    X = np.random.default_rng(0).normal(size=(100, 80))
    names = [f"c{i}" for i in range(80)]
    models = [alone(), alone()]
    for x in as_dicts(X, names):
        models[0].learn_one(x, int(x["c0"] > 0))
        models[1].learn_one(dict(reversed(x.items())), int(x["c0"] > 0))
    chosen = []
    for model in models:
        state = model.snapshot()
        columns = part_of(model)["fields"]["fields"]["column"]
        chosen.append([state["features"][column] for column in columns])
        assert n_contexts_of(model) in range(122, 127)
    assert chosen[0] == chosen[1]
    assert len(set(chosen[0])) == 64


def test_the_oldest_contexts_go_and_bytes_are_bounded():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(4000, 20)), rng.integers(2, size=4000)
    model = alone(rests=False)
    model.learn_many(X, y)
    counts = part_of(model)["counts"]
    assert counts["slots"] == 65536
    assert model._core.learned_bytes < 2**22 + 2**18
    # what was learned is counted once
    assert model._core.n_bytes < model._core.learned_bytes + 2**18
    assert len(counts["records"]) <= 65536
    ages = 4000 - counts["records"]["last"].astype(int)
    came = np.bincount(ages // 500)
    assert came[0] > 1.5 * came[-1]


@MANY_LABELS
@pytest.mark.parametrize("n_labels", [2, 20, 32])
def test_it_keeps_within_its_bytes(n_labels):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(700, 37))
    model = alone(max_bytes=2**18)
    for i in range(len(X)):
        model.learn_many(X[i:i + 1], [i % n_labels])
        assert model._core.learned_bytes <= 2**18
    model._core.check_state(model.snapshot())
    other = pickle.loads(pickle.dumps(model))
    assert other._core.learned_bytes == model._core.learned_bytes
    assert 0 < part_of(model)["counts"]["slots"] <= 1024


def test_three_columns_have_one_triple(model_of_two):
    """Each pair would make the same one."""
    state = part_of(model_of_two)
    assert n_contexts_of(model_of_two) == 3 + 3 + 1 + 2 + 3
    newest = state["counts"]["counts"][state["counts"]["records"]["last"] == 249].sum(axis=1)
    assert (newest[:, :2] >= 1.0).all()
    # shares sum to one, whatever was expected
    assert np.allclose(newest[:, :2], newest[:, 2:], rtol=0.01)
    assert len(newest) == 12


# ------------------------------------------------------------------------------- what is observed


def test_sums_fade_as_powers_of_e_do():
    """A single count, once more after some rows."""
    for n in (1, 5, 77, 400):
        model = alone()
        # with a label that is new nothing is counted
        for label in (0, 1, *[0] * 20):
            model.learn_one({"a": 1.0}, label)
        model.learn_one({"a": None}, 1)
        for _ in range(n - 1):
            model.learn_one({"a": 1.0}, 0)
        model.learn_one({"a": None}, 1)
        counts = part_of(model)["counts"]
        # of the context that came twice, with no other label
        found = counts["counts"][:, 1][counts["counts"][:, 0, 0] == 0]
        twice = found[found[:, 1] > 1.5]
        assert len(twice)
        for count, memory in zip(twice[0, :2], (3000, 100_000), strict=True):
            assert count - 1 == pytest.approx(math.exp(-n / memory), abs=1e-6)


def test_labels_that_follow_each_other_are_known_from_the_last_ones():
    model, right = alone(), 0
    for i in range(800):
        # what comes after 0 depends on what was before it
        label = (0, 1, 0, 2)[i % 4]
        right += i >= 400 and model.predict_one({"a": 1.0}) == label
        model.learn_one({"a": 1.0}, label)
    assert right == 400


def test_contributions_sum_to_the_prediction():
    model = alone()
    for x, y in odd_rows(300):
        model.learn_one(x, y)
    for x, _ in odd_rows(20):
        for label in model.labels:
            made_of = model.contributions_one(x, label)
            said = model.predict_proba_one(x)[label]
            assert made_of["score"] == pytest.approx(said, abs=1e-9)
            parts = made_of["bias"] + sum(made_of["features"].values())
            assert parts == pytest.approx(said, abs=1e-9)


# ---------------------------------------------------------------------------------- corrections


def kinds(n, n_kinds, seed=0):
    """One of so many categories, as often as each other, and a number; and which it was."""
    rng = np.random.default_rng(seed)
    found = rng.integers(n_kinds, size=n)
    rows = [
        {"kind": f"k{kind}", "b": b} for kind, b in zip(found, rng.normal(size=n), strict=True)
    ]
    return rows, found


@pytest.mark.parametrize("n_kinds", [6, 100])
def test_labels_of_a_context_are_corrected(n_kinds):
    rows, found = kinds(4000, n_kinds)
    y = (found % 3).tolist()
    accuracy = []
    for members in (("frequencies",), ("frequencies", "contexts")):
        model = learned_rows(ForestClassifier(members=members), rows[:3000], y[:3000])
        accuracy.append(prequential_accuracy(model, rows[3000:], y[3000:]))
    assert accuracy[0] < 0.4
    assert accuracy[1] > 0.99
    # it is the category that is said to matter
    assert next(iter(model.feature_importances())) == "kind"


def test_numbers_of_a_context_are_corrected():
    rows, found = kinds(6000, 100)
    y = np.random.default_rng(1).normal(size=100)[found]
    errors = []
    for members in (("boosted",), ("boosted", "contexts")):
        model = learned_rows(ForestRegressor(members=members), rows[:5000], y[:5000].tolist())
        said = [model.predict_one(x) for x in rows[5000:]]
        errors.append(np.mean((said - y[5000:]) ** 2) / np.var(y))
    assert errors[0] > 0.5
    assert errors[1] < 0.15
    assert model.member_weights["contexts"] > 0.9


def test_what_others_know_is_not_said_once_more():
    """The same labels: the less is to be corrected, the better the others are."""
    rows, found = kinds(3000, 2)
    sizes = []
    for member in ("frequencies", "soft"):
        model = ForestClassifier(members=(member, "contexts"))
        learned_rows(model, rows, found.tolist())
        said = [member_said(model, x) for x in rows[-50:]]
        sizes.append(np.mean([abs(one[1] - one[0]) for one in said]))
    assert sizes[0] > 1.5
    assert sizes[1] < 0.25 * sizes[0]


def test_corrections_are_added_to_the_logarithms_of_shares():
    """The pool by hand, of what the members say."""
    X, y = square(600)
    model = learned(alone(), X, y)
    weights = model.member_weights
    assert list(weights) == ["frequencies", "contexts"]
    for x in as_dicts(X[:50]):
        shares, correction = ask_members(model._core, x)
        odds = shares ** weights["frequencies"] * np.exp(weights["contexts"] * correction)
        assert shares_of(model, x) == pytest.approx((odds / odds.sum()).tolist(), rel=1e-12)
        assert np.abs(correction).max() > 1e-3


def test_contexts_are_the_last_member_and_never_the_only_one():
    for make in (ForestClassifier, ForestRegressor):
        for members in (("contexts", "soft"), ("soft", "contexts")):
            model = make(members=members)
            assert list(model.member_weights) == ["soft", "contexts"]
            assert model.member_weights["contexts"] == 0.5
        with pytest.raises(ValueError, match="members must hold at least one that predicts"):
            make(members=("contexts",))
        with pytest.raises(ValueError, match="members must hold at least one that predicts"):
            make(members=("extra", "contexts"), n_trees=0)


@pytest.mark.parametrize("is_asked", [False, True])
@pytest.mark.parametrize("make", [ForestClassifier, ForestRegressor])
def test_those_of_a_member_learn_as_those_of_a_forest(make, is_asked):
    """Amid new labels and columns; contexts are told what their own forest says."""
    inner = make(members=("soft", "contexts"))
    outer, alike = make(members=("soft", inner, "contexts")), inner.clone()
    before = None
    for i, (x, label) in enumerate(odd_rows(420)):
        y = label if make is ForestClassifier else number_of(x, label)
        if is_asked:
            outer.predict_one(x)
        outer.learn_one(x, y)
        alike.learn_one(x, y)
        if i == 300:
            before = inner_part(outer)
    assert pickle.dumps(inner_part(outer)) == pickle.dumps(part_of(alike))
    assert not np.array_equal(inner_part(outer)["weights"], before["weights"])
    # those of the whole forest have heard something else
    assert not np.array_equal(part_of(outer)["weights"], inner_part(outer)["weights"])


def inner_part(outer):
    """What the contexts of a member, the second one, have learned."""
    return outer.snapshot()["tree"]["members"]["1"]["members"]["1"]


# ----------------------------------------------------------------------------------- categories


def features_of(model):
    """The names of the fields that are features with categories."""
    state, part = model.snapshot(), part_of(model)
    if "counts" in part:
        columns = part["fields"]["fields"]["column"]
    else:
        columns = part["rows"]["fields"][:, 0]
    names = [state["features"][column] for column in columns]
    return [name.name for name in names if isinstance(name, Category)]


MAKERS = pytest.mark.parametrize("make", [
    alone, numbers_alone, neighbors_alone, neighbors_numbers_alone,
])


@MAKERS
def test_a_feature_of_many_categories_is_a_field(make):
    rows, found = kinds(600, 100)
    model = learned_rows(make(), rows, (found % 2).tolist())
    assert np.bincount(found).max() < 600 / 32
    assert features_of(model) == ["kind"]


@MAKERS
@pytest.mark.parametrize(("every", "is_field"), [(20, True), (40, False)])
def test_a_feature_that_few_rows_have_is_no_field(make, every, is_field):
    rows, found = kinds(2100, 3)
    for i, x in enumerate(rows):
        if i % every:
            del x["kind"]
    model = learned_rows(make(), rows, (found % 2).tolist())
    assert features_of(model) == ["kind"] * is_field


@MAKERS
def test_a_feature_that_few_rows_have_is_no_field_though_its_categories_are_new(make):
    model = make()
    for i in range(1280):
        model.learn_one({"a": i % 7 + 0.5} | ({} if i % 100 else {"word": f"w{i}"}), i % 2)
    assert features_of(model) == []


def pairs(n, seed=0):
    """A label that two columns of many values say together, and neither by itself."""
    rng = np.random.default_rng(seed)
    X = rng.integers(12, size=(n, 4)).astype(float)
    return X, ((X[:, 0] * 5 + X[:, 1] * 7) % 12 % 2).astype(int).tolist()


def test_a_pair_of_columns_is_found():
    X, y = pairs(2500)
    # which of the values are even goes at random: no threshold helps
    permuted = np.random.default_rng(3).permutation(12)
    X[:, :2] = permuted[X[:, :2].astype(int)]
    model = alone()
    other = ForestClassifier(members=("model",))
    rows = as_dicts(1.0 + X)
    accuracy = [prequential_accuracy(each, rows, y) for each in (model, other)]
    assert accuracy[0] > 0.85
    assert accuracy[0] > accuracy[1] + 0.15
    importances = model.feature_importances()
    assert sum(importances.values()) == pytest.approx(1.0)
    assert set(list(importances)[:2]) == {0, 1}


def test_a_rule_that_changes_is_followed():
    rng = np.random.default_rng(0)
    X = 1.0 + rng.integers(6, size=(6000, 3)).astype(float)
    y = [int((x > 3.5) ^ (i // 2000 % 2)) for i, x in enumerate(X[:, 0])]
    are_right = np.equal(prequential(alone(), as_dicts(X), y), y)
    assert np.mean(np.reshape(are_right, (3, 2000))[:, 700:]) > 0.99


@pytest.mark.parametrize(("n_names", "rests"), [(64, True), (65, False)])
@pytest.mark.parametrize("members", [
    ("neighbors", "contexts"), (ForestClassifier(members=("frequencies", "contexts")),),
])
def test_nobody_rests_while_it_gets_to_know_names(members, n_names, rests):
    rng = np.random.default_rng(0)
    numbers = rng.normal(size=(2100, 40))
    labels = (numbers.sum(axis=1) > 0).tolist()
    forest = ForestClassifier(members=("model", "soft", *members))
    for i, (row, label) in enumerate(zip(numbers.tolist(), labels, strict=True)):
        forest.learn_one(dict(enumerate(row)) | {"name": f"n{i % n_names}"}, label)
    assert (forest.snapshot()["tree"]["watches"]["left"] > 0).any() == rests
    # what rests learns nothing
    state = part_of(forest)
    rows = state["rows"] if "contexts" in members else state["members"]["1"]["rows"]
    assert (rows < 2100) == rests


@pytest.mark.parametrize("members", [
    ("neighbors", "contexts"), (ForestClassifier(members=("frequencies", "contexts")),),
])
def test_a_copy_of_one_that_rests_wakes_as_it_does(members):
    X = np.random.default_rng(0).normal(size=(6100, 10))
    y = (X.sum(axis=1) > 0).astype(int)
    model = ForestClassifier(members=("model", "soft", *members))
    model.learn_many(X[:2100], y[:2100])
    other = pickle.loads(pickle.dumps(model))
    left = []
    for each in (model, other):
        left.append(each.snapshot()["tree"]["watches"]["left"][-1])
        each.learn_many(X[2100:], y[2100:])
        left.append(each.snapshot()["tree"]["watches"]["left"][-1])
    assert left[0] == left[2] > 0 == left[1] == left[3]
    assert pickle.dumps(other) == pickle.dumps(model)


def test_whole_numbers_may_be_names():
    rng = np.random.default_rng(0)
    kinds = rng.integers(3, size=400)
    number = rng.integers(len(kinds), size=8000)
    rows = [{"shop": 17 * int(i), "size": float(size)} for i, size in zip(
        number, rng.normal(size=len(number)), strict=True,
    )]
    model = alone()
    y = kinds[number].tolist()
    assert prequential_accuracy(model, rows[:4000], y[:4000]) > 0.5
    assert prequential_accuracy(model, rows[4000:], y[4000:]) > 0.9
    assert next(iter(model.feature_importances())) == "shop"
    made_of = model.contributions_one(rows[0])
    assert made_of["score"] == pytest.approx(made_of["bias"] + sum(made_of["features"].values()))
    # fractions are sizes like others
    sizes = [{**x, "shop": x["shop"] + 0.5} for x in rows]
    assert prequential_accuracy(alone(), sizes, y) < 0.5


def test_whole_numbers_that_are_names_have_means():
    rng = np.random.default_rng(0)
    n = 8000
    users, shops = rng.normal(size=400), rng.normal(size=60)
    user, shop = rng.integers(400, size=n), rng.integers(60, size=n)
    y = (users[user] + shops[shop] + 0.3 * rng.normal(size=n)).tolist()
    rows = [{"user": 17 * int(i), "shop": 1000 - 3 * int(j)} for i, j in zip(
        user, shop, strict=True,
    )]
    errors = {}
    for members in (("boosted", "contexts"), ("boosted",)):
        model = ForestRegressor(members=members)
        squares = np.subtract(prequential(model, rows, y), y) ** 2
        errors[members] = np.mean(squares[4000:]) / np.var(y[4000:])
        made_of = model.contributions_one(rows[0])
        total = made_of["bias"] + sum(made_of["features"].values())
        assert total == pytest.approx(made_of["score"])
        assert sum(model.feature_importances().values()) == pytest.approx(1.0)
    assert errors["boosted", "contexts"] < 0.15
    assert errors["boosted",] > 0.4
