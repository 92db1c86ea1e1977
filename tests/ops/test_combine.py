"""Ops by PyTorch's names: its values and gradients."""

import numpy as np
import pytest

import minigrad as mg

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
rng = np.random.default_rng(0)
A, B, C = rng.standard_normal((3, 3, 4, 5))
I = rng.integers(0, 3, (2, 4, 5))
SPD = A[0] @ A[0].T + np.eye(4)

# name: (arguments, our options, PyTorch's options where they differ)
CALLS = {
    "addcmul": ((A, B, C), {"value": 0.5}),
    "addcdiv": ((A, B, C), {"value": 2.0}),
    "addmm": ((rng.standard_normal((4, 4)), A[0], B[0].T.copy()), {"beta": 0.5, "alpha": 2.0}),
    "addmm without x": ((np.full((4, 4), np.nan), A[0], B[0].T.copy()), {"beta": 0}),
    "addmv without x": ((np.full(4, np.inf), A[0], B[0, 0]), {"beta": 0}),
    "addmv": ((A[0, :, 0], B[0], C[0, 0]), {"beta": 0.5, "alpha": 2.0}),
    "addr": ((A[0], B[0, :, 0], C[0, 0]), {"beta": 0.5}),
    "baddbmm": ((rng.standard_normal((3, 4, 4)), A, B.swapaxes(1, 2).copy()), {"alpha": 2.0}),
    "addbmm": ((rng.standard_normal((4, 4)), A, B.swapaxes(1, 2).copy()), {"beta": 0.5}),
    "dist": ((A, B, 3.0), {}),
    "cdist": ((A, B), {"p": 2.0}),
    "kthvalue": ((A, 3, 1), {}),
    "mode": ((np.round(A), -1), {}),
    "polar": ((np.abs(A), B), {}),
    "view_as_complex": ((rng.standard_normal((3, 2)),), {}),
    "frac": ((A,), {}),
    "logdet": ((SPD,), {}),
    "block_diag": ((A[0], B[0], C[0, :, :1]), {}),
    "cartesian_prod": ((A[0, 0], B[0, 1]), {}),
    "combinations": ((A[0, 0],), {"r": 3}),
    "combinations repeated": ((A[0, 0],), {"with_replacement": True}),
    "cumulative_trapezoid": ((A, np.sort(B[0, 0])), {}),
    "unflatten": ((A, 1, (2, -1)), {}),
    "masked_scatter": ((A, B > 0, C), {}),
    "index_copy": ((A, 0, np.array([2, 0]), B[:2]), {}),
    "select_scatter": ((A, B[:, 1], 1, 2), {}),
    "slice_scatter": ((A, B[:, :2]), {"axis": 1, "start": 1, "end": 4, "step": 2}),
    "diagonal_scatter": ((A[0], B[0, 0, :4], 1), {}),
    **{
        f"scatter_reduce {how} {own}": ((A, 0, I, B[:2], how), {"include_self": own})
        for how in ("sum", "mean", "prod", "amax", "amin")
        for own in (True, False)
    },
    "index_reduce mean": ((A, 0, np.array([2, 0, 2]), B, "mean"), {}),
    "index_reduce prod": ((A, 0, np.array([1, 0, 1]), B, "prod"), {"include_self": False}),
}


def theirs(x):
    return torch.tensor(x) if isinstance(x, np.ndarray) else x


