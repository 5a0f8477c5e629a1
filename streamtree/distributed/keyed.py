"""One model for every key."""

from __future__ import annotations

import functools
import itertools
import os
from collections.abc import Hashable, Iterator
from typing import Any, Generic, TypeVar, Unpack

from streamtree.base import StreamModel, check_integer
from streamtree.batches import Batch, repeatable, take_rows
from streamtree.distributed.crew import Job, Options
from streamtree.distributed.keys import key_name, sorted_by_key, worker_of
from streamtree.distributed.shape import Shape, as_answers, as_rows, check_model
from streamtree.distributed.shelf import Shelf
from streamtree.distributed.worker import FAILURES, Worker
from streamtree.serialization import from_bytes, to_bytes

__all__ = ["KeyedModels"]

Model = TypeVar("Model", bound=StreamModel)


class KeyedWorker(Worker):
    """The models of some of the keys."""

    def __init__(self, folder: str, number: int, *, prototype: bytes, n_open: int) -> None:
        super().__init__()
        self._prototype = from_bytes(prototype)
        path = os.path.join(folder, f"worker-{number:04d}.db")
        self.shelf = Shelf(path, self._prototype, n_open)

    def _in_turn(self, names: list[bytes], counts: list[int]) -> Iterator[tuple[int, slice]]:
        """The keys of a batch by their places, with their rows, as it suits the shelf."""
        ends = list(itertools.accumulate(counts))
        for i in self.shelf.in_turn(names):
            yield i, slice(ends[i] - counts[i], ends[i])

    def learn_part(self, part: Any) -> list[Any] | None:
        names, counts, X, y, w, asks = part
        said: list[Any] = [None] * sum(counts) if asks else []
        failed: dict[int, Exception] = {}
        for i, rows in self._in_turn(names, counts):
            model = self.shelf.to_learn(names[i])
            mine = take_rows(X, rows), take_rows(y, rows), None if w is None else w[rows]
            try:
                if asks:
                    said[rows] = model._test_array(*mine).tolist()
                else:
                    model.learn_many(*mine)
            except FAILURES:
                raise
            except Exception as error:
                # the rows of other keys are learned all the same
                failed[i] = error
        if failed:
            # of several the same at every replay, whatever is in memory then
            first = min(failed)
            raise ValueError(f"key {names[first].decode()}: {failed[first]}")
        return said if asks else None

    def ask(self, question: str, part: Any) -> Any:
        if question == "predict":
            names, counts, X = part
            said: list[Any] = [None] * sum(counts)
            for i, rows in self._in_turn(names, counts):
                model = self.shelf.find(names[i]) or self._prototype
                said[rows] = model._predict_array(take_rows(X, rows)).tolist()
            return said
        if question == "models":
            found = map(self.shelf.find, part)
            return [None if model is None else to_bytes(model) for model in found]
        return {"n_models": len(self.shelf), "n_open": self.shelf.n_open}

    def checkpoint(self, position: int) -> None:
        self.shelf.checkpoint(position)

    def positions(self) -> list[int]:
        return self.shelf.positions()

    def go_back(self, position: int) -> None:
        self.shelf.go_back(position)


