"""One forest whose members are spread over processes."""

from __future__ import annotations

import functools
from collections import deque
from pathlib import Path
from typing import Any, Generic, TypeVar, Unpack

import numpy as np
import ray
from numpy.typing import NDArray

from streamtree import modelfile
from streamtree.base import StreamClassifier, check_integer
from streamtree.batches import repeatable
from streamtree.distributed.crew import Job, Options, forget_results
from streamtree.distributed.shape import Shape, check_model
from streamtree.distributed.worker import ModelWorker, SequenceError
from streamtree.forest import ForestClassifier, ForestRegressor
from streamtree.serialization import to_bytes

__all__ = ["ShardedForest"]

Forest = TypeVar("Forest", ForestClassifier, ForestRegressor)
Array = NDArray[np.float64]


class ForestWorker(ModelWorker):
    """A forest of which some members are here: number `m` is with worker `m` modulo `n_workers`.

    The driver's own worker, number `n_workers`, is told what they all say, and has the pool, and
    the member that learns from what the pool says.
    """

    def __init__(self, folder: str, number: int, *, model: bytes, n_workers: int) -> None:
        self._n_workers = n_workers
        super().__init__(folder, number, model=model)

    def take(self, model: Any) -> None:
        super().take(model)
        self._take_up(model.snapshot())

    def _take_up(self, state: dict[str, Any]) -> None:
        self._owners = np.arange(len(self.model.member_weights)) % self._n_workers
        if self.model._is_corrected:
            self._owners[-1] = self._n_workers
        self._here = self._owners == self._number
        self._exchange = self.model._spread(self._here.tolist())
        members = state["tree"]["members"]
        state["tree"]["members"] = {
            key: member for key, member in members.items() if self._here[int(key)]
        }
        self.model._core.check_state(state)
        self.model._core.restore(state)

    def checkpoint(self, position: int) -> None:
        parts = self.model._file_parts(position)
        modelfile.check_names(parts[2])
        self.model._core.check_state(parts[2])
        modelfile.write(self._path(position), *parts)
        self.forget_old()

    def load(self, path: Path) -> None:
        # a file of the members that are here
        with modelfile.refusing(path):
            self._take_up(modelfile.read(path)["state"])

    def learn_part(self, part: Any) -> Any:
        X, y, w = part
        batch, arguments = self.model._prepared(X, y, w)
        n_new = 0
        if isinstance(self.model, StreamClassifier):
            n_new = len(set(arguments[3]) - set(self.model.labels))
        said = self._room(batch.n_rows, n_new)
        self.model.test_then_learn_many(X, y, w)
        return self._told(said)

    def ask(self, question: str, part: Any) -> Any:
        if question == "members":
            return self.model.snapshot()["tree"]["members"]
        said = self._room(self.model._batch(part).n_rows, 0)
        self.model.predict_many(part)
        return self._told(said)

    def _room(self, n_rows: int, n_new: int) -> Array:
        """Where the members here write what they say of rows, and perhaps of new labels."""
        said = np.zeros((n_rows, n_new + self._n_outputs, len(self._here)))
        self._exchange.begin(said)
        return said

    @property
    def _n_outputs(self) -> int:
        return len(self.model.labels) if isinstance(self.model, StreamClassifier) else 1

    def _told(self, said: Array) -> Array:
        return np.ascontiguousarray(said[:, : self._n_outputs, self._here])

    def hear(self, parts: list[Array]) -> None:
        """Take what the members of all workers said of the rows that come next."""
        said = np.zeros((*parts[0].shape[:2], len(self._here)))
        for number, part in enumerate(parts):
            said[:, :, self._owners == number] = part
        self._exchange.begin(said)

    def whole(self, members: dict[str, Any]) -> Any:
        """The forest in one process."""
        state = self.model.snapshot()
        state["tree"]["members"] |= members
        forest = self.model.clone()
        forest._core.check_state(state)
        forest._core.restore(state)
        return forest


