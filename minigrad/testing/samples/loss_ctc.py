"""Samples of the CTC loss: repeated labels, empty targets, padding, impossible alignments."""

from itertools import product

import numpy as np

from ...engine.registry import op
from ..spec import ErrorSample, Point, Sample, register_op
from .forms import REAL, normal


def _collapsed(path, blank):
    """A path with repeats merged and blanks removed: the target it spells."""
    merged = [c for i, c in enumerate(path) if i == 0 or path[i - 1] != c]
    return [c for c in merged if c != blank]


def _spelling(x, target, blank):
    """(path, its probability) of all paths through x (T, C) that spell the target."""
    for path in product(range(x.shape[1]), repeat=len(x)):  # tries each path
        if _collapsed(path, blank) == list(target):
            yield path, np.exp(sum(x[t, c] for t, c in enumerate(path)))


def _probability(x, target, blank):
    return sum(p for _, p in _spelling(x, target, blank))


def _split(targets, lengths):
    if targets.ndim == 2:
        return [row[:n] for row, n in zip(targets, lengths, strict=True)]
    return np.split(targets, np.cumsum(lengths)[:-1])


def _losses(x, targets, frames, lengths, blank):
    with np.errstate(divide="ignore"):
        return -np.log([
            _probability(x[:n, i].astype(float), target, blank)
            for i, (n, target) in enumerate(zip(frames, _split(targets, lengths), strict=True))
        ])  # fmt: skip


def _ctc_loss(x, targets, frames, lengths, blank=0, reduction="mean", zero_infinity=False):
    if x.ndim == 2:
        single = _ctc_loss(
            x[:, None], targets[None], np.atleast_1d(frames), np.atleast_1d(lengths), blank,
            reduction, zero_infinity,
        )  # fmt: skip
        return single[0] if reduction == "none" else single
    y = _losses(x, targets, frames, lengths, blank)
    y = np.where(y == np.inf, 0, y) if zero_infinity else y
    if reduction == "mean":
        y = (y / np.maximum(lengths, 1)).mean()
    return np.asarray(y.sum() if reduction == "sum" else y).astype(x.dtype)


TARGETS = np.array([[1, 2, 1], [2, 2, 1], [1, 1, 1]])
FRAMES, LENGTHS = np.array([5, 4, 3]), np.array([3, 2, 0])
CASES = [
    (5, TARGETS, FRAMES, LENGTHS, {}),
    (5, TARGETS, FRAMES, LENGTHS, {"reduction": "none"}),
    (5, np.array([1, 2, 1, 2, 2]), FRAMES, LENGTHS, {"reduction": "sum"}),
    (5, np.array([[0, 1, 0], [1, 1, 0], [2, 2, 2]]), FRAMES, LENGTHS, {"blank": 2}),
    (3, np.array([[1, 1, 2]]), np.array([3]), np.array([1]), {"zero_infinity": True}),
]


def _loss_samples(rng, dtype):
    for t, targets, frames, lengths, params in CASES:
        x = normal(rng, dtype, (t, len(frames), 3))
        yield Sample(f"{targets.shape} {params}", (x, targets, frames, lengths), params)
    x = normal(rng, dtype, (4, 3))
    alone = (x, np.array([2, 2]), np.array(4), np.array(2))
    yield Sample("one sample", alone, {})
    yield Sample("one sample, none", alone, {"reduction": "none"})


def _error(name, match, error=ValueError, **changed):
    given = {
        "x": np.zeros((5, 3, 3)), "targets": TARGETS, "frames": FRAMES, "lengths": LENGTHS,
    } | changed  # fmt: skip
    params = {k: given.pop(k) for k in ("blank", "reduction") if k in given}
    return ErrorSample(name, tuple(given.values()), error, match, params)


