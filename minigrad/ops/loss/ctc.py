"""Connectionist temporal classification: A. Graves et al., ICML 2006.

A target l of L labels is read as the states blank, l_1, blank, l_2 … l_L, blank: S = 2L + 1 of
them. A path starts in one of the first two states and ends in one of the last two. At each step it
stays, goes on by one, or skips a blank between two different labels. With e_t(s) = x_t of the label
of state s, and sums in log space,

    α_t(s) = e_t(s) + log Σ_k exp α_{t−1}(s − k)            k = 0, 1, and 2 where that is allowed
    β_t(s) = log Σ_k exp (β_{t+1}(s + k) + e_{t+1}(s + k))
    log Z = log Σ_s exp(α_t(s) + β_t(s)) at any t,    γ_t(s) = exp(α_t(s) + β_t(s) − log Z)

The loss is −log Z and γ, the probability of being in s at time t, is minus its gradient in e.
The recursions run over time and are vectorised over samples and states. They are written once:
on arrays for the loss and its gradient, on tensors where a derivative is differentiated again.
"""

from typing import Any

import numpy as np

from ...engine.primitive import primitive
from ...engine.registry import op
from ...modes.autocast import in_float32
from ...tensor_api.composite import composite
from ..axes import array_beside, array_like, module_of, widen
from ..batching import apart, full, merged
from .reduction import check_reduction

__all__ = ["ctc_loss"]


# -- what paths there are ----------------------------------------------------------------------


@primitive(differentiable=False, outputs=3)
def ctc_states(targets, input_lengths, target_lengths, *, shape, blank):
    """(labels (N, S), frames (N,), lengths (N,)): the states of each sample, and checked lengths.

    shape: (T, N, C) of the log-probabilities. targets (N, L), or all targets one after the other.
    Samples with a shorter target have further blanks behind their states, which no path enters.
    """
    frames_given, samples, classes = shape
    if not 0 <= blank < classes:
        raise ValueError(f"blank={blank} must be a class, 0..{classes - 1} of log_probs {shape}")
    frames = _lengths("input_lengths", input_lengths, samples)
    lengths = _lengths("target_lengths", target_lengths, samples)
    if frames.size and int(frames.max()) > frames_given:
        raise ValueError(
            f"input_lengths has {int(frames.max())}, but log_probs {shape} has {frames_given} "
            "time steps"
        )
    width = int(lengths.max()) if lengths.size else 0
    within = module_of(targets).arange(width) < lengths[:, None]
    chosen = _checked_targets(targets, lengths, within, samples)
    if chosen.size and not (0 <= int(chosen.min()) and int(chosen.max()) < classes):
        raise ValueError(
            f"targets has labels from {int(chosen.min())} to {int(chosen.max())}, but log_probs "
            f"{shape} has {classes} classes: a label must lie in 0..{classes - 1}"
        )
    if (chosen == blank).any():
        raise ValueError(
            f"targets holds blank={blank}, which is not a label; choose another blank, or "
            "other labels"
        )
    rows = np.zeros_like(lengths, shape=(samples, width)) + blank
    rows[within] = chosen
    labels = np.zeros_like(lengths, shape=(samples, 2 * width + 1)) + blank
    labels[:, 1::2] = rows
    return labels, frames, lengths


ctc_states.called = "ctc_loss"


def _lengths(name: str, given: Any, samples: int) -> Any:
    if given.dtype.kind not in "iu" and given.size:
        raise TypeError(f"{name} must hold integers, got {given.dtype}")
    if given.shape != (samples,):
        raise ValueError(f"{name} must have shape ({samples},), one a sample, got {given.shape}")
    if given.size and int(given.min()) < 0:
        raise ValueError(f"{name} must be 0 or more, got {int(given.min())}")
    return given.astype(np.intp)


