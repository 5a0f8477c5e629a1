"""The compiled half of the build; everything declarative is in pyproject.toml."""

import os
import sys

from Cython.Build import cythonize
from setuptools import Extension, setup

# STREAMTREE_DEBUG=1 gives the checked build: bounds and assertion checks, line tracing.
DEBUG = os.environ.get("STREAMTREE_DEBUG", "0") not in ("", "0")

MODULES = [
    "additive", "features", "histograms", "labels", "leafmodels", "learners", "lomtree", "losses",
    "modelleaves", "naivebayes", "nodes", "nongreedy", "oblique", "predicates", "predictionnodes",
    "predictiontree", "readings", "rows", "scaling", "selfterminating", "softlearning", "softnodes",
    "softtree", "solvers", "splitsearch", "tables", "warmup",
]

# C of our own that a module includes
HEADERS = {
    "additive": ["streamtree/_core/softmax.h"],
    "modelleaves": ["streamtree/_core/softmax.h"],
    "naivebayes": ["streamtree/_core/softmax.h"],
}

DIRECTIVES = {
    "language_level": 3,
    "boundscheck": DEBUG,
    "wraparound": DEBUG,
    "initializedcheck": DEBUG,
    "cdivision": True,
    "embedsignature": True,
    "linetrace": DEBUG,
}

if sys.platform == "win32":
    FLAGS = ["/Od", "/Zi"] if DEBUG else ["/O2", "/fp:precise"]
else:
    FLAGS = ["-O1", "-g"] if DEBUG else ["-O3"]
    # The same bits on every machine: no fused multiply-add, no reordering of sums. Nobody reads
    # errno after a square root or traps on a NaN, and without them loops vectorise.
    FLAGS += ["-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math"]

MACROS = [("NPY_NO_DEPRECATED_API", "NPY_1_7_API_VERSION")]
MACROS += [("CYTHON_TRACE_NOGIL", "1")] if DEBUG else [("CYTHON_WITHOUT_ASSERTIONS", None)]

extensions = [
    Extension(
        f"streamtree._core.{module}",
        [f"streamtree/_core/{module}.pyx"],
        depends=HEADERS.get(module, []),
        extra_compile_args=FLAGS,
        define_macros=MACROS,
    )
    for module in MODULES
]

setup(
    ext_modules=cythonize(
        extensions,
        compiler_directives=DIRECTIVES,
        nthreads=0 if sys.platform == "win32" else os.cpu_count() or 1,
    )
)
