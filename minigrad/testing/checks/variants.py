"""K34: each variant of an op computes the same as the op's own form, the reference (seam C).

A user's variant of an op is compared without any registration.
"""

import copy
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from ...custom.rule_variants import listed_of_rules
from ...custom.variants import ANY, Variant
from ...engine.primitive import Primitive
from ..case import Context, primitive_of
from ..errors import DoesNotApply, GradcheckError
from ..spec import OpSpec, specs
from .base import check
from .device import gpu_module
from .variant_calls import calls_of, large_calls
from .variant_forwards import Beside, Parity
from .variant_rules import RulesBeside


@check("K34", "each variant gives what the reference gives, to second order",
       per="op", gradient=False, optional=True)  # fmt: skip
def k34(spec: OpSpec, context: Context) -> int:
    """Results, residuals, gradients and second derivatives, of one variant at a time; for a variant
    of rules the derivatives.

    The arguments are samples, and larger ones: of each dtype, in other layouts, broadcast, empty,
    with NaN and infinities, unless the op skips K12. A variant that a tape follows makes NumPy's
    own calls, so its numbers must be as near as K6 requires for another layout. Other variants may
    be 256 roundings off, in sums 1,000 of the largest. A variant that takes no call appears among
    the skips.
    """
    count = 0
    for found in parities(spec, context):
        if found.failure:
            raise GradcheckError(found.failure)
        if not found.calls:
            reason = f"{found.variant} on {found.device}: {found.unreached}"
            context.notes.add((spec.name, "K34", f"variant not reached, {reason}"))
        count += found.calls
    if not count:
        raise DoesNotApply("no variant computes a call")
    if "K12" in spec.skips:
        context.notes.add((spec.name, "K34", f"NaN and infinities: {spec.skips['K12']}"))
    return count


def parities(spec: OpSpec, context: Context, but: tuple[Variant, ...] = ()) -> Iterator[Parity]:
    """The findings for each variant of the op and of its rules, except for those known already."""
    op = primitive_of(spec)
    if op is None or op.reference is None:
        return
    for kind, variants in ((Beside, op.variants), (RulesBeside, listed_of_rules(op))):
        for variant in [v for v in variants if v not in but]:
            for device in getattr(variant, "devices", (variant.on,)):
                yield _parity(spec, op, variant, device, kind, context)


def _parity(
    spec: OpSpec, op: Primitive, variant: Variant, device: str, kind: type[Beside], context: Context
) -> Parity:
    found, xp = Parity(op.name, variant.name, device), np
    if device not in ("cpu", ANY):
        xp = gpu_module()
        if xp is None:
            found.unreached = "no GPU here"
            return found
    beside = kind(spec, op, copy.copy(variant), found, xp)
    try:
        for call in calls_of(spec, context, variant.least, lambda: found.calls):
            beside.compare(spec, call, context)
        if not found.calls:
            _by_the_family(spec, beside, context)
    except GradcheckError as error:
        found.failure = f"variant {variant.name} on {device}, {error}"
    return found


def _by_the_family(spec: OpSpec, beside: Beside, context: Context) -> None:
    """The large samples of related registered functions, whose calls and rules may run the op: for
    conv those of conv2d."""
    for other in [s for s in specs.values() if s.module == spec.module and s is not spec]:
        for call in large_calls(other, context):
            call = replace(call, what=f"in {other.name}, {call.what}")
            beside.compare(other, call, context, inside=True)
