"""The methods of a tensor that compute something: each is one line, to an op.

Operators and methods keep ndarray's positional signatures; a few of PyTorch's names exist too. The
ops are entries of the registry (`op.mul` is defined in ops/elementwise/arithmetic.py);
engine/registry.py says why. They call `apply`, the op's fast call. Calling the op itself would do
the same, but CPython calls a function sooner than an object with __call__.
"""

from typing import Any

import numpy as np

from ..backends.device import OperandError
from ..engine.registry import chosen_table, op
from .help import method_of_op, refuse_out, with_call_context
from .more_methods import documented
from .shape_methods import ShapeMethods


def each_of(index: Any) -> Any:
    """The reader and writer of x[index] if under vmap each example has its index; else None."""
    for item in index if isinstance(index, tuple) else (index,):
        while isinstance(item, Methods):
            if each_index := getattr(item, "each_index", None):
                return each_index(index)
            item = item._data  # type: ignore[attr-defined]
    return None


def _with_options(function: Any, out: Any, x: Any, *options: Any) -> Any:
    """A reduction with options that its op does not have; with out= an error."""
    if out is not None:
        refuse_out(function.__name__)
    return chosen_table[function](x, *options)


@documented
class Methods(ShapeMethods):
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

    # -- reductions -------------------------------------------------------------------------

    @method_of_op
    def sum(
        self, axis: Any = None, dtype: Any = None, out: None = None, keepdims: bool = False,
        initial: Any = None, where: Any = True,
    ) -> Any:  # fmt: skip
        if out is not None or where is not True or initial is not None:
            return _with_options(np.sum, out, self, axis, dtype, keepdims, initial, where)
        return op.sum.apply(self, axis=axis, dtype=dtype, keepdims=keepdims)

    @method_of_op
    def mean(
        self, axis: Any = None, dtype: Any = None, out: None = None, keepdims: bool = False,
        *, where: Any = True,
    ) -> Any:  # fmt: skip
        if out is not None or where is not True:
            return _with_options(np.mean, out, self, axis, dtype, keepdims, where)
        return op.mean.apply(self, axis=axis, dtype=dtype, keepdims=keepdims)

    @method_of_op
    def prod(
        self, axis: Any = None, dtype: Any = None, out: None = None, keepdims: bool = False,
        initial: Any = None, where: Any = True,
    ) -> Any:  # fmt: skip
        if out is not None or where is not True or initial is not None:
            return _with_options(np.prod, out, self, axis, dtype, keepdims, initial, where)
        return op.prod.apply(self, axis=axis, dtype=dtype, keepdims=keepdims)

    @method_of_op
    def var(
        self, axis: Any = None, dtype: Any = None, out: None = None, ddof: float = 0,
        keepdims: bool = False, correction: float | None = None, *, where: Any = True,
        mean: Any = None,
    ) -> Any:  # fmt: skip
        if out is not None or where is not True or mean is not None or correction is not None:
            return _with_options(
                np.var, out, self, axis, dtype, ddof, keepdims, correction, where, mean
            )
        return op.var.apply(self, axis=axis, dtype=dtype, ddof=ddof, keepdims=keepdims)

    @method_of_op
    def std(
        self, axis: Any = None, dtype: Any = None, out: None = None, ddof: float = 0,
        keepdims: bool = False, correction: float | None = None, *, where: Any = True,
        mean: Any = None,
    ) -> Any:  # fmt: skip
        if out is not None or where is not True or mean is not None or correction is not None:
            return _with_options(
                np.std, out, self, axis, dtype, ddof, keepdims, correction, where, mean
            )
        return op.std.apply(self, axis=axis, dtype=dtype, ddof=ddof, keepdims=keepdims)

    @method_of_op
    def max(
        self, axis: Any = None, out: None = None, keepdims: bool = False,
        initial: Any = None, where: Any = True,
    ) -> Any:  # fmt: skip
        if out is not None or where is not True or initial is not None:
            return _with_options(np.max, out, self, axis, None, keepdims, initial, where)
        return op.max.apply(self, axis=axis, keepdims=keepdims)

    @method_of_op
    def min(
        self, axis: Any = None, out: None = None, keepdims: bool = False,
        initial: Any = None, where: Any = True,
    ) -> Any:  # fmt: skip
        if out is not None or where is not True or initial is not None:
            return _with_options(np.min, out, self, axis, None, keepdims, initial, where)
        return op.min.apply(self, axis=axis, keepdims=keepdims)

    @method_of_op
    def argmax(self, axis: Any = None, out: None = None, keepdims: bool = False) -> Any:
        if out is not None:
            refuse_out("argmax")
        return op.argmax.apply(self, axis=axis, keepdims=keepdims)

    @method_of_op
    def argmin(self, axis: Any = None, out: None = None, keepdims: bool = False) -> Any:
        if out is not None:
            refuse_out("argmin")
        return op.argmin.apply(self, axis=axis, keepdims=keepdims)

    @method_of_op
    def any(
        self, axis: Any = None, out: None = None, keepdims: bool = False, *, where: Any = True
    ) -> Any:
        if out is not None or where is not True:
            return _with_options(np.any, out, self, axis, None, keepdims, None, where)
        return op.any.apply(self, axis=axis, keepdims=keepdims)

    @method_of_op
    def all(
        self, axis: Any = None, out: None = None, keepdims: bool = False, *, where: Any = True
    ) -> Any:
        if out is not None or where is not True:
            return _with_options(np.all, out, self, axis, None, keepdims, None, where)
        return op.all.apply(self, axis=axis, keepdims=keepdims)

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
