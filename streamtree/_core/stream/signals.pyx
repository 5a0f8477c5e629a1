"""Signals in long loops without the GIL, so that Ctrl-C need not wait for the end of a batch."""

from cpython.exc cimport PyErr_CheckSignals

from streamtree._core.stream.crew cimport now

import threading

# A loop asks for signals when it has worked for so long, and so many times as long as its last
# question took: where other threads run Python code, it waits for the GIL each time.
cdef double SECONDS_BETWEEN = 0.003
cdef double LEAST_RATIO = 4.0
# a row may suddenly take much longer than those before it
cdef Py_ssize_t MOST_ROWS = 8192


cdef SignalWatch new_watch():
    cdef SignalWatch watch
    watch.is_off = threading.get_ident() != threading.main_thread().ident
    watch.rows_left = watch.rows_between = 1
    watch.asked_at = now()
    watch.waited = 0.0
    return watch


cdef int ask(SignalWatch* watch) except -1 nogil:
    """Handle the signals that came; say after how many rows to do so again."""
    cdef double start = now()
    cdef double worked = start - watch.asked_at
    cdef double wanted = max(SECONDS_BETWEEN, LEAST_RATIO * watch.waited)
    if worked < 0.5 * wanted:
        watch.rows_between = min(2 * watch.rows_between, MOST_ROWS)
    elif worked > wanted:
        watch.rows_between = max(watch.rows_between // 2, 1)
    watch.rows_left = watch.rows_between
    with gil:
        PyErr_CheckSignals()
    watch.asked_at = now()
    watch.waited = watch.asked_at - start
    return 0
