from libc.stdint cimport int32_t, int64_t

from streamtree._core.kernels.moments cimport Moments
from streamtree._core.kernels.pooling cimport Trust
from streamtree._core.leaves.explanation cimport Explanation
from streamtree._core.stream.row cimport Example, Row, Scratch
from streamtree._core.trees.neighbors.rows cimport (
    MOST_FIELDS, NEAREST, Cell, Near, NeighborRows, Query,
)
from streamtree._core.trees.tree cimport OneLeaf

cdef struct Scale:
    # a number that is learned by its logarithm
    double log
    double squares      # fading, of its slopes


cdef struct Found:
    # of the row that was looked at last
    int64_t rows        # that were learned before it
    int32_t n
    Near near
    double[NEAREST] says        # what each has to say
    double left         # what all rows have to say
    double total        # of it all
    double mean         # of their numbers, as each has to say, from the mean of all
    double kriged       # and what kriging makes of them
    Cell[MOST_FIELDS] cells


cdef class Neighbors(OneLeaf):
    cdef NeighborRows rows
    cdef Scale* scales          # by field; in the same block what follows from them:
    cdef float* weights         # by field: of a difference in it
    cdef float* slopes          # by field
    cdef int32_t* order         # of the fields: those of numbers before the others, by weight
    cdef int32_t n_numbers      # fields
    cdef Scale common           # of all weights
    cdef Scale age              # of a row
    cdef float age_weight       # of a row for every row since
    cdef Scale doubt            # as how many rows all rows count
    cdef int64_t seen           # rows learned

    cdef Found* found(self, const Row* row, Scratch* scratch) noexcept nogil
    cdef void _look_up(self, const Row* row, Found* found) noexcept nogil
    cdef void _ask(self, const Found* found, Query* query) noexcept nogil
    cdef void _follow(self, Found* found, const double* slopes, double doubt,
                      double weight) noexcept nogil
    cdef void _weigh(self) noexcept nogil
    cdef bint _is_before(self, int32_t f, int32_t g) noexcept nogil
    cdef int _take_fields(self) except -1 nogil
    cdef void _take_scales(self, Scale* scales) noexcept nogil
    cdef int _push(self, const Row* row, const Found* found,
                   const Example* example) except -1 nogil
    cdef int _explain(self, const Row* row, Scratch* scratch, Explanation out,
                      double before) except -1


cdef class NeighborTree(Neighbors):
    cdef double _share(self, int32_t label) noexcept nogil


cdef class NeighborMeans(Neighbors):
    cdef Moments targets
    cdef Trust trust            # in what kriging adds to the mean

    cdef double _krige(self, const Found* found) noexcept nogil
