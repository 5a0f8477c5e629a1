"""Progressive validation: every example is predicted first and learned afterwards.

All learners see the same examples in the same order, so their accuracy, speed and memory can be
compared. Needs `pip install "streamtree-learn[examples]"`.

    python prequential.py
    python prequential.py --dataset synth.LED --rows 20000
    python prequential.py --csv flights.csv.gz --target carrier --no-plot
    python prequential.py --npz letter.npz --shuffle 42 --learner ModelTreeClassifier

Many published files are sorted by class: give `--shuffle` for those, and never for a true stream.
"""

from __future__ import annotations

import argparse
import csv
import difflib
import gzip
import inspect
import io
import itertools
import math
import os
import sys
import time
import zlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn, TextIO

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import PercentFormatter, StrMethodFormatter
from river import api, base, datasets, metrics, utils
from tqdm import tqdm

import streamtree

Label = base.typing.ClfTarget
Example = tuple[dict[Any, Any], Label]

DEFAULT_DATASET = "ImageSegments"
DEFAULT_LEARNERS = ["ModelTreeClassifier", "tree.HoeffdingTreeClassifier"]
CLASSIFICATION = ("Binary classification", "Multi-class classification")
CSR_ARRAYS = ("data", "indices", "indptr", "shape")
ZIP_START = b"PK\x03\x04"
SEED = 42  # of every learner and generator that takes one: two runs give the same accuracy
MIN_PROBABILITY = 1e-15  # a label thought impossible would make the mean log loss infinite


class InputError(Exception):
    """What the user gave cannot be used; the message says why."""


# Streams


@dataclass
class Stream:
    """Examples to be read once."""

    name: str
    examples: Iterable[Example]
    n_rows: int | None = None  # None if only the end will tell
    endless: bool = False


def row_order(n_rows: int, seed: int | None) -> Iterable[int]:
    """The rows as they stand, or in random order."""
    return range(n_rows) if seed is None else np.random.default_rng(seed).permutation(n_rows)


def shuffled(stream: Stream, seed: int) -> Stream:
    """The whole stream in random order; it is held in memory for that."""
    if stream.endless:
        raise InputError(f"{stream.name} never ends, so it cannot be shuffled")
    rows = list(stream.examples)
    return Stream(stream.name, (rows[i] for i in row_order(len(rows), seed)), len(rows))


def dataset_classes() -> dict[str, type[datasets.base.Dataset]]:
    """All of river's data sets by name; the generators as `synth.NAME`."""
    named = {name: getattr(datasets, name) for name in datasets.__all__}
    named |= {f"synth.{name}": getattr(datasets.synth, name) for name in datasets.synth.__all__}
    return {
        name: found
        for name, found in named.items()
        if inspect.isclass(found) and issubclass(found, datasets.base.Dataset)
    }


def is_available(dataset: datasets.base.Dataset) -> bool:
    """Whether the data are on this machine; nothing is ever downloaded here."""
    if not isinstance(dataset, datasets.base.RemoteDataset):
        return True
    try:
        return bool(dataset.is_downloaded)
    except OSError:  # river makes its folder just to look into it
        return False


def available_datasets() -> dict[str, datasets.base.Dataset]:
    """The classification sets that can be read here and now."""
    made = {name: found(**seeds_of(found)) for name, found in dataset_classes().items()}
    return {
        name: dataset
        for name, dataset in made.items()
        if dataset.task in CLASSIFICATION and is_available(dataset)
    }


def read_dataset(name: str) -> Stream:
    """One of river's data sets."""
    classes = dataset_classes()
    if name not in classes:
        raise InputError(f"unknown dataset {name!r}: {advice(name, available_datasets())}")
    dataset = classes[name](**seeds_of(classes[name]))
    if dataset.task not in CLASSIFICATION:
        raise InputError(
            f"{name} is a set for {dataset.task.lower()}: "
            "only classification streams with a single target are supported here"
        )
    if not is_available(dataset):
        raise InputError(
            f"{name} is not on this machine: river.datasets.{name}().download() would fetch it"
        )
    endless = isinstance(dataset, datasets.base.SyntheticDataset) and dataset.n_samples is None
    return Stream(name, dataset, dataset.n_samples, endless)


def open_text(path: Path) -> TextIO:
    """A text file, compressed if its name ends in .gz; a byte order mark is skipped."""
    if path.suffix.lower() == ".gz":
        return gzip.open(path, "rt", encoding="utf-8-sig", newline="")
    return path.open(encoding="utf-8-sig", newline="")


