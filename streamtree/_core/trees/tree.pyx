"""What a tree is to its learner: an interface of a few functions.

A tree knows neither names nor locks nor Python objects: it is given rows by number. All that it
has to know of the stream besides is in its Context. A forest is itself a tree.
"""

cimport cython
from libc.math cimport fabs, sqrt
from libc.stdint cimport int32_t

from streamtree._core.kernels.course cimport is_worse_with_error, is_worse_with_share
from streamtree._core.kernels.moments cimport Moments, moments_variance
from streamtree._core.kernels.pooling cimport MOST_DEVIATIONS
from streamtree._core.leaves.explanation cimport Explanation
from streamtree._core.store.links cimport ROOT, Link, turn
from streamtree._core.stream.context cimport Context
from streamtree._core.stream.crew cimport Crew
from streamtree._core.stream.keptrows cimport KeptRows
from streamtree._core.stream.row cimport PLAIN, Example, Prediction, Row, Scratch

import numpy as np

from streamtree._core.store.checks import check_finite, require

# Means and deviations of targets are nearer to zero: no target is farther away than 1e100, and
# rounding adds little, even where weights are near the end of the number range.
BEYOND_TARGETS = 1e101

# A tree that errs so many times as much as in the mean may be outdated.
cdef double PATIENCE = 1.5

cdef enum:
    # bytes for each label that is learned when it comes first; and a few such labels in any case
    BYTES_AT_ONCE = 131072
    LEAST_AT_ONCE = 4


