"""A replay that listeners hear: the time of each call, its ops, and the lines that recorded them.

A listener with a method `replayed(call, t0, t1)` hears each call of a replay (engine/events.py).
Without such a listener a replay reads one global for all this.
"""

from collections.abc import Callable, Iterable
from typing import Any

from ..engine import events
from ..tape.trace import Step


class ReplayedCall:
    """One call of a program: a fused kernel, a run of blocks, a library call, or a CUDA graph.

    name      the op of a single step; else all ops of its steps
    ops       the ops of its steps, without repetition, `mul.backward` for a derivative of mul
    origins   the user's lines that recorded the ops, each once, as sites.py reads them
    nbytes    of its results
    inside    the calls of a CUDA graph, which have no times of their own
    """

    __slots__ = ("name", "ops", "origins", "nbytes", "inside")

    def __init__(
        self, name: str, steps: Iterable[Step], nbytes: int, inside: tuple["ReplayedCall", ...] = ()
    ):
        self.name, self.nbytes, self.inside = name, nbytes, inside
        self.ops = tuple(dict.fromkeys(map(op_of, steps)))
        origins = [step.source.origin for step in steps if step.source is not None]
        self.origins = tuple({origin[:2]: origin for origin in origins}.values())


def parts(step: Step) -> tuple[Step, ...]:
    """The single steps of a step that may be fused."""
    return tuple(step.fused) or (step,)


def op_of(step: Step) -> str:
    """`mul` of a step of its forward, `mul.backward` of its rules, `add` of a sum of gradients."""
    source = step.source
    if source is None:
        return step.name
    return source.op if source.part == "forward" else f"{source.op}.backward"


def title(step: Step) -> str:
    """The op of a step; where the step is one of several of its op, which: `tanh: multiply`."""
    op = op_of(step)
    whole = step.source is None or step.name in (op, step.source.op)
    return op if whole else f"{op}: {step.name}"


def calls_of(program: Any) -> list[ReplayedCall]:
    """The calls of a program, in the order in which its runner makes them."""
    runner, found = program.runner, []
    for steps in runner.made_of:
        single = [part for step in steps for part in parts(step)]
        made = [y for step in steps for y in step.outputs if y is not None]
        nbytes = sum(_nbytes(*runner.trace.forms[y]) for y in made if not _is_inner(runner, y))
        name = title(single[0])
        if len(single) > 1:
            kind = "fused" if steps[0].fused else "blocks"
            name = f"{kind}({'+'.join(dict.fromkeys(map(op_of, single)))})"
        found.append(ReplayedCall(name, single, nbytes))
    if not program.captured:
        return found
    inside = [part for steps in runner.made_of for step in steps for part in parts(step)]
    name = f"CUDA graph of {len(found)} calls"
    return [ReplayedCall(name, inside, sum(call.nbytes for call in found), tuple(found))]


def _is_inner(runner: Any, value: int) -> bool:
    """Whether a value exists only for one block at a time."""
    return runner.names.get(value, "").startswith("s")


def _nbytes(shape: tuple, dtype: Any) -> int:
    size = dtype.itemsize
    for n in shape:
        size *= n
    return size


def timed(program: Any) -> Callable[[list], None]:
    """A function that makes the program's calls, and tells listeners of each."""
    if program.heard is None:
        program.heard = calls_of(program)
    told, cells = program.heard, program.runner.cells

    def make(calls: list) -> None:
        for call, known in zip(calls, told, strict=True):
            t0 = events.clock()
            call()
            if (wait := events.synchronize) is not None:
                wait(tuple(cells))
            events.tell("replayed", known, t0, events.clock())

    return make


def all_hear_replays() -> bool:
    """Whether every listener is content with the calls of a replay, in place of all ops."""
    return all(getattr(x, "replayed", None) is not None for x in events.listeners)
