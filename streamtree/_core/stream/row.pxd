"""The one shape in which every example reaches a tree: a const Row with its views.

Intake makes the views that a tree asks for, each once a row. What a tree writes while it looks at a
row goes to a Scratch, of which every thread has its own.
"""

from libc.stdint cimport int32_t, uint32_t, uint64_t


cdef enum:
    # what of a row a tree reads; to be combined
    PLAIN = 1       # values as they came; missing ones and zeros are not listed
    LISTED = 2      # the same in the columns' first units, and the zeros of those mostly there
    STANDARD = 4    # standardised
    ENCODED = 8     # the standardised ones in parts, see encoding.pxd
    TABLE = 16      # the listed ones by column, see table.pxd
    BY_LABEL = 32   # nothing of a row: room for a number a label, in `pooled` of its Scratch


cdef enum:
    MOST_PLACES = 256       # classes that a memo has room for
    # Columns that a model looks at closely. With none model trees lose .005 in the mean of 39 sets,
    # with 4 or 8 they gain nothing.
    MOST_FINE = 2


cdef struct View:
    # `n` pairs (column, value); a column that is not listed contributes nothing
    const int32_t* columns
    const double* values
    Py_ssize_t n
    int32_t top         # the largest column, -1 for none
    bint is_full        # the columns are 0, 1, ..., n - 1


cdef struct EncodedRow:
    # A row as additive models read it: a bias, a linear part for every value, two knots around the
    # value of a column that varies.
    const int32_t* keys         # of linear parts column + 1, 0 for the bias; then of knots
    const float* values
    const float* presence       # by linear part: 1 where a column that does not vary is there
    const char* sparse          # by linear part: whether a zero of the column is no value
    const double* by_column     # the values, NaN where there is none; NULL: most are missing
    Py_ssize_t n_linear
    Py_ssize_t n_present        # columns that do not vary and are there
    Py_ssize_t n


cdef struct Row:
    View plain
    View listed
    View standard
    EncodedRow encoded
    const float* table  # by column, in single precision: NaN where missing
    const uint32_t* kinds       # by feature with categories: a hash of that one, 0 for none
    uint64_t serial     # never that of another row; 0 for one that was kept


cdef struct Example:
    # what is to be learned of a row
    int32_t label               # the number of the class
    const double* targets       # or the numbers; NULL for a class
    double weight


cdef struct Prediction:
    # what is said of a row
    int32_t label       # the most likely class, -1 before any learning
    # room for the probabilities of all classes known, or for the numbers; NULL: the label only
    double* shares


cdef struct FineKnots:
    # those that a row is between, two of every column that a model looks at closely
    Py_ssize_t n
    int32_t keys[2 * MOST_FINE]
    int32_t slots[2 * MOST_FINE]    # of their records, -1 where there is none
    float values[2 * MOST_FINE]     # how near each is


cdef struct Scratch:
    int views           # of the tree that it is for
    # room for a number a value, and one
    int32_t* slots
    double* steps
    # room for a number a part, and one; only where rows are encoded
    int32_t* part_slots[3]
    float* part_steps
    FineKnots* fine
    # what a tree remembers of the row that it predicted last; only for one that asks for it
    void* memo
    size_t memo_size        # of it in bytes, without its places
    size_t memo_place_size  # of what it says of one class
    int32_t memo_places     # classes that it has room for
    const void* memo_owner
    uint64_t memo_serial
    int32_t memo_node       # for one that remembers but the leaf of the row
    # room for the shares of all labels, or the numbers; only for members of an ensemble, for trees
    # that read tables and those that ask for `pooled`
    double* shares
    # the same for what an ensemble makes of its members', or for the slopes of what a randomised
    # tree has said, until that is judged; zeros, for a tree that asks for it
    double* pooled
    void* crew          # a Crew that shares what is to be learned of a row; NULL: there is none


cdef inline int32_t places_for(Py_ssize_t n_labels) noexcept nogil:
    """Places of a memo: a quarter more than labels, the most that records have; by eights."""
    return <int32_t> min((max(n_labels, 1) + n_labels // 4 + 7) // 8 * 8, MOST_PLACES)


cdef inline bint remembers(const Scratch* scratch, const void* owner,
                           const Row* row) noexcept nogil:
    """Whether the memo is about a row; rows that were kept have no number of their own."""
    return scratch.memo_owner == owner and scratch.memo_serial == row.serial and row.serial != 0


cdef inline void remember(Scratch* scratch, const void* owner,
                          const Row* row) noexcept nogil:
    """Let the memo be about a row."""
    scratch.memo_owner, scratch.memo_serial = owner, row.serial


cdef inline void describe(View* view) noexcept nogil:
    """Find `top` and `is_full` of a view whose values are there."""
    # in local variables, so that the loop takes several columns at once
    cdef const int32_t* columns = view.columns
    cdef int32_t i, top = -1, apart = 0
    for i in range(<int32_t> view.n):
        top = max(top, columns[i])
        apart |= columns[i] ^ i
    view.top = top
    view.is_full = apart == 0


cdef inline double bounded_weight(double weight) noexcept nogil:
    """More weight counts as this: sums and squares stay within single precision."""
    return min(weight, 1e6)


cdef inline double value_of(const View* view, int32_t column, double otherwise) noexcept nogil:
    """The value of a column, or what to take where it is not listed."""
    cdef Py_ssize_t i
    if column < view.n and view.columns[column] == column:
        return view.values[column]
    for i in range(view.n):
        if view.columns[i] == column:
            return view.values[i]
    return otherwise
