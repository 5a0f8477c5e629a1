"""The driver's side: workers that learn one sequence of batches, whoever of them dies.

A batch is sent to every worker that has a part of it, under the number of its first row. What was
sent since the last complete checkpoint is kept, so that a worker that died can be started again
from its own and be sent what it has missed.
"""

from __future__ import annotations

import json
import logging
import os
import tempfile
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypedDict

import ray
from ray.exceptions import RayActorError, RayTaskError

from streamtree.base import check_integer
from streamtree.distributed.worker import SequenceError, Worker, collect_rarely

__all__ = ["Crew", "Options", "WorkerLostError"]

logger = logging.getLogger(__name__)

# starts of one worker without any job done in between
MOST_STARTS = 5


class WorkerLostError(RuntimeError):
    """A worker that dies whenever it is started."""


class Options(TypedDict, total=False):
    """What all shapes may be told: see `Crew`."""

    folder: str | os.PathLike[str] | None
    checkpoint_rows: int
    in_flight: int
    resources: dict[str, Any] | None


class Job:
    """What one worker is to do: learn a part of a batch, or answer a question."""

    def __init__(
        self, method: str, *arguments: Any, first: int | None = None, is_awaited: bool = True
    ) -> None:
        self.method = method
        self.arguments = arguments
        self.first = first              # of what is learned, the place in the stream
        self.is_awaited = is_awaited    # somebody will look at its result
        self.reference: Any = None
        self.is_done = False
        self.result: Any = None
        self.failure: Exception | None = None


