"""Pooling on a GPU: the kernels give what the ops' own forwards and gradients give on the host."""

import itertools

import numpy as np
import pytest

import minigrad as mg
from minigrad.engine.registry import op
from minigrad.on_gpu import pooling_rows
from minigrad.ops.windows import Windows, windows

pytestmark = pytest.mark.promise(
    "kernels of dropout and pooling give the op's numbers, on a GPU and compiled for the host"
)

on_both = pytest.mark.parametrize("kernels", ["stand-in", "gpu"], indirect=True)
DTYPES = ["float16", "bfloat16", "float32", "float64"]
TOLERANCE = {"float16": 2e-3, "bfloat16": 2e-2, "float32": 1e-6, "float64": 1e-14}
SIZES = {1: (2, 3, 41), 2: (2, 2, 9, 16), 3: (1, 2, 4, 5, 8)}


def how_of(kernel, stride, padding=0, dilation=1):
    return windows("pool", kernel, stride, padding, dilation)


WAYS = [
    how_of((2,), 2), how_of((3,), 2, 1), how_of((3,), 1, 1), how_of((4,), 3, 2, 2),
    how_of((5,), 9), how_of((70,), 3, 35), how_of((2, 2), 2), how_of((3, 3), 2),
    how_of((3, 3), 2, 1), how_of((3, 2), (1, 4), 1), how_of((2, 3), 3, 0, 2),
    how_of((5, 5), 1, 2), how_of((9, 9), 4, 4), how_of((9, 16), 9),
    Windows((3, 2), (2, 2), ((1, 3), (0, 1)), (1, 1)), how_of((2, 2, 2), 2),
    how_of((3, 3, 3), 2, 1), how_of((2, 3, 2), (1, 2, 3), (0, 1, 1)),
]  # fmt: skip


def ways_for(name):
    """All windows in float32; fewer in other dtypes, whose kernels differ in width alone."""
    return WAYS if name == "float32" else WAYS[DTYPES.index(name) :: 4]


def dtype_of(name):
    return mg.bfloat16 if name == "bfloat16" else np.dtype(name)


def images(shape, dtype):
    """With ties, a NaN and infinities."""
    x = np.round(2 * np.random.default_rng(0).standard_normal(shape))
    flat = x.reshape(-1)
    flat[3], flat[11], flat[17:20] = np.nan, np.inf, -np.inf
    return x.astype(dtype)


def cotangent(shape, dtype):
    return np.random.default_rng(1).integers(-8, 9, shape).astype(dtype)


def both(name, arrays, **params):
    """(the op on a GPU, on the host), of host arrays."""
    found = getattr(op, name)(*[mg.tensor(x, device="cuda") for x in arrays], **params)
    return found.to("cpu").numpy(), getattr(op, name)(*arrays, **params)


def close(found, expected, name):
    assert found.dtype == expected.dtype and found.shape == expected.shape
    wide = expected.astype(np.float64)
    finite = np.isfinite(wide)
    tolerance = TOLERANCE[name] * max(1.0, np.abs(wide[finite]).max(initial=0))
    np.testing.assert_allclose(found.astype(np.float64), wide, rtol=0, atol=tolerance)


@on_both
@pytest.mark.parametrize("name", DTYPES)
def test_maxima_and_the_shares_of_their_places_are_the_host_s(kernels, name):
    for how in ways_for(name):
        value = images(SIZES[len(how.kernel)], dtype_of(name))
        x = mg.tensor(value, device="cuda", requires_grad=True)
        y = op.max_pool(x, how=how)
        expected = op.max_pool(value, how=how)
        wide = y.detach().to("cpu").numpy().astype(np.float64)  # knows bfloat16's NaN
        np.testing.assert_array_equal(wide, expected.astype(np.float64), err_msg=str(how))
        g = cotangent(expected.shape, expected.dtype)
        y.backward(mg.tensor(g, device="cuda"))
        close(x.grad.to("cpu").numpy(), op.max_pool_dx(g, value, expected, how=how), name)


@on_both
@pytest.mark.parametrize("name", ["float32", "bfloat16"])
def test_a_gradient_from_x_is_the_gradient_from_what_the_forward_noted(kernels, name):
    for how in ways_for(name):
        value = images(SIZES[len(how.kernel)], dtype_of(name))
        y = op.max_pool(value, how=how)
        g = cotangent(y.shape, y.dtype)
        found, expected = both("max_pool_dx", (g, value, y), how=how)
        close(found, expected, name)


