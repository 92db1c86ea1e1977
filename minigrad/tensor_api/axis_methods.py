"""The methods of a tensor that work along an axis: each is the op, with ndarray's signature.

PyTorch's dim= and keepdim= get an error that says what to write here, as mg.sum(x, dim=1) has it.
"""

from typing import Any

import numpy as np

from ..engine.registry import chosen_table, op
from .help import refuse_out, teaching
from .more_methods import MoreMethods, documented


@documented
class AxisMethods(MoreMethods):
    """Base of Methods."""

    __slots__ = ()

    @teaching
    def sum(
        self, axis: Any = None, dtype: Any = None, out: None = None, keepdims: bool = False,
        initial: Any = None, where: Any = True,
    ) -> Any:  # fmt: skip
        refuse_out("sum", out)
        if where is not True or initial is not None:
            return chosen_table[np.sum](self, axis, dtype, keepdims, initial, where)
        return op.sum(self, axis=axis, dtype=dtype, keepdims=keepdims)

    @teaching
    def mean(
        self, axis: Any = None, dtype: Any = None, out: None = None, keepdims: bool = False,
        *, where: Any = True,
    ) -> Any:  # fmt: skip
        refuse_out("mean", out)
        if where is not True:
            return chosen_table[np.mean](self, axis, dtype, keepdims, where)
        return op.mean(self, axis=axis, dtype=dtype, keepdims=keepdims)

    @teaching
    def prod(
        self, axis: Any = None, dtype: Any = None, out: None = None, keepdims: bool = False,
        initial: Any = None, where: Any = True,
    ) -> Any:  # fmt: skip
        refuse_out("prod", out)
        if where is not True or initial is not None:
            return chosen_table[np.prod](self, axis, dtype, keepdims, initial, where)
        return op.prod(self, axis=axis, dtype=dtype, keepdims=keepdims)

    @teaching
    def var(
        self,
        axis: Any = None,
        dtype: Any = None,
        out: None = None,
        ddof: float = 0,
        keepdims: bool = False,
        correction: float | None = None,
        *,
        where: Any = True,
        mean: Any = None,
    ) -> Any:
        refuse_out("var", out)
        if where is True and mean is None and correction is None:
            return op.var(self, axis=axis, dtype=dtype, ddof=ddof, keepdims=keepdims)
        return chosen_table[np.var](self, axis, dtype, ddof, keepdims, correction, where, mean)

    @teaching
    def std(
        self,
        axis: Any = None,
        dtype: Any = None,
        out: None = None,
        ddof: float = 0,
        keepdims: bool = False,
        correction: float | None = None,
        *,
        where: Any = True,
        mean: Any = None,
    ) -> Any:
        refuse_out("std", out)
        if where is True and mean is None and correction is None:
            return op.std(self, axis=axis, dtype=dtype, ddof=ddof, keepdims=keepdims)
        return chosen_table[np.std](self, axis, dtype, ddof, keepdims, correction, where, mean)

    @teaching
    def max(
        self, axis: Any = None, out: None = None, keepdims: bool = False,
        initial: Any = None, where: Any = True,
    ) -> Any:  # fmt: skip
        refuse_out("max", out)
        if where is not True or initial is not None:
            return chosen_table[np.max](self, axis, None, keepdims, initial, where)
        return op.max(self, axis=axis, keepdims=keepdims)

    @teaching
    def min(
        self, axis: Any = None, out: None = None, keepdims: bool = False,
        initial: Any = None, where: Any = True,
    ) -> Any:  # fmt: skip
        refuse_out("min", out)
        if where is not True or initial is not None:
            return chosen_table[np.min](self, axis, None, keepdims, initial, where)
        return op.min(self, axis=axis, keepdims=keepdims)

    @teaching
    def argmax(self, axis: Any = None, out: None = None, keepdims: bool = False) -> Any:
        refuse_out("argmax", out)
        return op.argmax(self, axis=axis, keepdims=keepdims)

    @teaching
    def argmin(self, axis: Any = None, out: None = None, keepdims: bool = False) -> Any:
        refuse_out("argmin", out)
        return op.argmin(self, axis=axis, keepdims=keepdims)

    @teaching
    def any(
        self, axis: Any = None, out: None = None, keepdims: bool = False, *, where: Any = True
    ) -> Any:
        refuse_out("any", out)
        if where is not True:
            return chosen_table[np.any](self, axis, None, keepdims, None, where)
        return op.any(self, axis=axis, keepdims=keepdims)

    @teaching
    def all(
        self, axis: Any = None, out: None = None, keepdims: bool = False, *, where: Any = True
    ) -> Any:
        refuse_out("all", out)
        if where is not True:
            return chosen_table[np.all](self, axis, None, keepdims, None, where)
        return op.all(self, axis=axis, keepdims=keepdims)

    @teaching
    def cumsum(self, axis: Any = None, dtype: Any = None, out: None = None) -> Any:
        refuse_out("cumsum", out)
        return op.cumsum(self, axis=axis, dtype=dtype)

    @teaching
    def cumprod(self, axis: Any = None, dtype: Any = None, out: None = None) -> Any:
        refuse_out("cumprod", out)
        return op.cumprod(self, axis=axis, dtype=dtype)

    @teaching
    def repeat(self, repeats: Any, axis: Any = None, *more: Any) -> Any:
        if more:
            raise TypeError(
                f"repeat{(repeats, axis, *more)}: NumPy's repeat takes how often each element is "
                "repeated, and an axis; PyTorch's, of the whole array along each axis, is "
                f"mg.tile(x, {(repeats, axis, *more)})"
            )
        return op.repeat(self, repeats, axis=axis)

    @teaching
    def argsort(
        self, axis: Any = -1, kind: Any = None, order: None = None,
        *, stable: bool = True, descending: bool = False,
    ) -> Any:  # fmt: skip
        return op.argsort(
            self, axis=axis, kind=kind, order=order, stable=stable, descending=descending
        )

    @teaching
    def sort(
        self, axis: Any = -1, kind: Any = None, order: None = None,
        *, stable: bool = True, descending: bool = False,
    ) -> Any:  # fmt: skip
        return op.sort(
            self, axis=axis, kind=kind, order=order, stable=stable, descending=descending
        )

    @teaching
    def squeeze(self, axis: Any = None) -> Any:
        return op.squeeze(self, axis=axis)

    @teaching
    def norm(self, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
        return op.norm(self, ord=ord, axis=axis, keepdims=keepdims)

    @teaching
    def logsumexp(self, axis: Any = None, keepdims: bool = False) -> Any:
        return op.logsumexp(self, axis=axis, keepdims=keepdims)

    @teaching
    def split(self, sections: Any, axis: int = 0) -> Any:
        return op.split(self, sections, axis=axis)

    @teaching
    def chunk(self, chunks: int, axis: int = 0) -> Any:
        return op.chunk(self, chunks, axis=axis)

    @teaching
    def topk(self, k: int, axis: int = -1, largest: bool = True, sorted: bool = True) -> Any:
        return op.topk(self, k, axis=axis, largest=largest, sorted=sorted)

    @teaching
    def flip(self, axis: Any = None) -> Any:
        return op.flip(self, axis=axis)

    @teaching
    def roll(self, shift: Any, axis: Any = None) -> Any:
        return op.roll(self, shift, axis=axis)

    @teaching
    def softmax(self, axis: int = -1) -> Any:
        return op.softmax(self, axis=axis)

    @teaching
    def log_softmax(self, axis: int = -1) -> Any:
        return op.log_softmax(self, axis=axis)
