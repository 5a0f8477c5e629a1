"""The pictures of the documentation, made from the models themselves.

    python docs/scripts/pictures.py [NAME ...]

writes docs/pictures/: for every family a tree that was learned from a stream, as `draw()` shows
it, and what a tree of the family makes of a plane with three classes, after 500 and 10,000
examples; and the picture of `streamtree-learn evaluate --demo`. Needs matplotlib.
"""

from __future__ import annotations

import argparse
import itertools
import subprocess
import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from river import datasets

import streamtree

FOLDER = Path(__file__).resolve().parents[1] / "pictures"
FAMILIES = {
    "model": streamtree.ModelTreeClassifier(),
    "lom": streamtree.LOMTreeClassifier(leaf_model="majority"),
    "nongreedy": streamtree.NonGreedyTreeClassifier(depth=4, warm_up=500),
    "soft": streamtree.SoftTreeClassifier(),
    "extra": streamtree.ExtraTreeClassifier(window=2000),
    "selfterminating": streamtree.SelfTerminatingTreeClassifier(leaf_model="majority"),
}
COLOURS = np.array([(0.00, 0.45, 0.70), (0.90, 0.62, 0.00), (0.00, 0.62, 0.45)])
SEEN = (500, 10_000)


def spirals(n: int, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Three arms of a spiral: no single line or threshold tells them apart."""
    rng = np.random.default_rng(seed)
    y = rng.integers(3, size=n)
    along = np.sqrt(rng.uniform(0.03, 1.0, size=n))
    angle = 2 * np.pi * (y / 3 + 0.9 * along) + rng.normal(0, 0.2, size=n)
    return np.column_stack([along * np.cos(angle), along * np.sin(angle)]), y


def plane(model: streamtree.ModelTreeClassifier) -> Figure:
    """What the model says of every place, after few and after many examples."""
    X, y = spirals(max(SEEN))
    others, truth = spirals(2000, seed=2)
    side = np.linspace(-1.15, 1.15, 240)
    grid = np.array(list(itertools.product(side, side)))
    figure = Figure(figsize=(7.2, 3.7), dpi=100, layout="constrained")
    learned = 0
    for axes, n in zip(figure.subplots(1, len(SEEN)), SEEN, strict=True):
        model.learn_many(X[learned:n], y[learned:n])
        learned = n
        shares = np.zeros((len(grid), 3))
        shares[:, model.labels] = model.predict_proba_many(grid)
        shown = (1 - 0.45 * (1 - shares @ COLOURS)).reshape(240, 240, 3).swapaxes(0, 1)
        axes.imshow(shown.clip(0, 1), origin="lower", extent=(-1.15, 1.15, -1.15, 1.15))
        axes.scatter(*X[:400].T, c=COLOURS[y[:400]], s=6)
        right = (np.asarray(model.predict_many(others)) == truth).mean()
        axes.set_title(f"{n:,} examples: {right:.0%} of others right", fontsize=10)
        axes.set_xticks([])
        axes.set_yticks([])
    return figure


def tree(model: streamtree.ModelTreeClassifier) -> Figure:
    """The upper part of a tree that has learned river's image segments."""
    for x, y in datasets.ImageSegments():
        model.learn_one(x, y)
    return model.draw(max_depth=2, max_branches=4).plot().figure


def demo(path: Path) -> None:
    """The picture that the README's first command draws."""
    command = [sys.executable, "-P", "-m", "streamtree", "evaluate", "--demo", "--plot", str(path)]
    subprocess.run(command, check=True)


def main() -> None:
    """Make those that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", help=f"of {', '.join([*FAMILIES, 'forest', 'demo'])}")
    parser.add_argument("--folder", type=Path, default=FOLDER)
    given = parser.parse_args()
    given.folder.mkdir(exist_ok=True)
    for name in given.names or [*FAMILIES, "forest", "demo"]:
        if name == "demo":
            demo(given.folder / "demo.png")
            continue
        if name == "forest":  # which has no one tree
            plane(streamtree.ForestClassifier()).savefig(given.folder / "forest-plane.png")
            continue
        plane(FAMILIES[name].clone()).savefig(given.folder / f"{name}-plane.png")
        tree(FAMILIES[name].clone()).savefig(given.folder / f"{name}-tree.png", dpi=80)


if __name__ == "__main__":
    main()
