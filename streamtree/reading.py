"""Files and pipes as chunks of rows: CSV, JSON lines, Parquet, plain or compressed.

What a cell is does not depend on the cells around it: one that reads as a number is a number, one
that reads as an ISO date becomes numbers of its own, an empty one is missing, all else is a
category. So a stream gives the same rows however it is cut into chunks. Needs polars.
"""

from __future__ import annotations

import base64
import contextlib
import csv
import difflib
import functools
import hashlib
import importlib
import io
import json
import math
import os
import re
import select
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import IO, Any

import polars as pl

from streamtree._core.stream.features import category_text

__all__ = ["Chunk", "DataError", "Reader", "Reading", "Target", "Targets", "advice", "fingerprint"]

BLOCK_BYTES = 1 << 22  # some 20,000 rows of ten numbers: larger ones read no faster
BLOCK_ROWS = 50_000
PIPE_SECONDS = 0.005  # to wait for more: pipes hold 64 kB, and blocks so small read slowly
LONGEST_LINE = 1 << 26
TELLING_ROWS = 1000  # of a target, which tell the task
MOST_WHOLE_NUMBERS = 50  # different ones among them, before a target is taken for an amount
HEAD_ROWS = 100  # by which a file is known
HEAD_BYTES = 1024  # of a text, without a zero
SEPARATORS = ",;\t|"
ZSTD, PARQUET = b"\x28\xb5\x2f\xfd", b"PAR1"
# a CSV may begin with BZh, too: bz2 goes on with a digit and the mark of a block, or of the end
PACKED = {
    rb"\x1f\x8b": "gzip", rb"BZh[1-9](?:1AY&SY|\x17rE8P\x90)": "bz2", rb"\xfd7zXZ\x00": "lzma",
}
DAY = 86_400.0
STRAY_QUOTE = "a quote within a field: write the whole field in quotes, and its own twice"
NO_DATES = "but a column of dates must hold text or dates"
LONE_CR = r"lines end with \r alone: replace it, with tr '\r' '\n' say"
ISO = r"^(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d)(:\d\d(?:[.]\d{1,9})?)?(?:Z|[+-]\d\d:?\d\d)?)?$"


class DataError(Exception):
    """What was given cannot be used; the message says why and what to do."""


@dataclass(frozen=True)
class Reading:
    """How to read: what the options of the command line say.

    Attributes
    ----------
    format
        `"csv"`, `"jsonl"`, `"parquet"`, or None to find out.
    delimiter
        Of a CSV; None finds out from its first line.
    header
        The names of the columns of a CSV without a header line.
    targets
        The columns to predict, none if there are none.
    drop, nominal
        Columns to leave out, and those to take as categories though they look like numbers.
    dates
        Columns with dates and times, with their format as in `strptime`.
    learned_nominal, learned_dates
        Further ones of these, which need not be there: those that a model knows as such.
    learned_numbers
        Columns that a model knows as numbers alone: in a CSV, true and false are 1 and 0 there.
    missing
        Cells that stand for a missing value, besides the empty one.

    """

    format: str | None = None
    delimiter: str | None = None
    header: Sequence[str] | None = None
    targets: Sequence[str] = ()
    drop: frozenset[str] = frozenset()
    nominal: frozenset[str] = frozenset()
    learned_nominal: frozenset[str] = frozenset()
    learned_numbers: frozenset[str] = frozenset()
    dates: dict[str, str] = field(default_factory=dict)
    learned_dates: dict[str, str] = field(default_factory=dict)
    missing: frozenset[str] = frozenset()


@dataclass
class Chunk:
    """Some rows of a stream.

    Attributes
    ----------
    X
        A polars frame; or a list of dicts where a column has numbers and categories, or where rows
        came as dicts.
    y
        The cells of every target by its name, a polars series or a list.
    start
        The number of rows before the first.
    has_commas
        Whether numbers among the cells of y may have a comma in place of the point.

    """

    X: Any
    y: dict[str, Any]
    start: int
    has_commas: bool = False

    def __len__(self) -> int:
        return len(self.X)

    def __getitem__(self, rows: slice) -> Chunk:
        first = rows.indices(len(self))[0]
        y = {name: column[rows] for name, column in self.y.items()}
        return replace(self, X=self.X[rows], y=y, start=self.start + first)

    def dicts(self) -> list[dict[str, Any]]:
        """The rows as dicts."""
        return self.X if isinstance(self.X, list) else list(self.X.iter_rows(named=True))

    def first_infinite(self) -> int | None:
        """The first row with an infinite value, None if there is none."""
        for i, row in enumerate(self.dicts()):
            if any(isinstance(value, float) and math.isinf(value) for value in row.values()):
                return i
        return None


