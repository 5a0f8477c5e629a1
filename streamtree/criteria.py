"""Splits and trees by the theory of the LOMtree: formulas on counts, which know no model.

Choromanska, Choromanski and Bojarski (2016) tie the objective J that a LOMtree climbs at every
node to three criteria of the whole tree: entropy, Gini entropy and modified Gini entropy. Here
are the objective, the criteria, and what the paper guarantees about them.

Formulas were checked against the paper's proofs, and numerically on random counts. Where the text
at hand and the checks disagree:

- Lemma 4 bounds the purity factor by (2 - J) / (4 beta) - beta. That holds for beta up to 1/2
  only: a split with P(right | i) = 0.9 for every class has J = 0 and purity factor 0.1, the bound
  would be -0.34. Swapping left and right changes neither J nor the purity factor, so `purity_bound`
  takes the lesser of beta and 1 - beta, and then it holds.
- The proofs define a node's modified Gini entropy with 1 in place of the constant C. Lemmas 13 and
  18 and the normalisation of the paper's fig. 2 need C, as in the definition of the criterion.
- The first inequality of eq. 8 is an equality, since the Gini entropy is quadratic.
- The theorems start from the bounds at one split, for instance 2 ln k; no tree is above ln k. And a
  node of one class has no weak hypothesis, so the assumption is one on nodes that are worth
  splitting.

References
----------
[^1]: Choromanska, A., Choromanski, K. and Bojarski, M., 2016. On the boosting ability of top-down
    decision tree learning algorithm for multiclass classification.

"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamtree.base import check_choice, check_integer, check_number

__all__ = [
    "CONSTANT", "CRITERIA", "Leaves", "balance", "balance_bounds", "check_constant",
    "criterion_bounds", "drop_bound", "entropy", "entropy_drop_bound", "gini", "gini_drop_bound",
    "log_splits_needed", "modified_gini", "modified_gini_drop_bound", "objective",
    "objective_bounds", "purity", "purity_bound", "splits_needed",
]

CRITERIA = ("entropy", "gini", "modified_gini")

# The C of the modified Gini entropy. The paper only asks for C > 2; 6 is where its guaranteed
# drop, (C - 2)^2 / C^3 by Lemma 18, is greatest.
CONSTANT = 6.0

Counts = NDArray[np.float64]


# --------------------------------------------------------------------------- one split


def objective(left: ArrayLike, right: ArrayLike) -> float:
    """J of a split: how balanced it is and how whole it keeps the classes, from 0 to 1.

    Parameters
    ----------
    left, right
        The weight of every class that goes to either side, two arrays of shape (n_classes,).

    Examples
    --------
    >>> from streamtree.diagnostics import balance, objective, purity
    >>> left, right = [30, 0, 10], [0, 30, 10]
    >>> objective(left, right), balance(left, right), purity(left, right)
    (0.75, 0.5, 0.125)

    """
    left, right = _sides(left, right)
    total = left + right
    share = right.sum() / total.sum()
    # 2 sum_i pi_i |P(h > 0) - P(h > 0 | i)|, eq. 1; rounding may lead out of the interval
    return min(1.0, 2.0 * float(np.abs(share * total - right).sum() / total.sum()))


def balance(left: ArrayLike, right: ArrayLike) -> float:
    """The balancing factor beta of a split: the share of its weight that goes right."""
    left, right = _sides(left, right)
    return float(right.sum() / (left.sum() + right.sum()))


def purity(left: ArrayLike, right: ArrayLike) -> float:
    """The purity factor alpha of a split, from 0 (every class stays whole) to 1/2.

    It is the share of the weight that is not where most of its class goes.
    """
    left, right = _sides(left, right)
    return float(np.minimum(left, right).sum() / (left.sum() + right.sum()))


def objective_bounds(balance: float = 0.5) -> tuple[float, float]:
    """The interval in which J lies, [0, 4 beta (1 - beta)]: [0, 1] at its widest, see Lemma 2.

    The upper end, which the proof of Lemma 3 gives, is reached by pure splits only. So J = 1 needs
    a split that is pure and balanced.
    """
    balance = check_number("balance", balance, at_least=0, at_most=1)
    return 0.0, 4.0 * balance * (1.0 - balance)


def balance_bounds(objective: float) -> tuple[float, float]:
    """The interval in which the balancing factor of a split with this J lies (Lemma 3)."""
    objective = check_number("objective", objective, at_least=0, at_most=1)
    half_width = 0.5 * math.sqrt(1.0 - objective)
    return 0.5 - half_width, 0.5 + half_width


def purity_bound(objective: float, balance: float) -> float:
    """The most that the purity factor of a split can be (Lemma 4).

    As published the lemma holds for a balancing factor of up to 1/2 only. Its mirror image holds
    beyond, and is what counts there.
    """
    objective = check_number("objective", objective, at_least=0, at_most=1)
    balance = check_number("balance", balance, at_least=0, at_most=1)
    lesser = min(balance, 1.0 - balance)
    if lesser == 0.0:
        return 0.5
    return min((2.0 - objective) / (4.0 * lesser) - lesser, 0.5)


def _sides(left: ArrayLike, right: ArrayLike) -> tuple[Counts, Counts]:
    sides = _counts("left", left), _counts("right", right)
    if sides[0].ndim != 1 or sides[0].shape != sides[1].shape:
        raise ValueError(
            "left and right must be two lines of equal length, "
            f"got shapes {sides[0].shape} and {sides[1].shape}"
        )
    if not sides[0].any() and not sides[1].any():
        raise ValueError("left and right hold no weight")
    return sides


def _counts(name: str, values: ArrayLike) -> Counts:
    counts = np.asarray(values, dtype=np.float64)
    if not np.isfinite(counts).all() or (counts < 0).any():
        raise ValueError(f"{name} must hold finite weights of at least 0")
    return counts


# ---------------------------------------------------------------- criteria of a tree


def entropy(counts: ArrayLike) -> float:
    """G^e of a tree: the mean over its leaves, by weight, of the entropy of the classes, in nats.

    Parameters
    ----------
    counts
        The weight of every class in every leaf, of shape (n_leaves, n_classes), or (n_classes,)
        for one leaf.

    Examples
    --------
    >>> from streamtree.diagnostics import entropy, gini, modified_gini
    >>> before, after = [40, 60], [[30, 10], [10, 50]]
    >>> print(f"{entropy(before):.4f} {entropy(after):.4f}")
    0.6730 0.4953
    >>> print(f"{gini(before):.4f} {gini(after):.4f}")
    0.4800 0.3167
    >>> print(f"{modified_gini(before):.4f} {modified_gini(after):.4f}")
    3.2967 3.1099

    """
    return Leaves.of_counts(counts).entropy()


def gini(counts: ArrayLike) -> float:
    """G^g of a tree: the mean over its leaves, by weight, of sum_i pi_i (1 - pi_i)."""
    return Leaves.of_counts(counts).gini()


def modified_gini(counts: ArrayLike, constant: float = CONSTANT) -> float:
    """G^m of a tree: the mean over its leaves, by weight, of sum_i sqrt(pi_i (C - pi_i)).

    C, the `constant`, is above 2. The paper leaves it open; 6 is where the drop that Lemma 18
    guarantees is greatest.
    """
    return Leaves.of_counts(counts).modified_gini(check_constant(constant))


@dataclass(frozen=True)
class Leaves:
    """The leaves of a tree as (leaf, weight) pairs, one for every class met in each leaf.

    Flat, for there may be thousands of leaves and of classes.
    """

    leaf: NDArray[np.int64]
    weight: Counts          # above 0
    n_leaves: int

    @classmethod
    def of_counts(cls, counts: ArrayLike) -> Leaves:
        """From a table of shape (n_leaves, n_classes)."""
        table = np.atleast_2d(_counts("counts", counts))
        if table.ndim != 2:
            raise ValueError(f"counts must have one or two dimensions, got {table.ndim}")
        leaf, label = table.nonzero()
        return cls(leaf, table[leaf, label], len(table)).checked("counts hold")

    def checked(self, holder: str) -> Leaves:
        """Itself, unless there is nothing to take shares of."""
        if not len(self.weight):
            raise ValueError(f"{holder} no weight")
        return self

    def totals(self) -> Counts:
        """The weight of every leaf."""
        return np.bincount(self.leaf, self.weight, self.n_leaves).astype(np.float64)

    def criteria(self, constant: float) -> dict[str, float]:
        """All three, by name."""
        return {
            "entropy": self.entropy(),
            "gini": self.gini(),
            "modified_gini": self.modified_gini(constant),
        }

    def entropy(self) -> float:
        """G^e."""
        of_leaf = self.totals()[self.leaf]
        return float(self.weight @ np.log(of_leaf / self.weight) / self.weight.sum())

    def gini(self) -> float:
        """G^g."""
        of_leaf = self.totals()[self.leaf]
        return float(self.weight @ (1.0 - self.weight / of_leaf) / self.weight.sum())

    def modified_gini(self, constant: float) -> float:
        """G^m."""
        of_leaf = self.totals()[self.leaf]
        share = self.weight / of_leaf
        return float(of_leaf @ np.sqrt(share * (constant - share)) / self.weight.sum())


def criterion_bounds(
    criterion: str,
    n_classes: int,
    n_splits: int = 0,
    heaviest_leaf: float = 1.0,
    constant: float = CONSTANT,
) -> tuple[float, float]:
    """The interval in which a criterion of a tree lies (Lemmas 9, 12 and 13).

    Parameters
    ----------
    criterion
        `"entropy"`, `"gini"` or `"modified_gini"`.
    n_classes
        The number of classes, at least 2.
    n_splits, heaviest_leaf
        The number of splits, and the share of the weight that the heaviest leaf has. Without them
        it is the interval for any tree whatever.
    constant
        C of the modified Gini entropy.

    """
    n_splits = check_integer("n_splits", n_splits, at_least=0, at_most=2**62)
    share = check_number("heaviest_leaf", heaviest_leaf, above=0, at_most=1)
    low, high = _range(criterion, n_classes, constant)
    return low, high * (n_splits + 1) * share


def _range(criterion: str, n_classes: int, constant: float) -> tuple[float, float]:
    """The least and the greatest value of a criterion in one leaf."""
    check_choice("criterion", criterion, CRITERIA)
    k = check_integer("n_classes", n_classes, at_least=2, at_most=2**31)
    if criterion == "entropy":
        return 0.0, math.log(k)
    if criterion == "gini":
        return 0.0, 1.0 - 1.0 / k
    constant = check_constant(constant)
    return math.sqrt(constant - 1.0), math.sqrt(k * constant - 1.0)


def check_constant(constant: float) -> float:
    """C, if it is one that the modified Gini entropy takes."""
    return check_number("constant", constant, above=2)


# ------------------------------------------------------------- what a split must achieve


def entropy_drop_bound(left: ArrayLike, right: ArrayLike, weight: float = 1.0) -> float:
    """By how much a split lowers G^e at least: w J^2 / (8 beta (1 - beta)), eq. 7.

    Parameters
    ----------
    left, right
        The weight of every class that goes to either side.
    weight
        The share of the tree's weight that the node has.

    """
    return 0.5 * _check_weight(weight) * _spread(*_sides(left, right), order=1)


def gini_drop_bound(left: ArrayLike, right: ArrayLike, weight: float = 1.0) -> float:
    """By how much a split lowers G^g: w beta (1 - beta) |pi_0 - pi_1|^2, eq. 8.

    It is the drop itself, and at least w J^2 / (4 k beta (1 - beta)) with k classes.
    """
    return _check_weight(weight) * _spread(*_sides(left, right), order=2)


def modified_gini_drop_bound(
    left: ArrayLike, right: ArrayLike, weight: float = 1.0, constant: float = CONSTANT
) -> float:
    """By how much a split lowers G^m at least: (C - 2)^2 / C^3 times the drop of G^g, eq. 9."""
    constant = check_constant(constant)
    return (constant - 2.0) ** 2 / constant**3 * gini_drop_bound(left, right, weight)


def _spread(left: Counts, right: Counts, order: int) -> float:
    """beta (1 - beta) times the squared norm of the difference of the sides' class shares."""
    if not left.any() or not right.any():
        return 0.0
    share = right.sum() / (left.sum() + right.sum())
    apart = np.linalg.norm(left / left.sum() - right / right.sum(), order)
    return float(share * (1.0 - share) * apart**2)


