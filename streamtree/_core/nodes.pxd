"""The shape of a binary tree: parents and children in a flat array, no recursion anywhere."""

from libc.stdint cimport int32_t


cdef enum:
    ROOT = 0


cdef struct Link:
    int32_t parent      # -1 at the root
    int32_t left        # -1 at a leaf
    int32_t right
    int32_t unused      # keeps the struct free of hidden padding


cdef class BinaryTree:
    cdef Link* links
    cdef int32_t size
    cdef int32_t capacity

    cdef int reserve(self, int32_t capacity) except -1 nogil
    cdef int32_t add(self, int32_t parent) except -1 nogil
    cdef void detach(self, int32_t leaf) noexcept nogil
    cdef void attach(self, int32_t parent, int32_t left, int32_t right) noexcept nogil
    cdef int32_t sibling(self, int32_t node) noexcept nogil
    cdef int32_t next_in_preorder(self, int32_t node, int32_t* depth) noexcept nogil
