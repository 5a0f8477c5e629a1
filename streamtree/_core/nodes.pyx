"""Growing, pruning and walking the binary tree declared in nodes.pxd."""

cimport cython
from libc.stdint cimport int32_t
from libc.stdlib cimport free
from libc.string cimport memcpy

from streamtree._core.memory cimport regrown

import numpy as np


@cython.final
cdef class BinaryTree:
    """Nodes 0 … size - 1; node 0 is the root and stays it."""

    def __cinit__(self):
        self.add(-1)

    def __dealloc__(self):
        free(self.links)

    def __sizeof__(self):
        return object.__sizeof__(self) + self.capacity * sizeof(Link)

    cdef int reserve(self, int32_t capacity) except -1 nogil:
        if capacity <= self.capacity:
            return 0
        capacity += capacity // 2
        self.links = <Link*> regrown(self.links, capacity * sizeof(Link))
        self.capacity = capacity
        return 0

    cdef int32_t add(self, int32_t parent) except -1 nogil:
        """A new leaf that says who its parent is; the parent does not know it yet."""
        self.reserve(self.size + 1)
        self.links[self.size] = Link(parent, -1, -1, 0)
        self.size += 1
        return self.size - 1

    cdef void attach(self, int32_t parent, int32_t left, int32_t right) noexcept nogil:
        """Make two free nodes the children, and leaves, of a leaf."""
        assert self.links[parent].left < 0
        self.links[left] = Link(parent, -1, -1, 0)
        self.links[right] = Link(parent, -1, -1, 0)
        self.links[parent].left = left
        self.links[parent].right = right

    cdef int32_t sibling(self, int32_t node) noexcept nogil:
        cdef const Link* parent = &self.links[self.links[node].parent]
        return parent.right if parent.left == node else parent.left

    cdef void detach(self, int32_t leaf) noexcept nogil:
        """Cut out a leaf and its parent; the leaf's sibling takes the parent's place."""
        cdef int32_t parent = self.links[leaf].parent
        cdef int32_t grandparent = self.links[parent].parent
        cdef int32_t sibling = self.sibling(leaf)
        assert self.links[leaf].left < 0 and grandparent >= 0
        if self.links[grandparent].left == parent:
            self.links[grandparent].left = sibling
        else:
            self.links[grandparent].right = sibling
        self.links[sibling].parent = grandparent
        self.links[parent].left = self.links[parent].right = -1

    cdef int32_t next_in_preorder(self, int32_t node, int32_t* depth) noexcept nogil:
        """The node after `node`, -1 at the end; keeps `depth` in step. Start at the root."""
        cdef int32_t parent
        if self.links[node].left >= 0:
            depth[0] += 1
            return self.links[node].left
        while True:
            parent = self.links[node].parent
            if parent < 0:
                return -1
            if self.links[parent].left == node:
                return self.links[parent].right
            node = parent
            depth[0] -= 1

    def depths(self):
        """The depth of every node (the root's is 0), as an int32 array of shape (size,)."""
        depths = np.zeros(self.size, dtype=np.int32)
        cdef int32_t[::1] view = depths
        cdef int32_t node = ROOT, depth = 0
        while node >= 0:
            view[node] = depth
            node = self.next_in_preorder(node, &depth)
        return depths

    def snapshot(self):
        """The links as a record array of shape (size,)."""
        return np.asarray(<Link[:self.size]> self.links).copy()

    def restore(self, links):
        """Take over what `snapshot` gave."""
        cdef const Link[::1] view = links
        self.reserve(<int32_t> view.shape[0])
        self.size = <int32_t> view.shape[0]
        memcpy(self.links, &view[0], self.size * sizeof(Link))