def _checked_targets(targets: Any, lengths: Any, within: Any, samples: int) -> Any:
    """The labels of all targets, one after the other."""
    if targets.dtype.kind not in "iu" and targets.size:
        raise TypeError(f"targets must hold integers, got {targets.dtype}")
    total, width = int(lengths.sum()), within.shape[1]
    if targets.ndim == 1:
        if targets.size != total:
            raise ValueError(
                f"targets {targets.shape}, one after the other, must hold the sum of "
                f"target_lengths, {total} labels"
            )
        return targets
    if targets.ndim != 2 or targets.shape[0] != samples or targets.shape[1] < width:
        raise ValueError(
            f"targets must be (N, L) with N = {samples} and L at least the largest of "
            f"target_lengths, {width}, or 1-d; got {targets.shape}"
        )
    return targets[:, :width][within]


def _may_skip(labels: Any) -> Any:
    """Where a path may come from two states before: to a label that differs from the last one."""
    two_before = np.concatenate((labels[:, :2], labels[:, :-2]), axis=1)
    return labels != two_before[:, : labels.shape[1]]


def _ends(labels: Any, lengths: Any) -> Any:
    """The last two states of each sample, (N, S)."""
    state = module_of(labels).arange(labels.shape[1])
    last = 2 * lengths[:, None]
    return (state == last) | (state == last - 1)


# -- the recursions, on arrays and on tensors ----------------------------------------------------


def _moved(x: Any, k: int, fill: float) -> Any:
    """x_{s−k} at the place of state s (the last axis), `fill` where there is none."""
    if k == 0:
        return x
    rest, gap = x[..., : max(x.shape[-1] - k, 0)], x[..., :k]
    if k < 0:
        rest, gap = x[..., -k:], x[..., x.shape[-1] + k :] if x.shape[-1] > -k else x
    gap = np.full_like(gap, fill)
    return np.concatenate((gap, rest) if k > 0 else (rest, gap), axis=-1)


def _alphas(e: Any, skip: Any) -> Any:
    """α (T, N, S)."""
    first = module_of(e).arange(e.shape[-1]) < 2
    rows = []
    for t in range(e.shape[0]):
        if t == 0:
            rows.append(np.where(first, e[0], -np.inf))
            continue
        a = rows[-1]
        skipped = np.where(skip, _moved(a, 2, -np.inf), -np.inf)
        rows.append(np.logaddexp(np.logaddexp(a, _moved(a, 1, -np.inf)), skipped) + e[t])
    return np.stack(rows) if rows else e


def _betas(e: Any, skip: Any, ends: Any, frames: Any) -> Any:
    """β (T, N, S); −∞ behind a sample's last frame."""
    leave = _moved(skip, -2, False)
    rows: list = []
    for t in reversed(range(e.shape[0])):
        last = (frames == t + 1)[:, None] & ends
        b = np.where(last, 0, np.full_like(e[t], -np.inf))
        if rows:
            c = rows[-1] + e[t + 1]
            skipped = np.where(leave, _moved(c, -2, -np.inf), -np.inf)
            c = np.logaddexp(np.logaddexp(c, _moved(c, -1, -np.inf)), skipped)
            b = np.where(last, 0, c)
        rows.append(b)
    return np.stack(rows[::-1]) if rows else e


def _log_total(alpha: Any, ends: Any, frames: Any, lengths: Any) -> Any:
    """log Z (N,), from α at each sample's last frame; no frames spell the empty target alone."""
    empty = np.where(lengths == 0, 0.0, -np.inf)
    if not alpha.shape[0]:
        return op.astype(empty, dtype=alpha.dtype)
    place = np.maximum(frames - 1, 0)[None, :, None]
    final = np.where(ends, np.take_along_axis(alpha, place, 0)[0], -np.inf)
    return np.where(frames == 0, empty.astype(alpha.dtype), op.logsumexp(final, axis=-1))


def _finite(x: Any) -> Any:
    """x, with 0 for −∞: exp(−∞ − x) is then 0 rather than NaN."""
    return np.where(x == -np.inf, 0, x)


