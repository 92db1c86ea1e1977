"""im2col and col2im: PyTorch's unfold and fold, transposes of each other, memory of their own."""

import itertools

import numpy as np
import pytest

import minigrad as mg
from minigrad import nn
from minigrad.func import grad, vmap

rng = np.random.default_rng(0)
X = rng.standard_normal((2, 3, 9, 8))
FORMS = [
    {"kernel_size": k, "stride": s, "padding": p, "dilation": d}
    for k, s, p, d in itertools.product((1, 2, (3, 2)), (1, (2, 3)), (0, (1, 2)), (1, 2))
]


def test_columns_and_their_sums_are_pytorchs():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    f = torch.nn.functional
    for form in FORMS:
        x, t = mg.tensor(X, requires_grad=True), torch.tensor(X, requires_grad=True)
        y, z = mg.im2col(x, **form), f.unfold(t, **form)
        np.testing.assert_array_equal(y.numpy(), z.detach().numpy(), err_msg=f"{form}")
        back, expected = mg.col2im(y, (9, 8), **form), f.fold(z, (9, 8), **form)
        np.testing.assert_allclose(back.numpy(), expected.detach().numpy(), rtol=1e-12)
        g = rng.standard_normal(back.shape)
        back.backward(g)
        expected.backward(torch.tensor(g))
        np.testing.assert_allclose(x.grad.numpy(), t.grad.numpy(), rtol=1e-12, atol=1e-13)


def test_a_convolution_is_a_product_with_the_columns():
    w = rng.standard_normal((4, 3, 3, 2))
    columns = mg.im2col(X, (3, 2), padding=1, stride=2)
    y = mg.matmul(w.reshape(4, -1), columns)
    direct = mg.conv2d(X, w, padding=1, stride=2)
    np.testing.assert_allclose(y.reshape(direct.shape), direct, rtol=1e-12)


def test_one_image_and_other_numbers_of_axes():
    np.testing.assert_array_equal(mg.im2col(X[0], 3), mg.im2col(X, 3)[0])
    line, box = X[0, :, 0], X[0][None]
    assert mg.im2col(line, (3,)).shape == (9, 6)
    assert mg.im2col(box[None], (2, 2, 2)).shape == (1, 8, 2 * 8 * 7)


def test_later_calls_leave_a_result_alone():
    first = mg.im2col(X, 3)
    kept = first.copy()
    mg.im2col(X + 1, 3), mg.col2im(first, (9, 8), 3)
    np.testing.assert_array_equal(first, kept)
    first[...] = 0
    assert X.any() and mg.im2col(X, 1).base is not X


@pytest.mark.filterwarnings("error")
def test_vmap_runs_all_examples_at_once():
    xs = rng.standard_normal((3, *X.shape))
    f = lambda x: mg.sum(mg.col2im(mg.im2col(x, 3) ** 2, (9, 8), 3) ** 2)
    for x, g in zip(xs, vmap(grad(f))(xs).numpy(), strict=True):
        np.testing.assert_allclose(g, grad(f)(x).numpy(), rtol=1e-12)


def test_the_modules_are_the_functions():
    x = mg.tensor(X)
    unfold, fold = nn.Unfold(3, padding=1), nn.Fold((9, 8), 3, padding=1)
    np.testing.assert_array_equal(unfold(x).numpy(), mg.im2col(X, 3, padding=1))
    np.testing.assert_array_equal(
        fold(unfold(x)).numpy(), mg.fold(unfold(x), (9, 8), 3, padding=1).numpy()
    )
    assert "kernel_size=3" in repr(unfold) and "output_size=(9, 8)" in repr(fold)
