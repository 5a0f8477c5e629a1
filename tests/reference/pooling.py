"""Pools of ensembles in the plainest form."""

import numpy as np


class LogLinear:
    """p(c) ~ product over m of p_m(c)^b_m; b follows the gradient of the log loss."""

    def __init__(self, exponents, rate=0.1):
        self.b, self.squares, self.rate = np.array(exponents, float), np.zeros(len(exponents)), rate

    def logs(self, shares):
        """The shares (n_members, n_labels) that members gave, none below a floor."""
        shares = np.asarray(shares, float)
        return np.log(np.maximum(shares, 1e-3 / shares.shape[1]))

    def __call__(self, shares):
        scores = self.b @ self.logs(shares)
        p = np.exp(scores - scores.max())
        return p / p.sum()

    def learn(self, shares, label, w=1.0):
        logs = self.logs(shares)
        slopes = logs[:, label] - logs @ self(shares)
        self.squares = 0.999 * self.squares + slopes**2
        steps = slopes / np.sqrt(self.squares + 0.01)
        self.b = np.clip(self.b + self.rate * min(w, 10) * steps, -1, 8)


class Linear:
    """f = sum of w_m f_m; w follows exponentiated gradients and sums to one."""

    def __init__(self, weights, rate=0.1):
        self.w, self.squares, self.rate = np.array(weights, float), np.zeros(len(weights)), rate
        self.targets, self.weights = [], []

    def __call__(self, said):
        return self.w @ said

    def learn(self, said, target, w=1.0):
        self.targets.append(target)
        self.weights.append(w)
        mean = np.average(self.targets, weights=self.weights)
        deviation = np.sqrt(np.average((self.targets - mean) ** 2, weights=self.weights))
        if not deviation > 0:
            return
        f = self(said)
        slopes = np.clip((target - f) / deviation, -3, 3) * np.clip((said - f) / deviation, -3, 3)
        self.squares = 0.999 * self.squares + slopes**2
        steps = slopes / np.sqrt(self.squares + 0.01)
        self.w = self.w * np.exp(self.rate * min(w, 10) * steps)
        self.w = np.maximum(self.w / self.w.sum(), 0.002)
        self.w /= self.w.sum()
