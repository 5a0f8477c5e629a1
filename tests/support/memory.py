"""What a process takes."""

from pathlib import Path


def resident_bytes():
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096
