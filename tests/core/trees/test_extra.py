"""Randomised trees against a plain reference, and what they promise."""

import itertools
import pickle

import numpy as np
import pytest
from reference.extratree import LARGEST, Buckets, ReferenceExtraTree, name_hash
from reference.lomtree import splitmix64
from support.isolated import run_isolated
from support.marks import first_quick

from streamtree import (
    ExtraTreeClassifier,
    ExtraTreeRegressor,
    ForestClassifier,
    ForestRegressor,
)
from streamtree._core.store.checks import StateError
from streamtree._core.stream.features import Category

# the same sums in another order
CLOSE = 1e-9


def stream(n, seed=0, with_gaps=True):
    """Dicts of numbers and categories, and a class that needs several of them."""
    rng = np.random.default_rng(seed)
    rows, labels = [], []
    for i in range(n):
        a, b = rng.normal(size=2)
        kind = "uvwxyz"[int(rng.integers(6))]
        label = int((a > 0) ^ (b > 0.3)) + (kind in "wy") * 2
        if rng.random() < 0.1:
            label = int(rng.integers(4))
        x = {"a": float(np.float32(a)), "b": float(np.float32(b)), "kind": kind, "c": rng.random()}
        x["c"] = float(np.float32(x["c"] + 0.1))
        # zeros are listed from the third row on: until then what is missing counts as zero
        if with_gaps and i > 20:
            for name in ("a", "kind"):
                if rng.random() < 0.15:
                    del x[name]
        rows.append(x)
        labels.append(label)
    return rows, labels


def columns_of(x):
    """The names of the columns in the order of their hashes."""
    hashes = {name: splitmix64(name_hash(name)) % 2**32 for name in x}
    hashes["kind"] = name_hash("kind")  # the tie of its categories
    return sorted(x, key=hashes.__getitem__)


def cells(x, columns):
    kind = Category("kind", x["kind"]) if "kind" in x else None
    return [kind if name == "kind" else np.float32(x.get(name, np.nan)) for name in columns]


def splits_of(model, columns):
    """The test of every node, None for a leaf, parents first and the left child before the right.

    In the order of the reference: depth first.
    """
    state = model.snapshot()
    nodes, names = state["tree"]["grown"]["nodes"], state["features"]
    found, waiting = [], [0]
    while waiting:
        node = nodes[waiting.pop()]
        if node["left"] < 0:
            found.append((None, float(node["weight"])))
            continue
        name, bound = names[node["column"]], float(node["threshold"])
        if node["salt"]:
            bound = Buckets(int(node["members"]), int(node["salt"]))
        elif isinstance(name, Category):
            bound = name
        feature = name.name if isinstance(name, Category) else name
        test = columns.index(feature), bound, bool(node["missing_right"])
        found.append((test, float(node["weight"])))
        waiting += [node["left"] + 1, node["left"]]
    return found


def splits_of_reference(reference):
    found, waiting = [], [reference.root]
    while waiting:
        node = waiting.pop()
        if not node.children:
            found.append((None, float(node.weight)))
            continue
        column, threshold, missing_right = node.test
        if not isinstance(threshold, tuple):
            threshold = float(threshold)
        found.append(((column, threshold, bool(missing_right)), float(node.weight)))
        waiting += node.children[::-1]
    return found


def compared(model, rows, targets, weights, said, **settings):
    """Teach a model and its reference, compare what they say before every row, and the trees."""
    columns = columns_of({**rows[0]})
    numbers = isinstance(model, ExtraTreeRegressor)
    reference = ReferenceExtraTree(numbers=numbers, **settings)
    for i, (x, y, w) in enumerate(zip(rows, targets, weights, strict=True)):
        row = cells(x, columns)
        if i:
            assert np.allclose(said(model, x), reference.predict(row), rtol=CLOSE, atol=CLOSE), i
        model.learn_one(x, y, w=w)
        reference.learn(row, y, w)
        if i % 50 == 0:
            assert splits_of(model, columns) == splits_of_reference(reference), i
    assert splits_of(model, columns) == splits_of_reference(reference)
    return reference


def shares(model, x):
    return [share for _, share in sorted(model.predict_proba_one(x).items())]


def numbered(labels):
    """Labels by their first appearance, as the reference knows them."""
    seen = {}
    return [seen.setdefault(label, len(seen)) for label in labels]


