"""Growing, freeing and listing the tables declared in tables.pxd."""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t, uint32_t
from libc.stdlib cimport free, malloc, qsort
from libc.string cimport memcpy, memmove, memset

from streamtree._core.store.budget cimport counted_zeros, give_back, has_room, shrunk
from streamtree._core.store.memory cimport raise_no_memory

import numpy as np

cdef enum:
    # Slots of a dense table for each of a hash table of its records, at the most: many that had
    # room made may never have learned anything.
    MOST_EMPTY = 16
    # A dense table of so few slots, with so few numbers each, has no spare ones: to copy it takes
    # no time.
    FEW_SLOTS = 256
    NARROW = 2


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


cdef struct Layout:
    int32_t capacity
    bint is_dense


cdef Layout layout_for(
    Py_ssize_t entries, int width, int32_t universe, int32_t factor=DENSE_FACTOR
) noexcept nogil:
    """What suits `entries` keys out of 0 … universe - 1."""
    cdef int32_t capacity = hash_capacity(entries)
    if universe > MANY_KEYS:
        factor = DENSE_FACTOR
    if universe <= factor * capacity:
        if width <= NARROW and universe <= FEW_SLOTS:
            return Layout(universe, True)
        # room for an eighth more columns, so that a growing stream does not copy every row
        return Layout(universe + universe // 8, True)
    return Layout(capacity, False)


cdef size_t layout_bytes(const Layout* layout, int width) noexcept nogil:
    cdef size_t per_slot = width * sizeof(double)
    return layout.capacity * (per_slot if layout.is_dense else per_slot + sizeof(int32_t))


cdef int table_allocate(Table* table, int width, int32_t capacity, bint is_dense) except -1 nogil:
    """Make a table of so many empty slots; what it was is not looked at."""
    cdef Layout layout = Layout(capacity, is_dense)
    table.records = <double*> counted_zeros(layout_bytes(&layout, width))
    set_layout(table, width, &layout)
    return 0


cdef void set_layout(Table* table, int width, const Layout* layout) noexcept nogil:
    """Let the block of a table have a layout, and no keys yet."""
    table.keys = NULL
    if not layout.is_dense:
        # behind the records
        table.keys = <int32_t*> (table.records + <size_t> layout.capacity * width)
        memset(table.keys, 0xFF, layout.capacity * sizeof(int32_t))
    table.capacity = layout.capacity
    table.size = 0


cdef int rebuild(Table* table, int width, const Layout* layout) except -1 nogil:
    """Move a table to another layout."""
    cdef Table grown
    cdef int32_t slot, target, key
    table_allocate(&grown, width, layout.capacity, layout.is_dense)
    for slot in range(table.capacity):
        key = table_key(table, slot)
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
    cdef Layout layout
    if slot >= 0:
        return slot
    assert 0 <= key < universe
    if table.keys == NULL:
        # dense and too short (or brand new): the number of live records decides the layout
        layout = layout_for(table_count(table, width) + 1, width, universe)
        rebuild(table, width, &layout)
    elif 4 * (<Py_ssize_t> table.size + 1) > 3 * <Py_ssize_t> table.capacity:
        layout = layout_for(table.size + 1, width, universe)
        rebuild(table, width, &layout)
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
    cdef Layout layout = layout_for(entries, width, universe)
    return rebuild(table, width, &layout) if entries else 0


cdef Py_ssize_t table_locate_all(
    Table* table, int width, const int32_t* keys, Py_ssize_t n, int32_t universe, int32_t factor,
    int32_t* slots
) except -1 nogil:
    """Fill slots[i] with the slot of keys[i], making the absent ones; keys do not repeat.

    Where the model has no room for a larger table the absent ones stay absent, with a slot of -1;
    it returns how many.
    """
    cdef Py_ssize_t i, absent = table_locate(table, keys, n, slots), missing = absent
    cdef Py_ssize_t live
    cdef Layout layout
    if absent == 0:
        return 0
    live = table.size
    if table.keys == NULL:
        # as if it were full: to count what is in it takes as long as to copy it
        layout = layout_for(table.capacity + absent, width, universe, factor)
        if not has_room(layout_bytes(&layout, width)):
            return missing
        live = table_count(table, width)
        # a dense table has slots for keys that do not live there yet: a rebuild loses them
        for i in range(n):
            absent += slots[i] >= 0 and is_zero(
                &table.records[<size_t> slots[i] * width], width
            )
    if table.keys == NULL or 4 * (live + absent) > 3 * <Py_ssize_t> table.capacity:
        layout = layout_for(live + absent, width, universe, factor)
        if not has_room(layout_bytes(&layout, width)):
            return missing
        rebuild(table, width, &layout)
    for i in range(n):
        assert 0 <= keys[i] < universe
        slots[i] = table_find(table, keys[i])
        if slots[i] < 0:
            slots[i] = place(table, keys[i])
    return 0


cdef uint32_t least_bits(const uint32_t* bits, int32_t n, Py_ssize_t most) noexcept nogil:
    """A limit that so many numbers at the most are below, but not 0; of those that are almost the
    same all are, or none."""
    cdef int32_t[2048] counts
    cdef uint32_t upper = 0, part = 0
    cdef int32_t i
    cdef bint is_lower
    for is_lower in range(2):
        memset(counts, 0, sizeof(counts))
        for i in range(n):
            if not is_lower:
                counts[bits[i] >> 20] += bits[i] != 0
            elif bits[i] >> 20 == upper:
                counts[bits[i] >> 9 & 2047] += bits[i] != 0
        part = 0
        while part < 2047 and counts[part] <= most:
            most -= counts[part]
            part += 1
        if not is_lower:
            upper = part
    return (upper << 20) + (part << 9)


cdef void table_thin(
    Table* table, int width, double share, int32_t universe, RecordWorth worth
) noexcept nogil:
    """Drop up to a share of the records, those that are worth least, if that saves memory.

    The others are moved within the block. Where there is no room to work the table stays as it is.
    """
    cdef size_t size = width * sizeof(double)
    cdef Py_ssize_t n_live = table_count(table, width)
    cdef int32_t slot, before = table.capacity, n = 0
    cdef uint32_t limit
    cdef float number
    cdef Layout layout = layout_for(n_live - <Py_ssize_t> (share * n_live), width, universe)
    # a worth by slot, as bits in the same order; keys; where a record goes, -1: it is none
    cdef uint32_t* bits
    cdef int32_t* keys
    cdef int32_t* targets
    if layout_bytes(&layout, width) >= table_bytes(table, width):
        return
    # a layout of less bytes has no more than half as many slots again
    bits = <uint32_t*> malloc(4 * <size_t> before * sizeof(int32_t))
    if bits == NULL:
        return
    memset(bits, 0, before * sizeof(uint32_t))
    keys = <int32_t*> (bits + before)
    targets = keys + before
    for slot in range(before):
        keys[slot] = table_key(table, slot)
        if not is_zero(&table.records[<size_t> slot * width], width):
            number = worth(&table.records[<size_t> slot * width], width, keys[slot])
            memcpy(&bits[slot], &number, sizeof(float))
            bits[slot] += 1
    limit = least_bits(bits, before, <Py_ssize_t> (share * n_live))
    for slot in range(before):
        n += bits[slot] >= max(limit, 1)
    layout = layout_for(n, width, universe)
    if n and layout_bytes(&layout, width) < table_bytes(table, width):
        # side by side, then each to its slot
        n = 0
        for slot in range(before):
            if bits[slot] >= max(limit, 1):
                memmove(
                    &table.records[<size_t> n * width], &table.records[<size_t> slot * width], size
                )
                keys[n] = keys[slot]
                n += 1
        table.records = <double*> shrunk(table.records, layout_bytes(&layout, width))
        memset(&table.records[<size_t> n * width], 0, layout_bytes(&layout, width) - n * size)
        set_layout(table, width, &layout)
        place_all(table, width, keys, targets, n)
    free(bits)


cdef void place_all(
    Table* table, int width, const int32_t* keys, int32_t* targets, int32_t n
) noexcept nogil:
    """Move the first n records to the slots of their keys; in `targets` there is a place a slot."""
    cdef int32_t slot, to
    memset(targets, 0xFF, table.capacity * sizeof(int32_t))
    for slot in range(n):
        targets[slot] = place(table, keys[slot])
    for slot in range(n):
        while targets[slot] >= 0 and targets[slot] != slot:
            to = targets[slot]
            swap_records(table, width, slot, to)
            targets[slot] = targets[to]
            targets[to] = to


cdef inline void swap_records(Table* table, int width, int32_t a, int32_t b) noexcept nogil:
    cdef double* one = &table.records[<size_t> a * width]
    cdef double* other = &table.records[<size_t> b * width]
    cdef double number
    cdef int i
    for i in range(width):
        number = one[i]
        one[i] = other[i]
        other[i] = number


cdef void table_free(Table* table) noexcept nogil:
    """Give the memory back and leave an empty table."""
    give_back(table.records)
    memset(table, 0, sizeof(Table))


cdef int table_clone(Table* table, const Table* source, int width) except -1 nogil:
    """Make `table` a copy of `source`."""
    table_free(table)
    if source.capacity == 0:
        return 0
    table_allocate(table, width, source.capacity, source.keys == NULL)
    memcpy(table.records, source.records, <size_t> source.capacity * width * sizeof(double))
    if source.keys != NULL:
        memcpy(table.keys, source.keys, source.capacity * sizeof(int32_t))
    table.size = source.size
    return 0


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


cdef Py_ssize_t fewest_for(int32_t capacity) noexcept nogil:
    """How many records a file must have of a dense table of so many slots, see `layout_of`."""
    cdef Py_ssize_t n = 0
    while MOST_EMPTY * <Py_ssize_t> hash_capacity(n) < capacity:
        # one more than its hash table would hold
        n = 3 * <Py_ssize_t> hash_capacity(n) // 4 + 1
    return n


cdef int32_t* table_sorted_slots(
    const Table* table, int width, Py_ssize_t* n, bint is_for_file=False
) except? NULL nogil:
    """The slots of the non-zero records in the order of their keys; the caller frees them.

    The order of the slots themselves depends on the layout, and so would a sum over them. For a
    file with records that are zero: all of a hash table, of a dense one as many as tell that it is
    dense.
    """
    cdef Py_ssize_t i, count = table_count(table, width), n_zeros = 0
    cdef int32_t* slots
    cdef int32_t slot
    if is_for_file:
        n_zeros = table.size - count
        if table.keys == NULL:
            n_zeros = max(fewest_for(table.capacity) - count, <Py_ssize_t> 0)
    count += n_zeros
    slots = <int32_t*> malloc((count + 1) * sizeof(int32_t))
    if slots == NULL:
        raise_no_memory()
    i = 0
    for slot in range(table.capacity):
        if table.keys != NULL and table.keys[slot] < 0:
            continue
        if is_zero(&table.records[<size_t> slot * width], width):
            if n_zeros == 0:
                continue
            n_zeros -= 1
        slots[i] = table_key(table, slot)
        i += 1
    if table.keys != NULL:
        qsort(slots, count, sizeof(int32_t), compare_keys)
        for i in range(count):
            slots[i] = table_find(table, slots[i])
    n[0] = count
    return slots


@cython.final
cdef class TableExport:
    """The records of many tables as arrays, in the order of table and key.

    Of a dense table those that are zero are left out, but for a few where too few are left.

    Table i has `keys[starts[i]:starts[i + 1]]` and the same lines of `records`. `capacities` are
    those of the tables, negative where they are dense: what there is room for must not depend on
    whether a model was saved.
    """

    def __cinit__(self, int width):
        self._width = width
        self._starts = [0]
        self._keys = []
        self._records = []
        self._capacities = []

    cdef int add(self, const Table* table) except -1:
        cdef int width = self._width
        cdef Py_ssize_t i, count
        # what counts when a hash table is to grow is how many keys it has
        cdef int32_t* slots = table_sorted_slots(table, width, &count, True)
        cdef bytes records
        cdef double* room
        try:
            records = PyBytes_FromStringAndSize(NULL, count * width * sizeof(double))
            room = <double*> PyBytes_AS_STRING(records)
            for i in range(count):
                memcpy(&room[i * width], &table.records[<size_t> slots[i] * width],
                       width * sizeof(double))
                if table.keys != NULL:
                    slots[i] = table.keys[slots[i]]
            self._keys.append(
                PyBytes_FromStringAndSize(<const char*> slots, count * sizeof(int32_t))
            )
        finally:
            free(slots)
        self._starts.append(self._starts[len(self._capacities)] + count)
        self._records.append(records)
        self._capacities.append(-table.capacity if table.keys == NULL else table.capacity)
        return 0

    def arrays(self):
        """A dict of `starts`, `keys`, `records` and `capacities`."""
        return {
            "starts": np.array(self._starts, dtype=np.int64),
            "keys": np.frombuffer(bytearray().join(self._keys), dtype=np.int32),
            "records": np.frombuffer(bytearray().join(self._records)).reshape(-1, self._width),
            "capacities": np.array(self._capacities, dtype=np.int32),
        }


cdef Layout layout_of(
    int64_t capacity, Py_ssize_t n, int32_t last, int width, int32_t universe
):
    """The layout that a capacity of `arrays` stands for, or that of new tables if it cannot be.

    A table of n keys, the largest of them `last`: a file must not ask for more than its table
    could have.
    """
    cdef int32_t least = hash_capacity(n)
    cdef int32_t most = (2 if universe <= MANY_KEYS else 1) * MOST_EMPTY * least
    if capacity < 0 and last < -capacity <= min(universe + universe // 8, most):
        return Layout(<int32_t> -capacity, True)
    if least <= capacity <= 4 * least and capacity & (capacity - 1) == 0:
        return Layout(<int32_t> capacity, False)
    return layout_for(n, width, universe)


cdef int import_table(
    Table* table, int width, int32_t universe, dict arrays, Py_ssize_t i
) except -1:
    """Fill an empty table with the i-th of those that `TableExport` gave."""
    cdef Py_ssize_t start = arrays["starts"][i], end = arrays["starts"][i + 1], line
    cdef int32_t capacity = arrays["capacities"][i]
    cdef const int32_t[::1] keys
    cdef const double[:, ::1] records
    cdef int32_t[::1] slots
    cdef Layout layout
    if start == end and capacity == 0:
        return 0
    keys, records = arrays["keys"][start:end], arrays["records"][start:end]
    layout = layout_of(
        capacity, end - start, keys[end - start - 1] if end > start else -1, width, universe
    )
    rebuild(table, width, &layout)
    if start == end:
        return 0
    slots = np.empty(end - start, dtype=np.int32)
    table_locate_all(table, width, &keys[0], end - start, universe, DENSE_FACTOR, &slots[0])
    for line in range(end - start):
        memcpy(&table.records[<size_t> slots[line] * width], &records[line, 0],
               width * sizeof(double))
    return 0
