"""Randomised trees that are grown anew from a window of recent rows."""

from __future__ import annotations

import abc
import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from streamtree import inspection
from streamtree._core.stream.features import Category
from streamtree._core.trees.extra.tree import ExtraTree
from streamtree.base import (
    DEFAULT_BYTES,
    StreamTree,
    StreamTreeClassifier,
    StreamTreeRegressor,
    check_integer,
    check_nominal,
    check_number,
    check_seed,
    interval,
)

__all__ = ["ExtraTreeClassifier", "ExtraTreeRegressor"]

# its multiples, without their integers, fill the unit interval evenly: the trees of an ensemble
# over seeds are grown one after the other
_GOLDEN = 0.6180339887498949
# examples from which quantiles are taken: 90 % intervals cover that much on the mean of ten sets
_SAMPLED = 40


class _ExtraTree(StreamTree):
    """What the classifier and the regressor share."""

    _has_numbers: bool

    def __init__(
        self,
        window: int = 10_000,
        shrinkage: float | None = None,
        max_bytes: int | None = DEFAULT_BYTES,
        seed: int | None = None,
        nominal_attributes: list[Any] | tuple[Any, ...] | None = None,
        restarts: bool = True,
    ) -> None:
        self.window = window
        self.shrinkage = shrinkage
        self.max_bytes = max_bytes
        self.seed = seed
        self.nominal_attributes = check_nominal(nominal_attributes)
        self.restarts = restarts
        self._core = self._new_core()

    def _settings(self, params: dict[str, Any]) -> dict[str, Any]:
        strength = params["shrinkage"]
        if strength is not None:
            strength = check_number("shrinkage", strength, at_least=0.01, at_most=1e6)
        return {"strength": strength}

    def _tree_maker(self) -> Callable[[], ExtraTree]:
        length = check_integer("window", self.window, at_least=100, at_most=10**8)
        seed = check_seed(self.seed)
        return functools.partial(
            ExtraTree, has_numbers=self._has_numbers, seed=seed, stagger=seed * _GOLDEN % 1.0,
            window_length=length, strength=self._settings(self.__dict__)["strength"],
        )

    @property
    def _mutable_attributes(self) -> set[str]:
        return {"shrinkage", "max_bytes", "restarts"}

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {}
        yield {"window": 100, "shrinkage": 2.0, "max_bytes": 10**6, "seed": 3}

    def _views(self) -> list[inspection.NodeView]:
        state = self._outline()
        tree, names = state["tree"]["grown"], state["features"]
        nodes = tree["nodes"]
        ends = np.cumsum(nodes["n_labels"]).tolist()
        depths = self._core.depths().tolist()
        views = []
        for node, (fields, end) in enumerate(zip(nodes.tolist(), ends, strict=True)):
            column, _, left, parent, weight, n_labels = fields[:6]
            test = {}
            if left >= 0:
                feature = inspection.feature_of(names[column])
                # of a set, whichever category stands for it
                looked_at = feature if nodes["salt"][node] else names[column]
                test = {
                    "test": self._in_words(state, node),
                    "strengths": {looked_at: 1.0}, "feature": feature,
                }
            branch = ""
            if parent >= 0:
                branch = "no" if nodes["left"][parent] == node else "yes"
            labels = tree["labels"][end - n_labels : end].tolist()
            views.append(inspection.NodeView(
                node, parent, depths[node], branch, weight=weight, **test,
                **self._said(state, self._core.measure("said", node), labels),
            ))
        return views

    def _in_words(self, state: dict[str, Any], node: int) -> str:
        """The test of a node."""
        test = state["tree"]["grown"]["nodes"][node]
        column, threshold = int(test["column"]), float(test["threshold"])
        name, or_missing = state["features"][column], test["missing_right"]
        words = inspection.column_text(name)
        if test["salt"]:
            members, or_missing = self._core.measure("members", node)
            feature = inspection.feature_of(name)
            if not members:
                return f"{inspection.feature_text(feature)} is missing"
            values = [state["features"][member].value for member in members]
            words = inspection.set_test(feature, values)
        elif isinstance(name, Category):
            return words
        elif threshold == np.finfo(np.float32).max:
            return f"{words} is missing"
        else:
            scale = state["scaler"]["columns"][column]
            threshold = inspection.in_present_unit(scale, threshold + float(scale["origin"]))
            words += f" > {inspection.short(threshold)}"
        return words + (" or missing" if or_missing else "")

    @abc.abstractmethod
    def _said(self, state: dict[str, Any], said: Any, labels: list[int]) -> dict[str, Any]:
        """What a node predicts, as a view has it."""


