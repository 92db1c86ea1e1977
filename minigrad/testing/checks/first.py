"""K2 and K3: first derivatives against finite differences."""

import numpy as np

from ..case import Case, Context, differentiated, primitive_of
from ..compare import NOISE, as_vectors, check_direction, check_jacobian, random_pair
from ..errors import DoesNotApply, GradcheckError
from ..function import Function, is_smooth_array
from ..gradcheck import FULL_JACOBIAN
from ..numeric import normal, pack, slope
from ..spec import OpSpec
from .base import check

_SLOPE = 1e-6  # of a result's size: less may be rounding


@check("K2", "the whole Jacobian against finite differences (small samples)")
def k2(case: Case) -> int:
    """Every entry of every Jacobian with at most 400 of them."""
    function = case.function()
    rows, columns = pack(function.value(function.xs)).size, pack(function.xs).size
    if not 0 < rows * columns <= FULL_JACOBIAN:
        raise DoesNotApply(f"no sample has a Jacobian of at most {FULL_JACOBIAN} entries: give one")
    matrix = check_jacobian(function, function.xs, "Jacobian")
    case.context.see(case.spec, function, abs(matrix).max(axis=0))
    return rows * columns


@check("K3", "directional derivatives against finite differences")
def k3(case: Case) -> int:
    """Signed random pairs (u, v) on every sample: three, or one at the fast level."""
    function = case.function()
    if not function.xs:
        raise DoesNotApply("a sample without a differentiable argument")
    count = 3 if case.context.full else 1
    for i in range(count):
        us, vs = random_pair(function, function.xs, case.rng("K3", i))
        if not vs:
            raise DoesNotApply("a sample without a differentiable result")
        g = check_direction(function, function.xs, us, vs, "gradient")
        case.context.see(case.spec, function, g)
    return count


def require_constants(spec: OpSpec, context: Context, smooth: bool) -> None:
    """No result may depend smoothly on an argument that the primitive declares without a gradient:
    the missing gradient would go unnoticed. If that is intended, the spec says so."""
    if primitive_of(spec) is None or spec.differentiable is False:
        return
    for case in context.doubles(spec):
        args = case.sample.args
        known = {*spec.constants, *(differentiated(spec, args) if smooth else ())}
        for i in [i for i, x in enumerate(args) if is_smooth_array(x) and i not in known]:
            if depends_smoothly(Function(spec.call, args, case.sample.params, [i]), case):
                name = f"constants=({i},)" if smooth else "differentiable=False"
                raise GradcheckError(
                    f"on sample {case.name!r} a result depends on argument {i} smoothly, which "
                    "carries no gradient by the op's declaration. Give it a rule, or declare "
                    f"that it has none: {name} in register_op"
                )


def depends_smoothly(function: Function, case: Case) -> bool:
    """Whether finite differences show a slope along a random direction."""
    if not function.value_or_refusal(function.xs):
        return False
    us = normal(case.rng("constant", *function.positions), function.xs)
    try:
        found = slope(as_vectors(function, function.xs), pack(function.xs), pack(us))
    except Exception:
        return False  # it refuses other values, as probabilities that must add up to 1
    size = np.abs(found.value)
    clear = np.isfinite(size) & (10 * np.abs(found.change) <= NOISE * size)
    return bool((clear & (size > _SLOPE * np.max(found.size, initial=0.0))).any())


def require_nonzero(spec: OpSpec, context: Context) -> None:
    """A gradient that is zero in every sample is unchecked. The spec may declare it zero wherever
    it exists, but only if that is true."""
    live = sorted(i for op, i in context.live if op == spec.name and spec.zero_at(i))
    if live:
        raise GradcheckError(
            f"zero_gradient says that the gradient of argument {live[0]} is zero; it is not"
        )
    never = sorted(i for op, i in context.dead if op == spec.name)
    never = [i for i in never if (spec.name, i) not in context.live and not spec.zero_at(i)]
    if never:
        raise GradcheckError(
            f"the gradient of argument {never[0]} is zero in every sample. Choose samples where it "
            "is not, or say zero_gradient=(position,) if it is zero wherever it exists"
        )
