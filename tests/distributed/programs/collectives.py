"""Every collective on every rank: values, derivatives, dtypes, layouts, and disagreement."""

import numpy as np
import pytest

import minigrad as mg
from minigrad import distributed

distributed.init(timeout=20)
rank, size = distributed.rank(), distributed.size()


def of_rank(r, shape=(2, 3), dtype=np.float64):
    return np.asarray(np.random.default_rng(r).standard_normal(shape) * 4).astype(dtype)


def values():
    dtypes = [
        np.float32,
        np.float64,
        np.float16,
        mg.bfloat16,
        np.int64,
        np.complex64,
        np.complex128,
    ]
    for dtype in dtypes:
        for shape in [(2, 3), (), (0, 2)]:
            every = [of_rank(r, shape, dtype) for r in range(size)]
            x = every[rank]
            wide = np.float64 if np.dtype(dtype).kind not in "ci" else dtype
            total = sum(part.astype(wide) for part in every)
            y = distributed.all_reduce(mg.tensor(x))
            assert isinstance(y, mg.Tensor) and y.dtype == dtype and y.shape == shape
            rough = 1e-6 if np.dtype(dtype).itemsize > 2 else 1e-2
            np.testing.assert_allclose(y.numpy().astype(wide), total, rtol=rough, atol=rough)
            np.testing.assert_array_equal(distributed.all_gather(x), np.stack(every))
            np.testing.assert_array_equal(distributed.broadcast(x, size - 1), every[-1])
            scattered = distributed.reduce_scatter(np.stack([x] * size))
            np.testing.assert_allclose(scattered.astype(wide), total, rtol=rough, atol=rough)
    assert distributed.all_reduce(float(rank), "max") == size - 1
    assert distributed.all_reduce(np.float32(rank), "min") == 0
    assert distributed.all_reduce(mg.tensor(1.0 + rank), "mean") == (size + 1) / 2
    np.testing.assert_array_equal(
        distributed.all_gather(np.array([rank > 0]))[:, 0], np.arange(size) > 0
    )
    turned = of_rank(rank).T  # not contiguous
    np.testing.assert_array_equal(distributed.all_gather(turned)[rank], turned)


def pairs():
    x = of_rank(rank)
    if rank == 0:
        distributed.send(x, to=1)
    if rank == 1:
        np.testing.assert_array_equal(distributed.receive(x, source=0), of_rank(0))
    with pytest.raises(ValueError, match="no other rank"):
        distributed.send(x, to=rank)


def pairs_that_do_not_fit():
    """Rank 1 receives into arrays that differ in number or dtype, and the next message is whole."""
    sent = [np.ones(3) * 7, np.ones((2, 3)), np.ones(0), np.ones((2, 2), np.float32)]
    wrong = [np.zeros(5), np.zeros(5), np.zeros(1), np.zeros(2), np.zeros(4, np.int32)]
    for x in sent if rank == 0 else ():
        for _ in wrong:
            distributed.send(x, to=1)
        distributed.send(x, to=1, tag=3)
    for x in sent if rank == 1 else ():
        for like in wrong:
            with pytest.raises(distributed.DistributedError) as caught:
                distributed.receive(like, source=0)
            for array in (x, like):
                assert f"{array.dtype} {array.shape}" in str(caught.value)
        got = distributed.receive(np.zeros(x.shape[::-1], x.dtype), source=0, tag=3)
        np.testing.assert_array_equal(got, x.reshape(x.shape[::-1]))


def total_loss(f, x):
    """What all ranks compute together, as a number."""
    return float(distributed.all_reduce(np.float64(f(x).item())))


def derivatives():
    """∂(Σ of all ranks' losses)/∂(this rank's x), against central differences made in step."""
    w = mg.tensor(np.random.default_rng(50 + rank).standard_normal((size, 2)))
    functions = {
        "all_reduce": lambda x: (distributed.all_reduce(x * x) * w).sum(),
        "mean": lambda x: (distributed.all_reduce(x * x, "mean") ** 3 * w).sum(),
        "all_gather": lambda x: (distributed.all_gather(x[0] ** 2) * w).sum(),
        "reduce_scatter": lambda x: (distributed.reduce_scatter(x**3) * w[0]).sum(),
        "broadcast": lambda x: (distributed.broadcast(x**2, size - 1) ** 2 * w).sum(),
        "twice": lambda x: (distributed.all_reduce(mg.sin(distributed.all_gather(x[0]))) * w).sum(),
    }
    for name, f in functions.items():
        x = mg.tensor(of_rank(rank, (size, 2)) / 4, requires_grad=True)
        f(x).backward()
        step, numeric = 1e-6, np.zeros((size, 2))
        for r in range(size):
            for at in np.ndindex(size, 2):
                moved = [x.numpy().copy() for _ in range(2)]
                if r == rank:
                    moved[0][at] += step
                    moved[1][at] -= step
                high, low = (total_loss(f, mg.tensor(m)) for m in moved)
                if r == rank:
                    numeric[at] = (high - low) / (2 * step)
        np.testing.assert_allclose(x.grad.numpy(), numeric, rtol=1e-6, atol=1e-6, err_msg=name)


def second_order():
    """L = Σᵣ (Σₛ xₛ²)², the same on each rank: dL/dx = 4·size·S·x, and once more by all ranks."""
    x = mg.tensor(of_rank(rank, (3,)), requires_grad=True)
    s = distributed.all_reduce((x * x).sum())
    (g,) = mg.grad(s * s, [x], create_graph=True)
    np.testing.assert_allclose(g.numpy(), 4 * size * s.item() * x.numpy())
    (h,) = mg.grad(g.sum(), [x])  # of Σᵣ Σᵢ gᵣᵢ
    every = sum(of_rank(r, (3,)).sum() for r in range(size))
    np.testing.assert_allclose(h.numpy(), 4 * size * (s.item() + 2 * x.numpy() * every))
    _, t = mg.func.jvp(lambda v: distributed.all_reduce(v * v), (x.detach(),), (mg.ones(3),))
    np.testing.assert_allclose(t.numpy(), sum(2 * of_rank(r, (3,)) for r in range(size)))


def disagreement():
    with pytest.raises(distributed.DistributedError, match=r"rank 0: .*\(2,\)[^|]*\(3,\)"):
        distributed.all_reduce(np.ones(2 if rank == 0 else 3))
    with pytest.raises(
        distributed.DistributedError, match="(?s)all_gather.*barrier|barrier.*all_g"
    ):
        distributed.barrier() if rank == 0 else distributed.all_gather(np.ones(2))
    with pytest.raises(ValueError, match="first axis"):
        distributed.reduce_scatter(np.ones(size + 1))
    with pytest.raises(ValueError, match="no derivative"):
        distributed.all_reduce(mg.ones(2, requires_grad=True), "max")
    with pytest.raises(TypeError, match="integers"):
        distributed.all_reduce(np.arange(2), "mean")
    distributed.barrier()


def seeds():
    distributed.seed(3)
    drawn = distributed.all_gather(mg.randn(4)).numpy()
    assert len(np.unique(drawn)) == 4 * size
    distributed.seed(3, shared=True)
    assert len(np.unique(distributed.all_gather(mg.randn(4)).numpy())) == 4


for part in (values, pairs, pairs_that_do_not_fit, derivatives, second_order, disagreement, seeds):
    part()
print("all of rank", rank)
