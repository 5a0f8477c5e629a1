"""Which contexts a row is in: columns in bins, one, two and three at a time, and last labels.

Columns of numbers are cut where a block of rows says, into bins of about as many rows each; one of
few values has a bin for every value. They are cut anew only where a later block shows that a bin
has become too large: then what was known of the column's bins is no longer asked for. Many whole
numbers may be names, of flights or shops: if they come again, unlike those of rows, there are
contexts of the exact values, too.
"""

cimport cython
from libc.math cimport floor
from libc.float cimport FLT_MAX
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from streamtree._core.kernels.bins cimport between, bin_of, sort_values
from streamtree._core.kernels.rng cimport splitmix64
from streamtree._core.store.budget cimport bytes_allowed, counted, give_back
from streamtree._core.stream.context cimport Context
from streamtree._core.stream.fields cimport Candidate, candidate, list_candidates
from streamtree._core.stream.row cimport Row

import numpy as np


cdef enum:
    # rows that show which columns there are; a block of rows more shows where their bins end, then
    # a column has its turn after so many rows
    BEFORE_FIELDS = 16
    TURN = 4
    # values that say where bins end, at least
    LEAST_VALUES = 16
    # bins of a column that has more values than these
    BINS = 24
    MOST_EXACT = 32
    # categories of a feature that are names, of places or persons
    MANY_NAMES = 64
    # features are counted in so many places
    PLACES = 1024
    # a bin of two values and more that has more than one row of so many is too large
    CROWDED = 8

# of a value that is missing
cdef uint32_t MISSING_BITS = 0xFFFFFFFF


cdef struct FieldState:
    int32_t column
    int32_t is_feature
    int32_t n_cuts
    uint32_t n_changes
    int32_t has_many
    int32_t has_fractions
    int32_t is_named


cdef FieldState _blank
FIELDS = np.asarray(<FieldState[:1]> &_blank).dtype


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
            cuts[n_cuts] = between(values[i - 1], values[i])
            n_cuts += 1
            since = 0
        since += same
        i += same
    for k in range(n_cuts, ROOM):
        cuts[k] = FLT_MAX
    return n_cuts


