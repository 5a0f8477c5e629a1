"""Forests of a mixture of contexts, and one other member that it corrects."""

from streamtree import ForestClassifier, ForestRegressor
from streamtree._core.learners.explaining import ask_members


def alone(**settings):
    """Besides contexts there is only what says how often labels came."""
    return ForestClassifier(members=("frequencies", "contexts"), **settings)


def numbers_alone(**settings):
    return ForestRegressor(members=("soft", "contexts"), **settings)


def member_said(model, x):
    """The correction."""
    return ask_members(model._core, x)[-1]


def shares_of(model, x):
    """What the whole forest says of the labels, in the order of their coming."""
    shares = model.predict_proba_one(x)
    return [shares[label] for label in model.labels]
