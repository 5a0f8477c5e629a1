"""Counting what rows of a class look like, and what follows for a row, see naivebayes.pxd."""

from libc.math cimport sqrtf
from libc.stdint cimport int32_t
from libc.stdlib cimport free
from libc.string cimport memset

from streamtree._core.additive cimport (
    KNOTS, MOST_CLASSES, LeafModel, find_parts, free_model, make_parts, record_width,
)
from streamtree._core.readings cimport Reading
from streamtree._core.tables cimport Table, table_find, table_insert, table_reserve
from streamtree._core.types cimport Parts

cdef extern from "softmax.h":
    void add_scores "streamtree_add_scores"(
        const float* records, size_t width, const int32_t* slots, const float* values,
        Py_ssize_t n, float* scores, int n_scores
    ) noexcept nogil
    void add_two_scores "streamtree_add_two_scores"(
        const float* records, const int32_t* slots, const float* values, Py_ssize_t n,
        float* scores
    ) noexcept nogil
    void count_values "streamtree_count"(
        float* records, size_t width, int place, int apart, const int32_t* slots,
        const float* values, float* logs, Py_ssize_t n, float weight, float scale
    ) noexcept nogil

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


cdef inline int32_t n_logs(const LeafModel* counts) noexcept nogil:
    """How many logs a record begins with; as many counts follow."""
    return 2 if counts.stride == 1 else counts.stride


cdef bint is_of_use(const NaiveBayes* bayes) noexcept nogil:
    return bayes.trust > LEAST_TRUST


cdef void begin_bayes(NaiveBayes* bayes) noexcept nogil:
    memset(bayes, 0, sizeof(NaiveBayes))
    bayes.counts.stride = 1
    bayes.trust = FIRST_TRUST


cdef void free_bayes(NaiveBayes* bayes) noexcept nogil:
    if bayes != NULL:
        free_model(&bayes.counts)
        free(bayes)


