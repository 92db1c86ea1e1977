"""K27 of elementwise ops that take complex numbers: all around the origin, and on both axes."""

import numpy as np

from ..case import Context, argument_names, differentiated
from ..compare import RTOL
from ..errors import GradcheckError
from ..function import Function, is_smooth_array
from ..spec import OpSpec, Sample
from .slopes import Slopes, stencil

_SIZES = (0.13, 0.71, 1.9, 4.3)
# the axes, where branch cuts lie, and between them
_DIRECTIONS = (1, 1 + 1j, 1j, -1 + 1j, -1, -1 - 1j, -1j, 1 - 1j)
_POINTS = 96  # for several arguments, drawn from those of one


def in_the_plane(spec: OpSpec, context: Context, sample: Sample) -> int:
    """For how many arguments the gradient was compared with slopes along both axes, where these are
    clear, away from branch cuts."""
    z = np.array([r * u for r in _SIZES for u in _DIRECTIONS])
    places = [i for i, x in enumerate(sample.args) if is_smooth_array(x)]
    rng = context.rng(spec.name, "in the plane")
    n = z.size if len(places) == 1 else _POINTS
    args = list(sample.args)
    for i, x in enumerate(args):
        if i in places:
            drawn = z if len(places) == 1 else rng.choice(z, n)
            args[i] = drawn if x.dtype.kind == "c" else np.abs(drawn)
        elif isinstance(x, np.ndarray):
            args[i] = np.resize(x, n)
    positions = differentiated(spec, tuple(args))
    function = Function(spec.call, args, sample.params, positions, argument_names(spec))
    return sum(
        along_both_axes(function, i) for i, x in enumerate(function.xs) if x.dtype.kind == "c"
    )


def along_both_axes(function: Function, i: int) -> int:
    """How many comparisons were made of the real and the imaginary part of the gradient by argument
    i. The cotangents are 1 and, if the result is complex, i."""
    x, count = function.xs[i], 0
    slopes = [Slopes(stencil(function, i, unit), x) for unit in (1, 1j)]
    clear = slopes[0].clear & slopes[1].clear
    y = function.value(function.xs)[0]
    for v in (1, 1j) if y.dtype.kind == "c" else (1,):
        g = function.vjp(function.xs, [np.full_like(y, v)])[i]
        for part, slope in zip((np.real(g), np.imag(g)), slopes, strict=True):
            exact = np.real(np.conj(v) * slope.fine)
            allowed = RTOL * np.abs(slope.fine) + slope.noise + slope.rounding
            wrong = clear & ~(np.abs(part - exact) <= allowed)
            if wrong.any():
                k, place = int(np.argmax(wrong)), function.positions[i]
                which = "real" if slope is slopes[0] else "imaginary"
                point = [complex(a[k]) for a in function.args if is_smooth_array(a)]
                raise GradcheckError(
                    f"the {which} part of the gradient by argument {place} "
                    f"({function.names[place]}) at {point}, for a cotangent of {v}, is {part[k]}. "
                    f"Finite differences give {exact[k]} ({int(wrong.sum())} of {int(clear.sum())} "
                    "points)"
                )
            count += int(clear.sum())
    return count
