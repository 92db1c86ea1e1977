"""One checkpointed call: recorded in its first run, run again when a backward needs its values."""

import copy
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

from ..backends import random
from ..backends.leaving import left_always
from ..backends.locks import Lock
from ..engine import events, modes, versions
from ..engine.graph import Leaf, next_number, wrap
from ..tensor_api.tensor import Tensor
from .checkpoint_trace import Marks, Step, compare, differs, form, listed
from .reachable import generators_of
from .saving import Deferred, Saver

# One recomputation at a time, over all frames: they set NumPy's global generator and those of GPUs,
# which all threads share.
_computing = Lock()


class Frame:
    """One checkpointed call: how to run it again, and the saved values not taken yet.

    began   when it was made: a node with an older number is from outside
    trace   for each node of the first run, its call
    kept    what `saving.once` has made in the first run
    saved   for each node of the second run a _Computed, None where taken; None before it
    is_complete  whether the first run has ended. It has not while the function computes a gradient
            itself, nor where a checkpoint around it left it early: the trace is then not of all
    """

    def __init__(
        self, fn: Callable, args: tuple, kwargs: dict, context: AbstractContextManager, *,
        early_stop: bool, compares: bool, debug: bool,
    ):  # fmt: skip
        self.fn, self.context = fn, context
        self.args, self.kwargs = _as_it_is(args), _as_it_is(kwargs)
        self.early_stop, self.compares, self.debug = early_stop, compares, debug
        self.began = next_number()
        self.trace: list[Step] = []
        self.kept: list = []
        self.saved: list | None = None
        self.is_complete = False
        self.looked = 0  # the newest write when the arguments were last looked at
        # those of the second run take the place of savers and tapes, which would hold on to this
        self.state = {**modes.state.all(), "saving": (), "tapes": ()}
        self.devices = _of_devices()
        self.generators = generators_of(fn, args, kwargs)
        self.drew_from = self.generators.states()
        self.draws: list = []  # the states of the host's generator before each draw

    def refuse_changed(self) -> None:
        """InPlaceError if an argument was changed since: another function would be computed."""
        if self.looked == versions.last_write:
            return
        named = [*((f"args[{i}]", x) for i, x in enumerate(self.args)), *self.kwargs.items()]
        for name, value in named:
            for array in versions.arrays_in(value):
                versions.refuse_if_changed(array, self.trace[0].number, "checkpoint", name)
        self.looked = versions.last_write

    def taken(self, turn: int) -> Any:
        """The values saved by the node at this position; recomputed if they are not there.

        A backward asks for the newest node first, so what comes after it is not needed. If later
        ones are asked for all the same (parallel branches, another root), everything is recomputed.
        """
        with _computing:
            if self.saved is None:
                self.saved = self._run_again(turn if self.early_stop else None)
            if turn >= len(self.saved) or self.saved[turn] is None:
                self.saved = self._run_again(None)
            computed, self.saved[turn] = self.saved[turn], None
            return computed.values_unchanged()

    def _run_again(self, last: int | None) -> list:
        """The saved values of the nodes, up to that of turn `last`; of all where it is None."""
        if last is None and not self.is_complete:
            last = len(self.trace) - 1
        collector = Collector(self, last)
        with _as_at(self, collector), random.replayed(self.draws):
            try:
                args, kwargs = _as_it_is(self.args), _as_it_is(self.kwargs)  # fn may change them
                with self.context:
                    self.fn(*args, **kwargs)
            except _Enough as enough:
                if enough.collector is not collector:
                    raise
                return collector.saved
        if len(collector.saved) != len(self.trace):
            collector.differs(f"{len(collector.saved)} recorded ops in place of {len(self.trace)}")
        return collector.saved

    def ran(self) -> str:
        """The ops of the first run as text, with debug=True."""
        return listed([(s.op, s.form, s.origin) for s in self.trace]) if self.debug else ""


class _Enough(BaseException):
    """Raised inside a recomputed function to leave it early, once what was asked for is there."""

    def __init__(self, collector: "Collector"):
        self.collector = collector


class _Computed:
    """The saved values of a node of the second run; that node goes when the run ends."""

    __slots__ = ("number", "op", "names", "values")

    def __init__(self, node: Any):
        self.number, self.op = node.number, node.op.name
        self.names, self.values = node.plan.names, node.saved

    def values_unchanged(self) -> Any:
        """The values; InPlaceError where the function has written to one of them afterwards."""
        if self.number < versions.last_write and type(self.values) is tuple:
            versions.refuse_changed_values(self.values, self.names, self.number, self.op)
        return self.values


class _Recomputed(Deferred):
    """Stands for what a node saves: its position (turn) in a frame."""

    __slots__ = ("frame", "turn")
    recomputes = True

    def __init__(self, node: Any, frame: Frame, turn: int):
        super().__init__(node)
        self.frame = frame
        self.turn = turn

    def __iter__(self) -> Iterator:
        return iter(self.frame.taken(self.turn))

    def refuse_changed(self) -> None:
        self.frame.refuse_changed()


