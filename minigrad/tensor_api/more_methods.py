"""The methods of a tensor that are the op of the same name: x.erf() is mg.erf(x), x.add(y) x + y.

Methods with ndarray's positional signatures are in methods.py.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from ..engine.registry import op
from .help import of_call, refuse_out, with_call_context

Kind = TypeVar("Kind", bound=type)
_NAMES = """
add addcdiv addcmul addmm addmv addr allclose amax amin aminmax angle arccos arccosh arcsin arcsinh
arctan arctan2 arctanh argpartition argwhere baddbmm bincount bitwise_and bitwise_left_shift
bitwise_or bitwise_right_shift bitwise_xor broadcast_to ceil cholesky choose contiguous copysign
corrcoef cosh count_nonzero cov cross cummax cummin deg2rad det diag diag_embed diagflat
diagonal_scatter diff digamma dist div dsplit erf erfc erfinv exp2 expm1 fix fliplr flipud
float_power floor floor_divide fmax fmin fmod frac frexp gcd greater greater_equal heaviside hsplit
hypot index_add index_copy index_fill index_put index_reduce inner inv isclose isfinite isinf isnan
kron kthvalue lcm ldexp lerp less less_equal lgamma log10 log1p log2 logaddexp logaddexp2
logcumsumexp logdet logical_and logical_not logical_or logical_xor logit masked_scatter
masked_select matmul matrix_exp matrix_power maximum median minimum mode moveaxis mul nan_to_num
nanmean nanmedian nanquantile nansum neg nextafter not_equal outer pinv polygamma positive pow prelu
qr quantile rad2deg reciprocal remainder renorm rot90 rsqrt scatter_reduce select_scatter sign
signbit sinc sinh slice_scatter slogdet sub svd tan tile trunc unflatten unfold unique vdot vsplit
xlogy
""".split()


class MoreMethods:
    """Base of Methods."""

    __slots__ = ()

    if TYPE_CHECKING:  # the names that the loop below adds

        def __getattr__(self, name: str) -> Any: ...

    @with_call_context
    def where(self, condition: Any, other: Any) -> Any:
        """self where the condition holds, else other: PyTorch's order."""
        return op.where(condition, self, other)

    @with_call_context
    def flatten(self, start: Any = 0, end: int = -1) -> Any:
        """The axes start … end (by default all) merged into one: mg.flatten.

        The first argument may also be NumPy's order, "C" or "F": x.flatten("F").
        """
        if isinstance(start, str):
            return op.reshape.apply(self, shape=-1, order=start.upper())
        return op.flatten(self, start=start, end=end)

    @with_call_context
    def compress(self, condition: Any, axis: int | None = None, out: None = None) -> Any:
        """mg.compress(condition, self, axis)"""
        if out is not None:
            refuse_out("compress")
        return op.compress(condition, self, axis)


def documented(kind: Kind) -> Kind:
    """Class decorator: gives each method without a docstring one that names its op."""
    for name, method in vars(kind).items():
        if callable(method) and name[0] != "_" and not method.__doc__:
            method.__doc__ = _doc(name)
    return kind


_IN_LINALG = {
    "cholesky", "det", "inv", "matrix_exp", "matrix_power", "pinv", "qr", "slogdet", "svd",
}  # fmt: skip


def _doc(name: str) -> str:
    space = "mg.linalg" if name in _IN_LINALG else "mg"
    return f"{space}.{name} of this tensor and the arguments"


def _method(name: str) -> Callable:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        fn = getattr(op, name)
        try:
            return fn(self, *args, **kwargs)
        except Exception as error:
            raise of_call(error, fn, (self, *args), kwargs)  # noqa: B904 (it knows its cause)

    method.__name__, method.__qualname__ = name, f"Tensor.{name}"
    method.__doc__ = _doc(name)
    return method


for _name in _NAMES:
    setattr(MoreMethods, _name, _method(_name))
