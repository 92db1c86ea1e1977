"""SyncBatchNorm on ranks with batches of different sizes, beside BatchNorm on the joined batch."""

import numpy as np
import pytest

import minigrad as mg
from minigrad import distributed, nn
from minigrad.distributed import SyncBatchNorm

distributed.init(timeout=20)
rank, size = distributed.rank(), distributed.size()


def of_rank(sizes, space, dtype=np.float64):
    """(the joined batch, g for it, the rows of this rank)"""
    rng = np.random.default_rng(5)
    X, G = (rng.standard_normal((sum(sizes), 3, *space)).astype(dtype) * 2 + 3 for _ in range(2))
    start = sum(sizes[:rank])
    return X, G, slice(start, start + sizes[rank])


def pair(dtype=np.float64, **options):
    joined, synced = (
        nn.BatchNorm2d(3, dtype=dtype, **options),
        SyncBatchNorm(3, dtype=dtype, **options),
    )
    for layer in (joined, synced):
        for k, p in enumerate(layer.parameters()):
            p.data[...] = np.arange(3) + 1.5 + k
    return joined, synced


def values_gradients_and_statistics_are_those_of_the_joined_batch():
    sizes = [2 + r for r in range(size)]
    for options in ({}, {"affine": False}, {"momentum": None}, {"bias": False}):
        joined, synced = pair(**options)
        for _ in range(2):
            X, G, mine = of_rank(sizes, (4, 5))
            whole = mg.tensor(X, requires_grad=True)
            y = joined(whole)
            y.backward(mg.tensor(G))
            x = mg.tensor(X[mine], requires_grad=True)
            own = synced(x)
            own.backward(mg.tensor(G[mine]))
            np.testing.assert_allclose(own.numpy(), y.numpy()[mine], rtol=1e-11, atol=1e-11)
            expected = whole.grad.numpy()[mine]
            np.testing.assert_allclose(x.grad.numpy(), expected, rtol=1e-9, atol=1e-11)
        for a, b in zip(synced.buffers(), joined.buffers(), strict=True):
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-11)
        for p, q in zip(synced.parameters(), joined.parameters(), strict=True):
            total = distributed.all_reduce(p.grad.detach())
            np.testing.assert_allclose(total.numpy(), q.grad.numpy(), rtol=1e-10)
        synced.eval(), joined.eval()
        np.testing.assert_allclose(synced(x).numpy(), joined(whole).numpy()[mine], rtol=1e-11)


def second_derivatives_are_those_of_the_joined_batch():
    joined, synced = pair()
    X, G, mine = of_rank([3] * size, (2, 2))

    def second(layer, x, g):
        x = mg.tensor(x, requires_grad=True)
        first = mg.grad((layer(x) * mg.tensor(g)).sum(), x, create_graph=True)
        return mg.grad((first**2).sum(), x).numpy()

    expected = second(joined, X, G)[mine]
    np.testing.assert_allclose(second(synced, X[mine], G[mine]), expected, rtol=1e-8, atol=1e-9)


def a_rank_without_rows_takes_part():
    joined, synced = pair()
    sizes = [0 if r == 0 else 4 for r in range(size)]
    X, G, mine = of_rank(sizes, (3, 3))
    y = joined(mg.tensor(X))
    own = synced(mg.tensor(X[mine], requires_grad=True))
    own.backward(mg.tensor(G[mine]))
    assert own.shape == X[mine].shape
    np.testing.assert_allclose(own.numpy(), y.numpy()[mine], rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(synced.running_var.numpy(), joined.running_var.numpy(), rtol=1e-11)


def half_precision_is_added_up_in_float32():
    _, synced = pair(np.float32)
    X, _, mine = of_rank([64] * size, (16, 16), np.float16)
    y = synced(mg.tensor(X[mine] * 50))  # squares above 65504
    assert y.dtype == np.float16 and np.isfinite(y.numpy()).all()
    assert abs(y.numpy()[:, 0].astype(float).mean() - 2.5) < 0.3


def the_largest_numbers_are_scaled_alike_on_all_ranks():
    joined, synced = pair(np.float32)
    X, G, mine = of_rank([3 + r for r in range(size)], (2, 2), np.float32)
    X[:, 1] *= np.float32(1e25)
    whole, x = (mg.tensor(v, requires_grad=True) for v in (X, X[mine]))
    with np.errstate(over="ignore", invalid="ignore"):  # of the running variance
        y, own = joined(whole), synced(x)
    y.backward(mg.tensor(G)), own.backward(mg.tensor(G[mine]))
    np.testing.assert_allclose(own.numpy(), y.numpy()[mine], rtol=1e-4, atol=1e-4)
    for k in range(3):
        expected = whole.grad.numpy()[mine][:, k]
        near = 1e-4 * np.abs(whole.grad.numpy()[:, k]).max()
        np.testing.assert_allclose(x.grad.numpy()[:, k], expected, rtol=0, atol=near)


def too_few_values_are_refused_on_every_rank():
    rows = 1 if rank == 0 else 0
    with pytest.raises(ValueError, match="more than one value for each channel on all ranks"):
        SyncBatchNorm(3)(mg.ones(rows, 3))


class Net(nn.Module):
    def __init__(self):
        self.features = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU())
        self.out = nn.Linear(4 * 4, 2)
        self.last = nn.BatchNorm1d(2)

    def forward(self, x):
        return self.last(self.out(mg.flatten(self.features(x), 1)))


def a_model_is_converted_and_trains_as_on_the_joined_batch():
    X, _, mine = of_rank([4] * size, (4, 4))
    Y = np.arange(len(X)) % 2
    mg.manual_seed(2)
    alone = Net().double()
    mg.manual_seed(2)
    model = SyncBatchNorm.convert_sync_batchnorm(Net().double())
    assert [type(m).__name__ for m in model.modules()].count("SyncBatchNorm") == 2
    assert list(model.state_dict()) == list(alone.state_dict())
    for bucket_mb in (0, 25):
        wrapped = distributed.DataParallel(model, bucket_mb=bucket_mb)
        for _ in range(3):
            model.zero_grad(), alone.zero_grad()
            mg.cross_entropy(wrapped(mg.tensor(X[mine])), Y[mine]).backward()
            mg.cross_entropy(alone(mg.tensor(X)), Y).backward()
            for p, q in zip(model.parameters(), alone.parameters(), strict=True):
                np.testing.assert_allclose(p.grad.numpy(), q.grad.numpy(), rtol=1e-8, atol=1e-10)
        wrapped.close()


for check in (
    values_gradients_and_statistics_are_those_of_the_joined_batch,
    second_derivatives_are_those_of_the_joined_batch,
    a_rank_without_rows_takes_part,
    half_precision_is_added_up_in_float32,
    the_largest_numbers_are_scaled_alike_on_all_ranks,
    too_few_values_are_refused_on_every_rank,
    a_model_is_converted_and_trains_as_on_the_joined_batch,
):
    check()
print(f"all of rank {rank}")
