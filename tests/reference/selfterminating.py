"""Self-terminating prediction trees (Goldman & Singer) on nominal data, as plainly as can be.

A node is optimised by bisection on the slope of its objective, not by the closed forms. lambda
counts as in the library: `regularization` times the weight of all data, times 1 + depth_penalty *
depth of the node whose branches pay; for three and more classes the penalty is
2 lambda max_i |alpha_i|, which for two would be lambda |alpha|.
"""

import math

BOUND = 35.0


def sigmoid(f):
    return 1.0 / (1.0 + math.exp(-f)) if f >= 0 else math.exp(f) / (1.0 + math.exp(f))


def softplus(f):
    return f + math.log1p(math.exp(-f)) if f > 0 else math.log1p(math.exp(f))


def loss(kind, a, b, f):
    """Of a branch with a positives and b negatives; squared: weight a, total b."""
    if kind == "log":
        return a * softplus(-f) + b * softplus(f)
    if kind == "exponential":
        return a * math.exp(-f) + b * math.exp(f)
    if kind == "squared":
        return 0.5 * a * f * f - b * f
    value = a * max(0.0, 1.0 - f) + b * max(0.0, 1.0 + f)
    if kind == "ramp":
        value -= a * max(0.0, -f) + b * max(0.0, f)
    return value


def slope(kind, a, b, f):
    if kind == "log":
        return b * sigmoid(f) - a * sigmoid(-f)
    if kind == "exponential":
        return b * math.exp(f) - a * math.exp(-f)
    return a * f - b


def root(falling, low, high):
    """Where a falling function changes sign, by bisection."""
    for _ in range(200):
        middle = (low + high) / 2
        if falling(middle) > 0:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def kinks(kind, bias):
    return [0.0, 1.0 - bias, -1.0 - bias, *([-bias] if kind == "ramp" else [])]


def best_alpha(kind, a, b, bias, lam):
    """argmin over alpha of loss(bias + alpha) + lam |alpha|."""
    if kind in ("hinge", "ramp"):
        return min(kinks(kind, bias), key=lambda x: loss(kind, a, b, bias + x) + lam * abs(x))
    start = slope(kind, a, b, bias)
    if abs(start) <= lam + 1e-12 * (a + abs(b)):
        return 0.0
    s = -1.0 if start > 0 else 1.0
    reach = BOUND - s * bias if kind != "squared" else 1e9 * (1 + abs(start) / a)
    if reach <= 0:
        return 0.0
    return s * root(lambda r: -s * slope(kind, a, b, bias + s * r) - lam, 0.0, reach)


def best_shares(counts, above, lam):
    """argmin over p of the cross-entropy + 2 lam max |alpha|, shares by class; None: alpha = 0."""
    m = sum(counts)
    q = [c / m for c in counts]
    half = lam / m
    if sum(abs(a - b) for a, b in zip(q, above, strict=True)) <= 2 * half + 1e-12:
        return None
    pairs = list(zip(q, above, strict=True))
    hi = root(lambda t: sum(max(0.0, x - t * u) for x, u in pairs) - half, 0.0, 1e16)
    hi = 1.0 + root(
        lambda t: sum(max(0.0, x - (1.0 + t) * u) for x, u in pairs) - half, 0.0, 2 * hi + 1.0
    )
    lo = root(lambda t: half - sum(max(0.0, t * u - x) for x, u in pairs), 0.0, 1.0)
    return [min(max(x, lo * u), hi * u) for x, u in pairs]


def objective_multiclass(counts, above, shares, lam):
    if shares is None:
        return -sum(c * math.log(u) for c, u in zip(counts, above, strict=True) if c)
    ratios = [math.log(p / u) for p, u in zip(shares, above, strict=True) if u > 0 and p > 0]
    return lam * (max(ratios) - min(ratios)) - sum(
        c * math.log(p) for c, p in zip(counts, shares, strict=True) if c
    )


class Batch:
    """A tree on dicts of strings; `choose(node, objectives)` breaks ties between features.

    Every node gets `feature` (None at a leaf), `branches` by value, `value` (class shares, or the
    score) and `is_null`.
    """

    def __init__(self, rows, y, w, kind, regularization, depth_penalty, choose, labels=()):
        self.kind, self.choose, self.labels = kind, choose, list(labels)
        self.lam = regularization * sum(w)
        self.depth_penalty = depth_penalty
        self.features = sorted({name for x in rows for name in x}, key=str)
        data = list(zip(rows, y, w, strict=True))
        self.many = kind == "log" and len(self.labels) > 2
        stats = self.stats(data)
        if self.many:
            value = [c / sum(stats) for c in stats]
        elif kind == "squared":
            value = stats[1] / stats[0]
        else:
            value = best_alpha(kind, *stats, 0.0, 0.0)
        self.nodes = []
        pending = [self.node(None, value, data, 0)]
        while pending:
            node = pending.pop()
            pending += self.grown(node)

    def stats(self, data):
        if self.kind == "squared":
            return sum(w for _, _, w in data), sum(w * y for _, y, w in data)
        by_label = [sum(w for _, y, w in data if y == label) for label in self.labels]
        return by_label if self.many else (by_label[1], by_label[0])

    def node(self, branch, value, data, depth):
        node = {
            "branch": branch, "value": value, "data": data, "depth": depth, "is_null": False,
            "feature": None, "branches": {},
        }
        self.nodes.append(node)
        return node

    def solved(self, data, above, lam):
        """(value or None if alpha = 0, objective) of a branch."""
        stats = self.stats(data)
        if self.many:
            shares = best_shares(stats, above, lam)
            return shares, objective_multiclass(stats, above, shares, lam)
        alpha = best_alpha(self.kind, *stats, above, lam)
        value = loss(self.kind, *stats, above + alpha) + lam * abs(alpha)
        return (above + alpha if alpha else None), value

    def grown(self, node):
        data, lam = node["data"], self.lam * (1 + self.depth_penalty * node["depth"])
        if self.kind != "squared" and len({y for _, y, _ in data}) < 2:
            return []
        candidates = {}
        for feature in self.features:
            parts = {}
            for x, y, w in data:
                parts.setdefault(x.get(feature), []).append((x, y, w))
            if len(parts) >= 2:
                solved = {v: self.solved(part, node["value"], lam) for v, part in parts.items()}
                candidates[feature] = (parts, solved, sum(o for _, o in solved.values()))
        if not candidates:
            return []
        objectives = {feature: o for feature, (_, _, o) in candidates.items()}
        feature = self.choose(node, objectives)
        if feature is None:
            return []
        parts, solved, _ = candidates[feature]
        if all(value is None for value, _ in solved.values()):
            return []
        node["feature"] = feature
        children = []
        for value, part in parts.items():
            to, _ = solved[value]
            child = self.node(value, node["value"] if to is None else to, part, node["depth"] + 1)
            child["is_null"] = to is None
            node["branches"][value] = child
            if to is not None:
                children.append(child)
        return children
