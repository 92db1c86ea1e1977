"""Running the checks: the list of ops, each check on each of them, and the results."""

import traceback
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from time import perf_counter
from typing import Any

import numpy as np

from ..backends.dtypes import bfloat16
from ..custom.shown import as_it_is
from ..engine.registry import op as registry
from .case import Case, Context, is_differentiable_op
from .checks import CHECKS, Check
from .checks.first import require_constants, require_nonzero
from .errors import DoesNotApply, GradcheckError, Inconclusive, Skipped
from .shared import shared_kept
from .snippet import op_snippet
from .spec import OpSpec, specs

_FAILURES_TOLD = 3  # failing samples that one outcome describes
_NARROW = ("float32", "float16", "bfloat16", "complex64")


@dataclass
class Outcome:
    """One check of one op.

    status        "pass", "fail", "skip" (could apply, did not run), "n/a" (nothing to compare)
    comparisons   how many were made
    reason        of a skip or n/a
    failures      (sample, message, snippet) of the first failing samples
    """

    op: str
    check: str
    status: str = "pass"
    comparisons: int = 0
    reason: str = ""
    failures: list[tuple[str, str, str]] = field(default_factory=list)
    seconds: float = 0.0


def load_samples() -> None:
    """Import the samples of every op of this package."""
    from . import samples  # noqa: F401


def op_names() -> list[str]:
    """Every op: registered entries (an alias counts once) and ops of third parties."""
    load_samples()
    seen: dict[int, str] = {}
    for entry in registry:
        seen.setdefault(id(entry), entry.__name__)
    return [*seen.values(), *[name for name in specs if name not in set(seen.values())]]


def check_ops(
    names: Iterable[str], context: Context, checks: Sequence[Check] = CHECKS
) -> Iterator[Outcome]:
    """The outcome of each check on each op; an op without samples fails."""
    for name in names:
        if name in specs:
            yield from check_spec(specs[name], context, checks)
        else:
            why = (
                f"the op {name!r} has no samples: register_op({name!r}, samples, reference=...) "
                "in minigrad/testing/samples/, to check its derivative"
            )
            yield Outcome(name, "samples", "fail", failures=[("", why, "")])


def check_spec(
    spec: OpSpec, context: Context, checks: Sequence[Check] = CHECKS
) -> Iterator[Outcome]:
    """The outcome of each check on one op."""
    try:
        with np.errstate(all="ignore"), shared_kept():
            smooth = is_differentiable_op(spec, context)
    except Exception as error:
        if missing := _missing_package(error):
            for check in checks:
                yield Outcome(spec.name, check.id, "skip", reason=missing)
            return
        yield Outcome(spec.name, "samples", "fail", failures=[_told(spec, context, "", "", error)])
        return
    for check in checks:
        yield check_one(spec, check, context, smooth)


def check_one(spec: OpSpec, check: Check, context: Context, smooth: bool = True) -> Outcome:
    """One check on one op, on every sample it wants.

    At the full level a skipped check runs all the same, to report skips that are no longer needed.
    """
    outcome = Outcome(spec.name, check.id)
    start = perf_counter()
    skipped = spec.skips.get(check.id)
    if check.gradient and not smooth:
        outcome.status, outcome.reason = "n/a", "the op has no derivative"
        _check_declarations(spec, check, context, outcome, smooth)
    elif skipped is None or context.full:
        with np.errstate(all="ignore"), warnings.catch_warnings(), as_it_is():
            warnings.simplefilter("ignore")  # references warn of empty slices and the like
            try:
                with shared_kept():
                    _make(spec, check, context, outcome)
            except GradcheckError as error:
                outcome.status = "fail"
                outcome.failures.append(_told(spec, context, check.id, "", error))
    if skipped is not None:
        needed = "" if outcome.status != "pass" else " [the check passes: this skip can go]"
        needed = needed if context.full else ""
        outcome = Outcome(spec.name, check.id, "skip", reason=skipped + needed)
    outcome.seconds = perf_counter() - start
    return outcome


def _make(spec: OpSpec, check: Check, context: Context, outcome: Outcome) -> None:
    calls = [("", (spec, context))]
    if check.per != "op":
        try:
            calls = [(case.name, (case,)) for case in cases_of(spec, check, context)]
        except Exception as error:  # no samples of a further dtype
            if missing := _missing_package(error):
                outcome.status, outcome.reason = "skip", missing
                return
            outcome.failures.append(_told(spec, context, check.id, "", error))
            calls = []
    for sample, args in calls:
        try:
            outcome.comparisons += _made(check, *args)
        except DoesNotApply as reason:
            outcome.reason = outcome.reason or str(reason)
        except Skipped as skipped:
            outcome.status, outcome.reason = "skip", skipped.reason
        except Exception as error:
            if missing := _missing_package(error):
                outcome.status, outcome.reason = "skip", missing
                return
            outcome.failures.append(_told(spec, context, check.id, sample, error))
            if len(outcome.failures) == _FAILURES_TOLD:
                break
    _check_declarations(spec, check, context, outcome, smooth=True)
    if outcome.failures:
        outcome.status = "fail"
    elif not outcome.comparisons and outcome.status != "skip":
        _nothing_compared(check, outcome)


