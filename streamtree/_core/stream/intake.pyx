"""From an example to one const Row: names, labels, scales, and who may be inside.

An Intake knows names, labels and scales. The views of a row are made in a Workspace, of which
every thread that reads rows has one, and each of them once: a row that was predicted is not
looked at again when it is learned.
"""

cimport cython
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport free
from libc.string cimport memset

from streamtree._core.store.memory cimport larger, regrown, zeroed
from streamtree._core.stream.buffers cimport RowBuffer
from streamtree._core.stream.context cimport Context
from streamtree._core.stream.encoding cimport PARTS, RowEncoder
from streamtree._core.stream.features cimport SETTLED_ROWS, UNBOUNDED, FeatureIndex, check_name
from streamtree._core.stream.labels cimport LabelIndex
from streamtree._core.stream.lock cimport ModelLock
from streamtree._core.stream.row cimport (
    BY_LABEL, ENCODED, LISTED, PLAIN, STANDARD, TABLE, FineKnots, Scratch, places_for,
)
from streamtree._core.stream.scaling cimport ColumnScaler
from streamtree._core.stream.sources cimport RowSource
from streamtree._core.stream.table cimport RowTable

from collections.abc import Mapping

import numpy as np

from streamtree._core.stream.features import Category


cdef dict as_dict(object x, str rule="x must be a dict of features"):
    if type(x) is dict:
        return x
    if isinstance(x, Mapping):
        return dict(x)
    raise TypeError(f"{rule}, got {type(x).__name__}")


cdef inline size_t room_bytes(const Scratch* scratch, Py_ssize_t n) noexcept nogil:
    """What room for n values of a row takes."""
    cdef size_t size = sizeof(double) + sizeof(int32_t)
    if not scratch.views & ENCODED:
        return n * size
    size += PARTS * (3 * sizeof(int32_t) + sizeof(float))
    # the last of them aligned
    return (n * size + 7) // 8 * 8 + sizeof(FineKnots)


cdef inline size_t memo_bytes(const Scratch* scratch, int32_t places) noexcept nogil:
    return scratch.memo_size + places * scratch.memo_place_size


cdef int reserve_memo(Scratch* scratch, int32_t places) except -1 nogil:
    """Make room to remember what is said of so many classes; what was remembered is forgotten."""
    cdef void* memo
    if places <= scratch.memo_places or memo_bytes(scratch, places) == 0:
        return 0
    memo = zeroed(memo_bytes(scratch, places))
    free(scratch.memo)
    scratch.memo, scratch.memo_places, scratch.memo_serial = memo, places, 0
    return 0


cdef void free_scratch(Scratch* scratch) noexcept nogil:
    """Give its room back, with what was remembered."""
    free(scratch.steps)
    free(scratch.memo)
    free(scratch.shares)
    free(scratch.pooled)
    scratch.steps, scratch.memo, scratch.shares, scratch.pooled = NULL, NULL, NULL, NULL
    scratch.memo_serial = 0
    scratch.memo_places = 0