cdef void add_logs(
    const Table* table, int32_t stride, const int32_t* slots, const float* values, Py_ssize_t n,
    float* sums
) noexcept nogil:
    cdef const float* records = <const float*> table.records
    if table.capacity == 0:
        return
    if stride == 1:
        add_two_scores(records, slots, values, n, sums)
    else:
        # By eights: there may be counts behind the last class, and nobody looks at their sums.
        add_scores(records, 2 * record_width(stride), slots, values, n, sums, (stride + 7) // 8 * 8)


cdef const float* bias_logs(const LeafModel* counts) noexcept nogil:
    """The logs of the classes' examples, NULL if there are none."""
    cdef int32_t slot = table_find(&counts.linear, 0)
    if counts.linear.capacity == 0 or slot < 0:
        return NULL
    return &(<const float*> counts.linear.records)[2 * <size_t> slot * record_width(counts.stride)]


cdef void write_prior(
    const NaiveBayes* bayes, const Reading* reading, int32_t n_columns, int32_t n_classes,
    float* prior
) noexcept nogil:
    """Write what is added to the score of every class (two at least), 0 for the most likely."""
    cdef const Parts* parts = reading.row.parts
    cdef const LeafModel* counts = &bayes.counts
    cdef const float* bias = bias_logs(counts)
    cdef const int32_t* slots
    cdef Py_ssize_t n_linear = reading.n_linear
    cdef float[MOST_CLASSES + 8] sums
    cdef float most = 0.0, least = 0.0, trust, times
    cdef int32_t k, n = min(n_classes, n_logs(counts))
    cdef bint is_complete, is_first = True
    memset(prior, 0, max(n_classes, 2) * sizeof(float))
    if bias == NULL:
        return
    memset(sums, 0, (n_logs(counts) + 7) // 8 * 8 * sizeof(float))
    slots = find_parts(
        counts, parts, n_linear, reading.n, n_columns, parts.bayes_slots, &is_complete
    )
    if reading.n_present > 0:
        add_logs(
            &counts.linear, counts.stride, &slots[1], &parts.presence[1], n_linear - 1, sums
        )
    add_logs(
        &counts.knots, counts.stride, &slots[n_linear], &parts.values[n_linear],
        reading.n - n_linear, sums,
    )
    # a class is as likely as it is frequent, and every column is divided by its examples
    times = <float> (1 - reading.n_present - (reading.n - n_linear) // 2)
    for k in range(n):
        if bias[k] > 0.0:
            sums[k] += times * bias[k]
            most = sums[k] if is_first else max(most, sums[k])
            least = sums[k] if is_first else min(least, sums[k])
            is_first = False
    trust = bayes.trust * bayes.rows / (bayes.rows + ENOUGH_ROWS)
    for k in range(n_classes):
        prior[k] = trust * ((sums[k] if k < n and bias[k] > 0.0 else least) - most)


cdef int count_row(
    NaiveBayes* bayes, const Reading* reading, int32_t n_columns, int32_t place, float weight
) except -1 nogil:
    """Count an example of a class."""
    cdef const Parts* parts = reading.row.parts
    cdef LeafModel* counts = &bayes.counts
    cdef const int32_t* slots
    cdef Py_ssize_t n_linear = reading.n_linear, n = reading.n
    cdef size_t width
    cdef int32_t apart
    cdef bint is_complete
    if place >= n_logs(counts):
        widen(counts, min((place + place // 4 + 4) // 4 * 4, MOST_CLASSES), n_columns)
    width = 2 * record_width(counts.stride)
    apart = n_logs(counts)
    slots = find_parts(counts, parts, n_linear, n, n_columns, parts.bayes_slots, &is_complete)
    if not is_complete:
        make_parts(counts, parts, n_linear, n, n_columns, parts.bayes_slots)
        slots = parts.bayes_slots
    parts.presence[0] = 1.0
    count_values(
        <float*> counts.linear.records, width, place, apart, slots, parts.presence, parts.steps,
        n_linear if reading.n_present > 0 else 1, weight, <float> 1.0 / PRIOR_COUNT,
    )
    count_values(
        <float*> counts.knots.records, width, place, apart, &slots[n_linear],
        &parts.values[n_linear], parts.steps, n - n_linear, weight, <float> 1.0 / PRIOR_COUNT,
    )
    bayes.rows += 1.0
    return 0


cdef void learn_trust(NaiveBayes* bayes, float slope, int32_t n_classes) noexcept nogil:
    """One step down a slope of the loss, that along what `write_prior` wrote."""
    cdef float age = bayes.rows / (MANY_ROWS + ROWS_OF_CLASS * n_classes)
    cdef float loss = TRUST_LOSS * (<float> 1.0 + age * age)
    slope /= bayes.trust
    bayes.squares = SQUARES_KEPT * bayes.squares + slope * slope
    loss += TRUST_RATE * slope / sqrtf(bayes.squares + <float> 1.0)
    bayes.trust *= max(<float> 1.0 - loss, <float> 0.5)


cdef int widen(LeafModel* counts, int32_t stride, int32_t n_columns) except -1 nogil:
    """Make room for more classes."""
    cdef LeafModel wide
    memset(&wide, 0, sizeof(LeafModel))
    wide.stride = stride
    with gil:
        try:
            copy_wide(counts, &counts.linear, &wide, &wide.linear, n_columns + 1)
            copy_wide(counts, &counts.knots, &wide, &wide.knots, KNOTS * n_columns)
        except BaseException:
            free_model(&wide)
            raise
    free_model(counts)
    counts[0] = wide
    return 0


cdef int copy_wide(
    const LeafModel* counts, const Table* source, const LeafModel* wide, Table* target,
    int32_t universe
) except -1 nogil:
    cdef int32_t slot, place, key, k, n = n_logs(counts)
    cdef const float* record
    cdef float* grown
    if source.capacity == 0:
        return 0
    table_reserve(target, record_width(wide.stride), max(source.size, 1), universe)
    for slot in range(source.capacity):
        key = slot if source.keys == NULL else source.keys[slot]
        if key < 0 or key >= universe:
            continue
        record = &(<const float*> source.records)[2 * <size_t> slot * record_width(counts.stride)]
        place = table_insert(target, record_width(wide.stride), key, universe)
        grown = &(<float*> target.records)[2 * <size_t> place * record_width(wide.stride)]
        for k in range(n):
            grown[k] = record[k]
            grown[wide.stride + k] = record[n + k]
    return 0
