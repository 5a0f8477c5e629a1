"""Random candidates, and how well they tell labels or numbers apart.

A candidate is a random column with a random threshold, or the category of a random row against all
others, or a set of categories. Into a set go those of which one row has the label of the row that
was drawn, or a larger number: their first ones from a random row on. So it is likely to be of use,
and random where nothing is to be found. Among few rows, each of another category, it would tell
anything apart, and is not tried. Categories of a set lie in buckets, by a hash that is another one
for every set.

Where values are missing they go to a random side, or are told from all that are there; in a set
they are one category more. Candidates for many rows are compared by a sample of them.
"""

cimport cython
from libc.float cimport FLT_MAX
from libc.math cimport INFINITY
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from streamtree._core.kernels.rng cimport below, fraction, next_random, splitmix64
from streamtree._core.splits.bounds cimport (
    Mark, bound_of, find_buckets, find_members, is_above, is_in_set,
)
from streamtree._core.store.budget cimport counted, give_back
from streamtree._core.stream.window cimport Cell, Window


cdef extern from "../../kernels/ranges.h" nogil:
    int32_t value_range "streamtree_range"(const float* values, int32_t n, float* low, float* high)
    void count_above "streamtree_count_above"(
        const float* values, float threshold, const int32_t* labels, int32_t n, int32_t n_labels,
        int32_t* counts)


# the part of the impurity that a weak candidate leaves
cdef double WEAK = 0.95

cdef enum:
    # labels of so many rows are found by looking at all of them; only of more are sets tried
    FEW_ROWS = 16
    # rows of so many labels are counted label by label
    FEW_LABELS = 8
    # a value is far out where the range of all rows is so many times that of these
    SAMPLED_ROWS = 4
    FAR_OUT = 64


cdef inline uint64_t bit_of(int32_t field) noexcept nogil:
    """Of the first fields."""
    return <uint64_t> 1 << field if field < 64 else 0


cdef float threshold_between(float low, float high, double share) noexcept nogil:
    """From low to below high."""
    cdef float threshold = <float> (low + share * (<double> high - low))
    return threshold if threshold < high else low


cdef size_t search_bytes(int64_t n, int64_t n_labels, bint has_numbers,
                         int64_t n_gathered) noexcept nogil:
    """What the search takes for n rows of so many labels, where it keeps so many fields."""
    cdef int64_t rows = min(n, <int64_t> CHUNK)
    cdef size_t per_row = (2 + n_gathered) * sizeof(float) + sizeof(int32_t)
    cdef size_t spans = n_gathered * sizeof(Span)
    if has_numbers:
        return rows * (per_row + sizeof(double)) + spans
    return rows * (per_row + sizeof(int32_t)) + spans + n_labels * sizeof(int32_t) + (
        min(n, n_labels) * (2 * sizeof(int32_t) + 2 * sizeof(double))
    )


