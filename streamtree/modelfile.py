"""The model file: a zip of .npy arrays and one JSON header. Knows the format and no model.

docs/model_files.md describes it. Nothing in a file is ever run: no pickle, no `eval`. Entries are
stored, not compressed, so that nothing can grow beyond the size of the file.
"""

from __future__ import annotations

import contextlib
import datetime
import errno
import functools
import hashlib
import hmac
import io
import json
import math
import os
import re
import reprlib
import secrets
import stat
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterator
from typing import IO, Any, NamedTuple

import numpy as np

from streamtree._core.stream.features import Category, Shared

__all__ = ["FORMAT_VERSION", "ModelFileError", "Pieces", "pack", "read", "unpack", "write"]

FORMAT = "streamtree model"
FORMAT_VERSION = 1
HEADER = "model.json"

# Tables make up most of a large model. Their records are read in pieces of about this many
# bytes, each let go once it was restored, so that a load needs the model's memory only once.
PIECE_BYTES = 4_000_000
READ_BYTES = 1 << 20
MAX_NESTING = 32
MAX_NESTING_OF_NOTES = 100
# what an array or a field of a record may be
PLAIN = {"|b1", "|i1", "|u1"} | {f"<{kind}{size}" for kind in "iu" for size in (2, 4, 8)}
PLAIN |= {"<f4", "<f8"}
UNITS = ("Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns", "ps", "fs", "as")
NUMPY_SCALARS = PLAIN | {"<f2"} | {f"<M8[{unit}]" for unit in UNITS}
DATES = {"date": datetime.date, "datetime": datetime.datetime}
NPY_HEADER = re.compile(rb"\{'descr': (.*), 'fortran_order': False, 'shape': (\(.*\)), \} *\n")


class ModelFileError(ValueError):
    """A file that is no model, is damaged, or was written by a newer version."""


class Template(NamedTuple):
    """A parameter that is an estimator: the name of its class, and parameters of its own."""

    kind: str
    parameters: dict[str, Any]


class Pieces:
    """The rows of a large array in pieces, to be read once, from the first to the last."""

    def __init__(self, pieces: list[np.ndarray[Any, Any]], shape: tuple[int, ...]) -> None:
        self._pieces: list[np.ndarray[Any, Any] | None] = list(pieces)
        self._rows = len(pieces[0])
        self._first = 0
        self.shape = shape
        self.dtype = pieces[0].dtype
        self.ndim = len(shape)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice) -> np.ndarray[Any, Any]:
        """The rows of a slice; those before it are gone afterwards."""
        start, stop, _ = rows.indices(len(self))
        first, last = start // self._rows, max(start, stop - 1) // self._rows
        while self._first < min(first, len(self._pieces)):
            self._pieces[self._first] = None
            self._first += 1
        if start >= stop:
            return np.empty((0, *self.shape[1:]), dtype=self.dtype)
        parts = [piece for piece in self._pieces[first : last + 1] if piece is not None]
        if len(parts) != last + 1 - first:
            raise ValueError("a large table can be read once only, from its first row on")
        offset = first * self._rows
        whole = parts[0] if len(parts) == 1 else np.concatenate(parts)
        return whole[start - offset : stop - offset]


# ------------------------------------------------------------------------------- values


