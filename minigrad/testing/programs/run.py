"""Draw programs, run each in every way, and print those that disagree, shrunk."""

import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from time import perf_counter

import numpy as np

from ..errors import GradcheckError
from .draw import draw
from .program import Program
from .shrink import shrink
from .subject import Refused, Subject
from .ways import NAMES, check

# Slow ways: each runs one program in so many.
SELDOM = {"nestings": 16, "accelerate": 60, "event log": 10, "second order": 2,
          "autocast": 3}  # fmt: skip
_PART = 20  # programs that one process gets at a time
_SMALL = {"nestings", "second order"}  # not for large programs: a derivative takes many calls


@dataclass(frozen=True)
class Failure:
    """A program on which one way disagrees: as drawn, and shrunk."""

    way: str
    seed: int
    number: int
    message: str
    program: Program
    shrunk: Program

    def __str__(self) -> str:
        place = f"program {self.number} of seed {self.seed}"
        lines = f"{len(self.program.lines)} lines, shrunk to {len(self.shrunk.lines)}"
        return f"FAIL {place} ({lines}), {self.way}: {self.message}\n{self.shrunk.text(self.way)}\n"


@dataclass
class Tally:
    """The comparisons of the programs of a seed."""

    seed: int = 0
    programs: int = 0
    comparisons: Counter = field(default_factory=Counter)
    refused: Counter = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)
    seconds: float = 0.0

    def add(self, other: "Tally") -> None:
        self.programs += other.programs
        self.comparisons += other.comparisons
        self.refused += other.refused
        self.failures += other.failures

    def summary(self) -> str:
        count, refused = self.comparisons.total(), self.refused.total()
        said = ", ".join(f"{way} ×{n}" for way, n in sorted(self.refused.items()))
        refusals = f"; {refused} refused, not counted as wrong: {said}" if refused else ""
        return (
            f"{self.programs} programs of seed {self.seed}, {count} comparisons in "
            f"{len(NAMES)} ways, {len(self.failures)} disagreements, {self.seconds:.1f} s{refusals}"
        )


def check_programs(
    count: int, seed: int, first: int = 0, tally: Tally | None = None
) -> Iterator[Failure]:
    """The disagreements among `count` programs of a seed, from number `first` on."""
    tally = Tally(seed) if tally is None else tally
    for number in range(first, first + count):
        yield from _failures(draw(seed, number), seed, number, tally)
        tally.programs += 1


def _failures(program: Program, seed: int, number: int, tally: Tally) -> Iterator[Failure]:
    try:
        subject = _subject(program)
    except Exception as error:
        failure = _failure("values", seed, number, error, program)
        tally.failures.append(failure)
        yield failure
        return
    large = any(leaf.value.size > 1000 for leaf in program.leaves)
    for way in NAMES:
        if (seed + number) % SELDOM.get(way, 1) or (way in _SMALL and large):
            continue
        error = _error(way, subject)
        if isinstance(error, Refused):
            tally.refused[way] += 1
            continue
        tally.comparisons[way] += 1
        if error is not None:
            failure = _failure(way, seed, number, error, program)
            tally.failures.append(failure)
            yield failure


def _subject(program: Program) -> Subject:
    return Subject(program.function, program.xs)


def _error(way: str, subject: Subject) -> Exception | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            check(way, subject)
    except Exception as error:
        return error
    return None


def _failure(way: str, seed: int, number: int, error: Exception, program: Program) -> Failure:
    kind = type(error)

    def fails(smaller: Program) -> bool:
        with np.errstate(all="ignore"):
            try:
                subject = _subject(smaller)
            except Exception as again:
                return way == "values" and type(again) is kind
            if not all(np.isfinite(y).all() for y in (*subject.values, *subject.gradients)):
                return False
        found = _error(way, subject)
        return type(found) is kind and not isinstance(found, Refused)

    shrunk = shrink(program, fails)
    message = str(error) if kind is GradcheckError else f"{kind.__name__}: {error}"
    return Failure(way, seed, number, message.splitlines()[0][:400], program, shrunk)


def parts(count: int, seed: int) -> list[tuple[str, int, int, int]]:
    """`count` programs of a seed in parts for check_part, each with its name."""
    firsts = range(0, count, _PART)
    return [(f"program {i} of seed {seed}", seed, i, min(_PART, count - i)) for i in firsts]


def check_part(task: tuple[str, int, int, int]) -> Tally:
    """One of the parts, in any process."""
    _, seed, first, count = task
    tally = Tally(seed)
    for _ in check_programs(count, seed, first, tally):
        pass
    return tally


def print_tallies(tallies: Iterator[Tally], seed: int) -> int:
    """Print failures as they come and the sum; 1 if anything disagrees, else 0."""
    total, start = Tally(seed), perf_counter()
    try:
        for tally in tallies:
            for failure in tally.failures:
                print(failure, flush=True)
            total.add(tally)
    finally:  # an interrupt also reports the progress
        total.seconds = perf_counter() - start
        print(total.summary(), flush=True)
    return 1 if total.failures else 0
