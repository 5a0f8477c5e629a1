"""SIGKILL while a model is saved: the file is that of one moment, whole."""

import os
import pickle
import random
import signal
import tempfile
import time
from pathlib import Path

from support.estimators import stream_of
from support.streams import as_dicts

from attack.checks import estimators, told_of
from streamtree.checkpoint import Checkpoint

ROWS = 3000
# examples between two checkpoints
EVERY = 20


def work(path, estimator, rows, y):
    """Learn and save until killed, in a process of its own."""
    checkpoint = Checkpoint(path, examples=EVERY)
    model, position = checkpoint.resume(estimator())
    while True:
        model.learn_one(rows[position % ROWS], y[position % ROWS])
        position += 1
        checkpoint.update(model, position)


def attack(estimator, n, seed, folder):
    """n kills of one estimator, each of which goes on from the file that the one before left."""
    rng = random.Random(seed)
    path = Path(folder) / f"{estimator.__name__}.model"
    X, y = stream_of(estimator, ROWS)
    rows, expected, behind, positions = as_dicts(X), estimator(), 0, []
    for _ in range(n):
        worker = os.fork()
        if worker == 0:
            try:
                work(path, estimator, rows, y)
            finally:
                os._exit(1)
        time.sleep(rng.uniform(0.005, 0.08))
        os.kill(worker, signal.SIGKILL)
        _, status = os.waitpid(worker, 0)
        assert os.WIFSIGNALED(status), "the worker failed by itself"
        if not path.exists():
            continue
        saved, position = Checkpoint(path, examples=EVERY).resume(estimator())
        while behind < position:
            expected.learn_one(rows[behind % ROWS], y[behind % ROWS])
            behind += 1
        assert pickle.dumps(saved) == pickle.dumps(expected)
        assert [file.name for file in path.parent.iterdir()] == [path.name]
        positions.append(position)
    assert positions == sorted(positions)
    return len(set(positions))


def run(n, seed=0, only=None):
    """n kills, divided among the estimators."""
    chosen, moments = estimators(only), 0
    for number, estimator in enumerate(chosen):
        with (
            tempfile.TemporaryDirectory() as folder, told_of(f"{estimator.__name__}, seed {seed}")
        ):
            moments += attack(estimator, len(range(number, n, len(chosen))), seed, folder)
    return f"{n} kills at {moments} positions"
