"""One model whose rows are shared out to replicas."""

from __future__ import annotations

import functools
from typing import Any, Generic, TypeVar, Unpack

import numpy as np

from streamtree.base import StreamClassifier, StreamModel, check_integer
from streamtree.batches import Batch, repeatable, take_rows
from streamtree.distributed.crew import Job, Options, forget_results
from streamtree.distributed.shape import Shape, as_answers, as_rows, check_model
from streamtree.distributed.worker import ModelWorker
from streamtree.merging import FIXED, merge_states
from streamtree.modelpool import ModelPool, likeliest, mean_shares
from streamtree.serialization import from_bytes, to_bytes

__all__ = ["DataParallel"]

Model = TypeVar("Model", bound=StreamModel)


class ReplicaWorker(ModelWorker):
    """A replica, or a shard."""

    def learn_part(self, part: Any) -> Any:
        """Go on from a state if there is one, then learn; what is said, and the state after it."""
        state, asks, tells, *batch = part
        said = None
        if state is not None:
            self.take(restored(self.model, state))
        if asks:
            said = self.model._test_array(*batch)
        elif batch:
            self.model.learn_many(*batch)
        return said, self.model.snapshot() if tells else None

    def ask(self, question: str, part: Any) -> Any:
        if question == "state":
            return self.model.snapshot()
        if question == "shares":
            return list(self.model.labels), np.asarray(self.model.predict_proba_many(part))
        return super().ask(question, part)


def restored(like: StreamModel, state: dict[str, Any]) -> Any:
    """A model with the parameters of another, and a state."""
    model = like.clone()
    model._core.restore(state)
    return model


