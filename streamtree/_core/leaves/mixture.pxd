from libc.stdint cimport int32_t

from streamtree._core.leaves.additive cimport AdditiveModel, Parts
from streamtree._core.leaves.leaf cimport LeafModels
from streamtree._core.leaves.naivebayes cimport NaiveBayes
from streamtree._core.store.tables cimport Table
from streamtree._core.stream.row cimport Example, Row, Scratch


cpdef enum:
    EXPERTS = 4         # two rates of the common model, two of the leaf's own


cdef struct ModelState:
    AdditiveModel model
    float losses[EXPERTS]       # progressive log loss, fading
    float shares[EXPERTS]       # of the experts in what is said
    ModelState* top             # the common model of leaves that went on from one; NULL: none
    int32_t n_users             # of a common model: leaves that have it
    # the rest is that of the common model, where there is one
    NaiveBayes* bayes           # as long as it is of use
    int32_t* classes            # by place
    int32_t n_classes
    int32_t classes_capacity
    # classes that came when all places were taken: they share the last one
    Table rest                  # class -> weight
    double rest_weight
    int32_t rest_class          # the most frequent one


cdef struct ExpertOutputs:
    # what the experts say of a row
    int32_t node                # whose they are
    int first                   # the first expert that takes part
    int32_t n_classes
    bint has_prior
    int32_t place               # of the class that was learned, -1 before
    int32_t apart               # numbers of each kind, of which the first are those of the classes
    float* prior                # what naive Bayes adds to the score of every class
    float* mixed                # zero behind the last class, up to a multiple of 4
    float* probabilities        # by expert
    Parts common                # where the records of the common model are,
    Parts own                   # of the leaf's own,
    Parts counts                # and of naive Bayes


cdef class MixtureLeaves(LeafModels):
    cdef ModelState** states
    cdef int32_t capacity
    cdef bint has_knots
    cdef bint has_rest          # classes that are too many share the last place
    cdef int32_t max_classes
    cdef double learning_rate
    cdef double mean_norm       # of the rows in parts
    cdef double rows

    cdef const ModelState* common(self) noexcept nogil
    cdef ExpertOutputs* outputs(self, int32_t node, const Row* row, Scratch* scratch) noexcept nogil
    cdef void look_at(self, Parts* parts, const Row* row, Scratch* scratch, int i) noexcept nogil
    cdef void mix(self, int32_t node, ExpertOutputs* outputs) noexcept nogil
    cdef void respond(self, const AdditiveModel* model, Parts* parts, ExpertOutputs* outputs,
                      float* p) noexcept nogil
    cdef void say(self, const ModelState* top, const ExpertOutputs* outputs, int32_t* label,
                  double* shares) noexcept nogil
    cdef tuple expert_parts(self, const AdditiveModel* model, Parts* parts, object prior,
                            const float* shares, int32_t place)
    cdef int place_of(self, ModelState* top, int32_t label) except -2 nogil
    cdef int count_rest(self, ModelState* top, const Example* example) except -1 nogil
    cdef int train(self, AdditiveModel* model, Parts* parts, ExpertOutputs* outputs, float* p,
                   float square, double weight) except -1 nogil
    cdef int learn_bayes(self, ModelState* top, ExpertOutputs* outputs,
                         double weight) except -1 nogil