cdef class Tree:
    """The base of all trees. A family implements `learn`, `predict`, `path`, and its state.

    So that its predictions are explained by their columns it also implements `predict_below`,
    `pushes`, and `leaf_weight` with `frame` or `means`. With a binary `frame`, `test_score` is
    enough in place of `path`.
    """

    def __cinit__(self, *args, **kwargs):
        self.views = PLAIN
        self.patience = PATIENCE

    def configure(self):
        """Set what may change while the tree learns, as keywords; here there is nothing."""

    def refuse_label(self, label):
        """Raise for a label that would be one too many."""
        raise ValueError(f"y: {label!r} would be label number {self.max_labels + 1}")

    cdef list scratches(self):
        """What the tree needs a Scratch for, its own first: views, and the sizes of a memo."""
        return [(self.views, self.memo_size, self.memo_place_size)]

    cdef int bind(self, Context context) except -1:
        """Take the context of a learner; it comes before any row.

        What is allocated from here on counts as the model's, see store/budget.
        """
        self.context = context
        return 0

    cdef int bound(self, object bytes) except -1:
        """What all members of an ensemble may take together; None: there is no bound.

        Whoever has no members is bound by the ledger of whom it belongs to.
        """
        return 0

    cdef object labels_at_once(self, object bytes):
        """How many labels a tree that may take so many bytes learns from the first row on, unless
        hardly any came again."""
        return max(<object> LEAST_AT_ONCE, bytes // BYTES_AT_ONCE)

    cdef int let_wait(self) except -1 nogil:
        """A label has to come again before it is learned, for most of those so far came once."""
        return 0

    cdef bint needs_all_rows(self) noexcept nogil:
        """Whether there is so much to learn that an ensemble is to let nobody rest."""
        return False

    cdef void rest(self, bint rests) noexcept nogil:
        """Be told by an ensemble that it is given no rows to learn from now on, or is so again.

        It can still be asked what it says.
        """
        self.rests = rests

    cdef void catch_up(self) noexcept nogil:
        """Learn what was put off, by a `Corrector`, or while threads learned a row."""

    cdef Crew crew(self, int32_t n_threads):
        """Up to so many threads that learn a row together; None: there is nothing to share."""
        return None

    cdef void expect(self, int32_t label) noexcept nogil:
        """An example of this class (-1: unknown) is to come: ask for the memory it will need."""

    cdef void approach(self, int32_t label) noexcept nogil:
        """It is the next one: what `expect` asked for is there, and says what else to ask for."""

    cdef int learn(self, const Row* row, const Example* example, Scratch* scratch,
                   Prediction* out) except -1 nogil:
        """Learn an example; write to `out`, unless it is NULL, what `predict` would have said.

        With NULL, what comes of `judge` is not learned.
        """
        raise NotImplementedError

    @cython.final
    cdef void follow(self, const Example* example, const double* said) noexcept nogil:
        """Count how far what was predicted is from the example; see whether it may be outdated.

        Errors of several targets are added up in the units of their scales.
        """
        cdef int32_t i, n = self.context.n_targets
        cdef double error, total = 0.0
        if example.label >= 0:
            self.is_outdated = is_worse_with_share(
                &self.course, said[example.label], self.context.n_labels, example.weight,
                self.patience,
            )
            return
        for i in range(n):
            error = fabs(example.targets[i] - said[i])
            if n > 1 and self.context.target_scales != NULL:
                error *= self.context.target_scales[i].factor
            total += error
        self.is_outdated = is_worse_with_error(
            &self.course, total, example.weight, self.patience
        )

    cdef void judge(self, const Example* example, Scratch* scratch) noexcept nogil:
        """Learn from what `predict` said last with this scratch, not from the row."""

    cdef void predict(self, const Row* row, Scratch* scratch, Prediction* out) noexcept nogil:
        """Say what a row is; changes nothing but `out` and the scratch."""

    cdef void predict_below(self, int32_t node, const Row* row, Scratch* scratch,
                            Prediction* out) noexcept nogil:
        """Say what a row is that has come to a node, whatever the tests above would answer."""
        self.predict(row, scratch, out)

    cdef int32_t leaf(self, const Row* row, Scratch* scratch) noexcept nogil:
        """The node in which a row ends."""
        return 0

    cdef double test_score(self, int32_t node, const Row* row, Scratch* scratch) noexcept nogil:
        """What the test of a node gives: above 0 a row goes right. For trees with a frame."""
        return 0.0

    cdef list path(self, const Row* row, Scratch* scratch):
        """The nodes that a row passes, each with what its test gives, None at the last."""
        cdef int32_t node = ROOT
        cdef double score
        if self.frame is None:
            raise NotImplementedError
        nodes = []
        while self.frame.links[node].left >= 0:
            score = self.test_score(node, row, scratch)
            nodes.append((node, score))
            node = turn(self.frame.links, node, score)
        return [*nodes, (node, None)]

    cdef list ways(self, const Row* row, Scratch* scratch):
        """All nodes that a row reaches, with what their tests give and the share that comes there.

        A leaf comes after all nodes above it; its test gives None. A tree that says something else
        than any leaf does ends with node None.
        """
        return [(node, score, 1.0) for node, score in self.path(row, scratch)]

    cdef tuple pushes(self, int32_t node, double score, const Row* row, Scratch* scratch):
        """The columns that had a test come out as it did, and how strongly each pushed.

        Arrays; of a single column lists, which are faster.
        """
        raise NotImplementedError

    cdef double leaf_weight(self, int32_t node) noexcept nogil:
        """The weight of the examples in a leaf."""
        return 1.0

    cdef double output_below(self, int32_t node, const Row* row, Scratch* scratch,
                             Explanation out) noexcept:
        """The share or number that is explained, as predicted from a node on."""
        cdef Prediction prediction
        prediction.label = -1
        prediction.shares = &out.room[0]
        self.predict_below(node, row, scratch, &prediction)
        return out.room[out.output]

    cdef list means(self, list path, Explanation out):
        """What is said at the nodes of a path on average: of rows without values, by the leaves.

        Each leaf counts by its weight; a node without any says what the one above it says. None:
        contributions of columns are not to be had.
        """
        cdef const Link* links
        cdef int32_t node, parent
        cdef double said
        if self.frame is None:
            # nothing is known of it but what it predicts
            return None
        links = self.frame.links
        sums, weights = np.zeros(self.frame.size), np.zeros(self.frame.size)
        cdef double[::1] total = sums, weight = weights
        for node in np.argsort(-self.frame.depths(), kind="stable").tolist():
            if links[node].left < 0:
                weight[node] = self.leaf_weight(node)
                said = self.output_below(node, out.blank, out.blank_scratch, out)
                total[node] = weight[node] * said
            parent = links[node].parent
            if parent >= 0:
                total[parent] += total[node]
                weight[parent] += weight[node]
        means = []
        for node in path:
            if links[node].left < 0 or not weight[0] > 0.0:
                means.append(self.output_below(node, out.blank, out.blank_scratch, out))
            elif weight[node] > 0.0:
                means.append(total[node] / weight[node])
            else:
                means.append(means[len(means) - 1])
        return means

    cdef int explain(self, const Row* row, Scratch* scratch, Explanation out) except -1:
        """Add what the prediction of a row is made of.

        It begins with the mean of the tree. Each test on the way hands the difference of the means
        to the columns that decided it; then comes the leaf.
        """
        cdef int32_t node
        cdef double before
        steps = self.path(row, scratch)
        means = self.means([node for node, _ in steps], out)
        if means is None:
            return out.add_bias(self.output_below(0, row, scratch, out))
        out.add_bias(means[0])
        for (node, score), before, after in zip(steps, means, means[1:]):
            if after != before:
                columns, parts = self.pushes(node, score, row, scratch)
                out.spread(columns, parts, after - before)
        node, before = steps[len(steps) - 1][0], means[len(means) - 1]
        after = self.output_below(node, row, scratch, out)
        if after == before:
            return 0
        return self.explain_leaf(node, row, scratch, out, after - before)

    cdef int explain_leaf(self, int32_t node, const Row* row, Scratch* scratch,
                          Explanation out, double difference) except -1:
        """Hand to columns what the values of a row change in what a leaf says."""
        return out.add_bias(difference)

    cdef list opinions(self, const Row* row, Scratch* scratch):
        """What every member of an ensemble says on its own: arrays of shares or numbers."""
        return []

    cdef list top_shares(self, const Row* row, Scratch* scratch, Py_ssize_t count):
        """The most likely (class, probability) pairs; None: no cheaper than all probabilities."""
        return None

    cdef list sample(self, const Row* row, Scratch* scratch, Py_ssize_t least):
        """(number, weight) of the learned examples most like a row: `least` of them or more."""
        raise TypeError(f"{type(self).__name__} keeps no examples")

    cdef object examine(self, const Row* row, const Example* example, Scratch* scratch):
        """What a step would go by, for tests; None where a family has nothing to tell."""
        return None

    cdef int grow(self, KeptRows rows) except -1:
        """Grow a tree that has learned nothing from a whole data set at once."""
        raise TypeError(f"{type(self).__name__} learns row by row only")

    cdef size_t n_bytes(self) noexcept nogil:
        """The memory that the tree has taken, but for what is in the ledger that it belongs to."""
        return 0

    cdef size_t learned_bytes(self) noexcept nogil:
        """The part of `n_bytes` that is in the ledgers of members."""
        return 0

    cdef dict outline(self):
        """Those parts of `state` that say which nodes there are, and their tests and counts."""
        return self.state()

    cdef dict state(self):
        """All that was learned, as arrays, numbers, lists and dicts of these."""
        raise NotImplementedError

    cdef int take_state(self, dict state) except -1:
        """Take over what `state` gave; the tree is new, with the same parameters."""
        raise NotImplementedError

    def check_state(self, dict state, Py_ssize_t n_columns, Py_ssize_t n_outputs):
        """Raise StateError unless `take_state` can trust a state, which may be anybody's.

        The types of its parts are those of the state of a new tree; their values are to be
        checked, and what is in its lists.
        """
        raise NotImplementedError

    @property
    def n_nodes(self):
        """Number of nodes, leaves included."""
        if self.frame is None:
            raise NotImplementedError
        return self.frame.size

    def count_leaves(self):
        """Number of nodes without branches."""
        return (self.n_nodes + 1) // 2

    def depths(self):
        """The depth of every node, as an int32 array of shape (n_nodes,)."""
        if self.frame is None:
            raise NotImplementedError
        return self.frame.depths()


cdef class OneLeaf(Tree):
    """The base of those that split nothing: all rows come to one leaf."""

    cdef list path(self, const Row* row, Scratch* scratch):
        return [(0, None)]

    @property
    def n_nodes(self):
        """A single leaf."""
        return 1

    def depths(self):
        """The depth of every node."""
        return np.zeros(1, dtype=np.int32)


cdef class Corrector(OneLeaf):
    """The base of those that say, in an ensemble, where what the other members say is wrong.

    `predict` says what is to be added: to the logarithms of the labels' shares, or to a number. It
    learns a row after all others, when it has heard what was said of it; or else nothing of it.
    Of that, `learn` may put off what need not be done before `catch_up`, which `predict` calls:
    amid a batch another thread may then do it. Until then the memo is to stay where it is.
    """

    cdef void hear(self, const double* pooled, double left, Scratch* scratch) noexcept nogil:
        """Be told what all members say of the row that is learned next: shares of labels, or a
        number; `left` is the part of the correction in the scratch that was not added.

        NULL: nobody has said anything.
        """


def check_targets(Moments targets):
    """Raise StateError unless the moments of targets are such as these can have."""
    check_finite(np.array([targets.weight, targets.squares]), at_least=0.0)
    require(fabs(targets.mean) < BEYOND_TARGETS, "the mean of the targets")
    require(sqrt(moments_variance(&targets)) < BEYOND_TARGETS, "the deviation of the targets")


def check_trust(worth):
    """Raise StateError unless the product and the spread of a Trust are such as it can have."""
    require(worth.shape == (2,), "what is worth adding")
    # false for NaN
    require((np.abs(worth) <= MOST_DEVIATIONS ** 2).all(), "what is worth adding")
    require(worth[1] >= 0.0, "what is worth adding")
