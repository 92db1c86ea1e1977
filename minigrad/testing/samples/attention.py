"""Samples of attention in both forms, of its gradients, and of rotary embedding."""

import numpy as np

from ...backends.dtypes import accumulator
from ...engine.registry import op
from ...ops.attention.composed import dropped, probabilities, transposed, visible
from ...ops.attention.drops import GOLDEN
from ...ops.axes import module_of
from ..spec import ErrorSample, Point, Sample, register_op
from .forms import COMPLEX, REAL, normal, of_several


def _require(q, k, v, a=None):
    """Equal leading axes, and the lengths that must agree."""
    fit = min(q.ndim, v.ndim) > 1 and v.shape[:-1] == k.shape[:-1]
    fit = fit and k.shape == (*q.shape[:-2], *k.shape[-2:-1], q.shape[-1])
    if not fit or (a is not None and a.shape != (*q.shape[:-1], v.shape[-1])):
        raise ValueError("shapes")


def _scores(q, k, mask, is_causal, scale):
    s = (scale * q) @ k.swapaxes(-1, -2)
    if is_causal:
        s = np.where(np.tri(*s.shape[-2:], dtype=bool), s, -np.inf)
    if mask is None:
        return s
    return np.where(mask, s, -np.inf) if mask.dtype.kind == "b" else s + mask


def _probabilities(s):
    top = s.max(-1, keepdims=True, initial=-np.inf)
    e = np.exp(s - np.where(top == -np.inf, 0, top))
    return e / np.maximum(e.sum(-1, keepdims=True), 1)  # 0 without a key


def _mixed(z):
    """SplitMix64's mixing, in Python's integers."""
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        z = (z ^ (z >> shift)) * factor % 2**64
    return z ^ (z >> 31)


def _is_kept(seed, row, column, p):
    start = _mixed((seed + (row + 1) * GOLDEN) % 2**64)
    return _mixed((start + (column + 1) * GOLDEN) % 2**64) >= min(round(p * 2**64), 2**64 - 1)


def _factors(seeds, shape, p):
    """Dropout's factors of the weights."""
    if seeds is None:
        return 1.0
    m = np.zeros((*seeds.shape[:-2], *shape[-2:]))
    for i in np.ndindex(m.shape):
        m[i] = _is_kept(int(seeds[(*i[:-2], 0, 0)]), *i[-2:], p) and 1 / (1 - p)
    return m


def _where_kept(x, m):
    return np.where(m == 0, 0, x * m)


def _attention(
    q, k, v, mask=None, seeds=None, *, is_causal=False, scale=None, block_size=None, dropout_p=0.0
):
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    p = _probabilities(_scores(q, k, mask, is_causal, scale))
    return (_where_kept(p, _factors(seeds, p.shape, dropout_p)) @ v).astype(q.dtype)


def _gradients(
    a, q, k, v, mask=None, seeds=None, *, is_causal=False, scale=1.0, block_size=None,
    dropout_p=0.0,
):  # fmt: skip
    _require(q, k, v, a)
    p = _probabilities(_scores(q, k, mask, is_causal, scale))
    m = _factors(seeds, p.shape, dropout_p)
    o = _where_kept(p, m) @ v
    dp = _where_kept(a @ v.swapaxes(-1, -2), m)
    ds = p * (dp - (a * o).sum(-1, keepdims=True)) * scale
    grads = ds @ k, ds.swapaxes(-1, -2) @ q, _where_kept(p, m).swapaxes(-1, -2) @ a
    if mask is None or mask.dtype.kind == "b":
        return grads
    over = tuple([i - ds.ndim for i in range(ds.ndim - mask.ndim)])
    dmask = (ds / scale).sum(over)
    return *grads, dmask.sum(-2, keepdims=True) if mask.shape[-2] == 1 else dmask


def _call_gradients(
    a, q, k, v, mask=None, seeds=None, *, is_causal=False, scale=1.0, block_size=None,
    dropout_p=0.0,
):  # fmt: skip
    """attention_grads with the forward's results for its arguments."""
    wide = accumulator(q.dtype) or q.dtype
    wq, wk, wv = (op.astype(x, dtype=wide) for x in (q, k, v))
    s = op.matmul(wq * scale, transposed(wk))
    if is_causal:
        s = op.where(visible(module_of(q), *s.shape[-2:]), s, -np.inf)
    if mask is not None:
        s = op.where(mask, s, -np.inf) if mask.dtype.kind == "b" else s + mask
    lse = op.logsumexp(s, axis=-1, keepdims=True)
    lse = op.where(lse == np.inf, np.nan, lse)  # ∞ − ∞, as in the forward
    lse = op.where(lse == -np.inf, np.inf, lse)
    weights = dropped(probabilities(wq, wk, mask, is_causal, scale), seeds, dropout_p)
    o = op.matmul(weights, wv)
    added = mask is not None and mask.dtype.kind != "b"
    *grads, dmask = op.attention_grads(
        a, q, k, v, mask, o, lse, seeds, is_causal=is_causal, scale=scale, block_size=block_size,
        mask_gradient=added, dropout_p=dropout_p,
    )  # fmt: skip
    return (*grads, dmask) if added else tuple(grads)


