"""Blocks of 4-byte words out of one array, of 2, 4, 8, ... words; freed ones are used again.

The array is counted, see budget.pxd: how long it is follows from which blocks were taken and given
back. A file has to have `freed`, so that this goes on as before.
"""

from libc.stdint cimport int32_t

from streamtree._core.store.budget cimport spacious


cpdef enum:
    SIZES = 30


cdef union Word:
    int32_t number
    float value


cdef struct Pool:
    Word* words
    int32_t size                # words handed out so far, with those that were freed
    int32_t capacity
    int32_t heads[SIZES]        # by size: 1 + the first of the freed blocks, 0 for none
    int32_t freed[SIZES]        # how many there are


cdef inline int32_t room_for(int32_t n) noexcept nogil:
    """The least power of two of at least n and 2."""
    cdef int32_t room = 2
    while room < n:
        room *= 2
    return room


cdef inline int size_number(int32_t room) noexcept nogil:
    """Which size a block of `room` words has."""
    cdef int number = 0
    while 2 << number < room:
        number += 1
    return number


cdef inline size_t pool_growth(const Pool* pool, int32_t room) noexcept nogil:
    """The bytes by which the array grows where a block of `room` words is taken."""
    if pool.heads[size_number(room)] or pool.size + room <= pool.capacity:
        return 0
    return (spacious(pool.size + room) - pool.capacity) * sizeof(Word)


cdef int pool_add_freed(Pool* pool, int number, int32_t n) except -1 nogil
cdef int32_t pool_take(Pool* pool, int32_t room) except -1 nogil
cdef void pool_give(Pool* pool, int32_t block, int32_t room) noexcept nogil
cdef int32_t pool_move(Pool* pool, int32_t block, int32_t room, int32_t larger) except -1 nogil
cdef void pool_free(Pool* pool) noexcept nogil
