"""The generators that every random op of this library draws from: one for the host, one a GPU.

`manual_seed(n)` makes runs repeat. `get_state`/`set_state` let checkpointing replay a forward.
"""

from typing import Any

import numpy as np

from .device import On, require_gpu, resolve
from .philox import DeviceGenerator

_generator = np.random.default_rng()
_seed = np.random.SeedSequence()  # of the generators of the GPUs
_on_devices: dict[int, DeviceGenerator] = {}
_waiting: dict[int, tuple[int, int]] = {}  # states of GPUs that have not drawn since `set_state`


def manual_seed(seed: int) -> np.random.Generator:
    """Start the library's generators anew from `seed`; returns that of the host."""
    global _generator, _seed
    try:
        sequence = np.random.SeedSequence(seed)
    except (TypeError, ValueError) as error:
        kind = type(error)
        raise kind(f"manual_seed: seed is an integer, 0 or more; got {seed!r}") from None
    _generator, _seed = np.random.default_rng(seed), sequence
    _on_devices.clear()
    _waiting.clear()
    return _generator


def generator() -> np.random.Generator:
    """The host's generator in use now (a numpy.random.Generator)."""
    return _generator


def generator_on(device: str | None) -> Any:
    """The generator of a device: it draws there, nothing is copied."""
    xp = resolve(device)
    if xp is np:
        return _generator
    cupy, current = require_gpu(f"device {device!r}"), xp.cuda.runtime.getDevice()
    number = int(str(device).partition(":")[2] or current)
    if number not in _on_devices:
        made = _on_devices[number] = DeviceGenerator(cupy, _seed_of(number))
        made.seed, made.used = _waiting.pop(number, (made.seed, 0))
    found = _on_devices[number]
    return found if number == current else On(cupy, number, found)


def _seed_of(number: int) -> int:
    """The seed of GPU `number`: another one for each."""
    return int(_seed.generate_state(number + 1, np.uint64)[number])


def get_state() -> dict[str, Any]:
    """The generators' states, to hand to `set_state` later, also in another process."""
    devices = {number: (found.seed, found.used) for number, found in _on_devices.items()}
    host = dict(_generator.bit_generator.state)
    return {"host": host, "devices": _waiting | devices, "seed": _seed.entropy}


def set_state(state: dict[str, Any]) -> None:
    """Put the generators back into a state that `get_state` returned.

    Those of GPUs that have not drawn yet go on from there when they do; those that had not when
    the state was taken start anew.
    """
    global _seed
    _generator.bit_generator.state = state["host"]
    _seed = np.random.SeedSequence(state["seed"]) if "seed" in state else _seed
    _waiting.clear()
    _waiting.update({int(number): tuple(found) for number, found in state["devices"].items()})
    for number, found in _on_devices.items():
        found.seed, found.used = _waiting.pop(number, (_seed_of(number), 0))
