"""Forests: trees of every family over one look at the row, pooled by what they are worth."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar

from streamtree import inspection
from streamtree._core.ensembles.ensemble import Exchange
from streamtree._core.ensembles.extratrees import extra_trees
from streamtree._core.ensembles.pools import LinearPool, LogLinearPool, alone, pooled
from streamtree._core.learners.explaining import ask_members
from streamtree._core.trees.additive import AdditiveMeans
from streamtree._core.trees.boosted.tree import BoostedTrees
from streamtree._core.trees.contexts.tree import ContextMeans, ContextTree
from streamtree._core.trees.frequencies import FrequencyTree
from streamtree._core.trees.neighbors.tree import NeighborMeans, NeighborTree
from streamtree.base import (
    DEFAULT_BYTES,
    StreamClassifier,
    StreamModel,
    StreamRegressor,
    check_bool,
    check_integer,
    check_nominal,
    check_seed,
    interned,
    is_itself,
    parameter_names,
)
from streamtree.extratree import ExtraTreeClassifier, ExtraTreeRegressor
from streamtree.lomtree import LOMTreeClassifier
from streamtree.modeltree import ModelTreeClassifier
from streamtree.nongreedy import NonGreedyTreeClassifier, NonGreedyTreeRegressor
from streamtree.selfterminating import (
    SelfTerminatingTreeClassifier,
    SelfTerminatingTreeRegressor,
)
from streamtree.softtree import SoftTreeClassifier, SoftTreeRegressor

__all__ = ["ForestClassifier", "ForestRegressor"]

# the randomised trees begin with this part of the whole, the others share the rest
_EXTRA_PART = 0.5
# Of the boosted trees: how many there are, and which part of what it could say each says. With 100
# and 0.2 forests are more accurate by .0002 over 39 sets, and take a sixth more time.
_BOOSTED_TREES = 60
_BOOSTED_RATE = 0.25
# what says how often labels came, whatever the row, and how many of the last rows it remembers
_MEMORIES = {"recent_labels": 20, "frequencies": 1000}
# members that have next to nothing to say before they have learned
_LATE = ("extra", "neighbors", *_MEMORIES)
# the member that corrects what the others say, and how far it is followed at first
_CORRECTS = "contexts"
_FIRST_CORRECTION = 0.5
# and those of which the core says how far columns move them
_MOVED = ("additive", "boosted", "contexts", "neighbors")
# what is named as a member, and is the pool's
_LAST_TARGETS = "last_targets"
# Of trees that seeds tell apart, in bits. The bits of a seed for which these leave no room are
# spread over the others by an odd number, so that no two seeds give the same trees.
_SEED_BITS = 10
_SPREAD = 0x9E3779B97F4A7C15


class _Forest(StreamModel):
    """What the classifier and the regressor share."""

    # what `members` may name, besides "extra": a family, or None for what is no tree
    _families: ClassVar[Mapping[str, type[StreamModel] | None]]
    # the members by default
    _defaults: tuple[str, ...]
    _extra: type[StreamModel]
    _kind: type[StreamModel]
    _pool: Any

    def __init__(
        self,
        n_trees: int = 10,
        members: tuple[Any, ...] | None = None,
        window: int = 10_000,
        max_bytes: int | None = DEFAULT_BYTES,
        seed: int | None = None,
        nominal_attributes: list[Any] | tuple[Any, ...] | None = None,
        restarts: bool = True,
    ) -> None:
        self._keep(n_trees, members, window, max_bytes, seed, nominal_attributes, restarts)
        self._core = self._new_core()

    def _keep(
        self, n_trees: int, members: tuple[Any, ...] | None, window: int, max_bytes: int | None,
        seed: int | None, nominal_attributes: list[Any] | tuple[Any, ...] | None, restarts: bool,
    ) -> None:
        """Keep the parameters that all forests have."""
        self.n_trees = n_trees
        self.members = _unshared(members)
        self.window = window
        self.max_bytes = max_bytes
        self.seed = seed
        self.nominal_attributes = check_nominal(nominal_attributes)
        self.restarts = restarts

    def _settings(self, params: dict[str, Any]) -> dict[str, Any]:
        return {}

    def _plan(self) -> dict[str, StreamModel | None]:
        """Every member by its name, in order: an estimator, None for what is made here.

        "extra" is not among them where there are to be no randomised trees, and "last_targets"
        never: these are for the pool. "contexts", which correct the others, are the last.
        """
        members = self._named_members()
        if not isinstance(members, tuple):
            raise TypeError(
                f"members must be a tuple of names and estimators, got {type(members).__name__}"
            )
        plan: dict[str, StreamModel | None] = {}
        for member in members:
            name = self._name_of(member)
            if isinstance(member, str):
                if members.count(member) > 1:
                    raise ValueError(f"members must be different, {member!r} is there twice")
                template = self._named(member)
            else:
                template = member
                n = 1
                while name in plan:
                    n += 1
                    name = f"{type(member).__name__} {n}"
            if name != _LAST_TARGETS and (name != "extra" or self.n_trees):
                plan[name] = template
        if _CORRECTS in plan:
            plan[_CORRECTS] = plan.pop(_CORRECTS)
        if not set(plan) - {_CORRECTS}:
            leaves_out = ", and n_trees=0 leaves out 'extra'" if "extra" in members else ""
            raise ValueError(f"members must hold at least one that predicts{leaves_out}")
        return plan

    @property
    def _is_corrected(self) -> bool:
        """Whether the last member corrects the others."""
        return _CORRECTS in self._named_members()

    def _named_members(self) -> Any:
        return self._defaults if self.members is None else self.members

    def _name_of(self, member: Any) -> str:
        """The name of a member; raises if it cannot be one."""
        if isinstance(member, str):
            names = ["extra", *self._families]
            if member not in names:
                raise ValueError(
                    f"members must be {', '.join(map(repr, names))} or estimators, got {member!r}"
                )
        elif not is_itself(member, self._kind):
            what = "classifiers" if issubclass(self._kind, StreamClassifier) else "regressors"
            raise TypeError(
                f"members must be names or {what} of streamtree, got {type(member).__module__}."
                f"{type(member).__name__}"
            )
        elif member._nominal != self._nominal and member._nominal:
            raise ValueError(
                f"member {type(member).__name__} reads what the forest reads: give "
                "nominal_attributes to the forest"
            )
        return member if isinstance(member, str) else type(member).__name__

    def _named(self, name: str) -> StreamModel | None:
        """An estimator by its defaults, with the seed of the forest; None for what is made here."""
        family = self._families.get(name)
        if family is None:
            return None
        given = {"seed": self.seed, "max_bytes": self.max_bytes}
        known = parameter_names(family) or ()
        try:
            return family(**{key: value for key, value in given.items() if key in known})
        except ValueError as error:
            raise ValueError(f"member {name!r}: {error}") from None

    def _seed_of_tree(self, i: int) -> int:
        seed = int(self.seed or 0)
        return ((seed << _SEED_BITS | i) ^ (seed >> 64 - _SEED_BITS) * _SPREAD) % 2**64

    def _tree_maker(self) -> Callable[[], Any]:
        n_trees = check_integer("n_trees", self.n_trees, at_least=0, at_most=1000)
        window = check_integer("window", self.window, at_least=100, at_most=10**8)
        check_seed(self.seed)
        plan = self._plan()
        has_numbers = issubclass(self._kind, StreamRegressor)
        made_here: dict[str, Callable[[], Any]] = {
            "extra": functools.partial(
                extra_trees, [self._seed_of_tree(i) for i in range(n_trees)],
                window_length=window, strength=None, has_numbers=has_numbers,
            ),
            "boosted": functools.partial(
                BoostedTrees, seed=self.seed or 0, window_length=window,
                n_trees=_BOOSTED_TREES, rate=_BOOSTED_RATE, has_numbers=has_numbers,
            ),
            "additive": AdditiveMeans,
            "contexts": ContextMeans if has_numbers else ContextTree,
            "neighbors": NeighborMeans if has_numbers else NeighborTree,
        }
        made_here |= {
            name: functools.partial(FrequencyTree, rows) for name, rows in _MEMORIES.items()
        }
        makers = {
            name: made_here[name] if template is None else self._maker_of(template)
            for name, template in plan.items()
        }
        return functools.partial(
            pooled, self._pool, makers, self._first_weights(list(plan)),
            **self._settings(self.__dict__), **self._pool_settings(),
        )

    def _pool_settings(self) -> dict[str, Any]:
        """What the pool is to know besides, for good."""
        return {}

    def _spread(self, here: list[bool]) -> Exchange:
        """Begin anew with only some of the members; returns what passes between processes.

        The state is then that of the forest without the others.
        """
        exchange = Exchange(here)
        make_tree: Callable[..., Any] = self._tree_maker()
        self._core = self._core_maker(functools.partial(make_tree, exchange=exchange))()
        return exchange

    def _maker_of(self, template: StreamModel) -> Callable[[], Any]:
        make_tree = template._tree_maker()
        if isinstance(template, self._extra):
            # while it learns, a randomised tree writes where a pool keeps what it said
            return functools.partial(alone, make_tree)
        return make_tree

    @staticmethod
    def _first_weights(names: list[str]) -> list[float]:
        """What members have to say before anything was learned."""
        if _CORRECTS in names:
            return [*_Forest._first_weights(names[:-1]), _FIRST_CORRECTION]
        others = [name for name in names if name not in _LATE]
        extra = (_EXTRA_PART if others else 1.0) if "extra" in names else 0.0
        weights = {name: (1.0 - extra) / len(others) for name in others} | {"extra": extra}
        late = 0.0 if others or extra else 1.0 / len(names)
        return [weights.get(name, late) for name in names]

    @property
    def _mutable_attributes(self) -> set[str]:
        return {"max_bytes", "restarts"}

    @property
    def n_jobs(self) -> int:
        """The threads that share the rows of a batch, 1 at first; -1 for one a processor.

        Arrays, sparse matrices and frames are learned and predicted by so many threads, without
        the interpreter's lock; single examples and batches of few rows by one. Whatever the number,
        the model is the same, and so is what it says. It belongs to the object at hand: copies,
        pickles and files begin with 1.
        """
        return int(self._core.n_jobs)

    @n_jobs.setter
    def n_jobs(self, n_jobs: int) -> None:
        n_jobs = check_integer("n_jobs", n_jobs, at_least=-1, at_most=1024)
        if n_jobs == 0:
            raise ValueError("n_jobs must be -1 or at least 1, got 0")
        self._core.n_jobs = (os.cpu_count() or 1) if n_jobs < 0 else n_jobs

    # ------------------------------------------------------------------------- inspection

    @property
    def member_weights(self) -> dict[str, float]:
        """How much every member has to say, by its name.

        Of a classifier the exponents of the pool, from -1 to 8: they need not sum to one. Of a
        regressor the shares in the mean, which do; what corrects it comes on top. Of contexts, the
        last one, how far what they add is followed.
        """
        with self._core.intake.lock.reading():
            weights = self._core.tree.weights
        return dict(zip(self._plan(), weights, strict=True))

    def member(self, name: str, tree: int | None = None) -> Any:
        """A copy of a member as a model of its own: to draw, say, or to ask.

        It predicts what the member says in the forest, and goes on learning by itself.

        Parameters
        ----------
        name
            One of `member_weights`.
        tree
            Of `"extra"`: which of the randomised trees, from 0 to `n_trees` - 1.

        Raises
        ------
        ValueError
            If there is no such member, or it is one that stands in forests only: `"additive"`,
            `"boosted"`, `"contexts"`, `"neighbors"`, `"recent_labels"` and `"frequencies"`.

        Examples
        --------
        >>> from river import datasets
        >>> from streamtree import ForestClassifier

        >>> forest = ForestClassifier()
        >>> for x, y in datasets.Phishing():
        ...     forest.learn_one(x, y)
        >>> forest.member("model").predict_one(x) in forest.labels
        True
        >>> forest.member("extra", tree=0).draw(max_depth=2).source.partition(" ")[0]
        'digraph'

        """
        plan = self._plan()
        if name not in plan:
            names = ", ".join(map(repr, plan))
            raise ValueError(f"the members are {names}; there is no {name!r}")
        if plan[name] is None and name != "extra":
            raise ValueError(f"there is no estimator for {name!r}: it stands in forests only")
        if name != "extra":
            if tree is not None:
                raise ValueError(f"member {name!r} has one tree: `tree` must be None")
            return self._copies(plan, name, self._core.snapshot())[0]
        if tree is None:
            raise ValueError("`tree` must say which of the randomised trees")
        number = check_integer("tree", tree, at_least=0, at_most=self.n_trees - 1)
        return self._copies(plan, name, self._core.snapshot(), [number])[0]

    def _copies(
        self, plan: Mapping[str, Any], name: str, state: dict[str, Any],
        numbers: list[int] | None = None,
    ) -> list[Any]:
        """The trees of a member, all or some, as models of their own."""
        # a forest that learns beside this one is none of its members
        state = {key: value for key, value in state.items() if key != "challenge"}
        part = state["tree"]["members"][str(list(plan).index(name))]
        if isinstance(plan[name], self._extra):
            part = part["members"]["0"]
        if name != "extra":
            member = plan[name].clone({"nominal_attributes": self.nominal_attributes})
            return [_restored(member, {**state, "tree": part})]
        shared = {"window": part["window"], "strength": part["strength"]}
        return [
            _restored(
                self._extra(
                    window=self.window, seed=self._seed_of_tree(i),
                    nominal_attributes=self.nominal_attributes,
                ),
                {**state, "tree": {**part["members"][str(i)], **shared}},
            )
            for i in (range(self.n_trees) if numbers is None else numbers)
        ]

    def feature_importances(self) -> dict[Any, float]:
        """By how much every feature moves predictions, as shares that sum to 1, largest first.

        It is the mean of the members' importances, by how much they have to say, for what they
        expect or, with an exponent below 0, against it; of the randomised trees the mean of all, of
        the boosted ones by how much their splits lowered the loss, of contexts by how far their
        evidence, weighted, was from that of labels on average, of neighbors by how far rows are
        apart, as weighted.
        """
        plan = self._plan()
        with self._core.intake.lock.reading():
            weights, state = self._core.tree.weights, self._core.snapshot()
            moved = {
                name: self._core.tree.moved(m)
                for m, name in enumerate(plan) if name in _MOVED
            }
        totals: dict[Any, float] = {}
        for name, weight in zip(plan, weights, strict=True):
            if weight == 0.0 or name in _MEMORIES:
                continue
            if name in moved:
                parts = [inspection.shares_of_features(moved[name], state["features"])]
            else:
                parts = [tree.feature_importances() for tree in self._copies(plan, name, state)]
            for importances in parts:
                for feature, share in importances.items():
                    totals[feature] = totals.get(feature, 0.0) + abs(weight) * share / len(parts)
        whole = sum(totals.values())
        return dict(inspection.strongest({name: part / whole for name, part in totals.items()}))

    def debug_one(self, x: dict[Any, Any]) -> str:
        """Tell how the prediction of one example comes about: member by member, then by feature.

        What every member says stands beside what it has to say, see `member_weights`; the last
        line says what `predict_one` says.
        """
        with self._core.intake.lock.reading():
            if not self._core.features.names and self._core.intake.scaler.snapshot()["rows"] == 0:
                return "Nothing has been learned yet: all members are empty."
            weights = self.member_weights
            opinions = ask_members(self._core, x)
            made_of, said = self.contributions_one(x), self._said(x)
        width = max(map(len, weights))
        lines = [
            f"{name:{width}}  weight {weight:+.4f}: "
            + (self._added(opinion) if name == _CORRECTS else self._in_words(opinion))
            for (name, weight), opinion in zip(weights.items(), opinions, strict=True)
        ]
        lines += self._corrections(x, weights, opinions)
        lines += self._contributions_text(made_of, x)
        return "\n".join([*lines, f"predicts {said}"])

    def _corrections(
        self, x: dict[Any, Any], weights: dict[str, float], opinions: list[Any]
    ) -> list[str]:
        """In words, what a pool adds to what its members say."""
        return []

    @property
    def summary(self) -> dict[str, float]:
        """The shape of the forest in a few numbers."""
        return {
            "n_members": len(self._plan()),
            "n_nodes": self.n_nodes,
            "n_leaves": self.n_leaves,
            "height": self.height,
            "n_features": len(self._core.features),
        }


def _restored(model: StreamModel, state: dict[str, Any]) -> StreamModel:
    # how the forest has erred is not how its member has
    model._core.restore({**state, "course": model._core.snapshot()["course"]})
    return model


def _unshared(members: Any) -> Any:
    """What was given as members, with estimators that are nobody else's and have learned nothing.

    A pair of class and parameters stands for an estimator, as in river's parameters.
    """
    if not isinstance(members, (tuple, list)):
        return members
    return tuple([
        member.clone() if is_itself(member, StreamModel)
        else member[0](**member[1])
        if isinstance(member, tuple) and len(member) == 2 and isinstance(member[0], type)
        else interned(member)
        for member in members
    ])


class ForestClassifier(_Forest, StreamClassifier):
    """Forest: randomised, boosted and other trees of every family, pooled by what each is worth.

    The most accurate learner here, for 7 to 17 times the time of a single tree. A row is
    read, scaled and encoded once; every member learns it and says, in the same call, what it would
    have predicted. Members of different kinds err on different rows: randomised trees find how
    columns act together, after few rows, and boosted ones where exactly, after more; additive
    leaves and gates find what adds up; the rows that are most like this one say what came with
    them; how often labels came lately is known to two more; and a mixture of contexts finds where
    all of these together are wrong.

    What the members say is pooled in proportion to the product of their probabilities, each to the
    power of an exponent; what contexts say, times another, is added to the logarithms. The
    exponents are learned on the log loss of the pool, by a step of Newton's method after every row:
    so a member counts for as much as it adds to the others, lately. Changes are followed by that,
    by randomised trees that are grown anew from recent rows, and by what each family does itself;
    no detector is needed.

    Parameters
    ----------
    n_trees
        From 0 to 1000: the number of randomised trees. They share a window, and are one member:
        their mean is pooled.
    members
        Names, or classifiers of streamtree, forests included, as models for members: their
        parameters are taken, what they have learned is not. The names: `"extra"`, the randomised
        trees; `"boosted"`, sixty trees that are grown one for what the others miss, all of them
        anew from recent rows; `"model"`, `"soft"`, `"non_greedy"`, `"self_terminating"` and
        `"lom"`, a tree of that family by its defaults; `"contexts"`, which correct what the others
        say, by how much oftener labels came than they were expected with columns in bins, one, two
        and three at a time, with whole numbers that may be names, and with the last labels;
        `"neighbors"`, what labels the nearest of the last 8,192 rows have, by a
        distance that is learned; `"recent_labels"` and `"frequencies"`, how often each label came
        among the last 20 rows or so, and the last 1,000, whatever the columns. None: all of them
        but `"lom"`, `"non_greedy"` and `"self_terminating"`, which take more time than they bring
        beside the others.
    window
        At least 100: the number of recent rows from which the randomised trees and the boosted ones
        are grown. Fewer follow changes faster.
    max_bytes
        At least 262144, or None for any number: the bytes that the forest may take in all, with
        names, labels and what its members have learned; not with room for the row at hand. Members
        that run short get what others do not need. When all run short, they grow no more, each in
        its own way. New names then share a few columns, which `learn_one` warns of long before,
        and a label that finds no room is refused with a ValueError. The trees of `"non_greedy"`
        take half a megabyte to begin with.
    seed
        An integer from 0 to 2**64 - 1: which candidates the randomised trees try, and the seed of
        the families that have one. None is as good as 0: the model is deterministic either way.
    nominal_attributes
        Names of columns whose numbers are categories, as strings are anyway; of an array, numbers
        of columns.
    restarts
        Whether a new forest may take the place of this one. It learns beside this one where the
        log losses of the last 100 rows or so are above .2, above those of the first 1,000 rows,
        and either twice what they are on average (of a single tree: 1.5 times) or both 1.25 times
        that average and more than those of a guess. It takes its place once its losses, of which
        none counts for more than that of a guess, are less by a tenth, and the other way round.
        When they have not changed places for 2,048 rows, or parameters change, the one that
        answered last is left. Until then a row takes up to twice the time, and each may take half
        of `max_bytes`; there is no new one where more than half is taken. False for a forest that
        is to be spread over processes. It may change while the forest learns.
    rests
        Whether members that add nothing to the others rest. One without which the log losses of
        the last 1,000 rows or so would be more by less than .003 of them, and less than one nat in
        all, after 2,000 rows at the soonest, learns nothing for 4,000 rows, or for 8,000 where that
        happens again. It is not asked, and its exponent is 0. A new label wakes all. None rests
        where a feature has more than 64 categories, which take long to know, if there are contexts.
        See how forests work in the docs for what that spares and costs. False for a forest that is
        to be spread over processes. It may change while the forest learns: `forest.rests = False`
        wakes all.

    Notes
    -----
    Learning and predicting cost the sum of what the members cost. To pool takes
    O(members * labels), to learn how O(members**2 * labels + members**3), and bytes that grow with
    the square of the number of members; these come on top of `max_bytes`.
    The boosted trees look at columns that are often there, and at features with categories, for up
    to 64 labels, contexts at at most 64 of them, for up to 32 labels; where there are more labels
    they say nothing and learn nothing. Neighbors look at up to 1,024 such columns; of more than 128
    they keep fewer rows. A member that knows no more than two labels (some losses of
    self-terminating trees) refuses a third one for the whole forest, and the error names it.

    References
    ----------
    [^1]: Genest, C. and Zidek, J. V., 1986. Combining probability distributions: a critique and an
        annotated bibliography. Statistical Science 1, for logarithmic pools.
    [^2]: Wolpert, D. H., 1992. Stacked generalization. Neural Networks 5.
    [^3]: Hazan, E., Agarwal, A. and Kale, S., 2007. Logarithmic regret algorithms for online convex
        optimization. Machine Learning 69, for Newton's method on a stream.
    [^4]: Friedman, J. H., 2001. Greedy function approximation: a gradient boosting machine. Annals
        of Statistics 29, and Ke, G. et al., 2017. LightGBM: a highly efficient gradient boosting
        decision tree. NeurIPS, for the boosted trees.
    [^5]: Mahoney, M., 2005. Adaptive weighing of context models for lossless data compression.
        Florida Tech, and Mattern, C., 2012. Mixing strategies in data compression. DCC, for the
        mixture of contexts.
    [^6]: Goldberger, J. et al., 2004. Neighbourhood components analysis. NeurIPS, for the distance
        of neighbors.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics
    >>> from streamtree import ForestClassifier

    >>> model = ForestClassifier()
    >>> evaluate.progressive_val_score(datasets.ImageSegments(), model, metrics.Accuracy())
    Accuracy: 96.62%
    >>> [name for name, weight in model.member_weights.items() if weight > 0.3]
    ['extra', 'boosted', 'neighbors', 'contexts']

    """

    _families: ClassVar[Mapping[str, type[StreamModel] | None]] = {
        "boosted": None,
        "model": ModelTreeClassifier,
        "soft": SoftTreeClassifier,
        "non_greedy": NonGreedyTreeClassifier,
        "self_terminating": SelfTerminatingTreeClassifier,
        "lom": LOMTreeClassifier,
        "contexts": None,
        "neighbors": None,
        **dict.fromkeys(_MEMORIES),
    }
    _defaults = ("extra", "boosted", "model", "soft", "neighbors", *_MEMORIES, "contexts")
    _extra = ExtraTreeClassifier
    _kind = StreamClassifier
    _pool = LogLinearPool

    def __init__(
        self,
        n_trees: int = 10,
        members: tuple[Any, ...] | None = None,
        window: int = 10_000,
        max_bytes: int | None = DEFAULT_BYTES,
        seed: int | None = None,
        nominal_attributes: list[Any] | tuple[Any, ...] | None = None,
        restarts: bool = True,
        rests: bool = True,
    ) -> None:
        self._keep(n_trees, members, window, max_bytes, seed, nominal_attributes, restarts)
        # after the others: attributes have the order of the parameters, in copies as well
        self.rests = rests
        self._core = self._new_core()

    @property
    def _mutable_attributes(self) -> set[str]:
        return {*super()._mutable_attributes, "rests"}

    def _settings(self, params: dict[str, Any]) -> dict[str, Any]:
        return {"lets_rest": check_bool("rests", params["rests"])}

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {}
        members = ("extra", "model", "recent_labels")
        yield {"n_trees": 3, "members": members, "window": 100, "seed": 1}
        yield {
            "rests": False,
            "members": (
                SoftTreeClassifier(max_nodes=7),
                ForestClassifier(2, ("extra", "lom"), window=150),
            )
        }

    def _said(self, x: dict[Any, Any]) -> str:
        label = self.predict_one(x)
        return f"{inspection.short(label)} ({self.predict_proba_one(x)[label]:.4g})"

    def _in_words(self, shares: Any) -> str:
        best = int(shares.argmax())
        return f"{inspection.short(self.labels[best])} ({shares[best]:.4g})"

    def _added(self, logarithms: Any) -> str:
        best = int(logarithms.argmax())
        label = inspection.short(self.labels[best])
        return f"adds most to {label} ({logarithms[best]:+.4g} to its logarithm)"


class ForestRegressor(_Forest, StreamRegressor):
    """Forest of a number: randomised, boosted and other trees, pooled by what each is worth.

    The regressor beside `ForestClassifier`. The pool is a mean of what the members predict. Its
    weights sum to one and follow exponentiated gradients of the squared error, a step after every
    row; no member ever has much less than a five hundredth. What the mean will err by is predicted
    by ridge regression and added, as far as that has been worth it lately: from how far each
    member, and the mean of all targets, lie from it, and from what came last. These are its last
    error, the last target, and the means of the last ten or so: targets that come in the order of
    time, by the hour say, are mostly near the ones before. Contexts add what was still missing
    lately with columns in bins, one, two and three at a time, as far as that has been worth it.

    Parameters
    ----------
    n_trees
        From 0 to 1000: the number of randomised trees. They share a window, and are one member.
    members
        Names, or regressors of streamtree, forests included, as models for members: their
        parameters are taken, what they have learned is not. The names: `"extra"`, `"boosted"`,
        `"contexts"`, `"neighbors"`, `"soft"`, `"self_terminating"` and `"non_greedy"`, as for
        `ForestClassifier`, `"additive"`, a sum of piecewise linear functions of the columns by
        least squares, and `"last_targets"`, which is no member, but tells the pool to heed what
        came last. None: all of them but `"non_greedy"`, which takes more time than it brings
        beside the others.
    window
        At least 100: the number of recent rows from which the randomised trees and the boosted ones
        are grown. Fewer follow changes faster.
    max_bytes
        At least 262144, or None for any number: the bytes that the forest may take in all, with
        names and what its members have learned; not with room for the row at hand. See
        `ForestClassifier` for what happens where they run short.
    seed
        An integer from 0 to 2**64 - 1, or None, which is as good as 0.
    nominal_attributes
        Names of columns whose numbers are categories, as strings are anyway; of an array, numbers
        of columns.
    restarts
        Whether a new forest may take the place of this one, as in `ForestClassifier`: where the
        absolute errors of the last rows are twice what they are on average, and above those of the
        first 1,000 rows.

    Notes
    -----
    A prediction is for the row that is learned next. Where targets are known late, or rows of many
    sources come mixed, the last ones tell little; the pool finds that out where rows are learned in
    that order. Models that learn in order of time and predict for long after do so better without
    `"last_targets"`.

    Learning and predicting cost the sum of what the members cost; none rests, for what a member is
    worth to the corrections its weight does not tell. To correct the pool takes time and bytes that
    grow with the square of the number of members; these bytes come on top of `max_bytes`.
    The additive member looks at what first comes of columns and categories, at up to 127 parts of
    it: a linear one of each, and then the eight knots of columns that vary.

    References
    ----------
    [^1]: Kivinen, J. and Warmuth, M. K., 1997. Exponentiated gradient versus gradient descent for
        linear predictors. Information and Computation 132.
    [^2]: Breiman, L., 1996. Stacked regressions. Machine Learning 24, for the ridge regression.
    [^3]: Cressie, N., 1990. The origins of kriging. Mathematical Geology 22, for neighbors.

    Examples
    --------
    >>> from river import evaluate, metrics
    >>> from river.datasets import synth
    >>> from streamtree import ForestRegressor

    >>> model = ForestRegressor()
    >>> evaluate.progressive_val_score(synth.Friedman(seed=1).take(5000), model, metrics.R2())
    R2: 0.919791

    """

    _families: ClassVar[Mapping[str, type[StreamModel] | None]] = {
        "additive": None,
        "boosted": None,
        "contexts": None,
        "neighbors": None,
        "soft": SoftTreeRegressor,
        "non_greedy": NonGreedyTreeRegressor,
        "self_terminating": SelfTerminatingTreeRegressor,
        _LAST_TARGETS: None,
    }
    _defaults = (
        "extra", "boosted", "additive", "soft", "self_terminating", "neighbors", "contexts",
        _LAST_TARGETS,
    )
    _extra = ExtraTreeRegressor
    _kind = StreamRegressor
    _pool = LinearPool

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {}
        yield {"n_trees": 3, "members": ("extra", "soft"), "window": 100, "seed": 1}
        yield {
            "members": (
                SoftTreeRegressor(max_nodes=7), ForestRegressor(2, ("extra",), window=150),
            )
        }

    @property
    def _shrinks(self) -> bool:
        # the pool sees to that
        return False

    def _pool_settings(self) -> dict[str, Any]:
        # rates of .1 and .5 lose less than .0001 in the mean of 19 sets
        return {"rate": 0.3, "follows": _LAST_TARGETS in self._named_members()}

    def _corrections(
        self, x: dict[Any, Any], weights: dict[str, float], opinions: list[Any]
    ) -> list[str]:
        mean = sum(
            weight * float(said[0]) for weight, said in zip(weights.values(), opinions, strict=True)
        )
        return [f"corrected by {self.predict_one(x) - mean:+.4g}"]

    def _said(self, x: dict[Any, Any]) -> str:
        return inspection.short(self.predict_one(x))

    def _in_words(self, numbers: Any) -> str:
        return inspection.short(float(numbers[0]))

    def _added(self, numbers: Any) -> str:
        return f"adds {float(numbers[0]):+.4g}"
