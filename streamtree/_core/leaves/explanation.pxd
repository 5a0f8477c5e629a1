from libc.stdint cimport int32_t

from streamtree._core.store.tables cimport Table
from streamtree._core.stream.row cimport Row, Scratch, View


cdef class Explanation:
    cdef readonly int32_t output        # the class or target whose share or number is explained
    cdef readonly double bias           # what is said of a row without values
    cdef readonly dict columns          # column -> by how much its value moves that
    cdef double weight                  # of the tree at hand in the prediction
    cdef const Row* blank               # a row without values
    cdef Scratch* blank_scratch
    cdef double[::1] room               # for the shares or numbers of a prediction
    cdef object _owner                  # of the blank row

    cdef int describe(self, const Row* blank, Scratch* scratch, object owner) except -1
    cdef int add_bias(self, double amount) except -1
    cdef int add(self, double bias, dict columns, double weight) except -1
    cdef int _add_part(self, int32_t column, double part) except -1
    cdef double total(self)
    cdef int spread(self, object columns, object parts, double difference) except -1


cdef object softmax_parts(object base, object parts, int32_t place)
cdef object within_range(object parts)
cdef object pushing(object parts, bint is_up)
cdef object closed(object parts, double difference)
cdef object columns_of(const View* x)
cdef object weighted(const Table* table, Py_ssize_t width, const View* x, Scratch* scratch)
