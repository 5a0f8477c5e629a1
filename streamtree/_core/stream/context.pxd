from libc.stdint cimport int32_t, int64_t, uint32_t

from streamtree._core.stream.features cimport FeatureIndex
from streamtree._core.stream.scales cimport ColumnScale
from streamtree._core.stream.scaling cimport ColumnScaler


cdef class Context:
    cdef readonly FeatureIndex features     # the names of the columns, and hashes of these
    cdef readonly ColumnScaler scaler       # their scales, and the mean norm of the rows
    cdef int32_t n_columns      # that some row so far had
    cdef int32_t n_labels       # known when the row at hand came
    cdef int32_t n_targets
    cdef const ColumnScale* target_scales   # NULL where targets are taken as they are

    cdef bint is_rare(self, int32_t column) noexcept nogil
    cdef bint are_few(self, int64_t shown, int64_t birth) noexcept nogil

    cdef inline uint32_t kind_of(self, int32_t category) noexcept nogil:
        """By what trees know the category of a column; 0 for none, -1."""
        return self.features.hashes[category] if category >= 0 else 0
