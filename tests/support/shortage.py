"""Memory that runs out when a test says so, in an interpreter whose allocator is ours."""

import ctypes
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

# malloc and the like, of which the n-th request out of the compiled modules fails
SOURCE = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
static __thread long before = -1;

void fail_after(long requests) { before = requests; }

static int fails(void *caller)
{
    Dl_info module;
    long left = before;
    if (left < 0)
        return 0;
    before = -1;                        /* what dladdr asks for */
    if (!dladdr(caller, &module) || !strstr(module.dli_fname, "streamtree/_core"))
        before = left;
    else
        before = left - 1;              /* at -1 nothing fails any more */
    return before < left && left == 0;
}

#define CALLER __builtin_return_address(0)
void *malloc(size_t n) { return fails(CALLER) ? NULL : __libc_malloc(n); }
void *calloc(size_t n, size_t size) { return fails(CALLER) ? NULL : __libc_calloc(n, size); }
void *realloc(void *p, size_t n) { return fails(CALLER) ? NULL : __libc_realloc(p, n); }
"""


def can_run_short():
    """Whether the allocator can be replaced: by C, and of glibc only."""
    return shutil.which("cc") is not None and platform.libc_ver()[0] == "glibc"


def failing():
    """The function that says after how many requests one fails, -1: none; else None."""
    try:
        fail_after = ctypes.PyDLL(None).fail_after
    except AttributeError:
        return None
    fail_after.argtypes = [ctypes.c_long]
    return fail_after


def run_short(code):
    """Run code in a process in which `failing` finds the function."""
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder) / "shortage.c", Path(folder) / "shortage.so"
        source.write_text(SOURCE)
        subprocess.run(["cc", "-O1", "-shared", "-fPIC", source, "-o", library], check=True)
        return subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, "LD_PRELOAD": str(library)},
            cwd=Path(__file__).parents[1], capture_output=True, text=True, check=False,
            timeout=600,
        )
