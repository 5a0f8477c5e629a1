"""Predicting with, training and dividing the models declared in softmax.pxd."""

from libc.float cimport FLT_MAX
from libc.math cimport log
from libc.stdint cimport int32_t
from libc.string cimport memset

from streamtree._core.kernels.additive cimport add_side, softmax_of, train_each
from streamtree._core.kernels.losses cimport argmax
from streamtree._core.leaves.additive cimport (
    MOST_CLASSES, RATES, UNMET, AdditiveModel, Parts, add_parts, clone_model, find_parts,
    free_model, make_parts, record_width, stride_for, widen_tables,
)
from streamtree._core.store.tables cimport (
    Table, table_count, table_insert, table_key, table_prefetch, table_reserve, table_thin,
)
from streamtree._core.stream.encoding cimport KNOTS

# the share of the parts that a model forgets at once
cdef double FORGOTTEN = 0.5


cdef void prefetch_parts(const AdditiveModel* model, const Parts* parts) noexcept nogil:
    """Ask for the memory of the records of linear parts that are to be looked for soon."""
    cdef Py_ssize_t i
    cdef int width = record_width(model.stride)
    if model.linear.capacity == 0:
        return
    for i in range(parts.row.n_linear):
        if model.linear.keys != NULL or parts.row.keys[i] < model.linear.capacity:
            table_prefetch(&model.linear, width, parts.row.keys[i])


cdef double side_score(const AdditiveModel* model, Parts* parts) noexcept nogil:
    """The score of a row in a model of two sides; leaves where the records are."""
    cdef Py_ssize_t n_linear = parts.row.n_linear
    cdef float score = 0.0
    find_parts(model, parts)
    if model.linear.capacity:
        score += add_side(
            <const float*> model.linear.records, parts.slots, parts.row.values, n_linear
        )
    if model.knots.capacity:
        score += add_side(
            <const float*> model.knots.records, &parts.slots[n_linear],
            &parts.row.values[n_linear], parts.n - n_linear,
        )
    return score


cdef bint step_side(
    AdditiveModel* model, Parts* parts, double slope, const StepSize* size
) except -1 nogil:
    """One step of a model of two sides, whose records `side_score` has looked for.

    Returns whether there was room for all of them.
    """
    cdef float slopes = <float> slope
    if slopes == 0.0:
        return True
    make_parts(model, parts)
    train(model, parts, &slopes, 1, size)
    return parts.is_complete


cdef void train(AdditiveModel* model, const Parts* parts, const float* slopes, int n_scores,
                const StepSize* size) noexcept nogil:
    cdef Py_ssize_t n_linear = parts.row.n_linear
    cdef size_t width = 2 * record_width(model.stride)
    # of the sums, behind the weights
    cdef int apart = max(model.stride, 1)
    train_each(
        <float*> model.linear.records, width, apart, parts.slots, parts.row.values,
        n_linear, size.rate, size.offset, size.decay, slopes, n_scores,
    )
    train_each(
        <float*> model.knots.records, width, apart, &parts.slots[n_linear],
        &parts.row.values[n_linear], parts.n - n_linear, size.rate, size.offset, size.decay, slopes,
        n_scores,
    )


cdef void label_shares(
    const AdditiveModel* model, Parts* parts, int32_t n_labels, float* shares
) noexcept nogil:
    """Write the probabilities of the labels; behind them zeros, up to a multiple of 4.

    There is to be room for MOST_CLASSES of them.
    """
    cdef float scores[MOST_CLASSES + 8]
    softmax_of(scores, score_labels(model, parts, n_labels, scores), shares)


cdef void label_logs(
    const AdditiveModel* model, Parts* parts, int32_t n_labels, float* logs
) noexcept nogil:
    """Write the logarithms of the probabilities; there is to be room for 8 more."""
    cdef float shares[MOST_CLASSES]
    cdef float offset
    cdef int32_t k, top
    softmax_of(logs, score_labels(model, parts, n_labels, logs), shares)
    top = argmax(shares, n_labels)
    offset = <float> log(shares[top]) - logs[top]
    for k in range(n_labels):
        logs[k] += offset


