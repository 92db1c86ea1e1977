"""Training on several processes and machines: MPI for host arrays, NCCL for GPUs.

Read in this order: transport, mpi (what carries arrays), ranks (who they are, and waiting),
collectives (with their derivatives), batch_norm, buckets, data_parallel, watchdog (faults),
checkpoint, zero.
"""

from ..tensor_api.help import missing_names_of as _missing_names_of
from .batch_norm import SyncBatchNorm
from .checkpoint import load_checkpoint, save_checkpoint
from .collectives import (
    all_gather,
    all_reduce,
    broadcast,
    broadcast_,
    receive,
    reduce_scatter,
    send,
)
from .data_parallel import DataParallel, Timeline
from .errors import DistributedError
from .ranks import World, barrier, init, is_initialized, rank, size, world
from .recording import event_log
from .sampler import DistributedSampler
from .seeds import seed
from .zero import ZeroRedundancyOptimizer

__all__ = [
    "DataParallel", "DistributedError", "DistributedSampler", "SyncBatchNorm", "Timeline", "World",
    "ZeroRedundancyOptimizer", "all_gather", "all_reduce", "barrier", "broadcast", "broadcast_",
    "event_log", "init", "is_initialized", "load_checkpoint", "rank", "receive", "reduce_scatter",
    "save_checkpoint", "seed", "send", "size", "world",
]  # fmt: skip

__getattr__ = _missing_names_of(__name__)
