"""Making, growing and freeing the models declared in additive.pxd."""

from libc.math cimport NAN
from libc.stdint cimport int32_t
from libc.stdlib cimport free
from libc.string cimport memcpy, memset

from streamtree._core.kernels.additive cimport add_scores, add_two_scores, train_records
from streamtree._core.store.budget cimport counted_zeros, give_back
from streamtree._core.store.tables cimport (
    DENSE_FACTOR, Table, TableExport, import_table, table_bytes, table_clone, table_count,
    table_find, table_free, table_insert, table_key, table_locate, table_locate_all, table_reserve,
    table_sorted_slots,
)
from streamtree._core.stream.encoding cimport FINE_KNOTS, KNOTS, put_fine_knots
from streamtree._core.stream.row cimport MOST_FINE, EncodedRow, FineKnots
from streamtree._core.stream.scales cimport ColumnScale, n_shown

import numpy as np


cdef enum:
    LEAST_SHOWN = 4         # values of a column that is not forgotten where memory is short

cpdef enum:
    FINE_KEYS = FINE_KNOTS * MOST_FINE


cdef void add_table(
    const Table* table, int32_t stride, const int32_t* slots, const float* values, Py_ssize_t n,
    float* scores, int n_scores
) noexcept nogil:
    """Add to the scores what n parts say; a slot of -1 says nothing.

    The scores are two where the stride is 1, else a multiple of 8.
    """
    cdef const float* records = <const float*> table.records
    if table.capacity == 0:
        return
    if stride == 1:
        add_two_scores(records, slots, values, n, scores)
    else:
        add_scores(records, 2 * record_width(stride), slots, values, n, scores, n_scores)


cdef void add_parts(
    const AdditiveModel* model, const Parts* parts, float* scores, int n_scores
) noexcept nogil:
    """Add the scores of a row, see `add_table` for how many: those of all rates, or of labels."""
    cdef Py_ssize_t n_linear = parts.row.n_linear
    add_table(
        &model.linear, model.stride, parts.slots, parts.row.values, n_linear, scores, n_scores
    )
    add_table(
        &model.knots, model.stride, &parts.slots[n_linear], &parts.row.values[n_linear],
        parts.n - n_linear, scores, n_scores,
    )
    if parts.fine != NULL and parts.fine.n:
        add_table(
            &model.fine.knots, model.stride, parts.fine.slots, parts.fine.values, parts.fine.n,
            scores, n_scores,
        )


cdef void train_parts(AdditiveModel* model, const Parts* parts,
                      const AdditiveStep* step) noexcept nogil:
    """One AdaGrad step of fading memory, of the parts that have records.

    The classes share the sum of squares: then a part takes one root, not one for every class.
    """
    cdef size_t width = 2 * record_width(model.stride)
    cdef Py_ssize_t start = 0, end = 0
    cdef const Table* table
    while next_run(parts, &start, &end):
        table = &model.linear if start < parts.row.n_linear else &model.knots
        train_records(
            <float*> table.records, width, &parts.slots[start], &parts.row.values[start],
            parts.steps, end - start, step.square, step.offset, step.decay, step.slopes,
            RATES * model.stride,
        )
    if parts.fine != NULL and parts.fine.n:
        train_records(
            <float*> model.fine.knots.records, width, parts.fine.slots, parts.fine.values,
            parts.steps, parts.fine.n, step.square, step.offset, step.decay, step.slopes,
            RATES * model.stride,
        )


cdef bint next_run(const Parts* parts, Py_ssize_t* start, Py_ssize_t* end) noexcept nogil:
    """The next parts side by side, of one table, that all have records; False after the last.

    They are all of a table, unless the model found no room for some.
    """
    cdef Py_ssize_t i = end[0], n
    while i < parts.n:
        n = parts.row.n_linear if i < parts.row.n_linear else parts.n
        start[0], end[0] = i, n
        if parts.is_complete:
            return True
        while i < n and parts.slots[i] < 0:
            i += 1
        start[0] = i
        while i < n and parts.slots[i] >= 0:
            i += 1
        end[0] = i
        if end[0] > start[0]:
            return True
    return False


