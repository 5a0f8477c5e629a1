"""Counting along the way of an example, and what the counts say."""

cimport cython
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memcpy, memmove, memset

from streamtree._core.splits.bounds cimport bound_of
from streamtree._core.store.budget cimport counted, give_back, shrunk, spacious
from streamtree._core.store.pool cimport (
    SIZES, Word, pool_add_freed, pool_free, pool_give, pool_growth, pool_move, pool_take,
    room_for,
)

import numpy as np

# a part of a prediction that is smaller than this is not looked for in the nodes above
cdef double LEAST_PART = 1e-12


cdef enum:
    # of the labels of a node, those beyond so many move forward when they are met
    ORDERED_LABELS = 8


cdef NodeRecord _blank
RECORDS = np.asarray(<NodeRecord[:1]> &_blank).dtype


@cython.final
cdef class ExtraNodes:
    """Node 0 is the root; the two children of a node come after it, side by side.

    `clear` comes before anything else, in the name of the model that it is part of. What does not
    fit in `limit` bytes is not counted: another label of a node, another row of a leaf.
    """

    def __cinit__(self, bint has_numbers):
        self.has_numbers = has_numbers
        self.limit = <size_t> -1

    def __dealloc__(self):
        self._release()

    cdef void _release(self) noexcept nogil:
        give_back(self.nodes)
        give_back(self.means)
        pool_free(&self.pool)
        self.nodes, self.means = NULL, NULL
        self.size = self.capacity = 0

    cdef size_t n_bytes(self) noexcept nogil:
        return self.capacity * self._node_bytes() + self.pool.capacity * sizeof(Word)

    cdef size_t _node_bytes(self) noexcept nogil:
        return sizeof(ExtraNode) + (sizeof(double) if self.has_numbers else 0)

    cdef bint may_take(self, size_t more) noexcept nogil:
        """Whether so many bytes more are within the limit."""
        cdef size_t taken = self.n_bytes()
        return more == 0 or (taken <= self.limit and more <= self.limit - taken)

    cdef bint may_split(self) noexcept nogil:
        """Whether there is room for two nodes more, and for what they keep at first."""
        cdef size_t more = 4 * MOST_KEPT * sizeof(Word)
        if self.size + 2 > self.capacity:
            more += (spacious(self.size + 2) - self.capacity) * self._node_bytes()
        return self.may_take(more)

    cdef size_t split_bytes(self) noexcept nogil:
        """What a split takes: two nodes, the rows of two leaves, and two labels of a node."""
        return (2 * self._node_bytes() + 8 * sizeof(Word)) * 5 // 4

    cdef int reserve(self, int32_t size) except -1 nogil:
        cdef int64_t capacity = spacious(size)
        if size <= self.capacity:
            return 0
        self.nodes = <ExtraNode*> counted(self.nodes, capacity * sizeof(ExtraNode))
        if self.has_numbers:
            self.means = <double*> counted(self.means, capacity * sizeof(double))
        self.capacity = <int32_t> capacity
        return 0

    cdef void _open(self, int32_t parent) noexcept nogil:
        """A new leaf; there is room for it."""
        memset(&self.nodes[self.size], 0, sizeof(ExtraNode))
        self.nodes[self.size].column = self.nodes[self.size].left = -1
        self.nodes[self.size].parent = parent
        self.nodes[self.size].since = 255
        if self.has_numbers:
            self.means[self.size] = 0.0
        self.size += 1

    cdef int clear(self) except -1 nogil:
        """Only an empty root is left, and no memory that was taken for others."""
        self.reserve(1)
        # what cannot fail
        pool_free(&self.pool)
        self.capacity = <int32_t> spacious(1)
        self.nodes = <ExtraNode*> shrunk(self.nodes, self.capacity * sizeof(ExtraNode))
        if self.has_numbers:
            self.means = <double*> shrunk(self.means, self.capacity * sizeof(double))
        self.size = 0
        self._open(-1)
        return 0

    cdef void swap(self, ExtraNodes other) noexcept nogil:
        """Exchange all nodes."""
        self.nodes, other.nodes = other.nodes, self.nodes
        self.means, other.means = other.means, self.means
        self.pool, other.pool = other.pool, self.pool
        self.size, other.size = other.size, self.size
        self.capacity, other.capacity = other.capacity, self.capacity

    cdef int32_t split(self, int32_t node, Test test) except -1 nogil:
        """Give a leaf two children; returns the left one. It keeps what it has counted."""
        cdef int32_t left = self.size
        self.reserve(left + 2)
        self._open(node)
        self._open(node)
        self.drop_kept(node)
        self.nodes[node].column = test.column
        self.nodes[node].bound = test.bound
        self.nodes[node].missing_right = test.missing_right
        self.nodes[node].salt = test.salt
        self.nodes[node].left = left
        return left

    cdef int32_t descend(self, int32_t node, const Row* row,
                         const int32_t* groups) noexcept nogil:
        """The leaf of a row that has come to a node."""
        cdef const ExtraNode* here = &self.nodes[node]
        while here.left >= 0:
            node = here.left + goes_right(here, row, groups)
            here = &self.nodes[node]
        return node

    # --------------------------------------------------------------------------- counting

    cdef int set_labels(self, int32_t node, const int32_t* labels, const double* weights,
                        int32_t n) except -1 nogil:
        """Write down what was counted in a node that is new."""
        cdef ExtraNode* here = &self.nodes[node]
        cdef int32_t i, room = room_for(n)
        # what there is no room for is forgotten
        while n > 1 and not self.may_take(pool_growth(&self.pool, 2 * room)):
            room //= 2
            n = 1 if room < 2 else min(n, room)
        here.counts = labels[0] if n == 1 else pool_take(&self.pool, 2 * room)
        here.n_labels = n
        if n > 1:
            memcpy(self.labels_of(node), labels, n * sizeof(int32_t))
        for i in range(n):
            here.weight += <float> weights[i]
            if n > 1:
                self.weights_of(node)[i] = <float> weights[i]
        return 0

    cdef int add_label(self, int32_t node, int32_t label, float weight) except -1 nogil:
        """Count an example in one node."""
        cdef ExtraNode* here = &self.nodes[node]
        cdef int32_t n = here.n_labels, i, other
        cdef int32_t* labels
        cdef float* weights
        if n == 0:
            here.n_labels, here.counts = 1, label
            here.weight += weight
            return 0
        if n == 1 and here.counts == label:
            here.weight += weight
            return 0
        if n == 1:
            # the second label: both go to a block
            if not self.may_take(pool_growth(&self.pool, 4)):
                return 0
            i = pool_take(&self.pool, 4)
            self.pool.words[i].number = here.counts
            self.pool.words[i + 1].number = label
            self.pool.words[i + 2].value = here.weight
            self.pool.words[i + 3].value = weight
            here.n_labels, here.counts = 2, i
            here.weight += weight
            return 0
        labels = self.labels_of(node)
        weights = self.weights_of(node)
        for i in range(n):
            if labels[i] == label:
                weights[i] += weight
                here.weight += weight
                if i >= ORDERED_LABELS:
                    # those that come often are found soon
                    other = i // 2
                    labels[i], labels[other] = labels[other], labels[i]
                    weights[i], weights[other] = weights[other], weights[i]
                return 0
        if n == room_for(n):
            if not self.may_take(pool_growth(&self.pool, 4 * n)):
                return 0
            i = pool_move(&self.pool, here.counts, 2 * n, 4 * n)
            memcpy(&self.pool.words[i + 2 * n], &self.pool.words[i + n], n * sizeof(float))
            here.counts = i
        here.n_labels += 1
        here.weight += weight
        self.labels_of(node)[n] = label
        self.weights_of(node)[n] = weight
        return 0

    cdef void add_number(self, int32_t node, double number, float weight) noexcept nogil:
        """Count an example in one node."""
        cdef ExtraNode* here = &self.nodes[node]
        here.weight += weight
        self.means[node] += weight * (number - self.means[node]) / here.weight

    cdef int keep(self, int32_t node, uint32_t row) except -1 nogil:
        """Keep the number of a row of a leaf, in the place of the oldest if there is no more."""
        cdef ExtraNode* here = &self.nodes[node]
        cdef uint32_t* rows
        cdef int32_t n = here.n_kept
        cdef bint is_full = n == MOST_KEPT
        if n == 0:
            if not self.may_take(pool_growth(&self.pool, 2)):
                return 0
            here.kept = pool_take(&self.pool, 2)
        elif n == room_for(n) and not is_full:
            is_full = not self.may_take(pool_growth(&self.pool, 2 * n))
            if not is_full:
                here.kept = pool_move(&self.pool, here.kept, n, 2 * n)
        if is_full:
            rows = self.kept_of(node)
            memmove(rows, &rows[1], (n - 1) * sizeof(uint32_t))
            n -= 1
        self.kept_of(node)[n] = row
        here.n_kept = n + 1
        return 0

    cdef void drop_kept(self, int32_t node) noexcept nogil:
        """Forget the rows of a leaf."""
        cdef ExtraNode* here = &self.nodes[node]
        if here.n_kept:
            pool_give(&self.pool, here.kept, room_for(here.n_kept))
        here.n_kept = 0

    # --------------------------------------------------------------------- what they say

    cdef void shares(self, int32_t node, Strength strength, int32_t n_labels, double* out,
                     double* slopes) noexcept nogil:
        """The probabilities of a node, shrunk towards those of the node above, and so on.

        And their slopes by the logarithm of the strength, unless NULL.
        """
        cdef const ExtraNode* here
        cdef const int32_t* labels
        cdef const float* weights
        # what is still to come counts `part`, which grows by `growth` of itself
        cdef double part = 1.0, growth = 0.0, total, drawn
        cdef int32_t i, most
        for i in range(n_labels):
            out[i] = 0.0
        for i in range(n_labels if slopes != NULL else 0):
            slopes[i] = 0.0
        while node >= 0 and part > LEAST_PART:
            here = &self.nodes[node]
            labels, weights = self.labels_of(node), self.weights_of(node)
            # not `weight`, which was rounded otherwise
            total, most = 0.0, 0
            for i in range(here.n_labels):
                total += weights[i]
                if weights[i] > weights[most]:
                    most = i
            drawn = strength.value
            if strength.is_learned and here.n_labels and here.parent >= 0:
                # that a label is far more frequent here than above is no chance
                drawn /= max(1.0, self._surprise(labels[most], weights[most], total, here.parent))
            total += drawn
            for i in range(here.n_labels):
                out[labels[i]] += part / total * weights[i]
            for i in range(here.n_labels if slopes != NULL else 0):
                slopes[labels[i]] += part / total * weights[i] * (growth - drawn / total)
            part *= drawn / total
            growth += 1.0 - drawn / total
            node = here.parent
        for i in range(n_labels):
            out[i] += part / n_labels
        for i in range(n_labels if slopes != NULL else 0):
            slopes[i] += part / n_labels * growth

    cdef double _surprise(self, int32_t label, double weight, double total,
                          int32_t parent) noexcept nogil:
        """That a label weighs so much of a total: how many standard deviations it is above what
        the node above lets expect, squared; 0 below."""
        cdef const int32_t* labels = self.labels_of(parent)
        cdef double expected = 0.5, excess
        cdef int32_t i
        for i in range(self.nodes[parent].n_labels):
            if labels[i] == label:
                expected += self.weights_of(parent)[i]
                break
        expected /= 1.0 + self.nodes[parent].weight
        excess = weight / total - expected
        return total * excess * excess / (expected * (1.0 - expected)) if excess > 0.0 else 0.0

    cdef double mean(self, int32_t node, double strength, double* slope) noexcept nogil:
        """The mean of a node, shrunk towards that of the node above, and so on.

        And its slope, unless NULL.
        """
        cdef double part = 1.0, growth = 0.0, total, own, said = 0.0, steep = 0.0
        while part > LEAST_PART and self.nodes[node].parent >= 0:
            total = self.nodes[node].weight + strength
            own = part * (self.nodes[node].weight / total) * self.means[node]
            said += own
            steep += own * (growth - strength / total)
            part *= strength / total
            growth += 1.0 - strength / total
            node = self.nodes[node].parent
        if slope != NULL:
            slope[0] = steep + part * growth * self.means[node]
        return said + part * self.means[node]

    # ------------------------------------------------------------------------------ state

    def depths(self):
        """The depth of every node, as an int32 array of shape (size,)."""
        depths = np.zeros(self.size, dtype=np.int32)
        cdef int32_t[::1] view = depths
        cdef int32_t node
        for node in range(1, self.size):
            view[node] = view[self.nodes[node].parent] + 1
        return depths

    cdef dict state(self):
        cdef int32_t node, n, n_labels = 0, n_kept = 0
        records = np.empty(self.size, dtype=RECORDS)
        cdef NodeRecord[::1] view = records
        for node in range(self.size):
            view[node] = self._record(node)
            n_labels += self.nodes[node].n_labels
            n_kept += self.nodes[node].n_kept
        labels = np.empty(n_labels, dtype=np.int32)
        weights = np.empty(n_labels, dtype=np.float32)
        kept = np.empty(n_kept, dtype=np.uint32)
        cdef int32_t[::1] labels_view = labels
        cdef float[::1] weights_view = weights
        cdef uint32_t[::1] kept_view = kept
        n_labels = n_kept = 0
        for node in range(self.size):
            n = self.nodes[node].n_labels
            if n:
                memcpy(&labels_view[n_labels], self.labels_of(node), n * sizeof(int32_t))
                memcpy(&weights_view[n_labels], self.weights_of(node), n * sizeof(float))
                n_labels += n
            n = self.nodes[node].n_kept
            if n:
                memcpy(&kept_view[n_kept], self.kept_of(node), n * sizeof(uint32_t))
                n_kept += n
        means = np.empty(0)
        if self.has_numbers:
            means = np.asarray(<double[:self.size]> self.means).copy()
        return {
            "nodes": records, "labels": labels, "weights": weights, "kept": kept, "means": means,
            "freed": np.asarray(<int32_t[:SIZES]> self.pool.freed).copy(),
        }

    cdef NodeRecord _record(self, int32_t node) noexcept nogil:
        cdef const ExtraNode* here = &self.nodes[node]
        return NodeRecord(
            here.column, 0.0 if here.salt else here.bound.threshold, here.left, here.parent,
            here.weight, here.n_labels, here.n_kept, here.since, here.missing_right,
            here.bound.members if here.salt else 0, here.salt,
        )

    cdef int take_state(self, dict state) except -1:
        cdef const NodeRecord[::1] records = state["nodes"]
        cdef const int32_t[::1] labels = state["labels"]
        cdef const float[::1] weights = state["weights"]
        cdef const uint32_t[::1] kept = state["kept"]
        cdef const double[::1] means = state["means"]
        cdef const int32_t[::1] freed = state["freed"]
        cdef Py_ssize_t i, node, first_label = 0, first_kept = 0
        cdef ExtraNode* here
        self._release()
        self.reserve(<int32_t> records.shape[0])
        self.size = <int32_t> records.shape[0]
        for node in range(self.size):
            here = &self.nodes[node]
            memset(here, 0, sizeof(ExtraNode))
            here.column, here.salt = records[node].column, <uint8_t> records[node].salt
            here.bound = bound_of(here.salt, records[node].threshold, records[node].members)
            here.left, here.parent = records[node].left, records[node].parent
            here.weight, here.n_labels = records[node].weight, records[node].n_labels
            here.n_kept, here.since = records[node].n_kept, records[node].since
            here.missing_right = records[node].missing_right
            if here.n_labels == 1:
                here.counts = labels[first_label]
            elif here.n_labels:
                here.counts = pool_take(&self.pool, 2 * room_for(here.n_labels))
                memcpy(
                    self.labels_of(node), &labels[first_label], here.n_labels * sizeof(int32_t)
                )
                memcpy(
                    self.weights_of(node), &weights[first_label], here.n_labels * sizeof(float)
                )
            if here.n_kept:
                here.kept = pool_take(&self.pool, room_for(here.n_kept))
                memcpy(self.kept_of(node), &kept[first_kept], here.n_kept * sizeof(uint32_t))
            first_label += here.n_labels
            first_kept += here.n_kept
            if self.has_numbers:
                self.means[node] = means[node]
        for i in range(SIZES):
            pool_add_freed(&self.pool, <int> i, freed[i])
        return 0
