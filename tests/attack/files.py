"""Damaged and forged model files: bytes at random, and files whose checksums were made to fit."""

import contextlib
import copy
import io
import json
import pickle
import random
import tempfile
import warnings
import zipfile
from pathlib import Path

import numpy as np
from river import base
from support.estimators import CASES, answers, as_batch, stream_of
from support.streams import as_dicts

import streamtree
from attack.checks import estimators, told_of
from attack.shortage import example, learn_words
from streamtree import modelfile

INTEGERS = [-(2**63), -(2**31) - 1, -(2**31), -2, -1, 0, 1, 2, 3, 7, 100, 2**31 - 1, 2**31, 2**62]
FLOATS = [float("nan"), float("inf"), -float("inf"), -1.0, -0.0, 0.0, 0.5, 1.0, 1e-320, 1e300]
WORDS = ["", "a", "stream", "paper", "zeros", "co2", "axis", "exact", "hinge", "\0", "class 1"]


def damaged(rng, data):
    """Some bytes of a file flipped, cut out, put in or moved about."""
    data = bytearray(data)
    for _ in range(rng.choice([1, 1, 1, 2, 5])):
        at, length = rng.randrange(len(data) + 1), rng.choice([1, 2, 4, 16, 200, 5000])
        kind = rng.randrange(6)
        if kind == 0 and at < len(data):
            data[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            data[at : at + length] = rng.randbytes(length)
        elif kind == 2:
            del data[at:]
        elif kind == 3:
            del data[at : at + length]
        elif kind == 4:
            data[at:at] = rng.randbytes(length)
        else:
            other = rng.randrange(len(data) + 1)
            data[at:at] = data[other : other + length]
    return bytes(data)


def forged_array(rng, array):
    array = array.copy()
    kind = rng.randrange(8)
    if kind == 0:
        return array[: rng.randrange(len(array) + 1)]
    if kind == 1:
        return np.concatenate([array, array[: rng.randrange(1, 4)]])
    if kind == 2:
        return array[rng.sample(range(len(array)), len(array))]
    if kind == 3 and array.dtype.names is None:
        with np.errstate(all="ignore"):
            return array.astype(rng.choice(["<i4", "<i8", "<f8", "|b1", "<f4"]))
    if kind == 4 and array.ndim == 2:
        return array[:, : rng.randrange(array.shape[1] + 1)]
    if array.size == 0:
        return np.zeros((rng.randrange(1, 9), *array.shape[1:]), dtype=array.dtype)
    target = array[rng.choice(array.dtype.names)] if array.dtype.names else array
    flat = target.reshape(-1) if target.ndim == 2 else target
    for _ in range(rng.choice([1, 1, 3, 20])):
        at = rng.randrange(len(flat))
        if flat.dtype.kind == "f":
            with np.errstate(all="ignore"):
                flat[at] = rng.choice(FLOATS)
        elif flat.dtype.kind == "b":
            flat[at] ^= True
        else:
            near = [int(flat[at]) + 1, int(flat[at]) - 1, int(flat[rng.randrange(len(flat))])]
            info = np.iinfo(flat.dtype)
            flat[at] = min(max(rng.choice([*INTEGERS, *near]), info.min), info.max)
    return array


def forged_value(rng, value):
    """Another value in the place of a tagged one."""
    choices = [
        {"int": rng.choice(INTEGERS)},
        {"int": hex(rng.choice(INTEGERS))},
        {"float": rng.choice([x for x in FLOATS if abs(x) < 1e301])},
        {"float": rng.choice(["nan", "inf", "-inf"])},
        {"tuple": [{"int": 1}]},
        {"category": ["a", "b"]},
        {"list": []},
        rng.choice(WORDS),
        None,
        True,
        {"numpy": ["<f8", "00"]},
        {"date": rng.choice(["0001-01-01", "now"])},
        {"timestamp": {"numpy": ["<M8[s]", rng.choice(["00", "7f", "ff"]) * 8]}},
        {"array": "state/nodes.npy"},
    ]
    if isinstance(value, dict) and isinstance(value.get("int"), int):
        choices += [{"int": value["int"] + rng.choice([-1, 1, 2])}] * 8
    return rng.choice(choices)


def places(header):
    """Every (container, key) of a header at which a value stands."""
    found, waiting = [], [header["parameters"], header["state"]]
    while waiting:
        part = waiting.pop()
        for key in part if isinstance(part, dict) else range(len(part)):
            found.append((part, key))
            if isinstance(part[key], dict | list):
                waiting.append(part[key])
    return found


def opened(data):
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        header = json.loads(archive.read("model.json"))
        arrays = {n: np.load(io.BytesIO(archive.read(n))) for n in header["arrays"]}
    return header, arrays


def closed(header, arrays):
    """A file with checksums that fit."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, array in arrays.items():
            header["arrays"][name] = modelfile._write_array(archive, name, array)
        archive.writestr("model.json", json.dumps(header))
    return out.getvalue()


def forged(rng, data):
    """A file of someone who knows the format, and what it must not say."""
    header, arrays = opened(data)
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        kind = rng.randrange(10)
        if kind < 6:
            name = rng.choice(sorted(arrays))
            arrays[name] = forged_array(rng, arrays[name])
        elif kind < 9:
            container, key = rng.choice(places(header))
            if rng.random() < 0.15 and isinstance(container, list):
                container.append(copy.deepcopy(container[key]))
            elif rng.random() < 0.1:
                del container[key]
            else:
                container[key] = forged_value(rng, container[key])
        else:
            other = rng.choice([None, 0, 1, "", [], {}, *streamtree.__all__])
            header[rng.choice(sorted(header))] = other
            if not isinstance(header.get("arrays"), dict) or not all(
                isinstance(header.get(part), dict) for part in ("parameters", "state")
            ):
                header.setdefault("arrays", {})
                break
    try:
        return closed(header, arrays)
    except (TypeError, AttributeError):
        return json.dumps(header, default=str).encode()


def odd_models(estimator):
    """Models of rows without columns, of categories that become more, and of many words."""
    is_classifier = issubclass(estimator, base.Classifier)
    is_multiple = issubclass(estimator, base.MultiTargetRegressor)
    rng = random.Random(estimator.__name__)
    pairs = [example(rng, i, is_classifier, is_multiple) for i in range(120)]
    for params in ({}, *list(estimator._unit_test_params())[:2]):
        for rows in ([{} for _ in pairs], [x for x, _ in pairs]):
            model = estimator(**params)
            for x, (_, y) in zip(rows, pairs, strict=False):
                with contextlib.suppress(ValueError):
                    # some know two labels only
                    model.learn_one(x, y)
            yield model
    if not is_multiple:
        model = estimator(max_bytes=10**6)
        learn_words(model, rng)
        yield model


def originals(only):
    """Files of models of all ages, each with rows and targets to go on with."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "some.model"
        for case in CASES:
            estimator, params = case.values
            if only not in (None, estimator.__name__):
                continue
            X, y = stream_of(estimator, 120)
            for n_learned in (0, 1, 40, 120):
                model = estimator(**params)
                if n_learned:
                    model.learn_many(X[:n_learned], as_batch(y[:n_learned]))
                model.save(path)
                found.append((path.read_bytes(), X[:12], y[:12]))
        for estimator in estimators(only):
            X, y = stream_of(estimator, 12)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                models = list(odd_models(estimator))
            for model in models:
                model.save(path)
                found.append((path.read_bytes(), X, y))
    return found


def run(n, seed=0, only=None):
    """Load n mutated files and use what loads; says how many loaded."""
    n_loaded = 0
    files = originals(only)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "mutated.model"
        for each in range(seed, seed + n):
            rng = random.Random(each)
            data, X, y = rng.choice(files)
            path.write_bytes(rng.choice([damaged, forged, forged, forged])(rng, data))
            # small tables, too, must be read as large ones are
            modelfile.PIECE_BYTES = rng.choice([100, 4_000_000])
            with told_of(f"seed {each}"):
                try:
                    model = streamtree.load(path)
                except streamtree.ModelFileError:
                    continue
                n_loaded += 1
                use(model, X, y)
    return f"{n} files, of which {n_loaded} loaded"


def use(model, X, y):
    """Whatever loads can be asked and taught without a crash; what it says does not matter."""
    rows = as_dicts(X)
    with np.errstate(all="ignore"):
        try:
            answers(model, rows)
            model.predict_many(X)
            for x, target in zip(rows, y, strict=True):
                model.learn_one(x, target)
            model.learn_many(X, as_batch(y))
            answers(model, rows)
            pickle.dumps(model)
        except (ValueError, TypeError, OverflowError, ZeroDivisionError, KeyError):
            # a forged label or number; the core itself answered
            pass