class KeyedModels(Shape, Generic[Model]):
    """A model of its own for every customer, device or route; millions of them.

    Keys are shared out to workers, which are processes of Ray, by a hash that is the same at every
    run. A model comes into being with the first row of its key. Only the recently used ones are in
    memory; the others lie in a database on the worker's disk, some kilobytes each. Every model is,
    byte for byte, what it would be had it learned the rows of its key alone, in their order: for
    any number of workers, any batches, any memory, and whatever process dies on the way.

    Parameters
    ----------
    prototype
        What a model is at first sight: a model that has learned nothing, or something that all are
        to know.
    n_workers
        At least 1: the number of processes. It is fixed for a folder.
    n_open
        At least 1: how many models each worker may have in memory.
    **options
        `folder`: where checkpoints lie; a disk that the workers reach, wherever Ray may start them.
        What lies there already is gone on with: see `position`. None, the default, for a temporary
        folder, with which workers may die, but not the driver.

        `checkpoint_rows`, at least 1, by default a million: a checkpoint is made whenever so many
        rows were learned. The driver keeps the rows since the last one.

        `in_flight`, at least 1, by default 4: how many batches may be under way to a worker before
        `learn_many` waits for it.

        `resources`: options of Ray's actors, such as `{"num_cpus": 0.5}`.

    Attributes
    ----------
    position
        The rows of the stream that are behind the models. After a start in a folder that was used
        before, it is that of the last checkpoint: feed the stream from there.
    n_restarts
        How often a worker has died and was started again.

    Notes
    -----
    Rows are learned at least from one checkpoint to the next by the same driver; rows that were
    sent and not yet in a checkpoint are sent again where a worker died. What a model refuses (an
    infinite value is found before anything is sent, but one label too many is not) is an error of
    its key alone: all other rows of the batch are learned, and the error comes with the answer, or
    with `wait` or a later call where nothing is answered.

    Examples
    --------
    >>> import numpy as np, ray
    >>> from streamtree import ModelTreeClassifier
    >>> from streamtree.distributed import KeyedModels
    >>> _ = ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    >>> rng = np.random.default_rng(1)
    >>> users = rng.integers(10, size=2000)
    >>> X = rng.normal(size=(2000, 3))
    >>> y = X[:, 0] > users / 5 - 1          # every user has a threshold
    >>> with KeyedModels(ModelTreeClassifier(), n_workers=2) as models:
    ...     models.learn_many(users[:1500], X[:1500], y[:1500])
    ...     hits = models.predict_many(users[1500:], X[1500:]) == y[1500:]
    ...     models.position, len(models), bool(hits.mean() > 0.85)
    (1500, 10, True)
    >>> ray.shutdown()

    """

    def __init__(
        self,
        prototype: Model,
        n_workers: int = 1,
        *,
        n_open: int = 10_000,
        **options: Unpack[Options],
    ) -> None:
        check_model("prototype", prototype)
        check_integer("n_open", n_open, at_least=1, at_most=2**31)
        self._prototype = prototype
        make_worker = functools.partial(
            KeyedWorker, prototype=to_bytes(prototype), n_open=n_open
        )
        super().__init__(prototype, make_worker, n_workers, options)

    def learn_many(self, keys: Any, X: Any, y: Any, w: Any = None) -> None:
        """Learn a batch: every row by the model of its key.

        It returns when the rows are on their way, and waits only where too many are.

        Parameters
        ----------
        keys
            n_rows keys: an array, a series or a list of str, int, float, bool, or tuples of these.
            Those that are equal in a dict are one key.
        X, y, w
            As for a single model.

        Raises
        ------
        ValueError, TypeError
            As for a single model; nothing is learned then. Errors of earlier batches, too.

        """
        self._sent(keys, X, y, w, asks=False)
        self._checkpoint_if_due()

    def test_then_learn_many(self, keys: Any, X: Any, y: Any, w: Any = None) -> Any:
        """Predict every row just before the model of its key learns it.

        Returns
        -------
        n_rows labels or numbers as an array, whatever X came in; an array of shape
        (n_rows, n_targets) for several targets.

        """
        answer = self._answer(self._sent(keys, X, y, w, asks=True))
        self._checkpoint_if_due()
        return answer

    def predict_many(self, keys: Any, X: Any) -> Any:
        """Predict rows by the models of their keys, all that was sent before being learned.

        A key that was never seen is answered by the prototype.
        """
        n_rows = Batch(X).n_rows
        order, parts = sorted_by_key(keys, n_rows, len(self._crew.seats))
        rows = take_rows(X, order)
        said = self._crew.ask(
            "predict",
            [(names, n, take_rows(rows, slice(a, b))) for a, b, names, n in parts],
        )
        return self._in_order(said, order)

    def model(self, key: Hashable) -> Model | None:
        """A copy of the model of a key, None if there is none."""
        name = key_name(key)
        [data] = self._crew.ask_one(worker_of(name, len(self._crew.seats)), "models", [name])
        return None if data is None else from_bytes(data)

    def __len__(self) -> int:
        """How many keys there are."""
        return sum(count["n_models"] for count in self._crew.ask("count"))

    @property
    def n_open(self) -> list[int]:
        """How many models each worker has in memory."""
        return [count["n_open"] for count in self._crew.ask("count")]

    # ---------------------------------------------------------------------------- parts

    def _sent(
        self, keys: Any, X: Any, y: Any, w: Any = None, *, asks: bool
    ) -> tuple[list[Job], Any]:
        """Check a batch as a model would, and send it; returns the jobs and the order of rows."""
        y, w = repeatable(y), repeatable(w)
        batch, arguments = self._prototype._prepared(X, y, w)
        weights = arguments[-1]
        order, parts = sorted_by_key(keys, batch.n_rows, len(self._crew.seats))
        targets = take_rows(as_rows(y, batch.n_rows, self._prototype), order)
        rows = take_rows(X, order)
        if weights is not None:
            weights = weights[order]
        sent = [
            (
                names, n, take_rows(rows, slice(a, b)), take_rows(targets, slice(a, b)),
                None if weights is None else weights[a:b], asks,
            )
            for a, b, names, n in parts
        ]
        return self._crew.learn(sent, batch.n_rows, is_awaited=asks), order

    def _answer(self, sent: tuple[list[Job], Any]) -> Any:
        jobs, order = sent
        return self._in_order(self._crew.said(jobs), order)

    def _in_order(self, said: list[list[Any]], order: Any) -> Any:
        """What was said of the rows of workers, in the order in which they came."""
        answers: list[Any] = [None] * len(order)
        for row, answer in zip(order.tolist(), itertools.chain(*said), strict=True):
            answers[row] = answer
        return as_answers(answers, self._prototype)
