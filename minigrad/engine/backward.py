"""The backward: one loop, newest node first. It is the oracle of the other engines.

Read `backward_order` in graph.py first: it lists every consumer before its producers, and each
leaf as soon as its gradient is complete. A backward is then a loop. It takes the next node and its
summed cotangent. The node's rules turn that into one contribution for each parent, and the loop
adds these to the parents' sums.

An engine is a function of one BackwardRun that computes what `walk` here does, bit for bit. Its
module adds it to `engines` when it is imported.
"""

import operator
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ..backends import device
from ..backends.device import kind_of
from ..backends.locks import Lock
from . import events, graph, modes, versions
from .errors import GraphReleasedError, RuleError, about, describe
from .graph import Leaf, Node, Port, TensorBase, backward_order, gpu_array, wrap
from .registry import op

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
    """The state of a walk over the graph.

    order         the vertices to visit, as backward_order gives them
    cotangents    {vertex: sum so far}: at first the seeds; walks use it up
    on_gradient   called as on_gradient(vertex, g), once, for each leaf (or wanted vertex) that a
                  gradient reaches, with the total in an array that no other object refers to
    wanted        None: every leaf; else these vertices
    needed        with wanted: needed_for(order, wanted), the only nodes that run, and their
                  plans
    release       free each node's saved arrays as soon as it has run
    create_graph  the rules are recorded
    deposits      `on_gradient` updates `.grad`
    vjp           (node, g, plan) -> contributions aligned with node.parents; it also informs the
                  listeners
    hooks         the hooks of this backward (HookRunner); None where there are none
    thread        the one thread in which it runs; None where there are several
    ended         set before it leaves `running`: what Ctrl-C leaves there locks nothing
    workers       how many threads may take part (None: mg.get_num_threads())
    min_work      estimated microseconds from which a node may go to another thread (None: measured
                  default)
    leaf_ready    a hook of this backward alone, fn(leaf, gradient); None for none
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
    thread: int | None = None
    ended: bool = False

    def plan_of(self, node: Any) -> Any:
        """The rules by which a node runs in this backward."""
        return node.plan if self.needed is None else self.needed[node]


# -- the loop --------------------------------------------------------------------------------------


def array_vjp(node: Any, g: Any, plan: Any) -> list:
    """The node's contributions for the cotangent g, by the rules of this plan, on plain arrays."""
    return plan.vjp(g, node.saved)


# Kind of device -> how rules run there: on_gpu registers "cuda", compiled registers "cpu".
vjps: dict[str, NodeVjp] = {}
rule_runners: dict[str, Callable[[Any, tuple], list]] = {}  # the same of (plan, (g, *saved))


def rule_runner_for(g: Any) -> Callable[[Any, tuple], list]:
    """The function (plan, (g, *saved)) -> contributions for arrays like g."""
    return rule_runners.get(kind_of(g)) or (lambda plan, values: plan.apply_rules(values))


def vjp_for(cotangents: dict) -> NodeVjp:
    """How rules run in this backward: fused into kernels, where there are any for its device."""
    if not vjps:
        return array_vjp
    kinds = {kind_of(g) for g in cotangents.values()}
    return vjps.get("cuda" if "cuda" in kinds else "cpu", array_vjp)


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
        if plain and plan.blocked_vjp is not None and g.size >= LARGE:
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
    """Keep g for one output of a node with several; None means an unused output, zero."""
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


# -- from a rule's result to the sum at a parent ---------------------------------------------------

_ndarray = np.ndarray
_NUMBERS = "biufcV"  # kinds of dtypes; bfloat16 is V


def conform(c: Any, parent: Any, node: Any) -> Any:
    """The contribution c in exactly its parent's shape and dtype.

    Three steps, each only where needed: the real part for a real parent, the sum over broadcast
    axes (16-bit floats summed in float32), the parent's dtype. Only elementwise ops broadcast; a
    wrong shape from any other op is an error in its rule, a RuleError.
    """
    if c.dtype.kind == "c" and parent.dtype.kind != "c":
        c = op.real(c)
    if c.shape != parent.shape:
        if node.op.kind != "elementwise":
            raise _of_another_shape(c, parent, node)
        c = unbroadcast(c, parent.shape)
    if c.dtype != parent.dtype:
        if c.dtype.kind not in _NUMBERS:
            raise _of_no_numbers(c, parent, node)
        c = op.cast(c, dtype=parent.dtype)
    return c


