"""Labels that come once each: what is learned of them is that they may come again."""

import pickle
import warnings
from collections.abc import Mapping

import numpy as np
import pytest
from support.estimators import NAMES, as_batch
from support.streams import as_dicts, blobs, prequential

import streamtree
from streamtree import LOMTreeClassifier, ModelTreeClassifier

pytestmark = pytest.mark.filterwarnings("ignore:y has had")
CLASSIFIERS = [name for name in NAMES if name.endswith("Classifier")]
SMALL = {"max_bytes": 10**6}


def flood(n=400, seed=0):
    """Rows of three classes, every other one under a label of its own."""
    X, y = blobs(n, 3, features=4, spread=2.0, seed=seed)
    return X, [f"class {y[i]}" if i % 2 else f"only {i}" for i in range(n)]


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_labels_that_come_once_are_left_out_in_loops_as_in_batches(name):
    X, y = flood()
    estimator = getattr(streamtree, name)
    loop, batch, parts = (estimator(**estimator_settings(estimator)) for _ in range(3))
    said = prequential(loop, as_dicts(X), y)
    assert batch.test_then_learn_many(X, as_batch(y)).tolist() == said
    for start in range(0, len(X), 17):
        parts.learn_many(X[start:start + 17], y[start:start + 17])
    assert pickle.dumps(loop) == pickle.dumps(batch) == pickle.dumps(parts)
    kept = pickle.loads(pickle.dumps(loop))
    assert pickle.dumps(kept) == pickle.dumps(loop)
    if "max_bytes" in estimator_settings(estimator):
        assert len(loop.labels) < 10
        assert {"class 0", "class 1", "class 2"} <= set(loop.labels)


def estimator_settings(estimator):
    return SMALL if "max_bytes" in estimator()._get_params() else {}


def test_a_label_that_comes_again_is_learned():
    X, y = flood()
    model = ModelTreeClassifier(**SMALL)
    model.learn_many(X, y)
    assert "late" not in model.labels
    model.learn_one({0: 9.0}, "late")
    assert "late" not in model.labels
    assert "late" not in model.predict_proba_one({0: 9.0})
    model.learn_one({0: 9.0}, "late")
    assert model.labels[-1] == "late"


@pytest.mark.parametrize("estimator", [ModelTreeClassifier, LOMTreeClassifier])
def test_models_of_leaves_have_no_room_for_labels_that_came_once(estimator):
    X, y = flood()
    model = estimator(**SMALL)
    model.learn_many(X, y)
    assert any(label.startswith("only") for label in model.labels)
    tree = model.snapshot()["tree"]
    leaves = (tree["whole"][0] if "whole" in tree else tree)["leaves"]["models"]
    known = {model.labels[number] for leaf in leaves for number in leaf["classes"]}
    assert known == {"class 0", "class 1", "class 2"}


def test_without_a_bound_every_label_is_learned_at_once():
    model = ModelTreeClassifier(max_bytes=None)
    model.learn_many(np.arange(400.0).reshape(-1, 1), list(range(400)))
    assert model.labels == list(range(400))


def test_far_below_the_bound_labels_wait_if_hardly_any_came_again():
    X, y = flood()
    model = ModelTreeClassifier()
    model.learn_many(X, y)
    assert len(model.labels) == 32
    assert {"class 0", "class 1", "class 2"} <= set(model.labels)
    kept = pickle.loads(pickle.dumps(model))
    for copy in (model, kept):
        copy.learn_one({0: 0.0}, "new")
        assert "new" not in copy.labels
    # once a tenth of them came again, further ones are learned at once
    again = [label for label in model.labels if label.startswith("only")][:2]
    model.learn_many(X[:2], again)
    model.learn_one({0: 0.0}, "newer")
    assert model.labels[-1] == "newer"


@pytest.mark.parametrize("n_classes", [150, 900])
def test_far_below_the_bound_classes_do_not_wait(n_classes):
    y = np.random.default_rng(0).integers(n_classes, size=2000).tolist()
    model = ModelTreeClassifier()
    model.learn_many(np.zeros((2000, 1)), y)
    assert model.labels == list(dict.fromkeys(y))