def encoded(value: Any, what: str, depth: int = 0) -> Any:
    """A name, label or number as JSON that says its type; TypeError if it cannot be kept.

    `what` is what to call it in the error.
    """
    kind = type(value)
    if value is None or kind is bool:
        return value
    if kind is str:
        # two lone surrogates would come back from JSON as one character
        try:
            value.encode()
        except UnicodeEncodeError:
            return {"str": value.encode("utf-8", "surrogatepass").hex()}
        return value
    if kind is int:
        return {"int": value if abs(value) < 2**63 else hex(value)}
    if kind is float:
        return {"float": value if math.isfinite(value) else repr(value)}
    if kind is np.str_:
        return {"numpy": ["str", encoded(str(value), what)]}
    if isinstance(value, np.generic) and value.dtype.str in NUMPY_SCALARS:
        return {"numpy": [value.dtype.str, value.tobytes().hex()]}
    if kind in DATES.values():
        text = value.isoformat()
        # zones have names and rules, which the text does not say
        if repr(kind.fromisoformat(text)) == repr(value):
            return {kind.__name__: text}
    # a module of pandas before its version 3, pandas itself since
    is_pandas = kind.__module__.partition(".")[0] == "pandas"
    is_stamp = is_pandas and kind.__name__ == "Timestamp"
    if is_stamp and value.tzinfo is None:
        return {"timestamp": encoded(value.asm8, what)}
    if kind is Shared and type(value.number) is int:
        return {"shared": value.number}
    if kind is Template and depth < MAX_NESTING:
        parameters = {k: encoded(v, what, depth + 1) for k, v in value.parameters.items()}
        return {"estimator": [value.kind, parameters]}
    if kind in (tuple, Category) and depth < MAX_NESTING:
        parts = [encoded(part, what, depth + 1) for part in value]
        return {"tuple" if kind is tuple else "category": parts}
    if kind in (Template, tuple, Category):
        raise TypeError(
            f"{what} {reprlib.repr(value)}: a model file cannot keep what is nested so deep"
        )
    raise TypeError(
        f"{what} {reprlib.repr(value)}: a model file cannot keep {kind.__qualname__}; it keeps "
        "str, int, float, bool, None, numpy numbers, dates and times without a named "
        "zone, and tuples of these. A string, str() of it, can take its place"
    )


def decoded(value: Any, depth: int = 0) -> Any:
    """What `encoded` was given."""
    if value is None or type(value) is bool:
        return value
    if type(value) is str:
        # many models may have the same names and labels
        return sys.intern(value)
    if type(value) is not dict or len(value) != 1:
        raise ModelFileError("a value has no type")
    ((tag, inside),) = value.items()
    if tag == "int" and type(inside) in (int, str):
        return inside if type(inside) is int else int(inside, 16)
    if tag == "shared" and type(inside) is int:
        return Shared(inside)
    if tag == "float" and type(inside) is float:
        return inside
    if tag == "float" and inside in ("inf", "-inf", "nan"):
        return float(inside)
    if tag == "str" and type(inside) is str:
        return bytes.fromhex(inside).decode("utf-8", "surrogatepass")
    if tag == "numpy" and type(inside) is list and len(inside) == 2:
        if inside[0] == "str":
            return np.str_(decoded(inside[1], MAX_NESTING))
        if inside[0] in NUMPY_SCALARS:
            scalar = np.frombuffer(bytes.fromhex(inside[1]), dtype=inside[0])
            if scalar.shape == (1,):
                return scalar[0]
    if tag in DATES and type(inside) is str:
        date = DATES[tag].fromisoformat(inside)
        if date.isoformat() == inside:
            return date
    if tag == "timestamp" and type(moment := decoded(inside, MAX_NESTING)) is np.datetime64:
        from pandas import Timestamp

        stamp = Timestamp(moment)
        if type(stamp) is Timestamp and stamp.asm8.dtype == moment.dtype:
            return stamp
    if tag == "estimator" and type(inside) is list and depth < MAX_NESTING:
        kind, parameters = inside
        if type(kind) is str and type(parameters) is dict:
            return Template(kind, {k: decoded(v, depth + 1) for k, v in parameters.items()})
    if tag in ("tuple", "category") and type(inside) is list and depth < MAX_NESTING:
        parts = [decoded(part, depth + 1) for part in inside]
        if tag == "tuple":
            return tuple(parts)
        if len(parts) == 2 and type(parts[1]) is str and type(parts[0]) not in (Category, Shared):
            return Category(*parts)
    raise ModelFileError(f"a value is not what its type {reprlib.repr(tag)} says")


# ------------------------------------------------------------------------------- states


def _packed(state: Any, keep: Callable[[str, Any], Any], path: str, depth: int = 0) -> Any:
    """A state as JSON; `keep` is given its arrays and returns what they go by.

    TypeError if it is nested too deep to be read again.
    """
    if depth >= MAX_NESTING and isinstance(state, (np.ndarray, dict, list)):
        raise TypeError("a model file cannot keep forests that are nested so deep")
    if isinstance(state, np.ndarray):
        return {"array": keep(f"{path}.npy", with_one_nan(state))}
    if isinstance(state, dict):
        parts = {k: _packed(v, keep, f"{path}/{k}", depth + 1) for k, v in state.items()}
        return {"dict": parts}
    if isinstance(state, list):
        return {
            "list": [_packed(v, keep, f"{path}/{i}", depth + 1) for i, v in enumerate(state)]
        }
    return encoded(state, path)


