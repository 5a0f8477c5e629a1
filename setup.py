"""The compiled half of the build; everything declarative is in pyproject.toml."""

import os
import sys
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

# STREAMTREE_DEBUG=1 gives the checked build: bounds and assertion checks, symbols.
DEBUG = os.environ.get("STREAMTREE_DEBUG", "0") not in ("", "0")
# STREAMTREE_SANITIZE=address,undefined (or thread) builds with sanitizers, see tests/attack.
SANITIZERS = os.environ.get("STREAMTREE_SANITIZE", "")
N_JOBS = os.cpu_count() or 1

CORE = Path("streamtree/_core")
SOURCES = sorted(CORE.rglob("*.pyx"))
HEADERS = sorted(map(str, CORE.rglob("*.h")))

DIRECTIVES = {
    "language_level": 3,
    "boundscheck": DEBUG,
    "wraparound": DEBUG,
    "initializedcheck": DEBUG,
    "cdivision": True,
    "embedsignature": True,
    # lines of the source above what they became: 4 % of the time of a build
    "emit_code_comments": DEBUG,
}

LINKED: list[str] = []
if sys.platform == "win32":
    FLAGS = ["/Od", "/Zi"] if DEBUG else ["/O2", "/fp:precise"]
else:
    # warnings about what Cython made are for the checked build: to find them takes 6 % of the time
    FLAGS = ["-O1", "-g"] if DEBUG else ["-O3", "-g0", "-w"]
    # The same bits on every machine: no fused multiply-add, no reordering of sums. Nobody reads
    # errno after a square root or traps on a NaN, and without them loops vectorise.
    FLAGS += ["-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math"]
    if SANITIZERS:
        # records of tables are as aligned as their width says, and x86 and ARM read them anyhow
        FLAGS += ["-O1", "-g", f"-fsanitize={SANITIZERS}", "-fno-omit-frame-pointer"]
        FLAGS += ["-fno-sanitize=alignment"] if "undefined" in SANITIZERS else []
        LINKED = [f"-fsanitize={SANITIZERS}"]
    elif sys.platform.startswith("linux") and not DEBUG:
        LINKED = ["-s"]

MACROS = [("NPY_NO_DEPRECATED_API", "NPY_1_7_API_VERSION")]
MACROS += [] if DEBUG else [("CYTHON_WITHOUT_ASSERTIONS", None)]

extensions = [
    Extension(
        ".".join(path.with_suffix("").parts),
        [str(path)],
        depends=HEADERS,
        extra_compile_args=FLAGS,
        extra_link_args=LINKED,
        define_macros=MACROS,
    )
    for path in SOURCES
]
# memoryviews and the like, once for all modules: a third of the code otherwise; no row comes here
SHARED = "streamtree._core._shared"
extensions.append(
    Extension(
        SHARED,
        [SHARED.replace(".", "/") + ".c"],
        extra_compile_args=[*FLAGS, "-O1"] if "-O3" in FLAGS else FLAGS,
        extra_link_args=LINKED,
        define_macros=MACROS,
    )
)

setup(
    ext_modules=cythonize(
        extensions,
        compiler_directives=DIRECTIVES,
        shared_utility_qualified_name=SHARED,
        nthreads=0 if sys.platform == "win32" else N_JOBS,
    ),
    options={"build_ext": {"parallel": N_JOBS}},
)
