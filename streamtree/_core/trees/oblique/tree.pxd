"""An oblique tree: what it starts from, and how it learns row by row."""

from streamtree._core.trees.oblique.steps cimport ObliqueSteps
from streamtree._core.trees.oblique.warmup cimport WarmUp


cdef class ObliqueTree(ObliqueSteps):
    cdef WarmUp warm_up
    cdef Py_ssize_t _most_rows      # of the warm-up
