"""The node solvers against numerical optimisers and certificates of optimality."""

import math

import numpy as np
import pytest
from reference import selfterminating as ref
from support.marks import first_quick

from streamtree._core.kernels.losses import Loss
from streamtree._core.kernels.solvers import (
    branch_loss,
    log_gain,
    solve_l1,
    solve_linf,
    solve_multiclass,
)

KINDS = {
    Loss.LOGISTIC: "log",
    Loss.HINGE: "hinge",
    Loss.RAMP: "ramp",
    Loss.EXPONENTIAL: "exponential",
    Loss.SQUARED: "squared",
}
BIASES = [0.0, 0.3, -1.7, 1.0, -1.0, 30.0, -30.0, 4.0, None]
CASES = 1000


def close(ours, best):
    """Within 1e-9 of the optimum, relative where the loss itself is large, or below it."""
    return ours <= best + 1e-9 * max(1.0, abs(best))


def case(rng, loss, branches=1):
    """Counts (pure ones among them), a bias, and a penalty from 0 to larger than all counts."""
    scale = 10.0 ** rng.integers(0, 4)
    a, b = scale * rng.random(branches), scale * rng.random(branches)
    if rng.random() < 0.3:
        a = np.round(a) + (np.round(a) + np.round(b) == 0)
        b = np.round(b)
    for j in range(branches):
        pure = rng.random()
        if pure < 0.2 and loss != Loss.SQUARED:
            (a if pure < 0.1 else b)[j] = 0.0
    if loss == Loss.SQUARED:
        a, b = a + 0.01, (b - 0.5 * scale) * 3
    bias = BIASES[rng.integers(len(BIASES))]
    bias = 3 * rng.normal() if bias is None else bias
    share = rng.random()
    lam = 0.0 if share < 0.15 else 1e6 if share < 0.2 else 10.0 ** rng.uniform(-6, 3.5)
    return a, b, float(bias), float(lam)


def objective(kind, a, b, bias, lam, alpha):
    return ref.loss(kind, a, b, bias + alpha) + lam * abs(alpha)


def minimised(f, low, high, points=600):
    """The least value of a function of one number: a grid, then thirds around its best cells."""
    grid = np.linspace(low, high, points)
    values = [f(x) for x in grid]
    best = min(values)
    for i in np.argsort(values)[:2]:
        x, y = grid[max(i - 1, 0)], grid[min(i + 1, points - 1)]
        for _ in range(90):
            third = (y - x) / 3
            if f(x + third) < f(y - third):
                y -= third
            else:
                x += third
        best = min(best, f((x + y) / 2))
    return best


@pytest.mark.parametrize("loss", first_quick(KINDS))
def test_l1_reaches_the_numerical_optimum(loss):
    rng = np.random.default_rng(int(loss))
    kind, n_null = KINDS[loss], 0
    for number in range(CASES):
        (a,), (b,), bias, lam = case(rng, loss)
        alpha, gain = solve_l1(loss, a, b, bias, lam)
        ours = objective(kind, a, b, bias, lam, alpha)
        reach = 2 * abs(b / a - bias) + 1 if kind == "squared" else 35.0
        low, high = (-reach, reach) if kind == "squared" else (-35.0 - bias, 35.0 - bias)
        best = min(
            objective(kind, a, b, bias, lam, 0.0),
            objective(kind, a, b, bias, lam, ref.best_alpha(kind, a, b, bias, lam)),
        )
        if number < 120:
            best = min(best, minimised(
                lambda x: objective(kind, a, b, bias, lam, x), low, high))  # noqa: B023
        assert close(ours, best), (a, b, bias, lam, alpha)
        start = ref.loss(kind, a, b, bias)
        assert gain == pytest.approx(start - ours, rel=1e-9, abs=1e-9 * max(1.0, abs(start)))
        assert branch_loss(loss, a, b, bias) == pytest.approx(start, rel=1e-12, abs=1e-12)
        n_null += alpha == 0.0
        if lam == 1e6 and kind != "exponential":
            assert alpha == 0.0
    assert CASES / 20 < n_null < CASES * 0.9  # both kinds of cases were there


def test_the_short_way_to_the_gain_of_the_logistic_loss_leads_there():
    rng = np.random.default_rng(5)
    for _ in range(CASES):
        (a,), (b,), bias, lam = case(rng, Loss.LOGISTIC)
        _, gain = solve_l1(Loss.LOGISTIC, a, b, bias, lam)
        assert log_gain(a, b, bias, lam) == pytest.approx(gain, rel=1e-9, abs=1e-9 * (a + b + 1))


def linf_best(kind, a, b, bias, lam):
    """By search over r, with every branch at its own best within +-r."""
    alone = [ref.best_alpha(kind, x, y, bias, 0.0) for x, y in zip(a, b, strict=True)]

    def at(r):
        total = lam * r
        for x, y, free in zip(a, b, alone, strict=True):
            if kind in ("hinge", "ramp"):
                options = [k for k in ref.kinks(kind, bias) if abs(k) <= r] + [r, -r]
                total += min(ref.loss(kind, x, y, bias + o) for o in options)
            else:
                total += ref.loss(kind, x, y, bias + max(-r, min(r, free)))
        return total

    top = max(map(abs, alone)) + 1e-12
    if kind in ("hinge", "ramp"):
        top = 2 + abs(bias)
        return min(minimised(at, 0.0, top, 200), *(at(abs(k)) for k in ref.kinks(kind, bias)))
    low, high = 0.0, top  # convex in r
    for _ in range(120):
        third = (high - low) / 3
        if at(low + third) < at(high - third):
            high -= third
        else:
            low += third
    return min(at((low + high) / 2), at(0.0))


