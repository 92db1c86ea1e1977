"""The generators of every random op of this library: one for the host, one for each GPU.

`manual_seed(n)` makes runs repeat. `get_state`/`set_state` let checkpointing replay a forward.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from .device import On, require_gpu, resolve
from .leaving import left_always
from .philox import DeviceGenerator
from .rng_replay import RecordingSource, ReplayingSource, SharedSource, State, ThreadGenerator
from .threads import Local

_generator = np.random.default_rng()
_seed = np.random.SeedSequence()  # of the generators of the GPUs
_on_devices: dict[int, DeviceGenerator] = {}
_waiting: dict[int, tuple[int, int]] = {}  # states of GPUs that have not drawn since `set_state`


class _Here(Local):
    draws: ThreadGenerator | None = None  # in place of the host's generator for this thread
    awaiting: Callable[[], None] | None = None  # called before a draw, or a look at the state
    own: Any = None  # .generator: this thread's replacement for the host's generator


_here = _Here()


def manual_seed(seed: int) -> np.random.Generator:
    """Start the library's generators again from `seed`; returns the host's generator.

    Inside a row that a DataLoader makes it is the row's generator.
    """
    global _generator, _seed
    _tell_awaiting()
    try:
        sequence = np.random.SeedSequence(seed)
    except (TypeError, ValueError) as error:
        kind = type(error)
        raise kind(f"manual_seed: seed is an integer, 0 or more; got {seed!r}") from None
    if _here.own is not None:
        _here.own.generator = np.random.default_rng(seed)
        return _here.own.generator
    _generator, _seed = np.random.default_rng(seed), sequence
    _on_devices.clear()
    _waiting.clear()
    return _generator


def generator() -> np.random.Generator:
    """The host's generator in use now: a numpy.random.Generator, or its replacement in a thread
    that is inside mg.checkpoint.
    """
    _tell_awaiting()
    return _here.draws or _base()  # type: ignore[return-value]


def await_draws(fn: Callable[[], None] | None) -> None:
    """Have fn called, once, before this thread draws or sets a state."""
    _here.awaiting = fn


def awaiting() -> Callable[[], None] | None:
    """The function that await_draws has set, while nothing has been drawn."""
    return _here.awaiting


def _tell_awaiting() -> None:
    if _here.awaiting is not None:
        fn, _here.awaiting = _here.awaiting, None
        fn()


def _base() -> np.random.Generator:
    return _generator if _here.own is None else _here.own.generator


def own_of_thread() -> Any:
    """The holder of the generator that replaces the host's in this thread; None if there is
    none."""
    return _here.own


def set_own_of_thread(own: Any) -> None:
    """Let this thread use `own.generator` from now on; None: the host's generator."""
    _here.own = own


def generator_on(device: str | None) -> Any:
    """The generator of a device: it draws there, without copies."""
    _tell_awaiting()
    xp = resolve(device)
    if xp is np:
        return generator()
    cupy, current = require_gpu(f"device {device!r}"), xp.cuda.runtime.getDevice()
    number = int(str(device).partition(":")[2] or current)
    if number not in _on_devices:
        made = _on_devices[number] = DeviceGenerator(cupy, _seed_of(number))
        made.seed, made.used = _waiting.pop(number, (made.seed, 0))
    found = _on_devices[number]
    return found if number == current else On(cupy, number, found)


def _seed_of(number: int) -> int:
    """The seed of GPU `number`, different for each."""
    return int(_seed.generate_state(number + 1, np.uint64)[number])


def get_state() -> dict[str, Any]:
    """The generators' states, for mg.set_rng_state later, also in another process."""
    _tell_awaiting()
    devices = {number: (found.seed, found.used) for number, found in _on_devices.items()}
    host = dict(_base().bit_generator.state)
    return {"host": host, "devices": _waiting | devices, "seed": _seed.entropy}


def set_state(state: dict[str, Any]) -> None:
    """Put the generators back into a state that mg.get_rng_state returned.

    A GPU that has not drawn yet continues from this state at its first draw. A GPU that had not
    drawn when the state was taken starts from its seed. TypeError for anything else, before a
    generator is changed.
    """
    global _seed
    _tell_awaiting()
    if not isinstance(state, dict) or "devices" not in state:
        kind = type(state).__name__
        raise TypeError(f"set_rng_state takes a state from mg.get_rng_state(), got a {kind}")
    if "host" in state:
        _base().bit_generator.state = state["host"]
    _seed = np.random.SeedSequence(state["seed"]) if "seed" in state else _seed
    _waiting.clear()
    _waiting.update({int(number): tuple(found) for number, found in state["devices"].items()})
    for number, found in _on_devices.items():
        found.seed, found.used = _waiting.pop(number, (_seed_of(number), 0))


def _shared() -> SharedSource:
    return SharedSource(_base)


class _drawing:
    """Inside, this thread draws from `draws` in place of the host's generator."""

    def __init__(self, draws: ThreadGenerator | None):
        self.before, self.draws = _here.draws, draws

    def __enter__(self) -> Any:
        _here.draws = self.draws

    @left_always(lambda block: block.draws is not block.before and _here.draws is block.draws)
    def __exit__(self, *exc: object) -> None:
        _here.draws = self.before


class recorded(_drawing):
    """Inside, this thread's draws from the host's generator are recorded; yields their list."""

    def __init__(self) -> None:
        before = _here.draws
        self.source = RecordingSource(_shared() if before is None else before.source)
        super().__init__(ThreadGenerator(self.source))

    def __enter__(self) -> list[State]:
        super().__enter__()
        return self.source.states


class apart(_drawing):
    """Inside, no draw is recorded: for numbers drawn only once (the weights of a lazy layer)."""

    def __init__(self) -> None:
        super().__init__(None)


class replayed(_drawing):
    """Inside, this thread replays recorded draws. The host's generator does not change, even if a
    seed is set inside.
    """

    def __init__(self, states: list[State]):
        super().__init__(ThreadGenerator(ReplayingSource(states, _shared())))
        self.generator = _generator

    @left_always(lambda block: _here.draws is block.draws)
    def __exit__(self, *exc: object) -> None:
        global _generator
        _here.draws, _generator = self.before, self.generator
