"""Who the ranks are, and waiting for them.

    mg.distributed.init()          # under `mpiexec -n 4 python train.py`; alone it is a world of 1
    mg.distributed.rank(), mg.distributed.size()

All communication of a rank goes through its world. It counts the collectives, reports to the
watchdog, and checks that the ranks mean the same call.
"""

import os
import time
import zlib
from time import perf_counter_ns
from typing import Any

import numpy as np

from ..backends.device import array_module
from ..backends.threads import Local
from ..engine import events
from . import mpi
from .errors import DistributedError
from .transport import Alone, Request, Transport
from .watchdog import Watchdog

TIMEOUT = 300.0  # seconds
_SPINS = 200  # tests of a request before the thread begins to sleep between them


class World:
    """The ranks of a job, as one of them sees it.

    timeout   seconds after which a rank that is silent, or that others wait for, ends the job
    """

    def __init__(self, transports: dict[str, Transport], timeout: float, watched: bool):
        self._transports = transports
        first = next(iter(transports.values()))
        self.rank, self.size = first.rank, first.size
        self.timeout = timeout
        self.collectives = 0  # begun so far; the same on every rank while all is well
        self._local = Local()
        comm = getattr(transports.get("cpu"), "comm", None)
        self.watchdog = Watchdog(self, comm if watched else None)

    def transport(self, device: str) -> Transport:
        """The transport of arrays on "cpu" or "cuda"."""
        kind = device.partition(":")[0]
        if kind not in self._transports:
            self._transports[kind] = self._connect(kind)
        return self._transports[kind]

    def _connect(self, kind: str) -> Transport:
        """NCCL between ranks that MPI has introduced; made when the first GPU array comes."""
        from . import nccl

        if self.size == 1:
            return Alone(kind)
        name = np.zeros(128, np.uint8)
        if self.rank == 0:
            name[:] = np.frombuffer(nccl.unique_id(), np.uint8)
        self.wait(self.transport("cpu").broadcast(name, 0), "rendezvous for NCCL")
        comm = nccl.connect(self.rank, self.size, self.timeout, name.tobytes())
        transport = nccl.NCCLTransport(comm, self.rank, self.size)
        transport.guard = nccl.Guard(comm, self.rank, self.size, self.timeout)
        return transport

    # -- waiting -----------------------------------------------------------------------------

    def wait(self, request: Request, what: str) -> None:
        """Wait until the request is complete; DistributedError when the watchdog ends the job."""
        self.collectives += 1
        t0 = perf_counter_ns()
        if hasattr(request, "wait_on_stream"):  # on a GPU the stream waits, not the host
            request.wait_on_stream()  # type: ignore[attr-defined]
            return
        with self.watchdog.waiting(what):
            spins = 0
            while not request.done():
                spins += 1
                if spins > _SPINS:
                    self.refuse_if_ended()
                    time.sleep(2e-5 if spins < 50 * _SPINS else 5e-4)
        if events.listeners:
            events.tell("marked", "waiting", what, t0, perf_counter_ns(), None)

    def refuse_if_ended(self) -> None:
        """DistributedError if the watchdog has found that the job cannot go on."""
        if self.watchdog.verdict:
            raise DistributedError(self.watchdog.verdict)

    def agree(self, what: str) -> None:
        """DistributedError, which names who says what, unless all ranks pass the same text.

        Two numbers are compared; only when they differ are the texts exchanged.
        """
        cpu = self._transports.get("cpu")
        if self.size == 1 or cpu is None or not hasattr(cpu, "comm"):
            return
        digest = zlib.crc32(what.encode()) + (len(what) << 32)
        bounds = np.array([digest, -digest], np.int64)
        self.wait(cpu.all_reduce(bounds, "max"), what)
        if bounds[0] != -bounds[1]:
            raise DistributedError(f"the ranks do not agree:\n{self._by_text(self.texts(what))}")

    def _by_text(self, texts: list[str]) -> str:
        ranks: dict[str, list[int]] = {}
        for rank, text in enumerate(texts):
            ranks.setdefault(text, []).append(rank)
        return "\n".join(f"  {named(who)}: {text}" for text, who in ranks.items())

    def texts(self, text: str) -> list[str]:
        """The texts of all ranks, by rank."""
        cpu = self.transport("cpu")
        own = np.frombuffer(text.encode(), np.uint8)
        length = np.array([len(own)], np.int64)
        self.wait(cpu.all_reduce(length, "max"), "all_gather of texts")
        part = np.zeros(int(length[0]), np.uint8)
        part[: len(own)] = own
        whole = np.zeros((self.size, len(part)), np.uint8)
        self.wait(cpu.all_gather(part, whole), "all_gather of texts")
        return [bytes(row).rstrip(b"\0").decode(errors="replace") for row in whole]


