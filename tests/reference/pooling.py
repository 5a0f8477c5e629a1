"""Pools of ensembles in the plainest form."""

import numpy as np


class LogLinear:
    """p(c) ~ product over m of p_m(c)^b_m; b follows the gradient of the log loss.

    A member whose exponent was below .05 in the mean of the last 1,000 rows rests for 4,000 rows,
    with an exponent of 0, and after the next 2,000 for 8,000 if it still is. Two are always asked,
    and all where a label is new; those in `light` never rest.
    """

    def __init__(self, exponents, rate=0.1, light=()):
        n = len(exponents)
        self.b, self.squares, self.rate = np.array(exponents, float), np.zeros(n), rate
        self.light, self.sizes = light, [[] for _ in range(n)]
        self.rest, self.next_rest = np.zeros(n, int), np.full(n, 4000)

    def wake(self, m):
        self.rest[m], self.squares[m], self.sizes[m] = 0, 0.0, []

    def meet(self, is_new):
        """A row is to be learned; tells who learns it."""
        for m in np.flatnonzero(self.rest) if is_new else ():
            self.wake(m)
        return self.rest == 0

    def watch(self, m):
        """Count a row that a member was asked; put it to rest if it had nothing to say."""
        self.sizes[m].append(abs(self.b[m]))
        n = len(self.sizes[m])
        if n < 2000 or n % 1000:
            return
        if np.mean(self.sizes[m][-1000:]) >= 0.05:
            self.next_rest[m] = 4000
        elif (self.rest == 0).sum() > 2 and m not in self.light:
            self.rest[m], self.next_rest[m], self.b[m] = self.next_rest[m], 8000, 0.0

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
        for m, slope in enumerate(slopes):
            if self.rest[m]:
                self.rest[m] -= 1
                if not self.rest[m]:
                    self.wake(m)
                continue
            self.squares[m] = 0.999 * self.squares[m] + slope**2
            step = slope / np.sqrt(self.squares[m] + 0.01)
            self.b[m] = np.clip(self.b[m] + self.rate * min(w, 10) * step, -1, 8)
            self.watch(m)


class Ridge:
    """Ridge regression of fading sums, by one round of coordinate descent a row."""

    def __init__(self, n, penalty=20.0, memory=1000):
        self.slopes, self.sums, self.products = np.zeros(n), np.zeros(n), np.zeros((n, n))
        self.penalty, self.kept = penalty, 1 - 1 / memory

    def learn(self, inputs, target, w=1.0):
        w = min(w, 10)
        self.sums = self.kept * self.sums + w * inputs * target
        self.products = self.kept * self.products + w * np.outer(inputs, inputs)
        matrix = self.products + self.penalty * np.eye(len(self.slopes))
        for i in range(len(self.slopes)):
            self.slopes[i] += (self.sums[i] - matrix[i] @ self.slopes) / matrix[i, i]


class Linear:
    """f = sum of w_m f_m; w follows exponentiated gradients and sums to one.

    What is said is f, and as far as that has been worth it a correction: the error of f that ridge
    regression expects from how far the members, the mean of all targets and, with `follows`, the
    last targets lie from f, and from the last errors.
    """

    def __init__(self, weights, rate=0.1, follows=True):
        self.w, self.squares, self.rate = np.array(weights, float), np.zeros(len(weights)), rate
        self.follows, self.ridge = follows, Ridge(len(weights) + 1 + 4 * follows)
        self.targets, self.weights, self.errors = [], [], []
        self.worth, self.recent_target, self.recent_error = np.zeros(2), 0.0, 0.0

    def moments(self):
        """The mean and the deviation of the targets."""
        if not self.targets:
            return 0.0, 0.0
        mean = np.average(self.targets, weights=self.weights)
        return mean, np.sqrt(np.average((self.targets - mean) ** 2, weights=self.weights))

    def inputs(self, said):
        f, (mean, deviation) = self.w @ said, self.moments()
        distances = [*(said - f), mean - f]
        if self.follows:
            distances += [
                self.errors[-1], self.recent_error, self.targets[-1] - f, self.recent_target - f
            ]
        return np.clip(np.array(distances) / deviation, -3, 3)

    def correction(self, said):
        return np.clip(self.ridge.slopes @ self.inputs(said), -3, 3)

    def __call__(self, said):
        f, deviation = self.w @ said, self.moments()[1]
        if not deviation > 0 or not self.worth[1] > 0:
            return f
        trust = np.clip(self.worth[0] / self.worth[1], 0, 1)
        return f + trust * self.correction(said) * deviation

    def learn(self, said, target, w=1.0):
        f, deviation, n = self.w @ said, self.moments()[1], len(self.targets) + 1
        if deviation > 0:
            error, said_error = np.clip((target - f) / deviation, -3, 3), self.correction(said)
            seen = np.array([error * said_error, said_error**2])
            self.worth += (seen - self.worth) / min(n, 500)
            self.ridge.learn(self.inputs(said), error, w)
        self.errors.append(target - f)
        self.recent_error += (target - f - self.recent_error) / min(n, 10)
        self.recent_target += (target - self.recent_target) / min(n, 10)
        self.targets.append(target)
        self.weights.append(w)
        deviation = self.moments()[1]
        if not deviation > 0:
            return
        slopes = np.clip((target - f) / deviation, -3, 3) * np.clip((said - f) / deviation, -3, 3)
        self.squares = 0.999 * self.squares + slopes**2
        steps = slopes / np.sqrt(self.squares + 0.01)
        self.w = self.w * np.exp(self.rate * min(w, 10) * steps)
        self.w = np.maximum(self.w / self.w.sum(), 0.002)
        self.w /= self.w.sum()
