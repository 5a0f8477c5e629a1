"""Which contexts a row is in: its columns in bins, one, two and three at a time.

Columns of numbers are cut where a block of rows says, into bins of about as many rows each; one of
few values has a bin for every value. They are cut anew only where a later block shows that a bin
has become too large: then what was known of the column's bins is no longer asked for.
"""

cimport cython
from libc.float cimport FLT_MAX
from libc.stdint cimport int32_t, uint32_t, uint64_t
from libc.stdlib cimport qsort
from libc.string cimport memcpy, memset

from streamtree._core.kernels.rng cimport splitmix64
from streamtree._core.store.budget cimport counted, give_back
from streamtree._core.stream.context cimport Context
from streamtree._core.stream.row cimport Row

import numpy as np

from streamtree._core.store.state import require

cdef extern from "../../kernels/bins.h" nogil:
    int32_t bin_of "streamtree_bin_of"(float value, const float* cuts, int32_t n_cuts)

cdef enum:
    # rows that show which columns there are, and then where their bins end
    BEFORE_FIELDS = 16
    FIRST_BLOCK = 64
    # values that say where bins end, at least
    LEAST_VALUES = 16
    # bins of a column that has more values than these
    BINS = 16
    MOST_EXACT = 32
    # a bin of two values and more that has more than one row of so many is too large
    CROWDED = 8

cdef struct FieldState:
    int32_t column
    int32_t is_feature
    int32_t n_cuts
    uint32_t n_changes


cdef FieldState _blank
memset(&_blank, 0, sizeof(FieldState))
FIELDS = np.asarray(<FieldState[:1]> &_blank).dtype


cdef int compare(const void* left, const void* right) noexcept nogil:
    cdef float a = (<const float*> left)[0], b = (<const float*> right)[0]
    return (a > b) - (a < b)


cdef inline uint64_t mixed(uint32_t name) noexcept nogil:
    return splitmix64(<uint64_t> name + 1)


cdef inline uint32_t name_of(Context context, int32_t column) noexcept nogil:
    return (context.hashes if context.groups[column] < 0 else context.ties)[column]


cdef int32_t most_crowded(const float* values, int32_t n, const float* cuts,
                          int32_t n_cuts) noexcept nogil:
    """The rows in the largest bin that has two values or more; `values` are sorted."""
    cdef int32_t i, first = 0, most = 0
    cdef int32_t bin = bin_of(values[0], cuts, n_cuts), other
    for i in range(1, n + 1):
        other = bin_of(values[i], cuts, n_cuts) if i < n else -1
        if other == bin:
            continue
        if values[i - 1] > values[first]:
            most = max(most, i - first)
        first, bin = i, other
    return most


cdef int32_t cut(const float* values, int32_t n, float* cuts) noexcept nogil:
    """Write where bins of sorted values end, and numbers above all behind; returns how many."""
    cdef int32_t i, k, n_values = 1, n_cuts = 0, since = 0, same
    for i in range(1, n):
        n_values += values[i] > values[i - 1]
    i = 0
    while i < n:
        same = 1
        while i + same < n and values[i + same] == values[i]:
            same += 1
        # a value that fills a bin has it to itself
        if since and (
            n_values <= MOST_EXACT or BINS * since >= n or BINS * same >= n
        ) and n_cuts < ROOM - 1:
            cuts[n_cuts] = values[i - 1] + (values[i] - values[i - 1]) / 2
            if not values[i - 1] <= cuts[n_cuts] < values[i]:
                cuts[n_cuts] = values[i - 1]
            n_cuts += 1
            since = 0
        since += same
        i += same
    for k in range(n_cuts, ROOM):
        cuts[k] = FLT_MAX
    return n_cuts


