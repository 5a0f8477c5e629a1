"""Structs as numpy records, and back."""

cdef object export_records(const void* first, Py_ssize_t stride, Py_ssize_t n, object dtype)
cdef object export_floats(const float* values, Py_ssize_t n)
cdef int import_records(void* first, Py_ssize_t stride, object records) except -1
