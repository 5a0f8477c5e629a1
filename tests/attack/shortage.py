"""Memory that runs out at any of the model's own requests: the model stays whole and goes on."""

import random
import warnings

import numpy as np
import pandas as pd
import scipy.sparse as sp
from river import base
from support.shortage import failing, run_short

from attack.checks import check_answers, check_state, estimators, told_of

CALLS = 150


def example(rng, number, is_classifier, is_multiple):
    """A row with columns, categories and labels that become more as it goes on."""
    x = {f"x{j}": rng.gauss(0.0, 1.0) for j in range(4)}
    if rng.random() < 0.4:
        x[f"c{rng.randrange(3 + number // 20)}"] = f"{rng.choice('abcdefg')}{number // 50}"
    if is_classifier:
        return x, rng.randrange(2 + number // 5)
    y = x["x0"] + rng.gauss(0.0, 0.1)
    return x, {"a": y, "b": -y} if is_multiple else y


def some_call(model, rng, number):
    """What to do next: learn an example, learn a batch or predict."""
    is_classifier = isinstance(model, base.Classifier)
    is_multiple = isinstance(model, base.MultiTargetRegressor)
    x, y = example(rng, number, is_classifier, is_multiple)
    act = rng.random()
    if act < 0.7 or (is_multiple and act < 0.85):
        return lambda: model.learn_one(x, y)
    if act >= 0.85:
        return lambda: model.predict_one(x)
    generator = np.random.default_rng(number)
    y = [example(rng, number, is_classifier, False)[1] for _ in range(30)]
    X = generator.normal(size=(30, 5))
    if act > 0.82:
        X = pd.DataFrame([example(rng, number, is_classifier, False)[0] for _ in range(30)])
    elif rng.random() < 0.4:
        X = sp.random(30, 10 + number, density=0.1, format="csr", random_state=generator)
    return lambda: model.learn_many(X, y)


def learn_words(model, rng):
    """Many rows of words, so that there is much to be let go, and to be grown from."""
    n = rng.choice([100, 300, 600])
    X = sp.random(n, 400, density=0.05, format="csr", random_state=rng.randrange(2**32))
    model.learn_many(X, [example(rng, i, isinstance(model, base.Classifier), False)[1] % 3
                         for i in range(n)])


def attack(estimator, seed, fail_after):
    """One stream, in whose calls memory runs out; returns how often it did."""
    rng = random.Random(f"{estimator.__name__} {seed}")
    params = rng.choice([{}, {"max_bytes": 10**6}, *estimator._unit_test_params()])
    model, count = estimator(**params), 0
    if rng.random() < 0.3 and not issubclass(estimator, base.MultiTargetRegressor):
        learn_words(model, rng)
    for number in range(CALLS):
        call = some_call(model, rng, number)
        try:
            fail_after(rng.choice([0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 13, 17, 21, 30, 40, 60, 100]))
            call()
        except MemoryError:
            fail_after(-1)
            check_state(model, had_shortage=True)
            count += 1
        except ValueError as error:
            # some kinds of trees know two labels only
            if "third label" not in str(error) and "room for no more" not in str(error):
                raise
        finally:
            fail_after(-1)
    x, _ = example(rng, CALLS, False, False)
    check_answers(model, x)
    return count


def run(n, seed=0, only=None):
    """n streams of every estimator, in a process whose allocator is ours."""
    fail_after = failing()
    if fail_after is None:
        return _run_again(n, seed, only)
    count = streams = 0
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for estimator in estimators(only):
            for each in range(seed, seed + n):
                with told_of(f"{estimator.__name__}, seed {each}"):
                    count += attack(estimator, each, fail_after)
                streams += 1
    assert count > streams, "memory hardly ever ran out"
    return f"{streams} streams in which memory ran out {count} times"


def _run_again(n, seed, only):
    """The same in another process."""
    code = f"import attack.shortage as it; print(it.run({n}, {seed}, {only!r}))"
    return run_short(code).strip()