class ExtraTreeClassifier(_ExtraTree, StreamTreeClassifier):
    """Randomised tree: grown anew from recent rows, extended in between, shrunk along the way.

    The tree that ensembles are made of. It finds interactions of columns after few rows, for it
    does not wait until a split is significant: an extremely randomised tree is grown from a window
    of the most recent rows, until every leaf has one label, and again whenever the number of rows
    has grown by half, at the latest every half window (as members of a forest every three quarters
    of one). That is also how it follows a stream that changes. In between a leaf splits as soon as
    rows of several labels are found in it. A node predicts by its counts, drawn to what the node
    above predicts: how strongly is learned from the squared errors of what was predicted so far, so
    that leaves say little over noise.

    Growing goes on in the background, a bounded number of steps for every row, so that no call
    takes much longer than others.

    Parameters
    ----------
    window
        At least 100: the number of rows from which the tree is grown. Fewer follow changes faster.
    shrinkage
        From 0.01 to 1e6: the weight of what the node above predicts in what a node predicts,
        counted in examples. None: it is learned, from 1 on, and stays between 0.01 and 1000; where
        the most frequent label of a node is there z > 1 standard deviations more frequent than
        above, it is divided by z^2. Where other labels are hard to tell, a tree alone then misses
        many examples of a label that few have: with 1.0 it finds more of them, and is right less
        often. For the mean of several trees that learn apart, 1.0 is better than what each of them
        learns for itself; `ForestClassifier(members=("extra",))` learns it for the mean. It may be
        set later; None then goes on with what was learned.
    max_bytes
        At least 262,144, or None for no bound: the memory that all that was learned may take, the
        window included. Where it does not suffice, nodes with few rows are not split, and then the
        window has fewer rows; those do not come back when `max_bytes` is raised.
    seed
        An integer from 0 to 2**64 - 1, which candidates to try; it also delays the first growth, so
        that the trees of an ensemble over seeds are not all grown at the same time. None is as
        good as 0: the model is deterministic either way.
    nominal_attributes
        Names of columns whose numbers are categories, as strings are anyway; of an array, numbers
        of columns.
    restarts
        Whether a new tree may take the place of this one where it errs far more than it did, as
        `ForestClassifier` describes it. It may change while the tree learns.

    Notes
    -----
    Predicting costs O(depth + labels), learning O(depth * labels met there), and growing, over all
    rows, O(depth * sqrt(columns)) for each. A tree takes about 40 bytes a node, and has up to as
    many nodes as the window has rows, more where labels are noise; the window 5 bytes a value.

    Where most columns are absent from most rows their values are kept in lists, and absent is
    zero. A categorical feature is tested for one category against all others, or for a set of
    categories: those of which one row, not chosen for it, has the label of a random one (or a
    larger number). Missing values go to either side of a threshold, or are told from all others;
    where a set is tested they are one category more.

    Weights below a millionth and above a million count as these, and values are held in single
    precision.

    References
    ----------
    [^1]: Geurts, P., Ernst, D. and Wehenkel, L., 2006. Extremely randomized trees. Machine Learning
        63, for growing.
    [^2]: Saffari, A., Leistner, C., Santner, J., Godec, M. and Bischof, H., 2009. On-line random
        forests. ICCV workshops, for splits in between.
    [^3]: Agarwal, A., Tan, Y. S., Ronen, O., Singh, C. and Yu, B., 2022. Hierarchical shrinkage.
        ICML, for predictions along the way.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics
    >>> from streamtree import ExtraTreeClassifier

    >>> model = ExtraTreeClassifier()
    >>> evaluate.progressive_val_score(datasets.ImageSegments(), model, metrics.Accuracy())
    Accuracy: 91.94%

    """

    _has_numbers = False

    def _said(self, state: dict[str, Any], said: Any, labels: list[int]) -> dict[str, Any]:
        if not len(said):
            return {}
        names = state["labels"]
        return {
            "prediction": names[int(said.argmax())],
            "shares": {names[label]: float(said[label]) for label in labels},
        }