def advice(name: str, known: Iterable[str]) -> str:
    """What to say of a name that is not known: one like it, or what there is."""
    lowered = {candidate.lower(): candidate for candidate in known}
    close = difflib.get_close_matches(name.lower(), lowered)
    if close:
        return f"did you mean {' or '.join(repr(lowered[each]) for each in close)}?"
    shown = ", ".join(repr(each) for each in list(lowered.values())[:10])
    return f"there are {shown}{' and more' if len(lowered) > 10 else ''}"


def fingerprint(rows: Iterable[dict[str, Any]]) -> str:
    """Of the content of rows, see `Reader.head`: four characters a row, in their order.

    So that of a file begins with that of its first rows.
    """
    return "".join(map(_mark, rows))


def _mark(row: dict[str, Any]) -> str:
    cells = sorted((name, cell) for name, cell in row.items() if cell is not None and cell == cell)
    return base64.b64encode(hashlib.sha256(ascii(cells).encode()).digest()[:3]).decode()


class Reader:
    """The chunks of one source, to be read once.

    Parameters
    ----------
    source
        A file, or `-` for standard input, of which a chunk is what has come so far.
    how
        What is in it.

    Raises
    ------
    DataError
        When it is iterated: if the source cannot be read, or a row is not like the others.

    Attributes
    ----------
    head
        The first rows of those read so far, at most 100, with all columns as they are in the file:
        what becomes of them is up to options.

    """

    def __init__(self, source: str, how: Reading) -> None:
        self.name = "standard input" if source == "-" else source
        self.how = how
        self.head: list[dict[str, Any]] = []
        self._nominal = how.nominal | how.learned_nominal
        self._dates_of = {**how.learned_dates, **how.dates}
        self.n_bytes: int | None = None
        self._source = source
        self._raw: Any = None

    @property
    def share(self) -> float | None:
        """How much of the file has been read, None where nobody knows."""
        if not self.n_bytes or self._raw is None or self._raw.closed:
            return None
        return min(1.0, float(self._raw.tell()) / self.n_bytes)

    def __iter__(self) -> Iterator[Chunk]:
        start = 0
        try:
            for chunk in self._chunks():
                chunk.start = start
                start += len(chunk)
                yield chunk
        except OSError as error:
            raise DataError(f"cannot read {self.name}: {error.strerror or error}") from error
        except (EOFError, pl.exceptions.PolarsError) as error:
            reason = str(error).partition("\n")[0]
            raise DataError(f"cannot read {self.name}, it may be damaged: {reason}") from error
        except csv.Error as error:
            raise DataError(f"{self.name} is no CSV: {error}") from error
        except UnicodeDecodeError as error:
            raise DataError(
                f"{self.name} is not text in UTF-8 ({error.reason}): convert it with iconv"
            ) from error
        if not start:
            raise DataError(f"{self.name} has no rows")

    def _chunks(self) -> Iterator[Chunk]:
        if self._source == "-":
            stream: Any = sys.stdin.buffer
            stream = stream if hasattr(stream, "peek") else io.BufferedReader(stream)
            return self._from(stream, None)
        file = open(self._source, "rb")  # noqa: SIM115  # closed with the last chunk
        self._raw, self.n_bytes = file, os.fstat(file.fileno()).st_size
        return self._from(file, file)

    def _from(self, stream: Any, file: IO[bytes] | None) -> Iterator[Chunk]:
        with stream:
            packed = _unpacked(stream, self.name)
            if packed is not stream:
                read = _reading(packed)
            elif file is None:
                read = functools.partial(_available, stream)
            else:
                read = stream.read
            kind = self.how.format
            if kind == "parquet" or (kind is None and stream.peek(4)[:4] == PARQUET):
                yield from self._parquet(read if file is None else self._source)
                return
            if kind is None and re.search(r"\.(jsonl|ndjson|json)(\.\w+)?$", self._source.lower()):
                kind = "jsonl"
            first = read(BLOCK_BYTES).removeprefix(b"\xef\xbb\xbf")
            if first[:2] in (b"\xff\xfe", b"\xfe\xff"):
                raise DataError(f"{self.name} is UTF-16: convert it to UTF-8 with iconv")
            if b"\0" in first[:HEAD_BYTES]:
                raise DataError(
                    f"{self.name} is no text: CSV and JSON lines are read, plain or compressed by "
                    "gzip, bz2, xz or zstd, and Parquet"
                )
            if kind is None:
                kind = "jsonl" if first.lstrip()[:1] == b"{" else "csv"
            if kind == "csv" and b"\r" in first[:-1] and b"\n" not in first:
                raise DataError(f"{self.name}: {LONE_CR}")
            blocks = _whole_lines(first, read, kind == "csv", self.name)
            yield from self._csv(blocks) if kind == "csv" else self._json(blocks)

    # ------------------------------------------------------------------------------ CSV

    def _csv(self, blocks: Iterator[bytes]) -> Iterator[Chunk]:
        names, separator, line = list(self.how.header or []), self.how.delimiter, 1
        # a line of delimiters alone is a row
        blanks = {" ", "\t"} - {*(separator or SEPARATORS)}
        blank_lines = re.compile(rf"\A(?:[{''.join(blanks)}]*\r?\n)+".encode())
        for block in blocks:
            if separator is None or not names:
                rest = blank_lines.sub(b"", block)
                line += block.count(b"\n", 0, len(block) - len(rest))
                block = rest
                if not block:
                    continue
            if not names:
                end = _end_of_line(block, True, first=True)
                header = block[:end].decode().strip("\r\n")
                separator = separator or _separator_of(header)
                names = next(csv.reader([header], delimiter=separator), [])
                names = [name.strip() or f"column {i}" for i, name in enumerate(names, 1)]
                line += block.count(b"\n", 0, end)
                block = block[end:]
            separator = separator or _separator_of(
                block[:_end_of_line(block, True, first=True)].decode()
            )
            self._check_names(names)
            frame = self._text_frame(block, names, separator, line)
            if frame is not None:
                yield self._typed(frame, separator)
            line += block.count(b"\n")

    def _text_frame(self, block: bytes, names: list[str], separator: str, line: int) -> Any:
        """A block as a frame of strings; raises where a row has more or fewer fields."""
        rows = block
        if rows[:1] in b"\r\n" or b"\n\n" in rows or b"\n\r\n" in rows:
            parts = rows.split(b'"')
            # every other one is in quotes
            parts[::2] = [re.sub(rb"\n(?:\r?\n)+", b"\n", part) for part in parts[::2]]
            rows = re.sub(rb"\A(?:\r?\n)+", b"", b'"'.join(parts))
        if not rows:
            return None
        quoted = b'"' in rows
        read_csv = functools.partial(
            pl.read_csv, has_header=False, new_columns=names, separator=separator,
            schema={name: pl.String for name in names}, infer_schema=False,
        )
        try:
            if self._head_rows:
                self._keep_head(read_csv(io.BytesIO(rows), n_rows=self._head_rows))
            frame = read_csv(io.BytesIO(rows), null_values=sorted(self.how.missing))
        except pl.exceptions.PolarsError as error:
            _find_bad_row(block, names, separator, line, self.name)
            _find_stray_mark(block, separator, line, self.name)
            reason = str(error).partition("\n")[0]
            raise DataError(f"{self.name}, after line {line}: {reason}") from error
        if quoted:
            # polars fills short rows up with nulls
            suspicious = frame.get_column(names[-1]).null_count() > 0
        else:
            fields = rows.count(separator.encode()) + rows.count(b"\n")
            suspicious = fields != len(names) * len(frame)
        if suspicious:
            _find_bad_row(block, names, separator, line, self.name)
        return frame

    @property
    def _head_rows(self) -> int:
        """How many rows the head still lacks."""
        return HEAD_ROWS - len(self.head)

    def _keep_head(self, frame: Any) -> None:
        self.head += frame.head(self._head_rows).to_dicts()

    def _check_names(self, names: Sequence[str]) -> None:
        how = self.how
        twice = next((name for name, times in Counter(names).items() if times > 1), None)
        if twice is not None:
            raise DataError(f"{self.name} has two columns with the name {twice!r}")
        for name in [*how.targets, *how.nominal, *how.dates, *how.drop]:
            if name not in names:
                hint = "" if how.header else "; if it has no header line, give one with --header"
                raise DataError(f"{self.name} has no column {name!r}: {advice(name, names)}{hint}")

    # -------------------------------------------------------------------------- Parquet

    def _parquet(self, source: Any) -> Iterator[Chunk]:
        if not isinstance(source, str):
            source = io.BytesIO(b"".join(iter(lambda: source(BLOCK_BYTES), b"")))
        lazy = pl.scan_parquet(source, glob=False)
        self._check_names(lazy.collect_schema().names())
        for frame in lazy.collect_batches(chunk_size=BLOCK_ROWS, maintain_order=True):
            self._keep_head(frame)
            yield self._typed(frame)

    # -------------------------------------------------------------------- CSV and Parquet

    def _typed(self, frame: Any, separator: str | None = None) -> Chunk:
        """A frame of features: numbers, parts of dates, categories.

        Strings of a CSV may be numbers; without a separator they are not.
        """
        how = self.how
        y = {name: _text(frame.get_column(name), how.missing) for name in how.targets}
        features = frame.drop([*how.drop, *how.targets], strict=False)
        plain = features.select(
            name for name, kind in features.schema.items()
            if kind == pl.String and name not in self._nominal and name not in self._dates_of
        )
        # most columns of most files are numbers: they are looked at once
        is_csv = pl.lit(separator is not None)
        as_numbers = plain.with_columns(
            pl.when(is_csv).then(pl.all().cast(pl.Float64, strict=False))
        ).to_dict()
        cells: dict[str, Any] = {}
        mixed: dict[str, Any] = {}
        for name, column in features.to_dict().items():
            if name in as_numbers:
                numbers = as_numbers[name]
                if numbers.null_count() == column.null_count():
                    cells[name] = numbers
                else:
                    text = _text(column, how.missing)
                    if separator and name in how.learned_numbers:
                        text = text.str.replace("(?i)^true$", "1").str.replace("(?i)^false$", "0")
                    _split(name, text, separator, cells, mixed)
            elif name in self._nominal:
                if column.dtype.is_numeric() or column.dtype == pl.Boolean:
                    column = column.fill_nan(None) if column.dtype.is_float() else column
                    column = column.map_elements(category_text, pl.String)
                cells[name] = _text(column.cast(pl.String), how.missing)
            elif name in self._dates_of or column.dtype in (pl.Date, pl.Datetime):
                cells |= self._dates(name, column)
            elif column.dtype.is_numeric() or column.dtype == pl.Boolean:
                cells[name] = column
            elif column.dtype in (pl.Categorical, pl.Enum):
                cells[name] = column.cast(pl.String)
            elif column.dtype != pl.Null:
                raise DataError(
                    f"{self.name}: column {name!r} holds {column.dtype}, no number, text or date: "
                    f"leave it out with --drop {name}"
                )
        X, has_commas = pl.DataFrame(cells), separator == ";"
        if not mixed:
            return Chunk(X if X.width else [{}] * len(frame), y, 0, has_commas)
        rows = X.to_dicts()
        for name, column in mixed.items():
            for row, value in zip(rows, column, strict=True):
                if value is not None:
                    row[name] = value
        return Chunk(rows, y, 0, has_commas)

    def _dates(self, name: str, column: Any) -> dict[str, Any]:
        column = _text(column, self.how.missing)
        if column.dtype == pl.String:
            pattern = self._dates_of[name]
            times = pl.Series(name, [self._time(name, cell, pattern) for cell in column])
            return _parts(name, times.cast(pl.Datetime("us")), "%H" in pattern or "%I" in pattern)
        if column.dtype not in (pl.Date, pl.Datetime, pl.Null):
            raise DataError(f"{self.name}: column {name!r} holds {column.dtype}, {NO_DATES}")
        has_clock = column.dtype != pl.Date
        if column.dtype == pl.Datetime and column.dtype.time_zone is not None:
            column = column.dt.replace_time_zone(None)
        return _parts(name, column.cast(pl.Datetime("us")), has_clock)

    def _time(self, name: str, cell: str | None, pattern: str) -> datetime | None:
        if cell is None:
            return None
        try:
            return datetime.strptime(cell, pattern).replace(tzinfo=None)
        except (ValueError, re.error):  # of what is in the pattern twice
            raise DataError(
                f"{self.name}: column {name!r} holds {cell!r}, not a date like {pattern!r}"
            ) from None

    # ----------------------------------------------------------------------- JSON lines

    def _json(self, blocks: Iterator[bytes]) -> Iterator[Chunk]:
        line = 0
        has_names = False
        for block in blocks:
            rows: list[Any] = []
            y: dict[str, list[Any]] = {name: [] for name in self.how.targets}
            for text in block.splitlines():
                line += 1
                if not text.strip():
                    continue
                try:
                    row = json.loads(text)
                except (ValueError, RecursionError) as error:
                    raise DataError(f"{self.name}, line {line} is not JSON: {error}") from None
                if type(row) is not dict:
                    raise DataError(f"{self.name}, line {line} is no object with names and values")
                if self._head_rows:
                    self.head.append(row)
                if not has_names and not row.keys() >= y.keys():
                    self._check_names(list(row))
                rows.append(self._row(row, y, line))
                has_names = has_names or len(row) > len(y)
            if rows:
                yield Chunk(rows, y, 0)

    def _row(self, row: dict[str, Any], y: dict[str, list[Any]], line: int) -> dict[str, Any]:
        """The features of a row; its targets go to y."""
        how = self.how
        cells: dict[str, Any] = {}
        for targets in y.values():
            targets.append(None)
        for name, value in row.items():
            if name in how.drop:
                continue
            if isinstance(value, (dict, list)):
                what, hint = "", f": leave it out with --drop {name}"
                if name in y:
                    what, hint = "the target ", ""
                raise DataError(
                    f"{self.name}, line {line}: {what}{name!r} is {type(value).__name__} and not "
                    f"one number or text{hint}"
                )
            if isinstance(value, str):
                value = value.strip()
            if value is None or value == "" or value != value or value in how.missing:
                continue
            if name in y:
                y[name][-1] = value
            elif name in self._nominal:
                cells[name] = category_text(value)
            elif not isinstance(value, str):
                if name in self._dates_of:
                    raise DataError(
                        f"{self.name}, line {line}: {name!r} is {value!r}, {NO_DATES}"
                    )
                cells[name] = value
            elif name in self._dates_of:
                pattern = self._dates_of[name]
                when = self._time(name, value, pattern)
                cells |= _date_numbers(name, when, "%H" in pattern or "%I" in pattern)
            elif (found := re.match(ISO, value)) and (when := _iso_time(found)):
                cells |= _date_numbers(name, when, found[2] is not None)
            else:
                cells[name] = value
        return cells


