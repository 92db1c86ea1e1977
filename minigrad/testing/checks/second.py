"""K10: the rules can be differentiated, twice at the full level, and both modes agree."""

import numpy as np

from ...tensor_api.tensor import Tensor
from ..case import Case
from ..compare import check_direction
from ..errors import DoesNotApply, GradcheckError, Inconclusive, Skipped
from ..function import Function, Pullback
from ..numeric import normal, pack
from .base import check
from .pushed import equal_sums

_MODES = "⟨v, Ju⟩ by forward mode and ⟨Jᵀv, u⟩"
_THIRD = 40  # most coordinates of (x, v) for a check of third order
_DETACHED = (
    "If K2 and K3 pass, the rule is right and its own derivative is not. It may use a value that "
    "does not depend on the input (x.data, a detached value, a residual, NumPy on plain arrays)"
)


@check("K10", "second order: the vjp by x and v; forward against reverse; symmetry")
def k10(case: Case) -> int:
    function = case.function()
    xs, rng = function.xs, case.rng("K10")
    if not xs or not function.value(xs):
        raise DoesNotApply("a sample without a differentiable argument and result")
    vs = normal(rng, function.value(xs))
    pullback = Pullback(function)
    point = [*xs, *vs]
    same_value(function, pullback, vs)
    pairs = 3 if case.context.full else 1
    for _ in range(pairs):
        us, ws = normal(rng, point), normal(rng, xs)
        try:
            check_direction(pullback, point, us, ws, "second derivative (gradient of the gradient)")
        except Inconclusive:
            raise
        except GradcheckError as error:
            raise GradcheckError(f"{error.what}. {_DETACHED}", error.entry) from error
    if case.context.full and pack(point).size <= _THIRD:
        wide = [*point, *normal(rng, xs)]
        third = Pullback(pullback, len(point))
        us, ws = normal(rng, wide), normal(rng, point)
        check_direction(third, wide, us, ws, "third derivative")
    symmetric(pullback, xs, vs, normal(rng, xs), normal(rng, xs))
    try:
        forward_against_reverse(function, normal(rng, xs), vs)
    except GradcheckError as error:
        raise GradcheckError(f"{error}{of_kind(case)}") from error
    forward_over_reverse(function, pullback, vs, normal(rng, xs), normal(rng, xs))
    return pairs + 4


def of_kind(case: Case) -> str:
    """The meaning of the op's kind for forward mode, if the op has no jvp rule."""
    op = case.primitive
    if op is None or op.jvp_rule is not None or not op.kind:
        return ""
    means = {
        "linear": "the op itself on the tangents: it must be linear in all its arguments together",
        "multilinear": "the op on each tangent and the other arguments: it must be linear in each "
        "argument, the others held",
        "elementwise": "each tangent times its partial: an element of the result must depend on "
        "one element of each argument",
    }[op.kind]
    return f". Of kind={op.kind!r} forward mode is {means}"


def same_value(function: Function, pullback: Pullback, vs: list) -> None:
    """A rule gives the same on tensors as on arrays."""
    plain = pack(function.vjp(function.xs, vs))
    recorded = pack([g.data for g in pullback.record([*function.xs, *vs])[1]])
    terms = np.abs(plain) + np.abs(recorded)
    if not (np.abs(plain - recorded) <= 1e-13 * (terms + terms.max(initial=0.0))).all():
        worst = int(np.argmax(np.abs(plain - recorded)))
        raise GradcheckError(
            f"the gradient with create_graph=True is {recorded[worst]!r} where it is "
            f"{plain[worst]!r} without (coordinate {worst} of all arguments)"
        )


def symmetric(pullback: Pullback, xs: list, vs: list, us: list, ws: list) -> None:
    """⟨u, Hw⟩ = ⟨w, Hu⟩ for the Hessian H of ⟨v, f⟩."""
    point, n = [*xs, *vs], len(xs)
    u, w = pack(us), pack(ws)
    hu = pack(pullback.vjp(point, us)[:n])
    hw = pack(pullback.vjp(point, ws)[:n])
    equal_sums(u * hw, w * hu, "⟨u, Hw⟩ and ⟨w, Hu⟩ (the Hessian is not symmetric)")


def forward_against_reverse(function: Function, us: list, vs: list) -> None:
    """⟨v, Ju⟩ = ⟨Jᵀv, u⟩ with Ju by forward mode, in all arguments and in each one alone."""
    try:
        tangents = function.jvp(function.xs, us)
    except Skipped:
        return
    pulled = function.vjp(function.xs, vs)
    equal_sums(pack(vs) * pack(tangents), pack(pulled) * pack(us), _MODES)
    if len(us) > 1:
        for i, (x, u, g) in enumerate(zip(function.xs, us, pulled, strict=True)):
            # the others are tensors without requires_grad, as in a user's call, not plain arrays
            args = function.args_with([Tensor(x) for x in function.xs])
            alone = Function(function.fn, args, function.params, [function.positions[i]])
            what = f"{_MODES} where only {function.names[alone.positions[0]]} moves"
            equal_sums(pack(vs) * pack(alone.jvp([x], [u])), pack([g]) * pack([u]), what)


def forward_over_reverse(
    function: Function, pullback: Pullback, vs: list, us: list, ws: list
) -> None:
    """⟨w, Hu⟩ with Hu by forward mode over the vjp equals ⟨u, Hw⟩ by two backwards."""
    from ... import func

    cotangents = tuple(Tensor(v) for v in vs)

    def pulled(*xs: Tensor) -> tuple:
        return func.vjp(lambda *ts: tuple(function.call(ts)), *xs)[1](cotangents)

    primals, tangents = ([Tensor(a) for a in arrays] for arrays in (function.xs, us))
    hu = [t.data for t in func.jvp(pulled, tuple(primals), tuple(tangents))[1]]
    hw = pullback.vjp([*function.xs, *vs], ws)[: len(us)]
    equal_sums(
        pack(hu) * pack(ws), pack(hw) * pack(us), "⟨w, Hu⟩ by forward over reverse and ⟨u, Hw⟩"
    )
