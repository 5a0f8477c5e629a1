"""What runs in a worker's process: the order of batches. Knows nothing of Ray."""

from __future__ import annotations

import abc
import gc
import re
import sqlite3
from pathlib import Path
from typing import Any

from streamtree.base import StreamModel
from streamtree.serialization import from_bytes, load_at, to_bytes

__all__ = ["FAILURES", "ModelWorker", "SequenceError", "Worker", "collect_rarely"]

# errors of a process, a full disk for one: they are no part of what the rows say
FAILURES = (OSError, MemoryError, sqlite3.Error)


def collect_rarely() -> None:
    """Let Python look for cycles rarely, in a process of many models, which have none.

    Among thousands of models it takes longer than to make one.
    """
    gc.freeze()
    gc.set_threshold(10_000)


class SequenceError(RuntimeError):
    """A batch that was learned already, or one after a gap."""


class Worker(abc.ABC):
    """A part of the models; it learns every batch of the stream once, in order.

    Attributes
    ----------
    position
        The rows of the stream that are behind it, those of other workers among them.

    """

    def __init__(self) -> None:
        self.position = 0

    def learn(self, first: int, n_rows: int, part: Any) -> tuple[Any, Exception | None]:
        """Learn this worker's part of the rows `first` to `first + n_rows - 1` of the stream.

        Returns what was said of them, and the error if there was one: an error is part of the
        history, the same at every replay, and the next batch goes on behind it.

        Raises
        ------
        SequenceError
            If it is not the next batch; nothing has changed then.
        OSError, MemoryError, sqlite3.Error
            If the rows may have been learned in part: only a checkpoint is whole then.

        """
        if first != self.position:
            problem = "were learned already" if first < self.position else "leave a gap"
            raise SequenceError(
                f"rows {first} to {first + n_rows - 1} {problem}: the next row is {self.position}"
            )
        try:
            said, error = self.learn_part(part), None
        except FAILURES:
            raise
        except Exception as problem_of_part:
            said, error = None, problem_of_part
        self.position += n_rows
        return said, error

    def keep(self, position: int) -> None:
        """Make a checkpoint, unless it is there."""
        if self.positions()[-1] != position:
            self.checkpoint(position)

    def take_up(self, position: int) -> None:
        """Be where a checkpoint was made; those behind it are forgotten."""
        self.go_back(position)
        self.position = position

    @abc.abstractmethod
    def learn_part(self, part: Any) -> Any:
        """Learn a part of a batch; returns what is to be said of its rows, if anything."""

    @abc.abstractmethod
    def ask(self, question: str, part: Any) -> Any:
        """Answer a question that changes nothing."""

    @abc.abstractmethod
    def checkpoint(self, position: int) -> None:
        """Keep all that was learned up to here, and what the last checkpoint kept."""

    @abc.abstractmethod
    def positions(self) -> list[int]:
        """The positions that it can go back to, in order; 0 is the first one at a fresh start."""

    @abc.abstractmethod
    def go_back(self, position: int) -> None:
        """Take up one of these positions; those behind it are forgotten."""


class ModelWorker(Worker):
    """One model, and its checkpoints as model files."""

    model: Any

    def __init__(self, folder: str, number: int, *, model: bytes) -> None:
        super().__init__()
        self._folder, self._number = Path(folder), number
        self._first = model
        self.take(from_bytes(model))

    def take(self, model: StreamModel) -> None:
        """Go on with a model."""
        self.model = model

    def _path(self, position: int) -> Path:
        return self._folder / f"worker-{self._number:04d}-{position:015d}.model"

    def ask(self, question: str, part: Any) -> Any:
        if question == "model":
            return to_bytes(self.model)
        return self.model._predict_array(part)

    def checkpoint(self, position: int) -> None:
        self.model.save(self._path(position), position=position)
        self.forget_old()

    def forget_old(self) -> None:
        """Keep two checkpoints."""
        for older in self.positions()[:-2]:
            self._path(older).unlink(missing_ok=True)

    def positions(self) -> list[int]:
        pattern = re.compile(rf"worker-{self._number:04d}-(\d+)\.model")
        found = sorted(
            int(match[1]) for path in self._folder.iterdir()
            if (match := pattern.fullmatch(path.name))
        )
        return found if len(found) > 1 else [0, *found]

    def go_back(self, position: int) -> None:
        for later in self.positions():
            if later > position:
                self._path(later).unlink()
        path = self._path(position)
        if path.exists():
            self.load(path)
        else:
            self.take(from_bytes(self._first))

    def load(self, path: Path) -> None:
        """Go on with the model of a checkpoint."""
        self.take(load_at(path)[0])
