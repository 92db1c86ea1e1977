"""Rotary position embedding: pairs of features turned by an angle that grows with the position."""

from typing import Any

from ...backends.dtypes import accumulator
from ...engine.errors import describe
from ...engine.registry import op
from ...tensor_api.composite import composite, on_its_gpu
from ...tensor_api.help import with_call_context
from ..axes import array_like, as_floating, constant_array, module_of

__all__ = ["rotary", "rotary_angles"]


@with_call_context
def rotary_angles(positions: Any, size: int, base: float = 10000.0) -> tuple:
    """(cos, sin) of position · base^(−2i/size), i = 0 … size/2 − 1: positions (...) → (..., size/2)

    In float64; constants. ValueError for an odd size.
    """
    if size % 2:
        raise ValueError(f"rotary_angles: size must be even, features turn in pairs; got {size}")
    positions = constant_array(array_like(positions), "positions")
    xp = module_of(positions)
    speeds = base ** (xp.arange(0, size, 2) / -size)
    angles = positions[..., None] * speeds
    return xp.cos(angles), xp.sin(angles)


@composite
@on_its_gpu
def rotary(
    x: Any,
    positions: Any = None,
    base: float = 10000.0,
    cos: Any = None,
    sin: Any = None,
    interleaved: bool = False,
) -> Any:
    """y = (a cos − b sin, a sin + b cos) for each pair (a, b) of features ;  x (..., T, d), d even

    Pairs are feature i with i + d/2, or with interleaved=True 2i with 2i + 1 (as in the paper). The
    positions are (T,), or of any shape that broadcasts against x's without d; by default 0 … T − 1.
    Or give cos and sin (..., d/2) themselves. The product of two rotated vectors depends on the
    difference of their positions alone. Su et al., RoFormer, 2021.
    """
    x = as_floating(array_like(x))
    if x.ndim < 2 or x.shape[-1] % 2:
        raise ValueError(
            "rotary: x must be (..., T, d) with an even d, since features turn in pairs; got "
            f"{describe(x)}"
        )
    if (cos is None) != (sin is None):
        raise ValueError("rotary: give both cos and sin, or neither and positions")
    if cos is not None and positions is not None:
        raise ValueError("rotary: cos and sin say the positions; give these or positions, not both")
    if cos is None:
        positions = module_of(x).arange(x.shape[-2]) if positions is None else positions
        cos, sin = rotary_angles(positions, x.shape[-1], base)
    half = x.shape[-1] // 2
    dtype = x.dtype
    wide = accumulator(dtype) or dtype
    cos, sin = (op.astype(array_like(c), dtype=wide) for c in (cos, sin))
    for name, c in (("cos", cos), ("sin", sin)):
        if c.shape[-1] != half:
            raise ValueError(
                f"rotary: {name} must have one entry for each pair of features, {half} of x "
                f"{x.shape}; got shape {c.shape}"
            )
        lead = c.shape[:-1]
        if any(n not in (1, m) for n, m in zip(lead[::-1], x.shape[-2::-1])) or c.ndim > x.ndim:
            raise ValueError(
                f"rotary: positions {lead} must broadcast against x's axes without the last, "
                f"{x.shape[:-1]}"
            )
    a, b = (x[..., 0::2], x[..., 1::2]) if interleaved else (x[..., :half], x[..., half:])
    turned = a * cos - b * sin, a * sin + b * cos
    if interleaved:
        y = op.reshape(op.stack(turned, axis=-1), shape=(*turned[0].shape[:-1], 2 * half))
    else:
        y = op.concatenate(turned, axis=-1)
    return op.astype(y, dtype=dtype, copy=False)
