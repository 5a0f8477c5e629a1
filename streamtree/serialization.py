"""From a model file back to a model."""

from __future__ import annotations

import functools
import inspect
import os
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

from streamtree import modelfile
from streamtree.base import StreamModel, interned, of_ours, parameter_names, public_estimators
from streamtree.modelfile import ModelFileError, Template

__all__ = ["ModelFileError", "from_bytes", "from_bytes_at", "load", "load_at", "to_bytes"]

# in all that one file may ask for by its parameters alone
MOST_TREES = 10_000


def load(path: str | os.PathLike[str]) -> Any:
    """The model that its method `save` wrote to a file.

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


def load_at(path: str | os.PathLike[str]) -> tuple[Any, int | None, dict[str, Any] | None]:
    """As `load`, with the position in the stream and the notes, None where none were saved."""
    header = modelfile.read(path)
    # checks and core may find anything in a file whose checksums were made to fit
    with modelfile.refusing(path):
        return _restored(header), header["position"], header.get("notes")


def to_bytes(model: StreamModel, *, position: int | None = None, key: bytes = b"") -> bytes:
    """A model in one piece of bytes, from which `from_bytes` makes it again.

    For many models that are put aside for a while: it takes a fraction of the room of a file and of
    the time. The same history gives the same bytes.

    Parameters
    ----------
    model
        An estimator.
    position
        As in the model's `save`.
    key
        A secret of up to 64 bytes: whoever has it may read the bytes without checking the state
        (which is most of the time of `from_bytes`), for nobody else can have made them.

    Raises
    ------
    TypeError
        As the model's `save` does.

    Examples
    --------
    >>> import streamtree
    >>> from streamtree.serialization import from_bytes, to_bytes
    >>> model = streamtree.ModelTreeClassifier()
    >>> model.learn_one({"size": 2.0}, "large")
    >>> from_bytes(to_bytes(model)).predict_one({"size": 2.0})
    'large'

    """
    return modelfile.pack(*of_ours(model)._file_parts(position), key=key)


def from_bytes(data: bytes, *, key: bytes = b"") -> Any:
    """The model that `to_bytes` was given; it goes on as if it had never stopped.

    As safe as `load`: bytes may come from anyone, no code in them is run, and the same checks are
    made; only bytes that were made with the same `key` do without.

    Raises
    ------
    ModelFileError
        If the bytes are damaged, something else, or contradict themselves.

    """
    return from_bytes_at(data, key=key)[0]


def from_bytes_at(data: bytes, *, key: bytes = b"") -> tuple[Any, int | None]:
    """As `from_bytes`, with the position, None if none was given."""
    header, is_trusted = modelfile.unpack(data, key)
    with modelfile.refusing("<bytes>"):
        return _restored(header, is_trusted=is_trusted), header["position"]


@functools.cache
def _estimator(name: str) -> type[StreamModel]:
    estimator = public_estimators().get(name)
    if estimator is None:
        raise ModelFileError(f"this version has no estimator {name!r}")
    return estimator


@functools.cache
def _defaults(estimator: type[StreamModel]) -> dict[str, Any]:
    return {name: p.default for name, p in inspect.signature(estimator).parameters.items()}


def _checked_estimator(name: str, parameters: dict[str, Any]) -> type[StreamModel]:
    """The class of a name that a file has, whose parameters are to be these."""
    estimator = _estimator(name)
    expected = parameter_names(estimator) or ()
    # those that came since the file was written have their defaults
    if not parameters or not set(parameters) <= set(expected):
        raise ModelFileError(f"the parameters of {name} are {sorted(expected)}")
    return estimator


def _nested(value: Any) -> Iterator[dict[str, Any]]:
    """The parameters of all estimators that are in a value."""
    if isinstance(value, Template):
        yield (value := value.parameters)
    if isinstance(value, dict):
        value = tuple(value.values())
    for part in value if type(value) is tuple else ():
        yield from _nested(part)


def _n_trees(parameters: dict[str, Any]) -> int:
    """How many trees the estimators in parameters would make."""
    found = list(_nested(parameters))
    numbers = [each.get("n_trees") for each in (parameters, *found)]
    return len(found) + sum(n for n in numbers if type(n) is int and n > 0)


def _n_first_nodes(parameters: dict[str, Any]) -> int:
    """How many nodes the trees of estimators in parameters begin with, where they begin full."""
    return sum(
        2 << depth for each in (parameters, *_nested(parameters))
        if each.get("start") == "zeros"
        and isinstance(depth := each.get("depth"), int) and 0 < depth < 64
    )


def _n_nodes(state: Any) -> int:
    """How many nodes the trees of a state have, and one for each."""
    if not isinstance(state, dict):
        return 0
    nodes = state.get("nodes")
    own = len(nodes) + 1 if isinstance(nodes, np.ndarray) else 0
    return own + sum(map(_n_nodes, state.values()))


def _made(value: Any) -> Any:
    """A parameter as an estimator has it; as in any object, pickle sees whether strings are one."""
    if isinstance(value, Template):
        parameters = {name: _made(part) for name, part in value.parameters.items()}
        return _checked_estimator(value.kind, parameters)(**parameters)
    return tuple([_made(part) for part in value]) if type(value) is tuple else interned(value)


def _restored(header: dict[str, Any], *, is_trusted: bool = False) -> StreamModel:
    """The model of a file; one that this process made itself may do without the checks."""
    estimator = _checked_estimator(header["class"], header["parameters"])
    state = header["state"]
    if not is_trusted:
        if _n_trees(header["parameters"]) > MOST_TREES:
            raise ModelFileError(f"its parameters ask for more than {MOST_TREES} trees")
        if _n_first_nodes(header["parameters"]) > _n_nodes(state):
            raise ModelFileError("its parameters ask for more nodes than it has")
    model = estimator.__new__(estimator)
    parameters = {**_defaults(estimator), **header["parameters"]}
    model.__dict__.update({sys.intern(name): _made(value) for name, value in parameters.items()})
    core = model._new_core()
    if not is_trusted:
        core.check_state(state)
    core.restore(state)
    model._core = core
    return model
