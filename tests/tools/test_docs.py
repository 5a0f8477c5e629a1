"""What the README and the docstrings show is what happens."""

import doctest
import importlib
import re
from pathlib import Path

import pytest
from support.estimators import ESTIMATORS, NAMES

import streamtree

README = (Path(__file__).parents[2] / "README.md").read_text()


MODULES = sorted({
    "streamtree.checkpoint", "streamtree.serialization",
    *(estimator.__module__ for estimator in ESTIMATORS),
})  # fmt: skip


@pytest.mark.parametrize("module", MODULES)
def test_the_examples_of_the_docstrings_run(module):
    result = doctest.testmod(importlib.import_module(module))
    assert result.attempted > 0
    assert result.failed == 0


def test_the_readme_starts_with_the_two_commands():
    first_block = re.search(r"```sh\n(.*?)```", README, re.DOTALL).group(1)
    assert first_block.splitlines() == [
        'python -m pip install ".[cli]" && streamtree-learn evaluate --demo',
        'python -m pip install -e ".[test]" && python -m pytest',
    ]


def test_the_python_of_the_readme_runs(capsys):
    blocks = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert blocks
    for block in blocks:
        exec(compile(block, "README.md", "exec"), {})
    assert re.search(r"Accuracy: 9\d\.\d+%", capsys.readouterr().out)


@pytest.mark.parametrize("name", NAMES)
def test_every_learner_is_in_the_readme_and_documented(name):
    assert f"`{name}`" in README
    learner = getattr(streamtree, name)
    for section in ("References", "Examples"):
        assert f"{section}\n    ---" in learner.__doc__
    # a sibling with the same parameters may say them for both
    refers = re.search(r"parameters [a-z ]*are those\s+of `(\w+)`", learner.__doc__)
    speaker = getattr(streamtree, refers.group(1)) if refers else learner
    assert list(speaker()._get_params()) == list(learner()._get_params())
    for section in ("Parameters", "Notes"):
        assert f"{section}\n    ---" in speaker.__doc__
    for parameter in learner()._get_params():
        assert re.search(rf"^    {parameter}$", speaker.__doc__, re.MULTILINE), parameter
