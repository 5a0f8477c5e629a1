"""How far a regressor is followed away from the mean of its targets, in the plainest form.

The slope of targets on predictions, both as distances from the mean of the targets before them:
sum d (y - m) / sum d^2, where d = prediction - m, after `PRIOR` rows of slope 1.
"""

import math

import numpy as np

MANY_JUDGED, JUDGED_PARTS, PRIOR, MOST_PARTS = 1000, 4, 5, 2000


class Shrinkage:
    """Of one target."""

    def __init__(self):
        self.targets, self.weights, self.squares = [], [], []
        self.judged = []  # (target - mean, prediction - mean, weight)
        self.share = self.mean = 0.0

    @property
    def variance(self):
        """The mean squared distance of a target from the mean of those before it."""
        if not self.targets:
            return 0.0
        return sum(self.squares) / sum(self.weights)

    def learn(self, prediction, target, w):
        n = len(self.targets)
        if n and (n < MANY_JUDGED or n % JUDGED_PARTS == 0):
            self.judged.append((target - self.mean, prediction - self.mean, w))
            y, d, w_judged = np.array(self.judged).T
            # a weighted mean, in which no row has less than 1 / MOST_PARTS when it is new
            new = np.maximum(w_judged / np.cumsum(w_judged), 1.0 / MOST_PARTS)
            kept = np.cumprod((1.0 - new)[::-1])[::-1]
            weights = len(y) * new * np.append(kept[1:], 1.0)
            spread = PRIOR * self.variance + weights @ d**2
            if spread > 0.0:
                slope = (PRIOR * self.variance + weights @ (y * d)) / spread
                slope += 0.5 * math.sqrt(self.variance / spread)
                self.share = 1.0 - min(max(slope, 0.0), 1.0)
        self.squares.append(w * (target - self.mean) ** 2 if n else 0.0)
        self.targets.append(target)
        self.weights.append(w)
        self.mean = float(np.average(self.targets, weights=self.weights))

    def __call__(self, prediction):
        return prediction + self.share * (self.mean - prediction)
