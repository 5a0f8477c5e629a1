"""What the README and the docstrings show is what happens."""

import doctest
import re
from pathlib import Path

import pytest

import streamtree
from streamtree import lomtree, selfterminating

README = (Path(__file__).parent.parent / "README.md").read_text()


@pytest.mark.parametrize("module", [lomtree, selfterminating], ids=lambda module: module.__name__)
def test_the_examples_of_the_docstrings_run(module):
    result = doctest.testmod(module)
    assert result.attempted > 0
    assert result.failed == 0


def test_the_readme_starts_with_the_two_commands():
    first_block = re.search(r"```sh\n(.*?)```", README, re.DOTALL).group(1)
    assert first_block.splitlines() == [
        'python -m pip install ".[examples]" && python examples/prequential.py',
        'python -m pip install -e ".[test]" && python -m pytest',
    ]


def test_the_python_of_the_readme_runs(capsys):
    blocks = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert blocks
    for block in blocks:
        exec(compile(block, "README.md", "exec"), {})
    assert re.search(r"Accuracy: [78]\d\.\d+%", capsys.readouterr().out)


@pytest.mark.parametrize("name", [n for n in streamtree.__all__ if n[0] != "_"])
def test_every_learner_is_in_the_readme_and_documented(name):
    assert f"`{name}`" in README
    learner = getattr(streamtree, name)
    for section in ("Parameters", "Notes", "References", "Examples"):
        assert f"{section}\n    ---" in learner.__doc__
    for parameter in learner()._get_params():
        assert re.search(rf"^    {parameter}$", learner.__doc__, re.MULTILINE), parameter
