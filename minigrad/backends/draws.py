"""A thread's random numbers, noted as it draws them from the host's generator, and drawn again.

Threads share the generator. What another one draws in between changes neither what this one notes
nor what it gets again, and drawing again takes nothing from the generator.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

State = Any  # of a bit generator


class Draws:
    """In place of a Generator: each call of one of its methods is a draw from `source`."""

    def __init__(self, source: Any):
        self.source = source

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.source.generator(), name)
        if not callable(found) or name.startswith("_"):
            return found

        def drawn(*args: Any, **kwargs: Any) -> Any:
            return self.source.draw(name, args, kwargs)[1]

        return drawn


class Shared:
    """Draws from the generator that all threads share; `generator()` says which it is now."""

    def __init__(self, generator: Callable[[], np.random.Generator]):
        self.generator = generator
        self.own = np.random.Generator(np.random.PCG64(0))

    def draw(self, name: str, args: tuple, kwargs: dict) -> tuple[State, Any]:
        """(the state before, what the method returns).

        By a generator of its own, which is put where the shared one is and takes that along. Nobody
        draws meanwhile: whoever does holds the same lock.
        """
        whole, own = self.generator().bit_generator, self.own.bit_generator
        with whole.lock:
            state = own.state = whole.state
            y = getattr(self.own, name)(*args, **kwargs)
            whole.state = own.state
        return state, y


class Noted:
    """Draws from `below`, and keeps in `states` where that was before each draw."""

    def __init__(self, below: Any):
        self.below, self.generator = below, below.generator
        self.states: list[State] = []

    def draw(self, name: str, args: tuple, kwargs: dict) -> tuple[State, Any]:
        """(the state before, what the method returns)."""
        state, y = self.below.draw(name, args, kwargs)
        self.states.append(state)
        return state, y


class Repeated:
    """The draws whose states were noted, in their order; further ones are from `below`.

    So one that an interrupt has left in force does not go on repeating.
    """

    def __init__(self, states: list[State], below: Shared):
        self.states, self.below, self.generator = states, below, below.generator
        self.own = np.random.Generator(np.random.PCG64(0))
        self.used = 0

    def draw(self, name: str, args: tuple, kwargs: dict) -> tuple[State, Any]:
        """(the state before, what the method returns)."""
        if self.used >= len(self.states):
            return self.below.draw(name, args, kwargs)
        state = self.own.bit_generator.state = self.states[self.used]
        self.used += 1
        return state, getattr(self.own, name)(*args, **kwargs)
