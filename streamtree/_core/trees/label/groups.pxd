"""What a label tree says of a row once labels are divided: the nodes, the beam and the pool.

Inner nodes are logistic regressions of the side on which an example's label lies, the leaves are
groups of labels with a softmax model. The probability of a label is the product along its path, and
a beam finds the most probable ones.

Text has labels that come too seldom for tests and models to know them. So the columns of labels are
counted besides (see leaves/postings), and the probability of a label is a log-linear pool of what
the groups and what the counts say of it; how much each has to say is learned.
"""

from libc.stdint cimport int32_t

from streamtree._core.kernels.pooling cimport Say
from streamtree._core.leaves.additive cimport AdditiveModel, Parts
from streamtree._core.leaves.postings cimport Postings, Scored
from streamtree._core.store.links cimport TreeLinks
from streamtree._core.stream.row cimport Example, Prediction, Row, Scratch
from streamtree._core.trees.label.labels cimport Labels
from streamtree._core.trees.tree cimport Tree

cdef enum:
    MOST_BEAM = 64


cdef struct LabelNode:
    double weight           # of the examples whose labels are below
    double seen             # of those since its labels are a group
    double used             # the number of the last row of these labels
    int32_t n_labels        # below
    int32_t by_means        # whether the labels of its sides were arranged by means


cdef struct Node:
    AdditiveModel test      # of the side
    AdditiveModel model     # of the labels of a group
    int32_t* labels         # by their places
    int32_t capacity        # of them
    LabelNode stats


cdef struct Reached:
    double mass             # the probability that the label is below
    int32_t node


cdef struct Walk:
    # what a beam found
    int32_t n_open
    int32_t n_groups
    Reached open[2 * MOST_BEAM]
    Reached ahead[MOST_BEAM]
    Reached groups[MOST_BEAM]


cdef struct Candidate:
    # a label that groups or counts find
    double share            # the log of what groups say
    double count            # the log of what counts say, but for what is the same for all
    double pooled


cdef struct Sums:
    # over all labels, weighted by what they have in proportion to the most probable one
    double mass
    double shares
    double counts
    int32_t asked           # a label, and what is said of it
    bint has_truth          # it was found
    Candidate truth


cdef struct Found:
    # what is asked for, besides the most probable label; NULL: it is not
    double* logs            # by label, what is said of those that are found
    Sums* sums
    bint wants_all          # one of them is
    bint is_pooled          # counts speak besides groups
    int32_t label           # the most probable one
    double pooled           # of it
    int32_t n               # labels found
    double rows             # 1 and the weight of the rows of each
    int32_t n_rest
    Candidate rest          # what is said of every other label


cdef class LabelGroups(Tree):
    cdef TreeLinks links
    cdef Node* nodes
    cdef int32_t capacity
    cdef Labels labels
    cdef Postings postings      # of the columns of labels; None while there is one group
    cdef int32_t beam
    cdef Say[2] says            # of groups and of counts

    cdef inline void look_at(self, Parts* parts, const Row* row,
                             Scratch* scratch) noexcept nogil:
        """Let the parts be those of a row, in the room of a thread."""
        parts.row = &row.encoded
        parts.n = row.encoded.n
        parts.n_columns = self.context.n_columns
        parts.room = scratch.part_slots[0]
        parts.fine = NULL

    cdef int reserve(self, int32_t n) except -1 nogil
    cdef void empty_nodes(self) noexcept nogil
    cdef Walk* walk(self, int32_t node, const Row* row, Scratch* scratch) noexcept nogil
    cdef int32_t likely_group(self, const Row* row, Scratch* scratch) noexcept nogil
    cdef int32_t counted_group(self, const Row* row, Scratch* scratch) noexcept nogil
    cdef void predict_groups(self, int32_t node, const Row* row, Scratch* scratch,
                             Prediction* out) noexcept nogil
    cdef list top_of_groups(self, const Row* row, Scratch* scratch, Py_ssize_t count)
    cdef void judge_groups(self, const Row* row, const Example* example,
                           Scratch* scratch) noexcept nogil

    cdef void _find(self, int32_t node, const Row* row, Scratch* scratch,
                    Found* found) noexcept nogil
    cdef void _add_others(self, Found* found, Scored* scored, int32_t last,
                          double rest) noexcept nogil
    cdef double _pooled(self, const Found* found, const Candidate* candidate) noexcept nogil
    cdef void _add(self, Found* found, int32_t label, double share, double score) noexcept nogil
    cdef double _smoothed(self, double share) noexcept nogil
