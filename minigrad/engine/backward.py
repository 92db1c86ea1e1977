"""One backward: the order, checks before anything changes, then the walk of an engine."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from . import events, modes, serial, versions
from .backward_run import BackwardRun, NodeVjp, engine_for
from .errors import GraphReleasedError, about
from .tensor import TensorBase, wrap


def _alone(work: BackwardRun, run: Callable[[], None]) -> None:
    run()


def _as_it_is(vjp: NodeVjp, work: BackwardRun) -> NodeVjp:
    return vjp


# Seam G. `surround` runs a backward, `around_rules` wraps what applies the rules of its nodes;
# modes/around.py puts hooks, anomaly mode and the lock on the graph there.
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
    needed = None if wanted is None else serial.needed_for(order, wanted)
    work = BackwardRun(
        order, cotangents, on_gradient, wanted, needed, release, create_graph, **options
    )
    work.alone = engine != "parallel"
    surround(work, partial(_checked, work, walk))


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
    vjp = _recorded_vjp if work.create_graph else serial.vjp_for(work.cotangents)
    heard = events.listeners and not modes.state.muted
    if heard:
        vjp = _timed(vjp)
        if events.around is not None:
            vjp = events.around(vjp)
    work.vjp = around_rules(vjp, work)
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


def _timed(vjp: NodeVjp) -> NodeVjp:
    """The same vjp, which also reports each node's time to the listeners."""
    direct = vjp is serial.array_vjp  # plan.vjp, without a call in between

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