SHAPES = ((5, 4), (6, 4), (6, 3))  # q, k, v
SMALL = ((2, 2), (3, 2), (3, 2))
LED = tuple([(2, *shape) for shape in SHAPES])
HOW = {"scale": 0.5}
MASK = np.array(
    [[1, 1, 0, 1, 0, 1], [0, 0, 0, 0, 0, 0], [1, 0, 0, 0, 0, 0], [1, 1, 1, 1, 1, 1],
     [0, 1, 1, 0, 0, 1]], dtype=bool,
)  # fmt: skip
BLOCKED = [
    (SHAPES, HOW),
    (LED, {**HOW, "block_size": 2}),
    (LED, {**HOW, "block_size": 4, "is_causal": True}),
    ((*SHAPES, MASK), {**HOW, "block_size": 4}),
    ((*LED, MASK[:1]), {**HOW, "block_size": 3}),
    (SMALL, {**HOW, "block_size": 2}),
    ((*SHAPES, None, np.array([[7]])), {**HOW, "block_size": 4, "dropout_p": 0.4}),
    ((*LED, MASK, np.array([[[3]], [[9]]])), {**HOW, "block_size": 3, "dropout_p": 0.25}),
]
# The reference multiplies hidden keys by 0, and so passes on an infinity; skipped blocks do not.
# The causal sample here has no skipped block. tests/ops/test_attention.py has them.
GRADIENTS = [
    (arrays, {**how, "block_size": 8} if "is_causal" in how else how) for arrays, how in BLOCKED
]


def _with_added_mask(forms):
    """The forms, and one with an additive mask, partly −∞."""

    def samples(rng, dtype):
        yield from of_several(forms)(rng, dtype)
        arrays = [normal(rng, dtype, shape) for shape in forms[0][0]]
        added = np.where(MASK, normal(rng, np.float64, MASK.shape), -np.inf).astype(dtype)
        yield Sample("an added mask", (*arrays, added), {**HOW, "block_size": 4})

    return samples


def _masked_out():
    rng = np.random.default_rng(0)
    return tuple([rng.standard_normal(shape) for shape in SHAPES])


NOTHING_TAKEN = {
    "args": (*_masked_out(), np.zeros((5, 6), dtype=bool)),
    "value": np.zeros((5, 3)),
    "grads": tuple([np.zeros(shape) for shape in SHAPES]),
}


NO_KEY = (np.ones((5, 4)), np.ones((0, 4)), np.ones((0, 3)))


def _blocked(q, k, v, mask=None, seeds=None, **params):
    _require(q, k, v)
    return _attention(q, k, v, mask, seeds, **params)


_LOGITS = {"K31": "products of queries and keys overflow"}
_SCORES = {
    "K32": "P (dP − δ) is a difference of equals where one key takes all, right relative to dP"
}
_INFINITE = "a row of scores with +∞ is its limit in the plain form, NaN in blocks"
_MASKED = "a NaN among the values shows even with a weight of 0, as in PyTorch"
register_op(
    "attention",
    _with_added_mask(BLOCKED),
    nan_hidden=_MASKED,
    skips=_LOGITS | _SCORES,
    reference=_blocked,
    dtypes=REAL,
    points=[
        Point("no key may be taken", params={**HOW, "block_size": 4}, **NOTHING_TAKEN),
        Point("no key", NO_KEY, np.zeros((5, 3)), tuple([np.zeros(x.shape) for x in NO_KEY]), HOW),
    ],
)
register_op(
    "attention_grads",
    of_several(
        [((arrays[0][:-1] + arrays[2][-1:], *arrays), how) for arrays, how in GRADIENTS]
        + [(((2, 5, 3), *LED, mask), {**HOW, "block_size": 3}) for mask in ((5, 6), (1, 6))]
    ),
    call=_call_gradients,
    nan_hidden=_MASKED,
    skips=_SCORES,
    reference=_gradients,
    dtypes=REAL,
)


