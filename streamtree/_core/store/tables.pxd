"""Tables: a record of a few doubles for every key (a column or a class) met, and maps of ints.

A table is dense (slot = key) while that costs little, else an open-addressing hash table.
Absent keys stand for all-zero records, so the layout never changes a result.
"""

from libc.stdint cimport int32_t, uint32_t

from streamtree._core.store.memory cimport prefetch

cdef enum:
    # more keys than any dense table has slots: a map is always hashed
    MAP_UNIVERSE = 0x7FFFFFFF
    # A dense table may have this many times the slots of the hash table it replaces: a slot that
    # needs no search is worth that much. Where a row looks into a table at every node of a path,
    # it is worth more, if there are not too many keys.
    DENSE_FACTOR = 2
    PATH_FACTOR = 8
    MANY_KEYS = 2048


cdef struct Table:
    double* records     # capacity x width numbers, by slot; the block of the table
    int32_t* keys       # in it the key in each slot, -1 where empty; NULL: dense, slot = key
    int32_t capacity
    int32_t size        # occupied slots (hash), records that may be non-zero (dense)


# what a record is worth, at least 0
ctypedef float (*RecordWorth)(const double* record, int width, int32_t key) noexcept nogil


cdef inline uint32_t home_slot(int32_t key, uint32_t mask) noexcept nogil:
    """Where a hash table of mask + 1 slots looks for a key first (Fibonacci hashing)."""
    return (<uint32_t> key * 2654435769u >> 7) & mask


cdef inline void table_prefetch(const Table* table, int width, int32_t key) noexcept nogil:
    """Ask for the memory in which the record of `key` would be found first."""
    cdef uint32_t slot = <uint32_t> key
    if table.keys != NULL:
        slot = home_slot(key, <uint32_t> table.capacity - 1)
        prefetch(&table.keys[slot])
    prefetch(&table.records[<size_t> slot * width])


cdef inline int32_t table_find(const Table* table, int32_t key) noexcept nogil:
    """The slot of `key`, or -1."""
    cdef uint32_t mask, slot
    if table.keys == NULL:
        return key if key < table.capacity else -1
    mask = <uint32_t> table.capacity - 1
    slot = home_slot(key, mask)
    while table.keys[slot] != key:
        if table.keys[slot] < 0:
            return -1
        slot = (slot + 1) & mask
    return <int32_t> slot


cdef inline int32_t table_key(const Table* table, int32_t slot) noexcept nogil:
    """The key of a slot; -1 in an empty one of a hash table."""
    return slot if table.keys == NULL else table.keys[slot]


cdef inline Py_ssize_t table_locate(
    const Table* table, const int32_t* keys, Py_ssize_t n, int32_t* slots
) noexcept nogil:
    """Fill slots[i] with the slot of keys[i] or -1; returns how many are absent."""
    cdef Py_ssize_t i, absent = 0
    for i in range(n):
        slots[i] = table_find(table, keys[i])
        absent += slots[i] < 0
    return absent


cdef inline size_t table_bytes(const Table* table, int width) noexcept nogil:
    cdef size_t per_slot = width * sizeof(double)
    if table.keys != NULL:
        per_slot += sizeof(int32_t)
    return table.capacity * per_slot


# A map from ints of at least 0 to ints is a table of width 1, freed by table_free. Its layout
# depends on the number of its keys only.

cdef inline int32_t map_find(const Table* map, int32_t key) noexcept nogil:
    """What `key` was put with, or -1."""
    cdef int32_t slot = table_find(map, key)
    return <int32_t> map.records[slot] if slot >= 0 else -1


cdef inline size_t map_bytes(const Table* map) noexcept nogil:
    return table_bytes(map, 1)


cdef int map_put(Table* map, int32_t key, int32_t value) except -1 nogil
cdef int32_t table_insert(Table* table, int width, int32_t key, int32_t universe) except -1 nogil
cdef int table_reserve(
    Table* table, int width, Py_ssize_t entries, int32_t universe
) except -1 nogil
cdef Py_ssize_t table_locate_all(
    Table* table, int width, const int32_t* keys, Py_ssize_t n, int32_t universe, int32_t factor,
    int32_t* slots
) except -1 nogil
cdef int table_allocate(Table* table, int width, int32_t capacity, bint is_dense) except -1 nogil
cdef int table_clone(Table* table, const Table* source, int width) except -1 nogil
cdef void table_thin(
    Table* table, int width, double share, int32_t universe, RecordWorth worth
) noexcept nogil
cdef void table_free(Table* table) noexcept nogil
cdef Py_ssize_t table_count(const Table* table, int width) noexcept nogil
cdef int32_t* table_sorted_slots(
    const Table* table, int width, Py_ssize_t* n, bint is_for_file=*
) except? NULL nogil


cdef class TableExport:
    cdef int _width
    cdef list _starts
    cdef list _keys
    cdef list _records
    cdef list _capacities

    cdef int add(self, const Table* table) except -1


cdef int import_table(
    Table* table, int width, int32_t universe, dict arrays, Py_ssize_t i
) except -1