@pytest.mark.parametrize("loss", first_quick(KINDS))
def test_linf_reaches_the_numerical_optimum(loss):
    rng = np.random.default_rng(10 + int(loss))
    kind, n_null, n_shared = KINDS[loss], 0, 0
    for _ in range(CASES // 12):
        a, b, bias, lam = case(rng, loss, branches=int(rng.integers(1, 6)))
        alphas, gain = solve_linf(loss, a, b, bias, lam)
        start = sum(ref.loss(kind, x, y, bias) for x, y in zip(a, b, strict=True))
        ours = lam * max(map(abs, alphas)) + sum(
            ref.loss(kind, x, y, bias + alpha) for x, y, alpha in zip(a, b, alphas, strict=True)
        )
        assert close(ours, linf_best(kind, a, b, bias, lam)), (a, b, bias, lam, alphas)
        assert gain == pytest.approx(start - ours, rel=1e-9, abs=1e-9 * max(1.0, abs(start)))
        n_null += not alphas.any()
        n_shared += np.sum(np.abs(alphas) == np.abs(alphas).max()) > 1 and alphas.any()
    assert n_null > 5
    assert n_shared > 5  # the penalty tied branches together


def test_one_branch_is_the_same_under_both_penalties():
    rng = np.random.default_rng(3)
    for loss in KINDS:
        for _ in range(200):
            a, b, bias, lam = case(rng, loss)
            alpha, gain = solve_l1(loss, a[0], b[0], bias, lam)
            alphas, gain_linf = solve_linf(loss, a, b, bias, lam)
            scale = max(1.0, abs(branch_loss(loss, a[0], b[0], bias)))
            assert gain_linf == pytest.approx(gain, rel=1e-9, abs=1e-9 * scale)
            assert alphas[0] == pytest.approx(alpha, abs=1e-6 * (1 + abs(alpha))) or gain < 1e-9


def multiclass_case(rng):
    k = int(rng.integers(2, 12))
    counts = rng.integers(0, 40, size=k) * 10.0 ** rng.integers(-1, 2)
    if rng.random() < 0.2:
        counts[1:] = 0.0
    counts[0] += counts.sum() == 0
    above = rng.dirichlet(np.full(k, rng.choice([0.1, 1.0, 10.0]))) + 1e-13
    share = rng.random()
    lam = 0.0 if share < 0.15 else 1e6 if share < 0.2 else 10.0 ** rng.uniform(-5, 2.5)
    return counts.astype(float), above / above.sum(), lam


def test_many_classes_have_no_duality_gap():
    """The dual, max of m (H(p) + (p - q) b) over |q - p|_1 <= lambda / m, is never above."""
    rng = np.random.default_rng(0)
    n_null = 0
    for _ in range(CASES):
        counts, above, lam = multiclass_case(rng)
        shares, gain = solve_multiclass(counts, above, lam)
        m, b = counts.sum(), np.log(above)
        q = counts / m
        assert shares.sum() == pytest.approx(1.0, abs=1e-9)
        met = counts > 0
        alpha = np.log(np.maximum(shares, 1e-300)) - b
        spread = 0.5 * (alpha.max() - alpha.min()) if lam else 0.0
        primal = -np.sum(counts[met] * np.log(shares[met])) + lam * spread
        assert np.abs(q - shares).sum() <= lam / m + 1e-9
        inside = shares > 0
        entropy = -np.sum(shares[inside] * np.log(shares[inside]))
        dual = m * (entropy + np.sum((shares - q) * b))
        assert primal - dual <= 1e-9 * max(1.0, abs(primal))
        start = -np.sum(counts[met] * b[met])
        assert gain == pytest.approx(start - primal, rel=1e-9, abs=1e-9 * max(1.0, start))
        n_null += gain == 0.0
    assert 50 < n_null < CASES / 2


def test_two_classes_of_many_are_two_classes():
    rng = np.random.default_rng(1)
    for _ in range(300):
        (a,), (b,), _, lam = case(rng, Loss.LOGISTIC)
        bias = 2 * rng.normal()
        above = np.array([ref.sigmoid(-bias), ref.sigmoid(bias)])
        shares, gain = solve_multiclass(np.array([b, a]), above, 2 * lam)
        alpha, binary = solve_l1(Loss.LOGISTIC, a, b, bias, lam)
        assert gain == pytest.approx(binary, rel=1e-9, abs=1e-9 * (a + b + 1))
        if abs(bias + alpha) < 30:
            assert math.log(shares[1] / shares[0]) == pytest.approx(bias + alpha, abs=1e-6)


def entropy(p):
    return -sum(x * math.log(x) for x in (p, 1 - p) if x > 0)


def test_without_penalty_log_is_information_gain_and_exponential_gini():
    rng = np.random.default_rng(2)
    for _ in range(300):
        a, b = rng.integers(1, 60, size=(2, 4)).astype(float)
        m = a + b
        p = a.sum() / m.sum()
        bias = math.log(p / (1 - p))
        gain = sum(solve_l1(Loss.LOGISTIC, x, y, bias, 0.0)[1] for x, y in zip(a, b, strict=True))
        information = m.sum() * entropy(p) - sum(m * [entropy(x) for x in a / m])
        assert gain == pytest.approx(information, rel=1e-9, abs=1e-9)
        gain = sum(
            solve_l1(Loss.EXPONENTIAL, x, y, bias / 2, 0.0)[1]
            for x, y in zip(a, b, strict=True)
        )
        # 2 sqrt(p (1 - p)) orders predicates as the Gini index's root does
        gini = 2 * m.sum() * math.sqrt(p * (1 - p)) - 2 * np.sum(np.sqrt(a * b))
        assert gain == pytest.approx(gini, rel=1e-9, abs=1e-9)