register_op(
    "attention_kept",
    of_several(
        [((np.array([[[3]], [[9]]]),), {"queries": 3, "keys": 4, "p": p}) for p in (0.3, 1.0)]
    ),
    reference=lambda seeds, queries, keys, p: _factors(seeds, (queries, keys), p) > 0,
    dtypes=("float64",),
    differentiable=False,
    skips={"K17": "seeds are one number for each matrix"},
)
register_op(
    "attention_seeds",
    of_several([(SHAPES, {}), (SHAPES, {"shared": (0,)})]),
    call=lambda q, k, v, shared=(): op.attention_seeds(q, k, v, shared=shared) * 0,
    reference=lambda q, k, v, shared=(): np.zeros((*q.shape[:-2], 1, 1), int),
    dtypes=("float64",),
    differentiable=False,
)


def _public(rng, dtype):
    yield from of_several(
        [
            (SHAPES, {}),
            (LED, {"is_causal": True}),
            ((SHAPES[0], LED[1], (3, 1, *SHAPES[2])), {"scale": 0.3}),
            ((SHAPES[0], LED[1], (3, 1, *SHAPES[2])), {"block_size": 4}),
            ((*LED, MASK), {}),
            ((*LED, MASK), {"block_size": 2}),
            ((*LED, (5, 6)), {}),
            ((*LED, (1, 6)), {"block_size": 2}),
            (LED, {"is_causal": True, "block_size": 2}),
            (((3, 2), (3, 2, 4, 2), (3, 2, 4, 3)), {"block_size": 4}),
            (((0, 4), (6, 4), (6, 3)), {}),
            (SMALL, {}),
            (SMALL, {"block_size": 1}),
            (((4, 3, 2), (2, 5, 2), (2, 5, 3)), {"enable_gqa": True}),
        ]
    )(rng, dtype)


def _wrong(name, match, q=(5, 4), k=(6, 4), v=(6, 3), mask=None, error=ValueError, **params):
    args = (np.ones(q), np.ones(k), np.ones(v), *([] if mask is None else [mask]))
    return ErrorSample(name, args, error, match, params)


def _call(q, k, v, mask=None, **params):
    return op.scaled_dot_product_attention(q, k, v, mask, **params)