@pytest.mark.parametrize(
    "settings", first_quick([{"window": 150, "seed": 7, "shrinkage": 2.0}, {}])
)
@pytest.mark.parametrize("is_weighted", [False, True])
def test_the_classifier_is_its_reference(settings, is_weighted):
    rows, labels = stream(700)
    rng = np.random.default_rng(1)
    weights = rng.choice([0.5, 1.0, 30.0], size=700).tolist() if is_weighted else [1.0] * 700
    strength = {"strength": settings["shrinkage"]} if settings else {}
    model = ExtraTreeClassifier(**settings)
    reference = compared(
        model, rows, numbered(labels), weights, shares,
        **{k: v for k, v in settings.items() if k != "shrinkage"}, **strength,
    )
    thresholds = [test[1] for test, _ in splits_of_reference(reference) if test]
    # tests of all kinds were met
    assert {Category, Buckets, float} <= set(map(type, thresholds))
    assert float(LARGEST) in thresholds
    assert model.n_nodes > 50


@pytest.mark.parametrize("settings", first_quick([{"window": 150, "seed": 7}, {}]))
def test_the_regressor_is_its_reference(settings):
    rows, labels = stream(500, seed=2)
    rng = np.random.default_rng(3)
    # in quarters: sums of them are exact in any order
    targets = [float(4 * y + rng.integers(8)) / 4 for y in labels]
    weights = rng.choice([0.5, 1.0, 3.0], size=500).tolist()

    def said(model, x):
        return model._core.tree.said(model.decision_path(x)[-1]["node"])

    compared(ExtraTreeRegressor(**settings), rows, targets, weights, said, **settings)


def kinds_stream(n, seed=0):
    """A category of 60, half of which have label 1, or none, and a number that tells nothing."""
    rng = np.random.default_rng(seed)
    ones = set(rng.permutation(60)[:30].tolist())
    for _ in range(n):
        kind = int(rng.integers(60))
        x = {"size": float(rng.normal()), "kind": f"k{kind}"}
        if rng.random() < 0.1:
            del x["kind"]
        yield x, int(kind in ones) if "kind" in x else 0


@pytest.mark.parametrize("estimator", [ExtraTreeClassifier, ExtraTreeRegressor])
def test_sets_of_categories_are_told_from_the_rest(estimator):
    model, hits = estimator(), []
    for x, y in kinds_stream(3000):
        hits.append(round(model.predict_one(x) or 0) == y)
        model.learn_one(x, y)
    # with tests of one category against all others it is .951, and .979 for numbers
    assert np.mean(hits[2000:]) > 0.99
    frame, names = model.to_dataframe(), model.snapshot()["features"]
    tests, branches = frame["test"], frame["branch"]
    members = {
        node: model._core.tree.members(node)
        for node in tests[tests.str.startswith("kind in {")].index.tolist()
    }
    assert len(members) > 5
    seen = set()
    for x, _ in kinds_stream(100, seed=1):
        path = model.decision_path(x)
        for step, below in itertools.pairwise(path):
            if step["node"] not in members:
                continue
            columns, or_missing = members[step["node"]]
            values = {names[column].value for column in columns}
            is_right = x["kind"] in values if "kind" in x else or_missing
            assert tests[step["node"]].endswith(" or missing") == or_missing
            assert branches[below["node"]] == ("yes" if is_right else "no")
            assert (step["score"] > 0) == is_right
            seen.add(("kind" in x, is_right))
    assert len(seen) > 2
    # a test looks at the feature, not at the category that stands for it
    node = next(iter(members))
    assert model._views()[node].strengths == {"kind": 1.0}
    for none in (-1, model.n_nodes, int(tests.index[tests == ""][0])):
        with pytest.raises(IndexError, match="no such set"):
            model._core.tree.members(none)


