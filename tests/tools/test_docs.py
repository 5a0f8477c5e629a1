"""What the README and the docstrings show is what happens."""

import ast
import doctest
import gzip
import importlib
import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.estimators import ESTIMATORS, NAMES

import streamtree

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


MODULES = sorted({
    "streamtree.checkpoint", "streamtree.serialization",
    *(estimator.__module__ for estimator in ESTIMATORS),
})


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


# ------------------------------------------------------------------- the code of the pages


def blocks(page):
    """(language, text, line) of every block of a page."""
    fence = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
    text = page.read_text()
    return [
        (found[1], found[2], text.count("\n", 0, found.start()) + 1)
        for found in fence.finditer(text)
    ]


def is_command(language, text):
    """Whether a block runs our command line; those that install are for the reader."""
    return language == "sh" and "streamtree-learn" in text and "pip install" not in text


def run_commands(text, folder):
    """A block of commands, with `streamtree-learn` as the one of this package."""
    command = 'streamtree-learn() { "$PYTHON" -P -m streamtree "$@"; }\n' + text
    return subprocess.run(
        ["bash", "-euo", "pipefail", "-c", command],
        cwd=folder, env={**os.environ, "PYTHON": sys.executable, "COLUMNS": "100"},
        capture_output=True, text=True, timeout=300, check=False,
    )


def lacking(code):
    """Modules that the code imports and that are not installed."""
    tree = ast.walk(ast.parse(code))
    names = [a.name for node in tree if isinstance(node, ast.Import) for a in node.names]
    tree = ast.walk(ast.parse(code))
    names += [node.module for node in tree if isinstance(node, ast.ImportFrom)]
    return [name for name in names if importlib.util.find_spec(name.partition(".")[0]) is None]


def assert_alike(said, shown, where):
    """The same words, and numbers within a tenth: learners get better."""
    number = r"-?\d[\d,]*\.?\d*"
    assert re.sub(number, "#", said).split() == re.sub(number, "#", shown).split(), where
    for a, b in zip(re.findall(number, said), re.findall(number, shown), strict=True):
        a, b = (float(each.replace(",", "")) for each in (a, b))
        assert a == pytest.approx(b, rel=0.1), where


def with_code():
    for page in PAGES:
        kinds = [block[0] == "python" or is_command(*block[:2]) for block in blocks(page)]
        if any(kinds):
            # processes of their own take seconds
            slow = any(is_command(*b[:2]) or "import ray" in b[1] for b in blocks(page))
            marks = [pytest.mark.slow] if slow else []
            yield pytest.param(page, id=str(page.relative_to(ROOT)), marks=marks)


@pytest.fixture
def _flights(tmp_path):
    """The files that the README speaks of."""
    lines = [f"2025-01-{1 + i // 24:02} {i % 24:02}:00,{'AB'[i % 2]},{i % 24 > 15}\n"
             for i in range(600)]
    text = "".join(["time,carrier,delayed\n", *lines])
    (tmp_path / "flights.csv.gz").write_bytes(gzip.compress(text.encode()))
    (tmp_path / "new.csv").write_text("time,carrier\n2025-02-01 18:00,A\n")


def end_cluster():
    if "ray" in sys.modules:
        sys.modules["ray"].shutdown()


@pytest.mark.usefixtures("_flights")
@pytest.mark.parametrize("page", list(with_code()))
def test_the_code_of_a_page_runs(page, tmp_path, monkeypatch, capsys, request):
    monkeypatch.chdir(tmp_path)
    if "ray.init(" in page.read_text():
        # that of other tests in this process before, that of the page after
        end_cluster()
        request.addfinalizer(end_cluster)
    names, said = {"__name__": "page"}, None
    for language, text, line in blocks(page):
        where = f"{page.relative_to(ROOT)}:{line}"
        if language == "python":
            if missing := lacking(text):
                pytest.skip(f"{where} needs {', '.join(missing)}")
            exec(compile("\n" * line + text, str(page), "exec"), names)
            said = capsys.readouterr().out
        elif language == "text":
            assert_alike(said, text, where)
        elif is_command(language, text):
            done = run_commands(text, tmp_path)
            assert done.returncode == 0, f"{where}: {done.stderr}"


def test_the_pages_have_code_to_run():
    pages = list(with_code())
    assert len(pages) > 15
    assert sum(len(blocks(page.values[0])) for page in pages) > 40


def test_the_first_program_of_the_readme_says_its_score(capsys):
    exec(compile(blocks(ROOT / "README.md")[1][1], "README.md", "exec"), {})
    assert re.search(r"Accuracy: 9\d\.\d+%", capsys.readouterr().out)


def test_links_and_pictures_lead_somewhere():
    for page in PAGES:
        text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
        for link in re.findall(r"\]\(([^)\s]+)\)", text):
            if not re.match(r"https?:|mailto:|#", link):
                target = page.parent / link.partition("#")[0]
                assert target.exists(), f"{page.relative_to(ROOT)}: {link}"


@pytest.mark.slow
def test_the_site_builds_without_warnings(tmp_path):
    for name in ("mkdocs", "material", "mkdocstrings"):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f'{name} is not installed: pip install ".[docs]"')
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)],
        cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True, text=True, timeout=300, check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    listed = (tmp_path / "llms.txt").read_text()
    for page in PAGES[1:]:
        path = page.relative_to(ROOT / "docs").as_posix()
        assert f"]({path}): " in listed
        assert (tmp_path / path).read_text() == page.read_text()
    for name in NAMES:
        assert f'id="streamtree.{name}"' in (tmp_path / "api.html").read_text()


# ------------------------------------------------------------------------------- learners


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
