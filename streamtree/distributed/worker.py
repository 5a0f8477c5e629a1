"""What runs in a worker's process: the order of batches. Knows nothing of Ray."""

from __future__ import annotations

import abc
from typing import Any

__all__ = ["SequenceError", "Worker"]


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

        """
        if first != self.position:
            problem = "were learned already" if first < self.position else "leave a gap"
            raise SequenceError(
                f"rows {first} to {first + n_rows - 1} {problem}: the next row is {self.position}"
            )
        try:
            said, error = self.learn_part(part), None
        except Exception as problem_of_part:
            said, error = None, problem_of_part
        self.position += n_rows
        return said, error

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
