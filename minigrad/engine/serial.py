"""The serial backward: one loop, newest node first. The oracle of the other engines.

Read `backward_order` in engine/graph.py first: it lists every consumer before its producers, and
each leaf as soon as its gradient is complete. A backward is then a loop: take the next node and the
cotangent that has been summed for it, let its rules turn that into one contribution for each
parent, and add these to what has arrived at the parents.
"""

from collections.abc import Callable, Iterable
from typing import Any

from ..backends.device import device_of
from . import contributions as seam
from .backward_run import BackwardRun, NodeVjp, engines
from .contributions import conform, require_array
from .graph import Leaf, Node, Port


def array_vjp(node: Any, g: Any, plan: Any) -> list:
    """The node's contributions for the cotangent g, by the rules of this plan, on plain arrays."""
    return plan.vjp(g, node.saved)


# Kind of device -> how rules run there: on_gpu registers "cuda", compiled registers "cpu".
vjps: dict[str, NodeVjp] = {}
rule_runners: dict[str, Callable[[Any, tuple], list]] = {}  # the same of (plan, (g, *saved))


def rule_runner_for(g: Any) -> Callable[[Any, tuple], list]:
    """The function (plan, (g, *saved)) -> contributions for arrays like g."""
    return rule_runners.get(_kind(g)) or (lambda plan, values: plan.apply_rules(values))


def vjp_for(cotangents: dict) -> NodeVjp:
    """How rules run in this backward: fused into kernels, where there are any for its device."""
    if not vjps:
        return array_vjp
    kinds = {_kind(g) for g in cotangents.values()}
    return vjps.get("cuda" if "cuda" in kinds else "cpu", array_vjp)


def _kind(g: Any) -> str:
    return device_of(g).partition(":")[0]


def walk(work: BackwardRun) -> None:
    """Run one backward, with its hooks, if any, run at each vertex."""
    order: Iterable = work.order
    if work.hooks is not None:
        order = work.hooks.around(work.order, work.cotangents)
    run(order, work, work.vjp or array_vjp)


engines["serial"] = walk


def run(order: Iterable, work: BackwardRun, vjp: NodeVjp = array_vjp) -> None:
    """Walk `order`, starting from the seeds in `work.cotangents`; `vjp` applies a node's rules."""
    cotangents, wanted, needed, release = work.cotangents, work.wanted, work.needed, work.release
    add_into, private = seam.add_into, seam.private
    blocked_vjp, least = seam.blocked_vjp, seam.LARGE
    plain = vjp is array_vjp  # then plan.vjp is called directly, which saves a call per node
    for node in order:
        g = cotangents.pop(node, None)
        if g is None:
            continue
        kind = type(node)
        if kind is not Node or wanted is not None:
            if kind is Leaf if wanted is None else node in wanted:
                work.on_gradient(node, private(g))
            if kind is Leaf or (needed is not None and node not in needed):
                continue
            if kind is Port:
                into_slot(cotangents, node, g)
                continue
        plan = node.plan if needed is None else needed[node]
        if plain and plan.blocked_vjp is not None and g.size >= least:
            contributions = blocked_vjp(node, g, plan, cotangents, needed)
        else:
            contributions = plan.vjp(g, node.saved) if plain else vjp(node, g, plan)
        del g
        if release:
            node.saved = None
        for parent, c in zip(node.parents, contributions):
            if c is None:
                continue
            try:
                if c.shape != parent.shape or c.dtype is not parent.dtype:
                    c = conform(c, parent, node)
            except AttributeError:
                require_array(c, parent, node)
                raise
            if parent in cotangents:
                add_into(cotangents, parent, c)
            else:
                cotangents[parent] = c
        contributions = c = None  # so that only `cotangents` refers to what has arrived


def into_slot(cotangents: dict, port: Port, g: Any) -> None:
    """Keep g for one output of a node with several; None stands for an unused output: zero."""
    producer = port.parents[0]
    slots = cotangents.get(producer)
    if slots is None:
        slots = cotangents[producer] = [None] * producer.op.outputs
    # not None: a recorded rule that read the result may have its own port to this output
    slots[port.index] = g if slots[port.index] is None else slots[port.index] + g


def needed_for(order: list, wanted: set) -> dict:
    """{vertex: plan} for the vertices from which a path leads to one in `wanted`.

    Where some of a node's parents lead nowhere, the plan is Plan.restricted: without their rules.
    """
    needed: dict = {}
    for vertex in reversed(order):
        reached = [parent in wanted or parent in needed for parent in vertex.parents]
        if any(reached):
            plan = vertex.plan if type(vertex) is Node else None
            needed[vertex] = (
                plan if plan is None or all(reached) else plan.restricted(tuple(reached))
            )
    return needed
