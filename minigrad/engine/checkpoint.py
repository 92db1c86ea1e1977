"""checkpoint: save nothing inside a function; run it again when the backward needs it.

The function runs once and is recorded as usual, but instead of its arrays each node keeps its
position in the sequence of nodes. The first node whose rules run makes the function run again, in
the modes and with the random generators of the first time; the n-th node made then has saved what
the n-th node of the graph needs. The graph itself stays the first one, so gradients of gradients,
closures over parameters and keyword arguments work without special care. What a node has taken is
released.

Chen, Xu, Zhang, Guestrin, Training Deep Nets with Sublinear Memory Cost, 2016.
"""

import copy
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from numbers import Integral
from typing import Any

import numpy as np

from ..backends import random
from ..backends.locks import Lock
from ..core import modes, versions
from ..core.errors import CheckpointError, describe
from ..core.graph import Leaf, next_number
from ..core.saving import Deferred, Saver
from ..core.tensor import Tensor, wrap

__all__ = ["checkpoint", "checkpoint_sequential", "set_checkpoint_early_stop"]

_early_stop = ContextVar("early_stop", default=True)


@contextmanager
def set_checkpoint_early_stop(enable: bool) -> Iterator[None]:
    """Inside, checkpoints compute their whole function again (False), or stop early (True).

    By default a checkpoint stops when it has what the backward needs; a difference that comes only
    after that goes unnoticed, and has no effect.
    """
    before = _early_stop.set(bool(enable))
    try:
        yield
    finally:
        _early_stop.reset(before)


def checkpoint(
    fn: Callable,
    *args: Any,
    use_reentrant: bool | None = None,
    preserve_rng_state: bool = True,
    **kwargs: Any,
) -> Any:
    """fn(*args, **kwargs), whose inner results are recomputed in the backward instead of kept.

    fn must repeat itself. From the generator of mg.manual_seed it gets the same numbers again,
    whatever other threads draw. NumPy's global generator is reset for it, so no other thread may
    use that meanwhile; your own generators are not reset. What fn writes elsewhere (running
    statistics) is written twice. The second run is left, by an exception, as soon as the backward
    has what it needs (see set_checkpoint_early_stop). Other ops, shapes, dtypes or tracked tensors
    from outside until then are a CheckpointError, an argument changed in between and what fn
    overwrites after it was saved an InPlaceError; other constants from outside (a number, an array
    put in the place of another) are not noticed. fn may compute gradients itself: what they need is
    computed again at once. Inside mg.func transforms fn is simply called: the result is right, but
    no memory is saved. PyTorch's use_reentrant and preserve_rng_state are taken and have no effect:
    there is one way, without the limits of either.
    """
    if not callable(fn):
        raise TypeError(
            f"checkpoint takes a function and its arguments, checkpoint(f, x), got {describe(fn)}"
        )
    state = modes.state
    if not state.recording or state.level or _inside_recorded(state.saving):
        return fn(*args, **kwargs)
    frame = _Frame(fn, args, kwargs)
    with _Recorder(frame), random.noted() as frame.draws:
        result = fn(*args, **kwargs)
    frame.is_complete = True
    return result