class ShardedForest(Shape, Generic[Forest]):
    """A forest whose members are spread over processes, for one that is too slow or too large.

    Every batch goes to all workers, through Ray's object store once. Each lets its members learn
    it, and says what they would have predicted; the driver pools that, and learns what each member
    is worth. What is said and learned is that of the forest in one process, bit for bit: for any
    number of workers, any batches, and whatever process dies on the way. But here every member
    keeps its share of `max_bytes`; in one process shares change once a member takes more than half
    of its own (randomised and boosted trees: a quarter).

    A member is with one worker; contexts, which correct what the others say, are with the driver.
    The randomised trees are one member; for a large forest let there be several:
    `members=(ForestClassifier(50, ("extra",), seed=1), ForestClassifier(50, ("extra",), seed=2),
    ...)`.

    Parameters
    ----------
    forest
        A `ForestClassifier` or a `ForestRegressor`, with what it has learned. It stays as it is.
        It is not to begin anew, nor its members to rest (`restarts=False`, and `rests=False` for
        labels): workers learn rows before it is known what all have said of them.
    n_workers
        At least 1, at most as many as there are members besides contexts.
    **options
        `folder`, `checkpoint_rows`, `in_flight`, `resources`, as for `KeyedModels`.

    Attributes
    ----------
    position, n_restarts
        As for `KeyedModels`.

    Notes
    -----
    For every row, label and member a number of 8 bytes goes to the driver, which reads and scales
    all rows, too. The members' state is never all with the driver, except for `model`.

    Examples
    --------
    >>> import numpy as np, ray
    >>> from streamtree import ForestClassifier
    >>> from streamtree.distributed import ShardedForest
    >>> _ = ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    >>> rng = np.random.default_rng(1)
    >>> X = rng.normal(size=(600, 3))
    >>> y = X[:, 0] + X[:, 1] > 0
    >>> local = ForestClassifier(rests=False, restarts=False)
    >>> with ShardedForest(local.clone(), n_workers=2) as forest:
    ...     said = forest.test_then_learn_many(X, y)
    ...     said.tolist() == local.test_then_learn_many(X, y).tolist()
    True
    >>> ray.shutdown()

    """

    def __init__(
        self, forest: Forest, n_workers: int = 1, **options: Unpack[Options]
    ) -> None:
        check_model("forest", forest, (ForestClassifier, ForestRegressor), "a forest")
        if isinstance(forest, ForestClassifier) and forest.rests:
            raise ValueError(
                "members that are spread over processes cannot rest: set forest.rests = False"
            )
        if forest.restarts:
            raise ValueError(
                "a forest that is spread over processes cannot begin anew: "
                "set forest.restarts = False"
            )
        n_members = len(forest.member_weights) - forest._is_corrected
        n_workers = check_integer("n_workers", n_workers, at_least=1, at_most=2**62)
        if n_workers > n_members:
            raise ValueError(
                f"n_workers must be at most {n_members}, as many as there are members to spread, "
                f"got {n_workers}"
            )
        make_worker = functools.partial(
            ForestWorker, model=to_bytes(forest), n_workers=n_workers
        )
        super().__init__(forest, make_worker, n_workers, options, has_own=True)
        # batches that the driver has not pooled yet
        self._pending: deque[_Sent] = deque()
        self._is_whole = True   # the driver and the workers know the same batches

    @property
    def _own(self) -> ForestWorker:
        return self._crew.own  # type: ignore[return-value]

    def learn_many(self, X: Any, y: Any, w: Any = None) -> None:
        """Learn a batch, as `KeyedModels.learn_many` does without keys."""
        self._sent(X, y, w, asks=False)
        while len(self._pending) > self._crew.in_flight:
            self._pool_next()
        self._checkpoint_if_due()

    def test_then_learn_many(self, X: Any, y: Any, w: Any = None, *, proba: bool = False) -> Any:
        """Predict rows before they are learned, as the forest does in one process."""
        said = self._answer(self._sent(X, y, w, proba=proba))
        self._checkpoint_if_due()
        return said

    def _sent(
        self, X: Any, y: Any, w: Any = None, *, proba: bool = False, asks: bool = True
    ) -> _Sent:
        y, w = repeatable(y), repeatable(w)
        batch, _ = self._own.model._prepared(X, y, w)
        self._check_whole()
        sent = _Sent(ray.put((X, y, w)), asks, {"proba": True} if proba else {})
        parts = [sent.batch] * len(self._crew.seats)
        self._is_whole = False
        sent.jobs = self._crew.learn(parts, batch.n_rows, is_awaited=asks)
        self._pending.append(sent)
        self._is_whole = True
        return sent

    def _check_whole(self) -> None:
        if not self._is_whole:
            raise SequenceError(
                "an error or an interrupt came while the forest learned: close it, and go on "
                "from the last checkpoint"
            )

    def _answer(self, sent: _Sent) -> Any:
        while sent in self._pending:
            self._pool_next()
        if sent.error is not None:
            raise sent.error
        return sent.said

    def _pool_next(self) -> None:
        """Let the driver learn the next batch, from what the members have said of it."""
        self._check_whole()
        sent = self._pending[0]
        # who is interrupted while it waits may ask again
        found = self._crew.results(sent.jobs)
        errors = [error for _, error in found if error is not None]
        self._is_whole = False
        if not errors:
            self._own.hear([said for said, _ in found])
            said = self._own.model.test_then_learn_many(*ray.get(sent.batch), **sent.options)
            if sent.asks:
                sent.said = said
        elif len(errors) == len(found):
            # the forest has refused it; `wait` tells who has not asked
            sent.error = errors[0]
        else:
            raise errors[0]
        forget_results(sent.jobs)
        self._pending.popleft()
        self._is_whole = True

    def _pool_all(self) -> None:
        self._check_whole()
        while self._pending:
            self._pool_next()

    def wait(self) -> None:
        """Wait until all rows are learned; raises what the forest has refused."""
        self._pool_all()
        super().wait()

    def checkpoint(self) -> None:
        """Keep on disk all that was learned; from here on it cannot be lost."""
        self._pool_all()
        super().checkpoint()

    # --------------------------------------------------------------------------- predicting

    def predict_many(self, X: Any) -> Any:
        """Predict rows, all that was sent before being learned; as the forest does."""
        self._hear_of(X)
        return self._own.model.predict_many(X)

    def predict_proba_many(self, X: Any) -> Any:
        """The probability of every label for every row, as the forest says it."""
        self._hear_of(X)
        return self._own.model.predict_proba_many(X)

    def _hear_of(self, X: Any) -> None:
        self._own.model._batch(X)
        self._pool_all()
        self._own.hear(self._crew.ask("said", [ray.put(X)] * len(self._crew.seats)))

    def model(self) -> Forest:
        """The forest in one process, with all that was learned."""
        self._pool_all()
        found = self._crew.ask("members")
        members = {key: state for part in found for key, state in part.items()}
        forest: Forest = self._own.whole(members)
        return forest


class _Sent:
    """A batch under way."""

    def __init__(self, batch: Any, asks: bool, options: dict[str, Any]) -> None:
        self.batch = batch
        self.asks = asks
        self.options = options
        self.jobs: list[Job] = []
        self.said: Any = None
        self.error: Exception | None = None
