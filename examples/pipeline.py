"""Swap our tree into a pipeline of river, and compare it with river's own."""

from river import compose, datasets, evaluate, metrics, preprocessing, tree

from streamtree import ModelTreeClassifier


def pipeline(model):
    """Some columns, scaled, and a tree (ours needs no scaler, and does not mind one)."""
    columns = compose.Discard("region-pixel-count", "short-line-density-5")
    return columns | preprocessing.StandardScaler() | model


for model in (tree.HoeffdingTreeClassifier(), ModelTreeClassifier()):
    stream = datasets.ImageSegments()
    score = evaluate.progressive_val_score(stream, pipeline(model), metrics.Accuracy())
    print(type(model).__name__, score)
