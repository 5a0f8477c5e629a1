"""The command line: evaluate, train, predict, inspect, info. Needs click, polars and rich."""

from __future__ import annotations

import ast
import contextlib
import csv
import functools
import importlib.metadata
import inspect as introspection
import io
import itertools
import json
import os
import platform
import re
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import click
import numpy as np
from rich import box
from rich.console import Console
from rich.progress import BarColumn, TextColumn
from rich.progress import Progress as Bar
from rich.table import Table
from river import base, utils

import streamtree
from streamtree.base import (
    StreamClassifier,
    StreamModel,
    StreamMultiTargetRegressor,
    StreamRegressor,
    public_estimators,
)
from streamtree.checkpoint import Checkpoint
from streamtree.drawing import save_figure, with_ending
from streamtree.inspection import distinct_texts
from streamtree.reading import (
    HEAD_ROWS,
    Chunk,
    DataError,
    Reader,
    Reading,
    Target,
    Targets,
    advice,
    fingerprint,
)
from streamtree.scores import ClassScore, NumberScore, TargetsScore
from streamtree.serialization import ModelFileError, load_at

__all__ = ["commands"]

KINDS: dict[str, Any] = {
    "classification": StreamClassifier, "regression": StreamRegressor,
    Targets.task: StreamMultiTargetRegressor,
}
KINDS_OF_RIVER: dict[str, Any] = {
    "classification": base.Classifier, "regression": base.Regressor,
    Targets.task: base.MultiTargetRegressor,
}
DEFAULTS = {
    "classification": "ModelTreeClassifier", "regression": "SoftTreeRegressor",
    Targets.task: "NonGreedyTreeMultiTargetRegressor",
}
DEMO_MODELS = ("ModelTreeClassifier", "tree.HoeffdingTreeClassifier")
NEEDS_MATPLOTLIB = 'a picture needs matplotlib: pip install "streamtree-learn[cli]"'
LINE_SECONDS = 10.0  # between two lines on progress where nobody sees a bar move
WIDE = 400  # a table is not cut where it goes into a file
MOST_SOURCES = 100  # that a model file knows
NOTES = "streamtree-learn"  # the key of our notes in a model file, beside those of others
EXTRAS = ("click", "polars", "rich", "matplotlib", "backports.zstd", "scikit-learn")
EXIT_CODES = """Exit codes: 0 done, 1 the data or a model file cannot be used, 2 the command line is
wrong, 130 stopped by Ctrl-C or SIGTERM (what was learned until then is kept)."""


class Failure(click.ClickException):
    """Something about the data or a file; one line says what."""

    exit_code = 1

    def show(self, file: Any = None) -> None:
        """Write the message to standard error."""
        # one line, whatever a file name or another library's message contains
        click.echo(f"streamtree-learn: {' '.join(self.message.split())}", err=True)


class Commands(click.Group):
    """Turns what is wrong with data and files into messages."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command."""
        _set_encoding(sys.stdout)
        try:
            with warnings.catch_warnings():
                warnings.showwarning = _show_warning
                return super().invoke(ctx)
        except KeyboardInterrupt:  # before the first chunk, or after the last
            _end_stopped("stopped")
        except BrokenPipeError:
            raise
        except (DataError, ModelFileError, ImportError) as error:
            raise Failure(str(error)) from error
        except OSError as error:
            file = f"{error.filename}: " if error.filename else ""
            raise Failure(f"{file}{error.strerror or error}") from error


def _set_encoding(out: Any) -> None:
    """Let files and pipes be in UTF-8, as what is read is, unless another encoding is asked for.

    A terminal shows what it can.
    """
    if isinstance(out, io.TextIOWrapper):
        is_chosen = out.isatty() or "PYTHONIOENCODING" in os.environ
        encoding = out.encoding if is_chosen else "utf-8"
        out.reconfigure(encoding=encoding, errors="backslashreplace")


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    """A warning in one line, without where in the code it comes from."""
    context = click.get_current_context(silent=True)
    if context is None or not context.params.get("quiet"):
        click.echo(f"streamtree-learn: warning: {' '.join(str(message).split())}", err=True)


def _end_stopped(message: str) -> NoReturn:
    click.echo(message, err=True)
    sys.exit(130)


@click.group(cls=Commands, epilog=EXIT_CODES)
@click.version_option(streamtree.__version__, prog_name="streamtree-learn")
def commands() -> None:
    """Decision trees that learn from a stream, one example at a time."""


# ---------------------------------------------------------------------------- options


def _check_text(text: str) -> str:
    """The text; ValueError for lone surrogates, as bytes come in that are no UTF-8."""
    return text.encode().decode()


def _texts(ctx: click.Context, option: click.Parameter, given: Any) -> Any:
    for text in [given or ""] if not isinstance(given, tuple) else given:
        try:
            _check_text(text)
        except ValueError:
            raise click.BadParameter(f"{text!r} is no text in UTF-8", ctx, option) from None
    return given


def _pairs(ctx: click.Context, option: click.Parameter, given: Sequence[str]) -> dict[str, str]:
    pairs = {}
    _texts(ctx, option, given)
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise click.BadParameter(f"{text!r} is not of the form NAME=VALUE", ctx, option)
        pairs[name] = value
    return pairs


def _delimiter(ctx: click.Context, option: click.Parameter, given: str | None) -> str | None:
    known = {"tab": "\t", "\\t": "\t", "space": " "}
    given = _texts(ctx, option, known.get(given or "", given))
    if given is not None and (len(given.encode()) != 1 or given in '"\r\n'):
        raise click.BadParameter("must be one character, or 'tab'", ctx, option)
    return given


