"""K2 and K3: first derivatives against finite differences."""

from ..case import Case, Context
from ..compare import check_direction, check_jacobian, random_pair
from ..errors import DoesNotApply, GradcheckError
from ..gradcheck import FULL_JACOBIAN
from ..numeric import pack
from ..spec import OpSpec
from .base import check


@check("K2", "the whole Jacobian against finite differences (small samples)")
def k2(case: Case) -> int:
    """Every entry of every Jacobian with at most 400 of them."""
    function = case.function()
    rows, columns = pack(function.value(function.xs)).size, pack(function.xs).size
    if not 0 < rows * columns <= FULL_JACOBIAN:
        raise DoesNotApply(f"no sample has a Jacobian of at most {FULL_JACOBIAN} entries")
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


def require_nonzero(spec: OpSpec, context: Context) -> None:
    """A gradient that is zero in every sample has not been checked at all; the spec may say that it
    is zero wherever it exists, and must not say so where it is not."""
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
