"""From a model file back to a model."""

from __future__ import annotations

import inspect
import os
import sys
from typing import Any

from streamtree import modelfile
from streamtree.base import StreamTree, public_estimators
from streamtree.modelfile import ModelFileError

__all__ = ["ModelFileError", "load", "load_at", "save"]


def save(model: StreamTree, path: str | os.PathLike[str]) -> None:
    """Write a model to a file; the same as `model.save(path)`."""
    model.save(path)


def load(path: str | os.PathLike[str]) -> Any:
    """The model that `save` wrote to a file.

    It goes on as if it had never stopped: the same examples then give the same bytes. Loading runs
    no code from the file, which may come from anyone.

    Parameters
    ----------
    path
        The file.

    Returns
    -------
    An estimator of the class that was saved.

    Raises
    ------
    ModelFileError
        If the file is damaged or truncated, is something else, contradicts itself, or was written
        by a newer version in a format that this one does not know.
    OSError
        If there is no such file, it may not be read, or it is no regular file but a pipe, say.

    References
    ----------
    The format is described in docs/model_files.md.

    Examples
    --------
    >>> import tempfile, pathlib, streamtree
    >>> from river import datasets

    >>> model = streamtree.ModelTreeClassifier()
    >>> for x, y in datasets.ImageSegments().take(1000):
    ...     model.learn_one(x, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.save(pathlib.Path(folder) / "segments.model")
    ...     again = streamtree.load(pathlib.Path(folder) / "segments.model")
    >>> rows = [x for x, _ in datasets.ImageSegments()]
    >>> sum(again.predict_one(x) == model.predict_one(x) for x in rows), len(rows)
    (2310, 2310)

    """
    return load_at(path)[0]


def load_at(path: str | os.PathLike[str]) -> tuple[Any, int | None]:
    """As `load`, with the position in the stream, None if none was saved."""
    header = modelfile.read(path)
    # checks and core may find anything in a file whose checksums were made to fit
    with modelfile.refusing(path):
        return _restored(header), header["position"]


def _restored(header: dict[str, Any]) -> StreamTree:
    estimator = public_estimators().get(header["class"])
    if estimator is None:
        raise ModelFileError(f"this version has no estimator {header['class']!r}")
    model = estimator.__new__(estimator)
    expected = set(inspect.signature(estimator).parameters)
    if set(header["parameters"]) != expected:
        raise ModelFileError(f"the parameters of {header['class']} are {sorted(expected)}")
    for name, value in header["parameters"].items():
        # as in any object: pickle sees whether two equal strings are one
        model.__dict__[sys.intern(name)] = sys.intern(value) if type(value) is str else value
    state = header["state"]
    core = model._new_core()
    core.check_state(state)
    core.restore(state)
    model._core = core
    return model
