from typing import final

@final
class SoftTree: ...
