"""Pools of ensembles, and what they pool of labels alone, in the plainest form."""

import numpy as np


class LogLinear:
    """p(c) ~ product over m of p_m(c)^b_m; b follows the log loss, by Newton's method.

    Curvatures fade, are damped by 20, and no row moves an exponent by more than .1.

    What members are worth is looked at every 1,000 rows. The one without which the losses that
    count would be least more, by less than 1 and by less than .003 of them, rests for 4,000 rows,
    with an exponent of 0, and after the next 2,000 for 8,000 if that is still so; the others move
    as if they had never had it. So do others after it, but for two, and for those in `light`. A
    new label wakes all.
    """

    def __init__(self, exponents, light=()):
        n = len(exponents)
        self.b, self.curvatures, self.losses = np.array(exponents, float), np.zeros((n, n)), 0.0
        self.light, self.rows = light, np.zeros(n, int)
        self.rest, self.next_rest = np.zeros(n, int), np.full(n, 4000)

    def wake(self, m):
        self.rest[m], self.rows[m] = 0, 0

    def meet(self, is_new):
        """A row is to be learned; tells who learns it."""
        for m in np.flatnonzero(self.rest) if is_new else ():
            self.wake(m)
        return self.rest == 0

    def let_rest(self):
        """Put members to rest that are worth too little, the least first."""
        enough = min(0.003 * self.losses, 1.0)
        due = (self.rest == 0) & (self.rows >= 2000) & (self.rows % 1000 == 0)
        while True:
            inverse = np.linalg.inv(self.curvatures + np.eye(len(self.b)))
            worths = self.b**2 / np.diag(inverse) / 2
            self.next_rest[due & (worths >= enough)] = 4000
            heavy = (self.rest == 0) & ~np.isin(np.arange(len(self.b)), self.light)
            idle = np.flatnonzero(due & heavy & (worths < enough))
            if len(idle) == 0 or heavy.sum() <= 2:
                return
            m = idle[np.argmin(worths[idle])]
            moves = -self.b[m] * inverse[m] / inverse[m, m]
            self.b = np.where(self.rest == 0, np.clip(self.b + moves, -1, 8), self.b)
            self.rest[m], self.next_rest[m], self.b[m] = self.next_rest[m], 8000, 0.0
            self.curvatures[m] = self.curvatures[:, m] = 0.0
            due[m] = False

    def logs(self, shares):
        """The shares (n_members, n_labels) that members gave, none below a floor."""
        shares = np.asarray(shares, float)
        return np.log(np.maximum(shares, 1e-3 / shares.shape[1]))

    def __call__(self, shares):
        scores = self.b @ self.logs(shares)
        p = np.exp(scores - scores.max())
        return p / p.sum()

    def learn(self, shares, label, w=1.0):
        logs, p, w = self.logs(shares), self(shares), min(w, 10)
        distances = (logs - (logs @ p)[:, None]) * (self.rest == 0)[:, None]
        self.curvatures = 0.999 * self.curvatures + w * (distances * p) @ distances.T
        self.losses = 0.999 * self.losses - w * np.log(max(p[label], 1e-12))
        matrix = self.curvatures + 20 * np.eye(len(self.b))
        steps = np.clip(np.linalg.solve(matrix, w * distances[:, label]), -0.1, 0.1)
        asked = self.rest == 0
        self.b = np.where(asked, np.clip(self.b + steps, -1, 8), self.b)
        self.rows += asked
        for m in np.flatnonzero(~asked):
            self.rest[m] -= 1
            if not self.rest[m]:
                self.wake(m)
        self.let_rest()


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

    A member that corrects the others adds a number to that, and is followed as far as that has been
    worth it. What it leaves is the error of f.
    """

    def __init__(self, weights, rate=0.1, follows=True):
        self.w, self.squares, self.rate = np.array(weights, float), np.zeros(len(weights)), rate
        self.follows, self.ridge = follows, Ridge(len(weights) + 1 + 4 * follows)
        self.targets, self.weights, self.errors = [], [], []
        self.worth, self.recent_target, self.recent_error = np.zeros(2), 0.0, 0.0
        self.followed = np.zeros(2)

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

    def trust(self):
        """Which part is added of what one adds that corrects the others."""
        return np.clip((self.followed[0] + 0.0005) / (self.followed[1] + 0.001), 0, 1)

    def __call__(self, said, added=0.0):
        """What is said where the members said something, and one that corrects them added to it."""
        f, deviation = self.w @ said + self.trust() * added, self.moments()[1]
        if not deviation > 0 or not self.worth[1] > 0:
            return f
        n = len(self.targets)
        trust = np.clip(self.worth[0] / self.worth[1], 0, 1) * n / (n + 10)
        return f + trust * self.correction(said) * deviation

    def learn(self, said, target, w=1.0, added=0.0):
        f, deviation, n = self.w @ said, self.moments()[1], len(self.targets) + 1
        left = target - f - self.trust() * added
        if deviation > 0:
            seen = np.clip(np.array([target - self(said), added]) / deviation, -3, 3)
            self.followed += (seen * seen[1] - self.followed) / 1000
            error, said_error = np.clip(left / deviation, -3, 3), self.correction(said)
            seen = np.array([error * said_error, said_error**2])
            self.worth += (seen - self.worth) / min(n, 500)
            self.ridge.learn(self.inputs(said), error, w)
        self.errors.append(left)
        self.recent_error += (left - self.recent_error) / min(n, 10)
        self.recent_target += (target - self.recent_target) / min(n, 10)
        self.targets.append(target)
        self.weights.append(w)
        deviation = self.moments()[1]
        if not deviation > 0:
            return
        slopes = np.clip(left / deviation, -3, 3) * np.clip((said - f) / deviation, -3, 3)
        self.squares = 0.999 * self.squares + slopes**2
        steps = slopes / np.sqrt(self.squares + 0.01)
        self.w = self.w * np.exp(self.rate * min(w, 10) * steps)
        self.w = np.maximum(self.w / self.w.sum(), 0.002)
        self.w /= self.w.sum()


class Frequencies:
    """The shares of the labels among about the last `memory` rows."""

    def __init__(self, memory):
        self.memory, self.counts = memory, np.zeros(0)

    def __call__(self, n):
        counts = np.append(self.counts, np.zeros(n - len(self.counts)))
        return (counts + 1 / n) / (counts.sum() + 1)

    def learn(self, label, w=1.0):
        kept = np.exp(-min(w, 10) / self.memory)
        self.counts = np.append(self.counts, np.zeros(max(label + 1 - len(self.counts), 0))) * kept
        self.counts[label] += (1 - kept) * self.memory
