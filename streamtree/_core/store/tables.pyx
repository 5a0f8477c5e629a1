"""Growing, freeing, listing and checking the tables declared in tables.pxd."""

cimport cython
from libc.stdint cimport int32_t, uint32_t
from libc.stdlib cimport free, malloc, qsort
from libc.string cimport memcpy, memset

from streamtree._core.store.memory cimport raise_no_memory, zeroed

import numpy as np

from streamtree._core.store.state import check_rows, require

cdef enum:
    # A dense table may have this many times the slots of the hash table it replaces: a slot
    # that needs no search is worth that much.
    DENSE_FACTOR = 2


cdef inline bint is_zero(const double* record, int width) noexcept nogil:
    cdef int i
    for i in range(width):
        if record[i] != 0.0:
            return False
    return True


cdef int32_t hash_capacity(Py_ssize_t entries) noexcept nogil:
    """The smallest power of two of at least 8 slots that is at most three quarters full."""
    cdef int32_t capacity = 8
    while 4 * entries > 3 * <Py_ssize_t> capacity:
        capacity *= 2
    return capacity


cdef int rebuild(Table* table, int width, Py_ssize_t entries, int32_t universe) except -1 nogil:
    """Move the table to the layout that suits `entries` keys out of 0 … universe - 1."""
    cdef Table grown
    cdef int32_t slot, target, key
    cdef int32_t capacity = hash_capacity(entries)
    cdef bint is_dense = False
    if universe <= DENSE_FACTOR * capacity:
        # room for an eighth more columns, so that a growing stream does not copy every row
        capacity = universe + universe // 8
        is_dense = True
    grown.records = <double*> zeroed(<size_t> capacity * width * sizeof(double))
    grown.keys = NULL
    if not is_dense:
        grown.keys = <int32_t*> malloc(capacity * sizeof(int32_t))
        if grown.keys == NULL:
            free(grown.records)
            raise_no_memory()
        memset(grown.keys, 0xFF, capacity * sizeof(int32_t))
    grown.capacity = capacity
    grown.size = 0
    for slot in range(table.capacity):
        key = slot if table.keys == NULL else table.keys[slot]
        if key < 0:
            continue
        if table.keys == NULL and is_zero(&table.records[<size_t> slot * width], width):
            continue
        target = place(&grown, key)
        memcpy(
            &grown.records[<size_t> target * width],
            &table.records[<size_t> slot * width],
            width * sizeof(double),
        )
    table_free(table)
    table[0] = grown
    return 0


cdef int32_t place(Table* table, int32_t key) noexcept nogil:
    """The slot of a key that is not in the table yet; there is room for it."""
    cdef uint32_t mask, slot
    table.size += 1
    if table.keys == NULL:
        return key
    mask = <uint32_t> table.capacity - 1
    slot = home_slot(key, mask)
    while table.keys[slot] >= 0:
        slot = (slot + 1) & mask
    table.keys[slot] = key
    return <int32_t> slot


cdef int32_t table_insert(Table* table, int width, int32_t key, int32_t universe) except -1 nogil:
    """The slot of `key`, made if it is absent. Slots found before may have moved."""
    cdef int32_t slot = table_find(table, key)
    if slot >= 0:
        return slot
    assert 0 <= key < universe
    if table.keys == NULL:
        # dense and too short (or brand new): the number of live records decides the layout
        rebuild(table, width, table_count(table, width) + 1, universe)
    elif 4 * (<Py_ssize_t> table.size + 1) > 3 * <Py_ssize_t> table.capacity:
        rebuild(table, width, table.size + 1, universe)
    slot = table_find(table, key)
    return slot if slot >= 0 else place(table, key)


cdef int map_put(Table* map, int32_t key, int32_t value) except -1 nogil:
    """Let `key` be found with `value`, whether it is new or not."""
    map.records[table_insert(map, 1, key, MAP_UNIVERSE)] = value
    return 0


cdef int table_reserve(
    Table* table, int width, Py_ssize_t entries, int32_t universe
) except -1 nogil:
    """Give an empty table the layout that suits so many keys out of 0 … universe - 1."""
    return rebuild(table, width, entries, universe) if entries else 0


cdef int table_locate_all(
    Table* table, int width, const int32_t* keys, Py_ssize_t n, int32_t universe, int32_t* slots
) except -1 nogil:
    """Fill slots[i] with the slot of keys[i], making the absent ones; keys do not repeat."""
    cdef Py_ssize_t i, absent = table_locate(table, keys, n, slots)
    cdef Py_ssize_t live
    if absent == 0:
        return 0
    live = table.size
    if table.keys == NULL:
        live = table_count(table, width)
        # a dense table has slots for keys that do not live there yet: a rebuild loses them
        for i in range(n):
            absent += slots[i] >= 0 and is_zero(
                &table.records[<size_t> slots[i] * width], width
            )
    if table.keys == NULL or 4 * (live + absent) > 3 * <Py_ssize_t> table.capacity:
        rebuild(table, width, live + absent, universe)
    for i in range(n):
        assert 0 <= keys[i] < universe
        slots[i] = table_find(table, keys[i])
        if slots[i] < 0:
            slots[i] = place(table, keys[i])
    return 0


cdef void table_free(Table* table) noexcept nogil:
    """Give the memory back and leave an empty table."""
    free(table.records)
    free(table.keys)
    memset(table, 0, sizeof(Table))


