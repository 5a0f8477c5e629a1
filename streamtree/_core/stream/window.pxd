"""The most recent rows: one store for all trees that grow from them."""

from libc.stdint cimport int32_t, int64_t, uint32_t

from streamtree._core.stream.context cimport Context
from streamtree._core.stream.row cimport Example, Row, View


cdef enum:
    # Growing from so many rows and more is no faster at first: done in few rows of the stream, each
    # of them would take long, and where threads share a row the others would wait.
    MANY_ROWS = 2500


cdef struct Field:
    # a column of numbers, or all the categories of a feature
    int32_t column      # of numbers; -1 for categories
    int32_t group       # the feature of the categories, else -1
    uint32_t name       # a hash of the name of the column or feature


cdef union Cell:
    float number
    int32_t code        # the column of a category, -1 for none


cdef class Window:
    cdef Context context
    cdef readonly int32_t length        # rows that trees grow from, if there is room for them
    cdef size_t most                    # bytes that it may take
    cdef int32_t capacity               # rows that have a slot
    cdef int32_t _room                  # slots for which there is memory
    cdef int64_t size                   # rows that have come
    cdef Cell* cells                    # by slot, then by field
    cdef Field* fields
    cdef int32_t n_fields
    cdef int32_t stride                 # fields for which a slot has room
    cdef int32_t* ranked                # the fields by their names: no draw depends on their order
    cdef int32_t* field_of              # by column; -1: its values lie in the lists of the rows
    cdef int32_t n_columns
    cdef int32_t* field_of_group
    cdef int32_t n_groups
    cdef int32_t n_listed_columns       # columns without a field
    cdef int32_t n_origins              # of columns, that values are taken from
    cdef int64_t n_moves                # how often rows changed their slots, or what is in them
    cdef int32_t* labels                # by slot; NULL where there are targets
    cdef double* targets
    cdef float* weights
    # by slot: where the list of the row begins and ends, counted on and on, modulo 2^32
    cdef uint32_t* starts
    cdef uint32_t* ends
    cdef int32_t* list_columns          # a ring of entries
    cdef float* list_values
    cdef int64_t list_capacity
    cdef int32_t _column_capacity
    cdef int32_t _group_capacity
    cdef bint _has_targets

    cdef int bind(self, Context context) except -1
    cdef int _heed_bound(self) except -1 nogil
    cdef void _follow_origins(self) noexcept nogil
    cdef int push(self, const Row* row, const Example* example) except -1 nogil
    cdef size_t _fixed_bytes(self, int64_t stride) noexcept nogil
    cdef int urgency(self, int64_t end, int32_t n) noexcept nogil
    cdef size_t _slot_bytes(self) noexcept nogil
    cdef int32_t most_slots(self, int32_t more_fields) noexcept nogil
    cdef int64_t _most_entries(self) noexcept nogil
    cdef int64_t n_entries(self) noexcept nogil
    cdef int _shrink(self, int32_t capacity) except -1 nogil
    cdef void _move_words(self, int32_t* words, int32_t stride, int32_t capacity,
                          int32_t* spare) noexcept nogil
    cdef int _resize(self, int32_t capacity, bint gives_back=*) except -1 nogil
    cdef int _add_columns(self, int32_t size) except -1 nogil
    cdef int _add_category(self, int32_t column, int32_t group) except -1 nogil
    cdef int64_t _last_name(self, int32_t size) noexcept nogil
    cdef int _add_to_lists(self) except -1 nogil
    cdef int _reserve_groups(self, int32_t size) except -1 nogil
    cdef void _drop_lists(self) noexcept nogil
    cdef bint _has_room_for_field(self) except -1 nogil
    cdef int _reserve_fields(self, int32_t n) except -1 nogil
    cdef int32_t _put_field(self, int32_t column, int32_t group, uint32_t name) except -1 nogil
    cdef int32_t _add_field(self, int32_t column, int32_t group, uint32_t name) except -2 nogil
    cdef void _rank(self, int32_t field) noexcept nogil
    cdef bint _promote(self, int32_t column) except -1 nogil
    cdef int _promote_some(self, const View* listed) except -1 nogil
    cdef int _promote_by_name(self, const View* listed) except -1 nogil
    cdef void _read_lists(self, int32_t first) noexcept nogil
    cdef void _find_missing(self, int32_t field) noexcept nogil
    cdef bint _costs_rows(self) noexcept nogil
    cdef bint _is_due(self, int32_t column, bint costs_rows) noexcept nogil
    cdef bint _comes_again(self, int32_t column, int64_t age) noexcept nogil
    cdef bint _stays(self, int32_t column, int64_t age, bint costs_rows) noexcept nogil
    cdef int _push_list(self, const View* listed) except -1 nogil
    cdef int64_t _make_room_for_list(self, const View* listed) except -1 nogil
    cdef int64_t _fitting_capacity(self) noexcept nogil
    cdef int _lay_lists(self, int64_t capacity) except -1 nogil
    cdef float list_value(self, int32_t slot, int32_t column) noexcept nogil
    cdef size_t n_bytes(self) noexcept nogil
    cdef dict state(self)
    cdef int take_state(self, dict state) except -1

    cdef inline int32_t slot_of(self, int64_t row) noexcept nogil:
        return <int32_t> (row % self.capacity)

    cdef inline int64_t list_length(self, int32_t slot) noexcept nogil:
        """How many entries the list of a row has."""
        return self.ends[slot] - self.starts[slot]

    cdef inline int64_t first(self) noexcept nogil:
        """The oldest row that can be read."""
        return self.size - self.capacity if self.size > self.capacity else 0

    cdef inline bint has_lost(self, int64_t first, int64_t* moves) noexcept nogil:
        """Whether rows from `first` on have gone, or changed since there were so many moves."""
        cdef bint has_moved = self.n_moves > moves[0]
        moves[0] = self.n_moves
        return has_moved or self.first() > first

    cdef inline int64_t n_slots(self) noexcept nogil:
        """The slots that there are, or will be before a row goes: once one has gone, no more come.
        """
        cdef int64_t slots = self.capacity
        if self.size <= self.capacity:
            slots = max(slots, <int64_t> self.most_slots(0))
        return slots

    cdef inline int32_t n_rows(self) noexcept nogil:
        """How many rows a tree that begins to grow now grows from: they stay while it grows."""
        return <int32_t> min(self.size, self.n_slots() * 4 // 5)

    cdef inline int64_t row_of(self, uint32_t number) noexcept nogil:
        """A row by the lower half of its number, -1 if it has left the window."""
        cdef uint32_t age = <uint32_t> self.size - number
        return self.size - age if 0 < age and <int64_t> age <= self.size - self.first() else -1

    cdef inline Cell* cells_of(self, int32_t slot) noexcept nogil:
        return &self.cells[<Py_ssize_t> slot * self.stride]

    cdef inline uint32_t kind(self, int32_t slot, int32_t column) noexcept nogil:
        """What a row has of the feature that a column is a category of; as in `Row.kinds`."""
        cdef int32_t field = self.field_of[column]
        if field < 0 or self.fields[field].column >= 0:
            return 0
        return self.context.kind_of(self.cells_of(slot)[field].code)

    cdef inline float value(self, int32_t slot, int32_t column) noexcept nogil:
        """The value of a column in a row, NaN if it is missing."""
        cdef int32_t field = self.field_of[column]
        if field < 0:
            return self.list_value(slot, column)
        if self.fields[field].column >= 0:
            return self.cells_of(slot)[field].number
        return 1.0 if self.cells_of(slot)[field].code == column else 0.0
