"""mg.Function: a gradient of the shape that an argument was broadcast to is summed to its own."""

import numpy as np
import pytest

import minigrad as mg
from minigrad.testing import gradcheck, gradgradcheck


class Product(mg.Function):
    """Written for arguments of one shape; PyTorch sums where they are broadcast, so here too."""

    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return a * b

    @staticmethod
    def backward(ctx, g):
        a, b = ctx.saved_tensors
        return g * b, g * a


@pytest.mark.parametrize("shape", [(), (3,), (1, 3), (2, 1), (1, 1)])
def test_a_gradient_is_summed_over_the_axes_that_the_argument_was_broadcast_along(shape):
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, 3)), rng.standard_normal(shape)
    assert gradcheck(Product.apply, (a, b)) and gradgradcheck(Product.apply, (a, b))
    xs = [mg.tensor(x, requires_grad=True) for x in (a, b)]
    Product.apply(*xs).sum().backward()
    assert [x.grad.shape for x in xs] == [(2, 3), shape]


def test_a_broadcast_float16_gradient_is_summed_in_float32():
    a = mg.ones(4096, 2, dtype=mg.float16)
    b = mg.ones(2, dtype=mg.float16).requires_grad_()
    Product.apply(a, b).sum().backward()
    assert b.grad.dtype == mg.float16 and b.grad.tolist() == [4096, 4096]
