"""The methods of estimators that are called once a row, without a Python frame between.

An estimator is a Python class around a learner, its `_core`. These functions become methods of
such classes, see `compiled` in streamtree/base.py, which has their documentation.
"""

cimport cython

from streamtree._core.learners.learner cimport Learner


@cython.auto_pickle(False)
cdef class Holder:
    """What estimators are made of: the field that holds their learner, found without a look-up."""

    cdef public Learner _core


class OfLabels:
    """Of classifiers."""

    def learn_one(Holder self, x, y, w=1.0):
        self._core.learn_dict(x, y, w)

    def predict_one(Holder self, x, **kwargs):
        return self._core.predict_dict(x)


class OfNumbers:
    """Of regressors."""

    def learn_one(Holder self, x, y, w=1.0):
        self._core.learn_dict(x, y, w)

    def predict_one(Holder self, x):
        return self._core.predict_dict(x)
