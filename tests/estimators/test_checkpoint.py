"""Checkpoints: when they are made, where they go on, and what a killed process leaves."""

import itertools
import os
import pickle
import subprocess
import sys
import time
from pathlib import Path

import pytest
from river.preprocessing import StandardScaler
from support.estimators import defaults, learned, stream_of, targets_of
from support.streams import as_dicts, changing_rows

import streamtree
from streamtree import (
    LOMTreeClassifier,
    ModelFileError,
    ModelTreeClassifier,
    NonGreedyTreeClassifier,
)
from streamtree.checkpoint import Checkpoint
from streamtree.serialization import load_at, to_bytes


@pytest.fixture
def path(tmp_path):
    return tmp_path / "stream.model"


def run_until(checkpoint, new_model, rows, targets, end):
    """The loop that the docstring shows, stopped after `end` examples of the stream."""
    model, position = checkpoint.resume(new_model)
    for x, y in itertools.islice(zip(rows, targets, strict=True), position, end):
        model.learn_one(x, y)
        position += 1
        checkpoint.update(model, position)
    return model, position


@defaults
def test_a_stopped_loop_goes_on_from_its_last_checkpoint(estimator, params, path):
    rows, classes = changing_rows(300, 4)
    y = targets_of(estimator, classes)
    for end in (40, 130, 155, 300):
        model, _ = run_until(Checkpoint(path, examples=50), estimator(**params), rows, y, end)
        if end >= 50:
            saved, position = Checkpoint(path, examples=50).resume(estimator(**params))
            assert position == end // 50 * 50
            whole = learned(estimator, params, rows[:position], y[:position])
            assert pickle.dumps(saved) == pickle.dumps(whole)
    assert pickle.dumps(model) == pickle.dumps(learned(estimator, params, rows, y))


def test_examples_count_from_the_last_checkpoint(path):
    model, checkpoint = ModelTreeClassifier(), Checkpoint(path, examples=100)
    assert checkpoint.resume(model) == (model, 0)
    due = [n for n in range(0, 1000, 30) if checkpoint.update(model, n)]
    assert due == [120, 240, 360, 480, 600, 720, 840, 960]


def test_seconds(path, monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    model, checkpoint = ModelTreeClassifier(), Checkpoint(path, seconds=10)
    due = []
    for n in range(100):
        now[0] += 0.75
        if checkpoint.update(model, n):
            due.append(n)
    assert due == [13, 27, 41, 55, 69, 83, 97]
    both = Checkpoint(path, examples=5, seconds=10)
    assert not both.update(model, 4)
    assert both.update(model, 5)
    now[0] += 10
    assert both.update(model, 6)


def test_a_checkpoint_is_a_model_file(path):
    rows, y = changing_rows(50, 3)
    model = learned(LOMTreeClassifier, {}, rows, y)
    Checkpoint(path, examples=1).save(model, 50)
    assert pickle.dumps(streamtree.load(path)) == pickle.dumps(model)
    model.save(path)
    assert Checkpoint(path, examples=1).resume(LOMTreeClassifier())[1] == 0


def test_notes_are_kept_beside_the_model(path):
    model, checkpoint = LOMTreeClassifier(), Checkpoint(path, examples=10)
    checkpoint.save(model, 1, notes={"seen": ["a", 1.5, None]})
    assert load_at(path)[1:] == (1, {"seen": ["a", 1.5, None]})
    assert not checkpoint.update(model, 10, notes={})
    assert checkpoint.update(model, 11, notes={"seen": []})
    assert load_at(path)[1:] == (11, {"seen": []})
    # until there are others, also for one that finds them in the file
    checkpoint.save(model, 12)
    assert load_at(path)[1:] == (12, {"seen": []})
    checkpoint = Checkpoint(path, examples=10)
    model, _ = checkpoint.resume(model)
    assert checkpoint.notes == {"seen": []}
    with pytest.raises(TypeError, match="notes"):
        checkpoint.save(model, 13, notes={"seen": {1}})
    assert checkpoint.update(model, 22)
    assert load_at(path)[1:] == (22, {"seen": []})
    checkpoint.save(model, 23, notes={})
    checkpoint.save(model, 24)
    assert load_at(path)[1:] == (24, {})
    path.unlink()
    checkpoint.resume(model)
    checkpoint.save(model, 1)
    assert load_at(path)[1:] == (1, None)


def test_another_model_or_a_damaged_file_is_not_taken(path):
    Checkpoint(path, examples=1).save(LOMTreeClassifier(seed=1, max_splits=9), 7)
    checkpoint = Checkpoint(path, examples=1)
    with pytest.raises(ValueError, match="NonGreedyTreeClassifier"):
        checkpoint.resume(NonGreedyTreeClassifier())
    with pytest.raises(ValueError, match="seed=1, not None"):
        checkpoint.resume(LOMTreeClassifier())
    # what may change while it learns is the saved model's own
    model, position = checkpoint.resume(LOMTreeClassifier(seed=1, max_splits=20))
    assert (model.max_splits, position) == (9, 7)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ModelFileError):
        checkpoint.resume(LOMTreeClassifier(seed=1))


