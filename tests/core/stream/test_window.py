"""The window of recent rows, as the snapshots of a tree that grows from it show it."""

import pickle
import sys
import time

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from support.isolated import run_isolated

from streamtree import ExtraTreeClassifier, ExtraTreeRegressor, ForestClassifier
from streamtree._core.store.checks import StateError
from streamtree._core.stream.features import Category


def window_of(model):
    return model.snapshot()["tree"]["window"]


def cells_of(model, name):
    """The values of a column in all rows of the window, the oldest first."""
    state = model.snapshot()
    window, column = state["tree"]["window"], state["features"].index(name)
    field = window["field_of"][column]
    is_number = window["columns"] >= 0
    if field < 0:
        rows = np.repeat(np.arange(len(window["labels"])), np.diff(window["starts"]))
        here = window["list_columns"] == column
        cells = np.zeros(len(window["labels"]), dtype=np.float32)
        cells[rows[here]] = window["list_values"][here]
        return cells
    if isinstance(name, Category):
        return window["codes"][(~is_number[:field]).sum()] == column
    return window["numbers"][is_number[:field].sum()]


def fields_of(model):
    """The names of the columns of numbers that are fields."""
    state = model.snapshot()
    columns = state["tree"]["window"]["columns"]
    return {state["features"][column] for column in columns[columns >= 0]}


def test_it_has_the_last_rows_and_a_quarter_more():
    model = ExtraTreeClassifier(window=100)
    for i in range(301):
        model.learn_one({"a": i + 1.0, "kind": "xy"[i % 2]}, i % 3, w=1.0 + i % 2)
    window = window_of(model)
    assert window["size"] == 301
    assert cells_of(model, "a").tolist() == [i + 1.0 for i in range(301 - 125, 301)]
    assert cells_of(model, Category("kind", "y")).tolist() == [i % 2 for i in range(176, 301)]
    assert window["labels"].tolist() == [i % 3 for i in range(176, 301)]
    assert window["weights"].tolist() == [1.0 + i % 2 for i in range(176, 301)]


def test_rows_go_when_the_bound_falls():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(6200, 8)), rng.integers(2, size=6200)
    model = ExtraTreeClassifier(max_bytes=None)
    model.learn_many(X[:6000], y[:6000])
    assert len(window_of(model)["labels"]) == 6000
    model.max_bytes = 300_000
    model.learn_many(X[6000:], y[6000:])
    window = window_of(model)
    n = len(window["labels"])
    # half of what the tree may take, at 44 bytes a row
    assert 2200 < n < 3200
    assert window["labels"].tolist() == y[-n:].tolist()
    assert np.array_equal(cells_of(model, 3), X[-n:, 3].astype(np.float32))
    copied = pickle.loads(pickle.dumps(model))
    for each in (model, copied):
        each.learn_many(X[:500], y[:500])
    assert pickle.dumps(copied) == pickle.dumps(model)


def test_what_came_before_a_column_is_missing_and_gaps_are_once_zeros_are_values():
    model = ExtraTreeClassifier()
    for i in range(60):
        x = {"a": 1.0 + i}
        if i >= 20 and i != 40:
            x["late"] = 5.0
        model.learn_one(x, i % 2)
    late = cells_of(model, "late")
    assert np.isnan(late[:20]).all()
    assert np.isnan(late[40])
    assert (np.delete(late[20:], 20) == 5.0).all()


