"""A row by column, in single precision, for trees that look at single columns of it.

A column whose values lie close together, but far from zero, has an origin, which is taken off.

A column that a row does not list is missing where zeros are listed, else zero; a category is one
of many, so the others are zero. Which one it is also stands by feature.
"""

cimport cython
from libc.float cimport FLT_MAX
from libc.math cimport NAN
from libc.stdint cimport int32_t, uint32_t
from libc.stdlib cimport free
from libc.string cimport memcpy, memset

from streamtree._core.store.memory cimport larger, regrown
from streamtree._core.stream.context cimport Context
from streamtree._core.stream.row cimport View


cdef float absent(Context context, int32_t column) noexcept nogil:
    """What a column is in a row that does not list it."""
    return NAN if (
        context.features.groups[column] < 0 and context.scaler.columns[column].is_listed
    ) else narrowed(context, column, 0.0)


cdef float narrowed(Context context, int32_t column, double value) noexcept nogil:
    """A value in single precision, from the origin of its column; finite if it was."""
    value -= context.scaler.columns[column].origin
    if value > FLT_MAX:
        return FLT_MAX
    return <float> value if value >= -FLT_MAX else -FLT_MAX


@cython.final
cdef class RowTable:
    """Costs as much as a row has values: what the row before wrote is put back."""

    def __cinit__(self, Context context):
        self.context = context

    def __dealloc__(self):
        free(self.values)
        free(self.kinds)
        free(self.written)

    cdef size_t n_bytes(self) noexcept nogil:
        return self.capacity * (sizeof(float) + sizeof(int32_t)) + self.n_kinds * sizeof(uint32_t)

    cdef int make(self, const View* listed) except -1 nogil:
        """Write the listed values of a row to `values`."""
        cdef int32_t size = self.context.n_columns
        cdef Py_ssize_t i
        if size > self.capacity:
            size = <int32_t> larger(self.capacity, size)
            self.values = <float*> regrown(self.values, size * sizeof(float))
            self.written = <int32_t*> regrown(self.written, size * sizeof(int32_t))
            self.capacity = size
        if self.context.features.n_groups >= self.n_kinds:
            size = <int32_t> larger(self.n_kinds, 1 + self.context.features.n_groups)
            self.kinds = <uint32_t*> regrown(self.kinds, size * sizeof(uint32_t))
            memset(&self.kinds[self.n_kinds], 0, (size - self.n_kinds) * sizeof(uint32_t))
            self.n_kinds = size
        self._clear()
        for i in range(listed.n):
            self.values[listed.columns[i]] = narrowed(
                self.context, listed.columns[i], listed.values[i]
            )
        self._write_kinds(listed.columns, listed.n, True)
        if listed.n:
            memcpy(self.written, listed.columns, listed.n * sizeof(int32_t))
        self.n_written = listed.n
        return 0

    cdef void _clear(self) noexcept nogil:
        """Make all columns absent."""
        cdef int32_t column, first = self.size
        cdef Py_ssize_t i
        if self._changes != self.context.scaler.changes or self.context.n_columns < first:
            first = 0
            memset(self.kinds, 0, self.n_kinds * sizeof(uint32_t))
        else:
            self._write_kinds(self.written, self.n_written, False)
            for i in range(self.n_written):
                self.values[self.written[i]] = absent(self.context, self.written[i])
        for column in range(first, self.context.n_columns):
            self.values[column] = absent(self.context, column)
        self.size = self.context.n_columns
        self._changes = self.context.scaler.changes

    cdef void _write_kinds(self, const int32_t* columns, Py_ssize_t n,
                           bint are_there) noexcept nogil:
        """Write down the categories among some columns, or that they are not there."""
        cdef Py_ssize_t i
        cdef int32_t column, group
        if self.context.features.n_groups == 0:
            return
        for i in range(n):
            column = columns[i]
            group = self.context.features.groups[column]
            if group >= 0:
                self.kinds[1 + group] = self.context.kind_of(column) if are_there else 0
