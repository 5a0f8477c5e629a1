"""What to use in place of parameters that people bring from river and scikit-learn."""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

__all__ = ["checked", "unknown_parameter"]

Advice = tuple[str | None, str]

_SEED: list[Advice] = [("seed", "it is `seed`"), (None, "there is no chance in it")]
_BYTES = (
    "`max_bytes` bounds what the model takes, in bytes: 100 MiB are max_bytes=100 * 2**20"
)
_DRIFT: list[Advice] = [
    (
        "restarts",
        "changes are followed anyway; where a model errs far more than it did a new one is tried "
        "out beside it, unless `restarts` is False",
    ),
]
_MEMBERS: Advice = ("members", "`members` may hold estimators with parameters of their own")
_GRACE: list[Advice] = [
    _MEMBERS,
    ("grace_period", "`grace_period` is the weight that a leaf sees before it may split"),
    ("window", "`window` says how much is seen before the tree grows"),
    ("warm_up", "`warm_up` says how many rows the tree starts from"),
]
_DEPTH: list[Advice] = [
    _MEMBERS,
    ("depth", "`depth` is the number of splits on the way to a leaf"),
    ("max_nodes", "`max_nodes` bounds the tree"),
    ("max_splits", "`max_splits` bounds the number of inner nodes"),
    ("regularization", "more `regularization` or `depth_penalty` gives smaller trees"),
    ("delta", "leaves split only where that pays; delta=0.01 keeps the tree small"),
    ("window", "the tree is as large as the rows of its `window` need"),
]
_CRITERION: list[Advice] = [
    _MEMBERS,
    ("loss", "`loss` says what splits are to reduce"),
    ("objective", "`objective` says what the splits are trained for"),
    (None, "the method has its own test for splits"),
]
_LEAF: list[Advice] = [
    _MEMBERS,
    ("leaf_model", "`leaf_model` says how leaves predict"),
    ("leaf", "`leaf` says how leaves predict"),
    ("shrinkage", "leaves predict by counts; `shrinkage` draws them to those of the node above"),
    (None, "leaves predict in one way only"),
]
_ENSEMBLE: list[Advice] = [
    ("n_trees", "`n_trees` is the number of randomised trees, `members` what else there is"),
    (None, "this is a single tree; ForestClassifier, ForestRegressor and river.ensemble have many"),
]
_NONE: list[Advice] = [(None, "there is nothing like it here, and no need to set it")]
_WEIGHTS: list[Advice] = [
    ("shuffle", "give weights with the examples: fit(X, y, sample_weight)"),
    (None, "give weights with the examples: learn_one(x, y, w=2.0)"),
]

_NOMINAL: list[Advice] = [
    (None, "it is `nominal_attributes`, for numbers; strings and columns of type category are "
           "categories anyway"),
]

# what to use in place of a name: the first advice whose parameter the estimator has
_KNOWN: dict[str, list[Advice]] = {
    # river's trees and forests
    "max_depth": _DEPTH,
    "max_size": [("max_bytes", _BYTES), ("window", "the `window` bounds the tree")],
    "split_criterion": _CRITERION,
    "leaf_prediction": _LEAF,
    "leaf_model": _LEAF,
    "grace_period": _GRACE,
    "min_samples_split": _GRACE,
    "min_samples_reevaluate": _GRACE,
    "delta": [
        _MEMBERS,
        ("shrinkage", "`shrinkage` says how little a node with few examples is trusted"),
        ("depth", "the tree has a fixed `depth`: nothing is tested before a split"),
    ],
    "tau": [
        ("delta", "there are no ties to break: `delta` alone says how sure a split must be"),
        (None, "splits are not tested for ties"),
    ],
    "binary_split": [(None, "thresholds split in two anyway")],
    "n_branches": [(None, "it is an attribute of the model")],
    "bootstrap_sampling": _DRIFT,
    "drift_window_threshold": _DRIFT,
    "drift_detector": _DRIFT,
    "warning_detector": _DRIFT,
    "switch_significance": _DRIFT,
    **dict.fromkeys(
        ("splitter", "nb_threshold", "min_branch_fraction", "max_share_to_split",
         "memory_estimate_period", "stop_mem_management", "remove_poor_attrs", "merit_preprune",
         "model_selector_decay"), _NONE),
    "n_jobs": [
        ("n_trees", "it is an attribute, no part of the model: model.n_jobs = 2"),
        (None, "a single tree learns in the thread that calls"),
    ],
    "n_models": _ENSEMBLE,
    "lambda_value": _ENSEMBLE,
    # scikit-learn's and LightGBM's
    "n_estimators": _ENSEMBLE,
    "max_features": [(None, "every split looks at all columns")],
    "random_state": _SEED,
    "seed": _SEED,
    "criterion": _CRITERION,
    "min_samples_leaf": _GRACE,
    "min_child_samples": _GRACE,
    "max_leaf_nodes": _DEPTH,
    "num_leaves": _DEPTH,
    "min_impurity_decrease": [
        ("regularization", "`regularization` is what a split must gain"),
        ("delta", "`delta` says how sure a split must be"),
    ],
    "ccp_alpha": [
        ("regularization", "`regularization` is what a split must gain"),
        ("delta", "trees are not pruned; delta=0.01 keeps them small"),
    ],
    "class_weight": _WEIGHTS,
    "sample_weight": _WEIGHTS,
    "alpha": [("penalty_share", "`penalty_share` says how much the penalty counts")],
    "eta": [("learning_rate", "it is `learning_rate`")],
    "eta0": [("learning_rate", "it is `learning_rate`")],
    "categorical_feature": _NOMINAL,
    "categorical_features": _NOMINAL,
}


def unknown_parameter(owner: str, name: str, known: Iterable[str]) -> str:
    """What to say of a parameter that an estimator does not have.

    Parameters
    ----------
    owner
        The public name of the estimator.
    name
        The parameter that was asked for.
    known
        Those that there are.

    """
    names = [each for each in known if each != "self"]
    advices = [text for needs, text in _KNOWN.get(name, []) if needs is None or needs in names]
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.75)
    if advices:
        advice = advices[0]
    elif close:
        advice = f"did you mean `{close[0]}`?"
    else:
        advice = f"it has {', '.join(names)}" if names else "it has none"
    return f"{owner} has no parameter {name!r}: {advice}"


def checked(init: Callable[..., None]) -> Callable[..., None]:
    """A constructor whose errors name the class that was called, and say what to use instead."""
    signature = inspect.signature(init)
    known: Mapping[str, Any] = signature.parameters
    # of a subclass elsewhere, which hands on what it is given
    takes_all = any(each.kind is each.VAR_KEYWORD for each in known.values())

    @functools.wraps(init)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        owner = type(self).__name__
        unknown = [name for name in kwargs if not takes_all and name not in known]
        if unknown:
            raise TypeError("; ".join(unknown_parameter(owner, name, known) for name in unknown))
        try:
            init(self, *args, **kwargs)
        except TypeError:
            # only now, for it takes longer than the constructor
            try:
                signature.bind(self, *args, **kwargs)
            except TypeError as error:
                raise TypeError(f"{owner}: {error}") from None
            raise

    return __init__
