"""The transport of arrays in host memory: MPI, through mpi4py's buffer calls. Nothing is pickled.

Sums of 16-bit floats are formed in float32: MPI knows no bfloat16, and a sum of many ranks in
16 bits would lose what the gradients are made of.
"""

import os
from typing import Any

import numpy as np

from ..backends.dtypes import accumulator
from .errors import DistributedError
from .transport import Request

# launchers' variables: how many processes there are
_SIZES = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "PALS_SIZE", "MPI_LOCALNRANKS")


def launched() -> int:
    """How many processes an MPI launcher has started with this one; 0: it was started alone."""
    found = next((int(os.environ[name]) for name in _SIZES if name in os.environ), 0)
    if not found and "PMIX_RANK" in os.environ:  # Slurm's srun; alone it would not be set
        found = int(os.environ.get("SLURM_NTASKS", "2"))
    return found


def library() -> Any:
    """mpi4py.MPI, initialised for several threads."""
    try:
        from mpi4py import MPI
    except ImportError as error:
        raise ImportError(
            "minigrad.distributed needs mpi4py and an MPI library: pip install mpi4py mpich "
            f"({error})"
        ) from None
    if MPI.Query_thread() < MPI.THREAD_MULTIPLE:
        raise DistributedError(
            "this MPI library does not let several threads call it (MPI_THREAD_MULTIPLE), which "
            "the watchdog and the overlap with backward need; MPICH from PyPI does"
        )
    return MPI


class _Request:
    __slots__ = ("_requests", "_kept")

    def __init__(self, request: Any, *kept: Any):
        self._requests = request
        self._kept = kept  # arrays that must live until the transfer is complete

    def done(self) -> bool:
        return self._requests.Test()


class MPITransport:
    """Arrays in host memory over an MPI communicator."""

    device = "cpu"

    def __init__(self, comm: Any):
        MPI = library()
        self.comm = comm
        self.rank, self.size = comm.Get_rank(), comm.Get_size()
        self._in_place = MPI.IN_PLACE
        self._ops = {"sum": MPI.SUM, "max": MPI.MAX, "min": MPI.MIN}

    def duplicate(self) -> "MPITransport":
        return MPITransport(self.comm.Dup())

    def sum_dtype(self, dtype: Any) -> Any:
        if dtype.kind not in "iufcV" or dtype.itemsize > 16:
            raise TypeError(f"there is no sum of {dtype} over ranks; cast it to a number first")
        return np.dtype(accumulator(dtype) or dtype)

    def all_reduce(self, buffer: np.ndarray, op: str) -> Request:
        return _Request(self.comm.Iallreduce(self._in_place, buffer, self._ops[op]), buffer)

    def broadcast(self, buffer: np.ndarray, root: int) -> Request:
        memory = _bytes(buffer)
        return _Request(self.comm.Ibcast(memory, root), memory)

    def all_gather(self, part: np.ndarray, whole: np.ndarray) -> Request:
        sent, received = _bytes(part), _bytes(whole)
        return _Request(self.comm.Iallgather(sent, received), sent, received)

    def reduce_scatter(self, whole: np.ndarray, part: np.ndarray) -> Request:
        request = self.comm.Ireduce_scatter_block(whole, part, self._ops["sum"])
        return _Request(request, whole, part)

    def send(self, buffer: np.ndarray, to: int, tag: int) -> Request:
        memory = _bytes(buffer)
        return _Request(self.comm.Isend(memory, to, tag), memory)

    def receive(self, buffer: np.ndarray, source: int, tag: int) -> Request:
        memory = _bytes(buffer)
        return _Request(self.comm.Irecv(memory, source, tag), memory)

    def barrier(self) -> Request:
        return _Request(self.comm.Ibarrier())


def _bytes(x: np.ndarray) -> np.ndarray:
    """The memory of a contiguous array of any dtype."""
    return x.reshape(-1).view(np.uint8)
