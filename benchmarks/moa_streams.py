"""MOA inside its own machine: CapyMOA runs a stream that lies in Java's memory, block by block."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from gate_streams import Stream
from numpy.typing import NDArray

__all__ = ["MoaClassifier", "MoaRegressor", "java_stream", "with_ensemble"]

TARGET = "target"


def java_stream(stream: Stream) -> Any:
    """A stream of CapyMOA's whose rows are Java's, with the types of the columns declared."""
    import jpype
    from capymoa.stream import MOAStream, Schema
    from com.yahoo.labs.samoa.instances import Instances
    from moa.streams import CachedInstancesStream

    n_features = stream.X.shape[1]
    # names by position: MOA takes strings only, and no two alike
    categories = {
        str(j): stream.task.categories[stream.features[j]]
        for j in np.flatnonzero(stream.categorical).tolist()
    }
    if stream.classifies:
        categories[TARGET] = [str(label) for label in range(stream.task.n_classes)]
    schema = Schema.from_custom(
        [*map(str, range(n_features)), TARGET], target=TARGET, categories=categories
    )
    header = schema.get_moa_header()
    instances = Instances(header, 0)
    to_doubles, to_ints = jpype.JArray(jpype.JDouble), jpype.JArray(jpype.JInt)
    for instance in _instances(stream, to_doubles, to_ints):
        instance.setDataset(header)
        instances.add(instance)
    out = MOAStream(schema=schema)
    # it cannot be given to MOAStream, which would ask it to prepare for use
    out.moa_stream = CachedInstancesStream(instances)
    return out


def _instances(stream: Stream, to_doubles: Any, to_ints: Any) -> Any:
    from com.yahoo.labs.samoa.instances import DenseInstance, SparseInstance

    n_features = stream.X.shape[1]
    targets = stream.y.astype(np.float64)
    if not isinstance(stream.X, np.ndarray):
        X = stream.X.tocsr().sorted_indices().astype(np.float64)
        for i, target in enumerate(targets):
            part = slice(X.indptr[i], X.indptr[i + 1])
            values = np.append(X.data[part], target)
            indices = np.append(X.indices[part], n_features).astype(np.int32)
            yield SparseInstance(1.0, to_doubles(values), to_ints(indices), n_features + 1)
        return
    X = stream.X.astype(np.float64)
    for j in np.flatnonzero(stream.categorical):
        known = ~np.isnan(X[:, j])
        X[known, j] = np.searchsorted(stream.codes(j), X[known, j])
    for row in np.column_stack([X, targets]):
        yield DenseInstance(1.0, to_doubles(row))


def with_ensemble(name: str, size: int) -> Callable[[Any, Any], Any]:
    """How to make a forest of so many trees."""
    return lambda module, schema: getattr(module, name)(schema=schema, ensemble_size=size)


class _Moa:
    """A learner of MOA at the start of a stream.

    Parameters
    ----------
    make
        Its name in CapyMOA, or what makes it from CapyMOA's module and a schema.
    stream
        What it will see.

    """

    module: str

    def __init__(self, make: str | Callable[[Any, Any], Any], stream: Stream) -> None:
        import importlib

        module = importlib.import_module(self.module)
        self.stream = java_stream(stream)
        schema = self.stream.get_schema()
        self.model = (
            getattr(module, make)(schema=schema) if isinstance(make, str) else make(module, schema)
        )

    @property
    def _raw_memory_usage(self) -> int | None:
        """Of the model as Java writes it to a file, for MOA cannot weigh it without an agent."""
        from java.io import ByteArrayOutputStream, NotSerializableException, ObjectOutputStream

        written = ByteArrayOutputStream()
        try:
            ObjectOutputStream(written).writeObject(self.model.moa_learner)
        except NotSerializableException:  # streaming random patches
            return None
        return int(written.size())


class MoaClassifier(_Moa):
    """A classifier of MOA, whose loop over rows is Java's."""

    module = "capymoa.classifier"

    def block(self, start: int, stop: int) -> tuple[NDArray[np.int64], float]:
        """The classes predicted for the rows that follow, each learned after, and the seconds."""
        from capymoa.evaluation import prequential_evaluation

        results = prequential_evaluation(
            self.stream, self.model, max_instances=stop - start, store_predictions=True,
            restart_stream=False,
        )
        return np.asarray(results.predictions(), dtype=np.int64), results.wallclock()


class MoaRegressor(_Moa):
    """A regressor of MOA, called row by row: Java's loop keeps predictions as integers only."""

    module = "capymoa.regressor"

    def block(self, start: int, stop: int) -> tuple[NDArray[np.float64], float]:
        """The values predicted for the rows that follow, each learned after, and the seconds."""
        learner, rows = self.model.moa_learner, self.stream.moa_stream
        predicted = []
        began = time.perf_counter()
        for _ in range(start, stop):
            instance = rows.nextInstance().getData()
            votes = learner.getVotesForInstance(instance)
            predicted.append(votes[0] if len(votes) else np.nan)
            learner.trainOnInstance(instance)
        seconds = time.perf_counter() - began
        return np.array(predicted, dtype=np.float64), seconds
