"""The example programs, as a user runs them: each says what it should, and no more than that."""

import re
import runpy
import sys
from pathlib import Path

import pytest
from support.marks import first_quick

EXAMPLES = Path(__file__).parents[2] / "examples"
# what is printed, and the bounds of the numbers in it
SAID = {
    "quickstart": (r"Accuracy: ([\d.]+)%", [(85, 100)]),
    "pipeline": (
        r"HoeffdingTreeClassifier Accuracy: ([\d.]+)%\nModelTreeClassifier Accuracy: ([\d.]+)%",
        [(60, 85), (85, 100)],
    ),
    "csv_with_dates": (r"MAE: ([\d.]+)", [(3, 20)]),
    "semicolons": (r"SoftTreeRegressor +[\d.]+ +[\d.]+ +(\S+)", [(0.5, 1)]),
    "parquet_batches": (r"mean absolute error ([\d.]+) in (\d+) rows", [(3, 20), (4000, 4000)]),
    "regression_interval": (r"(\d+)% of 4000 targets", [(80, 97)]),
    "resume": (r"goes on at row (\d+)\ngoes on at row (\d+)", [(0, 0), (1000, 1000)]),
    "explain": (r"(?:True|False), with probability ([\d.]+):[\s\S]*predicts", [(0.5, 1)]),
    "importances": (r" ([\d.]+)%  [\w-]+\n[\s\S]*tree.svg", [(10, 100)]),
    "grid_search": (r"([\d.]+) with \{", [(0.9, 1)]),
    "frames_with_categories": (r"([\d.]+)% of the last 1000 hours", [(85, 100)]),
}
NEEDS = {
    "semicolons": ["click", "polars", "rich"], "parquet_batches": ["polars"],
    "importances": ["matplotlib"], "grid_search": ["sklearn"], "frames_with_categories": ["pandas"],
}
MOST_LINES = 25


@pytest.mark.parametrize("name", first_quick(SAID))
def test_an_example_does_its_job(name, tmp_path, monkeypatch, capfd):
    for module in NEEDS.get(name, []):
        pytest.importorskip(module)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(EXAMPLES)
    monkeypatch.setattr(sys, "argv", [name])
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    out, err = capfd.readouterr()
    assert err == ""
    pattern, bounds = SAID[name]
    found = re.search(pattern, out)
    assert found, out
    for text, (low, high) in zip(found.groups(), bounds, strict=True):
        assert low <= float(text) <= high, out


def test_examples_are_short():
    programs = {path.stem: path for path in EXAMPLES.glob("*.py")}
    assert programs.keys() >= SAID.keys()
    for name in SAID:
        assert len(programs[name].read_text().splitlines()) <= MOST_LINES, name