cdef void find_parts(const AdditiveModel* model, Parts* parts) noexcept nogil:
    """Find where the records of a row's parts are."""
    cdef Py_ssize_t n_linear = parts.row.n_linear
    if parts.fine != NULL:
        find_fine(model.fine, parts.row, parts.fine)
    parts.is_complete = (
        model.linear.keys == NULL and model.linear.capacity > parts.n_columns
        and (parts.n == n_linear or (
            model.knots.keys == NULL and model.knots.capacity >= KNOTS * parts.n_columns
        ))
    )
    if parts.is_complete:
        parts.slots = parts.row.keys
        return
    parts.slots = parts.room
    parts.is_complete = 0 == (
        table_locate(&model.linear, parts.row.keys, n_linear, parts.room)
        + table_locate(
            &model.knots, &parts.row.keys[n_linear], parts.n - n_linear, &parts.room[n_linear]
        )
    )


cdef void find_fine(const FineRecords* records, const EncodedRow* row,
                    FineKnots* fine) noexcept nogil:
    """Find the fine knots that a row is between, and where their records are."""
    cdef double value
    cdef int32_t i
    fine.n = 0
    if records == NULL:
        return
    for i in range(records.n):
        value = value_in(row, records.columns[i])
        if value == value:
            put_fine_knots(value, i, &fine.keys[fine.n], &fine.values[fine.n])
            fine.n += 2
    table_locate(&records.knots, fine.keys, fine.n, fine.slots)


cdef double value_in(const EncodedRow* row, int32_t column) noexcept nogil:
    """The standardised value of a column, NaN where there is none."""
    cdef Py_ssize_t i
    if row.by_column != NULL:
        return row.by_column[column]
    i = linear_part(row, column)
    return row.values[i] if i else NAN


cdef Py_ssize_t linear_part(const EncodedRow* row, int32_t column) noexcept nogil:
    """Where the linear part of a column is; 0, where the bias is, if the row does not have it."""
    cdef Py_ssize_t i
    for i in range(1, row.n_linear):
        if row.keys[i] == column + 1:
            return i
    return 0


cdef int make_fine(AdditiveModel* model, FineKnots* fine) except -1 nogil:
    """Make the records of fine knots; those that find no room do not take part."""
    cdef Py_ssize_t i, n = 0
    for i in range(fine.n):
        n += fine.slots[i] >= 0
    if n == fine.n:
        return 0
    table_locate_all(
        &model.fine.knots, record_width(model.stride), fine.keys, fine.n, FINE_KEYS, DENSE_FACTOR,
        fine.slots,
    )
    n = 0
    for i in range(fine.n):
        if fine.slots[i] >= 0:
            fine.keys[n], fine.slots[n], fine.values[n] = (
                fine.keys[i], fine.slots[i], fine.values[i]
            )
            n += 1
    fine.n = n
    return 0


cdef int make_parts(AdditiveModel* model, Parts* parts) except -1 nogil:
    """Find the records of a row's parts, and make those that are not there."""
    cdef int width = record_width(model.stride)
    cdef Py_ssize_t n_linear = parts.row.n_linear
    cdef Py_ssize_t n_absent
    if parts.fine != NULL:
        make_fine(model, parts.fine)
    if parts.is_complete:
        return 0
    n_absent = table_locate_all(
        &model.linear, width, parts.row.keys, n_linear, parts.n_columns + 1, DENSE_FACTOR,
        parts.room,
    )
    if parts.n > n_linear:
        n_absent += table_locate_all(
            &model.knots, width, &parts.row.keys[n_linear], parts.n - n_linear,
            KNOTS * parts.n_columns, DENSE_FACTOR, &parts.room[n_linear],
        )
    parts.slots = parts.room
    parts.is_complete = n_absent == 0
    return 0


