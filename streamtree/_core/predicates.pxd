from libc.stdint cimport int32_t, uint32_t

from streamtree._core.histograms cimport Leaf
from streamtree._core.solvers cimport Share

cdef enum:
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
    int32_t first           # its histograms: a place in the order of `Look`, and how many
    int32_t n
    int32_t cut             # the last bin to the left
    uint32_t tie            # decides between equals, whatever order the features came in


cdef struct Look:
    # what one search for a split needs: first what the tree says, then what is made for it
    const Leaf* leaf
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
    int32_t* order          # histograms: numbers first, then categories by feature
    double share            # sigma(bias)
    double level            # ln(2 candidates looks (looks + 1) / delta), weighted
    int32_t n_numbers
    int32_t at_zero         # where labels 0 and 1 are counted, -1 if the leaf has not met them
    int32_t at_one


cdef bint exceeds(
    int loss, const double* branch, double weight, const double* totals, double total, int32_t n,
    double squares, double lam, double level
) noexcept nogil
cdef int begin_look(Look* look, const double* values, double delta) except -1 nogil
cdef void end_look(Look* look) noexcept nogil
cdef void best_split(Look* look, Split* best) noexcept nogil
cdef double gain(Look* look, const double* sums) noexcept nogil
cdef double gain_of_branches(Look* look, Split* split) noexcept nogil
cdef int32_t n_branches(Look* look, Split* split) noexcept nogil
cdef bint branch(Look* look, Split* split, int32_t number, int32_t* key) noexcept nogil
cdef double spread_of(const Leaf* leaf, const double* sums) noexcept nogil
