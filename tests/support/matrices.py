"""Sparse matrices that point to where nothing is."""

import numpy as np
import scipy.sparse as sp


def pointing(indptr, shape=(2, 5)):
    X = sp.csr_matrix((np.ones(4), [1, 0, 1, 0], [0, 2, 4]), shape=shape)
    X.indptr[:] = indptr
    return X


MALFORMED = {
    "an index too large": lambda: sp.csr_matrix(
        (np.ones(4), [0, 1, 2, 10**6], [0, 2, 4]), shape=(2, 5)
    ),
    "an index just too large": lambda: sp.csr_matrix(
        (np.ones(4), [0, 1, 2, 5], [0, 2, 4]), shape=(2, 5)
    ),
    "a negative index": lambda: sp.csr_matrix(
        (np.ones(4), [0, 1, 2, -1], [0, 2, 4]), shape=(2, 5)
    ),
    "a falling indptr": lambda: pointing([0, 5, 4]),
    "a falling indptr that ends at 0": lambda: pointing([0, 4, 0]),
    "an indptr whose differences overflow": lambda: pointing([0, 4, -(2**31)]),
    "a column matrix whose indptr falls to 0": lambda: sp.csc_matrix(
        (np.ones(4), [1, 0, 1, 0], [0, 2, 0]), shape=(5, 2)
    ),
}
