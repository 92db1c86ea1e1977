"""Attention by cuDNN (see cudnn_plans.py): no score is ever in memory, forward or backward.

One kernel holds a tile of the scores at a time, from the product q kᵀ to the product with v, and
keeps the log-sum-exp of each row. From it the backward computes the tiles again. cuDNN has such
kernels for 16-bit floats, on tensor cores with sums in float32.
"""

from math import prod
from typing import Any

import numpy as np

from ..backends.device import array_module, is_contiguous
from ..fusion.launch import shaped
from ..modes import deterministic
from .cudnn_plans import Plan, described, installed, kept, new_graph

WIDEST = 128  # features of a head, for which cuDNN has a backward on every GPU it knows
_ALIGNED = 16  # bytes that cuDNN loads at once


def suits(q: Any, v: Any) -> bool:
    """Whether cuDNN is asked at all, for arrays that fit each other: 16-bit floats, short heads."""
    widths = q.shape[-1], v.shape[-1]
    short = all(n <= WIDEST and n * q.dtype.itemsize % _ALIGNED == 0 for n in widths)
    return q.dtype.itemsize == 2 and short and installed()


def _in_four_axes(shape: tuple) -> tuple:
    """(examples, heads, length, features)."""
    lead = shape[:-2]
    return prod(lead[:-1]), lead[-1] if lead else 1, *shape[-2:]


def _readable(x: Any) -> Any:
    """x in four axes, a view where cuDNN reads it as it lies."""
    x = x.reshape(_in_four_axes(x.shape))
    if is_contiguous(x):
        fits = True
    else:
        apart = [step for n, step in zip(x.shape[:3], x.strides[:3], strict=True) if n > 1]
        fits = x.strides[3] == x.dtype.itemsize
        fits = fits and all(step > 0 and step % _ALIGNED == 0 for step in apart)
    return x if fits and not x.data.ptr % _ALIGNED else x.copy(order="C")


def _run(which: str, arrays: dict, made: list, is_causal: bool, scale: float) -> list | None:
    """The results of cuDNN's operation `which` on arrays; None where it does not offer it.

    made  (shape, dtype) of the results
    """
    cupy, dtype, ordered = array_module(arrays["q"]), arrays["q"].dtype, deterministic.required
    arrays = {name: _readable(x) for name, x in arrays.items()}

    def make() -> Plan:
        graph, options = new_graph(cupy, dtype), {}
        given = {
            name: described(
                graph, name, x.shape, x.dtype, [s // x.dtype.itemsize for s in x.strides]
            )
            for name, x in arrays.items()
        }
        if is_causal:  # query i sees the keys 0 … i, and nothing to the right of the diagonal
            options["diagonal_band_right_bound"] = 0
        if which == "sdpa":
            options["generate_stats"] = True
        elif ordered:  # else tiles add to dq by atomics
            options["use_deterministic_algorithm"] = True
        ys = getattr(graph, which)(**given, attn_scale=scale, **options)
        results = [(y, _in_four_axes(shape), dt) for y, (shape, dt) in zip(ys, made, strict=True)]
        return Plan(graph, list(given.values()), results, [])

    forms = [(x.shape, x.strides) for x in arrays.values()]
    plan = kept(cupy, (which, dtype, *forms, is_causal, scale, ordered), make)
    if plan is None:
        return None
    ys = plan(cupy, *arrays.values())
    return [shaped(y, shape) for y, (shape, _) in zip(ys, made, strict=True)]


def forward(q: Any, k: Any, v: Any, is_causal: bool, scale: float) -> list | None:
    """[y, lse] of q (..., L, E), k (..., S, E), v (..., S, F); None: not by cuDNN.

    lse (..., L, 1) is float32: of each row max + ln Σ e^(score − max), cuDNN's "stats".
    """
    lead = q.shape[:-1]
    made = [((*lead, v.shape[-1]), q.dtype), ((*lead, 1), np.dtype(np.float32))]
    return _run("sdpa", {"q": q, "k": k, "v": v}, made, is_causal, scale)


def gradients(
    a: Any, q: Any, k: Any, v: Any, o: Any, lse: Any, is_causal: bool, scale: float
) -> list | None:
    """[dq, dk, dv] from the cotangent a of o and the forward's results; None: not by cuDNN."""
    arrays = {"q": q, "k": k, "v": v, "o": o, "dO": a, "stats": lse}
    made = [(x.shape, x.dtype) for x in (q, k, v)]
    return _run("sdpa_backward", arrays, made, is_causal, scale)
