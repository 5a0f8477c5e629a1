from enum import IntEnum

class Loss(IntEnum):
    LOGISTIC = 0
    HINGE = 1
    SQUARED = 2
    ABSOLUTE = 3

def value(loss: Loss, score: float, target: float) -> float: ...
def slope(loss: Loss, score: float, target: float) -> float: ...
def reach(loss: Loss, score: float, target: float) -> float: ...
