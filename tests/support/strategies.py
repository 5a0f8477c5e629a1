"""Hypothesis strategies: streams whose features come and go, any names, labels and weights."""

import itertools

import numpy as np
from hypothesis import strategies as st

finite = st.floats(allow_nan=False, allow_infinity=False)
moderate = st.floats(-1e6, 1e6)

names = st.one_of(
    st.text(max_size=4),
    st.integers(),
    st.floats(allow_nan=False),
    st.binary(max_size=3),
    st.booleans(),
    st.none(),
    st.tuples(st.text(max_size=2), st.text(max_size=2)),
    st.fractions(max_denominator=9),
)

numbers = st.one_of(
    moderate,
    st.integers(-(10**6), 10**6),
    st.booleans(),
    st.sampled_from([0.0, -0.0, 0, 1e-300, -1e300, 2**200, np.float64(0.5)]),
    moderate.map(np.float32),
    st.integers(-128, 127).map(np.int8),
    st.booleans().map(np.bool_),
)
missing = st.sampled_from([None, float("nan"), np.float32("nan")])
categories = st.sampled_from(["", "a", "b", "yes", "no", np.str_("a")])
values = st.one_of(numbers, numbers, categories, missing)

labels = st.one_of(
    st.integers(),
    st.text(max_size=3),
    st.booleans(),
    st.floats(allow_nan=False),
    st.binary(max_size=2),
    st.tuples(st.integers(0, 3), st.text(max_size=1)),
    st.booleans().map(np.bool_),
    st.integers(-100, 100).map(np.int64),
)

weights = st.one_of(st.just(1.0), st.sampled_from([0.0, 0.5, 2, 3.0]), st.floats(1e-6, 1e6))

settings = st.fixed_dictionaries(
    {
        "max_splits": st.sampled_from([1, 2, 3, 5, 40]),
        "swap_resistance": st.sampled_from([1.0, 4.0]),
        "learning_rate": st.sampled_from([0.01, 0.5, 4.0]),
        "loss": st.sampled_from(["hinge", "logistic", "squared", "absolute"]),
        "forgetting": st.sampled_from([0.0, 0.003, 0.5]),
        # a tree must grow on the few rows that an example of hypothesis has
        "grace_period": st.sampled_from([1.0, 5.0]),
        "delta": st.sampled_from([0.1, 0.95]),
        "algorithm": st.sampled_from(["stream", "paper"]),
        "seed": st.sampled_from([None, 0, 2**64 - 1]),
    }
)


@st.composite
def streams(draw, values=values, names=names, labels=labels, weights=weights, max_rows=25):
    """A list of (x, y, w): rows over a few names, each of which any row may lack.

    The rows are repeated, some with other labels, for no tree grows on rows seen once.
    """
    pool = draw(st.lists(names, min_size=1, max_size=6, unique=True))
    classes = draw(st.lists(labels, min_size=1, max_size=6))
    row = st.fixed_dictionaries({}, optional=dict.fromkeys(pool, values))
    example = st.tuples(row, st.sampled_from(classes), weights)
    stream = draw(st.lists(example, min_size=1, max_size=max_rows))
    repeats = draw(st.integers(1, 5))
    return stream * repeats


@st.composite
def arrays(draw, max_rows=30, max_columns=6, cells=None):
    """A float64 array with at least one row and column."""
    shape = draw(st.integers(1, max_rows)), draw(st.integers(1, max_columns))
    if cells is None:
        cells = st.sampled_from([0.0, 0.0, 0.0, 1.0, -2.5, 3.0, 250.0, 1e-3])
    flat = draw(st.lists(cells, min_size=shape[0] * shape[1], max_size=shape[0] * shape[1]))
    return np.array(flat, dtype=np.float64).reshape(shape)


@st.composite
def chunkings(draw, n):
    """Slices that divide range(n) into consecutive chunks, empty ones among them."""
    cuts = sorted(draw(st.lists(st.integers(0, n), max_size=5)))
    edges = [0, *cuts, n]
    return [slice(a, b) for a, b in itertools.pairwise(edges)]