def parse_cell(cell: str) -> float | str | None:
    """A number, a category, or None for a missing value."""
    cell = cell.strip()
    try:
        # Python would read 1_000 as a number; in a file it is more likely a code
        value = float(cell) if "_" not in cell else None
    except ValueError:
        value = None
    if value is None:
        return cell or None
    return None if math.isnan(value) else value


def parse_label(cell: str) -> int | str:
    """Whole numbers as int, which river's two-class learners rely on; all else as text."""
    try:
        number = int(cell)
    except ValueError:
        return cell
    return number if str(number) == cell else cell  # 007 and 7 are different labels


def parse_header(path: Path, names: list[str], target: str) -> int:
    """The position of the target column."""
    twice = [name for i, name in enumerate(names) if name in names[:i]]
    if twice:
        raise InputError(f"{path} has two columns with the name {twice[0]!r}")
    if target not in names:
        close = matches(target, names)
        hint = f"did you mean {close}?" if close else f"it has {shortened(names)}"
        raise InputError(f"{path} has no column {target!r}: {hint}")
    return names.index(target)


def csv_examples(path: Path, target: str) -> Iterator[Example]:
    """The rows of a CSV file with a header line."""
    try:
        with open_text(path) as file:
            reader = csv.reader(file, strict=True)
            rows = filter(None, reader)  # the reader makes empty lists of blank lines
            names = [name.strip() for name in next(rows, [])]
            if not names:
                raise InputError(f"{path} is empty: a header line and data are needed")
            label_column = parse_header(path, names, target)
            row: list[str] = []
            for row in rows:
                where = f"{path}, line {reader.line_num}"
                if len(row) != len(names):
                    raise InputError(f"{where}: expected {len(names)} fields, found {len(row)}")
                label = row[label_column].strip()
                if not label:
                    raise InputError(f"{where}: the target {target!r} is empty")
                x = {
                    name: value
                    for name, cell in zip(names, row, strict=True)
                    if name != target and (value := parse_cell(cell)) is not None
                }
                yield x, parse_label(label)
            if not row:
                raise InputError(f"{path} has a header line but no data")
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not text in UTF-8: {error.reason}") from error
    except csv.Error as error:
        raise InputError(f"{path}, line {reader.line_num}: {error}") from error
    except (OSError, EOFError, zlib.error) as error:
        raise unreadable(path, error) from error


def load_arrays(path: Path) -> dict[str, np.ndarray]:
    """The arrays of an .npz file that have a meaning here."""
    known = ["X", "y", *CSR_ARRAYS, "feature_names", "class_names", "categorical"]
    try:
        with path.open("rb") as file:
            # numpy would take any other file for a pickle, and advise to load that
            if file.read(len(ZIP_START)) == ZIP_START:
                file.seek(0)
                with np.load(file, allow_pickle=False) as archive:
                    return {name: archive[name] for name in known if name in archive}
    except Exception as error:  # a damaged file brings up all kinds, even those of a tokenizer
        raise unreadable(path, error) from error
    raise InputError(f"{path} is not an .npz file")


def npz_labels(path: Path, arrays: dict[str, np.ndarray]) -> list[Label]:
    """The label of every row, by name where the classes have names."""
    y, class_names = arrays["y"], arrays.get("class_names")
    if y.dtype.kind == "f":
        raise InputError(
            f"{path} has a number as target (y is {y.dtype}): "
            "only classification streams are supported here"
        )
    if y.ndim != 1 or y.dtype.kind not in "biuU":
        raise InputError(f"{path}: y must be a line of whole numbers or strings")
    if not len(y):
        raise InputError(f"{path} has no rows")
    if class_names is None:
        return list(y.tolist())
    if class_names.ndim != 1 or y.dtype.kind not in "iu" or y.min() < 0:
        raise InputError(f"{path}: y must hold positions in class_names")
    if y.max() >= len(class_names):
        raise InputError(f"{path}: y goes up to {y.max()}, class_names has {len(class_names)}")
    return list(class_names[y].tolist())


def npz_feature_names(path: Path, arrays: dict[str, np.ndarray], n_columns: int) -> list[Any]:
    """The names of the columns, by default their numbers."""
    if "feature_names" not in arrays:
        return list(range(n_columns))
    names = arrays["feature_names"].tolist()
    if arrays["feature_names"].shape != (n_columns,) or len(set(names)) != n_columns:
        raise InputError(f"{path}: feature_names must be {n_columns} different names")
    return list(names)


