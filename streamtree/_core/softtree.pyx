"""Soft decision trees as learners: of classes, and of a number in any unit."""

cimport cython
from libc.math cimport fabs, sqrt
from libc.stdint cimport int32_t, int64_t

from streamtree._core.learners cimport ClassifierCore, RegressorCore
from streamtree._core.responses cimport Response, sigmoid, softmax
from streamtree._core.scaling cimport ColumnScaler
from streamtree._core.softlearning cimport BLOCK, SoftTree
from streamtree._core.types cimport Row

from streamtree._core.learners import restored

# no path has this reach, so that every gate sends all to one side
cdef double HARD = 2.0
# A target that lies further from the mean, in standard deviations, counts as one at the edge; the
# standard deviation itself is trusted after so many rows.
cdef double OUTLIER = 10.0
cdef int64_t TRUSTED_COUNT = 32
# mean and deviation are computed anew whenever the count of rows has grown by a 16th
cdef int64_t REFRESH_PARTS = 16


cdef struct TargetScale:
    double pivot            # the first target: sums are taken from there
    double sum
    double sum_squares
    double mean             # of the targets when it was last computed; 0 if literal
    double deviation        # likewise; 0 until two targets differ, 1 if literal
    double low              # the least and the greatest target
    double high
    int64_t rows
    int64_t refresh_at


@cython.final
cdef class SoftTreeClassifierCore(ClassifierCore):
    """State and algorithm; parameters are validated by `SoftTreeClassifier`."""

    cdef SoftTree tree
    cdef dict fixed
    cdef dict settings
    cdef double threshold       # the reach below which a prediction skips a path
    cdef int32_t n_classes      # classes learned, of those that a batch has announced
    cdef size_t _bytes

    def __cinit__(self, *, bint literal, bint linear, bint jointly, seed, **settings):
        self.fixed = {"literal": literal, "linear": linear, "jointly": jointly, "seed": seed}
        self.scaler = ColumnScaler(not literal)
        self.tree = SoftTree()
        self.tree.start(kind=Response.LOGIT, **self.fixed)
        self.configure(**settings)

    def configure(self, *, bint hard, double threshold, **settings):
        """Set what may change while the tree grows."""
        self.settings = {"hard": hard, "threshold": threshold, **settings}
        self.threshold = HARD if hard else threshold
        self.tree.configure(threshold=threshold, **settings)

    def __sizeof__(self):
        # while another call learns, the nodes move about: then the size last known is the answer
        if not self.is_learning:
            self._bytes = self.tree.bytes()
        return object.__sizeof__(self) + self._bytes

    cdef int learn_row(self, Row row, int32_t label, double weight) except -1 nogil:
        if label >= self.n_classes:
            # labels are numbered as they come, so this one is the first of its class
            self.n_classes = label + 1
            if self.n_classes > 2:
                self.tree.set_outputs(self.n_classes)
        self.tree.learn(row, self.scaler.size, label, weight, self.scaler.mean_norm)
        return 0

    cdef int32_t predict_row(self, Row row) noexcept nogil:
        cdef double block[BLOCK]
        cdef double largest = 0.0
        cdef int32_t best = -1, first = 0, n, c
        if self.n_classes < 2:
            return self.n_classes - 1
        if self.n_classes == 2:
            self.tree.respond_to(row, self.threshold, 0, 1, block)
            return block[0] > 0.0
        while first < self.n_classes:
            n = min(BLOCK, self.n_classes - first)
            self.tree.respond_to(row, self.threshold, first, n, block)
            for c in range(n):
                if best < 0 or block[c] > largest:
                    best = first + c
                    largest = block[c]
            first += BLOCK
        return best

    cdef void predict_proba_row(self, Row row, double* out) noexcept nogil:
        if self.n_classes == 1:
            out[0] = 1.0
        elif self.n_classes == 2:
            self.tree.respond_to(row, self.threshold, 0, 1, out)
            out[1] = sigmoid(out[0])
            out[0] = 1.0 - out[1]
        else:
            self.tree.respond_to(row, self.threshold, 0, self.n_classes, out)
            softmax(out, self.n_classes)

    @property
    def n_nodes(self):
        return self.tree.n_nodes

    @property
    def n_splits(self):
        return self.tree.n_splits

    @property
    def n_collapses(self):
        return self.tree.n_collapses

    cdef list path_of(self, Row row):
        return self.tree.path(row)

    cdef object node_depths(self):
        return self.tree.depths()

    cdef dict state(self):
        return {**ClassifierCore.state(self), **self.tree.snapshot()}

    cdef int take_state(self, dict state) except -1:
        ClassifierCore.take_state(self, state)
        self.n_classes = self.labels.size
        self.tree.restore(state, self.scaler.size)
        return 0

    def __reduce__(self):
        return restored, (SoftTreeClassifierCore, {**self.fixed, **self.settings}, self.snapshot())


