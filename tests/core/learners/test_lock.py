"""Waiting for a model that others are in: in turn, not for ever, and never for oneself."""

import pickle
import threading
import time
from contextlib import contextmanager

import numpy as np
import pytest
from support.streams import blobs
from support.threads import trained, while_inside

from streamtree import LOMTreeClassifier, ModelTreeClassifier

X, Y = blobs(2000, 4, features=5, spread=2.0)


@contextmanager
def busy(model, calls):
    """Threads that repeat their calls until the end; what they count, and their errors."""
    counts, errors, over = [0] * len(calls), [], threading.Event()

    def work(i):
        while not over.is_set():
            try:
                calls[i]()
                counts[i] += 1
            except Exception as error:
                errors.append(error)
                return

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(calls))]
    for thread in threads:
        thread.start()
    try:
        yield counts, errors
    finally:
        over.set()
        for thread in threads:
            thread.join()


def test_at_first_nobody_waits():
    assert ModelTreeClassifier().lock_timeout == 0.0
    assert "lock_timeout" not in ModelTreeClassifier()._get_params()


@pytest.mark.parametrize(
    "wrong", [-1.0, float("nan"), -float("inf"), 10**400, 10**5000, "a", None, True], ids=type
)
def test_a_timeout_that_is_none_is_refused(wrong):
    model = ModelTreeClassifier()
    error = ValueError if type(wrong) in (int, float) else TypeError
    with pytest.raises(error, match=r"^lock_timeout.* must be"):
        model.lock_timeout = wrong
    assert model.lock_timeout == 0.0


def test_a_timeout_is_no_part_of_the_model(tmp_path):
    model = ModelTreeClassifier()
    before = pickle.dumps(model)
    model.lock_timeout = 3.0
    assert pickle.dumps(model) == before
    assert pickle.loads(before).lock_timeout == 0.0
    model.save(tmp_path / "some.model")


def test_predictions_do_not_keep_a_learner_out():
    model = ModelTreeClassifier()
    model.learn_many(X, Y)
    model.lock_timeout = 60.0
    many = np.tile(X, (5, 1))
    with busy(model, [lambda: model.predict_many(many)] * 8) as (_, errors):
        start = time.perf_counter()
        for x, y in zip(X[:20].tolist(), Y[:20].tolist(), strict=True):
            model.learn_one(dict(enumerate(x)), y)
        seconds = time.perf_counter() - start
    assert not errors
    assert model.snapshot()["scaler"]["rows"] == 2020
    assert seconds < 30.0


def test_learners_do_not_keep_predictions_out():
    model = ModelTreeClassifier()
    model.learn_many(X, Y)
    model.lock_timeout = 60.0
    with busy(model, [lambda: model.learn_many(X, Y)] * 4) as (counts, errors):
        for _ in range(20):
            model.predict_many(X)
        model.mutate({"grace_period": 30.0})
    assert not errors
    assert model.snapshot()["scaler"]["rows"] == 2000 * (1 + sum(counts))


def test_everybody_gets_in():
    """Learners and predictions of all kinds, some of them with names that are new."""
    model = LOMTreeClassifier()
    model.learn_many(X, Y)
    model.lock_timeout = 60.0
    numbers = iter(range(10**9))
    calls = [
        lambda: model.learn_one({f"column {next(numbers)}": 1.0}, f"label {next(numbers) % 50}"),
        lambda: model.learn_many(X[:50], Y[:50]),
        lambda: model.predict_one({0: 1.0}),
        lambda: model.predict_proba_many(X[:50]),
        lambda: model.predict_topk_one({0: 1.0}, 2),
        lambda: model.decision_path({0: 1.0}),
        lambda: model.debug_one({0: 1.0}),
        lambda: model.snapshot(),
        lambda: model.mutate({"learning_rate": 0.5}),
    ]
    with busy(model, calls) as (counts, errors):
        time.sleep(1.0)
    assert not errors
    assert min(counts) > 0
    model._core.check_state(model.snapshot())


class Caller:
    """A name that does something when it is compared."""

    act = None

    def __repr__(self):
        return "Caller()"

    def __hash__(self):
        return 7

    def __eq__(self, other):
        if Caller.act is not None:
            Caller.act()
        return isinstance(other, Caller)


@pytest.mark.parametrize("doing", ["learn_one", "predict_one"])
def test_a_wait_ends(doing):
    model = ModelTreeClassifier()
    model.learn_one({Caller(): 1.0}, 0)
    model.lock_timeout = 0.02
    inside, over = threading.Event(), threading.Event()

    def act():
        Caller.act = None
        inside.set()
        over.wait()

    calls = {"learn_one": lambda x: model.learn_one(x, 0), "predict_one": model.predict_one}
    Caller.act = act
    thread = threading.Thread(target=calls[doing], args=({Caller(): 2.0},))
    thread.start()
    inside.wait()
    try:
        with pytest.raises(RuntimeError, match=r"after 0\.02 s"):
            model.learn_one({0: 1.0}, 0)
        if doing == "learn_one":
            with pytest.raises(RuntimeError, match=r"after 0\.02 s"):
                model.predict_one({0: 1.0})
    finally:
        over.set()
        thread.join()
    # nobody is left in the queue
    model.learn_one({0: 1.0}, 0)
    model.predict_one({0: 1.0})


@pytest.mark.parametrize("outer", ["learn_one", "predict_one"])
def test_a_call_does_not_wait_for_itself(outer):
    model = ModelTreeClassifier()
    model.learn_one({Caller(): 1.0}, 0)
    model.lock_timeout = float("inf")
    said = []

    def act():
        Caller.act = None
        try:
            model.learn_one({"other": 1.0}, 1)
        except RuntimeError as error:
            said.append(str(error))
        if outer == "predict_one":
            said.append(model.predict_one({"other": 1.0}))

    Caller.act = act
    call = {"learn_one": lambda x: model.learn_one(x, 0), "predict_one": model.predict_one}
    call[outer]({Caller(): 2.0})
    Caller.act = None
    assert said[0].startswith("the model is in use")
    assert said[1:] == [0] * (outer == "predict_one")


def test_settings_do_not_change_in_the_middle_of_a_call():
    model, _ = trained()

    def act():
        with pytest.raises(RuntimeError, match="in use"):
            model.mutate({"grace_period": 7.0})
        return True

    assert while_inside(model, "learning", act)
    assert while_inside(model, "predicting", act)
    assert model.grace_period == 5
