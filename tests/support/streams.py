"""Small streams that the tests generate, the same at every run."""

import numpy as np


def blobs(n, classes, features, spread, seed=0, rare=None):
    """Gaussian blobs: X of shape (n, features) and labels 0 .. classes - 1.

    Centres are `spread` standard deviations wide; class `rare` comes in one row of fifty.
    """
    rng = np.random.default_rng(seed)
    centers = spread * rng.normal(size=(classes, features))
    shares = np.ones(classes)
    if rare is not None:
        shares[rare] = (classes - 1) / 49
    y = rng.choice(classes, size=n, p=shares / shares.sum())
    return centers[y] + rng.normal(size=(n, features)), y


def as_dicts(X, names=None):
    """The rows of an array as dicts; without names the keys are the column numbers."""
    names = range(np.shape(X)[1]) if names is None else names
    return [dict(zip(names, row, strict=True)) for row in np.asarray(X).tolist()]


def changing_rows(n, classes, seed=0):
    """Dicts whose features come and go: numbers on several scales, categories, gaps.

    Returns rows and labels; every row has at least one feature.
    """
    rng = np.random.default_rng(seed)
    centers = rng.normal(size=(classes, 6)) * 3
    rows, labels = [], []
    for i in range(n):
        label = int(rng.integers(classes)) if rng.random() > 0.02 else classes
        center = centers[label % classes]
        x = {}
        for j, value in enumerate(center + rng.normal(size=6)):
            if rng.random() < 0.8:
                x[f"number {j}"] = float(value) * 10.0 ** (j - 2) + 7.0 * (j % 2)
        if rng.random() < 0.5:
            x["kind"] = "abc"[int(label + rng.integers(2)) % 3]
        if rng.random() < 0.1:
            x["word", int(rng.integers(5))] = 1.0
        if rng.random() < 0.3:
            x["count"] = int(rng.integers(3))
        if i > n // 2:
            x["late"] = float(label + rng.normal())
        if rng.random() < 0.1:
            x["gap"] = None if rng.random() < 0.5 else float("nan")
        x["always"] = True
        rows.append(x)
        labels.append(label)
    return rows, labels


def learned_rows(model, rows, targets, weights=None):
    """The model, once it has learned the rows one by one."""
    for i, (x, y) in enumerate(zip(rows, targets, strict=True)):
        model.learn_one(x, y, w=1.0 if weights is None else weights[i])
    return model


def prequential(model, rows, targets):
    """What the model says of every row just before it is learned."""
    said = []
    for x, y in zip(rows, targets, strict=True):
        said.append(model.predict_one(x))
        model.learn_one(x, y)
    return said


def prequential_accuracy(model, rows, labels):
    """Share of examples that the model would have got right, each asked before it is learned."""
    return np.mean([a == b for a, b in zip(prequential(model, rows, labels), labels, strict=True)])


def prequential_accuracy_many(model, X, y, chunk=50):
    """As `prequential_accuracy`, asked a chunk at a time."""
    hits = 0
    for start in range(0, len(y), chunk):
        part = slice(start, start + chunk)
        hits += np.sum(model.predict_many(X[part]) == y[part])
        model.learn_many(X[part], y[part])
    return hits / len(y)


def is_compared(i, n):
    """Whether whole states are compared after row i of n; a difference stays once it is there."""
    return i < 30 or i % 5 == 0 or i == n - 1
