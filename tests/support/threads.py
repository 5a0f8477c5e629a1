"""A model that is met while another thread is inside one of its calls."""

import copy
import pickle
import sys
import threading

import numpy as np

from streamtree import ModelTreeClassifier
from support.streams import blobs


def trained(n=3000, classes=20):
    X, y = blobs(n, classes, features=10, spread=2.0, seed=1)
    model = ModelTreeClassifier(grace_period=5)
    model.learn_many(X, y)
    return model, X


def is_inside(model, doing):
    """Whether another thread is inside: a call that the guard must refuse tells, harmlessly."""
    try:
        if doing == "learning":
            model.predict_one({})
        else:
            model.learn_one({}, 0, w=0.0)
    except RuntimeError:
        return True
    return False


def while_inside(model, doing, act):
    """Run `act` while another thread is surely inside a long call of the model.

    Surely: the guard refuses before and after `act`, so the call was running all the while. A
    call that ended too early is repeated with twice the rows.
    """
    X, y = blobs(20_000, 20, features=10, spread=2.0, seed=2)
    switch = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for _ in range(12):
            call = model.learn_many if doing == "learning" else model.predict_many
            arguments = (X, y) if doing == "learning" else (X,)
            failure = []

            def work(call=call, arguments=arguments, failure=failure):
                try:
                    call(*arguments)
                except BaseException as error:
                    failure.append(error)

            thread = threading.Thread(target=work)
            thread.start()
            result, surely = None, False
            while thread.is_alive():
                if is_inside(model, doing):
                    result = act()
                    surely = is_inside(model, doing)
                    break
            thread.join()
            assert not failure
            if surely:
                return result
            X, y = np.tile(X, (2, 1)), np.tile(y, 2)
    finally:
        sys.setswitchinterval(switch)
    raise AssertionError("no call was long enough to be met inside")


def outcome(call):
    """What a call gave, or its error."""
    try:
        return "done", call()
    except RuntimeError as error:
        return "refused", str(error)


STATE_CALLS = {
    "pickle": pickle.dumps,
    "deepcopy": copy.deepcopy,
    "snapshot": lambda model: model.snapshot(),
    "summary": lambda model: model.summary,
    "height": lambda model: model.height,
    "memory": lambda model: model._raw_memory_usage,
    "mutate": lambda model: model.mutate({"learning_rate": 0.5}),
}
