"""Leaves that predict with models: against a plain reference, and what they are there for."""

import itertools
import pickle

import numpy as np
import pytest
from reference.scaling import RunningScaler
from support.streams import as_dicts, blobs

from streamtree import LOMTreeClassifier, ModelTreeClassifier
from streamtree._core.store.checks import StateError

KNOTS = np.linspace(-2.1, 2.1, 8)
RATES = (1.0, 6.0)


class ReferenceLeaf:
    """One leaf that never splits: an additive softmax at two rates, mixed by progressive loss.

    With knots both add to what naive Bayes says, which counts knots and columns that never vary.
    """

    def __init__(self, has_knots):
        self.has_knots = has_knots
        self.scaler = RunningScaler()
        self.classes = []
        self.weights = [{}, {}]  # by rate: part -> one weight for every class
        self.squares = {}  # part -> sum of squared gradients
        self.losses = np.zeros(2)
        self.norm, self.rows = 1.0, 0
        self.values = {}
        self.counts = {}  # by class: part, or None for all examples -> count
        self.trust, self.trust_squares, self.counted = 0.3, 0.0, 0

    def varies(self, name):
        return self.has_knots and len(self.values.get(name, ())) > 1

    def parts(self, row):
        parts = {"bias": 1.0}
        for name, value in row.items():
            parts[name] = value
            if self.varies(name):
                place = np.clip((value + 2.1) / 0.6, 0, 7)
                knot = min(int(place), 6)
                parts[name, knot] = 1.0 - (place - knot)
                parts[name, knot + 1] = place - knot
        return parts

    def present(self, parts):
        """What is counted of a row."""
        found = {}
        for part, value in parts.items():
            if isinstance(part, tuple):
                found[part] = value
            elif part != "bias" and not self.varies(part) and value > 0:
                found[part] = 1.0
        return found

    def prior(self, parts):
        """What naive Bayes adds to the score of every class."""
        n = max(len(self.classes), 2)
        if not self.counts or not self.has_knots:
            return np.zeros(n)
        present = self.present(parts)
        logs = {}
        for label, counts in self.counts.items():
            logs[label] = np.log(1 + 10 * counts[None]) * (1 - sum(present.values()))
            for part, value in present.items():
                logs[label] += value * np.log(1 + 10 * counts.get(part, 0.0))
        least = min(logs.values())
        found = np.array([logs.get(label, least) for label in self.classes])
        found = np.append(found, [0.0] * (n - len(found)))
        found[: len(self.classes)] -= max(logs.values())
        return found * self.trust * self.counted / (self.counted + 100)

    def count(self, parts, prior, mixed, label):
        place = self.classes.index(label)
        slope = (mixed @ prior - prior[place]) / self.trust
        self.trust_squares = 0.999 * self.trust_squares + slope**2
        loss = 0.001 * (1 + (self.counted / (10_000 + 500 * len(self.classes))) ** 2)
        self.trust *= 1 - loss - 0.1 * slope / np.sqrt(self.trust_squares + 1)
        counts = self.counts.setdefault(label, {})
        for part, value in {None: 1.0, **self.present(parts)}.items():
            counts[part] = counts.get(part, 0.0) + value
        self.counted += 1

    def shares(self):
        shares = np.exp(0.3 * (self.losses.min() - self.losses))
        return shares / shares.sum()

    def probabilities(self, parts):
        """By rate, for every class."""
        found = []
        for weights in self.weights:
            scores = self.prior(parts)
            for part, value in parts.items():
                known = weights.get(part, np.zeros(0))
                scores[: len(known)] += value * known
            scores = np.exp(scores - scores.max())
            found.append(scores / scores.sum())
        return np.array(found)

    def predict_proba(self, row):
        mixed = self.shares() @ self.probabilities(self.parts(row))
        mixed = mixed[: len(self.classes)]
        return dict(zip(self.classes, mixed / mixed.sum(), strict=True))

    def learn(self, row, label):
        if label not in self.classes:
            self.classes.append(label)
        parts = self.parts(row)
        p = self.probabilities(parts)
        square = self.judge(parts, p, label)
        self.step(parts, p, label, square)

    def judge(self, parts, p, label):
        """Learn what the experts, who said p, are worth; returns the square of the error."""
        place = self.classes.index(label)
        self.measure(parts)
        mixed = self.shares() @ p
        self.count(parts, self.prior(parts), mixed, label)
        self.losses = 0.98 * self.losses - np.log(np.maximum(p[:, place], 1e-3))
        truth = np.arange(p.shape[1]) == place
        n = len(self.classes)
        return (1 - mixed[place]) ** 2 if n <= 2 else ((mixed - truth) ** 2).sum()

    def measure(self, parts):
        self.rows += 1
        self.norm += (sum(v * v for v in parts.values()) - self.norm) / self.rows

    def step(self, parts, p, label, square):
        if square < 0.07**2:
            return
        n, truth = len(self.classes), np.arange(p.shape[1]) == self.classes.index(label)
        for part, value in parts.items():
            self.squares[part] = 0.999 * self.squares.get(part, 0.0) + square * value**2
        for rate, weights, found in zip(RATES, self.weights, p, strict=True):
            for part, value in parts.items():
                known = np.zeros(p.shape[1])
                known[: len(weights.get(part, ()))] = weights.get(part, ())
                step = value / np.sqrt(self.squares[part] + 0.2)
                # two classes have one score, which is the difference of two halves
                half = 0.5 if n <= 2 else 1.0
                factor = rate * 2.5 / (self.norm + 4.0)
                weights[part] = known - half * factor * step * (found - truth)


