from libc.stdint cimport int32_t, uint64_t

from streamtree._core.stream.buffers cimport RowBuffer
from streamtree._core.stream.context cimport Context
from streamtree._core.stream.encoding cimport RowEncoder
from streamtree._core.stream.features cimport FeatureIndex
from streamtree._core.stream.labels cimport LabelIndex
from streamtree._core.stream.lock cimport ModelLock
from streamtree._core.stream.row cimport Row, Scratch
from streamtree._core.stream.scaling cimport ColumnScaler
from streamtree._core.stream.sources cimport RowSource
from streamtree._core.stream.table cimport RowTable


cdef dict as_dict(object x, str rule=*)


cdef class Workspace:
    cdef RowBuffer raw          # what `row` was made of
    cdef RowBuffer incoming     # what was read last
    cdef RowBuffer listed
    cdef RowBuffer standard
    cdef RowEncoder encoder
    cdef RowTable table
    cdef Row row
    cdef double norm            # of what is standardised in it, see ColumnScaler
    cdef Scratch* scratch       # the first of several where there are members of an ensemble
    cdef Py_ssize_t n_scratches
    cdef int views
    cdef Py_ssize_t capacity
    cdef Py_ssize_t n_labels    # labels or targets for which there is room; -1 before any row
    cdef Py_ssize_t n_shares
    cdef uint64_t version       # of the intake, when `row` was made; 0: there is none
    cdef bint repeats           # what was read last is what `row` was made of: nothing was written

    cdef int _reserve(self, Py_ssize_t n) except -1 nogil
    cdef int reserve_answers(self, Py_ssize_t n) except -1 nogil
    cdef int fit(self, Workspace other) except -1 nogil
    cdef int _reserve_answers(self, Py_ssize_t n) except -1 nogil
    cdef void forget_answers(self) noexcept nogil
    cdef int make_views(self, ColumnScaler scaler) except -1 nogil
    cdef size_t n_bytes(self) noexcept nogil


cdef class Intake:
    cdef readonly FeatureIndex features
    cdef readonly ColumnScaler scaler
    cdef readonly LabelIndex labels
    cdef readonly Context context
    cdef int views
    cdef list scratches         # of a workspace, see Tree.scratches
    cdef readonly ModelLock lock
    cdef Workspace own          # see `room`, None while nobody needs it
    cdef Workspace spare        # of rows as they are known before they are learned, None at first
    cdef bint _is_reading
    cdef bint _own_was_last     # `own` has the views of the dict that was read last
    cdef uint64_t _version      # grows whenever a row may look different from before

    cdef int bound_names(self, names) except -1
    cdef int bound_labels(self, labels, n_labels, n_at_once) except -1
    cdef Workspace workspace(self)
    cdef Workspace room(self)
    cdef int read(self, object x, Workspace workspace, bint keep_new) except -1
    cdef Workspace read_known(self, object x)
    cdef int read_new(self, object x) except -1
    cdef bint has_new_names(self) noexcept
    cdef int commit(self, RowBuffer row) except -1
    cdef int take(self, RowSource source, Py_ssize_t i, bint learns,
                  Workspace workspace) except -1 nogil
    cdef bint is_made(self, Workspace workspace) noexcept nogil
    cdef int make(self, Workspace workspace) except -1 nogil
    cdef bint has_news(self, Workspace workspace) noexcept nogil
    cdef int make_known(self, Workspace workspace) except -1 nogil
    cdef bint count(self, Workspace workspace, bint zeros_implied) noexcept nogil
    cdef int make_counted(self, Workspace workspace, bint is_there) except -1 nogil
    cdef int forget(self) except -1
    cdef void _forget_read(self) noexcept
    cdef int _add_columns(self, list births) except -1
    cdef int forget_columns(self, int32_t size) except -1
    cdef void drop_rooms(self) noexcept
    cdef int end_batch(self, RowSource source) except -1
    cdef object known_columns(self, list names)
    cdef object learned_columns(self, list names, list first_rows)
    cdef size_t n_bytes(self) noexcept


cdef class DictRows(RowSource):
    cdef Intake intake
    cdef list rows