# ---------------------------------------------------------------------------- target

TRUTHS = {"true": True, "false": False, "1": True, "0": False}
# what text is read as after labels of another type: how they are called, and how it is read
KINDS_OF_TEXT: dict[Any, tuple[str, Callable[[Any], Any]]] = {
    bool: ("true and false", lambda text: text.str.to_lowercase().replace_strict(
        TRUTHS, default=None, return_dtype=pl.Boolean
    )),
    float: ("numbers", lambda text: text.cast(pl.Float64, strict=False).fill_nan(None)),
}


class Target:
    """The column to predict, as labels or as numbers.

    Parameters
    ----------
    name
        Of the column.
    task
        `"classification"`, `"regression"`, or None to tell from the first chunk: text, and a few
        different whole numbers, are classes.
    kind
        What all labels are, or were before these: `str` (so whole numbers are text, too), `int`,
        `bool` or `float`; None to tell from the first chunk.

    """

    def __init__(self, name: str, task: str | None = None, kind: type | None = None) -> None:
        self.name = name
        self.task = task
        self._kind = kind
        self._way_out = ""
        if kind is None:
            self._way_out = f"; --nominal {name} takes all as text, --task regression as numbers"
        if kind is str:
            self.task = task or "classification"

    def read(self, chunk: Chunk, source: str) -> Any:
        """The labels of a chunk as a list, or its numbers as an array."""
        y = chunk.y[self.name]
        try:
            series = pl.Series(y, strict=False, dtype=None) if isinstance(y, list) else y
        except UnicodeEncodeError as error:  # half a character, as JSON may escape it
            raise DataError(f"{source}: the target {self.name!r} is no text: {error}") from error
        if series.dtype.is_nested() or series.dtype == pl.Binary:
            raise DataError(
                f"{source}: the target {self.name!r} holds {series.dtype}, no number or text"
            )
        if series.dtype.is_float():
            series = series.fill_nan(None)
        if series.null_count():
            row = int(series.is_null().arg_max() or 0)
            is_huge = isinstance(y, list) and y[row] is not None
            what = "a number of more than 128 bits" if is_huge else "empty"
            row += chunk.start + 1
            raise DataError(f"{source}, row {row}: the target {self.name!r} is {what}")
        if self.task is None:
            self.task = self._task_of(series[:TELLING_ROWS], chunk, source)
        if self.task == "classification":
            return self._labels(y, series, chunk, source)
        numbers = _with_points(series, chunk.has_commas).cast(pl.Float64, strict=False)
        bad = numbers.is_null() | ~numbers.is_finite().fill_null(False)
        if bad.any():
            row = int(bad.arg_max() or 0)
            raise DataError(
                f"{source}, row {chunk.start + row + 1}: the target {self.name!r} is "
                f"{series[row]!r}, not a number; --task classification takes it as a label"
            )
        return numbers.to_numpy()

    def _task_of(self, series: Any, chunk: Chunk, source: str) -> str:
        """Of the first rows of a target, with which a chunk begins."""
        if series.dtype == pl.Boolean:
            return "classification"
        numbers = _with_points(series, chunk.has_commas).cast(pl.Float64, strict=False)
        is_text = numbers.is_null()
        known = numbers.drop_nulls().unique()
        if len(known) <= MOST_WHOLE_NUMBERS and (known.round(0) == known).all():
            return "classification"
        if not is_text.any():
            return "regression"
        if 2 * is_text.sum() >= len(series):
            return "classification"
        row = int(is_text.arg_max() or 0)
        raise DataError(
            f"{source}, row {chunk.start + row + 1}: the target {self.name!r} is {series[row]!r}, "
            "where most are numbers: mend it, or take all for labels by --task classification"
        )

    def _labels(self, y: Any, series: Any, chunk: Chunk, source: str) -> list[Any]:
        dtype = series.dtype
        # as in a CSV; a model file keeps no times of day, durations and decimals
        becomes_text = dtype.is_temporal() or dtype.is_decimal()
        if dtype == pl.String and self._kind in KINDS_OF_TEXT:
            name, read = KINDS_OF_TEXT[self._kind]
            found = read(_with_points(series, chunk.has_commas))
            return self._all_read(series, found, found.is_not_null(), chunk, source, name)
        if self._kind is int and not dtype.is_integer():
            # 1.0 and True are no whole numbers, either
            series = series.cast(pl.String)
        elif dtype != pl.String or (isinstance(y, list) and self._kind is not int):
            labels = y if isinstance(y, list) else series.to_list()
            return list(map(str, labels)) if self._kind is str or becomes_text else labels
        whole = series.cast(pl.Int64, strict=False)
        # 007 and 7 are different labels
        same = (whole.cast(pl.String) == series).fill_null(False)
        if self._kind is None:
            self._kind = int if same.all() else str
        if self._kind is str:
            return list(series.to_list())
        return self._all_read(series, whole, same, chunk, source, "whole numbers")

    def _all_read(
        self, series: Any, found: Any, is_read: Any, chunk: Chunk, source: str, what: str
    ) -> list[Any]:
        """What was found in all cells of text; DataError for the first one that is something else.
        """
        if not is_read.all():
            row = int((~is_read).arg_max() or 0)
            raise DataError(
                f"{source}, row {chunk.start + row + 1}: the target {self.name!r} is "
                f"{series[row]!r}, after {what}{self._way_out}"
            )
        return list(found.to_list())


