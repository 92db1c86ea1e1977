"""Attention from one array of query, key and value: what the ops it stands for give."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import minigrad as mg
from minigrad import func, nn
from minigrad.engine.registry import op
from minigrad.nn import attention as layers

pytestmark = pytest.mark.promise(
    "attention as one op (attention/packed.py) gives what the ops it replaces give"
)

rng = np.random.default_rng(0)


def in_parts(x, *, heads, scale, time=0, is_causal=False):
    """The same, taken apart into heads and put together again."""
    q, k, v = op.split_heads(x, heads=heads, time=time)
    y = op.scaled_dot_product_attention(q, k, v, scale=scale, is_causal=is_causal)
    y = op.transpose(y, axes=(1 - time, 2, time, 3) if time else (2, 0, 1, 3))
    return op.reshape(y, shape=(*x.shape[:2], -1))


@st.composite
def calls(draw):
    """(an array, keywords)"""
    heads, size = draw(st.integers(1, 3)), draw(st.integers(1, 4))
    shape = (draw(st.integers(1, 6)), draw(st.integers(1, 6)), 3 * heads * size)
    how = {"scale": draw(st.floats(0.1, 3)), "is_causal": draw(st.booleans())}
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    how |= {"heads": heads, "time": draw(st.integers(0, 1))}
    return rng.standard_normal(shape).astype(dtype), how


@given(calls())
def test_value_and_gradient_are_those_of_the_ops_it_stands_for(call):
    values, how = call
    found = []
    for attend in (op.self_attention, in_parts):
        x = mg.tensor(values, requires_grad=True)
        y = attend(x, **how)
        y.backward(np.cos(y.detach().numpy()))
        found.append((y.detach().numpy(), x.grad.numpy()))
    (y, dx), (exact, slope) = found
    np.testing.assert_array_equal(y, exact)
    exactly = 1e-5 if dx.dtype == np.float32 else 1e-13  # the scale is multiplied by elsewhere
    np.testing.assert_allclose(dx, slope, rtol=exactly, atol=exactly * (1 + abs(slope).max()))


@pytest.mark.parametrize("time", [0, 1])
def test_its_gradient_can_be_differentiated_again(time):
    how = {"heads": 2, "scale": 0.5, "time": time}
    x = mg.tensor(rng.standard_normal((3, 2, 12)), requires_grad=True)

    def second(attend):
        (g,) = mg.grad([(attend(x, **how) ** 2).sum()], [x], create_graph=True)
        return mg.grad((g**2).sum(), x).numpy()

    np.testing.assert_allclose(second(op.self_attention), second(in_parts), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("time", [0, 1])
def test_examples_of_vmap_are_more_sequences(time):
    how = {"heads": 2, "scale": 0.5, "time": time}
    x = rng.standard_normal((4, 3, 2, 12))

    def slope(x):
        return func.grad(lambda x: (op.self_attention(x, **how) ** 2).sum())(x)

    each = np.stack([slope(mg.tensor(one)).numpy() for one in x])
    np.testing.assert_allclose(func.vmap(slope)(mg.tensor(x)), each, rtol=1e-9)


def recorded(layer, x):
    """(result, names of the ops that were recorded) of a layer without weights as its result."""
    y, _ = layer(x, x, x, need_weights=False)
    return y, {node["op"] for node in mg.graph_dict(y)["nodes"] if "op" in node}


def test_a_layer_without_masks_takes_it_and_one_with_many_scores_does_not(monkeypatch):
    layer, x = nn.MultiheadAttention(8, 2), mg.randn(5, 3, 8)
    y, ops = recorded(layer, x)
    monkeypatch.setattr(layers, "MOST_SCORES", 3 * 2 * 5 * 5 - 1)
    again, others = recorded(layer, x)
    assert "self_attention" in ops and "self_attention" not in others
    np.testing.assert_array_equal(y.detach(), again.detach())


def test_a_layer_in_training_with_dropout_does_not_take_it():
    layer, x = nn.MultiheadAttention(8, 2, dropout=0.5), mg.randn(5, 3, 8)
    assert "self_attention" not in recorded(layer, x)[1]
    layer.eval()
    assert "self_attention" in recorded(layer, x)[1]


def test_under_autocast_the_products_are_of_16_bits():
    layer, x = nn.MultiheadAttention(8, 2), mg.randn(5, 3, 8, dtype=np.float32)
    with mg.autocast(dtype="float16"):
        y, ops = recorded(layer, x)
    assert y.dtype == np.float16 and "self_attention" not in ops