def named(ranks: list[int]) -> str:
    """ "rank 1", or "ranks 0, 2-5"."""
    spans: list[list[int]] = []
    for rank in sorted(ranks):
        if spans and spans[-1][1] == rank - 1:
            spans[-1][1] = rank
        else:
            spans.append([rank, rank])
    texts = [f"{a}" if a == b else f"{a}-{b}" if b > a + 1 else f"{a}, {b}" for a, b in spans]
    return f"rank{'s' if len(ranks) > 1 else ''} {', '.join(texts)}"


# -- the world of this process ---------------------------------------------------------------------

_world: World | None = None


def init(backend: str | None = None, timeout: float | None = None, watch: bool = True) -> World:
    """Join the ranks that were started together; a process started alone is a world of one.

    backend   "mpi", "nccl", or None: MPI where an MPI launcher has started this process, NCCL
              where RANK and WORLD_SIZE are set (with MASTER_ADDR and MASTER_PORT, for CuPy's
              store), else one rank. Under MPI arrays on GPUs go through NCCL by themselves
    timeout   seconds after which a rank that is silent, or that others wait for, ends the job with
              a message on every rank (default: MINIGRAD_DISTRIBUTED_TIMEOUT, or 300)
    watch     False: no watchdog, no witness process; a fault then hangs as long as MPI lets it

    With NCCL each rank takes the GPU LOCAL_RANK (default: its rank) unless the program chose one.
    A second call returns the same world.
    """
    global _world
    if _world is not None:
        return _world
    if backend not in (None, "mpi", "nccl"):
        raise ValueError(f"init: backend is 'mpi', 'nccl' or None, got {backend!r}")
    if timeout is None:
        given = os.environ.get("MINIGRAD_DISTRIBUTED_TIMEOUT", TIMEOUT)
        try:
            timeout = float(given)
        except ValueError:
            raise ValueError(
                f"init: MINIGRAD_DISTRIBUTED_TIMEOUT is a number of seconds above 0, got {given!r}"
            ) from None
    if isinstance(timeout, str) or not timeout > 0:
        raise ValueError(f"init: timeout is a number of seconds above 0, got {timeout!r}")
    by_environment = "WORLD_SIZE" in os.environ and "RANK" in os.environ
    if backend == "mpi" or (backend is None and mpi.launched()):
        transport: Transport = mpi.MPITransport(mpi.library().COMM_WORLD)
        _refuse_other_launcher(transport.size, mpi.launched())
        if transport.size == 1:
            transport = Alone()
        _world = World({"cpu": transport}, timeout, watch and transport.size > 1)
    elif backend == "nccl" and mpi.launched() > 1:
        init("mpi", timeout, watch).transport("cuda")
    elif backend == "nccl" or (backend is None and by_environment):
        _world = World(_over_nccl(timeout), timeout, False)
    else:
        _world = World({"cpu": Alone(), "cuda": Alone("cuda")}, timeout, False)
    assert _world is not None
    _world.watchdog.start()
    return _world


def _refuse_other_launcher(found: int, launched: int) -> None:
    """Another MPI's launcher starts processes that do not know of each other: each trains alone."""
    if found == 1 and launched > 1:
        raise DistributedError(
            f"the launcher has started {launched} ranks, but the MPI library of mpi4py sees one: "
            "they come from different MPI implementations. Use the mpiexec that belongs to the "
            "library (pip install mpi4py mpich gives both)"
        )


def _over_nccl(timeout: float) -> dict[str, Transport]:
    from . import nccl

    try:
        rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    except (KeyError, ValueError):
        raise DistributedError(
            "init('nccl') without MPI needs RANK and WORLD_SIZE in the environment (on several "
            "machines MASTER_ADDR and MASTER_PORT too), one process for each GPU"
        ) from None
    cupy: Any = nccl.require_gpu("the NCCL backend")
    cupy.cuda.Device(int(os.environ.get("LOCAL_RANK", rank))).use()
    over = nccl.NCCLTransport(nccl.connect(rank, size, timeout), rank, size)
    over.guard = nccl.Guard(over.comm, rank, size, timeout)
    return {"cuda": over, "cpu": nccl.Staged(over)}


def world() -> World:
    """The world that init() has made."""
    if _world is None:
        raise DistributedError("call mg.distributed.init() first, on every rank")
    return _world


def is_initialized() -> bool:
    """Whether init() has been called."""
    return _world is not None


def rank() -> int:
    """The number of this process among the ranks, from 0."""
    return world().rank


def size() -> int:
    """How many ranks there are."""
    return world().size


def barrier() -> None:
    """Wait until every rank has come here."""
    here = world()
    here.agree("barrier()")
    request = here.transport("cpu").barrier()
    here.wait(request, "barrier()")
    if hasattr(request, "synchronize"):  # over NCCL alone `wait` stops the stream, not the host
        request.synchronize()  # type: ignore[attr-defined]


def device_kind(x: Any) -> str:
    """ "cpu" or "cuda"."""
    return "cpu" if array_module(x) is np else "cuda"