class Targets:
    """Several columns to predict, all of them numbers.

    Parameters
    ----------
    names
        Of the columns.

    """

    task = "several numbers"

    def __init__(self, names: Sequence[str]) -> None:
        self.name = list(names)

    def read(self, chunk: Chunk, source: str) -> Any:
        """The numbers of a chunk as a polars frame, a column for every target."""
        numbers = {name: Target(name, "regression").read(chunk, source) for name in self.name}
        return pl.DataFrame(numbers)


# ----------------------------------------------------------------------------- cells


def _cleaned(column: Any, missing: frozenset[str]) -> Any:
    text = column.str.strip_chars()
    kept = text != ""
    return pl.when(kept & ~text.is_in(sorted(missing)) if missing else kept).then(text)


def _text(column: Any, missing: frozenset[str]) -> Any:
    """A column of strings without blanks around them, missing ones as null; others as they are."""
    if column.dtype in (pl.Categorical, pl.Enum):
        column = column.cast(pl.String)
    if column.dtype != pl.String:
        return column
    return column.to_frame().select(_cleaned(pl.all(), missing)).to_series()


def _with_points(text: Any, has_commas: bool) -> Any:
    """A column of strings; if numbers may have commas, as in files with semicolons, with points."""
    return text.str.replace(r"^([+-]?\d+),(\d+)$", "$1.$2") if has_commas else text


