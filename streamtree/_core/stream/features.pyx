"""Feature names, any hashable objects, and the pairs of column and value that dicts become.

A number under a name is the column `name`; a string under a name is the column
`(name, string)` with value 1, held as a `Category` among the names. So is a number where the
name is that of a nominal attribute.
"""

cimport cython
from cpython.ref cimport Py_INCREF, Py_XDECREF
from libc.float cimport DBL_MAX
from libc.math cimport NAN, isinf, isnan
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memset

from streamtree._core.kernels.rng cimport splitmix64
from streamtree._core.store.budget cimport spacious
from streamtree._core.store.memory cimport larger, regrown
from streamtree._core.stream.buffers cimport RowBuffer

import re
import warnings
from decimal import Decimal
from numbers import Integral, Real
from typing import NamedTuple

import numpy as np

PLAIN_NAMES = (str, int, float, bytes, np.generic, type(None))
PACKAGE = "streamtree."
# types of what is missing besides None and NaN, all of pandas
MISSING = {"NAType", "NaTType"}
# what stands in a representation that follows an address, or the order of a set
UNSTABLE = re.compile(r" at 0x[0-9a-fA-F]+|frozenset\(\{")

cdef extern from "Python.h":
    # with borrowed references: what a dict holds is not to be counted anew for every look
    int PyDict_Next(PyObject* x, Py_ssize_t* position, PyObject** key, PyObject** value)
    bint PyFloat_CheckExact(PyObject* value)
    double PyFloat_AS_DOUBLE(PyObject* value)
    bint PyUnicode_Check(PyObject* value)
    bint PyUnicode_CheckExact(PyObject* value)
    bint PyLong_CheckExact(PyObject* value)
    long PyLong_AsLongAndOverflow(PyObject* value, int* overflow)
    # borrowed, too; NULL where a thread began with a compiled function
    PyObject* PyEval_GetFrame()

cdef extern from *:
    """
    /* A number that no other dict has, nor this one once it was changed; 0: Python tells none. */
    static uint64_t streamtree_dict_version(PyObject *x) {
    #if PY_VERSION_HEX < 0x030C0000 && !defined(PYPY_VERSION)
        return ((PyDictObject *) x)->ma_version_tag;
    #else
        return 0;
    #endif
    }
    """
    uint64_t dict_version "streamtree_dict_version"(PyObject* x)


cpdef int warn(str message) except -1:
    """Warn of a line outside this package; compiled functions have no frames."""
    cdef PyObject* innermost = PyEval_GetFrame()
    level, frame = 1, None if innermost == NULL else <object> innermost
    while frame is not None and frame.f_globals.get("__name__", "").startswith(PACKAGE):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, stacklevel=level)
    return 0


cdef str name_text(object name):
    """The representation of a name: the same in every process, by every version of numpy."""
    if type(name) is Category:
        return f"Category(name={name_text(name[0])}, value={name[1]!r})"
    if isinstance(name, np.generic):
        name = name.item()
    return repr(name)


cdef uint32_t stable_hash(object name) except? 0:
    """The same number for the same name in every process (FNV-1a of its representation)."""
    cdef uint32_t value = 2166136261u
    cdef unsigned char byte
    for byte in name_text(name).encode("utf-8", "surrogatepass"):
        value = (value ^ byte) * 16777619u
    return value


cdef int check_name(object name) except -1:
    """Raise if what a name is called may differ between two processes, or it is not itself."""
    cdef list parts
    if type(name) is str or type(name) is int:
        return 0
    parts = [name]
    while parts:
        part = parts.pop()
        if isinstance(part, tuple):
            parts.extend(part)
        elif type(part).__name__ == "NAType" or part != part:
            raise ValueError(
                f"feature {name!r}: {part!r} does not equal itself, so it cannot be a name"
            )
        elif not isinstance(part, PLAIN_NAMES):
            text = repr(part)
            if type(part).__repr__ is object.__repr__ or UNSTABLE.search(text):
                raise TypeError(
                    f"feature {name!r}: its representation differs from process to process, so it "
                    "cannot be a name; use a str, a number or a tuple of these"
                )
    return 0


class Category(NamedTuple):
    """The column of one value of a categorical feature."""

    name: object
    value: str


class Shared(NamedTuple):
    """The column of all names that have one hash, where there is no room for one each."""

    number: int

    def __str__(self):
        return f"other names, part {self.number}"


