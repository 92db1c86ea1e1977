"""The state that all functions of a program share: modes and seeds. A check must leave it
unchanged."""

import gc
import os
import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..modes.recording import is_grad_enabled, set_grad_enabled
from .errors import GradcheckError


@contextmanager
def shared_kept(seeds: bool = True) -> Iterator[None]:
    """A block after which the state shared by the program must be as before. If an op leaves a mode
    switched, the checks of every later op fail. If it sets a seed, random numbers of others repeat.
    `seeds` says whether seeds count: a user's function may draw, and set the seed to repeat
    itself."""
    shared = {**_MODES, **(_SEEDS if seeds else {})}
    before = {name: get() for name, (get, _) in shared.items()}
    try:
        yield
    finally:
        changed = [name for name, (get, _) in shared.items() if get() != before[name]]
        for name in changed:
            shared[name][1](before[name])
        if changed:
            raise GradcheckError(
                f"the function or its rule has changed {changed[0]} and left it so; change "
                "modes in a `with` block alone, and draw from a given Generator"
            )


def _numpy_generator() -> tuple:
    kind, keys, *rest = np.random.get_state(legacy=True)
    return kind, np.asarray(keys).tobytes(), *rest


def _set_numpy_generator(state: tuple) -> None:
    kind, keys, *rest = state
    np.random.set_state((kind, np.frombuffer(keys, np.uint32), *rest))


def _processors() -> set[int]:
    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()


def _set_processors(processors: set[int]) -> None:
    os.sched_setaffinity(0, processors)


# By name: its getter and its setter. The environment and the warnings filters are left out: a
# package that a function imports at its first call may change them.
_Shared = dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]]
_MODES: _Shared = {
    "whether calls are recorded": (is_grad_enabled, set_grad_enabled),
    "NumPy's error handling": (np.geterr, lambda modes: np.seterr(**modes)),
    "NumPy's print options": (np.get_printoptions, lambda options: np.set_printoptions(**options)),
    "the size of NumPy's buffer": (np.getbufsize, np.setbufsize),
    "the limit of nested calls": (sys.getrecursionlimit, sys.setrecursionlimit),
    "the collector's thresholds": (gc.get_threshold, lambda counts: gc.set_threshold(*counts)),
    "the processors of the thread": (_processors, _set_processors),
}
_SEEDS: _Shared = {
    "the seed of numpy.random": (_numpy_generator, _set_numpy_generator),
    "the seed of random": (random.getstate, random.setstate),
}