@on_both
@pytest.mark.parametrize("name", DTYPES)
def test_sums_and_their_gradients_are_the_host_s(kernels, name):
    for how in ways_for(name):
        shape = SIZES[len(how.kernel)]
        x = cotangent(shape, dtype_of(name))
        counted = tuple((before // 2, after) for before, after in how.padding)
        divisors = [counted] * all(d == 1 for d in how.dilation) + [[1, 9, 0.3][len(str(how)) % 3]]
        for divisor in divisors:
            found, expected = both("sum_pool", (x,), how=how, divisor=divisor)
            close(found, expected, name)
            size = shape[-len(how.kernel) :]
            params = {"size": size, "how": how, "divisor": divisor}
            a = cotangent(expected.shape, expected.dtype)
            close(*both("sum_pool_dx", (a,), **params), name)


@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("kernel", [(24, 16), (12, 16)])
def test_windows_of_many_places_give_what_they_give_on_the_host(fake, name, kernel):
    how, x = how_of(kernel, kernel), images((2, 2, 24, 16), dtype_of(name))
    y = op.max_pool(x, how=how)
    g, t = cotangent(y.shape, y.dtype), cotangent(x.shape, x.dtype)
    mean = {"how": how, "divisor": kernel[0] * kernel[1]}
    for op_name, arrays, params in (
        ("max_pool", (x,), {"how": how}),
        ("max_pool_dx", (g, x, y), {"how": how}),
        ("max_pool_pick", (t, x, y), {"how": how}),
        ("sum_pool", (t,), mean),
        ("sum_pool_dx", (g,), {**mean, "size": (24, 16)}),
    ):
        found, expected = both(op_name, arrays, **params)
        np.testing.assert_array_equal(np.isnan(found), np.isnan(expected), err_msg=op_name)
        close(np.nan_to_num(found), np.nan_to_num(expected), name)


@on_both
def test_the_mean_of_windows_takes_every_parameter(kernels):
    x = np.random.default_rng(2).standard_normal((2, 3, 11, 14)).astype(np.float32)
    ways = [(2, None, 0, False, True, None), (3, (1, 2), 1, True, True, 5)]
    ways += itertools.product((3,), (2, 3), (1,), (False, True), (False, True), (None,))
    for how in ways:
        results = []
        for device in ("cuda", "cpu"):
            leaf = mg.tensor(x, device=device, requires_grad=True)
            y = mg.avg_pool2d(leaf, *how)
            y.backward(y.detach())
            results.append([v.detach().to("cpu").numpy() for v in (y, leaf.grad)])
        for found, expected in zip(*results, strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6, err_msg=str(how))


@on_both
def test_the_means_in_one_and_three_dimensions(kernels):
    for fn, shape in ((mg.avg_pool1d, (2, 3, 20)), (mg.avg_pool3d, (2, 3, 6, 7, 8))):
        x = np.random.default_rng(2).standard_normal(shape)
        found = fn(mg.tensor(x, device="cuda"), 3, 2, 1, count_include_pad=False)
        expected = fn(mg.tensor(x), 3, 2, 1, count_include_pad=False)
        np.testing.assert_allclose(found.to("cpu").numpy(), expected.numpy(), rtol=1e-12)


@on_both
def test_pooling_is_one_kernel_each_way(kernels):
    if kernels is None:
        pytest.skip("launches are counted on the stand-in")
    for pool in (
        lambda x: mg.max_pool2d(x, 3, 2, 1), lambda x: mg.avg_pool2d(x, 2),
        lambda x: mg.avg_pool2d(x, 3, 2, 1, True, False),
    ):  # fmt: skip
        x = mg.tensor(np.ones((2, 2, 9, 9), np.float32), device="cuda", requires_grad=True)
        kernels.clear()
        y = pool(x)
        assert len(kernels) == 1
        y.backward(mg.tensor(np.ones(y.shape, np.float32), device="cuda"))
        assert len(kernels) == 2


@on_both
def test_arrays_in_other_orders_at_odd_addresses_and_of_one_number_are_pooled(kernels):
    value = np.random.default_rng(0).standard_normal((9, 8, 3, 6)).astype(np.float32)
    whole = mg.tensor(value, device="cuda")
    for make, same in (
        (lambda x: mg.transpose(x, (2, 3, 0, 1)), lambda v: v.transpose(2, 3, 0, 1)),
        (lambda x: x.reshape(-1)[9:].reshape(-1, 3, 3),
         lambda v: v.reshape(-1)[9:].reshape(-1, 3, 3)),
    ):  # fmt: skip
        for pool in (mg.max_pool2d, mg.avg_pool2d):
            found = pool(make(whole), 2).to("cpu").numpy()
            close(found, pool(mg.tensor(same(value)), 2).numpy(), "float32")
    x = mg.tensor(value, device="cuda", requires_grad=True)
    y = mg.avg_pool2d(x, 3)
    y.backward(mg.broadcast_to(mg.ones(1, dtype=np.float32, device="cuda"), y.shape))
    assert x.grad.to("cpu").numpy()[0, 0].tolist() == [[np.float32(1) / np.float32(9)] * 6] * 3


@on_both
def test_a_gradient_of_a_gradient_goes_through_the_kernels(kernels):
    x = np.random.default_rng(0).standard_normal((1, 2, 6, 6))
    for pool in (lambda x: mg.max_pool2d(x, 3, 2, 1), lambda x: mg.avg_pool2d(x, 3, 2, 1)):
        seconds = []
        for device in ("cuda", "cpu"):
            leaf = mg.tensor(x, device=device, requires_grad=True)
            y = pool(leaf) ** 3
            (first,) = mg.grad(y, [leaf], mg.ones(y.shape, device=device), create_graph=True)
            (second,) = mg.grad(first, [leaf], first.detach())
            seconds.append(second.to("cpu").numpy())
        np.testing.assert_allclose(*seconds, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(("kernel", "bits"), [((2, 2), 8), ((3, 3), 16), ((5, 5), 32)])
def test_the_places_of_maxima_are_noted_in_as_few_bits_as_hold_them(kernel, bits):
    assert pooling_rows.hits_dtype(how_of(kernel, 2)).itemsize * 8 == bits


def test_too_many_places_are_not_noted():
    assert pooling_rows.hits_dtype(how_of((6, 6), 2)) is None
