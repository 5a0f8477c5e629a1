"""Models on the processes of a Ray cluster, one machine or many.

- `KeyedModels`: a model of its own for every customer, device or route.
- `DataParallel`: one model whose rows are shared out to replicas.
- `ShardedForest`: one forest whose members are spread.

All are given batches of rows as a local model is. Every batch has its place in the stream: it is
learned once, in order, or refused. Workers write checkpoints; one that dies is started again from
its last one and is told what it has missed. A driver that dies goes on from the last checkpoint
that all workers had. docs/scaling.md says which shape is for what, and what each costs.
"""

try:
    # not only the name: Ray leaves folders of that name behind
    import ray.exceptions  # noqa: F401
except ImportError:
    raise ImportError(
        "streamtree.distributed needs Ray: pip install 'streamtree-learn[ray]'", name="ray"
    ) from None

from streamtree.distributed.crew import WorkerLostError
from streamtree.distributed.keyed import KeyedModels
from streamtree.distributed.parallel import DataParallel
from streamtree.distributed.sharded import ShardedForest
from streamtree.distributed.worker import SequenceError

__all__ = ["DataParallel", "KeyedModels", "SequenceError", "ShardedForest", "WorkerLostError"]
