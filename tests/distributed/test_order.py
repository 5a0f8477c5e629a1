"""What a worker does in its own process: keys, the shelf of models, the order of batches."""

import operator
import sqlite3
import subprocess
import sys
from datetime import date

import numpy as np
import pytest
from support.streams import blobs

pytest.importorskip("ray.exceptions", reason="Ray is not installed")

from streamtree import ModelFileError, ModelTreeClassifier, NonGreedyTreeClassifier
from streamtree.distributed import SequenceError
from streamtree.distributed.keyed import KeyedWorker
from streamtree.distributed.keys import key_name, sorted_by_key, worker_of
from streamtree.distributed.parallel import ReplicaWorker
from streamtree.distributed.shelf import Shelf
from streamtree.serialization import to_bytes


def test_keys_that_are_equal_have_one_name():
    for keys in ([1, 1.0, True, np.int64(1), np.float32(1), np.True_], ["a", np.str_("a")],
                 [(1, "a"), (True, np.str_("a"))], [0.5, np.float64(0.5)]):
        assert len({key_name(key) for key in keys}) == 1
    others = [1, 2, "1", (1,), (1, 2), 1.5, "", 2**70, -1]
    assert len({key_name(key) for key in others}) == len(others)
    for key in (float("nan"), b"bytes", object(), None):
        with pytest.raises(TypeError, match="key"):
            key_name(key)


def test_the_worker_of_a_key_does_not_depend_on_the_process():
    program = (
        "from streamtree.distributed.keys import key_name, worker_of\n"
        "print([worker_of(key_name(key), 7) for key in ('a', 5, ('b', 2.5), 2.5)])"
    )
    said = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True, text=True, check=True,
        ).stdout
        for seed in "12"
    }
    assert said == {f"{[worker_of(key_name(key), 7) for key in ('a', 5, ('b', 2.5), 2.5)]}\n"}


def test_keys_are_spread_evenly():
    counts = np.bincount([worker_of(key_name(key), 4) for key in range(4000)])
    assert counts.min() > 900


@pytest.mark.parametrize("kind", [list, np.array])
def test_rows_are_in_order_of_worker_and_key(kind):
    keys = np.random.default_rng(0).integers(20, size=300)
    order, parts = sorted_by_key(kind(keys.tolist()), 300, 3)
    assert sorted(order.tolist()) == list(range(300))
    at = 0
    for number, (start, stop, names, counts) in enumerate(parts):
        assert start == at
        for name, n in zip(names, counts, strict=True):
            rows = order[at : at + n].tolist()
            assert rows == sorted(rows)
            assert {key_name(keys[row]) for row in rows} == {name}
            assert len(rows) == (keys == keys[rows[0]]).sum()
            assert worker_of(name, 3) == number
            at += n
        assert stop == at
    with pytest.raises(ValueError, match="X has 5 rows, keys has 300"):
        sorted_by_key(keys.tolist(), 5, 3)


def grown(shelf, names, X, y):
    for name, x, label in zip(names, X, y, strict=True):
        shelf.to_learn(name).learn_many(x[None], [label])


def contents(shelf, names):
    return [to_bytes(shelf.find(name)) for name in sorted(set(names))]


def test_a_shelf_gives_back_what_it_was_given(tmp_path):
    X, y = blobs(300, 3, features=3, spread=2.0)
    names = [b"%d" % i for i in np.random.default_rng(1).integers(12, size=300)]
    small = Shelf(tmp_path / "small", ModelTreeClassifier(), 2)
    large = Shelf(tmp_path / "large", ModelTreeClassifier(), 100)
    for shelf in (small, large):
        grown(shelf, names, X, y)
        assert len(shelf) == 12
        assert shelf.find(b"nobody") is None
        assert len(shelf) == 12
    assert (small.n_open, large.n_open) == (2, 12)
    assert contents(small, names) == contents(large, names)
    assert small.n_open == 2


