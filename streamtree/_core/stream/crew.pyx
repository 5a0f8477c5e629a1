"""Threads that share the work of a batch, row by row.

They are there for one batch only. The thread that calls does its part of every row; between two of
them the others wait for a few microseconds, with their eyes open.
"""

from libc.stdint cimport int32_t, uint32_t
from libc.stdlib cimport free

from streamtree._core.store.memory cimport zeroed

import _thread

cdef enum:
    # looks at a word before a thread that waits gives way to others, then before it takes naps
    LOOKS = 2000
    GIVES_WAY = 2000
    # A turn that takes so many times as long as the caller's part of it, and longer than any naps,
    # is waste: others are at the processors. It does the next turns alone, at most so many.
    WASTE = 4
    MOST_ALONE = 512

cdef double LONG = 5e-4     # seconds


cdef void wait(int* n_waits) noexcept nogil:
    """Pass some time; the more often in a row, the more."""
    n_waits[0] += 1
    if n_waits[0] < LOOKS:
        pause()
    elif n_waits[0] < LOOKS + GIVES_WAY:
        yield_cpu()
    else:
        n_waits[0] = LOOKS + GIVES_WAY
        nap()


cdef int raised() except -1:
    """Let an error be handled that a function gave back as -1."""
    return -1


cdef class Crew:
    """Up to `n_threads` threads, that of the caller among them, for so many jobs at a time.

    What a job is, `work` says, which knows it by its number; it gives back -1 if an error was
    raised. Jobs of one turn touch nothing that others of it write.

    Threads begin at the two ends of the list of jobs and meet where they meet: nobody waits long
    for the last one, and a job is nearly always done by the same thread, whose cache knows it.
    """

    def __cinit__(self, int32_t n_jobs, int32_t n_threads, *args, **kwargs):
        self.n_jobs = n_jobs
        self.n_threads = max(min(n_threads, n_jobs), 1)
        self._claimed = <Post*> zeroed(n_jobs * sizeof(Post))

    def __dealloc__(self):
        free(self._claimed)

    cdef int work(self, int32_t job, int32_t thread) noexcept nogil:
        """Do one job: -1 and an error, or anything else. The thread that calls is number 0."""
        return 0

    cdef void work_aside(self) noexcept nogil:
        """What the caller does first in a turn, while helpers begin with the jobs."""

    cdef int start(self) except -1:
        """Let the helpers come in; `stop` must follow, whatever happens."""
        for _ in range(self.n_threads - 1):
            add(&self._n_inside.word, 1)
            try:
                # not of the module threading: those wait in Python code, where signals are handled
                _thread.start_new_thread(self.help, ())
            except RuntimeError:
                # there are no more threads to be had: these will do
                add(&self._n_inside.word, <uint32_t> -1)
                break
        return 0

    cdef void stop(self) noexcept nogil:
        """Send the helpers away; returns when they are gone. Call without the GIL."""
        cdef int n_waits = 0
        add(&self._is_over, 1)
        add(&self._turn.word, 1)
        while load(&self._n_inside.word):
            wait(&n_waits)

    def help(self):
        """What a helper does until the end of the batch."""
        cdef int32_t thread
        self._n_numbered += 1
        thread = self._n_numbered
        with nogil:
            self._serve(thread)
            add(&self._n_inside.word, <uint32_t> -1)

    cdef void _serve(self, int32_t thread) noexcept nogil:
        cdef uint32_t turn, last = 0, n_done
        cdef int n_waits
        while True:
            n_waits = 0
            turn = load(&self._turn.word)
            while turn == last:
                wait(&n_waits)
                turn = load(&self._turn.word)
            if load(&self._is_over):
                return
            n_done = self._labour(thread, turn)
            if n_done:
                add(&self._n_done.word, n_done)
            last = turn

    cdef int run(self) except -1 nogil:
        """Have all jobs done once; raises what one of them raised, the first by number."""
        cdef int32_t job
        if self._n_alone or self.n_threads == 1:
            self._n_alone -= self._n_alone > 0
            self.work_aside()
            for job in range(self.n_jobs):
                self._do(job, 0)
        else:
            self._join()
        if self.has_failed():
            with gil:
                raise self._error or MemoryError("an error found no memory to be told")
        return 0

    cdef void _join(self) noexcept nogil:
        """Do a turn together."""
        cdef int n_waits = 0
        cdef double begin = now(), end
        cdef uint32_t turn = add(&self._turn.word, 1) + 1
        self.work_aside()
        self._n_wanted += self.n_jobs - self._labour(0, turn)
        end = now()
        while load(&self._n_done.word) != self._n_wanted:
            wait(&n_waits)
        if n_waits >= LOOKS and now() - end > max(WASTE * (end - begin), LONG):
            self._patience = min(2 * self._patience + 8, <int32_t> MOST_ALONE)
            self._n_alone = self._patience
        else:
            self._patience -= self._patience // 8

    cdef void _do(self, int32_t job, int32_t thread) noexcept nogil:
        """Do a job, unless one has failed."""
        if not self.has_failed() and self.work(job, thread) < 0:
            with gil:
                self._keep_error(job)

    cdef bint has_failed(self) noexcept nogil:
        """Whether a job of any turn has raised an error."""
        return load(&self._failed.word) != 0

    cdef uint32_t _labour(self, int32_t thread, uint32_t turn) noexcept nogil:
        """Do whatever of a turn nobody else has taken; returns how many jobs that was.

        A thread that comes late, when there is another turn, finds nothing to take.
        """
        cdef int32_t step = 1 - 2 * (thread % 2)
        cdef int32_t job = (thread + thread % 2) * self.n_jobs // self.n_threads
        cdef uint32_t n_done = 0
        job = (job - thread % 2) % self.n_jobs
        for _ in range(self.n_jobs):
            if (
                load(&self._claimed[job].word) == turn - 1
                and replace(&self._claimed[job].word, turn - 1, turn)
            ):
                self._do(job, thread)
                n_done += 1
            elif self.n_threads == 2:
                # from here on the other one has taken all: a look at its words would slow it down
                break
            job += step
            if job == self.n_jobs:
                job = 0
            elif job < 0:
                job = self.n_jobs - 1
        return n_done

    cdef int _keep_error(self, int32_t job) except -1:
        """Take the error that a job has raised in this thread; `run` raises it in the caller's."""
        add(&self._failed.word, 1)
        try:
            raised()
        except BaseException as error:
            if self._error is None or job < self._error_of:
                self._error, self._error_of = error, job
        return 0
