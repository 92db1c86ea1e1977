"""The generators that every random op of this library draws from: one for the host, one a GPU.

`manual_seed(n)` makes runs repeat. `get_state`/`set_state` let checkpointing replay a forward.
"""

from typing import Any

import numpy as np

from .device import resolve
from .philox import DeviceGenerator

_generator = np.random.default_rng()
_seed = np.random.SeedSequence()  # of the generators of the GPUs
_on_devices: dict[int, DeviceGenerator] = {}


def manual_seed(seed: int) -> np.random.Generator:
    """Start the library's generators anew from `seed`; returns that of the host."""
    global _generator, _seed
    _generator, _seed = np.random.default_rng(seed), np.random.SeedSequence(seed)
    _on_devices.clear()
    return _generator


def generator() -> np.random.Generator:
    """The host's generator in use now (a numpy.random.Generator)."""
    return _generator


def generator_on(device: str | None) -> Any:
    """The generator of a device: it draws there, nothing is copied."""
    xp = resolve(device)
    if xp is np:
        return _generator
    number = int(str(device).partition(":")[2] or xp.cuda.runtime.getDevice())
    if number not in _on_devices:
        _on_devices[number] = DeviceGenerator(xp, _seed_of(number))
    return _on_devices[number]


def _seed_of(number: int) -> int:
    """The seed of GPU `number`: another one for each."""
    return int(_seed.generate_state(number + 1, np.uint64)[number])


def get_state() -> dict[str, Any]:
    """The generators' states, to hand to `set_state` later."""
    devices = {number: (found.seed, found.used) for number, found in _on_devices.items()}
    return {"host": dict(_generator.bit_generator.state), "devices": devices}


def set_state(state: dict[str, Any]) -> None:
    """Put the generators back into a state that `get_state` returned."""
    _generator.bit_generator.state = state["host"]
    for number, found in _on_devices.items():
        # one that was first used after the state was taken starts anew
        found.seed, found.used = state["devices"].get(number, (_seed_of(number), 0))
