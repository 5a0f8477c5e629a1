"""A window of recent rows by columns, in single precision, in a ring.

Every row has a number, from 0 on, and while it can be read a slot. A column that most rows have is
a field, an array by slot; so are the categories of one feature. What is left, the words of sparse
rows, lies in a list for every row.
"""

cimport cython
from libc.math cimport NAN
from libc.stdint cimport int32_t, int64_t, uint32_t
from libc.stdlib cimport free, malloc

from streamtree._core.store.memory cimport raise_no_memory, regrown
from streamtree._core.stream.context cimport Context
from streamtree._core.stream.row cimport Example, Row, View
from streamtree._core.stream.table cimport narrowed

import numpy as np

from streamtree._core.store.state import check_counts, check_finite, check_rows, require

cdef enum:
    FIRST_SLOTS = 320
    FIRST_ENTRIES = 1024
    # so many columns are fields whatever they hold; of more, those whose zeros are listed
    FEW_FIELDS = 64
    # so many features with categories are fields
    MANY_FIELDS = 1024

# beyond all hashes of names
cdef int64_t NO_NAME = 1 << 32

# beyond these weights, sums in single precision would not stay finite, or positive
cdef double LEAST_WEIGHT = 1e-6
cdef double MOST_WEIGHT = 1e6


