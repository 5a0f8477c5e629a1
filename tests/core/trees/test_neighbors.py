"""What nearest neighbours promise: columns that count, the same state on every way, whatever comes.
"""

import copy
import pickle
import sys

import numpy as np
import pytest
from reference.extratree import name_hash
from support.neighbors import alone, member_said, numbers_alone
from support.snapshots import assert_refused, changed, last_of, part_of
from support.streams import as_dicts, prequential
from support.streams import learned_rows as learned

import streamtree
from streamtree import ForestClassifier, ForestRegressor
from streamtree._core.stream.features import Category
from streamtree._core.trees.neighbors.rows import NOTED

MAKERS = pytest.mark.parametrize("make", [alone, numbers_alone])
SHORT = 2**18


def board(n, n_others=0, seed=0):
    """Fields of a chess board, and columns that tell nothing."""
    X = np.random.default_rng(seed).uniform(size=(n, 2 + n_others))
    return X, ((4 * X[:, :2]).astype(int).sum(axis=1) % 2).tolist()


def spirals(n, seed=0):
    """Two of them, that turn around each other."""
    rng = np.random.default_rng(seed)
    y, turn = rng.integers(2, size=n), np.pi * rng.uniform(0.5, 3.0, size=n)
    arm = np.where(y == 1, turn, -turn)
    X = np.column_stack([arm * np.cos(turn), arm * np.sin(turn)])
    return X + 0.1 * rng.normal(size=X.shape), y.tolist()


def smooth(X):
    return np.sin(3 * X[:, 0]) + X[:, 1] ** 2


