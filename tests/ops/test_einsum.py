"""einsum: NumPy's values for any subscripts, one product at a time, gradients of every operand."""

from importlib import import_module

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import minigrad as mg
from minigrad.engine.graph import reachable
from minigrad.testing import gradcheck, gradgradcheck

module = import_module("minigrad.ops.einsum")  # the package's attribute of this name is the op


@st.composite
def contractions(draw):
    """Subscripts over few labels, with diagonals and sums, and arrays that fit them."""
    size = {i: draw(st.integers(1, 3)) for i in "abcd"}
    terms = draw(st.lists(st.text("abcd", max_size=3), min_size=1, max_size=4))
    present = sorted(set("".join(terms)))
    labels = draw(st.permutations(present))[: draw(st.integers(0, len(present)))]
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    arrays = [rng.standard_normal([size[i] for i in term]) for term in terms]
    return ",".join(terms) + "->" + "".join(labels), arrays


@given(contractions())
@settings(max_examples=150)
def test_value_is_numpys(case):
    subscripts, arrays = case
    np.testing.assert_allclose(
        mg.einsum(subscripts, *arrays), np.einsum(subscripts, *arrays), rtol=1e-10, atol=1e-12
    )


@given(contractions())
@settings(max_examples=25)
def test_gradients_agree_with_finite_differences(case):
    subscripts, arrays = case
    assert gradcheck(lambda *xs: mg.einsum(subscripts, *xs), tuple(arrays))


def test_second_order():
    rng = np.random.default_rng(0)
    xs = tuple(rng.standard_normal(s) for s in ((2, 3), (3, 4), (4, 2)))
    assert gradgradcheck(lambda a, b, c: mg.einsum("ij,jk,ki->i", a, b, c), xs)


def test_the_result_has_its_labels_order_where_an_ellipsis_broadcasts_and_is_summed():
    a, b = np.arange(6.0).reshape(3, 2), np.arange(4.0).reshape(1, 4)
    y = mg.einsum("...a,...b->ba", a, b)
    np.testing.assert_array_equal(y, b.T * a.sum(axis=0))


def test_the_order_does_not_need_opt_einsum(monkeypatch):
    monkeypatch.setattr(module, "optional", lambda name: None)
    module._contraction_order.cache.clear()
    rng = np.random.default_rng(0)
    xs = [rng.standard_normal(s) for s in ((2, 3), (3, 4), (4, 5), (5, 2))]
    y = mg.einsum("ij,jk,kl,lm->im", *xs)
    module._contraction_order.cache.clear()
    np.testing.assert_allclose(y, np.linalg.multi_dot(xs), rtol=1e-12)


def test_a_chain_is_multiplied_in_the_cheap_order():
    a, b, c = (mg.tensor(np.ones(s), requires_grad=True) for s in ((50, 2), (2, 50), (50, 1)))
    nodes = reachable([mg.einsum("ij,jk,kl->il", a, b, c).node])
    made = [node.shape for node in nodes if getattr(node, "op", None) is not None]
    assert (50, 50) not in made


def test_each_pair_is_one_node():
    a, b = (mg.tensor(np.ones((2, 3)), requires_grad=True) for _ in range(2))
    y = mg.einsum("ij,kj->ik", a, b)
    assert [p.__class__.__name__ for p in y.node.parents] == ["Leaf", "Leaf"]


def test_plans_are_bounded():
    for cache in (module._parse, module._contraction_order):
        assert cache.cache.stats()["max_entries"] == 256


def test_lists_of_axes_are_understood():
    a, b = np.arange(6.0).reshape(2, 3), np.arange(12.0).reshape(3, 4)
    np.testing.assert_array_equal(mg.einsum(a, [0, 1], b, [1, 2], [0, 2]), a @ b)
    np.testing.assert_array_equal(mg.einsum(a, [5, 1], b, [1, 2]), np.einsum(a, [5, 1], b, [1, 2]))
    np.testing.assert_array_equal(
        mg.einsum(a, [Ellipsis, 0], [Ellipsis]), np.einsum(a, [Ellipsis, 0], [Ellipsis])
    )


def test_numpys_einsum_records():
    a = mg.tensor(np.eye(2), requires_grad=True)
    assert np.einsum("ij,jk", a, np.eye(2)).grad_fn is not None


