"""Who takes part in the accuracy gate: every learner of the package by its defaults, every peer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from batch_forests import TrainedAgain, light_gbm, random_forest
from gate_runs import ByDicts, ByLines, Learner
from gate_streams import Stream
from moa_streams import MoaClassifier, MoaRegressor, with_ensemble
from peers import (
    PEERS,
    REGRESSORS,
    OneByOne,
    Task,
    VowpalWabbit,
    VowpalWabbitRegressor,
    why_absent,
)
from river import dummy, stats

import streamtree
from streamtree.base import StreamClassifier, StreamRegressor

__all__ = ["CONTESTANTS", "Contestant"]


@dataclass(frozen=True)
class Contestant:
    """A learner, and what the gate must know of it.

    Attributes
    ----------
    name, classifies
        Its name, and whether it takes classes or numbers.
    group
        "ours", or what kind of a peer it is: a single "tree", a "linear" model, a "floor", a
        "forest", or a "batch" learner that is trained again and again.
    start
        Makes it, at the start of a stream.
    cost
        Those of less cost run first.
    module
        What must be installed for it.

    """

    name: str
    classifies: bool
    group: str
    start: Callable[[Stream], Learner]
    cost: int = 1
    module: str | None = None

    @property
    def why_absent(self) -> str | None:
        """The reason why it cannot run here, None if it can."""
        return why_absent(self.module)


class LastValue:
    """The regressor that says what came last."""

    def __init__(self) -> None:
        self.last: float | None = None

    def predict_one(self, x: dict[Any, Any]) -> float | None:
        """Say it."""
        return self.last

    def learn_one(self, x: dict[Any, Any], y: float) -> None:
        """Keep it."""
        self.last = y


def _by_dicts(make: Callable[[Task], OneByOne], stream: Stream) -> Learner:
    return ByDicts(make(stream.task), stream)


def _ours() -> list[Contestant]:
    found = []
    for name in streamtree.__all__:
        item = getattr(streamtree, name)
        for base, classifies in ((StreamClassifier, True), (StreamRegressor, False)):
            if isinstance(item, type) and issubclass(item, base):
                start = partial(_by_dicts, lambda task, item=item: item())
                found.append(Contestant(name, classifies, "ours", start, cost=0))
    return found


def _floors() -> list[Contestant]:
    makes: list[tuple[str, bool, Callable[[], Any]]] = [
        ("majority class", True, dummy.PriorClassifier),
        ("no change", True, dummy.NoChangeClassifier),
        ("running mean", False, lambda: dummy.StatisticRegressor(stats.Mean())),
        ("last value", False, LastValue),
    ]
    return [
        Contestant(name, classifies, "floor", partial(_by_dicts, lambda task, make=make: make()))
        for name, classifies, make in makes
    ]


def _river(name: str, group: str, cost: int = 1) -> Contestant:
    """One of river's in `PEERS` or `REGRESSORS`."""
    peers = PEERS if name in PEERS else REGRESSORS
    return Contestant(name, peers is PEERS, group, partial(_by_dicts, peers[name].make), cost)


def _moa(
    name: str, classifies: bool, group: str = "tree", cost: int = 1, make: Any = None
) -> Contestant:
    kind = MoaClassifier if classifies else MoaRegressor
    return Contestant(
        f"MOA {name}", classifies, group, partial(kind, make or name), cost, "capymoa.classifier"
    )


def _vw(reduction: str, group: str) -> Contestant:
    def start(stream: Stream) -> Learner:
        return ByLines(VowpalWabbit(reduction, stream.task.n_classes), stream)

    return Contestant(f"VW {reduction}", True, group, start, module="vowpalwabbit")


def _vw_linear(stream: Stream) -> Learner:
    return ByLines(VowpalWabbitRegressor(), stream)


MOA_FORESTS = {
    "ARF": "AdaptiveRandomForestClassifier",
    "SRP": "StreamingRandomPatches",
    "LeveragingBagging": "LeveragingBagging",
}


def _batch(name: str, make: Callable[[Stream], Any], module: str) -> list[Contestant]:
    return [
        Contestant(
            f"{name}{'' if classifies else ' regressor'}, trained again", classifies, "batch",
            partial(TrainedAgain, make), 4, module,
        )
        for classifies in (True, False)
    ]


CONTESTANTS: dict[str, Contestant] = {
    contestant.name: contestant
    for contestant in [
        *_ours(),
        *_floors(),
        # classification; EFDT and forests are the slow ones
        _moa("HoeffdingTree", True),
        _moa("HoeffdingAdaptiveTree", True),
        _moa("EFDT", True),
        _river("river HoeffdingTree", "tree"),
        _river("river HoeffdingAdaptiveTree", "tree"),
        _river("river linear", "linear"),
        _vw("log_multi", "vw"),
        _vw("recall_tree", "vw"),
        _vw("oaa", "linear"),
        _river("river EFDT", "tree", cost=2),
        *(
            _moa(
                f"{short}({size})", True, "forest", 3 if size == 10 else 5,
                with_ensemble(name, size),
            )
            for short, name in MOA_FORESTS.items() for size in (10, 100)
        ),
        _river("river AMF(10)", "forest", cost=4),
        _river("river ARF(10)", "forest", cost=4),
        *_batch("RandomForest", random_forest, "sklearn"),
        *_batch("LightGBM", light_gbm, "lightgbm"),
        # regression
        _river("river HoeffdingTreeRegressor", "tree"),
        _river("river HoeffdingTreeRegressor, mean leaves", "tree"),
        _river("river HoeffdingAdaptiveTreeRegressor", "tree"),
        _river("river SGTRegressor", "tree", cost=2),
        _river("river linear regression", "linear"),
        _moa("FIMTDD", False),
        _moa("ORTO", False),
        _moa("ARFFIMTDD", False),
        Contestant("VW linear", False, "linear", _vw_linear, module="vowpalwabbit"),
        _moa(
            "ARF regressor(10)", False, "forest", 3,
            with_ensemble("AdaptiveRandomForestRegressor", 10),
        ),
        _moa("SOKNL(10)", False, "forest", 3, with_ensemble("SOKNL", 10)),
        _river("river AMFRegressor(10)", "forest", cost=4),
        _river("river ARFRegressor(10)", "forest", cost=4),
    ]
}
