"""The learners as scikit-learn's estimators, under their own names.

    from streamtree.sklearn import ModelTreeClassifier

Every classifier and every regressor of one number is here, with the same parameters. `fit` learns
the rows once, in random order unless `shuffle=False`; `partial_fit` learns them as they come. Rows
are arrays, sparse matrices, or frames, whose strings and categories are categories; NaN is missing.
Columns go by their names if these are strings, else by their places. A call that fails leaves the
estimator as it was. Needs scikit-learn.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterator, Mapping
from numbers import Real
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

try:
    from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
    from sklearn.utils import Tags, check_random_state
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import (
        _check_sample_weight,
        check_is_fitted,
        column_or_1d,
        validate_data,
    )
except ImportError as error:
    raise ImportError(
        "streamtree.sklearn needs scikit-learn 1.6 or later: "
        "pip install 'streamtree-learn[sklearn]'", name=error.name,
    ) from error

import streamtree
from streamtree.base import (
    StreamClassifier,
    StreamRegressor,
    check_nominal,
    comparable,
    public_estimators,
)
from streamtree.batches import eager_frame, take_rows
from streamtree.parameters import checked


class _Wrapped(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """What classifiers and regressors share.

    Attributes
    ----------
    model_
        The learner that was fitted, with all its own methods.
    feature_importances_
        An array with a number for every column. They sum to 1, or to less where names share
        columns for want of room: these count for none.
    n_features_in_, feature_names_in_
        As in all estimators of scikit-learn.

    """

    _estimator: Any
    _frame_backend: Any = None

    def __sklearn_tags__(self) -> Tags:
        """What it takes: missing values, sparse matrices, strings and categories in frames."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn all rows anew.

        Parameters
        ----------
        X
            Of shape (n_rows, n_features).
        y
            n_rows labels, or numbers.
        sample_weight
            n_rows weights, at least 0.

        """
        with self._all_or_nothing():
            for name in ("model_", "classes_"):
                self.__dict__.pop(name, None)
            X, y, weights = self._checked(X, y, sample_weight)
            model = self._threaded(self._new_model())
            if self.shuffle:
                order = check_random_state(self._seed()).permutation(len(y))
                X, y = take_rows(X, order), y[order]
                weights = None if weights is None else weights[order]
            model.learn_many(X, y, weights)
            self.model_ = model
        return self

    def _partial_fit(self, X: Any, y: Any, sample_weight: Any) -> Self:
        X, y, weights = self._checked(X, y, sample_weight)
        if not hasattr(self, "model_"):
            self.model_ = self._new_model()
        # what set_params changed since
        self._configure({name: getattr(self, name) for name in self.model_._get_params()})
        self._threaded(self.model_).learn_many(X, y, weights)
        return self

    @contextlib.contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        """On errors all is as before, unless the model goes on and has learned some rows."""
        before = self.__dict__.copy()
        parameters = self.model_._get_params() if hasattr(self, "model_") else {}
        try:
            yield
        except BaseException as error:
            if not (hasattr(self, "model_") and getattr(error, "rows_learned", False)):
                self.__dict__ = before
                self._configure(parameters)
            raise

    def _configure(self, parameters: Mapping[str, Any]) -> None:
        """Give the model parameters; one that is fixed says so."""
        for name, wanted in parameters.items():
            # as the model keeps it: no names are None
            wanted = tuple(wanted) or None if isinstance(wanted, (list, tuple)) else wanted
            if comparable(getattr(self.model_, name)) == comparable(wanted):
                continue
            if name not in self.model_._mutable_attributes:
                raise AttributeError(
                    f"{name!r} is fixed once rows are learned; `fit` begins anew with another"
                )
            setattr(self.model_, name, wanted)

    def _threaded(self, model: Any) -> Any:
        """The model, at work in as many threads as `n_jobs` says now, if it knows of threads."""
        if hasattr(self, "n_jobs"):
            model.n_jobs = 1 if self.n_jobs is None else self.n_jobs
        return model

    def _asked(self) -> Any:
        """The model, to predict."""
        check_is_fitted(self)
        return self._threaded(self.model_)

    def _new_model(self) -> Any:
        names = inspect.signature(self._estimator).parameters
        return self._estimator(**{name: getattr(self, name) for name in names})

    def _seed(self) -> int:
        seed = getattr(self, "seed", None)
        return 0 if seed is None else int(seed) % 2**32

    def _checked(self, X: Any, y: Any, sample_weight: Any) -> tuple[Any, Any, Any]:
        if y is None:
            name = type(self).__name__
            raise ValueError(f"{name} requires y to be passed, but the target y is None")
        X, y = self._rows(X), column_or_1d(y, warn=True)
        if len(y) != X.shape[0]:
            raise ValueError(f"X has {X.shape[0]} rows, y has {len(y)}")
        self._note_labels(y)
        weights = None
        if sample_weight is not None:
            weights = _check_sample_weight(sample_weight, X, ensure_non_negative=True)
        return X, y, weights

    def _note_labels(self, y: NDArray[Any]) -> None:
        """Numbers have none."""

    def _rows(self, X: Any) -> Any:
        """X as a learner takes it; columns go by their names where they have some."""
        reset = not hasattr(self, "model_")
        if not hasattr(type(X), "columns"):
            X = validate_data(
                self, X, reset=reset, accept_sparse="csr", ensure_all_finite="allow-nan",
                dtype=[np.float64, np.float32, np.uint8],
            )
            if reset:
                self._check_nominal(getattr(self, "feature_names_in_", range(X.shape[1])))
            return self._named(X) if hasattr(self, "feature_names_in_") else X
        frame = eager_frame(X)
        X = frame.to_native()
        validate_data(self, X, reset=reset, skip_check_array=True)
        for size, what in zip(X.shape, ("sample", "feature"), strict=True):
            if not size:
                raise ValueError(f"Found array with 0 {what}(s) (shape={X.shape})")
        if reset:
            self._frame_backend = frame.implementation
        names = getattr(self, "feature_names_in_", range(X.shape[1]))
        if reset:
            self._check_nominal(names)
        if hasattr(X, "set_axis"):
            # a frame of pandas may have names that are no strings
            return X if list(X.columns) == list(names) else X.set_axis(names, axis=1)
        # other frames go by places where there were no names
        return X if hasattr(self, "feature_names_in_") else self._rows(np.asarray(X))

    def _check_nominal(self, names: Any) -> None:
        """Raise for names of `nominal_attributes` that no column has."""
        known = set(names)
        for name in check_nominal(self.nominal_attributes) or ():
            if name not in known:
                raise ValueError(
                    f"nominal_attributes: there is no column {name!r}; columns go by their names "
                    "if all of them are strings, else by their places from 0"
                )

    def _named(self, X: Any) -> Any:
        """An array or a sparse matrix as a frame like the one that was fitted."""
        import narwhals.stable.v2 as nw

        cells = X.toarray() if hasattr(X, "tocsr") else X
        names = list(self.feature_names_in_)
        return nw.from_numpy(cells, names, backend=self._frame_backend).to_native()

    @property
    def feature_importances_(self) -> NDArray[np.float64]:
        """By how much every column moves predictions, by tests and leaf models."""
        check_is_fitted(self)
        names = getattr(self, "feature_names_in_", range(self.n_features_in_))
        shares = self.model_.feature_importances()
        return np.array([shares.get(name, 0.0) for name in names])


class _WrappedClassifier(ClassifierMixin, _Wrapped):  # type: ignore[misc]
    """Labels are those of y; `classes_` has them in order."""

    classes_: NDArray[Any]

    def partial_fit(
        self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None
    ) -> Self:
        """Learn more rows, as they come.

        Parameters
        ----------
        X, y, sample_weight
            As in `fit`.
        classes
            All labels there will be, in the first call. Without them, labels may be new at any
            time, and `classes_` grows.

        """
        with self._all_or_nothing():
            if classes is not None:
                given = np.unique(classes)
                if hasattr(self, "classes_") and not np.array_equal(given, self.classes_):
                    raise ValueError(
                        f"classes={classes!r} differ from those before: {self.classes_}"
                    )
                self.classes_, self._are_given = given, True
            return self._partial_fit(X, y, sample_weight)

    def _note_labels(self, y: Any) -> None:
        if y.dtype.kind not in "biuUS":  # others may be no labels: the check costs as much again
            check_classification_targets(y)
        found = np.unique(y)
        if not hasattr(self, "classes_"):
            self.classes_, self._are_given = found, False
        if self._are_given:
            known = set(self.classes_.tolist())
            for label in found.tolist():
                if label not in known:
                    raise ValueError(f"y has {label!r}, which is not in classes={self.classes_}")
            return
        new, old = found.tolist()[0], self.classes_.tolist()[0]
        if len({Real if isinstance(label, Real) else type(label) for label in (new, old)}) > 1:
            raise ValueError(f"y has labels like {new!r}, but those before are like {old!r}")
        self.classes_ = np.union1d(self.classes_, found)

    def predict(self, X: Any) -> NDArray[Any]:
        """The most likely label of every row."""
        said: NDArray[Any] = self._asked()._predict_array(self._rows(X))
        return said.astype(self.classes_.dtype, copy=False)

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """The probability of every label, columns in the order of `classes_`."""
        shares = np.asarray(self._asked().predict_proba_many(self._rows(X)))
        # another thread may have learned a label since
        classes, labels = self.classes_, np.asarray(self.model_.labels[: shares.shape[1]])
        table = np.zeros((len(shares), len(classes)))
        table[:, np.searchsorted(classes, labels.astype(classes.dtype, copy=False))] = shares
        return table

    def predict_log_proba(self, X: Any) -> NDArray[np.float64]:
        """The logarithms of these."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))


