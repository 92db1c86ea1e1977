"""One variant of an op's rules against these (custom/rule_variants.py).

Rules run on plain arrays unless the backward records a graph, so the first derivatives are taken
without one. Recorded rules are the op's own; a backward of their graph calls the variant again.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ...custom.rule_variants import own_rules
from ...tensor_api.tensor import Tensor
from ..case import Context, differentiated
from ..errors import GradcheckError
from ..function import floating_results, gradients
from ..layouts import layouts, repeated
from ..spec import OpSpec
from .device import on_device
from .variant_calls import Call
from .variant_forwards import Beside, derivatives, random_like, with_forward

_Derive = Callable[[tuple], dict[str, Any]]  # arguments -> derivatives by name


class RulesBeside(Beside):
    """The gradients by a variant of the rules, compared with those by the op's own rules."""

    compared = 0  # its earlier calls, which select the layout of a cotangent

    def compare(self, spec: OpSpec, call: Call, context: Context, inside: bool = False) -> None:
        """The backwards of a call; forwards are the op's reference."""
        positions = differentiated(spec, call.args)
        if not positions:
            return
        args, params = on_device(call.args, self.xp), on_device(call.params, self.xp)
        seed = int(context.rng(spec.name, "K34", call.what).integers(1 << 32))
        before = self.found.calls

        def compare(told: str, wanted: list[int], used: int | None, lie: int) -> None:
            def pulled(args: tuple) -> dict[str, Any]:
                rng = np.random.default_rng(seed)
                return _pulled(spec.call, args, params, wanted, used, lie, rng, self.xp)

            self._near(call.what + told, args, pulled)

        for told, wanted, used in _patterns(positions, call.differentiate):
            compare(told, wanted, used, 0)
        if self.found.calls > before and not call.differentiate:
            self.compared += 1
            compare(", a cotangent that lies otherwise", positions, None, self.compared)
        if call.differentiate and self.found.calls > before:

            def derived(args: tuple) -> dict[str, Any]:
                rng = np.random.default_rng(seed)
                return derivatives(spec.call, args, params, positions, rng, self.xp)

            self._near(call.what, args, derived)

    def _near(self, what: str, args: tuple, derive: _Derive) -> None:
        """Require the variant's derivatives to equal those of the op's own rules."""

        def by_own_rules(args: tuple) -> dict[str, Any]:
            with with_forward(self.op, self.op.reference), own_rules(self.op):
                return derive(args)

        before, found, raised = self.variant.calls, {}, None
        try:
            with with_forward(self.op, self.op.reference), own_rules(self.op, self.variant):
                found = derive(args)
        except Exception as error:
            raised = error
        if raised is None and self.variant.calls == before:
            return
        try:
            expected = by_own_rules(args)
        except Exception:
            return  # the op itself refuses
        if raised is not None:
            raise GradcheckError(
                f"{what}: it raises {raised!r}, which the op's own rules do not"
            ) from raised
        self.found.calls += 1
        try:
            self.near(expected, found, args, by_own_rules)
        except GradcheckError as error:
            raise GradcheckError(f"{what}: {error}") from error


def _patterns(positions: list[int], each: bool) -> Iterator[tuple[str, list[int], int | None]]:
    """(description, the arguments that need a gradient, how many results are used; None: all)."""
    for told, used in (("", None), (", the first result used alone", 1)):
        yield told, positions, used
        for i in positions if each and len(positions) > 1 else ():
            yield f"{told}, argument {i} alone needing a gradient", [i], used


def _pulled(
    call: Callable, args: tuple, params: dict, positions: list[int], used: int | None, lie: int,
    rng: np.random.Generator, xp: Any,
) -> dict[str, Any]:  # fmt: skip
    """The gradients for random cotangents of the results, in the lie-th layout."""
    given, leaves = list(args), [Tensor(args[i], requires_grad=True) for i in positions]
    for i, leaf in zip(positions, leaves, strict=True):
        given[i] = leaf
    ys = [y for y in floating_results(call(*given, **params)) if getattr(y, "requires_grad", False)]
    if used is not None and len(ys) <= used:
        return {}
    vs = [xp.asarray(_laid(random_like(rng, y), lie)) for y in ys[:used]]
    found = zip(positions, gradients(leaves, ys[:used], vs), strict=True)
    return {f"the gradient of argument {i}": g.data for i, g in found if g is not None}


def _laid(v: np.ndarray, lie: int) -> np.ndarray:
    """The cotangent in the lie-th layout: its own, one with equal rows, or others."""
    ways = [v, *[other for _, other in (*layouts(v), *repeated(v))]]
    return ways[lie % len(ways)]