def test_multi_dot_is_the_chain():
    rng = np.random.default_rng(0)
    xs = tuple(rng.standard_normal(s) for s in ((3,), (3, 4), (4, 5), (5,)))
    np.testing.assert_allclose(mg.multi_dot(xs), np.linalg.multi_dot(xs), rtol=1e-12)
    assert gradcheck(lambda *arrays: mg.multi_dot(arrays), xs)


def test_multi_dot_does_not_broadcast():
    with pytest.raises(ValueError, match=r"as many rows as.*got shapes \[\(2, 1\), \(3, 2\)\]"):
        mg.multi_dot([np.ones((2, 1)), np.ones((3, 2))])


def test_a_sum_of_whole_numbers_keeps_their_dtype_as_a_product_does():
    x = np.array([[3, 4], [5, 6]], np.int8)
    for subscripts, operands in (("ij->", (x,)), ("ij->j", (x,)), ("ij,jk->k", (x, x))):
        y, expected = mg.einsum(subscripts, *operands), np.einsum(subscripts, *operands)
        assert y.dtype == expected.dtype and np.array_equal(y, expected), subscripts
    assert float(mg.einsum("i->", mg.tensor(np.ones(3000), dtype="bfloat16"))) == 3008


@pytest.mark.parametrize("subscripts", ["...ik...,ijk", "ij...k...,ijk->ij", "ijk,ijk->...ij..."])
def test_two_ellipses_in_one_term_are_an_error_that_says_so(subscripts):
    x = mg.ones((2, 3, 4))
    with pytest.raises(ValueError, match="two ellipses in one term"):
        mg.einsum(subscripts, x, x)


def test_products_of_three_16_bit_operands_are_rounded_once():
    a = mg.tensor([300.0, 200.0], dtype="float16")
    y = mg.einsum("i,i,i->i", a, a, 1 / (a * 100))
    assert y.dtype == np.float16
    np.testing.assert_allclose(y.numpy(), [3, 2], rtol=2e-3)


@pytest.mark.parametrize("subscripts", ["ii", "ii->i", "iij->j", "...ii"])
def test_a_diagonal_of_axes_of_1_and_3_is_refused_as_in_numpy(subscripts):
    x = np.ones((1, 3, 2)[: 3 if "j" in subscripts else 2])
    for array in (x, mg.tensor(x)):
        with pytest.raises(ValueError, match="dimensions in|names the diagonal of axes 1 and 3"):
            np.einsum(subscripts, array)


@pytest.mark.parametrize("axes", [[52], [-1], ["a"], [0.5]])
def test_axes_have_numbers_below_52(axes):
    with pytest.raises(ValueError, match=r"einsum: axes are numbered 0 … 51"):
        mg.einsum(mg.ones(2), axes)


@pytest.mark.parametrize(
    ("subscripts", "operands", "said"),
    [
        ("ij,jk->ik", [(2, 3), (4, 5)], "'j' .* 3 long in one place and 4 .* transposed"),
        ("ij,jk->ik", [(2, 3)], "names 2 operands, got 1; commas stand between the terms"),
        ("ij", [(2, 3), (3, 4)], "names 1 operand, got 2"),
        ("ijk->i", [(2, 3)], r"'ijk' .* does not fit the shape \(2, 3\): give each axis a letter"),
        ("ij->iz", [(2, 3)], "has 'z', which no operand has; .* mg.broadcast_to"),
        ("ij->ii", [(2, 3)], "has 'i' twice; .* mg.diag_embed"),
        ("i1->i", [(2, 3)], "'1' in 'i1->i' is no letter"),
    ],
)
def test_subscripts_that_do_not_fit_are_told_what_to_write(subscripts, operands, said):
    with pytest.raises(ValueError, match=f"einsum: .*{said}"):
        mg.einsum(subscripts, *[mg.ones(shape) for shape in operands])


def test_what_is_no_array_of_numbers_is_named_by_its_place():
    with pytest.raises(TypeError, match="einsum: operand 1 is None"):
        mg.einsum("i,i", mg.ones(2), None)
    for call in ((mg.ones(2, 2),), (3,), (mg.ones(2), 3)):
        with pytest.raises(TypeError, match="einsum: give subscripts and then the operands"):
            mg.einsum(*call)