class ExtraTreeRegressor(_ExtraTree, StreamTreeRegressor):
    """Randomised tree for numbers: grown anew from recent rows, shrunk along the way.

    The regressor beside `ExtraTreeClassifier`: candidates are compared by the variance that is
    left, and a node predicts its mean, drawn to that of the node above. Unless `shrinkage` is given
    the tree is followed as far as that has paid so far, too: noise is answered with the mean of the
    targets.

    The parameters and the costs are those of `ExtraTreeClassifier`; a tree has about twice as many
    nodes as the window has rows.

    References
    ----------
    [^1]: Geurts, P., Ernst, D. and Wehenkel, L., 2006. Extremely randomized trees. Machine Learning
        63.
    [^2]: Meinshausen, N., 2006. Quantile regression forests. Journal of Machine Learning Research
        7, for quantiles.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics
    >>> from streamtree import ExtraTreeRegressor

    >>> model = ExtraTreeRegressor()
    >>> evaluate.progressive_val_score(datasets.TrumpApproval(), model, metrics.R2())
    R2: 0.184432

    """

    _has_numbers = True

    @property
    def _shrinks(self) -> bool:
        # a number that is given is all there is to it
        return self.shrinkage is None

    def _settings(self, params: dict[str, Any]) -> dict[str, Any]:
        return {**super()._settings(params), "shrinks": params["shrinkage"] is None}

    def predict_one(
        self, x: dict[Any, Any], with_interval: bool = False, confidence_level: float = 0.9
    ) -> Any:
        """The predicted number, 0 before any learning, or an interval around it.

        Parameters
        ----------
        x
            Features by name. Those that were never learned are ignored.
        with_interval
            Whether to return a `river.conf.Interval` in place of the number.
        confidence_level
            Above 0 and below 1: the probability with which the interval is to cover the target. It
            lies between two quantiles of examples that came to the same node, see
            `predict_quantiles_one`, and holds the predicted number, too.

        """
        said = self._core.predict_one(x)
        if not with_interval:
            return said
        level = check_number("confidence_level", confidence_level, above=0, below=1)
        outside = max((1 - level) / 2, 2.0**-53)    # the next one to 0 that is another from 1
        low, high = self.predict_quantiles_one(x, [outside, 1 - outside])
        return interval(min(low, said), max(high, said))

    def predict_quantiles_one(self, x: dict[Any, Any], levels: Sequence[float]) -> list[float]:
        """Quantiles of the target of one example.

        They are those of the examples that the window still has in the lowest node on its way with
        40 of them or more (Meinshausen 2006).

        Parameters
        ----------
        x
            Features by name. Those that were never learned are ignored.
        levels
            Numbers above 0 and below 1.

        Returns
        -------
        A number for every level; all are 0 before any learning.

        """
        if not isinstance(levels, Iterable):
            raise TypeError(f"levels must be numbers in a list, got {levels!r}")
        checked = [check_number("a level", level, above=0, below=1) for level in levels]
        sample = self._core.sample_one(x, _SAMPLED)
        if not sample:
            return [0.0] * len(checked)
        numbers, weights = np.array(sorted(sample)).T
        # so that beyond the least and the largest lies as much as between two others
        places = np.cumsum(weights) / (weights.sum() + weights.mean())
        return [float(number) for number in np.interp(checked, places, numbers)]

    def _said(self, state: dict[str, Any], said: Any, labels: list[int]) -> dict[str, Any]:
        return {"prediction": said}
