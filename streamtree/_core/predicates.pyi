from enum import IntEnum

class Predicate(IntEnum):
    NONE = 0
    THRESHOLD = 1
    NOMINAL = 2
