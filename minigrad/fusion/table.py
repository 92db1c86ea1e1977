"""What the ops run on a GPU: rows of the table as one kernel each, softmax and its kin by rows.

Installed when a GPU is first used, so that a program without one pays nothing. The row kernels are
made of the words below; tests hold them against the forwards of the ops.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from ..backends import device
from ..backends.dtypes import is_floating
from ..core.primitive import Primitive
from ..core.registry import op
from ..engine import serial
from . import launch
from .rules import fused_forward, pull_fused


def _shifted(x: Any) -> tuple:
    """(x − max x, whether the row is all −∞), as softmax.py has them."""
    top = x.max(axis=-1, keepdims=True)
    masked = top == -np.inf
    return x - np.where(masked, 0, top), masked


def softmax(x: Any) -> list:
    """softmax along the last axis; zeros for a row that is all −∞."""
    shifted, masked = _shifted(x)
    e = np.exp(shifted)
    return [e / np.where(masked, 1, e.sum(axis=-1, keepdims=True))]


def softmax_dx(a: Any, p: Any) -> list:
    return [p * (a - (a * p).sum(axis=-1, keepdims=True))]


def log_softmax(x: Any) -> list:
    """log softmax along the last axis, −∞ for a row that is all −∞; and which rows are."""
    shifted, masked = _shifted(x)
    total = np.exp(shifted).sum(axis=-1, keepdims=True)
    return [shifted - np.log(np.where(masked, 1, total)), masked]


def log_softmax_dx(a: Any, log_p: Any, masked: Any) -> list:
    y = a - np.exp(log_p) * a.sum(axis=-1, keepdims=True)
    return [np.where(masked, 0, y)]


ROWS = {
    "softmax": softmax,
    "softmax_dx": softmax_dx,
    "log_softmax": log_softmax,
    "log_softmax_dx": log_softmax_dx,
}


def install() -> None:
    """Give the ops their kernels."""
    if "cuda" in _installed:
        return
    _installed.add("cuda")
    for entry in list(op):
        if isinstance(entry, Primitive) and entry.kind == "elementwise" and not entry.outputs:
            _by_kernel(entry)
    for name, words in ROWS.items():
        _by_rows(getattr(op, name), words)
    serial.pulls.append(pull_fused)


_installed: set[str] = set()


def _by_kernel(entry: Primitive) -> None:
    """An elementwise op's forward as one kernel where its arrays allow it."""
    plain = entry.forward

    def forward(*args: Any, **params: Any) -> Any:
        y = None
        if entry.residuals == ():
            y = fused_forward(entry, plain, args, params)
        return plain(*args, **params) if y is None else y

    forward.__doc__ = plain.__doc__
    entry.implementation("cuda")(forward)


def _by_rows(entry: Primitive, words: Callable) -> None:
    """A forward along the last axis as one kernel that takes a row at a time."""
    plain = entry.forward

    def forward(*xs: Any, axis: Any = -1) -> Any:
        shape = xs[0].shape
        ys = None
        if shape and shape[-1] and axis in (-1, len(shape) - 1) and is_floating(xs[0].dtype):
            ys = launch.run((words,), words, xs)
        if ys is None:
            return plain(*xs, axis=axis)
        return tuple(ys) if len(ys) > 1 else ys[0]

    entry.implementation("cuda")(forward)


device.on_first_gpu.append(install)
