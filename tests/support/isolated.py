"""Code that might crash the interpreter runs in an interpreter of its own."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path


def run_isolated(code, timeout=120, **environment):
    """Run code that imports what it needs; fails with its output if it fails or crashes."""
    result = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        cwd=Path(__file__).parents[1],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert result.returncode == 0, f"exit {result.returncode}\n{result.stdout}\n{result.stderr}"
    return result.stdout