def _check_declarations(
    spec: OpSpec, check: Check, context: Context, outcome: Outcome, smooth: bool
) -> None:
    """With check K3: whether op and spec declare correctly which arguments have a gradient."""
    if check.id != "K3" or outcome.failures:
        return
    try:
        with np.errstate(all="ignore"):
            require_constants(spec, context, smooth)
            if smooth:
                require_nonzero(spec, context)
    except GradcheckError as error:
        outcome.failures.append(_told(spec, context, check.id, "", error))
        outcome.status = "fail"


_OPTIONAL = ("scipy", "mpmath", "ml_dtypes", "opt_einsum")


def _missing_package(error: BaseException | None) -> str:
    """Which optional package an op or its reference lacks, as the reason of a skip.

    If the package is there, an ImportError of a rule is a failure like any other.
    """
    while error is not None:
        for package in _OPTIONAL if isinstance(error, ImportError) else ():
            if package in str(error) and find_spec(package) is None:
                return f"{package} is not installed"
        error = error.__cause__ or error.__context__
    return ""


_DRAWS = 3  # of a sample, before an inconclusive check counts as a failure


def _made(check: Check, *args: Any) -> int:
    """The comparisons of a check. If finite differences are inconclusive, since a sample or a
    direction lies near a kink or a singularity by chance, both are drawn again. The seeds are read
    once for all samples: that takes longer than many a sample."""
    for _ in range(_DRAWS - 1):
        try:
            with shared_kept(seeds=False):
                return check(*args)
        except Inconclusive:
            again = args[0].again() if isinstance(args[0], Case) else None
            if again is None:
                raise
            args = (again,)
    with shared_kept(seeds=False):
        return check(*args)


def _nothing_compared(check: Check, outcome: Outcome) -> None:
    if check.optional:
        outcome.status, outcome.reason = "n/a", outcome.reason or "no sample of such a dtype"
        return
    outcome.status = "fail"
    why = f"no comparison was made: {outcome.reason or 'the op has no sample'}"
    outcome.failures.append(("", why, ""))


def cases_of(spec: OpSpec, check: Check, context: Context) -> Iterator[Case]:
    """The samples for a check."""
    if check.per == "double":
        yield from context.doubles(spec)
        return
    for dtype in spec.dtypes:
        if dtype == "bfloat16" and bfloat16 is None:
            context.notes.add((spec.name, check.id, "bfloat16: ml_dtypes is not installed"))
        elif check.per == "every" or dtype in _NARROW:
            yield from context.cases(spec, dtype)


def _told(
    spec: OpSpec, context: Context, check: str, sample: str, error: Exception
) -> tuple[str, str, str]:
    """(sample, message, snippet) of a failure; the message of a crash names its line."""
    message = str(error)
    if not isinstance(error, GradcheckError):
        frame = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{frame.filename}:{frame.lineno} in {frame.name}"
        message = f"{type(error).__name__}: {error} ({place})"
    snippet = op_snippet(spec.name, check, sample, context.seed, context.level, spec.module)
    return sample, message, snippet if check else ""


def run_check(
    op: str, check: str, sample: str | None = None, seed: int = 0, level: str = "fast"
) -> Outcome:
    """Repeat one check of one op; raises the error itself, for a debugger to stop at."""
    load_samples()
    if op not in specs:
        raise KeyError(f"run_check: the op {op!r} has no samples; import what registers it")
    wanted = next((c for c in CHECKS if c.id == check), None)
    if wanted is None:
        raise ValueError(
            f"run_check: there is no check {check!r}, only {CHECKS[0].id} to {CHECKS[-1].id}"
        )
    outcome = Outcome(op, check)
    with np.errstate(all="ignore"), shared_kept():
        _run_check(outcome, wanted, specs[op], Context(level, seed), sample)
    return outcome


def _run_check(
    outcome: Outcome, wanted: Check, spec: OpSpec, context: Context, sample: str | None
) -> None:
    if wanted.per == "op":
        outcome.comparisons = wanted(spec, context)
        return
    cases = [*cases_of(spec, wanted, context)]
    names = [case.name for case in cases]
    if sample is not None and sample not in names:
        raise ValueError(
            f"run_check: {outcome.check} of {outcome.op} has no sample {sample!r}, only {names}"
        )
    for case in cases:
        if sample in (None, case.name):
            try:
                outcome.comparisons += _made(wanted, case)
            except DoesNotApply as reason:
                outcome.reason = str(reason)
