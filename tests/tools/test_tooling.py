"""Tools as tests, and the layers: who may import whom."""

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import streamtree

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "streamtree"
CORE = PACKAGE / "_core"
CYTHON = sorted([*CORE.rglob("*.pyx"), *CORE.rglob("*.pxd")])
CHECKS = sorted(CORE.rglob("checks.py"))
PYTHON = sorted(PACKAGE.glob("*.py"))
# a module cimports from its own layer or a lower one
LAYERS_OF_CORE = [
    "kernels", "store", "stream", "splits", "leaves", "trees", "ensembles", "learners",
]
# what every family of trees may know of its layer; all else there is of one family
OF_ALL_TREES = {"tree", "checks"}
each_module = pytest.mark.parametrize(
    "path", [*CYTHON, *CHECKS], ids=lambda path: str(path.relative_to(CORE))
)
each_python_module = pytest.mark.parametrize("path", PYTHON, ids=lambda path: path.name)


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


@pytest.mark.slow
def test_cython_lint_finds_nothing():
    result = run(tool("cython-lint"), "streamtree")
    assert result.returncode == 0, result.stdout + result.stderr


def test_no_line_is_too_long_even_where_ruff_does_not_look():
    for path in [*CYTHON, *CHECKS, *PYTHON, *CORE.rglob("*.h")]:
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
    modules = {str(path.relative_to(CORE)) for path in CYTHON}
    assert {"trees/lom.pyx", "stream/features.pyx", "kernels/losses.pxd"} <= modules
    assert {"base.py", "batches.py", "lomtree.py"} <= {path.name for path in PYTHON}
    lom = imports(CORE / "trees" / "lom.pyx")
    assert {"streamtree._core.trees.tree", "streamtree._core.store.links", "numpy"} <= lom
    assert "narwhals.stable.v2" in imports(PACKAGE / "batches.py")
    folders = {path.name for path in CORE.iterdir() if path.is_dir()} - {"__pycache__"}
    assert folders == set(LAYERS_OF_CORE)
    assert not [path for path in CYTHON if path.parent == CORE and path.stem != "__init__"]


def module_of(path):
    """The name of a module of the core as others import it."""
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


def layer_of(module):
    return LAYERS_OF_CORE.index(module.split(".")[2])


def inside(path):
    """The modules of the core that a module imports or cimports."""
    names = {name for name in imports(path) if name.startswith("streamtree._core.")}
    # what is imported from a module is not one itself
    return names & {module_of(path) for path in [*CYTHON, *CHECKS]}


@each_module
def test_the_core_imports_nothing_from_above(path):
    for name in imports(path):
        if name.startswith("streamtree"):
            assert name.startswith("streamtree._core."), name
    assert top_level(path) <= {
        "streamtree", "numpy", "cython", "cpython", "libc", "collections", "numbers", "typing",
            "_thread", "threading", "decimal", "re", "warnings", "reprlib",
    }


@each_module
def test_a_layer_knows_its_own_and_those_below(path):
    if path.stem == "__init__":
        assert not path.read_text()
        return
    for name in inside(path):
        assert layer_of(name) <= layer_of(module_of(path)), name


def test_modules_of_a_layer_do_not_import_in_circles():
    """A module and its .pxd are one; what they import comes before them."""
    below = {}
    for path in [*CYTHON, *CHECKS]:
        module = module_of(path)
        below.setdefault(module, set()).update(inside(path) - {module})
    while below:
        free = {module for module, needs in below.items() if not needs & below.keys()}
        assert free, f"in circles: {sorted(below)}"
        for module in free:
            del below[module]


def family_of(module):
    """The family of trees that a module belongs to, None if to none or all."""
    parts = module.split(".")
    if parts[2] != "trees" or parts[3] in OF_ALL_TREES:
        return None
    return parts[3]


@each_module
def test_families_of_trees_never_import_each_other(path):
    if path.stem == "__init__":
        return
    known = {family_of(name) for name in inside(path)} - {None}
    if path.parent.name == "ensembles":
        # of trees of one family, or of any
        assert len(known) <= 1, known
    else:
        assert known <= {family_of(module_of(path))}, known


@each_python_module
def test_one_module_knows_river_and_one_knows_frames(path):
    known = top_level(path)
    assert ("river" in known) <= (path.name in ("base.py", "cli.py"))
    frames = {"pandas", "polars", "narwhals", "scipy", "pyarrow", "sklearn"}
    allowed = {
        "batches": frames, "reading": {"polars"}, "sklearn": {"sklearn", "narwhals"},
        # whose dates may be labels
        "modelfile": {"pandas"},
    }
    assert known & frames <= allowed.get(path.stem, set())


LAYERS = [
    {"__main__"},
    {"cli"},
    {"checkpoint", "sklearn"},
    {"diagnostics", "plots", "serialization"},
    {"criteria", "merging", "modelpool"},
    {"forest"},
    {"extratree", "lomtree", "modeltree", "nongreedy", "softtree", "selfterminating"},
    {"base"},
    {"batches", "drawing"},
    {"inspection"},
    {"modelfile", "parameters", "reading", "scores"},
]


@each_python_module
def test_layers_import_from_below_only(path):
    layer = next((i for i, names in enumerate(LAYERS) if path.stem in names), -1)
    for name in imports(path):
        if name.startswith("streamtree.") and not name.startswith("streamtree._core"):
            module = name.split(".")[1]
            below = next((i for i, names in enumerate(LAYERS) if module in names), None)
            if below is not None:
                assert below > layer, name
    assert layer >= 0 or path.stem == "__init__", "in which layer is it?"
    if path.stem in set().union(*LAYERS[:4]):
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
    assert not new & {"click", "rich"}


