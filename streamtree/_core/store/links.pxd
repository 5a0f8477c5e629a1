"""The shape of a tree: parents, children and siblings in a flat array, no recursion anywhere."""

from libc.stdint cimport int32_t


cdef enum:
    ROOT = 0


cdef struct Link:
    int32_t parent      # -1 at the root and beside the tree
    int32_t left        # the first child, -1 at a leaf
    int32_t right       # the last child
    int32_t next        # the next child of the same parent, -1 at the last one


cdef inline int32_t turn(const Link* links, int32_t node, double score) noexcept nogil:
    """The child on the side of the score; 0 goes left, everywhere."""
    return links[node].right if score > 0.0 else links[node].left


cdef class TreeLinks:
    cdef Link* links
    cdef int32_t size
    cdef int32_t capacity

    cdef int reserve(self, int32_t capacity) except -1 nogil
    cdef int own(self) except -1 nogil
    cdef int32_t add(self, int32_t parent) except -1 nogil
    cdef void append(self, int32_t parent, int32_t child) noexcept nogil
    cdef void attach(self, int32_t parent, int32_t left, int32_t right) noexcept nogil
    cdef void detach(self, int32_t leaf) noexcept nogil
    cdef void cut(self, int32_t size) noexcept nogil
    cdef void renumber(self, int32_t node, int32_t number) noexcept nogil
    cdef int32_t sibling(self, int32_t node) noexcept nogil
    cdef int32_t next_in_preorder(self, int32_t node, int32_t* depth) noexcept nogil