cdef int32_t score_labels(
    const AdditiveModel* model, Parts* parts, int32_t n_labels, float* scores
) noexcept nogil:
    """Write the scores of labels, and behind them UNMET up to a multiple of 4; returns that."""
    cdef int32_t k, n = (n_labels + 3) // 4 * 4
    # By eights: behind the last label there may be squares, and nobody looks at their sums.
    cdef int n_sums = (n + 7) // 8 * 8
    memset(scores, 0, n_sums * sizeof(float))
    find_parts(model, parts)
    add_parts(model, parts, scores, n_sums)
    for k in range(n_labels, n):
        scores[k] = UNMET
    return n


cdef bint step_labels(
    AdditiveModel* model, Parts* parts, int32_t n_labels, int32_t place, float* shares,
    double weight, const StepSize* size
) except -1 nogil:
    """One step towards a label; the shares are those of `label_shares`, and are changed.

    Returns whether there was room for all records.
    """
    cdef int32_t k
    shares[place] -= <float> 1.0
    for k in range(n_labels):
        shares[k] *= <float> weight
    make_parts(model, parts)
    train(model, parts, shares, n_labels, size)
    return parts.is_complete


cdef float learned(const double* record, int width, int32_t key) noexcept nogil:
    """The sum of all squared gradients, which is what was learned from a part."""
    cdef const float* numbers = <const float*> record
    cdef int k, stride = max(width - 1, 1)
    cdef float total = 0.0
    for k in range(stride, 2 * stride):
        total += numbers[k]
    return total


cdef float learned_or_bias(const double* record, int width, int32_t key) noexcept nogil:
    """The same, but a bias stays."""
    return learned(record, width, key) if key else <float> FLT_MAX


cdef void forget_least(AdditiveModel* model, int32_t n_columns) noexcept nogil:
    """Forget half of the parts, those from which least was learned, where it saves memory."""
    cdef int width = record_width(model.stride)
    table_thin(&model.linear, width, FORGOTTEN, n_columns + 1, learned_or_bias)
    table_thin(&model.knots, width, FORGOTTEN, KNOTS * n_columns, learned)


cdef void forget_label(AdditiveModel* model, int32_t place) noexcept nogil:
    """Make the weights of a label 0, as those of a new one."""
    clear_weights(&model.linear, model.stride, place)
    clear_weights(&model.knots, model.stride, place)


cdef void clear_weights(Table* table, int32_t stride, int32_t place) noexcept nogil:
    cdef size_t width = 2 * record_width(stride)
    cdef float* record
    cdef int32_t slot
    for slot in range(table.capacity):
        record = &(<float*> table.records)[slot * width]
        record[place] = record[stride + place] = <float> 0.0


cdef inline int32_t with_more(int32_t n_labels) noexcept nogil:
    """So many labels and a quarter more."""
    return n_labels + n_labels // 4


cdef int make_room(AdditiveModel* model, int32_t n_labels, int32_t n_columns) except -1 nogil:
    """Make room for so many labels; the new ones have weights of 0."""
    if n_labels <= model.stride:
        return 0
    return widen_tables(model, with_more(n_labels), n_columns, copy_weights)


cdef void copy_weights(
    const float* record, int32_t stride, float* grown, int32_t wide
) noexcept nogil:
    cdef int32_t k
    for k in range(stride):
        grown[k] = record[k]
        grown[wide + k] = record[stride + k]


cdef int take_mixture(
    AdditiveModel* model, const AdditiveModel* mixture, int32_t n_labels, int32_t n_columns
) except -1 nogil:
    """Make an empty model of what one of additive models at several rates says on average."""
    clone_model(model, mixture, NULL)
    return widen_tables(model, with_more(n_labels), n_columns, copy_mixture)


cdef void copy_mixture(
    const float* record, int32_t stride, float* grown, int32_t wide
) noexcept nogil:
    # a state may have room for more labels than it knows
    cdef int32_t k, n = min(2 if stride == 1 else stride, wide)
    cdef float squares = record[RATES * stride] / n
    cdef float low, high
    for k in range(n):
        if stride == 1:
            # the one score is the difference of two
            grown[k] = <float> ((0.25 if k else -0.25) * (record[0] + record[1]))
        else:
            low, high = record[k], record[stride + k]
            grown[k] = <float> (0.5 * (low + high)) if low > 0.5 * UNMET else <float> 0.0
        grown[wide + k] = squares