class Recorder(Saver):
    """Around the first run: records each node, and drops what it saved."""

    def __init__(self, frame: Frame):
        self.frame = frame
        self.marks = Marks()

    def take(self, node: Any, y: Any, args: tuple) -> None:
        frame = self.frame
        marks = self.marks.of(node, args) if frame.compares else {}
        if type(node.saved) is not tuple or _holds_arrays(node.saved):  # else it is there already
            node.saved = _Recomputed(node, frame, len(frame.trace))
        outside = tuple([vertex.number for vertex in node.parents if vertex.number < frame.began])
        origin = events.capture_origin() if frame.debug else None
        frame.trace.append(Step(node.op.name, form(y), node.number, outside, marks, origin))

    def once(self, make: Callable[[], Any]) -> Any:
        self.frame.kept.append(make())
        return self.frame.kept[-1]


def _holds_arrays(saved: tuple) -> bool:
    return any(True for value in saved for _ in versions.arrays_in(value))


class Collector(Saver):
    """Around the second run: compares each node with its first time, and keeps what it saves."""

    recomputes = True

    def __init__(self, frame: Frame, last: int | None):
        self.frame, self.last = frame, last
        self.saved: list = []
        self.ops: list = []  # as Frame.ran takes them
        self.marks = Marks()
        self.kept = iter(frame.kept)
        self.start = next_number()

    def take(self, node: Any, y: Any, args: tuple) -> None:
        frame, turn, made = self.frame, len(self.saved), form(y)
        if frame.debug:
            self.ops.append((node.op.name, made, events.capture_origin()))
        if turn == len(frame.trace):
            self.differs(f"a further op {node.op.name} after all {turn}", node.op.name)
        step = frame.trace[turn]
        if frame.compares:
            self._compare(step, turn, node, made, args)
        # every input, saved or not: results of it would have other values now
        names = node.op.arrays * (len(args) if node.op.variadic else 1)
        for name, value in zip(names, args, strict=False):
            for array in versions.arrays_in(value):
                versions.refuse_if_changed(array, step.number, step.op, name, until=self.start)
        if frame.compares:
            compare(step, turn, self.marks.of(node, args), self.differs)
        self.saved.append(_Computed(node))
        if turn == self.last:
            raise _Enough(self)

    def _compare(self, step: Step, turn: int, node: Any, made: tuple, args: tuple) -> None:
        if (node.op.name, made) != (step.op, step.form):
            self.differs(
                f"op {turn} was {step.op} {step.form} and is {node.op.name} {made}", step.op
            )
        if self._outside(node) != step.outside:
            self.differs(
                f"op {turn}, {step.op}, computes with another tensor from outside than before. One "
                "that the function reads was changed there (x[i] = v, x += y), replaced, frozen, "
                "or is a loop's variable, of which the last value counts: pass it as an argument, "
                "and change a copy, x = x.copy()",
                step.op,
            )

    def differs(self, how: str, op: str | None = None) -> None:
        """Raise a CheckpointError, with the ops of both runs if they are asked for."""
        differs(how, self.frame.ran(), listed(self.ops), op)

    def once(self, make: Callable[[], Any]) -> Any:
        found = next(self.kept, _NOTHING)
        return make() if found is _NOTHING else found

    def _outside(self, node: Any) -> tuple:
        """The numbers of the parents from outside. A leaf of the first run is none: a lazy layer
        makes its parameters there, and has them by now.
        """
        outside = [vertex for vertex in node.parents if vertex.number < self.start]
        began = self.frame.began
        return tuple([p.number for p in outside if p.__class__ is not Leaf or p.number < began])


_NOTHING = object()


class _as_at:
    """Inside, the thread's modes and the generators are in a former state; nodes save by saver.

    By it alone: nodes computed again are not nodes of a function around them, which may be running
    and be recorded (it computes a gradient).
    """

    def __init__(self, frame: Frame, saver: Saver):
        self.frame, self.saver = frame, saver

    def __enter__(self) -> None:
        frame = self.frame
        self.before = modes.state.all()
        self.generators_before = frame.generators.states(), _of_devices()
        modes.add_reason()
        modes.state.set({**frame.state, "saving": (self.saver,)})
        self._set_generators(frame.drew_from, frame.devices)

    @left_always(lambda block: modes.state.saving == (block.saver,))
    def __exit__(self, *exc: object) -> None:
        own = modes.state.__dict__
        own |= self.before
        self._set_generators(*self.generators_before)
        modes.add_reason(-1)

    def _set_generators(self, states: list, devices: dict) -> None:
        self.frame.generators.set(states)
        random.set_state(devices)


def _of_devices() -> dict:
    """The states of the GPUs' generators; for the host's see random.recorded."""
    states = random.get_state()
    del states["host"]
    return states


def _as_it_is(x: Any, depth: int = 8) -> Any:
    """A new tensor object for an argument that a later x[i] = v may change; new containers too.

    No deeper than `depth`: a container may hold itself.
    """
    if depth and isinstance(x, dict):
        made = copy.copy(x)
        made.update({key: _as_it_is(part, depth - 1) for key, part in x.items()})
        return made
    if depth and type(x) in (list, tuple):
        return type(x)([_as_it_is(part, depth - 1) for part in x])
    return wrap(x._data, x.node) if type(x) is Tensor and x.grad_fn is not None else x
