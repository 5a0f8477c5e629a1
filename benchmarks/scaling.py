"""What spreading models over processes costs and brings; real Ray processes on this machine.

    python benchmarks/scaling.py costs      per row, per model, per batch: what the simulation needs
    python benchmarks/scaling.py speed      rows a second of one worker and more, local too
    python benchmarks/scaling.py exact      every model byte for byte, with few of them in memory
    python benchmarks/scaling.py kills      workers and drivers that are killed on the way
    python benchmarks/scaling.py accuracy   DataParallel against one model on all rows
    python benchmarks/scaling.py simulate   a queue with the measured costs, for any load

Speeds are ratios of runs that take turns; `load` says how busy the machine was besides.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import numpy as np
from memory import resident

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_AUTH_MODE", "disabled")

from streamtree import (
    ForestClassifier,
    ModelTreeClassifier,
    NonGreedyTreeClassifier,
    SoftTreeClassifier,
)
from streamtree.distributed.keyed import KeyedWorker
from streamtree.distributed.keys import key_name, sorted_by_key, worker_of
from streamtree.distributed.worker import collect_rarely
from streamtree.merging import FIXED
from streamtree.serialization import from_bytes, to_bytes

PROTOTYPES = {
    "model": ModelTreeClassifier, "soft": SoftTreeClassifier,
    # replicas that begin anew cannot be averaged
    "non_greedy": partial(NonGreedyTreeClassifier, restarts=False),
}
N_COLUMNS = 10


def keyed_stream(n_rows, n_keys, seed=0):
    """Keys with Zipf frequencies, rows of ten numbers, labels that every key draws its own way."""
    rng = np.random.default_rng(seed)
    shares = 1.0 / np.arange(1, n_keys + 1)
    keys = rng.choice(n_keys, size=n_rows, p=shares / shares.sum())
    X = rng.normal(size=(n_rows, N_COLUMNS))
    y = (X[:, 0] + 0.3 * X[:, 1] > 2.0 * keys / n_keys - 1.0).astype(np.int64)
    return keys, X, y


def start_ray(n_cpus=4):
    import ray

    if not ray.is_initialized():
        ray.init(
            num_cpus=n_cpus, include_dashboard=False, log_to_driver=False,
            object_store_memory=200 * 2**20, configure_logging=False,
        )


def load():
    return round(os.getloadavg()[0], 1)


def say(**numbers):
    print(json.dumps(numbers), flush=True)


# ------------------------------------------------------------------------------- costs


def timed(function, times):
    """Seconds of this process, the median of some runs."""
    spent = []
    for _ in range(times):
        begin = time.process_time()
        function()
        spent.append(time.process_time() - begin)
    return statistics.median(spent)


def timed_often(make, n=2000):
    """Seconds of this process for one of many things that stay, the median of some runs."""
    kept = []
    return timed(lambda: kept.extend([make() for _ in range(n)]), 5) / n


def resident_of_each(make, n=4000):
    """Bytes that one of many models takes of the memory of this process."""
    kept = [make() for _ in range(n)]
    before = resident()
    kept += [make() for _ in range(n)]
    return (resident() - before) // n


def measured_costs(prototype, n_rows, n_keys, batch_rows):
    """Seconds of CPU: what the simulation is made of."""
    # as in the processes of workers
    collect_rarely()
    keys, X, y = keyed_stream(n_rows, n_keys)
    typical = prototype.clone()
    typical.learn_many(X[:100], y[:100])
    # first of all: other models leave room behind
    costs = {
        "bytes_of_new": resident_of_each(prototype._cloner()),
        "bytes_in_memory": resident_of_each(lambda: typical.clone(include_attributes=True)),
    }
    with tempfile.TemporaryDirectory() as folder:
        worker = KeyedWorker(folder, 0, prototype=to_bytes(prototype), n_open=n_keys)
        spent, driver, n_calls = 0.0, 0.0, 0
        for at in range(0, n_rows, batch_rows):
            rows = slice(at, at + batch_rows)
            begin = time.process_time()
            order, ((_, _, names, counts),) = sorted_by_key(keys[rows], len(y[rows]), 1)
            part = names, counts, X[rows][order], y[rows][order], None, False
            middle = time.process_time()
            worker.learn(at, len(order), part)
            if at >= n_rows // 2:
                driver += middle - begin
                spent += time.process_time() - middle
                n_calls += len(names)
        half = n_rows - n_rows // 2
        one = prototype.clone()
        begin = time.process_time()
        one.learn_many(X[:half], y[:half])
        costs["row"] = (time.process_time() - begin) / half
        costs["model_in_batch"] = (spent - half * costs["row"]) / n_calls
        costs["row_of_driver"] = driver / half
        data = to_bytes(typical, key=b"key")
        costs["put_aside"] = timed(lambda: to_bytes(typical, key=b"key"), 51)
        costs["read_back"] = timed(lambda: from_bytes(data, key=b"key"), 51)
        costs["read_back_of_others"] = timed(lambda: from_bytes(data), 51)
        costs["create"] = timed_often(prototype._cloner())
        costs["clone"] = timed_often(prototype.clone)
        begin = time.process_time()
        worker.checkpoint(n_rows)
        costs["checkpoint_of_model"] = (time.process_time() - begin) / max(1, worker.shelf.n_open)
        costs["bytes_on_disk"] = len(data)
        costs["bytes_fresh"] = len(to_bytes(prototype))
        costs["bytes_of_row"] = X[0].nbytes + y[0].nbytes + 16
    return costs


def costs(options):
    for name in options.models:
        found = measured_costs(
            PROTOTYPES[name](), options.rows, options.keys, options.batch_rows[-1]
        )
        say(question="costs", model=name, load=load(), **found)


# ------------------------------------------------------------------------------- speed


def spent_on(work, models=None):
    """Seconds on the wall, and of CPU by the busiest process."""
    pids = [os.getpid(), *(models._crew.pids() if hasattr(models, "_crew") else [])]
    # Linux's clocks of processes
    clocks = [~pid << 3 | 2 for pid in pids]
    before = [time.clock_gettime(clock) for clock in clocks]
    begin = time.perf_counter()
    work()
    seconds = time.perf_counter() - begin
    return seconds, max(
        time.clock_gettime(clock) - t for clock, t in zip(clocks, before, strict=True)
    )


def run_keyed(stream, prototype, n_workers, batch_rows, **options):
    """Seconds to learn a stream, workers started before."""
    from streamtree.distributed import KeyedModels

    keys, X, y = stream
    with KeyedModels(prototype, n_workers, checkpoint_rows=10**9, **options) as models:
        models.learn_many(keys[:100], X[:100], y[:100])
        models.wait()

        def learn():
            for at in range(100, len(y), batch_rows):
                rows = slice(at, at + batch_rows)
                models.learn_many(keys[rows], X[rows], y[rows])
            models.wait()

        return spent_on(learn, models)


def run_local(stream, prototype, batch_rows):
    """The same in this process: a dict of models."""
    keys, X, y = stream
    models = {}

    def learn():
        for at in range(100, len(y), batch_rows):
            rows = slice(at, at + batch_rows)
            order, ((_, _, names, counts),) = sorted_by_key(keys[rows], len(y[rows]), 1)
            Xs, ys = X[rows][order], y[rows][order]
            start = 0
            for name, n in zip(names, counts, strict=True):
                if name not in models:
                    models[name] = prototype.clone()
                models[name].learn_many(Xs[start : start + n], ys[start : start + n])
                start += n

    return spent_on(learn)


def run_one(model, stream, batch_rows):
    """Seconds to learn a stream as one model, in this process or in others, once it has begun.

    Replicas may learn the first rows all of them.
    """
    _, X, y = stream
    begun = len(y) // BEGUN
    model.learn_many(X[:begun], y[:begun])
    wait = getattr(model, "wait", lambda: None)
    wait()

    def learn():
        for at in range(begun, len(y), batch_rows):
            model.learn_many(X[at : at + batch_rows], y[at : at + batch_rows])
        wait()

    return spent_on(learn, model)


# of a stream that one model learns, one part of so many is not timed
BEGUN = 4


def run_shape(shape, model, n_workers, stream, batch_rows, **options):
    """The same on workers; on none: in this process, where options mean nothing."""
    if not n_workers:
        return run_one(model.clone(), stream, batch_rows)
    with shape(model, n_workers, checkpoint_rows=10**9, **options) as spread:
        return run_one(spread, stream, batch_rows)


def compare(name, run, options, **said):
    """Seconds of a run with any number of workers, 0 for this process: in turns.

    Where the machine has too few idle cores, those on the wall are too many; those of the busiest
    process say how fast it may be at most with a core for each.
    """
    times = {n: [] for n in (0, *options.workers)}
    # so that all runs have the same company
    for _ in range(options.repeats):
        for n, spent in times.items():
            spent.append(run(n))
    best = {n: min(wall for wall, _ in spent) for n, spent in times.items()}
    busiest = {n: min(cpu for _, cpu in spent) for n, spent in times.items()}
    rows = said["rows"] if name == "KeyedModels" else said["rows"] - said["rows"] // BEGUN
    say(
        question="speed", shape=name, load=load(), **said,
        seconds={n: round(s, 2) for n, s in best.items()},
        microseconds_a_row={n: round(1e6 * s / rows, 2) for n, s in best.items()},
        against_local={n: round(best[0] / best[n], 2) for n in options.workers},
        against_one={n: round(best[1] / best[n], 2) for n in options.workers if 1 in best},
        most_against_local={n: round(busiest[0] / busiest[n], 2) for n in options.workers},
    )


def speed(options):
    from streamtree.distributed import DataParallel, ShardedForest

    start_ray()
    stream = keyed_stream(options.rows, options.keys)
    prototype = PROTOTYPES[options.models[0]]()
    # of a model that learns all rows by itself
    single = tuple(part[: options.rows // 10] for part in stream)
    for batch_rows in options.batch_rows:
        if "KeyedModels" in options.shapes:
            compare(
                "KeyedModels",
                lambda n, size=batch_rows: run_keyed(
                    stream, prototype, n, size, n_open=options.open or options.keys
                ) if n
                else run_local(stream, prototype, size),
                options, batch_rows=batch_rows, rows=options.rows, keys=options.keys,
            )
        for name in options.cases if "DataParallel" in options.shapes else ():
            model, rows = shared_out(name, stream)
            # others are never merged
            for merge_rows in options.merge_rows[: None if isinstance(model, FIXED) else 1]:
                compare(
                    f"DataParallel of {name}",
                    lambda n, size=batch_rows, model=model, rows=rows, merge_rows=merge_rows:
                    run_shape(DataParallel, model, n, rows, size, merge_rows=merge_rows),
                    options, batch_rows=batch_rows, merge_rows=merge_rows, rows=len(rows[2]),
                )
        if "ShardedForest" in options.shapes:
            compare(
                "ShardedForest",
                lambda n, size=batch_rows: run_shape(
                    ShardedForest, spread_forest(), n, single, size
                ),
                options, batch_rows=batch_rows, rows=options.rows // 10,
            )


# of models whose rows cost from one microsecond on, on streams of so many rows
CASES = ["model", "non_greedy", "letter", "non_greedy_wide", "soft_wide", "forest"]


def shared_out(name, stream):
    """A model for `DataParallel`, and rows for it: those of a stream, or others."""
    _, X, y = stream
    if name == "forest":
        part = len(y) // 10
        return ForestClassifier(), (None, X[:part], y[:part])
    if name.endswith("_wide"):
        wide = np.random.default_rng(0).normal(size=(len(y) // 5, 200))
        model = PROTOTYPES[name.removesuffix("_wide")]()
        return model, (None, wide, (wide[:, 0] + 0.3 * wide[:, 1] > 0) * 1)
    if name == "letter":
        # over and over again
        data = np.load(Path(os.environ.get("STREAMTREE_DATA", "data")) / "letter.npz")
        rows = np.arange(len(y) // 2) % len(data["y"])
        X = data["X"][rows].astype(np.float64)
        return PROTOTYPES["non_greedy"](), (None, X, data["y"][rows])
    return PROTOTYPES[name](), stream


def spread_forest():
    """Forty randomised trees in four members, and a tree that adds up."""
    return ForestClassifier(
        members=(*(ForestClassifier(10, ("extra",), seed=i) for i in range(4)), "model", "soft"),
        rests=False, restarts=False,
    )


# ------------------------------------------------------------------------------- exact


def alone(stream, prototype):
    """The bytes of every key's model, taught its rows alone."""
    keys, X, y = stream
    order = np.argsort(keys, kind="stable")
    found = {}
    for rows in np.split(order, np.flatnonzero(np.diff(keys[order])) + 1):
        one = prototype.clone()
        one.learn_many(X[rows], y[rows])
        found[int(keys[rows[0]])] = to_bytes(one)
    return found


