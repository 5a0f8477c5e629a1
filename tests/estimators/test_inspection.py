"""Trees as people read them: every node, every path, every drawing says what the model does."""

import json
import pickle
import re

import numpy as np
import pytest
from support.estimators import as_batch, cases, learned, stream_of, targets_of, tree_cases
from support.streams import as_dicts, changing_rows

from streamtree import (
    LOMTreeClassifier,
    ModelTreeClassifier,
    NonGreedyTreeMultiTargetRegressor,
    SelfTerminatingTreeClassifier,
)
from streamtree._core.stream.features import Shared
from streamtree.inspection import NodeView, importances, split_effects, with_inner_nodes


def grown(estimator, params, n=1500):
    X, y = stream_of(estimator, n, classes=6)
    model = estimator(**params)
    model.learn_many(X, as_batch(y))
    return model, as_dicts(X)


@tree_cases
def test_every_node_is_described_once(estimator, params):
    model, _ = grown(estimator, params)
    frame = model.to_dataframe()
    assert len(frame) == model.n_nodes
    assert frame.index.is_unique
    assert frame["is_leaf"].sum() == model.n_leaves
    assert frame["depth"].max() == model.height
    root = frame.iloc[0]
    assert (root["parent"], root["depth"], root["branch"]) == (-1, 0, "")
    for node, row in frame.iloc[1:].iterrows():
        parent = frame.loc[row["parent"]]
        assert row["depth"] == parent["depth"] + 1
        assert parent["test"]
        assert row["branch"], node
    assert (frame["test"] == "").sum() == model.n_leaves
    assert (frame["weight"] >= 0).all()


@tree_cases
def test_a_path_leads_from_the_root_to_the_leaf_that_predicts(estimator, params):
    model, rows = grown(estimator, params)
    frame = model.to_dataframe()
    for x in [*rows[:10], {}, {"never": 1.0}]:
        path = model.decision_path(x)
        nodes = [step["node"] for step in path]
        text = model.debug_one(x)
        if nodes[-1] is None:
            # leaves that answer together
            assert sum(step["share"] for step in path if step["score"] is None) == (
                pytest.approx(2.0)
            )
            nodes.pop()
        assert nodes[0] == frame.index[0]
        # a branch that no example has taken yet has no leaf
        assert frame.loc[nodes[-1], "is_leaf"] or len(x) < 5
        assert path[-1]["score"] is None
        assert len(nodes) == len(set(nodes))
        for step in path[: len(nodes)]:
            is_leaf = frame.loc[step["node"], "is_leaf"]
            assert step["test"] == frame.loc[step["node"], "test"] or step is path[-1]
            assert (step["score"] is None) == is_leaf or step is path[-1]
            if step["node"] != nodes[0]:
                assert frame.loc[step["node"], "parent"] in nodes
        found = re.findall(r"node (\d+)[ :]", text)
        assert [int(node) for node in found] == nodes


@tree_cases
def test_inspection_does_not_touch_the_model(estimator, params):
    rows, classes = changing_rows(200, 3)
    model = learned(estimator, params, rows, targets_of(estimator, classes))
    before = pickle.dumps(model)
    model.draw()
    model.to_dataframe()
    model.to_dict()
    model.feature_importances()
    model.decision_path(rows[0])
    model.debug_one(rows[0])
    model.contributions_one(rows[0])
    assert pickle.dumps(model) == before


@cases
def test_importances_are_shares(estimator, params):
    model, _ = grown(estimator, params)
    shares = model.feature_importances()
    assert sum(shares.values()) == pytest.approx(1.0)
    assert set(shares) <= set(range(5))
    assert list(shares.values()) == sorted(shares.values(), reverse=True)
    assert min(shares.values()) > 0.0


@cases
def test_importances_of_names_that_share_columns(estimator, params):
    bounded = {**params, "max_bytes": 2**20}
    rows = [{f"word {i}": 1.0, "v": i % 2} for i in range(4000)]
    with pytest.warns(UserWarning, match="share a few columns"):
        model = learned(estimator, bounded, rows, targets_of(estimator, np.arange(4000) % 2))
    shares = model.feature_importances()
    assert any(type(name) is Shared for name in model.snapshot()["features"])
    assert sum(shares.values()) == pytest.approx(1.0) or not shares
    if hasattr(model, "draw"):
        assert model.draw().source


def test_the_feature_that_decides_is_the_most_important():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 6))
    y = (X[:, 4] > 0).astype(int)
    model = ModelTreeClassifier()
    model.learn_many(X, y)
    assert next(iter(model.feature_importances())) == 4


