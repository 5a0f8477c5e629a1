"""Memory that runs out when a test says so, in an interpreter whose allocator is ours."""

import ctypes
import os
import pickle
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


def after_failures(model, X, y, has_come, n_requests, n_behind):
    """Models that lacked memory in the row after which something holds of them.

    Of that row one request after the other fails; then model and copy go on alike.
    """
    before, row, size = pickle.dumps(model), 0, 1000
    while size >= 1:
        model = pickle.loads(before)
        while True:
            assert row < len(X), "it has not come"
            model.learn_many(X[row : row + size], y[row : row + size])
            if has_come(model):
                break
            before, row = pickle.dumps(model), row + size
        size //= 10
    fail_after, failed = failing(), 0
    for n in range(n_requests):
        model = pickle.loads(before)
        assert not has_come(model)
        fail_after(n)
        try:
            model.learn_many(X[row : row + 1], y[row : row + 1])
        except MemoryError:
            failed += 1
        finally:
            fail_after(-1)
        yield model
        copy = pickle.loads(pickle.dumps(model))
        for each in (model, copy):
            each.learn_many(X[row + 1 : row + n_behind], y[row + 1 : row + n_behind])
        assert pickle.dumps(copy) == pickle.dumps(model), n
    assert failed, "no request has failed"


def run_short(code):
    """Run code in a process in which `failing` finds the function; returns what it has written."""
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder) / "shortage.c", Path(folder) / "shortage.so"
        source.write_text(SOURCE)
        subprocess.run(["cc", "-O1", "-shared", "-fPIC", source, "-o", library], check=True)
        done = subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, "LD_PRELOAD": str(library)},
            cwd=Path(__file__).parents[1], capture_output=True, text=True, check=False,
            timeout=600,
        )
    assert done.returncode == 0, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout
