"""DataParallel beside one process on the joined batch, in every way it can be used."""

import hashlib
import sys

import numpy as np
import pytest

import minigrad as mg
from minigrad import distributed, nn

distributed.init(timeout=30)
rank, size = distributed.rank(), distributed.size()
rows = 4 * size
rng = np.random.default_rng(0)
X = rng.standard_normal((rows, 1, 6, 6))
Y = rng.integers(0, 3, rows)
mine = slice(4 * rank, 4 * rank + 4)


class Net(nn.Module):
    """A convnet with a branch that is used only when asked, and a parameter that never is."""

    def __init__(self):
        self.conv = nn.Conv2d(1, 4, 3)
        self.hidden = nn.Linear(64, 16)
        self.extra = nn.Linear(16, 16)
        self.never = nn.Linear(2, 2)
        self.out = nn.Linear(16, 3)

    def forward(self, x, extra=False):
        h = mg.tanh(self.hidden(mg.relu(self.conv(x)).reshape(x.shape[0], -1)))
        return self.out(self.extra(h) if extra else h)


def net(dtype=np.float64, seed=1):
    mg.manual_seed(seed)
    return Net().to(dtype=dtype)


def joined(extra=(), dtype=np.float64, parts=None):
    """Gradients of one process: the mean over ranks of each rank's loss, `extra` on some ranks."""
    model = net(dtype)
    losses = [
        mg.cross_entropy(model(mg.tensor(X[4 * r : 4 * r + 4].astype(dtype)), r in extra),
                         Y[4 * r : 4 * r + 4])
        for r in range(size)
    ]  # fmt: skip
    (sum(losses) / size).backward()
    return model


def loss_of(model, extra=False, part=mine, dtype=np.float64):
    return mg.cross_entropy(model(mg.tensor(X[part].astype(dtype)), extra), Y[part])


def compare(model, reference, rough=1e-12):
    for (name, p), (_, q) in zip(model.named_parameters(), reference.named_parameters()):
        assert (p.grad is None) == (q.grad is None), name
        if q.grad is not None:
            scale = np.abs(q.grad.numpy().astype(float)).max() + 1e-30
            a, b = p.grad.numpy().astype(float), q.grad.numpy().astype(float)
            assert np.abs(a - b).max() <= rough * scale, (name, np.abs(a - b).max() / scale)
    same_bits(model)


def same_bits(model):
    grads = [p.grad.numpy() for p in model.parameters() if p.grad is not None]
    digest = hashlib.sha256(b"".join(g.tobytes() for g in grads)).digest()
    found = distributed.all_gather(np.frombuffer(digest, np.uint8))
    assert (found == found[0]).all(), "the ranks' gradients differ in bits"


def gradients_are_those_of_the_joined_batch():
    reference = joined()
    for bucket_mb in (0, 0.001, 25):
        for overlap in (True, False):
            model = net(seed=rank)  # rank 0's model counts
            reference = joined_from(0)
            wrapped = distributed.DataParallel(model, bucket_mb, overlap=overlap)
            for _ in range(3):  # buckets are cut anew after the first
                model.zero_grad()
                loss_of(wrapped).backward()
                compare(model, reference)
            assert wrapped.timeline is not None and 0 <= wrapped.timeline.hidden <= 1
            wrapped.close()


def joined_from(seed):
    mg.manual_seed(seed)
    model = Net().to(dtype=np.float64)
    losses = [loss_of(model, part=slice(4 * r, 4 * r + 4)) for r in range(size)]
    (sum(losses) / size).backward()
    return model


def engines_agree():
    for engine, options in (("serial", {}), ("parallel", {"workers": 2, "min_work": 0})):
        wrapped = distributed.DataParallel(net(), bucket_mb=0.001)
        loss_of(wrapped).backward(engine=engine, **options)
        compare(wrapped.module, joined())
        wrapped.close()


