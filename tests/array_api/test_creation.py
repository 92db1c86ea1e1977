"""Creation, and questions about dtypes, agree with NumPy's; the namespace is still minigrad."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import minigrad as mg
import minigrad.array_api as xp
from tests.array_api.oracle import ALL, BITS, INEXACT, NUMERIC, WHOLE, arrays, compare, few

pytestmark = [
    pytest.mark.promise("the array API standard"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
]


@pytest.mark.parametrize("dtype", [None, *NUMERIC])
def test_creation_agrees(dtype):
    compare("zeros", (2, 3), dtype=dtype)
    compare("ones", 3, dtype=dtype)
    compare("full", (2,), 7, dtype=dtype)
    compare("eye", 3, 2, k=1, dtype=dtype)
    compare("arange", 5, dtype=dtype)
    compare("arange", 1, 9, 3, dtype=dtype)
    compare("linspace", 0, 9, num=4, endpoint=False, dtype=dtype)
    x = np.arange(4, dtype=dtype)
    for name in ("zeros_like", "ones_like"):
        compare(name, x)
        compare(name, x, dtype="float32")
    compare("full_like", x, 3)
    assert xp.empty((2, 3), dtype=dtype).shape == xp.empty_like(xp.zeros((2, 3))).shape == (2, 3)


@given(arrays(BITS), st.sampled_from(ALL))
@few
def test_astype_agrees(x, dtype):
    compare("astype", x, np.dtype(dtype))


def test_asarray_copies_only_when_asked_or_needed():
    x = xp.asarray([1.0, 2.0])
    assert xp.asarray(x) is x and xp.asarray(x, copy=False) is x
    assert not np.shares_memory(xp.asarray(x, copy=True), x)
    assert xp.asarray([[1, 2], [3, 4]], dtype=xp.uint16).dtype == np.uint16
    with pytest.raises(ValueError, match="needs a copy"):
        xp.asarray(x, dtype=xp.float32, copy=False)
    with pytest.raises(TypeError, match="give numbers"):
        xp.asarray(["a"])


def test_reshape_says_when_it_cannot_share_memory():
    x = xp.zeros((2, 3))
    assert np.shares_memory(xp.reshape(x, (3, 2), copy=False), x)
    assert not np.shares_memory(xp.reshape(x, (3, 2), copy=True), x)
    with pytest.raises(ValueError, match="needs a copy"):
        xp.reshape(x.T, (6,), copy=False)


@pytest.mark.parametrize("dtype", [*INEXACT, *WHOLE])
def test_limits_of_dtypes_are_python_numbers(dtype):
    ours = (xp.finfo if dtype in INEXACT else xp.iinfo)(np.dtype(dtype))
    theirs = (np.finfo if dtype in INEXACT else np.iinfo)(dtype)
    number = float if dtype in INEXACT else int
    assert type(ours.max) is type(ours.min) is number and type(ours.bits) is int
    assert (ours.max, ours.min, ours.bits) == (theirs.max, theirs.min, theirs.bits)
    array_info = (xp.finfo if dtype in INEXACT else xp.iinfo)(xp.zeros(2, dtype=dtype))
    assert array_info.dtype == ours.dtype == theirs.dtype


def test_questions_about_dtypes_agree():
    for a in ALL:
        for kind in ("bool", "signed integer", "integral", "real floating", "numeric", np.dtype(a)):
            assert xp.isdtype(np.dtype(a), kind) is np.isdtype(np.dtype(a), kind)
        for b in ALL:
            assert xp.can_cast(xp.zeros(1, dtype=a), b) is np.can_cast(a, b)
            assert xp.result_type(xp.zeros(1, dtype=a), np.dtype(b)) == np.result_type(a, b)
    assert xp.result_type(xp.zeros(1, dtype=xp.float32), 1.0) == np.float32


def test_code_written_for_the_standard_is_differentiated():
    x = mg.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    y = xp.asarray(x, dtype=xp.float32)
    z = xp.sum(xp.concat([xp.exp(y), xp.permute_dims(y * y, (1, 0))], axis=0))
    z.backward()
    np.testing.assert_allclose(
        x.grad.numpy(), np.exp(x.detach().numpy()) + 2 * x.detach().numpy(), rtol=1e-6
    )