def _split(
    name: str, text: Any, separator: str | None, cells: dict[str, Any], mixed: dict[str, Any]
) -> None:
    """Tell the numbers, dates and categories of a column of strings apart."""
    number = _with_points(pl.col("text"), separator == ";")
    frame = pl.DataFrame({"text": text}).with_columns(
        number=number.cast(pl.Float64, strict=False) if separator else pl.lit(None, pl.Float64)
    )
    is_rest = pl.col("number").is_null() & pl.col("text").is_not_null()
    frame = frame.with_columns(rest=pl.when(is_rest).then("text"))
    if frame["rest"].str.contains(ISO).any():
        day = pl.col("rest").str.extract(ISO, 1)
        clock = pl.col("rest").str.extract(ISO, 2)
        seconds = pl.col("rest").str.extract(ISO, 3)
        whole = pl.concat_str([
            day, pl.lit(" "), clock.fill_null("00:00"), seconds.fill_null(":00"),
        ])
        frame = frame.with_columns(
            time=whole.str.to_datetime("%Y-%m-%d %H:%M:%S%.f", time_unit="us", strict=False),
            clock=clock.is_not_null(),
        )
        cells |= _parts(name, frame["time"], frame["clock"])
        frame = frame.with_columns(rest=pl.when(pl.col("time").is_null()).then("rest"))
    numbers, rest = frame["number"], frame["rest"]
    if numbers.null_count() < len(numbers):
        cells[name] = numbers
        if rest.null_count() < len(rest):
            mixed[name] = rest
    elif rest.null_count() < len(rest):
        cells[name] = rest


