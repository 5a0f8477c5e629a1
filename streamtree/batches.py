"""Batches of examples: numpy arrays, scipy sparse matrices, frames of any eager backend.

What estimators know of frames and sparse matrices is here; none of their packages is imported
before an object of its kind turns up.
"""

from __future__ import annotations

import itertools
import math
import reprlib
from collections.abc import Iterable, Iterator, Mapping, Set
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamtree._core.learners.learner import MAX_WEIGHT
from streamtree._core.learners.regressor import MAX_TARGET
from streamtree._core.stream.features import MISSING, Category, Shared, category_text, warn
from streamtree._core.stream.sources import CodedRows, DenseRows, SparseRows
from streamtree.inspection import distinct_texts, is_encodable

__all__ = [
    "Batch", "eager_frame", "indexed_frame", "label_array", "label_list", "labels_of", "take_rows",
    "target_array", "target_columns", "weight_array",
]

# of cells that a source may have
NUMBERS, TEXTS = {int, float, bool}, {str, type(None)}
# of polars, for which numpy has no type
WIDE_INTEGERS = {"Int128", "UInt128"}
# what a column has, and what it was learned as, that have nothing in common
STRANGERS = (("numbers", "categories"), ("categories", "numbers"))
# of names that columns are called by, which features cannot have
OWN_NAMES = {Category, Shared}
# characters of a label up to which an array of labels is one of numpy's strings
LONGEST_TEXT = 256


def _shown(names: Iterable[Any]) -> str:
    """The first features of some columns."""
    first = itertools.islice(names, 20)
    features = dict.fromkeys(name[0] if type(name) is Category else name for name in first)
    texts = [reprlib.repr(feature) for feature in features]
    return ", ".join([*texts[:3], *(["..."] if len(texts) > 3 else [])])


def _kind_of(types: set[type], is_nominal: bool) -> str:
    """What cells of these types are to a model."""
    if is_nominal or (str in types and types <= TEXTS):
        return "categories"
    return "both" if str in types else "numbers"


def _checked_csr(X: Any) -> Any:
    """A sparse matrix as CSR in canonical form; raises unless all of its indices are in bounds.

    scipy takes any indices and believes its own flags, which may be old.
    """
    if X.format == "lil":
        parts = list(zip(X.rows, X.data, strict=True))
        if len(parts) != X.shape[0] or any(len(columns) != len(row) for columns, row in parts):
            raise ValueError("X has not as many indices as values")
        X = X.tocsr()
    elif X.format == "dia":
        _check_indices(X.offsets)
        n_offsets = len(set(X.offsets.tolist()))
        if X.data.ndim != 2 or not len(X.data) == len(X.offsets) == n_offsets:
            raise ValueError("X has not one offset for every diagonal")
    if not hasattr(X, "check_format"):
        X = X.tocoo()
        for indices, size in zip((X.row, X.col), X.shape, strict=True):
            _check_indices(indices)
            if len(indices) != len(X.data):
                raise ValueError("X has not as many indices as values")
            if len(indices) and not 0 <= indices.min() <= indices.max() < size:
                raise ValueError(f"X has indices that are not from 0 to {size - 1}")
    else:
        _check_indices(X.indices)
        _check_indices(X.indptr)
        # which scipy does not look at where the last of them is not above 0; differences overflow
        if (X.indptr[1:] < X.indptr[:-1]).any():
            raise ValueError("X has an indptr whose values fall")
        X.check_format(full_check=True)
    csr = X.tocsr()
    if csr is not X:
        csr.check_format(full_check=True)
    falls = np.diff(csr.indices) <= 0
    # from one row to the next they may
    starts = csr.indptr[1:-1]
    falls[starts[(starts > 0) & (starts < len(csr.indices))] - 1] = False
    if falls.any():
        csr = csr.copy()
        csr.has_canonical_format = csr.has_sorted_indices = False
        csr.sum_duplicates()
    return csr