def checkpoint_sequential(
    layers: Iterable[Callable],
    segments: int,
    x: Any,
    use_reentrant: bool | None = None,
    preserve_rng_state: bool = True,
) -> Any:
    """The layers applied to x in `segments` parts, each but the last a checkpoint.

    With √n segments of n layers the memory of a backward grows as √n. For use_reentrant and
    preserve_rng_state see checkpoint.
    """
    if not hasattr(layers, "__iter__") or isinstance(layers, Tensor):
        raise TypeError(
            "checkpoint_sequential takes a Sequential or a list of layers, "
            f"checkpoint_sequential(layers, 4, x), got {describe(layers)}"
        )
    layers = list(layers)
    if not isinstance(segments, Integral) or not 1 <= segments <= len(layers):
        raise ValueError(
            f"checkpoint_sequential: {segments!r} segments of {len(layers)} layers; give 1 to "
            f"{len(layers)}, about the square root of it for the least memory"
        )
    bounds = [len(layers) * i // segments for i in range(segments + 1)]
    for start, stop in zip(bounds[:-2], bounds[1:-1], strict=True):
        x = checkpoint(partial(_through, layers[start:stop]), x)
    return _through(layers[bounds[-2] :], x)


def _through(layers: list, x: Any) -> Any:
    for layer in layers:
        x = layer(x)
    return x


def _inside_recorded(savers: tuple[Saver, ...]) -> bool:
    """Whether this runs inside the first run of an outer checkpoint, which recomputes it anyway."""
    checkpoints = [saver for saver in savers if isinstance(saver, _Recorder | _Collector)]
    return bool(checkpoints) and isinstance(checkpoints[-1], _Recorder)


# One recomputation at a time, over all frames: they set NumPy's global generator and those of GPUs,
# which all threads share.
_computing = Lock()


class _Frame:
    """One checkpointed call: how to run it again, and the saved values not taken yet.

    began   when it was made: what has an older number is from outside
    trace   for each node of the first run: op, shapes and dtypes of its result, number, and the
            numbers of the parents that are from outside
    saved   for each node of the second run a _Computed, None where taken; None before it
    is_complete  whether the first run has ended. It has not while the function computes a gradient
            itself, nor where a checkpoint around it left it early: the trace is then not of all
    """

    def __init__(self, fn: Callable, args: tuple, kwargs: dict):
        self.fn = fn
        self.args, self.kwargs = _as_it_is(args), _as_it_is(kwargs)
        self.began = next_number()
        self.trace: list[tuple[str, tuple, int, tuple]] = []
        self.saved: list | None = None
        self.is_complete = False
        self.looked = 0  # the newest write when the arguments were last looked at
        self.state = modes.state.all()
        self.generators = _generators()
        self.draws: list[dict] = []  # the states of the host's generator before each draw
        self.early_stop = _early_stop.get()

    def refuse_changed(self) -> None:
        """InPlaceError if an argument was changed since: another function would be computed."""
        if self.looked == versions.last_write:
            return
        named = [*((f"args[{i}]", x) for i, x in enumerate(self.args)), *self.kwargs.items()]
        for name, value in named:
            for array in versions.arrays_in(value):
                versions.refuse_if_changed(array, self.trace[0][2], "checkpoint", name)
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
        """What the nodes save, up to that of turn `last`; of all where it is None."""
        if last is None and not self.is_complete:
            last = len(self.trace) - 1
        collector = _Collector(self, last)
        with _as_at(self.state, self.generators, collector), random.repeated(self.draws):
            try:
                args, kwargs = _as_it_is(self.args), _as_it_is(self.kwargs)  # fn may change them
                self.fn(*args, **kwargs)
            except _Enough as enough:
                if enough.collector is not collector:
                    raise
                return collector.saved
        if len(collector.saved) != len(self.trace):
            _differs(f"{len(collector.saved)} recorded ops in place of {len(self.trace)}")
        return collector.saved


class _Enough(BaseException):
    """Raised inside a recomputed function to leave it early, once what was asked for is there."""

    def __init__(self, collector: "_Collector"):
        self.collector = collector


class _Computed:
    """What a node of the second run has saved; that node goes when the run ends."""

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

    def __init__(self, node: Any, frame: _Frame, turn: int):
        super().__init__(node)
        self.frame = frame
        self.turn = turn

    def __iter__(self) -> Iterator:
        return iter(self.frame.taken(self.turn))

    def refuse_changed(self) -> None:
        self.frame.refuse_changed()


class _Recorder(Saver):
    """Around the first run: records each node, and drops what it saved."""

    def __init__(self, frame: _Frame):
        self.frame = frame

    def take(self, node: Any, y: Any, args: tuple) -> None:
        trace = self.frame.trace
        if type(node.saved) is not tuple or _holds_arrays(node.saved):  # else it is there already
            node.saved = _Recomputed(node, self.frame, len(trace))
        began = self.frame.began
        outside = tuple([place.number for place in node.parents if place.number < began])
        trace.append((node.op.name, _form(y), node.number, outside))


def _holds_arrays(saved: tuple) -> bool:
    return any(True for value in saved for _ in versions.arrays_in(value))


class _Collector(Saver):
    """Around the second run: compares each node with its first time, and keeps what it saves."""

    def __init__(self, frame: _Frame, last: int | None):
        self.trace, self.began = frame.trace, frame.began
        self.last = last
        self.saved: list = []
        self.start = next_number()

    def take(self, node: Any, y: Any, args: tuple) -> None:
        turn = len(self.saved)
        if turn == len(self.trace):
            _differs(f"a further op {node.op.name} after all {turn}")
        op, form, number, outside = self.trace[turn]
        if (node.op.name, _form(y)) != (op, form):
            _differs(f"op {turn} was {op} {form} and is {node.op.name} {_form(y)}")
        if self._outside(node) != outside:
            _differs(
                f"op {turn}, {op}, computes with another tensor from outside than before. One that "
                "the function reads was changed there (x[i] = v, x += y), replaced, frozen, or is "
                "a loop's variable, of which the last value counts: pass it as an argument, and "
                "change a copy, x = x.copy()"
            )
        # every input, saved or not: what is computed from it would be other values now
        names = node.op.arrays * (len(args) if node.op.variadic else 1)
        for name, value in zip(names, args, strict=False):
            for array in versions.arrays_in(value):
                versions.refuse_if_changed(array, number, op, name, until=self.start)
        self.saved.append(_Computed(node))
        if turn == self.last:
            raise _Enough(self)

    def _outside(self, node: Any) -> tuple:
        """The numbers of the parents from outside. A leaf of the first run is none: a lazy layer
        makes its parameters there, and has them by now.
        """
        outside = [place for place in node.parents if place.number < self.start]
        return tuple(
            [p.number for p in outside if p.__class__ is not Leaf or p.number < self.began]
        )


class _as_at:
    """Inside, the thread's modes and the generators are in a former state; nodes save by saver.

    By it alone: nodes computed again are not nodes of a function around them, which may be running
    and be recorded (it computes a gradient).
    """

    def __init__(self, state: dict, generators: tuple, saver: Saver):
        self.state, self.generators, self.saver = state, generators, saver

    def __enter__(self) -> None:
        self.before, self.generators_before = modes.state.all(), _generators()
        modes.add_reason()
        try:
            _set_generators(self.generators)
        except BaseException:  # Ctrl-C: the block is not entered, and so never left
            _set_generators(self.generators_before)
            raise
        modes.state.set({**self.state, "saving": (self.saver,), "tapes": ()})

    def __exit__(self, *exc: object) -> None:
        own = modes.state.__dict__
        own |= self.before
        _set_generators(self.generators_before)
        modes.add_reason(-1)


def _generators() -> tuple:
    """The states of NumPy's global generator and those of GPUs; for the host's see random.noted."""
    states = random.get_state()
    del states["host"]
    return np.random.get_state(), states


def _set_generators(states: tuple) -> None:
    np.random.set_state(states[0])
    random.set_state(states[1])


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


def _form(y: Any) -> tuple:
    """Shapes and dtypes of a result."""
    ys = y if isinstance(y, tuple | list) else (y,)
    return tuple([(part.shape, str(part.dtype)) for part in ys])


def _differs(how: str) -> None:
    raise CheckpointError(
        f"checkpoint: the function did something else when it was computed again: {how}. It may "
        "depend on nothing that changes between forward and backward (a counter, a generator of "
        "its own, training mode); make that an argument."
    )