def _check_weight(weight: float) -> float:
    return check_number("weight", weight, at_least=0, at_most=1)


def drop_bound(
    criterion: str,
    value: float,
    advantage: float,
    n_splits: int,
    n_classes: int,
    constant: float = CONSTANT,
) -> float:
    """By how much splitting the heaviest leaf lowers a criterion at least (ends of eq. 7 to 9).

    Parameters
    ----------
    criterion
        `"entropy"`, `"gini"` or `"modified_gini"`.
    value
        The value of the criterion before the split.
    advantage
        gamma of the weak hypothesis assumption, above 0 and at most 1/2: every split has J of at
        least 2 gamma and sends at least the share gamma to either side.
    n_splits
        The number of splits before this one.
    n_classes
        The number of classes, at least 2.
    constant
        C of the modified Gini entropy.

    """
    value = check_number("value", value, at_least=0)
    n_splits = check_integer("n_splits", n_splits, at_least=0, at_most=2**62)
    return value * _rate(criterion, advantage, n_classes, constant) / (n_splits + 1)


def _rate(criterion: str, advantage: float, n_classes: int, constant: float) -> float:
    """eta^2 / 16 of eq. 10: the share of a criterion that split t + 1 takes away, times t + 1."""
    gamma = check_number("advantage", advantage, above=0, at_most=0.5)
    highest = _range(criterion, n_classes, constant)[1]
    odds = (gamma / (1.0 - gamma)) ** 2
    if criterion == "entropy":
        return odds / (2.0 * highest)
    if criterion == "gini":
        return odds / (n_classes - 1)
    return odds * (constant - 2.0) ** 2 / (constant**3 * n_classes * highest)


