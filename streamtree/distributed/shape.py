"""What the shapes share: batches under way, checkpoints, the end."""

from __future__ import annotations

import abc
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Self

import numpy as np

from streamtree.base import (
    StreamClassifier,
    StreamModel,
    StreamMultiTargetRegressor,
    is_itself,
    of_ours,
)
from streamtree.batches import label_array, label_list
from streamtree.distributed.crew import Crew, Options
from streamtree.distributed.worker import Worker
from streamtree.modelfile import encoded

__all__ = ["Shape", "as_answers", "as_rows", "check_model"]


class Shape(abc.ABC):
    """Models on a crew of workers.

    Parameters
    ----------
    model
        The model that all begin with, or that the forest is.
    make_worker, n_workers, options
        As for `Crew`.
    description
        What else must be the same when a folder is used again.

    """

    # checks a batch and sends it to be learned; returns what `_answer` needs
    _sent: Callable[..., Any]
    # how many rows may be under way in `run`, however many batches these are
    _ahead_rows = 0

    def __init__(
        self, model: StreamModel, make_worker: Callable[[str, int], Worker], n_workers: int,
        options: Options, *, has_own: bool = False, **description: Any,
    ) -> None:
        name, given = of_ours(model)._file_parameters()
        parameters = {key: encoded(value, key) for key, value in given.items()}
        described = {"shape": type(self).__name__, "class": name, "parameters": parameters}
        self._crew = Crew(
            make_worker, n_workers, described | description, has_own=has_own, **options
        )

    @abc.abstractmethod
    def _answer(self, sent: Any) -> Any:
        """Wait for what is said of a batch."""

    @property
    def position(self) -> int:
        return self._crew.position

    @property
    def n_restarts(self) -> int:
        return self._crew.n_restarts

    def _checkpoint_if_due(self) -> None:
        if self._crew.is_due():
            self.checkpoint()

    def run(
        self, batches: Iterable[tuple[Any, ...]], *, progress: bool = False
    ) -> Iterator[Any]:
        """Test, then learn batch after batch, with several under way at a time.

        Parameters
        ----------
        batches
            Arguments of `test_then_learn_many`, those without a default at least.
        progress
            Whether tqdm shows the rows learned.

        Yields
        ------
        What `test_then_learn_many` returns, in the order of the batches.

        """
        pending: deque[tuple[int, Any]] = deque()
        bar = _bar(progress, self.position)
        try:
            for batch in batches:
                before = self.position
                pending.append((before, self._sent(*batch, asks=True)))
                bar.update(self.position - before)
                self._checkpoint_if_due()
                while (
                    len(pending) > self._crew.in_flight
                    and self.position - pending[0][0] > self._ahead_rows
                ):
                    yield self._answer(pending.popleft()[1])
            while pending:
                yield self._answer(pending.popleft()[1])
        finally:
            bar.close()

    def wait(self) -> None:
        """Wait until all rows are learned; raises what a model has refused."""
        self._crew.wait()

    def checkpoint(self) -> None:
        """Keep on disk all that was learned; from here on it cannot be lost."""
        self._crew.checkpoint()

    def close(self) -> None:
        """End the workers. Rows since the last checkpoint are lost: feed them again."""
        self._crew.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def as_rows(y: Any, n_rows: int, model: StreamModel) -> Any:
    """Labels or targets as something of which rows can be taken."""
    if isinstance(y, np.ndarray) or isinstance(model, StreamMultiTargetRegressor):
        return y
    array = np.empty(n_rows, dtype=object)
    array[:] = label_list(y, n_rows)
    return array


def as_answers(said: list[Any], model: StreamModel) -> Any:
    """What was said row by row, as a model of this kind gives it for many rows."""
    if isinstance(model, StreamClassifier):
        return label_array(said)
    return np.array(said, dtype=np.float64)


def check_model(name: str, model: Any, kinds: Any = StreamModel, what: str = "a model") -> None:
    """Raise TypeError unless an argument is a model of some kinds."""
    if not is_itself(model, kinds):
        raise TypeError(f"{name} must be {what}, got {type(model).__name__}")


def _bar(progress: bool, position: int) -> Any:
    """Rows learned so far, on the screen."""
    from tqdm import tqdm

    return tqdm(disable=not progress, unit="row", unit_scale=True, initial=position)
