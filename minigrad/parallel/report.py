"""The last backward with engine="parallel" in figures: mg.engine.last_report()."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from ..backends.leaving import contextmanager, ended_by
from ..backends.threads import Local

_local = Local()


@dataclass(slots=True)
class Lane:
    """One thread's part in a parallel backward, in nanoseconds.

    rules    inside derivative rules and hooks, and in handing over gradients
    sums     adding what has arrived for a vertex
    waited   for a node to become ready; over: at last, when none came any more
    locked   for the scheduler's own lock
    alive    from its first look for work to its last

    Measured inside `detailed` alone, else 0:
    cpu      of `rules`, the time this thread computed
    computed of `alive`, the time this thread computed
    queued   of `alive`, the time it was ready to run and had no processor, where the system counts
             that; `waited` and `over` are then without it
    """

    lane: int
    nodes: int = 0
    rules: int = 0
    cpu: int = 0
    sums: int = 0
    waited: int = 0
    over: int = 0
    locked: int = 0
    alive: int = 0
    computed: int = 0
    queued: int = 0


@dataclass(slots=True)
class Report:
    """How a backward ran. Times are in microseconds; work and span are estimates.

    decision       what ran and why, as text
    engine         "parallel", or "serial" where that was the better choice
    workers        threads asked for; lanes: those that took part
    nodes, heavy   vertices of the graph, and those that may go to another thread
    work, span     the sum of all costs, and that of the longest path
    blas_threads   threads of BLAS during this backward; None where threadpoolctl is not installed
    blas_outside   and before it
    """

    engine: str
    decision: str
    workers: int = 1
    nodes: int = 0
    heavy: int = 0
    work: float = 0.0
    span: float = 0.0
    min_work: float = 0.0
    blas_threads: int | None = None
    blas_outside: int | None = None
    lanes: list[Lane] = field(default_factory=list)

    def __str__(self) -> str:
        return f"{self.engine}: {self.decision}"


def last_report() -> Report | None:
    """How this thread's last backward with engine="parallel" ran; None before the first."""
    return getattr(_local, "report", None)


@contextmanager
def detailed() -> Iterator[None]:
    """Inside, this thread's parallel backwards also measure the time of each vertex (Lane.cpu)."""
    before = detail_wanted()
    with ended_by(lambda: setattr(_local, "detail", before)):
        _local.detail = True
        yield


def detail_wanted() -> bool:
    """Whether this thread is inside `detailed`."""
    return getattr(_local, "detail", False)


def keep(report: Report) -> None:
    """Make this the last report of this thread."""
    _local.report = report
