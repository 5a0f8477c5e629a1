"""What boosted trees promise: the same state on every way, and answers to whatever comes."""

import copy
import pickle

import numpy as np
import pytest
from reference.boosting import N_TREES
from support.boosted import alone
from support.snapshots import assert_refused, changed, part_of
from support.streams import as_dicts

from streamtree._core.learners.explaining import ask_members


def square(n, n_labels=2, seed=0):
    """Rows of three columns, and a label by the signs of two of them; a number for 0 labels."""
    X = np.random.default_rng(seed).normal(size=(n, 3))
    if n_labels == 0:
        return X, (np.sign(X[:, 0]) * X[:, 1]).tolist()
    labels = 2 * (X[:, 0] > 0.2) + (X[:, 1] > 0) if n_labels > 2 else X[:, 0] * X[:, 1] > 0
    return X, labels.astype(int).tolist()


def learned(model, X, y, **settings):
    for x, target in zip(as_dicts(X), y, strict=True):
        model.learn_one(x, target, **settings)
    return model


def stages_of(model):
    return part_of(model)["stages"]


def n_trees(model):
    return len(stages_of(model)["roots"])


def member_said(model, x):
    """What the boosted trees say by themselves."""
    return ask_members(model._core, x)[0]


# -------------------------------------------------------------------------------- what is learned


@pytest.mark.parametrize(("n_labels", "n_columns"), [(26, 16), (0, 1)])
def test_trees_are_done_before_their_rows_go(n_labels, n_columns):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(21_000, n_columns))
    y = rng.normal(size=21_000) if n_labels == 0 else rng.integers(n_labels, size=21_000)
    model = alone(n_labels)
    model.learn_many(X[:13_000], y[:13_000])
    before = stages_of(model)["nodes"].tobytes()
    model.learn_many(X[13_000:], y[13_000:])
    assert stages_of(model)["nodes"].tobytes() != before


@pytest.mark.parametrize("n_labels", [2, 4])
def test_steps_that_act_together_are_learned(n_labels):
    X, y = square(1200, n_labels)
    model = alone(n_labels)
    model.learn_many(X[:700], y[:700])
    said = np.asarray(model.predict_proba_many(X))
    order = [model.labels.index(label) for label in y]
    shares = said[np.arange(len(y)), order]
    frequencies = np.bincount(order[:700]) / 700
    prior = -np.log(frequencies[order[:700]]).mean()
    # of rows that it was grown from, and of others
    assert -np.log(shares[:700]).mean() < 0.3 * prior
    assert np.mean(said[700:].argmax(axis=1) == order[700:]) > 0.9
    importances = model.feature_importances()
    assert sum(importances.values()) == pytest.approx(1.0)
    assert set(list(importances)[:2]) == {0, 1}
    assert importances[2] < 0.1


def test_numbers_are_learned():
    X, y = square(1200, 0)
    model = alone(0)
    model.learn_many(X[:700], y[:700])
    error = np.asarray(model.predict_many(X)) - y
    assert np.mean(error[:700] ** 2) < 0.1 * np.var(y)
    assert np.mean(error[700:] ** 2) < 0.3 * np.var(y)
    importances = model.feature_importances()
    assert sum(importances.values()) == pytest.approx(1.0)
    assert min(importances, key=importances.get) == 2


@pytest.mark.parametrize("n_labels", [0, 2, 4])
def test_contributions_sum_to_the_prediction(n_labels):
    X, y = square(400, n_labels)
    model = learned(alone(n_labels), X, y)
    for x in as_dicts(X[:20]):
        each = [None] if n_labels == 0 else model.labels
        for label in each:
            made_of = model.contributions_one(x, *[label] * (n_labels > 0))
            said = model.predict_one(x) if n_labels == 0 else model.predict_proba_one(x)[label]
            assert made_of["score"] == pytest.approx(said, abs=1e-9)
            parts = made_of["bias"] + sum(made_of["features"].values())
            assert parts == pytest.approx(said, abs=1e-9)


