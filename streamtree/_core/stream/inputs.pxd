"""A row as the kernels of linear models take it: its values with their places in a table."""

from libc.stdint cimport int32_t

from streamtree._core.kernels.linear cimport Inputs
from streamtree._core.store.budget cimport may_take_rare
from streamtree._core.store.tables cimport PATH_FACTOR, Table, table_locate, table_locate_all
from streamtree._core.stream.context cimport Context
from streamtree._core.stream.row cimport Scratch, View


cdef inline Inputs find_inputs(const Table* table, const View* x, Scratch* scratch) noexcept nogil:
    """Without the records that are absent; the slots are in the scratch, if not in the row."""
    cdef Inputs inputs
    inputs.values = x.values
    inputs.n = x.n
    inputs.steps = scratch.steps
    inputs.slots = NULL
    inputs.n_absent = 0
    if table.keys == NULL and x.top < table.capacity:
        if not x.is_full:
            inputs.slots = x.columns
    else:
        inputs.n_absent = table_locate(table, x.columns, x.n, scratch.slots)
        inputs.slots = scratch.slots
    return inputs


cdef inline int make_inputs(
    Table* table, int width, int32_t universe, const View* x, Scratch* scratch, Inputs* inputs
) except -1 nogil:
    """As `find_inputs`, after making the records that are absent, if the model has room."""
    inputs[0] = find_inputs(table, x, scratch)
    return add_absent(table, width, universe, x, inputs)


cdef inline int add_absent(
    Table* table, int width, int32_t universe, const View* x, Inputs* inputs
) except -1 nogil:
    """Make the records that `find_inputs` has not found."""
    if inputs.n_absent:
        inputs.n_absent = table_locate_all(
            table, width, x.columns, x.n, universe, PATH_FACTOR, <int32_t*> inputs.slots
        )
    return 0


cdef inline int make_common_inputs(
    Table* table, int width, Context context, const View* x, Scratch* scratch, Inputs* inputs
) except -1 nogil:
    """As `make_inputs`; where room is short without records of columns that are rare."""
    cdef Py_ssize_t i
    cdef int32_t* slots
    inputs[0] = find_inputs(table, x, scratch)
    if inputs.n_absent == 0 or may_take_rare():
        return add_absent(table, width, context.n_columns, x, inputs)
    slots = <int32_t*> inputs.slots
    for i in range(x.n):
        if slots[i] < 0 and not context.is_rare(x.columns[i]):
            table_locate_all(
                table, width, &x.columns[i], 1, context.n_columns, PATH_FACTOR, &slots[i]
            )
    # what was found before may have moved
    inputs[0] = find_inputs(table, x, scratch)
    return 0