cdef object part_records(const AdditiveModel* model, const Parts* parts, int width):
    """The first numbers of the records of a row's parts, (n parts, width); 0 for no record."""
    cdef Py_ssize_t i, j, record_size = 2 * record_width(model.stride)
    cdef const Table* table
    found = np.zeros((parts.n, width))
    cdef double[:, ::1] out = found
    for i in range(parts.n):
        table = &model.linear if i < parts.row.n_linear else &model.knots
        if table.capacity == 0 or parts.slots[i] < 0:
            continue
        for j in range(width):
            out[i, j] = (<const float*> table.records)[parts.slots[i] * record_size + j]
    return found


cdef int add_fine_records(const AdditiveModel* model, const Parts* parts,
                          object scores) except -1:
    """Add what fine knots say to the scores (n parts, width) of their columns' linear parts."""
    cdef double[:, ::1] out = scores
    cdef Py_ssize_t k, i, j, record_size = 2 * record_width(model.stride)
    cdef const FineKnots* fine = parts.fine
    cdef const float* record
    for k in range(fine.n if fine != NULL else 0):
        if fine.slots[k] < 0:
            continue
        i = linear_part(parts.row, model.fine.columns[fine.keys[k] // FINE_KNOTS])
        record = &(<const float*> model.fine.knots.records)[fine.slots[k] * record_size]
        for j in range(out.shape[1]):
            out[i, j] += fine.values[k] * record[j]
    return 0


cdef tuple by_column(const Parts* parts, object scores):
    """The scores (n parts, width) of the bias; the columns, and the scores of each of them."""
    cdef Py_ssize_t i
    columns = np.empty(parts.n - 1, dtype=np.int32)
    for i in range(1, parts.n):
        columns[i - 1] = (
            parts.row.keys[i] - 1 if i < parts.row.n_linear else parts.row.keys[i] // KNOTS
        )
    columns, places = np.unique(columns, return_inverse=True)
    sums = np.zeros((len(columns), scores.shape[1]))
    np.add.at(sums, places, scores[1:])
    return scores[0], columns, sums


cdef bint has_met(const AdditiveModel* model, int32_t place) noexcept nogil:
    """Whether a class takes part; two classes, when there are no more, always do."""
    cdef int32_t slot
    if model.stride == 1:
        return place < 2
    if place >= model.stride:
        return False
    slot = table_find(&model.linear, 0)
    if slot < 0:
        # the table has let go of a bias that was zero for all
        return True
    return (<const float*> model.linear.records)[
        2 * <size_t> slot * record_width(model.stride) + place
    ] > 0.5 * UNMET


cdef int meet(
    AdditiveModel* model, int32_t place, int32_t n_classes, int32_t n_columns
) except -1 nogil:
    """Let a class of n_classes take part from now on. Slots found before may have moved."""
    cdef int32_t slot
    cdef float* bias
    cdef int rate
    if n_classes > 2 and place >= (model.stride if model.stride > 1 else 0):
        widen(model, n_classes, n_columns)
    if model.stride == 1:
        return 0
    slot = table_insert(&model.linear, record_width(model.stride), 0, n_columns + 1)
    bias = &(<float*> model.linear.records)[2 * <size_t> slot * record_width(model.stride)]
    for rate in range(RATES):
        if bias[rate * model.stride + place] <= 0.5 * UNMET:
            bias[rate * model.stride + place] = 0.0
    return 0


cdef int widen(AdditiveModel* model, int32_t n_classes, int32_t n_columns) except -1 nogil:
    """Make room for so many classes and some more, all of the new ones unmet."""
    cdef int32_t slot, k, first = 2 if model.stride == 1 else model.stride
    cdef float* bias
    cdef int rate
    widen_tables(model, n_classes + n_classes // ROOM_PARTS, n_columns, copy_weights)
    slot = table_insert(&model.linear, record_width(model.stride), 0, n_columns + 1)
    bias = &(<float*> model.linear.records)[2 * <size_t> slot * record_width(model.stride)]
    for rate in range(RATES):
        for k in range(first, model.stride):
            bias[rate * model.stride + k] = UNMET
    return 0


cdef void copy_weights(
    const float* record, int32_t stride, float* grown, int32_t wide
) noexcept nogil:
    cdef int32_t k
    cdef int rate
    for rate in range(RATES):
        if stride == 1:
            # the one score was the difference of two
            grown[rate * wide] = -0.5 * record[rate]
            grown[rate * wide + 1] = 0.5 * record[rate]
            continue
        for k in range(stride):
            grown[rate * wide + k] = record[rate * stride + k]
    grown[RATES * wide] = record[RATES * stride] * (2.0 if stride == 1 else 1.0)


cdef int widen_tables(
    AdditiveModel* model, int32_t n_classes, int32_t n_columns, CopyRecord copy
) except -1 nogil:
    """Make room for so many classes; what is new in a record is zero."""
    cdef AdditiveModel wide
    memset(&wide, 0, sizeof(AdditiveModel))
    wide.stride = stride_for(n_classes)
    with gil:
        try:
            copy_table(
                &model.linear, model.stride, &wide.linear, wide.stride, n_columns + 1, copy
            )
            copy_table(
                &model.knots, model.stride, &wide.knots, wide.stride, KNOTS * n_columns, copy
            )
            if model.fine != NULL:
                wide.fine = new_fine(model.fine)
                copy_table(
                    &model.fine.knots, model.stride, &wide.fine.knots, wide.stride, FINE_KEYS,
                    copy,
                )
            # so that a bias finds room and nothing can fail any more
            table_insert(&wide.linear, record_width(wide.stride), 0, n_columns + 1)
        except BaseException:
            free_model(&wide)
            raise
    free_model(model)
    model[0] = wide
    return 0


cdef int copy_table(
    const Table* source, int32_t stride, Table* target, int32_t wide, int32_t universe,
    CopyRecord copy
) except -1 nogil:
    cdef int32_t slot, place, key, i
    cdef const float* record
    cdef bint is_empty
    if source.capacity == 0:
        return 0
    # as many as live: the size of a dense table depends on how it came about
    table_reserve(
        target, record_width(wide), max(table_count(source, record_width(stride)), 1), universe
    )
    for slot in range(source.capacity):
        key = table_key(source, slot)
        record = &(<const float*> source.records)[2 * <size_t> slot * record_width(stride)]
        is_empty = True
        for i in range(2 * record_width(stride) if key >= 0 else 0):
            is_empty = is_empty and record[i] == 0.0
        if is_empty:
            continue
        place = table_insert(target, record_width(wide), key, universe)
        copy(
            record, stride,
            &(<float*> target.records)[2 * <size_t> place * record_width(wide)], wide,
        )
    return 0


cdef int clone_model(
    AdditiveModel* model, const AdditiveModel* source, const ColumnScale* scales
) except -1 nogil:
    """Make a model a copy of another; a copy that finds no memory is empty.

    With `scales`, by column, it forgets the columns that have hardly come.
    """
    cdef int width = record_width(source.stride)
    free_model(model)
    with gil:
        try:
            if source.fine != NULL:
                model.fine = new_fine(source.fine)
                table_clone(&model.fine.knots, &source.fine.knots, width)
            if scales == NULL:
                table_clone(&model.linear, &source.linear, width)
                table_clone(&model.knots, &source.knots, width)
            else:
                clone_frequent(&model.linear, &source.linear, width, scales, False)
                clone_frequent(&model.knots, &source.knots, width, scales, True)
        except BaseException:
            free_model(model)
            raise
    model.stride = source.stride
    return 0


cdef FineRecords* new_fine(const FineRecords* source) except NULL nogil:
    """No records yet, of the same columns as others; NULL: of none."""
    cdef FineRecords* fine = <FineRecords*> counted_zeros(sizeof(FineRecords))
    if source != NULL:
        fine.columns, fine.n = source.columns, source.n
    return fine


cdef int add_fine_column(AdditiveModel* model, int32_t column) except -1 nogil:
    """Let a model look at a column closely, unless it does so, or at enough others."""
    cdef int32_t i
    if model.fine == NULL:
        model.fine = new_fine(NULL)
    for i in range(model.fine.n):
        if model.fine.columns[i] == column:
            return 0
    if model.fine.n < MOST_FINE:
        model.fine.columns[model.fine.n] = column
        model.fine.n += 1
    return 0


cdef inline bint is_frequent(int32_t key, const ColumnScale* scales, bint is_knot) noexcept nogil:
    """Whether a part is the bias, or of a column that came more than a few times."""
    cdef int32_t column = key // KNOTS if is_knot else key - 1
    return column < 0 or n_shown(&scales[column]) >= LEAST_SHOWN


cdef int clone_frequent(
    Table* target, const Table* source, int width, const ColumnScale* scales, bint is_knot
) except -1 nogil:
    """Copy the records of frequent columns."""
    cdef Py_ssize_t n, i, n_kept = 0
    cdef int32_t slot, key, universe = 0
    cdef int32_t* slots = table_sorted_slots(source, width, &n)
    try:
        for i in range(n):
            key = table_key(source, slots[i])
            universe = key + 1
            if is_frequent(key, scales, is_knot):
                slots[n_kept] = slots[i]
                n_kept += 1
        table_reserve(target, width, n_kept, universe)
        for i in range(n_kept):
            key = table_key(source, slots[i])
            slot = table_insert(target, width, key, universe)
            memcpy(
                &target.records[<size_t> slot * width],
                &source.records[<size_t> slots[i] * width], width * sizeof(double),
            )
    finally:
        free(slots)
    return 0


cdef void free_model(AdditiveModel* model) noexcept nogil:
    """Give the memory back and leave an empty model."""
    table_free(&model.linear)
    table_free(&model.knots)
    if model.fine != NULL:
        table_free(&model.fine.knots)
        give_back(model.fine)
    model.fine = NULL
    model.stride = 0


cdef size_t model_bytes(const AdditiveModel* model) noexcept nogil:
    cdef int width = record_width(model.stride)
    cdef size_t total = table_bytes(&model.linear, width) + table_bytes(&model.knots, width)
    if model.fine != NULL:
        total += sizeof(FineRecords) + table_bytes(&model.fine.knots, width)
    return total


# ----------------------------------------------------------------------------------- state


cdef dict exported_model(const AdditiveModel* model):
    return {
        "stride": model.stride, "linear": exported(&model.linear, model.stride),
        "knots": exported(&model.knots, model.stride),
    }


cdef int import_model(AdditiveModel* model, int32_t n_columns, dict state) except -1:
    model.stride = state["stride"]
    imported(&model.linear, model.stride, n_columns + 1, state["linear"])
    imported(&model.knots, model.stride, KNOTS * n_columns, state["knots"])
    if model.stride > 1:
        # it is always there, but not in a file as long as its steps were too small to count
        table_insert(&model.linear, record_width(model.stride), 0, n_columns + 1)
    return 0


cdef dict exported_fine(const AdditiveModel* model):
    """The fine knots of a model; None: it has none."""
    if model.fine == NULL:
        return None
    columns = np.array(<int32_t[:model.fine.n]> <int32_t*> model.fine.columns)
    return {"columns": columns, **exported(&model.fine.knots, model.stride)}


cdef int import_fine(AdditiveModel* model, dict state) except -1:
    """The other way round, once `import_model` is through."""
    if state is None:
        return 0
    for column in state["columns"]:
        add_fine_column(model, column)
    return imported(&model.fine.knots, model.stride, FINE_KEYS, state)


cdef dict exported(const Table* table, int32_t stride):
    cdef TableExport export = TableExport(record_width(stride))
    export.add(table)
    arrays = export.arrays()
    return {
        "keys": arrays["keys"], "records": arrays["records"].view(np.float32),
        "capacity": int(arrays["capacities"][0]),
    }


cdef int imported(Table* table, int32_t stride, int32_t universe, dict arrays) except -1:
    keys = arrays["keys"]
    records = np.ascontiguousarray(arrays["records"]).view(np.float64)
    return import_table(
        table, record_width(stride), universe,
        {"starts": [0, len(keys)], "keys": keys, "records": records,
         "capacities": [arrays["capacity"]]}, 0,
    )


def blank_model():
    """What `exported_model` gives of an empty model: the types of its parts."""
    cdef AdditiveModel model
    memset(&model, 0, sizeof(AdditiveModel))
    return exported_model(&model)
