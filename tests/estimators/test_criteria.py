"""The theory on counts: lemmas and drops on random splits, known values, refusals."""

import doctest
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from streamtree import criteria as theory

# sums of at most a dozen terms of order 1 and their logarithms
CLOSE = 1e-12
CONSTANTS = st.sampled_from([2.001, 2.5, 3.0, 6.0, 100.0])


@st.composite
def splits(draw):
    """Counts of both sides, as whole numbers: lopsided, pure and one-sided ones among them."""
    n_classes = draw(st.integers(1, 8))
    side = st.lists(
        st.one_of(st.just(0), st.integers(0, 5), st.integers(0, 10**6)),
        min_size=n_classes, max_size=n_classes,
    )
    left, right = draw(side), draw(side)
    assume(any(left) or any(right))
    return left, right


def exact(left, right):
    """J, beta and alpha as fractions, straight from the definitions."""
    total = sum(left) + sum(right)
    share = Fraction(sum(right), total)
    objective = purity = Fraction(0)
    for a, b in zip(left, right, strict=True):
        if a + b:
            of_class = Fraction(b, a + b)
            objective += 2 * Fraction(a + b, total) * abs(share - of_class)
            purity += Fraction(a + b, total) * min(of_class, 1 - of_class)
    return objective, share, purity


def leaf_criterion(criterion, counts, constant):
    """One leaf's criterion, term by term."""
    shares = [count / sum(counts) for count in counts if count]
    if criterion == "entropy":
        return sum(p * math.log(1 / p) for p in shares)
    if criterion == "gini":
        return sum(p * (1 - p) for p in shares)
    return sum(math.sqrt(p * (constant - p)) for p in shares)


def value_of(criterion, counts, constant):
    if criterion == "modified_gini":
        return theory.modified_gini(counts, constant)
    return getattr(theory, criterion)(counts)


# ---------------------------------------------------------------------------- one split


@given(splits())
def test_measures_of_a_split_are_those_of_exact_arithmetic(split):
    objective, share, purity = exact(*split)
    assert math.isclose(theory.objective(*split), objective, abs_tol=CLOSE)
    assert math.isclose(theory.balance(*split), share, abs_tol=CLOSE)
    assert math.isclose(theory.purity(*split), purity, abs_tol=CLOSE)


@given(splits())
def test_lemma_2_the_objective_is_1_for_pure_and_balanced_splits_only(split):
    objective, share, purity = exact(*split)
    assert 0 <= objective <= 1
    assert (objective == 1) == (purity == 0 and share == Fraction(1, 2))
    assert 0.0 <= theory.objective(*split) <= 1.0
    low, high = theory.objective_bounds(float(share))
    assert low <= objective <= high + CLOSE
    assert theory.objective_bounds() == (0.0, 1.0)


@given(splits())
def test_the_objective_of_a_pure_split_is_as_high_as_its_balance_allows(split):
    left = [count if i % 2 else 0 for i, count in enumerate(split[0])]
    right = [0 if i % 2 else count for i, count in enumerate(split[1])]
    assume(any(left) or any(right))
    highest = theory.objective_bounds(theory.balance(left, right))[1]
    assert math.isclose(theory.objective(left, right), highest, abs_tol=CLOSE)


@given(splits())
def test_lemma_3_the_balance_lies_in_its_interval(split):
    low, high = theory.balance_bounds(theory.objective(*split))
    # J near 1 goes through a square root, which doubles the digits lost
    assert low - 1e-7 <= theory.balance(*split) <= high + 1e-7
    assert math.isclose(low + high, 1.0)


@given(splits())
def test_lemma_4_the_purity_is_below_its_bound_on_either_side_of_one_half(split):
    for left, right in (split, split[::-1]):
        bound = theory.purity_bound(theory.objective(left, right), theory.balance(left, right))
        assert theory.purity(left, right) <= bound + CLOSE
        assert bound <= 0.5


def test_lemma_4_as_published_fails_beyond_one_half():
    """Why `purity_bound` takes the lesser of beta and 1 - beta."""
    left, right = [1, 10], [9, 90]
    objective, share, purity = exact(left, right)
    assert (objective, purity) == (0, Fraction(1, 10))
    assert (2 - objective) / (4 * share) - share < purity
    assert theory.purity_bound(float(objective), float(share)) == 0.5


def test_bounds_at_the_ends():
    assert theory.balance_bounds(1.0) == (0.5, 0.5)
    assert theory.balance_bounds(0.0) == (0.0, 1.0)
    assert theory.purity_bound(1.0, 0.5) == 0.0
    assert theory.purity_bound(0.0, 0.0) == theory.purity_bound(0.0, 1.0) == 0.5
    assert theory.purity_bound(0.0, 0.5) == 0.5
    assert theory.objective([5, 0], [0, 5]) == 1.0
    assert theory.objective([5, 5], [5, 5]) == theory.objective([5, 5], [0, 0]) == 0.0