def _of_another_shape(c: Any, parent: Any, node: Any) -> RuleError:
    """The error for a contribution that does not fit, with what to do where the op broadcasts."""
    which = _input_of(node, parent)
    n = len(parent.shape)
    pairs = zip(c.shape[c.ndim - n :], parent.shape)
    broadcast = c.ndim >= n and all(here in (there, 1) for there, here in pairs)
    advice = "; sum over the axes along which the op broadcasts it" if broadcast else ""
    return RuleError(
        f"the rule of {node.op.name} returned a gradient of shape {c.shape} for {which} of shape "
        f"{parent.shape}; a rule returns exactly its input's shape{advice}",
        op=node.op.name, argument=_name_of(node, parent), **about(parent, c),
    )  # fmt: skip


def _of_no_numbers(c: Any, parent: Any, node: Any) -> RuleError:
    return RuleError(
        f"the rule of {node.op.name} returned {describe(c)} for {_input_of(node, parent)}; a "
        "gradient is an array of numbers",
        op=node.op.name, argument=_name_of(node, parent), **about(parent, c),
    )  # fmt: skip


def _input_of(node: Any, parent: Any) -> str:
    """Which input of the node's op the parent is, for an error."""
    name = _name_of(node, parent)
    return "an input" if name is None else f"the input {name!r}"


def _name_of(node: Any, parent: Any) -> str | None:
    names = [node.op.arrays[i] for i in node.plan.slots] if not node.op.variadic else []
    position = next((i for i, x in enumerate(node.parents) if x is parent), -1)
    return names[position] if 0 <= position < len(names) else None


def require_array(c: Any, parent: Any, node: Any) -> None:
    """RuleError where a rule returned something else than an array. The engines ask after an
    AttributeError only, as a look at each contribution would cost every backward.
    """
    if not hasattr(c, "shape") or not hasattr(c, "dtype"):
        raise RuleError(
            f"the rule of {node.op.name} returned {describe(c)} for {_input_of(node, parent)} of "
            f"shape {parent.shape}; a rule returns an array of its input's shape, or None for zero",
            op=node.op.name,
            argument=_name_of(node, parent),
            **about(parent, c),
        ) from None


def unbroadcast(c: Any, shape: tuple) -> Any:
    """Sum c over the axes along which `shape` was broadcast; or broadcast it, if c is smaller."""
    if c.ndim < len(shape) or any(n == 1 != m for n, m in zip(c.shape[-len(shape) :], shape)):
        c = op.broadcast_to(c, shape=np.broadcast_shapes(c.shape, shape))
    extra = c.ndim - len(shape)
    axes = [i for i in range(c.ndim) if i < extra or (shape[i - extra] == 1 != c.shape[i])]
    if axes:
        c = op.sum(c, axis=tuple(axes), keepdims=axes[-1] >= extra)
    return op.reshape(c, shape=shape) if c.shape != shape else c


# Seam D. Both may be replaced: fast/ adds in place, without a copy, where CPython's reference
# counts show that nothing else refers to an array.


def _add(cotangents: dict, parent: Any, c: Any) -> None:
    """Add c to what has arrived at the parent, in the memory order of that, as += would."""
    total = cotangents[parent]
    if type(total) is _ndarray:
        cotangents[parent] = np.add(total, c, out=np.empty_like(total))
    else:
        cotangents[parent] = total.added(c) if hasattr(total, "added") else op.add(total, c)


def _copied(g: Any) -> Any:
    """g in memory that nothing else uses.

    Every gradient handed to a user goes through here, so that none shares memory with another, with
    the seed or with a saved array.
    """
    if type(g) is _ndarray:
        return g.copy()
    return op.copy(g) if hasattr(g, "dtype") and not isinstance(g, np.generic) else np.asarray(g)


add_into: Callable[[dict, Any, Any], None] = _add
private: Callable[[Any], Any] = _copied
# (node, g, plan, cotangents, needed) -> contributions, of a g of LARGE elements or more, for a plan
# with a `blocked_vjp`, which only fast/ makes
blocked_vjp: Any = None
LARGE: float = np.inf

_adding = Lock()  # threads whose graphs share a leaf then lose no update of .grad
if hasattr(os, "register_at_fork"):  # else a child might inherit it locked by another thread
    os.register_at_fork(
        before=_adding.acquire, after_in_parent=_adding.release, after_in_child=_adding.release
    )


def accumulate(x: TensorBase, g: TensorBase, recorded: bool) -> None:
    """Add g to x.grad, in a new array: a gradient that the user holds does not change."""
    with _adding:
        if x._grad is None:
            x._grad = g
        else:
            add = op.add if device.several else operator.add  # the op adds on the GPU of its arrays
            x._grad = x._grad + g if recorded else wrap(add(x._grad._data, g._data))


# -- one backward ----------------------------------------------------------------------------------


running: dict[BackwardRun, None] = {}  # of all threads, in the order in which they began


def _alone(work: BackwardRun, run: Callable[[], None]) -> None:
    run()