cdef int table_clone(Table* table, const Table* source, int width) except -1 nogil:
    """Make `table` a copy of `source`."""
    table_free(table)
    if source.capacity == 0:
        return 0
    table.records = <double*> malloc(<size_t> source.capacity * width * sizeof(double))
    if source.keys != NULL:
        table.keys = <int32_t*> malloc(source.capacity * sizeof(int32_t))
    if table.records == NULL or (source.keys != NULL and table.keys == NULL):
        table_free(table)
        raise_no_memory()
    memcpy(table.records, source.records, <size_t> source.capacity * width * sizeof(double))
    if source.keys != NULL:
        memcpy(table.keys, source.keys, source.capacity * sizeof(int32_t))
    table.capacity = source.capacity
    table.size = source.size
    return 0


cdef size_t table_bytes(const Table* table, int width) noexcept nogil:
    cdef size_t per_slot = width * sizeof(double)
    if table.keys != NULL:
        per_slot += sizeof(int32_t)
    return table.capacity * per_slot


cdef Py_ssize_t table_count(const Table* table, int width) noexcept nogil:
    """How many records are not all zero."""
    cdef int32_t slot
    cdef Py_ssize_t count = 0
    for slot in range(table.capacity):
        if not is_zero(&table.records[<size_t> slot * width], width):
            count += 1
    return count


cdef int compare_keys(const void* a, const void* b) noexcept nogil:
    cdef int32_t left = (<const int32_t*> a)[0], right = (<const int32_t*> b)[0]
    return (left > right) - (left < right)


cdef int32_t* table_sorted_slots(
    const Table* table, int width, Py_ssize_t* n
) except? NULL nogil:
    """The slots of the non-zero records in the order of their keys; the caller frees them.

    The order of the slots themselves depends on the layout, and so would a sum over them.
    """
    cdef Py_ssize_t i, count = table_count(table, width)
    cdef int32_t* slots = <int32_t*> malloc((count + 1) * sizeof(int32_t))
    cdef int32_t slot
    if slots == NULL:
        raise_no_memory()
    i = 0
    for slot in range(table.capacity):
        if not is_zero(&table.records[<size_t> slot * width], width):
            slots[i] = slot if table.keys == NULL else table.keys[slot]
            i += 1
    if table.keys != NULL:
        qsort(slots, count, sizeof(int32_t), compare_keys)
        for i in range(count):
            slots[i] = table_find(table, slots[i])
    n[0] = count
    return slots


@cython.final
cdef class TableExport:
    """The non-zero records of many tables as arrays, in the order of table and key.

    Table i has `keys[starts[i]:starts[i + 1]]` and the same lines of `records`. The layout of
    the tables leaves no trace.
    """

    def __cinit__(self, int width):
        self._width = width
        self._keys = []
        self._records = []

    cdef int add(self, const Table* table) except -1:
        cdef int width = self._width
        cdef Py_ssize_t i, count
        cdef int32_t* slots = table_sorted_slots(table, width, &count)
        cdef int32_t[::1] keys
        cdef double[:, ::1] records
        try:
            keys = np.empty(count, dtype=np.int32)
            records = np.empty((count, width))
            for i in range(count):
                keys[i] = slots[i] if table.keys == NULL else table.keys[slots[i]]
                memcpy(&records[i, 0], &table.records[<size_t> slots[i] * width],
                       width * sizeof(double))
        finally:
            free(slots)
        self._keys.append(np.asarray(keys))
        self._records.append(np.asarray(records))
        return 0

    def arrays(self):
        """A dict of `starts`, `keys` and `records`."""
        starts = np.zeros(len(self._keys) + 1, dtype=np.int64)
        np.cumsum([len(keys) for keys in self._keys], out=starts[1:])
        return {
            "starts": starts,
            "keys": np.concatenate([np.empty(0, dtype=np.int32), *self._keys]),
            "records": np.concatenate([np.empty((0, self._width)), *self._records]),
        }


cdef int import_table(
    Table* table, int width, int32_t universe, dict arrays, Py_ssize_t i
) except -1:
    """Fill an empty table with the i-th of those that `TableExport` gave."""
    cdef Py_ssize_t start = arrays["starts"][i], end = arrays["starts"][i + 1], line
    cdef const int32_t[::1] keys = arrays["keys"][start:end]
    cdef const double[:, ::1] records = arrays["records"][start:end]
    cdef int32_t[::1] slots
    if start == end:
        return 0
    slots = np.empty(end - start, dtype=np.int32)
    table_locate_all(table, width, &keys[0], end - start, universe, &slots[0])
    for line in range(end - start):
        memcpy(&table.records[<size_t> slots[line] * width], &records[line, 0],
               width * sizeof(double))
    return 0


def check_tables(tables, n_tables, n_keys, width):
    """Check tables: where each begins, its keys, ascending below `n_keys`, and their records.

    `width` is the number of doubles of a record in the core.
    """
    starts, keys, records = tables["starts"], tables["keys"], tables["records"]
    require(len(starts) == n_tables + 1, "the number of tables")
    check_rows(starts, len(keys))
    require(records.shape == (len(keys), width), "the records of the tables")
    if len(keys):
        require(keys.min() >= 0 and keys.max() < n_keys, "a key out of range")
        ascends = keys[1:] > keys[:len(keys) - 1]
        # the first key of a table need not be larger than the last one of the table before
        borders = starts[1:n_tables]
        ascends[borders[(borders > 0) & (borders < len(keys))] - 1] = True
        require(ascends.all(), "the order of the keys")
