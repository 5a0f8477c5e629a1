"""Pools that learn how much every member has to say."""

cimport cython
from libc.math cimport fabs, log, sqrt
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport free
from libc.string cimport memset

from streamtree._core.ensembles.ensemble cimport Ensemble, Exchange, MeanPool
from streamtree._core.kernels.course cimport COURSE_ROWS
from streamtree._core.kernels.losses cimport sigmoid, softmax
from streamtree._core.kernels.moments cimport Moments, moments_add, moments_variance
from streamtree._core.kernels.newton cimport (
    DAMPING, LEAST_DAMPING, Newton, newton_add, newton_bytes, newton_factor, newton_fade,
    newton_forget, newton_slopes, newton_solve, newton_step, newton_worth,
)
from streamtree._core.kernels.pooling cimport (
    LEAST_EXPONENT, LONGEST_REST, LOOK_ROWS, MEMORY, MOST_DEVIATIONS, MOST_EXPONENT, MOST_REPEATS,
    REST_ROWS, Trust, Watch, as_exponent, in_deviations, is_due, mean_log, move_weight, share_out,
    take_logs, trust_learn, trust_of,
)
from streamtree._core.kernels.ridge cimport Ridge, ridge_bytes, ridge_learn
from streamtree._core.leaves.explanation cimport Explanation
from streamtree._core.store.budget cimport Budget, Ledger
from streamtree._core.store.memory cimport zeroed
from streamtree._core.store.state cimport export_records, import_records
from streamtree._core.stream.row cimport Example, Prediction, Row, Scratch
from streamtree._core.trees.tree cimport Corrector, Tree

import numpy as np

from streamtree._core.ensembles.checks import (
    check_linear_pool, check_log_linear_pool, check_pool,
)


# A pool follows changes by how much members count: it is taken to be outdated later than a tree.
cdef double PATIENCE = 2.0

cdef enum:
    # rows before memory is shared out anew for the first time
    FIRST_SHARING = 256
    # and then as often as a model has grown by one part of so many
    GROWN = 4
    # A member that takes more than one part of so many of its share is short of memory, and so is
    # one that asked for more than there is. One that is not keeps so many times what it takes.
    HEADROOM = 2
    # of one that has a window: that takes no more than half, and trees grow twice
    HEADROOM_OF_WINDOWS = 4
    # and at least one part of so many of all, or what it had at first, where that is less
    LEAST_KEPT = 32
    # members that look at rows, and say what they are, and are asked, whatever they have to say
    LEAST_ASKED = 2

cdef enum:
    # what a linear pool has seen last: the error of the members' mean, the mean of the last errors,
    # the target, the mean of the last targets
    LAST_ERROR
    MEAN_ERROR
    LAST_TARGET
    MEAN_TARGET
    N_RECENT
    # the means are those of about so many rows
    RECENT_ROWS = 10
    # and so many tell whether corrections are worth it
    JUDGED_ROWS = 500
    # as if they had been worth nothing for so many rows before the first
    DOUBTED_ROWS = 10

# added to what a member has to say, when those that are short of memory are to get more
cdef double LEAST_WORTH = 0.1
# of what it takes, a member that is short of memory keeps so much where it grows anew; and so much
# where as many as half of the others asked for more than there is
cdef double KEPT_OF_WINDOWS = 0.75
cdef double KEPT_WHERE_SCARCE = 0.25
# a probability nearer to 0 or 1 counts as this far
cdef double LEAST_ODDS = 1e-12
# A member rests when the log losses of about the last 1,000 rows would be more by a smaller part
# of them without it, and by less than so many nats.
cdef double LEAST_GAIN = 0.003
cdef double MOST_GAIN = 1.0
# a label of which the pool says less tells nothing of curvatures
cdef double LEAST_SHARE = 1e-12


cdef double log_odds(double share) noexcept nogil:
    share = min(max(share, LEAST_ODDS), 1.0 - LEAST_ODDS)
    return log(share / (1.0 - share))


