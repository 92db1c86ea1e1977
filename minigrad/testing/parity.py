"""minigrad-gradcheck --variants: check K34 (a variant equals the reference) of every variant of
every op, as a table.

With numba, the variants of mg.accelerate are compared as well.
"""

import warnings
from collections.abc import Iterable, Sequence

import numpy as np

from ..backends.optional import optional
from ..compiled import accelerate
from ..custom.rule_variants import listed_of_rules
from ..engine.events import listen, unlisten
from ..instrument.table import cells, counted
from ..instrument.terminal import folded
from .case import Context, differentiated, primitive_of
from .checks.grown import large_samples
from .checks.variant_forwards import derivatives
from .checks.variants import Parity, parities
from .function import as_tensors
from .shared import shared_kept
from .spec import OpSpec, specs

_HEAD = ("op", "variant", "device", "calls", "worst difference")


def parities_of(task: tuple[str, str, int]) -> list[Parity]:
    """The findings for each variant of one op. At module level, for another process."""
    name, level, seed = task
    op = primitive_of(specs[name])
    if op is None:
        return []
    usual = (*op.variants, *listed_of_rules(op))
    with np.errstate(all="ignore"), warnings.catch_warnings(), shared_kept():
        warnings.simplefilter("ignore")  # references warn of NaN and the like
        found = [*parities(specs[name], Context(level, seed))]
        if optional("numba") is not None:
            with accelerate(process=False):
                found += parities(specs[name], Context(level, seed), but=usual)
    return found


def with_variants(names: Iterable[str]) -> list[str]:
    """The named ops. An op made of other ops is replaced by the ops that it calls; a line reports
    each op without its own variants."""
    found: list[str] = []
    for name in names:
        if _has_variants(name):
            found.append(name)
            continue
        called = [other for other in _called_by(specs[name]) if _has_variants(other)]
        found += called
        if called:
            print(folded(f"{name} has no variants; it calls ops that have: {', '.join(called)}"))
        else:
            print(folded(f"{name} has no variants: its own form computes every call"))
    return [*dict.fromkeys(found)]


def _has_variants(name: str) -> bool:
    """Whether an op has variants, including those of mg.accelerate if numba is installed."""
    op = primitive_of(specs[name]) if name in specs else None
    if op is None:
        return False
    if op.variants or listed_of_rules(op):
        return True
    if optional("numba") is None:
        return False
    with accelerate(process=False):
        return bool(op.variants or listed_of_rules(op))


def _called_by(spec: OpSpec) -> list[str]:
    """The ops that its samples in double precision call, and those that their derivatives call."""
    names: dict[str, None] = {}
    context, rng = Context(), np.random.default_rng(0)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for sample in [*context.samples(spec, spec.dtypes[0]), *large_samples(spec, context)]:
            positions = differentiated(spec, sample.args)
            listener = _Names(names)
            listen(listener)
            try:
                derivatives(spec.call, sample.args, sample.params, positions, rng, np)
            except Exception:  # an op without a derivative
                spec.call(*as_tensors(sample.args), **sample.params)
            finally:
                unlisten(listener)
    return [*names]


class _Names:
    """A listener that collects the names of the called ops."""

    def __init__(self, names: dict[str, None]):
        self.names = names

    def hear(self, event: tuple) -> None:
        self.names[event[1]] = None


def print_parities(of_ops: Iterable[list[Parity]], seconds: float) -> int:
    """Print the table, then each difference; 1 if there is one, else 0."""
    found = [parity for of_op in of_ops for parity in of_op]
    rows = [_HEAD, *[_row(parity) for parity in found]]
    widths = [max(cells(row[i]) for row in rows) for i in range(len(_HEAD))]
    for row in rows:
        print("  ".join([_aligned(*cell) for cell in zip(row, widths, _HEAD)]).rstrip())
    wrong = [parity for parity in found if parity.failure]
    for parity in wrong:
        print(folded(f"{parity.op}, K34: {parity.failure}"))
    print(_summary(found, len(wrong), seconds), flush=True)
    return 1 if wrong else 0


def _row(parity: Parity) -> Sequence[str]:
    told = "the same bits" if not parity.worst else f"{parity.worst:.3g} ulp"
    if parity.failure:
        told = "WRONG"
    elif not parity.calls:
        told = f"not reached: {parity.unreached}"
    return parity.op, parity.variant, parity.device, f"{parity.calls:,}", told


def _aligned(cell: str, width: int, head: str) -> str:
    space = " " * (width - cells(cell))
    return space + cell if head == "calls" else cell + space


def _summary(found: list[Parity], wrong: int, seconds: float) -> str:
    ops, calls = len({parity.op for parity in found}), sum(parity.calls for parity in found)
    unreached = sum(not parity.calls and not parity.failure for parity in found)
    text = f"{counted(ops, 'op')}, {counted(len(found), 'variant')}, {counted(calls, 'call')}"
    text += f", {unreached:,} not reached, {seconds:.1f} s: "
    return text + (f"{wrong:,} wrong" if wrong else "none is wrong")