def _picture(ctx: click.Context, option: click.Parameter, given: str | None) -> str | None:
    return given and with_ending(given)


READING: list[Callable[[Any], Any]] = [
    click.option(
        "--drop", multiple=True, callback=_texts, metavar="COLUMN", help="Leave a column out."
    ),
    click.option(
        "--nominal", multiple=True, callback=_texts, metavar="COLUMN",
        help="Take the numbers of a column as names of categories.",
    ),
    click.option(
        "--date", "dates", multiple=True, callback=_pairs, metavar="COLUMN=FORMAT",
        help="Dates as strptime reads them, such as day=%d.%m.%Y; ISO dates are found without.",
    ),
    click.option(
        "--missing", multiple=True, callback=_texts, metavar="TEXT",
        help="What stands for a missing value: ?, say.",
    ),
    click.option(
        "--format", "format_", type=click.Choice(["csv", "jsonl", "parquet"]),
        help="Of the data, where it cannot be told from them.",
    ),
    click.option(
        "--delimiter", callback=_delimiter, metavar="CHARACTER", help="Of a CSV; found by default."
    ),
    click.option(
        "--header", callback=_texts, metavar="NAME,NAME,...",
        help="Names of the columns of a CSV that has none.",
    ),
    click.option("--rows", type=click.IntRange(1), metavar="N", help="Stop after so many rows."),
    click.option("--quiet", is_flag=True, help="Nothing on standard error but what is wrong."),
]
TARGET: list[Callable[[Any], Any]] = [
    click.option(
        "--target", "targets", multiple=True, callback=_texts, metavar="COLUMN",
        help="The column to predict; several that are numbers are predicted together.",
    ),
    click.option(
        "--task", type=click.Choice(["classification", "regression"]),
        help="Whether the target is a class or a number; told from its first values by default.",
    ),
    click.option(
        "--set", "parameters", multiple=True, callback=_pairs, metavar="NAME=VALUE",
        help="A parameter of the model, such as learning_rate=0.5.",
    ),
]


def with_options(options: Iterable[Callable[[Any], Any]]) -> Callable[[Any], Any]:
    """Give a command the options that others have, too."""

    def decorate(command: Any) -> Any:
        for option in reversed(list(options)):
            command = option(command)
        return command

    return decorate


def reading_of(
    options: Mapping[str, Any], model: StreamModel | None = None, notes: Notes | None = None
) -> Reading:
    """How to read, by the options of a command; what they leave open as a model learned it."""
    header = options["header"]
    notes = notes or Notes()
    numbers, categories = (set(), set()) if model is None else known_columns(model)
    return Reading(
        format=options["format_"],
        delimiter=options["delimiter"],
        header=None if header is None else [name.strip() for name in header.split(",")],
        targets=options.get("targets", ()),
        drop=frozenset(options["drop"]),
        nominal=frozenset(options["nominal"]),
        learned_nominal=frozenset(categories - numbers),
        learned_numbers=frozenset(numbers - categories),
        dates=options["dates"],
        learned_dates=notes.dates,
        missing=frozenset(options["missing"] or notes.missing),
    )


# ------------------------------------------------------------------------------ notes


@dataclass
class Notes:
    """What a model file says besides the model: how it was taught, and by which files.

    Attributes
    ----------
    sources
        The fingerprint of the first rows of a file, and how many rows of it were learned; the
        last ones at the end.
    dates, missing
        As in `Reading`.
    others
        What somebody else has noted.

    """

    sources: list[list[Any]] = field(default_factory=list)
    dates: dict[str, str] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)
    others: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of_file(cls, notes: dict[str, Any] | None, path: str) -> Notes:
        """Those of a model file, which may come from anyone."""
        others = {**(notes or {})}
        own = others.pop(NOTES, {})
        try:
            sources = [[_check_text(f), int(rows)] for f, rows in own.get("sources", [])]
            reading = own.get("reading", {})
            dates = {k: _check_text(form) for k, form in reading.get("dates", {}).items()}
            missing = [_check_text(text) for text in reading.get("missing", [])]
        except (AttributeError, TypeError, ValueError) as error:
            raise ModelFileError(f"{path}: its notes are of another program: {error}") from error
        return cls(sources[-MOST_SOURCES:], dates, missing, others)

    def begin(self, head: list[dict[str, Any]]) -> list[Any]:
        """The source that begins with these rows, known or new.

        It may have grown since, or be a copy that ends earlier.
        """
        new = fingerprint(head)
        known = [
            source for source in self.sources
            if source[0] and (new.startswith(source[0]) or source[0].startswith(new))
        ]
        found: list[Any] = max(known, key=lambda source: len(source[0]), default=["", 0])
        others = [source for source in self.sources if source is not found]
        longer: str = max(found[0], new, key=len)
        self.sources = [*others, [longer, found[1]]][-MOST_SOURCES:]
        return self.sources[-1]

    def to_json(self, how: Reading) -> dict[str, Any]:
        """As a model file keeps them."""
        reading = {"dates": {**how.learned_dates, **how.dates}, "missing": sorted(how.missing)}
        return {**self.others, NOTES: {"sources": self.sources, "reading": reading}}


# ----------------------------------------------------------------------------- models


def estimators_of(task: str) -> dict[str, type[StreamModel]]:
    """Our learners of a task by name."""
    return {k: c for k, c in public_estimators().items() if issubclass(c, KINDS[task])}


