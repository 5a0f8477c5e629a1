"""Workers whose process fails at something that the rows have no part in."""

import numpy as np
import pytest

pytest.importorskip("ray.exceptions", reason="Ray is not installed")

from ray.exceptions import RayTaskError

from streamtree.distributed.crew import Crew
from streamtree.distributed.worker import Worker

pytestmark = pytest.mark.usefixtures("cluster")


class FullDisk(Worker):
    """The second batch finds no room."""

    def learn_part(self, part):
        if self.position:
            raise OSError("no space left")
        return part

    def ask(self, question, part):
        return self.position

    def checkpoint(self, position):
        pass

    def positions(self):
        return [0]

    def go_back(self, position):
        pass


def test_a_failure_is_told_whoever_asks_and_no_checkpoint_is_made():
    crew = Crew(lambda folder, number: FullDisk(), 1, {})
    try:
        assert crew.said(crew.learn(["first"], 5, is_awaited=True)) == ["first"]
        jobs = crew.learn(["second"], 5, is_awaited=True)
        for _ in range(2):
            with pytest.raises(RayTaskError, match="no space left"):
                crew.results(jobs)
        # the worker has not learned what the driver has sent
        assert (crew.ask("position", [None]), crew.position) == ([5], 10)
        with pytest.raises(RayTaskError, match=r"SequenceError.*only the rows before 5"):
            crew.checkpoint()
        with pytest.raises(RayTaskError, match=r"SequenceError.*leave a gap"):
            crew.said(crew.learn(["third"], 5, is_awaited=True))
    finally:
        crew.close()


def test_numbers_of_numpy_will_do():
    crew = Crew(lambda folder, number: FullDisk(), np.int64(1), {}, in_flight=np.int64(2))
    crew.close()
    for name in ("n_workers", "checkpoint_rows", "in_flight"):
        with pytest.raises(ValueError, match=f"{name} must be from 1"):
            Crew(FullDisk, description={}, **{"n_workers": 1, name: 0})