def test_many_labels_that_come_again_do_not_wait():
    """A stream of many classes: at most a few rows of each are left out, at its beginning."""
    rng = np.random.default_rng(0)
    y = rng.integers(100, size=3000)
    model = ModelTreeClassifier(**SMALL)
    model.learn_many(rng.normal(size=(3000, 2)), y.tolist())
    assert sorted(model.labels) == list(range(100))


def test_the_first_one_that_waits_is_told():
    X, y = flood()
    with pytest.warns(UserWarning, match=r"y has had \d+ different labels, most of them once, the "
                                         r"last '.*': as long as that is so, others are") as told:
        ModelTreeClassifier(**SMALL).learn_many(X, y)
    assert told[0].filename == __file__


class FailsLater(Mapping):
    """A row that can be read once."""

    def __init__(self, row):
        self.row, self.times = row, 0

    def __len__(self):
        return len(self.row)

    def __getitem__(self, name):
        return self.row[name]

    def __iter__(self):
        self.times += 1
        if self.times > 1:
            raise KeyboardInterrupt
        return iter(self.row)


def test_a_batch_that_ends_early_leaves_the_labels_of_its_rows():
    X, y = flood()
    rows = as_dicts(X)
    rows[300] = FailsLater(rows[300])
    model, plain = ModelTreeClassifier(**SMALL), ModelTreeClassifier(**SMALL)
    with pytest.raises(KeyboardInterrupt) as caught:
        model._core.learn_many(rows, [], [], y, None)
    assert caught.value.rows_learned == 300
    plain.learn_many(X[:300], y[:300])
    assert pickle.dumps(model) == pickle.dumps(plain)


def test_what_is_refused_changes_nothing():
    X, y = flood()
    model = ModelTreeClassifier(**SMALL)
    model.learn_many(X, y)
    before = pickle.dumps(model)
    for x, label in (({0: float("inf")}, "only 398"), ({(1, object()): 1.0}, "new"), ({0: 1}, [])):
        with pytest.raises((ValueError, TypeError)):
            model.learn_one(x, label)
    with pytest.raises((ValueError, TypeError)):
        model.learn_many([[1.0]], ["new", "newer"])
    model.learn_one({0: 1.0}, "unlearned", w=0.0)
    assert pickle.dumps(model) == before


def test_labels_of_a_warning_that_raises_are_not_learned():
    X, y = flood()
    model, plain = ModelTreeClassifier(**SMALL), ModelTreeClassifier(**SMALL)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for i, (x, label) in enumerate(zip(as_dicts(X), y, strict=True)):
            try:
                model.learn_one(x, label)
            except UserWarning:
                plain.learn_many(X[:i], y[:i])
                assert pickle.dumps(model) == pickle.dumps(plain)
                break
        else:
            pytest.fail("no warning")


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_while_labels_wait_one_that_is_known_is_predicted(name):
    estimator = getattr(streamtree, name)
    model = estimator(**{**estimator_settings(estimator), "max_bytes": 2**20})
    X = np.arange(100.0).reshape(-1, 1)
    model.learn_many(X, [f"only {i}" for i in range(100)])
    assert len(model.labels) < 100
    assert set(model.predict_many(X)) <= set(model.labels)
    said = model.predict_one({0: 1.0})
    assert model.predict_proba_one({0: 1.0})[said] == model.predict_topk_one({0: 1.0}, 1)[0][1]


@pytest.mark.parametrize("name", ["SoftTreeClassifier", "SelfTerminatingTreeClassifier"])
def test_of_labels_that_the_tree_never_met_the_first_is_predicted(name):
    """As in a forest of which another member lacked memory in the first row."""
    model = getattr(streamtree, name)()
    state = model.snapshot()
    state["labels"] = ["a", "b"]
    state["labels_came_again"] = np.zeros(2, state["labels_came_again"].dtype)
    model._core.check_state(state)
    model._core.restore(state)
    assert model.predict_one({0: 1.0}) == "a"
    assert model.predict_proba_one({0: 1.0}) == {"a": 1.0, "b": 0.0}