def test_models_that_are_in_memory_come_first_and_stay(tmp_path):
    shelf = Shelf(tmp_path / "shelf", ModelTreeClassifier(), 3)
    names = [b"%d" % i for i in range(6)]
    assert shelf.in_turn(names) == [0, 1, 2, 3, 4, 5]
    for name in names[3:]:
        shelf.to_learn(name)
    turns = shelf.in_turn(names)
    assert turns == [3, 4, 5, 0, 1, 2]
    for i in turns:
        shelf.to_learn(names[i])
    # those that came in took each other's place
    assert shelf.in_turn(names) == [2, 3, 4, 0, 1, 5]
    # who is no part of a batch goes first
    shelf.find(names[0])
    assert shelf.in_turn(names) == [0, 2, 4, 1, 3, 5]
    assert (shelf.n_open, len(shelf)) == (3, 6)


def test_a_shelf_keeps_its_last_two_checkpoints(tmp_path):
    X, y = blobs(400, 3, features=3, spread=2.0)
    names = [b"%d" % i for i in np.random.default_rng(1).integers(10, size=400)]
    path = tmp_path / "shelf"
    shelf = Shelf(path, ModelTreeClassifier(), 3)
    assert shelf.positions() == [0]
    states = {}
    for end in (100, 200, 300):
        part = slice(end - 100, end)
        grown(shelf, names[part], X[part], y[part])
        shelf.checkpoint(end)
        states[end] = contents(shelf, names)
    assert shelf.positions() == [200, 300]
    grown(shelf, names[300:], X[300:], y[300:])
    # as if the process had died: what is in no checkpoint is gone
    shelf.close()
    shelf = Shelf(path, ModelTreeClassifier(), 3)
    assert contents(shelf, names) == states[300]
    shelf.go_back(200)
    assert shelf.positions() == [200]
    assert contents(shelf, names) == states[200]
    # and the way forward is the same again
    grown(shelf, names[200:300], X[200:300], y[200:300])
    shelf.checkpoint(300)
    assert contents(shelf, names) == states[300]
    assert shelf.positions() == [200, 300]
    with pytest.raises(ValueError, match="no checkpoint at 100"):
        shelf.go_back(100)


def test_a_first_checkpoint_can_be_taken_back(tmp_path):
    shelf = Shelf(tmp_path / "shelf", ModelTreeClassifier(), 3)
    grown(shelf, [b"a"], np.ones((1, 2)), [1])
    shelf.checkpoint(1)
    assert shelf.positions() == [0, 1]
    shelf.go_back(0)
    assert len(shelf) == 0
    assert shelf.positions() == [0]


def test_a_prototype_hands_on_what_it_knows(tmp_path):
    prototype = ModelTreeClassifier()
    prototype.learn_one({0: 1.0}, "known")
    shelf = Shelf(tmp_path / "shelf", prototype, 3)
    assert to_bytes(shelf.to_learn(b"a")) == to_bytes(prototype)
    shelf.to_learn(b"a").learn_one({0: 2.0}, "new")
    assert prototype.labels == ["known"]


def test_what_is_forged_on_disk_is_found_out(tmp_path):
    path = tmp_path / "shelf"
    shelf = Shelf(path, ModelTreeClassifier(), 3)
    grown(shelf, [b"a"], np.ones((1, 2)), [1])
    shelf.checkpoint(1)
    shelf.close()
    with sqlite3.connect(path) as file:
        ((data,),) = file.execute("SELECT data FROM models").fetchall()
        file.execute("UPDATE models SET data = ?", (data[:-9] + bytes(9),))
    file.close()
    with pytest.raises(ModelFileError):
        Shelf(path, ModelTreeClassifier(), 3).find(b"a")


def test_a_batch_is_learned_once_or_refused(tmp_path):
    worker = KeyedWorker(
        str(tmp_path), 0, prototype=to_bytes(ModelTreeClassifier()), n_open=10
    )
    part = [b"a"], [2], np.ones((2, 2)), np.array([0, 1]), None, False
    assert worker.learn(0, 5, part) == (None, None)
    assert worker.position == 5
    before = worker.ask("models", [b"a"])
    for first, problem in ((0, "learned already"), (4, "learned already"), (6, "leave a gap")):
        with pytest.raises(SequenceError, match=problem):
            worker.learn(first, 5, part)
    assert (worker.position, worker.ask("models", [b"a"])) == (5, before)
    worker.learn(5, 2, part)
    assert worker.position == 7


