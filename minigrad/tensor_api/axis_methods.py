"""The methods of a tensor that work along an axis: each is the op, with ndarray's signature.

PyTorch's dim= and keepdim= get an error that says what to write here, as mg.sum(x, dim=1) has it.
"""

from typing import Any

import numpy as np

from ..engine.registry import chosen_table, op
from .help import refuse_out, with_call_context
from .more_methods import MoreMethods, documented


@documented
class AxisMethods(MoreMethods):
    """Base of Methods."""

    __slots__ = ()

    @with_call_context
    def sum(
        self, axis: Any = None, dtype: Any = None, out: None = None, keepdims: bool = False,
        initial: Any = None, where: Any = True,
    ) -> Any:  # fmt: skip
        if out is not None:
            refuse_out("sum")
        if where is not True or initial is not None:
            return chosen_table[np.sum](self, axis, dtype, keepdims, initial, where)
        return op.sum.apply(self, axis=axis, dtype=dtype, keepdims=keepdims)

    @with_call_context
    def mean(
        self, axis: Any = None, dtype: Any = None, out: None = None, keepdims: bool = False,
        *, where: Any = True,
    ) -> Any:  # fmt: skip
        if out is not None:
            refuse_out("mean")
        if where is not True:
            return chosen_table[np.mean](self, axis, dtype, keepdims, where)
        return op.mean.apply(self, axis=axis, dtype=dtype, keepdims=keepdims)

    @with_call_context
    def prod(
        self, axis: Any = None, dtype: Any = None, out: None = None, keepdims: bool = False,
        initial: Any = None, where: Any = True,
    ) -> Any:  # fmt: skip
        if out is not None:
            refuse_out("prod")
        if where is not True or initial is not None:
            return chosen_table[np.prod](self, axis, dtype, keepdims, initial, where)
        return op.prod.apply(self, axis=axis, dtype=dtype, keepdims=keepdims)

    @with_call_context
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
        if out is not None:
            refuse_out("var")
        if where is True and mean is None and correction is None:
            return op.var.apply(self, axis=axis, dtype=dtype, ddof=ddof, keepdims=keepdims)
        return chosen_table[np.var](self, axis, dtype, ddof, keepdims, correction, where, mean)

    @with_call_context
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
        if out is not None:
            refuse_out("std")
        if where is True and mean is None and correction is None:
            return op.std.apply(self, axis=axis, dtype=dtype, ddof=ddof, keepdims=keepdims)
        return chosen_table[np.std](self, axis, dtype, ddof, keepdims, correction, where, mean)

    @with_call_context
    def max(
        self, axis: Any = None, out: None = None, keepdims: bool = False,
        initial: Any = None, where: Any = True,
    ) -> Any:  # fmt: skip
        if out is not None:
            refuse_out("max")
        if where is not True or initial is not None:
            return chosen_table[np.max](self, axis, None, keepdims, initial, where)
        return op.max.apply(self, axis=axis, keepdims=keepdims)

    @with_call_context
    def min(
        self, axis: Any = None, out: None = None, keepdims: bool = False,
        initial: Any = None, where: Any = True,
    ) -> Any:  # fmt: skip
        if out is not None:
            refuse_out("min")
        if where is not True or initial is not None:
            return chosen_table[np.min](self, axis, None, keepdims, initial, where)
        return op.min.apply(self, axis=axis, keepdims=keepdims)

    @with_call_context
    def argmax(self, axis: Any = None, out: None = None, keepdims: bool = False) -> Any:
        if out is not None:
            refuse_out("argmax")
        return op.argmax.apply(self, axis=axis, keepdims=keepdims)

    @with_call_context
    def argmin(self, axis: Any = None, out: None = None, keepdims: bool = False) -> Any:
        if out is not None:
            refuse_out("argmin")
        return op.argmin.apply(self, axis=axis, keepdims=keepdims)

    @with_call_context
    def any(
        self, axis: Any = None, out: None = None, keepdims: bool = False, *, where: Any = True
    ) -> Any:
        if out is not None:
            refuse_out("any")
        if where is not True:
            return chosen_table[np.any](self, axis, None, keepdims, None, where)
        return op.any.apply(self, axis=axis, keepdims=keepdims)

    @with_call_context
    def all(
        self, axis: Any = None, out: None = None, keepdims: bool = False, *, where: Any = True
    ) -> Any:
        if out is not None:
            refuse_out("all")
        if where is not True:
            return chosen_table[np.all](self, axis, None, keepdims, None, where)
        return op.all.apply(self, axis=axis, keepdims=keepdims)

    @with_call_context
    def cumsum(self, axis: Any = None, dtype: Any = None, out: None = None) -> Any:
        if out is not None:
            refuse_out("cumsum")
        return op.cumsum.apply(self, axis=axis, dtype=dtype)

    @with_call_context
    def cumprod(self, axis: Any = None, dtype: Any = None, out: None = None) -> Any:
        if out is not None:
            refuse_out("cumprod")
        return op.cumprod.apply(self, axis=axis, dtype=dtype)

    @with_call_context
    def repeat(self, repeats: Any, axis: Any = None, *more: Any) -> Any:
        if more:
            raise TypeError(
                f"repeat{(repeats, axis, *more)}: NumPy's repeat takes how often each element is "
                "repeated, and an axis; PyTorch's, of the whole array along each axis, is "
                f"mg.tile(x, {(repeats, axis, *more)})"
            )
        return op.repeat(self, repeats, axis=axis)

    @with_call_context
    def argsort(
        self, axis: Any = -1, kind: Any = None, order: None = None,
        *, stable: bool = True, descending: bool = False,
    ) -> Any:  # fmt: skip
        return op.argsort.apply(
            self, axis=axis, kind=kind, order=order, stable=stable, descending=descending
        )

    @with_call_context
    def sort(
        self, axis: Any = -1, kind: Any = None, order: None = None,
        *, stable: bool = True, descending: bool = False,
    ) -> Any:  # fmt: skip
        return op.sort(
            self, axis=axis, kind=kind, order=order, stable=stable, descending=descending
        )

    @with_call_context
    def squeeze(self, axis: Any = None) -> Any:
        return op.squeeze.apply(self, axis=axis)

    @with_call_context
    def norm(self, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
        return op.norm(self, ord=ord, axis=axis, keepdims=keepdims)

    @with_call_context
    def logsumexp(self, axis: Any = None, keepdims: bool = False) -> Any:
        return op.logsumexp.apply(self, axis=axis, keepdims=keepdims)

    @with_call_context
    def split(self, sections: Any, axis: int = 0) -> Any:
        return op.split(self, sections, axis=axis)

    @with_call_context
    def chunk(self, chunks: int, axis: int = 0) -> Any:
        return op.chunk(self, chunks, axis=axis)

    @with_call_context
    def topk(self, k: int, axis: int = -1, largest: bool = True, sorted: bool = True) -> Any:
        return op.topk(self, k, axis=axis, largest=largest, sorted=sorted)

    @with_call_context
    def flip(self, axis: Any = None) -> Any:
        return op.flip(self, axis=axis)

    @with_call_context
    def roll(self, shift: Any, axis: Any = None) -> Any:
        return op.roll(self, shift, axis=axis)

    @with_call_context
    def softmax(self, axis: int = -1) -> Any:
        return op.softmax.apply(self, axis=axis)

    @with_call_context
    def log_softmax(self, axis: int = -1) -> Any:
        return op.log_softmax.apply(self, axis=axis)