def _check_indices(indices: NDArray[Any]) -> None:
    if indices.dtype.kind not in "iu" or indices.ndim != 1:
        raise ValueError(f"X has indices of dtype {indices.dtype} and {indices.ndim} dimensions")


# Sparse matrices with more columns are read as dicts of what they store: what is not stored is
# absent, not zero, and a column begins where it is stored first. So a row costs what it stores.
WIDE = 2**16


class Batch:
    """The feature columns of n rows, whatever they came in.

    Parameters
    ----------
    X
        A 2-D numpy array or scipy sparse matrix of shape (n_rows, n_columns), whose columns are
        the features 0, 1, 2, ..., or a frame (pandas, polars, pyarrow, ...), whose columns go by
        their names.
    nominal
        The names of columns whose numbers are categories.

    Attributes
    ----------
    source
        The rows in the form the compiled learners read, None where cells are neither numbers nor
        strings, or names none that columns may have; such rows go one by one as dicts.
    names
        The columns of the source: features, and their categories.

    """

    # what columns are called in errors
    _what = "feature"

    def __init__(self, X: Any, nominal: frozenset[Any] = frozenset()) -> None:
        self._nominal = nominal
        self._frame: Any = None
        self._values: Any = None
        self._is_wide = False
        # what the columns of a frame have, if known: of all of them, or else by column
        self._kind = ""
        self._kinds: dict[Any, str] = {}
        self.source: DenseRows | SparseRows | CodedRows | None = None
        if isinstance(X, np.ma.MaskedArray):
            X = np.ma.filled(X.astype(np.float64), np.nan)
        if isinstance(X, np.ndarray):
            self._take_array(X, names=None)
        elif hasattr(X, "tocsr"):
            self._take_sparse(X)
        else:
            self._take_frame(X)

    def _take_array(self, X: NDArray[Any], names: list[Any] | None) -> None:
        if X.ndim != 2:
            raise ValueError(f"X must have two dimensions, got {X.ndim}")
        if X.dtype.kind not in "biuf":
            raise TypeError(
                f"X must be numeric to be learned as an array, got dtype {X.dtype}; "
                "columns of strings go in as a frame or as dicts"
            )
        given = X
        if X.dtype == bool:
            X = X.view(np.uint8) if X.flags.c_contiguous else X.astype(np.uint8)
        elif X.dtype not in (np.float64, np.float32, np.uint8) or not X.dtype.isnative:
            X = X.astype(np.float64)
        X = np.ascontiguousarray(X)
        self.n_rows: int = X.shape[0]
        self.names: list[Any] = list(range(X.shape[1])) if names is None else names
        self._refuse_infinite(X, lambda flat: self.names[flat % X.shape[1]])
        if self._has_nominal():
            # as they came: large integers are no floats
            self._values = given
            self._code(self._array_columns())
            return
        self._values = X
        self.source = DenseRows(X)

    def _take_sparse(self, X: Any) -> None:
        if X.ndim != 2:
            raise ValueError(f"X must have two dimensions, got {X.ndim}")
        if X.dtype.kind not in "biuf":
            raise TypeError(f"X must be numeric, got dtype {X.dtype}")
        csr = _checked_csr(X)
        data = np.ascontiguousarray(csr.data, dtype=np.float64)
        indices = csr.indices
        indptr = np.ascontiguousarray(csr.indptr, dtype=np.int64)
        self.n_rows = csr.shape[0]
        self._refuse_infinite(data, lambda flat: int(indices[flat]))
        self._is_wide = csr.shape[1] > WIDE
        if self._is_wide:
            stored, indices = np.unique(indices, return_inverse=True)
            self.names = stored.tolist()
        else:
            self.names = list(range(csr.shape[1]))
        indices = np.ascontiguousarray(indices, dtype=np.int32)
        self._values = (data, indices, indptr)
        if self._has_nominal():
            return
        self.source = SparseRows(data, indices, indptr, len(self.names), not self._is_wide)

    def _take_frame(self, X: Any) -> None:
        import narwhals.stable.v2 as nw

        frame = eager_frame(X)
        schema = frame.schema
        # what numpy has no type for, or only that of objects
        wide = [
            name for name, dtype in schema.items()
            if dtype in (nw.Int128, nw.UInt128, nw.Decimal)
        ]
        if wide:
            # by their digits: not every library rounds a decimal to the nearest float
            frame = frame.with_columns(
                nw.col(name).cast(nw.String).cast(nw.Float64) for name in wide
            )
        self._frame = frame
        self.n_rows = len(frame)
        self.names = list(frame.columns)
        has_own = not OWN_NAMES.isdisjoint(map(type, self.names))
        if not self._has_nominal() and not has_own and all(
            dtype.is_numeric() or dtype == nw.Boolean for dtype in schema.values()
        ):
            native = frame.to_native()
            if frame.implementation.is_pandas_like():
                array = native.to_numpy(dtype=np.float64, na_value=np.nan)
            else:
                # what has no columns has no arrays to put together
                array = np.asarray(frame.to_numpy() if self.names else [], dtype=np.float64)
            self._kind = "numbers"
            self._take_array(array.reshape(self.n_rows, len(self.names)), self.names)
        else:
            self._code(self._frame_columns())

    def _code(self, columns: Iterator[tuple[list[Any], bool]]) -> None:
        """Make a source of numbers and categories; other cells are for dicts to look at."""
        names: list[Any] = []
        shape = self.n_rows, len(self.names)
        codes, values = np.empty(shape, dtype=np.int32), np.ones(shape)
        for i, (feature, (cells, is_nominal)) in enumerate(zip(self.names, columns, strict=True)):
            kinds = set(map(type, cells))
            # what a number is in a nominal column that has other things, too, is seen by itself
            plain = TEXTS if feature in self._nominal else NUMBERS | TEXTS
            if type(feature) in OWN_NAMES or not (is_nominal or kinds <= plain):
                return
            self._kinds[feature] = _kind_of(kinds, is_nominal)
            known = _Codes(is_nominal)
            numbers = cells
            codes[:, i] = 0
            if is_nominal or str in kinds:
                codes[:, i] = list(map(known.__getitem__, cells))
                numbers = list(itertools.compress(cells, (codes[:, i] == 0).tolist()))
            try:
                values[codes[:, i] == 0, i] = np.array(numbers, dtype=np.float64)
            except OverflowError:
                return
            if any(map(_is_infinite, known)):
                return
            codes[:, i] += len(names)
            names += [feature, *(Category(feature, category_text(cell)) for cell in known)]
        if np.isinf(values).any():
            # which one it is they will say
            return
        self.names, self._values = names, (codes, values)
        self.source = CodedRows(codes, values, len(names))

    def warn_of_strangers(self, features: Any, *, is_asked: bool) -> None:
        """Warn of columns that tell a model nothing, for it knows them as something else.

        `is_asked`: the rows are to be predicted, so that columns should be known.
        """
        if not features.names or features.n_shared or not self.n_rows or self._is_wide:
            return
        names = [name for name in self.names if type(name) not in OWN_NAMES]
        if is_asked and names and not any(map(features.kind_of, names)):
            warn(
                f"none of the columns of X, {_shown(names)}, has been learned; the model knows "
                f"{_shown(features.names)}"
            )
        for kind, known in STRANGERS if self._frame is not None else ():
            strangers = [
                name for name in names if self._kinds.get(name, self._kind) == kind
                and features.kind_of(name) == known and not self._is_missing(name)
            ]
            if strangers:
                warn(
                    f"columns with {kind} were learned as {known}, which are different features: "
                    f"{_shown(strangers)}; where numbers are categories, say so by "
                    "nominal_attributes"
                )

    def _is_missing(self, name: Any) -> bool:
        """Whether all cells of a column of a frame are."""
        cells = self._frame.get_column(name)
        is_missing = cells.is_null()
        if cells.dtype.is_float():
            is_missing = is_missing | cells.is_nan()
        return bool(is_missing.all())

    def _has_nominal(self) -> bool:
        # there may be very many names
        return bool(self._nominal) and not self._nominal.isdisjoint(self.names)

    def _refuse_infinite(self, values: NDArray[Any], name_of: Any) -> None:
        self._is_finite = values.dtype.kind != "f"
        if self._is_finite:
            return
        # a sum is finite unless something in it is not, or it overflows: no need to look closer
        with np.errstate(over="ignore", invalid="ignore"):
            self._is_finite = bool(np.isfinite(values.sum(dtype=np.float64)))
        if self._is_finite:
            return
        infinite = np.isinf(values).ravel()
        if infinite.any():
            flat = int(infinite.argmax())
            raise ValueError(
                f"{self._what} {name_of(flat)!r}: the value {values.flat[flat]} is infinite"
            )

    def rows(self) -> Any:
        """The rows as learners take them: their source, or a list of dicts."""
        return list(self._dicts()) if self.source is None else self.source

    def first_rows(self, weights: NDArray[np.float64] | None = None) -> list[int]:
        """For every column the first row in which it has a value, -1 if there is none.

        Rows of weight 0 do not count.
        """
        if self.source is None:
            return []
        values, n_rows = self._values, self.n_rows
        if weights is not None and not weights.all():
            keep = weights > 0.0
            values, n_rows = self._kept(keep), int(keep.sum())
        if n_rows == 0:
            return [-1] * len(self.names)
        if self._is_wide:
            return self._first_stored(values, n_rows)
        if isinstance(self.source, CodedRows):
            codes, values = values
            firsts = np.full(len(self.names), -1)
            is_there = ~np.isnan(values)
            # of what is written twice the last stays
            firsts[codes[is_there][::-1]] = is_there.nonzero()[0][::-1]
            return firsts.tolist()
        if self._is_finite:
            return [0] * len(self.names)
        if isinstance(values, tuple):
            data, indices, indptr = values
            missing = np.flatnonzero(np.isnan(data))
            rows = np.searchsorted(indptr, missing, side="right") - 1
            firsts = np.zeros(len(self.names), dtype=np.int64)
            # absent cells are zeros: only a NaN in each of the first rows postpones a birth
            for row, column in zip(rows, indices[missing], strict=True):
                if firsts[column] == row:
                    firsts[column] += 1
            firsts[firsts == n_rows] = -1
        else:
            present = ~np.isnan(values)
            firsts = np.where(present.any(axis=0), present.argmax(axis=0), -1)
        return [int(first) for first in firsts]

    def _first_stored(self, values: Any, n_rows: int) -> list[int]:
        """The first row that stores a value in each column, -1 for none."""
        data, indices, indptr = values
        rows = np.repeat(np.arange(n_rows), np.diff(indptr))
        is_value = ~np.isnan(data) & (data != 0.0)
        firsts = np.full(len(self.names), n_rows)
        np.minimum.at(firsts, indices[is_value], rows[is_value])
        firsts[firsts == n_rows] = -1
        found: list[int] = firsts.tolist()
        return found

    def _kept(self, keep: NDArray[np.bool_]) -> Any:
        """The values of the rows where `keep` is true."""
        if isinstance(self.source, CodedRows):
            return tuple(part[keep] for part in self._values)
        if not isinstance(self._values, tuple):
            return self._values[keep]
        data, indices, indptr = self._values
        lengths = np.diff(indptr)
        cells = np.repeat(keep, lengths)
        return data[cells], indices[cells], np.concatenate([[0], np.cumsum(lengths[keep])])

    def _dicts(self) -> Iterator[dict[Any, Any]]:
        """The rows as dicts, missing cells of a frame as None, categories as strings."""
        if isinstance(self._values, tuple):
            yield from self._sparse_dicts()
            return
        columns = self._array_columns() if self._frame is None else self._frame_columns()
        named = [
            list(map(_Texts(feature).__getitem__, cells)) if is_nominal else cells
            for feature, (cells, is_nominal) in zip(self.names, columns, strict=True)
        ]
        rows = zip(*named, strict=True) if named else itertools.repeat((), self.n_rows)
        for cells in rows:
            yield dict(zip(self.names, cells, strict=True))

    def _array_columns(self) -> Iterator[tuple[list[Any], bool]]:
        """The cells of every column, and whether all of them are categories."""
        for name, column in zip(self.names, self._values.T, strict=True):
            yield column.tolist(), name in self._nominal

    def _frame_columns(self) -> Iterator[tuple[list[Any], bool]]:
        import narwhals.stable.v2 as nw

        for series in self._frame.iter_columns():
            cells = series.to_list()
            if not MISSING.isdisjoint(kind.__name__ for kind in set(map(type, cells))):
                cells = [None if type(cell).__name__ in MISSING else cell for cell in cells]
            yield cells, series.dtype in (nw.Categorical, nw.Enum) or (
                series.name in self._nominal
                and (series.dtype.is_numeric() or series.dtype == nw.Boolean)
            )

    def _sparse_dicts(self) -> Iterator[dict[Any, Any]]:
        data, indices, indptr = self._values
        zeros = {} if self._is_wide else dict.fromkeys(self.names, 0.0)
        for start, end in itertools.pairwise(indptr.tolist()):
            stored = zip(indices[start:end].tolist(), data[start:end].tolist(), strict=True)
            yield zeros | {
                self.names[column]: value for column, value in stored if value or zeros
            }

    def label_output(self, numbers: NDArray[np.int32], labels: list[Any]) -> Any:
        """The labels of class numbers, None for -1: an array, or a series like the frame."""
        predicted = labels_of(numbers, labels)
        if self._frame is None:
            return predicted
        is_pandas_like = self._frame.implementation.is_pandas_like()
        # pandas would make NaN of None, and floats of the labels beside it
        if _is_of_one_type(labels) and not (is_pandas_like and (numbers < 0).any()):
            return self._series(predicted.tolist(), labels[:1])
        if is_pandas_like:
            return self._series(predicted.tolist(), of_objects=True)
        # a column of other frames has one type
        texts = [*distinct_texts(labels), None]
        return self._series([texts[number] for number in numbers], texts[:1])

    def number_output(self, numbers: NDArray[np.float64]) -> Any:
        """Predicted numbers: the array itself, or a series like the frame that came in."""
        return numbers if self._frame is None else self._series(numbers.tolist(), [0.0])

    def _series(
        self, values: list[Any], alike: list[Any] | None = None, of_objects: bool = False
    ) -> Any:
        """A column of values; one of none has the type of what is alike."""
        import narwhals.stable.v2 as nw

        series = nw.new_series(
            name="", values=values or alike or [], dtype=nw.Object() if of_objects else None,
            backend=self._frame.implementation,
        ).head(len(values)).to_native()
        if self._frame.implementation.is_pandas_like():
            series.index = self._frame.to_native().index
            series.name = None
        return series

    def table_output(self, values: NDArray[np.float64], names: list[Any]) -> Any:
        """Numbers of shape (n_rows, n_names), as an array or as a frame by name."""
        if self._frame is None:
            return values
        if self._frame.implementation.is_pandas_like():
            # only there names need not be strings
            import pandas as pd

            native = self._frame.to_native()
            kind = None if _is_of_one_type(names) else object
            columns = pd.Index(names, dtype=kind, tupleize_cols=False)
            return type(native)(values, index=native.index, columns=columns)
        if not names:
            # a frame made of columns would have no rows
            return self._frame.drop(self._frame.columns).to_native()
        import narwhals.stable.v2 as nw

        return nw.from_dict(
            {name: values[:, i] for i, name in enumerate(distinct_texts(names))},
            backend=self._frame.implementation,
        ).to_native()