def test_wide_sparse_rows_lie_in_lists():
    rng = np.random.default_rng(0)
    n, width = 1500, 3000
    X = sp.random_array((n, width), density=0.004, random_state=rng, format="csr")
    y = rng.integers(3, size=n)
    model, loop = ExtraTreeClassifier(window=200), ExtraTreeClassifier(window=200)
    model.learn_many(X, y)
    window = window_of(model)
    assert len(window["columns"]) <= 64
    # 12 values a row, not 3,000: fields would be 3 MB
    assert sys.getsizeof(model._core) < 1_500_000
    last = X[-1].tocoo()
    names = model._core.features.names
    for column, value in zip(last.coords[-1].tolist(), last.data.tolist(), strict=True):
        assert column in names
        assert cells_of(model, column)[-1] == np.float32(value)
    # in two parts, with a file in between
    loop.learn_many(X[:777], y[:777])
    loop._core.check_state(loop.snapshot())
    loop = pickle.loads(pickle.dumps(loop))
    loop.learn_many(X[777:], y[777:])
    assert loop.predict_proba_many(X[:100]).tolist() == model.predict_proba_many(X[:100]).tolist()


def test_a_column_that_most_rows_have_leaves_the_lists():
    rng = np.random.default_rng(0)
    model = ExtraTreeClassifier(window=200)
    for i in range(300):
        # seventy columns first, so that there are lists
        x = {f"word {j}": 1.0 for j in (range(70) if i == 0 else rng.integers(70, size=3))}
        if i >= 2:
            x["often"] = i + 0.5
        model.learn_one(x, i % 2)
    window, names = window_of(model), model._core.features.names
    # of the first row 64 became fields
    assert (window["field_of"] == -1).sum() == 6
    assert window["field_of"][names.index("often")] >= 0
    assert cells_of(model, "often")[-50:].tolist() == [i + 0.5 for i in range(250, 300)]


@pytest.mark.filterwarnings("ignore:.* ha(s|ve) (had|come)")
def test_a_column_that_comes_late_is_a_field_once_it_has_come_again():
    model = ExtraTreeRegressor()
    for i in range(400):
        x = {"a": 1.0 + i % 7, f"once {i}": 1.0}
        if i >= 50 and i % 40 == 0:
            x["seldom"] = 3.0
        if i in (100, 108, 116):
            x["for a while"] = 1.0
        model.learn_one(x, 1.0 * (i % 3))
        if i == 120:
            assert fields_of(model) == {"a", "once 0"}
    assert fields_of(model) == {"a", "once 0", "seldom"}
    seldom = [3.0 * (i >= 50 and i % 40 == 0) for i in range(400)]
    assert cells_of(model, "seldom").tolist() == seldom


def test_zeros_of_the_first_row_are_columns_in_any_order():
    x = {"zero": 0.0, "one": 1.0, "none": None, "other zero": 0.0}
    for row in (x, dict(reversed(x.items()))):
        model = ExtraTreeClassifier()
        model.learn_one(row, 0)
        assert fields_of(model) == {"zero", "one", "other zero"}
    model = ExtraTreeClassifier()
    model.learn_many(pd.DataFrame([x, {**x, "later": 1.0}])[["one", "zero", "other zero"]], [0, 1])
    assert fields_of(model) == {"zero", "one", "other zero"}


def test_values_that_came_before_a_column_was_a_field_stay_though_rows_do_not_count():
    # rows of labels that come once each are no rows of the window, but count for scales
    model = ExtraTreeClassifier(window=1000)
    with pytest.warns(UserWarning, match="different labels"):
        model.learn_many(pd.DataFrame({"a": np.ones(1100)}), [f"label {i}" for i in range(1100)])
    first = window_of(model)["size"]
    assert first < 1040
    for i in range(60):
        model.learn_one({"a": 1.0, **({"late": 2.0 + i} if i % 5 == 0 else {})}, "label 1")
    assert fields_of(model) == {"a", "late"}
    late = [2.0 + i if i % 5 == 0 else 0.0 for i in range(60)]
    assert cells_of(model, "late").tolist() == [0.0] * first + late


def test_which_late_columns_are_fields_does_not_depend_on_their_order():
    models = ExtraTreeClassifier(), ExtraTreeClassifier()
    for i in range(300):
        # in one of seven rows: they come again, but zeros are no values
        x = {f"late {j}": 1.0 + j for j in range(100)} if i > 10 and i % 7 == 0 else {}
        for model, late in zip(models, (x, dict(reversed(x.items()))), strict=True):
            model.learn_one({"a": 1.0 + i, **late}, i % 2)
    one, other = map(fields_of, models)
    assert len(one) == 64
    assert one == other


