"""A model for every sensor from a folder of CSV files; started again, it goes on where it was."""

import os
import sys
from pathlib import Path

os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "disabled"}

import numpy as np
import pandas as pd
import ray

from streamtree import SoftTreeRegressor
from streamtree.distributed import KeyedModels

folder = Path("rows")
if not folder.exists():
    folder.mkdir()
    rng = np.random.default_rng(1)
    for day in range(6):
        rows = pd.DataFrame(rng.normal(size=(1000, 3)).round(3), columns=["heat", "load", "wind"])
        rows["sensor"] = rng.integers(20, size=1000)
        rows["output"] = rows["load"] * (rows["sensor"] - 10) + rows["wind"]
        rows.to_csv(folder / f"day-{day}.csv", index=False)


def batches(skip):
    """The rows of all files behind the first `skip`, 500 at a time."""
    for path in sorted(folder.glob("*.csv")):
        for rows in pd.read_csv(path, chunksize=500):
            new = rows.iloc[min(skip, len(rows)) :]
            skip = max(0, skip - len(rows))
            if len(new):
                yield new["sensor"], new[["heat", "load", "wind"]], new["output"]


ray.init(include_dashboard=False, log_to_driver=False, configure_logging=False)
with KeyedModels(SoftTreeRegressor(), 2, folder="models", checkpoint_rows=2000) as models:
    print(f"from row {models.position} on")
    todo = list(batches(models.position))[: int(sys.argv[1]) if len(sys.argv) > 1 else None]
    said = np.concatenate(list(models.run(todo, progress=sys.stderr.isatty())))
    if len(sys.argv) > 1:
        sys.exit("stopped on the way")
    models.checkpoint()
    outputs = np.concatenate([output for _, _, output in todo])
    error = np.abs(said - outputs).mean() / np.abs(outputs).mean()
    print(f"{len(models)} sensors, {models.position} rows, error {error:.2f} of the mean output")