def test_a_set_where_there_are_no_categories_has_no_members():
    """A file may say so; no memory is read that is not there."""
    model = ExtraTreeClassifier()
    for x, y in kinds_stream(300):
        model.learn_one(x, y)
    state = model.snapshot()
    nodes = state["tree"]["grown"]["nodes"]
    place = state["features"].index("size")
    nodes["salt"][nodes["left"] >= 0] = 255
    nodes["column"][nodes["left"] >= 0] = place
    nodes["members"] = 2**32 - 2
    model._core.check_state(state)
    copy = model.clone()
    copy._core.restore(state)
    for x, _ in kinds_stream(20, seed=2):
        # as rows without a category: in the first bucket, which is no member
        assert all(step["score"] < 0 for step in copy.decision_path(x)[:-1])
    for x, y in kinds_stream(600, seed=2):
        copy.learn_one(x, y)
    nodes["salt"][0] = 256
    with pytest.raises(StateError, match="a split"):
        model._core.check_state(state)


@pytest.mark.slow
def test_snapshots_while_it_grows_go_on():
    """Every row a new process: what is half grown is part of the state."""
    rows, labels = stream(400)
    model, whole = ExtraTreeClassifier(window=150), ExtraTreeClassifier(window=150)
    phases = set()
    for x, y in zip(rows, labels, strict=True):
        model.learn_one(x, y)
        whole.learn_one(x, y)
        state = model.snapshot()
        phases.add(int(state["tree"]["growth"]["record"]["phase"][0]))
        model._core.check_state(state)
        model = pickle.loads(pickle.dumps(model))
        assert pickle.dumps(model) == pickle.dumps(whole)
    assert phases == {0, 1, 2}


@pytest.fixture(scope="module")
def growing():
    """A model in the midst of a node, and the state that says so."""
    model = ExtraTreeClassifier(window=600)
    for x, y in zip(*stream(400), strict=True):
        model.learn_one(x, y)
        record = model.snapshot()["tree"]["growth"]["record"]
        if record["phase"] == 1 and record["node"] >= 0:
            return model
    raise AssertionError("no tree was in the midst of a node")


@pytest.mark.parametrize(("name", "value"), [
    ("phase", 3), ("stage", 4), ("done", -1), ("n_left", -1), ("n_tried", -1), ("n_drawn", -1),
    ("stack_capacity", -1), ("stack_capacity", 10**6), ("n_labels", -1), ("n_labels", 1),
    ("n_gathered", -1), ("n_gathered", 33), ("n_gathered", 2**40),
])
def test_a_growing_tree_that_cannot_be_is_refused(growing, name, value):
    state = growing.snapshot()
    growing._core.check_state(state)
    state["tree"]["growth"]["record"][name] = value
    with pytest.raises(StateError):
        growing._core.check_state(state)


def test_a_tree_is_done_before_its_rows_go():
    """Columns of two values over noise: most candidates split nothing, and growing takes long."""
    rng = np.random.default_rng(0)
    X = rng.integers(2, size=(9000, 10)).astype(float)
    model = ExtraTreeRegressor(window=1500, nominal_attributes=list(range(10)))
    phases = []
    for first in range(0, len(X), 10):
        model.learn_many(X[first : first + 10], rng.normal(size=10))
        phases.append(int(model.snapshot()["tree"]["growth"]["record"]["phase"][0]))
    # grown anew every 750 rows, from when there are more than these
    is_done = np.diff(np.array(phases[200:]) == 2) & (np.array(phases[201:]) == 2)
    assert is_done.sum() >= 8


def test_the_roots_of_members_that_predict_numbers_differ():
    """One column tells most; few candidates leave other roots to most of the trees."""
    roots = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(3000, 16))
        forest = ForestRegressor(members=("extra",), seed=seed)
        forest.learn_many(X, 3 * X[:, 0] + 0.3 * X[:, 1:].sum(axis=1))
        trees = forest.snapshot()["tree"]["members"]["0"]["members"].values()
        roots += [int(tree["grown"]["nodes"]["column"][0]) for tree in trees]
    assert len(roots) == 30
    assert 3 <= roots.count(0) <= 15


def test_members_look_longer_where_hardly_anything_tells_labels_apart():
    """Of two columns one tells a little: most roots part it where it tells most."""
    n_good = 0
    for seed in range(3):
        rng = np.random.default_rng(seed)
        X = rng.uniform(-1, 1, size=(3000, 2))
        forest = ForestClassifier(members=("extra",), seed=seed)
        forest.learn_many(X, rng.uniform(size=3000) < 0.5 + 0.1 * np.sign(X[:, 0]))
        trees = forest.snapshot()["tree"]["members"]["0"]["members"].values()
        roots = [tree["grown"]["nodes"][0] for tree in trees]
        n_good += sum(root["column"] == 0 and abs(root["threshold"]) < 0.15 for root in roots)
    assert n_good >= 18