cdef enum:
    # What a column is counted as, besides the object that names it, where names must find room:
    # entries of dicts and lists, numbers as objects, its code, its scale, its place in orders.
    COLUMN_BYTES = 400
    # of these, what the entries and numbers take; both measured over 100,000 columns
    ENTRY_BYTES = 100
    # of the bytes for names: one part of so many for columns that names share
    SHARED_PART = 8
    # of the same, one part for each feature's categories at the most
    FEATURE_PART = 2
    # Names of the first rows that take less than one part of so many of it lend memory to the tree.
    # They keep so many times what they take, no less than that part, and lend no more than this.
    LENT_PART = 4
    MOST_LENT = 1 << 20
    # of the same, when to warn of the categories of a feature, and of names
    TOLD_OF_FEATURE = 10
    TOLD_OF_NAMES = 2
    # categories of a feature, when to warn that all are numbers
    TOLD_OF_NUMBERS = 1000


cdef bint are_numbers(list texts) except -1:
    """Whether all of some strings are numbers and most have a point, as identifiers have not."""
    cdef Py_ssize_t n_points = 0
    for text in texts:
        try:
            float(text)
        except ValueError:
            return False
        n_points += "." in text
    return 2 * n_points > len(texts)


cdef int64_t object_bytes(object name) except -1:
    """About what a name or label takes; the same in every process, unlike `sys.getsizeof`."""
    cdef int64_t total = 64
    if isinstance(name, str):
        return total + len(name) * (1 if name.isascii() else 4)
    if isinstance(name, bytes):
        return total + len(name)
    if isinstance(name, (tuple, frozenset)):
        for part in name:
            total += 8 + object_bytes(part)
    return total


cdef double as_number(object key, object value) except? -1.0:
    """The value of a feature as a float, NaN if it is missing; raises by the feature's name."""
    cdef double number
    if value is None or type(value).__name__ in MISSING:
        return NAN
    if not isinstance(value, (int, float, np.number, np.bool_, Decimal)) or isinstance(
        value, (complex, np.complexfloating, np.timedelta64)
    ):
        hint = ""
        if isinstance(value, np.timedelta64) or hasattr(value, "total_seconds"):
            hint = "; of a duration give the seconds"
        elif hasattr(value, "isoformat") or isinstance(value, np.datetime64):
            # seconds since 1970 alone would say nothing of days and weeks
            hint = "; of a date give the parts that matter, such as hour and weekday, " \
                   "and days since some day"
        raise TypeError(
            f"feature {key!r}: expected a number, a string or None, "
            f"got {type(value).__name__}{hint}"
        )
    try:
        number = float(value)
    except OverflowError:
        # an int of thousands of digits cannot even be printed
        raise ValueError(f"feature {key!r}: the integer is too large for a float") from None
    except ValueError as error:
        raise ValueError(f"feature {key!r}: {error}") from None
    if isinf(number):
        raise ValueError(f"feature {key!r}: the value {value!r} is infinite")
    return number


cpdef str category_text(object value):
    """What a value that names a category is called: a number as its integer if it has one."""
    if type(value) is str or type(value) is int:
        return str(value)
    if type(value) is float:
        return str(int(value)) if value.is_integer() else repr(value)
    # of all types there are, which takes longer
    if isinstance(value, Integral) and not isinstance(value, bool):
        return str(int(value))
    if isinstance(value, (Real, Decimal)) and not isinstance(value, bool):
        value = float(value)
        return str(int(value)) if value.is_integer() else repr(value)
    return str(value)


cdef inline bint is_exact(PyObject* value) noexcept:
    """Whether a value has no code of its own."""
    return PyFloat_CheckExact(value) or PyUnicode_CheckExact(value) or PyLong_CheckExact(value)


cdef inline double value_as_number(
    PyObject* key, PyObject* value, bint* is_text, bint* is_plain
) except? -1.0:
    """A value as a number, 1 for a text; raises by the feature's name.

    `is_plain` becomes False if the same object might be another number the next time.
    """
    cdef double number
    cdef int overflow = 0
    is_text[0] = False
    if PyFloat_CheckExact(value):
        number = PyFloat_AS_DOUBLE(value)
        return as_number(<object> key, <object> value) if isinf(number) else number
    if PyUnicode_Check(value):
        is_text[0] = True
        is_plain[0] &= PyUnicode_CheckExact(value)
        return 1.0
    if PyLong_CheckExact(value):
        number = <double> PyLong_AsLongAndOverflow(value, &overflow)
        if not overflow:
            return number
    is_plain[0] = False
    return as_number(<object> key, <object> value)


