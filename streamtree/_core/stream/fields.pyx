"""Which columns trees without nodes look at: those that are mostly there, in one order.

It is that of hashes of their names, so that nothing depends on the order in which columns came.
"""

from libc.stdint cimport int32_t, int64_t, uint64_t
from libc.string cimport memset

from streamtree._core.kernels.rng cimport splitmix64
from streamtree._core.stream.context cimport Context
from streamtree._core.stream.row cimport Row
from streamtree._core.stream.scales cimport ColumnScale, n_shown

cdef enum:
    # rows with a feature, and when it came, are counted in so many places
    PLACES = 1024


cdef Candidate candidate(Context context, int32_t column) noexcept nogil:
    """A column, or the feature that it is a category of."""
    cdef Candidate one
    one.column, one.group, one.is_exact = column, context.features.groups[column], False
    one.name = (context.features.hashes if one.group < 0 else context.features.ties)[column]
    one.rank = splitmix64(<uint64_t> one.name + 1)
    return one


cdef int32_t list_candidates(Context context, Candidate* found, int32_t most) noexcept nogil:
    """The columns that are mostly there and the features with categories; returns how many.

    Where there are more than `most`, some of them, whatever the order in which they came.
    """
    cdef int64_t[PLACES] shown
    cdef int64_t[PLACES] births
    cdef const ColumnScale* scale
    cdef Candidate one
    cdef int32_t column, group, place, f, i, n = 0
    memset(shown, 0, sizeof(shown))
    for column in range(context.n_columns):
        if context.features.groups[column] >= 0:
            scale, place = &context.scaler.columns[column], context.features.groups[column] % PLACES
            births[place] = min(scale.birth, births[place]) if shown[place] else scale.birth
            shown[place] += n_shown(scale)
    for column in range(context.n_columns):
        group = context.features.groups[column]
        if group < 0 and not context.scaler.columns[column].is_listed:
            continue
        if context.is_rare(column) if group < 0 else context.are_few(
            shown[group % PLACES], births[group % PLACES]
        ):
            continue
        one = candidate(context, column)
        f = n
        while f > 0 and found[f - 1].rank > one.rank:
            f -= 1
        if f == most or (
            f > 0 and one.group >= 0 and found[f - 1].group == one.group
        ):
            continue
        if n == most:
            n -= 1
        for i in range(n, f, -1):
            found[i] = found[i - 1]
        found[f] = one
        n += 1
    return n


cdef int32_t column_in(const Row* row, Context context, int32_t column,
                       int32_t group) noexcept nogil:
    """The column that a row has of a field: of categories its own, if it has one."""
    cdef Py_ssize_t i
    for i in range(row.listed.n if group >= 0 else 0):
        if context.features.groups[row.listed.columns[i]] == group:
            return row.listed.columns[i]
    return column