class _Targets(Batch):
    """The columns of several targets."""

    _what = "target"


class _Codes(dict[Any, int]):
    """The categories of a column, numbered from 1 as they come; what is none is 0.

    They are the strings, or of a nominal column all that is not missing.
    """

    def __init__(self, is_nominal: bool) -> None:
        self.is_nominal = is_nominal

    def __missing__(self, cell: Any) -> int:
        if type(cell) is not str and (not self.is_nominal or cell is None or cell != cell):
            return 0
        self[cell] = code = len(self) + 1
        return code


class _Texts(dict[Any, Any]):
    """What the categories of a feature are called, made once; None for what is missing."""

    def __init__(self, feature: Any) -> None:
        self.feature = feature

    def __missing__(self, cell: Any) -> str | None:
        if cell is None or cell != cell:
            return None
        if _is_infinite(cell):
            raise ValueError(f"feature {self.feature!r}: the value {cell} is infinite")
        text: str = category_text(cell)
        self[cell] = text
        return text


def _is_infinite(cell: Any) -> bool:
    return isinstance(cell, float) and math.isinf(cell)


def _is_of_one_type(labels: list[Any]) -> bool:
    """Whether labels are all of one type that a column of any frame can hold."""
    kinds = {type(label) for label in labels}
    return (
        (kinds <= {str} and all(map(is_encodable, labels)))
        or kinds <= {bool} or kinds <= {float}
        or (kinds <= {int} and all(-(2**63) <= label < 2**63 for label in labels))
    )


