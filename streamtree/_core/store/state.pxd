"""Structs as numpy records, and back."""

cdef object export_records(const void* first, Py_ssize_t stride, Py_ssize_t n, object dtype)
cdef int import_records(void* first, Py_ssize_t stride, object records) except -1
