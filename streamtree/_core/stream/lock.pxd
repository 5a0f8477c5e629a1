cdef extern from "pythread.h":
    unsigned long PyThread_get_thread_ident() nogil


cdef class ModelLock:
    cdef readonly bint is_learning
    cdef readonly int n_predicting
    cdef public double timeout          # seconds that a call waits; 0: it is refused at once
    cdef list _waiting                  # turns, in the order in which their calls came
    cdef unsigned long _learner         # the thread that learns
    cdef unsigned long* _predictors     # the thread of every prediction that is inside
    cdef int _capacity

    cdef inline int begin_learning(self) except -1:
        """Call with the GIL held, and `end_learning` in the end."""
        if self.is_learning or self.n_predicting or self._waiting is not None:
            return self._wait(True)
        self._learner = PyThread_get_thread_ident()
        self.is_learning = True
        return 0

    cdef inline void end_learning(self) noexcept:
        self.is_learning = False
        if self._waiting is not None:
            self._admit()

    cdef inline int begin_predicting(self) except -1:
        """Call with the GIL held, and `end_predicting` in the end."""
        if self.is_learning or self._waiting is not None:
            return self._wait(False)
        return self._enter(PyThread_get_thread_ident())

    cdef inline void end_predicting(self) noexcept:
        cdef unsigned long thread = PyThread_get_thread_ident()
        cdef int i = self.n_predicting - 1
        self.n_predicting = i
        # the last place goes to whoever had that of this thread
        if self._predictors[i] != thread:
            self._leave(thread)
        if self._waiting is not None:
            self._admit()

    cdef inline int _enter(self, unsigned long thread) except -1:
        if self.n_predicting == self._capacity:
            self._make_room()
        self._predictors[self.n_predicting] = thread
        self.n_predicting += 1
        return 0

    cdef int _make_room(self) except -1
    cdef void _leave(self, unsigned long thread) noexcept
    cdef bint _is_inside(self, unsigned long thread) noexcept
    cdef int _wait(self, bint learns) except -1
    cdef void _admit(self) noexcept
