"""What surrounds a backward (seam G of the engine): its claim on the graph, hooks, anomaly mode."""

from collections.abc import Callable
from contextlib import nullcontext

from ..backends.threads import on_new_stack, stack_runs_out
from ..engine import backward, events, modes
from ..engine.backward_run import NodeVjp, Pass
from ..engine.tensor import TensorBase
from . import anomaly, graph_lock, hook_runner, hooks
from .autocast import paused

_AS_IT_IS = nullcontext()
_NESTED = 3  # backwards that may run before one of them asks how deep it is nested


def surround(work: Pass, run: Callable[[], None]) -> None:
    """Run a backward with its hooks, in the dtypes of the forward, disturbed by no other thread."""
    mine = graph_lock.Claim(work.order, work.release, work.alone)
    try:
        running = graph_lock.register(mine)
        plain = _AS_IT_IS
        if work.leaf_ready is not None or hooks.registered and hook_runner.any_in(work.order):
            work.hooks = hook_runner.Hooks(work)
            if not any(isinstance(g, TensorBase) for g in work.cotangents.values()):
                plain = modes.Recording(False)  # hooks compute on arrays
        with plain, paused():
            if running > _NESTED and stack_runs_out():
                on_new_stack(run)
            else:
                run()
    finally:
        mine.ended = True
        graph_lock.forget(mine)


def around_rules(vjp: NodeVjp, work: Pass) -> NodeVjp:
    """The same vjp, which explains errors in anomaly mode, and runs the hooks of nodes."""
    if modes.state.anomaly is not None and events.listeners and not modes.state.muted:
        vjp = anomaly.explained(vjp)
    return vjp if work.hooks is None else hook_runner.hooked_vjp(vjp, work.hooks.lock)


backward.surround, backward.around_rules = surround, around_rules
