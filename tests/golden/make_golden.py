"""Write the model files of the present version; run it once for every release.

    python tests/golden/make_golden.py

Files of versions that were released are never written again: they are what users have on disk.
Those of a version to come may be, with a format that is still changing.
"""

import json
import math
import sys
from pathlib import Path

FOLDER = Path(__file__).parent
sys.path.insert(0, str(FOLDER.parent))

import numpy as np  # noqa: E402
from support.estimators import CASES, learned, targets_of  # noqa: E402
from support.streams import changing_rows  # noqa: E402

import streamtree  # noqa: E402


def predictions(model):
    """What a model predicts for some rows, as JSON can hold it."""
    rows, _ = changing_rows(200, 4)
    said = [model.predict_one(x) for x in rows[::10]]
    if hasattr(model, "predict_proba_one"):
        said += [model.predict_proba_one(x) for x in rows[::10]]
    return json.loads(json.dumps(said))


def close(found, expected):
    """Whether predictions are the same but for the last digits of numbers."""
    if isinstance(found, list):
        return len(found) == len(expected) and all(map(close, found, expected))
    if isinstance(found, dict):
        return list(found) == list(expected) and close(
            list(found.values()), list(expected.values())
        )
    if isinstance(found, float):
        return math.isclose(found, expected, rel_tol=1e-9, abs_tol=1e-12)
    return found == expected


def main():
    """Write a file and its predictions for every estimator and its test parameters."""
    folder = FOLDER / streamtree.__version__
    folder.mkdir(exist_ok=True)
    rows, classes = changing_rows(60, 4)
    for case in CASES:
        estimator, params = case.values
        model = learned(estimator, params, rows, targets_of(estimator, classes))
        path = folder / f"{case.id}.model"
        model.save(path)
        path.with_suffix(".json").write_text(json.dumps(predictions(model)) + "\n")
        print(f"{path.stat().st_size:8} {path.name}")


if __name__ == "__main__":
    np.seterr(all="raise", under="ignore")
    main()