def dense_examples(
    path: Path, arrays: dict[str, np.ndarray], labels: list[Label], order: Iterable[int]
) -> Iterator[Example]:
    """Rows of a dense array; NaN is missing, a categorical column becomes strings."""
    X = arrays["X"]
    if X.ndim != 2 or X.dtype.kind not in "biuf" or len(X) != len(labels):
        raise InputError(f"{path}: X must be a table of numbers with a row for each of y")
    names = npz_feature_names(path, arrays, X.shape[1])
    categorical = arrays.get("categorical", np.zeros(X.shape[1], dtype=bool))
    if categorical.shape != (X.shape[1],):
        raise InputError(f"{path}: categorical must have one value for each column of X")
    columns = list(zip(names, categorical.astype(bool).tolist(), strict=True))

    def examples() -> Iterator[Example]:
        for i in order:
            x = {
                # 17 digits keep any two codes apart, and 3.0 is still written 3
                name: format(value, ".17g") if is_category else value
                for (name, is_category), value in zip(columns, X[i].tolist(), strict=True)
                if not math.isnan(value)
            }
            yield x, labels[i]

    return examples()


def sparse_examples(
    path: Path, arrays: dict[str, np.ndarray], labels: list[Label], order: Iterable[int]
) -> Iterator[Example]:
    """Rows of a CSR matrix: only cells that are neither zero nor NaN."""
    data, indices, indptr, shape = (arrays[name] for name in CSR_ARRAYS)
    sound = (
        all(array.ndim == 1 for array in (data, indices, indptr))
        and shape.shape == (2,)
        and data.dtype.kind in "biuf"
        and all(array.dtype.kind in "iu" for array in (indices, indptr, shape))
        and shape[0] == len(labels) == len(indptr) - 1
        and indptr[0] == 0
        and indptr[-1] == len(indices) == len(data)
        and bool((indptr[:-1] <= indptr[1:]).all())
        and (not len(indices) or (indices.min() >= 0 and indices.max() < shape[1]))
    )
    if not sound:
        raise InputError(f"{path}: data, indices, indptr, shape and y do not fit together")
    names = npz_feature_names(path, arrays, int(shape[1]))

    def examples() -> Iterator[Example]:
        for i in order:
            cells = slice(indptr[i], indptr[i + 1])
            pairs = zip(indices[cells].tolist(), data[cells].tolist(), strict=True)
            x = {names[column]: v for column, v in pairs if v != 0 and not math.isnan(v)}
            yield x, labels[i]

    return examples()


def read_npz(path: Path, seed: int | None) -> Stream:
    """A dense or sparse .npz file; shuffling it costs no memory, rows being read by number."""
    arrays = load_arrays(path)
    if "X" not in arrays and not arrays.keys() >= set(CSR_ARRAYS):
        raise InputError(f"{path} has neither X nor {', '.join(CSR_ARRAYS)}")
    if "y" not in arrays:
        raise InputError(f"{path} has no y")
    labels = npz_labels(path, arrays)
    order = row_order(len(labels), seed)
    rows = (dense_examples if "X" in arrays else sparse_examples)(path, arrays, labels, order)
    return Stream(path.name, rows, len(labels))


def open_stream(args: argparse.Namespace) -> Stream:
    """The stream that the command line asks for."""
    if args.npz:
        return read_npz(args.npz, args.shuffle)
    if args.csv:
        stream = Stream(args.csv.name, csv_examples(args.csv, args.target))
    else:
        stream = read_dataset(args.dataset)
    if stream.endless and args.rows is None:
        raise InputError(f"{stream.name} never ends: say how many examples with --rows")
    return stream if args.shuffle is None else shuffled(stream, args.shuffle)


# Learners


def learner_classes() -> dict[str, type[base.Classifier]]:
    """streamtree's classifiers by name, river's as `module.Name`."""
    named = {name: getattr(streamtree, name) for name in streamtree.__all__}
    for module_name, module in inspect.getmembers(api, inspect.ismodule):
        for name in getattr(module, "__all__", ()):
            named[f"{module_name}.{name}"] = getattr(module, name, None)
    return {
        name: found
        for name, found in named.items()
        if inspect.isclass(found)
        and issubclass(found, base.Classifier)
        and not inspect.isabstract(found)
    }


