"""Cross entropy on class indices, along the last axis: each kernel reads a row of logits once."""

from typing import Any

import numpy as np

from ..backends.dtypes import accumulator, is_floating
from ..engine import modes
from ..expressions.trace import place
from ..fusion import launch
from ..ops.softmax import NEARLY_ALL
from .install import on_gpu
from .rows import less_the_largest, sum_

_MOST = 1 << 16  # targets that one block of threads adds up


@on_gpu("class_targets")
def class_targets(
    target: Any, weight: Any = None, *, shape: Any = (), dtype: Any = None,
    ignore_index: int = -100, reduction: str = "mean", scores: str = "x",
) -> Any:  # fmt: skip
    if weight is not None or modes.state.anomaly is not None or target.shape != (
        *shape[:1], *shape[2:]
    ):  # fmt: skip
        return None
    if not target.size or target.size > _MOST or target.dtype.kind not in "iu":
        return None
    wide = np.dtype(accumulator(dtype) or dtype)

    def words(t: Any) -> list:
        chosen, ignored = t != ignore_index, 0
        kept = chosen.astype(wide)
        if reduction == "mean":
            total = kept.sum(axis=-1, keepdims=True)
            kept = kept / np.where(total == 0, 1, total)
            ignored = np.where(total == 0, -1, 0)
        return [np.where(chosen, t, ignored).astype(np.intp), kept]

    ys = launch.run(
        ("class_targets", ignore_index, reduction, wide), words, [target.reshape(1, -1)]
    )
    if ys is None:
        return None
    index, kept = (y.reshape(target.shape) for y in ys)
    return index[:, None], kept, kept


def loss_words(x: Any, index: Any, scale: Any) -> list:
    """(scale · (log Σ e^x − x at index), log Σ e^x) of each row.

    The loss is 0 for a row of scale 0, and NaN for one of index −1.
    """
    x = x.astype(scale.dtype)
    top = x.max(axis=-1, keepdims=True)
    shifted = less_the_largest(x, top)
    log = np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    picked = np.where(place(x) == index, shifted, 0).sum(axis=-1, keepdims=True)
    losses = np.where(scale == 0, 0, (log - picked) * scale)
    return [np.where(index < 0, np.nan, losses), log + top]


@on_gpu("cross_entropy_index")
def cross_entropy_index(x: Any, index: Any, scale: Any, *, total: bool = True) -> Any:
    if x.ndim != 2 or not x.size or not is_floating(x.dtype):
        return None
    n = len(x)
    if index.shape != (n, 1) or scale.shape != (n,):
        return None
    ys = launch.run("cross_entropy", loss_words, [x, index, scale.reshape((n, 1))])
    if ys is None:
        return None
    losses, lse = ys
    if not total:
        return losses.reshape(n), lse
    y = sum_(losses)
    return (losses.sum() if y is None else y), lse


def dx_words(x: Any, a: Any, lse: Any, index: Any) -> list:
    """a (softmax x − onehot index); 0 in a row where a is 0."""
    x, dtype = x.astype(lse.dtype), x.dtype
    endless, infinite = lse == np.inf, (x == np.inf).astype(lse.dtype)
    several = np.where(endless, infinite.sum(axis=-1, keepdims=True), 1)
    p = np.where(endless, infinite / several, np.exp(x - np.where(endless, 0, lse)))
    target = place(x) == index
    others = np.where(target, 0, p)
    rest = others.sum(axis=-1, keepdims=True)
    y = np.where(target, np.where(p > NEARLY_ALL, -rest, p - 1), others)
    return [np.where(a == 0, 0, y * a.astype(lse.dtype)).astype(dtype)]


@on_gpu("cross_entropy_dx")
def cross_entropy_dx(a: Any, x: Any, lse: Any, index: Any) -> Any:
    if x.ndim != 2 or not x.size or a.shape != (len(x),) or not is_floating(x.dtype):
        return None
    if lse.shape != (len(x), 1) or index.shape != lse.shape:
        return None
    ys = launch.run("cross_entropy_dx", dx_words, [x, a.reshape((len(x), 1)), lse, index])
    return None if ys is None else ys[0]