_CHECKED = "labels and lengths must fit the array, which the size matrix changes"
_ENUMERATED = "the reference adds probabilities, where inf and NaN in unused places count as well"
_ABOVE = "numbers above 0 are no logarithms of probabilities"
_PATHS = "the change of the shares of all paths is a difference of two passes' sums"
_NO_PATH = (np.zeros((2, 1, 3)), np.array([[1, 1]]), np.array([2]), np.array([2]))
register_op(
    "ctc_loss",
    _loss_samples,
    reference=_ctc_loss,
    dtypes=REAL,
    skips={"K17": _CHECKED, "K12": _ENUMERATED, "K31": _ABOVE},
    tails=_PATHS,
    errors=[
        _error("label out of range", r"labels from 1 to 3, but log_probs \(5, 3, 3\) has 3 classes",
               targets=TARGETS + (TARGETS == 2)),
        _error("negative label", r"labels from -1 to 1, .* a label must lie in 0\.\.2",
               targets=np.array([[1, -1, 1], [1, 1, 1], [1, 1, 1]])),
        _error("blank in a target", "targets holds blank=1, which is not a label", blank=1),
        _error("blank out of range", r"blank=3 must be a class, 0\.\.2", blank=3),
        _error("too many frames", "input_lengths has 6, but .* has 5 time steps",
               frames=FRAMES + 1),
        _error("target_lengths too long", "L at least the largest of target_lengths, 4",
               lengths=LENGTHS + 1),
        _error("negative length", "target_lengths must be 0 or more, got -1", lengths=LENGTHS - 1),
        _error("one length too few", r"input_lengths must have shape \(3,\).*got \(2,\)",
               frames=FRAMES[:2]),
        _error("concatenated targets", "must hold the sum of target_lengths, 5 labels",
               targets=np.ones(4, int)),
        _error("axes", r"log_probs must hold floats \(T, N, C\).*float64 \(3,\)", x=np.zeros(3)),
        _error("fractions", "input_lengths must hold integers", TypeError, frames=FRAMES * 1.0),
        _error("reduction", "ctc_loss: reduction must be", reduction="avg"),
    ],
    points=[
        Point("no alignment fits", _NO_PATH, np.inf, (np.zeros((2, 1, 3)),)),
        Point("no alignment fits, zero_infinity", _NO_PATH, 0.0, (np.zeros((2, 1, 3)),),
              {"zero_infinity": True}),
        Point("a class that cannot be",
              (np.array([[[-np.inf, 0.0, -np.inf]]]), np.array([[1]]), np.array([1]),
               np.array([1])), 0.0, ([[[0.0, -1.0, 0.0]]],)),
        Point("no frames and an empty target",
              (np.zeros((1, 1, 2)), np.zeros((1, 0), int), np.array([0]), np.array([0])), 0.0,
              (np.zeros((1, 1, 2)),)),
    ],
)  # fmt: skip


# -- the primitives --------------------------------------------------------------------------


def _states(targets, frames, lengths, shape, blank):
    rows = []
    width = 2 * lengths.max() + 1
    for target in _split(targets, lengths):
        row = [blank] + [c for label in target for c in (label, blank)]
        rows.append(row + [blank] * (width - len(row)))
    return np.array(rows), frames, lengths


def _prepared(rng, dtype):
    """(x, labels, frames, lengths)"""
    x = normal(rng, dtype, (5, 3, 3))
    yield (x, *_states(TARGETS, FRAMES, LENGTHS, None, 0))
    yield (x[:, :1], *_states(np.array([1, 1]), FRAMES[:1], np.array([2]), None, 0))


register_op(
    "ctc_states",
    lambda rng, dtype: iter(
        [
            Sample("padded", (TARGETS, FRAMES, LENGTHS), {"shape": (5, 3, 3), "blank": 0}),
            Sample("blank 3", (TARGETS, FRAMES, LENGTHS), {"shape": (5, 3, 4), "blank": 3}),
        ]
    ),
    reference=_states,
    dtypes=("float64",),
    differentiable=False,
    skips={"K17": _CHECKED},
)


def _terms_samples(rng, dtype):
    for args in _prepared(rng, dtype):
        yield Sample(f"{args[1].shape}", args)


def _terms(x, labels, frames, lengths):
    targets = labels[:, 1::2]
    return _losses(x, targets, frames, lengths, 0).astype(x.dtype)


register_op(
    "ctc_terms", _terms_samples, reference=_terms, dtypes=REAL,
    skips={"K17": _CHECKED}, tails=_PATHS,
)  # fmt: skip


def _dx_samples(rng, dtype):
    for x, *states in _prepared(rng, dtype):
        yield Sample(f"{x.shape}", (normal(rng, dtype, x.shape[1:2]), x, *states))


def _dx(a, x, labels, frames, lengths):
    """ctc_dx with the α of this x, which the op takes as a constant."""
    _, alpha = op.ctc_terms.forward(_plain(x), labels, frames, lengths)
    return op.ctc_dx(a, x, labels, frames, lengths, alpha)


def _plain(x):
    while hasattr(x, "node"):
        x = x.data
    return x


def _shares_of_paths(a, x, labels, frames, lengths):
    """−a times the share of the paths that go through each class at each time."""
    y = np.zeros(x.shape)
    for i, target in enumerate(_split(labels[:, 1::2], lengths)):
        paths = list(_spelling(x[: frames[i], i].astype(float), target, 0))
        total = sum(p for _, p in paths)
        for path, p in paths:
            y[range(len(path)), i, path] -= a[i] * p / total
    return y.astype(x.dtype)


register_op(
    "ctc_dx", _dx_samples, call=_dx, reference=_shares_of_paths, dtypes=REAL,
    skips={"K12": _ENUMERATED, "K17": _CHECKED, "K31": _ABOVE, "K32": _PATHS,
           "K23": "its samples compute α from plain arrays"},
)  # fmt: skip