def with_one_nan(array: Any) -> Any:
    """An array, or all of a state, with all NaN alike: their sign is up to the processor."""
    if isinstance(array, dict):
        return {name: with_one_nan(part) for name, part in array.items()}
    if not isinstance(array, np.ndarray):
        return array
    for field in _float_fields(array.dtype):
        values = array[field]
        # the sum of squares is NaN where one of them is, and found in no time
        if math.isnan(np.vdot(values, values)):
            array = array.copy()
            array[field][np.isnan(values)] = np.nan
    return array


@functools.lru_cache(maxsize=256)
def _float_fields(dtype: np.dtype[Any]) -> tuple[Any, ...]:
    """The fields of records that are floating point; `...` is the whole of a plain array."""
    if dtype.fields is None:
        return (...,) if dtype.kind == "f" else ()
    return tuple(name for name, field in dtype.fields.items() if field[0].kind == "f")


def _unpacked(state: Any, array: Callable[[Any, bool], Any], depth: int = 0) -> Any:
    """The state that `_packed` was given; `array` reads an entry, in pieces if it may."""
    if type(state) is dict and depth < MAX_NESTING and len(state) == 1:
        ((tag, inside),) = state.items()
        if tag == "dict" and type(inside) is dict:
            is_table = set(inside) == {"starts", "keys", "records", "capacities"}
            return {
                key: array(part["array"], True)
                if is_table and key == "records"
                else _unpacked(part, array, depth + 1)
                for key, part in inside.items()
            }
        if tag == "list" and type(inside) is list:
            return [_unpacked(part, array, depth + 1) for part in inside]
        if tag == "array":
            return array(inside, False)
    return decoded(state)


def check_names(state: dict[str, Any]) -> None:
    """Raise for the first name or label that a file cannot keep."""
    for kind, names in (
        ("feature", "features"), ("label", "labels"), ("label", "waiting_labels"),
        ("target", "targets"),
    ):
        for name in state.get(names) or ():
            encoded(name, kind)
            # NaN equals nothing: it would come back as another one
            if name != name:
                raise TypeError(f"{kind} {name!r}: a model file cannot keep NaN as a name")


def check_notes(notes: Any) -> None:
    """Raise for notes that JSON cannot say, or that are nested too deep to be read again."""
    if notes is None:
        return
    if type(notes) is not dict:
        raise TypeError(f"notes must be a dict, got {reprlib.repr(notes)}")
    try:
        _check_note(notes, 0)
        json.dumps(notes, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise TypeError(f"notes: a model file keeps what JSON can say: {error}") from error


def _check_note(note: Any, depth: int) -> None:
    if depth > MAX_NESTING_OF_NOTES:
        raise TypeError(f"and nothing that is nested more than {MAX_NESTING_OF_NOTES} deep")
    if isinstance(note, dict):
        for name, inside in note.items():
            # JSON would make text of it, which may be there already
            if not isinstance(name, str):
                raise TypeError(f"keys must be str, got {reprlib.repr(name)}")
            _check_note(inside, depth + 1)
    elif isinstance(note, (list, tuple)):
        for inside in note:
            _check_note(inside, depth + 1)


# -------------------------------------------------------------------------------- files


def write(
    path: str | os.PathLike[str],
    kind: str,
    parameters: dict[str, Any],
    state: dict[str, Any],
    position: int | None = None,
    notes: dict[str, Any] | None = None,
) -> None:
    """Write a model; the file is either whole in its place or, on any error, as it was.

    Raises TypeError, before anything is written, where a name, label, parameter or note cannot be
    kept.
    """
    check_notes(notes)
    arrays: dict[str, np.ndarray[Any, Any]] = {}

    def keep(name: str, array: Any) -> str:
        arrays[name] = array
        return name

    header = _header(kind, parameters, state, position, keep)
    if notes is not None:
        header["notes"] = notes
    header["arrays"] = {}
    with replacing(path) as file, zipfile.ZipFile(file, "w") as archive:
        for name, array in arrays.items():
            header["arrays"][name] = _write_array(archive, name, array)
        text = json.dumps(header, allow_nan=False)
        with archive.open(_entry(HEADER), "w", force_zip64=len(text) >= 2**30) as out:
            out.write(text.encode())


def _header(
    kind: str,
    parameters: dict[str, Any],
    state: dict[str, Any],
    position: int | None,
    keep: Callable[[str, Any], Any],
) -> dict[str, Any]:
    """What both forms say of a model; `keep` as in `_packed`."""
    from streamtree import __version__

    check_names(state)
    return {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "streamtree_version": __version__,
        "class": kind,
        "parameters": {
            name: encoded(value, f"parameter {name!r}:")
            for name, value in parameters.items()
        },
        "position": position,
        "state": _packed(state, keep, "state"),
    }


def _entry(name: str) -> zipfile.ZipInfo:
    """An entry without a date: the same model gives the same file."""
    return zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))


