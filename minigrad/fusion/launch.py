"""Fused kernels: made when a function first meets arrays of some dtypes and layout, kept, and run."""

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from ..backends.device import array_module
from ..core.caches import Cache
from . import cuda
from .trace import ROW_FUNCTIONS, NotFusible, Symbol, trace

kernels = Cache("fused kernels", max_entries=1024)
_OPTIONS = ("--std=c++17",)


class Kernel:
    """One compiled program: its outputs' dtypes, and how its inputs are read."""

    def __init__(self, fn: Callable, dtypes: Sequence[Any], kinds: Sequence[str]):
        self.kinds = tuple(kinds)
        inputs, found = trace(fn, dtypes)
        self.found = found
        self.outputs: list[Symbol] = [y for y in found if y is not None]
        program = inputs[0].program
        self.by_rows = "line" in kinds or any(s.op in ROW_FUNCTIONS for s in program.symbols)
        if not self.outputs:
            raise NotFusible("no result")
        if self.by_rows:
            self.source = cuda.row_source(inputs, self.outputs, kinds)
            self.width = 1
        else:
            full = [x.dtype for x, kind in zip(inputs, kinds, strict=True) if kind == "full"]
            self.width = cuda.lanes([*full, *[y.dtype for y in self.outputs]])
            self.source = cuda.elementwise_source(inputs, self.outputs, kinds, self.width)
        self.compiled: Any = None

    def __call__(self, xp: Any, arrays: Sequence[Any], shape: tuple) -> list:
        """The results for these arrays; None where the function gave None."""
        length = shape[-1] if shape else 1
        line = (*shape[:-1], 1)
        made = [
            xp.empty(line if y.is_row and y.op != "constant" else shape, y.dtype)
            for y in self.outputs
        ]
        n = 1
        for size in shape:
            n *= size
        if n:
            self._launch(xp, [*arrays, *made], arrays, n, length)
        results = iter(made)
        return [None if y is None else next(results) for y in self.found]

    def _launch(self, xp: Any, pointers: list, arrays: Sequence[Any], n: int, length: int) -> None:
        if self.compiled is None:
            self.compiled = xp.RawKernel(self.source, "fused", options=_OPTIONS)
        if self.by_rows:
            rows = n // length
            threads = min(max(-(-length // 32) * 32, 32), 512)
            grid = min(rows, 65535 * 8)
            self.compiled((grid,), (threads,), (*pointers, np.int64(rows), np.int64(length)))
            return
        sizes = [
            np.int64(x.size) for x, kind in zip(arrays, self.kinds, strict=True) if kind == "row"
        ]
        blocks = -(-n // (cuda.BLOCK * self.width))
        self.compiled((blocks,), (cuda.BLOCK,), (*pointers, np.int64(n), *sizes))


def run(key: Hashable, fn: Callable, arrays: Sequence[Any]) -> list | None:
    """fn's results on CuPy arrays by one kernel; None where it cannot be one.

    key     names fn and whatever else its program depends on
    """
    xp: Any = array_module(arrays[0])
    if not hasattr(xp, "RawKernel"):
        return None
    shape = np.broadcast_shapes(*[x.shape for x in arrays])
    kinds = [kind_of(x, shape) for x in arrays]
    if None in kinds:
        return None
    number = arrays[0].device.id
    full_key = (key, number, tuple(kinds), *[x.dtype for x in arrays])
    kernel = kernels.get(full_key)
    if kernel is None:
        try:
            kernel = Kernel(fn, [x.dtype for x in arrays], kinds)  # type: ignore[arg-type]
        except NotFusible as reason:
            kernel = reason
        kernels.put(full_key, kernel)
    if isinstance(kernel, NotFusible):
        return None
    if any(x.data.ptr % 16 for x in arrays if x.size > 1):  # an odd slice: loads are 16 bytes wide
        return None
    return kernel(xp, arrays, shape)


def kind_of(x: Any, shape: tuple) -> str | None:
    """How a kernel over `shape` reads x: see cuda.elementwise_source and row_source."""
    if not x.flags.c_contiguous:
        return None
    if x.shape == shape:
        return "full"
    if x.size == 1:
        return "one"
    if x.shape == (*shape[:-1], 1):
        return "line"
    trimmed = x.shape
    while trimmed and trimmed[0] == 1:
        trimmed = trimmed[1:]
    if trimmed == shape[len(shape) - len(trimmed) :]:
        return "row"
    return None