cdef int take_part(
    AdditiveModel* part, const AdditiveModel* model, const int32_t* places, int32_t n_labels,
    int32_t n_columns
) except -1 nogil:
    """Make an empty model of some labels of another: given these, it says the same.

    What speaks for none of them is left out.
    """
    part.stride = stride_for(with_more(n_labels))
    with gil:
        try:
            copy_part(&part.linear, part, &model.linear, model, places, n_labels, n_columns + 1)
            copy_part(
                &part.knots, part, &model.knots, model, places, n_labels, KNOTS * n_columns
            )
        except BaseException:
            free_model(part)
            raise
    return 0


cdef bint speaks_for(const float* record, const int32_t* places, int32_t n) noexcept nogil:
    cdef int32_t k
    for k in range(n):
        if record[places[k]] > 0.0:
            return True
    return False


cdef int copy_part(
    Table* target, const AdditiveModel* part, const Table* source, const AdditiveModel* model,
    const int32_t* places, int32_t n, int32_t universe
) except -1 nogil:
    cdef int32_t slot, place, key, k
    cdef size_t width = 2 * record_width(model.stride)
    cdef const float* record
    cdef float* copy
    cdef Py_ssize_t count = 0
    cdef bint is_linear = target == &part.linear
    for slot in range(source.capacity):
        count += speaks_for(&(<const float*> source.records)[slot * width], places, n)
    # the bias is always there
    count += is_linear
    table_reserve(target, record_width(part.stride), count, universe)
    for slot in range(source.capacity):
        key = table_key(source, slot)
        record = &(<const float*> source.records)[slot * width]
        if key < 0 or not (is_linear and key == 0 or speaks_for(record, places, n)):
            continue
        place = table_insert(target, record_width(part.stride), key, universe)
        copy = &(<float*> target.records)[2 * <size_t> place * record_width(part.stride)]
        for k in range(n):
            copy[k] = record[places[k]]
            copy[part.stride + k] = record[model.stride + places[k]]
    return 0


cdef int take_difference(
    AdditiveModel* test, const AdditiveModel* model, const int32_t* places, int32_t n_labels,
    int32_t cut, int32_t n_columns
) except -1 nogil:
    """Make an empty model of two sides of what the labels from `cut` on say on average, less what
    those before it say."""
    test.stride = 0
    with gil:
        try:
            copy_difference(
                &test.linear, &model.linear, model, places, n_labels, cut, n_columns + 1
            )
            copy_difference(
                &test.knots, &model.knots, model, places, n_labels, cut, KNOTS * n_columns
            )
        except BaseException:
            free_model(test)
            raise
    return 0


cdef double difference(
    const float* record, const int32_t* places, int32_t n, int32_t cut
) noexcept nogil:
    cdef double left = 0.0, right = 0.0
    cdef int32_t k
    for k in range(cut):
        left += record[places[k]]
    for k in range(cut, n):
        right += record[places[k]]
    return right / (n - cut) - left / cut


cdef int copy_difference(
    Table* target, const Table* source, const AdditiveModel* model, const int32_t* places,
    int32_t n, int32_t cut, int32_t universe
) except -1 nogil:
    cdef int32_t slot, place, key
    cdef size_t width = 2 * record_width(model.stride)
    cdef float weight
    if source.capacity == 0:
        return 0
    table_reserve(
        target, record_width(0), table_count(source, record_width(model.stride)), universe
    )
    for slot in range(source.capacity):
        key = table_key(source, slot)
        if key < 0:
            continue
        weight = <float> difference(
            &(<const float*> source.records)[slot * width], places, n, cut
        )
        if weight != 0.0:
            place = table_insert(target, record_width(0), key, universe)
            (<float*> target.records)[2 * <size_t> place * record_width(0)] = weight
    return 0