@cython.final
cdef class Workspace:
    """The views of one row, and scratch for the trees that look at it."""

    def __cinit__(self, Context context, int views, list scratches):
        cdef Py_ssize_t i
        self.raw, self.incoming = RowBuffer(), RowBuffer()
        self.listed, self.standard = RowBuffer(), RowBuffer()
        if views & ENCODED:
            self.encoder = RowEncoder(context)
        if views & TABLE:
            self.table = RowTable(context)
        self.views = views
        self.scratch = <Scratch*> zeroed(len(scratches) * sizeof(Scratch))
        self.n_scratches = len(scratches)
        for i, (its_views, memo_size, place_size) in enumerate(scratches):
            self.scratch[i].views = its_views
            self.scratch[i].memo_size = memo_size
            self.scratch[i].memo_place_size = place_size
        self.n_labels = -1

    def __dealloc__(self):
        cdef Py_ssize_t i
        for i in range(self.n_scratches):
            free_scratch(&self.scratch[i])
        free(self.scratch)

    cdef size_t n_bytes(self) noexcept nogil:
        cdef size_t total = self.n_scratches * (
            sizeof(Scratch) + 2 * self.n_shares * sizeof(double)
        )
        cdef Py_ssize_t i
        for i in range(self.n_scratches):
            if self.capacity:
                total += room_bytes(&self.scratch[i], self.capacity)
            if self.scratch[i].memo_places:
                total += memo_bytes(&self.scratch[i], self.scratch[i].memo_places)
        if self.encoder is not None:
            total += self.encoder.n_bytes()
        if self.table is not None:
            total += self.table.n_bytes()
        return (
            total + self.raw.n_bytes() + self.incoming.n_bytes() + self.listed.n_bytes()
            + self.standard.n_bytes()
        )

    cdef int _reserve(self, Py_ssize_t n) except -1 nogil:
        cdef Scratch* scratch
        cdef Py_ssize_t i, part
        if n < self.capacity:
            return 0
        n = larger(self.capacity, n + 1)
        for i in range(self.n_scratches):
            scratch = &self.scratch[i]
            # one block: the row before is forgotten anyway
            scratch.steps = <double*> regrown(scratch.steps, room_bytes(scratch, n))
            scratch.slots = <int32_t*> (scratch.steps + n)
            if scratch.views & ENCODED:
                scratch.fine = <FineKnots*> (
                    <char*> scratch.steps + room_bytes(scratch, n) - sizeof(FineKnots)
                )
                for part in range(3):
                    scratch.part_slots[part] = scratch.slots + (1 + part * PARTS) * n
                scratch.part_steps = <float*> (scratch.part_slots[2] + PARTS * n)
        self.capacity = n
        return 0

    cdef inline int reserve_answers(self, Py_ssize_t n) except -1 nogil:
        """Make room for what trees say and remember of n labels or targets."""
        return self._reserve_answers(n) if n > self.n_labels else 0

    cdef int _reserve_answers(self, Py_ssize_t n) except -1 nogil:
        cdef Scratch* scratch
        cdef Py_ssize_t i, capacity = larger(self.n_shares, n)
        for i in range(self.n_scratches):
            reserve_memo(&self.scratch[i], places_for(n))
        # of members of an ensemble, of leaves, and of trees that ask for it
        if n > self.n_shares and (self.n_scratches > 1 or self.views & (TABLE | BY_LABEL)):
            for i in range(self.n_scratches):
                scratch = &self.scratch[i]
                scratch.shares = <double*> regrown(scratch.shares, capacity * sizeof(double))
                scratch.pooled = <double*> regrown(scratch.pooled, capacity * sizeof(double))
                memset(
                    &scratch.pooled[self.n_shares], 0, (capacity - self.n_shares) * sizeof(double)
                )
            self.n_shares = capacity
        self.n_labels = n
        return 0

    cdef int fit(self, Workspace other) except -1 nogil:
        """Make room for what trees say and remember of the row of another one."""
        self._reserve(other.raw.n)
        return self.reserve_answers(other.n_labels)

    cdef void forget_answers(self) noexcept nogil:
        """Let no answer about the row at hand pass for one of another tree."""
        cdef Py_ssize_t i
        for i in range(self.n_scratches):
            self.scratch[i].memo_serial = 0

    cdef int make_views(self, ColumnScaler scaler) except -1 nogil:
        """Make all views of the raw row that are asked for."""
        cdef Py_ssize_t n_plain
        cdef bint is_standard = (self.views & (STANDARD | ENCODED)) != 0
        cdef bint is_listed
        self._reserve(self.raw.n)
        self.row.serial += 1
        if is_standard:
            is_listed = scaler.standardise(
                self.raw, self.standard, &self.row.standard, &self.norm
            )
        else:
            is_listed = self.raw.is_dense()
        if self.views & (PLAIN | LISTED):
            if is_listed and not (scaler.has_other_units and scaler.lists):
                self.row.listed = self.row.plain = self.raw.view(self.raw.n)
            else:
                n_plain = scaler.list_values(self.raw, self.listed)
                self.row.listed = self.row.plain = self.listed.view(self.listed.n)
                if n_plain < self.listed.n and self.views & PLAIN:
                    self.row.plain = self.listed.view(n_plain)
        if self.views & ENCODED:
            self.encoder.encode(&self.row.standard, &self.row.encoded)
        if self.views & TABLE:
            self.table.make(&self.row.listed)
            self.row.table = self.table.values
            self.row.kinds = &self.table.kinds[1]
        return 0


