"""What a tree knows of the stream besides the rows: the columns, their scales, how many labels."""

cimport cython
from libc.stdint cimport int32_t, int64_t

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

    cdef bint is_rare(self, int32_t column) noexcept nogil:
        """Whether a column is to have no room where there is little of it."""
        cdef const ColumnScale* scale = &self.scaler.columns[column]
        return self.are_few(n_shown(scale), scale.birth)

    cdef bint are_few(self, int64_t shown, int64_t birth) noexcept nogil:
        """Whether so many rows are few of those since row number `birth`."""
        return RARE_PARTS * shown < self.scaler.rows - birth + NEW_ROWS
