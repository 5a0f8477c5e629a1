from libc.stdint cimport int32_t, int64_t, uint32_t

from streamtree._core.histograms cimport IntMap, Leaf
from streamtree._core.solvers cimport Share
from streamtree._core.types cimport Row


cdef enum:
    ROOT = 0
    MISSING = -1        # the key of the branch for rows without the feature


cpdef enum NodeState:
    NULL_BRANCH = 0     # alpha = 0: says what its parent says, and keeps counting
    OPEN = 1            # a leaf that collects statistics to split
    CLOSED = 2          # a leaf whose statistics were given up for memory
    INNER = 3


cpdef enum Predicate:
    NONE = 0
    THRESHOLD = 1       # value <= threshold: branch 0, else branch 1
    NOMINAL = 2         # a branch for every value


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


cdef struct Standard:
    # running mean and deviation of what a column listed, for the linear models
    double pivot            # the first value: sums are taken from there
    double sum
    double squares
    double center           # 0 in a column that few rows list
    double factor
    int64_t n
    int64_t birth           # rows seen before its first value
    int64_t refresh_at


cdef struct Private:
    Leaf* leaf              # of an open leaf; of a null branch for its linear model only
    IntMap branches         # of a nominal predicate: category's column -> child


cdef struct Split:
    # a candidate predicate
    double score
    double threshold
    int32_t predicate
    int32_t column
    int32_t first           # its histograms: a place in the order of `Look`, and how many
    int32_t n
    int32_t cut             # the last bin to the left
    uint32_t tie            # decides between equals, whatever order the features came in


cdef struct Look:
    # what one search for a split needs, made when it begins
    const Leaf* leaf
    int32_t* order          # histograms: numbers first, then categories by feature
    double* parent          # the node's shares of the leaf's labels, and the rest
    double* branch          # sums of one branch
    double* other
    double* counts          # one branch as the many-class solver wants it
    double* positive        # the branches of a predicate with two-class or number statistics
    double* negative
    double* alpha
    Share* shares
    double bias
    double share            # sigma(bias)
    double lam
    double level            # ln(2 candidates looks (looks + 1) / delta), weighted
    int32_t n_numbers
    int32_t at_zero         # where labels 0 and 1 are counted, -1 if the leaf has not met them
    int32_t at_one
    bint is_two_class


cdef class PredictionTree:
    cdef Node* nodes
    cdef Private* privates
    cdef double* pool               # a node's counts, then its values: `stride` numbers each
    cdef Share* scratch
    cdef int32_t* groups            # of a column: the feature it is a category of, else -1
    cdef uint32_t* ties             # of a column: a hash of its feature's name
    cdef Standard* standards
    cdef int64_t n_rows
    cdef int32_t n_columns
    cdef int32_t columns_capacity
    cdef readonly int32_t size
    cdef int32_t capacity
    cdef int32_t stride
    cdef readonly int32_t n_labels
    cdef int loss
    cdef bint is_linf
    cdef int leaf_model
    cdef bint has_linear            # the leaves train linear models
    cdef bint is_confident
    cdef bint _defers               # while a whole data set is passed over again and again
    cdef readonly size_t n_bytes
    cdef double regularization
    cdef double depth_penalty
    cdef double delta
    cdef double grace_period
    cdef int32_t max_bins
    cdef size_t max_size

    cdef int add_column(self, int32_t group, uint32_t tie) except -1
    cdef int reserve(self, int32_t capacity) except -1 nogil
    cdef int admit(self, int32_t label) except -1 nogil
    cdef double* counts_of(self, int32_t node) noexcept nogil
    cdef double* values_of(self, int32_t node) noexcept nogil
    cdef double penalty_below(self, int32_t node) noexcept nogil
    cdef double bias_of(self, int32_t node) noexcept nogil
    cdef int32_t add_node(self, int32_t parent, int32_t key) except -1 nogil
    cdef size_t bytes_with(self, int32_t nodes) noexcept nogil
    cdef bint has_room(self, int32_t nodes) noexcept nogil
    cdef int open(self, int32_t node, const Leaf* origin) except -1 nogil
    cdef void close(self, int32_t node) noexcept nogil
    cdef double promise(self, int32_t node) noexcept nogil
    cdef int32_t least_promising(self) noexcept nogil
    cdef void keep_within_bounds(self) noexcept nogil
    cdef int32_t key_of(self, int32_t node, Row row) noexcept nogil
    cdef int32_t child_of(self, int32_t node, int32_t key) noexcept nogil
    cdef int32_t leaf_of(self, Row row) noexcept nogil
    cdef list path(self, Row row)
    cdef int learn(self, Row row, int32_t label, double target, double weight) except -1 nogil
    cdef void count(self, int32_t node, int32_t label, double target,
                    double weight) noexcept nogil
    cdef int learn_leaf(self, int32_t node, Row row, int32_t label, double target, double weight,
                        int32_t said, double said_number) except -1 nogil
    cdef int refresh(self, int32_t node) except -1 nogil
    cdef int refresh_branches(self, int32_t node) except -1 nogil
    cdef void set_majority(self, int32_t node) noexcept nogil
    cdef int reconsider(self, int32_t node) except -1 nogil
    cdef int reopen(self, int32_t node) except -1 nogil
    cdef bint exceeds(self, const double* branch, double weight, const double* totals,
                      double total, int32_t n, double squares, double lam,
                      double level) noexcept nogil
    cdef bint look(self, int32_t node) except -1 nogil
    cdef int begin_look(self, Look* look, int32_t node) except -1 nogil
    cdef void end_look(self, Look* look) noexcept nogil
    cdef double gain(self, Look* look, const double* sums) noexcept nogil
    cdef double gain_of_branches(self, Look* look, Split* split) noexcept nogil
    cdef bint branch(self, Look* look, Split* split, int32_t number, int32_t* key) noexcept nogil
    cdef int32_t n_branches(self, Look* look, Split* split) noexcept nogil
    cdef void consider(self, Look* look, Split* split, Split* best) noexcept nogil
    cdef void consider_numbers(self, Look* look, int32_t place, Split* best) noexcept nogil
    cdef void consider_categories(self, Look* look, Split* best) noexcept nogil
    cdef bint apply(self, Look* look, int32_t node, Split* split) except -1 nogil
    cdef int bayes(self, int32_t node, Row row, double* shares) noexcept nogil
    cdef int answer_of(self, int32_t node) noexcept nogil
    cdef void standardise(self, Row row) noexcept nogil
    cdef double standard(self, int32_t column, double value) noexcept nogil
    cdef int linear(self, int32_t node, Row row, double* shares) noexcept nogil
    cdef double guarded(self, int32_t node, double value) noexcept nogil
    cdef void judge(self, int32_t node, Row row, int32_t place, bint path_is_right,
                    double weight) noexcept nogil
    cdef void judge_number(self, int32_t node, Row row, double target, double path_error,
                           double weight) noexcept nogil
    cdef double linear_number(self, int32_t node, Row row) noexcept nogil
    cdef void train(self, int32_t node, Row row, const double* shares,
                    double weight) noexcept nogil
    cdef int answers(self, int32_t node, Row row, double* shares) noexcept nogil
    cdef int32_t label_of(self, Row row) noexcept nogil
    cdef void probabilities_of(self, Row row, double* out, int32_t n) noexcept nogil
    cdef double number_of(self, Row row) noexcept nogil
    cdef double spread_of(self, const Leaf* leaf, const double* sums) noexcept nogil
