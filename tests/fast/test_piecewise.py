"""Elementwise ops on large arrays, in blocks on all threads: the bits of one piece."""

import tracemalloc

import numpy as np
import pytest

import minigrad as mg
from minigrad.backends import blocks as pieces
from minigrad.engine.registry import op as registry
from minigrad.fast.blocked import piecewise
from tests.fast.large_arrays import ELEMENTWISE, enlarged_sample

pytestmark = pytest.mark.promise(
    "elementwise ops and their rules in blocks give the bits of one piece",
    "large contributions are computed in blocks, with the same bits",
)

rng = np.random.default_rng(0)


def value_and_contributions(op, args, params):
    y = op(*args, **params)
    if y.node is None:
        return y.numpy(), []
    g = np.random.default_rng(2).standard_normal(y.shape).astype(y.dtype)
    return y.detach().numpy(), y.node.plan.vjp(g, y.node.saved)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", ELEMENTWISE)
def test_blocks_give_the_bits_of_one_piece(name, dtype, request):
    args, params = enlarged_sample(name, dtype)
    op = getattr(registry, name)
    with np.errstate(all="ignore"):
        y, contributions = value_and_contributions(op, args, params)
        request.getfixturevalue("small")
        for plan in op.plans.values():
            if "NOTABLE" in plan.vjp.__globals__:
                request.getfixturevalue("monkeypatch").setitem(plan.vjp.__globals__, "NOTABLE", 128)
        again, found = value_and_contributions(op, args, params)
    assert y.dtype == again.dtype and np.array_equal(y, again, equal_nan=y.dtype.kind in "fc")
    for a, b in zip(contributions, found, strict=True):
        assert a.shape == b.shape and a.dtype == b.dtype and np.array_equal(a, b, equal_nan=True)


@pytest.mark.parametrize("repeats", ["everywhere", "along rows", "along columns"])
@pytest.mark.parametrize("name", ELEMENTWISE)
def test_a_cotangent_that_repeats_gives_the_bits_of_an_array_full_of_it(name, repeats, small):
    args, params = enlarged_sample(name, "float32")
    op = getattr(registry, name)
    with np.errstate(all="ignore"):
        y = op(*args, **params)
        if y.node is None or y.node.plan.blocked_vjp is None:
            pytest.skip("its rules compute nothing in blocks")
        shape = {"along rows": (7, 1), "along columns": y.shape[1:]}.get(repeats, ())
        g = np.broadcast_to(rng.standard_normal(shape).astype(y.dtype), y.shape)
        vjp = y.node.plan.blocked_vjp
        found, whole = [vjp(seed, y.node.saved) for seed in (g, np.array(g))]
    for a, b in zip(found, whole, strict=True):
        assert a.shape == b.shape and a.dtype == b.dtype and np.array_equal(a, b, equal_nan=True)


def blocks_seen(fn, *values, **params):
    """(result, the sizes of the arrays that the function was given)."""
    seen = []

    def watched(*arrays):
        seen.append([np.size(x) for x in arrays])
        return fn(*arrays)

    return piecewise(watched, values, params), seen


ASKED = [2]  # elements first, for the dtypes of the results


@pytest.mark.usefixtures("small")
def test_arrays_are_cut_together_and_numbers_are_passed_to_each_block():
    x = rng.standard_normal((10, 20))
    y, seen = blocks_seen(lambda a, b, c: a * b + c, x, x, 2.0)
    blocks = [ASKED, [8], [64], [64], [64]]
    assert sorted(seen) == [2 * block + [1] for block in blocks]
    assert y.shape == (10, 20) and (y == x * x + 2.0).all()


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    "values",
    [
        (np.ones((4, 10, 5)), np.ones((4, 1, 5))),
        (np.ones((10, 40))[:, ::2],),
        (np.ones((10, 20)), np.ones((20, 10)).T),
        (np.ones((5, 20)),),
        (3.0,),
    ],
    ids=["broadcast in between", "gaps", "several orders", "small", "a number"],
)
def test_what_cannot_be_cut_or_is_small_stays_in_one_piece(values):
    _, seen = blocks_seen(lambda *xs: sum(xs), *values)
    assert len(seen) == 1


@pytest.mark.usefixtures("small")
def test_arrays_of_one_other_order_are_cut_and_the_result_has_it():
    x, g = [rng.standard_normal((4, 10, 5)).transpose(2, 0, 1) for _ in range(2)]
    y, seen = blocks_seen(lambda a, b: a - b, x, g)
    assert sorted(seen) == [2 * block for block in (ASKED, [8], [64], [64], [64])]
    assert (y == x - g).all()
    assert y.strides == x.strides and y.base is None


