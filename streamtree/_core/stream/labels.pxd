from libc.stdint cimport int32_t, int64_t


cdef inline bint is_plain(object label) noexcept:
    """Whether a label is a class as it is."""
    return type(label) is str or type(label) is int or type(label) is bool


cdef class LabelIndex:
    cdef dict _ids              # None while labels are few
    cdef readonly list labels
    cdef readonly int32_t size
    cdef int64_t most           # bytes that labels may take
    cdef int64_t most_labels
    cdef int64_t most_at_once   # labels that are let in when they come first, see `has_to_wait`
    cdef int64_t _bytes
    cdef char* _again           # by label: whether it came more than once
    cdef int64_t _capacity
    cdef int32_t n_once         # labels that came once only
    cdef int64_t n_repeats      # rows whose label was there before
    cdef dict _waiting          # labels that came once and are not let in yet, the oldest first
    cdef int32_t _size_before   # what `undo` goes back to
    cdef int64_t _repeats_before
    cdef dict _waiting_before   # None: nothing has changed
    cdef list _marked           # those that came again since `begin`; None: there are none

    cpdef object normalized(self, object label)
    cdef size_t n_bytes(self) noexcept nogil
    cdef int32_t find(self, object label) except -2
    cdef int begin(self) except -1
    cdef int undo(self) except -1
    cdef int32_t add(self, object label, bint may_wait) except -2
    cdef bint has_to_wait(self) noexcept
    cdef int wait(self, object label) except -1
    cdef int append(self, object label, bint came_before) except -1
    cdef int truncate(self, int32_t size) except -1
