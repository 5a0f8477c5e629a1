"""Tools as tests, and the floors of the house: who may import whom."""

import ast
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import streamtree

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "streamtree"
CORE = PACKAGE / "_core"
CYTHON = sorted(CORE.glob("*.pyx")) + sorted(CORE.glob("*.pxd"))
PYTHON = sorted(PACKAGE.glob("*.py"))
LEARNERS = {"lomtree", "nongreedy", "softtree", "selfterminating"}


def tool(name):
    """The path of a command, next to the interpreter or on the path; skips if there is none."""
    beside = Path(sys.executable).parent / name
    found = str(beside) if beside.exists() else shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


def run(*command):
    # tools call each other by name: cython-lint runs pycodestyle
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    return subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("folder", ["streamtree", "tests", "examples", "benchmarks", "setup.py"])
def test_ruff_finds_nothing(folder):
    if not (ROOT / folder).exists():
        pytest.skip(f"{folder} is not part of this installation")
    result = run(tool("ruff"), "check", folder)
    assert result.returncode == 0, result.stdout + result.stderr


def test_cython_lint_finds_nothing():
    result = run(tool("cython-lint"), "streamtree")
    assert result.returncode == 0, result.stdout + result.stderr


def test_no_python_line_is_too_long_even_where_ruff_does_not_look():
    for path in [*CYTHON, *PYTHON, *CORE.glob("*.pyi")]:
        for number, line in enumerate(path.read_text().splitlines(), start=1):
            assert len(line) <= 100, f"{path.name}:{number}"


# ------------------------------------------------------------------- import directions


def python_imports(path):
    """Every module that a Python file imports anywhere, in functions too."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name}: imports here are absolute"
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def cython_imports(path):
    """Every module that a Cython file imports or cimports, line by line."""
    pattern = r"^\s*(?:from\s+([\w.]+)\s+c?import|c?import\s+([\w.]+))"
    for a, b in re.findall(pattern, path.read_text(), flags=re.MULTILINE):
        yield a or b


def imports(path):
    return set(python_imports(path) if path.suffix == ".py" else cython_imports(path))


def top_level(path):
    return {name.split(".")[0] for name in imports(path)}


def test_there_is_something_to_look_at():
    assert {"lomtree.pyx", "features.pyx", "losses.pxd"} <= {path.name for path in CYTHON}
    assert {"base.py", "batches.py", "lomtree.py"} <= {path.name for path in PYTHON}
    assert "streamtree._core.learners" in imports(CORE / "lomtree.pyx")
    assert "numpy" in imports(CORE / "lomtree.pyx")
    assert "narwhals.stable.v2" in imports(PACKAGE / "batches.py")


@pytest.mark.parametrize("path", CYTHON, ids=lambda path: path.name)
def test_the_core_imports_nothing_from_above(path):
    for name in imports(path):
        if name.startswith("streamtree"):
            assert name.startswith("streamtree._core."), name
    assert top_level(path) <= {
        "streamtree", "numpy", "cython", "cpython", "libc", "collections", "numbers", "typing",
    }  # fmt: skip


@pytest.mark.parametrize("path", CYTHON, ids=lambda path: path.name)
def test_learners_never_import_each_other(path):
    others = LEARNERS - {path.stem}
    imported = {name.split(".")[2] for name in imports(path) if name.count(".") >= 2}
    assert not imported & others


@pytest.mark.parametrize("path", PYTHON, ids=lambda path: path.name)
def test_one_module_knows_river_and_one_knows_frames(path):
    known = top_level(path)
    assert ("river" in known) <= (path.name == "base.py")
    frames = {"pandas", "polars", "narwhals", "scipy", "pyarrow", "sklearn"}
    assert not known & frames or path.name == "batches.py"


FLOORS = [
    {"checkpoint"},
    {"diagnostics", "plots", "serialization"},
    {"criteria"},
    {"lomtree", "nongreedy", "softtree", "selfterminating"},
    {"base"},
    {"batches", "inspection"},
    {"modelfile", "states"},
]


@pytest.mark.parametrize("path", PYTHON, ids=lambda path: path.name)
def test_floors_import_from_below_only(path):
    floor = next((i for i, names in enumerate(FLOORS) if path.stem in names), -1)
    for name in imports(path):
        if name.startswith("streamtree.") and not name.startswith("streamtree._core"):
            module = name.split(".")[1]
            below = next((i for i, names in enumerate(FLOORS) if module in names), None)
            if below is not None:
                assert below > floor, name
    if path.stem in FLOORS[0] | FLOORS[1]:
        assert not any(name.startswith("streamtree._core") for name in imports(path))


def test_the_package_imports_no_more_than_it_needs():
    """Frames and matrices are for those who use them: `import streamtree` loads none."""
    result = run(
        sys.executable,
        "-c",
        "import sys, river.base; before = set(sys.modules); import streamtree;"
        "print(*sorted({m.split('.')[0] for m in set(sys.modules) - before}))",
    )
    assert result.returncode == 0, result.stderr
    new = set(result.stdout.split())
    assert "streamtree" in new
    assert not new & {"pandas", "polars", "narwhals", "scipy", "sklearn", "pyarrow", "matplotlib"}


@pytest.mark.parametrize("path", CYTHON, ids=lambda path: path.name)
def test_directives_stand_in_setup_py_only(path):
    """An unknown directive in a file's header is ignored without a word."""
    text = path.read_text()
    assert not re.search(r"^\s*#\s*(cython|distutils)\s*:", text, flags=re.MULTILINE)
    assert not re.search(r"^\s*#\s*tag:", text, flags=re.MULTILINE)


@pytest.mark.parametrize("path", CYTHON, ids=lambda path: path.name)
def test_c_functions_say_how_they_fail(path):
    """A bare `cdef void` would swallow what is raised in it."""
    text = path.read_text()
    for match in re.finditer(r"^\s*cdef (?:inline )?void \w+\((?:[^()]|\([^()]*\))*\)([^\n:]*)",
                             text, flags=re.MULTILINE):  # fmt: skip
        assert "noexcept" in match.group(1), match.group(0)


def test_every_compiled_module_has_its_stub_and_its_line_in_setup():
    setup = (ROOT / "setup.py").read_text()
    for path in CORE.glob("*.pyx"):
        assert f'"{path.stem}"' in setup
        assert path.with_suffix(".pyi").exists(), path.stem


@pytest.mark.parametrize("name", [name for name in streamtree.__all__ if name[0] != "_"])
def test_public_methods_say_what_they_are(name):
    public = getattr(streamtree, name)
    assert public.__doc__, name
    if not isinstance(public, type):
        return
    for method in dir(public):
        value = getattr(public, method)
        ours = str(getattr(value, "__module__", "")).startswith("streamtree")
        if ours and not method.startswith("_") and callable(value):
            assert value.__doc__, f"{name}.{method}"


def test_the_version_is_said_once_and_the_same():
    text = (ROOT / "pyproject.toml").read_text()
    assert f'version = "{streamtree.__version__}"' in text
