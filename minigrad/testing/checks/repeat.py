"""K13: the same computation gives the same bits, again and on every engine.

BLAS has one thread throughout, as in the parallel engine: with more threads, matrix products have
other bits on some processors.
"""

from ...backends import blas
from ..case import Case
from ..engines import available
from ..errors import DoesNotApply
from ..function import as_array
from ..numeric import normal
from .base import check
from .nearness import require_same_bits


@check("K13", "repeatable; every engine gives the same bits")
def k13(case: Case) -> int:
    with blas.one_thread():
        return _compare(case)


def _compare(case: Case) -> int:
    function = case.function()
    if not function.xs or not (values := function.value(function.xs)):
        raise DoesNotApply("a sample without a gradient")
    vs = normal(case.rng("K13"), values)
    expected = function.vjp(function.xs, vs)
    for y, again in zip(values, function.value(function.xs), strict=True):
        require_same_bits(y, as_array(again), "a second call")
    engines, missing = available()
    for engine in missing:
        case.note("K13", f"there is no {engine} engine")
    for name, engine in engines.items():
        found = engine(function, function.xs, vs)
        for i, (a, b) in enumerate(zip(expected, found, strict=True)):
            require_same_bits(a, b, f"gradient of argument {i}, again ({name} engine)")
    return len(values) + len(engines) * len(expected)
