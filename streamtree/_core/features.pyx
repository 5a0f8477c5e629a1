"""Feature names, any hashable objects, and the rows that dicts become.

A number under a name is the column `name`; a string under a name is the column
`(name, string)` with value 1, held as a `Category` among the names.
"""

cimport cython
from cpython.dict cimport PyDict_Next
from cpython.float cimport PyFloat_AS_DOUBLE, PyFloat_CheckExact
from cpython.long cimport PyLong_AsLongAndOverflow, PyLong_CheckExact
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF, Py_XDECREF
from libc.math cimport NAN, isinf, isnan
from libc.stdint cimport int32_t, uint32_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memset

from streamtree._core.memory cimport regrown
from streamtree._core.types cimport Row

from typing import NamedTuple

import numpy as np

cdef enum:
    PARTS = 3       # of a value: its linear weight and two knots


cdef uint32_t stable_hash(object name) except? 0:
    """The same number for the same name in every process (FNV-1a of its representation)."""
    cdef uint32_t value = 2166136261u
    cdef unsigned char byte
    for byte in repr(name).encode("utf-8", "surrogatepass"):
        value = (value ^ byte) * 16777619u
    return value


class Category(NamedTuple):
    """The column of one value of a categorical feature."""

    name: object
    value: str


@cython.final
cdef class RowBuffer:
    """Room for one row; grows, never shrinks."""

    def __dealloc__(self):
        free(self.columns)
        free(self.values)
        free(self.slots)
        free(self.steps)
        free(self.parts.keys)
        free(self.parts.values)
        free(self.parts.steps)
        free(self.parts.presence)
        free(self.parts.top_slots)
        free(self.parts.own_slots)
        free(self.parts.bayes_slots)
        free(self.parts.order)
        free(self.parts.by_column)

    def __sizeof__(self):
        cdef size_t per_value = 2 * sizeof(int32_t) + 4 * sizeof(double)
        per_value += sizeof(uint64_t) + sizeof(float)
        per_value += PARTS * (4 * sizeof(int32_t) + 2 * sizeof(float))
        return object.__sizeof__(self) + self.capacity * per_value

    cdef int reserve(self, Py_ssize_t capacity) except -1 nogil:
        cdef Py_ssize_t parts
        if capacity < self.capacity:
            return 0
        # one place more than asked for: writers store first and then decide whether it counts
        capacity += capacity // 2 + 1
        self.columns = <int32_t*> regrown(self.columns, capacity * sizeof(int32_t))
        self.values = <double*> regrown(self.values, capacity * sizeof(double))
        self.slots = <int32_t*> regrown(self.slots, capacity * sizeof(int32_t))
        self.steps = <double*> regrown(self.steps, capacity * sizeof(double))
        parts = PARTS * capacity
        self.parts.keys = <int32_t*> regrown(self.parts.keys, parts * sizeof(int32_t))
        self.parts.values = <float*> regrown(self.parts.values, parts * sizeof(float))
        self.parts.steps = <float*> regrown(self.parts.steps, parts * sizeof(float))
        self.parts.top_slots = <int32_t*> regrown(self.parts.top_slots, parts * sizeof(int32_t))
        self.parts.own_slots = <int32_t*> regrown(self.parts.own_slots, parts * sizeof(int32_t))
        self.parts.bayes_slots = <int32_t*> regrown(
            self.parts.bayes_slots, parts * sizeof(int32_t)
        )
        self.parts.presence = <float*> regrown(self.parts.presence, capacity * sizeof(float))
        self.parts.order = <uint64_t*> regrown(self.parts.order, capacity * sizeof(uint64_t))
        self.parts.by_column = <double*> regrown(
            self.parts.by_column, 2 * capacity * sizeof(double)
        )
        self.capacity = capacity
        return 0

    cdef Row row(self) noexcept nogil:
        cdef Row row
        cdef Py_ssize_t i
        row.columns = self.columns
        row.values = self.values
        row.slots = self.slots
        row.steps = self.steps
        row.parts = &self.parts
        row.n = self.n
        row.top = -1
        row.is_full = True
        for i in range(self.n):
            row.is_full &= self.columns[i] == i
            if self.columns[i] > row.top:
                row.top = self.columns[i]
        return row


