"""The paths of arrays on GPUs, without one: CuPy's stand-in, and an NCCL that goes over MPI.

The stand-in refuses what CuPy refuses and counts copies between host and device.
"""

import ctypes
import importlib.util
import pathlib
import sys
import types
from time import perf_counter

import numpy as np
import pytest
import scipy.linalg
import scipy.special  # noqa: F401  (what the stand-in hands on)
from mpi4py import MPI

path = pathlib.Path(__file__).parents[2] / "cuda" / "stand_in.py"
sys.path.insert(0, str(path.parent))  # it imports its neighbour
spec = importlib.util.spec_from_file_location("stand_in", path)
stand_in = importlib.util.module_from_spec(spec)
spec.loader.exec_module(stand_in)


class Event:
    """A CUDA event: when it was recorded."""

    done = True

    def __init__(self):
        self.at = perf_counter()

    def synchronize(self):
        pass


class Stream:
    """Everything is complete at once, in the order of the calls."""

    ptr = 0

    def __init__(self, non_blocking=False):
        pass

    def record(self, event=None):
        return Event()

    def wait_event(self, event):
        assert isinstance(event, Event)

    def synchronize(self):
        pass


class Device(stand_in._Device):
    """A GPU that can be the current one."""


class Communicator:
    """NCCL's calls by pointer, count and number of the dtype, carried by MPI."""

    types = {0: "i1", 1: "u1", 2: "i4", 3: "u4", 4: "i8", 5: "u8", 6: "f2", 7: "f4", 8: "f8"}

    def __init__(self, size, name, rank):
        assert isinstance(name, bytes) and len(name) == 128
        self.comm = MPI.COMM_WORLD.Dup()
        self.size = size

    def at(self, pointer, count, kind):
        dtype = np.dtype(self.types[kind])
        memory = (ctypes.c_char * (count * dtype.itemsize)).from_address(pointer)
        return np.frombuffer(memory, dtype)

    def allReduce(self, sent, received, count, kind, op, stream):
        total = self.at(sent, count, kind).copy()
        self.comm.Allreduce(MPI.IN_PLACE, total, {0: MPI.SUM, 2: MPI.MAX, 3: MPI.MIN}[op])
        self.at(received, count, kind)[:] = total

    def broadcast(self, sent, received, count, kind, root, stream):
        self.comm.Bcast(self.at(received, count, kind), root)

    def allGather(self, sent, received, count, kind, stream):
        whole = self.at(received, count * self.size, kind)
        self.comm.Allgather(self.at(sent, count, kind).copy(), whole)

    def reduceScatter(self, sent, received, count, kind, op, stream):
        whole = self.at(sent, count * self.size, kind)
        self.comm.Reduce_scatter_block(whole, self.at(received, count, kind), MPI.SUM)

    def send(self, sent, count, kind, to, stream):
        self.comm.Send(self.at(sent, count, kind), to)

    def recv(self, received, count, kind, source, stream):
        self.comm.Recv(self.at(received, count, kind), source)

    def check_async_error(self):
        return 0


monkeypatch = pytest.MonkeyPatch()
cupy = stand_in.install(monkeypatch)
current = Stream()
stand_in.ndarray.device = Device()
nccl = types.ModuleType("cupy.cuda.nccl")
nccl.available, nccl.NcclCommunicator = True, Communicator
nccl.get_unique_id = lambda: bytes(range(64, 192))
cuda = types.ModuleType("cupy.cuda")
vars(cuda).update(vars(cupy.cuda))
cuda.nccl, cuda.Event, cuda.Stream, cuda.Device = nccl, Event, Stream, Device
cuda.get_current_stream = lambda: current
cuda.get_elapsed_time = lambda a, b: (b.at - a.at) * 1e3
cupy.cuda = cuda
sys.modules |= {"cupy.cuda": cuda, "cupy.cuda.nccl": nccl}

import minigrad as mg  # noqa: E402
from minigrad import distributed, nn  # noqa: E402

distributed.init(timeout=20)
rank, size = distributed.rank(), distributed.size()


def of(r):
    return np.random.default_rng(r).standard_normal((3, 4)).astype("float32")


every = [of(r) for r in range(size)]
x = cupy.asarray(of(rank))
for y, expected in (
    (distributed.all_reduce(x), sum(every)),
    (distributed.all_reduce(x, "mean"), sum(every) / size),
    (distributed.all_reduce(x, "max"), np.max(every, 0)),
    (distributed.all_gather(x), np.stack(every)),
    (distributed.broadcast(x, 1), every[1]),
    (distributed.reduce_scatter(cupy.stack([x] * size)), sum(every)),
):
    assert isinstance(y, cupy.ndarray)
    np.testing.assert_allclose(y.get(), expected, rtol=1e-6)
if rank == 0:
    distributed.send(x, to=1)
if rank == 1:
    np.testing.assert_array_equal(distributed.receive(x, source=0).get(), every[0])


def net():
    mg.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))


reference = net()
sum((reference(mg.tensor(part)) ** 2).mean() for part in every).backward()
model = distributed.DataParallel(net().to("cuda"), bucket_mb=0.0001)
for _ in range(3):
    model.zero_grad()
    stand_in.transfers.clear()
    (model(mg.Tensor(x)) ** 2).mean().backward()
    assert stand_in.transfers["to host"] == 0, "gradients were copied to the host"
    for p, q in zip(model.module.parameters(), reference.parameters(), strict=True):
        np.testing.assert_allclose(p.grad.numpy() * size, q.grad.numpy(), rtol=2e-6, atol=1e-7)
assert len(model.timeline.begun) == len(model.buckets) > 1

joined, synced = nn.BatchNorm1d(4), distributed.SyncBatchNorm(4).to("cuda")
whole, part = mg.tensor(np.concatenate(every), requires_grad=True), mg.Tensor(x)
part.requires_grad = True
(joined(whole) ** 3).sum().backward()
stand_in.transfers.clear()
(synced(part) ** 3).sum().backward()
assert not stand_in.transfers["to host"], "a batch norm over GPUs waited for the host"
expected = whole.grad.numpy()[3 * rank : 3 * rank + 3]
np.testing.assert_allclose(part.grad.numpy(), expected, rtol=1e-4, atol=1e-5)
for a, b in ((synced.running_mean, joined.running_mean), (synced.running_var, joined.running_var)):
    np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-5)
print("all of rank", rank)
