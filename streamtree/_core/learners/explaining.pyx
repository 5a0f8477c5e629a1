"""How a learner's predictions come about: ways through the tree, and the part of every column.

Rows have workspaces of their own here, for Python code runs while they are looked at.
"""

from libc.math cimport fabs
from libc.stdint cimport int32_t

from streamtree._core.learners.learner cimport Learner
from streamtree._core.leaves.explanation cimport Explanation
from streamtree._core.stream.intake cimport Workspace
from streamtree._core.stream.row cimport Prediction

import numpy as np


cdef Workspace row_of(Learner learner, x):
    """Read a dict."""
    cdef Workspace workspace = learner.intake.workspace()
    learner.intake.read(x, workspace, False)
    learner.intake.make(workspace)
    return workspace


cdef int read_value(Learner learner, int32_t column, double value, Workspace workspace) except -1:
    """Take a row of one value; the column need not have a name of its own."""
    workspace.incoming.reserve(1)
    workspace.incoming.columns[0] = column
    workspace.incoming.values[0] = value
    workspace.incoming.n = 1
    workspace.repeats = False
    return learner.intake.make(workspace)


cdef object told(Learner learner, int32_t node, Workspace workspace):
    """What is said from a node on: the most likely class and its share, or an array of numbers."""
    cdef Prediction said
    shares = np.zeros(learner.n_outputs() + 1)
    cdef double[::1] room = shares
    said.label = -1
    said.shares = &room[0]
    if len(shares) > 1:
        learner.tree.predict_below(node, &workspace.row, workspace.scratch, &said)
        learner.settle(&said)
    if learner.intake.context.n_targets:
        return shares[:len(shares) - 1]
    return said.label, shares[said.label] if said.label >= 0 else 0.0


def find_ways(Learner learner, x):
    """The nodes that a row reaches: (node, score of its test, share of the row, what is said).

    Only a leaf says something, and has the score None. Where several leaves answer together, that
    is the last item: of node None.
    """
    cdef Workspace row
    with learner.intake.lock.reading():
        row = row_of(learner, x)
        ways = [
            (node, score, share, told(learner, node or 0, row) if score is None else None)
            for node, score, share in learner.tree.ways(&row.row, row.scratch)
        ]
        if sum(score is None for _, score, _, _ in ways) > 1 and ways[len(ways) - 1][0] is not None:
            ways.append((None, None, 1.0, told(learner, 0, row)))
        return ways


def ask_members(Learner learner, x):
    """What every member of an ensemble says of a row, as float64 arrays of n_outputs."""
    cdef Workspace row
    with learner.intake.lock.reading():
        row = row_of(learner, x)
        return learner.tree.opinions(&row.row, row.scratch)


def explain(Learner learner, x, int32_t output):
    """The share of a class or the number of a target, the bias in it, and what columns add.

    The columns come as a dict by their numbers.
    """
    cdef Workspace row, blank
    cdef Explanation out
    with learner.intake.lock.reading():
        out = Explanation(output, learner.n_outputs())
        row, blank = row_of(learner, x), row_of(learner, {})
        out.describe(&blank.row, blank.scratch, blank)
        learner.settle_explanation(out)
        learner.tree.explain(&row.row, row.scratch, out)
        score = told_output(learner, row, out)
        return score, out.bias, out.columns


cdef double told_output(Learner learner, Workspace workspace, Explanation out) except? -1.0:
    """The share or number that the learner predicts."""
    cdef Prediction said
    said.label = -1
    said.shares = &out.room[0]
    learner.answer(workspace, &said)
    return out.room[out.output]


def measure_moves(Learner learner, list probes, list nodes):
    """How far rows of one value move what nodes say from what they say of a row without values.

    Every probe is a column and a value. Returns a float64 array of shape (n_probes, n_nodes, n):
    with labels n is 1, and it is half of the sum of all differences of shares; else n is the number
    of targets.
    """
    cdef Workspace workspace
    cdef Prediction said
    cdef Py_ssize_t i, j, k, n_nodes = len(nodes), n = learner.n_outputs()
    cdef bint of_labels = learner.intake.context.n_targets == 0
    cdef int32_t[::1] numbers = np.array(nodes, dtype=np.int32)
    cdef double[::1] shares = np.zeros(n + 1)
    cdef double[:, ::1] blank = np.zeros((n_nodes, n))
    moves = np.zeros((len(probes), n_nodes, 1 if of_labels else n))
    cdef double[:, :, ::1] out = moves
    with learner.intake.lock.reading():
        said.shares = &shares[0]
        workspace = row_of(learner, {})
        for i in range(-1, len(probes)):
            if i >= 0:
                read_value(learner, probes[i][0], probes[i][1], workspace)
            with nogil:
                for j in range(n_nodes):
                    learner.tree.predict_below(
                        numbers[j], &workspace.row, workspace.scratch, &said
                    )
                    for k in range(n):
                        if i < 0:
                            blank[j, k] = shares[k]
                        elif of_labels:
                            out[i, j, 0] += 0.5 * fabs(shares[k] - blank[j, k])
                        else:
                            out[i, j, k] = fabs(shares[k] - blank[j, k])
    return moves


def predict_nodes(Learner learner, list nodes):
    """What nodes say of a row without values: shares or numbers, of shape (n_nodes, n_outputs)."""
    cdef Prediction said
    cdef Workspace blank
    cdef Py_ssize_t i, n = learner.n_outputs()
    numbers = np.zeros((len(nodes), n))
    cdef double[:, ::1] out = numbers
    with learner.intake.lock.reading():
        blank = row_of(learner, {})
        for i in range(len(nodes) if n else 0):
            said.shares = &out[i, 0]
            learner.tree.predict_below(nodes[i], &blank.row, blank.scratch, &said)
            learner.settle(&said)
    return numbers


def number_of(Learner learner, label):
    """The number of a label, -1 if it was never learned."""
    return learner.intake.labels.find(learner.intake.labels.normalized(label))