def _parts(name: str, times: Any, has_clock: Any) -> dict[str, Any]:
    """The numbers of a column of dates: hour, day of the week, days since 1970.

    On bike rentals (R2) and flights (accuracy) they were better than more parts or fewer.
    """
    frame = pl.DataFrame({"time": times}).with_columns(clock=pl.lit(has_clock))
    seconds = pl.col("time").dt.epoch("us") / 1e6
    parts = frame.select(
        pl.when("clock").then((seconds % DAY) / 3600.0).alias(f"{name}.hour"),
        (pl.col("time").dt.weekday() - 1).cast(pl.Float64).alias(f"{name}.weekday"),
        (seconds / DAY).alias(f"{name}.days"),
    )
    return {each: parts.get_column(each) for each in parts.columns}


def _date_numbers(name: str, when: datetime | None, has_clock: bool) -> dict[str, float]:
    """As `_parts`, of one cell."""
    if when is None:
        return {}
    seconds = (when - datetime(1970, 1, 1)).total_seconds()
    hour = {f"{name}.hour": seconds % DAY / 3600.0} if has_clock else {}
    return {**hour, f"{name}.weekday": float(when.weekday()), f"{name}.days": seconds / DAY}


def _iso_time(found: re.Match[str]) -> datetime | None:
    day, clock, seconds = found.groups()
    try:
        return datetime.fromisoformat(f"{day} {clock or '00:00'}{seconds or ':00'}"[:26])
    except ValueError:
        return None