@tree_cases
def test_the_nested_form_is_json(estimator, params):
    rows, classes = changing_rows(300, 3)
    model = learned(estimator, params, rows, targets_of(estimator, classes))
    nested = json.loads(json.dumps(model.to_dict(), allow_nan=False))

    def count(node):
        return 1 + sum(map(count, node["children"]))

    assert count(nested) == model.n_nodes


def test_the_nested_form_tells_names_that_look_alike_apart():
    model = NonGreedyTreeMultiTargetRegressor(depth=1, start="zeros")
    for i in range(40):
        model.learn_one({1: i % 2, "1": i % 3}, {0: float(i % 2), "0": 5.0})
    nested = model.to_dict()
    assert sorted(nested["features"]) == ["'1'", "1"]
    assert sorted(nested["prediction"]) == ["'0'", "0"]
    # also where every node has one of them
    x = np.random.default_rng(0).normal(size=(2000, 2)).tolist()
    tree = ModelTreeClassifier()
    for one, other in x:
        tree.learn_one({1: one, "1": other}, (one > 0) ^ (other > 0))
    nodes, names = [tree.to_dict()], set()
    for node in nodes:
        nodes += node["children"]
        names |= node["features"].keys()
    assert names == {"'1'", "1"}


def test_a_tree_whose_steps_were_too_large_can_be_looked_at():
    """Plain steps on the largest values diverge, until weights are no numbers."""
    X = np.random.default_rng(0).normal(size=(400, 2)) * 1e300
    model = LOMTreeClassifier(algorithm="paper", loss="squared", learning_rate=5.0)
    model.learn_many(X, X[:, 0] > 0)
    assert model.n_splits
    json.dumps(model.to_dict(), allow_nan=False)
    assert all(np.isfinite([*model.feature_importances().values()]))


@tree_cases
def test_before_any_learning_there_is_a_sentence(estimator, params):
    model = estimator(**params)
    assert "Nothing has been learned" in model.debug_one({"a": 1.0})
    assert model.feature_importances() == {}
    assert model.draw().source.startswith("digraph")
    assert len(model.to_dataframe()) == model.n_nodes


def test_inner_nodes_get_the_mean_of_their_leaves():
    views = [
        NodeView(0, -1, 0, test="t", strengths={"a": 1.0}),
        NodeView(1, 0, 1, "<= 0", weight=1.0, prediction="x", shares={"x": 0.75, "y": 0.25}),
        NodeView(2, 0, 1, "> 0", weight=3.0, prediction="y", shares={"y": 1.0}),
    ]
    root = with_inner_nodes(views)[0]
    assert root.weight == 4.0
    assert root.prediction == "y"
    assert root.shares == pytest.approx({"x": 0.1875, "y": 0.8125})
    assert importances(split_effects(with_inner_nodes(views))) == {"a": 1.0}
    numbers = [
        NodeView(0, -1, 0, test="t"),
        NodeView(1, 0, 1, "<= 0", weight=1.0, prediction={"a": 1.0, "b": 0.0}),
        NodeView(2, 0, 1, "> 0", weight=3.0, prediction={"a": 5.0, "b": 4.0}),
    ]
    assert with_inner_nodes(numbers)[0].prediction == {"a": 4.0, "b": 3.0}


def test_importances_are_numbers_where_weights_are_beyond_all():
    model = LOMTreeClassifier(algorithm="paper")
    for i in range(60):
        model.learn_one({"a": 1.7e308 if i % 2 else 1.0, "b": float(i)}, i % 5)
    shares = model.feature_importances()
    assert sum(shares.values()) == pytest.approx(1.0)


@pytest.mark.parametrize("largest", [1.7e308, np.inf])
def test_weights_as_large_as_numbers_can_be_have_shares(largest):
    views = [
        NodeView(0, -1, 0, test="t", strengths={"a": largest, "b": 1.7e308}, prediction=0.0),
        NodeView(1, 0, 1, "<= 0", weight=1.0, prediction=1.0),
    ]
    assert importances(split_effects(views)) == {"a": 0.5, "b": 0.5}

def test_texts_that_no_frame_can_hold_are_represented():
    model = SelfTerminatingTreeClassifier()
    for i in range(400):
        model.learn_one({"\ud800": "a\udc00" if i % 2 else "b"}, "\udfff" if i % 2 else "c")
    frame = model.to_dataframe()
    assert frame["test"].tolist() == [repr("\ud800"), "", ""]
    assert {repr("= a\udc00"), "= b"} <= set(frame["branch"])
    assert repr("\udfff") in frame["prediction"].tolist()
