"""Growing, pruning and walking the tree declared in links.pxd."""

cimport cython
from libc.stdint cimport int32_t
from libc.string cimport memcpy

from streamtree._core.store.budget cimport counted, give_back, shrunk, spacious
from streamtree._core.store.state cimport export_records

import numpy as np


cdef Link _blank
LINKS = np.asarray(<Link[:1]> &_blank).dtype


cdef inline int32_t room_for(int32_t size) noexcept nogil:
    """Links that there is room for; a root alone has no spare ones."""
    return <int32_t> spacious(size) if size > 1 else 1


@cython.final
cdef class TreeLinks:
    """Nodes 0 … size - 1; node 0 is the root and stays it.

    A node has any number of children; attach, detach and sibling are for binary trees.
    """

    def __cinit__(self):
        self.add(-1)

    def __dealloc__(self):
        give_back(self.links)

    cdef int reserve(self, int32_t capacity) except -1 nogil:
        if capacity <= self.capacity:
            return 0
        capacity = room_for(capacity)
        self.links = <Link*> counted(self.links, capacity * sizeof(Link))
        self.capacity = capacity
        return 0

    cdef int own(self) except -1 nogil:
        """Be the memory of the model that counts now."""
        self.links = <Link*> counted(self.links, self.capacity * sizeof(Link))
        return 0

    cdef int32_t add(self, int32_t parent) except -1 nogil:
        """A new leaf with a parent that does not list it yet."""
        self.reserve(self.size + 1)
        self.links[self.size] = Link(parent, -1, -1, -1)
        self.size += 1
        return self.size - 1

    cdef void append(self, int32_t parent, int32_t child) noexcept nogil:
        """Make a leaf that is no child yet the last child of a node."""
        cdef Link* link = &self.links[parent]
        self.links[child] = Link(parent, -1, -1, -1)
        if link.left < 0:
            link.left = child
        else:
            self.links[link.right].next = child
        link.right = child

    cdef void attach(self, int32_t parent, int32_t left, int32_t right) noexcept nogil:
        """Make two nodes that are no children yet the children, and leaves, of a leaf."""
        assert self.links[parent].left < 0
        self.links[left] = Link(parent, -1, -1, right)
        self.links[right] = Link(parent, -1, -1, -1)
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
            self.links[self.links[grandparent].left].next = sibling
            self.links[grandparent].right = sibling
        self.links[sibling].parent = grandparent
        self.links[sibling].next = self.links[parent].next
        self.links[leaf] = self.links[parent] = Link(-1, -1, -1, -1)

    cdef void renumber(self, int32_t node, int32_t number) noexcept nogil:
        """Give a node of a binary tree, which is not the root, the number of one outside it."""
        cdef Link* parent = &self.links[self.links[node].parent]
        cdef int32_t child = self.links[node].left
        if parent.left == node:
            parent.left = number
        else:
            self.links[parent.left].next = parent.right = number
        while child >= 0:
            self.links[child].parent = number
            child = self.links[child].next
        self.links[number] = self.links[node]
        self.links[node] = Link(-1, -1, -1, -1)

    cdef void cut(self, int32_t size) noexcept nogil:
        """Keep so many nodes; those behind are in no tree."""
        self.size = size
        if room_for(size) < self.capacity:
            self.capacity = room_for(size)
            self.links = <Link*> shrunk(self.links, self.capacity * sizeof(Link))

    cdef int32_t next_in_preorder(self, int32_t node, int32_t* depth) noexcept nogil:
        """The node after `node`, -1 at the end; keeps `depth` in step. Start at the root."""
        if self.links[node].left >= 0:
            depth[0] += 1
            return self.links[node].left
        while self.links[node].next < 0:
            node = self.links[node].parent
            if node < 0:
                return -1
            depth[0] -= 1
        return self.links[node].next

    def depths(self):
        """The depth of every node (the root's is 0), as an int32 array of shape (size,)."""
        depths = np.zeros(self.size, dtype=np.int32)
        cdef int32_t[::1] view = depths
        cdef int32_t node = ROOT, depth = 0
        while node >= 0:
            view[node] = depth
            node = self.next_in_preorder(node, &depth)
        return depths

    def mean_depth(self, weights):
        """The depth of the leaves, weighted; the weights are those of all nodes."""
        is_leaf = self.state()["left"] < 0
        depths, weights = self.depths()[is_leaf], weights[is_leaf]
        total = weights.sum()
        return float((depths * weights).sum() / total) if total > 0 else 0.0

    def state(self):
        """The links as a record array of shape (size,)."""
        return export_records(self.links, sizeof(Link), self.size, LINKS)

    def take_state(self, links):
        """Take over what `state` gave."""
        cdef const Link[::1] view = links
        self.reserve(<int32_t> view.shape[0])
        self.size = <int32_t> view.shape[0]
        memcpy(self.links, &view[0], self.size * sizeof(Link))