# ----------------------------------------------------------------------------- bytes


def _available(stream: Any, most: int) -> bytes:
    """What a pipe holds, without waiting for more than the first bytes."""
    parts = [stream.read1(most)]
    with contextlib.suppress(OSError, ValueError):  # what cannot be waited for
        while parts[-1] and sum(map(len, parts)) < most:
            if not select.select([stream], [], [], PIPE_SECONDS)[0]:
                break
            parts.append(stream.read1(most))
    return b"".join(parts)


def _unpacked(stream: Any, name: str) -> Any:
    """The stream, decompressed if its first bytes say so."""
    magic = stream.peek(10)[:10]
    for start, module in PACKED.items():
        if re.match(start, magic):
            return importlib.import_module(module).open(stream)
    if not magic.startswith(ZSTD):
        return stream
    try:
        if sys.version_info >= (3, 14):
            from compression import zstd
        else:
            from backports import zstd
    except ImportError:
        raise DataError(
            f'{name} is compressed with zstd: pip install "streamtree-learn[cli]"'
        ) from None
    return zstd.open(stream)


def _reading(packed: Any) -> Callable[[int], bytes]:
    """`read` of a compressed stream; EOFError where it is damaged, whatever its library raises."""

    def read(most: int) -> bytes:
        try:
            return bytes(packed.read(most))
        except OSError:
            raise
        except Exception as error:
            raise EOFError(str(error)) from error

    return read