def label_array(labels: list[Any]) -> NDArray[Any]:
    """Labels as an array that gives every one of them back as it was; None is one, too."""
    kinds = {type(label) for label in labels}
    if kinds == {bool} or kinds == {float}:
        return np.array(labels)
    if kinds == {int} and all(-(2**63) <= label < 2**63 for label in labels):
        return np.array(labels, dtype=np.int64)
    # numpy strings would lose NULs at the end
    # and take for each of them what the longest takes
    if kinds == {str} and not any(
        label.endswith("\0") or len(label) > LONGEST_TEXT for label in labels
    ):
        return np.array(labels)
    table = np.empty(len(labels), dtype=object)
    table[:] = labels
    return table


def labels_of(numbers: NDArray[np.int32], labels: list[Any]) -> NDArray[Any]:
    """The labels of class numbers, None for -1."""
    # which takes the last of the table
    return label_array([*labels, None] if (numbers < 0).any() else labels)[numbers]


def eager_frame(X: Any) -> Any:
    """A data frame of any library, with all of its rows there, as that of narwhals."""
    import narwhals.stable.v2 as nw

    if type(X).__name__ == "RecordBatch":
        import pyarrow as pa

        X = pa.Table.from_batches([X])
    try:
        return nw.from_native(X, eager_only=True)
    except TypeError:
        raise TypeError(
            "X must be a 2-D numpy array, a scipy sparse matrix or a data frame, "
            f"got {type(X).__name__}"
        ) from None


