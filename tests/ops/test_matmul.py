"""Products of matrices: NumPy's values, gradients of every operand form, 16-bit floats."""

from itertools import permutations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import minigrad as mg
from minigrad.testing import gradcheck, gradgradcheck

few = settings(max_examples=60)


def leaf(x):
    return mg.tensor(x, requires_grad=True)


@st.composite
def operands(draw):
    """Two arrays that np.matmul takes: 1-d, matrices, and batches that broadcast."""
    n, k, m = (draw(st.integers(0, 4)) for _ in range(3))
    batch = draw(st.lists(st.integers(1, 3), max_size=2))
    thinned = [1 if draw(st.booleans()) else size for size in batch]
    a_shape = draw(st.sampled_from([(k,), (n, k), (*batch, n, k)]))
    b_shape = draw(st.sampled_from([(k,), (k, m), (*thinned[draw(st.integers(0, 1)) :], k, m)]))
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    return rng.standard_normal(a_shape), rng.standard_normal(b_shape)


@given(operands())
@few
def test_value_is_numpys(pair):
    np.testing.assert_allclose(mg.matmul(*pair), np.matmul(*pair), rtol=1e-12, atol=1e-13)


@given(operands())
@few
def test_gradients_agree_with_einsum_over_broadcast_operands(pair):
    a, b = leaf(pair[0]), leaf(pair[1])
    y = a @ b
    g = np.random.default_rng(0).standard_normal(y.shape)
    ga, gb = mg.grad(y, [a, b], g)
    a2, b2 = np.atleast_2d(pair[0]), pair[1] if pair[1].ndim > 1 else pair[1][:, None]
    batch = np.broadcast_shapes(a2.shape[:-2], b2.shape[:-2])
    g2 = g.reshape((*batch, a2.shape[-2], b2.shape[-1]))
    full_ga, full_gb = g2 @ b2.swapaxes(-1, -2), a2.swapaxes(-1, -2) @ g2
    for ours, full, shape in ((ga, full_ga, a2.shape), (gb, full_gb, b2.shape)):
        lead = full.ndim - len(shape)
        thin = [i + lead for i, n in enumerate(shape) if n == 1 != full.shape[i + lead]]
        reduced = full.sum(axis=(*range(lead), *thin), keepdims=True).reshape(shape)
        np.testing.assert_allclose(ours.numpy().reshape(shape), reduced, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "int8", "uint8", "bool"])
@pytest.mark.parametrize(
    "shapes",
    [((600, 1), (1, 600)), ((64, 40, 1), (64, 1, 30)), ((3, 1, 64, 1), (5, 1, 32)),
     ((70, 1), (7, 1, 32)), ((2000, 1), (1, 1)), ((0, 64, 1), (0, 1, 32)), ((1,), (1, 2000)),
     ((2000, 1), (1,))],
)  # fmt: skip
def test_many_outer_products_have_the_bits_of_numpys_product(shapes, dtype):
    rng = np.random.default_rng(0)
    a, b = ((rng.standard_normal(shape) * 3).astype(dtype) for shape in shapes)
    if dtype.startswith("float"):
        a[rng.random(a.shape) < 0.2] = -0.0
        b.flat[:1] = np.nan
    y, expected = mg.matmul(mg.tensor(a), mg.tensor(b)).numpy(), np.matmul(a, b)
    assert (y.dtype, y.shape) == (expected.dtype, expected.shape)
    np.testing.assert_array_equal(y, expected)
    if dtype.startswith("float"):
        known = ~np.isnan(expected)
        np.testing.assert_array_equal(np.signbit(y)[known], np.signbit(expected)[known])


def test_a_weight_shared_by_a_batch_has_a_gradient_of_its_own_shape():
    x, w = leaf(np.ones((5, 2, 3))), leaf(np.ones((3, 4)))
    (x @ w).sum().backward()
    assert w.grad.shape == (3, 4)
    np.testing.assert_array_equal(w.grad.numpy(), 10.0)


