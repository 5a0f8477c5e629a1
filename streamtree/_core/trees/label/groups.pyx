"""The groups of labels declared in groups.pxd: their memory, and what they say of a row."""

cimport cython
from libc.math cimport HUGE_VAL, exp, log
from libc.stdint cimport int32_t
from libc.string cimport memmove, memset

from streamtree._core.kernels.losses cimport sigmoid
from streamtree._core.kernels.pooling cimport Say, move_exponent
from streamtree._core.leaves.additive cimport MOST_CLASSES, Parts, free_model
from streamtree._core.leaves.postings cimport Scored
from streamtree._core.leaves.softmax cimport label_logs, prefetch_parts, side_score
from streamtree._core.store.budget cimport counted, counted_nodes, give_back
from streamtree._core.store.links cimport ROOT, TreeLinks
from streamtree._core.stream.context cimport Context
from streamtree._core.stream.row cimport Example, Prediction, Row, Scratch
from streamtree._core.trees.label.labels cimport Labels
from streamtree._core.trees.tree cimport Tree

import numpy as np

# What groups and counts have to say at first, and the rate at which that is learned.
cdef double GROUPS_SAY = 0.5
cdef double COUNTS_SAY = 0.6
cdef double SAY_RATE = 0.05
# Groups always have this much to say, and counts no more than this: of rows that are learned over
# and over counts know the very labels.
cdef double LEAST_OF_GROUPS = 0.25
cdef double MOST_OF_COUNTS = 1.0
cdef double LOG_HALF = log(0.5)
# a probability nearer to 0 counts as this far
cdef double LEAST_SHARE = 1e-9
cdef double LOG_LEAST = log(LEAST_SHARE)


cdef void keep_best(Reached* best, int32_t* n, int32_t most, double mass,
                    int32_t node) noexcept nogil:
    """Insert into a list that descends; at most so many stay, of equals the first."""
    cdef int32_t i = n[0]
    if i == most:
        if mass <= best[i - 1].mass:
            return
        i -= 1
    else:
        n[0] += 1
    while i > 0 and best[i - 1].mass < mass:
        best[i] = best[i - 1]
        i -= 1
    best[i] = Reached(mass, node)


cdef inline void scale_sums(Sums* sums, double factor) noexcept nogil:
    sums.mass *= factor
    sums.shares *= factor
    sums.counts *= factor


cdef inline void add_to_sums(Found* found, const Candidate* candidate, int32_t n) noexcept nogil:
    """Count n labels of which the same is said."""
    cdef double mass = n * exp(candidate.pooled - found.pooled)
    found.sums.mass += mass
    found.sums.shares += mass * candidate.share
    found.sums.counts += mass * candidate.count


