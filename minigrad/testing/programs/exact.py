"""Ways of running a program that give the bits of a plain backward."""

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

import minigrad as mg

from ...engine.errors import InPlaceError
from ...tensor_api.tensor import Tensor
from ..checks.nearness import require_same_bits
from ..engines import available
from ..function import Arrays, Function, as_array, pulled_back
from .subject import Refused, Subject


def exact() -> dict[str, Callable[[Subject], Arrays]]:
    """Ways that give the gradients' bits."""
    ways: dict[str, Callable[[Subject], Arrays]] = {}
    for name, engine in available()[0].items():
        if name not in ("serial", "8 workers", "4 workers"):
            ways[name] = lambda s, engine=engine: engine(s.function, s.xs, s.vs)
    ways["3 workers"] = lambda s: pulled(s.function, s, engine="parallel", workers=3, min_work=0)
    ways |= {
        "backward": _by_backward,
        "gradients": _by_gradients,
        "a second time": _a_second_time,
        "replayed twice": _replayed_twice,
    }
    ways |= {"checkpoint": _checkpointed, "hooks": hooked, "saved-tensor hooks": _packed}
    ways |= {"inputs in other memory": _strided}
    ways |= {name: _inside(context) for name, context in CONTEXTS.items()}
    ways |= {"anomaly mode, 2 workers": _inside(
        mg.detect_anomaly, engine="parallel", workers=2, min_work=0)}  # fmt: skip
    ways |= {"checkpoint, 2 workers": lambda s: _checkpointed(
        s, engine="parallel", workers=2, min_work=0)}  # fmt: skip
    ways |= {"hooks, 2 workers": lambda s: hooked(s, engine="parallel", workers=2, min_work=0)}
    return ways


def pulled(function: Function, s: Subject, **options: Any) -> Arrays:
    leaves, ys = function.record(s.xs)
    return pulled_back(leaves, ys, s.vs, **options)


def as_gradients(leaves: Sequence[Tensor], gs: Sequence[Any]) -> Arrays:
    return [np.zeros_like(x.data) if g is None else as_array(g) for x, g in zip(leaves, gs)]


def tracked(ys: Sequence[Any], vs: Sequence[Any]) -> tuple[list, list]:
    pairs = [(y, Tensor(v)) for y, v in zip(ys, vs, strict=True) if y.requires_grad]
    return [y for y, _ in pairs], [v for _, v in pairs]


def _by_backward(s: Subject) -> Arrays:
    leaves, ys = s.function.record(s.xs)
    ys, vs = tracked(ys, s.vs)
    if ys:
        mg.backward(ys, vs)
    return as_gradients(leaves, [x.grad for x in leaves])


def _by_gradients(s: Subject) -> Arrays:
    leaves, ys = s.function.record(s.xs)
    ys, vs = tracked(ys, s.vs)
    found = mg.gradients(ys, vs) if ys else {}
    return as_gradients(leaves, [found.get(x) for x in leaves])


def _a_second_time(s: Subject) -> Arrays:
    """The graph is kept, and walked once more."""
    leaves, ys = s.function.record(s.xs)
    pulled_back(leaves, ys, s.vs, retain_graph=True)
    return pulled_back(leaves, ys, s.vs)


def _replayed_twice(s: Subject) -> Arrays:
    """A compiled tape at other leaves and then at these: no state of the first call remains."""
    with mg.Tape() as tape:
        leaves, ys = s.function.record(s.xs)
    ys, vs = tracked(ys, s.vs)
    used = [x for x in leaves if tape.find(x) is not None]
    if not ys or not all(tape.find(y) is not None for y in ys):
        return s.gradients
    program = tape.compile(ys, used, used, vs, allow_unused=True, copy=False)
    points = [x for x, leaf in zip(s.xs, leaves, strict=True) if any(leaf is y for y in used)]
    values = tape.compile(ys, used)(*points)  # the forward alone
    for a, b in zip(values, ys, strict=True):
        require_same_bits(as_array(b), as_array(a), "replayed without gradients: the value")
    with np.errstate(all="ignore"):  # these may lie outside the domain of a logarithm
        program(*[x * x.dtype.type(0.99) for x in points])
    values, gs = program(*points)
    for a, b in zip(values, ys, strict=True):  # the tape was recorded at the same leaves
        require_same_bits(as_array(b), as_array(a), "replayed twice: the value")
    found = dict(zip(map(id, used), gs, strict=True))
    return as_gradients(leaves, [found.get(id(x)) for x in leaves])


def _checkpointed(s: Subject, **options: Any) -> Arrays:
    whole = Function(lambda *xs: mg.checkpoint(s.program, *xs), s.xs)
    return pulled(whole, s, **options)


class _Watching:
    """The module mg, whose functions register a hook on each recorded result."""

    def __init__(self, hook: Callable):
        self._hook = hook

    def __getattr__(self, name: str) -> Any:
        thing = getattr(mg, name)
        if not callable(thing) or isinstance(thing, type):
            return thing

        def call(*args: Any, **named: Any) -> Any:
            y = thing(*args, **named)
            if isinstance(y, Tensor) and y.requires_grad and not y.is_leaf:
                y.register_hook(self._hook)
            return y

        return call


def hooked(s: Subject, hook: Callable = lambda g: None, **options: Any) -> Arrays:
    """With a hook at leaves, results and inner results; this one only observes.

    A hook that returns a copy may change the memory order, and with it the bits of a product.
    """
    leaves, ys = s.with_globals(mg=_Watching(hook)).record(s.xs)
    for x in [*leaves, *[y for y in ys if y.requires_grad]]:
        x.register_hook(hook)
    return pulled_back(leaves, ys, s.vs, **options)


def _packed(s: Subject) -> Arrays:
    with mg.saved_tensors_hooks(lambda x: x.copy(), lambda x: x):
        leaves, ys = s.function.record(s.xs)
    return pulled_back(leaves, ys, s.vs)


def _strided(s: Subject) -> Arrays:
    """Leaves that own no memory: a copy of each, one after another in one buffer."""
    buffers = [np.empty(x.size + 1, x.dtype) for x in s.xs]
    views = []
    for x, buffer in zip(s.xs, buffers, strict=True):
        view = buffer[1:].reshape(x.shape)
        view[...] = x
        views.append(view)
    leaves, ys = s.function.record(views)
    return pulled_back(leaves, ys, s.vs)


@contextmanager
def _logged() -> Iterator[None]:
    with tempfile.TemporaryDirectory() as folder:
        with mg.event_log(os.path.join(folder, "log.jsonl")):
            yield


@contextmanager
def _watched() -> Iterator[None]:
    with mg.profile(memory=True), mg.record_backward():
        yield


CONTEXTS: dict[str, Callable] = {
    "profile": mg.profile, "event log": _logged, "anomaly mode": mg.detect_anomaly,
    "profile of memory, recorded backward": _watched, "save_on_cpu": mg.save_on_cpu,
    "mutation allowed": mg.allow_mutation_on_saved_tensors,
}  # fmt: skip


def _inside(context: Callable, **options: Any) -> Callable[[Subject], Arrays]:
    def way(s: Subject) -> Arrays:
        with context():
            try:
                leaves, ys = s.function.record(s.xs)
            except InPlaceError as error:  # hooks may keep their arguments
                if context is not mg.save_on_cpu:
                    raise
                raise Refused(str(error)) from error
            return pulled_back(leaves, ys, s.vs, **options)

    return way
