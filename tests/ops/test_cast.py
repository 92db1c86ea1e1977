"""Casting: values move to another dtype or layout, gradients come back in the source's."""

import warnings

import numpy as np
import pytest

import minigrad as mg


def leaf(x, dtype=None):
    return mg.tensor(x, dtype=dtype, requires_grad=True)


@pytest.mark.parametrize("source", ["float16", "bfloat16", "float32", "float64", "complex64"])
@pytest.mark.parametrize("target", ["float16", "bfloat16", "float32", "float64", "complex128"])
def test_the_gradient_comes_back_in_the_dtype_of_the_source(source, target):
    x = leaf([1.0, 2.0], source)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        y = x.astype(target)
        y.backward(np.array([3.0, 4.0]))
    assert str(y.dtype) == target
    assert x.grad.dtype == x.dtype
    assert x.grad.tolist() == [3, 4]


def test_a_complex_number_becomes_its_real_part_without_a_warning():
    z = leaf([1 + 2j, 3 - 1j])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        y = z.astype("float32")
        assert z.astype(int).tolist() == [1, 3]
    assert y.tolist() == [1, 3]
    assert mg.grad(y, z, np.ones(2)).tolist() == [1, 1]


@pytest.mark.parametrize("dtype", [int, bool, "int8", np.uint8])
def test_an_integer_or_boolean_result_is_a_constant(dtype):
    y = leaf([1.0, 2.0]).astype(dtype)
    assert y.dtype == np.dtype(dtype)
    assert not y.requires_grad


def test_without_copy_a_tensor_of_that_dtype_comes_back_as_it_is():
    x = leaf([1.0])
    assert x.astype("float64", copy=False) is x
    assert x.astype("float64") is not x


def test_a_cast_can_be_differentiated_twice():
    x = leaf([2.0], "float32")
    g = mg.grad(x.astype("float64") ** 3, x, np.ones(1), create_graph=True)
    assert g.dtype == np.float32
    assert mg.grad(g, x, np.ones(1)).tolist() == [12]


def test_copies_have_memory_of_their_own_and_pass_the_gradient():
    x = leaf([1.0, 2.0])
    for y in (x.copy(), np.copy(x), mg.positive(x)):
        assert not np.shares_memory(y.data, x.data)
        assert mg.grad(y, x, np.array([3.0, 4.0])).tolist() == [3, 4]


def test_contiguous_shares_memory_only_if_the_layout_is_right_already():
    x = leaf(np.arange(6.0).reshape(2, 3))
    assert np.shares_memory(mg.contiguous(x).data, x.data)
    y = mg.contiguous(x.T)
    assert y.data.flags.c_contiguous
    g = np.arange(6.0).reshape(3, 2)
    assert mg.grad(y, x, g).tolist() == g.T.tolist()


def test_contiguous_keeps_a_0d_tensor_0d():
    assert mg.ascontiguousarray(leaf(1.0)).shape == ()


def test_to_leaves_what_is_there_already_and_converts_the_rest():
    x = leaf([1.0])
    assert mg.to(x, "cpu") is x
    y = mg.to(x, "cpu", dtype="float32")
    assert y.dtype == np.float32
    assert mg.grad(y, x, np.ones(1)).dtype == np.float64


def test_an_unknown_device_is_refused_by_name():
    with pytest.raises(TypeError, match="takes a device .*'cuda:0'.*'tpu'"):
        mg.to(leaf([1.0]), "tpu")


@pytest.mark.filterwarnings("error")
def test_vmap_casts_the_whole_batch_at_once():
    x = mg.tensor(np.ones((3, 2)))
    assert mg.func.vmap(lambda row: row.astype("float32"))(x).dtype == np.float32


def test_no_dtype_to_cast_to_is_refused():
    with pytest.raises(TypeError, match="astype: dtype=None; name one"):
        mg.ones(2).astype(None)


def test_a_list_or_a_number_is_cast_as_an_array_is():
    np.testing.assert_array_equal(mg.astype([1.7, -2.2], int), [1, -2])
    assert mg.astype(1.5, mg.float32).dtype == np.float32
