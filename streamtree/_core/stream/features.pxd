from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t

from streamtree._core.stream.buffers cimport RowBuffer

cdef extern from "Python.h":
    # Cython's own declarations of objects would be read for 50 modules
    ctypedef struct PyObject


cdef enum:
    UNBOUNDED = 0x7FFFFFFFFFFFFFFF      # more bytes than there are
    SETTLED_ROWS = 1024     # rows after which names that are few lend memory to the tree


cpdef int warn(str message) except -1
cdef uint32_t stable_hash(object name) except? 0
cdef int check_name(object name) except -1
cpdef str category_text(object value)
cdef int64_t object_bytes(object name) except -1


cdef struct Entry:
    # of a dict, by its place in it; all references are owned, for a pointer that is compared must
    # not outlive its object
    PyObject* key           # what stood there last and had a column, or NULL
    PyObject* text          # the value that it had then if that is a text, else NULL
    PyObject* value         # of the dict read last
    int32_t column          # of key and text


cdef class Categories:
    # of one feature
    cdef dict columns       # by value
    cdef int32_t number     # of the feature, among those that have categories
    cdef uint32_t tie       # a hash of its name
    cdef int64_t bytes      # that their names are counted as


cdef class FeatureIndex:
    cdef frozenset nominal          # names whose numbers are categories
    cdef dict _numbers
    cdef dict _categories           # by the name of a feature
    cdef readonly list names
    cdef uint32_t* hashes           # of a column: a hash of its name
    cdef uint32_t* ties             # the same of its feature: all categories of one have the same
    cdef int32_t* groups            # of a column: the feature it is a category of, else -1
    cdef char* are_shared           # of a column: whether it is that of several names
    cdef int32_t n_groups           # features that have, or had, categories
    cdef Py_ssize_t _capacity
    cdef dict _shared               # number -> column of those that share columns
    cdef readonly int32_t n_shared  # columns that names share
    cdef int64_t most               # bytes that names may take
    cdef int64_t _bytes             # that they are counted as, with all that goes with a column
    cdef list _homes                # of every column of a category, in their order
    cdef list _new_names            # None: what was read last has none
    cdef set _checked               # names that were checked in a look at rows, else None
    cdef Py_ssize_t _places
    cdef Entry* _entries
    cdef uint64_t _reads
    cdef Py_ssize_t _last_size      # of the dict read last; -1 where another look may differ
    cdef uint64_t _last_version     # of that dict, 0: unknown

    cdef int read(self, dict x, RowBuffer out, bint keep_new) except -1
    cdef void check_rows(self, bint are_checked) noexcept
    cdef int32_t _look_up(self, Py_ssize_t place, object key, object value, double* number,
                          bint is_text, bint keep_new) except -2
    cdef void forget_read(self) noexcept
    cdef bint repeats(self, dict x) noexcept
    cdef int32_t _column(self, object key, object value, bint keep_new) except -2
    cdef int _remember(self, Py_ssize_t place, PyObject* key, PyObject* text,
                       int32_t column) except -1
    cdef int _make_places(self, Py_ssize_t size) except -1
    cdef int commit(self, RowBuffer out) except -1
    cdef int refuse_category(self, object name) except -1
    cdef int32_t add(self, object name) except -1
    cdef int _reserve(self, Py_ssize_t size) except -1
    cdef int lend(self, Py_ssize_t n) except -1
    cdef bint admits(self, object name) except -1
    cdef object _shared_name(self, object name)
    cdef object place_for(self, object name)
    cdef int32_t let_in(self, object name) except -1
    cdef int _tell_of(self, object name) except -1
    cdef int _warn(self, object name, int64_t before, int64_t after, int64_t most) except -1
    cdef int merge(self, RowBuffer row) except -1 nogil
    cdef size_t n_bytes(self) noexcept
    cdef int truncate(self, Py_ssize_t size) except -1
    cpdef int32_t find(self, object name) except -2
