"""Models by key in worker processes: the bytes of models that learned alone, whoever dies."""

import os
import signal
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from support.keyed import batches, stream

from streamtree import ModelTreeClassifier, NonGreedyTreeMultiTargetRegressor, SoftTreeRegressor
from streamtree.serialization import to_bytes

pytest.importorskip("ray.exceptions", reason="Ray is not installed")

from streamtree.distributed import KeyedModels

pytestmark = [pytest.mark.usefixtures("cluster"), pytest.mark.slow]


def alone(prototype, keys, X, y):
    """The bytes of a model for every key, each taught by itself; and what they said before."""
    models, said = {}, []
    for key, x, label in zip(keys.tolist(), X, y, strict=True):
        model = models.setdefault(key, prototype.clone())
        said.append(model.predict_one(dict(enumerate(x.tolist()))))
        model.learn_many(x[None], label[None])
    return {key: to_bytes(model) for key, model in models.items()}, said


def bytes_of(models, keys):
    return {key: to_bytes(models.model(key)) for key in set(keys.tolist())}


@pytest.mark.parametrize(
    ("n_workers", "n_open", "checkpoint_rows"),
    [(3, 4, 700), (1, 1000, 10**6)],
)
def test_every_model_is_what_it_would_be_alone(n_workers, n_open, checkpoint_rows):
    keys, X, y = stream()
    expected, said = alone(ModelTreeClassifier(), keys, X, y)
    with KeyedModels(
        ModelTreeClassifier(), n_workers, n_open=n_open, checkpoint_rows=checkpoint_rows
    ) as models:
        ours = [models.test_then_learn_many(*batch) for batch in batches(keys, X, y)[:4]]
        ours += models.run(batches(keys, X, y)[4:])
        assert [label for part in ours for label in part.tolist()] == said
        assert (models.position, len(models)) == (3000, len(expected))
        assert max(models.n_open) <= n_open
        assert bytes_of(models, keys) == expected
        assert models.model("nobody") is None
        one = {key: models.model(key) for key in expected}
        said = [one[k].predict_many(x[None])[0] for k, x in zip(keys, X, strict=True)]
        assert models.predict_many(keys, X).tolist() == said


def test_regressors_frames_weights_and_keys_of_any_kind():
    keys, X, _ = stream(600, 8)
    names = [("user", int(key)) if key % 2 else f"user {key}" for key in keys]
    frame = pd.DataFrame(X, columns=list("abcd")).assign(kind=np.where(X[:, 0] > 0, "x", "y"))
    w = np.random.default_rng(2).integers(3, size=600)
    with KeyedModels(SoftTreeRegressor(), 2) as models:
        models.learn_many(names, frame, X[:, 1], w)
        said = models.predict_many(pd.Series(names), frame)
        assert said.dtype == np.float64
        for name in set(names):
            rows = [i for i, other in enumerate(names) if other == name]
            one = SoftTreeRegressor()
            one.learn_many(frame.iloc[rows], X[rows, 1], w[rows])
            assert to_bytes(models.model(name)) == to_bytes(one)
            assert said[rows].tolist() == one.predict_many(frame.iloc[rows]).tolist()
    with KeyedModels(NonGreedyTreeMultiTargetRegressor(depth=2), 2) as models:
        said = models.test_then_learn_many(names, X, X[:, :2])
        assert said.shape == (600, 2)


def test_what_cannot_be_learned_is_refused_before_it_is_sent():
    keys, X, y = stream(200, 5)
    with KeyedModels(ModelTreeClassifier(), 2) as models:
        models.learn_many(keys, X, y)
        before = bytes_of(models, keys)
        bad = X.copy()
        bad[3, 1] = np.inf
        for arguments, error in (
            ((keys, bad, y), "feature 1: the value inf is infinite"),
            ((keys[:5], X, y), "keys"), ((keys, X, y[:5]), "y has 5"),
            ((keys, X, y, -1.0), "w must be"),
            ((np.full(200, np.nan), X, y), "missing, got nan"),
            (([None] * 200, X, y), "missing, got None"),
        ):
            with pytest.raises((ValueError, TypeError), match=error):
                models.learn_many(*arguments)
        assert models.position == 200
        assert bytes_of(models, keys) == before
    with pytest.raises(RuntimeError, match=r"close\(\) was called"):
        models.learn_many(keys, X, y)
    with pytest.raises(TypeError, match="prototype"):
        KeyedModels("a model")
    with pytest.raises(ValueError, match="n_workers"):
        KeyedModels(ModelTreeClassifier(), 0)


