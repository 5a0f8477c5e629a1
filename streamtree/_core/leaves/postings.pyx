"""Learning, scoring and forgetting with the lists declared in postings.pxd."""

cimport cython
from libc.math cimport log
from libc.stdint cimport int32_t, int64_t

from streamtree._core.kernels.additive cimport logs
from streamtree._core.store.budget cimport (
    bytes_allowed, counted, counted_room, give_back, has_room, shrunk, spacious,
)
from streamtree._core.store.state cimport export_records, import_records
from streamtree._core.stream.row cimport EncodedRow

import numpy as np


cpdef enum:
    # Labels of a column: of more of them, those that come often stay.
    MOST_POSTED = 256

cdef enum:
    # the lists may take one part of so many of what the model may
    PARTS = 4
    # lists that are looked at for one to give way to a posting
    MOST_THINNED = 64
    # bytes that it takes to keep a block
    BLOCK = 32

# What the columns of a label say, against those of any row (lambda / (1 - lambda) with 0.3).
cdef double ODDS = 0.3 / 0.7
cdef float MOST_ODDS = 1e30
# A row of less weight is not counted: sums of weights stay within single precision.
cdef double LEAST_WEIGHT = 1e-20
# for their checks, in Python
WEIGHT_FLOOR = LEAST_WEIGHT
# Beyond it the weights of a list are halved: they stay within single precision, and fade.
cdef double MOST_LISTED = 1e6

cdef Posting _blank_posting
# the head of a LabelCount: the rest follows from it
COUNTS = np.dtype([("rows", np.float64), ("columns", np.float64)])
POSTINGS = np.asarray(<Posting[:1]> &_blank_posting).dtype


cdef inline size_t list_bytes(int32_t n) noexcept nogil:
    """What the block of n postings takes."""
    return capacity_for(n) * sizeof(Posting) + BLOCK if n else 0


cdef inline int32_t capacity_for(int32_t n) noexcept nogil:
    """Room for n postings: a power of two, so that it depends on n only."""
    cdef int32_t capacity = 1
    while capacity < n:
        capacity *= 2
    return capacity


