"""The first rows of a stream, and the tree that is grown from them."""

from libc.stdint cimport int32_t, int64_t

from streamtree._core.splits.greedy cimport GreedySearch
from streamtree._core.stream.buffers cimport RowBuffer
from streamtree._core.stream.keptrows cimport KeptRows
from streamtree._core.stream.row cimport Example, Scratch, View
from streamtree._core.trees.oblique.steps cimport ObliqueSteps, Step


cdef struct KeptStep:
    # a kept row on its way through the tree
    View x
    Example example
    Step step


cdef class WarmUp:
    cdef bint refines           # CO2 after every axis-aligned split
    cdef bint joins             # fill the tree up, and train all splits jointly on the rows
    cdef Py_ssize_t n_rows      # how many rows to keep; 0 when the warm-up is over
    cdef Py_ssize_t due_at      # the number of rows at which the tree is next grown anew
    cdef KeptRows rows
    cdef RowBuffer _room
    cdef Scratch _scratch
    cdef GreedySearch _search

    cdef int keep(self, const View* x, const Example* example, int32_t n_targets) except -1 nogil
    cdef bint is_due(self) noexcept nogil
    cdef int build(self, ObliqueSteps tree) except -1
    cdef int _build(self, ObliqueSteps tree) except -1
    cdef dict state(self)
    cdef int take_state(self, dict state) except -1

    cdef void _read(self, Py_ssize_t row, KeptStep* kept) noexcept nogil
    cdef int _replay(self, ObliqueSteps tree) except -1
    cdef int _grow(self, ObliqueSteps tree) except -1
    cdef int _grow_level(self, ObliqueSteps tree, int32_t[::1] places, list groups) except -1
    cdef bint _split(
        self, ObliqueSteps tree, int32_t node, const int64_t[::1] members, int32_t column,
        double threshold, int32_t[::1] node_of
    ) except -1
    cdef int _set_axis(
        self, ObliqueSteps tree, int32_t node, const int64_t[::1] members, int32_t column,
        double threshold
    ) except -1
    cdef Py_ssize_t _sides(
        self, ObliqueSteps tree, int32_t node, const int64_t[::1] members, signed char[::1] side
    ) noexcept
    cdef int _refine(
        self, ObliqueSteps tree, int32_t node, const int64_t[::1] members, signed char[::1] side
    ) except -1
    cdef int _refine_once(
        self, ObliqueSteps tree, int32_t node, const int64_t[::1] members,
        signed char[::1] side, double[:, ::1] outputs
    ) except -1
    cdef double _output(self, const double* sums, Py_ssize_t i) noexcept nogil
    cdef double _loss(
        self, ObliqueSteps tree, const double* outputs, Py_ssize_t row
    ) noexcept nogil
    cdef int _set_outputs(
        self, ObliqueSteps tree, int32_t leaf, const int64_t[::1] members
    ) except -1
