"""python -m attack NAME N [--seed S] [--only ESTIMATOR]"""

import argparse
import faulthandler
import importlib
import time

ATTACKS = (
    "streams", "malformed", "files", "kills", "interrupts", "crowds", "shortage", "changes",
    "doors", "soak",
)

if __name__ == "__main__":
    faulthandler.enable()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("attack", choices=ATTACKS)
    parser.add_argument("n", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default=None, help="one estimator by its name")
    arguments = parser.parse_args()
    start = time.perf_counter()
    module = importlib.import_module(f"attack.{arguments.attack}")
    said = module.run(arguments.n, arguments.seed, arguments.only)
    print(f"{arguments.attack}: {said} in {time.perf_counter() - start:.0f} s", flush=True)
