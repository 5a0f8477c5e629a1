cdef struct SignalWatch:
    # when a loop over rows is to ask for signals
    Py_ssize_t rows_left
    Py_ssize_t rows_between
    double asked_at         # seconds
    double waited           # seconds that the last question took
    bint is_off             # signals are handled in the main thread only


cdef SignalWatch new_watch()
cdef int ask(SignalWatch* watch) except -1 nogil


cdef inline int heed_signals(SignalWatch* watch) except -1 nogil:
    """Raise what a signal handler raises; call it before every row, without the GIL."""
    watch.rows_left -= 1
    if watch.rows_left >= 0 or watch.is_off:
        return 0
    return ask(watch)