# ------------------------------------------------------------------------------- the same state


@pytest.mark.parametrize("n_labels", [0, 2, 4])
def test_every_way_to_learn_gives_the_same_bytes(n_labels):
    X, y = square(420, n_labels)
    models = [learned(alone(n_labels, window=200), X, y)]
    for size in (1, 7, 133, 420):
        model = alone(n_labels, window=200)
        for first in range(0, len(y), size):
            model.learn_many(X[first:first + size], y[first:first + size])
        models.append(model)
    asked = alone(n_labels, window=200)
    asked.test_then_learn_many(X, y)
    files = [pickle.dumps(model.snapshot()) for model in models]
    assert len(set(files)) == 1
    assert pickle.dumps(part_of(asked)) == pickle.dumps(part_of(models[0]))
    assert n_trees(asked) == N_TREES


@pytest.mark.slow
@pytest.mark.parametrize("n_labels", [0, 2, 4])
def test_copies_while_it_grows_go_on(n_labels):
    """A new process for every row: what is half grown is done again."""
    X, y = square(900, n_labels)
    model, whole = alone(n_labels), alone(n_labels)
    steps, grew = set(), 0
    for each in (model, whole):
        each.learn_many(X[:720], y[:720])
    for x, target in zip(as_dicts(X[720:]), y[720:], strict=True):
        model.learn_one(x, target)
        whole.learn_one(x, target)
        state = model.snapshot()
        growth = state["tree"]["members"]["0"]["growth"]
        grew += growth["rows"] > 512
        steps.add(growth["steps"])
        model._core.check_state(state)
        model = pickle.loads(pickle.dumps(model))
        assert pickle.dumps(model) == pickle.dumps(whole)
    # it began, went on for many rows, and came to its end
    assert len(steps) >= grew > 20
    assert growth["rows"] == 0
    assert n_trees(model) == N_TREES


@pytest.mark.parametrize("n_labels", [0, 4])
def test_a_copy_of_any_row_goes_on_by_itself(n_labels):
    X, y = square(160, n_labels)
    rows, model, copies = as_dicts(X), alone(n_labels), []
    for i, (x, target) in enumerate(zip(rows, y, strict=True)):
        model.learn_one(x, target)
        if 95 <= i < 130:
            copies.append((i + 1, copy.deepcopy(model)))
    sizes = {part_of(each)["growth"]["rows"] for _, each in copies}
    assert sizes == {0, 98}
    assert n_trees(copies[-1][1]) == N_TREES
    for first, each in copies:
        learned(each, X[first:], y[first:])
        assert pickle.dumps(each) == pickle.dumps(model), first


# ----------------------------------------------------------------------------- damaged states


DAMAGES = [
    *[changed("stages", "nodes", value, 0, "next") for value in (-1, 0, 2, 10**6)],
    *[changed("stages", "nodes", value, -1, "next") for value in (-1, 0, 10**6)],
    *[changed("stages", "nodes", value, 0, "column") for value in (-2, -1, 10**6)],
    *[changed("stages", "nodes", value, 0, "threshold") for value in (np.nan, np.inf)],
    *[changed("stages", "nodes", value, 0, "gain") for value in (np.nan, np.inf, -1.0)],
    *[changed("stages", "nodes", value, 0, "n_rows") for value in (-1, 0, 2, 2**31 - 1)],
    *[changed("stages", "nodes", value, 0, "missing_right") for value in (-1, 2)],
    *[changed("stages", "nodes", value, 0, "salt") for value in (-1, 256)],
    *[changed("stages", "roots", value, 1) for value in (-1, 0, 1, 10**6)],
    *[changed("stages", "values", value, 0) for value in (np.nan, np.inf, 8.5)],
    *[changed("stages", "base", value, 0) for value in (np.nan, np.inf)],
    *[changed("stages", "unit", value) for value in (0.0, -1.0, np.nan, np.inf, 1e200)],
    *[changed("stages", "n_labels", value) for value in (-1, 1, 3, 65, 2.0)],
    *[changed("stages", "base", np.zeros(n)) for n in (0, 3)],
    *[changed("growth", "first", value) for value in (-1, 10, 10**6, 1.0)],
    *[changed("growth", "rows", value) for value in (-1, 0, 10**6, 2**62)],
    *[changed("growth", "seed", value) for value in (-1, 2**64, 1.0)],
    *[changed("growth", "steps", value) for value in (-1, 2**62, 1.0)],
    *[changed("growth", "credit", value) for value in (-2**62, 2**62, 1.0)],
    *[changed("growth", "labels", value) for value in (-1, 1, 3, 65)],
    *[changed("growth", "fields", value, 0) for value in (-1, 10**6)],
    *[changed("growth", "fields", np.array(part, np.int32)) for part in ([], [0, 1, 0])],
    *[changed(None, "random", value) for value in (-1, 2**64, 0.5)],
    *[changed(None, "next_growth", value) for value in (-1, 0.5)],
    *[changed(None, "mean", value) for value in (np.nan, np.inf)],
    *[changed(None, "weight", value) for value in (np.nan, -1.0)],
]


