from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

class NodeLoss(IntEnum):
    LOG = 0
    HINGE = 1
    RAMP = 2
    EXPONENTIAL = 3
    SQUARED = 4

def loss_value(loss: int, positive: float, negative: float, f: float) -> float: ...
def solve_l1(
    loss: int, positive: float, negative: float, b: float, lam: float
) -> tuple[float, float]: ...
def log_gain(positive: float, negative: float, b: float, lam: float) -> float: ...
def solve_linf(
    loss: int,
    positive: NDArray[np.float64],
    negative: NDArray[np.float64],
    b: float,
    lam: float,
) -> tuple[NDArray[np.float64], float]: ...
def solve_multiclass(
    counts: NDArray[np.float64], parent: NDArray[np.float64], lam: float
) -> tuple[NDArray[np.float64], float]: ...
