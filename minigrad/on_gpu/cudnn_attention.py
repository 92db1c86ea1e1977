"""Attention by cuDNN (see cudnn_plans.py): neither forward nor backward stores scores in memory.

One kernel computes a tile of the scores at a time, from the product q kᵀ to the product with v. It
saves the log-sum-exp of each row, from which the backward recomputes the tiles. cuDNN has such
kernels for 16-bit floats, on tensor cores with sums in float32.
"""

from math import prod
from typing import Any

import numpy as np

from ..backends.device import array_module, is_contiguous
from ..fusion.launch import shaped
from ..modes import deterministic
from .cudnn_plans import Plan, described, installed, kept, new_graph

WIDEST = 128  # features of a head, up to which cuDNN has a backward on every GPU it supports
_ALIGNED = 16  # bytes that cuDNN loads at once
_ARGUMENTS = {"sdpa": ("q", "k", "v"), "sdpa_backward": ("q", "k", "v", "o", "dO", "stats")}


def suits(q: Any, v: Any) -> bool:
    """Whether to try cuDNN for arrays of matching shapes: 16-bit floats, short heads."""
    widths = q.shape[-1], v.shape[-1]
    short = all(n <= WIDEST and n * q.dtype.itemsize % _ALIGNED == 0 for n in widths)
    return q.dtype.itemsize == 2 and short and installed()


def _in_four_axes(shape: tuple) -> tuple:
    """(examples, heads, length, features)."""
    lead = shape[:-2]
    return prod(lead[:-1]), lead[-1] if lead else 1, *shape[-2:]


def _readable(x: Any) -> Any:
    """x, or a contiguous copy of it where cuDNN cannot read its layout."""
    fits = is_contiguous(x)
    if not fits and x.ndim <= 4:  # a view with gaps between its lines only, such as one head
        apart = [s for n, s in zip(x.shape[:-1], x.strides[:-1], strict=True) if n > 1]
        fits = x.strides[-1] == x.dtype.itemsize
        fits = fits and all(step > 0 and step % _ALIGNED == 0 for step in apart)
    return x if fits and not x.data.ptr % _ALIGNED else x.copy(order="C")


def _plan(cupy: Any, which: str, arrays: list, made: list, is_causal: bool, scale: float) -> Plan:
    graph, options = new_graph(cupy, arrays[0].dtype), {}
    given = {}
    for name, x in zip(_ARGUMENTS[which], arrays, strict=True):
        x = x.reshape(_in_four_axes(x.shape))
        strides = [step // x.dtype.itemsize for step in x.strides]
        given[name] = described(graph, name, x.shape, x.dtype, strides)
    if is_causal:  # query i sees the keys 0 … i, none to the right of the diagonal
        options["diagonal_band_right_bound"] = 0
    if which == "sdpa":
        options["generate_stats"] = True
    elif deterministic.required:  # else tiles add to dq by atomics
        options["use_deterministic_algorithm"] = True
    ys = getattr(graph, which)(**given, attn_scale=scale, **options)
    results = [(y, _in_four_axes(shape), dt) for y, (shape, dt) in zip(ys, made, strict=True)]
    return Plan(graph, list(given.values()), results, [])


def _run(which: str, arrays: list, made: list, is_causal: bool, scale: float) -> list | None:
    """The results of cuDNN's operation `which` on arrays; None where cuDNN does not support it.

    made  (shape, dtype) of the results
    """
    cupy, arrays = array_module(arrays[0]), [_readable(x) for x in arrays]
    forms = [(x.shape, x.strides) for x in arrays]
    key = (which, arrays[0].dtype, *forms, is_causal, scale, deterministic.required)
    plan = kept(cupy, key, lambda: _plan(cupy, which, arrays, made, is_causal, scale))
    if plan is None:
        return None
    ys = plan(cupy, *arrays)
    return [shaped(y, shape) for y, (shape, _) in zip(ys, made, strict=True)]


def forward(q: Any, k: Any, v: Any, is_causal: bool, scale: float) -> list | None:
    """[y, lse] of q (..., L, E), k (..., S, E), v (..., S, F); None without a plan.

    lse (..., L, 1) is float32: max + ln Σ e^(score − max) of each row, cuDNN's "stats".
    """
    lead = q.shape[:-1]
    made = [((*lead, v.shape[-1]), q.dtype), ((*lead, 1), np.dtype(np.float32))]
    return _run("sdpa", [q, k, v], made, is_causal, scale)


def gradients(
    a: Any, q: Any, k: Any, v: Any, o: Any, lse: Any, is_causal: bool, scale: float
) -> list | None:
    """[dq, dk, dv] from the cotangent a of o and the forward's results; None without a plan."""
    made = [(x.shape, x.dtype) for x in (q, k, v)]
    return _run("sdpa_backward", [q, k, v, o, a, lse], made, is_causal, scale)
