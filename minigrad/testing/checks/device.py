"""K14: on a GPU the op gives the same as on the CPU: value, gradient, and no hidden transfer."""

from typing import Any

import numpy as np

from ...backends.device import DeviceError, to_host
from ...tensor_api.tensor import Tensor
from ..case import Case
from ..errors import DoesNotApply, GradcheckError
from ..function import as_array, floating_results, gradients, is_smooth_array, results
from ..numeric import normal
from .base import check

# Parity, not accuracy: K15 and K16 measure that. Another order of summing and another library's
# exp differ by some ULP, and products of ill-conditioned samples magnify it. A wrong kernel, a
# missing case or a float32 instead of a float64 is far outside these.
_TOLERANCE = {"float64": 1e-8, "complex128": 1e-8, "float32": 2e-3, "complex64": 2e-3}
_NARROW = 3e-2


def gpu_module() -> Any:
    """CuPy if it is installed and sees a device."""
    try:
        import cupy

        return cupy if cupy.cuda.is_available() else None
    except ImportError:
        return None


def on_device(x: Any, xp: Any) -> Any:
    """x with every NumPy array in it on the device, also inside containers."""
    if isinstance(x, np.ndarray | np.generic):
        return xp.asarray(x)
    if isinstance(x, dict):
        return {name: on_device(v, xp) for name, v in x.items()}
    return type(x)(on_device(v, xp) for v in x) if type(x) in (list, tuple) else x


@check("K14", "the same on the GPU as on the CPU", per="every", gradient=False, optional=True)
def k14(case: Case) -> int:
    xp = gpu_module()
    if xp is None:
        raise DoesNotApply("no GPU here")
    try:
        return _compared(case, xp)
    except DeviceError as error:  # a function that CuPy lacks: reported, and listed in docs/gpu.md
        raise DoesNotApply(str(error)) from error


def _compared(case: Case, xp: Any) -> int:
    """How many arrays were compared, values and gradients."""
    sample, function = case.sample, case.function()
    values = [as_array(y) for y in case.call(*[_tensor(x) for x in sample.args])]
    args = on_device(sample.args, xp)
    params = on_device(sample.params, xp)
    leaves = list(args)
    for position in function.positions:
        leaves[position] = Tensor(args[position], requires_grad=True)
    given = case.spec.call(*[_tensor(x, xp) for x in leaves], **params)
    found = results(given)
    if len(found) != len(values):
        raise GradcheckError(f"{len(found)} results on the GPU, {len(values)} on the CPU")
    for i, (y, value) in enumerate(zip(found, values, strict=True)):
        _compare(f"result {i}", y, value, case.dtype)
    vs = normal(case.rng("K14"), function.value(function.xs))
    if not function.positions or not vs:
        return len(values)
    grads = function.vjp(function.xs, vs)
    tracked = [leaves[i] for i in function.positions]
    ys = floating_results(given)
    for i, (g, expected) in enumerate(
        zip(gradients(tracked, ys, [xp.asarray(v) for v in vs]), grads, strict=True)
    ):
        if g is not None:
            _compare(f"the gradient of argument {function.positions[i]}", g, expected, case.dtype)
    return len(values) + len(grads)


def _tensor(x: Any, xp: Any = np) -> Any:
    """A smooth array as a tensor: a call then runs the op and not NumPy alone."""
    return Tensor(x) if is_smooth_array(x) and isinstance(x, xp.ndarray) else x


def _compare(what: str, y: Any, expected: np.ndarray, dtype: str) -> None:
    y = y.data if isinstance(y, Tensor) else y
    if isinstance(y, np.ndarray):
        raise GradcheckError(f"{what} came back on the host")
    y = to_host(y)  # a Python bool or number lives on the host
    if y.shape != expected.shape or y.dtype != expected.dtype:
        raise GradcheckError(
            f"{what} is {y.dtype} {y.shape} on the GPU and {expected.dtype} {expected.shape} on "
            "the CPU"
        )
    if y.dtype.kind not in "fc" and str(y.dtype) != "bfloat16":
        if not np.array_equal(y, expected):
            raise GradcheckError(
                f"{what} differs: {y.ravel()[:5]} on the GPU, {expected.ravel()[:5]}"
            )
        return
    wide = np.complex128 if y.dtype.kind == "c" else np.float64
    y, expected = y.astype(wide), expected.astype(wide)
    finite = np.isfinite(expected)
    if not np.array_equal(finite, np.isfinite(y)):
        raise GradcheckError(f"{what}: not finite at different places")
    scale = np.abs(expected[finite]).max(initial=1.0)
    error = np.abs(y[finite] - expected[finite]).max(initial=0.0)
    if error > _TOLERANCE.get(dtype, _NARROW) * scale:
        raise GradcheckError(f"{what} differs by {error:.3g}, its largest entry is {scale:.3g}")