def _write_array(archive: zipfile.ZipFile, name: str, array: Any) -> dict[str, Any]:
    array = np.ascontiguousarray(array)
    descr = np.lib.format.dtype_to_descr(array.dtype)
    start = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        start, {"descr": descr, "fortran_order": False, "shape": array.shape}
    )
    digest = hashlib.sha256(start.getvalue())
    with archive.open(_entry(name), "w", force_zip64=array.nbytes >= 2**30) as out:
        out.write(start.getvalue())
        if array.size:
            data = array.reshape(-1).view(np.uint8).data
            digest.update(data)
            out.write(data)
    return {"dtype": descr, "shape": list(array.shape), "sha256": digest.hexdigest()}


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """A new file that takes the place of `path` once it is whole and on the disk.

    It has the permissions of the older one.
    """
    path = os.path.realpath(os.fspath(path))
    folder, name = os.path.split(path)
    temporary = os.path.join(folder, f".{name}.{secrets.token_hex(8)}.tmp")
    mode = None
    with contextlib.suppress(FileNotFoundError):
        mode = _mode_of_file(path)
    try:
        # nobody else may open it before it has them
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
        handle = os.open(temporary, flags, 0o666 if mode is None else 0o600)
        with open(handle, "wb") as file:
            if mode is not None:
                os.chmod(temporary, stat.S_IMODE(mode))
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.remove(temporary)
        raise
    if os.name == "posix":
        # the new name itself must reach the disk
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _mode_of_file(path: str | os.PathLike[str]) -> int:
    """The mode of a regular file; OSError for what would hang, or never end."""
    mode = os.stat(path).st_mode
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        raise OSError(errno.EINVAL, "not a regular file", os.fspath(path))
    return mode


def is_temporary(name: str, of: str) -> bool:
    """Whether a file of this name was to become the file `of`."""
    return re.fullmatch(re.escape(f".{of}.") + r"[0-9a-f]{16}\.tmp", name) is not None