@pytest.fixture(scope="module", params=[0, 2])
def growing(request):
    """A model that has trees, and grows others."""
    X, y = square(312, request.param)
    model = learned(alone(request.param, window=200), X, y)
    assert n_trees(model) == N_TREES
    assert part_of(model)["growth"]["rows"] == 200
    return model


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_states_are_refused(growing, damage):
    assert_refused(growing, damage)


def test_what_is_accepted_goes_on(growing):
    """Numbers that a file may say, though no model would."""
    X, y = square(100, 2 if hasattr(growing, "labels") else 0, seed=1)
    accepted = [
        *[changed("growth", "steps", value) for value in (0, 17, 2**61)],
        *[changed("growth", "credit", value) for value in (-2**39, 2**39)],
        *[changed("growth", "seed", value) for value in (0, 2**64 - 1)],
        *[changed("growth", "rows", value) for value in (1, 19, 60)],
        changed("growth", "fields", np.array([2], np.int32)),
        changed("stages", "nodes", 255, slice(None), "salt"),
        changed("stages", "values", -8.0, slice(None)),
        changed(None, "next_growth", 0),
        changed(None, "random", 2**64 - 1),
    ]
    for i, damage in enumerate(accepted):
        state, model = copy.deepcopy(growing.snapshot()), growing.clone()
        damage(state)
        model._core.check_state(state)
        model._core.restore(state)
        for x in as_dicts(X[:5]):
            assert np.isfinite(member_said(model, x)).all(), i
        learned(model, X, y)
        model._core.check_state(model.snapshot())
        other = growing.clone()
        other._core.restore(model.snapshot())
        assert pickle.dumps(other.snapshot()) == pickle.dumps(model.snapshot()), i