@cython.final
cdef class SoftTreeRegressorCore(RegressorCore):
    """State and algorithm; parameters are validated by `SoftTreeRegressor`.

    The tree learns targets in standard deviations from their mean. Whenever these two are
    computed anew, all leaves are rescaled, so that no prediction changes.
    """

    cdef SoftTree tree
    cdef dict fixed
    cdef dict settings
    cdef double threshold
    cdef bint literal
    cdef TargetScale scale
    cdef size_t _bytes

    def __cinit__(self, *, bint literal, bint linear, bint jointly, seed, **settings):
        self.fixed = {"literal": literal, "linear": linear, "jointly": jointly, "seed": seed}
        self.literal = literal
        self.shrinks = not literal
        self.scale.deviation = literal
        self.scaler = ColumnScaler(not literal)
        self.tree = SoftTree()
        self.tree.start(kind=Response.NUMBER, **self.fixed)
        self.configure(**settings)

    def configure(self, *, bint hard, double threshold, **settings):
        """Set what may change while the tree grows."""
        self.settings = {"hard": hard, "threshold": threshold, **settings}
        self.threshold = HARD if hard else threshold
        self.tree.configure(threshold=threshold, **settings)

    def __sizeof__(self):
        if not self.is_learning:
            self._bytes = self.tree.bytes()
        return object.__sizeof__(self) + self._bytes

    cdef int learn_row(self, Row row, const double* target, double weight) except -1 nogil:
        cdef double value
        self._count(target[0])
        value = target[0] - self.scale.mean
        if self.scale.deviation > 0.0:
            value /= self.scale.deviation
        if not self.literal:
            value = min(max(value, -OUTLIER), OUTLIER)
        self.tree.learn(row, self.scaler.size, value, weight, self.scaler.mean_norm)
        return 0

    cdef void _count(self, double target) noexcept nogil:
        """Let a target into the range, and unless literal into mean and deviation."""
        cdef TargetScale* scale = &self.scale
        cdef double limit = OUTLIER * scale.deviation
        cdef double counted = target, mean, variance, deviation
        if scale.rows == 0:
            scale.low = scale.high = target
        scale.low = min(scale.low, target)
        scale.high = max(scale.high, target)
        scale.rows += 1
        if self.literal:
            return
        if scale.rows == 1:
            scale.pivot = scale.mean = target
        elif scale.rows > TRUSTED_COUNT and 0.0 < limit < fabs(target - scale.mean):
            counted = scale.mean + (limit if target > scale.mean else -limit)
        counted -= scale.pivot
        scale.sum += counted
        scale.sum_squares += counted * counted
        if scale.rows < scale.refresh_at and scale.deviation > 0.0:
            return
        scale.refresh_at = scale.rows + 1 + scale.rows // REFRESH_PARTS
        mean = scale.sum / scale.rows
        variance = scale.sum_squares / scale.rows - mean * mean
        mean += scale.pivot
        deviation = sqrt(variance) if variance > 0.0 else scale.deviation
        # as long as all targets are alike, no leaf says anything but their mean
        if scale.deviation > 0.0:
            self.tree.rescale(scale.deviation / deviation, (scale.mean - mean) / deviation)
        scale.mean = mean
        scale.deviation = deviation

    cdef void predict_row(self, Row row, double* out) noexcept nogil:
        """Never beyond the targets seen."""
        if self.scale.rows == 0:
            out[0] = 0.0
            return
        self.tree.respond_to(row, self.threshold, 0, 1, out)
        out[0] = self.scale.mean + self.scale.deviation * out[0]
        out[0] = min(max(out[0], self.scale.low), self.scale.high)

    @property
    def n_nodes(self):
        return self.tree.n_nodes

    @property
    def n_splits(self):
        return self.tree.n_splits

    @property
    def n_collapses(self):
        return self.tree.n_collapses

    cdef list path_of(self, Row row):
        return self.tree.path(row)

    cdef object node_depths(self):
        return self.tree.depths()

    cdef dict state(self):
        return {
            **RegressorCore.state(self),
            "target_scale": dict(self.scale),
            **self.tree.snapshot(),
        }

    cdef int take_state(self, dict state) except -1:
        RegressorCore.take_state(self, state)
        self.scale = state["target_scale"]
        self.tree.restore(state, self.scaler.size)
        return 0

    def __reduce__(self):
        return restored, (SoftTreeRegressorCore, {**self.fixed, **self.settings}, self.snapshot())
