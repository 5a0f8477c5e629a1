"""The search for the nearest rows, in blocks, beside the distances alone, row by row.

    python benchmarks/neighbors.py

Both in C, by the header that the library is built from, over 8,192 random rows whose columns have
uneven weights. Needs a C compiler, `cc`.
"""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
from pathlib import Path

import numpy as np
from report import Report, short, versions

HEADER = Path(__file__).parents[1] / "streamtree/_core/kernels/neighbors.h"
FLAGS = ("-O3", "-w", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math", "-shared")
ROWS, QUERIES, TURNS = 8192, 100, 50

SOURCE = r"""
#include <time.h>
#include "%s"

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e6 * t.tv_sec + 1e-3 * t.tv_nsec;
}

STREAMTREE_CLONES float row_by_row(
    const float *rows, const float *row, const float *weights, int n, int width)
{
    float least = INFINITY;
    for (int i = 0; i < n; i++) {
        float sum = 0.0f;
        for (int j = 0; j < width; j++)
            sum += weights[j] * fabsf(rows[(int64_t) i * width + j] - row[j]);
        least = sum < least ? sum : least;
    }
    return least;
}

/* microseconds a query: in blocks, and row by row; -1 where they disagree on the nearest */
void measure(const float *rows, const float *blocks, const float *queries, const float *weights,
             const int32_t *order, int n, int width, int n_queries, double *took)
{
    streamtree_query of = {
        (const streamtree_cell *) blocks, width, width, order, NULL, weights, 0.0f, n, n, 0};
    streamtree_near near;
    double start = now(), middle;
    float sum = 0.0f, other = 0.0f;
    for (int q = 0; q < n_queries; q++) {
        of.row = (const streamtree_cell *) (queries + (int64_t) q * width);
        streamtree_nearest(&of, &near);
        sum += near.distances[0];
    }
    middle = now();
    for (int q = 0; q < n_queries; q++)
        other += row_by_row(rows, queries + (int64_t) q * width, weights, n, width);
    took[0] = (middle - start) / n_queries;
    took[1] = fabsf(sum - other) < 1e-3f * sum ? (now() - middle) / n_queries : -1.0;
}
"""


def compiled(folder: Path) -> ctypes.CDLL:
    """The two searches."""
    (folder / "search.c").write_text(SOURCE % HEADER)
    library = folder / "search.so"
    command = ["cc", *FLAGS, "-fPIC", str(folder / "search.c"), "-o", str(library), "-lm"]
    subprocess.run(command, check=True)
    return ctypes.CDLL(str(library))


def measured(library: ctypes.CDLL, width: int) -> list[float]:
    """The least microseconds a query of many turns: in blocks, and row by row."""
    rng = np.random.default_rng(width)
    rows = rng.normal(size=(ROWS, width)).astype(np.float32)
    blocks = np.ascontiguousarray(rows.reshape(ROWS // 32, 32, width).transpose(0, 2, 1))
    queries = rng.normal(size=(QUERIES, width)).astype(np.float32)
    # none is so little that its column is not looked at
    weights = np.maximum(rng.gamma(0.5, size=width), 0.05).astype(np.float32)
    order = np.argsort(-weights).astype(np.int32)
    took = np.empty((TURNS, 2))
    for turn in took:
        parts = [part.ctypes.data_as(ctypes.c_void_p) for part in
                 (rows, blocks, queries, weights, order)]
        library.measure(
            *parts, ROWS, width, QUERIES, turn.ctypes.data_as(ctypes.c_void_p)
        )
    return took.min(axis=0).tolist()


def main() -> None:
    """Print the table."""
    print(versions())
    report = Report()
    report.begin("neighbors", f"microseconds to search {ROWS:,} rows")
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        library = compiled(Path(folder))
        for width in (8, 10, 16, 54):
            ours, other = measured(library, width)
            rows.append([str(width), short(ours), short(other), f"{other / ours:.1f}"])
    report.table(["columns", "in blocks", "row by row", "times as long"], rows)


if __name__ == "__main__":
    main()