def _as_it_is(vjp: NodeVjp, work: BackwardRun) -> NodeVjp:
    return vjp


# Seam G. `surround` runs a backward under a mode, with hooks, or while another one runs.
# `around_rules` wraps the function that applies the rules of nodes, if there are listeners or
# hooks. modes/around.py puts hooks, anomaly mode and the lock on the graph there.
surround: Callable[[BackwardRun, Callable[[], None]], None] = _alone
around_rules: Callable[[NodeVjp, BackwardRun], NodeVjp] = _as_it_is


def run_backward(
    cotangents: dict,
    on_gradient: Callable[[Any, Any], None],
    wanted: set | Callable[[list], set] | None,
    retain_graph: bool | None,
    create_graph: bool,
    engine: Any = "serial",
    **options: Any,
) -> None:
    """One backward from {vertex: cotangent}; an error before the walk leaves all as it was.

    on_gradient, wanted and the options are those of a BackwardRun; wanted may also be a function of
    the order.
    """
    list_vertices, walk = engine_for(engine)
    order = list_vertices(cotangents)
    release = not (create_graph if retain_graph is None else retain_graph)
    if callable(wanted):
        wanted = wanted(order)
    needed = None if wanted is None else needed_for(order, wanted)
    work = BackwardRun(
        order, cotangents, on_gradient, wanted, needed, release, create_graph, **options
    )
    work.thread = None if engine == "parallel" else modes.state.thread
    try:
        running[work] = None  # seen by other threads before this one looks at its nodes
        if len(running) > 1 or modes.active or graph.hook_count or work.leaf_ready is not None:
            surround(work, partial(_checked, work, walk))
        else:
            _checked(work, walk)
    finally:
        work.ended = True
        running.pop(work, None)


def _checked(work: BackwardRun, walk: Callable[[BackwardRun], None]) -> None:
    """The walk, unless a node's saved arrays are gone or were written since."""
    _refuse_released(work.order)
    if versions.last_write:
        versions.refuse_changed(work.order if work.needed is None else work.needed)
    if work.create_graph:
        with modes.Recording(True):
            _walk(work, walk)
    else:
        _walk(work, walk)


def _walk(work: BackwardRun, walk: Callable[[BackwardRun], None]) -> None:
    """The engine's walk, with the listeners informed of it and of each node, if there are any."""
    vjp = _recorded_vjp if work.create_graph else vjp_for(work.cotangents)
    heard = events.listeners and not modes.state.muted
    if heard:
        vjp = _timed(vjp)
        if events.around is not None:
            vjp = events.around(vjp)
    vjp = around_rules(vjp, work) if heard or work.hooks is not None else vjp
    work.vjp = _on_its_gpu(vjp) if device.several else vjp
    error = None
    try:
        if heard:
            events.tell("graph_ready", work.order, list(work.cotangents))
        walk(work)
        if work.hooks is not None:
            work.hooks.finish()
    except BaseException as raised:
        error = raised
        raise
    finally:
        if heard:
            events.tell("graph_done", error)
        error = None  # its traceback refers to this frame: leave no cycle


def _recorded_vjp(node: Any, g: Any, plan: Any) -> list:
    """The node's contributions for g, by its rules run on tensors: differentiable again."""
    kind = type(g) if isinstance(g, TensorBase) else type(next(c for c in g if c is not None))

    def recorded(y: Any, producer: Any) -> TensorBase:
        return wrap(y, producer, kind)

    return plan.apply_rules((g, *plan.recorded(node, recorded)))


def _on_its_gpu(vjp: NodeVjp) -> NodeVjp:
    """The same vjp, run and heard on the GPU of the node's cotangent."""

    def placed(node: Any, g: Any, plan: Any) -> Iterable:
        with device.at(gpu_array(g if type(g) in (list, tuple) else (g,))):
            return vjp(node, g, plan)

    return placed


def _timed(vjp: NodeVjp) -> NodeVjp:
    """The same vjp, which also reports each node's time to the listeners."""
    direct = vjp is array_vjp  # plan.vjp, without a call in between

    def timed(node: Any, g: Any, plan: Any) -> Iterable:
        t0 = events.clock()
        contributions = plan.vjp(g, node.saved) if direct else vjp(node, g, plan)
        t1 = events.clock()
        events.emit(("backward", node.op.name, t0, t1, node, (g,), tuple(contributions), {}))
        return contributions

    return timed


def _refuse_released(order: list) -> None:
    for node in order:
        if node.saved is None:
            raise GraphReleasedError(
                f"{node!r} was used by an earlier backward, which freed the arrays it had saved. "
                "Pass retain_graph=True to the earlier backward to use a graph twice, or compute "
                "the forward again.",
                op=node.op.name, number=node.number, **about(node),
            )  # fmt: skip
