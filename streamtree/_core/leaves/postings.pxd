"""Naive Bayes by an inverted index: of every sparse column the labels that it came with.

A label is scored by how often it came, and by the columns of the row: the log of 1 + ODDS *
p(column | label) / p(column), summed. That is naive Bayes with the smoothing of Jelinek and Mercer
(1980): the columns of a label are those that it came with, and besides those of any row (Zhai &
Lafferty 2004). A label that came once is told by its columns, where a linear model has to come to
know them step by step; what is looked at is a list a column and not every label.
"""

from libc.stdint cimport int32_t

from streamtree._core.stream.row cimport EncodedRow


cdef struct Posting:
    int32_t label
    float weight            # of the rows of the label in which the column was


cdef struct PostingList:
    # of a column
    double weight           # of the rows in which it was
    Posting* postings       # in the order in which labels came
    int32_t n
    int32_t turn            # the posting that a new label would push out next


cdef struct LabelCount:
    double rows             # weight of the rows
    double columns          # and of the columns in them
    # what follows from these
    float log_rows          # log of 1 + rows
    float inverse           # of columns


cdef struct Scored:
    # by label, while a row is looked at
    float score
    int32_t next            # one more than the label scored before it, -1 at the first, 0: none


cdef class Postings:
    cdef PostingList* lists     # by column
    cdef int32_t n_lists
    cdef LabelCount* labels
    cdef int32_t n_labels
    cdef double rows            # weight of all rows
    cdef double total           # and of all columns in them
    cdef size_t size            # bytes of the postings
    cdef int32_t turn           # the list that is thinned next

    cdef int _reserve_labels(self, int32_t n) except -1 nogil
    cdef bint _reserve_lists(self, int32_t n) except -1 nogil
    cdef bint _post(self, int32_t column, int32_t label, double weight) except -1 nogil
    cdef bint _append(self, int32_t column, int32_t label, double weight) except -1 nogil
    cdef bint _finds_room(self, size_t size) noexcept nogil
    cdef void _thin(self, int32_t column) noexcept nogil
    cdef const PostingList* _list_of(self, const EncodedRow* row, Py_ssize_t part) noexcept nogil
    cdef void _gains(self, const PostingList* posted, float* gains) noexcept nogil

    cdef bint learn(self, const EncodedRow* row, int32_t label, double weight) except -1 nogil
    cdef int32_t score(self, const EncodedRow* row, Scored* scored) noexcept nogil
    cdef bint knows(self, int32_t label) noexcept nogil
    cdef double rows_of(self, int32_t label) noexcept nogil
    cdef float log_rows(self, int32_t label) noexcept nogil
    cdef object column_scores(self, const EncodedRow* row, int32_t label)
    cdef dict state(self, int32_t n_columns, int32_t n_labels)
    cdef int take_state(self, dict state) except -1