def required_arguments(learner: type[base.Classifier]) -> list[str]:
    """The constructor's arguments without a default: those a name alone cannot give."""
    return [
        name
        for name, parameter in inspect.signature(learner).parameters.items()
        if parameter.default is parameter.empty
        and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    ]


def available_learners() -> list[str]:
    """The learners that a name is enough for."""
    return [name for name, found in learner_classes().items() if not required_arguments(found)]


def seeds_of(maker: type) -> dict[str, int]:
    """The seed arguments that a learner or generator has (`seed`, `seed_model`, ...)."""
    names = inspect.signature(maker).parameters
    return {name: SEED for name in names if name.startswith("seed")}


def make_learner(name: str) -> base.Classifier:
    """A learner with its default parameters."""
    classes = learner_classes()
    if name not in classes:
        raise InputError(f"unknown learner {name!r}: {advice(name, available_learners())}")
    missing = required_arguments(classes[name])
    if missing:
        raise InputError(f"{name} cannot be made without {' and '.join(missing)}")
    try:
        return classes[name](**seeds_of(classes[name]))
    except Exception as error:  # some of river's need an optional package or a newer Python
        raise InputError(f"{name} cannot be made: {error}") from error


@dataclass
class Trial:
    """A learner and how it has done so far."""

    name: str
    model: base.Classifier
    accuracy: metrics.Accuracy = field(default_factory=metrics.Accuracy)
    macro_f1: metrics.MacroF1 = field(default_factory=metrics.MacroF1)
    hits: bytearray = field(default_factory=bytearray)  # 1 for every example predicted right
    nanoseconds: int = 0
    loss_sum: float = 0.0
    n_losses: int = 0

    def __post_init__(self) -> None:
        inherited = base.Classifier.predict_proba_one
        self.gives_probabilities = type(self.model).predict_proba_one is not inherited

    def step(self, x: dict[Any, Any], y: Label) -> None:
        """Predict one example, learn it, and keep the score. Only the former two are timed."""
        # a two-class learner of river silently takes every other label for True
        if not self.model._multiclass and y not in (0, 1):
            raise InputError(f"{self.name} takes only the labels 0 and 1 (False, True), got {y!r}")
        model = self.model
        predict = model.predict_proba_one if self.gives_probabilities else model.predict_one
        learn = model.learn_one
        try:
            start = time.perf_counter_ns()
            prediction: Any = predict(x)
            learn(x, y)
            self.nanoseconds += time.perf_counter_ns() - start
        except Exception as error:  # learners raise all kinds on values that are not for them
            reason = f"{type(error).__name__}: {error}"
            raise InputError(f"{self.name}, example {self.n_examples + 1}: {reason}") from error
        if self.gives_probabilities:
            self._score_probabilities(y, prediction)
            prediction = max(prediction, key=prediction.get, default=None)
        self._score_label(y, prediction)

    def _score_probabilities(self, y: Label, probabilities: dict[Label, float]) -> None:
        if probabilities:
            probability = min(max(probabilities.get(y, 0.0), MIN_PROBABILITY), 1.0)
            self.loss_sum -= math.log(probability)
            self.n_losses += 1

    def _score_label(self, y: Label, predicted: Any) -> None:
        self.accuracy.update(y, predicted)
        if predicted is not None:  # None would be one more class, of which nothing is right
            self.macro_f1.update(y, predicted)
        self.hits.append(predicted == y)

    @property
    def n_examples(self) -> int:
        """How many examples were predicted and learned."""
        return len(self.hits)

    @property
    def microseconds(self) -> float:
        """Mean time to predict and learn an example."""
        return self.nanoseconds / 1000 / self.n_examples

    @property
    def log_loss(self) -> float | None:
        """Mean of -log(probability of the true label), in nats."""
        return self.loss_sum / self.n_losses if self.n_losses else None


# The run


def run(stream: Stream, trials: Sequence[Trial], rows: int | None) -> bool:
    """One pass over the stream; False if the user stopped it."""
    stop = min(rows or sys.maxsize, sys.maxsize)
    total = stream.n_rows if rows is None else min(rows, stream.n_rows or rows)
    progress = tqdm(
        itertools.islice(stream.examples, stop),
        desc=stream.name,
        total=total,
        unit=" examples",
        dynamic_ncols=True,
        leave=False,
        disable=None,  # nothing but errors where standard error is not a terminal
    )
    with progress:
        try:
            for n, (x, y) in enumerate(progress, start=1):
                for trial in trials:
                    trial.step(x, y)
                if n % 100 == 0:
                    scores = {trial.name: f"{trial.accuracy.get():.1%}" for trial in trials}
                    progress.set_postfix(scores, refresh=False)
        except KeyboardInterrupt:
            return False
    return True


