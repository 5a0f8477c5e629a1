"""The losses as Python functions, for tests."""


def value(Loss loss, double score, double target):
    """The loss of `score` against `target` (-1 or +1)."""
    return loss_value(loss, score, target)


def slope(Loss loss, double score, double target):
    """The derivative of the loss with respect to `score`."""
    return loss_slope(loss, score, target)


def reach(Loss loss, double score, double target):
    """The largest distance that one adaptive step may move `score`."""
    return loss_reach(loss, score, target)
