"""Evaluate learners on a CSV with semicolons and decimal commas, by the command line."""

import subprocess
import sys

from made import rentals_csv

path = rentals_csv(delimiter=";", decimal=",")
command = [sys.executable, "-m", "streamtree", "evaluate", path, "--target", "rented"]
subprocess.run([*command, "--model", "soft", "--model", "selfterminating"], check=True)
