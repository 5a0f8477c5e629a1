"""Counting what rows of a class look like, and what follows for a row, see naivebayes.pxd."""

from libc.math cimport sqrtf
from libc.stdint cimport int32_t
from libc.string cimport memset

from streamtree._core.kernels.additive cimport count_values
from streamtree._core.leaves.additive cimport (
    ROOM_PARTS, AdditiveModel, Parts, add_table, exported_model, find_parts,
    free_model, import_model, make_parts, model_bytes, next_run, part_records, record_width,
    widen_tables,
)
from streamtree._core.store.budget cimport counted_zeros, give_back, has_room
from streamtree._core.store.tables cimport table_find

import numpy as np


cdef enum:
    WIDER = 4           # times as much as now: what counts of more classes may take

# of a part and a class that were never seen together
cdef float PRIOR_COUNT = 0.1
# The trust of the first rows; counts of fewer rows than this are trusted less.
cdef float FIRST_TRUST = 0.3
cdef float ENOUGH_ROWS = 100.0
# Trust moves by relative steps, for its scale depends on the number of columns. It shrinks by
# itself, after so many rows, and so many more for every class, twice as fast and ever faster: in
# the long run weights that learn do without counts that are not quite right.
cdef float TRUST_RATE = 0.1
cdef float TRUST_LOSS = 0.001
cdef float MANY_ROWS = 10000.0
cdef float ROWS_OF_CLASS = 500.0
cdef float SQUARES_KEPT = 0.999
cdef float LEAST_TRUST = 1e-3


cdef inline int32_t n_logs(const AdditiveModel* counts) noexcept nogil:
    """How many logs a record begins with; as many counts follow."""
    return 2 if counts.stride == 1 else counts.stride


cdef bint is_of_use(const NaiveBayes* bayes) noexcept nogil:
    return bayes.trust > LEAST_TRUST


cdef NaiveBayes* new_bayes() except NULL nogil:
    cdef NaiveBayes* bayes = <NaiveBayes*> counted_zeros(sizeof(NaiveBayes))
    bayes.counts.stride = 1
    bayes.trust = FIRST_TRUST
    return bayes


cdef void free_bayes(NaiveBayes* bayes) noexcept nogil:
    if bayes != NULL:
        free_model(&bayes.counts)
        give_back(bayes)


cdef const float* bias_logs(const AdditiveModel* counts) noexcept nogil:
    """The logs of the classes' examples, NULL if there are none."""
    cdef int32_t slot = table_find(&counts.linear, 0)
    if counts.linear.capacity == 0 or slot < 0:
        return NULL
    return &(<const float*> counts.linear.records)[2 * <size_t> slot * record_width(counts.stride)]