def _end_of_line(
    data: bytes, has_quotes: bool, is_open: bool = False, first: bool = False
) -> int:
    """The end of the last line (or the first) that no quotes are open in, 0 if there is none.

    `is_open`: whether quotes are open before the first byte.
    """
    end = (data.find(b"\n") if first else data.rfind(b"\n")) + 1
    n_quotes = is_open + data.count(b'"', 0, end) if has_quotes else 0
    while end and n_quotes % 2:
        before = end
        end = (data.find(b"\n", end) if first else data.rfind(b"\n", 0, end - 1)) + 1
        n_quotes += data.count(b'"', min(before, end), max(before, end))
    return end


def _whole_lines(
    first: bytes, read: Callable[[int], bytes], has_quotes: bool, name: str
) -> Iterator[bytes]:
    """Blocks of whole lines; every byte is looked at a few times, however long a line is."""
    rest: list[bytes] = []
    size, is_open, data = 0, False, first
    while data:
        if end := _end_of_line(data, has_quotes, is_open):
            yield b"".join([*rest, data[:end]])
            rest, size, is_open, data = [], 0, False, data[end:]
        rest.append(data)
        size += len(data)
        is_open ^= bool(data.count(b'"') % 2)
        if size > LONGEST_LINE:
            raise DataError(f"{name} has a line of {LONGEST_LINE >> 20} MB: is a quote not closed?")
        data = read(BLOCK_BYTES)
    last = b"".join(rest)
    # tabs may be a row
    if last.strip(b" \r\n"):
        yield last + b"\n"


def _separator_of(line: str) -> str:
    """What a line has most of, outside of quotes."""
    return max(SEPARATORS, key=re.sub('"[^"]*"', "", line).count)


def _find_bad_row(
    block: bytes, names: Sequence[str], separator: str, line: int, source: str
) -> None:
    """Raise for the first row of a block that is not one of a CSV with these names."""
    most = csv.field_size_limit(LONGEST_LINE)
    reader = csv.reader(io.StringIO(block.decode(), newline=""), delimiter=separator, strict=True)
    before = 0  # lines of the block before the row
    try:
        for row in reader:
            if row and len(row) != len(names):
                where = f"{source}, line {line + before}"
                raise DataError(f"{where}: expected {len(names)} fields, found {len(row)}")
            before = reader.line_num
    except csv.Error as error:
        raise DataError(f"{source}, line {line + before}: {error}") from error
    finally:
        csv.field_size_limit(most)


def _find_stray_mark(block: bytes, separator: str, line: int, source: str) -> None:
    """Raise for the first quote amid a field of a block, or the first line that ends with \\r."""
    mark = re.escape(separator.encode())
    field = re.compile(rb'(?:"(?:[^"]|"")*+"|[^"\r\n' + mark + rb"]*+)(?:" + mark + rb"|\r?\n)")
    end = 0
    while found := field.match(block, end):
        end = found.end()
    if end < len(block):
        is_quote = b'"' in block[end:].partition(b"\n")[0]
        line += block.count(b"\n", 0, end)
        raise DataError(f"{source}, line {line}: {STRAY_QUOTE if is_quote else LONE_CR}")