@pytest.mark.filterwarnings("ignore:.* ha(s|ve) (had|come)")
@pytest.mark.parametrize("kind", ["minutes", "columns", "strings"])
def test_what_comes_for_a_few_rows_takes_no_room_from_others(kind):
    """A name that three rows in turn have looks like a column of most rows when it is new."""
    rng = np.random.default_rng(0)
    model = ExtraTreeClassifier(max_bytes=1_000_000)
    for i, row in enumerate(rng.normal(size=(4000, 6)).tolist()):
        x = dict(zip("abcdef", row, strict=True))
        if kind == "columns":
            x[f"column {i}"] = 1.0
        else:
            x["s"] = f"minute {i // 3}" if kind == "minutes" else f"user {i}"
        model.learn_one(x, int(row[0] > 0))
    window = window_of(model)
    # all that is wide in a row is what every row has
    assert len(window["columns"]) == (6 if kind == "columns" else 7)
    assert window["capacity"] >= 4000


@pytest.mark.filterwarnings("ignore:.* ha(s|ve) (had|come)")
def test_a_feature_that_found_no_room_has_none_for_later_categories():
    """Or the window would say of some that they are missing, and a row to predict would not."""
    rng = np.random.default_rng(0)
    model = ExtraTreeClassifier(max_bytes=1_000_000)

    def learn(n, n_dense, n_kinds, *models):
        for _ in range(n):
            x = {f"w{i}": float(i + 1) for i in np.flatnonzero(rng.random(95) < 0.22).tolist()}
            x.update((f"n{i}", value) for i, value in enumerate(rng.normal(size=n_dense).tolist()))
            kind = int(rng.integers(n_kinds)) if n_kinds else 0
            if n_kinds:
                x["kind"] = f"k{kind}"
            for each in models:
                each.learn_one(x, kind % 2)

    learn(900, 0, 0, model)
    learn(300, 350, 0, model)
    learn(50, 350, 5, model)
    copy = pickle.loads(pickle.dumps(model))
    model.max_bytes = copy.max_bytes = 10**8
    learn(200, 350, 12, model, copy)
    kinds = [isinstance(name, Category) for name in model.snapshot()["features"]]
    assert sum(kinds) == 12
    assert (window_of(model)["field_of"][np.flatnonzero(kinds)] == -1).all()
    assert pickle.dumps(copy) == pickle.dumps(model)


def test_lists_may_end_while_a_tree_grows():
    """Columns that were in few rows become dense: the last list goes with the last of them."""
    rng = np.random.default_rng(0)
    model = ExtraTreeRegressor(window=2000)
    for i in range(500):
        x = {f"dense {j}": value for j, value in enumerate(rng.normal(size=70).tolist())}
        x.update({
            f"later {j}": value for j, value in enumerate(rng.normal(size=60).tolist())
            if i >= 300 or i == 5 or rng.random() < 0.2
        })
        if i == 5 or i >= 350 or i % 25 == 0:
            x["last"] = float(rng.normal())
        model.learn_one(x, x["dense 0"] + x["dense 1"])
        if i % 100 == 99:
            copy = pickle.loads(pickle.dumps(model))
    assert (window_of(model)["field_of"] >= 0).all()
    assert pickle.dumps(copy) == pickle.dumps(model)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not bound address space")
def test_rows_that_grow_wide_take_no_room_ahead():
    """What was to come was asked for while rows were short."""
    run_isolated(
        """
        import resource
        import numpy as np
        from streamtree import ExtraTreeClassifier

        resource.setrlimit(resource.RLIMIT_AS, (2 * 2**30, 2 * 2**30))
        model = ExtraTreeClassifier(window=1_000_000)
        for n_rows, n_columns in ((25_000, 2), (20, 3_000)):
            rng = np.random.default_rng(0)
            X = rng.normal(size=(n_rows, n_columns))
            model.learn_many(X, (X[:, 0] > 0).tolist())
        """
    )


