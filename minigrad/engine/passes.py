"""One backward as data, and the table of the engines that can walk it.

An engine module adds its walk to `engines` when it is imported: a function of one Pass, which
computes what `serial.py` would, bit for bit.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from ..backends.pool import is_count
from .errors import describe
from .graph import backward_order

Pull = Callable[[Any, Any, Any], Iterable]  # (node, g, plan) -> contributions to node.parents
engines: dict[str, Callable[["Pass"], None]] = {}
orders: dict[str, Callable[[dict], list]] = {}  # of the engines that do not use backward_order


def way_of(engine: Any) -> tuple[Callable[[dict], list], Callable[["Pass"], None]]:
    """(function from seeds to order, walk) of an engine, given as a name or a tape."""
    if isinstance(engine, str):
        return orders.get(engine, backward_order), engines[engine]
    return engine.order, engine.walk


@dataclass(slots=True, eq=False)
class Pass:
    """What a walk needs to know.

    order         the places to visit, as backward_order gives them
    cotangents    {place: what has arrived}: at first the seeds; walks use it up
    reach         called as reach(place, g), once, for each leaf (or wanted place) that a gradient
                  reaches, with the total in an array that nobody else can see
    wanted        None: every leaf; else these places
    leads         with wanted: serial.leading_to(order, wanted), the only nodes that run, and their
                  plans
    release       free each node's saved arrays as soon as it has run
    create_graph  the rules are recorded
    deposits      `reach` updates `.grad`
    pull          (node, g, plan) -> contributions aligned with node.parents; it also informs the
                  listeners
    hooks         the hooks of this backward (hooked.Hooks); None where there are none
    workers       how many threads may take part (None: mg.get_num_threads())
    min_work      estimated microseconds from which a node may go to another thread (None: measured
                  default)
    """

    order: list
    cotangents: dict
    reach: Callable[[Any, Any], None]
    wanted: set | None = None
    leads: dict | None = None
    release: bool = True
    create_graph: bool = False
    deposits: bool = False
    pull: Pull | None = None
    hooks: Any = None
    workers: int | None = None
    min_work: float | None = None

    def plan_of(self, node: Any) -> Any:
        """The rules by which a node runs in this backward."""
        return node.plan if self.leads is None else self.leads[node]


def require_engine(name: Any, workers: Any, min_work: Any) -> None:
    """ValueError for an unknown engine, and for options that no engine can use."""
    if name not in engines if isinstance(name, str) else not hasattr(name, "walk"):
        raise ValueError(f"there is no engine {name!r}; choose one of {sorted(engines)}, or a tape")
    if workers is not None and not is_count(workers):
        raise ValueError(f"workers is a number of threads, at least 1, got {workers!r}")
    if min_work is not None and not min_work >= 0:
        raise ValueError(f"min_work is a time in microseconds, at least 0, got {min_work!r}")
    if (workers is not None or min_work is not None) and (
        name == "serial" or hasattr(name, "walk")
    ):
        raise ValueError(
            f"workers and min_work are options of engine='parallel', and {describe(name)} runs in "
            "one thread: pass engine='parallel' too, or leave them out"
        )
