from libc.stdint cimport int32_t

from streamtree._core.additive cimport MOST_CLASSES, LeafModel
from streamtree._core.naivebayes cimport NaiveBayes
from streamtree._core.readings cimport Reading, RowReader, value_of
from streamtree._core.scaling cimport ColumnScaler
from streamtree._core.splitsearch cimport Candidate, Search, SplitFinder
from streamtree._core.tables cimport Table


cpdef enum:
    EXPERTS = 4         # two rates of the topmost model, two of the leaf's own


cdef struct State:
    LeafModel model
    NaiveBayes* bayes           # of a topmost model, as long as it is of use
    Search* search              # of a leaf
    # what numbers the classes for a model and all below it; kept by the topmost model of a way
    Table places                # class -> place + 1
    int32_t* classes
    int32_t n_classes
    int32_t classes_capacity
    bint is_crowded             # met more classes than a model may have
    float losses[EXPERTS]       # of a leaf: progressive log loss, fading
    float shares[EXPERTS]       # what each has to say


cdef struct Site:
    # what a node has besides its place in the tree
    State* state                # of a leaf and of a topmost model, else NULL
    int32_t column              # of a split at a threshold, else -1
    float threshold


cdef struct Opinion:
    # what the experts say of a row
    int first                   # of the experts that have a say
    int32_t n_classes
    bint has_prior
    float prior[MOST_CLASSES]   # what naive Bayes adds to the score of every class
    float probabilities[EXPERTS * MOST_CLASSES]
    float mixed[MOST_CLASSES]   # zero behind the last class, up to a multiple of 4
    # where the records of the topmost model and of the leaf's are
    const int32_t* slots[2]
    bint is_complete[2]


cdef inline bint goes_right(const Site* site, const Reading* reading) noexcept nogil:
    return value_of(reading, site.column) > site.threshold


cdef class ModelLeaves:
    cdef Site* sites
    cdef int32_t capacity
    cdef ColumnScaler scaler
    cdef RowReader reader
    cdef SplitFinder finder
    cdef int32_t max_classes
    cdef size_t max_size
    cdef double mean_norm           # of the rows in parts
    cdef double rows
    cdef double learning_rate

    cdef size_t n_bytes(self) noexcept nogil
    cdef int reserve(self, int32_t capacity) except -1 nogil
    cdef int open(self, int32_t node, bint is_topmost) except -1 nogil
    cdef void clear(self, int32_t node) noexcept nogil
    cdef void free_state(self, int32_t node) noexcept nogil
    cdef void crowd(self, int32_t node) noexcept nogil
    cdef void hand_places(self, int32_t node, int32_t heir) noexcept nogil
    cdef int32_t predict(self, Reading* reading, int32_t top, int32_t leaf) noexcept nogil
    cdef bint predict_proba(self, Reading* reading, int32_t top, int32_t leaf,
                            double* out) noexcept nogil
    cdef void mix(self, Reading* reading, int32_t top, int32_t leaf,
                  Opinion* opinion) noexcept nogil
    cdef void respond(self, Reading* reading, const LeafModel* model, int whose,
                      Opinion* opinion) noexcept nogil
    cdef void add_scores(self, Reading* reading, const LeafModel* model, int whose,
                         Opinion* opinion, float* scores) noexcept nogil
    cdef int32_t place_of(self, int32_t top, int32_t label) noexcept nogil
    cdef int admit(self, int32_t top, int32_t label, int32_t n_labels) except -2 nogil
    cdef int add_class(self, int32_t top, int32_t label, int32_t n_labels) except -1 nogil
    cdef bint learn(self, Reading* reading, int32_t top, int32_t leaf, int32_t label,
                    int32_t n_labels, double weight) except -1 nogil
    cdef int train(self, Reading* reading, LeafModel* model, int whose, Opinion* opinion,
                   int32_t place, float square, double weight) except -1 nogil
    cdef int learn_bayes(self, Reading* reading, State* state, const Opinion* opinion,
                         int32_t place, double weight) except -1 nogil
    cdef const Candidate* found(self, int32_t leaf) noexcept nogil
    cdef int divide(self, int32_t top, int32_t node, int32_t left, int32_t right,
                    int32_t column, float threshold) except -1 nogil
    cdef dict state(self, int32_t n_nodes)
    cdef int take_state(self, dict state, list names, int32_t n_labels) except -1