def is_fine(part):
    return isinstance(part, tuple) and len(part) == 3


class ReferenceChild(ReferenceLeaf):
    """A leaf that went on from another: it mixes its own model with the one that all have.

    Of the columns in `fine`, on its way, its own model has fine knots besides.
    """

    def __init__(self, common, fine):
        super().__init__(True)
        self.common, self.fine = common, fine
        self.classes = common.classes
        self.losses = np.zeros(4)

    def own_parts(self, row):
        parts = self.common.parts(row)
        for name in self.fine:
            place = np.clip((row[name] + 3.0) / 0.125, 0, 47)
            knot = min(int(place), 46)
            parts[name, "fine", knot] = 1.0 - (place - knot)
            parts[name, "fine", knot + 1] = place - knot
        return parts

    def prior(self, parts):
        return self.common.prior({k: v for k, v in parts.items() if not is_fine(k)})

    def count(self, parts, prior, mixed, label):
        self.common.count(parts, prior, mixed, label)

    def measure(self, parts):
        self.common.measure(parts)
        self.norm = self.common.norm

    def predict_proba(self, row):
        mixed = self.shares() @ self.said(row)
        return dict(zip(self.classes, mixed / mixed.sum(), strict=True))

    def said(self, row):
        common = self.common.probabilities(self.common.parts(row))
        return np.concatenate([common, self.probabilities(self.own_parts(row))])

    def learn(self, row, label):
        parts, own_parts, p = self.common.parts(row), self.own_parts(row), self.said(row)
        square = self.judge(parts, p, label)
        self.step(own_parts, p[2:], label, square)
        self.common.step(parts, p[:2], label, square)