def take_rows(X: Any, rows: Any) -> Any:
    """Some rows of what a Batch takes, by a slice without steps or an array of numbers."""
    if isinstance(X, np.ndarray):
        return X[rows]
    if hasattr(X, "tocsr"):
        return X.tocsr()[rows]
    return eager_frame(X)[rows].to_native()


def indexed_frame(records: list[dict[str, Any]], index: str) -> Any:
    """A pandas data frame of records that go by their entry `index`."""
    import pandas as pd

    return pd.DataFrame(records).set_index(index)


def repeatable(values: Any) -> Any:
    """Labels, targets or weights that can be read more than once."""
    return list(values) if isinstance(values, Iterator) else values


def label_list(y: Any, n_rows: int, name: str = "y", what: str = "labels") -> list[Any]:
    """The labels of a batch as a list; raises unless there are n_rows of them."""
    labels: list[Any]
    _refuse_masked(y, name)
    if hasattr(type(y), "columns"):
        raise TypeError(
            f"{name} must be a sequence of {what}, got {type(y).__name__}: give its column"
        )
    if isinstance(y, np.ndarray):
        if y.ndim != 1:
            raise ValueError(f"{name} must have one dimension, got {y.ndim}")
        # dates would become integers
        labels = list(y) if y.dtype.kind in "mM" else y.tolist()
    elif hasattr(y, "to_list"):
        labels = list(y.to_list())
    elif hasattr(y, "to_pylist"):
        labels = list(y.to_pylist())
    elif isinstance(y, Iterable) and not isinstance(y, (str, bytes, Mapping, Set)):
        labels = list(y)
    else:
        raise TypeError(f"{name} must be a sequence of {what}, got {type(y).__name__}")
    if len(labels) != n_rows:
        raise ValueError(f"X has {n_rows} rows, {name} has {len(labels)} {what}")
    return labels