@cython.final
cdef class ExtraSearch:
    """The work on one node: count its rows, compare candidates, divide the rows by the best.

    Rows are counted and divided some at a time: `first` is a multiple of a chunk.
    """

    def __cinit__(self, Window window, bint has_numbers):
        self.window = window
        self.has_numbers = has_numbers

    def __dealloc__(self):
        self.release()

    cdef void release(self) noexcept nogil:
        """Give all memory back."""
        give_back(self.labels)
        give_back(self.weights)
        give_back(self.right)
        give_back(self.counts)
        give_back(self.places)
        give_back(self.buffer)
        give_back(self.gathered)
        give_back(self.spans)
        give_back(self.row_weights)
        give_back(self.row_labels)
        give_back(self.excess)
        give_back(self.sampled)
        self.labels = self.counts = self.places = self.row_labels = NULL
        self.sampled = NULL
        self.weights = self.right = self.excess = NULL
        self.values = self.buffer = self.gathered = self.row_weights = NULL
        self.spans = NULL
        self.capacity = self.label_capacity = self.n_labels = self.n_gathered = 0

    cdef int reserve(self, int32_t n, int32_t n_labels, int32_t n_gathered) except -1 nogil:
        """Make room for n rows of labels below `n_labels`, and for the values of the first fields.

        What was counted is lost.
        """
        cdef int32_t i, most = min(n, n_labels), rows = min(n, <int32_t> CHUNK)
        self.release()
        self.buffer = <float*> counted(NULL, rows * sizeof(float))
        self.row_weights = <float*> counted(NULL, rows * sizeof(float))
        self.sampled = <int32_t*> counted(NULL, rows * sizeof(int32_t))
        self.capacity = rows
        if n_gathered:
            self.gathered = <float*> counted(NULL, n_gathered * rows * sizeof(float))
            self.spans = <Span*> counted(NULL, n_gathered * sizeof(Span))
            self.n_gathered = n_gathered
        if self.has_numbers:
            self.excess = <double*> counted(NULL, rows * sizeof(double))
            return 0
        self.row_labels = <int32_t*> counted(NULL, rows * sizeof(int32_t))
        self.labels = <int32_t*> counted(NULL, most * sizeof(int32_t))
        self.weights = <double*> counted(NULL, most * sizeof(double))
        self.right = <double*> counted(NULL, most * sizeof(double))
        self.counts = <int32_t*> counted(NULL, most * sizeof(int32_t))
        for i in range(most):
            self.right[i] = 0.0
            self.counts[i] = 0
        if n > FEW_ROWS:
            self.places = <int32_t*> counted(NULL, n_labels * sizeof(int32_t))
            for i in range(n_labels):
                self.places[i] = -1
        self.label_capacity = n_labels
        return 0

    cdef void measure(self) noexcept nogil:
        """See how many columns a row has now: fields, and values in lists."""
        cdef int64_t n_rows = max(self.window.size - self.window.first(), <int64_t> 1)
        self.n_listed = <double> self.window.n_entries() / n_rows
        self.width = self.window.n_fields + self.n_listed
        self.n_columns = <int32_t> (self.width + 0.5)

    # ------------------------------------------------------------------------ what is there

    cdef void begin(self, const int32_t* slots, int32_t n, uint64_t constant) noexcept nogil:
        """Take other rows, of which none is counted yet; there is room for them.

        `constant` are the fields that are known to be the same in all of them.
        """
        cdef int32_t i
        for i in range(self.n_labels if self.places != NULL else 0):
            self.places[self.labels[i]] = -1
        self.n_labels = 0
        self.slots, self.n = slots, n
        self.best.column = -1
        self.score = -INFINITY
        self.is_done = self.is_weighted = False
        self.is_pure = True
        self.total = self.sum = 0.0
        self.constant = constant
        self.fields_read = 0

    cdef void begin_with(self, const int32_t* slots, int32_t n, uint64_t constant) noexcept nogil:
        """Take other rows, at most a chunk, and count them."""
        self.begin(slots, n, constant)
        self.count(0, n)
        self.centre()

    cdef void begin_with_sample(self, uint64_t word) noexcept nogil:
        """Take a random one out of each of a chunk of equal parts of the rows, and count them."""
        cdef int32_t i
        cdef int64_t first, end = 0
        for i in range(CHUNK):
            word = splitmix64(word)
            first, end = end, <int64_t> self.n * (i + 1) // CHUNK
            self.sampled[i] = self.slots[first + below(word, end - first)]
        self.begin_with(self.sampled, CHUNK, self.constant)

    cdef void count(self, int32_t first, int32_t end) noexcept nogil:
        """Count a chunk more; what is known of each of its rows takes the place of the last's."""
        cdef int32_t i, n = end - first
        cdef const int32_t* slots = &self.slots[first]
        cdef float weight
        cdef double number, origin
        for i in range(n):
            weight = self.window.weights[slots[i]]
            self.row_weights[i] = weight
            self.is_weighted |= weight != 1.0
            self.total += weight
        if not self.has_numbers:
            self._count_labels(slots, n)
            return
        # from the first number: large ones may have small differences
        origin = self.window.targets[self.slots[0]]
        for i in range(n):
            number = self.window.targets[slots[i]] - origin
            self.is_pure &= number == 0.0
            self.excess[i] = number
            self.sum += self.row_weights[i] * number
        self.mean = origin + self.sum / self.total

    cdef void _count_labels(self, const int32_t* slots, int32_t n) noexcept nogil:
        cdef int32_t i, label, place
        for i in range(n):
            label = self.window.labels[slots[i]]
            place = self._place_of(label)
            if place < 0:
                place = self.n_labels
                if self.places != NULL:
                    self.places[label] = place
                self.labels[place] = label
                self.weights[place] = 0.0
                self.n_labels += 1
            self.row_labels[i] = place
        self.is_pure = self.n_labels < 2
        if self.is_weighted:
            for i in range(n):
                self.weights[self.row_labels[i]] += self.row_weights[i]
            return
        # whole numbers, for which no row waits long for another
        for i in range(n):
            self.counts[self.row_labels[i]] += 1
        for i in range(self.n_labels):
            self.weights[i] += self.counts[i]
            self.counts[i] = 0

    cdef int32_t _place_of(self, int32_t label) noexcept nogil:
        """The place of a label among those that were met, -1 if it was not."""
        cdef int32_t place
        if self.places != NULL:
            return self.places[label]
        for place in range(self.n_labels):
            if self.labels[place] == label:
                return place
        return -1

    cdef void centre(self) noexcept nogil:
        """Take numbers from their mean, once all rows are counted."""
        cdef int32_t i
        cdef double mean = self.sum / self.total
        if not self.has_numbers:
            return
        for i in range(self.n):
            self.excess[i] = self.row_weights[i] * (self.excess[i] - mean)

    # --------------------------------------------------------------------------- candidates

    cdef bint consider(self, uint64_t* random, bint is_between_rows) noexcept nogil:
        """Draw a candidate and compare it with the best; returns whether it splits the rows.

        The threshold lies anywhere between the least and the largest value, or between those of
        two rows.
        """
        if not self._draw(random):
            return False
        if self.trial.salt:
            self._gather_set()
        else:
            self._gather()
        if not self._set_threshold(random, is_between_rows):
            return False
        if self.has_numbers:
            self._weigh_numbers()
        else:
            self._weigh_labels()
        self._compare()
        return True

    cdef bint _draw(self, uint64_t* random) noexcept nogil:
        """Choose a column; returns whether there is one."""
        cdef Trial* trial = &self.trial
        cdef uint64_t word = next_random(random), rows
        cdef int32_t choice = <int32_t> below(word, self.n_columns), field
        trial.word, trial.salt = word, 0
        if choice < self.window.n_fields:
            field = self.window.ranked[choice]
            trial.column = self.window.fields[field].column
            if trial.column < 0:
                # of a random row; every other time a set of categories
                rows = next_random(random)
                trial.row = <int32_t> below(rows, self.n)
                trial.first = <int32_t> (fraction(rows) * self.n)
                trial.column = self.window.cells_of(self.slots[trial.row])[field].code
                if self.n > FEW_ROWS and word & 0x100:
                    trial.salt = word & 0xFF
            return trial.column >= 0 and not self.constant & bit_of(field)
        word = next_random(random)
        trial.column = self._draw_listed(self.slots[below(word, self.n)], word)
        return trial.column >= 0 and self.window.field_of[trial.column] < 0

    cdef int32_t _draw_listed(self, int32_t slot, uint64_t word) noexcept nogil:
        """A random column of the list of a row, in whatever order they lie there; -1 for none."""
        cdef int64_t i, first = self.window.starts[slot], mask = self.window.list_capacity - 1
        cdef int32_t column, found = -1
        cdef uint64_t key, least = 0
        for i in range(first, first + self.window.list_length(slot)):
            column = self.window.list_columns[i & mask]
            key = splitmix64(word ^ self.window.context.features.hashes[column])
            if found < 0 or key < least:
                found, least = column, key
        return found

    cdef void _gather(self) noexcept nogil:
        """Read the values of the column, unless they were read since the node was begun."""
        cdef Span* span = &self.trial.span
        cdef int32_t column = self.trial.column, place = self.window.field_of[column]
        cdef bint is_number = place >= 0 and self.window.fields[place].column >= 0
        cdef bint is_kept = is_number and place < self.n_gathered
        cdef int32_t i, is_met, n_met = 0
        cdef const int32_t* slots = self.slots
        cdef const Cell* cells = &self.window.cells[max(place, 0)]
        cdef Py_ssize_t stride = self.window.stride
        cdef float* values = &self.gathered[place * self.capacity] if is_kept else self.buffer
        self.values = values
        if is_kept and self.fields_read & bit_of(place):
            span[0] = self.spans[place]
            return
        if is_number:
            for i in range(self.n):
                values[i] = cells[slots[i] * stride].number
        elif place < 0:
            for i in range(self.n):
                values[i] = self.window.list_value(slots[i], column)
        else:
            for i in range(self.n):
                is_met = cells[slots[i] * stride].code == column
                n_met += is_met
                values[i] = <float> is_met
            span[0] = Span(n_met == self.n, n_met > 0, 0)
            return
        span.n_missing = value_range(values, self.n, &span.low, &span.high)
        if is_kept:
            self.spans[place] = span[0]
            self.fields_read |= bit_of(place)

    cdef void _gather_set(self) noexcept nogil:
        """Choose categories, by one row of each, and see which rows have one of them."""
        cdef Trial* trial = &self.trial
        cdef int32_t i, first = trial.first
        cdef uint32_t bucket, met
        cdef bint is_right
        cdef const int32_t* slots = self.slots
        cdef const Cell* cells = &self.window.cells[self.window.field_of[trial.column]]
        cdef Py_ssize_t stride = self.window.stride
        cdef Mark* marks = <Mark*> self.buffer
        self.values = self.buffer
        for i in range(self.n):
            marks[i] = self.window.context.kind_of(cells[slots[i] * stride].code)
        met = find_buckets(marks, self.n, trial.salt)
        trial.members = trial.met = 0
        while trial.met != met:
            i = first if first < self.n else first - self.n
            bucket = marks[i]
            first += 1
            if trial.met >> bucket & 1:
                continue
            if self.has_numbers:
                is_right = self.window.targets[slots[i]] > self.window.targets[slots[trial.row]]
            else:
                is_right = self.row_labels[i] == self.row_labels[trial.row]
            trial.met |= <uint32_t> 1 << bucket
            trial.members |= <uint32_t> is_right << bucket
        find_members(marks, self.n, trial.members)
        trial.span = Span(trial.members == met, trial.members != 0, 0)

    cdef bint _set_threshold(self, uint64_t* random, bint is_between_rows) noexcept nogil:
        """Draw a threshold and a side for what is missing; False where nothing can be split."""
        cdef Trial* trial = &self.trial
        cdef float low = trial.span.low, high = trial.span.high
        cdef int32_t place = self.window.field_of[trial.column]
        cdef bint is_category = place >= 0 and self.window.fields[place].column < 0
        cdef uint64_t rows
        cdef int32_t way = 0
        trial.missing_right = False
        if trial.span.n_missing == self.n:
            return False
        if trial.span.n_missing:
            way = <int32_t> below(next_random(random), 3)
            trial.missing_right = way > 0
        if way == 2:
            # what is missing against all that is there
            trial.threshold = FLT_MAX
            return True
        if is_between_rows and not is_category:
            rows = next_random(random)
            low = self.values[below(rows, self.n)]
            high = self.values[<int32_t> (fraction(rows) * self.n)]
            if low > high:
                low, high = high, low
        if not low < high:
            if trial.span.n_missing == 0 and place >= 0 and not (is_between_rows or trial.salt):
                self.constant |= bit_of(place)
            return False
        if self.n > FEW_ROWS and not is_category:
            self._narrow(&low, &high)
        trial.threshold = threshold_between(low, high, fraction(trial.word))
        if is_category:
            trial.threshold = 0.5
        return True

    cdef void _narrow(self, float* low, float* high) noexcept nogil:
        """Where a value is far out, take the range of a few rows: most thresholds part but it."""
        cdef uint64_t rows = self.trial.word
        cdef float value, least = INFINITY, largest = -INFINITY
        cdef int32_t i
        for i in range(SAMPLED_ROWS):
            if i % 2 == 0:
                rows = splitmix64(rows)
                value = self.values[below(rows, self.n)]
            else:
                value = self.values[<int32_t> (fraction(rows) * self.n)]
            least = value if value < least else least
            largest = value if value > largest else largest
        if least < largest and FAR_OUT * (<double> largest - least) < <double> high[0] - low[0]:
            low[0], high[0] = least, largest

    cdef void _weigh_labels(self) noexcept nogil:
        """What lies on the right, without a jump that is random."""
        cdef int32_t i, side, n_right = 0, n_second = 0
        cdef float value, threshold = self.trial.threshold
        cdef bint missing_right = self.trial.missing_right
        cdef const float* values = self.values
        cdef const float* weights = self.row_weights
        cdef const int32_t* labels = self.row_labels
        cdef int32_t* counts = self.counts
        cdef double* right = self.right
        if self.is_weighted or missing_right:
            for i in range(self.n):
                value = values[i]
                side = (value > threshold) | (missing_right & (value != value))
                right[labels[i]] += side * <double> weights[i]
        elif self.n_labels == 2:
            # nor a place in memory that every row waits for
            for i in range(self.n):
                side = values[i] > threshold
                n_right += side
                n_second += side & labels[i]
            self.n_right, self.n_second = n_right, n_second
        elif self.n_labels <= FEW_LABELS and self.n > FEW_ROWS:
            count_above(values, threshold, labels, self.n, self.n_labels, counts)
        else:
            for i in range(self.n):
                counts[labels[i]] += values[i] > threshold

    cdef void _weigh_numbers(self) noexcept nogil:
        cdef int32_t i, k, side, whole = self.n // 4 * 4
        cdef float value, threshold = self.trial.threshold
        cdef bint missing_right = self.trial.missing_right
        cdef double sums[4]
        cdef double weights[4]
        cdef int32_t n_right[4]
        cdef const float* values = self.values
        cdef const float* row_weights = self.row_weights
        cdef const double* excess = self.excess
        for k in range(4):
            sums[k] = weights[k] = 0.0
            n_right[k] = 0
        if not (self.is_weighted or missing_right):
            for i in range(0, whole, 4):
                for k in range(4):
                    side = values[i + k] > threshold
                    sums[k] += side * excess[i + k]
                    n_right[k] += side
            for i in range(whole, self.n):
                side = values[i] > threshold
                sums[0] += side * excess[i]
                n_right[0] += side
            for k in range(4):
                self.sums[k], self.sum_weights[k] = sums[k], n_right[k]
            return
        for i in range(0, whole, 4):
            for k in range(4):
                value = values[i + k]
                side = (value > threshold) | (missing_right & (value != value))
                sums[k] += side * excess[i + k]
                weights[k] += side * row_weights[i + k]
        for i in range(whole, self.n):
            value = values[i]
            side = (value > threshold) | (missing_right & (value != value))
            sums[0] += side * excess[i]
            weights[0] += side * row_weights[i]
        for k in range(4):
            self.sums[k], self.sum_weights[k] = sums[k], weights[k]

    cdef void _compare(self) noexcept nogil:
        """Compare the candidate, whose sides were weighed, with the best."""
        cdef double right_weight = 0.0, score
        cdef bint is_right_heavier
        if self.has_numbers:
            score = self._score_numbers(&right_weight)
        else:
            score = self._score_labels(&right_weight)
        if not score > self.score:
            return
        self.score = score
        # what no row has goes where most do
        is_right_heavier = right_weight > self.total - right_weight
        self.best.column, self.best.salt = self.trial.column, <uint8_t> self.trial.salt
        self.best.missing_right = (
            self.trial.missing_right if self.trial.span.n_missing else is_right_heavier
        )
        self.best.bound = bound_of(
            self.trial.salt != 0, self.trial.threshold,
            self.trial.members | (~self.trial.met if is_right_heavier else 0),
        )

    cdef double _score_labels(self, double* right_weight) noexcept nogil:
        cdef int32_t i
        cdef double weight, left_weight, right = 0.0, left = 0.0, score
        if not (self.is_weighted or self.trial.missing_right):
            if self.n_labels == 2:
                self.right[0], self.right[1] = self.n_right - self.n_second, self.n_second
            else:
                for i in range(self.n_labels):
                    self.right[i] = self.counts[i]
                    self.counts[i] = 0
        for i in range(self.n_labels):
            weight = self.right[i]
            self.right[i] = 0.0
            right_weight[0] += weight
            right += weight * weight
            weight = self.weights[i] - weight
            left += weight * weight
        left_weight = self.total - right_weight[0]
        score = left / left_weight + right / right_weight[0]
        # both sides pure
        self.is_done = score >= self.total
        return score

    cdef double _score_numbers(self, double* right_weight) noexcept nogil:
        cdef double right = (self.sums[0] + self.sums[1]) + (self.sums[2] + self.sums[3])
        right_weight[0] = (
            (self.sum_weights[0] + self.sum_weights[1])
            + (self.sum_weights[2] + self.sum_weights[3])
        )
        # of two rows there is one split
        self.is_done = self.n == 2
        # the sums of both sides are opposite, for they are taken from the mean
        return right * right * (
            1.0 / (self.total - right_weight[0]) + 1.0 / right_weight[0]
        )

    cdef bint is_weak(self) noexcept nogil:
        """Whether there is a best candidate that leaves nearly all of the labels' impurity."""
        cdef int32_t i
        cdef double squares = 0.0
        if self.best.column < 0:
            return False
        for i in range(self.n_labels):
            squares += self.weights[i] * self.weights[i]
        # impurity: total weight less squared weights per weight, as in the score
        return self.total - self.score > WEAK * (self.total - squares / self.total)

    cdef int32_t divide(self, int32_t* slots, int32_t* right, int32_t first, int32_t end,
                        int32_t n_left) noexcept nogil:
        """Part some rows more by the best candidate, of which so many went left before.

        Those on the left stay in `slots`, in their order, the others go to `right`; returns how
        many have gone left.
        """
        cdef int32_t i, slot, side, n_right = first - n_left
        cdef int32_t column = self.best.column, place = self.window.field_of[column]
        cdef float value, threshold = self.best.bound.threshold
        cdef uint32_t members = self.best.bound.members, salt = self.best.salt
        cdef bint missing_right = self.best.missing_right
        cdef const Cell* cells = NULL
        cdef Py_ssize_t stride = self.window.stride
        if place >= 0 and self.window.fields[place].column >= 0:
            cells = &self.window.cells[place]
        for i in range(first, end):
            slot = slots[i]
            if salt:
                side = is_in_set(members, self.window.kind(slot, column), salt)
            else:
                value = (
                    cells[slot * stride].number if cells != NULL
                    else self.window.value(slot, column)
                )
                side = is_above(value, threshold, missing_right)
            # without a jump that is random: it is written to both, and stays in one
            right[n_right] = slot
            slots[n_left] = slot
            n_right += side
            n_left += 1 - side
        return n_left
