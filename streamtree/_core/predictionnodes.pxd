from libc.stdint cimport int32_t, int64_t, uint32_t

from streamtree._core.histograms cimport IntMap, Leaf
from streamtree._core.leafmodels cimport Standard
from streamtree._core.solvers cimport Share
from streamtree._core.types cimport Row

cdef enum:
    ROOT = 0


cpdef enum NodeState:
    NULL_BRANCH = 0     # alpha = 0: says what its parent says, and keeps counting
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
    int32_t parent          # -1 at the root
    int32_t first_child     # -1 without children
    int32_t last_child
    int32_t next_sibling    # -1 for the last
    int32_t key             # which branch of its parent: 0, 1, a category's column, or MISSING
    int32_t predicate
    int32_t column          # whose value is compared; of a nominal feature its group
    int32_t state
    int32_t depth
    int32_t majority
    int32_t low             # children by key: 0, 1 and MISSING; -1 if not there
    int32_t high
    int32_t missing
    int32_t unused


cdef struct Private:
    Leaf* leaf              # of an open leaf; of a null branch for its linear model only
    IntMap branches         # of a nominal predicate: category's column -> child


cdef class PredictionNodes:
    cdef Node* nodes
    cdef Private* privates
    cdef double* pool               # a node's counts, then its values: `stride` numbers each
    cdef Share* scratch
    cdef int32_t* groups            # of a column: the feature it is a category of, else -1
    cdef uint32_t* ties             # of a column: a hash of its feature's name
    cdef Standard* standards
    cdef int64_t n_rows
    cdef int32_t columns_capacity
    cdef readonly int32_t n_columns
    cdef readonly int32_t size
    cdef int32_t capacity
    cdef int32_t stride
    cdef readonly int32_t n_labels
    cdef int loss
    cdef bint is_linf
    cdef bint defers                # while a whole data set is passed over again and again
    cdef readonly size_t n_bytes
    cdef double regularization
    cdef double depth_penalty

    cdef inline double* counts_of(self, int32_t node) noexcept nogil:
        """Weight by label, or the sums w, w y, w y^2."""
        return &self.pool[<size_t> node * 2 * self.stride]

    cdef inline double* values_of(self, int32_t node) noexcept nogil:
        """Shares by label (log loss), or the score f alone."""
        return &self.pool[(<size_t> node * 2 + 1) * self.stride]

    cdef int add_column(self, int32_t group, uint32_t tie) except -1
    cdef size_t bytes_with(self, int32_t nodes) noexcept nogil
    cdef int reserve(self, int32_t capacity) except -1 nogil
    cdef int admit(self, int32_t label) except -1 nogil
    cdef double bias_of(self, int32_t node) noexcept nogil
    cdef double penalty_below(self, int32_t node) noexcept nogil
    cdef int32_t add_node(self, int32_t parent, int32_t key) except -1 nogil
    cdef int32_t key_of(self, int32_t node, Row row) noexcept nogil
    cdef int32_t child_of(self, int32_t node, int32_t key) noexcept nogil
    cdef int32_t leaf_of(self, Row row) noexcept nogil
    cdef list path(self, Row row)
    cdef void count(self, int32_t node, int32_t label, double target,
                    double weight) noexcept nogil
    cdef int refresh(self, int32_t node) except -1 nogil
    cdef int refresh_branches(self, int32_t node) except -1 nogil
    cdef void set_majority(self, int32_t node) noexcept nogil
