"""Naive Bayes over the parts of rows: where the experts of a leaf start from.

A part says of a class how often it was there, given the class: a knot by its weight, and the
linear part of a column that does not vary (a word, a category, a bit) by its presence. The log
of the product is what an expert adds to its scores, times a factor that is learned: columns
that depend on each other overstate what they know.

The counts are kept like the weights of an additive model (see additive.pxd), with other records:
the classes' logs of 1 + count / PRIOR_COUNT, their counts, and nothing behind. Those of the bias
count the examples of the classes.
"""

from libc.stdint cimport int32_t

from streamtree._core.leaves.additive cimport AdditiveModel, Parts


cdef struct NaiveBayes:
    AdditiveModel counts
    float trust         # the factor
    float squares       # of its slopes, fading
    float rows          # that were counted
    double weight       # of all of them


cdef bint is_of_use(const NaiveBayes* bayes) noexcept nogil
cdef NaiveBayes* new_bayes() except NULL nogil
cdef void free_bayes(NaiveBayes* bayes) noexcept nogil
cdef void write_prior(
    const NaiveBayes* bayes, Parts* parts, int32_t n_classes, float* prior
) noexcept nogil
cdef object prior_parts(const NaiveBayes* bayes, Parts* parts, int32_t n_classes)
cdef int count_row(NaiveBayes* bayes, Parts* parts, int32_t place, double weight) except -1 nogil
cdef void learn_trust(NaiveBayes* bayes, float slope, int32_t n_classes) noexcept nogil
cdef dict exported_bayes(const NaiveBayes* bayes)
cdef int import_bayes(NaiveBayes* bayes, int32_t n_columns, dict state) except -1
