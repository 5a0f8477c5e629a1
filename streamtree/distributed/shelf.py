"""Many models by key: the recently used in memory, all others in a database on disk.

The database is SQLite's: one file a worker, in which a checkpoint is a transaction. What is put
aside between two checkpoints belongs to the transaction that is open, so that a process that dies
finds exactly the models of its last checkpoint when it starts again.
"""

from __future__ import annotations

import copy
import functools
import os
import secrets
import sqlite3
from collections import OrderedDict
from collections.abc import Callable, Sequence
from pathlib import Path

from streamtree.base import StreamModel
from streamtree.serialization import from_bytes, to_bytes

__all__ = ["Shelf"]

# how long to wait for the process of a worker that was killed to let go of the file
LOCK_SECONDS = 60.0
TABLES = """
    CREATE TABLE IF NOT EXISTS models (
        name BLOB NOT NULL, epoch INTEGER NOT NULL, data BLOB NOT NULL, PRIMARY KEY (name, epoch)
    );
    CREATE TABLE IF NOT EXISTS checkpoints (epoch INTEGER PRIMARY KEY, position INTEGER NOT NULL);
"""


class Shelf:
    """Models by name, of which at most `n_open` are in memory.

    Every model has up to two versions: that of the last checkpoint but one, or what it was then,
    and the newest. So the last checkpoint can be taken back.

    Parameters
    ----------
    path
        The file. One process has it at a time.
    prototype
        What a model is at first sight.
    n_open
        At least 1: how many models may be in memory.

    """

    def __init__(
        self, path: str | os.PathLike[str], prototype: StreamModel, n_open: int
    ) -> None:
        # one that has learned already hands that on
        hands_on = prototype.snapshot()["scaler"]["rows"] > 0
        self._new: Callable[[], StreamModel] = (
            functools.partial(copy.deepcopy, prototype) if hands_on else prototype._cloner()
        )
        self._most = n_open
        self._open: OrderedDict[bytes, StreamModel] = OrderedDict()
        self._changed: set[bytes] = set()
        self._n_used = 0        # since `in_turn`: those at the end of `_open`
        # bytes that this process made need not be checked when it reads them again
        self._key = secrets.token_bytes(32)
        self._file = sqlite3.connect(
            Path(path), timeout=LOCK_SECONDS, isolation_level=None, cached_statements=32
        )
        # the file may be anybody's: no code in it is run
        self._file.execute("PRAGMA trusted_schema = OFF")
        self._file.execute("PRAGMA locking_mode = EXCLUSIVE")
        self._file.execute("PRAGMA journal_mode = WAL")
        self._file.execute("PRAGMA synchronous = FULL")
        self._file.executescript(TABLES)
        self._begin()

    def _begin(self) -> None:
        """Begin with what leads to the next checkpoint."""
        self._file.execute("BEGIN IMMEDIATE")
        self._epoch = max((epoch for epoch, _ in self._checkpoints()), default=0) + 1

    def __len__(self) -> int:
        """How many models there are, in memory or not."""
        (n,) = self._file.execute("SELECT COUNT(DISTINCT name) FROM models").fetchone()
        return int(n) + sum(self._stored(name) is None for name in self._changed)

    @property
    def n_open(self) -> int:
        """How many models are in memory."""
        return len(self._open)

    def positions(self) -> list[int]:
        """The positions of the checkpoints that are kept, 0 among them as long as it is."""
        checkpoints = self._checkpoints()
        begins = not checkpoints or checkpoints[0][0] == 1
        return [0] * begins + [position for _, position in checkpoints]

    def _checkpoints(self) -> list[tuple[int, int]]:
        query = "SELECT epoch, position FROM checkpoints ORDER BY epoch"
        return [(int(epoch), int(position)) for epoch, position in self._file.execute(query)]

    def _stored(self, name: bytes) -> bytes | None:
        row = self._file.execute(
            "SELECT data FROM models WHERE name = ? ORDER BY epoch DESC LIMIT 1", (name,)
        ).fetchone()
        return None if row is None else row[0]

    def in_turn(self, names: Sequence[bytes]) -> list[int]:
        """The places of the names of a batch, those first whose models are in memory.

        Else each would be put aside for one before it, where a batch has more than there is room
        for. What comes in then takes the place of what came in just before, for those that were
        there are the ones that most batches have.
        """
        self._n_used = 0
        return sorted(range(len(names)), key=lambda i: names[i] not in self._open)

    def find(self, name: bytes) -> StreamModel | None:
        """A model to be asked, None if it was never seen."""
        model = self._open.get(name)
        if model is not None:
            self._open.move_to_end(name)
            self._n_used += 1
            return model
        data = self._stored(name)
        if data is None:
            return None
        return self._keep(name, from_bytes(data, key=self._key))

    def to_learn(self, name: bytes) -> StreamModel:
        """A model that is about to learn, at first sight a copy of the prototype."""
        model = self.find(name)
        if model is None:
            model = self._keep(name, self._new())
        self._changed.add(name)
        return model

    def _keep(self, name: bytes, model: StreamModel) -> StreamModel:
        while len(self._open) >= self._most:
            are_used = self._n_used >= len(self._open)
            idle = next(reversed(self._open) if are_used else iter(self._open))
            if idle in self._changed:
                self._write(idle, self._open[idle])
                self._changed.remove(idle)
            del self._open[idle]
        self._open[name] = model
        self._n_used += 1
        return model

    def _write(self, name: bytes, model: StreamModel) -> None:
        data = to_bytes(model, key=self._key)
        self._file.execute(
            "INSERT OR REPLACE INTO models VALUES (?, ?, ?)", (name, self._epoch, data)
        )
        self._file.execute(
            "DELETE FROM models WHERE name = ?1 AND epoch < "
            "(SELECT MAX(epoch) FROM models WHERE name = ?1 AND epoch < ?2)", (name, self._epoch),
        )

    def checkpoint(self, position: int) -> None:
        """Bring all models to the disk, with a position."""
        # in the order of their names: the file does not depend on what was used when
        for name in sorted(self._changed):
            self._write(name, self._open[name])
        checkpoint = self._epoch, position
        self._file.execute("INSERT OR REPLACE INTO checkpoints VALUES (?, ?)", checkpoint)
        self._file.execute("DELETE FROM checkpoints WHERE epoch < ?", (self._epoch - 1,))
        self._file.execute("COMMIT")
        self._begin()
        self._changed.clear()

    def go_back(self, position: int) -> None:
        """Be as at a checkpoint; what came later is forgotten."""
        epochs = [epoch for epoch, at in self._checkpoints() if at == position]
        if not epochs and position:
            raise ValueError(f"there is no checkpoint at {position}")
        self._open.clear()
        self._changed.clear()
        self._file.rollback()
        self._file.execute("BEGIN IMMEDIATE")
        last = max(epochs, default=0)
        for table in ("models", "checkpoints"):
            self._file.execute(f"DELETE FROM {table} WHERE epoch > ?", (last,))
        self._file.execute("COMMIT")
        self._begin()

    def close(self) -> None:
        """Let go of the file; what is not in a checkpoint is lost."""
        self._file.close()
