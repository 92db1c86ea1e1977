"""Around a backward (seam G of the engine): its lock on the graph, hooks, anomaly mode."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial

from ..backends.threads import on_new_stack, stack_runs_out
from ..engine import backward, events, graph, modes
from ..engine.backward import BackwardRun, NodeVjp
from ..engine.graph import TensorBase
from . import anomaly, autocast, graph_lock, hook_runner

_NESTED = 3  # backwards that may run before one of them asks how deep it is nested


def surround(work: BackwardRun, run: Callable[[], None]) -> None:
    """Run a backward with its hooks, in the dtypes of the forward, disturbed by no other thread."""
    graph_lock.refuse_conflict(work)
    if len(backward.running) > _NESTED and stack_runs_out():
        run = partial(on_new_stack, run)
    if modes.state.autocast is not None:
        run = _inside(autocast.paused(), run)
    if work.leaf_ready is not None or graph.hook_count and hook_runner.any_in(work.order):
        work.hooks = hook_runner.HookRunner(work)
        if not any(isinstance(g, TensorBase) for g in work.cotangents.values()):
            run = _inside(modes.Recording(False), run)  # hooks compute on arrays
    run()


def _inside(block: AbstractContextManager, run: Callable[[], None]) -> Callable[[], None]:
    """run, in this block: a backward that needs none enters none."""

    def run_inside() -> None:
        with block:
            run()

    return run_inside


def around_rules(vjp: NodeVjp, work: BackwardRun) -> NodeVjp:
    """The same vjp, which explains errors in anomaly mode, and runs the hooks of nodes."""
    if modes.state.anomaly is not None and events.listeners and not modes.state.muted:
        vjp = anomaly.explained(vjp)
    return vjp if work.hooks is None else hook_runner.vjp_with_hooks(vjp, work.hooks.lock)


backward.surround, backward.around_rules = surround, around_rules