# --------------------------------------------------------------------- criteria of trees


@given(st.lists(st.lists(st.integers(0, 1000), min_size=3, max_size=3), min_size=1, max_size=5),
       CONSTANTS)
def test_criteria_are_means_over_the_leaves(leaves, constant):
    total = sum(map(sum, leaves))
    assume(total)
    for criterion in theory.CRITERIA:
        expected = sum(
            sum(leaf) / total * leaf_criterion(criterion, leaf, constant)
            for leaf in leaves
            if any(leaf)
        )
        assert math.isclose(value_of(criterion, leaves, constant), expected, abs_tol=CLOSE)


@given(st.lists(st.lists(st.integers(0, 1000), min_size=4, max_size=4), min_size=1, max_size=6),
       CONSTANTS)
def test_lemmas_9_12_13_bound_the_criteria(leaves, constant):
    total = sum(map(sum, leaves))
    assume(total)
    heaviest = max(map(sum, leaves)) / total
    for criterion in theory.CRITERIA:
        value = value_of(criterion, leaves, constant)
        for args in ((0, 1.0), (len(leaves) - 1, heaviest)):
            low, high = theory.criterion_bounds(criterion, 4, *args, constant)
            assert low - CLOSE <= value <= high * (1 + CLOSE)


def test_criteria_at_their_ends():
    for criterion in theory.CRITERIA:
        low, high = theory.criterion_bounds(criterion, 5)
        assert math.isclose(value_of(criterion, [0, 0, 7, 0, 0], 6.0), low, abs_tol=CLOSE)
        assert math.isclose(value_of(criterion, [3, 3, 3, 3, 3], 6.0), high)
    assert theory.criterion_bounds("entropy", 2)[1] == math.log(2)
    assert theory.criterion_bounds("gini", 2) == (0.0, 0.5)


# -------------------------------------------------------------------------------- drops


@given(splits(), st.floats(0.0, 1.0), CONSTANTS)
def test_a_split_lowers_the_criteria_by_what_eq_7_8_9_guarantee(split, weight, constant):
    left, right = split
    before, after = np.add(left, right), np.array([left, right])
    objective, share, _ = exact(left, right)
    drops = {
        criterion: weight
        * (value_of(criterion, before, constant) - value_of(criterion, after, constant))
        for criterion in theory.CRITERIA
    }
    bounds = {
        "entropy": theory.entropy_drop_bound(left, right, weight),
        "gini": theory.gini_drop_bound(left, right, weight),
        "modified_gini": theory.modified_gini_drop_bound(left, right, weight, constant),
    }
    # the criteria themselves are of the order of 10, their drops differences of those
    for criterion, drop in drops.items():
        assert bounds[criterion] >= 0.0
        assert drop >= bounds[criterion] - 1e-11, criterion
    assert math.isclose(drops["gini"], bounds["gini"], abs_tol=CLOSE)
    if 0 < share < 1:
        # the middles of eq. 7 and 8, from J alone
        spread = float(objective**2 / (share * (1 - share)))
        assert math.isclose(bounds["entropy"], weight * spread / 8, abs_tol=CLOSE)
        assert bounds["gini"] >= weight * spread / (4 * len(left)) - CLOSE


def test_a_split_to_one_side_guarantees_nothing():
    assert theory.entropy_drop_bound([3, 4], [0, 0]) == 0.0
    assert theory.gini_drop_bound([0, 0], [3, 4]) == 0.0


def weak_split(counts, advantage):
    """The split of one node that has J of at least twice the advantage and is balanced enough."""
    half = len(counts) // 2
    left = np.array(counts, dtype=float)
    left[half:] *= 1.0 - 2.0 * advantage
    left[:half] *= 2.0 * advantage
    return left, counts - left


@given(st.sampled_from([0.1, 0.2, 0.3]), st.integers(1, 3), CONSTANTS)
def test_the_ends_of_eq_7_8_9_hold_where_the_heaviest_leaf_is_split(advantage, half, constant):
    """A tree that splits its heaviest leaf by a weak split, time after time."""
    n_classes = 2 * half
    leaves = [np.full(n_classes, 1.0 / n_classes)]
    for n_splits in range(12):
        heaviest = max(range(len(leaves)), key=lambda i: leaves[i].sum())
        left, right = weak_split(leaves[heaviest], advantage)
        share = theory.balance(left, right)
        gamma = min(theory.objective(left, right) / 2, share, 1 - share)
        if gamma <= 0.0:
            break
        after = [*leaves[:heaviest], *leaves[heaviest + 1 :], left, right]
        for criterion in theory.CRITERIA:
            before, now = (value_of(criterion, x, constant) for x in (leaves, after))
            least = theory.drop_bound(criterion, before, gamma, n_splits, n_classes, constant)
            assert before - now >= least - CLOSE
        leaves = after
    assert len(leaves) > 1


