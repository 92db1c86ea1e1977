"""Matrix products on a GPU by direct calls of cuBLAS (see backends/cublas.py)."""

from math import prod
from typing import Any

import numpy as np

from ..backends import cublas
from ..backends.caches import report, size_of_value
from ..backends.device import is_contiguous
from ..fusion import launch
from ..fusion.launch import shaped
from .install import on_gpu

report(
    "plans of matrix products on GPUs",
    lambda: (len(cublas.plans), size_of_value(list(cublas.plans))),
    cublas.MOST_PLANS,
    empty=cublas.plans.clear,
)
report(
    "workspaces of cuBLAS, on GPUs",
    lambda: (cublas.workspaces(), cublas.workspaces() * cublas.WORKSPACE),
    cublas.MOST_STREAMS,
    cublas.MOST_STREAMS * cublas.WORKSPACE,
)


def available(x: Any) -> bool:
    """Whether x is on a real GPU, with cuBLAS; the stand-in of the tests has none."""
    return hasattr(x, "data") and hasattr(x.data, "mem")


@on_gpu("matmul")
def matmul(a: Any, b: Any) -> Any:
    if not available(a) or not available(b) or not a.ndim or not b.ndim:
        return None
    if a.ndim == 1 or b.ndim == 1:  # a row on the left, a column on the right
        left = a.reshape((1, -1)) if a.ndim == 1 else a
        right = b.reshape((-1, 1)) if b.ndim == 1 else b
        y = matmul(left, right)
        if y is None:
            return None
        lead = y.shape[:-2]
        rows = () if a.ndim == 1 else y.shape[-2:-1]
        columns = () if b.ndim == 1 else y.shape[-1:]
        return shaped(y, (*lead, *rows, *columns))
    if a.ndim > 2 == b.ndim and is_contiguous(a):  # one large product, not one per entry
        rows = a.reshape((prod(a.shape[:-1]), a.shape[-1]))
        y = cublas.product(rows, b)
        return None if y is None else shaped(y, (*a.shape[:-1], b.shape[-1]))
    return cublas.product(a, b)


@on_gpu("linear")
def linear(x: Any, w: Any, b: Any = None) -> Any:
    if x.ndim < 1 or w.ndim != 2 or x.shape[-1] != w.shape[1]:
        return None
    if b is not None and (b.shape != w.shape[:1] or b.dtype != x.dtype):
        return None
    if b is not None and x.ndim > 1 and is_contiguous(x) and available(x) and available(b):
        if is_contiguous(b) and not b.data.ptr & 15:
            rows = x if x.ndim == 2 else x.reshape((-1, x.shape[-1])) if x.size else None
            y = None if rows is None else cublas.product(rows, w.T, bias=b)
            if y is not None:
                return shaped(y, (*x.shape[:-1], len(w)))
    y = matmul(x, w.T)
    if y is None or b is None:
        return y
    ys = launch.run("bias", biased, [y, b])
    return y + b if ys is None else ys[0]


def biased(y: Any, b: Any) -> list:
    """y + b, as the expression of a kernel."""
    return [np.add(y, b)]