def log_splits_needed(
    criterion: str, target: float, advantage: float, n_classes: int, constant: float = CONSTANT
) -> float:
    """The natural logarithm of `splits_needed`, which itself soon leaves the range of numbers."""
    low, high = _range(criterion, n_classes, constant)
    target = check_number("target", target, at_least=low, at_most=2.0 * high)
    rate = _rate(criterion, advantage, n_classes, constant)
    if target == 0.0:
        return math.inf
    # the exponent is 32 / (eta^2 log2 e)
    return 2.0 * math.log(2.0) / rate * math.log(2.0 * high / target)


def splits_needed(
    criterion: str, target: float, advantage: float, n_classes: int, constant: float = CONSTANT
) -> float:
    """The number of splits that suffices to bring a criterion down (Theorems 6, 7 and 8).

    The tree splits its heaviest leaf each time.

    Parameters
    ----------
    criterion
        `"entropy"` (Theorem 6), `"gini"` (7) or `"modified_gini"` (8).
    target
        The value of the criterion to get to, within the bounds at one split.
    advantage
        gamma of the weak hypothesis assumption, above 0 and at most 1/2.
    n_classes
        The number of classes, at least 2.
    constant
        C of the modified Gini entropy.

    Returns
    -------
    The number, not rounded; infinity where it is beyond the range of a float, which is often:
    these are guarantees for the worst case.

    Examples
    --------
    >>> from streamtree.diagnostics import splits_needed
    >>> print(f"{splits_needed('entropy', target=0.5, advantage=0.4, n_classes=4):.3g}")
    2.71e+06

    """
    exponent = log_splits_needed(criterion, target, advantage, n_classes, constant)
    return math.exp(exponent) if exponent < 709.0 else math.inf
