"""The losses: values, slopes, convexity, and how far a step may go."""

import math
from decimal import Decimal, localcontext

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from streamtree._core.kernels.losses import Loss, reach, slope, value

ALL = list(Loss)
scores = st.floats(-50, 50)
targets = st.sampled_from([-1.0, 1.0])
losses = st.sampled_from(ALL)
convex = st.sampled_from([loss for loss in ALL if loss != Loss.RAMP])
UNBOUNDED = (Loss.LOGISTIC, Loss.EXPONENTIAL)  # without a minimum


@pytest.mark.parametrize(
    ("loss", "score", "target", "expected_value", "expected_slope"),
    [
        (Loss.HINGE, 0.0, 1.0, 1.0, -1.0),
        (Loss.HINGE, 0.25, -1.0, 1.25, 1.0),
        (Loss.HINGE, 1.0, 1.0, 0.0, 0.0),  # the kink
        (Loss.HINGE, -3.0, -1.0, 0.0, 0.0),
        (Loss.HINGE, -3.0, 1.0, 4.0, -1.0),
        (Loss.SQUARED, 0.0, 1.0, 0.5, -1.0),
        (Loss.SQUARED, 3.0, 1.0, 2.0, 2.0),
        (Loss.SQUARED, -1.0, -1.0, 0.0, 0.0),
        (Loss.ABSOLUTE, 0.0, -1.0, 1.0, 1.0),
        (Loss.ABSOLUTE, -5.0, -1.0, 4.0, -1.0),
        (Loss.ABSOLUTE, 1.0, 1.0, 0.0, 0.0),  # the kink
        (Loss.RAMP, 0.25, 1.0, 0.75, -1.0),
        (Loss.RAMP, -2.0, 1.0, 1.0, 0.0),
        (Loss.RAMP, 0.0, -1.0, 1.0, 1.0),  # the upper kink
        (Loss.RAMP, -1.0, -1.0, 0.0, 0.0),  # the lower one
        (Loss.EXPONENTIAL, 0.0, 1.0, 1.0, -1.0),
        (Loss.EXPONENTIAL, 1.0, -1.0, math.e, math.e),
        (Loss.LOGISTIC, 0.0, 1.0, math.log(2.0), -0.5),
        (Loss.LOGISTIC, 0.0, -1.0, math.log(2.0), 0.5),
        (Loss.LOGISTIC, -800.0, 1.0, 800.0, -1.0),  # exp(800) is beyond a double
        (Loss.LOGISTIC, 800.0, 1.0, 0.0, 0.0),
        (Loss.LOGISTIC, 800.0, -1.0, 800.0, 1.0),
    ],
)
def test_known_values(loss, score, target, expected_value, expected_slope):
    assert value(loss, score, target) == expected_value
    assert slope(loss, score, target) == expected_slope


@given(score=scores, target=targets)
def test_logistic_loss_to_the_last_digits(score, target):
    with localcontext() as context:
        context.prec = 60
        odds = (-Decimal(target) * Decimal(score)).exp()  # exp(-ts)
        exact_value = (1 + odds).ln()
        exact_slope = -Decimal(target) * odds / (1 + odds)
    # relative, a few units in the last place of exp, log1p and a quotient
    assert value(Loss.LOGISTIC, score, target) == pytest.approx(float(exact_value), rel=4e-15)
    assert slope(Loss.LOGISTIC, score, target) == pytest.approx(float(exact_slope), rel=4e-15)


def numeric_derivative(f, loss, score, target, h=1e-5):
    return (f(loss, score + h, target) - f(loss, score - h, target)) / (2 * h)


@given(loss=losses, score=st.floats(-5, 5), target=targets)
def test_the_slope_is_the_derivative(loss, score, target):
    # the kinks of hinge, ramp and absolute loss are at the target and, of the ramp, at 0
    assume(abs(score - target) > 1e-3 and abs(score) > 1e-3)
    # the difference quotient: h^2 of the third derivative, which may be exp(5), and 1e-16 / h of
    # rounding
    assert slope(loss, score, target) == pytest.approx(
        numeric_derivative(value, loss, score, target), rel=1e-7, abs=1e-7
    )


@pytest.mark.parametrize("loss", ALL)
def test_far_from_the_target_nothing_overflows(loss):
    for f in (value, slope, reach):
        assert math.isfinite(f(loss, 700.0, 1.0))
        assert math.isfinite(f(loss, -700.0, 1.0))


@given(score=scores, target=targets)
def test_the_ramp_is_a_hinge_of_at_most_1(score, target):
    assert value(Loss.RAMP, score, target) == min(1.0, value(Loss.HINGE, score, target))


@given(loss=convex, a=scores, b=scores, target=targets)
def test_every_loss_but_the_ramp_is_convex_and_its_slope_a_subgradient(loss, a, b, target):
    va, vb = value(loss, a, target), value(loss, b, target)
    rounding = 1e-12 * (1.0 + va + vb)
    assert value(loss, (a + b) / 2, target) <= (va + vb) / 2 + rounding
    assert vb >= va + slope(loss, a, target) * (b - a) - rounding * (1.0 + abs(b - a))
    assert va >= 0.0


@given(loss=losses, score=scores, target=targets)
def test_losses_are_symmetric_in_the_target(loss, score, target):
    assert value(loss, score, target) == value(loss, -score, -target)
    assert slope(loss, score, target) == -slope(loss, -score, -target)
    assert reach(loss, score, target) == reach(loss, -score, -target)


@given(loss=losses, score=scores, target=targets)
def test_a_step_of_reach_ends_at_the_least_loss(loss, score, target):
    direction = -math.copysign(1.0, slope(loss, score, target))
    assume(slope(loss, score, target) != 0.0)
    end = score + direction * reach(loss, score, target)
    if loss in UNBOUNDED:
        # no minimum: at most one past the target, and never up the hill
        assert abs(end - score) <= abs(score - target) + 1.0
        assert value(loss, end, target) < value(loss, score, target)
    else:
        assert value(loss, end, target) == pytest.approx(0.0, abs=1e-12)  # one rounded sum
