"""The methods of a tensor that work along an axis: each is the op, with ndarray's signature.

They take any keyword so that PyTorch's dim= and keepdim= get an error that says what to write, as
mg.sum(x, dim=1) has it; `Never` is what a type checker refuses all the same.
"""

from typing import Any, Never

from .errors import no_such_argument
from .more_methods import MoreMethods
from .registry import op


class AxisMethods(MoreMethods):
    """Base of Methods."""

    __slots__ = ()

    def sum(
        self,
        axis: Any = None,
        dtype: Any = None,
        out: None = None,
        keepdims: bool = False,
        **other: Never,
    ) -> Any:
        if other:
            raise no_such_argument(self, "sum", other)
        return op.sum(self, axis=axis, dtype=dtype, keepdims=keepdims)

    def mean(
        self,
        axis: Any = None,
        dtype: Any = None,
        out: None = None,
        keepdims: bool = False,
        **other: Never,
    ) -> Any:
        if other:
            raise no_such_argument(self, "mean", other)
        return op.mean(self, axis=axis, dtype=dtype, keepdims=keepdims)

    def prod(
        self,
        axis: Any = None,
        dtype: Any = None,
        out: None = None,
        keepdims: bool = False,
        **other: Never,
    ) -> Any:
        if other:
            raise no_such_argument(self, "prod", other)
        return op.prod(self, axis=axis, dtype=dtype, keepdims=keepdims)

    def var(
        self,
        axis: Any = None,
        dtype: Any = None,
        out: None = None,
        ddof: int = 0,
        keepdims: bool = False,
        **other: Never,
    ) -> Any:
        if other:
            raise no_such_argument(self, "var", other)
        return op.var(self, axis=axis, dtype=dtype, ddof=ddof, keepdims=keepdims)

    def std(
        self,
        axis: Any = None,
        dtype: Any = None,
        out: None = None,
        ddof: int = 0,
        keepdims: bool = False,
        **other: Never,
    ) -> Any:
        if other:
            raise no_such_argument(self, "std", other)
        return op.std(self, axis=axis, dtype=dtype, ddof=ddof, keepdims=keepdims)

    def max(
        self, axis: Any = None, out: None = None, keepdims: bool = False, **other: Never
    ) -> Any:
        if other:
            raise no_such_argument(self, "max", other)
        return op.max(self, axis=axis, keepdims=keepdims)

    def min(
        self, axis: Any = None, out: None = None, keepdims: bool = False, **other: Never
    ) -> Any:
        if other:
            raise no_such_argument(self, "min", other)
        return op.min(self, axis=axis, keepdims=keepdims)

    def argmax(
        self, axis: Any = None, out: None = None, keepdims: bool = False, **other: Never
    ) -> Any:
        if other:
            raise no_such_argument(self, "argmax", other)
        return op.argmax(self, axis=axis, keepdims=keepdims)

    def argmin(
        self, axis: Any = None, out: None = None, keepdims: bool = False, **other: Never
    ) -> Any:
        if other:
            raise no_such_argument(self, "argmin", other)
        return op.argmin(self, axis=axis, keepdims=keepdims)

    def any(
        self, axis: Any = None, out: None = None, keepdims: bool = False, **other: Never
    ) -> Any:
        if other:
            raise no_such_argument(self, "any", other)
        return op.any(self, axis=axis, keepdims=keepdims)

    def all(
        self, axis: Any = None, out: None = None, keepdims: bool = False, **other: Never
    ) -> Any:
        if other:
            raise no_such_argument(self, "all", other)
        return op.all(self, axis=axis, keepdims=keepdims)

    def cumsum(self, axis: Any = None, dtype: Any = None, **other: Never) -> Any:
        if other:
            raise no_such_argument(self, "cumsum", other)
        return op.cumsum(self, axis=axis, dtype=dtype)

    def cumprod(self, axis: Any = None, dtype: Any = None, **other: Never) -> Any:
        if other:
            raise no_such_argument(self, "cumprod", other)
        return op.cumprod(self, axis=axis, dtype=dtype)

    def repeat(self, repeats: Any, axis: Any = None, **other: Never) -> Any:
        if other:
            raise no_such_argument(self, "repeat", other)
        return op.repeat(self, repeats, axis=axis)

    def argsort(self, axis: Any = -1, **other: Never) -> Any:
        if other:
            raise no_such_argument(self, "argsort", other)
        return op.argsort(self, axis=axis)

    def sort(self, axis: Any = -1, **other: Never) -> Any:
        if other:
            raise no_such_argument(self, "sort", other)
        return op.sort(self, axis=axis)

    def squeeze(self, axis: Any = None, **other: Never) -> Any:
        if other:
            raise no_such_argument(self, "squeeze", other)
        return op.squeeze(self, axis=axis)

    def norm(
        self, ord: Any = None, axis: Any = None, keepdims: bool = False, **other: Never
    ) -> Any:
        if other:
            raise no_such_argument(self, "norm", other)
        return op.norm(self, ord=ord, axis=axis, keepdims=keepdims)

    def logsumexp(self, axis: Any = None, keepdims: bool = False, **other: Never) -> Any:
        if other:
            raise no_such_argument(self, "logsumexp", other)
        return op.logsumexp(self, axis=axis, keepdims=keepdims)

    def split(self, sections: Any, axis: int = 0, **other: Never) -> Any:
        if other:
            raise no_such_argument(self, "split", other)
        return op.split(self, sections, axis=axis)

    def chunk(self, chunks: int, axis: int = 0, **other: Never) -> Any:
        if other:
            raise no_such_argument(self, "chunk", other)
        return op.chunk(self, chunks, axis=axis)

    def topk(self, k: int, axis: int = -1, largest: bool = True, **other: Never) -> Any:
        if other:
            raise no_such_argument(self, "topk", other)
        return op.topk(self, k, axis=axis, largest=largest)

    def flip(self, axis: Any = None, **other: Never) -> Any:
        if other:
            raise no_such_argument(self, "flip", other)
        return op.flip(self, axis=axis)

    def roll(self, shift: Any, axis: Any = None, **other: Never) -> Any:
        if other:
            raise no_such_argument(self, "roll", other)
        return op.roll(self, shift, axis=axis)

    def softmax(self, axis: int = -1, **other: Never) -> Any:
        if other:
            raise no_such_argument(self, "softmax", other)
        return op.softmax(self, axis=axis)

    def log_softmax(self, axis: int = -1, **other: Never) -> Any:
        if other:
            raise no_such_argument(self, "log_softmax", other)
        return op.log_softmax(self, axis=axis)