def a_branch_that_only_some_ranks_use():
    wrapped = distributed.DataParallel(net(), bucket_mb=0.001)
    for _ in range(2):
        wrapped.zero_grad()
        loss_of(wrapped, extra=rank == 1).backward()
        compare(wrapped.module, joined(extra=(1,)))
    assert wrapped.module.never.weight.grad is None
    wrapped.close()


def gradients_accumulate_without_communication():
    reference = net()
    for part in (0, 1):
        losses = [
            loss_of(reference, part=slice(4 * r + 2 * part, 4 * r + 2 * part + 2))
            for r in range(size)
        ]
        (sum(losses) / size).backward()
    wrapped = distributed.DataParallel(net(), bucket_mb=0.001)
    before = distributed.world().collectives
    with wrapped.no_sync():
        loss_of(wrapped, part=slice(4 * rank, 4 * rank + 2)).backward()
    assert distributed.world().collectives == before
    loss_of(wrapped, part=slice(4 * rank + 2, 4 * rank + 4)).backward()
    compare(wrapped.module, reference)
    # what a rank has from no_sync counts, also where the last backward does not reach it
    wrapped.zero_grad()
    with wrapped.no_sync():
        loss_of(wrapped, extra=True).backward()
    loss_of(wrapped).backward()
    reference = net()
    for extra in (True, False):
        losses = [loss_of(reference, extra, slice(4 * r, 4 * r + 4)) for r in range(size)]
        (sum(losses) / size).backward()
    compare(wrapped.module, reference)
    # and a second backward adds the mean of its own gradients
    loss_of(wrapped).backward()
    losses = [loss_of(reference, False, slice(4 * r, 4 * r + 4)) for r in range(size)]
    (sum(losses) / size).backward()
    compare(wrapped.module, reference)
    wrapped.close()


def narrow_dtypes_are_averaged_in_float32():
    for dtype, rough in ((np.float32, 1e-5), (np.float16, 2e-2), (mg.bfloat16, 0.1)):
        wrapped = distributed.DataParallel(net(dtype), bucket_mb=0.001)
        loss_of(wrapped, dtype=dtype).backward()
        for p in wrapped.parameters():
            assert p.grad is None or p.grad.dtype == dtype
        compare(wrapped.module, joined(dtype=dtype), rough)
        wrapped.close()


def buffers_follow_rank_0():
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    wrapped = distributed.DataParallel(model)
    for _ in range(2):
        wrapped(mg.tensor(np.float32(rng.standard_normal((5, 3)) + rank))).sum().backward()
    wrapped(mg.ones((5, 3)))  # the forward begins with the buffers of rank 0
    own = model[1].running_mean.numpy()
    rest = distributed.all_gather(own)
    np.testing.assert_array_equal(rest, np.stack([own] * size))
    frozen = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
    frozen[0].requires_grad_(False)
    wrapped = distributed.DataParallel(frozen)
    wrapped(mg.ones((5, 3)) * rank).sum().backward()
    assert frozen[0].weight.grad is None
    same_bits(frozen)


def an_error_in_a_backward_leaves_nothing_behind():
    wrapped = distributed.DataParallel(net(), bucket_mb=0.001)
    handle = wrapped.module.hidden.weight.register_hook(lambda g: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        with wrapped.no_sync():
            loss_of(wrapped).backward()
    handle.remove()
    wrapped.zero_grad()
    loss_of(wrapped).backward()
    compare(wrapped.module, joined())
    with pytest.raises(distributed.DistributedError, match="create_graph"):
        loss_of(wrapped).backward(create_graph=True)
    wrapped.close()


parts = [
    gradients_are_those_of_the_joined_batch,
    engines_agree,
    a_branch_that_only_some_ranks_use,
    gradients_accumulate_without_communication,
    narrow_dtypes_are_averaged_in_float32,
    buffers_follow_rank_0,
    an_error_in_a_backward_leaves_nothing_behind,
]
for part in parts:
    if len(sys.argv) < 2 or sys.argv[1] in part.__name__:
        part()
print("all of rank", rank)
