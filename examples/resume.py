"""Save a model, and go on with it in another process, as if it had never stopped."""

import subprocess
import sys
import tempfile
from itertools import islice

from river import datasets

from streamtree import ModelTreeClassifier
from streamtree.checkpoint import Checkpoint

if len(sys.argv) == 1:
    with tempfile.TemporaryDirectory() as folder:
        for end in (1000, 2310):
            command = [sys.executable, __file__, f"{folder}/segments.st", str(end)]
            subprocess.run(command, check=True)
else:
    checkpoint = Checkpoint(sys.argv[1], examples=500)
    model, position = checkpoint.resume(ModelTreeClassifier())
    print("goes on at row", position)
    for x, y in islice(datasets.ImageSegments(), position, int(sys.argv[2])):
        model.learn_one(x, y)
    checkpoint.save(model, int(sys.argv[2]))