def _occupancy(e: Any, alpha: Any, labels: Any, ends: Any, frames: Any, lengths: Any) -> Any:
    """γ (T, N, S); 0 where no path fits."""
    total = _finite(_log_total(alpha, ends, frames, lengths))
    return np.exp(alpha + _betas(e, _may_skip(labels), ends, frames) - total[:, None])


def _curvature(e: Any, u: Any, labels: Any, frames: Any, lengths: Any) -> Any:
    """γ̇ (T, N, S): how the occupancies move when e moves along u.

    α̇_t(s) = u_t(s) + Σ_k p_k α̇_{t−1}(s − k), with p_k the probability of having come from there;
    β̇ likewise from behind;  γ̇ = γ (α̇ + β̇ − Σ_s γ (α̇ + β̇)).
    """
    if not e.shape[0]:
        return e
    skip, ends = _may_skip(labels), _ends(labels, lengths)
    alpha, beta = _alphas(e, skip), _betas(e, skip, ends, frames)
    came = [np.exp(_moved(alpha[:-1], k, -np.inf) + e[1:] - _finite(alpha[1:])) for k in range(3)]
    came[2] = np.where(skip, came[2], 0)
    ahead = beta[1:] + e[1:]
    goes = [np.exp(_moved(ahead, -k, -np.inf) - _finite(beta[:-1])) for k in range(3)]
    goes[2] = np.where(_moved(skip, -2, False), goes[2], 0)
    forward, backward = [u[0]], [np.zeros_like(u[0])]
    for t in range(1, e.shape[0]):
        a = forward[-1]
        forward.append(u[t] + sum(came[k][t - 1] * _moved(a, k, 0) for k in range(3)))
    for t in reversed(range(e.shape[0] - 1)):
        b = backward[-1] + u[t + 1]
        step = sum(goes[k][t] * _moved(b, -k, 0) for k in range(3))
        # a path that ends at t goes nowhere
        backward.append(np.where((frames == t + 1)[:, None] & ends, 0, step))
    moved = np.stack(forward) + np.stack(backward[::-1])
    gamma = _occupancy(e, alpha, labels, ends, frames, lengths)
    return gamma * (moved - op.sum(gamma * moved, axis=-1, keepdims=True))


def _emissions(x: Any, labels: Any) -> Any:
    """e_t(s), x (T, N, C) at the label of each state: (T, N, S)."""
    return np.take_along_axis(widen(x), labels[None], -1)


def _to_classes(gamma: Any, labels: Any, shape: tuple) -> Any:
    """γ (T, N, S) summed over the states of each class: (T, N, C)."""
    where = op.broadcast_to(labels[None], shape=gamma.shape)
    return op.add_along_axis(gamma, where, axis=-1, shape=tuple(shape))


# -- the ops -------------------------------------------------------------------------------------


@primitive(constants=["labels", "frames", "lengths"], residuals=["alpha"])
def ctc_terms(x, labels, frames, lengths):
    """y_n = −log Z of sample n, ∞ if no path fits ;  gx = −g γ summed over the states of a class

    x (T, N, C), the others as ctc_states gives them. Where no path fits, the gradient is 0.
    """
    alpha = _alphas(_emissions(x, labels), _may_skip(labels))
    y = -_log_total(alpha, _ends(labels, lengths), frames, lengths)
    return y.astype(x.dtype, copy=False), alpha


@ctc_terms.vjp("x")
def ctc_terms_gx(g, x, labels, frames, lengths, alpha):
    return ctc_dx(g, x, labels, frames, lengths, alpha)


@primitive(constants=["labels", "frames", "lengths", "alpha"])
def ctc_dx(a, x, labels, frames, lengths, alpha):
    """y_tnc = −a_n Σ γ_t(s) over the states s of class c ;  ga = −Σ γ g, gx = −a γ̇ along g

    α of x comes along to save a pass; to the rules γ is a function of x. a (N,), x (T, N, C).
    """
    e, ends = _emissions(x, labels), _ends(labels, lengths)
    gamma = _occupancy(e, alpha, labels, ends, frames, lengths)
    y = _to_classes(-gamma * widen(a)[:, None], labels, x.shape)
    return y.astype(x.dtype, copy=False)


