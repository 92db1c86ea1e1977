"""Attention: both forms agree, masks, second order, errors; rotary embedding."""

import numpy as np
import pytest

import minigrad as mg
from minigrad.engine.registry import op
from minigrad.func import jvp, vjp, vmap
from minigrad.ops.attention import calls, drops
from minigrad.testing import gradcheck

pytestmark = pytest.mark.promise(
    "both forms of attention drop the same weights, and no mask is stored"
)

rng = np.random.default_rng(0)
SHAPES = (2, 3, 9, 4), (2, 3, 11, 4), (2, 3, 11, 5)
MASK = rng.random((9, 11)) > 0.4
MASK[2] = False
ADDED = np.where(MASK, rng.standard_normal(MASK.shape), -np.inf)
CASES = {
    "no mask": {},
    "causal": {"is_causal": True},
    "boolean mask": {"attn_mask": MASK},
    "added mask": {"attn_mask": ADDED},
    "mask of keys": {"attn_mask": np.arange(11) < 7},
    "scale": {"scale": 0.3},
}
attention = mg.scaled_dot_product_attention


def leaves(*shapes):
    return [mg.tensor(rng.standard_normal(s), requires_grad=True) for s in shapes or SHAPES]


def derivatives(function, xs):
    """The value, the gradients, and the gradients of a weighted sum of these."""
    y = function(*xs)
    first = mg.grad(mg.sum(y * np.cos(np.arange(y.size)).reshape(y.shape)), xs, create_graph=True)
    total = sum(mg.sum(g * np.sin(np.arange(g.size)).reshape(g.shape)) for g in first)
    return [z.numpy() for z in (y, *first, *mg.grad(total, xs))]