# lists that are equal are one, whose models may be many
cdef dict SCRATCHES = {}


@cython.final
cdef class Intake:
    """Names, labels and scales; and the lock of who may be inside at the same time."""

    def __cinit__(self, int views, list scratches, frozenset nominal, list names=None,
                  list labels=None):
        self.views = views
        self.scratches = SCRATCHES.setdefault(tuple(scratches), scratches)
        self.lock = ModelLock()
        self.features = FeatureIndex(names, nominal)
        self.labels = LabelIndex(labels)
        self.scaler = ColumnScaler((views & (STANDARD | ENCODED)) != 0, (views & LISTED) != 0)
        self.context = Context(self.features, self.scaler)
        self.context.n_columns = <int32_t> len(self.features.names)
        self.context.n_labels = self.labels.size
        self._version = 1

    cdef size_t n_bytes(self) noexcept:
        """Names with what goes with a column, labels, and room for the row at hand."""
        cdef size_t total = self.features.n_bytes() + self.labels.n_bytes()
        cdef Workspace workspace
        for workspace in (self.own, self.spare):
            total += workspace.n_bytes() if workspace is not None else 0
        return total + self.scaler.n_bytes()

    cdef int bound_names(self, names) except -1:
        """Set how many bytes names may take; None: any number. A part is lent once enough rows
        have come."""
        cdef int64_t before = self.features.most
        cdef int32_t n = 0
        self.features.most = UNBOUNDED if names is None else names
        if self.scaler.rows >= SETTLED_ROWS:
            while n < self.scaler.size and self.scaler.columns[n].birth < SETTLED_ROWS:
                n += 1
            self.features.lend(n)
        if self.features.most != before:
            # names may share other columns from now on, or find room
            self._forget_read()
        return 0

    cdef int bound_labels(self, labels, n_labels, n_at_once) except -1:
        """Set how many bytes labels may take, and how many these may be.

        So many labels are learned from the first row on, unless hardly any came again; further ones
        may have to come again. None: any number.
        """
        self.labels.most = UNBOUNDED if labels is None else labels
        self.labels.most_labels = UNBOUNDED if n_labels is None else n_labels
        self.labels.most_at_once = UNBOUNDED if n_at_once is None else n_at_once
        return 0

    # --------------------------------------------------------------------- rows of dicts

    cdef Workspace workspace(self):
        """Another one, for a thread of its own."""
        return Workspace(self.context, self.views, self.scratches)

    cdef Workspace room(self):
        """That of whoever learns, and of single predictions."""
        if self.own is None:
            self.own = self.workspace()
        return self.own

    cdef int read(self, object x, Workspace workspace, bint keep_new) except -1:
        """Read a dict, unless it is the one whose views are there."""
        if (
            workspace is self.own and self._own_was_last and type(x) is dict
            and workspace.version == self._version and self.features.repeats(x)
        ):
            workspace.repeats = True
            return 0
        workspace.repeats = False
        # until its views are made: a row of weight 0 is only read
        self._own_was_last = False
        self.features.read(as_dict(x), workspace.incoming, keep_new)
        # with new names `commit` does it, when all columns are there: sums depend on their order
        if self.features.n_shared and not self.has_new_names():
            self.features.merge(workspace.incoming)
        return 0

    cdef Workspace read_known(self, object x):
        """The row of a dict, without the features that were never learned.

        The workspace may be that of all single predictions: use it before any Python code runs.
        """
        cdef Workspace workspace = self.room()
        cdef bint nested = self._is_reading
        if nested:
            # a feature name's own code let another prediction in: it needs rows of its own
            workspace = self.workspace()
        self._is_reading = True
        try:
            self.read(x, workspace, False)
        finally:
            # who is nested, maybe in a call of another thread, has nothing to put back
            self._is_reading = nested and self._is_reading
        self.make(workspace)
        self._own_was_last = workspace is self.own
        return workspace

    cdef int read_new(self, object x) except -1:
        """Read a dict that is to be learned; raises before anything changes if it cannot be."""
        return self.read(x, self.room(), True)

    cdef bint has_new_names(self) noexcept:
        """Whether what was read to be learned has features that `commit` is to make columns of."""
        return self.features._new_names is not None

    cdef int commit(self, RowBuffer row) except -1:
        """Make columns for the new features of what was read: all of them or, on an error, none."""
        self.features.commit(row)
        if self.scaler.size < len(self.features.names):
            self._add_columns([self.scaler.rows] * (len(self.features.names) - self.scaler.size))
        return 0

    cdef int _add_columns(self, list births) except -1:
        """Make columns of the names that have none yet; on an error these are forgotten."""
        cdef int32_t size = self.scaler.size
        try:
            self.scaler.reserve(size + <int32_t> len(births))
            for birth in births:
                self.scaler.add_columns(self.scaler.size + 1, birth)
        except BaseException:
            self.forget_columns(size)
            raise
        self._version += 1
        return 0

    cdef int forget_columns(self, int32_t size) except -1:
        """Forget the columns from `size` on, which no row had yet."""
        if size < len(self.features.names):
            self.features.truncate(size)
            self.scaler.size = size
            self.context.n_columns = min(self.context.n_columns, size)
            self._version += 1
        return 0

    # ------------------------------------------------------------------------- any rows

    cdef int take(self, RowSource source, Py_ssize_t i, bint learns,
                  Workspace workspace) except -1 nogil:
        """Read row i of a source, to be learned or only predicted."""
        # few rows of a batch are the one before: that is not worth a look at each
        workspace.version = 0
        workspace.repeats = False
        source.read(i, learns, workspace.incoming)
        if self.features.n_shared:
            self.features.merge(workspace.incoming)
        return 0

    cdef bint is_made(self, Workspace workspace) noexcept nogil:
        """Whether the views of what was read are there, from the call before."""
        return workspace.version == self._version and (
            workspace.repeats or workspace.raw.equals(workspace.incoming)
        )

    cdef int make(self, Workspace workspace) except -1 nogil:
        """Make the views of what was read, as it is to be predicted."""
        if workspace is self.own:
            # for all that is known here, the row is not that of a dict
            self._own_was_last = False
        workspace.reserve_answers(max(self.context.n_labels, self.context.n_targets))
        if self.is_made(workspace):
            return 0
        workspace.version = 0
        workspace.raw.swap(workspace.incoming)
        workspace.make_views(self.scaler)
        workspace.version = self._version
        return 0

    cdef bint has_news(self, Workspace workspace) noexcept nogil:
        """Whether what was read has a value in a column that no row before had."""
        cdef Py_ssize_t i
        if self.scaler.n_born == self.scaler.size:
            return False
        for i in range(workspace.incoming.n):
            if (
                self.scaler.columns[workspace.incoming.columns[i]].birth >= self.scaler.rows
                and workspace.incoming.values[i] == workspace.incoming.values[i]
            ):
                return True
        return False

    cdef int make_known(self, Workspace workspace) except -1 nogil:
        """Make what was read in `spare` as it is before it is learned: without new columns."""
        cdef Py_ssize_t i, n = 0
        cdef int32_t column
        if self.spare is None:
            # few models ever need one, and models may be many
            with gil:
                self.spare = self.workspace()
        self.spare.incoming.reserve(workspace.incoming.n)
        for i in range(workspace.incoming.n):
            column = workspace.incoming.columns[i]
            self.spare.incoming.columns[n] = column
            self.spare.incoming.values[n] = workspace.incoming.values[i]
            n += self.scaler.columns[column].birth < self.scaler.rows
        self.spare.incoming.n = n
        return self.make(self.spare)

    cdef bint count(self, Workspace workspace, bint zeros_implied) noexcept nogil:
        """Let the raw row into the scales; returns whether its views are others now."""
        cdef bint changes = self.scaler.count(workspace.raw, zeros_implied)
        self._version += 1
        # a batch announces its columns early: tables are laid out for those that some row had
        self.context.n_columns = self.scaler.n_born
        return changes

    cdef int make_counted(self, Workspace workspace, bint is_there) except -1 nogil:
        """The views of a row that was counted, as it is to be learned."""
        if not is_there:
            workspace.make_views(self.scaler)
        workspace.reserve_answers(max(self.context.n_labels, self.context.n_targets))
        if self.scaler.standardises:
            self.scaler.count_norm(workspace.norm)
        return 0

    # --------------------------------------------------------------------------- batches

    cdef object known_columns(self, list names):
        """The column of every name as an int32 array, -1 where the model knows none."""
        columns = np.empty(len(names), dtype=np.int32)
        cdef int32_t[::1] view = columns
        cdef Py_ssize_t i
        for i, name in enumerate(names):
            view[i] = self.features.find(name)
            if view[i] < 0:
                view[i] = self.features.find(self.features.place_for(name))
        return columns

    cdef object learned_columns(self, list names, list first_rows):
        """As `known_columns`, after adding the new names.

        `first_rows[i]` is the row of the batch in which column i first has a value, -1 if in
        none: the order of births must be that of a loop over the rows.
        """
        cdef Py_ssize_t size = len(self.features.names)
        cdef int64_t most = self.features.most
        cdef bint is_settled = self.scaler.rows >= SETTLED_ROWS
        cdef list births = []
        # their rows go to `own` past `read`
        self._own_was_last = False
        columns = self.known_columns(names)
        new = [
            (first_rows[i], i) for i, name in enumerate(names)
            if first_rows[i] >= 0 and self.features.find(name) < 0
        ]
        if not new:
            return columns
        try:
            for _, i in new:
                # a category is text; how its feature is called is what may be wrong
                check_name(names[i][0] if type(names[i]) is Category else names[i])
            for first_row, i in sorted(new):
                if not is_settled and self.scaler.rows + first_row >= SETTLED_ROWS:
                    # as it will be when that row comes
                    self.features.lend(len(self.features.names))
                    is_settled = True
                self.features.let_in(names[i])
                if len(self.features.names) > size + len(births):
                    births.append(self.scaler.rows + first_row)
            columns = self.known_columns(names)
        except BaseException:
            self.features.truncate(size)
            raise
        finally:
            self.features.most = most
        self._add_columns(births)
        return columns

    cdef int forget(self) except -1:
        """Be as before any row; labels are for their index to take back."""
        self._forget_read()
        self.features.truncate(0)
        self.scaler.forget()
        self.context.n_columns = self.context.n_labels = 0
        return 0

    cdef void _forget_read(self) noexcept:
        """Read all rows anew: their columns may be others."""
        self.features.forget_read()
        self._own_was_last = False
        self._version += 1

    cdef void drop_rooms(self) noexcept:
        """Keep no room for a row between batches: models may be many. Those of ensembles are not.
        """
        self._own_was_last = False
        if len(self.scratches) == 1:
            self.own = self.spare = None

    cdef int end_batch(self, RowSource source) except -1:
        """Say that no further row of a batch is learned.

        A sparse batch implies zeros only in the columns that it has.
        """
        cdef int64_t n_rows
        cdef int32_t position
        if source.is_sparse:
            n_rows = self.scaler.implied_rows - source.implied_before
            mentioned = set(np.asarray(source.columns).tolist())
            for position in range(self.scaler.size):
                if position not in mentioned:
                    self.scaler.not_implied(position, n_rows)
        # those of rows that were not reached
        return self.forget_columns(self.scaler.n_born)


@cython.final
cdef class DictRows(RowSource):
    """A list of dicts as rows; what is learned of them brings its columns along."""

    def __cinit__(self, Intake intake, list rows):
        self.intake = intake
        self.rows = rows
        self.n_rows = len(rows)

    cdef int bind(self, ColumnScaler scaler, const int32_t[::1] columns) except -1:
        """Columns are found row by row: those of a frame say nothing."""
        return 0

    cdef int read(self, Py_ssize_t i, bint learns, RowBuffer out) except -1 nogil:
        with gil:
            self.intake.features.read(as_dict(self.rows[i]), out, learns)
            # not through `read`: the workspace is whosever it is
            self.intake._own_was_last = False
            if self.intake.own is not None:
                self.intake.own.repeats = False
            if learns:
                self.intake.commit(out)
        return 0
