from libc.stdint cimport int32_t

from streamtree._core.kernels.course cimport Course
from streamtree._core.leaves.explanation cimport Explanation
from streamtree._core.store.links cimport TreeLinks
from streamtree._core.stream.context cimport Context
from streamtree._core.stream.crew cimport Crew
from streamtree._core.stream.keptrows cimport KeptRows
from streamtree._core.stream.row cimport Example, Prediction, Row, Scratch


cdef class Tree:
    cdef Context context
    cdef readonly int views         # what of a row the tree reads, see PLAIN and so on
    cdef readonly int max_labels    # how many it can tell apart; 0: any number
    cdef readonly size_t label_bytes    # that any label takes, at the least; 0 where it need not
    cdef size_t memo_size           # bytes that it remembers of the row that it predicted last
    cdef size_t memo_place_size     # besides, of every class
    cdef readonly bint is_judged    # it learns from what it predicted, too: see `judge`
    cdef readonly bint has_window   # it learns from rows that it keeps
    cdef readonly bint gives_back   # where it may take less, it takes less at once
    cdef readonly bint is_light     # it takes next to no time and memory
    cdef readonly bint looks_ahead  # it asks for memory before a row comes, see `expect`
    cdef bint rests                 # it is not to learn for some rows, see `rest`
    cdef Course course              # how it has erred, of the tree that a learner has
    cdef bint is_outdated           # a new tree may soon err less
    cdef double patience            # where it errs less than so many times its mean it is not
    cdef readonly bint has_leaf_models      # what a leaf says may depend on the row
    cdef TreeLinks frame            # of the nodes, for explanations

    cdef list scratches(self)
    cdef int bind(self, Context context) except -1
    cdef int bound(self, object bytes) except -1
    cdef object labels_at_once(self, object bytes)
    cdef int let_wait(self) except -1 nogil
    cdef bint needs_all_rows(self) noexcept nogil
    cdef void rest(self, bint rests) noexcept nogil
    cdef void catch_up(self) noexcept nogil
    cdef Crew crew(self, int32_t n_threads)
    cdef void expect(self, int32_t label) noexcept nogil
    cdef void approach(self, int32_t label) noexcept nogil
    cdef int learn(self, const Row* row, const Example* example, Scratch* scratch,
                   Prediction* out) except -1 nogil
    cdef void follow(self, const Example* example, const double* said) noexcept nogil
    cdef void judge(self, const Example* example, Scratch* scratch) noexcept nogil
    cdef void predict(self, const Row* row, Scratch* scratch, Prediction* out) noexcept nogil
    cdef void predict_below(self, int32_t node, const Row* row, Scratch* scratch,
                            Prediction* out) noexcept nogil
    cdef int32_t leaf(self, const Row* row, Scratch* scratch) noexcept nogil
    cdef double test_score(self, int32_t node, const Row* row, Scratch* scratch) noexcept nogil
    cdef list path(self, const Row* row, Scratch* scratch)
    cdef list ways(self, const Row* row, Scratch* scratch)
    cdef tuple pushes(self, int32_t node, double score, const Row* row, Scratch* scratch)
    cdef double leaf_weight(self, int32_t node) noexcept nogil
    cdef list means(self, list path, Explanation out)
    cdef double output_below(self, int32_t node, const Row* row, Scratch* scratch,
                             Explanation out) noexcept
    cdef int explain(self, const Row* row, Scratch* scratch, Explanation out) except -1
    cdef int explain_leaf(self, int32_t node, const Row* row, Scratch* scratch,
                          Explanation out, double difference) except -1
    cdef list opinions(self, const Row* row, Scratch* scratch)
    cdef list top_shares(self, const Row* row, Scratch* scratch, Py_ssize_t count)
    cdef list sample(self, const Row* row, Scratch* scratch, Py_ssize_t least)
    cdef object examine(self, const Row* row, const Example* example, Scratch* scratch)
    cdef int grow(self, KeptRows rows) except -1
    cdef size_t n_bytes(self) noexcept nogil
    cdef size_t learned_bytes(self) noexcept nogil
    cdef dict outline(self)
    cdef dict state(self)
    cdef int take_state(self, dict state) except -1


cdef class OneLeaf(Tree):
    pass


cdef class Corrector(OneLeaf):
    cdef void hear(self, const double* pooled, double left, Scratch* scratch) noexcept nogil