class _WrappedRegressor(RegressorMixin, _Wrapped):  # type: ignore[misc]
    """A regressor of one number."""

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn more rows, as they come; the parameters are those of `fit`."""
        with self._all_or_nothing():
            return self._partial_fit(X, y, sample_weight)

    def predict(self, X: Any) -> NDArray[np.float64]:
        """The predicted number of every row."""
        said: NDArray[np.float64] = self._asked()._predict_array(self._rows(X))
        return said


def _wrapped(estimator: type[Any], kind: type[_Wrapped]) -> type[_Wrapped]:
    """The estimator of scikit-learn that has the parameters of one of ours, and a few more."""
    signature = inspect.signature(estimator)
    own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    more = {"shuffle": True} | ({"n_jobs": None} if hasattr(estimator, "n_jobs") else {})
    full = signature.replace(parameters=[
        own, *signature.parameters.values(),
        *(
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=value)
            for name, value in more.items()
        ),
    ])

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        bound = full.bind(self, *args, **kwargs)
        bound.apply_defaults()
        for name, value in list(bound.arguments.items())[1:]:
            setattr(self, name, value)

    __init__.__signature__ = full  # type: ignore[attr-defined]
    __init__ = checked(__init__)
    name = estimator.__name__
    doc = (
        f"`streamtree.{name}` as an estimator of scikit-learn, with the same parameters.\n\n"
        "`shuffle=False` lets `fit` learn the rows in their order."
        + (" `n_jobs` is the number of threads, -1 for one a processor." * ("n_jobs" in more))
    )
    namespace = {
        "__init__": __init__, "__doc__": doc, "__module__": __name__, "_estimator": estimator,
    }
    return type(name, (kind,), namespace)


def _all_wrapped() -> dict[str, type[_Wrapped]]:
    kinds = {StreamClassifier: _WrappedClassifier, StreamRegressor: _WrappedRegressor}
    return {
        name: _wrapped(estimator, wrapper)
        for name, estimator in sorted(public_estimators().items())
        for kind, wrapper in kinds.items()
        if issubclass(estimator, kind) and getattr(streamtree, name, None) is estimator
    }


# a family that is added is here by itself
_CLASSES = _all_wrapped()
globals().update(_CLASSES)
__all__ = list(_CLASSES)


def __getattr__(name: str) -> Any:
    raise AttributeError(f"streamtree.sklearn has no {name!r}, only {', '.join(__all__)}")