def model_class(name: str, task: str) -> type[Any]:
    """The learner of a task: ours by its class or a part of that, river's by module and class.

    `soft`, `soft-tree` and `SoftTreeRegressor` are the same where numbers are predicted.
    """
    if "." in name:
        return _river_class(name.removeprefix("river."), task)
    estimators = estimators_of(task)
    word = _word(name)
    if name.lower().endswith("regressor" if task == "classification" else "classifier"):
        word = ""  # the name says another kind than all of these
    exact = [c for k, c in estimators.items() if word in (_word(k), _word(k).removesuffix("tree"))]
    found = exact or [c for k, c in estimators.items() if word and word in _word(k)]
    if len(found) == 1:
        return found[0]
    if found:
        names = " or ".join(sorted(c.__name__ for c in found))
        raise click.UsageError(f"--model {name} may be {names}")
    words = sorted(_word(known).removesuffix("tree") for known in estimators)
    raise click.UsageError(f"no model {name!r} for {task}: {advice(name, words)}")


def _word(name: str) -> str:
    word = re.sub(r"[^a-z0-9]", "", name.lower())
    return word.removesuffix("classifier").removesuffix("regressor")


def _river_class(name: str, task: str) -> type[Any]:
    from river import api  # all of river: it takes seconds

    kind = KINDS_OF_RIVER[task]
    known: dict[str, type[Any]] = {
        f"{module}.{each}": getattr(found, each)
        for module, found in introspection.getmembers(api, introspection.ismodule)
        for each in getattr(found, "__all__", ())
        if introspection.isclass(getattr(found, each, None))
        and issubclass(getattr(found, each), kind)
    }
    if name not in known:
        raise click.UsageError(f"river has no {name!r} for {task}: {advice(name, sorted(known))}")
    return known[name]


def make_models(
    names: Sequence[str], given: Mapping[str, str], nominal: Iterable[str], task: str
) -> dict[str, Any]:
    """Untrained models by name, with the parameters that each of them knows."""
    classes = [model_class(name, task) for name in names or [DEFAULTS[task]]]
    known = [introspection.signature(kind).parameters for kind in classes]
    for name in given:
        if not any(name in parameters for parameters in known):
            raise click.UsageError(
                f"no model here has a parameter {name!r}: {advice(name, known[0])}"
            )
    models: dict[str, Any] = {}
    for kind, parameters in zip(classes, known, strict=True):
        values = {name: _value(text) for name, text in given.items() if name in parameters}
        if nominal and "nominal_attributes" in parameters:
            values.setdefault("nominal_attributes", [*nominal])
        with _usage_errors(kind.__name__):
            model = kind(**values)
        name = kind.__name__ if issubclass(kind, StreamModel) else f"river {kind.__name__}"
        if name in models:
            raise click.UsageError(f"--model: {name} is named twice")
        models[name] = model
    return models


@contextlib.contextmanager
def _usage_errors(what: str) -> Iterator[None]:
    """What a model says of its parameters, as what is wrong with the command line."""
    try:
        yield
    except (TypeError, ValueError, ImportError) as error:
        raise click.UsageError(f"{what}: {error}") from error