@cython.final
cdef class Postings:
    """What is known of the sparse columns of labels."""

    def __dealloc__(self):
        cdef int32_t column
        for column in range(self.n_lists):
            give_back(self.lists[column].postings)
        give_back(self.lists)
        give_back(self.labels)

    # ---------------------------------------------------------------------------- learning

    cdef bint learn(self, const EncodedRow* row, int32_t label, double weight) except -1 nogil:
        """Count a row of a label; returns whether there was room for all of it."""
        cdef Py_ssize_t i
        cdef int32_t column
        cdef bint found_room = True
        cdef LabelCount* count
        if weight < LEAST_WEIGHT:
            return True
        self._reserve_labels(label + 1)
        # without the bias, which comes first
        for i in range(1, row.n_linear):
            column = row.keys[i] - 1
            if row.sparse[i]:
                found_room &= self._post(column, label, weight)
        count = &self.labels[label]
        self.rows += weight
        count.rows += weight
        count.log_rows = <float> log(1.0 + count.rows)
        return found_room

    cdef int _reserve_labels(self, int32_t n) except -1 nogil:
        self.labels = <LabelCount*> counted_room(
            self.labels, &self.n_labels, n, sizeof(LabelCount)
        )
        return 0

    cdef bint _reserve_lists(self, int32_t n) except -1 nogil:
        """Make room for the lists of so many columns, if there is some besides for a posting."""
        cdef size_t size = sizeof(PostingList)
        if n > self.n_lists:
            if not has_room((spacious(n) - self.n_lists) * size + BLOCK + list_bytes(1)):
                return False
            self.lists = <PostingList*> counted_room(self.lists, &self.n_lists, n, size)
        return True

    cdef bint _post(self, int32_t column, int32_t label, double weight) except -1 nogil:
        """Count a column of a label; returns whether there was room."""
        cdef PostingList* posted
        cdef Posting* posting
        cdef LabelCount* count = &self.labels[label]
        cdef int32_t i
        if not self._reserve_lists(column + 1):
            return False
        posted = &self.lists[column]
        for i in range(posted.n):
            if posted.postings[i].label == label:
                posted.postings[i].weight += <float> weight
                break
        else:
            if posted.n == MOST_POSTED:
                # the frequent ones stay (Misra & Gries 1982), each new label asks another
                posting = &posted.postings[posted.turn]
                posted.turn = (posted.turn + 1) % MOST_POSTED
                posting.weight -= <float> weight
                if posting.weight <= 0.0:
                    posting[0] = Posting(label, <float> weight)
            elif not self._append(column, label, weight):
                # where only its own part is in use nobody else has to forget
                return has_room(sizeof(Posting))
        posted.weight += weight
        count.columns += weight
        # whatever fails later, it follows from what is counted
        count.inverse = <float> (1.0 / count.columns)
        self.total += weight
        if posted.weight > MOST_LISTED:
            posted.weight *= 0.5
            for i in range(posted.n):
                posted.postings[i].weight *= <float> 0.5
        return True

    cdef bint _append(self, int32_t column, int32_t label, double weight) except -1 nogil:
        cdef PostingList* posted = &self.lists[column]
        if list_bytes(posted.n + 1) > list_bytes(posted.n):
            if not self._finds_room(list_bytes(posted.n + 1) - list_bytes(posted.n)):
                return False
        # it may have been thinned to make room
        if list_bytes(posted.n + 1) > list_bytes(posted.n):
            posted.postings = <Posting*> counted(
                posted.postings, capacity_for(posted.n + 1) * sizeof(Posting)
            )
            self.size += list_bytes(posted.n + 1) - list_bytes(posted.n)
        posted.postings[posted.n] = Posting(label, <float> weight)
        posted.n += 1
        return True

    cdef bint _finds_room(self, size_t size) noexcept nogil:
        """Whether there is room for so many bytes, if need be after some lists were thinned."""
        cdef size_t most = bytes_allowed() // PARTS
        cdef int _turn
        for _turn in range(MOST_THINNED):
            if self.size + size <= most:
                break
            if self.turn >= self.n_lists:
                self.turn = 0
            self._thin(self.turn)
            self.turn += 1
        return self.size + size <= most and has_room(size)

    cdef void _thin(self, int32_t column) noexcept nogil:
        """Drop up to half of a list: of those that weigh no more than the mean, the first ones."""
        cdef PostingList* posted = &self.lists[column]
        cdef int32_t i, n = 0, before = posted.n, to_drop = (posted.n + 1) // 2
        cdef double mean = 0.0
        for i in range(posted.n):
            mean += posted.postings[i].weight
        mean /= max(posted.n, 1)
        for i in range(posted.n):
            if to_drop and posted.postings[i].weight <= mean:
                to_drop -= 1
            else:
                posted.postings[n] = posted.postings[i]
                n += 1
        posted.n, posted.turn = n, 0
        if n == 0:
            give_back(posted.postings)
            posted.postings = NULL
        elif capacity_for(n) < capacity_for(before):
            posted.postings = <Posting*> shrunk(
                posted.postings, capacity_for(n) * sizeof(Posting)
            )
        self.size -= list_bytes(before) - list_bytes(n)

    # -------------------------------------------------------------------------- prediction

    cdef const PostingList* _list_of(self, const EncodedRow* row, Py_ssize_t part) noexcept nogil:
        """The list of the column of a linear part, NULL if nothing is counted of it."""
        cdef int32_t column = row.keys[part] - 1
        return &self.lists[column] if column < self.n_lists and row.sparse[part] else NULL

    cdef void _gains(self, const PostingList* posted, float* gains) noexcept nogil:
        """Write what a column says for the labels that it came with."""
        cdef float factor = <float> (ODDS * self.total / posted.weight)
        cdef int32_t k
        for k in range(posted.n):
            gains[k] = <float> 1.0 + min(
                factor * posted.postings[k].weight * self.labels[posted.postings[k].label].inverse,
                MOST_ODDS,
            )
        logs(gains, posted.n)

    cdef int32_t score(self, const EncodedRow* row, Scored* scored) noexcept nogil:
        """Add to `scored`, where all is 0, what columns say; returns one more than the label that
        was scored last, or -1."""
        cdef const PostingList* posted
        cdef Scored* of_label
        cdef float[MOST_POSTED] gains
        cdef int32_t label, k, last = -1
        cdef Py_ssize_t i
        for i in range(1, row.n_linear):
            posted = self._list_of(row, i)
            if posted == NULL:
                continue
            self._gains(posted, gains)
            for k in range(posted.n):
                label = posted.postings[k].label
                of_label = &scored[label]
                if of_label.next == 0:
                    of_label.next = last
                    last = label + 1
                of_label.score += gains[k]
        return last

    cdef bint knows(self, int32_t label) noexcept nogil:
        """Whether columns were counted of a label."""
        return label < self.n_labels and self.labels[label].columns > 0.0

    cdef double rows_of(self, int32_t label) noexcept nogil:
        """The weight of the rows of a label."""
        return self.labels[label].rows if label < self.n_labels else 0.0

    cdef float log_rows(self, int32_t label) noexcept nogil:
        """What is said for a label by how often it came."""
        return self.labels[label].log_rows if label < self.n_labels else <float> 0.0

    cdef object column_scores(self, const EncodedRow* row, int32_t label):
        """What every linear part of a row says for a label: an array of shape (n_linear,)."""
        cdef const PostingList* posted
        cdef float[MOST_POSTED] gains
        cdef int32_t k
        cdef Py_ssize_t i
        scores = np.zeros(row.n_linear)
        for i in range(1, row.n_linear):
            posted = self._list_of(row, i)
            if posted == NULL:
                continue
            self._gains(posted, gains)
            for k in range(posted.n):
                if posted.postings[k].label == label:
                    scores[i] = gains[k]
        return scores

    # ------------------------------------------------------------------------------- state

    cdef dict state(self, int32_t n_columns, int32_t n_labels):
        cdef int32_t column
        cdef PostingList* posted
        # of this many there is the same room again, see `spacious`
        n_columns, n_labels = min(n_columns, self.n_lists), min(n_labels, self.n_labels)
        starts = np.zeros(n_columns + 1, dtype=np.int64)
        numbers = np.zeros((n_columns, 2))
        postings = [np.empty(0, dtype=POSTINGS)]
        for column in range(n_columns):
            posted = &self.lists[column]
            starts[column + 1] = starts[column] + posted.n
            numbers[column] = posted.weight, posted.turn
            if posted.n:
                postings.append(
                    export_records(posted.postings, sizeof(Posting), posted.n, POSTINGS)
                )
        return {
            "starts": starts, "lists": numbers, "postings": np.concatenate(postings),
            "labels": export_records(self.labels, sizeof(LabelCount), n_labels, COUNTS),
            "numbers": np.array([self.rows, self.total, self.turn]),
        }

    cdef int take_state(self, dict state) except -1:
        cdef int32_t column, n
        cdef PostingList* posted
        cdef LabelCount* count
        cdef const int64_t[::1] starts = state["starts"]
        cdef const double[:, ::1] lists = state["lists"]
        self._reserve_labels(<int32_t> len(state["labels"]))
        if len(state["labels"]):
            import_records(self.labels, sizeof(LabelCount), state["labels"])
        for n in range(<int32_t> len(state["labels"])):
            count = &self.labels[n]
            count.log_rows = <float> log(1.0 + count.rows)
            count.inverse = <float> (1.0 / count.columns if count.columns > 0.0 else 0.0)
        n = <int32_t> lists.shape[0]
        self.lists = <PostingList*> counted_room(
            self.lists, &self.n_lists, n, sizeof(PostingList)
        )
        for column in range(<int32_t> lists.shape[0]):
            posted = &self.lists[column]
            posted.weight, posted.turn = lists[column, 0], <int32_t> lists[column, 1]
            n = <int32_t> (starts[column + 1] - starts[column])
            if n:
                posted.postings = <Posting*> counted(NULL, capacity_for(n) * sizeof(Posting))
                self.size += list_bytes(n)
                import_records(
                    posted.postings, sizeof(Posting),
                    state["postings"][starts[column]:starts[column + 1]],
                )
                posted.n = n
        self.rows, self.total, turn = state["numbers"].tolist()
        self.turn = int(turn)
        return 0


# of no labels: the types of the parts of a state
BLANK = Postings().state(0, 0)