@cython.final
cdef class Window:
    """`length` rows for trees to grow from, and a quarter more for those that are at it."""

    def __cinit__(self, int32_t length):
        self.length = length

    def __dealloc__(self):
        cdef int32_t field
        for field in range(self.n_fields):
            free(self.fields[field].numbers)
            free(self.fields[field].codes)
        free(self.fields)
        free(self.ranked)
        free(self.field_of)
        free(self.field_of_group)
        free(self.labels)
        free(self.targets)
        free(self.weights)
        free(self.starts)
        free(self.ends)
        free(self.list_columns)
        free(self.list_values)

    cdef int bind(self, Context context) except -1:
        """Take the context of a learner; it comes before any row."""
        self.context = context
        return 0

    cdef size_t n_bytes(self) noexcept nogil:
        cdef size_t per_slot = sizeof(int32_t) + sizeof(float)
        per_slot += 4 * self.n_fields
        if self.n_listed_columns:
            per_slot += 2 * sizeof(int64_t)
        if self._has_targets:
            per_slot += sizeof(double)
        return (
            self.capacity * per_slot + self.list_capacity * (sizeof(int32_t) + sizeof(float))
            + self._field_capacity * (sizeof(Field) + sizeof(int32_t))
            + (self._column_capacity + self._group_capacity) * sizeof(int32_t)
        )

    cdef int32_t full_capacity(self) noexcept nogil:
        """The slots of a full window: rows that a tree grows from stay while it grows."""
        return self.length + (self.length + 3) // 4

    # ------------------------------------------------------------------------------- rows

    cdef int push(self, const Row* row, const Example* example) except -1 nogil:
        """Let a row in; the oldest one goes when the window is full."""
        cdef int32_t i, slot, column
        cdef const Field* field
        if self.size == self.capacity and self.capacity < self.full_capacity():
            self._grow()
        if row.listed.top >= self.n_columns:
            self._add_columns(row.listed.top + 1)
        slot = self.slot_of(self.size)
        if self.n_listed_columns:
            self._push_lists(&row.listed, slot)
        for i in range(self.n_fields):
            field = &self.fields[i]
            if field.column >= 0:
                field.numbers[slot] = row.table[field.column]
            else:
                field.codes[slot] = -1
        if self.n_groups:
            for i in range(<int32_t> row.listed.n):
                column = row.listed.columns[i]
                if self.context.groups[column] >= 0 and self.field_of[column] >= 0:
                    field = &self.fields[self.field_of[column]]
                    if field.codes != NULL:
                        field.codes[slot] = column
        self.labels[slot] = example.label
        if self._has_targets:
            self.targets[slot] = example.targets[0]
        self.weights[slot] = <float> max(LEAST_WEIGHT, min(example.weight, MOST_WEIGHT))
        self.size += 1
        return 0

    cdef int _push_lists(self, const View* listed, int32_t slot) except -1 nogil:
        """Write the values of columns that are no fields to the list of a row."""
        cdef Py_ssize_t i
        cdef int32_t column = self._next_to_promote(listed)
        cdef int64_t end
        while column >= 0:
            self._promote(column)
            column = self._next_to_promote(listed)
        end = self.ends[self.slot_of(self.size - 1)] if self.size else 0
        self._reserve_list(end + listed.n - self.starts[self.slot_of(self.first())]
                           if self.size else listed.n)
        self.starts[slot] = end
        for i in range(listed.n):
            column = listed.columns[i]
            if self.field_of[column] < 0:
                self.list_columns[end & (self.list_capacity - 1)] = column
                self.list_values[end & (self.list_capacity - 1)] = narrowed(listed.values[i])
                end += 1
        self.ends[slot] = end
        return 0

    cdef int32_t _next_to_promote(self, const View* listed) noexcept nogil:
        """The first column of a row that is to become a field, -1 if there is none."""
        cdef Py_ssize_t i
        cdef int32_t column, found = -1
        for i in range(listed.n):
            column = listed.columns[i]
            if (
                self.field_of[column] < 0 and self.context.groups[column] < 0
                and self.context.scaler.columns[column].is_listed
                and (found < 0 or column < found)
            ):
                found = column
        return found

    cdef float list_value(self, int32_t slot, int32_t column) noexcept nogil:
        cdef int64_t i, mask = self.list_capacity - 1
        for i in range(self.starts[slot], self.ends[slot]):
            if self.list_columns[i & mask] == column:
                return self.list_values[i & mask]
        return 0.0

    # ------------------------------------------------------------------------------- room

    cdef int _grow(self) except -1 nogil:
        return self._relay(min(
            self.full_capacity(), 2 * self.capacity if self.capacity else FIRST_SLOTS
        ))

    cdef int _relay(self, int32_t capacity) except -1 nogil:
        """Make room for more slots; no row has left so far, so that none changes its slot."""
        cdef int32_t i
        cdef Field* field
        self._has_targets = self.context.n_targets > 0
        for i in range(self.n_fields):
            field = &self.fields[i]
            if field.column >= 0:
                field.numbers = <float*> regrown(field.numbers, capacity * sizeof(float))
            else:
                field.codes = <int32_t*> regrown(field.codes, capacity * sizeof(int32_t))
        self.labels = <int32_t*> regrown(self.labels, capacity * sizeof(int32_t))
        self.weights = <float*> regrown(self.weights, capacity * sizeof(float))
        if self._has_targets:
            self.targets = <double*> regrown(self.targets, capacity * sizeof(double))
        if self.n_listed_columns:
            self.starts = <int64_t*> regrown(self.starts, capacity * sizeof(int64_t))
            self.ends = <int64_t*> regrown(self.ends, capacity * sizeof(int64_t))
        self.capacity = capacity
        return 0

    cdef int _reserve_list(self, int64_t n) except -1 nogil:
        """Room for n entries of all lists together, a power of two."""
        cdef int64_t i, capacity = max(self.list_capacity, FIRST_ENTRIES), end, mask
        cdef int32_t* columns
        cdef float* values
        if n <= self.list_capacity:
            return 0
        while capacity < n:
            capacity *= 2
        columns = <int32_t*> malloc(capacity * sizeof(int32_t))
        values = <float*> malloc(capacity * sizeof(float))
        if columns == NULL or values == NULL:
            free(columns)
            free(values)
            raise_no_memory()
        if self.size and self.list_capacity:
            mask = self.list_capacity - 1
            end = self.ends[self.slot_of(self.size - 1)]
            for i in range(self.starts[self.slot_of(self.first())], end):
                columns[i & (capacity - 1)] = self.list_columns[i & mask]
                values[i & (capacity - 1)] = self.list_values[i & mask]
        free(self.list_columns)
        free(self.list_values)
        self.list_columns, self.list_values = columns, values
        self.list_capacity = capacity
        return 0

    # ---------------------------------------------------------------------------- columns

    cdef int _add_columns(self, int32_t size) except -1 nogil:
        """Learn of the columns below `size`, those of one row.

        Which of them are fields depends on their names, not on the order in which a row has them.
        """
        cdef int32_t column, group, first = self.n_columns
        cdef int64_t last_name
        self._reserve_columns(size)
        for column in range(first, size):
            group = self.context.groups[column]
            if group >= 0:
                self._add_category(column, group)
        last_name = self._last_name(first, size)
        for column in range(first, size):
            if self.context.groups[column] < 0:
                self.field_of[column] = -1
                if self.n_fields < FEW_FIELDS and self.context.hashes[column] <= last_name:
                    self.field_of[column] = self._add_field(
                        column, -1, self.context.hashes[column]
                    )
            if self.field_of[column] < 0:
                self._add_to_lists()
            self.n_columns = column + 1
        return 0

    cdef int _add_category(self, int32_t column, int32_t group) except -1 nogil:
        """Give a category the field of its feature."""
        if group >= self.n_groups:
            self._reserve_groups(group + 1)
        if self.field_of_group[group] < 0 and self.n_fields < MANY_FIELDS:
            self.field_of_group[group] = self._add_field(-1, group, self.context.ties[column])
        self.field_of[column] = self.field_of_group[group]
        return 0

    cdef int64_t _last_name(self, int32_t first, int32_t size) noexcept nogil:
        """The hash up to which the names of new columns are those of fields, while there is room.
        """
        cdef int32_t column, room
        cdef int64_t name, next_name, last_name = -1
        for room in range(FEW_FIELDS - self.n_fields):
            next_name = NO_NAME
            for column in range(first, size):
                name = self.context.hashes[column]
                if self.context.groups[column] < 0 and last_name < name < next_name:
                    next_name = name
            if next_name == NO_NAME:
                break
            last_name = next_name
        return last_name

    cdef int _add_to_lists(self) except -1 nogil:
        """One column more has its values in the lists."""
        cdef int32_t i
        if self.n_listed_columns == 0:
            self.starts = <int64_t*> regrown(self.starts, self.capacity * sizeof(int64_t))
            self.ends = <int64_t*> regrown(self.ends, self.capacity * sizeof(int64_t))
            for i in range(self.capacity):
                self.starts[i] = self.ends[i] = 0
        self.n_listed_columns += 1
        return 0

    cdef int _reserve_columns(self, int32_t size) except -1 nogil:
        if size > self._column_capacity:
            size += size // 2 + 8
            self.field_of = <int32_t*> regrown(self.field_of, size * sizeof(int32_t))
            self._column_capacity = size
        return 0

    cdef int _reserve_groups(self, int32_t size) except -1 nogil:
        cdef int32_t group
        if size > self._group_capacity:
            self._group_capacity = size + size // 2 + 8
            self.field_of_group = <int32_t*> regrown(
                self.field_of_group, self._group_capacity * sizeof(int32_t)
            )
        for group in range(self.n_groups, size):
            self.field_of_group[group] = -1
        self.n_groups = size
        return 0

    cdef int32_t _add_field(self, int32_t column, int32_t group,
                            uint32_t name) except -1 nogil:
        """A field of numbers, or of categories; missing in the rows before its birth."""
        cdef int32_t capacity, slot
        cdef int64_t row, birth
        cdef Field* field
        if self.n_fields == self._field_capacity:
            capacity = self.n_fields + self.n_fields // 2 + 8
            self.fields = <Field*> regrown(self.fields, capacity * sizeof(Field))
            self.ranked = <int32_t*> regrown(self.ranked, capacity * sizeof(int32_t))
            self._field_capacity = capacity
        field = &self.fields[self.n_fields]
        field.column, field.group, field.name = column, group, name
        field.numbers = NULL
        field.codes = NULL
        if group >= 0:
            field.codes = <int32_t*> regrown(NULL, self.capacity * sizeof(int32_t))
            for slot in range(self.capacity):
                field.codes[slot] = -1
        else:
            field.numbers = <float*> regrown(NULL, self.capacity * sizeof(float))
            birth = self.context.scaler.columns[column].birth
            for row in range(self.first(), self.size):
                field.numbers[self.slot_of(row)] = NAN if row < birth else 0.0
        self.n_fields += 1
        self._rank(self.n_fields - 1)
        return self.n_fields - 1

    cdef void _rank(self, int32_t field) noexcept nogil:
        """Put a new field in its place among the others."""
        cdef int32_t place = field
        while place and self.fields[self.ranked[place - 1]].name > self.fields[field].name:
            self.ranked[place] = self.ranked[place - 1]
            place -= 1
        self.ranked[place] = field

    cdef int _promote(self, int32_t column) except -1 nogil:
        """Make a field of a column whose values lay in lists; what is there stays there, unread."""
        cdef int64_t row
        cdef int32_t slot, field
        field = self._add_field(column, -1, self.context.hashes[column])
        for row in range(self.first(), self.size):
            slot = self.slot_of(row)
            self.fields[field].numbers[slot] = self.list_value(slot, column)
        self.field_of[column] = field
        self.n_listed_columns -= 1
        return 0

    # ------------------------------------------------------------------------------ state

    cdef dict state(self):
        """The rows from the oldest that can be read, as arrays."""
        cdef Py_ssize_t n = self.size - self.first()
        slots = np.arange(self.first(), self.size) % max(self.capacity, 1)
        fields = range(self.n_fields)
        numbers = [i for i in fields if self.fields[i].column >= 0]
        categories = [i for i in fields if self.fields[i].column < 0]
        starts, columns, values = self._lists(slots)
        return {
            "size": self.size,
            "length": self.length,
            "field_of": ints(self.field_of, self.n_columns),
            "columns": np.array([self.fields[i].column for i in fields], dtype=np.int32),
            "groups": np.array([self.fields[i].group for i in fields], dtype=np.int32),
            "numbers": np.array(
                [floats(self.fields[i].numbers, self.capacity)[slots] for i in numbers],
                dtype=np.float32,
            ).reshape(len(numbers), n),
            "codes": np.array(
                [ints(self.fields[i].codes, self.capacity)[slots] for i in categories],
                dtype=np.int32,
            ).reshape(len(categories), n),
            "labels": ints(self.labels, self.capacity)[slots],
            "targets": np.asarray(<double[:self.capacity]> self.targets)[slots]
            if self._has_targets else np.empty(0),
            "weights": floats(self.weights, self.capacity)[slots],
            "starts": starts,
            "list_columns": columns,
            "list_values": values,
        }

    def _lists(self, slots):
        """The lists of rows one after the other: where each begins, columns, values."""
        cdef int32_t slot
        cdef int64_t end
        if self.n_listed_columns == 0:
            return (
                np.zeros(len(slots) + 1, dtype=np.int64), np.empty(0, dtype=np.int32),
                np.empty(0, dtype=np.float32),
            )
        starts = [0]
        for slot in slots.tolist():
            starts.append(starts[len(starts) - 1] + self.ends[slot] - self.starts[slot])
        end = self.ends[self.slot_of(self.size - 1)] if self.size else 0
        places = np.arange(end - starts[len(starts) - 1], end) & (self.list_capacity - 1)
        columns = ints(self.list_columns, self.list_capacity)[places]
        # by column, whatever the order in which a row had them
        order = np.lexsort((columns, np.repeat(np.arange(len(slots)), np.diff(starts))))
        return (
            np.array(starts, dtype=np.int64), columns[order],
            floats(self.list_values, self.list_capacity)[places[order]],
        )

    cdef int take_state(self, dict state) except -1:
        """Take over what `state` gave; the window is new."""
        cdef int32_t i, field, column, slot
        cdef int32_t n_numbers = 0, n_categories = 0
        cdef int64_t row, k, size = state["size"]
        cdef const int32_t[::1] field_of = state["field_of"], labels = state["labels"]
        cdef const int32_t[::1] columns = state["columns"], groups = state["groups"]
        cdef const int32_t[:, ::1] codes = state["codes"]
        cdef const float[:, ::1] numbers = state["numbers"]
        cdef const float[::1] weights = state["weights"]
        cdef const double[::1] targets = state["targets"]
        self.length = state["length"]
        while self.capacity < min(size, <int64_t> self.full_capacity()):
            self._grow()
        names = self._names(groups, field_of)
        for i in range(columns.shape[0]):
            self._add_field(columns[i], groups[i], names[i])
            if groups[i] >= 0:
                if groups[i] >= self.n_groups:
                    self._reserve_groups(groups[i] + 1)
                self.field_of_group[groups[i]] = i
        self.n_columns = <int32_t> field_of.shape[0]
        self._reserve_columns(self.n_columns)
        for column in range(self.n_columns):
            self.field_of[column] = field_of[column]
            self.n_listed_columns += field_of[column] < 0
        self.size = size
        for row in range(self.first(), size):
            slot, k = self.slot_of(row), row - self.first()
            self.labels[slot] = labels[k]
            self.weights[slot] = weights[k]
            if self._has_targets:
                self.targets[slot] = targets[k]
        for field in range(self.n_fields):
            for row in range(self.first(), size):
                slot, k = self.slot_of(row), row - self.first()
                if columns[field] >= 0:
                    self.fields[field].numbers[slot] = numbers[n_numbers, k]
                else:
                    self.fields[field].codes[slot] = codes[n_categories, k]
            n_numbers += columns[field] >= 0
            n_categories += columns[field] < 0
        if self.n_listed_columns:
            self._take_lists(state["starts"], state["list_columns"], state["list_values"])
        return 0

    def _names(self, const int32_t[::1] groups, const int32_t[::1] field_of):
        """The hashes of the names of all fields."""
        cdef int32_t column
        names = [0] * groups.shape[0]
        for column in range(field_of.shape[0]):
            if field_of[column] >= 0:
                names[field_of[column]] = (
                    self.context.hashes[column] if groups[field_of[column]] < 0
                    else self.context.ties[column]
                )
        return names

    def _take_lists(self, const int64_t[::1] starts, const int32_t[::1] columns,
                    const float[::1] values):
        """Take over what `_lists` gave."""
        cdef int64_t row, i
        cdef int32_t slot
        self.starts = <int64_t*> regrown(self.starts, (self.capacity + 1) * sizeof(int64_t))
        self.ends = <int64_t*> regrown(self.ends, (self.capacity + 1) * sizeof(int64_t))
        for slot in range(self.capacity):
            self.starts[slot] = self.ends[slot] = 0
        for row in range(self.first(), self.size):
            slot = self.slot_of(row)
            self.starts[slot] = starts[row - self.first()]
            self.ends[slot] = starts[row - self.first() + 1]
        if columns.shape[0]:
            # room is made as if nothing was there yet
            i, self.size = self.size, 0
            self._reserve_list(columns.shape[0])
            self.size = i
        for i in range(columns.shape[0]):
            self.list_columns[i] = columns[i]
            self.list_values[i] = values[i]


