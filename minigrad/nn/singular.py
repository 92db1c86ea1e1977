"""Power iteration: the singular vectors that both forms of spectral_norm keep in buffers.

It computes with tensors: under vmap each example has its vectors.
"""

from typing import Any

from ..backends.dtypes import accumulator
from ..engine.errors import describe
from ..engine.registry import op
from ..errors import TransformError
from ..modes import saving
from ..modes.recording import no_grad
from ..tensor_api.tensor import Tensor


def unit(x: Any, eps: float) -> Any:
    """x / max(‖x‖, eps), of 16-bit floats in float32: a sum of squares is soon out of range."""
    wide = op.cast(x, dtype=accumulator(x.dtype) or x.dtype)
    length = op.vector_norm(wide)
    return op.cast(wide / op.maximum(length, eps), dtype=x.dtype)


def constant(x: Tensor) -> Tensor:
    """x as it is now: a later write into x does not change it, nor what a checkpoint computes."""
    return saving.once(lambda: x.detach().copy())


def iterate(matrix: Tensor, u: Tensor, v: Tensor, times: int, eps: float, v_first: bool) -> None:
    """Bring u and v closer to the first singular vectors of a matrix, in place."""
    if saving.is_recomputing():
        return
    with no_grad():
        matrix, left, right = matrix.detach(), u.detach(), v.detach()
        transposed = op.conj(matrix.T)
        for _ in range(times):
            if v_first:
                right = unit(op.matmul(transposed, left), eps)
            left = unit(op.matmul(matrix, right), eps)
            if not v_first:
                right = unit(op.matmul(transposed, left), eps)
        for buffer, value in ((u, left), (v, right)):
            _write(buffer, value)


def _write(buffer: Any, value: Any) -> None:
    """buffer[...] = value without its derivatives; of each example where the buffer is vmapped."""
    what = describe(buffer)
    while isinstance(value, Tensor):
        if isinstance(buffer, Tensor) and buffer.level >= value.level:
            if buffer.level == value.level:
                value = value.data
            buffer = buffer.data
        elif getattr(value, "hides_axis", False):
            raise TransformError(
                f"vmap: spectral_norm would write vectors of each example into one buffer, {what}: "
                "call eval() first, or give each example its own (stack_module_state)"
            )
        else:
            value = value.data
    while isinstance(buffer, Tensor):
        buffer = buffer.data
    buffer[...] = value