def _grouped(q, k, v, mask=None, *, enable_gqa=False, **params):
    if enable_gqa:
        if min(q.ndim, k.ndim, v.ndim) < 3 or any(q.shape[-3] % x.shape[-3] for x in (k, v)):
            raise ValueError("heads")
        k, v = (np.repeat(x, q.shape[-3] // x.shape[-3], -3) for x in (k, v))
    return _attention(q, k, v, mask, **params)


register_op(
    "scaled_dot_product_attention",
    _public,
    call=_call,
    nan_alone=_INFINITE,
    nan_hidden=_MASKED,
    reference=_grouped,
    skips=_LOGITS,
    tails_but={"block_size": _SCORES["K32"]},
    dtypes=REAL,
    points=[
        Point("no key may be taken", **NOTHING_TAKEN),
        Point("no key may be taken, in blocks", params={"block_size": 2}, **NOTHING_TAKEN),
    ],
    errors=[
        _wrong("dropout", "dropout_p is a probability, from 0 to 1; got 1.5", dropout_p=1.5),
        _wrong("block_size", "block_size must be an int ≥ 1, or None; got 0", block_size=0),
        _wrong("features", r"same number of features; got q \(5, 4\), k \(6, 3\)", k=(6, 3)),
        _wrong("lengths", r"k and v must have the same length.*v \(7, 3\)", v=(7, 3)),
        _wrong("lead", "leading axes must broadcast", q=(2, 5, 4), k=(3, 6, 4)),
        _wrong("vector", r"q must be a floating array .*float64 \(4,\)", q=(4,)),
        _wrong("mask", r"attn_mask \(5, 5\) must broadcast against the scores \(5, 6\)",
               mask=np.ones((5, 5), bool)),
        _wrong("mask and causal", "not both", mask=MASK, is_causal=True),
        _wrong("integer mask", "boolean .* or floating", mask=np.ones((5, 6), int),
               error=TypeError),
    ],
)  # fmt: skip


# -- heads ---------------------------------------------------------------------------------------


def _split_heads(x, *, heads, time=0):
    if x.shape[2] % (3 * heads):
        raise ValueError("shapes")
    x = x if time else x.swapaxes(0, 1)
    parts = np.split(x, 3, -1)
    n, length, d = x.shape[0], x.shape[1], x.shape[2] // (3 * heads)
    y = [np.empty((n, heads, length, d), x.dtype) for _ in parts]
    for i, part in enumerate(parts):
        for h in range(heads):
            y[i][:, h] = part[..., h * d : (h + 1) * d]
    return tuple(y)


def _join_heads(q, k, v, *, time=0):
    if q.ndim != 4 or not q.shape == k.shape == v.shape:
        raise ValueError("shapes")
    x = np.concatenate([x[:, h] for x in (q, k, v) for h in range(x.shape[1])], -1)
    return x if time else x.swapaxes(0, 1)


register_op(
    "split_heads",
    of_several([(((2, 1, 6),), {"heads": 2}), (((1, 3, 6),), {"heads": 1, "time": 1})]),
    reference=_split_heads,
    dtypes=COMPLEX,
    errors=[
        ErrorSample(
            "heads", (np.ones((2, 1, 6)),), ValueError, r"heads=4; got \(2, 1, 6\)", {"heads": 4}
        ),
    ],
)
register_op(
    "join_heads",
    of_several([(((1, 2, 2, 1),) * 3, {}), (((2, 1, 1, 2),) * 3, {"time": 1})]),
    reference=_join_heads,
    dtypes=COMPLEX,
    errors=[
        ErrorSample("shapes", (np.ones((1, 2, 3, 4)), np.ones((1, 2, 3, 4)), np.ones((1, 2, 3, 5))),
                    ValueError, r"one shape \(N, heads, L, d\)"),
    ],
)  # fmt: skip


def _self_attention(x, *, heads, scale, time=0, is_causal=False):
    y = _attention(*_split_heads(x, heads=heads, time=time), scale=scale, is_causal=is_causal)
    y = np.concatenate([y[:, h] for h in range(heads)], -1)
    return y if time else y.swapaxes(0, 1)


register_op(
    "self_attention",
    of_several(
        [
            (((3, 1, 6),), {"heads": 2, "scale": 0.7}),
            (((3, 2, 12),), {"heads": 2, "scale": 0.7}),
            (((2, 4, 6),), {"heads": 1, "scale": 1.0, "time": 1, "is_causal": True}),
        ]
    ),
    skips=_LOGITS | _SCORES,
    nan_alone=_INFINITE,
    reference=_self_attention,
    dtypes=REAL,
    errors=[
        ErrorSample("heads", (np.ones((2, 1, 6)),), ValueError, r"heads=4; got \(2, 1, 6\)",
                    {"heads": 4, "scale": 1.0}),
    ],
)  # fmt: skip


# -- rotary --------------------------------------------------------------------------------------


def _rotary(x, *, positions=None, base=10000.0, interleaved=False, cos=None, sin=None):
    if (size := x.shape[-1]) % 2:
        raise ValueError("pairs")
    positions = np.arange(x.shape[-2]) if positions is None else positions
    angles = positions[..., None] * base ** (-np.arange(0, size, 2) / size)
    y, c, s = np.empty_like(x), *((np.cos(angles), np.sin(angles)) if cos is None else (cos, sin))
    for i in range(size // 2):
        first, second = (2 * i, 2 * i + 1) if interleaved else (i, i + size // 2)
        y[..., first] = x[..., first] * c[..., i] - x[..., second] * s[..., i]
        y[..., second] = x[..., first] * s[..., i] + x[..., second] * c[..., i]
    return y


_TURNS = {"cos": np.array([[0.6, 1], [0, 0.8]]), "sin": np.array([[0.8, 0], [1, 0.6]])}
register_op(
    "rotary",
    of_several(
        [
            (((5, 4),), {}),
            (((2, 3, 6),), {"interleaved": True}),
            (((3, 2),), {"positions": np.array([4, 0, 7]), "base": 100.0}),
            (((2, 4),), _TURNS),
            (((2, 3, 4),), {"positions": np.array([[4, 0, 7], [1, 2, 3]])}),
            (((2, 3, 4),), {"positions": np.array([[4], [1]])}),
        ]
    ),
    reference=_rotary,
    dtypes=REAL,
    errors=[
        ErrorSample("odd", (np.ones((2, 3)),), ValueError, r"even d.*float64 \(2, 3\)"),
        ErrorSample("positions", (np.ones((3, 4)),), ValueError,
                    r"positions \(2,\) must broadcast against x's", {"positions": np.arange(2)}),
        ErrorSample("cos alone", (np.ones((2, 4)),), ValueError, "both cos and sin",
                    {"cos": np.ones((2, 2))}),
        ErrorSample("cos", (np.ones((2, 4)),), ValueError, r"each pair of features, 2 of x",
                    {"cos": np.ones((2, 3)), "sin": np.ones((2, 3))}),
    ],
)  # fmt: skip
