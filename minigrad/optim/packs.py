"""The arrays of an optimizer step: cache-sized blocks of large parameters, packs of small ones.

A step of Adam is ten NumPy calls. On a large array they run block after block: each block is read
from memory once. On two hundred small arrays the calls cost more than the work, so small parameters
are gathered into one array, stepped together and written back.
"""

import math
import threading
import warnings
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from ..backends.blocks import BLOCK, in_blocks
from ..backends.device import array_module
from ..backends.dtypes import accumulator
from ..tensor_api.tensor import Tensor

SMALL = 1 << 13  # parameters of fewer elements are gathered
State = dict[str, Any]


class _Scratch(threading.local):
    def __init__(self) -> None:
        self.kept: dict[Any, np.ndarray] = {}


_scratch = _Scratch()
# (update, jobs) -> the jobs (x, g, state) left: updates by kernels; on_gpu/optimizers.py on a GPU
by_kernels: Callable[[Callable, list], list] | None = None


def scratch(x: Any, which: int = 0) -> Any:
    """An uninitialised array like x; calls of one thread with the same `which` share its memory."""
    if hasattr(x, "blank"):  # an array that is being recorded (fusion/writes.py)
        return x.blank()
    xp = array_module(x)
    if xp is not np or x.size > 2 * BLOCK:
        return xp.empty(x.shape, x.dtype)
    kept = _scratch.kept.get((x.dtype, which))
    if kept is None:
        kept = _scratch.kept[x.dtype, which] = np.empty(2 * BLOCK, x.dtype)
    return kept[: x.size].reshape(x.shape)


def working(x: Any) -> Any:
    """The array that updates see: complex numbers as pairs of real ones, shape (..., 2)."""
    if x.dtype.kind != "c":
        return x
    pairs = x.reshape((*x.shape, 1)).view(x.real.dtype)
    if pairs.base is None:
        raise ValueError(f"an optimizer needs complex parameters contiguous, got {x.strides}")
    return pairs


def working_dtype(x: Any) -> Any:
    """float32 for 16-bit floats, in which small steps would be lost; else the dtype itself."""
    return accumulator(x.dtype) or x.dtype


def step_by_kernels(update: Callable, jobs: list) -> list:
    """Do the updates (x, g, state) of arrays on a GPU for which there are kernels; the others."""
    if by_kernels is None or not any(array_module(x) is not np for x, _, _ in jobs):
        return jobs
    return by_kernels(update, jobs)


def step_alone(update: Callable, x: Any, g: Any, state: State, elementwise: bool = True) -> None:
    """update(x, g, state) on one parameter, in blocks; state holds numbers and arrays like x.

    An update that is not elementwise takes the whole, and the arrays may differ in shape.
    """
    wide = working_dtype(x)

    def one(piece: Any) -> None:
        part = {k: v[piece] if hasattr(v, "shape") else v for k, v in state.items()}
        if x.dtype == wide == g.dtype:
            update(x[piece], g[piece], part)
        else:
            copy = x[piece].astype(wide)
            update(copy, g[piece].astype(wide), part)
            x[piece] = copy

    if x.ndim and elementwise:
        in_blocks(one, x)
    elif x.size:
        one(...)  # x[()] would be a copy


LOOKED_AT = 1 << 16  # elements of a parameter, in one step: more would show in the time of SGD's


def any_lost(parameters: Iterable[Any], turn: int) -> bool:
    """Whether one of the parameters on the host holds NaN or infinite numbers. Of a large one each
    turn checks another part.
    """
    parts = [_looked_at(x, turn) for x in parameters if type(x) is np.ndarray]
    with np.errstate(over="ignore"):
        # a sum of squares takes a tenth of the time of isfinite, and is finite nearly always
        total = sum([float(x.dot(x)) if x.dtype.char in "fd" else math.nan for x in parts])
    return not (math.isfinite(total) or all(np.isfinite(x).all() for x in parts))


def _looked_at(x: Any, turn: int) -> Any:
    x = x.reshape(-1)
    if x.size <= LOOKED_AT:
        return x
    start = turn % -(-x.size // LOOKED_AT) * LOOKED_AT
    return x[start : start + LOOKED_AT]


def warn_of_loss(step: str) -> None:
    warnings.warn(
        f"{step}: parameters hold NaN or infinite numbers now, most often since a gradient does. "
        "mg.detect_anomaly() finds the op that made the first; "
        "nn.utils.clip_grad_norm_(..., error_if_nonfinite=True) and amp.GradScaler stop before "
        "such a step",
        RuntimeWarning,
        stacklevel=5,
    )


class Pack:
    """Small parameters of one dtype side by side in one array, with their states.

    The state dictionaries of the parameters get views of the pack's arrays; `numbers` are what
    all of them share (the count of steps).
    """

    def __init__(self, params: list[Tensor], states: list[State]):
        self.params = params
        self.states = states
        arrays = [working(p.data) for p in params]
        ends = np.cumsum([a.size for a in arrays]).tolist()
        self.bounds = list(zip([0, *ends], ends, [a.shape for a in arrays], strict=False))
        xp, wide = array_module(arrays[0]), working_dtype(arrays[0])
        self.x, self.g = xp.empty(ends[-1], wide), xp.empty(ends[-1], wide)
        self.pieces = [self.x[a:b].reshape(shape) for a, b, shape in self.bounds]
        self.arrays = {
            name: self._joined([s[name] for s in states])
            for name, value in states[0].items()
            if hasattr(value, "shape")
        }

    def _joined(self, parts: list) -> Any:
        return array_module(self.x).concatenate([part.reshape(-1) for part in parts])

    def adopt(self) -> None:
        """Let the parameters' states look at the pack's memory."""
        for state, (a, b, shape) in zip(self.states, self.bounds, strict=True):
            state.update({name: flat[a:b].reshape(shape) for name, flat in self.arrays.items()})

    def step(self, update: Callable) -> None:
        """update(x, g, state) once for all of them."""
        xp, arrays = array_module(self.x), [working(p.data) for p in self.params]
        gradients = [working(p.grad.data).reshape(-1) for p in self.params]  # type: ignore[union-attr]
        xp.concatenate([a.reshape(-1) for a in arrays], out=self.x, casting="unsafe")
        xp.concatenate(gradients, out=self.g, casting="unsafe")
        numbers = {k: v for k, v in self.states[0].items() if k not in self.arrays}
        update(self.x, self.g, numbers | self.arrays)
        for x, piece in zip(arrays, self.pieces, strict=True):
            x[...] = piece


def grouped(params: Iterable[Tensor], number_of: Callable[[Tensor], Any]) -> list[list[Tensor]]:
    """Parameters that may share a pack; one alone where it is large.

    number_of gives what of a parameter's state its companions must have too.
    """
    alone: list[list[Tensor]] = []
    open_packs: dict[Any, list[Tensor]] = {}
    filled: dict[Any, int] = {}
    for p in params:
        if p.size >= SMALL or by_kernels is not None and p.device != "cpu":
            alone.append([p])
            continue
        key = (p.dtype, p.device, number_of(p))
        if key not in open_packs or filled[key] + p.size > BLOCK:
            open_packs[key] = []
            alone.append(open_packs[key])
            filled[key] = 0
        open_packs[key].append(p)
        filled[key] += p.size
    return alone