# The report


def table(trials: Sequence[Trial]) -> str:
    """The scores, one learner a line."""
    rows = [("learner", "accuracy", "macro F1", "log loss", "µs/example", "memory")]
    for trial in trials:
        loss = trial.log_loss
        rows.append(
            (
                trial.name,
                f"{trial.accuracy.get():.2%}",
                f"{trial.macro_f1.get():.2%}",
                "-" if loss is None else f"{loss:.3f}",
                f"{trial.microseconds:.1f}",
                utils.pretty.humanize_bytes(trial.model._raw_memory_usage),
            )
        )
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for name, *numbers in rows:
        cells = [name.ljust(widths[0])]
        cells += [text.rjust(width) for text, width in zip(numbers, widths[1:], strict=True)]
        lines.append("  ".join(cells))
    return "\n".join(lines)


def speed(trials: Sequence[Trial]) -> str:
    """How much faster than the slowest learner the others are."""
    *others, slowest = sorted(trials, key=lambda trial: trial.microseconds)
    times = [f"{t.name} is {slowest.microseconds / t.microseconds:.1f} times" for t in others]
    return f"{', '.join(times)} as fast as {slowest.name}"


def plot(title: str, trials: Sequence[Trial], path: Path) -> None:
    """Accuracy against the number of examples: lately, and since the beginning."""
    n_examples = max(trial.n_examples for trial in trials)
    window = min(max(n_examples // 10, 1), 1000)
    figure = Figure(figsize=(10, 4.5), dpi=150, layout="constrained")
    axes = figure.subplots()
    handles = []
    for i, trial in enumerate(trials):
        hits = np.frombuffer(trial.hits, dtype=np.uint8)
        totals = np.concatenate(([0], np.cumsum(hits, dtype=np.int64)))
        # both curves start with the first full window: shorter means are mostly noise
        seen = np.unique(np.linspace(window, len(hits), 1000).astype(np.int64))
        lately = (totals[seen] - totals[seen - window]) / window
        axes.plot(seen, lately, color=f"C{i}", linewidth=1.6)
        axes.plot(seen, totals[seen] / seen, color=f"C{i}", linewidth=1.2, linestyle="--")
        score = f"{trial.accuracy.get():.1%}, {trial.microseconds:.1f} µs/example"
        label = f"{trial.name}\n{score}"
        handles.append(Line2D([], [], color=f"C{i}", linewidth=3, label=label))
    handles.append(Line2D([], [], color="0.4", label=f"last {window:,} examples"))
    handles.append(Line2D([], [], color="0.4", linestyle="--", label="all examples so far"))
    axes.set_title(title, parse_math=False)  # a file name may contain $
    axes.set_xlabel("number of examples seen")
    axes.set_ylabel("accuracy (% of examples predicted right)")
    axes.set_xlim(0, n_examples)
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    axes.yaxis.set_major_formatter(PercentFormatter(xmax=1, decimals=0, symbol=None))
    axes.grid(alpha=0.3)
    figure.legend(handles=handles, loc="outside right upper", frameon=False, fontsize="small")
    try:
        figure.savefig(path, format="png")
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}") from error


def listing() -> str:
    """What can be given to --dataset and --learner."""
    lines = ["datasets:"]
    for name, dataset in available_datasets().items():
        size = f"{dataset.n_samples:,} examples" if dataset.n_samples else "endless"
        lines.append(f"  {name}  ({dataset.task.lower()}, {size})")
    lines += ["learners:", *(f"  {name}" for name in available_learners())]
    return "\n".join(lines)


# The command line


def matches(name: str, known: Iterable[str]) -> str:
    """The known names most like this one, whatever their case."""
    lowered = {candidate.lower(): candidate for candidate in known}
    return " or ".join(lowered[close] for close in difflib.get_close_matches(name.lower(), lowered))


def advice(name: str, known: Iterable[str]) -> str:
    """What to do about a name that is not known."""
    close = matches(name, known)
    return f"did you mean {close}?" if close else "--list shows what there is"


def shortened(names: Collection[str], most: int = 10) -> str:
    """The first few names of a long list."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(map(repr, itertools.islice(names, most))) + more


def unreadable(path: Path, error: Exception) -> InputError:
    """What to say of a file that cannot be read."""
    reason = error.strerror if isinstance(error, OSError) else None
    return InputError(f"cannot read {path}: {reason or str(error) or type(error).__name__}")


class Parser(argparse.ArgumentParser):
    """Reports a wrong command line as all other bad input is reported."""

    def error(self, message: str) -> NoReturn:
        raise InputError(message)


def whole_number(text: str, least: int) -> int:
    """A whole number of at least `least`."""
    try:
        number = int(text)
    except ValueError:
        number = least - 1
    if number < least:
        raise argparse.ArgumentTypeError(f"must be a whole number from {least}, got {text!r}")
    return number


def parse_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = Parser(
        prog="prequential.py",
        description="Progressive (test-then-train) validation of classifiers on a stream.",
        allow_abbrev=False,
    )
    source = parser.add_mutually_exclusive_group()
    source.add_argument(
        "--dataset",
        metavar="NAME",
        default=DEFAULT_DATASET,
        help="a river data set, or a generator as synth.NAME (default: %(default)s)",
    )
    source.add_argument("--csv", type=Path, metavar="FILE", help="a .csv or .csv.gz with a header")
    source.add_argument(
        "--npz",
        type=Path,
        metavar="FILE",
        help="arrays X and y, or a CSR matrix as data, indices, indptr, shape and y; and, "
        "optionally, feature_names, class_names and the mask of columns categorical",
    )
    parser.add_argument("--target", metavar="COLUMN", help="the column of the CSV to predict")
    parser.add_argument(
        "--learner",
        action="append",
        dest="learners",
        metavar="NAME",
        help="a streamtree classifier, or one of river's as module.Name; can be repeated "
        f"(default: {' and '.join(DEFAULT_LEARNERS)})",
    )
    parser.add_argument(
        "--rows", type=lambda text: whole_number(text, 1), metavar="N", help="stop after N examples"
    )
    parser.add_argument(
        "--shuffle",
        type=lambda text: whole_number(text, 0),
        metavar="SEED",
        help="put the whole stream in random order first",
    )
    picture = parser.add_mutually_exclusive_group()
    picture.add_argument(
        "--plot",
        type=Path,
        metavar="PATH",
        default=Path("prequential.png"),
        help="where to write the accuracy curves as PNG (default: %(default)s)",
    )
    picture.add_argument("--no-plot", action="store_const", const=None, dest="plot")
    parser.add_argument("--list", action="store_true", help="show data sets and learners, and stop")
    args = parser.parse_args(argv)
    if args.csv and args.target is None:
        parser.error("--csv needs --target, the name of the column to predict")
    if args.target is not None and not args.csv:
        parser.error("--target goes with --csv")
    # found out now, not after a long run
    if args.plot and (os.path.isdir(args.plot) or not os.path.isdir(args.plot.parent)):
        parser.error(f"cannot write {args.plot}: not a file in an existing folder")
    return args


def validate(args: argparse.Namespace) -> int:
    """Run, print the table, draw the curves."""
    trials = [Trial(name, make_learner(name)) for name in args.learners or DEFAULT_LEARNERS]
    stream = open_stream(args)
    completed = run(stream, trials, args.rows)
    trials = [trial for trial in trials if trial.n_examples]
    if not trials:
        print("stopped before the first example")
        return 130
    count = max(trial.n_examples for trial in trials)
    name = stream.name.encode(errors="backslashreplace").decode()  # not all file names are text
    title = f"Progressive validation on {name}, {count:,} examples"
    print(title if completed else f"{title} (stopped)", table(trials), sep="\n\n", end="\n\n")
    if args.plot:
        plot(title, trials, args.plot)
        print(f"accuracy curves: {args.plot}")
    if len(trials) > 1:
        print(speed(trials))
    return 0 if completed else 130


def main(argv: Sequence[str] | None = None) -> int:
    """The exit code: 0, 2 for bad input, 130 if stopped by the user."""
    try:
        args = parse_arguments(argv)
        if args.list:
            print(listing())
            return 0
        return validate(args)
    except InputError as error:
        # one line, whatever a file name or another library's message contains
        print("prequential.py: error:", " ".join(str(error).split()), file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # not every terminal knows µ
    sys.exit(main())