cdef class LabelGroups(Tree):
    """Nodes, the counts of their labels' columns, and how these are heard together."""

    def __cinit__(self, *args, **settings):
        self.says = [Say(GROUPS_SAY, 0.0), Say(COUNTS_SAY, 0.0)]
        self.links = TreeLinks()
        self.labels = Labels()
        self.reserve(1)

    def __dealloc__(self):
        self.empty_nodes()
        give_back(self.nodes)

    cdef int bind(self, Context context) except -1:
        Tree.bind(self, context)
        # what was taken before is the model's from now on, as that of a copy is
        self.nodes = <Node*> counted(self.nodes, self.capacity * sizeof(Node))
        self.links.own()
        return 0

    cdef int reserve(self, int32_t n) except -1 nogil:
        self.nodes = <Node*> counted_nodes(self.nodes, &self.capacity, n, sizeof(Node))
        return 0

    cdef void empty_nodes(self) noexcept nogil:
        """Give back what nodes hold."""
        cdef int32_t node
        for node in range(self.capacity):
            free_model(&self.nodes[node].test)
            free_model(&self.nodes[node].model)
            give_back(self.nodes[node].labels)
            memset(&self.nodes[node], 0, sizeof(Node))

    # ----------------------------------------------------------------------- the beam

    cdef Walk* walk(self, int32_t node, const Row* row, Scratch* scratch) noexcept nogil:
        """Find the groups in which the label most probably is, level by level."""
        cdef Walk* walk = <Walk*> scratch.memo
        cdef Parts parts
        cdef const Reached* here
        cdef double right
        cdef int32_t i, n_ahead
        # it is not what the models of leaves remember
        scratch.memo_owner = <const void*> self
        scratch.memo_serial = 0
        self.look_at(&parts, row, scratch)
        walk.n_open, walk.n_groups = 1, 0
        walk.open[0] = Reached(1.0, node)
        while walk.n_open:
            n_ahead = 0
            for i in range(1, walk.n_open):
                prefetch_parts(&self.nodes[walk.open[i].node].test, &parts)
            for i in range(walk.n_open):
                here = &walk.open[i]
                if walk.n_groups == self.beam and here.mass <= walk.groups[self.beam - 1].mass:
                    break
                node = here.node
                if self.links.links[node].left < 0:
                    keep_best(walk.groups, &walk.n_groups, self.beam, here.mass, node)
                    continue
                right = sigmoid(side_score(&self.nodes[node].test, &parts))
                keep_best(
                    walk.ahead, &n_ahead, self.beam, here.mass * (1.0 - right),
                    self.links.links[node].left,
                )
                keep_best(
                    walk.ahead, &n_ahead, self.beam, here.mass * right,
                    self.links.links[node].right,
                )
            memmove(walk.open, walk.ahead, n_ahead * sizeof(Reached))
            walk.n_open = n_ahead
        return walk

    cdef int32_t likely_group(self, const Row* row, Scratch* scratch) noexcept nogil:
        """The group of the most probable label; where that has none, the most probable group."""
        cdef Found found
        found.logs, found.sums = NULL, NULL
        self._find(ROOT, row, scratch, &found)
        if self.labels.records[found.label].group >= 0:
            return self.labels.records[found.label].group
        return (<const Walk*> scratch.memo).groups[0].node

    cdef int32_t counted_group(self, const Row* row, Scratch* scratch) noexcept nogil:
        """The group of the label that counts say is most probable, -1 if they say nothing."""
        cdef Scored* scored = <Scored*> scratch.pooled
        cdef int32_t label, group = -1
        cdef float score, best = 0.0
        cdef int32_t last = self.postings.score(&row.encoded, scored)
        while last > 0:
            label = last - 1
            last = scored[label].next
            score = scored[label].score + self.postings.log_rows(label)
            if self.labels.records[label].group >= 0 and (group < 0 or score > best):
                group, best = self.labels.records[label].group, score
            scored[label] = Scored(0.0, 0)
        return group

    # ------------------------------------------------------------------ groups and counts

    cdef void predict_groups(self, int32_t node, const Row* row, Scratch* scratch,
                             Prediction* out) noexcept nogil:
        cdef Found found
        cdef double rest, total = 0.0
        cdef int32_t k, n = self.context.n_labels
        found.logs, found.sums = out.shares, NULL
        for k in range(n if out.shares != NULL else 0):
            out.shares[k] = HUGE_VAL
        self._find(node, row, scratch, &found)
        out.label = found.label
        if out.shares == NULL:
            return
        rest = exp(found.rest.pooled - found.pooled)
        for k in range(n):
            out.shares[k] = exp(out.shares[k] - found.pooled) if out.shares[k] < HUGE_VAL else rest
            total += out.shares[k]
        for k in range(n):
            out.shares[k] = self._smoothed(out.shares[k] / total)

    cdef void _find(self, int32_t node, const Row* row, Scratch* scratch,
                    Found* found) noexcept nogil:
        """Find the most probable labels, by groups and by counts.

        What groups do not find is shared evenly among all others; but what was not looked at is
        never said to be more likely than what was.
        """
        cdef float logs[MOST_CLASSES + 8]
        cdef Scored* scored = <Scored*> scratch.pooled
        cdef const Walk* walk = self.walk(node, row, scratch)
        cdef const Node* group
        cdef Parts parts
        cdef double log_mass, rest, mass = 0.0, best = -HUGE_VAL
        cdef int32_t i, k, label, n_grouped = 0, n = self.context.n_labels
        cdef int32_t last = self.postings.score(&row.encoded, scored)
        self.look_at(&parts, row, scratch)
        # of a row without columns that are counted groups alone speak
        found.is_pooled = last > 0
        found.label, found.n, found.rows = -1, 0, 0.0
        found.wants_all = found.logs != NULL or found.sums != NULL
        if found.sums != NULL:
            found.sums.mass = found.sums.shares = found.sums.counts = 0.0
        for i in range(walk.n_groups):
            log_mass = log(walk.groups[i].mass)
            if not found.is_pooled and not found.wants_all and log_mass < best:
                break
            group = &self.nodes[walk.groups[i].node]
            label_logs(&group.model, &parts, group.stats.n_labels, logs)
            mass += walk.groups[i].mass
            n_grouped += group.stats.n_labels
            for k in range(group.stats.n_labels):
                label = group.labels[k]
                best = max(best, log_mass + logs[k])
                self._add(found, label, log_mass + logs[k], scored[label].score)
                # it is not to come again
                scored[label].score = -1.0 if scored[label].next else 0.0
        rest = min(max(1.0 - mass, 0.0) / max(n - n_grouped, 1), 0.5 * exp(best))
        rest = log(max(rest, LEAST_SHARE))
        self._add_others(found, scored, last, rest)
        if not found.wants_all:
            return
        found.n_rest = n - found.n
        found.rest.share = rest
        found.rest.count = log(max(
            (self.postings.rows + n - found.rows) / max(found.n_rest, 1), 1.0
        ))
        found.rest.pooled = min(self._pooled(found, &found.rest), found.pooled + LOG_HALF)
        if found.sums != NULL:
            add_to_sums(found, &found.rest, found.n_rest)

    cdef void _add_others(self, Found* found, Scored* scored, int32_t last,
                          double rest) noexcept nogil:
        """Note the labels that counts alone found, and clear what counts said of all."""
        cdef double share, log_all = log(self.postings.rows + self.context.n_labels)
        cdef int32_t label
        while last > 0:
            label = last - 1
            last = scored[label].next
            if scored[label].score >= 0.0:
                share = rest
                if self.labels.records[label].group < 0:
                    # groups know nothing of it: as often as it came
                    share = max(rest, self.postings.log_rows(label) - log_all)
                self._add(found, label, share, scored[label].score)
            scored[label] = Scored(0.0, 0)

    @cython.final
    cdef double _pooled(self, const Found* found, const Candidate* candidate) noexcept nogil:
        if not found.is_pooled:
            return candidate.share
        return self.says[0].weight * candidate.share + self.says[1].weight * candidate.count

    @cython.final
    cdef void _add(self, Found* found, int32_t label, double share,
                   double score) noexcept nogil:
        """Note a label that was found."""
        cdef Candidate candidate
        candidate.share = max(share, LOG_LEAST)
        candidate.count = score + self.postings.log_rows(label)
        candidate.pooled = self._pooled(found, &candidate)
        if found.label < 0 or candidate.pooled > found.pooled or (
            candidate.pooled == found.pooled and label < found.label
        ):
            if found.sums != NULL and found.label >= 0:
                scale_sums(found.sums, exp(found.pooled - candidate.pooled))
            found.label, found.pooled = label, candidate.pooled
        if not found.wants_all:
            return
        if found.sums != NULL:
            add_to_sums(found, &candidate, 1)
            if label == found.sums.asked:
                found.sums.truth = candidate
                found.sums.has_truth = True
        if found.logs != NULL:
            found.logs[label] = candidate.pooled
        found.n += 1
        found.rows += 1.0 + self.postings.rows_of(label)

    cdef double _smoothed(self, double share) noexcept nogil:
        """With one vote that is everybody's: no label that was ever met is impossible."""
        cdef double weight = self.nodes[ROOT].stats.weight
        return (weight * share + 1.0 / self.context.n_labels) / (weight + 1.0)

    cdef list top_of_groups(self, const Row* row, Scratch* scratch, Py_ssize_t count):
        """The labels that are most probable, without a dict of all labels."""
        cdef Prediction out
        cdef double[::1] room
        shares = np.empty(self.context.n_labels)
        room = shares
        out.shares = &room[0]
        self.predict_groups(ROOT, row, scratch, &out)
        count = min(count, len(shares))
        # of equals the first, and more of them than are asked for
        best = (shares >= np.partition(shares, -count)[-count]).nonzero()[0]
        best = best[np.argsort(-shares[best], kind="stable")][:count]
        return list(zip(best.tolist(), shares[best].tolist()))

    cdef void judge_groups(self, const Row* row, const Example* example,
                           Scratch* scratch) noexcept nogil:
        """Let the exponents of groups and counts follow the gradient of the log loss."""
        cdef Sums sums
        cdef Found found
        found.logs, found.sums = NULL, &sums
        sums.asked = example.label
        sums.has_truth = False
        self._find(ROOT, row, scratch, &found)
        if not found.is_pooled:
            return
        if not sums.has_truth:
            sums.truth = found.rest
        move_exponent(
            &self.says[0], sums.truth.share - sums.shares / sums.mass, SAY_RATE, example.weight
        )
        move_exponent(
            &self.says[1], sums.truth.count - sums.counts / sums.mass, SAY_RATE, example.weight
        )
        self.says[0].weight = max(self.says[0].weight, LEAST_OF_GROUPS)
        self.says[1].weight = min(self.says[1].weight, MOST_OF_COUNTS)
