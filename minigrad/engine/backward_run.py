"""One backward as data, and the table of the engines that can walk it.

An engine module adds its walk to `engines` when it is imported: a function of one BackwardRun,
which computes what `serial.py` would, bit for bit.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from .graph import backward_order

NodeVjp = Callable[[Any, Any, Any], Iterable]  # (node, g, plan) -> contributions to node.parents
engines: dict[str, Callable[["BackwardRun"], None]] = {}
orders: dict[str, Callable[[dict], list]] = {}  # of the engines that do not use backward_order


def engine_for(engine: Any) -> tuple[Callable[[dict], list], Callable[["BackwardRun"], None]]:
    """(function from seeds to order, walk) of an engine, given as a name or a tape."""
    if isinstance(engine, str):
        return orders.get(engine, backward_order), engines[engine]
    return engine.order, engine.walk


@dataclass(slots=True, eq=False)
class BackwardRun:
    """What a walk needs to know.

    order         the vertices to visit, as backward_order gives them
    cotangents    {vertex: what has arrived}: at first the seeds; walks use it up
    on_gradient   called as on_gradient(vertex, g), once, for each leaf (or wanted vertex) that a
                  gradient reaches, with the total in an array that nobody else can see
    wanted        None: every leaf; else these vertices
    needed        with wanted: serial.needed_for(order, wanted), the only nodes that run, and their
                  plans
    release       free each node's saved arrays as soon as it has run
    create_graph  the rules are recorded
    deposits      `on_gradient` updates `.grad`
    vjp           (node, g, plan) -> contributions aligned with node.parents; it also informs the
                  listeners
    hooks         the hooks of this backward (HookRunner); None where there are none
    workers       how many threads may take part (None: mg.get_num_threads())
    min_work      estimated microseconds from which a node may go to another thread (None: measured
                  default)
    leaf_ready    a hook of this backward alone, fn(leaf, gradient); None for none
    alone         it runs in this thread only
    """

    order: list
    cotangents: dict
    on_gradient: Callable[[Any, Any], None]
    wanted: set | None = None
    needed: dict | None = None
    release: bool = True
    create_graph: bool = False
    deposits: bool = False
    vjp: NodeVjp | None = None
    hooks: Any = None
    workers: int | None = None
    min_work: float | None = None
    leaf_ready: Callable | None = None
    alone: bool = True

    def plan_of(self, node: Any) -> Any:
        """The rules by which a node runs in this backward."""
        return node.plan if self.needed is None else self.needed[node]
