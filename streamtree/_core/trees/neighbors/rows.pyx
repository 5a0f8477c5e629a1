"""The last rows, laid out to be compared with one more.

A cell is a standardised number, or a hash of the category that a feature has. Whole numbers of
which there are many may be names: of these there is another cell, with the number itself. Some rows
at a time are a block, in which the cells of a field lie side by side. Once all places are taken,
rows go in the order in which they came.
"""

cimport cython
from libc.math cimport floorf
from libc.stdint cimport int32_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from streamtree._core.store.budget cimport (
    bytes_allowed, counted, counted_room, counted_zeros, give_back, has_room,
)
from streamtree._core.stream.fields cimport Candidate, candidate, list_candidates
from streamtree._core.stream.row cimport Example, Row, View
from streamtree._core.stream.scaling cimport clipped

import numpy as np

cpdef enum:
    # the more fields, the fewer rows
    MOST_CELLS = 1 << 20
    FIRST_PLACES = 256
    # fewer fields are taken where there would be no room for so many rows
    LEAST_PLACES = 128
    # so many rows show how many different values there are: many, if they set more bits than these
    SHOWN_ROWS = 256
    FEW_BITS = 30
    # fields that are looked at as names, too
    MOST_NAMES = 8

# beyond these weights rows are as good as without weight, or as good as so many rows
cdef float LEAST_WEIGHT = 1e-6
cdef float MOST_WEIGHT = 10.0
# for their checks, in Python
WEIGHTS = LEAST_WEIGHT, MOST_WEIGHT


cdef Noted _blank
NOTED = np.asarray(<Noted[:1]> &_blank).dtype


cdef inline int32_t name_of(float value) noexcept nogil:
    """A number as the name that it may be; 0 where there is none."""
    cdef uint32_t bits
    # 0 and -0 are one
    value += <float> 0.0
    memcpy(&bits, &value, sizeof(bits))
    if value != value:
        return 0
    return <int32_t> bits if bits else 1