cdef double as_number(object key, object value) except? -1.0:
    """The value of a feature as a float, NaN if it is missing; raises by the feature's name."""
    cdef double number
    if value is None:
        return NAN
    if not isinstance(value, (int, float, np.number, np.bool_)) or isinstance(
        value, (complex, np.complexfloating, np.timedelta64)
    ):
        raise TypeError(
            f"feature {key!r}: expected a number, a string or None, "
            f"got {type(value).__name__}"
        )
    try:
        number = float(value)
    except OverflowError:
        # an int of thousands of digits cannot even be printed
        raise ValueError(f"feature {key!r}: the integer is too large for a float") from None
    if isinf(number):
        raise ValueError(f"feature {key!r}: the value {value!r} is infinite")
    return number


@cython.final
cdef class FeatureIndex:
    """An append-only map from feature names to the column numbers 0, 1, 2, ..."""

    def __cinit__(self, list names=None):
        self._numbers = {}
        self._categories = {}
        self.names = []
        self._homes = []
        self._new_names = []
        for name in names or ():
            self.add(name)

    def __dealloc__(self):
        cdef Py_ssize_t place
        for place in range(self._places):
            Py_XDECREF(self._seen_keys[place])
            Py_XDECREF(self._seen_values[place])
        free(self._seen_keys)
        free(self._seen_values)
        free(self._seen_columns)

    def __len__(self):
        return len(self.names)

    def __sizeof__(self):
        return object.__sizeof__(self) + self._places * (2 * sizeof(PyObject*) + sizeof(int32_t))

    cdef int refuse_category(self, object name) except -1:
        """A `Category` is what the index calls a column; it cannot name a feature as well."""
        if type(name) is Category:
            raise TypeError(
                f"feature {name!r}: a Category is the column of one value; "
                "give the feature by its own name, with the value as a string"
            )
        return 0

    cpdef int32_t find(self, object name) except -2:
        """The column of a name or `Category`, -1 if it is unknown."""
        if type(name) is Category:
            found = self._categories.get(name.name, {}).get(name.value)
        else:
            found = self._numbers.get(name)
        return -1 if found is None else <int32_t> found

    cdef int32_t add(self, object name) except -1:
        """The column of a name or `Category`, appended if it is unknown."""
        cdef int32_t column = self.find(name)
        cdef dict home
        if column >= 0:
            return column
        if len(self.names) == 0x7FFFFFFF:
            raise OverflowError("more than 2**31 - 1 features")
        column = <int32_t> len(self.names)
        if type(name) is not Category:
            self._numbers[name] = column
            home = self._numbers
        elif name.name in self._categories:
            home = self._categories[name.name]
            home[name.value] = column
        else:
            home = {name.value: column}
            self._categories[name.name] = home
        self.names.append(name)
        self._homes.append(home)
        return column

    cdef int truncate(self, Py_ssize_t size) except -1:
        """Forget the columns from `size` on. Asks no name for its hash: that might raise."""
        cdef dict home
        while len(self.names) > size:
            self.names.pop()
            home = self._homes.pop()
            # dicts keep the order of insertion, so the last one in is the right one
            home.popitem()
            if not home and home is not self._numbers:
                self._categories.popitem()
        return 0

    cdef int read(self, dict x, RowBuffer out, bint keep_new) except -1:
        """Write the features of `x` to `out`; nothing of the index changes but its memory.

        Missing values are written as NaN when their column is known and left out otherwise.
        A name that is new is left out, or with `keep_new` kept aside under a negative
        column until `commit`.
        """
        cdef Py_ssize_t position = 0, place = 0, n = 0
        cdef PyObject* key
        cdef PyObject* value
        cdef int32_t column
        cdef double number
        cdef long whole
        cdef int overflow
        cdef bint is_text
        cdef object name, text
        cdef Py_ssize_t size = len(x)
        self._new_names.clear()
        out.reserve(size)
        out.n = 0
        while PyDict_Next(x, &position, &key, &value):
            is_text = False
            if PyFloat_CheckExact(<object> value):
                number = PyFloat_AS_DOUBLE(<object> value)
                if isinf(number):
                    as_number(<object> key, <object> value)
            elif isinstance(<object> value, str):
                is_text = True
                number = 1.0
            elif PyLong_CheckExact(<object> value):
                whole = PyLong_AsLongAndOverflow(<object> value, &overflow)
                number = <double> whole
                if overflow:
                    number = as_number(<object> key, <object> value)
            else:
                # own references: the value's own code may run, and change x
                name = <object> key
                text = <object> value
                number = as_number(name, text)
            if (
                place < self._places
                and self._seen_keys[place] == key
                and self._seen_values[place] == (value if is_text else NULL)
            ):
                # the very objects that stood here last time: no need to hash them
                column = self._seen_columns[place]
            else:
                # own references again: comparing the name may run its code
                name = <object> key
                text = <object> value if is_text else None
                column = self._column(name, text, keep_new and not isnan(number))
                if column >= 0:
                    self._remember(place, key, value if is_text else NULL, column)
            place += 1
            if column == -1:
                continue
            if n >= size:
                break
            out.columns[n] = column
            out.values[n] = number
            n += 1
        if place != size or len(x) != size:
            raise RuntimeError("x changed while it was read")
        out.n = n
        return 0

    cdef int32_t _column(self, object key, object value, bint keep_new) except -2:
        """The column of (key, text or None): -1 unknown, below -1 kept aside as new."""
        cdef object found
        self.refuse_category(key)
        if value is None:
            found = self._numbers.get(key)
        else:
            found = self._categories.get(key)
            if found is not None:
                found = (<dict> found).get(value)
        if found is not None:
            return <int32_t> found
        if not keep_new:
            return -1
        # str(): a subclass such as numpy.str_ must not live on in the model
        self._new_names.append(key if value is None else Category(key, str(value)))
        return -2 - <int32_t> len(self._new_names)

    cdef int _remember(
        self, Py_ssize_t place, PyObject* key, PyObject* value, int32_t column
    ) except -1:
        cdef Py_ssize_t places
        if place >= self._places:
            places = 2 * place + 8
            self._seen_keys = <PyObject**> regrown(self._seen_keys, places * sizeof(PyObject*))
            self._seen_values = <PyObject**> regrown(
                self._seen_values, places * sizeof(PyObject*)
            )
            self._seen_columns = <int32_t*> regrown(self._seen_columns, places * sizeof(int32_t))
            memset(&self._seen_keys[self._places], 0,
                   (places - self._places) * sizeof(PyObject*))
            memset(&self._seen_values[self._places], 0,
                   (places - self._places) * sizeof(PyObject*))
            self._places = places
        # the cache owns what it compares with, so a pointer never outlives its object
        Py_INCREF(<object> key)
        if value != NULL:
            Py_INCREF(<object> value)
        key, self._seen_keys[place] = self._seen_keys[place], key
        value, self._seen_values[place] = self._seen_values[place], value
        self._seen_columns[place] = column
        Py_XDECREF(key)
        Py_XDECREF(value)
        return 0

    cdef int commit(self, RowBuffer out) except -1:
        """Append the names that `read` kept aside and give their columns to the row."""
        cdef Py_ssize_t i, size = len(self.names)
        if not self._new_names:
            return 0
        try:
            for i in range(out.n):
                if out.columns[i] < -1:
                    out.columns[i] = self.add(self._new_names[-out.columns[i] - 3])
        except BaseException:
            self.truncate(size)
            raise
        finally:
            self._new_names.clear()
        return 0
