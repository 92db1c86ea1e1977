"""The three gradients of a normalisation from one reading of g and x."""

from math import prod
from typing import Any

import numpy as np

from ..backends import pool
from ..backends.blocks import spans
from ..on_gpu.norms import dx_from_sums, gradient_sums, over_channels
from ..ops.norm.scaled import scale_of
from .install import vjp_on_host
from .jit import add, kernel
from .launch import PIECE


@kernel
def _rows(g, x, mean, rstd, weight, centre, y, dw, db):  # type: ignore[no-untyped-def]
    """y = r (u − mean u − x̂ mean(u x̂)), u = g weight ;  dw += g x̂ ;  db += g, row after row"""
    n = x.shape[1]
    for i in range(x.shape[0]):
        gi, xi, yi = g[i], x[i], y[i]
        r = rstd[i]
        m = mean[i] if centre else r * 0
        total = product = r * 0
        for j in range(n):
            xhat = (xi[j] - m) * r
            u = gi[j] * weight[j]
            total = add(total, u)
            product = add(product, u * xhat)
            dw[j] += gi[j] * xhat
            db[j] += gi[j]
        total = total / x.dtype.type(n) if centre else r * 0
        product = product / x.dtype.type(n)
        for j in range(n):
            xhat = (xi[j] - m) * r
            yi[j] = (gi[j] * weight[j] - total - xhat * product) * r


@vjp_on_host("standardize")
def standardize(plan: Any, values: tuple) -> list | None:
    """Contributions in (x, weight, bias), only the needed ones.

    The loop is always the same: the bits of one contribution do not depend on which others are
    needed.
    """
    g, saved = values[0], dict(zip(plan.names, values[1:], strict=True))
    weight = saved.get("weight")
    if weight is None and 1 not in plan.slots:
        return None
    if "x" not in saved:  # the bias alone needs a gradient
        return None
    if scale_of(saved["rstd"], saved["eps"]) is not None:
        return None
    x, axis = saved["x"], saved["axis"]
    arrays = [g, x, saved["mean"], saved["rstd"]]
    arrays += [] if weight is None else [weight]
    if any(a.dtype != x.dtype or not a.flags.c_contiguous for a in arrays):
        return None
    if x.dtype.char not in "fd" or not x.size:
        return None
    if axis == tuple(range(x.ndim - len(axis), x.ndim)):
        own = [saved[("weight_shape", "bias_shape")[i - 1]] for i in plan.slots if i]
        found = _by_rows(g, x, weight, saved, own)
    elif over_channels(x, axis) and (weight is None or weight.size == x.shape[1]):
        sums = gradient_sums(g, x, saved["mean"], saved["rstd"], saved["centre"])
        if sums is None:
            return None
        how = (weight, saved["mean"], saved["rstd"], saved["centre"])
        found = [dx_from_sums(g, x, *how, sums), sums[1], sums[0]]
    else:
        return None
    if found is None or found[0] is None:
        return None
    shapes = [None, saved.get("weight_shape"), saved.get("bias_shape")]
    return [found[i] if i == 0 else found[i].reshape(shapes[i]) for i in plan.slots]


def _by_rows(g: Any, x: Any, weight: Any, saved: dict, own: list) -> list | None:
    axis = saved["axis"]
    shape = x.shape[x.ndim - len(axis) :]
    n = prod(shape)
    if any(s != shape for s in own) or weight is not None and weight.shape != shape:
        return None
    rows = x.size // n
    weight = np.ones(n, x.dtype) if weight is None else weight.reshape(n)
    y = np.empty(x.shape, x.dtype)
    seen = [a.reshape(rows, n) for a in (g, x, y)]
    mean, rstd = saved["mean"].reshape(rows), saved["rstd"].reshape(rows)
    cuts = spans(rows, max(-(-rows // 64), -(-(PIECE // 2) // n)))
    dw, db = np.zeros((2, len(cuts), n), x.dtype)

    def work(k: int) -> None:
        s = cuts[k]
        a, b, c = [part[s] for part in seen]
        _rows(a, b, mean[s], rstd[s], weight, saved["centre"], c, dw[k], db[k])

    pool.share(work, range(len(cuts)))
    return [y, np.add.reduce(dw, axis=0), np.add.reduce(db, axis=0)]
