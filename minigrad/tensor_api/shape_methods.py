"""The methods of a tensor that rearrange, select or scan: each is the op, with ndarray's signature.

PyTorch's dim= and keepdim= get an error that says what to write here, as mg.sum(x, dim=1) has it.
"""

from typing import Any

import numpy as np

from ..engine.registry import op
from .help import refuse_out, with_call_context
from .more_methods import MoreMethods, documented


@documented
class ShapeMethods(MoreMethods):
    """Base of Methods."""

    __slots__ = ()

    # -- shape -------------------------------------------------------------------------------

    @with_call_context
    def reshape(self, *shape: Any, order: str = "C") -> Any:
        how = {} if order == "C" else {"order": order}
        return op.reshape.apply(self, shape=shape[0] if len(shape) == 1 else shape, **how)

    @with_call_context
    def view(self, *shape: Any, order: str = "C", dtype: Any = None) -> Any:
        """mg.reshape, by PyTorch's name; NumPy's view of other dtypes is refused."""
        given = dtype if dtype is not None or len(shape) != 1 else shape[0]
        if isinstance(given, type | str | np.dtype):
            raise TypeError(
                f"view: takes a shape, as reshape does, and got the dtype {given!r}; the same "
                "numbers are x.astype(dtype), the same bits x.detach().numpy().view(dtype)"
            )
        return self.reshape(*shape, order=order)

    def ravel(self, order: str = "C") -> Any:
        return self.reshape(-1, order=order)

    @with_call_context
    def transpose(self, *axes: Any) -> Any:
        if len(axes) == 2 and self.ndim > 2:
            raise ValueError(
                f"transpose{axes}: x has {self.ndim} axes, {self.shape}, and NumPy's transpose "
                f"takes all of them in their new order; two are swapped by swapaxes{axes}"
            )
        return op.transpose.apply(self, axes=axes[0] if len(axes) == 1 else axes or None)

    @with_call_context
    def permute(self, *axes: Any) -> Any:
        return op.transpose.apply(self, axes=axes[0] if len(axes) == 1 else axes or None)

    @with_call_context
    def swapaxes(self, axis1: int, axis2: int) -> Any:
        return op.swapaxes.apply(self, axis1=axis1, axis2=axis2)

    @with_call_context
    def unsqueeze(self, axis: int) -> Any:
        """mg.expand_dims: one axis of length 1 put in."""
        return op.expand_dims.apply(self, axis=axis)

    @with_call_context
    def expand(self, *shape: Any) -> Any:
        """mg.broadcast_to, where −1 keeps the length of an axis."""
        lengths = shape[0] if len(shape) == 1 and isinstance(shape[0], tuple | list) else shape
        new = len(lengths) - self.ndim  # −1 keeps an axis as it is; a new one has no length
        kept = [n if n != -1 or i < new else self.shape[i - new] for i, n in enumerate(lengths)]
        return op.broadcast_to.apply(self, shape=tuple(kept))

    # -- parts ------------------------------------------------------------------------------

    @with_call_context
    def searchsorted(self, v: Any, side: str = "left", sorter: Any = None) -> Any:
        return op.searchsorted(self, v, side=side, sorter=sorter)

    @with_call_context
    def gather(self, axis: int, index: Any) -> Any:
        return op.gather(self, axis, index)

    @with_call_context
    def scatter(self, axis: int, index: Any, src: Any) -> Any:
        return op.scatter(self, axis, index, src)

    @with_call_context
    def scatter_add(self, axis: int, index: Any, src: Any) -> Any:
        return op.scatter_add(self, axis, index, src)

    @with_call_context
    def index_select(self, axis: int, index: Any) -> Any:
        return op.index_select(self, axis, index)

    @with_call_context
    def masked_fill(self, mask: Any, value: Any) -> Any:
        return op.masked_fill(self, mask, value)

    @with_call_context
    def narrow(self, axis: int, start: int, length: int) -> Any:
        return op.narrow(self, axis, start, length)

    @with_call_context
    def tril(self, k: int = 0) -> Any:
        return op.tril.apply(self, k=k)

    @with_call_context
    def triu(self, k: int = 0) -> Any:
        return op.triu.apply(self, k=k)

    # -- along an axis ----------------------------------------------------------------------

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
