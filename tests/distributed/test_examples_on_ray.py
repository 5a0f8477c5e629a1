"""The examples on Ray, as a user runs them."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("ray.exceptions", reason="Ray is not installed")
pytestmark = pytest.mark.slow
EXAMPLES = Path(__file__).parents[2] / "examples"


def run(name, folder, *arguments, **environment):
    return subprocess.run(
        [sys.executable, str(EXAMPLES / f"{name}.py"), *arguments],
        cwd=folder, capture_output=True, text=True, timeout=300, check=False,
        env={**os.environ, **environment},
    )


def test_files(tmp_path, address):
    # starts Ray by itself
    first = run("files_on_ray", tmp_path, "9")
    assert first.stdout == "from row 0 on\n", first.stderr
    assert first.stderr == "stopped on the way\n"
    # 4,500 rows, a checkpoint every 2,000
    second = run("files_on_ray", tmp_path, RAY_ADDRESS=address)
    assert second.returncode == 0, second.stderr
    found = re.fullmatch(
        r"from row 4000 on\n20 sensors, 6000 rows, error ([\d.]+) of the mean output\n",
        second.stdout,
    )
    assert found, second.stdout
    assert float(found[1]) < 0.3


def test_kafka(tmp_path, address):
    for name in ("faststream", "aiokafka"):
        pytest.importorskip(name, reason="FastStream with aiokafka is not installed")
    done = run("kafka_on_ray", tmp_path, RAY_ADDRESS=address)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "7 models, 1250 messages of 1250\n"