@pytest.mark.parametrize("leaf_model", ["softmax", "adaptive"])
@pytest.mark.parametrize("classes", [2, 4])
def test_a_leaf_learns_as_the_reference_does(leaf_model, classes):
    rng = np.random.default_rng(classes)
    X = rng.normal(size=(400, 4)) * [1.0, 10.0, 0.1, 1.0] + [0.0, 50.0, -1.0, 0.0]
    X[:, 3] = X[:, 3] > 0  # a bit
    y = (X[:, 0] > 0) + 2 * (X[:, 1] > 55) if classes == 4 else (X[:, 0] > 0).astype(int)
    y[:4] = [0, 1, *([2, 3] if classes == 4 else [1, 0])]
    # all classes from the start: then the number of scores never changes
    model = ModelTreeClassifier(leaf_model=leaf_model, grace_period=1e9)
    reference = ReferenceLeaf(leaf_model == "adaptive")
    started = False
    for i, (x, label) in enumerate(zip(as_dicts(X), y.tolist(), strict=True)):
        scaled = reference.scaler.learn(x)
        for name, value in x.items():
            reference.values.setdefault(name, set()).update({value} - {0.0})
        started = i >= 4
        if classes == 4 and i == 0:
            # a model that begins with two classes is widened: the reference begins wide
            reference.classes = [0, 1, 2, 3]
        if classes == 4 and not started:
            model.learn_one(x, label)
            continue
        if classes == 4 and i == 4:
            state = model.snapshot()
            take_over(reference, state, state["tree"]["leaves"]["models"][0])
        model.learn_one(x, label)
        reference.learn(scaled, label)
        said = model.predict_proba_one(x)
        # a pseudo-vote is shared by all classes
        expected = {
            k: ((i + 1) * p + 1 / len(said)) / (i + 2)
            for k, p in reference.predict_proba(reference.scaler.apply(x)).items()
        }
        assert said == pytest.approx(expected, abs=2e-4), i


def test_leaves_below_a_split_learn_as_the_reference_does():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(900, 3)) * [1.0, 10.0, 0.1]
    y = ((X[:, 0] > 0) ^ (X[:, 1] > 0) ^ (rng.random(900) < 0.05)).astype(int)
    model = ModelTreeClassifier(grace_period=5)
    scaler, leaves, values = RunningScaler(), None, {}
    n_compared = 0
    for i, (x, label) in enumerate(zip(as_dicts(X), y.tolist(), strict=True)):
        scaled = scaler.learn(x)
        for name, value in x.items():
            values.setdefault(name, set()).add(value)
        if leaves is None and model.n_nodes == 3:
            # there is one split, and there is to be no other
            model.grace_period = 1e9
            leaves, column, threshold = two_leaves(model.snapshot(), values)
        model.learn_one(x, label)
        if leaves is None:
            continue
        leaves[int(scaled[column] > threshold)].learn(scaled, label)
        now = scaler.apply(x)
        leaf = leaves[int(now[column] > threshold)]
        said, expected = model.predict_proba_one(x), leaf.predict_proba(now)
        votes = model.decision_path(x)[-1]["weight"]
        assert said == pytest.approx({
            k: (votes * p + 1 / 2) / (votes + 1) for k, p in expected.items()
        }, abs=5e-4), i
        n_compared += 1
    assert n_compared > 300
    # fine knots took part, of the column that was split
    assert all(sum(map(is_fine, leaf.squares)) > 15 for leaf in leaves)


def two_leaves(state, values):
    """References that go on from the state of a tree with one split; its column and threshold."""
    tree = state["tree"]
    models = {part["node"]: part for part in tree["leaves"]["models"]}
    column = state["features"][tree["nodes"]["column"][0]]
    common = ReferenceLeaf(True)
    common.values, common.classes = values, [state["labels"][k] for k in models[-1]["classes"]]
    take_over(common, state, models[-1])
    leaves = []
    for node in (1, 2):
        assert [state["features"][k] for k in models[node]["fine"]["columns"]] == [column]
        leaf = ReferenceChild(common, [column])
        take_over(leaf, state, models[node])
        leaf.losses = models[node]["losses"].astype(float)
        leaves.append(leaf)
    return leaves, column, tree["nodes"]["threshold"][0]


