"""What came with contexts, and was expected: one table of a bounded size, which forgets.

A context is known by a hash. It lies in one of a few slots that follow from that; where all are
taken, the one goes whose context came last the longest ago.
"""

cimport cython
from libc.stdint cimport int32_t, uint32_t
from libc.string cimport memcpy, memset

from streamtree._core.store.budget cimport bytes_allowed, counted_zeros, give_back, may_grow

import numpy as np

cpdef enum:
    # slots in which a context may lie
    PROBES = 4
    FIRST_SLOTS = 1024
    # where memory is short
    LEAST_SLOTS = 64
    # the table is laid anew, so many times as large, when three of four slots are taken; where
    # there is no room for that, twice as large
    GROWTH = 4
    # bytes that it takes at most
    MOST_BYTES = 4194304
    # and parts of 8 of what the model may take: more than what it may grow to
    PARTS = 5

cdef struct RecordState:
    int32_t slot
    uint32_t key
    uint32_t last
    uint32_t labels


cdef RecordState _blank
RECORDS = np.asarray(<RecordState[:1]> &_blank).dtype


cdef inline int32_t places_of(int32_t n_labels) noexcept nogil:
    """Labels for which records have counts, so that they need not be laid anew with each."""
    return n_labels if n_labels <= 2 else (n_labels + 3) // 4 * 4


cpdef inline size_t size_of(int32_t n_places) noexcept nogil:
    """The bytes of a record."""
    return sizeof(Record) + n_places * SUMS * sizeof(float)


@cython.final
cdef class ContextCounts:
    """Records of contexts, by hash."""

    def __dealloc__(self):
        give_back(self.records)

    cdef int clear(self) except -1 nogil:
        give_back(self.records)
        self.records = NULL
        self.n_slots = self.n_used = self.n_places = 0
        self.size = 0
        return 0

    cdef int32_t find(self, uint32_t key) noexcept nogil:
        """The slot of a context, or -1."""
        cdef uint32_t mask = <uint32_t> self.n_slots - 1, slot, i
        for i in range(PROBES if self.n_slots else 0):
            slot = ((key >> 1) + i) & mask
            if self.at(slot).key == key:
                return <int32_t> slot
            if self.at(slot).key == 0:
                return -1
        return -1

    cdef Record* find_or_add(self, uint32_t key, uint32_t last, uint32_t row) noexcept nogil:
        """The record of a context that came with a row; a new one has no labels.

        NULL where there are only others, and all of them came later.
        """
        cdef uint32_t mask = <uint32_t> self.n_slots - 1, i
        cdef Record* record
        cdef Record* oldest = NULL
        for i in range(PROBES):
            record = self.at(((key >> 1) + i) & mask)
            if record.key == key:
                return record
            if record.key == 0:
                self.n_used += 1
                oldest = record
                break
            # what came with this very row stays, if anything else is there
            if oldest == NULL or row - record.last > row - oldest.last:
                oldest = record
        if oldest.key and row - last > row - oldest.last:
            return NULL
        memset(oldest, 0, self.size)
        oldest.key, oldest.last = key, last
        return oldest

    cdef int make_room(self, int32_t n_labels, int32_t n_more, uint32_t row) except -1 nogil:
        """Make room for the labels and for so many more contexts, as far as there may be.

        Returns 1 if records lie elsewhere now.
        """
        cdef int32_t n_places = max(places_of(n_labels), self.n_places)
        cdef int32_t n_slots = self.n_slots if self.n_slots else FIRST_SLOTS
        cdef int32_t most_slots = FIRST_SLOTS, times = GROWTH
        cdef size_t size = size_of(n_places), most = min(
            bytes_allowed() // 8 * PARTS, <size_t> MOST_BYTES
        )
        if self.n_slots and 4 * (self.n_used + n_more) > 3 * n_slots:
            # as far as a table that grows without a bound
            while 2 * most_slots * size <= MOST_BYTES:
                most_slots *= 2
            while times > 1 and not (
                n_slots * times <= most_slots and may_grow(n_slots * times * size)
            ):
                times //= 2
            n_slots *= times
        while n_slots > LEAST_SLOTS and n_slots * size > most:
            n_slots //= 2
        if n_slots == self.n_slots and n_places == self.n_places:
            return 0
        self._lay(n_slots, n_places, row)
        return 1

    cdef int _lay(self, int32_t n_slots, int32_t n_places, uint32_t row) except -1 nogil:
        """Lay the table anew; where slots become fewer, those go that came first."""
        cdef char* old = self.records
        cdef const Record* record
        cdef Record* place
        cdef size_t old_size = self.size
        cdef int32_t slot, old_slots = self.n_slots
        cdef char* block = <char*> counted_zeros(n_slots * size_of(n_places))
        self.records = block
        self.n_slots, self.n_places, self.n_used = n_slots, n_places, 0
        self.size = size_of(n_places)
        for slot in range(old_slots):
            record = <const Record*> &old[slot * old_size]
            place = self.find_or_add(record.key, record.last, row) if record.key else NULL
            if place != NULL:
                memcpy(place, record, old_size)
        give_back(old)
        return 0

    # -------------------------------------------------------------------------------- state

    cdef dict state(self):
        cdef int32_t slot, n = 0
        cdef const Record* record
        records = np.empty(self.n_used, dtype=RECORDS)
        counts = np.empty((self.n_used, self.n_places, SUMS), dtype=np.float32)
        cdef RecordState[::1] view = records
        cdef float[:, :, ::1] numbers = counts
        for slot in range(self.n_slots):
            record = self.at(slot)
            if record.key:
                view[n] = RecordState(slot, record.key, record.last, record.labels)
                memcpy(
                    &numbers[n, 0, 0], self.counts_of(<Record*> record),
                    self.n_places * SUMS * sizeof(float),
                )
                n += 1
        return {
            "records": records, "counts": counts, "slots": self.n_slots, "places": self.n_places,
        }

    cdef int take_state(self, dict state) except -1:
        cdef const RecordState[::1] view = state["records"]
        cdef const float[:, :, ::1] numbers = state["counts"]
        cdef int32_t n_slots = state["slots"], n_places = state["places"]
        cdef Py_ssize_t i
        cdef Record* record
        self.clear()
        if n_slots == 0:
            return 0
        self._lay(n_slots, n_places, 0)
        for i in range(view.shape[0]):
            record = self.at(view[i].slot)
            record.key, record.last, record.labels = view[i].key, view[i].last, view[i].labels
            memcpy(
                self.counts_of(record), &numbers[i, 0, 0], n_places * SUMS * sizeof(float)
            )
        self.n_used = <int32_t> view.shape[0]
        return 0