def test_constant_columns_do_not_make_leaves_of_roots():
    """A draw that splits nothing is no candidate, however few of these there are to be."""
    rng = np.random.default_rng(0)
    X = np.ones((2000, 60))
    X[:, 7] = rng.normal(size=2000)
    forest = ForestRegressor(n_trees=20, members=("extra",), seed=0)
    forest.learn_many(X, X[:, 7])
    trees = forest.snapshot()["tree"]["members"]["0"]["members"].values()
    # leaves that are split as rows come are few
    assert sum(len(tree["grown"]["nodes"]) > 220 for tree in trees) >= 17


def wordy_stream(n, seed=5):
    """Dicts of up to 120 columns out of 300, and a label that depends on a few of them."""
    rng = np.random.default_rng(seed)
    rows, labels = [], []
    for _ in range(n):
        words = rng.choice(300, size=int(rng.integers(3, 120)), replace=False)
        x = {f"w{word}": float(rng.integers(1, 4)) for word in words}
        # listed zeros make fields of some columns later
        x |= {f"z{i}": 0.0 for i in rng.choice(8, size=3)}
        rows.append(x)
        labels.append(int(words.min()) % 3)
    return rows, labels


@pytest.mark.parametrize("estimator", [ExtraTreeClassifier, ExtraTreeRegressor])
def test_no_order_of_keys_matters(estimator):
    rows, labels = wordy_stream(260)
    every = {name: 1.0 for x in rows for name in x}
    models = [estimator(window=120) for _ in range(3)]
    for model in models[:2]:
        model.learn_one(every, 0)
    # the third meets its columns in another order, which its file tells
    models[2].learn_one(dict(reversed(every.items())), 0)
    for x, y in zip(rows, labels, strict=True):
        models[0].learn_one(x, y)
        for model in models[1:]:
            model.learn_one(dict(reversed(x.items())), y)
        assert models[2].predict_one(x) == models[0].predict_one(x)
    assert pickle.dumps(models[1]) == pickle.dumps(models[0])
    assert models[0].n_nodes > 20


def flood(kind, n, seed=0):
    """Rows, and labels that the first column tells, with ever more of something."""
    rng = np.random.default_rng(seed)
    for i in range(n):
        x = {"a": float(rng.normal()), "b": float(rng.normal())}
        label = int(x["a"] > 0)
        if kind == "columns":
            x |= {f"c{i // 4}": 1.0, f"c{i // 4 + 1}": 2.0}
        elif kind == "zeros":
            # columns whose zeros are listed
            x |= {f"z{j}": float(rng.integers(2)) for j in range(i % 150)}
        elif kind == "words":
            x |= {f"w{j}": 1.0 for j in rng.integers(5000, size=70)}
        elif kind == "labels" and i % 3 == 0:
            label = i // 6
        elif kind == "noise":
            label = int(rng.integers(2))
        yield x, label


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("kind", ["noise", "columns", "zeros", "words", "labels"])
@pytest.mark.parametrize("estimator", [ExtraTreeClassifier, ExtraTreeRegressor])
def test_it_keeps_within_its_bytes(estimator, kind):
    bound = 300_000
    model = estimator(max_bytes=bound)
    hits = []
    for i, (x, y) in enumerate(flood(kind, 1600)):
        hits.append(round(model.predict_one(x) or 0) == y)
        try:
            model.learn_one(x, y)
        except ValueError:
            # names and labels have bounds of their own
            assert kind in ("labels", "columns", "words", "zeros")
        if i % 50 == 0:
            assert model._core.learned_bytes <= bound
        if i % 400 == 399:
            model._core.check_state(model.snapshot())
            copy = pickle.loads(pickle.dumps(model))
            assert copy._core.learned_bytes == model._core.learned_bytes
            model = copy
    # it has come near its bound, and what there is room for is good for something
    assert model._core.learned_bytes > bound / 5
    if estimator is ExtraTreeClassifier and kind != "noise":
        # of the labels, a third cannot be known
        assert np.mean(hits[200:]) > (0.5 if kind == "labels" else 0.6)


