"""bfloat16, which is no dtype of NumPy's own, has the results that NumPy's float16 has."""

import numpy as np
import pytest

import minigrad as mg

pytestmark = pytest.mark.promise(
    "bfloat16, alone and with other dtypes, has the dtypes and numbers of sums"
)

HALVES, WHOLE = [0.5, 0.25, 1.0], [1, 2, 3]
special = mg.special
TWO = {
    "gammainc": special.gammainc,
    "betaln": special.betaln,
    "owens_t": special.owens_t,
    "boxcox": special.boxcox,
    "rel_entr": special.rel_entr,
    "gammaincinv": lambda a, b: special.gammaincinv(b, a),
    "slope of gammainc": lambda a, b: mg.func.jvp(
        lambda b: special.gammainc(b, a), (b * 1.0,), (b * 1.0,)
    )[1],
    "slope of betainc": lambda a, b: mg.func.jvp(
        lambda b: special.betainc(b, a, a), (b * 1.0,), (b * 1.0,)
    )[1],
    "cross": mg.cross,
    "convolve": mg.convolve,
    "correlate": mg.correlate,
    "polymul": mg.polymul,
    "clip": lambda a, b: mg.clip(a, 0.5 * b, b),
    "where of numbers": lambda a, b: mg.where(True, a[0], b[0]),
    "linear": lambda a, b: mg.nn.functional.linear(b, mg.stack([a, a])),
}


@pytest.mark.parametrize("other", [np.float16, np.float32, np.int64], ids=lambda d: d.__name__)
@pytest.mark.parametrize("function", TWO.values(), ids=TWO)
def test_beside_another_dtype_the_result_is_that_of_float32(function, other):
    x, y = mg.tensor(HALVES, dtype=mg.bfloat16), mg.tensor(WHOLE, dtype=other)
    found, expected = function(x, y), function(x.astype(np.float32), y)
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-2)


ONE = {
    "ldexp": lambda x: mg.ldexp(x, mg.tensor(WHOLE)),
    "gammaincinv": lambda x: special.gammaincinv(x, x),
    "density": lambda x: mg.stats.beta.pdf(0.5 * x, x, x),
    "choose": lambda x: mg.choose(mg.tensor([0, 1, 0]), [x, 2.0]),
    "clip": lambda x: mg.clip(x, 0.3, 0.7),
    "softshrink": lambda x: mg.softshrink(x, 0.3),
}


@pytest.mark.parametrize("function", ONE.values(), ids=ONE)
def test_alone_and_beside_numbers_it_stays_bfloat16(function):
    found = function(mg.tensor(HALVES, dtype=mg.bfloat16))
    assert found.dtype == mg.bfloat16
    expected = function(mg.tensor(HALVES, dtype=np.float32))
    np.testing.assert_allclose(found.astype(np.float32).numpy(), expected.numpy(), rtol=2e-2)


def test_parts_of_complex_numbers_may_be_bfloat16():
    x = mg.tensor([[1.0, 2.0], [0.5, -1.0]], dtype=mg.bfloat16, requires_grad=True)
    y = mg.view_as_complex(x)
    assert y.dtype == np.complex64 and y.tolist() == [1 + 2j, 0.5 - 1j]
    (y.real + 2 * y.imag).sum().backward()
    assert x.grad.dtype == mg.bfloat16 and x.grad.tolist() == [[1.0, 2.0]] * 2