FAR = 1.7e12


def origin_of(model, name):
    state = model.snapshot()
    return float(state["scaler"]["columns"]["origin"][state["features"].index(name)])


def far_row(i, late=0):
    x = {"time": FAR + (i >= late) * i, "near": i % 7 - 3.0}
    return {**x, **({f"wide{j}": FAR + i + j for j in range(80)} if late else {})}


@pytest.mark.parametrize("late", [0, 60])
def test_values_far_from_zero_are_taken_from_the_first_one(late):
    model = ExtraTreeClassifier(window=100)
    for i in range(150):
        model.learn_one(far_row(i, late), i % 2)
        if i == late:
            # it was the same all along, and is seen to differ in this row
            assert origin_of(model, "time") == (FAR if late else 0.0)
        if late and i == 1:
            # some lie in the lists of the rows when they get their origins
            assert (window_of(model)["field_of"] < 0).any()
    rows = np.arange(25, 150)
    assert cells_of(model, "time").tolist() == np.where(rows >= late, rows, 0).tolist()
    assert origin_of(model, "near") == 0.0
    if late:
        assert origin_of(model, "wide79") == FAR + 79
        assert all(cells_of(model, f"wide{j}").tolist() == rows.tolist() for j in range(80))


def test_a_column_with_zeros_or_gaps_at_first_has_no_origin():
    model = ExtraTreeClassifier()
    for i in range(40):
        seldom = {"seldom": FAR + i} if i % 12 == 0 else {}
        model.learn_one({"zeros": i and FAR + i, "apart": FAR * (1 + i), **seldom}, i % 2)
    assert [origin_of(model, name) for name in ("zeros", "apart", "seldom")] == [0.0] * 3


def test_an_origin_tells_zeros_and_gaps_that_come_later():
    model = ExtraTreeClassifier()
    for i in range(60):
        x = {"a": FAR + i, "b": i * 1.0}
        if i == 50:
            x["a"] = 0.0
        elif i == 55:
            del x["a"]
        model.learn_one(x, i % 2)
    cells = cells_of(model, "a")
    assert cells[50] == np.float32(-FAR)
    assert np.isnan(cells[55])
    assert cells[59] == 59.0


@pytest.mark.slow
@pytest.mark.parametrize("late", [2, 31, 57, 90])
def test_trees_that_grow_while_a_column_gets_its_origin_are_those_of_a_copy(late):
    models = [ExtraTreeClassifier(seed=3), ForestClassifier(n_trees=2)]
    copies = pickle.loads(pickle.dumps(models))
    rng = np.random.default_rng(late)
    for i in range(140):
        x = {"a": FAR + (i > late) * rng.normal(), "b": rng.normal()}
        y = int(x["a"] - FAR + x["b"] > 0)
        for model, copy in zip(models, copies, strict=True):
            model.learn_one(x, y)
            copy.learn_one(x, y)
        copies = pickle.loads(pickle.dumps(copies))
    for model, copy in zip(models, copies, strict=True):
        assert pickle.dumps(model) == pickle.dumps(copy)


def test_a_row_that_only_counts_for_scales_leaves_the_move_to_the_next():
    model = ExtraTreeClassifier(window=1000)
    rows = [{"a": FAR, "b": float(i)} for i in range(1100)]
    with pytest.warns(UserWarning, match="different labels"):
        model.learn_many(pd.DataFrame(rows), [f"label {i}" for i in range(1100)])
    model.learn_one({"a": FAR + 1, "b": 0.0}, "another")
    before = window_of(model)
    assert origin_of(model, "a") == FAR
    assert before["n_origins"] == 0
    assert before["size"] < 1100
    copy = pickle.loads(pickle.dumps(model))
    for each in (model, copy):
        each.learn_one({"a": FAR + 7, "b": 1.0}, "label 1")
        assert np.unique(cells_of(each, "a")).tolist() == [0.0, 7.0]
    assert pickle.dumps(model) == pickle.dumps(copy)