@cython.final
cdef class ContextFields:
    """The fields, their bins, and the contexts that are made of them."""

    def __cinit__(self):
        self.last = [-1, -1]
        self.has_labels = True

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
        cdef uint64_t[MOST_FIELDS + LAST + MOST_FIELDS] codes
        cdef uint64_t word
        cdef uint32_t bits
        cdef float value
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
            if field.is_named:
                # 0 and -0 are one value
                value = row.table[field.column] + <float> 0.0
                memcpy(&bits, &value, sizeof(bits))
                bits = MISSING_BITS if value != value else bits
                codes[self.n_fields + LAST + f] = splitmix64(
                    splitmix64(<uint64_t> field.name << 32 ^ bits)
                )
            codes[f] = splitmix64(<uint64_t> field.name << 32 ^ word)
        word = 0
        for i in range(LAST):
            word = splitmix64(word + <uint64_t> (self.last[i] + 2))
            codes[self.n_fields + i] = word
        for i in range(self.n_contexts):
            places = self.contexts[i].fields
            word = codes[places[0]]
            # whatever the order of the fields
            if places[1] >= 0:
                word += codes[places[1]]
            if places[2] >= 0:
                word += codes[places[2]]
            keys[i] = <uint32_t> (splitmix64(word) >> 32) | 1

    cdef void push(self, const Row* row, int32_t label) noexcept nogil:
        """Keep the values of a row, and its label; `cut` is to follow."""
        cdef int32_t f, place = <int32_t> (self.seen % BLOCK)
        for f in range(self.n_fields):
            if self.fields[f].group < 0:
                self.sample[f * BLOCK + place] = row.table[self.fields[f].column]
        self.seen += 1
        self.last[1], self.last[0] = self.last[0], label

    cdef void cut(self) noexcept nogil:
        """Cut a column anew if it is its turn."""
        cdef int32_t f, place = <int32_t> ((self.seen - 1) % BLOCK)
        if self.seen == BLOCK:
            for f in range(self.n_fields):
                self._cut(f)
        elif self.seen > BLOCK and place % TURN == 0 and place // TURN < self.n_fields:
            self._cut(place // TURN)

    cdef bint is_exact(self, int32_t i) noexcept nogil:
        """Whether a context is of the exact values of a column."""
        return self.contexts[i].fields[0] >= self.n_fields + LAST

    cdef bint has_names(self) noexcept nogil:
        """Whether a feature has so many categories that it takes long to know them."""
        cdef int32_t[PLACES] counts
        cdef int32_t column, place
        memset(counts, 0, sizeof(counts))
        for column in range(self.context.n_columns):
            if self.context.features.groups[column] >= 0:
                place = self.context.features.groups[column] % PLACES
                counts[place] += 1
                if counts[place] > MANY_NAMES:
                    return True
        return False

    cdef bint is_due(self) noexcept nogil:
        """Whether it is time to see what columns there are."""
        return self.seen % BLOCK == 0 or (self.n_fields == 0 and self.seen == BEFORE_FIELDS)

    cdef int look(self) except -1 nogil:
        """Take other fields, and contexts of them, if there are others; returns 1 then."""
        cdef Candidate[MOST_FIELDS] found
        cdef int32_t f, n = self._list(found), n_named = 0
        cdef int32_t most_pairs = FEW_PAIRS
        cdef bint are_others = n != self.n_fields
        if self.context.n_labels <= MANY_LABELS:
            most_pairs = MOST_PAIRS
        for f in range(min(n, self.n_fields)):
            are_others = are_others or found[f].name != self.fields[f].name or (
                self.fields[f].is_named != self._may_name(f, &n_named)
            )
        if not are_others and most_pairs == self.most_pairs:
            return 0
        self._take(found, n, most_pairs)
        return 1

    cdef bint _may_name(self, int32_t f, int32_t* n_named) noexcept nogil:
        """Whether a field, after so many that are, is to be named by its exact values."""
        cdef bint is_named = self.fields[f].has_many and not self.fields[f].has_fractions
        is_named = is_named and n_named[0] < MOST_NAMED
        n_named[0] += is_named
        return is_named

    cdef void _cut(self, int32_t f) noexcept nogil:
        """Cut a column anew where one of its bins has become too large, and that helps."""
        cdef float[ROOM] cuts
        cdef float[BLOCK] values
        cdef const float* sample = &self.sample[f * BLOCK]
        cdef Field* field = &self.fields[f]
        cdef int32_t i, n = 0, n_cuts, crowd, n_values = 1
        if field.group >= 0:
            return
        for i in range(<int32_t> min(self.seen, <int64_t> BLOCK)):
            if sample[i] == sample[i]:
                values[n] = sample[i]
                n += 1
        if n < LEAST_VALUES:
            return
        sort_values(values, n)
        for i in range(n):
            n_values += i > 0 and values[i] > values[i - 1]
            field.has_fractions |= values[i] != floor(values[i])
        field.has_many |= MOST_EXACT < n_values < n
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

    cdef int32_t _list(self, Candidate* found) noexcept nogil:
        """The candidates for which there is room: what they take is half of all at the most."""
        return list_candidates(self.context, found, <int32_t> min(
            bytes_allowed() // 2 // (sizeof(Field) + BLOCK * sizeof(float)), <size_t> MOST_FIELDS
        ))

    cdef Field _field_of(self, const Candidate* found) noexcept nogil:
        """A field, with what is known of its bins."""
        cdef Field field
        cdef int32_t i
        for i in range(self.n_fields):
            if self.fields[i].name == found.name and (
                (self.fields[i].group < 0) == (found.group < 0)
            ):
                return self.fields[i]
        memset(&field, 0, sizeof(field))
        field.column, field.group, field.name = found.column, found.group, found.name
        for i in range(ROOM):
            field.cuts[i] = FLT_MAX
        return field

    cdef int32_t _contexts_of(self, const Candidate* found, int32_t n,
                              FieldsOf* list) noexcept nogil:
        """All fields alone, some pairs and triples, and those with last labels; how many."""
        cdef FieldsOf one
        cdef int32_t f, g, h, i, m = n, first
        cdef bint is_new
        for f in range(n):
            list[f] = FieldsOf([f, -1, -1], found[f].rank)
            for g in range(f):
                one = FieldsOf([g, f, -1], splitmix64(found[f].rank + found[g].rank))
                i = m
                while i > n and list[i - 1].name > one.name:
                    i -= 1
                if i == n + self.most_pairs:
                    continue
                m = min(m, n + self.most_pairs - 1)
                for h in range(m, i, -1):
                    list[h] = list[h - 1]
                list[i] = one
                m += 1
        # a pair and one field more
        first = m
        for i in range(n, min(m, n + self.most_pairs // PAIRS_A_TRIPLE)):
            list[m].name = 0
            for f in range(n):
                one = FieldsOf([list[i].fields[0], list[i].fields[1], f], 0)
                if f != one.fields[0] and f != one.fields[1]:
                    one.name = splitmix64(
                        found[one.fields[0]].rank + found[one.fields[1]].rank + found[f].rank
                    )
                if one.name > list[m].name:
                    list[m] = one
            is_new = list[m].name != 0
            for h in range(first, m):
                is_new = is_new and list[h].name != list[m].name
            m += is_new
        for f in range(LAST if n and self.has_labels else 0):
            list[m] = FieldsOf([n + f, -1, -1], splitmix64(f))
            m += 1
        for f in range(min(n, <int32_t> MOST_AFTER) if self.has_labels else 0):
            list[m] = FieldsOf([n, f, -1], splitmix64(found[f].rank))
            m += 1
        for f in range(n):
            if self.fields[f].is_named:
                list[m] = FieldsOf([n + LAST + f, -1, -1], splitmix64(found[f].rank + 1))
                m += 1
        return m

    cdef int _take(self, const Candidate* found, int32_t n,
                   int32_t most_pairs) except -1 nogil:
        """Take fields; raises MemoryError before anything changes."""
        cdef Field* fields = NULL
        cdef FieldsOf* contexts = NULL
        cdef float* sample = NULL
        cdef int32_t f, n_named = 0
        cdef bint is_done = False
        try:
            if n:
                fields = <Field*> counted(NULL, n * sizeof(Field))
                contexts = <FieldsOf*> counted(NULL, MOST_CONTEXTS * sizeof(FieldsOf))
                sample = <float*> counted(NULL, n * BLOCK * sizeof(float))
            is_done = True
        finally:
            if not is_done:
                give_back(fields)
                give_back(contexts)
        for f in range(n):
            fields[f] = self._field_of(&found[f])
        give_back(self.fields)
        give_back(self.contexts)
        give_back(self.sample)
        self.fields, self.contexts, self.sample = fields, contexts, sample
        self.n_fields, self.seen, self.most_pairs = n, 0, most_pairs
        for f in range(n):
            self.fields[f].is_named = self._may_name(f, &n_named)
        self.n_contexts = self._contexts_of(found, n, contexts)
        return 0

    # -------------------------------------------------------------------------------- state

    cdef dict state(self):
        cdef int32_t f, n = self.n_fields, n_kept = <int32_t> min(self.seen, <int64_t> BLOCK)
        fields = np.empty(n, dtype=FIELDS)
        cuts = np.empty((n, ROOM), dtype=np.float32)
        sample = np.zeros((n, n_kept), dtype=np.float32)
        cdef FieldState[::1] view = fields
        cdef float[:, ::1] places = cuts, values = sample
        for f in range(n):
            view[f] = FieldState(
                self.fields[f].column, self.fields[f].group >= 0, self.fields[f].n_cuts,
                self.fields[f].n_changes, self.fields[f].has_many, self.fields[f].has_fractions,
                self.fields[f].is_named,
            )
            memcpy(&places[f, 0], self.fields[f].cuts, ROOM * sizeof(float))
            if n_kept and self.fields[f].group < 0:
                memcpy(&values[f, 0], &self.sample[f * BLOCK], n_kept * sizeof(float))
        return {
            "fields": fields, "cuts": cuts, "sample": sample, "seen": self.seen,
            "most_pairs": self.most_pairs, "last": np.array(self.last, dtype=np.int32),
        }

    cdef int take_state(self, dict state) except -1:
        cdef const FieldState[::1] view = state["fields"]
        cdef const float[:, ::1] places = state["cuts"]
        cdef const float[:, ::1] values = state["sample"]
        cdef Candidate[MOST_FIELDS] found
        cdef int32_t f, n = <int32_t> view.shape[0]
        for f in range(n):
            found[f] = candidate(self.context, view[f].column)
        self._take(found, n, state["most_pairs"])
        self.seen = state["seen"]
        for f in range(LAST):
            self.last[f] = state["last"][f]
        for f in range(n):
            self.fields[f].n_cuts, self.fields[f].n_changes = view[f].n_cuts, view[f].n_changes
            self.fields[f].has_many = view[f].has_many
            self.fields[f].has_fractions = view[f].has_fractions
            self.fields[f].is_named = view[f].is_named
            memcpy(self.fields[f].cuts, &places[f, 0], ROOM * sizeof(float))
            if self.seen and found[f].group < 0:
                memcpy(&self.sample[f * BLOCK], &values[f, 0], values.shape[1] * sizeof(float))
        self.n_contexts = self._contexts_of(found, n, self.contexts)
        return 0
