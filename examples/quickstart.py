"""Predict each example of a stream, then learn from it: `python examples/quickstart.py`."""

from river import datasets, metrics

from streamtree import ModelTreeClassifier

model = ModelTreeClassifier(seed=42)
accuracy = metrics.Accuracy()

for x, y in datasets.ImageSegments():
    accuracy.update(y, model.predict_one(x))
    model.learn_one(x, y)

print(accuracy)