def read(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The header of a file with its `parameters` and `state` decoded, all checksums checked."""
    _mode_of_file(path)
    with open(path, "rb") as file, refusing(path):
        size = file.seek(0, os.SEEK_END)
        with zipfile.ZipFile(file) as archive:
            entries = {info.filename: info for info in archive.infolist()}
            if HEADER not in entries:
                raise ModelFileError("it is a zip file of something else")
            for info in entries.values():
                if info.compress_type != zipfile.ZIP_STORED or info.flag_bits & 0x1:
                    raise ModelFileError(f"{info.filename} is compressed or encrypted")
            if sum(info.file_size for info in entries.values()) > size:
                raise ModelFileError("its entries are larger than the file")
            header = json.loads(archive.read(HEADER))
            _check_header(header)
            manifest = header.pop("arrays")
            if set(manifest) | {HEADER} != set(entries) or len(archive.infolist()) != len(entries):
                raise ModelFileError("its entries are not those of its list")

            def array(name: str, in_pieces: bool) -> Any:
                # an entry may stand for one array only
                entry = manifest.pop(name)
                with archive.open(entries[name]) as source:
                    return _read_array(source, entries[name].file_size, entry, in_pieces)

            header["parameters"] = {k: decoded(v) for k, v in header["parameters"].items()}
            header["state"] = _unpacked(header["state"], array)
            if manifest:
                raise ModelFileError("it has arrays that belong to nothing")
        return dict(header)


@contextlib.contextmanager
def refusing(path: str | os.PathLike[str]) -> Iterator[None]:
    """Whatever goes wrong inside is the file's fault and becomes a ModelFileError."""
    try:
        # checks compute with what they find: what overflows there is found out by them
        with np.errstate(all="ignore"):
            yield
    except ModelFileError as error:
        raise ModelFileError(f"{os.fspath(path)!r} is not a model to load: {error}") from None
    except MemoryError:
        raise
    except Exception as error:
        raise ModelFileError(
            f"{os.fspath(path)!r} is not a model, or damaged: {type(error).__name__}: {error}"
        ) from error


def _check_header(header: Any, arrays: type = dict) -> None:
    if type(header) is not dict or header.get("format") != FORMAT:
        raise ModelFileError("its header is that of something else")
    version = header.get("format_version")
    if type(version) is not int or version < 1:
        raise ModelFileError("its header has no format version")
    if version > FORMAT_VERSION:
        raise ModelFileError(
            f"it is of format {version}, written by streamtree "
            f"{reprlib.repr(header.get('streamtree_version'))}; this version reads up to format "
            f"{FORMAT_VERSION}"
        )
    expected = {"class": str, "parameters": dict, "state": dict, "arrays": arrays}
    for name, kind in expected.items():
        if type(header.get(name)) is not kind:
            raise ModelFileError(f"its header has no {name}")
    position = header.get("position")
    if position is not None and (type(position) is not int or position < 0):
        raise ModelFileError("its position is not a number of examples")
    check_notes(header.get("notes"))


def _read_array(source: IO[bytes], size: int, entry: Any, in_pieces: bool) -> Any:
    """An array of the type, shape and checksum that the header promises."""
    dtype = _dtype(entry["dtype"])
    shape = tuple(entry["shape"])
    if not all(type(n) is int and 0 <= n < 2**62 for n in shape) or len(shape) > 3:
        raise ModelFileError("an array has an impossible shape")
    start = source.read(10)
    length = int.from_bytes(start[8:10], "little")
    start += source.read(length)
    match = NPY_HEADER.fullmatch(start[10:])
    descr = repr(np.lib.format.dtype_to_descr(dtype)).encode()
    if start[:8] != b"\x93NUMPY\x01\x00" or not match:
        raise ModelFileError("an array has no .npy header")
    if match.group(1) != descr or match.group(2) != repr(shape).encode():
        raise ModelFileError("an array is not of the type and shape that the header says")
    if math.prod(shape) * dtype.itemsize != size - len(start):
        raise ModelFileError("an array is shorter or longer than its shape says")
    digest = hashlib.sha256(start)
    row_bytes = dtype.itemsize * math.prod(shape[1:])
    rows = max(1, PIECE_BYTES // max(row_bytes, 1))
    if not in_pieces or not shape or shape[0] <= rows:
        rows = max(1, shape[0]) if shape else 1
    pieces = []
    for first in range(0, shape[0] if shape else 1, rows):
        piece_shape = (min(rows, shape[0] - first), *shape[1:]) if shape else ()
        piece = np.empty(piece_shape, dtype=dtype)
        if piece.size:
            _fill(source, piece, digest)
        pieces.append(piece)
    if source.read(1) or digest.hexdigest() != entry["sha256"]:
        raise ModelFileError("the checksum of an array is wrong")
    if not pieces:
        return np.empty(shape, dtype=dtype)
    return pieces[0] if len(pieces) == 1 else Pieces(pieces, shape)


def _fill(source: IO[bytes], array: np.ndarray[Any, Any], digest: Any) -> None:
    view = array.reshape(-1).view(np.uint8).data
    at = 0
    while at < len(view):
        data = source.read(min(READ_BYTES, len(view) - at))
        if not data:
            raise ModelFileError("an array ends too early")
        view[at : at + len(data)] = data
        digest.update(data)
        at += len(data)


# ------------------------------------------------------------------------- compact form

# A model in one piece of bytes, for the many that are put aside for a while: a mark, the digest of
# what follows the seal, the seal (the same with a secret key, or zeros), the size of what was
# compressed; then, by zlib, the size of the header, the header in JSON, and the arrays one behind
# the other, each from a multiple of eight bytes on.
MARK = b"stc1"
DIGEST_BYTES = 16
# zlib makes nothing more than about 1030 times as small
MOST_GROWTH = 1100
_COMPACT = json.JSONEncoder(allow_nan=False, check_circular=False, separators=(",", ":"))


def pack(
    kind: str,
    parameters: dict[str, Any],
    state: dict[str, Any],
    position: int | None = None,
    key: bytes = b"",
) -> bytes:
    """A model in the compact form; raises TypeError as `write` does.

    With a secret key nobody else can make the digest.
    """
    arrays: list[Any] = []
    kinds: dict[Any, int] = {}

    def keep(name: str, array: Any) -> list[int]:
        number = kinds.setdefault(array.dtype, len(kinds))
        arrays.append(np.ascontiguousarray(array))
        return [number, *array.shape]

    header = _header(kind, parameters, state, position, keep)
    header["arrays"] = [_descr(dtype) for dtype in kinds]
    text = _COMPACT.encode(header).encode()
    # arrays begin where numbers of eight bytes may
    parts = [text, *(array.tobytes() for array in arrays)]
    parts = [part + bytes(-len(part) % 8) for part in parts]
    whole = b"".join([len(text).to_bytes(8, "little"), *parts])
    body = len(whole).to_bytes(8, "little") + zlib.compress(whole, 1)
    seal = _digest(body, key) if key else bytes(DIGEST_BYTES)
    return MARK + _digest(body) + seal + body


def unpack(data: bytes, key: bytes = b"") -> tuple[dict[str, Any], bool]:
    """What `read` gives of a file, of bytes that `pack` gave; and whether it had the same key.

    Raises ModelFileError.
    """
    with refusing("<bytes>"):
        view = memoryview(data)
        start = len(MARK) + 2 * DIGEST_BYTES
        if view[: len(MARK)] != MARK or len(view) < start + 8:
            raise ModelFileError("they begin like something else")
        digests, body = bytes(view[len(MARK) : start]), view[start:]
        if _digest(body) != digests[:DIGEST_BYTES]:
            raise ModelFileError("their checksum is wrong")
        is_own = bool(key) and hmac.compare_digest(_digest(body, key), digests[DIGEST_BYTES:])
        size = int.from_bytes(view[start : start + 8], "little")
        if size > MOST_GROWTH * len(view):
            raise ModelFileError("they cannot hold as much as they say")
        inflater = zlib.decompressobj()
        whole = bytearray(inflater.decompress(view[start + 8 :], size + 1))
        if len(whole) != size or not inflater.eof or inflater.unused_data:
            raise ModelFileError("they hold more or less than they say")
        at = 8 + int.from_bytes(whole[:8], "little")
        header = json.loads(whole[8:at])
        _check_header(header, arrays=list)
        kinds = [_dtype(descr) for descr in header.pop("arrays")]
        position = at + -at % 8

        def array(entry: Any, in_pieces: bool) -> Any:
            nonlocal position
            number, *shape = entry
            if not all(type(n) is int and 0 <= n < 2**62 for n in entry) or len(shape) > 3:
                raise ModelFileError("an array has an impossible shape")
            count = math.prod(shape)
            n_bytes = count * kinds[number].itemsize
            if position + n_bytes > size:
                raise ModelFileError("an array ends too early")
            found = np.frombuffer(whole, kinds[number], count, position) if n_bytes else (
                np.empty(count, kinds[number])
            )
            position += n_bytes + -n_bytes % 8
            return found.reshape(shape)

        header["parameters"] = {k: decoded(v) for k, v in header["parameters"].items()}
        header["state"] = _unpacked(header["state"], array)
        if position != size:
            raise ModelFileError("they hold more than their arrays")
        return dict(header), is_own


def _digest(data: Any, key: bytes = b"") -> bytes:
    return hashlib.blake2b(data, digest_size=DIGEST_BYTES, key=key).digest()


@functools.lru_cache(maxsize=256)
def _descr(dtype: np.dtype[Any]) -> Any:
    return np.lib.format.dtype_to_descr(dtype)


def _dtype(descr: Any) -> np.dtype[Any]:
    """The type of an array, of those that models have."""
    if type(descr) is not list:
        return _checked_dtype(descr)
    return _checked_dtype(tuple(tuple(field) for field in descr))


@functools.lru_cache(maxsize=256)
def _checked_dtype(descr: Any) -> np.dtype[Any]:
    if type(descr) is str and descr in PLAIN:
        return np.dtype(descr)
    if type(descr) is not tuple or not all(
        len(field) == 2 and type(field[0]) is str and type(field[1]) is str and field[1] in PLAIN
        for field in descr
    ):
        raise ModelFileError("an array has a type that no model has")
    return np.dtype(list(descr))
