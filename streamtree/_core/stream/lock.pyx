"""Who may be inside a model: predictions side by side, learning alone, and those who wait in turn.

All of it runs with the GIL held, so that it needs no atomic operations.
"""

cimport cython
from libc.stdlib cimport free

from streamtree._core.store.memory cimport regrown

import threading


@cython.final
cdef class Turn:
    """A call that waits."""

    cdef bint learns
    cdef bint is_admitted       # it is inside: it was counted in when its turn came
    cdef unsigned long thread
    cdef object gate            # a lock that is let go then


@cython.final
cdef class Reading:
    """A prediction that lasts as long as its context."""

    cdef ModelLock lock

    def __cinit__(self, ModelLock lock):
        self.lock = lock

    def __enter__(self):
        self.lock.begin_predicting()

    def __exit__(self, *error):
        self.lock.end_predicting()


# nothing that it holds leads back to it
@cython.no_gc
@cython.final
cdef class ModelLock:
    """A lock for one learner or many predictions, fair to both.

    With a timeout, calls that may not enter wait in one queue and get in in its order: whoever
    comes while others wait goes to its end. Without, they are refused. A call in the middle of
    another one of the same thread (by the code of a name) never waits: it would wait for itself.
    """

    def __dealloc__(self):
        free(self._predictors)

    cdef int _make_room(self) except -1:
        cdef int capacity = 2 * self._capacity + 1
        self._predictors = <unsigned long*> regrown(
            self._predictors, capacity * sizeof(unsigned long)
        )
        self._capacity = capacity
        return 0

    cdef void _leave(self, unsigned long thread) noexcept:
        """Fill the place of a thread with the one that fell off the end."""
        cdef int i = self.n_predicting - 1
        while i >= 0 and self._predictors[i] != thread:
            i -= 1
        if i >= 0:
            self._predictors[i] = self._predictors[self.n_predicting]

    cdef bint _is_inside(self, unsigned long thread) noexcept:
        cdef int i
        if self.is_learning and self._learner == thread:
            return True
        for i in range(self.n_predicting):
            if self._predictors[i] == thread:
                return True
        return False

    cdef int _wait(self, bint learns) except -1:
        """Enter when it is this call's turn; raise if that takes too long, or can never be."""
        cdef unsigned long thread = PyThread_get_thread_ident()
        cdef bint is_inside = self._is_inside(thread)
        if self.n_predicting + len(self._waiting or ()) >= self._capacity:
            # now: whoever lets others in cannot be told that memory has run out
            self._make_room()
        if is_inside and not learns and not self.is_learning:
            # its first prediction keeps learners out already
            return self._enter(thread)
        if is_inside or self.timeout == 0.0:
            self._refuse(learns, "")
        cdef Turn turn = Turn()
        turn.learns, turn.thread = learns, thread
        turn.gate = threading.Lock()
        turn.gate.acquire()
        if self._waiting is None:
            self._waiting = []
        self._waiting.append(turn)
        try:
            turn.gate.acquire(timeout=min(self.timeout, threading.TIMEOUT_MAX))
        except BaseException:
            if turn.is_admitted and learns:
                self.end_learning()
            elif turn.is_admitted:
                self.end_predicting()
            raise
        finally:
            if not turn.is_admitted and self._waiting is not None and turn in self._waiting:
                self._waiting.remove(turn)
                # those behind it may have waited for it only
                self._admit()
        if not turn.is_admitted:
            self._refuse(learns, f", after {self.timeout:g} s")
        return 0

    cdef void _admit(self) noexcept:
        """Let in whose turn it is."""
        cdef Turn turn
        while self._waiting and not self.is_learning:
            turn = self._waiting[0]
            if turn.learns and self.n_predicting:
                return
            if turn.learns:
                self.is_learning, self._learner = True, turn.thread
            else:
                self._enter(turn.thread)
            turn.is_admitted = True
            del self._waiting[0]
            turn.gate.release()
        if not self._waiting:
            self._waiting = None

    def reading(self):
        """A context in which nothing is learned, for an answer that takes several calls."""
        return Reading(self)

    def _refuse(self, learns, waited):
        if learns:
            raise RuntimeError(
                "the model is in use by another call: learning needs it alone, predictions may "
                f"run side by side with each other only{waited}"
            )
        raise RuntimeError(
            "the model is learning in another call, or is about to: it cannot predict "
            f"now{waited}"
        )