cdef double odds_slope(double before, double after) noexcept nogil:
    """By how much log-odds change with a share, on the way from one to another."""
    if fabs(after - before) > 1e-9:
        return (log_odds(after) - log_odds(before)) / (after - before)
    return 1.0 / max(before * (1.0 - before), LEAST_ODDS)


cdef class _Pool(Ensemble):
    """What both pools share: what every member has to say."""

    cdef double* says           # by member: its exponent, or its weight
    cdef list shares_now        # of the members in what all may take
    cdef readonly object bytes  # that all may take; None: there is no bound
    cdef int64_t rows           # learned
    cdef int64_t next_sharing   # the number of rows at which memory is shared out anew

    def __cinit__(self, list members, list weights, Exchange exchange=None, **kwargs):
        cdef Py_ssize_t m
        self.says = <double*> zeroed(self.n_members * sizeof(double))
        for m in range(self.n_members):
            self.says[m] = weights[m]
        self.is_judged = True
        self.patience = PATIENCE
        self.shares_now = self.first_shares()
        self.next_sharing = FIRST_SHARING

    def __dealloc__(self):
        free(self.says)

    cdef size_t n_bytes(self) noexcept nogil:
        return Ensemble.n_bytes(self) + self.n_members * sizeof(double)

    @property
    def weights(self):
        """How much every member has to say."""
        return [self.says[m] for m in range(self.n_members)]

    def moved(self, Py_ssize_t m):
        """Of a member that is no tree by itself: pairs of a column and how far it moves it."""
        return self.members[m].moved

    cdef list shares(self):
        return self.shares_now

    cdef int bound(self, object bytes) except -1:
        self.bytes = bytes
        return Ensemble.bound(self, bytes)

    def configure(self):
        """What all may take may have changed: it is shared out before the next row."""
        # a new ensemble has taken nothing yet
        if self.rows:
            self.next_sharing = self.rows

    cdef int begin(self, const Row* row, const Example* example, Scratch* scratch,
                   bint is_shared) except -1 nogil:
        if self.rows == self.next_sharing:
            # what members elsewhere take is not known here
            if self.exchange is None:
                with gil:
                    self._share_out()
            self.next_sharing = max(self.rows + self.rows // GROWN, <int64_t> FIRST_SHARING)
        self.rows += 1
        return Ensemble.begin(self, row, example, scratch, is_shared)

    cdef int _share_out(self) except -1:
        """Let members that are short of memory have what the others do not need, by what they have
        to say.

        They keep what they take, but for those that can give some of it back: at once, or, where
        they have a window, when they grow anew. Until then it is not free for others. The parts of
        members in a share follow when these share it out themselves.
        """
        cdef Py_ssize_t m
        cdef double left, worth, more, late
        if self.bytes is None:
            return 0
        members = range(self.n_members)
        takes = [taken / <double> self.bytes for taken in self.taken]
        wants = [
            takes[m] * (HEADROOM_OF_WINDOWS if self.member(m).has_window else HEADROOM)
            for m in members
        ]
        short = [
            not self.member(m).is_light
            and (self.ledger(m).was_refused or wants[m] > self.shares_now[m])
            for m in members
        ]
        if not any(short):
            return 0
        # what is given back at once is shared out anew, to a member that has enough as well
        gives = [self.member(m).gives_back and not self.is_passed(m) for m in members]
        takes_part = [short[m] or gives[m] for m in members]
        kept = self._kept(takes, wants, short, gives)
        left = max(1.0 - sum(kept), 0.0)
        worths = [takes_part[m] * (LEAST_WORTH + max(self.says[m], 0.0)) for m in members]
        for m in members:
            # no more than it wants, unless it is short
            if takes_part[m] and not short[m] and left * worths[m] > wants[m] * sum(worths):
                kept[m], worths[m] = wants[m], 0.0
                left -= wants[m]
        worth = sum(worths)
        shares = [kept[m] + left * worths[m] / worth for m in members]
        late = sum([max(takes[m] - shares[m], 0.0) * self.member(m).has_window for m in members])
        more = sum([takes_part[m] * max(shares[m] - takes[m], 0.0) for m in members])
        self.shares_now = [
            takes[m] + (shares[m] - takes[m]) * max(1.0 - late / more, 0.0)
            if takes_part[m] and shares[m] > takes[m] else shares[m] for m in members
        ]
        for m in members:
            self.ledger(m).was_refused = False
        return self.bound(self.bytes)

    cdef list _kept(self, list takes, list wants, list short, list gives):
        """What members have before what is left is shared out, in all at most 1."""
        cdef Py_ssize_t m
        cdef double left, spare
        members, first_shares = range(self.n_members), self.first_shares()
        n_refused = sum([self.ledger(m).was_refused for m in members])
        n_others = sum([not self.member(m).is_light for m in members]) - 1
        part = KEPT_WHERE_SCARCE if 2 * n_refused >= n_others else KEPT_OF_WINDOWS
        # the least that a member is to have
        least = [
            0.0 if gives[m]
            else takes[m] * (part if short[m] and self.member(m).has_window else 1.0)
            for m in members
        ]
        kept = [
            least[m] if short[m] or gives[m]
            else max(wants[m], min(first_shares[m], 1.0 / LEAST_KEPT))
            for m in members
        ]
        left, spare = 1.0 - sum(kept), sum(kept) - sum(least)
        if left < -spare:
            # more is taken than may be
            return [part / sum(least) for part in least]
        if left < 0.0:
            return [part + (1.0 + left / spare) * (most - part) for part, most in zip(least, kept)]
        return kept

    cdef Ledger* ledger(self, Py_ssize_t m) noexcept:
        return (<Budget> self.ledgers[m]).ledger

    @property
    def taken(self):
        """The bytes that every member has taken."""
        return [
            self.ledger(m).used + self.member(m).learned_bytes() for m in range(self.n_members)
        ]

    cdef void tell(self, const double* pooled, Scratch* scratch) noexcept nogil:
        if self.corrector >= 0 and not self.is_passed(self.corrector):
            (<Corrector> self.trees[self.corrector]).hear(
                pooled, 1.0 - self.says[self.corrector], &scratch[self.places[self.corrector]]
            )

    cdef bint may_put_off(self) noexcept nogil:
        # memory is not shared out anew before it, nor is it asked whether it is outdated
        return self.rows != self.next_sharing and (self.course.n + 1) % COURSE_ROWS != 0

    cdef void pool_all(self, Scratch* scratch) noexcept nogil:
        if self.exchange is not None:
            self.pass_on(scratch, False)
        self.pool(scratch)

    cdef void answer(self, const Scratch* scratch, Prediction* out) noexcept nogil:
        if self.exchange is not None:
            self.pass_on(scratch, True)
            self.exchange.n_rows += 1
        Ensemble.answer(self, scratch, out)

    cdef void pass_on(self, const Scratch* scratch, bint from_here) noexcept nogil:
        """Write down what members here say of a row, or read what those elsewhere said."""
        cdef Py_ssize_t m, i, row = self.exchange.n_rows
        cdef double* said
        if row >= self.exchange.rows.shape[0]:
            return
        for m in range(self.n_members):
            if self.is_here[m] != from_here:
                continue
            said = scratch[self.places[m]].shares
            for i in range(min(self.n_outputs(), self.exchange.rows.shape[1])):
                if from_here:
                    self.exchange.rows[row, i, m] = said[i]
                else:
                    said[i] = self.exchange.rows[row, i, m]

    cdef dict own_state(self):
        cdef Py_ssize_t m
        return {
            "says": np.array(self.weights), "shares": np.array(self.shares_now), "rows": self.rows,
            "next_sharing": self.next_sharing,
            "refused": np.array(
                [self.ledger(m).was_refused for m in range(self.n_members)], dtype=np.int8
            ),
        }

    cdef int take_own_state(self, dict state) except -1:
        cdef const double[::1] view = state["says"]
        cdef Py_ssize_t m
        for m in range(self.n_members):
            self.says[m] = view[m]
        self.shares_now = state["shares"].tolist()
        self.rows, self.next_sharing = state["rows"], state["next_sharing"]
        for m in range(self.n_members):
            self.ledger(m).was_refused = bool(state["refused"][m])
        return 0

    def check_state(self, dict state, Py_ssize_t n_columns, Py_ssize_t n_outputs):
        """Raise StateError unless `take_state` can trust a state."""
        Ensemble.check_state(self, state, n_columns, n_outputs)
        check_pool(state, self.n_members)


def pooled(kind, dict makers, list weights, exchange=None, **settings):
    """A pool of new members, one of each maker: compiled, for it may be wanted amid a row."""
    cdef Ensemble pool = kind(
        [make() for make in makers.values()], weights, exchange=exchange, **settings
    )
    pool.names = list(makers)
    return pool


def alone(make_tree):
    """A new tree that has what it says to itself: the mean of one."""
    return MeanPool([make_tree()])


cdef Watch _blank
WATCH = np.asarray(<Watch[:1]> &_blank).dtype


@cython.final
cdef class LogLinearPool(_Pool):
    """Labels: p(c) ~ product over m of p_m(c)^b_m; the exponents are learned, by Newton's method.

    With `lets_rest`, a member that adds next to nothing to the others rests for some thousand rows:
    it learns none of them, and nobody asks it. Then it has 2,000 rows to show that it is needed
    again. A new label wakes all. Where members are elsewhere, none may rest: they learn rows before
    it is known what all have said of them.
    """

    cdef Newton newton
    cdef double* distances      # of what members say of a label from what they say on average
    cdef double losses          # a fading sum
    cdef Watch* watches
    cdef bint lets_rest
    cdef int32_t n_met          # labels, with the last row

    def __cinit__(self, list members, *args, bint lets_rest=True, **kwargs):
        cdef Py_ssize_t m
        self.lets_rest = lets_rest
        self.newton.n = <int32_t> self.n_members
        self.newton.curvatures = <double*> zeroed(newton_bytes(self.newton.n))
        self.distances = <double*> zeroed(self.n_members * sizeof(double))
        self.watches = <Watch*> zeroed(self.n_members * sizeof(Watch))
        for m in range(self.n_members):
            self.watches[m].next_rest = REST_ROWS

    def __dealloc__(self):
        free(self.newton.curvatures)
        free(self.distances)
        free(self.watches)

    cdef size_t n_bytes(self) noexcept nogil:
        return _Pool.n_bytes(self) + newton_bytes(self.newton.n) + (
            self.n_members * (sizeof(Watch) + sizeof(double))
        )

    cdef bint is_passed(self, Py_ssize_t m) noexcept nogil:
        return self.watches[m].left > 0 or not self.is_here[m]

    cdef bint may_rest(self, Py_ssize_t m) noexcept nogil:
        cdef Py_ssize_t i, n_asked = 0
        for i in range(self.n_members):
            n_asked += self.watches[i].left == 0 and self.counts(i)
        return not self.needs_all_rows() and (
            m == self.corrector or (n_asked > LEAST_ASKED and self.counts(m))
        )

    cdef bint counts(self, Py_ssize_t m) noexcept nogil:
        """Whether a member looks at rows, and says what they are."""
        return m != self.corrector and not (<Tree> self.trees[m]).is_light

    cdef void put_to_rest(self, Py_ssize_t m) noexcept nogil:
        cdef Watch* watch = &self.watches[m]
        watch.left, watch.next_rest = watch.next_rest, LONGEST_REST
        self.says[m] = 0.0
        newton_forget(&self.newton, <int32_t> m)
        (<Tree> self.trees[m]).rest(True)

    cdef void wake(self, Py_ssize_t m) noexcept nogil:
        self.watches[m].left, self.watches[m].rows = 0, 0
        (<Tree> self.trees[m]).rest(self.rests)

    cdef void wake_all(self) noexcept nogil:
        cdef Py_ssize_t m
        for m in range(self.n_members):
            if self.watches[m].left:
                self.wake(m)

    def configure(self, *, bint lets_rest):
        """Set whether members may rest."""
        _Pool.configure(self)
        self.lets_rest = lets_rest
        if not lets_rest:
            self.wake_all()

    cdef int begin(self, const Row* row, const Example* example, Scratch* scratch,
                   bint is_shared) except -1 nogil:
        if self.context.n_labels > self.n_met:
            self.n_met = self.context.n_labels
            self.wake_all()
            self.tell(NULL, scratch)
        return _Pool.begin(self, row, example, scratch, is_shared)

    cdef void prepare(self, double* said) noexcept nogil:
        take_logs(said, self.context.n_labels)

    cdef void pool(self, Scratch* scratch) noexcept nogil:
        cdef int32_t label, n = self.context.n_labels
        cdef Py_ssize_t m
        cdef double weight
        cdef const double* logs
        memset(scratch.pooled, 0, n * sizeof(double))
        for m in range(self.n_members):
            if self.watches[m].left:
                continue
            logs, weight = scratch[self.places[m]].shares, self.says[m]
            for label in range(n):
                scratch.pooled[label] += weight * logs[label]
        softmax(scratch.pooled, n)

    cdef int explain(self, const Row* row, Scratch* scratch, Explanation out) except -1:
        """Log-odds of the members, times their exponents, sum to those of the pool of two labels.

        Of more labels it is taken to be so, and the rest is spread.
        """
        cdef Explanation part
        cdef Py_ssize_t m
        cdef double bias = 0.0, said = self.output_below(0, row, scratch, out), slope
        total = {}
        for m, part in enumerate(self.member_explanations(row, scratch, out)):
            slope = self.says[m]
            if m == self.corrector:
                bias += slope * part.bias
            else:
                bias += slope * log_odds(part.bias)
                slope *= odds_slope(part.bias, part.total())
            for column, amount in part.columns.items():
                total[column] = total.get(column, 0.0) + slope * amount
        bias = sigmoid(bias)
        out.add_bias(bias)
        return out.spread(
            np.array(list(total), dtype=np.int32), np.array(list(total.values())), said - bias
        )

    cdef bint may_put_off(self) noexcept nogil:
        cdef Py_ssize_t m
        for m in range(self.n_members):
            # a member may be put to rest, or wakes
            if self.watches[m].left == 1 or (self.watches[m].rows + 1) % LOOK_ROWS == 0:
                return False
        return _Pool.may_put_off(self)

    cdef void learn_pooling(self, const Example* example, Scratch* scratch) noexcept nogil:
        cdef Py_ssize_t m
        cdef bint is_time = False
        cdef const double* slopes = newton_slopes(&self.newton)
        self._look(example, scratch)
        newton_factor(&self.newton, DAMPING)
        newton_solve(&self.newton)
        for m in range(self.n_members):
            if self.watches[m].left:
                self.watches[m].left -= 1
                if self.watches[m].left == 0:
                    self.wake(m)
            else:
                self.says[m] = as_exponent(self.says[m] + newton_step(slopes[m]))
                self.watches[m].rows += 1
                is_time |= is_due(&self.watches[m])
        if is_time and self.lets_rest:
            self._let_rest()

    cdef void _look(self, const Example* example, Scratch* scratch) noexcept nogil:
        """Find how the log loss of the pool depends on the exponents: the slopes, the curvature.

        The curvature is how what members say of the labels varies together, by the pool's shares.
        """
        cdef double weight = min(example.weight, <double> MOST_REPEATS)
        cdef double share = scratch.pooled[example.label]
        cdef double* slopes = newton_slopes(&self.newton)
        cdef double* means = slopes         # for as long as these are not known
        cdef int32_t label, n = self.context.n_labels
        cdef Py_ssize_t m
        newton_fade(&self.newton)
        self.follow(example, scratch.pooled)
        self.losses = (1.0 - 1.0 / MEMORY) * self.losses - weight * log(max(share, LEAST_SHARE))
        for m in range(self.n_members):
            means[m] = self.distances[m] = 0.0
            if self.watches[m].left == 0:
                means[m] = mean_log(scratch[self.places[m]].shares, scratch.pooled, n)
        for label in range(n):
            if scratch.pooled[label] < LEAST_SHARE:
                continue
            for m in range(self.n_members):
                if self.watches[m].left == 0:
                    self.distances[m] = scratch[self.places[m]].shares[label] - means[m]
            newton_add(&self.newton, self.distances, weight * scratch.pooled[label])
        for m in range(self.n_members):
            if self.watches[m].left == 0:
                slopes[m] = weight * (scratch[self.places[m]].shares[example.label] - means[m])

    cdef void _let_rest(self) noexcept nogil:
        """Let members rest that are worth too little, the least first; the others take over."""
        cdef Py_ssize_t m, least
        cdef double worth, least_worth, enough = min(LEAST_GAIN * self.losses, MOST_GAIN)
        cdef const double* moves = newton_slopes(&self.newton)
        while True:
            least, least_worth = -1, enough
            newton_factor(&self.newton, LEAST_DAMPING)
            for m in range(self.n_members):
                if self.watches[m].left or not is_due(&self.watches[m]):
                    continue
                worth = newton_worth(&self.newton, <int32_t> m, self.says[m])
                if worth >= enough:
                    self.watches[m].next_rest = REST_ROWS
                elif worth < least_worth and self.may_rest(m):
                    least, least_worth = m, worth
            if least < 0:
                return
            newton_worth(&self.newton, <int32_t> least, self.says[least])
            for m in range(self.n_members):
                if self.watches[m].left == 0:
                    self.says[m] = as_exponent(self.says[m] + moves[m])
            self.put_to_rest(least)

    cdef dict own_state(self):
        return {
            **_Pool.own_state(self),
            "watches": export_records(self.watches, sizeof(Watch), self.n_members, WATCH),
            "curvatures": np.array(self._curvatures()), "losses": self.losses,
        }

    cdef double[:, ::1] _curvatures(self):
        return <double[:self.n_members, :self.n_members]> self.newton.curvatures

    cdef int take_own_state(self, dict state) except -1:
        cdef const double[:, ::1] curvatures = state["curvatures"]
        _Pool.take_own_state(self, state)
        self._curvatures()[:] = curvatures
        self.losses = state["losses"]
        import_records(self.watches, sizeof(Watch), state["watches"])
        self.n_met = self.context.n_labels
        if not self.lets_rest:
            self.wake_all()
        self.rest(self.rests)
        return 0

    def check_state(self, dict state, Py_ssize_t n_columns, Py_ssize_t n_outputs):
        """Raise StateError unless `take_state` can trust a state."""
        _Pool.check_state(self, state, n_columns, n_outputs)
        counted = [m for m in range(self.n_members) if self.counts(m)]
        check_log_linear_pool(
            state, counted, LEAST_ASKED, (REST_ROWS, LONGEST_REST),
            (LEAST_EXPONENT, MOST_EXPONENT),
        )


@cython.final
cdef class LinearPool(_Pool):
    """A number: the mean of the members by weights that are learned and sum to one, corrected.

    The error of the mean is predicted by ridge regression on how far every member, and with
    `follows` the last targets, lie from it, and on its last errors. That is followed as far as it
    has been worth it. What a Corrector says is added at last, as far as that has been worth it; the
    mean and its errors are to say what that leaves.
    """

    cdef Py_ssize_t n_pooled        # members but for the one that corrects
    cdef double rate                # of weights
    cdef double* squares            # fading squares of the slopes that they follow
    cdef Moments targets
    cdef Ridge ridge
    cdef double* inputs             # of the regression, for the row that is learned
    cdef double recent[N_RECENT]
    cdef double product, spread     # fading means: error times correction, correction squared
    cdef int64_t n_judged           # rows that the correction has learned
    cdef Trust trust                # in what a Corrector adds

    def __cinit__(self, list members, *args, double rate, bint follows=True, **kwargs):
        self.rate = rate
        self.n_pooled = self.n_members - (self.corrector >= 0)
        self.squares = <double*> zeroed(self.n_pooled * sizeof(double))
        self.ridge.n = <int32_t> self.n_pooled + 1 + (N_RECENT if follows else 0)
        self.ridge.slopes = <double*> zeroed(ridge_bytes(self.ridge.n))
        self.inputs = <double*> zeroed(self.ridge.n * sizeof(double))

    def __dealloc__(self):
        free(self.squares)
        free(self.ridge.slopes)
        free(self.inputs)

    cdef double _mean(self, const Scratch* scratch) noexcept nogil:
        cdef Py_ssize_t m
        cdef double mean = 0.0
        for m in range(self.n_pooled):
            mean += self.says[m] * scratch[self.places[m]].shares[0]
        return mean

    cdef double _deviation(self) noexcept nogil:
        """That of the targets."""
        return sqrt(moments_variance(&self.targets))

    cdef double _input(self, Py_ssize_t i, double mean, const Scratch* scratch) noexcept nogil:
        """What the regression has of a row, as a distance."""
        if i < self.n_pooled:
            return scratch[self.places[i]].shares[0] - mean
        if i == self.n_pooled:
            return self.targets.mean - mean
        i -= self.n_pooled + 1
        return self.recent[i] - (mean if i >= LAST_TARGET else 0.0)

    cdef double _trust(self) noexcept nogil:
        """How far corrections are followed: the slope of errors on them, 0 to 1, and less at first.
        """
        cdef double slope = self.product / self.spread if self.spread > 0.0 else 0.0
        return min(max(slope, 0.0), 1.0) * self.n_judged / (<double> self.n_judged + DOUBTED_ROWS)

    cdef double _correction(self, double mean, double deviation,
                            const Scratch* scratch) noexcept nogil:
        """The error of the mean as it is predicted, in deviations of the targets."""
        cdef double total = 0.0
        cdef Py_ssize_t i
        if not deviation > 0.0:
            return 0.0
        for i in range(self.ridge.n):
            total += self.ridge.slopes[i] * in_deviations(
                self._input(i, mean, scratch), deviation
            )
        return in_deviations(total, 1.0)

    cdef void pool(self, Scratch* scratch) noexcept nogil:
        cdef double mean = self._mean(scratch), deviation = self._deviation()
        scratch.pooled[0] = mean + (
            self._trust() * self._correction(mean, deviation, scratch) * deviation
        )
        if self.corrector >= 0:
            scratch.pooled[0] += (
                self.says[self.corrector] * scratch[self.places[self.corrector]].shares[0]
            )

    cdef void learn_pooling(self, const Example* example, Scratch* scratch) noexcept nogil:
        cdef double target = example.targets[0], mean = self._mean(scratch), error = target - mean
        if self.corrector >= 0:
            error -= self.says[self.corrector] * scratch[self.places[self.corrector]].shares[0]
        self.follow(example, scratch.pooled)
        self._learn_trust(target, scratch)
        self._learn_correction(error, mean, example.weight, scratch)
        self._remember(error, target)
        moments_add(&self.targets, target, example.weight)
        self._move_weights(error, mean, example.weight, scratch)

    cdef void _learn_trust(self, double target, const Scratch* scratch) noexcept nogil:
        """Learn how far a Corrector is to be followed."""
        cdef double deviation = self._deviation(), added
        if self.corrector < 0 or not deviation > 0.0:
            return
        added = scratch[self.places[self.corrector]].shares[0]
        target -= scratch.pooled[0] - self.says[self.corrector] * added
        trust_learn(
            &self.trust, in_deviations(target, deviation), in_deviations(added, deviation)
        )
        self.says[self.corrector] = trust_of(&self.trust)

    cdef void _move_weights(self, double error, double mean, double weight,
                            Scratch* scratch) noexcept nogil:
        cdef Py_ssize_t m
        cdef double distance, deviation = self._deviation()
        if not deviation > 0.0:
            return
        error = in_deviations(error, deviation)
        for m in range(self.n_pooled):
            distance = in_deviations(scratch[self.places[m]].shares[0] - mean, deviation)
            move_weight(
                &self.says[m], &self.squares[m], error * distance, self.rate, weight
            )
        share_out(self.says, <int32_t> self.n_pooled)

    cdef void _learn_correction(self, double error, double mean, double weight,
                                const Scratch* scratch) noexcept nogil:
        cdef double deviation = self._deviation(), said = 0.0, part
        cdef Py_ssize_t i
        self.n_judged += 1
        if deviation > 0.0:
            for i in range(self.ridge.n):
                self.inputs[i] = in_deviations(self._input(i, mean, scratch), deviation)
                said += self.ridge.slopes[i] * self.inputs[i]
            said, error = in_deviations(said, 1.0), in_deviations(error, deviation)
            part = 1.0 / min(self.n_judged, <int64_t> JUDGED_ROWS)
            self.product += part * (error * said - self.product)
            self.spread += part * (said * said - self.spread)
            ridge_learn(&self.ridge, self.inputs, error, weight)

    cdef void _remember(self, double error, double target) noexcept nogil:
        """Keep the last error and target, for the rows to come."""
        cdef double part = 1.0 / min(self.n_judged, <int64_t> RECENT_ROWS)
        self.recent[LAST_ERROR], self.recent[LAST_TARGET] = error, target
        self.recent[MEAN_ERROR] += part * (error - self.recent[MEAN_ERROR])
        self.recent[MEAN_TARGET] += part * (target - self.recent[MEAN_TARGET])

    cdef int explain(self, const Row* row, Scratch* scratch, Explanation out) except -1:
        """The members' explanations; what no column accounts for is in the bias."""
        cdef Explanation part
        cdef Py_ssize_t m
        cdef double rest = self.output_below(0, row, scratch, out)
        shares = self._shares_of(scratch)
        for m, part in enumerate(self.member_explanations(row, scratch, out)):
            rest -= shares[m] * part.total()
            out.add(part.bias, part.columns, shares[m])
        return out.add_bias(rest)

    cdef list _shares_of(self, const Scratch* scratch):
        """By how much what is said moves with what every member says."""
        cdef double deviation = self._deviation(), mean = self._mean(scratch)
        cdef double trust = self._trust()
        cdef Py_ssize_t i
        slopes, by_mean = [0.0] * self.ridge.n, 1.0
        if fabs(self._correction(mean, deviation, scratch)) < MOST_DEVIATIONS:
            for i in range(self.ridge.n):
                # a distance that is cut off moves nothing
                if fabs(self._input(i, mean, scratch)) < MOST_DEVIATIONS * deviation:
                    slopes[i] = trust * self.ridge.slopes[i]
                    if not 0 <= i - self.n_pooled - 1 < LAST_TARGET:
                        by_mean -= slopes[i]
        shares = [self.says[i] * by_mean + slopes[i] for i in range(self.n_pooled)]
        return shares + [self.says[i] for i in range(self.n_pooled, self.n_members)]

    cdef size_t n_bytes(self) noexcept nogil:
        return _Pool.n_bytes(self) + ridge_bytes(self.ridge.n) + (
            (self.n_pooled + self.ridge.n) * sizeof(double)
        )

    cdef double[::1] _sums(self):
        """The slopes and sums of the regression."""
        return <double[:ridge_bytes(self.ridge.n) // sizeof(double)]> self.ridge.slopes

    cdef dict own_state(self):
        state = _Pool.own_state(self)
        state["targets"] = self.targets
        state["squares"] = np.array(<double[:self.n_pooled]> self.squares)
        state["ridge"] = np.array(self._sums())
        state["recent"] = np.array(self.recent)
        state["worth"] = np.array([self.product, self.spread])
        state["judged"] = self.n_judged
        state["trust"] = np.array([self.trust.product, self.trust.spread])
        return state

    cdef int take_own_state(self, dict state) except -1:
        cdef const double[::1] sums = state["ridge"], squares = state["squares"]
        self.targets = state["targets"]
        (<double[:self.n_pooled]> self.squares)[:] = squares
        self._sums()[:] = sums
        self.recent = state["recent"]
        self.product, self.spread = state["worth"]
        self.n_judged = state["judged"]
        self.trust.product, self.trust.spread = state["trust"]
        return _Pool.take_own_state(self, state)

    def check_state(self, dict state, Py_ssize_t n_columns, Py_ssize_t n_outputs):
        """Raise StateError unless `take_state` can trust a state."""
        _Pool.check_state(self, state, n_columns, n_outputs)
        check_linear_pool(state, self.n_pooled, self.ridge.n, N_RECENT)