@ctc_dx.vjp("a")
def ctc_dx_ga(g, x, labels, frames, lengths):
    e, ends = _emissions(x, labels), _ends(labels, lengths)
    gamma = _occupancy(e, _alphas(e, _may_skip(labels)), labels, ends, frames, lengths)
    return -op.sum(gamma * _emissions(g, labels), axis=(0, 2))


@ctc_dx.vjp("x")
def ctc_dx_gx(g, a, x, labels, frames, lengths):
    moved = _curvature(_emissions(x, labels), _emissions(g, labels), labels, frames, lengths)
    return _to_classes(-moved * widen(a)[:, None], labels, x.shape)


@ctc_terms.batch
@ctc_dx.batch
def ctc_batch(op_, xs, batched, params):
    """The examples are more samples, which stand behind the time in x and α."""
    given = dict(zip(op_.arrays, full(xs, batched), strict=True))
    y = op_(*[merged(x, at=int(name in ("x", "alpha"))) for name, x in given.items()], **params)
    lead = given["labels"].shape[:2]
    if op_.name == "ctc_dx":
        return apart(y, lead, at=1)
    if isinstance(y, tuple):
        return apart(y[0], lead), apart(y[1], lead, at=1)
    return apart(y, lead)


@ctc_states.batch
def ctc_states_batch(op_, xs, batched, params):
    xs, (frames, samples, classes) = full(xs, batched), params["shape"]
    lead = xs[0].shape[0], samples
    shape = (frames, lead[0] * samples, classes)
    states = op_(*map(merged, xs), shape=shape, blank=params["blank"])
    return tuple(apart(y, lead) for y in states)


@composite
@in_float32
def ctc_loss(
    log_probs: Any,
    targets: Any,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Any:
    """y_n = −log Σ over all alignments of target n of Π_t p_t, with log_probs = log p

    log_probs (T, N, C), or (T, C) for one sample: log_softmax of a network's output. targets (N, L)
    or the targets one after the other; input_lengths and target_lengths (N,), or numbers for one
    sample. Adjacent equal labels need a blank between them. 'mean' divides each loss by its
    target's length (at least 1) and takes the mean over the samples.

    Where no alignment fits, the loss is ∞, or 0 with zero_infinity; the gradient is 0 either way.
    The gradient is the derivative by log_probs, −γ; PyTorch's adds p, which log_softmax takes out
    again. ValueError for labels, lengths or a blank out of range. Graves et al., 2006.
    """
    check_reduction("ctc_loss", reduction)
    x = array_like(log_probs)
    targets, frames, lengths = (
        array_beside(given, x) for given in (targets, input_lengths, target_lengths)
    )
    if x.ndim not in (2, 3) or x.dtype.kind in "biuc":
        raise ValueError(
            "ctc_loss: log_probs must hold floats (T, N, C), or (T, C) for one sample; got "
            f"{x.dtype} {x.shape}"
        )
    single = x.ndim == 2
    if single:
        x = op.expand_dims(x, axis=1)
        targets = op.reshape(targets, shape=(1, -1))
        frames, lengths = (op.reshape(n, shape=(-1,)) for n in (frames, lengths))
    labels, frames, lengths = ctc_states(targets, frames, lengths, shape=x.shape, blank=blank)
    y = ctc_terms(x, labels, frames, lengths)
    if zero_infinity:
        y = op.where(y == np.inf, 0, y)
    if reduction == "none":
        return y[0] if single else y
    if reduction == "sum":
        return op.sum(y)
    return op.mean(y / op.astype(op.maximum(lengths, 1), dtype=y.dtype))
