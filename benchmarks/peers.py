"""The learners, their peers, and the clock that compares them.

A peer is whatever learns and predicts one dict at a time; `PEERS` makes each of them from the
description of a task. Vowpal Wabbit also learns whole files, see `Cache`.
"""

from __future__ import annotations

import gc
import importlib
import itertools
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from numbers import Number
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from river import compose, forest, linear_model, preprocessing, tree
from scipy import sparse

from streamtree import LOMTreeClassifier, ModelTreeClassifier

__all__ = [
    "PEERS", "REGRESSORS", "Cache", "MoaTree", "OneByOne", "Peer", "Spread", "Task",
    "VowpalWabbit", "VowpalWabbitRegressor", "interleaved", "prequential_accuracy", "present",
    "ratios", "vw_line", "why_absent",
]


class OneByOne(Protocol):
    """What a benchmark asks of a learner."""

    def learn_one(self, x: dict[Any, Any], y: Any) -> Any:
        """Learn one example."""

    def predict_one(self, x: dict[Any, Any]) -> Any:
        """The label or value of one example, None before any learning."""


@dataclass(frozen=True)
class Task:
    """What some peers must know of a stream before it starts; the labels are 0 to n_classes-1.

    `categories` gives the strings that each categorical feature may take.
    """

    n_classes: int
    features: Sequence[Any]
    categories: Mapping[Any, Sequence[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class Peer:
    """One learner of one library."""

    name: str
    make: Callable[[Task], OneByOne]
    module: str | None = None

    def why_absent(self) -> str | None:
        """The reason why it cannot run here, None if it can."""
        return why_absent(self.module)


def why_absent(module: str | None) -> str | None:
    """The reason why a module cannot be imported, None if it can."""
    if module is None:
        return None
    try:
        importlib.import_module(module)
    except ModuleNotFoundError as error:
        return f"{error.name} is not installed"
    except Exception as error:  # a library may be there and unable to start, say without Java
        return f"{module} does not start: {type(error).__name__}: {error}"
    return None


# ------------------------------------------------------------------------- Vowpal Wabbit


def vw_line(x: dict[Any, Any], y: float | None = None) -> str:
    """One example in VW's text format: classes, which are integers, count from 1 there."""
    label = f"{y + 1} " if isinstance(y, int) else "" if y is None else f"{y:.9g} "
    words = [f"{label}|"]
    for name, value in x.items():
        if isinstance(value, str):
            words.append(f"{name}={value}".translate(_VW_RESERVED))
        else:
            words.append(f"{str(name).translate(_VW_RESERVED)}:{value:.7g}")
    return " ".join(words)


_VW_RESERVED = str.maketrans({" ": "_", "\t": "_", "\n": "_", ":": "_", "|": "_"})


def _vw_workspace(arguments: str) -> Any:
    from vowpalwabbit import Workspace

    return Workspace(f"--quiet {arguments}")


class VowpalWabbit:
    """A many-class reduction of VW, called from Python once per example.

    Parameters
    ----------
    reduction
        "log_multi", "recall_tree" or "oaa".
    n_classes
        The number of classes, which VW must know in advance.
    learning_rate
        None for VW's own, 0.5.

    """

    def __init__(self, reduction: str, n_classes: int, learning_rate: float | None = None) -> None:
        rate = "" if learning_rate is None else f"-l {learning_rate}"
        self.workspace = _vw_workspace(f"--{reduction} {n_classes} {rate}")
        # for those who make the lines beforehand, outside the clock
        self.learn_line: Callable[[str], None] = self.workspace.learn

    def learn_one(self, x: dict[Any, Any], y: int) -> None:
        """Learn one example."""
        self.workspace.learn(vw_line(x, y))

    def predict_one(self, x: dict[Any, Any]) -> int:
        """The label of one example."""
        return self.predict_line(vw_line(x))

    def predict_line(self, line: str) -> int:
        """The label of one example that is a line already."""
        return int(self.workspace.predict(line)) - 1

    @property
    def _raw_memory_usage(self) -> int:
        return vw_weight_bytes(self.workspace)


class VowpalWabbitRegressor:
    """VW's linear regression with its defaults, called from Python once per line."""

    def __init__(self) -> None:
        self.workspace = _vw_workspace("")
        self.learn_line: Callable[[str], None] = self.workspace.learn
        self.predict_line: Callable[[str], float] = self.workspace.predict

    def learn_one(self, x: dict[Any, Any], y: float) -> None:
        """Learn one example."""
        self.learn_line(vw_line(x, float(y)))

    def predict_one(self, x: dict[Any, Any]) -> float:
        """The value for one example."""
        return self.predict_line(vw_line(x))

    @property
    def _raw_memory_usage(self) -> int:
        return vw_weight_bytes(self.workspace)


def vw_weight_bytes(workspace: Any) -> int:
    """The size of VW's table of weights, single floats of which a feature has `stride`."""
    return 4 * int(workspace.num_weights()) * int(workspace.get_stride())


class Cache:
    """Examples in the binary form that VW reads at the speed of C++.

    Parameters
    ----------
    path
        Where to write it.
    X
        A dense array or sparse matrix of shape (n_rows, n_features); zeros are left out.
    y
        n_rows classes from 0.
    n_classes
        The number of classes.
    bits
        VW keeps 2**bits weights; a cache is good for one number of them only.

    """

    def __init__(
        self, path: Path, X: Any, y: NDArray[Any], n_classes: int, bits: int = 18
    ) -> None:
        self.path = path
        self.n_rows = X.shape[0]
        self.n_classes = n_classes
        self.bits = bits
        text = path.with_suffix(".txt")
        with text.open("w") as file:
            file.writelines(_text_lines(sparse.csr_matrix(X), y))
        # -t: only read, for which any reduction will do; -k: never an older cache of this name
        self._run(f"--log_multi {n_classes} -b {bits} -t -d {text} -k").finish()
        text.unlink()

    def _run(self, arguments: str) -> Any:
        return _vw_workspace(f"{arguments} --cache_file {self.path} --passes 1")

    def learn(
        self, reduction: str = "log_multi", learning_rate: float | None = None, passes: int = 1
    ) -> Any:
        """A workspace that has learned all rows, `passes` times."""
        rate = "" if learning_rate is None else f"-l {learning_rate}"
        return _vw_workspace(
            f"--{reduction} {self.n_classes} -b {self.bits} {rate} "
            f"--cache_file {self.path} --passes {passes} --holdout_off"
        )

    def predict(self, workspace: Any) -> NDArray[np.int64]:
        """The classes that a workspace gives the rows."""
        model, labels = self.path.with_suffix(".model"), self.path.with_suffix(".labels")
        workspace.save(str(model))
        self._run(f"-t -i {model} -p {labels}").finish()
        return np.loadtxt(labels, dtype=np.int64, ndmin=1) - 1


def _text_lines(X: Any, y: NDArray[Any]) -> Iterable[str]:
    values = X.data.tolist()
    cells = [f" {j}:{value:.7g}" for j, value in zip(X.indices.tolist(), values, strict=True)]
    starts = X.indptr.tolist()
    for label, (start, stop) in zip(y.tolist(), itertools.pairwise(starts), strict=True):
        yield f"{label + 1} |{''.join(cells[start:stop])}\n"


# ------------------------------------------------------------------------------- CapyMOA


class MoaTree:
    """A tree of MOA through CapyMOA, which knows the schema before the stream starts."""

    def __init__(self, learner: str, task: Task) -> None:
        from capymoa import classifier
        from capymoa.core import Instance, LabeledInstance
        from capymoa.stream import Schema

        self._features = list(task.features)
        self._codes = {
            name: {category: float(code) for code, category in enumerate(categories)}
            for name, categories in task.categories.items()
        }
        # the names inside MOA are the positions: it takes only strings, and no two alike
        nominal = {
            str(i): list(task.categories[name])
            for i, name in enumerate(self._features)
            if name in task.categories
        }
        self._schema = Schema.from_custom(
            [*map(str, range(len(self._features))), "class"],
            target="class",
            categories={**nominal, "class": [str(label) for label in range(task.n_classes)]},
        )
        self._instance = Instance.from_array
        self._labeled = LabeledInstance.from_array
        self._model = getattr(classifier, learner)(schema=self._schema)

    def _array(self, x: dict[Any, Any]) -> NDArray[np.float64]:
        values = [x.get(name, np.nan) for name in self._features]
        for i, name in enumerate(self._features):
            if name in self._codes and name in x:
                values[i] = self._codes[name][x[name]]
        return np.array(values, dtype=np.float64)

    def learn_one(self, x: dict[Any, Any], y: int) -> None:
        """Learn one example."""
        self._model.train(self._labeled(self._schema, self._array(x), y))

    def predict_one(self, x: dict[Any, Any]) -> int | None:
        """The label of one example, None before any learning."""
        label: int | None = self._model.predict(self._instance(self._schema, self._array(x)))
        return label


# ----------------------------------------------------------------------------- the table


def _numbers_only(task: Task, model: Any, scaler: Any = None) -> Any:
    """A pipeline for what takes no strings: a column for every category, scaled numbers."""
    if not task.categories:
        return model if scaler is None else scaler | model
    # by type and not by name: a missing cell has no key
    numbers = compose.SelectType(Number)
    strings = compose.SelectType(str) | preprocessing.OneHotEncoder()
    return ((numbers if scaler is None else numbers | scaler) + strings) | model


def _scaled(task: Task, model: Any) -> Any:
    """A pipeline that prepares what a linear model cannot take as it comes."""
    return _numbers_only(task, model, preprocessing.StandardScaler())


def _coded(task: Task, model: Any) -> Any:
    """A pipeline for what takes no strings and cuts columns: the place of a category."""
    if not task.categories:
        return model
    places = {
        name: {category: float(place) for place, category in enumerate(categories)}
        for name, categories in task.categories.items()
    }
    return compose.FuncTransformer(
        lambda x: {name: places[name][v] if name in places else v for name, v in x.items()}
    ) | model


def _linear(task: Task) -> Any:
    """river's logistic regression, or softmax regression for more than two classes."""
    many = task.n_classes > 2
    return _scaled(
        task, linear_model.SoftmaxRegression() if many else linear_model.LogisticRegression()
    )


def _vowpal_wabbit(reduction: str, task: Task) -> VowpalWabbit:
    return VowpalWabbit(reduction, task.n_classes)


PEERS: dict[str, Peer] = {
    peer.name: peer
    for peer in [
        Peer("ModelTreeClassifier", lambda task: ModelTreeClassifier()),
        Peer("LOMTreeClassifier", lambda task: LOMTreeClassifier()),
        Peer("LOMTree, majority", lambda task: LOMTreeClassifier(leaf_model="majority")),
        Peer("river HoeffdingTree", lambda task: tree.HoeffdingTreeClassifier()),
        Peer(
            "river HoeffdingAdaptiveTree",
            lambda task: tree.HoeffdingAdaptiveTreeClassifier(seed=1),
        ),
        Peer("river EFDT", lambda task: tree.ExtremelyFastDecisionTreeClassifier()),
        Peer("river LogisticRegression", lambda task: linear_model.LogisticRegression()),
        Peer(
            "river scaler, logistic",
            lambda task: _scaled(task, linear_model.LogisticRegression()),
        ),
        Peer(
            "river scaler, softmax",
            lambda task: _scaled(task, linear_model.SoftmaxRegression()),
        ),
        Peer("river linear", _linear),
        Peer(
            "river AMF(10)",
            lambda task: _coded(task, forest.AMFClassifier(n_estimators=10, seed=1)),
        ),
        Peer("river ARF(10)", lambda task: forest.ARFClassifier(n_models=10, seed=1)),
        *(
            Peer(
                f"VW {reduction}",
                partial(_vowpal_wabbit, reduction),
                module="vowpalwabbit",
            )
            for reduction in ("log_multi", "recall_tree", "oaa")
        ),
        *(
            Peer(
                f"CapyMOA {learner}",
                partial(MoaTree, learner),
                module="capymoa.classifier",
            )
            for learner in ("HoeffdingTree", "HoeffdingAdaptiveTree", "EFDT")
        ),
    ]
}

REGRESSORS: dict[str, Peer] = {
    peer.name: peer
    for peer in [
        # its linear leaves take no strings
        Peer(
            "river HoeffdingTreeRegressor",
            lambda task: _numbers_only(task, tree.HoeffdingTreeRegressor()),
        ),
        Peer(
            "river HoeffdingTreeRegressor, mean leaves",
            lambda task: tree.HoeffdingTreeRegressor(leaf_prediction="mean"),
        ),
        Peer(
            "river HoeffdingAdaptiveTreeRegressor",
            lambda task: _numbers_only(task, tree.HoeffdingAdaptiveTreeRegressor(seed=1)),
        ),
        Peer("river SGTRegressor", lambda task: tree.SGTRegressor()),
        Peer(
            "river linear regression",
            lambda task: _scaled(task, linear_model.LinearRegression()),
        ),
        Peer(
            "river AMFRegressor(10)",
            lambda task: _coded(task, forest.AMFRegressor(n_estimators=10, seed=1)),
        ),
        Peer(
            "river ARFRegressor(10)",
            lambda task: _numbers_only(task, forest.ARFRegressor(n_models=10, seed=1)),
        ),
    ]
}


def present(
    names: Iterable[str], registry: Mapping[str, Peer] = PEERS
) -> tuple[list[Peer], dict[str, str]]:
    """The peers that can run here, and by name the reason why each of the others cannot."""
    peers, absent = [], {}
    for name in names:
        reason = registry[name].why_absent()
        if reason is None:
            peers.append(registry[name])
        else:
            absent[name] = reason
    return peers, absent


def prequential_accuracy(
    model: OneByOne, rows: Sequence[dict[Any, Any]], labels: Sequence[Any]
) -> float:
    """The share of examples that were predicted rightly just before they were learned."""
    n_right = 0
    for x, y in zip(rows, labels, strict=True):
        n_right += model.predict_one(x) == y
        model.learn_one(x, y)
    return n_right / len(rows)


# ----------------------------------------------------------------------------- the clock


@dataclass(frozen=True)
class Spread:
    """The median, the least and the greatest of some repetitions."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Iterable[float]) -> Spread:
        """The spread of at least one value."""
        values = list(values)
        return cls(statistics.median(values), min(values), max(values))


# A job makes a fresh model and returns what to time, by phase and in order.
Job = Callable[[], Mapping[str, Callable[[], object]]]
# Seconds by job, phase and repetition.
Times = dict[str, dict[str, list[float]]]


def interleaved(
    jobs: Mapping[str, Job],
    repeats: int,
    clock: Callable[[], float] = time.perf_counter,
) -> Times:
    """Time jobs in turns, A B A B, so that a slow spell of the machine falls on all of them.

    The garbage collector runs before each job and not while the clock does.
    """
    times: Times = {name: {} for name in jobs}
    for _ in range(repeats):
        for name, job in jobs.items():
            phases = job()
            for phase, run in phases.items():
                gc.collect()
                was_enabled = gc.isenabled()
                gc.disable()
                try:
                    start = clock()
                    run()
                    seconds = clock() - start
                finally:
                    if was_enabled:
                        gc.enable()
                times[name].setdefault(phase, []).append(seconds)
    return times


def ratios(slower: Sequence[float], faster: Sequence[float]) -> Spread:
    """How many times as long the one took as the other, repetition by repetition."""
    return Spread.of(a / b for a, b in zip(slower, faster, strict=True))
