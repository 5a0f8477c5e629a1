"""Label trees with groups, in plain Python: rows are {column: standardised value}, without knots.

A reference goes on from the state of a model that has begun its groups, and learns the same rows.
"""

import math

import numpy as np

from reference.extratree import name_hash
from reference.lomtree import splitmix64

GROUP_SIZE = 48
LARGEST_SIDE = 2.0 / 3.0
LEAST_BETWEEN = 0.2
SKETCH = 64
ROUNDS = 12
RELATIVE_RATE = 1.4
SQUARE_OFFSET = 0.1
TEST_DECAY = 0.9997
NORM_OFFSET = 4.0
LEAST_ERROR = 0.1
SAY_RATE = 0.05
JUDGED = 32
LEAST_EXAMPLES, LEAST_UNCOUNTED = 4, 2
LOOKED_AT = 8
LEAST_OF_GROUPS, MOST_OF_COUNTS = 0.25, 1.0
LEAST_SHARE = 1e-9
ODDS = 0.3 / 0.7


def sigmoid(score):
    return 1.0 / (1.0 + math.exp(-score))


class Label:
    """What is known of a label; `counted` and what follows is of its rows."""

    def __init__(self, weight=0.0):
        self.weight = weight
        self.group = None
        self.counted = self.squares = self.norms = self.used = 0.0
        self.sums = np.zeros(SKETCH, dtype=np.float32)

    def mean(self):
        return self.sums.astype(float) / self.counted


class Node:
    """An inner node, or a group of labels."""

    def __init__(self, parent=None):
        self.parent, self.left, self.right = parent, None, None
        self.test = {}  # column -> [weight, sum of squares], the bias is None
        self.model = {}  # column -> {label: [weight, sum of squares]}
        self.labels = []
        self.weight = self.seen = self.used = 0.0
        self.by_means = False

    def score(self, row):
        return sum(self.test.get(c, (0.0,))[0] * v for c, v in row.items())

    def below(self):
        return self.labels if self.left is None else self.left.below() + self.right.below()

    def shares(self, row):
        """The probabilities of the labels of a group."""
        scores = [
            sum(self.model.get(c, {}).get(k, (0.0,))[0] * v for c, v in row.items())
            for k in self.labels
        ]
        exps = np.exp(np.array(scores) - max(scores))
        return exps / exps.sum()


def step(record, gradient, rate, weight, decay=1.0):
    record[1] = decay * record[1] + gradient**2
    record[0] -= rate * gradient / math.sqrt(record[1] + SQUARE_OFFSET * weight**2)


class Counts:
    """Naive Bayes of the columns of labels, smoothed by those of all rows."""

    def __init__(self):
        self.rows, self.columns = {}, {}  # by label
        self.lists = {}  # column -> {label: weight}

    def learn(self, row, number, w):
        for column in row:
            if column is not None:
                posted = self.lists.setdefault(column, {})
                posted[number] = posted.get(number, 0.0) + w
                self.columns[number] = self.columns.get(number, 0.0) + w
        self.rows[number] = self.rows.get(number, 0.0) + w

    def log_rows(self, number):
        return math.log(1.0 + self.rows.get(number, 0.0))

    def scores(self, row):
        """What columns say for the labels that they came with."""
        total, scores = sum(self.columns.values()), {}
        for column in row:
            posted = self.lists.get(column, {})
            for number, weight in posted.items():
                of_label = weight / self.columns[number]
                of_all = sum(posted.values()) / total
                scores[number] = scores.get(number, 0.0) + math.log(1.0 + ODDS * of_label / of_all)
        return scores


