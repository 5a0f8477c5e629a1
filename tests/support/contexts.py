"""Forests of a mixture of contexts alone."""

from streamtree import ForestClassifier
from streamtree._core.learners.explaining import ask_members


def alone(**settings):
    """A forest with no other member."""
    return ForestClassifier(members=("contexts",), **settings)


def member_said(model, x):
    """What the mixture says by itself."""
    return ask_members(model._core, x)[0]