class DataParallel(Shape, Generic[Model]):
    """One model that learns on several processes, each of which has a share of the rows.

    Every worker has a replica. Trees of fixed structure (`NonGreedyTreeClassifier` and its
    regressors) are merged every `merge_rows` rows, see `streamtree.merge`, and go on from there. Of
    the rows between two merges every replica learns a run of neighbours: so it can follow what
    changes from row to row. Before that, while their start is grown from the first rows, all
    replicas learn all rows. Other trees grow each in its own way, from every `n_workers`-th row: a
    pool of shards, whose probabilities (or numbers) are averaged.

    It is an approximation: a replica knows of the others' rows only what the last merge brought.
    The result is the same for any batches, and whatever process dies on the way.

    Parameters
    ----------
    model
        What all replicas begin with. It stays as it is. Of trees that are averaged none is to begin
        anew (`restarts=False`).
    n_workers
        At least 1: the number of replicas.
    merge_rows
        At least 1: replicas are merged when so many rows were learned by all of them together. The
        first so many rows are learned by all of them, unless the model has `start="zeros"`. A
        regressor needs 32 for every worker: where a target among its first 32 is far out it begins
        anew, and cannot be merged with its start.
    **options
        `folder`, `checkpoint_rows`, `in_flight`, `resources`, as for `KeyedModels`. Checkpoints are
        made at a merge.

    Attributes
    ----------
    position, n_restarts
        As for `KeyedModels`.

    Examples
    --------
    >>> import numpy as np, ray
    >>> from streamtree import NonGreedyTreeClassifier
    >>> from streamtree.distributed import DataParallel
    >>> _ = ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    >>> rng = np.random.default_rng(1)
    >>> X = rng.normal(size=(6000, 3))
    >>> y = X[:, 0] + X[:, 1] > 0
    >>> tree = NonGreedyTreeClassifier(depth=4, restarts=False)
    >>> with DataParallel(tree, n_workers=2) as model:
    ...     model.learn_many(X[:5000], y[:5000])
    ...     bool((model.predict_many(X[5000:]) == y[5000:]).mean() > 0.9)
    True
    >>> ray.shutdown()

    """

    def __init__(
        self,
        model: Model,
        n_workers: int = 1,
        *,
        merge_rows: int = 20_000,
        **options: Unpack[Options],
    ) -> None:
        check_model("model", model)
        self._merge_rows = check_integer("merge_rows", merge_rows, at_least=1, at_most=2**62)
        self._is_fixed = isinstance(model, FIXED)
        if self._is_fixed and model._core.restarts:
            raise ValueError(
                "replicas cannot be averaged where one may begin anew: set model.restarts = False"
            )
        self._like = model
        make_worker = functools.partial(ReplicaWorker, model=to_bytes(model))
        super().__init__(model, make_worker, n_workers, options, merge_rows=merge_rows)
        # the mean of the replicas, if it goes to them with the next rows
        self._mean: dict[str, Any] | None = None
        # what they had in common last, and where
        self._start = self._all("state")[0] if self._is_fixed else {}
        self._merged_at = self.position
        self._shares = self._is_shared_out()
        if self._is_fixed:
            # the rows of one replica come before those of the next: all are sent up to a merge
            self._ahead_rows = self._crew.most_waiting = self._merge_rows

    # ----------------------------------------------------------------------------- learning

    def learn_many(self, X: Any, y: Any, w: Any = None) -> None:
        """Learn a batch, as `KeyedModels.learn_many` does without keys."""
        self._sent(X, y, w, asks=False)

    def test_then_learn_many(self, X: Any, y: Any, w: Any = None) -> Any:
        """Predict rows before they are learned, as a single model does.

        A replica that learns a row has predicted it just before; where there is a pool of shards,
        all of them predict the whole batch before it is learned.

        Returns
        -------
        n_rows labels or numbers, or numbers of shape (n_rows, n_targets): an array.

        """
        return self._answer(self._sent(X, y, w, asks=True))

    def _sent(self, X: Any, y: Any, w: Any = None, *, asks: bool) -> Any:
        y, w = repeatable(y), repeatable(w)
        batch, arguments = self._like._prepared(X, y, w)
        weights, n_rows = arguments[-1], batch.n_rows
        targets = as_rows(y, n_rows, self._like)
        said = None
        if asks and not self._is_fixed:
            said, asks = self._pooled(X), False
        sent = []
        at = 0
        while at < n_rows:
            rows = slice(at, min(n_rows, at + self._rows_to_merge()))
            sent.append((self._sent_piece(
                take_rows(X, rows), take_rows(targets, rows),
                None if weights is None else weights[rows], asks,
            ), self._shares))
            at = rows.stop
            if not self._rows_to_merge():
                self._merge(sent[-1][0])
                if self._crew.is_due():
                    self._settle()
                    self._crew.checkpoint()
        return sent, said

    def _rows_to_merge(self) -> int:
        return self._merge_rows - (self.position - self._merged_at)

    def _sent_piece(self, X: Any, y: Any, w: Any, asks: bool) -> list[Job]:
        """Send rows up to the next merge."""
        n_workers, n_rows = len(self._crew.seats), len(y)
        how = self._mean, asks, self._is_fixed and n_rows == self._rows_to_merge()
        if not self._shares:
            parts = [(*how, X, y, w)] * n_workers
        else:
            parts = []
            for rows in (self._rows_of(i, n_rows) for i in range(n_workers)):
                own = None if w is None else w[rows]
                parts.append((*how, take_rows(X, rows), take_rows(y, rows), own))
        jobs = self._crew.learn(parts, n_rows, is_awaited=asks)
        self._mean = None
        return jobs

    def _rows_of(self, worker: int, n_rows: int) -> Any:
        """Which of the next rows a worker learns; none of them lies behind the next merge."""
        n_workers, at = len(self._crew.seats), self.position - self._merged_at
        if not self._is_fixed:
            # not as a slice: tables of pyarrow take none with steps
            return np.arange((worker - self.position) % n_workers, n_rows, n_workers)
        ends = [k * self._merge_rows // n_workers - at for k in (worker, worker + 1)]
        return slice(*(min(max(end, 0), n_rows) for end in ends))

    def _answer(self, sent: Any) -> Any:
        pieces, said = sent
        if said is not None:
            return said
        answers: list[Any] = []
        for jobs, is_shared_out in pieces:
            # the rows of one worker after those of the other, or all rows of each
            for part, _ in self._crew.said(jobs)[: None if is_shared_out else 1]:
                answers += part.tolist()
        return as_answers(answers, self._like)

    # ------------------------------------------------------------------------------ merging

    def _all(self, question: str) -> list[Any]:
        self._settle()
        return self._crew.ask(question)

    def _is_shared_out(self) -> bool:
        """Whether the start is over, so that replicas may learn different rows."""
        return not self._is_fixed or not self._start["tree"]["warm_up"]["n_rows"]

    def _merge(self, jobs: list[Job] | None = None) -> None:
        """Let all replicas be their mean; `jobs` are the last, if they tell the states."""
        if self._is_fixed and self.position > self._merged_at:
            self._start = self._merged_state(jobs)
            if self._shares:
                self._mean = self._start
            else:
                self._shares = self._is_shared_out()
        self._merged_at = self.position

    def _settle(self) -> None:
        """Send the mean at once."""
        if self._mean is not None:
            parts = [(self._mean, False, False)] * len(self._crew.seats)
            self._crew.learn(parts, 0, is_awaited=False)
            self._mean = None

    def _states(self, jobs: list[Job]) -> list[Any]:
        """What the last jobs tell; a replica that refused its rows is asked."""
        states = [
            self._crew.ask_one(number, "state", None) if error else told[1]
            for number, (told, error) in enumerate(self._crew.results(jobs))
        ]
        if not jobs[0].is_awaited:
            forget_results(jobs)
        return states

    def _merged_state(self, jobs: list[Job] | None = None) -> dict[str, Any]:
        """The mean of the replicas; before they share out rows they are one."""
        states = self._all("state") if jobs is None else self._states(jobs)
        if not self._shares:
            return dict(states[0])
        state: dict[str, Any] = merge_states(states, self._start, has_start=True)
        # sums of what was finite may not be
        self._like._core.check_state(state)
        return state

    def checkpoint(self) -> None:
        """Merge, and keep on disk all that was learned."""
        self._merge()
        self._settle()
        super().checkpoint()

    def _checkpoint_if_due(self) -> None:
        """Nothing: they are made at merges, else what is learned would depend on when."""

    # --------------------------------------------------------------------------- predicting

    def predict_many(self, X: Any) -> Any:
        """Predict rows when all that was sent before is learned.

        The replicas share them out, those that have learned since the last merge if any has; of a
        pool of shards all predict all rows.
        """
        n_rows, n_workers = Batch(X).n_rows, len(self._crew.seats)
        if not self._is_fixed:
            return self._pooled(X)
        self._settle()
        at = self.position - self._merged_at
        if self._shares and at:
            n_workers = sum(k * self._merge_rows // n_workers < at for k in range(n_workers))
        rows = [np.arange(i, n_rows, n_workers) for i in range(n_workers)]
        rows += [np.arange(0)] * (len(self._crew.seats) - n_workers)
        answers: list[Any] = [None] * n_rows
        said = self._crew.ask("predict", [take_rows(X, own) for own in rows])
        for i, part in enumerate(said[:n_workers]):
            answers[i::n_workers] = part.tolist()
        return as_answers(answers, self._like)

    def _pooled(self, X: Any) -> Any:
        """The mean of what all shards say of rows; without a label a shard says nothing."""
        parts = [X] * len(self._crew.seats)
        if not isinstance(self._like, StreamClassifier):
            return np.mean(self._crew.ask("predict", parts), axis=0)
        said = self._crew.ask("shares", parts)
        labels = list(dict.fromkeys(label for own, _ in said for label in own))
        return likeliest(mean_shares(said, labels, np.ones(len(said))), labels)

    def model(self) -> Model | ModelPool:
        """What was learned in one process: the mean of the replicas, or a pool of the shards."""
        if not self._is_fixed:
            return ModelPool([from_bytes(data) for data in self._all("model")])
        model: Model = restored(self._like, self._merged_state())
        return model