def test_workers_that_are_killed_lose_nothing(tmp_path):
    keys, X, y = stream(4000)
    expected, said = alone(ModelTreeClassifier(), keys, X, y)
    rng = np.random.default_rng(5)
    ours = []
    with KeyedModels(
        ModelTreeClassifier(), 2, n_open=5, folder=tmp_path, checkpoint_rows=900
    ) as models:
        def killing(parts):
            for number, part in enumerate(parts):
                if number % 8 == 3:
                    os.kill(models._crew.pids()[int(rng.integers(2))], signal.SIGKILL)
                yield part

        for part in models.run(killing(batches(keys, X, y, 125))):
            ours += part.tolist()
        models.wait()
        assert models.n_restarts == 4
        assert ours == said
        assert bytes_of(models, keys) == expected


DRIVER = """
import sys, time
import numpy as np, ray
sys.path[:0] = {path!r}
from support.keyed import batches, stream
from streamtree import ModelTreeClassifier
from streamtree.distributed import KeyedModels

ray.init({address!r}, log_to_driver=False)
models = KeyedModels(ModelTreeClassifier(), 2, n_open=5, folder={folder!r}, checkpoint_rows=500)
print(models.position, flush=True)
keys, X, y = (part[models.position :] for part in stream())
for number, batch in enumerate(batches(keys, X, y, 100)):
    models.learn_many(*batch)
    if number == {last}:
        print("ready", flush=True)
        time.sleep(600)
"""


def test_a_driver_that_is_killed_goes_on_from_its_last_checkpoint(tmp_path, address):
    keys, X, y = stream()
    expected, _ = alone(ModelTreeClassifier(), keys, X, y)
    program = DRIVER.format(
        path=[os.path.dirname(os.path.dirname(__file__))], folder=str(tmp_path / "models"), last=12,
        address=address,
    )
    began = []
    for _ in range(2):
        driver = subprocess.Popen(
            [sys.executable, "-c", program],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )
        began.append(int(driver.stdout.readline()))
        assert driver.stdout.readline() == "ready\n"
        driver.kill()
        driver.wait()
    # thirteen batches of 100 rows each time, a checkpoint every 500
    assert began == [0, 1000]
    with KeyedModels(
        ModelTreeClassifier(), 2, n_open=5, folder=tmp_path / "models", checkpoint_rows=500
    ) as models:
        assert models.position == 2000
        at = models.position
        for batch in batches(keys[at:], X[at:], y[at:]):
            models.learn_many(*batch)
        assert bytes_of(models, keys) == expected
        models.checkpoint()
    with pytest.raises(ValueError, match=r"have workers 2, not 3"):
        KeyedModels(ModelTreeClassifier(), 3, folder=tmp_path / "models")
    with pytest.raises(ValueError, match="parameters"):
        KeyedModels(ModelTreeClassifier(seed=4), 2, folder=tmp_path / "models")
    with KeyedModels(ModelTreeClassifier(), 2, folder=tmp_path / "models") as models:
        assert models.position == 3000
        assert bytes_of(models, keys) == expected


def test_a_checkpoint_that_only_some_workers_made_is_taken_back(tmp_path):
    keys, X, y = stream(2000)
    expected, _ = alone(ModelTreeClassifier(), keys, X, y)
    with KeyedModels(ModelTreeClassifier(), 2, folder=tmp_path, checkpoint_rows=800) as models:
        for batch in batches(keys[:1500], X[:1500], y[:1500], 250):
            models.learn_many(*batch)
        models.wait()
        # the driver dies in the middle of a checkpoint
        import ray

        ray.get(models._crew.seats[0].actor.keep.remote(1500))
    with KeyedModels(ModelTreeClassifier(), 2, folder=tmp_path, checkpoint_rows=800) as models:
        assert models.position == 1000
        for batch in batches(keys[1000:], X[1000:], y[1000:]):
            models.learn_many(*batch)
        assert bytes_of(models, keys) == expected


def test_back_pressure_bounds_what_is_under_way():
    keys, X, y = stream(5000)
    with KeyedModels(ModelTreeClassifier(), 2, in_flight=2) as models:
        most = 0
        for batch in batches(keys, X, y, 100):
            models.learn_many(*batch)
            most = max(most, *(len(seat.waiting()) for seat in models._crew.seats))
        assert most == 2