class Seat:
    """The place of one worker: its process, and what was asked of it."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.actor: Any = None
        self.starts = 0
        # in the order in which they were sent: questions until they are answered, what is learned
        # until it is in a checkpoint
        self.jobs: list[Job] = []
        self._waiting: deque[Job] = deque()

    def add(self, job: Job) -> None:
        self.jobs.append(job)
        self._waiting.append(job)

    def waiting(self) -> deque[Job]:
        """From the first job that is not done on."""
        while self._waiting and self._waiting[0].is_done:
            self._waiting.popleft()
        return self._waiting


class Crew:
    """Several workers in processes of Ray.

    Parameters
    ----------
    make_worker
        Given a folder and a number, the worker of that number; it is called in its process.
    n_workers
        At least 1.
    description
        What must be the same when a folder is used again.
    has_own
        Whether there is one more worker, in the driver's process: `own`. It is at hand, and its
        checkpoints belong to those of the others.
    folder
        Where checkpoints lie, on a disk that every worker reaches; None for a temporary one, with
        which a crew cannot outlive its driver.
    checkpoint_rows
        At least 1: a checkpoint is made when so many rows were learned since the last one.
    in_flight
        At least 1: how many batches may be under way to a worker before the driver waits for it.
    resources
        Options of the actors: `num_cpus`, for example.

    """

    def __init__(
        self,
        make_worker: Callable[[str, int], Worker],
        n_workers: int,
        description: dict[str, Any],
        *,
        has_own: bool = False,
        folder: str | os.PathLike[str] | None = None,
        checkpoint_rows: int = 1_000_000,
        in_flight: int = 4,
        resources: dict[str, Any] | None = None,
    ) -> None:
        n_workers, checkpoint_rows, in_flight = (
            check_integer(name, value, at_least=1, at_most=2**62) for name, value in (
                ("n_workers", n_workers), ("checkpoint_rows", checkpoint_rows),
                ("in_flight", in_flight),
            )
        )
        self._own_folder = None
        if folder is None:
            self._own_folder = tempfile.TemporaryDirectory()
            folder = self._own_folder.name
        self.folder = Path(folder).resolve()
        self.folder.mkdir(parents=True, exist_ok=True)
        _check_description(self.folder / "models.json", {**description, "workers": n_workers})
        self._make_worker = make_worker
        self._checkpoint_rows = checkpoint_rows
        self.in_flight = self.most_waiting = in_flight
        if not ray.is_initialized():
            ray.init()
        self._actor_class = ray.remote(_Host).options(
            max_restarts=0, max_task_retries=0, **(resources or {})
        )
        self.n_restarts = 0
        self._errors: list[Exception] = []
        self.seats = [Seat(number) for number in range(n_workers)]
        self.position = self.safe_position = 0
        self.own = make_worker(str(self.folder), n_workers) if has_own else None
        try:
            self._start_all()
        except BaseException:
            self.close()
            raise

    # ------------------------------------------------------------------ starts and deaths

    def _start_all(self) -> None:
        """Start all workers, at the last position that all of them have."""
        for seat in self.seats:
            self._launch(seat)
        known = [set(ray.get(seat.actor.positions.remote())) for seat in self.seats]
        if self.own is not None:
            known.append(set(self.own.positions()))
        common = set.intersection(*known)
        if not common:
            raise RuntimeError(f"the workers in {str(self.folder)!r} have no checkpoint in common")
        self.position = self.safe_position = max(common)
        ray.get([seat.actor.go_back.remote(self.position) for seat in self.seats])
        if self.own is not None:
            self.own.take_up(self.position)

    def _launch(self, seat: Seat) -> None:
        if seat.starts >= MOST_STARTS:
            raise WorkerLostError(
                f"worker {seat.number} died {seat.starts} times without learning anything"
            )
        seat.starts += 1
        seat.actor = self._actor_class.remote(self._make_worker, str(self.folder), seat.number)

    def _recover(self, seat: Seat) -> None:
        """Start a worker that has died again, and send it what it has missed."""
        while True:
            ray.kill(seat.actor, no_restart=True)
            self._launch(seat)
            try:
                position = ray.get(seat.actor.resume.remote(self.safe_position))
            except RayActorError:
                continue
            break
        self.n_restarts += 1
        logger.warning(
            "worker %d has died; it goes on from row %d", seat.number, position
        )
        # what is behind a checkpoint of its own is not to be learned again
        for job in seat.jobs:
            is_missed = job.first is not None and job.first >= position
            if is_missed or not job.is_done:
                self._send(seat, job)

    def _send(self, seat: Seat, job: Job) -> None:
        reference = getattr(seat.actor, job.method).remote(*job.arguments)
        # what is learned again was answered before: nobody keeps what is said of it
        job.reference = None if job.is_done else reference

    # ------------------------------------------------------------------------------ jobs

    def give(self, seat: Seat, job: Job) -> None:
        """Send a job; waits while too many are under way."""
        if seat.actor is None:
            raise RuntimeError("the workers have ended: close() was called")
        waiting = seat.waiting()
        if len(waiting) >= self.most_waiting:
            self.finish(seat, waiting[len(waiting) - self.most_waiting])
        seat.add(job)
        self._send(seat, job)

    def finish(self, seat: Seat, job: Job) -> Any:
        """Wait for a job; returns its result. Whoever asks is told that it has failed."""
        while not job.is_done:
            try:
                job.result = ray.get(job.reference)
            except RayTaskError as error:
                job.failure, job.is_done = error, True
                self._forget(seat, job)
            except RayActorError:
                self._recover(seat)
            else:
                job.is_done = True
                job.reference = None
                seat.starts = 0
                self._forget(seat, job)
                if job.first is not None and not job.is_awaited and job.result[1] is not None:
                    self._errors.append(job.result[1])
        if job.failure is not None:
            raise job.failure
        return job.result

    def _forget(self, seat: Seat, job: Job) -> None:
        """A question that was answered is never asked again."""
        if job.first is None:
            seat.jobs.remove(job)

    def learn(self, parts: Sequence[Any], n_rows: int, *, is_awaited: bool) -> list[Job]:
        """Send the next rows of the stream: a part to every worker, whatever is in it.

        Who does not await what is said is told of errors by `wait`.
        """
        jobs = []
        for seat, part in zip(self.seats, parts, strict=True):
            first = self.position
            job = Job("learn", first, n_rows, part, first=first, is_awaited=is_awaited)
            self.give(seat, job)
            jobs.append(job)
        self.position += n_rows
        return jobs

    def results(self, jobs: Sequence[Job]) -> list[Any]:
        """Those of a job of every worker: of what is learned what was said, and an error or None.
        """
        return [self.finish(seat, job) for seat, job in zip(self.seats, jobs, strict=True)]

    def said(self, jobs: Sequence[Job]) -> list[Any]:
        """What the workers said as they learned; the first error of a worker is raised."""
        results = self.results(jobs)
        forget_results(jobs)
        for _, error in results:
            if error is not None:
                raise error
        return [said for said, _ in results]

    def is_due(self) -> bool:
        """Whether it is time for a checkpoint."""
        return self.position - self.safe_position >= self._checkpoint_rows

    def ask(self, question: str, parts: Sequence[Any] | None = None) -> list[Any]:
        """Ask every worker; they answer when they have learned what was sent before."""
        parts = [None] * len(self.seats) if parts is None else parts
        return self.results([
            self._asked(seat, "ask", question, part)
            for seat, part in zip(self.seats, parts, strict=True)
        ])

    def ask_one(self, number: int, question: str, part: Any) -> Any:
        """Ask one worker."""
        seat = self.seats[number]
        return self.finish(seat, self._asked(seat, "ask", question, part))

    def wait(self) -> None:
        """Wait until all that was sent is learned; raises the first error of a worker."""
        for seat in self.seats:
            for job in list(seat.waiting()):
                self.finish(seat, job)
        if self._errors:
            first = self._errors[0]
            self._errors.clear()
            raise first

    def checkpoint(self) -> None:
        """Let all workers keep what they have learned; it is complete when this returns."""
        self.wait()
        if self.position == self.safe_position:
            return
        if self.own is not None:
            self.own.keep(self.position)
        self.results([self._asked(seat, "keep", self.position) for seat in self.seats])
        self.safe_position = self.position
        for seat in self.seats:
            seat.jobs.clear()

    def pids(self) -> list[int]:
        """The processes of the workers."""
        return [self.finish(seat, self._asked(seat, "pid")) for seat in self.seats]

    def _asked(self, seat: Seat, method: str, *arguments: Any) -> Job:
        job = Job(method, *arguments)
        self.give(seat, job)
        return job

    def close(self) -> None:
        """End all workers; what is in no checkpoint is lost."""
        for seat in self.seats:
            if seat.actor is not None and ray.is_initialized():
                ray.kill(seat.actor, no_restart=True)
            seat.actor = None
        if self._own_folder is not None:
            self._own_folder.cleanup()


def forget_results(jobs: Sequence[Job]) -> None:
    """A part may be learned again, but nobody asks again what was said of it."""
    for job in jobs:
        job.result = None


class _Host:
    """A worker's process."""

    def __init__(
        self, make_worker: Callable[[str, int], Worker], folder: str, number: int
    ) -> None:
        collect_rarely()
        self._worker = make_worker(folder, number)

    def pid(self) -> int:
        return os.getpid()

    def positions(self) -> list[int]:
        return self._worker.positions()

    def go_back(self, position: int) -> None:
        self._worker.take_up(position)

    def resume(self, safe_position: int) -> int:
        """Take up the last checkpoint, that of the crew or one behind it; returns where it is."""
        position = max(self._worker.positions())
        if position < safe_position:
            raise RuntimeError(f"the checkpoint at {safe_position} is gone")
        self.go_back(position)
        return position

    def learn(self, first: int, n_rows: int, part: Any) -> tuple[Any, Exception | None]:
        return self._worker.learn(first, n_rows, part)

    def ask(self, question: str, part: Any) -> Any:
        return self._worker.ask(question, part)

    def keep(self, position: int) -> None:
        if self._worker.position != position:
            # it has refused rows, see FAILURES
            raise SequenceError(f"only the rows before {self._worker.position} were learned")
        self._worker.keep(position)


def _check_description(path: Path, description: dict[str, Any]) -> None:
    """A folder belongs to one kind of models; ValueError for another."""
    if not path.exists():
        temporary = path.with_suffix(f".{os.getpid()}.tmp")
        temporary.write_text(json.dumps(description, indent=1))
        temporary.replace(path)
        return
    before = json.loads(path.read_text())
    for name, value in json.loads(json.dumps(description)).items():
        if before.get(name) != value:
            raise ValueError(
                f"the models in {str(path.parent)!r} have {name} {before.get(name)!r}, "
                f"not {value!r}"
            )