def _value(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return {"true": True, "false": False, "none": None}.get(text.lower(), text)


@dataclass
class Trial:
    """A model, how it has done so far, and how long it took."""

    name: str
    model: Any
    score: Any
    seconds: float = 0.0
    with_loss: bool = False

    def step(self, chunk: Chunk, y: Any, source: str) -> None:
        """Predict every row just before it is learned."""
        model, X = self.model, chunk.X
        rows = X if isinstance(X, list) else None
        if not isinstance(model, StreamModel):
            # most of river's take what is missing for what is not there
            rows = [
                {name: value for name, value in row.items() if value is not None and value == value}
                for row in chunk.dicts()
            ]
        start = time.perf_counter()
        try:
            if rows is not None:
                said, shares = self._loop(rows, y, chunk.start, source)
            elif self.with_loss:
                table = model.test_then_learn_many(X, y, proba=True).to_numpy()
                said, shares = _most_likely(table, model.labels, y)
            elif isinstance(self.score, ClassScore):
                said, shares = model._test_array(X, y).tolist(), None
            else:
                said, shares = model.test_then_learn_many(X, y), None
        except (TypeError, ValueError) as error:
            raise _refused(chunk, source, self.name, error) from error
        self.seconds += time.perf_counter() - start
        if isinstance(self.score, NumberScore):
            self.score.update(y, np.asarray(said, dtype=np.float64))
            return
        if isinstance(self.score, TargetsScore):
            self.score.update(y.to_numpy(), _table(said, y.columns))
            return
        self.score.update(y, said)
        if shares is not None:
            self.score.update_loss(shares)

    def _loop(self, rows: list[Any], y: Any, start: int, source: str) -> tuple[list[Any], Any]:
        model = self.model
        is_class = isinstance(self.score, ClassScore)
        if is_class and not model._multiclass and not {*y} <= {0, 1}:
            # a two-class learner of river silently takes every other label for True
            raise DataError(f"{self.name} takes only the labels 0 and 1")
        targets = y
        if not is_class:
            targets = y.to_dicts() if isinstance(self.score, TargetsScore) else y.tolist()
        said, shares = [], []
        for i, (x, label) in enumerate(zip(rows, targets, strict=True)):
            try:
                if self.with_loss:
                    known = model.predict_proba_one(x)
                    said.append(max(known, key=known.get) if known else None)
                    if known:
                        shares.append(known.get(label, 0.0))
                else:
                    said.append(model.predict_one(x))
                model.learn_one(x, label)
            except Exception as error:  # river's raise all kinds on values that are not for them
                raise DataError(f"{source}, row {start + i + 1}: {self.name}: {error}") from error
        return said, np.array(shares) if self.with_loss else None

    def values(self) -> dict[str, float]:
        """What there is to say, by name."""
        rate = self.score.n / self.seconds if self.seconds else 0.0
        size = int(self.model._raw_memory_usage)
        return {**self.score.values(), "rows_per_second": rate, "bytes": size}


def _refused(chunk: Chunk, source: str, model: str, error: Exception) -> DataError:
    """What a model says of a chunk that is not for it, with the row that is to blame if known."""
    row = chunk.first_infinite()
    where = f"rows {chunk.start + 1} to {chunk.start + len(chunk)}"
    if row is not None:
        where = f"row {chunk.start + row + 1}"
    return DataError(f"{source}, {where}: {model}: {error}")


def _table(said: Any, names: Sequence[str]) -> Any:
    """What was said of several targets as an array, 0 where nothing was."""
    if isinstance(said, list):
        return np.array([[row.get(name, 0.0) for name in names] for row in said])
    return said.select(names).to_numpy() if said.width else np.zeros((len(said), len(names)))


def _most_likely(table: Any, labels: list[Any], y: list[Any]) -> tuple[list[Any], Any]:
    """The labels of the largest probabilities, and the probabilities of the true ones.

    A label that waits to come again has none: 0.
    """
    known = table.sum(axis=1) > 0.0
    best = [labels[i] for i in table.argmax(axis=1)]
    said = [label if is_known else None for label, is_known in zip(best, known, strict=True)]
    numbers = {label: i for i, label in enumerate(labels)}
    columns = np.array([numbers.get(label, -1) for label in y])
    shares = np.where(columns >= 0, table[np.arange(len(y)), columns], 0.0)
    return said, shares[known]


# ------------------------------------------------------------------------- the stream


class Interrupts:
    """Ctrl-C and SIGTERM end a stream between two chunks, never within one."""

    def __init__(self) -> None:
        self.stopped = False
        self._is_waiting = False

    def __enter__(self) -> Interrupts:
        self._before: dict[int, Any] = {}
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._stop)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _stop(self, *_: object) -> None:
        self.stopped = True
        if self._is_waiting:
            raise KeyboardInterrupt

    def chunks(self, source: Iterable[Chunk]) -> Iterator[Chunk]:
        """The chunks until one of the two comes."""
        chunks = iter(source)
        while not self.stopped:
            try:
                self._is_waiting = True
                chunk = next(chunks)
                self._is_waiting = False
            except (StopIteration, KeyboardInterrupt):
                return
            except Exception:
                # polars tells of an interrupt amid its work by errors of other kinds
                if self.stopped:
                    return
                raise
            finally:
                self._is_waiting = False
            yield chunk


class Progress:
    """Rows, speed and running scores on standard error."""

    def __init__(self, reader: Reader | None, quiet: bool) -> None:
        self._reader = reader
        self._console = Console(stderr=True, quiet=quiet)
        self._start = self._shown = time.monotonic()
        self._bar = Bar(
            TextColumn("{task.description}"), BarColumn(bar_width=20), console=self._console,
            transient=True, disable=not self._console.is_terminal,
        )
        self._task = self._bar.add_task("reading", total=None)

    def __enter__(self) -> Progress:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def show(self, n_rows: int, trials: Sequence[Trial]) -> None:
        """Say where things stand."""
        now = time.monotonic()
        if not self._console.is_terminal and now - self._shown < LINE_SECONDS:
            return
        self._shown = now
        rate = n_rows / max(now - self._start, 1e-9)
        text = [f"{n_rows:,} rows", f"{rate:,.0f} rows/s", *map(_short_score, trials)]
        share = self._reader.share if self._reader is not None else None
        if self._console.is_terminal:
            done: dict[str, Any] = {} if share is None else {"total": 1.0, "completed": share}
            self._bar.update(self._task, description=", ".join(text), **done)
        else:
            self._console.print(", ".join(text), soft_wrap=True, highlight=False, markup=False)


def _short_score(trial: Trial) -> str:
    values = trial.score.values()
    if "accuracy" in values:
        return f"{trial.name} {values['accuracy']:.1%}"
    return f"{trial.name} R2 {values['r2']:.3f}"


@dataclass
class Run:
    """One pass over a stream with some models."""

    target: Target | Targets
    make: Callable[[str], dict[str, Any]]  # models by name, once the task is known
    rows: int | None
    with_loss: bool = False
    trials: list[Trial] = field(default_factory=list)
    n_rows: int = 0
    end: int = 0  # of the rows that were read, those that were skipped among them

    def go(
        self, source: str, chunks: Iterable[Chunk], show: Callable[[int, list[Trial]], None],
        skip: int = 0, after: Callable[[int], object] = lambda n: None,
    ) -> None:
        """Predict and learn every row after the first `skip`; `after` is told after each chunk."""
        for chunk in chunks:
            end = chunk.start + len(chunk)
            self.end = end if self.rows is None else min(end, self.rows)
            chunk = chunk[max(0, skip - chunk.start) : max(0, self.end - chunk.start)]
            if len(chunk):
                y = self.target.read(chunk, source)
                if not self.trials:
                    self._start()
                for trial in self.trials:
                    trial.step(chunk, y, source)
                self.n_rows += len(chunk)
                after(self.n_rows)
                show(self.n_rows, self.trials)
            if self.end == self.rows:
                return

    def _start(self) -> None:
        task: Any = self.target.task  # told by the first chunk
        score: Callable[[], Any] = ClassScore if task == "classification" else NumberScore
        if isinstance(self.target, Targets):
            score = functools.partial(TargetsScore, self.target.name)
        for name, model in self.make(task).items():
            gives = type(model).predict_proba_one if task == "classification" else None
            with_loss = self.with_loss and gives not in (None, base.Classifier.predict_proba_one)
            self.trials.append(Trial(name, model, score(), with_loss=with_loss))


