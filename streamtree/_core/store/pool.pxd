"""Blocks of 4-byte words out of one array, of 2, 4, 8, ... words; freed ones are used again."""

from libc.stdint cimport int32_t


cdef enum:
    SIZES = 30


cdef union Word:
    int32_t number
    float value


cdef struct Pool:
    Word* words
    int32_t size                # words handed out so far, with those that were freed
    int32_t used                # words in blocks that are in use
    int32_t capacity
    int32_t heads[SIZES]        # by size: 1 + the first of the freed blocks, 0 for none


cdef inline int32_t room_for(int32_t n) noexcept nogil:
    """The least power of two of at least n and 2."""
    cdef int32_t room = 2
    while room < n:
        room *= 2
    return room


cdef int32_t pool_take(Pool* pool, int32_t room) except -1 nogil
cdef void pool_give(Pool* pool, int32_t block, int32_t room) noexcept nogil
cdef int32_t pool_move(Pool* pool, int32_t block, int32_t room, int32_t larger) except -1 nogil
cdef void pool_free(Pool* pool) noexcept nogil
