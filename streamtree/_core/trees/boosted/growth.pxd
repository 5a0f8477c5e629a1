"""Growing boosted trees from the window, a few steps at a time."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from streamtree._core.kernels.bins cimport Aim, Bin, Binned, Labelled, Sum, Sums
from streamtree._core.stream.window cimport Window
from streamtree._core.trees.boosted.stages cimport Stages


cdef enum:
    MOST_LEAVES = 31        # of a tree


cpdef enum:
    # labels that scores are kept for
    MOST_LABELS = 64


cpdef enum Step:
    # what is done next
    CUTTING = 0         # a column: where its bins end
    BINNING = 1         # some rows
    STARTING = 2        # some rows: what is said without any tree
    AIMING = 3          # some rows: what the next tree is to say of them
    GATHERING = 4       # some rows of a leaf, by their bins
    DIVIDING = 5        # some rows of a leaf
    SUMMING = 6         # some rows of a leaf: what it is to say
    MOVING = 7          # some rows of a leaf: their scores


cdef struct Side:
    # of a split: sums over bins
    Sum sum
    int32_t n


cdef struct Split:
    double gain         # 0: there is none
    int32_t field
    int32_t place       # of a threshold: the last bin on the left
    uint32_t members
    uint8_t missing_right


cdef struct OpenLeaf:
    # of the tree that is grown, from order[begin:end]
    int32_t node
    int32_t begin
    int32_t end
    int32_t room        # of its bins
    Split best


cdef struct Column:
    # a field of the window
    int32_t column      # of numbers, or one of the feature's categories
    int32_t field       # its place in the window
    uint8_t salt        # of categories, else 0
    uint8_t n_cuts
    uint32_t met        # of categories the buckets that rows are in, by bit


cdef class BoostedGrowth:
    cdef Window window
    cdef Stages shadow
    cdef bint has_numbers
    cdef bint is_growing
    cdef int64_t first          # the first of the rows that it grows from
    cdef int32_t n              # how many
    cdef uint64_t seed
    cdef uint64_t random
    cdef int64_t n_steps        # that were done
    cdef int64_t credit         # cells that may be looked at
    cdef int step
    cdef int32_t done           # rows, columns or classes that the step is through with
    cdef int64_t window_moves   # of the window at the last look
    cdef int32_t n_labels
    cdef int32_t n_outputs
    cdef int32_t n_lanes        # of several outputs: rounded up to a multiple of 4
    cdef int32_t n_columns
    cdef Column* columns
    cdef float* cuts            # by column: BINS, those that are not there above all
    cdef uint8_t* bins          # by row, then by column
    cdef Binned* chosen         # columns of the tree that is grown
    cdef int32_t n_chosen
    cdef int32_t n_bins         # of these columns
    cdef float* scores          # by row; of several outputs NULL
    cdef float* shares          # by row, then by output: what is said of several labels, or NULL
    cdef int32_t* labels        # by row; of numbers NULL
    cdef float* numbers         # by row, in deviations from their mean; of labels NULL
    cdef float* row_weights     # by row
    cdef Aim* aims              # by row: what the tree is to say, times the row's weight
    cdef float* sample          # of a column
    cdef double weight          # of all rows, and of their numbers the mean and the squares
    cdef double mean
    cdef double squares
    cdef double* sums           # by output, of the leaf at hand: of slopes, then of curvature
    cdef double* missed         # by output: of all rows, how wrong they are said to be
    cdef int32_t* order         # of the rows, those of a leaf side by side
    cdef int32_t* right         # of those that were divided, what went right
    cdef Bin* found             # by room, then by chosen column, then by bin of that
    cdef OpenLeaf[MOST_LEAVES] leaves
    cdef int32_t n_open
    cdef int32_t at             # the leaf at hand
    cdef int32_t sibling        # of the leaf that is gathered, the larger one; -1: it is a root
    cdef int32_t n_left         # of the rows that were divided
    cdef int32_t target         # the class that the tree is about; -1: all
    # what is to be
    cdef int32_t n_trees
    cdef double rate

    cdef int start(self, uint64_t seed, size_t most) except -1 nogil
    cdef size_t _bytes_for(self, int64_t n) noexcept nogil
    cdef void _know(self, int32_t n_labels) noexcept nogil
    cdef int _take(self) except -1 nogil
    cdef bint _is_rare(self, int32_t field) noexcept nogil
    cdef bint loses_rows(self) noexcept nogil
    cdef int64_t pace(self) noexcept nogil
    cdef int64_t _cost_of_splits(self) noexcept nogil
    cdef int run(self) except -1 nogil
    cdef int64_t _do_step(self) except -1 nogil
    cdef int64_t _look(self) noexcept nogil
    cdef void _choose_salt(self, Column* column, const uint32_t* kinds, int32_t n) noexcept nogil
    cdef void _cut(self, Column* column, float* cuts, int32_t n) noexcept nogil
    cdef int64_t _bin(self) except -1 nogil
    cdef int _begin_scores(self) except -1 nogil
    cdef int64_t _start(self) except -1 nogil
    cdef int _begin_tree(self) except -1 nogil
    cdef int64_t _aim(self) noexcept nogil
    cdef void _open(self, int32_t leaf, int32_t node, int32_t begin, int32_t end,
                    int32_t room) noexcept nogil
    cdef int32_t _bins_in(self, int32_t f) noexcept nogil
    cdef Bin* _bins_of(self, int32_t leaf) noexcept nogil
    cdef int64_t _gather(self) except -1 nogil
    cdef void _subtract(self) noexcept nogil
    cdef int64_t _find_split(self, int32_t leaf) noexcept nogil
    cdef void _add_up(self, const Bin* found, int32_t j, Sums* to) noexcept nogil
    cdef void _try_thresholds(self, const Bin* found, int32_t j, const Side* whole, Sums* of,
                              Split* best) noexcept nogil
    cdef void _try_sets(self, const Bin* found, int32_t j, const Side* whole,
                        Split* best) noexcept nogil
    cdef int _choose(self) except -1 nogil
    cdef int64_t _divide(self) except -1 nogil
    cdef int64_t _sum(self) except -1 nogil
    cdef int64_t _move(self) except -1 nogil
    cdef float* _shares_of(self, int32_t row) noexcept nogil
    cdef Labelled _labelled(self) noexcept nogil
    cdef void drop(self) noexcept nogil
    cdef void _release(self) noexcept nogil
    cdef dict state(self)
    cdef int take_state(self, dict state) except -1