def take_over(reference, state, part):
    """Let the reference go on from one model of a state."""
    leaves = state["tree"]["leaves"]
    stride = part["stride"]
    for name, n in (("linear", None), ("knots", 8), ("fine", 48)):
        table = part[name] or {"keys": np.empty(0), "records": ()}
        for key, record in zip(table["keys"].tolist(), table["records"], strict=True):
            if name == "linear":
                place = "bias" if key == 0 else state["features"][key - 1]
            else:
                column = part["fine"]["columns"][key // n] if name == "fine" else key // n
                place = state["features"][column], *([name] * (name == "fine")), key % n
            reference.squares[place] = float(record[2 * stride])
            for rate in range(2):
                found = record[rate * stride :][:4].astype(float)
                # the one score of two classes is the difference of two
                found = found[0] * np.array([-0.5, 0.5]) if stride == 1 else found
                reference.weights[rate][place] = found
    bayes = part["bayes"]
    if bayes is not None:
        for name in ("linear", "knots"):
            table, stride = bayes[name], bayes["stride"]
            for key, record in zip(table["keys"].tolist(), table["records"], strict=True):
                if name == "linear":
                    place = None if key == 0 else state["features"][key - 1]
                else:
                    place = state["features"][key // 8], key % 8
                n = max(stride, 2)
                found = zip(reference.classes, record[n : n + 4].tolist(), strict=False)
                for label, count in found:
                    reference.counts.setdefault(label, {})[place] = count
        reference.trust, reference.trust_squares = bayes["trust"], bayes["squares"]
        reference.counted = int(bayes["rows"])
    reference.losses = part["losses"][2:].astype(float)
    reference.norm = leaves["mean_norm"]
    reference.rows = leaves["rows"]


def accuracy(model, X, y, step=100):
    """Prequential, over the second half."""
    hits = []
    for start in range(0, len(y), step):
        rows = slice(start, start + step)
        hits.append(model.predict_many(X[rows]) == y[rows])
        model.learn_many(X[rows], y[rows])
    hits = np.concatenate(hits)
    return hits[len(hits) // 2 :].mean()


def test_knots_learn_what_no_line_divides():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 2))
    y = (np.abs(X[:, 0]) > 0.7).astype(int)
    assert accuracy(ModelTreeClassifier(grace_period=1e9), X, y) > 0.93
    assert accuracy(ModelTreeClassifier(leaf_model="softmax", grace_period=1e9), X, y) < 0.75


def words(n, seed):
    """Ten classes, each with its own share of two hundred words."""
    rng = np.random.default_rng(seed)
    shares = rng.beta(4.0, 12.0, size=(10, 200))
    y = rng.integers(10, size=n)
    return (rng.random((n, 200)) < shares[y]).astype(float), y


def test_naive_bayes_helps_where_rows_are_few_and_columns_many():
    gains = []
    for seed in range(10):
        X, y = words(300, seed)
        with_it, without = ModelTreeClassifier(), ModelTreeClassifier(leaf_model="softmax")
        gains.append(accuracy(with_it, X, y, step=1) - accuracy(without, X, y, step=1))
    assert np.mean(gains) > 0.04


def test_counts_that_are_of_no_use_are_dropped():
    rng = np.random.default_rng(6)
    x = rng.normal(size=(20_000, 1))
    X = x + 0.1 * rng.normal(size=(20_000, 4))  # hardly more than one column
    y = (X @ [1, -1, 2, -2] > 0).astype(int)
    model = ModelTreeClassifier()
    model.learn_many(X[:300], y[:300])
    assert models_of(model)[0]["bayes"] is not None
    model.learn_many(X[300:], y[300:])
    assert all(part["bayes"] is None for part in models_of(model))
    assert np.mean(model.predict_many(X) == y) > 0.9


def test_splits_learn_what_no_sum_of_columns_says():
    """Exclusive or: either column alone is independent of the label."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(8000, 4))
    y = ((X[:, 0] > 0) ^ (X[:, 1] > 0)).astype(int)
    model = ModelTreeClassifier()
    assert accuracy(model, X, y) > 0.85
    assert model.n_splits > 2
    views = model.to_dataframe()
    root = views.iloc[0]
    assert set(model.feature_importances()) <= {0, 1, 2, 3}
    assert " > " in root["test"]


def test_a_number_that_stands_for_something_is_told_from_the_next():
    hits = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(12_000, 3))
        X[:, 0] = rng.integers(40, size=12_000)
        y = rng.integers(3, size=40)[X[:, 0].astype(int)]
        hits.append(accuracy(ModelTreeClassifier(), X, y))
    # with the knots that all columns have it is .65
    assert np.mean(hits) > 0.75


def test_it_hardly_splits_where_one_model_serves_all():
    grown = []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(5000, 5))
        y = (X @ [1, -1, 2, 0, 0.5] + rng.normal(size=5000) > 0).astype(int)
        model = ModelTreeClassifier()
        model.learn_many(X, y)
        grown.append(model.n_splits)
    # a model that is still learning errs alike everywhere only in the long run: 50 looks each
    assert np.mean(grown) < 10


def test_it_does_not_grow_on_noise_for_ever():
    rng = np.random.default_rng(3)
    model = ModelTreeClassifier()
    for _ in range(10):
        model.learn_many(rng.normal(size=(5000, 5)), rng.integers(3, size=5000))
    assert model.n_splits < 15


def test_a_stream_that_changes_is_followed():
    X, y = blobs(12_000, classes=4, features=5, spread=2.5, seed=1)
    changed = (y + 1) % 4
    model = ModelTreeClassifier()
    model.learn_many(X[:6000], y[:6000])
    assert accuracy(model, X[6000:], changed[6000:]) > 0.9


def many_classes(n, classes, seed=0):
    """Classes that come up one after the other."""
    X, y = blobs(n, classes, features=6, spread=4.0, seed=seed)
    order = np.argsort(y // 4, kind="stable")
    late = np.concatenate([order[: n // 4], np.random.default_rng(seed).permutation(n)])
    return X[late], y[late]


def models_of(model):
    return model.snapshot()["tree"]["leaves"]["models"]


@pytest.mark.parametrize("max_leaf_classes", [2, 5, 12])
def test_a_model_never_has_more_classes_than_allowed(max_leaf_classes):
    X, y = many_classes(6000, classes=30)
    model = LOMTreeClassifier(max_leaf_classes=max_leaf_classes, grace_period=5)
    n_divided = 0
    for start in range(0, len(y), 500):
        model.learn_many(X[start : start + 500], y[start : start + 500])
        tree = model.snapshot()["tree"]
        n_divided = max(n_divided, len(tree["nodes"]) // 2)
        groups = tree["labels"]["group"]
        assert np.bincount(groups[groups >= 0], minlength=1).max() <= max_leaf_classes
        for whole in tree["whole"]:
            models, left = whole["leaves"]["models"], whole["links"]["left"]
            assert all(len(part["classes"]) <= max_leaf_classes for part in models)
            assert {part["node"] for part in models} <= {-1, *np.flatnonzero(left < 0).tolist()}
        assert pickle.dumps(pickle.loads(pickle.dumps(model))) == pickle.dumps(model)
    assert n_divided >= 30 // max_leaf_classes - 1
    assert np.mean(model.predict_many(X) == y) > 0.5  # guessing gives 0.03
    proba = model.predict_proba_many(X[:100])
    assert np.allclose(proba.sum(axis=1), 1.0, rtol=0, atol=1e-9)
    assert (np.array(model.labels)[proba.argmax(axis=1)] == model.predict_many(X[:100])).all()


@pytest.mark.parametrize("max_leaf_classes", [3, 256])
def test_a_tree_that_may_grow_no_more_can_be_trusted(max_leaf_classes):
    """Labels that no group has room for come and go; the rest goes on."""
    model = LOMTreeClassifier(
        max_splits=6, grace_period=5, max_leaf_classes=max_leaf_classes, delta=0.9
    )
    for seed in range(6):
        X, y = many_classes(3000, classes=30, seed=seed)
        half = (X[:, 0] * X[:, 1] > 0) & (X[:, 2] > 0)
        model.learn_many(X, np.where(half, y, (y + seed) % 30))
        assert np.isfinite(model.predict_proba_many(X[:50])).all()
        model._core.check_state(model.snapshot())
        assert model.n_splits <= 6
    assert model.n_splits == 6
    assert np.mean(model.predict_many(X[half]) == y[half]) > 0.1  # guessing gives 0.03


def test_a_large_weight_stays_a_number():
    X, y = blobs(300, classes=3, features=3, spread=3.0)
    model = ModelTreeClassifier()
    for w in (1e100, 1e-300, 1.0, 1e9):
        model.learn_many(X, y, w=np.full(300, w))
        assert np.isfinite(model.predict_proba_many(X)).all()
    assert np.mean(model.predict_many(X) == y) > 0.8


def test_the_order_of_columns_changes_no_bit_of_what_is_said():
    X, y = blobs(1500, classes=5, features=8, spread=1.5)
    names = [f"feature {i}" for i in range(8)]
    plain, shuffled = ModelTreeClassifier(), ModelTreeClassifier()
    for values, label in zip(X.tolist(), y.tolist(), strict=True):
        x = dict(zip(names, values, strict=True))
        plain.learn_one(x, label)
        shuffled.learn_one(dict(reversed(x.items())), label)
    assert plain.n_splits == shuffled.n_splits > 0
    x = dict(zip(names, X[0].tolist(), strict=True))
    assert plain.predict_proba_one(x) == pytest.approx(shuffled.predict_proba_one(x), rel=1e-9)


@pytest.mark.parametrize("scale", [1e-9, 1e-3, 1e3])
def test_the_scale_of_the_weights_is_no_matter_to_a_leaf(scale):
    X, y = blobs(600, classes=3, features=4, spread=2.0)
    plain, weighted = (ModelTreeClassifier(grace_period=1e9) for _ in range(2))
    plain.learn_many(X[:400], y[:400])
    weighted.learn_many(X[:400], y[:400], scale)
    assert plain.predict_many(X[400:]).tolist() == weighted.predict_many(X[400:]).tolist()


def test_models_stay_within_their_size():
    X = np.random.default_rng(5).normal(size=(8000, 6))
    y = ((X[:, 0] > 0) ^ (X[:, 1] > 0)) + 2 * ((X[:, 2] > 0) ^ (X[:, 3] > 0))
    free, bounded = ModelTreeClassifier(), ModelTreeClassifier()
    # less than an estimator may be given
    bounded._core.configure(max_bytes=80_000, **bounded._settings(bounded._get_params()))
    for model in (free, bounded):
        model.learn_many(X, y)
    assert 0 < bounded.n_splits < free.n_splits
    assert bounded._core.learned_bytes <= 50_000 < free._core.learned_bytes


def spoilt(change):
    X, y = blobs(1500, classes=5, features=4, spread=1.5)
    X[:, 0] *= X[:, 1]
    model = ModelTreeClassifier(grace_period=5, delta=0.9)
    model.learn_many(X, y)
    state = pickle.loads(pickle.dumps(model.snapshot()))
    model._core.check_state(state)
    assert state["tree"]["leaves"]["models"][0]["node"] == -1  # the common one
    change(state["tree"])
    return model, state


def put(value, *path):
    def change(tree):
        target = tree
        for key in path[:-1]:
            target = target[key]
        target[path[-1]] = value

    return change


def class_twice(tree):
    classes = tree["leaves"]["models"][0]["classes"]
    classes[0] = classes[1]


MODELS = ("leaves", "models")
SPOILT = {
    "a column of a split": put(4, "nodes", "column", 0),
    "no column of a split": put(-1, "nodes", "column", 0),
    "a split of a leaf": put(0, "nodes", "column", -1),
    "a threshold": put(np.nan, "nodes", "threshold", 0),
    "the norm": put(np.inf, "leaves", "mean_norm"),
    "no list": put({}, *MODELS),
    "no model": put(None, *MODELS, 1),
    "a node out of range": put(10**6, *MODELS, 1, "node"),
    "a node twice": lambda tree: put(tree["leaves"]["models"][1]["node"], *MODELS, 2, "node")(tree),
    "a common model that is none": put(1, *MODELS, 2, "top"),
    "a common model that comes later": put(99, *MODELS, 1, "top"),
    "a class out of range": put(5, *MODELS, 0, "classes", 0),
    "a class twice": class_twice,
    "a stride": put(3, *MODELS, 0, "stride"),
    "a weight": put(np.nan, *MODELS, 0, "linear", "records", 0, 0),
    "a key": put(10**6, *MODELS, 0, "knots", "keys", -1),
    "a count": put(-1.0, *MODELS, 0, "bayes", "knots", "records", 0, 4),
    "a trust": put(0.0, *MODELS, 0, "bayes", "trust"),
    "no counts": put({}, *MODELS, 0, "bayes"),
    "counts of no class": put(0, *MODELS, 0, "bayes", "stride"),
    "a column looked at closely": put(4, *MODELS, 1, "fine", "columns", 0),
    "no column looked at closely": put(np.empty(0, np.int32), *MODELS, 1, "fine", "columns"),
    "a column looked at closely twice": put(np.zeros(2, np.int32), *MODELS, 1, "fine", "columns"),
    "columns looked at closely": put(np.arange(3, dtype=np.int32), *MODELS, 1, "fine", "columns"),
    "a fine knot": put(48 * 2, *MODELS, 1, "fine", "keys", -1),
    "a weight of a fine knot": put(np.inf, *MODELS, 1, "fine", "records", 0, 0),
    "no fine knots": put({}, *MODELS, 1, "fine"),
    "fine knots of a common model": lambda tree: put(
        tree["leaves"]["models"][1]["fine"], *MODELS, 0, "fine"
    )(tree),
    "no bias": put(1, *MODELS, 0, "linear", "keys", 0),
    "losses": put(np.zeros(3, dtype=np.float32), *MODELS, 0, "losses"),
    "a leaf without a model": lambda tree: tree["leaves"]["models"].pop(),
    "a leaf without a search": lambda tree: tree["searches"].pop(),
    "no search": put(None, "searches", -1),
    "a candidate": lambda tree: put(4, 0, "columns", 0)(
        [search for search in tree["searches"] if len(search["columns"])]
    ),
    "the candidates": put(np.zeros((1, 1), dtype=np.float32), "searches", -1, "candidates"),
}


@pytest.mark.parametrize("what", SPOILT)
def test_a_state_that_contradicts_itself_is_refused(what):
    model, state = spoilt(SPOILT[what])
    with pytest.raises(StateError):
        model._core.check_state(state)


def test_a_state_with_counts_that_a_model_does_not_keep_is_refused():
    _, state = spoilt(lambda tree: None)
    model = ModelTreeClassifier(leaf_model="softmax", grace_period=5, delta=0.9)
    with pytest.raises(StateError, match="naive Bayes"):
        model._core.check_state(state)
    for part in state["tree"]["leaves"]["models"]:
        part["bayes"] = None
    with pytest.raises(StateError, match="looks at closely"):
        model._core.check_state(state)


@pytest.mark.parametrize("leaf_model", ["softmax", "adaptive"])
def test_dicts_frames_and_halves_give_the_same_bytes(leaf_model):
    pd = pytest.importorskip("pandas")
    X, y = blobs(900, classes=4, features=5, spread=1.5)
    X[np.random.default_rng(0).random(X.shape) < 0.1] = 0.0
    models = [ModelTreeClassifier(leaf_model=leaf_model, grace_period=5) for _ in range(3)]
    for x, label in zip(as_dicts(X), y.tolist(), strict=True):
        models[0].learn_one(x, label)
    models[1].learn_many(pd.DataFrame(X), pd.Series(y))
    for start, stop in itertools.pairwise((0, 1, 400, 900)):
        models[2].learn_many(X[start:stop], y[start:stop])
    assert len({pickle.dumps(model.snapshot()) for model in models}) == 1


@pytest.mark.parametrize("leaf_model", ["adaptive", "softmax"])
def test_the_largest_steps_leave_probabilities(leaf_model):
    """Scores are then below those of places that have no label, while one label is known say."""
    for seed in range(4):
        rng = np.random.default_rng(seed)
        X, y = rng.normal(size=(100, 3)), rng.integers(3, size=100)
        model = ModelTreeClassifier(leaf_model=leaf_model, learning_rate=1000)
        shares = model.test_then_learn_many(X, y, proba=True)[1:]
        np.testing.assert_allclose(shares.sum(axis=1), 1.0, rtol=1e-6)