cdef object ints(const int32_t* first, Py_ssize_t n):
    """A copy of n integers."""
    return np.asarray(<const int32_t[:n]> first).copy() if n else np.empty(0, dtype=np.int32)


cdef object floats(const float* first, Py_ssize_t n):
    """A copy of n numbers in single precision."""
    return np.asarray(<const float[:n]> first).copy() if n else np.empty(0, dtype=np.float32)


def check_window(state, length, n_columns, n_labels, n_targets):
    """Raise StateError unless `Window.take_state` can trust a state.

    `n_labels` bounds the labels, where rows have no targets. Returns how many rows there are.
    """
    size = state["size"]
    check_counts(size, state["length"])
    require(state["length"] == length, "the length of the window")
    n = min(size, length + (length + 3) // 4)
    field_of, columns, groups = state["field_of"], state["columns"], state["groups"]
    starts, entries = state["starts"], len(state["list_columns"])
    numbers = int((columns >= 0).sum())
    shapes = {
        "numbers": (numbers, n), "codes": (len(columns) - numbers, n), "labels": (n,),
        "targets": (n if n_targets else 0,), "weights": (n,), "starts": (n + 1,),
        "list_values": (entries,),
    }
    for part, shape in shapes.items():
        require(state[part].shape == shape, f"the {part} of the window")
    require(len(field_of) <= n_columns, "a column of the window")
    require(len(groups) == len(columns), "the fields of the window")
    is_number = columns >= 0
    require(((columns >= -1) & (columns < len(field_of))).all(), "a field of the window")
    require((groups[is_number] == -1).all(), "a field of the window")
    kinds = groups[~is_number]
    require(((kinds >= 0) & (kinds < n_columns)).all(), "a field of the window")
    require(len(np.unique(kinds)) == len(kinds), "a field of the window")
    require(((field_of >= -1) & (field_of < len(columns))).all(), "a column of the window")
    places = np.flatnonzero(is_number)
    require((field_of[columns[is_number]] == places).all(), "a column of the window")
    require(len(np.unique(columns[is_number])) == len(places), "a column of the window")
    owners = np.isin(field_of, places)
    require(owners.sum() == len(places), "a column of the window")
    for part in ("codes", "list_columns"):
        columns = state[part]
        lowest = -1 if part == "codes" else 0
        require(
            ((columns >= lowest) & (columns < len(field_of))).all(), "a category of the window"
        )
    require(not np.isinf(state["numbers"]).any(), "a value of the window")
    check_finite(state["list_values"])
    check_finite(state["targets"])
    # as `push` bounds them, in single precision
    check_finite(state["weights"], at_least=np.float32(LEAST_WEIGHT))
    labels = state["labels"]
    known = labels == -1 if n_targets else (labels >= 0) & (labels < n_labels)
    require(known.all(), "a label of the window")
    check_rows(starts, entries)
    return n