@pytest.mark.parametrize("shapes", [((3,), (3,)), ((2, 3), (3,)), ((4, 1, 2, 3), (5, 3, 2))])
def test_second_order(shapes):
    rng = np.random.default_rng(1)
    a, b = (rng.standard_normal(shape) for shape in shapes)
    assert gradcheck(mg.matmul, (a, b))
    assert gradgradcheck(mg.matmul, (a, b))


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_16_bit_products_add_up_in_float32(dtype):
    a = np.ones((1, 5000), dtype)
    y = mg.tensor(a) @ mg.tensor(a.T.copy())
    assert y.dtype == dtype
    assert float(y.numpy().astype(np.float32).item()) == float(np.float32(5000).astype(dtype))


def test_numpys_matmul_and_at_record():
    a = leaf(np.eye(2))
    assert np.matmul(a, a).grad_fn is not None
    assert (np.eye(2) @ a).grad_fn is not None


@pytest.mark.layer("courtesy")
def test_a_scalar_operand_is_told_to_use_multiplication():
    with pytest.raises(ValueError, match=r"matmul\(.*0-d.*use a \* b for scalars"):
        mg.matmul(leaf(np.eye(2)), 2.0)


def test_linear_is_a_product_with_the_transposed_weight_and_a_bias():
    rng = np.random.default_rng(2)
    x, w, b = (leaf(rng.standard_normal(s)) for s in ((2, 5, 3), (4, 3), (4,)))
    fused, plain = mg.linear(x, w, b), x @ w.T + b
    np.testing.assert_allclose(fused.numpy(), plain.numpy(), rtol=1e-13)
    g = rng.standard_normal(fused.shape)
    for ours, theirs in zip(
        mg.grad(fused, [x, w, b], g), mg.grad(plain, [x, w, b], g), strict=True
    ):
        np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-12)


def test_linear_forward_mode_is_its_three_parts():
    rng = np.random.default_rng(3)
    args = tuple(rng.standard_normal(s) for s in ((5, 3), (4, 3), (4,)))
    moved = tuple(rng.standard_normal(x.shape) for x in args)
    x, w, _ = args
    _, t = mg.func.jvp(mg.linear, args, moved)
    expected = moved[0] @ w.T + x @ moved[1].T + moved[2]
    np.testing.assert_allclose(t.numpy(), expected, rtol=1e-12)


def test_linear_without_a_bias_has_a_forward_mode_too():
    x, w = np.ones((2, 3)), np.ones((4, 3))
    _, t = mg.func.jvp(mg.linear, (x, w), (x, 0 * w))
    np.testing.assert_array_equal(t.numpy(), 3.0)


def test_frozen_weight_does_not_keep_the_input_alive():
    x, w = leaf(np.ones((2, 3))), mg.tensor(np.ones((4, 3)))
    saved = mg.linear(x, w).node.saved
    assert not any(value is x.data for value in saved)


@pytest.mark.parametrize("name", ["dot", "inner", "outer", "vdot", "kron", "tensordot", "vecdot"])
def test_numpys_products_are_recorded(name):
    a, b = leaf(np.ones((2, 2))), leaf(np.ones((2, 2)))
    y = getattr(np, name)(a, b)
    np.testing.assert_array_equal(y.numpy(), getattr(np, name)(np.ones((2, 2)), np.ones((2, 2))))
    assert y.grad_fn is not None


@pytest.mark.parametrize("order", list(permutations(range(4))), ids=str)
def test_linear_adds_its_bias_to_rows_in_any_memory_order(order):
    rng = np.random.default_rng(0)
    x = rng.standard_normal([(2, 3, 5, 4)[i] for i in order]).transpose(np.argsort(order))
    w, b = rng.standard_normal((6, 4)), rng.standard_normal(6)
    y = mg.linear(mg.tensor(x), mg.tensor(w), mg.tensor(b))
    np.testing.assert_allclose(y.numpy(), x @ w.T + b, rtol=1e-12)


