"""One side of compare.py: does tasks with the streamtree of the interpreter that runs it.

A task comes in on every line of the standard input, its answer goes out on a line of the standard
output, both in JSON. The first line out says which streamtree it is. Imports data.py at the most,
so that any version of streamtree will do.
"""

from __future__ import annotations

import hashlib
import json
import sys
import time
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from data import as_dicts, load, stream_order
from numpy.typing import NDArray

import streamtree

# what a learner was called before it got its name
EARLIER = {"ModelTreeClassifier": "LOMTreeClassifier"}
CHUNK = 1_000


@lru_cache(maxsize=1)
def stream(name: str, limit: int) -> tuple[Any, NDArray[Any], list[dict[Any, Any]]]:
    """The first rows of a set in the order of the gate: arrays, and dicts."""
    data = load(name)
    order = stream_order(name, len(data.y), limit)
    X = data.X[order]
    return X, data.y[order], as_dicts(X, list(map(str, data.feature_names)), data.categorical)


def dicts(model: Any, rows: list[dict[Any, Any]], targets: list[Any]) -> list[Any]:
    """Predict each row, then learn it."""
    predict, learn, predicted = model.predict_one, model.learn_one, []
    for x, y in zip(rows, targets, strict=True):
        predicted.append(predict(x))
        learn(x, y)
    return predicted


def test_then_learn(model: Any, X: Any, y: NDArray[Any]) -> None:
    """The same by arrays; versions that cannot do it predict a thousand rows, then learn them."""
    if hasattr(model, "test_then_learn_many"):
        model.test_then_learn_many(X, y)
        return
    for start in range(0, len(y), CHUNK):
        part = slice(start, start + CHUNK)
        model.predict_many(X[part])
        model.learn_many(X[part], y[part])


def score(predicted: list[Any], y: NDArray[Any]) -> float:
    """Accuracy, or R2."""
    if y.dtype.kind in "iu":
        return float(np.mean([p == t for p, t in zip(predicted, y.tolist(), strict=True)]))
    return float(1 - ((np.array(predicted) - y) ** 2).sum() / ((y - y.mean()) ** 2).sum())


def renamed(rows: list[dict[Any, Any]], naming: int) -> list[dict[Any, Any]]:
    """The rows with other names for the columns; as they are for naming 0."""
    if naming == 0:
        return rows
    return [{f"{naming}.{name}": value for name, value in x.items()} for x in rows]


def done(task: dict[str, Any]) -> dict[str, Any]:
    """The answer to a task: seconds, and for dicts what was predicted, in short."""
    name = task["learner"]
    kind = getattr(streamtree, name if hasattr(streamtree, name) else EARLIER[name])
    X, y, rows = stream(task["set"], task["rows"])
    model, targets, predicted = kind(**task["params"]), y.tolist(), None
    began = time.process_time()
    if task["way"] == "dicts":
        predicted = dicts(model, rows, targets)
    elif task["way"] == "arrays":
        model.learn_many(X, y)
    else:
        test_then_learn(model, X, y)
    answer: dict[str, Any] = {"seconds": time.process_time() - began}
    if predicted is not None:
        scores = [score(predicted, y)]
        for naming in range(1, task.get("names", 1)):
            order = np.arange(len(y))
            if task.get("shuffled"):
                order = np.random.default_rng(naming).permutation(len(y))
            others = renamed([rows[i] for i in order], naming)
            said = dicts(kind(**task["params"]), others, y[order].tolist())
            scores.append(score(said, y[order]))
        digest = hashlib.sha256(json.dumps(predicted).encode()).hexdigest()
        answer |= {"scores": scores, "digest": digest}
    return answer


if __name__ == "__main__":
    folder = Path(streamtree.__file__).parent
    print(json.dumps(f"streamtree {streamtree.__version__} in {folder}"), flush=True)
    for line in sys.stdin:
        print(json.dumps(done(json.loads(line))), flush=True)
