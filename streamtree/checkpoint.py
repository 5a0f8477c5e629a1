"""Checkpoints of a model and its position, for a loop over a stream that may be stopped."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path
from typing import Any, TypeVar

from streamtree.base import StreamModel, of_ours
from streamtree.modelfile import is_temporary
from streamtree.serialization import load_at

__all__ = ["Checkpoint"]

Model = TypeVar("Model", bound=StreamModel)


class Checkpoint:
    """Saves a model now and then, with the number of examples that it has learned.

    The two lie in one file that is replaced as a whole. A process that is killed at any moment
    finds the last whole checkpoint when it starts again.

    Parameters
    ----------
    path
        The file. `streamtree.load` reads it like any other model. One process writes to it.
    examples
        At least 1: save when so many examples were learned since the last checkpoint.
    seconds
        At least 0: save when so much time has passed since the last checkpoint. At least one of
        the two must be given.

    Attributes
    ----------
    notes
        What is kept in the file beside the model: the notes that `resume` found there, until
        others are given.

    Examples
    --------
    >>> import itertools, tempfile
    >>> from river import datasets
    >>> from streamtree import ModelTreeClassifier
    >>> from streamtree.checkpoint import Checkpoint

    >>> folder = tempfile.TemporaryDirectory()
    >>> checkpoint = Checkpoint(f"{folder.name}/segments.model", examples=500)
    >>> model, position = checkpoint.resume(ModelTreeClassifier())
    >>> for x, y in itertools.islice(datasets.ImageSegments(), position, None):
    ...     model.learn_one(x, y)
    ...     position += 1
    ...     saved = checkpoint.update(model, position)

    Had the process been killed, it would go on from here:

    >>> model, position = checkpoint.resume(ModelTreeClassifier())
    >>> position
    2000
    >>> folder.cleanup()

    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        examples: int | None = None,
        seconds: float | None = None,
    ) -> None:
        if examples is None and seconds is None:
            raise ValueError("a checkpoint needs examples, seconds or both")
        if examples is not None and (isinstance(examples, bool) or not examples >= 1):
            raise ValueError(f"examples must be at least 1, got {examples!r}")
        if seconds is not None and not seconds >= 0:
            raise ValueError(f"seconds must be at least 0, got {seconds!r}")
        self.path = Path(path)
        self.examples = examples
        self.seconds = seconds
        self.notes: dict[str, Any] | None = None
        self._position = 0
        self._time = time.monotonic()

    def resume(self, model: Model) -> tuple[Model, int]:
        """The saved model and its position; the given model and 0 where none was saved.

        Parameters that may change while a model learns are those of the saved one.

        Raises
        ------
        ValueError
            If the saved model is of another class, or differs in a parameter that is fixed.
        TypeError
            If it is no model of streamtree: a pipeline, say, of which the last step is one.
        ModelFileError
            If the file is damaged.

        """
        saved, position, notes = of_ours(model), 0, None
        if self.path.exists():
            loaded, at, notes = load_at(self.path)
            _check_same(loaded, model, self.path)
            saved, position = loaded, at or 0
        # a process that was killed while it wrote has left an unfinished file, beside the real one
        path = self.path.resolve()
        for other in path.parent.iterdir():
            if is_temporary(other.name, path.name):
                with contextlib.suppress(OSError):
                    other.unlink()
        self.notes = notes
        self._position, self._time = position, time.monotonic()
        return saved, position

    def update(
        self, model: StreamModel, position: int, *, notes: dict[str, Any] | None = None
    ) -> bool:
        """Save if it is time to; returns whether it was.

        Call it after every example or batch. `position` is the number of examples of the stream
        that are behind the model, `notes` what else is to be kept in the file in place of those
        that it has, see `save` of a model.
        """
        of_ours(model)
        is_due = self.examples is not None and position - self._position >= self.examples
        if not is_due and self.seconds is not None:
            is_due = time.monotonic() - self._time >= self.seconds
        if is_due:
            self.save(model, position, notes=notes)
        return is_due

    def save(
        self, model: StreamModel, position: int, *, notes: dict[str, Any] | None = None
    ) -> None:
        """Save now, at the end of a stream say."""
        notes = self.notes if notes is None else notes
        of_ours(model).save(self.path, position=position, notes=notes)
        self.notes = notes
        self._position, self._time = position, time.monotonic()


def _check_same(saved: StreamModel, model: StreamModel, path: Path) -> None:
    if type(saved) is not type(model):
        raise ValueError(
            f"{str(path)!r} holds a {type(saved).__name__}, not a {type(model).__name__}"
        )
    before, now = saved._get_params(), model._get_params()
    for name in before:
        if name not in saved._mutable_attributes and before[name] != now[name]:
            raise ValueError(
                f"{str(path)!r} was made with {name}={before[name]!r}, not {now[name]!r}"
            )
