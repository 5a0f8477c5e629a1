"""The last rows, laid out to be compared with one more."""

from libc.stdint cimport int32_t, uint64_t

from streamtree._core.stream.context cimport Context
from streamtree._core.stream.fields cimport Candidate
from streamtree._core.stream.row cimport Example, Row


cpdef enum:
    MOST_ROWS = 8192
    # of the bits that values set
    WORDS = 4


cdef extern from "../../kernels/neighbors.h" nogil:
    cpdef enum:
        LANES "STREAMTREE_LANES"
        NEAREST "STREAMTREE_NEAREST"
        MOST_FIELDS "STREAMTREE_MOST_FIELDS"
    ctypedef union Cell "streamtree_cell":
        float number
        int32_t kind
    ctypedef struct Query "streamtree_query":
        const Cell* cells
        int32_t n_fields
        int32_t n_numbers
        const int32_t* fields
        const Cell* row
        const float* weights
        float age_weight
        int32_t size
        int32_t capacity
        int32_t next
    ctypedef struct Near "streamtree_near":
        float distances[NEAREST]
        int32_t places[NEAREST]
    int32_t nearest "streamtree_nearest"(const Query* of, Near* near)
    double krige "streamtree_krige"(
        const Query* of, const Near* near, int32_t n, const double* numbers,
        const double* noise, float scale, double doubt)
    int32_t age_of "streamtree_age"(const Query* of, int32_t place)
    void add_apart "streamtree_add_apart"(
        const Query* of, int32_t place, float share, float* slopes)


cdef inline bint is_number(const Candidate* one) noexcept nogil:
    """Whether rows differ in a field by how far they are apart."""
    return one.group < 0 and not one.is_exact


cdef inline bint is_same(const Candidate* one, const Candidate* other) noexcept nogil:
    """Whether two are the same field; several names may have the same hash."""
    if one.group < 0:
        return (
            other.group < 0 and one.column == other.column and one.is_exact == other.is_exact
        )
    return one.group == other.group


cdef struct Noted:
    # of the values of a field of numbers, to tell numbers that count from those that name
    int32_t n_bits          # of a block of rows
    int32_t n_rows          # of the block
    int32_t has_many        # different ones, in a block
    int32_t has_fractions


cdef struct Values:
    Noted noted
    uint64_t[WORDS] bits    # of the values of a block, each a bit by its hash


cdef class NeighborRows:
    cdef Context context
    cdef bint has_targets
    cdef Candidate* fields
    cdef readonly int32_t n_fields
    cdef Values* values         # by field
    cdef int32_t* field_of      # by column: of numbers, -1 for others
    cdef int32_t n_columns      # up to the last one with a field
    cdef Cell* cells            # by block, then by field, then by row of the block
    cdef int32_t* labels        # by place; of numbers NULL
    cdef double* targets        # by place; of labels NULL
    cdef float* weights         # by place
    cdef int32_t* counts        # of the rows, by label
    cdef int32_t n_counted      # labels that rows have had
    cdef int32_t _count_capacity
    cdef readonly int32_t capacity      # places, a multiple of LANES
    cdef readonly int32_t size          # rows that there are
    cdef int32_t next           # the place of the next row
    cdef size_t allowed         # bytes, and
    cdef int32_t fitting        # the places that fit in

    cdef int32_t find_fields(self, Candidate* found) noexcept nogil
    cdef int take_fields(self, const Candidate* found, int32_t n) except -1 nogil
    cdef void read(self, const Row* row, Cell* cells) noexcept nogil
    cdef int push(self, const Row* row, const Cell* cells,
                  const Example* example) except -1 nogil
    cdef void _note_values(self, const Row* row) noexcept nogil
    cdef bint _names(self, const Candidate* number, int32_t f) noexcept nogil
    cdef Cell* cells_of(self, int32_t place) noexcept nogil
    cdef int _reserve(self, int32_t n) except -1 nogil
    cdef void describe(self, Query* query) noexcept nogil
    cdef size_t _place_bytes(self, int32_t n_fields) noexcept nogil
    cdef int32_t _most_places(self, int32_t n_fields, size_t allowed) noexcept nogil
    cdef int _fit(self) except -1 nogil
    cdef int _lay(self, const Candidate* fields, int32_t n, int32_t capacity) except -1 nogil
    cdef void _move(self, const int32_t* sources, int32_t n, Cell* cells, int32_t* labels,
                    double* targets, float* weights, int32_t n_kept) noexcept nogil
    cdef void _let_go(self, int32_t n) noexcept nogil
    cdef void _give_back(self) noexcept nogil
    cdef void clear(self) noexcept nogil
    cdef dict state(self)
    cdef int take_state(self, dict state) except -1
