"""checkpoint: save nothing inside a function; run it again when the backward needs it.

The function runs once and is recorded as usual, but instead of its arrays each node keeps its
position in the sequence of nodes. The first node whose rules run makes the function run again, in
the modes and with the random generators of the first time. The n-th node made then has saved the
values that the n-th node of the graph needs. The graph itself stays the first one, so gradients of
gradients, closures over parameters and keyword arguments work without special care. Values that a
node has taken are released.

Chen, Xu, Zhang, Guestrin, Training Deep Nets with Sublinear Memory Cost, 2016.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from functools import partial
from numbers import Integral
from typing import Any

from ..backends import random
from ..backends.leaving import contextmanager, ended_by
from ..engine import modes
from ..engine.errors import describe
from ..tensor_api.tensor import Tensor
from .checkpoint_frame import Collector, Frame, Recorder
from .saving import Saver

__all__ = ["checkpoint", "checkpoint_sequential", "set_checkpoint_early_stop"]

_early_stop: ContextVar[bool | None] = ContextVar("early_stop", default=None)


@contextmanager
def set_checkpoint_early_stop(enable: bool) -> Iterator[None]:
    """Inside, checkpoints compute their whole function again (False), or stop early (True).

    By default a checkpoint stops when it has what the backward needs; a difference that comes only
    after that goes unnoticed, and has no effect.
    """
    before = _early_stop.get()
    with ended_by(lambda: _early_stop.set(before)):
        _early_stop.set(bool(enable))
        yield


def checkpoint(
    fn: Callable,
    *args: Any,
    use_reentrant: bool | None = None,
    preserve_rng_state: bool = True,
    context_fn: Callable[[], tuple] | None = None,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    **kwargs: Any,
) -> Any:
    """fn(*args, **kwargs), whose inner results are recomputed in the backward instead of kept.

    fn must repeat itself. Random numbers are the same again. Those of mg.manual_seed's generator do
    not depend on other threads. NumPy's and Python's global generators and all generators that fn
    can reach (arguments, closures, globals, modules) must not be used by other threads during the
    run. Writes of fn elsewhere happen twice, unless it asks mg.is_recomputing(), as running
    statistics do. The second run is left, by an exception, as soon as the backward has what it
    needs (early_stop=False, set_checkpoint_early_stop).

    Other ops, shapes, dtypes, constants or tracked tensors from outside until then are a
    CheckpointError that names the op, an argument changed in between and what fn overwrites after
    it was saved an InPlaceError. fn may compute gradients itself: what they need is computed again
    at once. Inside mg.func transforms fn is simply called: the result is right, but no memory is
    saved.

    context_fn         () -> (context manager for the first run, one for the second)
    determinism_check  "default": the second run is compared with the first; "none": it is not
    debug              a CheckpointError lists the ops of both runs, with their lines
    use_reentrant, preserve_rng_state
                       PyTorch's, taken and without effect: there is one way, which has no limits
                       that a choice could lift

    A parameter of fn's own with one of these names is given by functools.partial(fn, debug=...).
    """
    if not callable(fn):
        raise TypeError(
            f"checkpoint takes a function and its arguments, checkpoint(f, x), got {describe(fn)}"
        )
    if determinism_check not in ("default", "none"):
        raise ValueError(
            f"checkpoint: determinism_check is 'default' or 'none', got {determinism_check!r}"
        )
    state = modes.state
    if not state.recording:
        return fn(*args, **kwargs)
    first, second = _contexts(context_fn)
    if state.level or _inside_recorded(state.saving):
        with first:
            return fn(*args, **kwargs)
    chosen = _early_stop.get()
    frame = Frame(
        fn, args, kwargs, second, early_stop=early_stop if chosen is None else chosen,
        compares=determinism_check == "default", debug=debug,
    )  # fmt: skip
    with Recorder(frame), random.recorded() as frame.draws, first:
        result = fn(*args, **kwargs)
    frame.is_complete = True
    return result


def _contexts(context_fn: Callable[[], tuple] | None) -> tuple[AbstractContextManager, ...]:
    """The context managers of the first run and of the second."""
    if context_fn is None:
        return nullcontext(), nullcontext()
    made = context_fn()
    if not isinstance(made, tuple) or [hasattr(one, "__exit__") for one in made] != [True, True]:
        raise TypeError(
            "checkpoint: context_fn() returns two context managers, that of the first run and that "
            f"of the second, got {describe(made)}"
        )
    return made


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
    checkpoints = [saver for saver in savers if isinstance(saver, Recorder | Collector)]
    return bool(checkpoints) and isinstance(checkpoints[-1], Recorder)
