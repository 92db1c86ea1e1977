"""A test of the harness itself: every planted wrong rule must be caught, its right twin must pass.

At the full level every rule of every op is also mutated, and every mutant must be caught.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from time import perf_counter

from ..instrument.terminal import folded
from .case import Context
from .mutate import mutants
from .plant import Plant
from .planted import NAMED
from .planted_calls import CALLS
from .planted_conditional import CONDITIONAL
from .planted_ends import ENDS
from .planted_forms import FORMS
from .planted_levels import LEVELS
from .planted_mixed import MIXED
from .planted_more import MORE
from .planted_owned import OWNED
from .planted_places import PLACES
from .planted_plain import PLAIN
from .planted_rare import RARE
from .planted_scales import SCALES
from .planted_variants import VARIANTS
from .progress import progress
from .run import Outcome, check_spec
from .spec import OpSpec

PLANTS = (
    *NAMED, *MORE, *CONDITIONAL, *CALLS, *RARE, *MIXED, *FORMS, *PLACES, *OWNED, *ENDS, *PLAIN,
    *LEVELS, *SCALES, *VARIANTS,
)  # fmt: skip


@dataclass(frozen=True)
class Verdict:
    """The harness's verdict on one plant: the checks that fail on it, and on its right twin."""

    plant: Plant
    caught_by: tuple[str, ...]
    twin_failures: tuple[Outcome, ...]

    @property
    def killed(self) -> bool:
        return bool(self.caught_by) and not self.twin_failures


def judge(plant: Plant, seed: int = 0, level: str = "fast") -> Verdict:
    """Put the wrong op and the right one under every check."""
    with plant.while_wrong():
        wrong = [*_failures(plant.wrong, seed, level)]
    right = [*_failures(plant.right, seed, level)]
    excused = {outcome.check for outcome in right}
    caught = tuple(outcome.check for outcome in wrong if outcome.check not in excused)
    return Verdict(plant, caught, tuple(right))


def is_killed(plant: Plant, seed: int = 0, level: str = "fast") -> bool:
    """`judge(plant, seed, level).killed`; the wrong op stops at its first failure."""
    if any(_failures(plant.right, seed, level)):
        return False
    with plant.while_wrong():
        return any(_failures(plant.wrong, seed, level))


def _failures(spec: OpSpec, seed: int, level: str) -> Iterator[Outcome]:
    return (o for o in check_spec(spec, Context(level, seed)) if o.status == "fail")


def verdicts(seed: int = 0) -> Iterator[Verdict]:
    for plant in progress(PLANTS, len(PLANTS), "planted rules"):
        yield judge(plant, seed)


def run_self_test(seed: int = 0, level: str = "fast") -> int:
    """Print what caught each plant, and the kill rate; 0 if it is 100 %."""
    start, killed, judged = perf_counter(), 0, 0
    try:
        for verdict in verdicts(seed):
            judged += 1
            killed += verdict.killed
            caught = ", ".join(verdict.caught_by) or "NOT CAUGHT"
            print(folded(f"{verdict.plant.name:17} {verdict.plant.what}: {caught}"), flush=True)
            for outcome in verdict.twin_failures:
                told = outcome.failures[0][1]
                print(folded(f"  but its right twin fails {outcome.check}: {told}"))
    finally:  # an interrupt too reports how far it came
        first = "" if judged == len(PLANTS) else f", the first {judged} of {len(PLANTS)}"
        print(
            f"planted{first}: {_rate(killed, judged)}, {perf_counter() - start:.1f} s", flush=True
        )
    survivors = run_mutants(seed) if level == "full" else 0
    return 0 if killed == len(PLANTS) and not survivors else 1


def run_mutants(seed: int) -> int:
    """Print the mutants of the ops' own rules that no check caught; returns their number."""
    start, made, survived = perf_counter(), 0, 0
    try:
        for mutant in mutants(seed=seed):
            made += mutant.differs
            if mutant.survived:
                survived += 1
                place = f"{mutant.op}, rule for {mutant.rule}, {mutant.mutation}"
                print(f"NOT CAUGHT: {place}", flush=True)
    finally:
        print(f"mutants: {_rate(made - survived, made)}, {perf_counter() - start:.1f} s")
    return survived


def _rate(killed: int, total: int) -> str:
    return f"kill rate {killed}/{total} = {100 * killed / max(total, 1):.1f} %"
