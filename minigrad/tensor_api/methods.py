"""The methods of a tensor that compute something: each is one line, to an op.

Operators and methods keep ndarray's positional signatures; a few of PyTorch's names exist besides
them. The ops are entries of the registry (`op.mul` is defined in ops/elementwise/arithmetic.py);
engine/registry.py says why. They call `apply`, the op's fast call: calling the op itself
would do the same, but CPython calls an object with __call__ 0.1 µs slower than a function.
"""

from typing import Any

import numpy as np

from ..backends.device import OperandError
from ..engine.registry import op
from .axis_methods import AxisMethods
from .help import refuse_out, with_call_context
from .more_methods import documented


def each_of(index: Any) -> Any:
    """What reads and writes x[index] if under vmap examples have their own index; else None."""
    for item in index if isinstance(index, tuple) else (index,):
        while isinstance(item, Methods):
            if each_index := getattr(item, "each_index", None):
                return each_index(index)
            item = item._data  # type: ignore[attr-defined]
    return None


@documented
class Methods(AxisMethods):
    """Base of Tensor."""

    __slots__ = ()

    # -- arithmetic --------------------------------------------------------------------------

    def __add__(self, b: Any) -> Any:
        return op.add.apply(self, b)

    def __radd__(self, a: Any) -> Any:
        return op.add.apply(a, self)

    def __sub__(self, b: Any) -> Any:
        return op.sub.apply(self, b)

    def __rsub__(self, a: Any) -> Any:
        return op.sub.apply(a, self)

    def __mul__(self, b: Any) -> Any:
        return op.mul.apply(self, b)

    def __rmul__(self, a: Any) -> Any:
        return op.mul.apply(a, self)

    def __truediv__(self, b: Any) -> Any:
        return op.div.apply(self, b)

    def __rtruediv__(self, a: Any) -> Any:
        return op.div.apply(a, self)

    def __floordiv__(self, b: Any) -> Any:
        return op.floor_divide.apply(self, b)

    def __rfloordiv__(self, a: Any) -> Any:
        return op.floor_divide.apply(a, self)

    def __mod__(self, b: Any) -> Any:
        return op.remainder.apply(self, b)

    def __rmod__(self, a: Any) -> Any:
        return op.remainder.apply(a, self)

    def __divmod__(self, b: Any) -> Any:
        return op.divmod(self, b)

    def __rdivmod__(self, a: Any) -> Any:
        return op.divmod(a, self)

    def __pow__(self, b: Any) -> Any:
        return op.pow.apply(self, b)

    def __rpow__(self, a: Any) -> Any:
        return op.pow.apply(a, self)

    def __matmul__(self, b: Any) -> Any:
        return op.matmul.apply(self, b)

    def __rmatmul__(self, a: Any) -> Any:
        return op.matmul.apply(a, self)

    def __neg__(self) -> Any:
        return op.neg.apply(self)

    def __pos__(self) -> Any:
        return op.positive.apply(self)

    def __abs__(self) -> Any:
        return op.abs.apply(self)

    def __eq__(self, b: Any) -> Any:  # type: ignore[override]
        try:
            return op.equal(self, b)
        except OperandError:  # text, an object: unequal, as Python then says
            return NotImplemented

    def __ne__(self, b: Any) -> Any:  # type: ignore[override]
        try:
            return op.not_equal(self, b)
        except OperandError:
            return NotImplemented

    def __lt__(self, b: Any) -> Any:
        return op.less(self, b)

    def __le__(self, b: Any) -> Any:
        return op.less_equal(self, b)

    def __gt__(self, b: Any) -> Any:
        return op.greater(self, b)

    def __ge__(self, b: Any) -> Any:
        return op.greater_equal(self, b)

    def __and__(self, b: Any) -> Any:
        return op.bitwise_and(self, b)

    def __rand__(self, a: Any) -> Any:
        return op.bitwise_and(a, self)

    def __or__(self, b: Any) -> Any:
        return op.bitwise_or(self, b)

    def __ror__(self, a: Any) -> Any:
        return op.bitwise_or(a, self)

    def __xor__(self, b: Any) -> Any:
        return op.bitwise_xor(self, b)

    def __rxor__(self, a: Any) -> Any:
        return op.bitwise_xor(a, self)

    def __lshift__(self, b: Any) -> Any:
        return op.bitwise_left_shift(self, b)

    def __rlshift__(self, a: Any) -> Any:
        return op.bitwise_left_shift(a, self)

    def __rshift__(self, b: Any) -> Any:
        return op.bitwise_right_shift(self, b)

    def __rrshift__(self, a: Any) -> Any:
        return op.bitwise_right_shift(a, self)

    def __invert__(self) -> Any:
        return op.bitwise_invert.apply(self)

    def __getitem__(self, index: Any) -> Any:
        return op.getitem.apply(self, index=index)

    # -- ndarray's methods -------------------------------------------------------------------

    @property
    def T(self) -> Any:
        """mg.transpose: all axes in reverse order."""
        return op.transpose.apply(self)

    @property
    def mT(self) -> Any:
        """mg.matrix_transpose: the last two axes exchanged."""
        return op.swapaxes.apply(self, axis1=-1, axis2=-2)

    @property
    def real(self) -> Any:
        """mg.real of this tensor."""
        return op.real.apply(self)

    @property
    def imag(self) -> Any:
        """mg.imag of this tensor."""
        return op.imag.apply(self)

    def conj(self) -> Any:
        # an array's method leaves truths what they are; np.conjugate makes them int8
        return self if self.dtype == bool else op.conj(self)  # type: ignore[attr-defined]

    conjugate = conj

    def astype(self, dtype: Any, copy: bool = True) -> Any:
        return op.astype(self, dtype=dtype, copy=copy)

    def to(
        self, *targets: Any, device: str | None = None, dtype: Any = None,
        non_blocking: bool = False,
    ) -> Any:  # fmt: skip
        return op.to(self, *targets, device=device, dtype=dtype, non_blocking=non_blocking)

    @with_call_context
    def copy(self, order: str = "K") -> Any:
        return op.copy.apply(self, order=order) if order != "K" else op.copy(self)

    clone = copy

    @with_call_context
    def clip(self, min: Any = None, max: Any = None, out: None = None) -> Any:
        if out is not None:
            refuse_out("clip")
        return op.clip(self, min, max)

    @with_call_context
    def round(self, decimals: int = 0, out: None = None) -> Any:
        if out is not None:
            refuse_out("round")
        return op.round.apply(self, decimals=decimals)

    @with_call_context
    def dot(self, b: Any, out: None = None) -> Any:
        if out is not None:
            refuse_out("dot")
        return op.dot(self, b)

    @with_call_context
    def trace(
        self, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None, out: None = None
    ) -> Any:
        if out is not None:
            refuse_out("trace")
        return op.trace(self, offset=offset, axis1=axis1, axis2=axis2, dtype=dtype)

    @with_call_context
    def diagonal(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
        return op.diagonal.apply(self, offset=offset, axis1=axis1, axis2=axis2)

    @with_call_context
    def take(self, indices: Any, axis: Any = None, out: None = None, mode: str = "raise") -> Any:
        if out is not None:
            refuse_out("take")
        return op.take(self, indices, axis=axis, mode=mode)

    def nonzero(self) -> Any:
        return op.nonzero(self)

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

    # -- PyTorch's spelling of elementwise functions ------------------------------------------

    def exp(self) -> Any:
        return op.exp.apply(self)

    def log(self) -> Any:
        return op.log.apply(self)

    def sqrt(self) -> Any:
        return op.sqrt.apply(self)

    def tanh(self) -> Any:
        return op.tanh.apply(self)

    def sigmoid(self) -> Any:
        return op.sigmoid.apply(self)

    def relu(self) -> Any:
        return op.relu.apply(self)

    def abs(self) -> Any:
        return op.abs.apply(self)

    def sin(self) -> Any:
        return op.sin.apply(self)

    def cos(self) -> Any:
        return op.cos.apply(self)

    def square(self) -> Any:
        return op.square.apply(self)
