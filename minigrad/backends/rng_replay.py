"""A thread's random numbers, recorded as it draws them from the host's generator, and replayed.

Threads share the generator. Draws of another thread change neither the record nor the replay of
this one, and a replay takes nothing from the generator.
"""

import copy
from collections.abc import Callable
from typing import Any

import numpy as np

State = Any  # of a bit generator


class ThreadGenerator:
    """A replacement for a Generator: each call of one of its methods is a draw from `source`."""

    def __init__(self, source: Any):
        self.source = source

    def __copy__(self) -> "ThreadGenerator":
        return self  # a copy.copy of a Generator shares its numbers, too

    def __deepcopy__(self, memo: dict) -> np.random.Generator:
        return self._ahead()

    def __reduce__(self) -> Any:
        return self._ahead().__reduce__()

    def _ahead(self) -> np.random.Generator:
        """An independent Generator with the same next numbers."""
        made = copy.deepcopy(self.source.generator())
        made.bit_generator.state = self.source.state()
        return made

    def spawn(self, n_children: int) -> list[np.random.Generator]:
        """Independent generators; in a replay, those of the first time."""
        return self.source.spawn(n_children)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)  # the class answers Python's own look-ups
        found = getattr(self.source.generator(), name)
        if not callable(found) or name.startswith("_"):
            return found

        def drawn(*args: Any, **kwargs: Any) -> Any:
            return self.source.draw(name, args, kwargs)[1]

        return drawn


class SharedSource:
    """Draws from the generator that all threads share, `generator()`."""

    def __init__(self, generator: Callable[[], np.random.Generator]):
        self.generator = generator
        self.own = np.random.Generator(np.random.PCG64(0))

    def state(self) -> State:
        """The state before the next draw."""
        return self.generator().bit_generator.state

    def spawn(self, n: int) -> list[np.random.Generator]:
        """The generator's next children."""
        return self.generator().spawn(n)

    def draw(self, name: str, args: tuple, kwargs: dict) -> tuple[State, Any]:
        """(the state before, what the method returns).

        A private generator takes the shared one's state, draws, and gives its state back. No other
        thread draws at the same time: each draw holds the same lock.
        """
        whole, own = self.generator().bit_generator, self.own.bit_generator
        with whole.lock:
            state = own.state = whole.state
            y = getattr(self.own, name)(*args, **kwargs)
            whole.state = own.state
        return state, y


class RecordingSource:
    """Draws from `below`, and keeps in `states` its state before each draw."""

    def __init__(self, below: Any):
        self.below, self.generator = below, below.generator
        self.states: list[Any] = []
        self.state = below.state

    def spawn(self, n: int) -> list[np.random.Generator]:
        """Children, recorded in their state before they draw."""
        children = self.below.spawn(n)
        self.states.append(copy.deepcopy(children))
        return children

    def draw(self, name: str, args: tuple, kwargs: dict) -> tuple[State, Any]:
        """(the state before, what the method returns)."""
        state, y = self.below.draw(name, args, kwargs)
        self.states.append(state)
        return state, y


class ReplayingSource:
    """The draws whose states were recorded, in order; further draws come from `below`.

    A source that an interrupt has left in use therefore stops replaying.
    """

    def __init__(self, states: list[State], below: SharedSource):
        self.states, self.below, self.generator = states, below, below.generator
        self.own = np.random.Generator(np.random.PCG64(0))
        self.used = 0

    def state(self) -> State:
        """The state before the next draw."""
        state = self.states[self.used] if self.used < len(self.states) else None
        return state if isinstance(state, dict) else self.below.state()

    def spawn(self, n: int) -> list[np.random.Generator]:
        """The recorded children, in their recorded state."""
        if self.used >= len(self.states):
            return self.below.spawn(n)
        children = copy.deepcopy(self.states[self.used])
        self.used += 1
        return children

    def draw(self, name: str, args: tuple, kwargs: dict) -> tuple[State, Any]:
        """(the state before, what the method returns)."""
        if self.used >= len(self.states):
            return self.below.draw(name, args, kwargs)
        state = self.own.bit_generator.state = self.states[self.used]
        self.used += 1
        return state, getattr(self.own, name)(*args, **kwargs)