def test_more_bytes_are_more_nodes():
    X, y = numbers_stream(3000)
    sizes = []
    for bound in (2**18, 2**19, 2**20, None):
        model = ExtraTreeRegressor(max_bytes=bound)
        model.learn_many(X, y)
        assert model._core.learned_bytes <= (bound or 10**9)
        sizes.append(model.n_nodes)
    assert sizes == sorted(sizes)
    assert sizes[0] < sizes[3] / 4


def test_noise_is_answered_with_the_frequencies():
    rng = np.random.default_rng(4)
    X, y = rng.normal(size=(6000, 4)), (rng.random(6000) < 0.3).astype(int)
    model = ExtraTreeClassifier(window=1000)
    said = np.asarray(model.test_then_learn_many(X, y.tolist(), proba=True))
    # once it is known; the window knows shares to about .015, and the strength may come and go
    later = said[4000:, int(y[0] == 0)]
    assert np.abs(later - 0.3).mean() < 0.04
    assert model._core.tree.shrinkage > 100.0


@pytest.mark.parametrize("seed", range(4, 8))
def test_where_there_is_something_to_be_learned_it_is_followed(seed):
    rng = np.random.default_rng(seed)
    # two columns that matter together, among four that tell nothing
    X = rng.normal(size=(4000, 6))
    labels = (X[:, 0] * X[:, 1] > 0).astype(int)

    def squared_error(shrinkage):
        model = ExtraTreeClassifier(window=1000, shrinkage=shrinkage, restarts=False)
        said = np.asarray(model.test_then_learn_many(X, labels.tolist(), proba=True))
        return np.square(said[1000:, 0] - (labels == labels[0])[1000:]).mean()

    assert squared_error(None) < 0.97 * min(map(squared_error, (0.3, 1.0, 3.0, 10.0, 30.0)))


def test_a_rare_label_is_said_where_it_is_frequent():
    rng = np.random.default_rng(0)
    X = rng.random((12_000, 4))
    # one of the three labels is a coin's, which asks for strong shrinkage
    y = (rng.random(12_000) < 0.4).astype(int)
    y[(X[:, 0] < 0.1) & (X[:, 1] < 0.1)] = 2
    model = ExtraTreeClassifier(window=5000)
    said = np.asarray(model.test_then_learn_many(X, y.tolist()))
    is_rare = y[6000:] == 2
    assert 40 < is_rare.sum() < 80
    assert (said[6000:][is_rare] == 2).mean() > 0.5


def test_a_shrinkage_that_is_given_stays():
    X, y = numbers_stream(500)
    model = ExtraTreeRegressor(shrinkage=2.0)
    model.learn_many(X, y)
    assert model._core.tree.shrinkage == 2.0
    # and one that is learned goes on where it was
    model = ExtraTreeRegressor()
    model.learn_many(X, y)
    found = model._core.tree.shrinkage
    assert found != 1.0
    model.shrinkage = 2.0
    model.learn_many(X, y)
    assert model._core.tree.shrinkage == 2.0
    model.shrinkage = None
    assert model._core.tree.shrinkage == found
    for wrong in (0.0, np.nan, "much"):
        with pytest.raises((TypeError, ValueError), match="shrinkage"):
            model.shrinkage = wrong
    assert model._core.tree.shrinkage == found


def test_with_a_shrinkage_that_is_given_a_leaf_says_what_is_predicted():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(1000, 3)), rng.normal(size=1000)
    model = ExtraTreeRegressor()
    model.learn_many(X, y)
    leaf = model._core.leaves_many([dict(enumerate(X[0].tolist()))], [])[0]
    for _ in range(2):
        # noise is drawn to the mean of the targets besides, unless there is a number
        assert model.predict_many(X[:1])[0] != model._core.measure("said", leaf)
        model.shrinkage = 0.01
        assert model.predict_many(X[:1])[0] == model._core.measure("said", leaf)
        model.shrinkage = None
    given = ExtraTreeRegressor(shrinkage=0.01)
    given.learn_many(X, y)
    model.shrinkage = 0.01
    assert given.predict_many(X).tolist() == model.predict_many(X).tolist()