class ReferenceLabelTree:
    """Groups, tests and a beam, as `state` says; `names` are those of the columns, and may grow."""

    def __init__(
        self, state, names, *, max_classes, beam, leaf_rate=2.5, max_splits=math.inf,
        swap_resistance=4.0,
    ):
        self.names = names
        self.max_splits, self.swap_resistance = max_splits, swap_resistance
        self.max_classes, self.beam, self.leaf_rate = max_classes, beam, leaf_rate
        self.mean_norm, self.rows = state["mean_norm"], state["rows"]
        self.nodes = [Node() for _ in state["nodes"]]
        for node, link, stats in zip(self.nodes, state["links"], state["nodes"], strict=True):
            node.parent, node.left, node.right = (
                self.nodes[link[name]] if link[name] >= 0 else None
                for name in ("parent", "left", "right")
            )
            node.weight, node.seen, node.used = stats[["weight", "seen", "used"]].tolist()
            node.by_means = bool(stats["by_means"])
        self.labels = []
        order = {}
        for number, record in enumerate(state["labels"]):
            label = Label(float(record["weight"]))
            for name in ("counted", "squares", "norms", "used"):
                setattr(label, name, float(record[name]))
            label.sums = state["sums"][number].copy()
            self.labels.append(label)
            if record["group"] >= 0:
                label.group = self.nodes[record["group"]]
                order[int(record["group"]), int(record["place"])] = number
        for group, place in sorted(order):
            self.nodes[group].labels.append(order[group, place])
        for node, test in zip(self.nodes, state["tests"], strict=True):
            for key, record in zip(test["linear"]["keys"], test["linear"]["records"], strict=True):
                node.test[key - 1 if key else None] = record[:2].astype(float).tolist()
        self.says = state["says"].tolist()
        self.counts = Counts()
        postings = state["postings"][0]
        for number, (rows, columns) in enumerate(postings["labels"][["rows", "columns"]].tolist()):
            if rows:
                self.counts.rows[number], self.counts.columns[number] = rows, columns
        for column, start in enumerate(postings["starts"][:-1]):
            posted = postings["postings"][start:postings["starts"][column + 1]]
            self.counts.lists[column] = dict(posted.tolist())
        for model in state["models"]:
            node, stride = self.nodes[model["node"]], model["stride"]
            linear = model["linear"]
            for key, record in zip(linear["keys"], linear["records"], strict=True):
                node.model[key - 1 if key else None] = {
                    label: [float(record[place]), float(record[stride + place])]
                    for place, label in enumerate(node.labels)
                }

    # ---------------------------------------------------------------------- learning

    def learn_one(self, row, number, w=1.0):
        row = {None: 1.0, **row}
        self.rows += 1.0
        self.mean_norm += (sum(v * v for v in row.values()) - self.mean_norm) / self.rows
        while len(self.labels) <= number:
            self.labels.append(Label())
        label = self.labels[number]
        if label.weight > 0 and (self.rows - 1) % JUDGED == 0:
            self.judge(row, number, w)
        self.count(row, label, w)
        self.counts.learn(row, number, w)
        label.used = self.rows
        least = LEAST_EXAMPLES if self.counts.columns.get(number) else LEAST_UNCOUNTED
        if label.group is None and label.counted**2 >= least * label.squares:
            self.join(row, number)
        label.weight += w
        if label.group is None:
            self.nodes[0].weight += w
            return
        self.learn_path(row, label.group, w)
        self.learn_group(row, label.group, number, w)
        label.group.seen += w
        label.group.used = self.rows
        n = len(label.group.labels)
        if n > min(GROUP_SIZE, self.max_classes) and label.group.seen >= n:
            self.divide(label.group)

    def count(self, row, label, w):
        for column, value in row.items():
            if column is not None:
                word = splitmix64(name_hash(self.names[column])) % 2**32
                sign = -1 if word >> 31 else 1
                label.sums[word % SKETCH] += np.float32(sign * w * value)
                label.norms += w * value**2
        label.counted += w
        label.squares += w * w

    def rate(self):
        return RELATIVE_RATE * self.leaf_rate / (self.mean_norm + NORM_OFFSET)

    def join(self, row, number):
        groups = self.find_groups(row)
        scores = {k: s + self.counts.log_rows(k) for k, s in self.counts.scores(row).items()}
        if scores:
            scores = {k: s for k, s in scores.items() if self.labels[k].group is not None}
        if scores:
            node = self.labels[max(scores, key=scores.get)].group
        else:
            likely = [mass * group.shares(row).max() for mass, group in groups]
            node = groups[int(np.argmax(likely))][1]
            if node.parent is not None and node.parent.by_means:
                node = self.nearest_group(number, [group for _, group in groups])
        if not self.stays_balanced(node):
            node = self.nodes[0]
        while True:
            while node.left is not None:
                node = self.side_for_new(node, row)
            if len(node.labels) < self.max_classes:
                break
            self.divide(node)
            if node.left is None:
                self.replace(node, number)
                return
        node.labels.append(number)
        self.labels[number].group = node
        self.add_weight(node, self.labels[number].weight)

    @staticmethod
    def add_weight(node, weight):
        while node.parent is not None:
            node.weight = max(node.weight + weight, 0.0)
            node = node.parent

    def nearest_group(self, number, groups):
        """The group of the label whose mean is nearest."""
        mean = self.labels[number].mean()
        distances = [
            min(
                (((self.labels[k].mean() - mean) ** 2).sum() for k in group.labels
                 if self.labels[k].counted),
                default=math.inf,
            )
            for group in groups
        ]
        return groups[int(np.argmin(distances))]

    @staticmethod
    def stays_balanced(node):
        while node.parent is not None:
            n, node = len(node.below()), node.parent
            if n + 1 > LARGEST_SIDE * (len(node.below()) + 1):
                return False
        return True

    @staticmethod
    def side_for_new(node, row):
        n_left, n_right = len(node.left.below()), len(node.right.below())
        most = LARGEST_SIDE * (n_left + n_right + 1)
        score = node.score(row)
        if score > 0 or (score == 0 and n_right < n_left):
            return node.right if n_right + 1 <= most else node.left
        return node.left if n_left + 1 <= most else node.right

    def learn_path(self, row, node, w):
        node.weight += w
        while node.parent is not None:
            child, node = node, node.parent
            node.weight += w
            slope = sigmoid(node.score(row)) - (node.right is child)
            for column, value in row.items() if abs(slope) >= LEAST_ERROR else ():
                record = node.test.setdefault(column, [0.0, 0.0])
                step(record, w * slope * value, self.rate(), w, TEST_DECAY)

    def learn_group(self, row, node, number, w):
        if len(node.labels) < 2:
            return
        shares = node.shares(row)
        if shares[node.labels.index(number)] > 1 - LEAST_ERROR:
            return
        slopes = w * shares
        slopes[node.labels.index(number)] -= w
        for column, value in row.items():
            records = node.model.setdefault(column, {})
            for label, slope in zip(node.labels, slopes, strict=True):
                record = records.setdefault(label, [0.0, 0.0])
                step(record, slope * value, self.rate(), w)

    # ---------------------------------------------------------------------- dividing

    def share_between(self, known):
        """The share of the variance of rows that lies between labels."""
        known = [label for label in known if label.counted]
        free = sum(label.counted - label.squares / label.counted for label in known)
        if len(known) < 2 or free <= 0:
            return 0.0
        means = np.array([label.mean() for label in known])
        counted = np.array([label.counted for label in known])
        norms = np.array([label.norms for label in known])
        noise = np.array([label.squares for label in known]) / counted**2
        within = max((norms - counted * (means**2).sum(axis=1)).sum(), 0.0) / free
        between = means.var(axis=0, ddof=1).sum() - within * noise.mean()
        return between / (between + within) if between > 0 else 0.0

    def arrange(self, numbers):
        """Labels in the order that leaves the means of the halves far apart."""
        known = [self.labels[k] for k in numbers]
        is_known = np.array([label.counted > 0 for label in known])
        means = np.array([
            label.mean() if label.counted else np.zeros(SKETCH) for label in known
        ])
        heaviest = int(np.argmax([label.weight if label.counted else -1.0 for label in known]))
        distances = ((means - means[heaviest]) ** 2).sum(axis=1)
        far = int(np.argmax(np.where(is_known, distances, -1.0)))
        direction = means[far] - means[heaviest]
        apart = np.where(is_known[:, None], means - means[is_known].mean(axis=0), 0.0)
        n = len(known)
        order = np.arange(n)
        for _ in range(ROUNDS):
            order = order[np.argsort(apart[order] @ direction, kind="stable")]
            sides = np.where(np.arange(n) < n // 2, n // 2 - n, n // 2)
            direction = sides @ apart[order]
        return [numbers[k] for k in order]

    def divide(self, node):
        node.used = self.rows
        if len(self.nodes) // 2 >= self.max_splits and not self.swap():
            return
        known = {number: self.labels[number] for number in node.labels}
        node.by_means = self.share_between(known.values()) >= LEAST_BETWEEN
        n = len(known)
        if node.by_means:
            order, cut = self.arrange(node.labels), n // 2
            for column, records in node.model.items():
                weights = [records.get(k, (0.0,))[0] for k in order]
                start = float(np.mean(weights[cut:]) - np.mean(weights[:cut]))
                node.test[column] = [start, 0.0]
        else:
            order = sorted(known, key=lambda k: -known[k].weight)
            total = sum(label.weight for label in known.values())
            least = (n + 2) // 3
            below = [sum(known[k].weight for k in order[:cut]) for cut in range(n + 1)]
            cut = min(range(least, n - least + 1), key=lambda cut: abs(below[cut] - total / 2))
        node.left, node.right = Node(node), Node(node)
        self.nodes += [node.left, node.right]
        for side, labels in ((node.left, order[:cut]), (node.right, order[cut:])):
            side.labels = labels
            for column, records in node.model.items():
                kept = {k: records.get(k, [0.0, 0.0]) for k in labels}
                if column is None or any(weight > 0 for weight, _ in kept.values()):
                    side.model[column] = kept
            for number in labels:
                known[number].group = side
                side.weight += known[number].weight
        node.left.used = node.right.used = node.used
        node.labels, node.model = [], {}
        node.seen = node.used = 0.0

    # ---------------------------------------------------------------------- swaps

    def last_unused(self):
        return self.rows - self.swap_resistance * len(self.nodes[0].below())

    def replace(self, group, number):
        """Give a label the place of one that is no longer used."""
        other = min(group.labels, key=lambda k: self.labels[k].used)
        if self.labels[other].used >= self.last_unused():
            return
        group.labels[group.labels.index(other)] = number
        for records in group.model.values():
            records.pop(other, None)
        self.labels[other].group, self.labels[number].group = None, group
        self.add_weight(group, self.labels[number].weight - self.labels[other].weight)

    def swap(self):
        """Look at a few nodes for a group that is no longer used, and cut it out."""
        for i in range(LOOKED_AT):
            group = self.nodes[int(LOOKED_AT * self.rows + i) % len(self.nodes)]
            above = group.parent and group.parent.parent
            if group.left or not above or group.used >= self.last_unused():
                continue
            parent = group.parent
            for number in group.labels:
                self.labels[number].group = None
            self.add_weight(parent, -group.weight)
            sibling = parent.right if parent.left is group else parent.left
            above.left, above.right = (
                sibling if side is parent else side for side in (above.left, above.right)
            )
            sibling.parent = above
            for number in sorted(map(self.nodes.index, (group, parent)), reverse=True):
                last = self.nodes.pop()
                if number < len(self.nodes):
                    self.nodes[number] = last
            return True
        return False

    # -------------------------------------------------------------------- prediction

    def find_groups(self, row):
        """The groups that the beam finds, the most probable first, and their probabilities."""
        level, groups = [(1.0, self.nodes[0])], []
        while level:
            ahead = []
            for mass, node in level:
                if len(groups) == self.beam and mass <= groups[-1][0]:
                    break
                if node.left is None:
                    groups = sorted([*groups, (mass, node)], key=lambda g: -g[0])[: self.beam]
                    continue
                right = sigmoid(node.score(row))
                ahead += [(mass * (1 - right), node.left), (mass * right, node.right)]
            level = sorted(ahead, key=lambda g: -g[0])[: self.beam]
        return groups

    def found(self, row):
        """What groups and counts say: logs of shares and of counts, by label; which were found."""
        n = len(self.labels)
        groups, scores = self.find_groups(row), self.counts.scores(row)
        shares, counts = np.full(n, np.nan), np.full(n, np.nan)
        for mass, node in groups:
            shares[node.labels] = mass * node.shares(row)
        rest = np.isnan(shares)
        found = sum(mass for mass, _ in groups)
        shares[rest] = min(max(1 - found, 0) / max(rest.sum(), 1), 0.5 * np.nanmax(shares))
        for k in range(n):
            counts[k] = scores.get(k, 0.0) + self.counts.log_rows(k)
        rows = sum(self.counts.rows.values()) + n
        for k in scores:
            if self.labels[k].group is None:
                shares[k] = max(shares[k], (1.0 + self.counts.rows[k]) / rows)
        rest &= ~np.isin(np.arange(n), list(scores))
        if rest.any():
            rows = [1.0 + self.counts.rows.get(k, 0.0) for k in np.flatnonzero(rest)]
            counts[rest] = math.log(max(np.mean(rows), 1.0))
        return np.log(np.maximum(shares, LEAST_SHARE)), counts, rest, bool(scores)

    def pooled(self, row):
        logs, counts, rest, is_pooled = self.found(row)
        pooled = logs
        if is_pooled:
            pooled = self.says[0][0] * logs + self.says[1][0] * counts
        most = pooled[~rest].max()
        pooled = np.where(rest, np.minimum(pooled, most + math.log(0.5)), pooled)
        shares = np.exp(pooled - most)
        return shares / shares.sum(), logs, counts, is_pooled

    def judge(self, row, number, w):
        shares, logs, counts, is_pooled = self.pooled(row)
        if not is_pooled:
            return
        for say, values in zip(self.says, (logs, counts), strict=True):
            slope = values[number] - shares @ values
            say[1] = 0.999 * say[1] + slope**2
            say[0] += SAY_RATE * min(w, 10) * slope / math.sqrt(say[1] + 0.01)
            say[0] = min(max(say[0], -1), 8)
        self.says[0][0] = max(self.says[0][0], LEAST_OF_GROUPS)
        self.says[1][0] = min(self.says[1][0], MOST_OF_COUNTS)

    def predict_proba_one(self, row):
        """The probability of every label, in the order of their numbers."""
        shares = self.pooled({None: 1.0, **row})[0]
        total = self.nodes[0].weight
        return (total * shares + 1 / len(shares)) / (total + 1)