def differences(models, expected):
    """How many models have other bytes; a thousand at a time, for a question takes its way."""
    n_workers, keys, n = len(models._crew.seats), list(expected), 0
    for at in range(0, len(keys), 1000):
        parts = [[] for _ in range(n_workers)]
        for key in keys[at : at + 1000]:
            parts[worker_of(key_name(key), n_workers)].append(key)
        found = models._crew.ask("models", [[key_name(key) for key in part] for part in parts])
        for part, said in zip(parts, found, strict=True):
            n += sum(expected[key] != data for key, data in zip(part, said, strict=True))
    return n


def exact(options):
    from streamtree.distributed import KeyedModels

    start_ray()
    stream = keyed_stream(options.rows, options.keys)
    prototype = PROTOTYPES[options.models[0]]()
    expected = alone(stream, prototype)
    for n_open in (options.keys, options.open or options.keys // 10):
        with KeyedModels(prototype, 2, n_open=n_open, checkpoint_rows=options.rows // 4) as models:
            begin = time.perf_counter()
            for at in range(0, len(stream[2]), options.batch_rows[-1]):
                models.learn_many(*(part[at : at + options.batch_rows[-1]] for part in stream))
            models.wait()
            say(
                question="exact", rows=options.rows, models=len(models), n_open=models.n_open,
                seconds=round(time.perf_counter() - begin, 1),
                other_bytes=differences(models, expected), load=load(),
            )


# ------------------------------------------------------------------------------- kills


DRIVER = """
import sys
sys.path[:0] = [{here!r}]
import scaling
scaling.drive({folder!r}, {rows}, {keys}, {batch_rows}, {model!r}, {kills}, {last})
"""


def drive(folder, n_rows, n_keys, batch_rows, model, kills, last):
    """Learn a stream from the last checkpoint on; kill workers on the way, and at last oneself."""
    from streamtree.distributed import KeyedModels

    start_ray()
    stream = keyed_stream(n_rows, n_keys)
    rng = np.random.default_rng(last + 1)
    begin = time.perf_counter()
    models = KeyedModels(
        PROTOTYPES[model](), 2, n_open=n_keys // 10, folder=folder, checkpoint_rows=n_rows // 10
    )
    print(json.dumps({"began": models.position}), flush=True)
    starts = range(models.position, n_rows, batch_rows)
    end = len(starts) if last < 0 else min(len(starts), last)
    chosen = set(rng.choice(np.arange(1, end), kills, replace=False).tolist())
    for number, at in enumerate(starts[:end]):
        if number in chosen:
            os.kill(models._crew.pids()[int(rng.integers(2))], signal.SIGKILL)
        models.learn_many(*(part[at : at + batch_rows] for part in stream))
    models.wait()
    seconds = round(time.perf_counter() - begin, 1)
    print(json.dumps({"killed": models.n_restarts, "seconds": seconds}), flush=True)
    if last >= 0:
        os.kill(os.getpid(), signal.SIGKILL)
    wrong = differences(models, alone(stream, PROTOTYPES[model]()))
    print(json.dumps({"other_bytes": wrong, "models": len(models)}))
    models.close()


def kills(options):
    """Ten workers and two drivers killed, then the bytes of all models compared."""
    batch_rows = max(1, options.rows // 60)
    with tempfile.TemporaryDirectory() as folder:
        said = []
        for n_kills, last in ((3, 20), (3, 20), (4, -1)):
            program = DRIVER.format(
                here=str(Path(__file__).parent), folder=folder, rows=options.rows,
                keys=options.keys, batch_rows=batch_rows, model=options.models[0], kills=n_kills,
                last=last,
            )
            done = subprocess.run(
                [sys.executable, "-c", program], capture_output=True, text=True, check=False
            )
            lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
            said += map(json.loads, lines)
            if done.returncode not in (0, -signal.SIGKILL):
                sys.exit(done.stderr[-3000:])
        say(
            question="kills", rows=options.rows, began=[s["began"] for s in said if "began" in s],
            workers_killed=sum(s.get("killed", 0) for s in said), drivers_killed=2,
            seconds=[s["seconds"] for s in said if "seconds" in s],
            other_bytes=said[-1]["other_bytes"], models=said[-1]["models"], load=load(),
        )


# ---------------------------------------------------------------------------- accuracy


def accuracy(options):
    """Tested and learned row by row: one model, and replicas merged every so many rows."""
    from streamtree.distributed import DataParallel

    start_ray()
    folder = Path(os.environ.get("STREAMTREE_DATA", "data"))
    for name in options.sets:
        data = np.load(folder / f"{name}.npz", allow_pickle=True)
        X, y = np.asarray(data["X"], dtype=np.float64)[: options.rows], data["y"][: options.rows]
        rng = np.random.default_rng(0)
        if options.shuffle:
            order = rng.permutation(len(y))
            X, y = X[order], y[order]
        one = NonGreedyTreeClassifier()
        single = np.mean(one.test_then_learn_many(X, y) == y)
        for merge_rows in options.merge_rows:
            found = {}
            for n in options.workers:
                tree = PROTOTYPES["non_greedy"]()
                with DataParallel(tree, n, merge_rows=merge_rows) as model:
                    said = list(model.run(
                        (X[at : at + 1000], y[at : at + 1000]) for at in range(0, len(y), 1000)
                    ))
                found[n] = round(100 * float(np.mean(np.concatenate(said) == y)), 2)
            say(
                question="accuracy", set=name, rows=len(y), merge_rows=merge_rows,
                one_model=round(100 * float(single), 2), replicas=found,
            )


# -------------------------------------------------------------------------- simulation


def simulated(costs, *, rows_a_day, n_keys, n_workers, batch_rows, share_open=0.1, seed=0):
    """A queue: one driver that sorts and sends batches, workers that learn their parts of them.

    Keys have Zipf frequencies and are spread by a hash, so that some workers have more to do. A
    batch arrives when it is full; the driver takes it when it is free; a worker begins with its
    part when it is done with the one before. Returns what a day asks of the machines.
    """
    rng = np.random.default_rng(seed)
    shares = 1.0 / np.arange(1, n_keys + 1)
    shares /= shares.sum()
    owner = rng.integers(n_workers, size=n_keys)
    # the expected numbers of rows, of models met, and of models that are not in memory
    met = -np.expm1(-batch_rows * shares)
    rows = np.bincount(owner, batch_rows * shares, minlength=n_workers)
    models = np.bincount(owner, met, minlength=n_workers)
    open_keys = int(share_open * n_keys)
    missed = np.bincount(owner[open_keys:], met[open_keys:], minlength=n_workers)
    work = rows * costs["row"] + models * costs["model_in_batch"] + missed * (
        costs["put_aside"] + costs["read_back"]
    ) + costs.get("batch", 0.0)
    driver = batch_rows * costs["row_of_driver"] + n_workers * costs.get("batch", 0.0)
    interval = 86400.0 * batch_rows / rows_a_day
    free, driver_free, delays = np.zeros(n_workers), 0.0, []
    for number in range(2000):
        arrival = number * interval
        driver_free = max(driver_free, arrival) + driver * rng.gamma(16, 1 / 16)
        free = np.maximum(free, driver_free) + work * rng.gamma(16, 1 / 16, size=n_workers)
        delays.append(float(free.max()) - arrival)
    late = float(np.mean(delays[-200:])) > 3 * float(np.mean(delays[:200])) + interval
    stored = n_keys * costs["bytes_on_disk"]
    return {
        "rows_a_day": rows_a_day, "keys": n_keys, "workers": n_workers, "batch_rows": batch_rows,
        "busiest_worker": round(float(work.max()) / interval, 3),
        "driver": round(driver / interval, 3), "keeps_up": not late,
        # with a core for each of them
        "most_rows_a_second": round(batch_rows / max(driver, float(work.max()))),
        "seconds_from_arrival": None if late else round(float(np.median(delays)), 2),
        "gigabytes_in_memory": round(open_keys * costs["bytes_in_memory"] / 1e9, 1),
        "gigabytes_on_disk": round(2 * stored / 1e9, 1),
        "megabits_a_second": round(8e-6 * rows_a_day / 86400 * costs["bytes_of_row"], 1),
        # what the busiest worker has missed since its last checkpoint, half a period of a million
        "seconds_to_recover": round(5 + 0.5e6 / batch_rows * float(work.max()), 1),
    }


def batch_cost(prototype, n_batches=500):
    """Seconds of CPU that a batch of one row takes on its way, the driver or the worker."""
    start_ray()
    return run_keyed(keyed_stream(100 + n_batches, 1), prototype, 1, 1)[1] / n_batches


def simulate(options):
    n_rows = min(options.rows, 40_000)
    prototype = PROTOTYPES[options.models[0]]()
    found = measured_costs(prototype, n_rows, options.keys, min(10_000, n_rows // 4))
    found["batch"] = batch_cost(prototype)
    say(question="costs", model=options.models[0], load=load(), **found)
    # to be held against `speed`
    for batch_rows in options.batch_rows:
        for n in (1, 2, 3, 4):
            say(question="predicted", **simulated(
                found, rows_a_day=10**6, n_keys=options.keys, n_workers=n, batch_rows=batch_rows,
                share_open=1.0,
            ))
    for n in (1, 2, 4, 8, 16, 32):
        say(question="simulate", **simulated(
            found, rows_a_day=10**9, n_keys=10**7, n_workers=n, batch_rows=100_000
        ))


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "question", choices=["costs", "speed", "exact", "kills", "accuracy", "simulate"]
    )
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--keys", type=int, default=20_000)
    parser.add_argument("--open", type=int, help="models that a worker may have in memory")
    parser.add_argument("--batch-rows", type=int, nargs="+", default=[100, 1000, 10_000])
    parser.add_argument("--merge-rows", type=int, nargs="+", default=[4000, 20_000])
    shapes = ["KeyedModels", "DataParallel", "ShardedForest"]
    parser.add_argument("--shapes", nargs="+", default=shapes, choices=shapes)
    parser.add_argument("--cases", nargs="+", default=CASES, choices=CASES)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--models", nargs="+", default=["model"], choices=list(PROTOTYPES))
    sets = ["agrawal", "covtype100k", "letter", "adult_train32k"]
    parser.add_argument("--sets", nargs="+", default=sets)
    parser.add_argument("--shuffle", action="store_true")
    options = parser.parse_args(arguments)
    globals()[options.question](options)


if __name__ == "__main__":
    main()
