"""A stateless generator: a hash of what the random number is for."""

from libc.stdint cimport uint32_t, uint64_t


cdef inline uint64_t splitmix64(uint64_t word) noexcept nogil:
    """Steele, Lea & Flood (2014): one step of SplitMix64 from the state `word`."""
    word += 0x9E3779B97F4A7C15ULL
    word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9ULL
    word = (word ^ (word >> 27)) * 0x94D049BB133111EBULL
    return word ^ (word >> 31)


cdef inline double random_sign(uint64_t seed, uint64_t node, uint64_t label) noexcept nogil:
    """-1 or +1, the same at every call with the same arguments."""
    cdef uint64_t word = splitmix64(splitmix64(seed ^ (node << 32)) ^ label)
    return 1.0 if word >> 63 else -1.0


cdef inline uint64_t next_random(uint64_t* state) noexcept nogil:
    """The next word of the sequence of SplitMix64 that `state` runs through."""
    cdef uint64_t word = splitmix64(state[0])
    state[0] += 0x9E3779B97F4A7C15ULL
    return word


cdef inline uint32_t below(uint64_t word, uint32_t n) noexcept nogil:
    """A number from 0 to n - 1 by the upper half of a random word."""
    return <uint32_t> (((word >> 32) * n) >> 32)


cdef inline double fraction(uint64_t word) noexcept nogil:
    """A number from 0 to below 1 by the lower half of a random word."""
    return <double> <uint32_t> word * (1.0 / 4294967296.0)