@pytest.mark.parametrize("case", CALLS)
def test_values_and_gradients_are_pytorchs(case):
    args, options = CALLS[case]
    name = case.split()[0]
    ours = [mg.tensor(a) if isinstance(a, np.ndarray) and a.dtype == float else a for a in args]
    peers = [theirs(a) for a in args]
    x, t = ours[0].requires_grad_(), peers[0].requires_grad_()
    y = getattr(mg, name)(*ours, **options)
    peer_options = {"dim" if key == "axis" else key: value for key, value in options.items()}
    expected = getattr(torch, name)(*peers, **peer_options)
    if isinstance(y, tuple):
        np.testing.assert_array_equal(y[1].numpy(), expected[1].numpy())
        y, expected = y[0], expected[0]
    np.testing.assert_allclose(y.detach().numpy(), expected.detach().numpy(), rtol=1e-10)
    g = rng.standard_normal(y.shape).astype(y.dtype)
    (grad,) = torch.autograd.grad(expected, t, torch.tensor(g))
    np.testing.assert_allclose(mg.grad(y, x, g).numpy(), grad.numpy(), rtol=1e-9, atol=1e-12)


def test_pairs_of_rows_have_pytorchs_distances():
    x = mg.tensor(A[0])
    np.testing.assert_allclose(mg.pdist(x).numpy(), torch.pdist(torch.tensor(A[0])).numpy())


def test_two_results_are_those_of_two_ops():
    x = mg.tensor(A)
    for both, (first, second) in {
        "var_mean": ("var", "mean"), "std_mean": ("std", "mean"), "aminmax": ("min", "max")
    }.items():  # fmt: skip
        y, z = getattr(mg, both)(x, axis=1)
        np.testing.assert_array_equal(y.numpy(), getattr(x, first)(axis=1).numpy())
        np.testing.assert_array_equal(z.numpy(), getattr(x, second)(axis=1).numpy())


def test_renorm_scales_long_slices_alone():
    y = mg.renorm(A, 2.0, 1, 4.0)
    before, after = (np.sqrt((x**2).sum((0, 2))) for x in (A, y))
    np.testing.assert_allclose(after, np.minimum(before, 4.0))
    expected = torch.renorm(torch.tensor(A), 2.0, 1, 4.0).numpy()
    np.testing.assert_allclose(y, expected, rtol=1e-6)  # PyTorch adds 1e-7 to the norm


@pytest.mark.parametrize(("p", "maxnorm"), [(2.0, -1.0), (0.0, 1.0), (-2.0, 1.0), (2.0, np.nan)])
def test_renorm_refuses_what_is_no_norm_and_no_bound(p, maxnorm):
    with pytest.raises(ValueError, match=r"renorm: needs p > 0 and maxnorm ≥ 0; got p="):
        mg.renorm(A, p, 0, maxnorm)


def test_renorm_of_a_slice_of_zeros_has_the_gradient_of_what_is_not_scaled():
    x = mg.tensor([[0.0, 0.0], [3.0, 4.0]], requires_grad=True)
    mg.renorm(x, 2.0, 0, 1.0).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy()[0], [1.0, 1.0])
    assert np.isfinite(x.grad.numpy()).all()


def test_unflatten_finds_one_size_alone():
    assert mg.unflatten(mg.arange(6.0), 0, (2, -1)).shape == (2, 3)
    with pytest.raises(ValueError, match="only one of the sizes may be -1"):
        mg.unflatten(mg.arange(6.0), 0, (-1, -1))


def test_they_map_over_examples():
    x = mg.tensor(A)
    for f in (mg.pdist, lambda a: mg.kthvalue(a, 2)[0], lambda a: mg.mode(a)[0]):
        mapped = mg.func.vmap(f)(x)
        np.testing.assert_allclose(mapped.numpy(), np.stack([f(a).numpy() for a in x]))


def test_one_choice_takes_nothing():
    assert mg.combinations(A[0, 0], 0).shape == (1, 0)
    assert mg.combinations(A[0, 0], 10**12).shape == (0, 10**12)


def test_the_ends_of_ediff1d_take_the_dtype_of_the_differences():
    x = mg.tensor([1.0, 3.0], dtype=mg.float32)
    assert mg.ediff1d(x, to_end=1, to_begin=[2, 0]).dtype == np.float32
    with pytest.raises(TypeError, match="to_end of float64 do not fit x of int64"):
        mg.ediff1d(mg.tensor([1, 2]), to_end=0.5)


