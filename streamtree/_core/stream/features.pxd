from cpython.object cimport PyObject
from libc.stdint cimport int32_t, uint32_t, uint64_t

from streamtree._core.stream.buffers cimport RowBuffer


cdef uint32_t stable_hash(object name) except? 0
cdef int check_name(object name) except -1


cdef class FeatureIndex:
    cdef dict _numbers
    cdef dict _categories
    cdef readonly list names
    # of every column: hashes of its name and of its feature's, and the number of the feature it is
    # a category of, or -1
    cdef list codes
    cdef dict _groups               # the numbers of the features that have categories
    cdef list _homes                # for every column the dict that maps its name
    cdef list _new_names
    cdef Py_ssize_t _places
    cdef PyObject** _seen_keys
    cdef PyObject** _seen_values
    cdef PyObject** _last_values
    cdef int32_t* _seen_columns
    cdef uint64_t _reads
    cdef Py_ssize_t _last_size      # of the dict read last; -1 where another look may differ

    cdef int read(self, dict x, RowBuffer out, bint keep_new) except -1
    cdef void _keep(self, Py_ssize_t place, PyObject* value) noexcept
    cdef bint repeats(self, dict x) noexcept
    cdef int32_t _column(self, object key, object value, bint keep_new) except -2
    cdef int _remember(self, Py_ssize_t place, PyObject* key, PyObject* value,
                       int32_t column) except -1
    cdef int _make_places(self, Py_ssize_t size) except -1
    cdef int commit(self, RowBuffer out) except -1
    cdef int refuse_category(self, object name) except -1
    cdef int32_t add(self, object name) except -1
    cdef tuple _code(self, object name)
    cdef int truncate(self, Py_ssize_t size) except -1
    cpdef int32_t find(self, object name) except -2