def target_array(y: Any, n_rows: int) -> NDArray[np.float64]:
    """The numbers of a batch, shape (n_rows, 1); raises unless all are finite."""
    values = _numbers(y, "y")
    if values.dtype.kind not in "biuf":
        raise TypeError(f"y must be numeric, got dtype {values.dtype}")
    if values.shape != (n_rows,):
        raise ValueError(f"X has {n_rows} rows, y has the shape {values.shape}")
    return _checked_targets(values.reshape(n_rows, 1), lambda column: "y")


def target_columns(y: Any, n_rows: int) -> tuple[NDArray[np.float64], list[Any]]:
    """Several numbers a row, shape (n_rows, n_targets), and the names of the targets."""
    _refuse_masked(y, "y")
    shape = "y must be a numeric array or frame of shape (n_rows, n_targets)"
    if not hasattr(y, "shape"):
        raise TypeError(f"{shape}, got {type(y).__name__}")
    if len(y.shape) != 2:
        raise ValueError(f"y must have two dimensions, got {len(y.shape)}")
    if isinstance(y, np.ndarray):
        y = _numbers(y, "y")
        if y.dtype.kind not in "biuf":
            raise TypeError(f"{shape}, got dtype {y.dtype}")
    targets = _Targets(y)
    if not isinstance(targets.source, DenseRows):
        raise TypeError(shape)
    if targets.n_rows != n_rows:
        raise ValueError(f"X has {n_rows} rows, y has {targets.n_rows}")
    names = targets.names
    return _checked_targets(targets._values, lambda column: f"target {names[column]!r}"), names


