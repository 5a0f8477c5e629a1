"""What a process takes."""

import ctypes
import gc
import os
import sys
from pathlib import Path

import pytest


class _Mallinfo2(ctypes.Structure):
    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks",
            "fordblks", "keepcost",
        )
    )


def resident_bytes():
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def allocated():
    """Blocks that Python's allocator holds, and bytes that C's does; exact, garbage gone."""
    library = ctypes.CDLL(None)
    if not hasattr(library, "mallinfo2"):
        pytest.skip("needs glibc's count of allocated bytes")
    library.mallinfo2.restype = _Mallinfo2
    gc.collect()
    found = library.mallinfo2()
    return sys.getallocatedblocks(), found.uordblks + found.hblkhd