@pytest.mark.parametrize("offset", [1e9, -1e9, 1.7e12])
@pytest.mark.parametrize(
    "make", [ExtraTreeClassifier, lambda: ForestClassifier(members=("boosted",))]
)
def test_what_is_learned_does_not_depend_on_an_offset(make, offset):
    rng = np.random.default_rng(5)
    X = rng.normal(size=(3000, 3))
    y = ((X[:, 0] * X[:, 1] > 0) ^ (X[:, 2] > 0.5)).astype(int)
    near, far = make(), make()
    right = (near.test_then_learn_many(X, y) == y).mean()
    assert (far.test_then_learn_many(X + offset, y) == y).mean() > right - 0.02
    assert right > 0.8


def test_a_test_is_told_in_the_unit_of_the_column():
    model = ExtraTreeClassifier()
    for i in range(100):
        model.learn_one({"time": FAR + i}, int(i > 50))
    words = model.debug_one({"time": FAR + 70.0})
    assert "time > 17000000000" in words
    assert "it is 1700000000070" in words


def test_a_test_tells_nanoseconds():
    model = ExtraTreeClassifier()
    for i in range(100):
        model.learn_one({"time": 1.7e18 + i * 1e9}, int(i > 50))
    assert "it is 1700000070000000000" in model.debug_one({"time": 1.7e18 + 70e9})


def test_trees_grow_although_columns_get_origins_all_the_time():
    rng = np.random.default_rng(0)
    model, right = ForestClassifier(members=("boosted",)), 0
    for i in range(2000):
        x = {"a": rng.normal(), "b": rng.normal(), f"only {i // 2}": FAR + i}
        y = int(x["a"] * x["b"] > 0)
        right += i >= 1000 and model.predict_one(x) == y
        model.learn_one(x, y)
    assert right > 800


def test_a_tree_grows_on_when_a_column_that_was_the_same_gets_its_origin():
    rng = np.random.default_rng(0)
    model, i, begun = ExtraTreeClassifier(), 0, 0
    while i < 1000 or begun < 5:
        model.learn_one({"a": rng.normal(), "b": FAR}, i % 2)
        begun = begun + 1 if len(model.snapshot()["tree"]["growth"]["rows"]) else 0
        i += 1
    first = model.snapshot()["tree"]["growth"]["record"]["first"]
    model.learn_one({"a": rng.normal(), "b": FAR + 1}, i % 2)
    assert origin_of(model, "b") == FAR
    growth = model.snapshot()["tree"]["growth"]
    assert len(growth["rows"])
    assert growth["record"]["first"] == first


def test_more_origins_than_columns_are_refused():
    model = ExtraTreeClassifier()
    for i in range(20):
        model.learn_one({"time": FAR + i}, i % 2)
    state = model.snapshot()
    model._core.check_state(state)
    state["tree"]["window"]["n_origins"] = 2**40
    with pytest.raises(StateError, match="the origins of the window"):
        model._core.check_state(state)


@pytest.mark.parametrize("max_bytes", [None, 200_000_000])
def test_very_many_columns_become_fields_without_a_stall(max_bytes):
    def seconds(width):
        rows = np.random.default_rng(0).normal(size=(2, width))
        model = ExtraTreeRegressor(max_bytes=max_bytes)
        start = time.process_time()
        for i in range(36):
            model.learn_many(rows[[i % 2]], [float(i % 2)])
        assert len(fields_of(model)) > width // 2
        return time.process_time() - start

    few = min(seconds(2500) for _ in range(3))
    assert seconds(30_000) < 40.0 * few + 0.1