# --------------------------------------------------------------------------- evaluate


@commands.command()
@click.argument("data", required=False)
@with_options(TARGET)
@click.option(
    "--model", "models", multiple=True, metavar="NAME",
    help="A learner, see `info`, or one of river's as module.Name; can be repeated.",
)
@click.option("--log-loss", is_flag=True, help="Score the probabilities, too.")
@click.option(
    "--plot", type=click.Path(dir_okay=False), callback=_picture, help="Draw the score over time."
)
@click.option("--json", "as_json", is_flag=True, help="The scores as JSON.")
@click.option("--demo", is_flag=True, help="On 2,310 images, beside river, with a picture.")
@with_options(READING)
def evaluate(data: str | None, **options: Any) -> None:
    """Score models on a stream, each row predicted before it is learned.

    DATA is a CSV, JSON lines or Parquet file, or - for standard input; CSV and JSON lines may be
    compressed by gzip, bz2, xz or zstd. Rows are taken in their order: sorted files tell little.
    """
    names, plot = options["models"], options["plot"]
    if options["demo"]:
        if data is not None or options["targets"]:
            raise click.UsageError("--demo brings its own data")
        data, options["targets"] = "ImageSegments", ("category",)
        names, plot = names or DEMO_MODELS, plot or "evaluate.png"
    if data is None:
        raise click.UsageError("which data? Give a file, - for standard input, or --demo")
    target = _target_of(options)
    if plot:
        _check_output(plot, data)
    reader = None if options["demo"] else Reader(data, reading_of(options))
    chunks: Iterable[Chunk] = _demo_chunks() if reader is None else reader
    run = Run(
        target,
        lambda task: make_models(names, options["parameters"], _nominal_of(options), task),
        options["rows"], options["log_loss"],
    )
    title = data if reader is None else reader.name
    with Interrupts() as interrupts, Progress(reader, options["quiet"]) as progress:
        run.go(title, interrupts.chunks(chunks), progress.show)
    if run.trials:
        _report(title, run, options["as_json"])
        if plot:
            _draw(title, run, plot)
            if not options["quiet"]:
                click.echo(f"the picture is in {plot}", err=True)
    if interrupts.stopped:
        _end_stopped("stopped")


def _demo_chunks() -> Iterator[Chunk]:
    """River's image segments, a few rows at a time so that one sees them go by."""
    from river import datasets

    rows = list(datasets.ImageSegments())  # type: ignore[no-untyped-call]
    for start in range(0, len(rows), 100):
        part = rows[start : start + 100]
        yield Chunk([x for x, _ in part], {"category": [y for _, y in part]}, start)


def _target_of(options: Mapping[str, Any]) -> Target | Targets:
    """What is to be predicted."""
    names = options["targets"]
    if not names:
        raise click.UsageError("which column is to be predicted? Name it with --target")
    for i, name in enumerate(names):
        if name in options["drop"]:
            raise click.UsageError(f"the target {name!r} cannot be dropped")
        if name in names[:i]:
            raise click.UsageError(f"the target {name!r} is named twice")
    if len(names) == 1:
        return Target(names[0], options["task"], str if names[0] in options["nominal"] else None)
    if options["task"] == "classification" or {*names} & {*options["nominal"]}:
        raise click.UsageError("several targets must be numbers")
    return Targets(names)


def _nominal_of(options: Mapping[str, Any]) -> list[str]:
    """The columns beside the target that hold categories."""
    return [name for name in options["nominal"] if name not in options["targets"]]


def _check_output(path: str, source: str) -> None:
    """Find out now, not after a long run, whether a file can be written that is not the source."""
    folder = Path(path).resolve().parent
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise click.UsageError(f"cannot write {path}: {folder} is no folder to write to")
    if os.path.exists(path) and os.path.exists(source) and os.path.samefile(path, source):
        raise click.UsageError(f"{path} is {source} itself, which would be lost: name another file")


HEADS = {
    "accuracy": ("accuracy", ".2%"), "macro_f1": ("macro F1", ".2%"),
    "log_loss": ("log loss", ".4f"), "mae": ("mean abs. error", ".5g"), "rmse": ("RMSE", ".5g"),
    "r2": ("R2", ".4f"), "rows_per_second": ("rows/s", ",.0f"), "bytes": ("memory", ""),
}


def _head(name: str) -> tuple[str, str]:
    """How a score is called and written; that of one of several targets has its name behind."""
    kind, _, target = name.partition(" ")
    head, form = HEADS[kind]
    return f"{head} {target}".rstrip(), form


