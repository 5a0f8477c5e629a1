"""Taking and giving back the blocks declared in pool.pxd."""

from libc.stdint cimport int32_t, int64_t
from libc.string cimport memcpy, memset

from streamtree._core.store.budget cimport counted, give_back, spacious
from streamtree._core.store.memory cimport raise_no_memory

cdef enum:
    MOST_WORDS = 0x2FFFFFFF


cdef inline int32_t pool_append(Pool* pool, int32_t room) except -1 nogil:
    """A new block at the end of the array."""
    cdef int64_t capacity
    if room > MOST_WORDS - pool.size:
        raise_no_memory()
    if pool.size + room > pool.capacity:
        capacity = spacious(pool.size + room)
        pool.words = <Word*> counted(pool.words, capacity * sizeof(Word))
        pool.capacity = <int32_t> capacity
    pool.size += room
    return pool.size - room


cdef int32_t pool_take(Pool* pool, int32_t room) except -1 nogil:
    """A block of `room` words, a power of two of at least 2; its words are anything."""
    cdef int number = size_number(room)
    cdef int32_t block = pool.heads[number] - 1
    if block >= 0:
        pool.heads[number] = pool.words[block].number
        pool.freed[number] -= 1
        return block
    return pool_append(pool, room)


cdef void pool_give(Pool* pool, int32_t block, int32_t room) noexcept nogil:
    """Give a block of `room` words back."""
    cdef int number = size_number(room)
    pool.words[block].number = pool.heads[number]
    pool.heads[number] = block + 1
    pool.freed[number] += 1


cdef int32_t pool_move(Pool* pool, int32_t block, int32_t room, int32_t larger) except -1 nogil:
    """Move what a block of `room` words holds to a larger one; returns the new block."""
    cdef int32_t moved = pool_take(pool, larger)
    memcpy(&pool.words[moved], &pool.words[block], room * sizeof(Word))
    pool_give(pool, block, room)
    return moved


cdef int pool_add_freed(Pool* pool, int number, int32_t n) except -1 nogil:
    """Let there be n freed blocks of a size more."""
    cdef int32_t room = 2 << number
    for _ in range(n):
        pool_give(pool, pool_append(pool, room), room)
    return 0


cdef void pool_free(Pool* pool) noexcept nogil:
    """Give all memory back."""
    give_back(pool.words)
    memset(pool, 0, sizeof(Pool))