cdef inline int said_by(double value) noexcept nogil:
    """How much a cell says: nothing if it is missing, a little if it is zero."""
    return (value == value) + (value < 0.0 or value > 0.0)


# of a model without categories, or without columns that names share: nothing is ever put there
cdef dict NONE_YET = {}


@cython.final
cdef class Categories:
    """The columns of a categorical feature."""

    def __cinit__(self, int32_t number, uint32_t tie):
        self.columns = {}
        self.number = number
        self.tie = tie


@cython.final
cdef class FeatureIndex:
    """An append-only map from feature names to the column numbers 0, 1, 2, ..."""

    def __cinit__(self, list names=None, frozenset nominal=frozenset()):
        self.nominal = nominal
        self._numbers = {}
        self._categories = self._shared = NONE_YET
        self.names = []
        self.most = UNBOUNDED
        for name in names or ():
            self.add(name)

    def __dealloc__(self):
        cdef Py_ssize_t place
        for place in range(self._places):
            Py_XDECREF(self._entries[place].key)
            Py_XDECREF(self._entries[place].text)
            Py_XDECREF(self._entries[place].value)
        free(self._entries)
        free(self.hashes)
        free(self.ties)
        free(self.groups)
        free(self.are_shared)

    def __len__(self):
        return len(self.names)

    cdef size_t n_bytes(self) noexcept:
        """What the names take, and room to read a row."""
        cdef size_t total = self._bytes - len(self.names) * (COLUMN_BYTES - ENTRY_BYTES)
        total += self._capacity * (2 * sizeof(uint32_t) + sizeof(int32_t) + sizeof(char))
        return total + self._places * sizeof(Entry)

    cdef int refuse_category(self, object name) except -1:
        """What the index calls a column cannot name a feature as well."""
        if type(name) is Shared:
            raise TypeError(f"feature {name!r}: a Shared is the column of several names")
        if type(name) is Category:
            raise TypeError(
                f"feature {name!r}: a Category is the column of one value; "
                "give the feature by its own name, with the value as a string"
            )
        return 0

    def kind_of(self, name):
        """What a feature has come as: "numbers", "categories", "both", or "" if it is unknown."""
        if name in self._numbers:
            return "both" if name in self._categories else "numbers"
        return "categories" if name in self._categories else ""

    cpdef int32_t find(self, object name) except -2:
        """The column of a name, `Category` or `Shared`, -1 if it is unknown."""
        if type(name) is Category:
            found = self._categories.get(name[0])
            if found is not None:
                found = (<Categories> found).columns.get(name[1])
        elif type(name) is Shared:
            found = self._shared.get(name.number)
        else:
            found = self._numbers.get(name)
        return -1 if found is None else <int32_t> found

    cdef int32_t add(self, object name) except -1:
        """The column of a name, `Category` or `Shared`, appended if it is unknown."""
        cdef int32_t column = self.find(name)
        cdef int32_t group = -1
        cdef uint32_t name_hash, tie
        cdef int64_t size
        cdef Categories home = None
        if column >= 0:
            return column
        if len(self.names) == 0x7FFFFFFF:
            raise OverflowError("more than 2**31 - 1 features")
        column = <int32_t> len(self.names)
        # whatever may raise comes first: a name's own code runs
        name_hash = tie = stable_hash(name)
        if type(name) is Category:
            home = self._categories.get(name[0])
            if home is None:
                home = Categories(<int32_t> len(self._categories), stable_hash(name[0]))
            # The value does not enter: the categories of a feature are one candidate for a split.
            # The first one counts, for equal names may be spelled differently: 1 and 1.0.
            tie, group = home.tie, home.number
        size = COLUMN_BYTES + object_bytes(name)
        self._reserve(column + 1)
        if type(name) is Shared:
            self._shared = self._shared or {}
            self._shared[name.number] = column
            self.n_shared += 1
        elif home is None:
            self._numbers[name] = column
        else:
            self._categories = self._categories or {}
            self._categories[name[0]] = home
            home.columns[name[1]] = column
            home.bytes += size
            self._homes = self._homes or []
            self._homes.append(home)
        self.names.append(name)
        self.hashes[column], self.ties[column] = <uint32_t> splitmix64(name_hash), tie
        self.groups[column], self.are_shared[column] = group, type(name) is Shared
        self.n_groups = max(self.n_groups, group + 1)
        self._bytes += size
        return column

    cdef int _reserve(self, Py_ssize_t size) except -1:
        """Make room for what is kept by column."""
        cdef Py_ssize_t capacity = spacious(size)
        if size > self._capacity:
            self.hashes = <uint32_t*> regrown(self.hashes, capacity * sizeof(uint32_t))
            self.ties = <uint32_t*> regrown(self.ties, capacity * sizeof(uint32_t))
            self.groups = <int32_t*> regrown(self.groups, capacity * sizeof(int32_t))
            self.are_shared = <char*> regrown(self.are_shared, capacity * sizeof(char))
            self._capacity = capacity
        return 0

    # --------------------------------------------------------------- more than there is room for

    cdef bint admits(self, object name) except -1:
        """Whether there is room for a name that is new: once there is none, never before the bound
        is raised."""
        cdef int64_t size, spent = 0, most = self.most
        if most == UNBOUNDED:
            return True
        size = COLUMN_BYTES + object_bytes(name)
        if self._bytes + size > most - most // SHARED_PART:
            return False
        if type(name) is not Category:
            return True
        if name[0] in self._categories:
            spent = (<Categories> self._categories[name[0]]).bytes
        return spent + size <= most // FEATURE_PART

    cdef int lend(self, Py_ssize_t n) except -1:
        """Let names have less from now on, where the first n of them are few."""
        cdef int64_t taken = 0
        if self.most == UNBOUNDED:
            return 0
        for name in self.names[:n]:
            # shared columns are numbered by what names may have
            if type(name) is Shared or LENT_PART * taken >= self.most:
                return 0
            taken += COLUMN_BYTES + object_bytes(name)
        self.most = min(self.most, max(
            LENT_PART * taken, self.most // LENT_PART, self.most - MOST_LENT
        ))
        return 0

    cdef object _shared_name(self, object name):
        """The column that a name shares, always the same."""
        cdef int64_t n = self.most // SHARED_PART // (COLUMN_BYTES + object_bytes(Shared(0)))
        cdef uint64_t value
        if type(name) is Category:
            value = splitmix64(<uint64_t> stable_hash(name[0]) << 32 | stable_hash(name[1]))
        else:
            value = splitmix64(stable_hash(name))
        return Shared(int(value % <uint64_t> max(n, 1)))

    cdef object place_for(self, object name):
        """The name itself, if it has or finds room, or the column that it shares with others."""
        if type(name) is Shared or self.find(name) >= 0 or self.admits(name):
            return name
        return self._shared_name(name)

    cdef int32_t let_in(self, object name) except -1:
        """The column of a name that is learned, its own or one that it shares."""
        name = self.place_for(name)
        # names that are read back have been told of before
        if type(name) is not Shared and self.find(name) < 0:
            self._tell_of(name)
        return self.add(name)

    cdef int _tell_of(self, object name) except -1:
        """Warn where a name that is new is one too many."""
        cdef Categories home
        cdef int64_t size = COLUMN_BYTES + object_bytes(name)
        if type(name) is not Category:
            return self._warn(name, self._bytes, self._bytes + size, self.most // TOLD_OF_NAMES)
        home = self._categories.get(name[0])
        if home is None:
            return 0
        self._warn(name, home.bytes, home.bytes + size, self.most // TOLD_OF_FEATURE)
        if (
            len(home.columns) == TOLD_OF_NUMBERS and name[0] not in self.nominal
            and are_numbers(list(home.columns))
        ):
            warn(
                f"feature {name[0]!r} has {TOLD_OF_NUMBERS:,} categories that are numbers, "
                f"such as {name[1]!r}: if they are amounts, give numbers in their place"
            )
        return 0

    cdef int _warn(self, object name, int64_t before, int64_t after, int64_t most) except -1:
        """Tell once that a feature's categories, or all names, become too many."""
        if not before <= most < after:
            return 0
        if type(name) is Category:
            n = len((<Categories> self._categories[name[0]]).columns)
            what = f"feature {name[0]!r} has had {n} different strings, the last {name[1]!r}"
        else:
            what = f"{len(self.names)} features have come, the last {name!r}"
        warn(
            f"{what}: each is a column of its own, and those that find no room within max_bytes "
            "share a few columns"
        )
        return 0

    cdef int merge(self, RowBuffer row) except -1 nogil:
        """Make one value, their sum, of those that share a column; a row lists it once.

        Its place is that of the first of them that is a value, or else a zero: what a row leaves
        out and what it lists as missing or as zero is to make no difference.
        """
        cdef Py_ssize_t i, size = 0, n = 0
        cdef int32_t column
        cdef int32_t* marks             # where the row has a column, counted from 1
        cdef double value
        cdef double* held
        row.reserve_marks(self._capacity)
        marks = row.marks
        for i in range(row.n):
            column, value = row.columns[i], row.values[i]
            if column >= 0 and self.are_shared[column]:
                if marks[column]:
                    held = &row.values[marks[column] - 1]
                    if said_by(value) <= said_by(held[0]):
                        if not isnan(value):
                            held[0] = min(max(held[0] + value, -DBL_MAX), DBL_MAX)
                        continue
                    row.columns[marks[column] - 1] = -1
                marks[column] = <int32_t> size + 1
            row.columns[size] = column
            row.values[size] = value
            size += 1
        for i in range(size):
            column = row.columns[i]
            if column >= 0:
                marks[column] = 0
            row.columns[n] = column
            row.values[n] = row.values[i]
            n += column != -1
        row.n = n
        return 0

    cdef int truncate(self, Py_ssize_t size) except -1:
        """Forget the columns from `size` on. Asks no name for its hash: that might raise."""
        cdef Categories home
        cdef int64_t spent
        while len(self.names) > size:
            name = self.names.pop()
            spent = COLUMN_BYTES + object_bytes(name)
            self._bytes -= spent
            # dicts keep the order of insertion, so the last one in is the right one
            if type(name) is Shared:
                self._shared.popitem()
                self.n_shared -= 1
            elif type(name) is not Category:
                self._numbers.popitem()
            else:
                home = self._homes.pop()
                home.columns.popitem()
                home.bytes -= spent
                if not home.columns:
                    self._categories.popitem()
        return 0

    cdef int read(self, dict x, RowBuffer out, bint keep_new) except -1:
        """Write the features of `x` to `out`; nothing of the index changes but its memory.

        Missing values are written as NaN when their column is known and left out otherwise.
        A name that is new is left out, or with `keep_new` kept aside under a negative
        column until `commit`. A column that names share may be listed more than once: `merge`.
        """
        cdef Py_ssize_t position = 0, place = 0, n = 0
        cdef PyObject* key
        cdef PyObject* value
        cdef Entry* entry
        cdef int32_t column
        cdef double number
        cdef bint is_text = False, is_plain = True
        cdef object name, held
        cdef Py_ssize_t size = len(x)
        cdef uint64_t me = self._reads + 1, version = dict_version(<PyObject*> x)
        self._reads = me
        self._new_names = None
        self._last_size = -1
        self._make_places(size)
        out.reserve(size)
        out.n = 0
        while PyDict_Next(<PyObject*> x, &position, &key, &value) and place < size:
            if not is_exact(value):
                # own references: the value's own code may run, and change x
                name, held = <object> key, <object> value
            number = value_as_number(key, value, &is_text, &is_plain)
            # found anew for every value: code of another one may have moved it
            entry = &self._entries[place]
            if entry.key == key and entry.text == (value if is_text else NULL):
                # the very objects that stood here last time: no need to hash them
                column = entry.column
            else:
                # own references: comparing the name may run its code
                name, held = <object> key, <object> value
                column = self._look_up(place, name, held, &number, is_text, keep_new)
                entry = &self._entries[place]
            if entry.value != value:
                Py_INCREF(<object> value)
                entry.value, value = value, entry.value
                Py_XDECREF(value)
            place += 1
            if column < 0:
                is_plain = False
                if column == -1:
                    continue
            out.columns[n] = column
            out.values[n] = number
            n += 1
        if place != size or len(x) != size or PyDict_Next(<PyObject*> x, &position, &key, &value):
            raise RuntimeError("x changed while it was read")
        out.n = n
        # -1 also where another dict was read in the middle, by the code of a name
        self._last_size = size if is_plain and self._reads == me else -1
        self._last_version = version
        return 0

    cdef void check_rows(self, bint are_checked) noexcept:
        """Whether rows are only looked at from now on, for errors: each name is checked once."""
        self._checked = set() if are_checked else None

    cdef int32_t _look_up(self, Py_ssize_t place, object key, object value, double* number,
                          bint is_text, bint keep_new) except -2:
        """The column of an entry that did not stand here last time, see `_column`."""
        cdef bint is_present = not isnan(number[0])
        cdef bint is_named = not is_text and key in self.nominal
        cdef int32_t column
        if is_named and is_present:
            value, number[0] = category_text(value), 1.0
        elif not is_text:
            value = None
        column = self._column(key, value, keep_new and is_present)
        # another number under the name of a nominal column is another category
        if column >= 0 and not is_named:
            self._remember(place, <PyObject*> key, <PyObject*> value if is_text else NULL, column)
        return column

    cdef void forget_read(self) noexcept:
        """Look all names up anew: their columns are no longer there."""
        cdef Py_ssize_t place
        cdef PyObject* key
        self._last_size = -1
        for place in range(self._places):
            key, self._entries[place].key = self._entries[place].key, NULL
            Py_XDECREF(key)

    cdef bint repeats(self, dict x) noexcept:
        """Whether a dict holds the very objects, all known and of plain types, that were read last.

        Then it says what it said before.
        """
        cdef Py_ssize_t position = 0
        cdef PyObject* key
        cdef PyObject* value
        cdef const Entry* entry = self._entries
        if len(x) != self._last_size:
            return False
        if self._last_version and dict_version(<PyObject*> x) == self._last_version:
            return True
        while PyDict_Next(<PyObject*> x, &position, &key, &value):
            if entry.key != key or entry.value != value:
                return False
            entry += 1
        return True

    cdef int32_t _column(self, object key, object value, bint keep_new) except -2:
        """The column of (key, text or None): -1 unknown, below -1 kept aside as new."""
        cdef object found
        cdef bint checks
        self.refuse_category(key)
        if value is None:
            found = self._numbers.get(key)
        else:
            found = self._categories.get(key)
            if found is not None:
                found = (<Categories> found).columns.get(value)
        if found is not None:
            return <int32_t> found
        if not keep_new and not self.n_shared:
            return -1
        checks = keep_new and self._checked is not None
        if checks and key in self._checked and (value is None or type(value) is str):
            return -1
        check_name(key)
        if checks:
            self._checked.add(key)
        # str(): a subclass such as numpy.str_ must not live on in the model
        name = key if value is None else Category(key, str(value))
        if not self.admits(name):
            name = self._shared_name(name)
            found = self._shared.get(name.number)
            if found is not None:
                return <int32_t> found
        if not keep_new:
            return -1
        if self._new_names is None:
            self._new_names = []
        self._new_names.append(name)
        return -2 - <int32_t> len(self._new_names)

    cdef int _remember(self, Py_ssize_t place, PyObject* key, PyObject* text,
                       int32_t column) except -1:
        cdef Entry* entry = &self._entries[place]
        Py_INCREF(<object> key)
        if text != NULL:
            Py_INCREF(<object> text)
        key, entry.key = entry.key, key
        text, entry.text = entry.text, text
        entry.column = column
        Py_XDECREF(key)
        Py_XDECREF(text)
        return 0

    cdef int _make_places(self, Py_ssize_t size) except -1:
        """Room to remember as many entries of a dict."""
        cdef Py_ssize_t first = self._places, places = larger(first, size)
        if size <= first:
            return 0
        self._entries = <Entry*> regrown(self._entries, places * sizeof(Entry))
        memset(&self._entries[first], 0, (places - first) * sizeof(Entry))
        self._places = places
        return 0

    cdef int commit(self, RowBuffer out) except -1:
        """Append the names that `read` kept aside and give their columns to the row."""
        cdef Py_ssize_t i, size = len(self.names)
        if self._new_names is None:
            return 0
        try:
            for i in range(out.n):
                if out.columns[i] < -1:
                    out.columns[i] = self.let_in(self._new_names[-out.columns[i] - 3])
            if self.n_shared:
                self.merge(out)
        except BaseException:
            self.truncate(size)
            raise
        finally:
            self._new_names = None
        return 0
