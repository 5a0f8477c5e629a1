from libc.stdint cimport int32_t, int64_t

from streamtree._core.kernels.solvers cimport Share
from streamtree._core.store.links cimport TreeLinks
from streamtree._core.store.tables cimport Table
from streamtree._core.stream.row cimport Example, Prediction, View
from streamtree._core.trees.tree cimport Tree


cpdef enum NodeState:
    NULL_BRANCH = 0     # alpha = 0: predicts what its parent does, and keeps counting
    OPEN = 1            # a leaf that collects statistics to split
    CLOSED = 2          # a leaf whose statistics were given up for memory
    INNER = 3


cdef struct Node:
    double threshold
    double weight
    double weight_squares
    double next_look        # the weight at which a leaf without statistics next asks to open
    double next_refresh     # the weight at which its values are next computed anew
    int64_t looks
    int32_t key             # which branch of its parent: 0, 1, a category's column, or MISSING
    int32_t predicate
    int32_t column          # whose value is compared; of a nominal feature its group
    int32_t state
    int32_t majority
    # what follows from the links and keys
    int32_t depth
    int32_t low             # children by key: 0, 1 and MISSING; -1 if not there
    int32_t high
    int32_t missing
    int32_t unused


cdef class PredictionNodes(Tree):
    cdef TreeLinks links
    cdef Node* nodes
    cdef Table* categories          # of a nominal predicate: category's column -> child
    cdef double* pool               # a node's counts, then its values: `stride` numbers each
    cdef Share* shares              # room for the solver
    cdef int32_t size
    cdef int32_t capacity
    cdef int32_t stride
    cdef int32_t n_labels           # that nodes tell apart; 0 for numbers
    cdef int loss
    cdef bint is_linf
    cdef bint defers                # while a whole data set is passed over again and again
    cdef double regularization
    cdef double depth_penalty

    cdef inline double* counts_of(self, int32_t node) noexcept nogil:
        """Weight by label, or the sums w, w y, w y^2."""
        return &self.pool[<size_t> node * 2 * self.stride]

    cdef inline double* values_of(self, int32_t node) noexcept nogil:
        """Shares by label (log loss), or the score f alone."""
        return &self.pool[(<size_t> node * 2 + 1) * self.stride]

    cdef inline int32_t parent_of(self, int32_t node) noexcept nogil:
        return self.links.links[node].parent

    cdef size_t bytes_with(self, int32_t nodes, int32_t stride) noexcept nogil
    cdef bint fits(self, int32_t nodes, int32_t stride) noexcept nogil
    cdef int reserve(self, int32_t capacity) except -1 nogil
    cdef int admit(self, int32_t label) except -1 nogil
    cdef double bias_of(self, int32_t node) noexcept nogil
    cdef double penalty_below(self, int32_t node) noexcept nogil
    cdef int32_t add_node(self, int32_t parent, int32_t key) except -1 nogil
    cdef int32_t key_of(self, int32_t node, const View* row) noexcept nogil
    cdef int32_t child_of(self, int32_t node, int32_t key) noexcept nogil
    cdef int32_t leaf_below(self, int32_t node, const View* row) noexcept nogil
    cdef void count(self, int32_t node, const Example* example) noexcept nogil
    cdef int refresh(self, int32_t node) except -1 nogil
    cdef int refresh_branches(self, int32_t node) except -1 nogil
    cdef void set_majority(self, int32_t node) noexcept nogil
    cdef void answer(self, int32_t node, Prediction* out) noexcept nogil
