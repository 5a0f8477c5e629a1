"""A window of recent rows, in single precision, in a ring.

Every row has a number, from 0 on, and while it can be read a slot. A column that the first row or
many rows have is a field; so are the categories of one feature. The cells of a row lie side by
side, for who looks at few rows looks at them by many columns. What is left, the words of sparse
rows and what came once, lies in a list for every row.

Where `most` bytes do not suffice it has fewer rows, and if that were too few, fewer fields. How
much it takes follows from its state alone.
"""

cimport cython
from libc.math cimport NAN
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memmove

from streamtree._core.store.budget cimport (
    count_as, counted, counted_room, give_back, spacious,
)
from streamtree._core.store.memory cimport regrown
from streamtree._core.stream.context cimport Context
from streamtree._core.stream.encoding cimport sort_words
from streamtree._core.stream.row cimport Example, Row, View, bounded_weight
from streamtree._core.stream.scales cimport ColumnScale, n_shown
from streamtree._core.stream.table cimport narrowed

import numpy as np

cdef extern from "../kernels/ranges.h" nogil:
    int64_t place_of "streamtree_place"(const int32_t* keys, int64_t n, int32_t key)

cpdef enum:
    FIRST_SLOTS = 320
    FIRST_ENTRIES = 1024
    # lists are laid anew where they fill less than one part of so many of their ring
    SPARSE_PARTS = 16

cdef enum:
    # From so many slots on, room is taken for ten times as many: what was moved is little, and no
    # row waits long. Most systems give memory only where rows come to.
    FEW_SLOTS = 640
    AHEAD = 10
    # rather than fewer rows than these slots are for, columns have no field
    LEAST_SLOTS = 125
    # in every so many rows it is looked whether the bound has fallen
    HEED_ROWS = 64
    # So many columns are fields if the first row names them, or once they have come again; of more,
    # those whose zeros are listed. Where fields leave room for fewer rows, only these.
    FEW_FIELDS = 64
    # A column has come again if one of so many rows has had it, and two more rows.
    AGAIN_PARTS = 256
    # rows in which a column shows that it stays
    TRIAL = 32
    # so many features with categories are fields
    MANY_FIELDS = 1024

cdef size_t ENTRY_BYTES = sizeof(int32_t) + sizeof(float)
cdef size_t FIELD_BYTES = sizeof(Field) + sizeof(int32_t)

# beyond all hashes of names
cdef int64_t NO_NAME = 0x100000000
# places of entries are counted modulo 2^32
cdef int64_t MOST_ENTRIES = 0x80000000
# Where the first list begins: what happens at 2^32 is to happen soon, and not after years.
cdef uint32_t FIRST_PLACE = 0xFFFFFF00

# with less weight, sums in single precision would not stay positive
cdef double LEAST_WEIGHT = 1e-6
# for its checks, in Python
WEIGHT_FLOOR = LEAST_WEIGHT


cpdef inline int32_t full_capacity(int32_t length) noexcept nogil:
    """The slots of a full window: rows that a tree grows from stay while it grows."""
    return length + (length + 3) // 4


cdef inline void* laid(
    void* block, size_t size, int32_t capacity, int32_t room, bint moves
) except NULL nogil:
    """A block of slots of so many bytes each, with `room` for more than count."""
    if moves or block == NULL:
        block = counted(block, room * size)
    count_as(block, capacity * size)
    return block