@pytest.mark.parametrize(
    ("criterion", "kept"), [("entropy", 0.3), ("gini", 0.2), ("modified_gini", 0.98)]
)
def test_the_drops_of_eq_7_8_9_add_up_to_the_theorems(criterion, kept):
    """The recurrence of the proof, run: its end is reached within the number of splits."""
    advantage, n_classes, constant = 0.45, 3, 6.0
    value = 2.0 * theory.criterion_bounds(criterion, n_classes, constant=constant)[1]
    target = kept * value
    enough = theory.splits_needed(criterion, target, advantage, n_classes, constant)
    assert 20 < enough < 1e5
    for n_splits in range(1, math.ceil(enough)):
        value -= theory.drop_bound(criterion, value, advantage, n_splits, n_classes, constant)
    assert value <= target


def test_theorems_6_7_8_have_the_exponents_of_the_paper():
    gamma, k, c, target = 0.25, 7, 3.0, 1.5
    odds = (1 - gamma) ** 2 / (gamma**2 * math.log2(math.e))
    expected = {
        "entropy": 4 * odds * math.log(k) * math.log(2 * math.log(k) / target),
        "gini": 2 * odds * (k - 1) * math.log(2 * (1 - 1 / k) / target),
        "modified_gini": (
            2 * odds * c**3 / (c - 2) ** 2 * k * math.sqrt(k * c - 1)
            * math.log(2 * math.sqrt(k * c - 1) / target)
        ),
    }
    for criterion, logarithm in expected.items():
        assert math.isclose(
            theory.log_splits_needed(criterion, target, gamma, k, c), logarithm, rel_tol=1e-12
        )
    assert theory.splits_needed("modified_gini", target, gamma, k, c) == math.inf
    assert theory.splits_needed("entropy", 0.0, gamma, k) == math.inf
    # the bounds at one split need nothing
    assert math.isclose(theory.splits_needed("entropy", 2 * math.log(k), gamma, k), 1.0)


def test_the_guaranteed_drop_of_the_modified_gini_is_greatest_at_the_default_constant():
    drops = {
        c: theory.modified_gini_drop_bound([3, 1], [1, 3], constant=c)
        for c in (5.9, theory.CONSTANT, 6.1)
    }
    assert max(drops, key=drops.__getitem__) == theory.CONSTANT


# ------------------------------------------------------------------------------ refusals


@pytest.mark.parametrize("measure", [theory.objective, theory.balance, theory.purity])
@pytest.mark.parametrize(
    ("left", "right", "message"),
    [
        ([1, 2], [1], "equal length"),
        ([[1, 2]], [[1, 2]], "equal length"),
        ([1, -2], [1, 1], "left must hold finite weights"),
        ([1, 2], [1, math.nan], "right must hold finite weights"),
        ([0, 0], [0, 0], "no weight"),
        ([], [], "no weight"),
    ],
)
def test_counts_that_are_no_counts_are_refused(measure, left, right, message):
    with pytest.raises(ValueError, match=message):
        measure(left, right)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: theory.balance_bounds(1.5), "objective must be"),
        (lambda: theory.purity_bound(0.5, -0.1), "balance must be"),
        (lambda: theory.modified_gini([1, 2], constant=2.0), "constant must be"),
        (lambda: theory.entropy([0.0, 0.0]), "no weight"),
        (lambda: theory.gini(np.ones((2, 2, 2))), "dimensions"),
        (lambda: theory.criterion_bounds("impurity", 3), "criterion must be one of"),
        (lambda: theory.criterion_bounds("gini", 1), "n_classes must be"),
        (lambda: theory.criterion_bounds("gini", 3, 2, 0.0), "heaviest_leaf must be"),
        (lambda: theory.entropy_drop_bound([1, 2], [2, 1], 1.5), "weight must be"),
        (lambda: theory.drop_bound("gini", 0.5, 0.6, 1, 3), "advantage must be"),
        (lambda: theory.splits_needed("gini", 1.9, 0.1, 3), "target must be"),
        (lambda: theory.splits_needed("modified_gini", 1.0, 0.1, 3), "target must be"),
    ],
)
def test_what_is_out_of_range_is_refused_by_name(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_the_examples_run():
    result = doctest.testmod(theory)
    assert result.attempted > 0
    assert result.failed == 0
