"""What a tree knows of the stream besides the rows: the columns, their scales, how many labels."""

cimport cython
from libc.stdint cimport int32_t, uint32_t
from libc.stdlib cimport free

from streamtree._core.store.memory cimport larger, regrown
from streamtree._core.stream.features cimport FeatureIndex
from streamtree._core.stream.scales cimport ColumnScale, n_shown
from streamtree._core.stream.scaling cimport ColumnScaler


cdef enum:
    # a column is rare if fewer than one row of so many has it, or if it is too new to say
    RARE_PARTS = 32
    NEW_ROWS = 8 * RARE_PARTS


@cython.final
cdef class Context:
    """Kept by Intake, read by trees."""

    def __cinit__(self, FeatureIndex features, ColumnScaler scaler):
        self.features = features
        self.scaler = scaler

    def __dealloc__(self):
        free(self.hashes)
        free(self.ties)
        free(self.groups)

    cdef void truncate(self, int32_t size) noexcept:
        """Forget the columns from `size` on: others may come in their place."""
        self._n_named = min(self._n_named, size)

    cdef int add_columns(self) except -1:
        """Learn of the columns that the index of features has got since.

        They count in `n_columns` once a row has one.
        """
        cdef int32_t capacity, column, size = <int32_t> len(self.features.names)
        if size > self._capacity:
            capacity = <int32_t> larger(self._capacity, size)
            self.hashes = <uint32_t*> regrown(self.hashes, capacity * sizeof(uint32_t))
            self.ties = <uint32_t*> regrown(self.ties, capacity * sizeof(uint32_t))
            self.groups = <int32_t*> regrown(self.groups, capacity * sizeof(int32_t))
            self._capacity = capacity
        for column in range(self._n_named, size):
            self.hashes[column] = self.features.codes[column].hash
            self.ties[column] = self.features.codes[column].tie
            self.groups[column] = self.features.codes[column].group
            self.n_groups = max(self.n_groups, self.groups[column] + 1)
        self._n_named = size
        return 0

    cdef size_t n_bytes(self) noexcept:
        """What hashes and groups of the columns take."""
        return self._capacity * (2 * sizeof(uint32_t) + sizeof(int32_t))

    cdef bint is_rare(self, int32_t column) noexcept nogil:
        """Whether a column is to have no room where there is little of it."""
        cdef const ColumnScale* scale = &self.scaler.columns[column]
        return self.are_few(n_shown(scale), scale.birth)

    cdef bint are_few(self, int64_t shown, int64_t birth) noexcept nogil:
        """Whether so many rows are few of those since row number `birth`."""
        return RARE_PARTS * shown < self.scaler.rows - birth + NEW_ROWS