cdef void write_prior(
    const NaiveBayes* bayes, Parts* parts, int32_t n_classes, float* prior
) noexcept nogil:
    """Write what is added to the score of every class, 0 for the most likely.

    There is to be room for a multiple of 8 numbers, 2 at least.
    """
    cdef const AdditiveModel* counts = &bayes.counts
    cdef const float* bias = bias_logs(counts)
    cdef float most = 0.0, least = 0.0, trust, times
    cdef int32_t k, n = n_logs(counts)
    # By eights: there may be counts behind the last class, and nobody looks at their sums.
    cdef int n_sums = (n + 7) // 8 * 8
    cdef bint is_first = True
    memset(prior, 0, max(n_classes, n_sums) * sizeof(float))
    if bias == NULL:
        return
    n = min(n, n_classes)
    find_parts(counts, parts)
    if parts.row.n_present > 0:
        add_table(
            &counts.linear, counts.stride, &parts.slots[1], &parts.row.presence[1],
            parts.row.n_linear - 1, prior, n_sums,
        )
    add_table(
        &counts.knots, counts.stride, &parts.slots[parts.row.n_linear],
        &parts.row.values[parts.row.n_linear], parts.n - parts.row.n_linear, prior, n_sums,
    )
    # a class is as likely as it is frequent, and every column is divided by its examples
    times = <float> (1 - parts.row.n_present - (parts.n - parts.row.n_linear) // 2)
    for k in range(n):
        if bias[k] > 0.0:
            prior[k] += times * bias[k]
            most = prior[k] if is_first else max(most, prior[k])
            least = prior[k] if is_first else min(least, prior[k])
            is_first = False
    trust = bayes.trust * bayes.rows / (bayes.rows + ENOUGH_ROWS)
    for k in range(n_classes):
        prior[k] = trust * ((prior[k] if k < n and bias[k] > 0.0 else least) - most)


cdef object prior_parts(const NaiveBayes* bayes, Parts* parts, int32_t n_classes):
    """What every part of a row says of the classes in `write_prior`: (n parts, n_classes)."""
    cdef const AdditiveModel* counts = &bayes.counts
    cdef Py_ssize_t i
    cdef int32_t n = min(n_logs(counts), n_classes)
    scores = np.zeros((parts.n, n_classes))
    if bias_logs(counts) == NULL:
        return scores
    find_parts(counts, parts)
    logs = part_records(counts, parts, n)
    # a column that is counted by one part or two is divided by the examples of the class once
    for i in range(1, parts.n):
        if i < parts.row.n_linear:
            logs[i] = (logs[i] - logs[0]) * parts.row.presence[i]
        else:
            logs[i] = (logs[i] - logs[0]) * parts.row.values[i]
    scores[:, :n] = logs
    scores[:, n:] = logs.min(axis=1, keepdims=True)
    return scores * (bayes.trust * bayes.rows / (bayes.rows + ENOUGH_ROWS))


cdef int count_row(NaiveBayes* bayes, Parts* parts, int32_t place, double weight) except -1 nogil:
    """Count an example of a class."""
    cdef AdditiveModel* counts = &bayes.counts
    cdef Py_ssize_t n_linear = parts.row.n_linear, start = 0, end = 0
    cdef size_t width
    cdef int32_t apart
    cdef float share
    if place >= n_logs(counts):
        if not has_room(WIDER * model_bytes(counts)):
            return 0
        widen_tables(counts, place + 1 + place // ROOM_PARTS, parts.n_columns, copy_counts)
    width = 2 * record_width(counts.stride)
    apart = n_logs(counts)
    find_parts(counts, parts)
    make_parts(counts, parts)
    bayes.rows += 1.0
    bayes.weight += weight
    # relative to the mean weight: another scale of the weights is to count the same
    share = <float> (weight * bayes.rows / bayes.weight)
    while next_run(parts, &start, &end):
        if start >= n_linear:
            count_values(
                <float*> counts.knots.records, width, place, apart, &parts.slots[start],
                &parts.row.values[start], parts.steps, end - start, share,
                <float> 1.0 / PRIOR_COUNT,
            )
        elif start == 0 or parts.row.n_present > 0:
            count_values(
                <float*> counts.linear.records, width, place, apart, &parts.slots[start],
                &parts.row.presence[start], parts.steps,
                end - start if parts.row.n_present > 0 else 1, share, <float> 1.0 / PRIOR_COUNT,
            )
    return 0


cdef void learn_trust(NaiveBayes* bayes, float slope, int32_t n_classes) noexcept nogil:
    """One step down a slope of the loss, that along what `write_prior` wrote."""
    cdef float age = bayes.rows / (MANY_ROWS + ROWS_OF_CLASS * n_classes)
    cdef float loss = TRUST_LOSS * (<float> 1.0 + age * age)
    slope /= bayes.trust
    bayes.squares = SQUARES_KEPT * bayes.squares + slope * slope
    loss += TRUST_RATE * slope / sqrtf(bayes.squares + <float> 1.0)
    bayes.trust *= max(<float> 1.0 - loss, <float> 0.5)


cdef void copy_counts(
    const float* record, int32_t stride, float* grown, int32_t wide
) noexcept nogil:
    cdef int32_t k, n = 2 if stride == 1 else stride
    for k in range(n):
        grown[k] = record[k]
        grown[wide + k] = record[n + k]


# ----------------------------------------------------------------------------------- state


cdef dict exported_bayes(const NaiveBayes* bayes):
    return {
        **exported_model(&bayes.counts), "trust": bayes.trust, "squares": bayes.squares,
        "rows": bayes.rows, "weight": bayes.weight,
    }


cdef int import_bayes(NaiveBayes* bayes, int32_t n_columns, dict state) except -1:
    import_model(&bayes.counts, n_columns, state)
    bayes.trust = state["trust"]
    bayes.squares = state["squares"]
    bayes.rows = state["rows"]
    bayes.weight = state["weight"]
    return 0