def test_bad_arguments(path):
    for arguments in ({}, {"examples": 0}, {"examples": True}, {"seconds": -1.0},
                      {"seconds": float("nan")}):
        with pytest.raises(ValueError, match=r"examples|seconds"):
            Checkpoint(path, **arguments)
    for position in (-1, 1.5, True):
        with pytest.raises((TypeError, ValueError), match="position"):
            LOMTreeClassifier().save(path, position=position)


def test_a_pipeline_is_no_model(path):
    pipeline = StandardScaler() | ModelTreeClassifier()
    for act in (
        lambda: Checkpoint(path, examples=2).resume(pipeline),
        lambda: Checkpoint(path, examples=2).save(pipeline, 1),
        lambda: Checkpoint(path, examples=2).update(pipeline, 1),
        lambda: to_bytes(pipeline),
    ):
        with pytest.raises(TypeError, match=r"needed, got Pipeline; of a pipeline give the last"):
            act()
    assert not path.exists()


def test_only_its_own_leftovers_are_cleared_away(path):
    rest = [".stream.model.0123456789abcdef.tmp", ".stream.model.b.0123456789abcdef.tmp", "x.tmp"]
    for name in rest:
        (path.parent / name).touch()
    Checkpoint(path, examples=1).resume(LOMTreeClassifier())
    assert sorted(os.listdir(path.parent)) == sorted(rest[1:])


WORKER = """
import itertools, sys
from support.streams import as_dicts
from support.estimators import stream_of
from streamtree import ModelTreeClassifier
from streamtree.checkpoint import Checkpoint

X, y = stream_of(ModelTreeClassifier, 3000)
checkpoint = Checkpoint(sys.argv[1], examples=20)
model, position = checkpoint.resume(ModelTreeClassifier())
print(position, flush=True)
rows = as_dicts(X)
while True:
    model.learn_one(rows[position % 3000], y[position % 3000])
    position += 1
    checkpoint.update(model, position)
"""


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="SIGKILL is POSIX's")
def test_a_new_process_goes_on_where_a_killed_one_was(path):
    found = []
    for _ in range(2):
        worker = subprocess.Popen(
            [sys.executable, "-c", WORKER, str(path)],
            cwd=Path(__file__).parents[1],
            stdout=subprocess.PIPE,
            text=True,
        )
        found.append(int(worker.stdout.readline()))
        started = time.monotonic()
        while time.monotonic() - started < 30 and not path.exists():
            time.sleep(0.01)
        time.sleep(0.1)
        worker.kill()
        worker.communicate()
    saved, position = Checkpoint(path, examples=20).resume(ModelTreeClassifier())
    assert found[0] == 0
    assert 0 < found[1] <= position
    X, y = stream_of(ModelTreeClassifier, 3000)
    rows = as_dicts(X)
    whole = ModelTreeClassifier()
    for i in range(position):
        whole.learn_one(rows[i % 3000], y[i % 3000])
    assert pickle.dumps(saved) == pickle.dumps(whole)


@pytest.mark.skipif(os.name != "posix", reason="symbolic links are POSIX's")
def test_what_a_killed_process_left_behind_a_link_is_removed(tmp_path):
    (tmp_path / "real").mkdir()
    link, real = tmp_path / "some.model", tmp_path / "real" / "other.model"
    link.symlink_to(real)
    Checkpoint(link, examples=1).save(ModelTreeClassifier(), 0)
    left = real.parent / f".{real.name}.{'0' * 16}.tmp"
    left.write_bytes(b"half a model")
    Checkpoint(link, examples=1).resume(ModelTreeClassifier())
    assert [file.name for file in real.parent.iterdir()] == [real.name]
    assert link.is_symlink()
