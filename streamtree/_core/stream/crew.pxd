from libc.stdint cimport int32_t, uint32_t


cdef extern from "../kernels/atomics.h" nogil:
    uint32_t load "streamtree_load"(const uint32_t* word)
    uint32_t add "streamtree_add"(uint32_t* word, uint32_t more)
    bint replace "streamtree_replace"(uint32_t* word, uint32_t before, uint32_t after)
    void pause "streamtree_pause"()
    void yield_cpu "streamtree_yield"()
    void nap "streamtree_nap"()
    double now "streamtree_now"()


cdef struct Post:
    # a word that threads write to, alone on two cache lines: they are fetched in pairs
    uint32_t word
    uint32_t unused[31]


cdef class Crew:
    cdef readonly int32_t n_jobs
    cdef readonly int32_t n_threads     # with the one that calls
    cdef Post* _claimed         # by job: the turn in which it was taken last
    cdef uint32_t _is_over     # read while it is written: a helper may come late to the last turn
    cdef Post _turn             # goes up when there is something to do
    cdef Post _n_done           # jobs of all turns that helpers have done
    cdef Post _n_inside         # helpers
    cdef Post _failed
    cdef uint32_t _n_wanted     # jobs of all turns that the caller has not done
    cdef uint32_t _n_numbered   # helpers that have a number
    cdef int32_t _n_alone       # turns that the caller does alone
    cdef int32_t _patience      # how many these are after the next time that it waits in vain
    cdef object _error
    cdef int32_t _error_of      # the job that it is of

    cdef int work(self, int32_t job, int32_t thread) noexcept nogil
    cdef void work_aside(self) noexcept nogil
    cdef int run(self) except -1 nogil
    cdef void _join(self) noexcept nogil
    cdef void _do(self, int32_t job, int32_t thread) noexcept nogil
    cdef int start(self) except -1
    cdef void stop(self) noexcept nogil
    cdef bint has_failed(self) noexcept nogil
    cdef void _serve(self, int32_t thread) noexcept nogil
    cdef uint32_t _labour(self, int32_t thread, uint32_t turn) noexcept nogil
    cdef int _keep_error(self, int32_t job) except -1