@pytest.mark.parametrize("axis", range(4))
def test_linear_adds_its_bias_to_each_example_of_a_batch_along_any_axis(axis):
    rng = np.random.default_rng(0)
    x, w, b = rng.standard_normal((2, 3, 5, 4)), rng.standard_normal((6, 4)), np.arange(6.0)
    layer = mg.func.vmap(lambda x: mg.linear(x, mg.tensor(w), mg.tensor(b)), in_dims=axis)
    y = layer(mg.tensor(np.moveaxis(x, 0, axis)))
    np.testing.assert_allclose(y.numpy(), x @ w.T + b, rtol=1e-12)


def test_vdot_of_bools_and_small_integers_has_numpys_dtype():
    yes, u = np.array([True, False]), np.array([200, 100], np.uint8)
    for a, b in ((yes, yes), (yes, u), (u, yes), (u, u)):
        y = mg.vdot(mg.tensor(a), mg.tensor(b))
        assert y.dtype == np.vdot(a, b).dtype and y.item() == np.vdot(a, b)


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -2, -3])
def test_vecdot_leaves_the_other_axes_in_their_order(axis):
    a, b = np.random.default_rng(0).standard_normal((2, 2, 3, 4))
    y = mg.vecdot(mg.tensor(a), mg.tensor(b), axis=axis)
    np.testing.assert_allclose(y.numpy(), np.vecdot(a, b, axis=axis), rtol=1e-13)


@pytest.mark.parametrize("shape", [(8, 784), (2, 4, 784), (32, 784), (64, 784), (65, 784)])
@pytest.mark.parametrize("m", [1, 42, 256])
def test_linear_of_few_and_many_rows_is_x_times_the_transposed_weight(shape, m):
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal(shape), rng.standard_normal((m, 784))
    b = rng.standard_normal(m)
    y = mg.linear(*(a.astype(np.float32) for a in (x, w, b)))
    assert y.shape == (*shape[:-1], m) and y.flags.c_contiguous
    np.testing.assert_allclose(y, x @ w.T + b, rtol=1e-4, atol=1e-4)


def test_the_tangent_of_linear_by_its_bias_alone_has_the_shape_of_the_result():
    x, w, b = (mg.tensor(np.ones(shape)) for shape in [(5, 3), (4, 3), 4])
    y, tangent = mg.func.jvp(lambda b: mg.linear(x, w, b), (b,), (b,))
    assert tangent.shape == y.shape and (tangent == 1).all()


def test_linear_of_few_rows_takes_rows_with_gaps():
    x, w = np.ones((16, 2000), np.float32)[:, ::2], np.ones((500, 1000), np.float32)
    assert (mg.linear(x, w) == 1000).all()


@pytest.mark.parametrize("axes", [([1], [0, 1]), ([0, 0], [0, 1]), ([0, 1],), ([0], [0], [0])])
def test_tensordot_refuses_axes_that_are_no_pairs(axes):
    with pytest.raises(ValueError, match="or two lists, of as many axes of a as of b and none"):
        mg.tensordot(np.ones((3, 3)), np.ones((3, 3)), axes)


def test_tensordot_refuses_more_axes_than_there_are():
    with pytest.raises(ValueError, match=r"axes=2 are more than a \(3,\) or b \(3, 3\) has"):
        mg.tensordot(np.ones(3), np.ones((3, 3)))


@pytest.mark.layer("courtesy")
@pytest.mark.parametrize("axes", [([5], [0]), ([0], [-4])])
def test_tensordot_refuses_axes_that_are_not_there(axes):
    with pytest.raises(np.exceptions.AxisError, match=r"tensordot\(a: float64 \(3, 4\)"):
        mg.tensordot(np.ones((3, 4)), np.ones((3, 4)), axes)