# ---------------------------------------------------------------------------------- odd streams


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_of_many_labels_it_says_nothing():
    X, y = square(500)
    model = learned(alone(2), X[:300], y[:300])
    assert n_trees(model) == N_TREES
    for i, x in enumerate(as_dicts(X[300:])):
        model.learn_one(x, i // 2)
    assert n_trees(model) == part_of(model)["growth"]["rows"] == 0
    # rows are kept no more
    assert part_of(model)["window"]["size"] == 0
    assert len(part_of(model)["window"]["weights"]) == 0
    shares = list(model.predict_proba_one(x).values())
    assert np.allclose(shares, 1 / len(shares))
    assert model.feature_importances() == {}
    model._core.check_state(model.snapshot())


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_of_words_alone_it_says_nothing():
    """Columns that few rows have are not looked at; one that comes later is."""
    rng = np.random.default_rng(0)
    model = alone(2)
    for i in range(400):
        model.learn_one({f"w{j}": 1.0 for j in rng.integers(5000, size=6)}, i % 2)
    assert n_trees(model) == 0
    assert model.predict_proba_one({"w1": 1.0}) == {0: 0.5, 1: 0.5}
    for i in range(600):
        words = {f"w{j}": 1.0 for j in rng.integers(5000, size=6)}
        model.learn_one({**words, "x": rng.normal() + 4 * (i % 2)}, i % 2)
    assert n_trees(model) == N_TREES
    assert model.predict_one({"x": 4.0}) == 1
    assert next(iter(model.feature_importances())) == "x"


def test_a_label_that_comes_later_has_a_share():
    X, y = square(320)
    model = learned(alone(2), X, y)
    model.learn_one({0: 1.0}, "new")
    assert n_trees(model) == N_TREES
    for x in as_dicts(X[:20]):
        said = member_said(model, x)
        assert said.sum() == pytest.approx(1.0)
        assert said[2] == pytest.approx(1 / 3)
        assert sum(model.predict_proba_one(x).values()) == pytest.approx(1.0)
        made_of = model.contributions_one(x, "new")
        assert made_of["score"] == pytest.approx(model.predict_proba_one(x)["new"])
    # the next growth knows it
    learned(model, X, y)
    assert stages_of(model)["n_labels"] == 3
    assert member_said(model, x)[2] < 0.1


def test_a_stretch_of_one_target_is_learned_like_any_other():
    X, y = square(400, 0)
    model = learned(alone(0, window=100), X, [100.0 + number for number in y])
    assert n_trees(model) == N_TREES
    learned(model, X, [7.0] * len(X))
    assert n_trees(model) == 0
    assert member_said(model, {0: 1.0}) == pytest.approx([7.0])
    learned(model, X, y)
    assert n_trees(model) == N_TREES


def test_columns_are_said_to_move_a_share_as_they_do():
    """Whatever the label's own score does, its share falls where another's rises more."""
    X = np.random.default_rng(0).normal(size=(3000, 3))
    y = (1 * (X[:, 0] > -0.5) + (X[:, 0] > 0.5) + 3 * (X[:, 1] > 0)).tolist()
    model = learned(alone(6), X, y)
    for x0, x1 in [(1.5, 1.0), (1.5, -1.0), (-1.5, 1.0), (-1.5, -1.0)]:
        for label in range(6):
            parts = model.contributions_one({0: x0, 1: x1, 2: 0.0}, label)["features"]
            if label == 1 + np.sign(x0) + 3 * (x1 > 0):
                assert parts[0] > 0.1
                assert parts[1] > 0.1
            elif label % 3 == 1 + np.sign(x0):
                assert parts[1] < 0
            elif label // 3 == (x1 > 0):
                assert parts[0] < 0
            assert abs(parts.get(2, 0.0)) < 0.1


def test_a_feature_that_nothing_has_any_more_costs_no_row_much():
    model = alone(2, window=1000)
    for i in range(1400):
        x = {"z": i * 0.618 % 1}
        model.learn_one(x | {f"c{j}": "a" for j in range(40)} if i < 2 else x, i // 2 % 2)
    assert n_trees(model) == N_TREES
    assert set(model.feature_importances()) <= {"z"}


def test_whether_a_value_is_missing_may_be_all_that_counts():
    rng = np.random.default_rng(0)
    model = alone(2)
    for i, z in enumerate(rng.normal(size=400).tolist()):
        model.learn_one({"a": 3.0, "z": z} if i % 2 else {"a": None, "z": z}, i % 2)
    assert n_trees(model) == N_TREES
    assert model.predict_one({"a": 3.0, "z": 0.0}) == 1
    assert model.predict_one({"a": None, "z": 0.0}) == 0


def test_constant_targets_are_answered_with_them():
    X, _ = square(300)
    for target in (3.0, 0.1, 0.0):
        model = learned(alone(0), X, [target] * len(X))
        assert model.predict_one({0: 1.0}) == pytest.approx(target)
        assert n_trees(model) == 0
    one = learned(alone(2), X, ["a"] * len(X))
    assert one.predict_proba_one({0: 1.0}) == {"a": 1.0}


@pytest.mark.parametrize("scale", [1e100, 1e-100, 1e-161, 1e-200])
def test_targets_of_any_size_are_answered(scale):
    X, y = square(420, 0)
    y = (scale * np.clip(y, -1, 1)).tolist()
    model = learned(alone(0), X, y)
    model._core.check_state(model.snapshot())
    said = np.asarray(model.predict_many(X))
    assert np.isfinite(said).all()
    if scale > 1e-150:
        assert n_trees(model) == N_TREES
        assert np.mean(((said - y) / scale) ** 2) < 0.3 * np.var(np.array(y) / scale)
    with pytest.raises(ValueError, match="y must be"):
        model.learn_one({0: 1.0}, 1e200)


@pytest.mark.parametrize("n_labels", [0, 2, 4])
@pytest.mark.parametrize("weights", [(1e-300,), (1e100,), (1e-300, 1e100), (1.0, 0.0)])
def test_weights_at_their_bounds(weights, n_labels):
    X, y = square(420, n_labels)
    model = alone(n_labels)
    for i, (x, target) in enumerate(zip(as_dicts(X), y, strict=True)):
        model.learn_one(x, target, w=weights[i % len(weights)])
    model._core.check_state(model.snapshot())
    assert n_trees(model) == N_TREES
    for x in as_dicts(X[:20]):
        assert np.isfinite(member_said(model, x)).all()
    importances = model.feature_importances()
    assert sum(importances.values()) == pytest.approx(1.0 if importances else 0.0)


@pytest.mark.parametrize("n_labels", [0, 2, 4])
def test_columns_that_are_missing_in_all_rows(n_labels):
    X, y = square(500, n_labels)
    model = alone(n_labels)
    for x, target in zip(as_dicts(X), y, strict=True):
        model.learn_one(dict.fromkeys(x), target)
        assert np.isfinite(member_said(model, x)).all()
    # one that was there before
    model = learned(alone(n_labels, window=100), X[:150], y[:150])
    for x, target in zip(as_dicts(X), y, strict=True):
        model.learn_one(dict.fromkeys(x), target)
    nodes = stages_of(model)["nodes"]
    assert n_trees(model) == len(nodes) == N_TREES
    assert (nodes["column"] == -1).all()
    assert model.feature_importances() == {}


@pytest.mark.parametrize("kind", ["number", "category"])
def test_one_column_is_enough(kind):
    rng = np.random.default_rng(0)
    values = rng.integers(12, size=600).tolist()
    model, hits = alone(2), []
    for value in values:
        x = {"a": float(value) if kind == "number" else f"v{value}"}
        hits.append(model.predict_one(x) == value % 3)
        model.learn_one(x, value % 3)
    assert np.mean(hits[400:]) > 0.9
    assert model.feature_importances() == {"a": pytest.approx(1.0)}


@pytest.mark.parametrize("bound", [2**18, 3 * 2**20])
@pytest.mark.parametrize("n_labels", [0, 2, 4])
def test_it_keeps_within_its_bytes(n_labels, bound):
    X, y = square(2000, n_labels)
    X = np.hstack([X, np.random.default_rng(1).normal(size=(len(X), 37))])
    model = alone(n_labels, max_bytes=bound)
    for i, (x, target) in enumerate(zip(X, y, strict=True)):
        model.learn_many(x[None], [target])
        assert model._core.learned_bytes <= bound
        if i % 400 == 0:
            model._core.check_state(model.snapshot())
            other = pickle.loads(pickle.dumps(model))
            assert other._core.learned_bytes == model._core.learned_bytes
            model = other
    # far fewer rows than the window is for, and maybe no room to grow from them
    assert part_of(model)["window"]["capacity"] < (400 if bound == 2**18 else 4000)
    assert bound == 2**18 or n_trees(model) == N_TREES