def _refuse_masked(values: Any, name: str) -> None:
    if np.ma.is_masked(values):
        raise ValueError(f"{name} has masked entries: leave these rows out")


def _numbers(values: Any, name: str) -> NDArray[Any]:
    """Numbers as an array, whatever they came in; large integers may become infinite."""
    _refuse_masked(values, name)
    if str(getattr(values, "dtype", "")) in WIDE_INTEGERS:
        values = values.cast(float)
    array = np.asarray(values)
    if array.dtype.kind != "O" or not all(isinstance(v, (Real, Decimal)) for v in array.flat):
        return array
    return np.array([_as_float(value) for value in array.flat]).reshape(array.shape)


def _as_float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _checked_targets(values: NDArray[Any], name_of: Any) -> NDArray[np.float64]:
    values = np.ascontiguousarray(values, dtype=np.float64)
    inside = np.abs(values) <= MAX_TARGET  # false for NaN
    if not inside.all():
        row, column = np.argwhere(~inside)[0]
        raise ValueError(
            f"{name_of(column)} must be from {-MAX_TARGET:g} to {MAX_TARGET:g}, "
            f"got {values[row, column]}"
        )
    return values


def weight_array(w: Any, n_rows: int) -> NDArray[np.float64] | None:
    """The weights of a batch, None for 1 each; raises unless all are in range."""
    if w is None:
        return None
    weights = _numbers(w, "w")
    if weights.dtype.kind not in "biuf":
        raise TypeError(f"w must be numeric, got dtype {weights.dtype}")
    weights = weights.astype(np.float64)
    if weights.ndim == 0:
        weights = np.full(n_rows, float(weights))
    if weights.shape != (n_rows,):
        raise ValueError(f"X has {n_rows} rows, w has the shape {weights.shape}")
    inside = (weights >= 0) & (weights <= MAX_WEIGHT)
    if not inside.all():
        raise ValueError(f"w must be from 0 to {MAX_WEIGHT:g}, got {weights[~inside][0]}")
    return np.ascontiguousarray(weights)
