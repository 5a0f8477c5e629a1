from cpython.object cimport PyObject
from libc.stdint cimport int32_t, uint32_t

from streamtree._core.types cimport Parts, Row


cdef uint32_t stable_hash(object name) except? 0


cdef class RowBuffer:
    cdef int32_t* columns
    cdef double* values
    cdef int32_t* slots
    cdef double* steps
    cdef Parts parts
    cdef Py_ssize_t n
    cdef Py_ssize_t capacity

    cdef int reserve(self, Py_ssize_t capacity) except -1 nogil
    cdef Row row(self) noexcept nogil


cdef class FeatureIndex:
    cdef dict _numbers
    cdef dict _categories
    cdef readonly list names
    cdef list _homes                # for every column the dict that maps its name
    cdef list _new_names
    cdef Py_ssize_t _places
    cdef PyObject** _seen_keys
    cdef PyObject** _seen_values
    cdef int32_t* _seen_columns

    cdef int read(self, dict x, RowBuffer out, bint keep_new) except -1
    cdef int32_t _column(self, object key, object value, bint keep_new) except -2
    cdef int _remember(self, Py_ssize_t place, PyObject* key, PyObject* value,
                       int32_t column) except -1
    cdef int commit(self, RowBuffer out) except -1
    cdef int refuse_category(self, object name) except -1
    cdef int32_t add(self, object name) except -1
    cdef int truncate(self, Py_ssize_t size) except -1
    cpdef int32_t find(self, object name) except -2
