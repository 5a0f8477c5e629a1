"""Taking and giving back the blocks declared in pool.pxd."""

from libc.stdint cimport int32_t
from libc.stdlib cimport free
from libc.string cimport memcpy, memset

from streamtree._core.store.memory cimport raise_no_memory, regrown

cdef enum:
    FIRST_WORDS = 64
    MOST_WORDS = 0x3FFFFFFF


cdef inline int size_number(int32_t room) noexcept nogil:
    cdef int number = 0
    while 2 << number < room:
        number += 1
    return number


cdef int32_t pool_take(Pool* pool, int32_t room) except -1 nogil:
    """A block of `room` words, a power of two of at least 2; its words are anything."""
    cdef int number = size_number(room)
    cdef int32_t block = pool.heads[number] - 1
    cdef int32_t capacity
    if block >= 0:
        pool.heads[number] = pool.words[block].number
    else:
        if room > MOST_WORDS - pool.size:
            raise_no_memory()
        if pool.size + room > pool.capacity:
            capacity = pool.size + room
            capacity = min(MOST_WORDS, capacity + capacity // 2 + FIRST_WORDS)
            pool.words = <Word*> regrown(pool.words, <size_t> capacity * sizeof(Word))
            pool.capacity = capacity
        block = pool.size
        pool.size += room
    pool.used += room
    return block


cdef void pool_give(Pool* pool, int32_t block, int32_t room) noexcept nogil:
    """Give a block of `room` words back."""
    cdef int number = size_number(room)
    pool.words[block].number = pool.heads[number]
    pool.heads[number] = block + 1
    pool.used -= room


cdef int32_t pool_move(Pool* pool, int32_t block, int32_t room, int32_t larger) except -1 nogil:
    """Move what a block of `room` words holds to a larger one; returns the new block."""
    cdef int32_t moved = pool_take(pool, larger)
    memcpy(&pool.words[moved], &pool.words[block], room * sizeof(Word))
    pool_give(pool, block, room)
    return moved


cdef void pool_free(Pool* pool) noexcept nogil:
    """Give all memory back."""
    free(pool.words)
    memset(pool, 0, sizeof(Pool))
