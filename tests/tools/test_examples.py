"""The example programs, as a user runs them."""

import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_quickstart(tmp_path):
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / "quickstart.py")],
        cwd=tmp_path, capture_output=True, text=True, encoding="utf-8", timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0
    assert done.stderr == ""
    name, _, score = done.stdout.partition(":")
    assert name == "Accuracy"
    assert float(score.strip().removesuffix("%")) > 70  # always saying the same class gives 14
