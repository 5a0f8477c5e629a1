"""Structs as numpy records, and back."""

from libc.string cimport memcpy

import numpy as np


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
