"""Rows a second of `streamtree-learn evaluate`, from Parquet, CSV and JSON lines.

    python benchmarks/cli.py [--rows 1000000] [--model model]

Ten columns of random numbers and two classes, written to a temporary folder. Seconds are those of
the processor, start of the interpreter included: other work on the machine does not count.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import polars as pl


def data(n: int) -> pl.DataFrame:
    """Ten columns of numbers, and a class that follows some of them."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(n, 10)).round(6)
    y = np.where(X[:, 0] + X[:, 1] * X[:, 2] > 0.3, "yes", "no")
    return pl.DataFrame({**{f"x{i}": X[:, i] for i in range(10)}, "y": y})


def processor_seconds() -> float:
    """Of all processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Write the files, and run the command on each."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--model", default="model")
    given = parser.parse_args()
    frame = data(given.rows)
    with tempfile.TemporaryDirectory() as folder:
        write = {
            "parquet": frame.write_parquet, "csv": frame.write_csv, "jsonl": frame.write_ndjson
        }
        for kind, written in write.items():
            path = Path(folder) / f"data.{kind}"
            written(path)
            before = processor_seconds()
            done = subprocess.run(
                [sys.executable, "-P", "-m", "streamtree", "evaluate", str(path), "--target", "y",
                 "--model", given.model, "--json", "--quiet"],
                capture_output=True, text=True, check=True,
            )
            seconds = processor_seconds() - before
            (said,) = json.loads(done.stdout)["models"]
            print(
                f"{kind:8} {seconds:6.2f} s of CPU, {given.rows / seconds:10,.0f} rows/s, of which "
                f"the model alone {said['rows_per_second']:10,.0f}; accuracy {said['accuracy']:.4f}"
            )


if __name__ == "__main__":
    main()
