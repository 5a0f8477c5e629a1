"""Names of parameters that people bring from river and scikit-learn."""

import inspect
import pickle

import pytest
from river import forest, tree
from support.estimators import ESTIMATORS

import streamtree
from streamtree.base import StreamModel

BROUGHT = sorted({
    name
    for kind in (
        tree.HoeffdingTreeClassifier, tree.HoeffdingAdaptiveTreeClassifier,
        tree.ExtremelyFastDecisionTreeClassifier, tree.HoeffdingTreeRegressor,
        forest.ARFClassifier,
    )
    for name in inspect.signature(kind).parameters
    if name not in ("aggregation_method", "disable_weighted_vote", "metric")
} | {"random_state", "n_estimators", "class_weight", "max_leaf_nodes", "n_jobs"})


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_every_parameter_of_rivers_trees_is_there_or_answered(estimator):
    known = list(inspect.signature(estimator).parameters)
    for name in BROUGHT:
        if name in known:
            continue
        with pytest.raises(TypeError) as caught:
            estimator(**{name: 1})
        said = str(caught.value)
        assert said.startswith(f"{estimator.__name__} has no parameter {name!r}: ")
        advice = said.partition(": ")[2]
        # an answer, not the list of all there are
        assert not advice.startswith("it has "), said
        # what it tells to use is there
        for word in advice.split("`")[1::2]:
            assert word in known, said


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_errors_name_the_public_class(estimator):
    with pytest.raises(TypeError, match=f"^{estimator.__name__} has no parameter 'nonsense': it h"):
        estimator(nonsense=1)
    with pytest.raises(TypeError, match=f"^{estimator.__name__}: too many positional arguments"):
        estimator(*[None] * 40)


def test_a_slip_of_the_pen_finds_its_name():
    with pytest.raises(TypeError, match="did you mean `learning_rate`"):
        streamtree.ModelTreeClassifier(learning_rates=1.0)
    with pytest.raises(TypeError, match=r"100 \* 2\*\*20"):
        streamtree.ModelTreeClassifier(max_size=100)


def test_a_class_of_ones_own_is_named():
    class Own(streamtree.SoftTreeRegressor):
        pass

    assert Own(window=50.0).window == 50.0
    with pytest.raises(TypeError, match=r"^Own has no parameter 'max_size': `max_bytes` bounds"):
        Own(max_size=3)


def test_a_class_of_ones_own_may_hand_on_what_it_is_given():
    class Own(streamtree.SoftTreeRegressor):
        def __init__(self, note="", **kwargs):
            self.note, self.kwargs = note, kwargs
            super().__init__(**kwargs)

    model = Own("mine", window=50.0).clone()
    assert (model.note, model.window) == ("mine", 50.0)
    with pytest.raises(TypeError, match=r"^Own has no parameter 'max_size': `max_bytes` bounds"):
        Own(max_size=3)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_signatures_and_pickles_are_as_they_were(estimator):
    signature = inspect.signature(estimator)
    assert "self" not in signature.parameters
    assert all(p.kind is p.POSITIONAL_OR_KEYWORD for p in signature.parameters.values())
    model = estimator()
    assert type(pickle.loads(pickle.dumps(model))) is estimator
    assert model.n_branches == 0


def test_the_shape_of_a_tree_by_rivers_names():
    model = streamtree.SelfTerminatingTreeClassifier()
    for i in range(2000):
        model.learn_one({"a": float(i % 10), "b": "xyz"[i % 3]}, i % 10 > 4)
    assert model.n_branches == model.n_nodes - model.n_leaves > 0
    assert isinstance(model, StreamModel)


def test_scikit_learns_doors_say_the_same():
    sklearn = pytest.importorskip("streamtree.sklearn")
    with pytest.raises(TypeError, match=r"^ModelTreeClassifier has no .*: it is `seed`"):
        sklearn.ModelTreeClassifier(random_state=0)
    with pytest.raises(TypeError, match="too many positional"):
        sklearn.SoftTreeRegressor(*[1] * 40)
