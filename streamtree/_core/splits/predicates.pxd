from libc.stdint cimport int32_t, uint32_t

from streamtree._core.kernels.solvers cimport Share
from streamtree._core.splits.histograms cimport Statistics

cpdef enum:
    MISSING = -1        # the key of the branch for rows without the feature


cpdef enum Predicate:
    NONE = 0
    THRESHOLD = 1       # value <= threshold: branch 0, else branch 1
    NOMINAL = 2         # a branch for every value


cdef struct Split:
    # a candidate predicate
    double score
    double threshold
    int32_t predicate
    int32_t column
    int32_t first           # its histograms: a place in the order of the search, and how many
    int32_t n
    int32_t cut             # the last bin to the left
    uint32_t tie            # decides between equals, whatever order the features came in


cdef struct PredicateSearch:
    # what one search for a split needs: first what the tree sets, then what is made for it
    const Statistics* leaf
    const int32_t* groups   # of a column: the feature it is a category of, else -1
    const uint32_t* ties    # of a column: a hash of its feature's name
    int loss
    bint is_linf
    bint is_two_class
    bint charges            # for what a split gains on noise
    double bias
    double lam
    double* parent          # the node's shares of the leaf's labels, and the rest
    double* branch          # sums of one branch
    double* other
    double* counts          # one branch as the many-class solver wants it
    double* positive        # the branches of a predicate with two-class or number statistics
    double* negative
    double* alpha
    Share* shares
    int32_t* grows          # of the branches of the best one: see the tree
    int32_t* order          # histograms: numbers first, then categories by feature
    double share            # sigma(bias)
    double level            # ln(2 candidates looks (looks + 1) / delta), weighted
    double charge           # for every branch but one
    int32_t n_numbers
    int32_t at_zero         # where labels 0 and 1 are counted, -1 if the leaf has not met them
    int32_t at_one


cdef struct BranchSums:
    # a branch and the node that it belongs to
    const double* sums      # by class; of numbers w and w y
    const double* totals    # of the node
    double weight
    double total            # the weight of the node
    double target_squares   # of the node: sum of w y^2
    int32_t n               # of classes


cdef bint exceeds(int loss, const BranchSums* branch, double lam, double level) noexcept nogil
cdef int begin_search(PredicateSearch* search, const double* values, double delta) except -1 nogil
cdef void end_search(PredicateSearch* search) noexcept nogil
cdef void best_split(PredicateSearch* search, Split* best) noexcept nogil
cdef double gain(PredicateSearch* search, const double* sums) noexcept nogil
cdef double gain_of_branches(PredicateSearch* search, Split* split) noexcept nogil
cdef int32_t n_branches(const Split* split) noexcept nogil
cdef bint branch(PredicateSearch* search, Split* split, int32_t number, int32_t* key) noexcept nogil
cdef double squares_of(const Statistics* leaf, const double* sums) noexcept nogil
