"""Say which columns matter, and draw the tree."""

import tempfile
from pathlib import Path

from river import datasets

from streamtree import ModelTreeClassifier

model = ModelTreeClassifier()
for x, y in datasets.ImageSegments():
    model.learn_one(x, y)

for name, share in list(model.feature_importances().items())[:5]:
    print(f"{share:6.1%}  {name}")
picture = Path(tempfile.mkdtemp()) / "tree.svg"
model.draw(max_depth=3).save(str(picture))
print("the tree is in", picture)
