"""Leaf models and trees that were not made for each other."""

import pickle

import numpy as np
import pytest
from support.streams import blobs

from streamtree import SelfTerminatingTreeClassifier
from streamtree._core.kernels.losses import Loss
from streamtree._core.learners.classifier import Classifier
from streamtree._core.leaves.histogram import HistogramLeaves, LeafModel
from streamtree._core.leaves.mixture import MixtureLeaves
from streamtree._core.trees.model import ModelTree
from streamtree._core.trees.prediction.tree import PredictionTree
from streamtree.batches import Batch


def mixtures():
    return MixtureLeaves(has_knots=True, has_rest=True, learning_rate=2.5, max_classes=255)


def prediction_tree(leaves):
    return PredictionTree(
        loss=int(Loss.LOGISTIC), is_linf=False, leaves=leaves, regularization=1e-5,
        depth_penalty=0.0, delta=0.5, grace_period=20.0, max_bins=16,
    )


def model_tree(leaves):
    return ModelTree(leaves, seed=0, grace_period=20.0, delta=0.3)


TREES = {
    "a prediction tree without models": lambda: prediction_tree(None),
    "a prediction tree with mixtures": lambda: prediction_tree(mixtures()),
    "a model tree with naive Bayes": lambda: model_tree(HistogramLeaves(LeafModel.BAYES)),
    "a model tree with linear models": lambda: model_tree(HistogramLeaves(LeafModel.LINEAR)),
    "a model tree with the best": lambda: model_tree(HistogramLeaves(LeafModel.ADAPTIVE)),
}


@pytest.mark.parametrize("name", TREES)
def test_any_tree_has_any_leaf_models(name):
    X, y = blobs(4000, 5, features=6, spread=1.0, seed=4)
    batch, labels = Batch(X), y.tolist()
    core, other = Classifier(TREES[name]()), Classifier(TREES[name]())
    said = core.learn_many(
        batch.rows(), batch.names, batch.first_rows(None), labels, None, "labels"
    )
    known = np.array(core.labels.labels)
    # measured .78 to .88 by tree; guessing gives .2
    assert np.mean(known[said[2000:]] == y[2000:]) > 0.7
    assert core.tree.n_nodes > 1 or "Bayes" in name
    state = core.snapshot()
    other.check_state(state)
    other.restore(state)
    for model in (core, other):
        model.learn_many(batch.rows(), batch.names, batch.first_rows(None), labels, None)
    assert pickle.dumps(core.snapshot()) == pickle.dumps(other.snapshot())


def test_a_model_of_fewer_outputs_than_its_leaf_has_labels_comes_back():
    """As it is of a leaf that met no columns, where memory ran out with a new label."""
    model = SelfTerminatingTreeClassifier()
    for label in range(12):
        model.learn_one({}, label)
    state = model.snapshot()
    (part,) = state["tree"]["leaves"]["models"]
    part["width"], part["records"] = 1, part["records"][:, :, :1].copy()
    for _ in range(200):
        other = model.clone()
        other._core.check_state(state)
        other._core.restore(state)
    other.learn_one({}, 3)
    assert sum(other.predict_proba_one({}).values()) == pytest.approx(1.0)