@cython.final
cdef class NeighborRows:
    """Rows with their labels or targets, and their weights."""

    def __cinit__(self, bint has_targets):
        self.has_targets = has_targets

    def __dealloc__(self):
        self.clear()

    cdef void clear(self) noexcept nogil:
        """Forget all rows and fields."""
        self._give_back()
        give_back(self.counts)
        self.counts = NULL
        self.n_counted = self._count_capacity = 0
        self.n_fields = self.n_columns = self.capacity = self.size = self.next = 0

    cdef void _give_back(self) noexcept nogil:
        give_back(self.fields)
        give_back(self.values)
        give_back(self.field_of)
        give_back(self.cells)
        give_back(self.labels)
        give_back(self.targets)
        give_back(self.weights)
        self.fields, self.values, self.field_of, self.cells = NULL, NULL, NULL, NULL
        self.labels, self.targets, self.weights = NULL, NULL, NULL

    # --------------------------------------------------------------------------------- room

    cdef size_t _place_bytes(self, int32_t n_fields) noexcept nogil:
        return n_fields * sizeof(Cell) + sizeof(float) + (
            sizeof(double) if self.has_targets else sizeof(int32_t)
        )

    cdef int32_t _most_places(self, int32_t n_fields, size_t allowed) noexcept nogil:
        """How many places there may be.

        They have two thirds of the bytes: they are laid anew, and grow by two.
        """
        cdef size_t n = min(allowed // 3 * 2 // self._place_bytes(n_fields), <size_t> MOST_ROWS)
        n = min(n, <size_t> MOST_CELLS // max(n_fields, 1))
        return <int32_t> n // LANES * LANES

    cdef int _fit(self) except -1 nogil:
        """Have as many places as are needed and fit in."""
        cdef int32_t wanted
        if self.allowed != bytes_allowed():
            self.allowed = bytes_allowed()
            self.fitting = self._most_places(self.n_fields, self.allowed)
        if self.size == self.capacity < self.fitting:
            return self._lay(self.fields, self.n_fields, min(
                self.fitting, max(2 * self.capacity, <int32_t> FIRST_PLACES)
            ))
        if self.size == self.capacity == self.fitting:
            # whoever shares memory out is to know that more would be used
            wanted = self._most_places(self.n_fields, <size_t> -1)
            has_room((wanted - self.fitting) * self._place_bytes(self.n_fields))
        if self.capacity > self.fitting:
            return self._lay(self.fields, self.n_fields, self.fitting)
        return 0

    cdef int32_t find_fields(self, Candidate* found) noexcept nogil:
        """The fields for which there is room."""
        cdef int32_t most = <int32_t> min(
            bytes_allowed() // 3 * 2 // (LEAST_PLACES * sizeof(Cell)), <size_t> MOST_FIELDS
        )
        cdef int32_t f, n = list_candidates(self.context, found, most), n_listed = n
        for f in range(n_listed):
            if n < min(most, n_listed + MOST_NAMES) and self._names(&found[f], f):
                found[n] = found[f]
                found[n].is_exact = True
                n += 1
        return n

    cdef bint _names(self, const Candidate* number, int32_t f) noexcept nogil:
        """Whether the numbers of a field, which is likely to be the f-th, may be names."""
        cdef int32_t g
        cdef const Noted* noted
        for g in range(f, f + self.n_fields):
            if is_same(&self.fields[g % self.n_fields], number):
                noted = &self.values[g % self.n_fields].noted
                return noted.has_many and not noted.has_fractions
        return False

    cdef int take_fields(self, const Candidate* found, int32_t n) except -1 nogil:
        """Take other fields; a row that is there is average in those that are new.

        Without any, all rows are forgotten.
        """
        cdef size_t allowed = bytes_allowed()
        cdef int32_t fitting = self._most_places(n, allowed)
        if n == 0:
            self.clear()
            return 0
        self._lay(found, n, min(fitting, max(self.capacity, <int32_t> FIRST_PLACES)))
        self.allowed, self.fitting = allowed, fitting
        return 0

    cdef int _lay(self, const Candidate* fields, int32_t n, int32_t capacity) except -1 nogil:
        """Lay rows out by some fields and places; raises MemoryError before anything changes."""
        cdef Candidate* its_fields = NULL
        cdef Values* values = NULL
        cdef int32_t* field_of = NULL
        cdef Cell* cells = NULL
        cdef int32_t* labels = NULL
        cdef double* targets = NULL
        cdef float* weights = NULL
        cdef int32_t[MOST_FIELDS] sources
        cdef int32_t f, g, n_kept = min(self.size, capacity), n_columns = 0
        cdef bint is_done = False
        for f in range(n):
            n_columns = max(n_columns, fields[f].column + 1)
        try:
            field_of = <int32_t*> counted(NULL, n_columns * sizeof(int32_t))
            its_fields = <Candidate*> counted(NULL, n * sizeof(Candidate))
            values = <Values*> counted_zeros(n * sizeof(Values))
            cells = <Cell*> counted_zeros(<size_t> n * capacity * sizeof(Cell))
            weights = <float*> counted(NULL, capacity * sizeof(float))
            if self.has_targets:
                targets = <double*> counted(NULL, capacity * sizeof(double))
            else:
                labels = <int32_t*> counted(NULL, capacity * sizeof(int32_t))
            is_done = True
        finally:
            if not is_done:
                give_back(field_of)
                give_back(its_fields)
                give_back(values)
                give_back(cells)
                give_back(weights)
                give_back(targets)
        for f in range(n_columns):
            field_of[f] = -1
        for f in range(n):
            its_fields[f], sources[f] = fields[f], -1
            if is_number(&fields[f]):
                field_of[fields[f].column] = f
            for g in range(self.n_fields):
                if is_same(&self.fields[g], &fields[f]):
                    sources[f], values[f] = g, self.values[g]
        self._move(sources, n, cells, labels, targets, weights, n_kept)
        self._let_go(self.size - n_kept)
        self._give_back()
        self.fields, self.n_fields, self.capacity = its_fields, n, capacity
        self.field_of, self.n_columns, self.values = field_of, n_columns, values
        self.cells, self.weights, self.labels, self.targets = cells, weights, labels, targets
        self.size = n_kept
        self.next = n_kept % capacity if capacity else 0
        return 0

    cdef void _move(self, const int32_t* sources, int32_t n, Cell* cells, int32_t* labels,
                    double* targets, float* weights, int32_t n_kept) noexcept nogil:
        """Write the last rows, the oldest first; `sources` say which fields the new ones were."""
        cdef int32_t i, f, place
        cdef const Cell* before
        cdef Cell* after
        for i in range(n_kept):
            place = self.next - n_kept + i
            place += self.capacity if place < 0 else 0
            before = self.cells_of(place)
            after = &cells[<Py_ssize_t> (i // LANES) * n * LANES + i % LANES]
            for f in range(n):
                if sources[f] >= 0:
                    after[f * LANES] = before[sources[f] * LANES]
            weights[i] = self.weights[place]
            if self.has_targets:
                targets[i] = self.targets[place]
            else:
                labels[i] = self.labels[place]

    cdef void _let_go(self, int32_t n) noexcept nogil:
        """Count no longer the n oldest rows."""
        cdef int32_t i, first = self.next if self.size == self.capacity else 0
        for i in range(0 if self.has_targets else n):
            self.counts[self.labels[(first + i) % self.capacity]] -= 1

    # --------------------------------------------------------------------------------- rows

    cdef void read(self, const Row* row, Cell* cells) noexcept nogil:
        """The cells of a row; what is missing is average, or no category."""
        cdef const View* numbers = &row.standard
        cdef int32_t f, column
        cdef Py_ssize_t i
        for f in range(self.n_fields):
            cells[f].kind = 0
            if self.fields[f].group >= 0:
                cells[f].kind = <int32_t> row.kinds[self.fields[f].group]
            elif self.fields[f].is_exact:
                cells[f].kind = name_of(row.table[self.fields[f].column])
        for i in range(numbers.n):
            column = numbers.columns[i]
            if column < self.n_columns and self.field_of[column] >= 0:
                cells[self.field_of[column]].number = <float> numbers.values[i]

    cdef void _note_values(self, const Row* row) noexcept nogil:
        """See what values numbers have."""
        cdef int32_t f
        cdef uint32_t bit
        cdef uint64_t mask
        cdef float value
        cdef Noted* noted
        cdef uint64_t* bits
        for f in range(self.n_fields):
            noted, bits = &self.values[f].noted, self.values[f].bits
            if noted.has_fractions or not is_number(&self.fields[f]):
                continue
            value = row.table[self.fields[f].column]
            if value != value:
                continue
            noted.has_fractions = value != floorf(value)
            bit = <uint32_t> name_of(value) * <uint32_t> 2654435761 >> 24
            mask = <uint64_t> 1 << bit % 64
            noted.n_bits += not bits[bit // 64] & mask
            bits[bit // 64] |= mask
            noted.has_many |= noted.n_bits > FEW_BITS
            noted.n_rows += 1
            if noted.n_rows == SHOWN_ROWS:
                memset(bits, 0, WORDS * sizeof(uint64_t))
                noted.n_bits = noted.n_rows = 0

    cdef int push(self, const Row* row, const Cell* cells,
                  const Example* example) except -1 nogil:
        """Let a row in; the oldest one goes where there is no place left."""
        cdef int32_t f
        cdef Cell* place
        self._note_values(row)
        self._fit()
        if self.capacity == 0:
            return 0
        if not self.has_targets:
            self._reserve(example.label + 1)
            self.counts[example.label] += 1
        if self.size == self.capacity:
            self._let_go(1)
        place = self.cells_of(self.next)
        for f in range(self.n_fields):
            place[f * LANES] = cells[f]
        if self.has_targets:
            self.targets[self.next] = example.targets[0]
        else:
            self.labels[self.next] = example.label
        self.weights[self.next] = max(
            LEAST_WEIGHT, <float> min(example.weight, <double> MOST_WEIGHT)
        )
        self.size = min(self.size + 1, self.capacity)
        self.next = (self.next + 1) % self.capacity
        return 0

    cdef int _reserve(self, int32_t n) except -1 nogil:
        """Have room to count so many labels."""
        self.counts = <int32_t*> counted_room(
            self.counts, &self._count_capacity, n, sizeof(int32_t)
        )
        self.n_counted = max(self.n_counted, n)
        return 0

    cdef Cell* cells_of(self, int32_t place) noexcept nogil:
        """The cells of a row: LANES lie between two."""
        return &self.cells[
            <Py_ssize_t> (place // LANES) * self.n_fields * LANES + place % LANES
        ]

    cdef void describe(self, Query* query) noexcept nogil:
        """Fill in where the rows are."""
        query.cells, query.n_fields = self.cells, self.n_fields
        query.size, query.capacity, query.next = self.size, self.capacity, self.next

    # -------------------------------------------------------------------------------- state

    cdef dict state(self):
        cdef int32_t f, i, place
        cdef const Cell* row
        fields = np.empty((self.n_fields, 2), dtype=np.int32)
        values = np.empty(self.n_fields, dtype=NOTED)
        bits = np.empty((self.n_fields, WORDS), dtype=np.uint64)
        cells = np.empty((self.size, self.n_fields), dtype=np.int32)
        weights = np.empty(self.size, dtype=np.float32)
        targets = np.empty(self.size, dtype=np.float64 if self.has_targets else np.int32)
        cdef int32_t[:, ::1] its_fields = fields
        cdef Noted[::1] its_values = values
        cdef uint64_t[:, ::1] its_bits = bits
        cdef int32_t[:, ::1] its_cells = cells
        for f in range(self.n_fields):
            its_fields[f, 0], its_fields[f, 1] = self.fields[f].column, self.fields[f].is_exact
            its_values[f] = self.values[f].noted
            for i in range(WORDS):
                its_bits[f, i] = self.values[f].bits[i]
        for place in range(self.size):
            row = self.cells_of(place)
            for f in range(self.n_fields):
                its_cells[place, f] = row[f * LANES].kind
            weights[place] = self.weights[place]
            targets[place] = self.targets[place] if self.has_targets else self.labels[place]
        return {
            "fields": fields, "values": values, "bits": bits, "cells": cells, "weights": weights,
            "targets": targets,
            "capacity": self.capacity, "next": self.next,
            "n_counted": self.n_counted,
        }

    cdef int take_state(self, dict state) except -1:
        cdef const int32_t[:, ::1] columns = state["fields"]
        cdef const Noted[::1] values = state["values"]
        cdef const uint64_t[:, ::1] bits = state["bits"]
        cdef const int32_t[:, ::1] cells = state["cells"]
        cdef int32_t f, i, place, n = <int32_t> columns.shape[0]
        cdef Candidate[MOST_FIELDS] found
        cdef Cell* row
        for f in range(n):
            found[f] = candidate(self.context, columns[f, 0])
            found[f].is_exact = columns[f, 1]
        self.clear()
        if n == 0:
            return 0
        self.allowed = 0
        self._lay(found, n, state["capacity"])
        for f in range(n):
            self.values[f].noted = values[f]
            for i in range(WORDS):
                self.values[f].bits[i] = bits[f, i]
        self._reserve(state["n_counted"])
        self.size, self.next = <int32_t> cells.shape[0], state["next"]
        for place in range(self.size):
            row = self.cells_of(place)
            for f in range(n):
                row[f * LANES].kind = cells[place, f]
                if is_number(&found[f]):
                    # whatever a file says
                    row[f * LANES].number = <float> clipped(row[f * LANES].number)
            self.weights[place] = state["weights"][place]
            if self.has_targets:
                self.targets[place] = state["targets"][place]
            else:
                self.labels[place] = state["targets"][place]
                self.counts[self.labels[place]] += 1
        return 0