def _report(title: str, run: Run, as_json: bool) -> None:
    found = {trial.name: trial.values() for trial in run.trials}
    if as_json:
        models = [{"model": name, **values} for name, values in found.items()]
        click.echo(
            json.dumps({
                "data": title, "target": run.target.name, "task": run.target.task,
                "rows": run.n_rows, "models": models,
            })
        )
        return
    columns = dict.fromkeys(name for values in found.values() for name in values)
    table = Table(box=box.SIMPLE_HEAD, title=f"{title}: {run.n_rows:,} rows", title_justify="left")
    table.add_column("model")
    for name in columns:
        table.add_column(_head(name)[0], justify="right")
    for model, values in found.items():
        cells = [
            utils.pretty.humanize_bytes(int(values[name])) if name == "bytes"
            else format(values[name], _head(name)[1]) if name in values else "-"
            for name in columns
        ]
        table.add_row(model, *cells)
    print_table(table)


def print_table(table: Table) -> None:
    """To standard output, whole where that is a file."""
    console = Console()
    Console(width=None if console.is_terminal else WIDE).print(table)


def _draw(title: str, run: Run, path: str) -> None:
    """The score of the last rows over time."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ImportError(NEEDS_MATPLOTLIB) from None
    window = min(max(run.n_rows // 10, 1), 10_000)
    figure = Figure(figsize=(9, 4), dpi=150, layout="constrained")
    axes = figure.subplots()
    for trial in run.trials:
        values = trial.values()
        key = next(key for key in ("accuracy", "mae", "r2") if key in values)
        score = format(values[key], HEADS[key][1])
        n, means = trial.score.curve.points(window)
        axes.plot(n, means, label=f"{trial.name}\n{score}, {values['rows_per_second']:,.0f} rows/s")
    axes.set_title(title, parse_math=False)  # a file name may contain $
    axes.set_xlabel("rows")
    axes.set_ylabel(f"{run.trials[0].score.unit}, last {window:,} rows")
    axes.grid(alpha=0.3)
    figure.legend(loc="outside right upper", frameon=False)
    try:
        save_figure(figure, path)
    except ValueError as error:  # an ending that is no format
        raise DataError(f"cannot draw {path}: {error}") from error


# ------------------------------------------------------------------------------ train


@commands.command()
@click.argument("data")
@with_options(TARGET)
@click.option("--model", metavar="NAME", help="A learner, see `info`.")
@click.option(
    "-o", "--output", required=True, type=click.Path(dir_okay=False), metavar="FILE",
    help="Where to keep the model.",
)
@click.option("--resume", is_flag=True, help="Go on with the model in the file, where it stopped.")
@click.option(
    "--every", type=click.FloatRange(0), default=60.0, metavar="SECONDS", show_default=True,
    help="Keep the model as often while it learns.",
)
@with_options(READING)
def train(data: str, output: str, **options: Any) -> None:
    """Learn a stream and keep the model in a file.

    The file is replaced as a whole: a process that is killed at any moment leaves the last whole
    model, and --resume goes on from there. It skips the rows of DATA that were learned before, for
    it knows the last 100 files by their first rows, and says how many; what comes from standard
    input is all new. --rows counts the rows of DATA, with those that are skipped.
    """
    target = _target_of(options)
    _check_output(output, data)
    with _usage_errors("--every"):
        checkpoint = Checkpoint(output, seconds=options["every"])
    saved, position, notes = None, 0, Notes()
    if options["resume"] and checkpoint.path.exists():
        saved, position, notes = _saved(checkpoint, options)
        target = _target_as_learned(saved, target)
    reader = Reader(data, reading_of(options, saved, notes))

    def make(task: str) -> dict[str, Any]:
        if saved is not None:
            if source and not options["quiet"]:
                _say_what_is_known(data, skip)
            return {type(saved).__name__: saved}
        names = [options["model"]] if options["model"] else []
        return _ours(make_models(names, options["parameters"], _nominal_of(options), task))

    run = Run(target, make, options["rows"])
    with Interrupts() as interrupts, Progress(reader, options["quiet"]) as progress:
        chunks = interrupts.chunks(reader)
        first = [] if data == "-" else _first_chunks(reader, chunks)
        source = notes.begin(reader.head) if first else None
        skip = source[1] if source else 0

        def keep(n: int, save: Callable[..., object]) -> None:
            if source:
                source[1] = skip + n
            model = run.trials[0].model if run.trials else saved
            save(model, position + n, notes=notes.to_json(reader.how))

        run.go(
            reader.name, itertools.chain(first, chunks), progress.show, skip,
            lambda n: keep(n, checkpoint.update),
        )
        if run.trials or (saved is not None and options["parameters"]):
            keep(run.n_rows, checkpoint.save)
    if run.trials:
        score = _short_score(run.trials[0])
        click.echo(f"{output}: {position + run.n_rows:,} rows, {score}")
    elif not interrupts.stopped and not options["quiet"]:
        which = f"{skip:,} rows that begin like {data}"  # which ends before them
        if run.end == options["rows"]:
            which = f"the first {run.end:,} rows of {data}"
        elif run.end >= skip:
            which = f"all rows of {data}"
        click.echo(f"{output}: nothing new, {which} were learned before", err=True)
    if interrupts.stopped:
        _end_stopped("stopped; --resume goes on from here")


def _say_what_is_known(data: str, skip: int) -> None:
    """Before the first new row of a file is learned."""
    text = f"{skip:,} rows of {data} were learned before"
    click.echo(text if skip else f"{data} was not learned before: all its rows are new", err=True)


def _first_chunks(reader: Reader, chunks: Iterator[Chunk]) -> list[Chunk]:
    """So many chunks that one knows the file by its first rows."""
    first = []
    for chunk in chunks:
        first.append(chunk)
        if len(reader.head) >= HEAD_ROWS:
            break
    return first


def _ours(models: dict[str, Any]) -> dict[str, Any]:
    for name, model in models.items():
        if not isinstance(model, StreamModel):
            raise click.UsageError(f"{name} cannot be kept in a model file")
    return models


def _task_of(model: StreamModel) -> str:
    return next(task for task, kind in KINDS.items() if isinstance(model, kind))


def _target_as_learned(model: StreamModel, target: Target | Targets) -> Target | Targets:
    """The target, read as it was when the model learned it."""
    task = _task_of(model)
    if isinstance(target, Targets) != (task == Targets.task):
        raise click.UsageError(f"the model in the file predicts {task}")
    for name in target.name if isinstance(target, Targets) else [target.name]:
        if name in set().union(*known_columns(model)):
            raise click.UsageError(
                f"--target: {name!r} is a feature of the model in the file, which predicts another"
            )
    if isinstance(target, Targets):
        return target
    kinds = {type(label) for label in model.labels} if task == "classification" else set()
    # where some are text all are read as text
    kind = str if str in kinds else kinds.pop() if len(kinds) == 1 else None
    return Target(target.name, task, kind if kind in (str, int, bool, float) else None)


def _saved(checkpoint: Checkpoint, options: Mapping[str, Any]) -> tuple[Any, int, Notes]:
    """The model in the file, with the parameters that may change as given; position and notes."""
    found, _, notes = load_at(checkpoint.path)
    wanted, given = found.clone(), {}
    if options["model"] or options["parameters"]:
        task = _task_of(found)
        names = [options["model"] or type(found).__name__]
        nominal = found.nominal_attributes or ()
        ((_, other),) = _ours(make_models(names, options["parameters"], nominal, task)).items()
        given = {name: getattr(other, name) for name in options["parameters"]}
        wanted = other
        if type(other) is type(found):
            with _usage_errors("--set"):
                wanted = found.clone(given)
    try:
        saved, position = checkpoint.resume(wanted)
    except ValueError as error:
        raise DataError(str(error)) from error
    with _usage_errors("--set"):
        for name in given:
            if name in saved._mutable_attributes:
                setattr(saved, name, given[name])
    return saved, position, Notes.of_file(notes, str(checkpoint.path))


def known_columns(model: StreamModel) -> tuple[set[Any], set[Any]]:
    """The columns of which a model has learned numbers, and those of which it knows categories."""
    numbers, categories = set(), set()
    for feature in model._core.features.names:
        if hasattr(feature, "value"):
            categories.add(feature.name)
        else:
            numbers.add(feature)
    return numbers, categories


# ---------------------------------------------------------------------------- predict


@commands.command()
@click.argument("model", type=click.Path(exists=True, dir_okay=False))
@click.argument("data")
@click.option("--proba", is_flag=True, help="The probability of every label in place of the label.")
@click.option("--json", "as_json", is_flag=True, help="JSON lines in place of CSV.")
@with_options(READING)
def predict(model: str, data: str, **options: Any) -> None:
    """Predict the rows of DATA with a model, one line a row, to standard output."""
    loaded, _, notes = load_at(model)
    if options["proba"] and not isinstance(loaded, StreamClassifier):
        raise click.UsageError(f"{type(loaded).__name__} predicts numbers: it has no probabilities")
    known = set().union(*known_columns(loaded))
    reader = Reader(data, reading_of(options, loaded, Notes.of_file(notes, model)))
    left = options["rows"]
    with Interrupts() as interrupts:
        for chunk in interrupts.chunks(reader):
            chunk = chunk[: len(chunk) if left is None else left - chunk.start]
            if not chunk.start:
                _compare_columns(chunk, known, model, reader.name, options["quiet"])
            try:
                table = _predictions(loaded, chunk, options["proba"])
            except (TypeError, ValueError) as error:
                raise _refused(chunk, reader.name, model, error) from error
            _write(table, options["as_json"], with_head=not chunk.start)
            if left is not None and chunk.start + len(chunk) >= left:
                break
    if interrupts.stopped:
        _end_stopped("stopped")


def _write(table: dict[Any, list[Any]], as_json: bool, with_head: bool) -> None:
    """Rows to standard output."""
    rows, names = zip(*table.values(), strict=True), distinct_texts([*table])
    if as_json:
        for row in rows:
            click.echo(json.dumps(dict(zip(names, row, strict=True)), default=str))
    else:
        out = csv.writer(sys.stdout, lineterminator="\n")
        if with_head:
            out.writerow(names)
        out.writerows(rows)
    sys.stdout.flush()


def _compare_columns(chunk: Chunk, known: set[Any], model: str, source: str, quiet: bool) -> None:
    """Raise if the data have nothing that the model knows; warn if they lack some of it."""
    rows = chunk.X
    names = {name for row in rows for name in row} if isinstance(rows, list) else set(rows.columns)
    if known and not known & names:
        shown = ", ".join(sorted(map(repr, known))[:5])
        raise DataError(f"{source} has none of the columns that {model} has learned: {shown}, ...")
    lacking = sorted(map(str, known - names))
    if lacking and not quiet:
        more = f" and {len(lacking) - 5} more" if len(lacking) > 5 else ""
        click.echo(
            f"{source} lacks {', '.join(lacking[:5])}{more}, which {model} has learned: "
            "taken as missing", err=True,
        )


def _predictions(model: Any, chunk: Chunk, proba: bool) -> dict[Any, list[Any]]:
    """Columns by name."""
    if isinstance(chunk.X, list):
        one = model.predict_proba_one if proba else model.predict_one
        said = [one(x) for x in chunk.X]
        if not proba and not isinstance(said[0], dict):
            return {"prediction": said}
        return {name: [row[name] for row in said] for name in said[0]}
    if proba:
        table = model.predict_proba_many(chunk.X)
        return {name: table[:, i].to_list() for i, name in enumerate(model.labels)}
    if isinstance(model, StreamClassifier):
        # a series of polars has one type
        return {"prediction": model._predict_array(chunk.X).tolist()}
    said = model.predict_many(chunk.X)
    if hasattr(said, "columns"):
        return dict(said.to_dict(as_series=False))
    return {"prediction": said.to_list()}


# ---------------------------------------------------------------------------- inspect


@commands.command()
@click.argument("model", type=click.Path(exists=True, dir_okay=False))
@click.option(
    "--draw", type=click.Path(dir_okay=False), callback=_picture, metavar="FILE",
    help="Draw the tree: .svg, .png, .pdf, or .dot.",
)
@click.option(
    "--max-depth", type=click.IntRange(0, 2**31 - 1), metavar="N", help="Draw no deeper (4)."
)
@click.option(
    "--member", metavar="NAME", help="Of a forest: a member, such as model, or extra:0."
)
@click.option("--importances", is_flag=True, help="How much each column counts.")
@click.option("--json", "as_json", is_flag=True, help="All of it as JSON, with the tree.")
def inspect(model: str, **options: Any) -> None:
    """Look into a model file."""
    loaded, position, _ = load_at(model)
    if options["member"]:
        loaded = _member(loaded, options["member"])
    if options["draw"]:
        _check_output(options["draw"], model)
        _draw_tree(loaded, options["draw"], options["max_depth"])
        click.echo(f"the drawing is in {options['draw']}", err=True)
        return
    shares = loaded.feature_importances()
    importances = dict(zip(distinct_texts([*shares]), shares.values(), strict=True))
    if options["as_json"]:
        click.echo(
            json.dumps({
                "class": type(loaded).__name__, "parameters": loaded._get_params(),
                "rows": position, "summary": dict(loaded.summary), "importances": importances,
                **_structure(loaded),
            }, default=_plain)
        )
        return
    title = f"{model}: {type(loaded).__name__}"
    table = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left")
    if options["importances"]:
        table.add_column("column")
        table.add_column("importance", justify="right")
        for name, share in importances.items():
            table.add_row(name, f"{share:.4f}")
    else:
        table.add_column("")
        table.add_column("", justify="right")
        rows = {"rows learned": position, "file": os.path.getsize(model), **loaded.summary}
        rows |= {f"weight of {k}": f"{v:.4f}" for k, v in _weights(loaded).items()}
        for name, value in {**rows, **loaded._get_params()}.items():
            table.add_row(str(name), f"{value:,}" if type(value) is int else str(value))
    print_table(table)


def _plain(value: Any) -> Any:
    """What JSON has no type for as text; a number of numpy is a number."""
    return value.item() if isinstance(value, (np.number, np.bool_)) else str(value)


def _weights(model: Any) -> dict[str, float]:
    """What the members of a forest are worth; nothing of a tree."""
    return getattr(model, "member_weights", {})


def _structure(model: Any) -> dict[str, Any]:
    return {"members": _weights(model)} if _weights(model) else {"tree": model.to_dict()}


def _member(model: Any, name: str) -> Any:
    """A member of a forest: `model`, or `extra:3` where there are several trees."""
    if not _weights(model):
        raise click.UsageError(f"{type(model).__name__} is a tree: it has no members")
    kind, colon, number = name.partition(":")
    try:
        if colon and not number.isdecimal():
            raise ValueError(f"{number!r} is no number of a tree")
        tree = int(number) if colon else 0 if kind == "extra" else None
        return model.member(kind, tree)
    except ValueError as error:
        raise click.UsageError(f"--member {name}: {error}") from error


def _draw_tree(model: Any, path: str, max_depth: int | None) -> None:
    if _weights(model):
        names = ", ".join(_weights(model))
        raise click.UsageError(
            f"{type(model).__name__} has many trees: which? --member with one of {names}"
        )
    drawing = model.draw() if max_depth is None else model.draw(max_depth)
    if path.endswith((".dot", ".gv")):
        Path(path).write_text(drawing.source, encoding="utf-8")
        return
    try:
        drawing.save(path)
    except (OSError, ValueError) as error:  # a kind of picture that matplotlib does not know
        raise DataError(f"cannot draw {path}: {error}") from error


# ------------------------------------------------------------------------------- info


@commands.command()
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
def info(as_json: bool) -> None:
    """Versions, and the learners that there are."""
    versions = {"streamtree": streamtree.__version__, "Python": platform.python_version()}
    for name in ("numpy", "river", "narwhals", *EXTRAS):
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            versions[name] = "not installed"
    of = {name: task for task in KINDS for name in estimators_of(task)}
    tasks = {name: of[name] for name in sorted(of)}
    if as_json:
        click.echo(json.dumps({"versions": versions, "models": tasks}))
        return
    table = Table(box=box.SIMPLE_HEAD)
    for head in ("model", "task", "what it is"):
        table.add_column(head)
    for name, task in tasks.items():
        table.add_row(name, task, (public_estimators()[name].__doc__ or "").partition("\n")[0])
    click.echo(", ".join(f"{name} {version}" for name, version in versions.items()))
    print_table(table)