@each_module
def test_directives_stand_in_setup_py_only(path):
    """An unknown directive in a file's header is ignored without a word."""
    text = path.read_text()
    assert not re.search(r"^\s*#\s*(cython|distutils)\s*:", text, flags=re.MULTILINE)
    assert not re.search(r"^\s*#\s*tag:", text, flags=re.MULTILINE)


@each_module
def test_c_functions_say_how_they_fail(path):
    """A bare `cdef void` would swallow what is raised in it."""
    text = path.read_text()
    for match in re.finditer(r"^\s*cdef (?:inline )?void \w+\((?:[^()]|\([^()]*\))*\)([^\n:]*)",
                             text, flags=re.MULTILINE):
        assert "noexcept" in match.group(1), match.group(0)


# ------------------------------------------------------------------------- sizes

MOST_LINES = 60
MOST_PARAMETERS = 7
SETTINGS = "settings of the estimator, by name"
LONG = {
    "trees/soft/tree.pyx:configure": (60, 9, SETTINGS),
    "trees/oblique/checks.py:check_oblique": (60, 9, SETTINGS),
    "leaves/checks.py:check_mixtures": (60, 9, SETTINGS),
    "leaves/checks.py:check_histogram_leaves": (60, 8, SETTINGS),
}


def functions(path):
    """(name, lines, parameters) of every function of a module; self does not count."""
    lines = path.read_text().splitlines()
    begins = re.compile(r"^( *)(?:cdef|cpdef|def)\b(?! class| extern| struct| enum)[^=]*?(\w+)\(")
    for first, line in enumerate(lines):
        match = begins.match(line)
        if match is None or path.suffix == ".pxd":
            continue
        end = first
        while not lines[end].rstrip().endswith(":"):
            end += 1
        signature = " ".join(lines[first : end + 1])
        inside = signature[signature.index("(") + 1 : signature.rindex(")")]
        names = re.sub(r"\[[^\]]*\]|\([^()]*\)", "", inside).split(",")
        names = [name for name in map(str.strip, names) if name not in ("", "self", "*")]
        last = end
        for number in range(end + 1, len(lines)):
            text = lines[number]
            if text.strip() and len(text) - len(text.lstrip()) <= len(match[1]):
                break
            last = number if text.strip() else last
        yield match[2], last - first + 1, len(names)


@each_module
def test_functions_are_short_and_take_few_parameters(path):
    for name, n_lines, n_parameters in functions(path):
        known = LONG.get(f"{path.relative_to(CORE)}:{name}", (MOST_LINES, MOST_PARAMETERS))
        assert n_lines <= known[0], f"{name} has {n_lines} lines"
        assert n_parameters <= known[1], f"{name} has {n_parameters} parameters"


def test_the_exceptions_are_needed():
    sizes = {
        f"{path.relative_to(CORE)}:{name}": (n_lines, n_parameters)
        for path in [*CYTHON, *CHECKS]
        for name, n_lines, n_parameters in functions(path)
    }
    assert len(sizes) > 300
    for name in LONG:
        n_lines, n_parameters = sizes[name]
        assert n_lines > MOST_LINES or n_parameters > MOST_PARAMETERS, name


# -------------------------------------------------------------------------- tests


def test_no_test_imports_another():
    """What tests share is in tests/support."""
    tests = sorted((ROOT / "tests").rglob("*.py"))
    modules = {path.stem for path in tests if path.stem.startswith("test_")}
    assert len(modules) > 20
    assert len(modules) == len([path for path in tests if path.stem in modules]), "a name twice"
    for path in tests:
        text = path.read_text()
        # in programs that tests start, too
        imported = set(re.findall(r"^\s*(?:from|import)\s+([\w.]+)", text, flags=re.MULTILINE))
        assert not {name.split(".")[-1] for name in imported} & modules, path.name


def test_no_module_is_left_in_the_old_way():
    assert not list(PACKAGE.rglob("*.pyi"))
    assert not [path for path in CORE.rglob("*.pyx") if not (path.parent / "__init__.pxd").exists()]


@pytest.mark.slow
def test_mypy_finds_nothing():
    result = run(tool("mypy"))
    assert result.returncode == 0, result.stdout + result.stderr


# --------------------------------------------------------------------- the public side


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


def test_others_may_build_on_the_core():
    """What their modules cimport and include comes with the package."""
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text())
    patterns = pyproject["tool"]["setuptools"]["package-data"]["*"]
    assert {f"*{path.suffix}" for path in CORE.rglob("*") if path.suffix in (".pxd", ".h")} == set(
        patterns
    )


def test_the_archive_of_sources_can_be_built_from():
    """Without .pyx files in it, a wheel built from it would have no compiled half."""
    manifest = (ROOT / "MANIFEST.in").read_text()
    kept = re.search(r"^recursive-include streamtree (.*)$", manifest, re.MULTILINE).group(1)
    sources = {".pyx", ".pxd", ".h"}
    assert {f"*{path.suffix}" for path in CORE.rglob("*")} & {f"*{s}" for s in sources} == {
        *kept.split()
    }


def test_the_version_is_said_once_and_the_same():
    text = (ROOT / "pyproject.toml").read_text()
    assert f'version = "{streamtree.__version__}"' in text
