"""What a tree knows of the stream besides the rows: the columns, their scales, how many labels."""

cimport cython
from libc.stdint cimport int32_t, uint32_t
from libc.stdlib cimport free

from streamtree._core.store.memory cimport regrown
from streamtree._core.stream.features cimport FeatureIndex
from streamtree._core.stream.scaling cimport ColumnScaler


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
            capacity = size + size // 2 + 8
            self.hashes = <uint32_t*> regrown(self.hashes, capacity * sizeof(uint32_t))
            self.ties = <uint32_t*> regrown(self.ties, capacity * sizeof(uint32_t))
            self.groups = <int32_t*> regrown(self.groups, capacity * sizeof(int32_t))
            self._capacity = capacity
        for column in range(self._n_named, size):
            self.hashes[column] = self.features.codes[column].hash
            self.ties[column] = self.features.codes[column].tie
            self.groups[column] = self.features.codes[column].group
        self._n_named = size
        return 0