@cython.final
cdef class Window:
    """`length` rows for trees to grow from, and a quarter more for those that are at it."""

    def __cinit__(self, int32_t length):
        self.length = length
        self.most = <size_t> -1

    def __dealloc__(self):
        give_back(self.cells)
        give_back(self.fields)
        give_back(self.ranked)
        give_back(self.field_of)
        give_back(self.field_of_group)
        give_back(self.labels)
        give_back(self.targets)
        give_back(self.weights)
        self._drop_lists()

    cdef void _drop_lists(self) noexcept nogil:
        give_back(self.starts)
        give_back(self.ends)
        give_back(self.list_columns)
        self.starts = self.ends = NULL
        self.list_columns, self.list_values = NULL, NULL
        self.list_capacity = 0

    cdef int bind(self, Context context) except -1:
        """Take the context of a learner; it comes before any row."""
        self.context = context
        return 0

    cdef size_t n_bytes(self) noexcept nogil:
        return self.capacity * self._slot_bytes() + self._fixed_bytes(self.stride)

    cdef size_t _fixed_bytes(self, int64_t stride) noexcept nogil:
        """What does not depend on the slots, with so many fields."""
        return self.list_capacity * ENTRY_BYTES + stride * FIELD_BYTES + (
            self._column_capacity + self._group_capacity
        ) * sizeof(int32_t)

    cdef size_t _slot_bytes(self) noexcept nogil:
        """What a slot takes."""
        cdef size_t bytes = sizeof(float) + self.stride * sizeof(Cell)
        bytes += sizeof(double) if self._has_targets else sizeof(int32_t)
        if self.n_listed_columns:
            bytes += 2 * sizeof(uint32_t)
        return bytes

    cdef int urgency(self, int64_t end, int32_t n) noexcept nogil:
        """How many times as fast to grow on from n rows that ended with row `end`.

        Twice as fast with every fifth of the rows that may come until the first of these goes.
        """
        cdef int64_t n_coming = max(self.n_slots() - n, <int64_t> 1)
        cdef int64_t fifths = 5 * (self.size - end) // n_coming
        return 1 << min(max(fifths - 1, <int64_t> 0), <int64_t> 4)

    cdef int32_t most_slots(self, int32_t more_fields) noexcept nogil:
        """The slots for which there is room, with so many fields more; at most all."""
        cdef int64_t slots, stride = spacious(self.n_fields + more_fields)
        cdef size_t fixed = self._fixed_bytes(stride)
        if self.most <= fixed:
            return 0
        slots = (self.most - fixed) // (
            self._slot_bytes() + (stride - self.stride) * sizeof(Cell)
        )
        return <int32_t> min(slots, <int64_t> full_capacity(self.length))

    cdef int64_t _most_entries(self) noexcept nogil:
        """How many entries of lists there may be."""
        cdef int64_t n = FIRST_ENTRIES
        while n < MOST_ENTRIES and 2 * n * ENTRY_BYTES <= self.most // 2:
            n *= 2
        return n

    cdef int64_t n_entries(self) noexcept nogil:
        """How many entries the lists of all rows have together."""
        if self.size == 0 or self.n_listed_columns == 0:
            return 0
        return <uint32_t> (
            self.ends[self.slot_of(self.size - 1)] - self.starts[self.slot_of(self.first())]
        )

    # ------------------------------------------------------------------------------- rows

    cdef int push(self, const Row* row, const Example* example) except -1 nogil:
        """Let a row in; the oldest one goes when the window is full."""
        cdef int32_t i, slot, column
        cdef Cell* cells
        if self.n_origins < self.context.scaler.n_origins:
            self._follow_origins()
        if self.size % HEED_ROWS == 0 and self.capacity > LEAST_SLOTS:
            self._heed_bound()
        if self.size == self.capacity:
            self._resize(max(self.capacity, min(
                max(self.most_slots(0), <int32_t> LEAST_SLOTS), full_capacity(self.length),
                2 * self.capacity if self.capacity else FIRST_SLOTS,
            )))
        if row.listed.top >= self.n_columns:
            # the first row names columns that are zero, too
            self._add_columns(
                self.context.n_columns if self.n_columns == 0 else row.listed.top + 1
            )
        if self.n_listed_columns:
            self._push_list(&row.listed)
        slot = self.slot_of(self.size)
        cells = self.cells_of(slot)
        for i in range(self.n_fields):
            column = self.fields[i].column
            if column >= 0:
                cells[i].number = row.table[column]
            else:
                cells[i].code = -1
        if self.n_groups:
            for i in range(<int32_t> row.listed.n):
                column = row.listed.columns[i]
                if self.context.features.groups[column] >= 0 and self.field_of[column] >= 0:
                    cells[self.field_of[column]].code = column
        if self._has_targets:
            self.targets[slot] = example.targets[0]
        else:
            self.labels[slot] = example.label
        self.weights[slot] = <float> max(LEAST_WEIGHT, bounded_weight(example.weight))
        self.size += 1
        if self._fitting_capacity() < self.list_capacity:
            self._lay_lists(self._fitting_capacity())
        return 0

    cdef int _heed_bound(self) except -1 nogil:
        """Have fewer rows where there is room for less than half of them, as the bound has fallen.
        """
        cdef int32_t slots = self.most_slots(0)
        if slots < self.capacity // 2:
            self._shrink(max(slots, <int32_t> LEAST_SLOTS))
        return 0

    cdef void _follow_origins(self) noexcept nogil:
        """Take values from the origins that columns have got since: these, or zero, are all so far.
        """
        cdef const ColumnScale* columns = self.context.scaler.columns
        cdef int32_t i, column
        cdef int64_t row, entry, place
        cdef float* value
        cdef bint has_moved = False
        for i in range(self.n_fields):
            column = self.fields[i].column
            if column < 0 or columns[column].origin_rank <= self.n_origins:
                continue
            for row in range(self.first(), self.size):
                value = &self.cells_of(self.slot_of(row))[i].number
                # as long as all values are alike, nobody has told them apart
                has_moved |= value[0] == 0.0
                if value[0] == value[0]:
                    value[0] = 0.0 if value[0] else narrowed(self.context, column, 0.0)
        row = self.starts[self.slot_of(self.first())] if self.n_entries() else 0
        for entry in range(row, row + self.n_entries()):
            place = entry & (self.list_capacity - 1)
            if columns[self.list_columns[place]].origin_rank > self.n_origins:
                self.list_values[place] = 0.0
                has_moved = True
        self.n_origins = self.context.scaler.n_origins
        self.n_moves += has_moved

    cdef int _push_list(self, const View* listed) except -1 nogil:
        """Write the values of columns that are no fields to the list of a row."""
        cdef Py_ssize_t i
        cdef int32_t column, slot
        cdef int64_t end, n
        self._promote_some(listed)
        if self.n_listed_columns == 0:
            return 0
        n = self._make_room_for_list(listed)
        slot = self.slot_of(self.size)
        end = self.ends[self.slot_of(self.size - 1)] if self.size else FIRST_PLACE
        self.starts[slot] = <uint32_t> end
        for i in range(listed.n if n else 0):
            column = listed.columns[i]
            if self.field_of[column] < 0:
                self.list_columns[end & (self.list_capacity - 1)] = column
                self.list_values[end & (self.list_capacity - 1)] = narrowed(
                    self.context, column, listed.values[i]
                )
                end += 1
        self.ends[slot] = <uint32_t> end
        return 0

    cdef int64_t _make_room_for_list(self, const View* listed) except -1 nogil:
        """Make room for the entries of a row; returns how many there are, 0 if they are too many.

        For them rows go that came first.
        """
        cdef int64_t n = 0, needed, most = self._most_entries(), capacity = FIRST_ENTRIES, row
        cdef Py_ssize_t i
        for i in range(listed.n):
            n += self.field_of[listed.columns[i]] < 0
        if n > most:
            n = 0
        needed = self.n_entries() + n
        if needed > most:
            # some more of them, so that it is not to be done soon again
            row = self.first()
            while row < self.size and needed - n > (most - n) // 4 * 3:
                needed -= self.list_length(self.slot_of(row))
                row += 1
            self._shrink(<int32_t> max(self.size - row, 1))
            needed = self.n_entries() + n
        while capacity < needed:
            capacity *= 2
        if capacity > self.list_capacity:
            self._lay_lists(capacity)
        return n

    cdef bint _costs_rows(self) noexcept nogil:
        """Whether one field more leaves room for fewer rows."""
        return self.most_slots(1) < full_capacity(self.length)

    cdef bint _is_due(self, int32_t column, bint costs_rows) noexcept nogil:
        """Whether a column of a row is to become a field."""
        cdef const ColumnScale* scale
        cdef int64_t age
        if self.field_of[column] >= 0 or self.context.features.groups[column] >= 0:
            return False
        scale = &self.context.scaler.columns[column]
        age = self.context.scaler.rows - scale.birth
        if scale.is_listed:
            return self._stays(column, age, costs_rows)
        return self.n_fields < FEW_FIELDS and not costs_rows and self._comes_again(column, age)

    cdef bint _comes_again(self, int32_t column, int64_t age) noexcept nogil:
        """Whether a column is none of those that come once each, or for a few rows."""
        cdef int64_t n = n_shown(&self.context.scaler.columns[column])
        return self._stays(column, age, True) and AGAIN_PARTS * (n - 2) >= age

    cdef bint _stays(self, int32_t column, int64_t age, bint costs_rows) noexcept nogil:
        """Whether a column that is in many rows is likely to stay in them.

        One that a few rows in turn have looks the same at first, above all one of names without
        room. It may come and go where there is room for all rows.
        """
        if self.context.features.are_shared[column]:
            return 2 * age >= self.capacity
        return age >= TRIAL or not costs_rows

    cdef float list_value(self, int32_t slot, int32_t column) noexcept nogil:
        cdef int64_t n = self.list_length(slot)
        cdef int64_t first = self.starts[slot] & (self.list_capacity - 1), place
        # up to the end of the ring, and on from its beginning
        cdef int64_t before = min(n, self.list_capacity - first)
        if n > 0:
            place = place_of(&self.list_columns[first], before, column)
            if place < before:
                return self.list_values[first + place]
            place = place_of(self.list_columns, n - before, column)
            if place < n - before:
                return self.list_values[place]
        return narrowed(self.context, column, 0.0)

    # ------------------------------------------------------------------------------- room

    cdef int _resize(self, int32_t capacity, bint gives_back=False) except -1 nogil:
        """Take so many slots; rows that have one keep it."""
        cdef bint moves = gives_back or not self.capacity <= capacity <= self._room
        cdef int32_t room = self._room
        if moves:
            room = capacity
            if capacity > max(self.capacity, <int32_t> FEW_SLOTS):
                room = max(capacity, <int32_t> min(<int64_t> AHEAD * capacity, self.most_slots(0)))
        self._has_targets = self.context.n_targets > 0
        if self.stride:
            self.cells = <Cell*> laid(
                self.cells, self.stride * sizeof(Cell), capacity, room, moves
            )
        self.weights = <float*> laid(self.weights, sizeof(float), capacity, room, moves)
        if self._has_targets:
            self.targets = <double*> laid(self.targets, sizeof(double), capacity, room, moves)
        else:
            self.labels = <int32_t*> laid(self.labels, sizeof(int32_t), capacity, room, moves)
        if self.n_listed_columns:
            self.starts = <uint32_t*> laid(self.starts, sizeof(uint32_t), capacity, room, moves)
            self.ends = <uint32_t*> laid(self.ends, sizeof(uint32_t), capacity, room, moves)
        self.capacity, self._room = capacity, room
        return 0

    cdef int _shrink(self, int32_t capacity) except -1 nogil:
        """Have fewer slots; the last rows stay, each in a slot that may be another."""
        cdef int32_t i
        cdef int32_t* spare
        if capacity >= self.capacity:
            return 0
        spare = <int32_t*> regrown(NULL, self.capacity * sizeof(int32_t))
        for i in range(self.n_fields):
            self._move_words(&self.cells[i].code, self.stride, capacity, spare)
        self._move_words(<int32_t*> self.weights, 1, capacity, spare)
        if self._has_targets:
            # two words each
            for i in range(2):
                self._move_words(&(<int32_t*> self.targets)[i], 2, capacity, spare)
        else:
            self._move_words(self.labels, 1, capacity, spare)
        if self.n_listed_columns:
            self._move_words(<int32_t*> self.starts, 1, capacity, spare)
            self._move_words(<int32_t*> self.ends, 1, capacity, spare)
        free(spare)
        self.capacity = self._room = capacity
        self.n_moves += 1
        with gil:
            try:
                self._resize(capacity, gives_back=True)
            except MemoryError:
                # then blocks stay as large as they are
                pass
        return 0

    cdef void _move_words(self, int32_t* words, int32_t stride, int32_t capacity,
                          int32_t* spare) noexcept nogil:
        """Lay the values of the rows that stay out for fewer slots; they are `stride` apart."""
        cdef int64_t row, first = max(self.first(), self.size - capacity)
        cdef int64_t size = stride
        for row in range(first, self.size):
            spare[row % capacity] = words[self.slot_of(row) * size]
        for row in range(first, self.size):
            words[row % capacity * size] = spare[row % capacity]

    cdef int64_t _fitting_capacity(self) noexcept nogil:
        """Entries that lists are to have room for: less than now where most have gone."""
        cdef int64_t capacity = FIRST_ENTRIES
        if SPARSE_PARTS * self.n_entries() >= self.list_capacity:
            return self.list_capacity
        while capacity < 2 * self.n_entries():
            capacity *= 2
        return capacity

    cdef int _lay_lists(self, int64_t capacity) except -1 nogil:
        """Lay the lists in a ring for so many entries, a power of two."""
        cdef int64_t i, first, mask = self.list_capacity - 1
        cdef int32_t* columns
        cdef float* values
        # one block for both
        columns = <int32_t*> counted(NULL, capacity * ENTRY_BYTES)
        values = <float*> &columns[capacity]
        if self.list_capacity and self.size:
            first = self.starts[self.slot_of(self.first())]
            for i in range(first, first + self.n_entries()):
                columns[i & (capacity - 1)] = self.list_columns[i & mask]
                values[i & (capacity - 1)] = self.list_values[i & mask]
        give_back(self.list_columns)
        self.list_columns, self.list_values = columns, values
        self.list_capacity = capacity
        return 0

    # ---------------------------------------------------------------------------- columns

    cdef int _add_columns(self, int32_t size) except -1 nogil:
        """Learn of the columns below `size`, those of one row.

        Which of them are fields depends on their names, not on the order in which a row has them.
        """
        cdef int32_t column, field, group, first = self.n_columns
        cdef int64_t last_name, row, birth
        self.field_of = <int32_t*> counted_room(
            self.field_of, &self._column_capacity, size, sizeof(int32_t)
        )
        for column in range(first, size):
            group = self.context.features.groups[column]
            if group >= 0:
                self._add_category(column, group)
        # one that comes later has to come again: it may be one of those that come once each
        last_name = self._last_name(size) if first == 0 else -1
        for column in range(first, size):
            if self.context.features.groups[column] < 0:
                field = -1
                if self.n_fields < FEW_FIELDS and self.context.features.hashes[column] <= last_name:
                    field = self._add_field(column, -1, self.context.features.hashes[column])
                birth = self.context.scaler.columns[column].birth
                for row in range(self.first(), self.size if field >= 0 else 0):
                    self.cells_of(self.slot_of(row))[field].number = (
                        NAN if row < birth else narrowed(self.context, column, 0.0)
                    )
                self.field_of[column] = field
            if self.field_of[column] < 0:
                self._add_to_lists()
            self.n_columns = column + 1
        return 0

    cdef int _add_category(self, int32_t column, int32_t group) except -1 nogil:
        """Give a category the field of its feature.

        A feature that finds no room with its first category has none for the others either.
        """
        if group >= self.n_groups:
            self._reserve_groups(group + 1)
            if self.n_fields < MANY_FIELDS:
                self.field_of_group[group] = self._add_field(
                    -1, group, self.context.features.ties[column]
                )
        self.field_of[column] = self.field_of_group[group]
        return 0

    cdef int64_t _last_name(self, int32_t size) noexcept nogil:
        """The hash up to which the names of the first columns, so many, are those of fields.

        As many are as leave room for all rows, at most a few.
        """
        cdef int32_t column, i
        cdef int64_t name, next_name, last_name = -1
        for i in range(FEW_FIELDS - self.n_fields):
            if self.most_slots(i + 1) < full_capacity(self.length):
                break
            next_name = NO_NAME
            for column in range(size):
                name = self.context.features.hashes[column]
                if self.context.features.groups[column] < 0 and last_name < name < next_name:
                    next_name = name
            if next_name == NO_NAME:
                break
            last_name = next_name
        return last_name

    cdef int _add_to_lists(self) except -1 nogil:
        """One column more has its values in the lists."""
        cdef int32_t i
        if self.n_listed_columns == 0:
            self.starts = <uint32_t*> laid(
                self.starts, sizeof(uint32_t), self.capacity, self._room, True
            )
            self.ends = <uint32_t*> laid(
                self.ends, sizeof(uint32_t), self.capacity, self._room, True
            )
            for i in range(self.capacity):
                self.starts[i] = self.ends[i] = FIRST_PLACE
        self.n_listed_columns += 1
        return 0

    cdef int _reserve_groups(self, int32_t size) except -1 nogil:
        cdef int32_t group
        self.field_of_group = <int32_t*> counted_room(
            self.field_of_group, &self._group_capacity, size, sizeof(int32_t)
        )
        for group in range(self.n_groups, size):
            self.field_of_group[group] = -1
        self.n_groups = size
        return 0

    cdef bint _has_room_for_field(self) except -1 nogil:
        """Whether there may be a field more; for it rows may have to go."""
        cdef int32_t slots = self.most_slots(1)
        if slots < LEAST_SLOTS:
            return False
        if slots < self.capacity:
            # more of them than need be, so that it is not to be done soon again
            self._shrink(max(slots - slots // 8, <int32_t> LEAST_SLOTS))
        return True

    cdef int32_t _add_field(self, int32_t column, int32_t group,
                            uint32_t name) except -2 nogil:
        """A field of numbers, which are to be written, or of categories, which are missing.

        -1 where there is no room for it.
        """
        if not self._has_room_for_field():
            return -1
        return self._put_field(column, group, name)

    cdef int32_t _put_field(self, int32_t column, int32_t group,
                            uint32_t name) except -1 nogil:
        cdef int32_t slot, place = self.n_fields
        self._reserve_fields(place + 1)
        self.fields[place] = Field(column, group, name)
        if group >= 0:
            for slot in range(self.capacity):
                self.cells_of(slot)[place].code = -1
        self.n_fields += 1
        self._rank(place)
        return place

    cdef int _reserve_fields(self, int32_t n) except -1 nogil:
        """Make room for n fields; the rows move apart."""
        cdef Py_ssize_t slot, before = self.stride, stride = spacious(n)
        if stride <= before:
            return 0
        self.fields = <Field*> counted(self.fields, stride * sizeof(Field))
        self.ranked = <int32_t*> counted(self.ranked, stride * sizeof(int32_t))
        # what was to come has been asked for while rows were shorter
        self._room = self.capacity
        if self.capacity:
            self.cells = <Cell*> laid(
                self.cells, stride * sizeof(Cell), self.capacity, self._room, True
            )
        for slot in range(self.capacity - 1, -1, -1):
            memmove(&self.cells[slot * stride], &self.cells[slot * before], before * sizeof(Cell))
        self.stride = <int32_t> stride
        return 0

    cdef void _rank(self, int32_t field) noexcept nogil:
        """Put a new field in its place among the others."""
        cdef int32_t place = field
        while place and self.fields[self.ranked[place - 1]].name > self.fields[field].name:
            self.ranked[place] = self.ranked[place - 1]
            place -= 1
        self.ranked[place] = field

    cdef int _promote_some(self, const View* listed) except -1 nogil:
        """Make fields of the columns of a row that are due, if there is room for one."""
        cdef bint costs_rows = self._costs_rows()
        cdef Py_ssize_t i
        for i in range(listed.n if self.most_slots(1) >= LEAST_SLOTS else 0):
            if self._is_due(listed.columns[i], costs_rows):
                return self._promote_by_name(listed)
        return 0

    cdef int _promote_by_name(self, const View* listed) except -1 nogil:
        """Make fields of the columns that are due, by their names, as long as there is room.

        There may be very many of them: they are put in order once, and lists are read once.
        """
        cdef int32_t column, capacity, first = self.n_fields
        cdef Py_ssize_t i
        cdef const uint32_t* hashes = self.context.features.hashes
        cdef uint64_t* order = <uint64_t*> regrown(NULL, listed.n * sizeof(uint64_t))
        for i in range(listed.n):
            order[i] = <uint64_t> hashes[listed.columns[i]] << 32 | <uint32_t> i
        sort_words(order, listed.n)
        i = 0
        try:
            while i < listed.n:
                column = listed.columns[<uint32_t> order[i]]
                i += 1
                if not self._is_due(column, self._costs_rows()):
                    continue
                capacity = self.capacity
                if not self._promote(column):
                    break
                if self.capacity < capacity:
                    # in fewer rows others may be due
                    i = 0
        finally:
            free(order)
            self._read_lists(first)
        return 0

    cdef bint _promote(self, int32_t column) except -1 nogil:
        """Make a field of a column whose values lie in lists, if there is room; returns whether."""
        cdef int32_t field = self._add_field(column, -1, self.context.features.hashes[column])
        if field < 0:
            return False
        self.field_of[column] = field
        self.n_listed_columns -= 1
        return True

    cdef void _read_lists(self, int32_t first) noexcept nogil:
        """Take the values of the fields from `first` on from the lists, where they stay, unread."""
        cdef int64_t row, entry, place
        cdef int32_t field, slot
        cdef Cell* cells
        if first == self.n_fields:
            return
        for row in range(self.first(), self.size):
            slot = self.slot_of(row)
            cells = self.cells_of(slot)
            for field in range(first, self.n_fields):
                cells[field].number = narrowed(self.context, self.fields[field].column, 0.0)
            for entry in range(self.list_length(slot)):
                place = (self.starts[slot] + entry) & (self.list_capacity - 1)
                field = self.field_of[self.list_columns[place]]
                if field >= first:
                    cells[field].number = self.list_values[place]
        for field in range(first, self.n_fields):
            self._find_missing(field)
        if self.n_listed_columns == 0:
            self._drop_lists()

    cdef void _find_missing(self, int32_t field) noexcept nogil:
        """Where zeros of a column are listed it is missing in rows before its birth.

        Rows that only count for scales are none of the window.
        """
        cdef int32_t column = self.fields[field].column
        cdef const ColumnScale* scale = &self.context.scaler.columns[column]
        cdef float absent = narrowed(self.context, column, 0.0)
        cdef int64_t row
        cdef Cell* cell
        if not scale.is_listed or scale.birth <= self.first():
            return
        self.n_moves += 1
        for row in range(self.first(), min(self.size, scale.birth)):
            cell = &self.cells_of(self.slot_of(row))[field]
            if cell.number != absent:
                return
            cell.number = NAN

    # ------------------------------------------------------------------------------ state

    cdef dict state(self):
        """The rows from the oldest that can be read, as arrays."""
        cdef Py_ssize_t n = self.size - self.first()
        slots = np.arange(self.first(), self.size) % max(self.capacity, 1)
        fields = range(self.n_fields)
        columns_of = np.array([self.fields[i].column for i in fields], dtype=np.int32)
        cells = np.empty((n, self.n_fields), dtype=np.float32)
        if cells.size:
            cells[:] = np.asarray(
                <float[:self.capacity, :self.stride]> <float*> self.cells
            )[slots, :self.n_fields]
        starts, columns, values = self._lists(slots)
        return {
            "size": self.size,
            "length": self.length,
            "n_origins": self.n_origins,
            "capacity": self.capacity,
            # where memory ran out, lists may be as large as they were before rows went
            "list_capacity": self._fitting_capacity(),
            "field_of": ints(self.field_of, self.n_columns),
            "columns": columns_of,
            "groups": np.array([self.fields[i].group for i in fields], dtype=np.int32),
            "numbers": np.ascontiguousarray(cells[:, columns_of >= 0].T),
            "codes": np.ascontiguousarray(cells.view(np.int32)[:, columns_of < 0].T),
            "labels": ints(self.labels, self.capacity)[slots]
            if self.labels != NULL else np.empty(0, dtype=np.int32),
            "targets": np.asarray(<double[:self.capacity]> self.targets)[slots]
            if self.targets != NULL else np.empty(0),
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
            starts.append(starts[len(starts) - 1] + self.list_length(slot))
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
        if state["capacity"]:
            self._resize(state["capacity"])
        names = self._names(groups, field_of)
        for i in range(columns.shape[0]):
            self._put_field(columns[i], groups[i], names[i])
        self.n_columns = <int32_t> field_of.shape[0]
        for column in range(self.n_columns):
            self._reserve_groups(max(self.context.features.groups[column] + 1, self.n_groups))
        for i in range(columns.shape[0]):
            if groups[i] >= 0:
                self._reserve_groups(max(groups[i] + 1, self.n_groups))
                self.field_of_group[groups[i]] = i
        self.field_of = <int32_t*> counted_room(
            self.field_of, &self._column_capacity, self.n_columns, sizeof(int32_t)
        )
        for column in range(self.n_columns):
            self.field_of[column] = field_of[column]
            if field_of[column] < 0:
                self._add_to_lists()
        self.size, self.n_origins = size, state["n_origins"]
        for row in range(self.first(), size):
            slot, k = self.slot_of(row), row - self.first()
            self.weights[slot] = weights[k]
            if self._has_targets:
                self.targets[slot] = targets[k]
            else:
                self.labels[slot] = labels[k]
        for field in range(self.n_fields):
            for row in range(self.first(), size):
                slot, k = self.slot_of(row), row - self.first()
                if columns[field] >= 0:
                    self.cells_of(slot)[field].number = numbers[n_numbers, k]
                else:
                    self.cells_of(slot)[field].code = codes[n_categories, k]
            n_numbers += columns[field] >= 0
            n_categories += columns[field] < 0
        if self.n_listed_columns:
            self._take_lists(state)
        return 0

    def _names(self, const int32_t[::1] groups, const int32_t[::1] field_of):
        """The hashes of the names of all fields."""
        cdef int32_t column
        names = [0] * groups.shape[0]
        for column in range(field_of.shape[0]):
            if field_of[column] >= 0:
                names[field_of[column]] = (
                    self.context.features.hashes[column] if groups[field_of[column]] < 0
                    else self.context.features.ties[column]
                )
        return names

    def _take_lists(self, dict state):
        """Take over what `_lists` gave."""
        cdef const int64_t[::1] starts = state["starts"]
        cdef const int32_t[::1] columns = state["list_columns"]
        cdef const float[::1] values = state["list_values"]
        cdef int64_t row, i
        for row in range(self.first(), self.size):
            i = self.slot_of(row)
            self.starts[i] = <uint32_t> starts[row - self.first()]
            self.ends[i] = <uint32_t> starts[row - self.first() + 1]
        if state["list_capacity"]:
            # nothing is there yet to be moved
            self._lay_lists(state["list_capacity"])
        for i in range(columns.shape[0]):
            self.list_columns[i] = columns[i]
            self.list_values[i] = values[i]


cdef object ints(const int32_t* first, Py_ssize_t n):
    """A copy of n integers."""
    return np.asarray(<const int32_t[:n]> first).copy() if n else np.empty(0, dtype=np.int32)


cdef object floats(const float* first, Py_ssize_t n):
    """A copy of n numbers in single precision."""
    return np.asarray(<const float[:n]> first).copy() if n else np.empty(0, dtype=np.float32)
