"""The generator that every random op of this library draws from, one for the process.

`manual_seed(n)` makes runs repeat. `get_state`/`set_state` let checkpointing replay a forward.
"""

from typing import Any

import numpy as np

_generator = np.random.default_rng()


def manual_seed(seed: int) -> np.random.Generator:
    """Start the library's generator anew from `seed`; returns it."""
    global _generator
    _generator = np.random.default_rng(seed)
    return _generator


def generator() -> np.random.Generator:
    """The generator in use now (a numpy.random.Generator)."""
    return _generator


def get_state() -> dict[str, Any]:
    """The generator's state, to hand to `set_state` later."""
    return dict(_generator.bit_generator.state)


def set_state(state: dict[str, Any]) -> None:
    """Put the generator back into a state that `get_state` returned."""
    _generator.bit_generator.state = state
