"""Attention layers: PyTorch's state, layouts, masks, values and gradients."""

import numpy as np
import pytest

import minigrad as mg
from minigrad import nn

rng = np.random.default_rng(0)
N, L, S, E, HEADS = 3, 5, 4, 8, 2
PADDING = np.arange(S) >= np.array([[4], [3], [2]])
CASES = {
    "weights": {},
    "no weights": {"need_weights": False},
    "weights of each head": {"average_attn_weights": False},
    "boolean mask": {"attn_mask": np.arange(S) > np.arange(L)[:, None]},
    "added mask": {"attn_mask": rng.standard_normal((L, S)), "need_weights": False},
    "mask of each head": {"attn_mask": rng.standard_normal((N * HEADS, L, S))},
    "padding": {"key_padding_mask": PADDING},
    "padding and mask": {
        "key_padding_mask": PADDING, "attn_mask": np.arange(S) > 1 + np.arange(L)[:, None],
        "need_weights": False,
    },
}  # fmt: skip


def pair(kind, *args, **params):
    """The layer of minigrad and that of PyTorch, with the same state, in double precision."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    theirs = getattr(torch.nn, kind)(*args, **params, dtype=torch.float64)
    ours = getattr(nn, kind)(*args, **params, dtype=np.float64)
    ours.load_state_dict({k: v.numpy() for k, v in theirs.state_dict().items()})
    return ours, theirs, torch


def compare(ours, theirs, torch, arrays, params):
    """Values, and the gradients of arguments and parameters."""
    xs = [mg.tensor(x, requires_grad=True) for x in arrays]
    ts = [torch.tensor(x, requires_grad=True) for x in arrays]
    peers = {k: torch.tensor(v) if isinstance(v, np.ndarray) else v for k, v in params.items()}
    y, z = ours(*xs, **params), theirs(*ts, **peers)
    y, z = (r if isinstance(r, tuple) else (r,) for r in (y, z))
    for a, b in zip(y, z, strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            np.testing.assert_allclose(a.numpy(), b.detach().numpy(), rtol=1e-10, atol=1e-12)
    v = rng.standard_normal(y[0].shape)
    y[0].backward(v)
    z[0].backward(torch.tensor(v))
    for p, q in [*zip(xs, ts), *zip(ours.parameters(), theirs.parameters(), strict=True)]:
        np.testing.assert_allclose(p.grad.numpy(), q.grad.numpy(), rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("case", CASES)
def test_multihead_attention_is_pytorch_s(case, batch_first):
    shapes = [(n, N, E) for n in (L, S, S)]
    arrays = [rng.standard_normal(s[1::-1] + s[2:] if batch_first else s) for s in shapes]
    layers = pair("MultiheadAttention", E, HEADS, batch_first=batch_first)
    compare(*layers, arrays, CASES[case])


@pytest.mark.parametrize(
    "options",
    [
        {"kdim": 6, "vdim": 10}, {"kdim": 6, "bias": False}, {"add_bias_kv": True},
        {"add_zero_attn": True}, {"add_bias_kv": True, "add_zero_attn": True, "vdim": 4},
    ],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("case", CASES)
def test_other_sizes_and_more_keys_are_pytorch_s(case, options):
    layers = pair("MultiheadAttention", E, HEADS, **options)
    sizes = E, options.get("kdim", E), options.get("vdim", E)
    arrays = [rng.standard_normal((n, N, e)) for n, e in zip((L, S, S), sizes)]
    compare(*layers, arrays, CASES[case])


def test_state_names_are_pytorch_s():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    for options in ({}, {"kdim": 6}, {"add_bias_kv": True}, {"bias": False, "vdim": 4}):
        theirs = torch.nn.MultiheadAttention(E, HEADS, **options).state_dict()
        ours = nn.MultiheadAttention(E, HEADS, **options).state_dict()
        assert {k: v.shape for k, v in ours.items()} == {k: v.shape for k, v in theirs.items()}


@pytest.mark.parametrize("options", [{}, {"add_bias_kv": True}, {"add_zero_attn": True}])
def test_is_causal_leaves_the_added_keys_to_every_query(options):
    layer, x = nn.MultiheadAttention(E, HEADS, **options), rng.standard_normal((L, N, E))
    x = mg.tensor(x, np.float32)
    mask = np.triu(np.ones((L, L), bool), 1)
    expected, _ = layer(x, x, x, attn_mask=mask)
    y, weights = layer(x, x, x, is_causal=True)
    np.testing.assert_allclose(y.numpy(), expected.numpy(), rtol=1e-5, atol=1e-6)
    assert (weights.numpy()[..., L:] > 0).all()


def test_dropout_is_the_same_with_and_without_weights():
    layer, x = nn.MultiheadAttention(E, HEADS, dropout=0.5), mg.randn(L, N, E)
    ys = []
    for need in (True, False):
        mg.manual_seed(1)
        ys.append(layer(x, x, x, need_weights=need)[0].numpy())
    np.testing.assert_allclose(*ys, rtol=1e-5, atol=1e-6)
    assert (layer.eval()(x, x, x)[0].numpy() != ys[0]).any()


@pytest.mark.parametrize(
    "shapes, match",
    [
        (((5, 3, 7), (4, 3, 8), (4, 3, 8)), r"query must be .* E = embed_dim = 8, .*\(5, 3, 7\)"),
        (((5, 3, 8), (4, 3, 7), (4, 3, 8)), r"key must be .* E = kdim = 8"),
        (((5, 3, 8), (4, 3, 8), (6, 3, 8)), r"same length and batch; got \(4, 3, 8\) and \(6, 3"),
        (((5, 3, 8), (4, 2, 8), (4, 2, 8)), r"same batch size, in axis 1 with batch_first=False"),
    ],
)
def test_arrays_that_do_not_belong_together_are_named(shapes, match):
    layer = nn.MultiheadAttention(E, HEADS)
    with pytest.raises(ValueError, match=f"MultiheadAttention: .*{match}"):
        layer(*[mg.zeros(shape) for shape in shapes])


@pytest.mark.parametrize("bias", [True, False])
def test_one_sequence_needs_no_batch_axis(bias):
    layers = pair("MultiheadAttention", E, HEADS, bias=bias)
    compare(*layers, [rng.standard_normal((n, E)) for n in (L, S, S)], {})


def test_self_attention_with_is_causal_needs_no_mask():
    layer, x = nn.MultiheadAttention(E, HEADS), mg.tensor(rng.standard_normal((L, N, E)))
    mask = np.triu(np.ones((L, L), bool), 1)
    expected, weights = layer(x, x, x, attn_mask=mask)
    for need in (True, False):
        y, _ = layer(x, x, x, need_weights=need, is_causal=True)
        np.testing.assert_allclose(y.numpy(), expected.numpy(), rtol=1e-6)
    assert not weights.numpy()[:, mask].any()


@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_a_transformer_layer_is_pytorch_s(norm_first, activation):
    layers = pair(
        "TransformerEncoderLayer", E, HEADS, 16, dropout=0.0, norm_first=norm_first,
        activation=activation,
    )  # fmt: skip
    compare(*layers, [rng.standard_normal((L, N, E))], {})


def test_dropout_acts_in_training_alone():
    layer = nn.TransformerEncoderLayer(E, HEADS, 16, dropout=0.5)
    x = mg.tensor(rng.standard_normal((L, N, E)), dtype=np.float32)
    assert (layer(x).numpy() != layer(x).numpy()).any()
    layer.eval()
    np.testing.assert_array_equal(layer(x).numpy(), layer(x).numpy())


def test_errors_name_the_argument_and_the_rule():
    with pytest.raises(ValueError, match="num_heads=3 must divide embed_dim=8"):
        nn.MultiheadAttention(8, 3)
    layer, x = nn.MultiheadAttention(E, HEADS), mg.ones(L, N, E)
    with pytest.raises(ValueError, match=r"key must be .*kdim = 8.*\(5, 3, 7\)"):
        layer(x, mg.ones(L, N, 7), x)
    with pytest.raises(ValueError, match=r"attn_mask must be \(L, S\) = \(5, 5\)"):
        layer(x, x, x, attn_mask=np.ones((4, 5), bool))
    with pytest.raises(ValueError, match=r"key_padding_mask must be \(N, S\) = \(3, 5\)"):
        layer(x, x, x, key_padding_mask=np.ones((5, 3), bool))


@pytest.mark.parametrize("which", ["attn_mask", "key_padding_mask"])
@pytest.mark.parametrize("need_weights", [True, False])
def test_a_mask_of_whole_numbers_is_refused(which, need_weights):
    x, layer = mg.ones(3, 2, 4, dtype="float32"), nn.MultiheadAttention(4, 2)
    mask = mg.zeros(2, 3, dtype=int) if which == "key_padding_mask" else mg.zeros(3, 3, dtype=int)
    with pytest.raises(TypeError, match=r"boolean \(True: left out\) or floating .*got int64"):
        layer(x, x, x, need_weights=need_weights, **{which: mask})


@pytest.mark.parametrize("dropout", [-0.1, 1.5, float("nan")])
def test_a_dropout_that_is_no_probability_is_refused(dropout):
    with pytest.raises(ValueError, match="MultiheadAttention: dropout is a probability"):
        nn.MultiheadAttention(E, HEADS, dropout=dropout)


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("dtype", [np.float16, np.float32], ids=str)
def test_a_mask_of_another_dtype_changes_neither_precision_nor_dtype(dtype, need_weights):
    layer = nn.MultiheadAttention(E, HEADS, dtype=dtype)
    x = (300 * rng.standard_normal((L, N, E))).astype(dtype)  # q kᵀ is beyond 65504
    later = np.arange(L) > np.arange(L)[:, None]
    exact, _ = layer(*[mg.tensor(x)] * 3, attn_mask=later, need_weights=need_weights)
    for mask in (np.where(later, -np.inf, 0).astype(t) for t in (np.float16, "f4", "f8")):
        y, weights = layer(*[mg.tensor(x)] * 3, attn_mask=mask, need_weights=need_weights)
        assert y.dtype == dtype and (weights is None or weights.dtype == dtype)
        np.testing.assert_allclose(y.numpy(), exact.numpy(), rtol=2e-3, atol=0.3)
        y, _ = layer(
            *[mg.tensor(x)] * 3, attn_mask=mask, key_padding_mask=np.zeros((N, L), bool),
            need_weights=need_weights,
        )  # fmt: skip
        assert y.dtype == dtype
        np.testing.assert_allclose(y.numpy(), exact.numpy(), rtol=2e-3, atol=0.3)


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("added", [False, True])
@pytest.mark.parametrize("padded", [False, True])
def test_a_causal_query_takes_no_later_key_beside_other_masks(added, padded, need_weights):
    layer, x = nn.MultiheadAttention(E, HEADS, dtype=float), mg.tensor(rng.normal(size=(L, N, E)))
    hidden = np.zeros((L, L), bool)
    hidden[2:, 1] = True  # of a key that is not later
    later = np.arange(L) > np.arange(L)[:, None]
    options = {"need_weights": need_weights}
    if padded:
        options["key_padding_mask"] = np.arange(L) >= np.array([[L], [3], [2]])
    mask = np.where(hidden, -np.inf, 0.0) if added else hidden
    y, weights = layer(x, x, x, attn_mask=mask, is_causal=True, **options)
    expected, others = layer(x, x, x, attn_mask=hidden | later, **options)
    np.testing.assert_allclose(y.numpy(), expected.numpy(), atol=1e-12)
    if need_weights:
        np.testing.assert_allclose(weights.numpy(), others.numpy(), atol=1e-12)