def test_a_cumulative_integral_of_16_bit_floats_is_added_up_in_float32():
    y = mg.tensor([40000.0] * 4, dtype="float16", requires_grad=True)
    areas = mg.cumulative_trapezoid(y, dx=0.1)
    assert areas.dtype == np.float16 and areas.tolist() == [4000.0, 8000.0, 12000.0]
    ones = mg.tensor(np.ones(3001), dtype="bfloat16")
    assert mg.cumulative_trapezoid(ones)[-1].item() == 3008.0  # 3000 as rounded; 256 + 1 is 256


X16, A16 = mg.tensor([[-60000.0]], dtype="float16"), mg.tensor([[300.0]], dtype="float16")


@pytest.mark.parametrize(
    ("y", "expected"),
    [
        (lambda: mg.addcmul(X16, A16, A16), 30000),
        (lambda: mg.addcdiv(X16, X16, A16 / 3000, value=-1 / 100), -54000),
        (lambda: mg.addmm(X16, A16, A16), 30000),
        (lambda: mg.addmv(X16[0], A16, A16[0]), 30000),
        (lambda: mg.addr(X16, A16[0], A16[0]), 30000),
        (lambda: mg.baddbmm(X16[None], A16[None], A16[None]), 30000),
        (lambda: mg.addbmm(X16, A16[None], A16[None]), 30000),
    ],
)
def test_a_product_beyond_float16_may_be_part_of_a_sum_within_it(y, expected):
    assert y().dtype == np.float16 and y().item() == pytest.approx(expected, rel=1e-3)


def test_an_infinite_part_of_a_complex_number_leaves_the_other_alone():
    parts = [[1.0, np.inf], [-np.inf, 2.0], [np.nan, 3.0]]
    y = mg.view_as_complex(mg.tensor(parts))
    np.testing.assert_array_equal(mg.view_as_real(y).numpy(), parts)
    assert mg.view_as_complex(mg.ones((2,), dtype=np.float16)).dtype == np.complex64
    with pytest.raises(ValueError, match="x must be real"):
        mg.func.vmap(mg.view_as_complex)(mg.ones(2))


@pytest.mark.parametrize(
    ("name", "shapes", "said"),
    [
        ("addmm", [(7,), (2, 3), (3, 4)], r"addmm: x \(7,\) is added to a product \(2, 4\)"),
        ("addmv", [(3,), (2, 3), (3,)], r"addmv: x \(3,\) is added to a product \(2,\)"),
        ("addr", [(2, 3), (3,), (9,)], r"addr: x \(2, 3\) is added to a product \(3, 9\)"),
        ("baddbmm", [(3,), (5, 2, 3), (5, 3, 4)], r"baddbmm: x \(3,\) .* product \(5, 2, 4\)"),
        ("addbmm", [(2, 4), (5, 2, 3), (5, 2, 4)], r"addbmm: A \(k, m, n\) and B \(k, n, p\)"),
    ],
)
def test_a_sum_of_products_names_itself_where_shapes_do_not_fit(name, shapes, said):
    with pytest.raises(ValueError, match=said):
        getattr(mg, name)(*[mg.ones(shape) for shape in shapes])


def test_the_mode_of_many_entries_takes_no_table_of_their_pairs():
    x = np.repeat(np.arange(50_000.0), 2)
    x[-1] = 17
    value, place = mg.mode(mg.tensor(x))  # a table would be 10 GB
    assert (value.item(), place.item()) == (17, x.size - 1)
    nothing = mg.mode(mg.tensor([[np.nan, np.nan], [1.0, np.nan]]))
    np.testing.assert_array_equal(nothing[0].numpy(), [np.nan, 1])


def test_polar_of_an_infinite_length_has_no_nan():
    y = mg.polar(mg.tensor(np.inf), np.pi / 4)
    assert (y.real.item(), y.imag.item()) == (np.inf, np.inf)