@cython.final
cdef class ContextFields:

    def __dealloc__(self):
        give_back(self.fields)
        give_back(self.contexts)
        give_back(self.sample)

    cdef int bind(self, Context context) except -1:
        self.context = context
        return 0

    # --------------------------------------------------------------------------------- rows

    cdef void keys_of(self, const Row* row, uint32_t* keys) noexcept nogil:
        """The hashes of the contexts of a row; none is 0."""
        cdef uint64_t[MOST_FIELDS] codes
        cdef uint64_t word
        cdef const Field* field
        cdef const int32_t* places
        cdef int32_t f, i
        for f in range(self.n_fields):
            field = &self.fields[f]
            if field.group >= 0:
                word = row.kinds[field.group]
            else:
                word = <uint64_t> field.n_changes << 8 | <uint64_t> bin_of(
                    row.table[field.column], field.cuts, field.n_cuts
                )
            codes[f] = splitmix64(<uint64_t> field.name << 32 ^ word)
        for i in range(self.n_contexts):
            places = self.contexts[i].fields
            word = codes[places[0]]
            # whatever the order of the fields
            if places[1] >= 0:
                word += codes[places[1]]
            if places[2] >= 0:
                word += codes[places[2]]
            keys[i] = <uint32_t> (splitmix64(word) >> 32) | 1

    cdef bint push(self, const Row* row) noexcept nogil:
        """Keep the values of a row; returns whether a block is complete."""
        cdef int32_t f
        for f in range(self.n_fields):
            if self.fields[f].group < 0:
                self.sample[f * BLOCK + self.n_sampled] = row.table[self.fields[f].column]
        self.n_sampled += 1
        if self.n_fields == 0:
            return self.n_sampled == BEFORE_FIELDS
        return self.n_sampled == (BLOCK if self.has_cut else FIRST_BLOCK)

    cdef int look(self) except -1 nogil:
        """Cut what is to be cut, and take other fields if there are others."""
        cdef Field[MOST_FIELDS] found
        cdef int32_t n, f
        cdef bint are_others
        for f in range(self.n_fields):
            if self.fields[f].group < 0:
                self._cut(f)
        self.has_cut = self.n_fields > 0
        self.n_sampled = 0
        n = self._list(found)
        f = FEW_PAIRS if self.context.n_labels > MANY_LABELS else MOST_PAIRS
        are_others = n != self.n_fields or f != self.most_pairs
        self.most_pairs = f
        for f in range(min(n, self.n_fields)):
            are_others = are_others or found[f].name != self.fields[f].name
        return self._choose(found, n) if are_others else 0

    cdef void _cut(self, int32_t f) noexcept nogil:
        """Cut a column anew where one of its bins has become too large, and that helps."""
        cdef float[64] cuts
        cdef float* values = &self.sample[f * BLOCK]
        cdef Field* field = &self.fields[f]
        cdef int32_t i, n = 0, n_cuts, crowd
        for i in range(self.n_sampled):
            if values[i] == values[i]:
                values[n] = values[i]
                n += 1
        if n < LEAST_VALUES:
            return
        qsort(values, n, sizeof(float), compare)
        crowd = most_crowded(values, n, field.cuts, field.n_cuts)
        if CROWDED * crowd <= n:
            return
        n_cuts = cut(values, n, cuts)
        if 4 * most_crowded(values, n, cuts, n_cuts) > 3 * crowd:
            return
        field.n_cuts = n_cuts
        field.n_changes += 1
        memcpy(field.cuts, cuts, sizeof(cuts))

    # ------------------------------------------------------------------------------- choice

    cdef int32_t _list(self, Field* found) noexcept nogil:
        """The columns that are mostly there and the features with categories, by their names.

        Where there are too many, some of them, whatever the order in which they came. What is
        known of their bins is taken along.
        """
        cdef Field field
        cdef int32_t column, f, i, n = 0
        for column in range(self.context.n_columns):
            if self.context.is_rare(column):
                continue
            memset(&field, 0, sizeof(field))
            field.group = self.context.groups[column]
            field.column = column
            field.name = name_of(self.context, column)
            if field.group < 0 and not self.context.scaler.columns[column].is_listed:
                continue
            f = n
            while f > 0 and mixed(found[f - 1].name) > mixed(field.name):
                f -= 1
            if f > 0 and field.group >= 0 and found[f - 1].group == field.group:
                continue
            if f == MOST_FIELDS:
                continue
            if n == MOST_FIELDS:
                n -= 1
            for i in range(n, f, -1):
                found[i] = found[i - 1]
            found[f] = field
            n += 1
        for f in range(n):
            for i in range(ROOM):
                found[f].cuts[i] = FLT_MAX
            for i in range(self.n_fields):
                if self.fields[i].name == found[f].name and (
                    (self.fields[i].group < 0) == (found[f].group < 0)
                ):
                    found[f] = self.fields[i]
        return n

    cdef int _choose(self, const Field* found, int32_t n) except -1 nogil:
        """Take fields, and contexts of them: all alone, some pairs, and triples."""
        cdef FieldsOf[MOST_CONTEXTS] list
        cdef FieldsOf one
        cdef int32_t f, g, h, i, m = n, first = n
        cdef uint64_t word
        for f in range(n):
            list[f] = FieldsOf([f, -1, -1], mixed(found[f].name))
        for f in range(n):
            for g in range(f):
                word = splitmix64(mixed(found[f].name) + mixed(found[g].name))
                one = FieldsOf([g, f, -1], word)
                i = m
                while i > first and list[i - 1].name > word:
                    i -= 1
                if i == first + self.most_pairs:
                    continue
                m = min(m, first + self.most_pairs - 1)
                for h in range(m, i, -1):
                    list[h] = list[h - 1]
                list[i] = one
                m += 1
        # a pair and one field more
        for i in range(first, min(m, first + self.most_pairs // 3) if n > 2 else first):
            one.name = 0
            for f in range(n):
                word = splitmix64(list[i].name + mixed(found[f].name))
                if f != list[i].fields[0] and f != list[i].fields[1] and word > one.name:
                    one = FieldsOf([list[i].fields[0], list[i].fields[1], f], word)
            list[m] = one
            m += 1
        return self._take(found, n, list, m)

    cdef int _take(self, const Field* found, int32_t n, const FieldsOf* list,
                   int32_t m) except -1 nogil:
        cdef Field* fields = NULL
        cdef FieldsOf* contexts = NULL
        cdef float* sample = NULL
        cdef bint is_done = False
        try:
            if n:
                fields = <Field*> counted(NULL, n * sizeof(Field))
                contexts = <FieldsOf*> counted(NULL, m * sizeof(FieldsOf))
                sample = <float*> counted(NULL, n * BLOCK * sizeof(float))
            is_done = True
        finally:
            if not is_done:
                give_back(fields)
                give_back(contexts)
        give_back(self.fields)
        give_back(self.contexts)
        give_back(self.sample)
        if n:
            memcpy(fields, found, n * sizeof(Field))
            memcpy(contexts, list, m * sizeof(FieldsOf))
        self.fields, self.contexts, self.sample = fields, contexts, sample
        self.n_fields, self.n_contexts = n, m
        return 0

    # -------------------------------------------------------------------------------- state

    cdef dict state(self):
        cdef int32_t f, n = self.n_fields
        fields = np.empty(n, dtype=FIELDS)
        cuts = np.empty((n, ROOM), dtype=np.float32)
        sample = np.zeros((n, self.n_sampled), dtype=np.float32)
        cdef FieldState[::1] view = fields
        cdef float[:, ::1] places = cuts, values = sample
        for f in range(n):
            view[f] = FieldState(
                self.fields[f].column, self.fields[f].group >= 0, self.fields[f].n_cuts,
                self.fields[f].n_changes,
            )
            memcpy(&places[f, 0], self.fields[f].cuts, ROOM * sizeof(float))
            if self.n_sampled and self.fields[f].group < 0:
                memcpy(&values[f, 0], &self.sample[f * BLOCK], self.n_sampled * sizeof(float))
        return {
            "fields": fields, "cuts": cuts, "sample": sample, "sampled": self.n_sampled,
            "has_cut": self.has_cut, "most_pairs": self.most_pairs,
        }

    cdef int take_state(self, dict state) except -1:
        cdef const FieldState[::1] view = state["fields"]
        cdef const float[:, ::1] places = state["cuts"]
        cdef const float[:, ::1] values = state["sample"]
        cdef Field[MOST_FIELDS] found
        cdef int32_t f, n = <int32_t> view.shape[0]
        for f in range(n):
            found[f].column = view[f].column
            found[f].group = self.context.groups[view[f].column] if view[f].is_feature else -1
            found[f].name = name_of(self.context, view[f].column)
            found[f].n_cuts, found[f].n_changes = view[f].n_cuts, view[f].n_changes
            memcpy(found[f].cuts, &places[f, 0], ROOM * sizeof(float))
        self.most_pairs = state["most_pairs"]
        if n or self.n_fields:
            self._choose(found, n)
        self.n_sampled, self.has_cut = state["sampled"], state["has_cut"]
        for f in range(n):
            if self.n_sampled and found[f].group < 0:
                memcpy(&self.sample[f * BLOCK], &values[f, 0], self.n_sampled * sizeof(float))
        return 0


def contexts_of(state):
    """How many contexts there are."""
    n = len(state["fields"])
    pairs = min(n * (n - 1) // 2, state["most_pairs"])
    return n + pairs + (min(pairs, state["most_pairs"] // 3) if n > 2 else 0)


def check_fields(state, n_columns):
    """Raise StateError unless `ContextFields.take_state` can trust a state."""
    fields, cuts, sample, sampled = (
        state[name] for name in ("fields", "cuts", "sample", "sampled")
    )
    n = len(fields)
    require(state["most_pairs"] in (0, FEW_PAIRS, MOST_PAIRS), "the number of contexts")
    require(state["most_pairs"] or n == 0, "the number of contexts")
    columns = fields["column"]
    require(n <= MOST_FIELDS, "the fields of contexts")
    require(((columns >= 0) & (columns < n_columns)).all(), "a field of contexts")
    require(np.isin(fields["is_feature"], (0, 1)).all(), "a field of contexts")
    require(((fields["n_cuts"] >= 0) & (fields["n_cuts"] < ROOM)).all(), "the cuts of a column")
    require(cuts.shape == (n, ROOM) and np.isfinite(cuts).all(), "the cuts of a column")
    require(type(sampled) is int and type(state["has_cut"]) is bool, "the rows of a block")
    most = BEFORE_FIELDS if n == 0 else BLOCK if state["has_cut"] else FIRST_BLOCK
    require(0 <= sampled < most, "the rows of a block")
    require(sample.shape == (n, sampled) and not np.isinf(sample).any(), "the rows of a block")