@pytest.mark.usefixtures("small")
def test_inside_modes_that_helpers_do_not_share_arrays_stay_in_one_piece():
    with mg.Tape():
        _, seen = blocks_seen(lambda x: x + 1, np.ones(1000))
    assert len(seen) == 1


@pytest.mark.usefixtures("small")
def test_a_function_whose_result_has_another_shape_is_called_with_the_whole():
    y, _ = blocks_seen(lambda x: x.sum(keepdims=True), np.ones(1000))
    assert y.tolist() == [1000]


@pytest.mark.usefixtures("small")
def test_an_error_in_any_block_is_raised():
    x = np.zeros(1000)
    x[-1] = 1

    def fails(x):
        if x.any():
            raise ValueError("a planted error")
        return x

    with pytest.raises(ValueError, match="a planted error"):
        piecewise(fails, (x,), {})


@pytest.mark.usefixtures("small")
def test_errstate_holds_in_every_block():
    x = mg.tensor(np.r_[np.ones(999), 0])
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError, match="log"):
        mg.log(x)


@pytest.mark.usefixtures("two_threads")
def test_a_large_step_has_the_gradients_of_its_smaller_parts():
    n = 2 * pieces.LARGE + 37
    x = rng.standard_normal(n).astype(np.float32)
    g = rng.standard_normal(n).astype(np.float32)

    def gradient(x, g):
        t = mg.tensor(x, requires_grad=True)
        y = mg.tanh(t) * mg.gelu(t) + t / 2 - mg.sqrt(mg.exp(t))
        y.backward(g)
        assert t.grad is not None
        return t.grad.numpy()

    cuts = [0, n // 3, 2 * n // 3, n]
    parts = [gradient(x[i:j], g[i:j]) for i, j in zip(cuts, cuts[1:], strict=False)]
    assert np.array_equal(gradient(x, g), np.concatenate(parts))


def test_a_result_owns_its_memory_so_that_gradients_are_added_to_in_place(small):
    x = np.ones((7, 40))
    one = piecewise(np.negative, (x,), {})
    several = piecewise(np.modf, (x,), {})
    assert all(y.flags.owndata and y.shape == x.shape for y in (one, *several))


@pytest.mark.usefixtures("two_threads")
def test_a_backward_adds_large_contributions_without_arrays_of_their_size():
    x = mg.tensor(np.ones(pieces.LARGE, np.float32), requires_grad=True)
    y = mg.exp(x) + mg.tanh(x)
    g = np.ones(y.shape, np.float32)
    tracemalloc.start()
    try:
        y.backward(g)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    block = g.itemsize * pieces.BLOCK
    assert peak < g.nbytes + 2 * 2 * block + 100_000  # the gradient; two blocks for each thread


@pytest.mark.usefixtures("two_threads")
def test_a_large_complex_input_gets_the_conjugate_of_each_contribution():
    z = mg.tensor(np.full(pieces.LARGE, 1 + 2j, np.complex64), requires_grad=True)
    (z * 1j + z * 2j).backward(np.ones(z.shape, np.complex64))
    assert z.grad is not None and (z.grad.numpy() == -3j).all()


@pytest.mark.usefixtures("two_threads")
def test_a_large_input_used_twice_by_one_op_gets_both_contributions():
    x = mg.tensor(np.full(pieces.LARGE, 3, np.float32), requires_grad=True)
    (x * x + x * x).backward(np.ones(x.shape, np.float32))
    assert x.grad is not None and (x.grad.numpy() == 12).all()


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize("engine", ["serial", "parallel", "tape"])
def test_the_gradients_of_a_large_sum_are_those_of_a_seed_of_ones(engine):
    x = rng.standard_normal(pieces.LARGE + 37).astype(np.float32)

    def gradient(end):
        t = mg.tensor(x, requires_grad=True)
        if engine == "tape":
            with mg.Tape() as tape:
                y = end(mg.exp(t) * mg.tanh(t) + t / 3 - t * t)
            tape.backward(y)
        else:
            end(mg.exp(t) * mg.tanh(t) + t / 3 - t * t).backward(engine=engine)
        return t.grad.numpy()

    assert np.array_equal(gradient(mg.sum), gradient(lambda y: mg.dot(y, np.ones_like(x))))


@pytest.mark.usefixtures("two_threads")
def test_what_a_large_sum_hands_back_through_a_division_takes_no_memory():
    x = mg.tensor(np.ones(pieces.LARGE, np.float32), requires_grad=True)
    loss = ((x * 2) / 3).sum()
    tracemalloc.start()
    try:
        loss.backward()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < x.nbytes + 100_000  # the gradient alone
