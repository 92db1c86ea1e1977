"""NCCL on real GPUs, one a rank: collectives, DataParallel, faults. Started as torchrun would."""

import faulthandler
import hashlib
import os
import sys

import cupy
import numpy as np

import minigrad as mg
from minigrad import distributed, nn

phase = sys.argv[1]
faulthandler.dump_traceback_later(75, exit=True)  # says where a rank hangs
launcher = ("LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "PMI_RANK")
local = next(os.environ[name] for name in launcher if name in os.environ)
cupy.cuda.Device(int(local)).use()
distributed.init(sys.argv[2] if len(sys.argv) > 2 else None, timeout=15)
rank, size = distributed.rank(), distributed.size()
assert size > 1


def of(r, dtype="float32"):
    return (np.random.default_rng(r).standard_normal((3, 4)) * 9).astype(dtype)


def check_collectives():
    for dtype in ("float32", "float64", "float16", "int32", "int64", "complex64"):
        every = [of(r, dtype) for r in range(size)]
        x = cupy.asarray(every[rank])
        rough = {"rtol": 2e-3, "atol": 2e-2} if dtype == "float16" else {"rtol": 1e-6}
        pairs = [
            (distributed.all_reduce(x), sum(every)),
            (distributed.all_gather(x), np.stack(every)),
            (distributed.broadcast(x, 1), every[1]),
            (distributed.reduce_scatter(cupy.stack([x] * size)), sum(every)),
        ]
        if dtype != "complex64":
            pairs.append((distributed.all_reduce(x, "max"), np.max(every, 0)))
            pairs.append((distributed.all_reduce(x, "min"), np.min(every, 0)))
        for y, expected in pairs:
            assert isinstance(y, cupy.ndarray) and y.dtype == np.dtype(dtype)
            np.testing.assert_allclose(y.get(), expected, **rough)
        if rank == 0:
            distributed.send(x, to=1)
        if rank == 1:
            np.testing.assert_array_equal(distributed.receive(x, source=0).get(), every[0])
    np.testing.assert_allclose(distributed.all_reduce(of(rank)), sum(map(of, range(size))), 1e-6)


def check_derivatives():
    """The sum over ranks of ½‖y‖² has derivatives that each collective's transpose gives."""
    every = [of(r) for r in range(size)]
    total = sum(every)
    for f, expected in (
        (distributed.all_reduce, size * total),
        (distributed.all_gather, size * every[rank]),
        (lambda t: distributed.broadcast(t, 1), size * every[1] * (rank == 1)),
    ):
        x = mg.tensor(cupy.asarray(every[rank]), requires_grad=True)
        y = f(x)
        (y * y / 2).sum().backward()
        np.testing.assert_allclose(x.grad.numpy(), expected, rtol=1e-5, atol=1e-4)


class Net(nn.Module):
    """A convnet with a layer that is used only when asked, and one that never is."""

    def __init__(self):
        self.conv = nn.Conv2d(1, 4, 3)
        self.norm = nn.BatchNorm2d(4)
        self.hidden = nn.Linear(64, 16)
        self.extra = nn.Linear(16, 16)
        self.never = nn.Linear(2, 2)
        self.out = nn.Linear(16, 3)

    def forward(self, x, extra=False):
        h = mg.tanh(self.norm(self.conv(x))).reshape(x.shape[0], -1)
        h = mg.tanh(self.hidden(h))
        return self.out(self.extra(h) if extra else h)


rng = np.random.default_rng(0)
X = rng.standard_normal((4 * size, 1, 6, 6))
Y = rng.integers(0, 3, 4 * size)


def net(seed=1):
    mg.manual_seed(seed)
    return Net().to(dtype=np.float64).to("cuda")


def loss_of(model, r, extra=False):
    part = slice(4 * r, 4 * r + 4)
    x, y = mg.tensor(X[part], device="cuda"), mg.tensor(Y[part], device="cuda")
    return mg.cross_entropy(model(x, extra), y)


def same_everywhere(model):
    found = hashlib.sha256(
        b"".join(p.grad.numpy().tobytes() for p in model.parameters() if p.grad is not None)
    ).digest()
    every = distributed.all_gather(np.frombuffer(found, np.uint8).copy())
    every = every if isinstance(every, np.ndarray) else every.numpy()
    assert (every == every[0]).all(), "ranks hold different bits"


def check_gradients():
    """Equal to one process on the joined batch, the same bits on all ranks, in every form."""
    for bucket_mb in (25.0, 0.0005):
        model = distributed.DataParallel(net(seed=rank + 1), bucket_mb=bucket_mb)
        for extra_on in ((), (1,), tuple(range(size))):
            for options in ({}, {"engine": "parallel"}):
                for overlap in (True, False):
                    model.overlap = overlap
                    reference = net()
                    losses = [loss_of(reference, r, r in extra_on) for r in range(size)]
                    (sum(losses) / size).backward()
                    model.zero_grad()
                    loss_of(model, rank, rank in extra_on).backward(**options)
                    compare(model.module, reference)
                    same_everywhere(model)
        with model.no_sync():
            loss_of(model, rank).backward()
        loss_of(model, rank).backward()
        same_everywhere(model)
        timeline = model.timeline
        assert len(timeline.begun) == len(model.buckets)
        assert 0 <= timeline.hidden <= 1
        model.close()


def check_batch_norm():
    """SyncBatchNorm in the place of BatchNorm: what one process has on the joined batch."""
    reference = net()
    mg.cross_entropy(reference(mg.tensor(X, device="cuda")), mg.tensor(Y, device="cuda")).backward()
    converted = distributed.SyncBatchNorm.convert_sync_batchnorm(net())
    model = distributed.DataParallel(converted, bucket_mb=0.0005)
    loss_of(model, rank).backward()
    for (name, p), (_, q) in zip(converted.named_parameters(), reference.named_parameters()):
        if q.grad is not None:
            np.testing.assert_allclose(p.grad.numpy(), q.grad.numpy(), 1e-8, 1e-11, err_msg=name)
    for own, joined in zip(converted.buffers(), reference.buffers(), strict=True):
        np.testing.assert_allclose(own.numpy(), joined.numpy(), 1e-9)
    same_everywhere(model)
    model.close()


def compare(model, reference):
    for (name, p), (_, q) in zip(model.named_parameters(), reference.named_parameters()):
        assert (p.grad is None) == (q.grad is None), name
        if q.grad is not None:
            np.testing.assert_allclose(p.grad.numpy(), q.grad.numpy(), 1e-10, 1e-13, err_msg=name)


def check_steps_copy_nothing():
    """After the first step no array goes to the host; losses go down and are one process's."""
    model = distributed.DataParallel(net(seed=rank + 1))
    optimizer = mg.optim.SGD(model.parameters(), lr=0.1)
    reference = net()
    theirs = mg.optim.SGD(reference.parameters(), lr=0.1)
    x = mg.tensor(X[4 * rank : 4 * rank + 4], device="cuda")
    y = mg.tensor(Y[4 * rank : 4 * rank + 4], device="cuda")
    for turn in range(5):
        theirs.zero_grad()
        (sum(loss_of(reference, r) for r in range(size)) / size).backward()
        theirs.step()
        optimizer.zero_grad()
        before = mg.cuda.transfers().to_host
        mg.cross_entropy(model(x), y).backward()
        optimizer.step()
        if turn > 1:
            assert mg.cuda.transfers().to_host == before
    for p, q in zip(model.module.parameters(), reference.parameters(), strict=True):
        np.testing.assert_allclose(p.numpy(), q.numpy(), 1e-9, 1e-12)


def check_unlike_models_are_named():
    model = nn.Linear(3, 2 + rank).to("cuda")
    try:
        distributed.DataParallel(model)
    except distributed.DistributedError as problem:
        assert "the models of the ranks differ" in str(problem)
        assert "weight" in str(problem)
    else:
        raise AssertionError("unlike models were accepted")


if phase == "right":
    print("joined", rank, flush=True)
    check_collectives()
    print("check_collectives", flush=True)
    check_derivatives()
    print("check_derivatives", flush=True)
    check_gradients()
    print("check_gradients", flush=True)
    check_batch_norm()
    print("check_batch_norm", flush=True)
    check_steps_copy_nothing()
    print("check_steps_copy_nothing", flush=True)
    check_unlike_models_are_named()
    print("check_unlike_models_are_named", flush=True)
    distributed.barrier()
    print("all of rank", rank, flush=True)
else:  # a rank leaves while the others wait
    assert phase == "leave"
    distributed.all_reduce(cupy.ones(3))
    if rank == 1:
        os._exit(3)
    distributed.all_reduce(cupy.ones(3))
    cupy.cuda.get_current_stream().synchronize()
    print("did not wait")