@pytest.mark.parametrize("block_size", [1, 4, 16])
@pytest.mark.parametrize("case", CASES)
def test_blocks_give_the_values_and_derivatives_of_the_plain_form(case, block_size):
    xs = leaves()
    blocks = derivatives(lambda *x: attention(*x, **CASES[case], block_size=block_size), xs)
    plain = derivatives(lambda *x: attention(*x, **CASES[case]), xs)
    for a, b in zip(blocks, plain, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("block_size", [None, 4])
def test_a_query_that_may_take_no_key_gives_0_and_gets_gradient_0(block_size):
    q, k, v = leaves()
    y = attention(q, k, v, MASK, block_size=block_size)
    y.backward(np.ones(y.shape))
    assert not y.numpy()[..., 2, :].any() and not q.grad.numpy()[..., 2, :].any()
    assert all(np.isfinite(x.grad.numpy()).all() for x in (q, k, v))


@pytest.mark.parametrize("block_size", [None, 4])
def test_leading_axes_broadcast_and_their_gradients_are_summed(block_size):
    q, k, v = leaves((2, 3, 9, 4), (1, 11, 4), (2, 1, 11, 5))
    full = [mg.broadcast_to(x, (2, 3, *x.shape[-2:])) for x in (q, k, v)]
    one = attention(q, k, v, block_size=block_size)
    other = attention(*full)
    np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-12)
    g = rng.standard_normal(one.shape)
    for a, b in zip(mg.grad(one, [q, k, v], g), mg.grad(other, [q, k, v], g), strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("shape", [(9, 11), (1, 11), (11,), (2, 1, 9, 1)])
def test_an_added_mask_has_the_same_derivatives_in_blocks(shape):
    xs = leaves(*SHAPES, shape)
    blocks = derivatives(lambda *x: attention(*x, block_size=4), xs)
    plain = derivatives(lambda *x: attention(*x), xs)
    assert plain[4].any() and plain[4].shape == shape
    for a, b in zip(blocks, plain, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11)


def test_causal_queries_do_not_see_what_comes_later():
    q, k, v = (x.detach() for x in leaves((1, 8, 4), (1, 8, 4), (1, 8, 4)))
    for block_size in (None, 3):
        before = attention(q, k, v, is_causal=True, block_size=block_size).numpy()
        later = mg.concatenate([v[:, :5], v[:, 5:] * 1e9], 1)
        after = attention(q, k, later, is_causal=True, block_size=block_size).numpy()
        np.testing.assert_allclose(after[:, :5], before[:, :5], rtol=1e-12)


def test_large_scores_do_not_overflow_in_blocks():
    q, k, v = (mg.tensor(1e3 * rng.standard_normal((6, 4)), dtype=np.float32) for _ in range(3))
    with np.errstate(over="raise", invalid="raise"):
        y = attention(q, k, v, block_size=2)
    np.testing.assert_allclose(y.numpy(), attention(q, k, v).numpy(), rtol=1e-4)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("block_size", [1, 4, 16])
def test_both_forms_drop_the_same_weights_and_have_the_same_derivatives(case, block_size):
    xs = leaves()

    def dropping(block_size):
        def function(*x):
            mg.manual_seed(11)
            return attention(*x, **CASES[case], dropout_p=0.3, block_size=block_size)

        return derivatives(function, xs)

    for a, b in zip(dropping(block_size), dropping(None), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11)


def test_dropout_is_that_of_the_weights_times_a_mask():
    xs = leaves()
    mg.manual_seed(5)
    y = attention(*xs, dropout_p=0.4, block_size=4)
    mg.manual_seed(5)
    seeds = drops.attention_seeds(*[x.detach() for x in xs])
    mask = drops.kept(seeds.numpy(), slice(0, 9), slice(0, 11), 0.4)
    q, k, v = xs
    weights = mg.softmax(q @ mg.swapaxes(k, -1, -2) * 4**-0.5, axis=-1)
    plain = (weights * (mask / 0.6)) @ v
    np.testing.assert_allclose(y.numpy(), plain.numpy(), rtol=1e-12)
    g = rng.standard_normal(y.shape)
    for a, b in zip(mg.grad(y, xs, g), mg.grad(plain, xs, g), strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_weights_are_dropped_independently_and_as_often_as_asked(p):
    seeds = np.random.default_rng(1).integers(0, 2**63 - 1, (4, 1, 1))
    mask = drops.kept(seeds, slice(0, 256), slice(0, 512), p).astype(float) - (1 - p)
    noise = (p * (1 - p) / mask[0].size) ** 0.5
    assert abs(mask.mean()) < 5 * noise
    for axis in (0, 1, 2):  # neighbours in heads, queries and keys know nothing of each other
        assert abs((mask * np.roll(mask, 1, axis)).mean()) < 5 * p * (1 - p) / mask.size**0.5
    assert abs(mask.mean(1)).max() < 6 * (p * (1 - p) / 256) ** 0.5
    assert abs(mask.mean(2)).max() < 6 * (p * (1 - p) / 512) ** 0.5


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("block_size", [None, 2])
def test_vmap_drops_other_weights_in_each_example_and_the_same_in_forward_and_backward(block_size):
    x = mg.tensor(np.broadcast_to(rng.standard_normal((2, 6, 4)), (3, 2, 6, 4)))
    f = lambda x: attention(x, x, x, dropout_p=0.5, block_size=block_size)
    mapped = vmap(f, randomness="different")
    y = mapped(x).numpy()
    assert (y[0] != y[1]).any()
    g = rng.standard_normal(y.shape)
    leaf = mg.tensor(x.numpy().copy(), requires_grad=True)

    def value(x):
        mg.manual_seed(2)
        return (mapped(x) * g).sum()

    (gradients,) = mg.grad(value(leaf), [leaf])
    t, h = rng.standard_normal(y.shape), 1e-6
    slope = (value(x + t * h).item() - value(x - t * h).item()) / (2 * h)
    assert (gradients.numpy() * t).sum() == pytest.approx(slope, rel=1e-6)


def test_cotangents_mapped_alone_meet_the_mask_of_the_one_forward():
    q, k, v = leaves((5, 4), (6, 4), (6, 3))
    mg.manual_seed(4)
    y, vjp_fn = vjp(lambda q: attention(q, k.detach(), v.detach(), dropout_p=0.5, block_size=2), q)
    gs = rng.standard_normal((3, *y.shape))
    mapped = vmap(lambda g: vjp_fn(g)[0])(gs).numpy()
    for g, found in zip(gs, mapped, strict=True):
        np.testing.assert_allclose(found, vjp_fn(mg.tensor(g))[0].numpy(), rtol=1e-10, atol=1e-12)


def test_dropout_drops_weights_and_repeats_with_the_seed():
    q, k, v = (x.detach() for x in leaves())
    mg.manual_seed(3)
    first = attention(q, k, v, dropout_p=0.5).numpy()
    mg.manual_seed(3)
    np.testing.assert_array_equal(attention(q, k, v, dropout_p=0.5).numpy(), first)
    assert (first != attention(q, k, v).numpy()).any()
    assert not attention(q, k, v, dropout_p=1.0).numpy().any()


def test_forward_mode_of_the_blocks_agrees_with_the_plain_form():
    xs, ts = ([x.detach() for x in leaves()] for _ in range(2))
    _, a = jvp(lambda *x: attention(*x, block_size=4), tuple(xs), tuple(ts))
    _, b = jvp(lambda *x: attention(*x), tuple(xs), tuple(ts))
    np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-9, atol=1e-12)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("kind", ["boolean", "added"])
@pytest.mark.parametrize("own_mask", [True, False])
def test_vmap_gives_each_example_what_it_gets_alone(own_mask, kind):
    q, k, v, masks = leaves((3, 2, 5, 4), (3, 2, 6, 4), (3, 2, 6, 2), (3, 5, 6))
    given = masks if own_mask else masks[0]
    given = given.detach() > -0.5 if kind == "boolean" else given
    mapped = vmap(
        lambda q, k, v, m: attention(q, k, v, m, block_size=2), (0, 0, 0, 0 if own_mask else None)
    )(q, k, v, given)
    alone = attention(q, k, v, given[:, None] if own_mask else given)
    np.testing.assert_allclose(mapped.numpy(), alone.numpy(), rtol=1e-10, atol=1e-12)
    g = rng.standard_normal(alone.shape)
    xs = [q, k, v, masks] if kind == "added" else [q, k, v]
    gradients = mg.grad(mapped, xs, g, retain_graph=True)  # both may share the node of masks[0]
    for a, b in zip(gradients, mg.grad(alone, xs, g), strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_16_bit_floats_are_computed_in_float32(dtype):
    if dtype == "bfloat16" and not hasattr(mg, "bfloat16"):
        pytest.skip("ml_dtypes is not installed")
    xs = [mg.tensor(x.numpy(), dtype=dtype) for x in leaves()]
    y = attention(*xs, block_size=4)
    exact = attention(*[mg.tensor(x.data.astype(float)) for x in xs]).numpy()
    assert y.dtype == xs[0].dtype
    np.testing.assert_allclose(y.data.astype(float), exact, atol=2.0**-7, rtol=2.0**-7)


def test_many_scores_take_the_blocks_without_being_asked(monkeypatch):
    monkeypatch.setattr(calls, "MOST_SCORES", 90)
    q, k, v = leaves((9, 4), (11, 4), (11, 5))
    assert attention(q, k, v).grad_fn.op.name == "attention"
    assert attention(q, k[:10], v[:10]).grad_fn.op.name == "matmul"


@pytest.mark.parametrize("block_size", [None, 4])
@pytest.mark.parametrize("case", ["no mask", "causal", "boolean mask", "added mask"])
def test_pytorch_gives_the_same_values_gradients_and_second_derivatives(case, block_size):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    params = {
        name: torch.tensor(value) if isinstance(value, np.ndarray) else value
        for name, value in CASES[case].items()
    }
    xs = leaves()
    ts = [torch.tensor(x.numpy().copy(), requires_grad=True) for x in xs]
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        z = torch.nn.functional.scaled_dot_product_attention(*ts, **params)
    weights = np.cos(np.arange(z.numel())).reshape(z.shape)
    first = torch.autograd.grad((z * torch.tensor(weights)).sum(), ts, create_graph=True)
    total = sum(
        (g * torch.tensor(np.sin(np.arange(g.numel())).reshape(g.shape))).sum() for g in first
    )
    second = torch.autograd.grad(total, ts)
    ours = derivatives(lambda *x: attention(*x, **CASES[case], block_size=block_size), xs)
    for a, b in zip(ours, [z, *first, *second], strict=True):
        np.testing.assert_allclose(a, b.detach().numpy(), rtol=1e-9, atol=1e-10)


# -- rotary --------------------------------------------------------------------------------------


@pytest.mark.parametrize("interleaved", [True, False])
def test_products_of_rotated_vectors_depend_on_the_distance_alone(interleaved):
    q, k = rng.standard_normal((2, 1, 8))

    def score(i, j):
        a = mg.rotary(mg.tensor(q), np.array([i]), interleaved=interleaved)
        b = mg.rotary(mg.tensor(k), np.array([j]), interleaved=interleaved)
        return mg.sum(a * b).item()

    assert score(3, 10) == pytest.approx(score(103, 110), rel=1e-9)
    assert score(3, 10) != pytest.approx(score(3, 11), rel=1e-3)


def test_rotation_keeps_lengths_and_position_0_stays():
    x = rng.standard_normal((4, 6))
    y = mg.rotary(mg.tensor(x)).numpy()
    np.testing.assert_allclose(np.linalg.norm(y, axis=1), np.linalg.norm(x, axis=1))
    np.testing.assert_array_equal(y[0], x[0])


def test_given_angles_are_those_of_the_positions():
    x = mg.tensor(rng.standard_normal((2, 5, 4)))
    cos, sin = mg.rotary_angles(np.arange(5), 4, base=100.0)
    np.testing.assert_array_equal(
        mg.rotary(x, cos=cos, sin=sin).numpy(), mg.rotary(x, base=100.0).numpy()
    )


@pytest.mark.parametrize("whole", [0, 1, 2])
def test_blocks_refuse_whole_numbers_whose_gradient_they_could_not_fill(whole):
    arrays = [np.ones(shape, int if i == whole else float) for i, shape in enumerate(SHAPES)]
    with pytest.raises(ValueError, match=f"{'qkv'[whole]} must be a floating array, got int64"):
        op.attention(*map(mg.tensor, arrays), scale=0.5)


@pytest.mark.parametrize("heads, shared", [(4, 2), (4, 1), (4, 4)])
def test_queries_share_keys_and_values_in_groups(heads, shared):
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((2, n, 5, 3)) for n in (heads, shared, shared))
    xs = [mg.tensor(x, requires_grad=True) for x in (q, k, v)]
    y = mg.scaled_dot_product_attention(*xs, enable_gqa=True)
    k, v = (mg.tensor(np.repeat(x, heads // shared, 1)) for x in (k, v))
    np.testing.assert_allclose(y.numpy(), mg.scaled_dot_product_attention(q, k, v).numpy())
    torch = pytest.importorskip("torch")
    ts = [torch.tensor(x.numpy(), requires_grad=True) for x in xs]
    z = torch.nn.functional.scaled_dot_product_attention(*ts, enable_gqa=True)
    for ours, theirs in zip(mg.grad(y.sum(), xs), torch.autograd.grad(z.sum(), ts), strict=True):
        np.testing.assert_allclose(ours.numpy(), theirs.numpy(), atol=1e-12)


def test_heads_that_do_not_divide_the_queries_are_refused():
    q, k = np.ones((2, 4, 5, 3)), np.ones((2, 3, 5, 3))
    with pytest.raises(ValueError, match=r"must divide those of q; got \(2, 3, 5, 3\)"):
        mg.scaled_dot_product_attention(q, k, k, enable_gqa=True)


@pytest.mark.parametrize("need_weights", [False, True])
def test_scores_of_float16_beyond_65504_are_finite_in_every_form(need_weights):
    q = mg.tensor([[[300.0, 300.0], [1.0, -1.0]]], dtype="float16", requires_grad=True)
    for block_size in (None, 1):
        y = attention(q, q, q, block_size=block_size)
        assert y.dtype == np.float16 and y[0, 0].tolist() == [300, 300]
        y.sum().backward()
    assert np.isfinite(q.grad.numpy()).all()
    layer = mg.nn.MultiheadAttention(2, 1, bias=False, batch_first=True, dtype="float16")
    for weight in layer.parameters():
        weight.data[...] = np.tile(np.eye(2), (len(weight) // 2, 1))
    y, weights = layer(q, q, q, need_weights=need_weights)
    assert y.dtype == np.float16 and y[0, 0].tolist() == [300, 300]
    assert weights is None or (weights.dtype == np.float16 and weights[0, 0].tolist() == [1, 0])


@pytest.mark.parametrize("dtypes", ["ffd f", "edd e", "fff d", "eff e", "dff f"])
def test_both_forms_compute_in_the_dtype_that_their_arguments_share(dtypes):
    *of_qkv, _, of_mask = dtypes
    q, k, v = (rng.standard_normal(s).astype(t) for s, t in zip(SHAPES, of_qkv, strict=True))
    mask = rng.standard_normal(MASK.shape).astype(of_mask)
    plain, blocks = (attention(q, k, v, mask, block_size=size) for size in (None, 4))
    assert plain.dtype == blocks.dtype == np.result_type(q, k, v, mask)
    np.testing.assert_allclose(plain, blocks, atol=20 * np.finfo(plain.dtype).eps)


@pytest.mark.parametrize("block_size", [None, 4])
def test_a_scale_that_is_a_tensor_has_a_gradient_in_both_forms(block_size):
    q, k, v = (rng.standard_normal(s) for s in SHAPES)
    assert gradcheck(lambda s: attention(q, k, v, scale=s, block_size=block_size), np.array(0.4))


@pytest.mark.parametrize("block_size", [None, 4])
def test_a_scale_of_numpys_widens_no_result(block_size):
    q, k, v = (rng.standard_normal(s).astype(np.float32) for s in SHAPES)
    assert attention(q, k, v, scale=np.float64(0.5), block_size=block_size).dtype == np.float32


@pytest.mark.parametrize("block_size", [None, 4])
def test_queries_without_features_take_all_values_alike(block_size):
    q, k, v = np.ones((2, 0)), np.ones((3, 0)), rng.standard_normal((3, 5))
    y = attention(q, k, v, block_size=block_size)
    np.testing.assert_allclose(y, np.broadcast_to(v.mean(0), (2, 5)), rtol=1e-14)