def odd_rows(n, seed=0):
    """Numbers, categories, gaps, columns that come late or go early, and labels that come later."""
    rng = np.random.default_rng(seed)
    for i in range(n):
        x = {"a": rng.normal(), "b": rng.normal(), "kind": f"k{rng.integers(4)}"}
        if i % 5 == 4:
            del x[("a", "b", "kind")[i % 3]]
        if i < 18:
            x |= {f"early {j}": rng.normal() for j in range(6)}
        if i > 90:
            x["late"] = float(rng.integers(4))
        if i % 50 == 7:
            x |= {"gap": None, "b": float("nan")}
        yield x, int(rng.integers(2 + i // 60))


def wide_rows(n, seed=0):
    """As many columns that a small forest has no room for many rows."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 60))
    return X, (X[:, 0] > 0).astype(int).tolist()


def wide_names(n, seed=0):
    """So many columns, some of them of whole numbers."""
    X, y = wide_rows(n, seed)
    X[:, 1:12] = np.rint(100 * X[:, 1:12])
    return X, y


def keys(n, n_keys=300, seed=0):
    """Keys by number, whose label stays with probability .9, beside a column that tells nothing."""
    rng = np.random.default_rng(seed)
    found, y, last = rng.integers(n_keys, size=n).tolist(), [], {}
    for key in found:
        if key not in last or rng.random() > 0.9:
            last[key] = int(rng.integers(2))
        y.append(last[key])
    numbers = rng.integers(1_000_000, size=n_keys)
    return np.column_stack([rng.normal(size=n), numbers[found]]), y


def odd_names(n, seed=0):
    """Whole numbers, gaps, zeros of both signs, names that have fractions at last or come late."""
    rng = np.random.default_rng(seed)
    for i in range(n):
        x = {"a": rng.normal(), "key": float(rng.integers(1, 60)), "kind": f"k{rng.integers(4)}"}
        x |= {"signed": rng.integers(-40, 40) * float(rng.choice([-1, 1]))}
        x |= {"size": rng.integers(80) + 0.5 * (i in (150, 400))}
        label = int(x["key"] % 3 > 0)
        if i % 5 == 4:
            del x[("a", "key", "kind", "size")[i % 4]]
        if i > 90:
            x["late"] = float(rng.integers(400))
        if i % 50 == 7:
            x |= {"key": None, "signed": float("nan")}
        yield x, label


def right(model, X, y):
    """Which rows it is right of, each predicted before it is learned."""
    return np.array(model.test_then_learn_many(X, y)) == np.array(y)


def fields_of(model):
    """The columns that rows are compared by, and whether they are names."""
    names = model.snapshot()["features"]
    return [(names[c], bool(exact)) for c, exact in part_of(model)["rows"]["fields"].tolist()]


def names_of(model):
    return [name for name, is_exact in fields_of(model) if is_exact]


def scales_of(model):
    """Logarithms: of all weights together, of age, of doubt, and by the name of a column."""
    state = part_of(model)
    names = [(name, "name") if is_exact else name for name, is_exact in fields_of(model)]
    logs = state["scales"][:, 0].tolist()
    return dict(zip(["common", "age", "doubt", *names], logs, strict=True))


def n_rows_of(model):
    return len(part_of(model)["rows"]["targets"])


# ------------------------------------------------------------------------------ what is learned


@pytest.mark.parametrize("rows_of", [board, spirals])
def test_what_near_rows_have_in_common_is_learned(rows_of):
    X, y = rows_of(2500)
    assert right(alone(), X, y)[1000:].mean() > 0.93


def test_columns_that_tell_nothing_come_to_weigh_next_to_nothing():
    X, y = board(3000, n_others=6)
    model = alone()
    assert right(model, X, y)[1500:].mean() > 0.9
    scales = scales_of(model)
    others = [scales[j] for j in range(2, 8)]
    assert min(scales[0], scales[1]) > max(others) + 3.0
    importances = model.feature_importances()
    assert sum(importances.values()) == pytest.approx(1.0)
    assert set(list(importances)[:2]) == {0, 1}
    assert importances[0] + importances[1] > 0.9


def test_a_rule_that_changes_is_followed():
    X = np.random.default_rng(0).normal(size=(3000, 3))
    rule = (X[:, 0] > 0).astype(int)
    turned = rule ^ np.arange(len(X)) // 300 % 2
    steady, model = alone(), alone()
    steady.learn_many(X, rule)
    is_right = right(model, X, turned.tolist())
    # of three hundred rows after a change the last ones
    assert is_right.reshape(10, 300)[5:, 100:].mean() > 0.9
    assert scales_of(model)["age"] > scales_of(steady)["age"] + 2.0


def test_categories_are_the_same_or_not():
    rng = np.random.default_rng(0)
    rows = [
        {"kind": f"k{i}", "shape": f"s{j}", "other": f"o{k}"}
        for i, j, k in rng.integers(6, size=(1500, 3)).tolist()
    ]
    y = [(int(x["kind"][1]) * 2 + int(x["shape"][1])) % 3 for x in rows]
    model = alone()
    is_right = np.equal(prequential(model, rows, y), y)
    assert is_right[1000:].sum() > 450
    # a category that is new is as far from all others
    assert np.isfinite(member_said(model, {"kind": "new", "shape": "s1"})).all()
    assert sum(model.feature_importances().values()) == pytest.approx(1.0)


def learned_keys(change=lambda X: as_dicts(X, ["other", "key"])):
    """A model, and how often it was right of the last rows, whose columns are changed."""
    X, y = keys(3000)
    model = alone()
    is_right = np.equal(prequential(model, change(X), y), y)
    return model, is_right[1500:].mean()


def as_strings(X):
    return [{"other": other, "key": f"k{key:.0f}"} for other, key in X.tolist()]


def with_fractions(X):
    """The same order of keys, but for a single one."""
    return [{"other": x[0], "key": x[1] + 0.5 * (i == 20)} for i, x in enumerate(X.tolist())]


def test_whole_numbers_that_name_something_are_as_good_as_strings():
    model, accuracy = learned_keys()
    assert names_of(model) == ["key"]
    strings, wanted = learned_keys(as_strings)
    assert names_of(strings) == []
    assert wanted > 0.92
    assert accuracy > wanted - 0.01
    # as numbers, keys tell next to nothing
    numbers, accuracy = learned_keys(with_fractions)
    assert names_of(numbers) == []
    assert accuracy < 0.7
    # the first field of a column, and the second one
    scales = scales_of(model)
    assert scales["key", "name"] > scales["key"] + 1.0
    assert list(model.feature_importances()) == ["key", "other"]
    assert model.feature_importances()["key"] > 0.9


def test_of_numbers_names_tell_as_much():
    X, _ = keys(2500)
    mean = dict(zip(np.unique(X[:, 1]), np.random.default_rng(1).normal(size=300), strict=True))
    y, errors = np.array([mean[key] for key in X[:, 1]]), []
    for change in (0.0, 0.5):
        X[20, 1] += change
        said = np.array(numbers_alone().test_then_learn_many(X, y))
        errors.append(np.mean((said - y)[1500:] ** 2))
    assert errors[0] < 0.1 * errors[1]


def test_names_that_lie_side_by_side_are_told_apart():
    """Of numbers in single precision the last bit counts, and where they begin does not."""
    rng = np.random.default_rng(0)
    for first in (0, 2**23, 10**12, -10_000_000):
        model, n_right = alone(), 0
        for i in range(1500):
            # what lies far from zero, and close together, is told from where it began
            key = int(rng.integers(200)) + 4_000_000 * int(rng.integers(2)) * (first == 2**23)
            x = {"key": float(first + key)}
            n_right += i >= 1000 and model.predict_one(x) == key % 2
            model.learn_one(x, key % 2)
        assert names_of(model) == ["key"]
        assert n_right > 450


def test_columns_with_a_fraction_name_nothing():
    rng, model = np.random.default_rng(0), alone()
    names = []
    for i in range(600):
        x = {name: float(rng.integers(100)) for name in ("always", "once", "late")}
        x["once"] += 0.25 * (i == 18)
        x["late"] -= 0.5 * (i == 300)
        x["some"] = x["always"] + 0.5 * rng.integers(2)
        model.learn_one(x, i % 2)
        names.append(set(names_of(model)))
    assert names[255] == {"always", "late"}
    # until it is looked again which columns there are
    assert names[510] == {"always", "late"}
    assert names[511] == {"always"}
    assert len(part_of(model)["rows"]["fields"]) == 5


def test_few_values_at_a_time_name_nothing():
    rng, models = np.random.default_rng(0), [alone() for _ in range(3)]
    for i in range(1500):
        # of thirty values, and of more that come one after another; and a value more
        values = [rng.integers(30), i // 10 % 60, rng.integers(90)]
        for model, value in zip(models, values, strict=True):
            model.learn_one({"key": float(value), "other": rng.normal()}, i % 2)
    assert [names_of(model) for model in models] == [[], [], ["key"]]


def test_eight_columns_may_be_names_whatever_their_order():
    rng, found = np.random.default_rng(0), []
    X = rng.integers(1000, size=(300, 12)).astype(float)
    y = (X[:, 0] % 2).tolist()
    for order in (1, -1):
        model = learned(alone(), as_dicts(X[:, ::order], [f"c{j}" for j in range(12)][::order]), y)
        found.append(fields_of(model))
    assert found[0] == found[1]
    # the first ones of all, in the same order
    assert [name for name, _ in found[0][12:]] == [name for name, _ in found[0][:8]]
    assert [is_exact for _, is_exact in found[0]] == 12 * [False] + 8 * [True]


@pytest.mark.filterwarnings("ignore:.* features have come")
def test_where_there_is_room_for_few_fields_there_are_fewer_names():
    rng, model = np.random.default_rng(0), alone()
    for i, x in enumerate(as_dicts(rng.integers(1000, size=(64, 1022)).astype(float))):
        model.learn_one(x, i % 2)
    assert len(fields_of(model)) == 1024
    assert names_of(model) == [name for name, _ in fields_of(model)[:2]]
    model._core.check_state(model.snapshot())


def test_before_there_are_columns_nothing_is_told_apart():
    rng, model, means = np.random.default_rng(0), alone(), numbers_alone()
    for i in range(15):
        model.learn_one({"a": rng.normal()}, i % 5 > 0)
        means.learn_one({"a": rng.normal()}, 3.0 + i % 5)
    assert member_said(model, {"a": 1.0}).tolist() == [0.5, 0.5]
    assert member_said(means, {"a": 1.0})[0] == pytest.approx(5.0)
    assert model.contributions_one({"a": 1.0}, True)["features"] == {}


def test_words_that_are_rare_are_no_columns():
    rng, model, means = np.random.default_rng(0), alone(), numbers_alone()
    for i in range(600):
        x = {f"word {j}": 1.0 for j in rng.integers(500, size=5)}
        model.learn_one(x, int(i % 5 > 0))
        means.learn_one(x, float(i % 5))
    for each in (model, means):
        assert part_of(each)["rows"]["cells"].shape == (0, 0)
        assert each._core.learned_bytes == 0
    assert member_said(model, x).tolist() == [0.5, 0.5]
    assert member_said(means, x)[0] == pytest.approx(2.0)


def test_a_label_that_comes_late_is_known_at_once():
    rng, model = np.random.default_rng(0), alone()
    for i in range(400):
        model.learn_one({"a": rng.normal(), "b": rng.normal()}, i % 2)
    for _ in range(5):
        model.learn_one({"a": 4.0 + 0.1 * rng.normal(), "b": 4.0}, "late")
    assert model.predict_one({"a": 4.0, "b": 4.0}) == "late"
    assert model.predict_one({"a": 0.0, "b": 0.0}) != "late"


def test_smooth_functions_are_kriged_and_noise_is_not():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(2500, 2))
    shares, trusts = [], []
    for y in (smooth(X), rng.normal(size=len(X))):
        model = numbers_alone()
        said = np.array(model.test_then_learn_many(X, y))
        shares.append(np.mean((said - y)[1000:] ** 2) / np.var(y))
        product, spread = part_of(model)["worth"]
        trusts.append(np.clip((product + 0.0005) / (spread + 0.001), 0, 1))
    assert shares[0] < 0.005
    assert shares[1] < 1.1
    assert trusts[0] > 0.8
    assert trusts[1] < 0.2


def test_kriging_is_better_than_the_mean():
    """Where a state says that it is worth nothing, the mean of the nearest rows is said."""
    X = np.random.default_rng(0).uniform(-1, 1, size=(1200, 2))
    y, errors = smooth(X), []
    model = numbers_alone()
    model.learn_many(X[:1000], y[:1000])
    for worth in (None, [-1.0, 1.0]):
        state, other = copy.deepcopy(model.snapshot()), model.clone()
        if worth:
            state["tree"]["members"]["0"]["worth"][:] = worth
        other._core.restore(state)
        said = np.array([member_said(other, x)[0] for x in as_dicts(X[1000:])])
        errors.append(np.mean((said - y[1000:]) ** 2))
    assert errors[0] < 0.6 * errors[1]


# ------------------------------------------------------------------------------- weights, values


@MAKERS
def test_rows_of_hardly_any_weight_say_hardly_anything(make):
    rng = np.random.default_rng(0)
    rows = as_dicts(rng.normal(size=(400, 2)))
    y = [0, 1] * 200
    model = learned(make(), rows, y, [1.0, 1e-300] * 200)
    state = part_of(model)["rows"]
    assert set(np.unique(state["weights"])) == {np.float32(1e-6), np.float32(1.0)}
    said = np.array([member_said(model, x)[-1] for x in rows[200:]])
    # labels count in all rows, whatever their weight
    assert np.abs(said).max() < 0.4
    assert np.abs(said).mean() < 0.05


def test_rows_of_large_weights_count_as_ten():
    X, y = board(300)
    rows = as_dicts(X)
    parts = [
        part_of(learned(alone(), rows, y, [1.0, large] * 150)) for large in (10.0, 11.0, 1e100)
    ]
    assert pickle.dumps(parts[0]) == pickle.dumps(parts[1]) == pickle.dumps(parts[2])


@MAKERS
def test_values_at_the_bounds(make):
    rng = np.random.default_rng(0)
    model = make()
    values = [1e300, -1e300, 1e-300, 5e-324, 0.0, 5.0, 1.7e308, None, float("nan")]
    for _ in range(400):
        x = {name: values[rng.integers(len(values))] for name in "abc"}
        weight = (1e-300, 1e-10, 1.0, 1e10, 1e100)[rng.integers(5)]
        model.learn_one(x, int(rng.integers(2)), w=weight)
        assert np.isfinite(member_said(model, x)).all()
    model._core.check_state(model.snapshot())
    assert n_rows_of(model) > 300
    before = pickle.dumps(model)
    with pytest.raises(ValueError, match="'a'"):
        model.learn_one({"a": float("inf")}, 1)
    assert pickle.dumps(model) == before


def test_targets_at_the_bounds():
    rng = np.random.default_rng(0)
    for largest in (1e100, 1e-300):
        model = numbers_alone()
        for _ in range(300):
            x = {"a": rng.normal(), "b": rng.normal()}
            model.learn_one(x, largest * rng.choice([-1.0, 0.0, 0.3, 1.0]))
            assert abs(model.predict_one(x)) <= 10 * largest
        model._core.check_state(model.snapshot())


# -------------------------------------------------------------------------------- the same bits


@MAKERS
@pytest.mark.parametrize("rows_of", [odd_rows, odd_names])
def test_the_order_of_names_and_of_their_coming_does_not_matter(make, rows_of):
    rows, y = zip(*rows_of(350), strict=True)
    models = [make(), make()]
    for x, target in zip(rows, y, strict=True):
        for model, row in zip(models, (x, dict(reversed(x.items()))), strict=True):
            model.learn_one(row, target)
    assert models[0].snapshot()["features"] != models[1].snapshot()["features"]
    for x in rows[:50]:
        assert member_said(models[0], x).tolist() == member_said(models[1], x).tolist()


def test_columns_whose_names_have_the_same_hash_are_told_apart():
    rng, names, models = np.random.default_rng(0), ("x179599", "x362382"), (alone(), alone())
    assert name_hash(names[0]) == name_hash(names[1])
    for i in range(520):
        x = dict(zip([*names, "late"], rng.normal(size=3).tolist(), strict=True))
        if i < 250:
            del x["late"]
        for model, row in zip(models, (x, dict(reversed(x.items()))), strict=True):
            model.learn_one(row, int(x[names[0]] > 0))
    asked = {names[0]: 1.0, names[1]: -1.0}
    for model in models:
        cells = part_of(model)["rows"]["cells"]
        assert cells.shape[1] == 3
        assert (cells[:, 0] != cells[:, 1]).all()
        assert member_said(model, asked)[model.labels.index(1)] > 0.9


@MAKERS
@pytest.mark.parametrize("rows_of", [board, keys, wide_rows])
def test_every_way_to_learn_gives_the_same_bytes(make, rows_of):
    X, y = rows_of(700)
    X[::7, 1] = np.nan
    settings = {"max_bytes": SHORT} if rows_of is wide_rows else {}
    one = learned(make(**settings), as_dicts(X), y)
    files = {pickle.dumps(one)}
    for size, n_jobs in ((1, 1), (133, 1), (700, 1), (133, 2), (700, 2)):
        model = make(**settings)
        model.n_jobs = n_jobs
        for first in range(0, len(y), size):
            model.learn_many(X[first : first + size], y[first : first + size])
        files.add(pickle.dumps(model))
    asked = make(**settings)
    for i, (x, target) in enumerate(zip(as_dicts(X), y, strict=True)):
        asked.predict_one(x if i % 3 else {0: 0.5})
        asked.learn_one(x, target)
    files.add(pickle.dumps(asked))
    assert len(files) == 1
    said = make(**settings)
    said.test_then_learn_many(X, y)
    assert pickle.dumps(part_of(said)) == pickle.dumps(part_of(one))
    one.n_jobs = 2
    singly = [one.predict_one(x) for x in as_dicts(X[:200])]
    assert np.asarray(one.predict_many(X[:200])).tolist() == singly


@pytest.mark.slow
@MAKERS
def test_a_copy_of_any_row_goes_on(make):
    model, whole = make(), make()
    for x, y in odd_rows(530):
        for each in (model, whole):
            each.learn_one(x, y)
        model._core.check_state(model.snapshot())
        model = pickle.loads(pickle.dumps(model))
        assert member_said(model, x).tolist() == member_said(whole, x).tolist()
        assert model._core.learned_bytes == whole._core.learned_bytes
    assert pickle.dumps(model) == pickle.dumps(whole)
    # some columns are no longer there
    assert len(part_of(model)["rows"]["fields"]) == 4


@pytest.mark.slow
@MAKERS
def test_a_copy_with_names_of_any_row_goes_on(make, tmp_path):
    model, whole, names = make(), make(), []
    for i, (x, y) in enumerate(odd_names(530)):
        for each in (model, whole):
            each.learn_one(x, y)
        model._core.check_state(model.snapshot())
        if i % 40 == 39:
            model.save(tmp_path / "model")
            model = streamtree.load(tmp_path / "model")
        else:
            model = copy.deepcopy(model) if i % 4 == 0 else pickle.loads(pickle.dumps(model))
        assert member_said(model, x).tolist() == member_said(whole, x).tolist()
        assert model._core.learned_bytes == whole._core.learned_bytes
        names.append(sorted(names_of(model)))
    assert pickle.dumps(model) == pickle.dumps(whole)
    assert [] in names
    assert ["key", "signed", "size"] in names
    assert names[-1] == ["key", "late", "signed"]


@MAKERS
@pytest.mark.parametrize("rows_of", [wide_rows, wide_names])
def test_files_go_on_where_the_oldest_rows_have_gone(make, rows_of, tmp_path):
    X, y = rows_of(900)
    whole = make(max_bytes=SHORT)
    whole.learn_many(X[:600], y[:600])
    state = part_of(whole)["rows"]
    assert n_rows_of(whole) == state["capacity"] < 580
    assert 0 < state["next"] < state["capacity"]
    whole.save(tmp_path / "model")
    model = streamtree.load(tmp_path / "model")
    assert model._core.learned_bytes == whole._core.learned_bytes
    for each in (model, whole):
        # another bound, and other columns
        each.learn_many(X[600:650], y[600:650])
        each.max_bytes = 2 * SHORT
        for x, target in zip(as_dicts(X[650:]), y[650:], strict=True):
            each.learn_one({**x, "late": x[1]}, target)
    assert "late" in scales_of(model)
    assert len(names_of(model)) == (8 if rows_of is wide_names else 0)
    assert pickle.dumps(model) == pickle.dumps(whole)


@MAKERS
def test_where_no_column_is_left_rows_are_forgotten(make):
    model, rng = make(), np.random.default_rng(0)
    for i in range(511):
        model.learn_one({"a": rng.normal()} if i < 20 else {}, i % 2)
    assert n_rows_of(model) == 495
    model.learn_one({}, 1)
    assert n_rows_of(model) == 0
    assert model._core.learned_bytes == 0
    model._core.check_state(model.snapshot())
    other = pickle.loads(pickle.dumps(model))
    for i in range(300):
        for each in (model, other):
            each.learn_one({"b": float(i % 7)}, i % 2)
    assert pickle.dumps(other) == pickle.dumps(model)
    assert n_rows_of(other) == 44


@pytest.mark.filterwarnings("ignore:y has had")
def test_a_copy_takes_the_same_bytes_where_rows_of_labels_have_gone():
    X, _ = wide_rows(1000)
    model = alone(max_bytes=SHORT)
    for i, x in enumerate(as_dicts(X)):
        model.learn_one(x, i // 3 if i < 180 else i % 2)
    assert len(model.labels) == 60
    assert set(part_of(model)["rows"]["targets"].tolist()) == {0, 1}
    other = pickle.loads(pickle.dumps(model))
    assert other._core.learned_bytes == model._core.learned_bytes


# ------------------------------------------------------------------------------- explanations


@MAKERS
@pytest.mark.parametrize("rows_of", [odd_rows, odd_names])
def test_contributions_sum_to_the_prediction(make, rows_of):
    model = make()
    for x, y in rows_of(300):
        model.learn_one(x, y)
    for x, y in rows_of(30, seed=1):
        made_of = model.contributions_one(x, *[y] * (make is alone))
        said = model.predict_proba_one(x)[y] if make is alone else model.predict_one(x)
        assert made_of["score"] == pytest.approx(said, abs=1e-9)
        parts = made_of["bias"] + sum(made_of["features"].values())
        assert parts == pytest.approx(said, abs=1e-9)


def test_columns_that_tell_nothing_contribute_next_to_nothing():
    X, y = board(2000, n_others=2)
    model = numbers_alone()
    model.learn_many(X, 10.0 * np.array(y))
    sizes = np.zeros(4)
    for x in as_dicts(X[:50]):
        for column, part in model.contributions_one(x)["features"].items():
            sizes[column] += abs(part)
    assert sizes[:2].min() > 20 * sizes[2:].max()


# ---------------------------------------------------------------------------------- memory, rest


@MAKERS
@pytest.mark.parametrize(("rows_of", "n_fields"), [(wide_rows, 60), (wide_names, 68)])
def test_it_keeps_within_its_bytes(make, rows_of, n_fields):
    X, _ = rows_of(600)
    model = make(max_bytes=SHORT)
    for i in range(0, len(X), 5):
        model.learn_many(X[i : i + 5], [0, 1, 0, 1, 1])
        assert model._core.learned_bytes <= model._core.n_bytes <= SHORT
        assert sys.getsizeof(model) < 1.05 * SHORT
    assert part_of(model)["rows"]["cells"].shape[1] == n_fields
    assert n_rows_of(model) < 580


@pytest.mark.filterwarnings("ignore:.* features have come")
def test_of_more_columns_than_there_is_room_for_some_are_looked_at():
    rng, chosen = np.random.default_rng(0), []
    names = [f"column {j}" for j in range(1100)]
    X = rng.normal(size=(20, 1100))
    for order in (1, -1):
        model = alone()
        for x, target in zip(as_dicts(X[:, ::order], names[::order]), [0, 1] * 10, strict=True):
            model.learn_one(x, target)
        chosen.append(fields_of(model))
        assert len(chosen[-1]) == 1024
        model._core.check_state(model.snapshot())
    assert chosen[0] == chosen[1]


@MAKERS
def test_more_bytes_are_for_more_rows_and_less_for_fewer(make):
    X, y = wide_rows(1800)
    model, sizes = make(max_bytes=SHORT), []
    for i, bytes in enumerate((SHORT, 4 * SHORT, SHORT)):
        model.max_bytes = bytes
        model.learn_many(X[600 * i : 600 * (i + 1)], y[600 * i : 600 * (i + 1)])
        sizes.append(n_rows_of(model))
        assert sys.getsizeof(model) < 1.05 * bytes
    assert sizes[0] == sizes[2] < 580
    # all that came since
    assert sizes[1] == sizes[0] + 600
    # those that are left are the last ones
    state = part_of(model)["rows"]
    order = np.argsort((np.arange(sizes[2]) - state["next"]) % sizes[2], kind="stable")
    first = [name for name, _ in fields_of(model)].index(0)
    last = state["cells"][order, first].view(np.float32)
    # scales have changed a little since
    assert np.abs(last - X[-sizes[2] :, 0]).max() < 0.3
    assert np.corrcoef(last, X[-sizes[2] :, 0])[0, 1] > 0.999


def test_it_rests_where_it_is_of_no_use():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2300, 100))
    y = (X @ rng.normal(size=100) > 0).astype(int)
    forest = ForestClassifier(members=("model", "soft", "neighbors"))
    forest.learn_many(X, y)
    assert forest.member_weights["neighbors"] == 0
    assert 2000 <= forest.snapshot()["tree"]["members"]["2"]["seen"] < 2100
    other = pickle.loads(pickle.dumps(forest))
    assert other._core.learned_bytes == forest._core.learned_bytes
    for each in (forest, other):
        each.learn_many(X[:100], y[:100])
    assert pickle.dumps(other) == pickle.dumps(forest)


@pytest.mark.parametrize("make", [ForestClassifier, ForestRegressor])
def test_it_goes_along_with_others_that_know_nothing_at_first(make):
    forest = make(members=("contexts", "neighbors"))
    X, y = board(1500)
    said = np.array(forest.test_then_learn_many(X, y)[500:], dtype=float)
    assert np.mean((said > 0.5) == np.array(y[500:])) > 0.85
    forest._core.check_state(forest.snapshot())


# ------------------------------------------------------------------------------- damaged states


def bits(value):
    return int(np.float32(value).view(np.int32))


DAMAGES = [
    *[changed("rows", "fields", value, (0, 0)) for value in (-1, 10**6)],
    *[changed("rows", "fields", value, (0, 1)) for value in (-1, 2, 2**31 - 1)],
    changed("rows", "fields", np.arange(3, dtype=np.int32)),
    *[
        changed("rows", "fields", np.zeros(shape, dtype))
        for shape, dtype in (
            ((2, 2), np.int32), ((3, 1), np.int32), ((3, 3), np.int32), ((3, 2), np.int64),
            ((3, 2), np.int8), ((3, 2), np.float32),
        )
    ],
    *[
        changed("rows", "values", value, 0, flag)
        for flag in ("has_many", "has_fractions") for value in (-1, 2, 256)
    ],
    *[changed("rows", "values", value, 0, "n_rows") for value in (-1, 0, 256, 2**31 - 1)],
    *[changed("rows", "values", value, 0, "n_bits") for value in (-1, 2, 257)],
    *[changed("rows", "values", np.zeros(n, NOTED)) for n in (0, 2, 4, (3, 1))],
    *[
        changed("rows", "values", np.zeros(3, dtype))
        for dtype in (np.int32, NOTED.descr[:-1], NOTED.descr[::-1], NOTED.newbyteorder())
    ],
    *[
        changed("rows", "bits", np.zeros(shape, dtype))
        for shape, dtype in (
            ((2, 4), np.uint64), ((4, 4), np.uint64), ((3, 3), np.uint64), (12, np.uint64),
            ((3, 4), np.int64), ((3, 4), np.float64),
        )
    ],
    *[changed("rows", "cells", np.zeros(shape, np.int32)) for shape in ((234, 2), (235, 3))],
    *[changed("rows", "weights", value, 0) for value in (0.0, 1e-7, 10.5, np.nan, np.inf)],
    changed("rows", "weights", np.ones(233, np.float32)),
    *[changed("rows", "targets", value, 0) for value in (-1, 2)],
    changed("rows", "targets", np.zeros(235, np.int32)),
    *[
        changed("rows", "capacity", value)
        for value in (-32, 0, 224, 250, 480, 8192, 2**20, 2**40, 256.0)
    ],
    *[changed("rows", "next", value) for value in (-1, 0, 235, 2**40, 234.0)],
    *[changed("rows", "n_counted", value) for value in (-1, 0, 3, 2.0)],
    *[changed(None, "scales", value, (0, 0)) for value in (8.1, -8.1, np.nan, np.inf)],
    *[changed(None, "scales", value, (3, 1)) for value in (-1.0, np.nan, np.inf)],
    *[changed(None, "scales", np.zeros(shape)) for shape in ((3, 2), (7, 2), (6, 3))],
    *[changed(None, "seen", value) for value in (-1, 2**63, 1.0)],
]


@pytest.fixture(scope="module")
def model_of_two():
    X, y = board(250, n_others=1)
    model = learned(alone(), as_dicts(X), y)
    state = part_of(model)["rows"]
    assert (state["capacity"], state["next"], state["cells"].shape) == (256, 234, (234, 3))
    # each of their columns had a fraction at once
    assert set(state["values"]["n_rows"]) == set(state["values"]["n_bits"]) == {1}
    return model


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_states_are_refused(model_of_two, damage):
    assert_refused(model_of_two, damage)


def test_where_there_are_no_labels_no_row_has_one(model_of_two):
    def damage(state):
        state["labels"], state["labels_came_again"] = [], state["labels_came_again"][:0]
        changed("rows", "targets", -5, slice(None))(state)

    assert_refused(model_of_two, damage)


def test_damaged_states_with_no_place_left_are_refused():
    X, y = board(272)
    model = learned(alone(), as_dicts(X), y)
    assert n_rows_of(model) == part_of(model)["rows"]["capacity"] == 256
    for value in (-1, 256, 10**6):
        assert_refused(model, changed("rows", "next", value))


@pytest.fixture(scope="module")
def model_of_names():
    X, y = board(250, n_others=1)
    model = learned(alone(), as_dicts(np.floor(1000 * X)), y)
    assert sorted(names_of(model)) == [0, 1, 2]
    return model


@pytest.mark.parametrize("damage", [
    *[changed("rows", "fields", value, (5, 1)) for value in (-1, 2)],
    *[changed("rows", "fields", value, (5, 0)) for value in (-1, 3)],
    *[changed("rows", "values", value, 0, "n_bits") for value in (-1, 256)],
    changed("rows", "values", 1, 5, "n_bits"),
    changed("rows", "values", -1, 5, "n_rows"),
    changed("rows", "values", np.zeros(3, NOTED)),
    changed("rows", "bits", np.zeros((3, 4), np.uint64)),
    changed("rows", "cells", np.zeros((234, 3), np.int32)),
    changed(None, "scales", np.zeros((6, 2))),
])
def test_damaged_states_of_names_are_refused(model_of_names, damage):
    assert_refused(model_of_names, damage)


@pytest.fixture(scope="module")
def model_of_numbers():
    X, y = board(250, n_others=1)
    return learned(numbers_alone(), as_dicts(X), X[:, 0] + np.array(y))


@pytest.mark.parametrize("damage", [
    *[changed("rows", "targets", value, 0) for value in (np.nan, np.inf, 2e101, -2e101)],
    changed("rows", "targets", np.zeros(233)),
    changed("rows", "n_counted", 1),
    *[changed(None, "worth", value, 0) for value in (9.5, -9.5, np.nan, np.inf)],
    *[changed(None, "worth", value, 1) for value in (-0.1, 9.5, np.nan)],
    *[changed(None, "worth", np.zeros(n)) for n in (1, 3)],
    *[changed("targets", "squares", value) for value in (-1.0, np.nan, 1e290)],
    *[changed("targets", "weight", value) for value in (-1.0, np.nan, 5e-324)],
    *[changed("targets", "mean", value) for value in (np.inf, 1e102)],
])
def test_damaged_states_of_numbers_are_refused(model_of_numbers, damage):
    assert_refused(model_of_numbers, damage)


def cells_that_are_no_numbers(state):
    rows = state["tree"]["members"]["0"]["rows"]
    rows["cells"][::2], rows["cells"][1::2] = bits(np.nan), bits(-np.inf)


def reversed_fields(state):
    rows = state["tree"]["members"]["0"]["rows"]
    rows["fields"][:] = rows["fields"][::-1].copy()
    rows["values"][:] = rows["values"][::-1].copy()


def values_are(bits=0, **entries):
    """Say something of the values of all columns."""
    def damage(state):
        rows = state["tree"]["members"]["0"]["rows"]
        rows["bits"][:] = bits
        for name, value in entries.items():
            rows["values"][name] = value
    return damage


FORGED = [
    cells_that_are_no_numbers,
    reversed_fields,
    changed("rows", "fields", 0, slice(None)),
    # names alone, or of a column twice; numbers that were names
    changed("rows", "fields", 1, (slice(None), 1)),
    changed("rows", "fields", [[0, 1], [0, 1]], slice(2)),
    changed("rows", "fields", 0, (slice(None), 1)),
    values_are(has_many=1, has_fractions=0),
    values_are(has_fractions=0, n_rows=255, n_bits=255, bits=2**64 - 1),
    values_are(has_many=1, has_fractions=1, n_rows=255, n_bits=0, bits=2**64 - 1),
    changed("rows", "cells", bits(5.0), slice(None)),
    changed("rows", "weights", 1e-6, slice(None)),
    changed("rows", "weights", 10.0, slice(None)),
    changed(None, "scales", 8.0, (slice(None), 0)),
    changed(None, "scales", -8.0, (slice(None), 0)),
    changed(None, "scales", 1e300, (slice(None), 1)),
    changed(None, "seen", 2**40 - 1),
]


def goes_on(model, damage):
    """It learns from a damaged state, and what it says is finite."""
    state, model = copy.deepcopy(model.snapshot()), model.clone()
    damage(state)
    model._core.check_state(state)
    model._core.restore(state)
    X, y = board(300, n_others=1, seed=1)
    for i, x in enumerate(as_dicts(X)):
        assert np.isfinite(member_said(model, x)).all()
        model.learn_one(x, y[i])
    args = [1] * isinstance(model, ForestClassifier)
    assert names_of(model) == []
    parts = model.contributions_one(x, *args)["features"]
    assert np.isfinite(list(parts.values())).all()
    assert np.isfinite(list(model.feature_importances().values())).all()
    model._core.check_state(model.snapshot())


@pytest.mark.parametrize("damage", FORGED)
def test_what_is_accepted_goes_on(model_of_two, model_of_numbers, model_of_names, damage):
    """What a file may say, though no model would."""
    goes_on(model_of_two, damage)
    goes_on(model_of_numbers, damage)
    goes_on(model_of_names, damage)


@MAKERS
def test_of_a_feature_with_categories_there_is_one_field_whatever_a_state_says(make):
    model = make()
    for x, y in odd_names(300):
        model.learn_one(x, y)
    state, other = copy.deepcopy(model.snapshot()), model.clone()
    is_category = [isinstance(name, Category) for name, _ in fields_of(model)]
    assert sum(is_category) == 1
    last_of(state)["rows"]["fields"][is_category, 1] = 1
    other._core.check_state(state)
    other._core.restore(state)
    for x, y in odd_names(300, seed=1):
        assert member_said(other, x).tolist() == member_said(model, x).tolist()
        for each in (model, other):
            each.learn_one(x, y)


@pytest.mark.parametrize("damage", [
    changed("rows", "targets", 9e100, slice(None, None, 2)),
    changed("targets", "mean", -1e100),
    changed("targets", "weight", 0.0),
    changed(None, "worth", [9.0, 0.0]),
    changed(None, "worth", [-9.0, 9.0]),
])
def test_what_is_accepted_of_numbers_goes_on(model_of_numbers, damage):
    def as_arrays(state):
        damage(state)
        part = state["tree"]["members"]["0"]
        part["worth"] = np.array(part["worth"])

    goes_on(model_of_numbers, as_arrays)