@pytest.mark.parametrize("change", [
    lambda y: np.r_[0.0, y[1:]], lambda y: y + 1e6, lambda y: 1e-150 * y, lambda y: 1e90 * y,
    lambda y: np.r_[np.zeros(2000), y],
])
def test_the_strength_is_learned_whatever_the_first_target_and_the_unit(change):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(4000, 4)), change(rng.normal(size=2000))
    for model in (ExtraTreeRegressor(), ForestRegressor(4, ("extra",))):
        model.learn_many(X[:len(y)], y)
        tree = model.snapshot()["tree"]
        found = tree if "strength" in tree else tree["members"]["0"]
        assert found["strength"]["log"] > 1.0


def test_the_strength_stands_still_while_there_is_one_label():
    rng = np.random.default_rng(0)
    X, model = rng.normal(size=(5000, 4)), ExtraTreeClassifier(window=1000)
    model.learn_many(X, ["a"] * 5000)
    assert model._core.tree.shrinkage == pytest.approx(1.0)
    model.learn_many(X, rng.choice(["a", "b"], size=5000).tolist())
    assert model._core.tree.shrinkage > 20.0


@pytest.mark.parametrize(("part", "number"), [
    ("log", 99.0), ("log", np.nan), ("curvature", -1.0), ("errors", np.inf), ("rows", -1),
])
def test_a_strength_that_cannot_have_come_about_is_refused(part, number):
    X, y = numbers_stream(300)
    tree, forest = ExtraTreeRegressor(), ForestRegressor(2, ("extra",))
    for model in (tree, forest):
        model.learn_many(X, y)
        state = model.snapshot()
        found = state["tree"] if model is tree else state["tree"]["members"]["0"]
        found["strength"][part] = number
        with pytest.raises(StateError):
            model._core.check_state(state)


@pytest.mark.parametrize("far", [1e6, -1e300])
def test_a_value_far_out_does_not_spoil_its_column(far):
    X, y = numbers_stream(3000)
    spoiled = X.copy()
    spoiled[20, 0] = far
    errors = []
    for rows in (X, spoiled):
        said = [
            np.asarray(ExtraTreeRegressor(seed=seed).test_then_learn_many(rows, y))
            for seed in range(8)
        ]
        errors.append(np.mean((np.array(said) - y)[:, 500:] ** 2))
    assert errors[1] < 1.05 * errors[0]


def numbers_stream(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    return X, 10.0 * np.sin(X[:, 0]) + 3.0 * X[:, 1] + rng.normal(size=n)


def test_intervals_cover_as_they_say():
    X, y = numbers_stream(4000)
    model = ExtraTreeRegressor()
    model.learn_many(X[:3500], y[:3500])
    for level in (0.5, 0.9):
        hits = []
        for row, target in zip(X[3500:].tolist(), y[3500:].tolist(), strict=True):
            x = dict(enumerate(row))
            found = model.predict_one(x, with_interval=True, confidence_level=level)
            assert model.predict_one(x) in found
            hits.append(target in found)
        # two and a half deviations of a mean of 500, and the part of which quantiles fall short
        assert level - 0.08 < np.mean(hits) < level + 0.06, level


def test_quantiles_are_ordered_and_those_of_kept_rows():
    X, y = numbers_stream(600)
    model = ExtraTreeRegressor(window=200)
    x = dict(enumerate(X[0].tolist()))
    assert model.predict_quantiles_one(x, [0.1, 0.9]) == [0.0, 0.0]
    model.learn_many(X, y)
    levels = [0.001, 0.25, 0.5, 0.75, 0.999]
    found = model.predict_quantiles_one(x, levels)
    assert found == sorted(found)
    # the window has 250 rows while it is full, too few for such levels to lie between two of them
    assert set(found[:1] + found[-1:]) <= set(y[-250:].tolist())
    for bad in ([0.0], [1.0], [float("nan")], ["0.5"], 0.5):
        with pytest.raises((TypeError, ValueError), match="level"):
            model.predict_quantiles_one(x, bad)
    with pytest.raises(ValueError, match="confidence_level"):
        model.predict_one(x, with_interval=True, confidence_level=1.0)
    nearly_all = model.predict_one(x, with_interval=True, confidence_level=1 - 1e-16)
    assert nearly_all.lower <= found[0] <= found[-1] <= nearly_all.upper


def test_growth_that_cannot_begin_is_freed():
    code = """
        from streamtree._core.trees.extra.growth import Growth
        try:
            Growth(None, True)
        except TypeError:
            print("refused")
    """
    assert run_isolated(code).strip() == "refused"