def test_a_full_disk_is_no_error_of_the_rows(tmp_path):
    """Nor is a model lost that could not be put aside."""
    prototype = to_bytes(ModelTreeClassifier())
    worker = KeyedWorker(str(tmp_path), 0, prototype=prototype, n_open=2)
    X, y = blobs(400, 3, features=3, spread=2.0)
    names = [b"%d" % i for i in range(8)]
    worker.learn(0, 400, (names, [50] * 8, X, y, None, False))
    worker.checkpoint(400)
    known = worker.ask("models", names)
    file = worker.shelf._file
    (pages,) = file.execute("PRAGMA page_count").fetchone()
    file.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(sqlite3.OperationalError, match="full"):
        worker.learn(400, 400, (names, [50] * 8, X, y, None, False))
    assert worker.position == 400
    file.execute("PRAGMA max_page_count = 1000000")
    rows = [worker.shelf.find(name).snapshot()["scaler"]["rows"] for name in names]
    # those of the models that were in memory
    assert sorted(rows) == [50] * 6 + [100] * 2
    worker.take_up(400)
    assert worker.ask("models", names) == known


def test_an_error_is_that_of_its_key(tmp_path):
    worker = KeyedWorker(
        str(tmp_path), 0, prototype=to_bytes(ModelTreeClassifier()), n_open=10
    )
    X, y = np.ones((4, 1)), np.array([1, None, 1, 1], dtype=object)
    said, error = worker.learn(0, 4, ([b"a", b"b"], [2, 2], X, y, None, True))
    assert said is None
    assert "key a: " in str(error)
    assert worker.position == 4
    assert worker.ask("count", None)["n_models"] == 2
    assert worker.shelf.find(b"b").labels == [1]


def test_of_several_errors_the_first_is_told_whatever_is_in_memory(tmp_path):
    worker = KeyedWorker(
        str(tmp_path), 0, prototype=to_bytes(ModelTreeClassifier()), n_open=1
    )
    X, y = np.ones((2, 1)), np.array([None, None], dtype=object)
    worker.learn(0, 1, ([b"b"], [1], X[:1], np.array([1]), None, False))
    _, error = worker.learn(1, 2, ([b"a", b"b"], [1, 1], X, y, None, True))
    assert "key a: " in str(error)


@pytest.mark.parametrize("labels", [[0, 1], [date(2025, 1, 1), "x"]], ids=["ints", "others"])
@pytest.mark.parametrize("kind", ["polars.DataFrame", "pandas.DataFrame", "pyarrow.table",
                                  "pyarrow.RecordBatch.from_pydict"])
def test_labels_of_frames_stay_what_they_are_beside_none(tmp_path, kind, labels):
    library, _, maker = kind.partition(".")
    X = operator.attrgetter(maker)(pytest.importorskip(library))({"a": [0.0, 1.0, 1.0]})
    y = np.array(labels, dtype=object)[[0, 1, 1]]
    expected = [None, *labels]
    keyed = KeyedWorker(str(tmp_path), 0, prototype=to_bytes(ModelTreeClassifier()), n_open=1)
    said, _ = keyed.learn(0, 3, ([b"a"], [3], X, y, None, True))
    assert list(map(repr, said)) == list(map(repr, expected))
    assert list(map(repr, keyed.ask("predict", ([b"b"], [3], X)))) == ["None"] * 3
    replica = ReplicaWorker(str(tmp_path), 0, model=to_bytes(NonGreedyTreeClassifier(depth=2)))
    (said, _), _ = replica.learn(0, 3, (None, True, False, X, y, None))
    assert list(map(repr, said.tolist())) == list(map(repr, expected))
