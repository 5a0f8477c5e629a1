"""Export and import of structs, and what must hold of a state before compiled code is given it.

The core trusts the state it restores: a link or a column that is out of range would read and write
memory that is not the model's. So a state from outside is checked first, field by field. What is
shared of these checks is here; those of tables, links and scales are beside their structs, and
every family adds its own.
"""

from libc.math cimport isfinite
from libc.string cimport memcpy

import numpy as np

__all__ = [
    "StateError", "check_counts", "check_finite", "check_rows", "check_same_kind", "require",
]


cdef object export_records(const void* first, Py_ssize_t stride, Py_ssize_t n, object dtype):
    """n structs that lie `stride` bytes apart, as a record array of shape (n,).

    `dtype` is that of the struct S, `np.asarray(<S[:1]> &blank).dtype`.
    """
    records = np.empty(n, dtype=dtype)
    cdef Py_ssize_t i, size = records.itemsize
    cdef char[::1] out = records.view(np.byte)
    for i in range(n):
        memcpy(&out[size * i], <const char*> first + stride * i, size)
    return records


cdef object export_floats(const float* values, Py_ssize_t n):
    """n numbers as an array of shape (n,)."""
    numbers = np.empty(n, dtype=np.float32)
    cdef float[::1] out = numbers
    if n:
        memcpy(&out[0], values, n * sizeof(float))
    return numbers


cdef int import_records(void* first, Py_ssize_t stride, object records) except -1:
    """Write records of `export_records` over structs that lie `stride` bytes apart."""
    cdef Py_ssize_t i, n = len(records), size = records.itemsize
    cdef const char[::1] view = np.ascontiguousarray(records).view(np.byte)
    assert size <= stride
    for i in range(n):
        memcpy(<char*> first + stride * i, &view[size * i], size)
    return 0


class StateError(ValueError):
    """A state that no model can be in."""


def require(holds, what):
    """Raise by `what` unless a condition holds."""
    if not holds:
        raise StateError(f"inconsistent state: {what}")


def check_same_kind(state, like, path="state"):
    """Check that a state has the parts, types and dtypes of that of an untrained model."""
    # a list of (state, like, path) that are still to be compared
    waiting = [(state, like, path)]
    while waiting:
        state, like, path = waiting.pop()
        if isinstance(like, dict):
            require(isinstance(state, dict), path)
            for key, part in like.items():
                require(key in state, f"{path} lacks {key!r}")
                waiting.append((state[key], part, f"{path}/{key}"))
        elif isinstance(like, np.ndarray):
            # a large table of a file comes in pieces, which are no array but say what they are
            require(hasattr(state, "dtype"), f"the type of {path}")
            is_same = state.dtype == like.dtype and state.ndim == like.ndim
            require(is_same, f"the type of {path}")
        else:
            require(type(state) is type(like), f"the type of {path}")


def check_counts(*numbers):
    """Check that numbers are integers of at least 0."""
    for number in numbers:
        require(type(number) is int and 0 <= number < 2**63, "a count is not a count")


cdef bint are_finite(const double[:] values, double at_least) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(values.shape[0]):
        # false for NaN
        if not (isfinite(values[i]) and values[i] >= at_least):
            return False
    return True


def check_finite(records, *fields, at_least=-np.inf):
    """Check that fields of records, or a plain array, are finite and not below a bound."""
    for values in [records[field] for field in fields] if fields else [records]:
        if values.dtype == np.float64 and values.ndim == 1:
            holds = are_finite(values, at_least)
        else:
            holds = np.isfinite(values).all() and (values >= at_least).all()
        require(holds, f"{', '.join(fields) or 'an array'} out of range")


def check_rows(starts, n_entries):
    """Check that `starts` divides `n_entries` entries into consecutive runs."""
    last = len(starts) - 1
    holds = (
        last >= 0
        and starts[0] == 0
        and starts[last] == n_entries
        and (starts[1:] >= starts[:last]).all()
    )
    require(holds, "where the entries of a row or table begin")
