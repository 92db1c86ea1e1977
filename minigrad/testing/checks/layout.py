"""K6: the memory layout of the inputs does not matter."""

from ..case import Case
from ..errors import DoesNotApply
from ..function import Function
from ..numeric import normal
from .base import check
from .nearness import broadcast_terms, layouts, require_near


@check("K6", "the inputs' memory layout does not matter", gradient=False)
def k6(case: Case) -> int:
    """Values and gradients for Fortran, sliced, reversed and read-only inputs, one at a time."""
    function = case.function()
    if not function.xs:
        raise DoesNotApply("a sample without a floating argument")
    xs = function.xs
    values = function.value(xs)
    vs = normal(case.rng("K6"), values)
    expected = [*values, *function.vjp(xs, vs)]
    count = 0
    for i, x in enumerate(xs):
        for name, other in layouts(x):
            found = both(function, [*xs[:i], other, *xs[i + 1 :]], vs)
            for k, (a, b) in enumerate(zip(expected, found, strict=True)):
                what = f"result {k}" if k < len(values) else f"gradient {k - len(values)}"
                terms = broadcast_terms(case.spec, a, values)
                require_near(case.spec, a, b, f"{what}, argument {i} {name}", terms)
                count += 1
    return count or 1


def both(function: Function, xs: list, vs: list) -> list:
    """Values and gradients together."""
    return [*function.value(xs), *function.vjp(xs, vs)]
