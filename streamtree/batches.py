"""Batches of examples: numpy arrays, scipy sparse matrices, frames of any eager backend.

The only module that knows pandas, polars, narwhals and scipy; none of them is imported before
an object of its kind turns up.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamtree._core.learners.learner import MAX_TARGET, MAX_WEIGHT
from streamtree._core.stream.sources import DenseRows, SparseRows

__all__ = ["Batch", "indexed_frame", "label_list", "target_array", "target_columns", "weight_array"]


class Batch:
    """The feature columns of n rows, whatever they came in.

    Parameters
    ----------
    X
        A 2-D numpy array or scipy sparse matrix of shape (n_rows, n_columns), whose columns are
        the features 0, 1, 2, ..., or a frame (pandas, polars, pyarrow, ...), whose columns go by
        their names.

    Attributes
    ----------
    source
        The rows in the form the compiled learners read, None for a frame with columns that
        are not numeric; such a frame goes row by row as dicts.

    """

    def __init__(self, X: Any) -> None:
        self._frame: Any = None
        self._values: Any = None
        self.source: DenseRows | SparseRows | None = None
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
        if X.dtype == bool:
            X = X.view(np.uint8) if X.flags.c_contiguous else X.astype(np.uint8)
        elif X.dtype not in (np.float64, np.float32, np.uint8) or not X.dtype.isnative:
            X = X.astype(np.float64)
        X = np.ascontiguousarray(X)
        self.n_rows: int = X.shape[0]
        self.names: list[Any] = list(range(X.shape[1])) if names is None else names
        self._refuse_infinite(X, lambda flat: self.names[flat % X.shape[1]])
        self._values = X
        self.source = DenseRows(X)

    def _take_sparse(self, X: Any) -> None:
        if X.ndim != 2:
            raise ValueError(f"X must have two dimensions, got {X.ndim}")
        csr = X.tocsr()
        if csr.dtype.kind not in "biuf":
            raise TypeError(f"X must be numeric, got dtype {csr.dtype}")
        # scipy takes any indices: the rows are read without looking at their bounds
        csr.check_format(full_check=True)
        if not csr.has_canonical_format:
            csr = csr.copy()
            csr.sum_duplicates()
        data = np.ascontiguousarray(csr.data, dtype=np.float64)
        indices = np.ascontiguousarray(csr.indices, dtype=np.int32)
        indptr = np.ascontiguousarray(csr.indptr, dtype=np.int64)
        self.n_rows = csr.shape[0]
        self.names = list(range(csr.shape[1]))
        self._refuse_infinite(data, lambda flat: int(indices[flat]))
        self._values = (data, indices, indptr)
        self.source = SparseRows(data, indices, indptr, csr.shape[1])

    def _take_frame(self, X: Any) -> None:
        import narwhals.stable.v2 as nw

        try:
            frame = nw.from_native(X, eager_only=True)
        except TypeError:
            raise TypeError(
                "X must be a 2-D numpy array, a scipy sparse matrix or a data frame, "
                f"got {type(X).__name__}"
            ) from None
        self._frame = frame
        self.n_rows = len(frame)
        self.names = list(frame.columns)
        if len(set(self.names)) != len(self.names):
            twice = next(name for name in self.names if self.names.count(name) > 1)
            raise ValueError(f"feature {twice!r} appears more than once among the columns")
        if all(dtype.is_numeric() or dtype == nw.Boolean for dtype in frame.schema.values()):
            native = frame.to_native()
            if frame.implementation.is_pandas_like():
                array = native.to_numpy(dtype=np.float64, na_value=np.nan)
            else:
                array = np.asarray(frame.to_numpy(), dtype=np.float64)
            self._take_array(array.reshape(self.n_rows, len(self.names)), self.names)

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
                f"feature {name_of(flat)!r}: the value {values.flat[flat]} is infinite"
            )

    def rows(self) -> Any:
        """The rows as learners take them: their source, or a list of dicts."""
        return list(self.dicts()) if self.source is None else self.source

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

    def _kept(self, keep: NDArray[np.bool_]) -> Any:
        """The values of the rows where `keep` is true."""
        if not isinstance(self._values, tuple):
            return self._values[keep]
        data, indices, indptr = self._values
        lengths = np.diff(indptr)
        cells = np.repeat(keep, lengths)
        return data[cells], indices[cells], np.concatenate([[0], np.cumsum(lengths[keep])])

    def dicts(self) -> Iterator[dict[Any, Any]]:
        """The rows of a frame as dicts, missing cells as None."""
        for row in self._frame.iter_rows(named=True):
            yield {
                name: None if type(value).__name__ in ("NAType", "NaTType") else value
                for name, value in row.items()
            }

    def label_output(self, numbers: NDArray[np.int32], labels: list[Any]) -> Any:
        """The labels of class numbers, None for -1: an array, or a series like the frame."""
        unknown = numbers < 0
        if unknown.any():  # before any learning
            predicted = np.full(len(numbers), None, dtype=object)
            known = np.flatnonzero(~unknown)
            predicted[known] = [labels[number] for number in numbers[known]]
        else:
            predicted = _label_table(labels)[numbers]
        return predicted if self._frame is None else self._series(predicted)

    def number_output(self, numbers: NDArray[np.float64]) -> Any:
        """Predicted numbers: the array itself, or a series like the frame that came in."""
        return numbers if self._frame is None else self._series(numbers)

    def _series(self, values: NDArray[Any]) -> Any:
        import narwhals.stable.v2 as nw

        series = nw.new_series(
            name="", values=values.tolist(), backend=self._frame.implementation
        ).to_native()
        if self._frame.implementation.is_pandas_like():
            series.index = self._frame.to_native().index
            series.name = None
        return series

    def table_output(self, values: NDArray[np.float64], names: list[Any]) -> Any:
        """Numbers of shape (n_rows, n_names), as an array or as a frame by name."""
        if self._frame is None:
            return values
        import narwhals.stable.v2 as nw

        # only pandas has column names that are not strings
        pandas_like = self._frame.implementation.is_pandas_like()
        columns = list(names) if pandas_like else [str(name) for name in names]
        frame = nw.from_dict(
            {name: values[:, i] for i, name in enumerate(columns)},
            backend=self._frame.implementation,
        ).to_native()
        if pandas_like:
            frame = frame.reindex(range(self.n_rows)) if not names else frame
            frame.index = self._frame.to_native().index
        return frame


def _label_table(labels: list[Any]) -> NDArray[Any]:
    """The labels as an array that gives every one of them back as it was."""
    kinds = {type(label) for label in labels}
    if kinds == {bool} or kinds == {float}:
        return np.array(labels)
    if kinds == {int} and all(-(2**63) <= label < 2**63 for label in labels):
        return np.array(labels, dtype=np.int64)
    # numpy strings would lose NULs at the end
    if kinds == {str} and not any(label.endswith("\0") for label in labels):
        return np.array(labels)
    table = np.empty(len(labels), dtype=object)
    table[:] = labels
    return table


def indexed_frame(records: list[dict[str, Any]], index: str) -> Any:
    """A pandas data frame of records that go by their entry `index`."""
    import pandas as pd

    return pd.DataFrame(records).set_index(index)


def label_list(y: Any, n_rows: int) -> list[Any]:
    """The labels of a batch as a list; raises unless there are n_rows of them."""
    labels: list[Any]
    if isinstance(y, np.ndarray):
        if y.ndim != 1:
            raise ValueError(f"y must have one dimension, got {y.ndim}")
        labels = y.tolist()
    elif hasattr(y, "to_list"):
        labels = list(y.to_list())
    elif hasattr(y, "to_pylist"):
        labels = list(y.to_pylist())
    elif isinstance(y, Iterable) and not isinstance(y, (str, bytes, dict)):
        labels = list(y)
    else:
        raise TypeError(f"y must be a sequence of labels, got {type(y).__name__}")
    if len(labels) != n_rows:
        raise ValueError(f"X has {n_rows} rows, y has {len(labels)} labels")
    return labels


def target_array(y: Any, n_rows: int) -> NDArray[np.float64]:
    """The numbers of a batch, shape (n_rows, 1); raises unless all are finite."""
    values = np.asarray(y)
    if values.dtype.kind == "O" and all(isinstance(value, Real) for value in values.flat):
        values = values.astype(np.float64)
    if values.dtype.kind not in "biuf":
        raise TypeError(f"y must be numeric, got dtype {values.dtype}")
    if values.shape != (n_rows,):
        raise ValueError(f"X has {n_rows} rows, y has the shape {values.shape}")
    return _checked_targets(values.reshape(n_rows, 1), lambda column: "y")


def target_columns(y: Any, n_rows: int) -> tuple[NDArray[np.float64], list[Any]]:
    """Several numbers a row, shape (n_rows, n_targets), and the names of the targets."""
    targets = Batch(y)
    if targets.source is None or isinstance(targets._values, tuple):
        raise TypeError("y must be a numeric array or frame of shape (n_rows, n_targets)")
    if targets.n_rows != n_rows:
        raise ValueError(f"X has {n_rows} rows, y has {targets.n_rows}")
    names = targets.names
    return _checked_targets(targets._values, lambda column: f"target {names[column]!r}"), names


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
    weights = np.asarray(w)
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
