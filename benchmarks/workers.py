"""Work that may fail, hang or take the interpreter with it, done by processes of its own."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection, wait
from typing import Any

__all__ = ["Failed", "finished"]

# spawn: a forked child of a process that has started Java hangs
CONTEXT = multiprocessing.get_context("spawn")


class Failed(Exception):
    """What came of a task instead of an answer."""


class _Worker:
    """A process that does one task after another."""

    def __init__(self, do: Callable[..., Any]) -> None:
        self.connection, theirs = CONTEXT.Pipe()
        self.process = CONTEXT.Process(target=_serve, args=(theirs, do), daemon=True)
        self.process.start()
        theirs.close()
        self.task: Any = None
        self.since = 0.0

    def begin(self, task: Any) -> None:
        self.task, self.since = task, time.monotonic()
        self.connection.send(task)

    def answer(self) -> Any:
        """Its answer, or why there is none."""
        try:
            return self.connection.recv()
        except (EOFError, OSError):
            self.process.join()
            return Failed(f"the process ended with code {self.process.exitcode}")

    def end(self) -> None:
        self.process.kill()
        self.process.join()
        self.connection.close()


def _serve(connection: Connection, do: Callable[..., Any]) -> None:
    while True:
        task = connection.recv()
        try:
            answer = do(*task)
        except Exception as error:
            answer = Failed(f"{type(error).__name__}: {error}".split("\n")[0][:200])
        connection.send(answer)


def finished(
    do: Callable[..., Any], tasks: Sequence[tuple[Any, ...]], jobs: int, limit: float
) -> Iterator[tuple[Any, Any]]:
    """Do tasks, and give each with its answer as it comes.

    Parameters
    ----------
    do
        A function of a module.
    tasks
        Its arguments, each time.
    jobs
        How many at a time.
    limit
        After so many seconds a task is given up, and its process ended.

    Yields
    ------
    A task and what `do` returned, or `Failed` with the reason why it did not.

    """
    left = list(reversed(tasks))
    workers: list[_Worker] = []
    try:
        while left or workers:
            while left and len(workers) < jobs:
                worker = _Worker(do)
                worker.begin(left.pop())
                workers.append(worker)
            wait([worker.connection for worker in workers], timeout=1)
            for worker in list(workers):
                late = time.monotonic() - worker.since > limit
                if worker.connection.poll():
                    answer = worker.answer()
                elif late:
                    answer = Failed(f"no answer after {limit:.0f} seconds")
                else:
                    continue
                task = worker.task
                if left and worker.process.is_alive() and not late:
                    worker.begin(left.pop())
                else:
                    worker.end()
                    workers.remove(worker)
                yield task, answer
    finally:
        for worker in workers:
            worker.end()
