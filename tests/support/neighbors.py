"""Forests of nearest neighbours alone."""

from streamtree import ForestClassifier, ForestRegressor
from streamtree._core.learners.explaining import ask_members


def alone(make=ForestClassifier, **settings):
    """A forest with no other member."""
    return make(members=("neighbors",), **settings)


def numbers_alone(**settings):
    return alone(ForestRegressor, **settings)


def member_said(model, x):
    """What the neighbours say by themselves."""
    return ask_members(model._core, x)[0]
