"""A row's own random numbers: those of np.random, of random and of mg, from a key alone.

Inside `numbers_of(seed, ROW, i)` the functions of np.random and random, and mg's generator, draw
from other generators. These three numbers seed them at the first draw. The process's own generators
keep their state, for this thread afterwards and for other threads at once.

np.random and random each have one generator for the whole process. While a thread makes rows
(`shared`), each draw first sets it to the state of the drawing thread. NumPy's says when: it takes
the lock of its bit generator before each draw. A function replaces each of random's, in the module
and in the instance that its functions belong to. Only `from random import random`, `getrandbits` or
`gauss` in a program bypasses it.
"""

import ctypes
import functools
import hashlib
import operator
import random as python
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

from ..backends import random
from ..backends.leaving import left_always
from ..backends.locks import Lock
from ..backends.threads import Local

ROW, BATCH, STREAM, START = range(4)  # a row, a batch, a row of a stream, the start of a worker
_global: Any = np.random  # NumPy gives types for some of its functions only


class Numbers:
    """The random numbers of one key; a generator of them is made when it is first drawn from.

    drawn    whether that was done
    is_over  whether the row has been made
    states   those that generators of the process will have when they are turned to it again
    """

    def __init__(self, *key: Any):
        self.key = key
        self.drawn = self.is_over = False
        self.states: dict[Any, Any] = {}

    def _sequence(self, which: int) -> np.random.SeedSequence:
        self.drawn = True
        return np.random.SeedSequence([which, *map(_whole, self.key)])

    @cached_property
    def generator(self) -> np.random.Generator:
        """mg's."""
        return np.random.default_rng(self._sequence(0))

    @cached_property
    def of_worker(self) -> np.random.Generator:
        """get_worker_info().generator."""
        return np.random.default_rng(self._sequence(1))

    def seed(self) -> np.ndarray:
        """Of the generators of the process: four words."""
        return self._sequence(2).generate_state(4)


def _held(lock: Any) -> int:
    """How often this thread holds an RLock."""
    count = getattr(lock, "_recursion_count", lock._is_owned)  # Python 3.11.0 has no count
    return int(count())


def _whole(part: Any) -> int:
    try:
        return operator.index(part) % (1 << 64)
    except TypeError:
        return int.from_bytes(hashlib.blake2b(repr(part).encode(), digest_size=8).digest())


_process = Numbers()  # the process's own


class _Here(Local):
    numbers: Numbers = _process


_here = _Here()


def of_worker() -> np.random.Generator:
    """The generator of a WorkerInfo, for the row that this thread makes."""
    return _here.numbers.of_worker


class numbers_of:
    """Inside, this thread draws the random numbers of a key: whole numbers, or what has a repr.

    `change(*key)` goes over to another one.
    """

    def __init__(self, *key: Any):
        self.numbers = Numbers(*key)

    def __enter__(self) -> "numbers_of":
        self.outer = _here.numbers, random.own_of_thread()
        _begins(self)
        self._use(self.numbers)
        return self

    def change(self, *key: Any) -> None:
        """From now on those of this key."""
        if not self.numbers.drawn:
            self.numbers.key = key
            return
        self.numbers.is_over = True
        self.numbers = Numbers(*key)
        self._use(self.numbers)

    def _use(self, numbers: Numbers) -> None:
        _here.numbers = numbers
        random.set_own_of_thread(numbers)

    @left_always(lambda block: block in _makers)
    def __exit__(self, *exc: object) -> None:
        _here.numbers, own = self.outer
        random.set_own_of_thread(own)
        self.numbers.is_over = True
        for shared_one in (of_numpy, of_python):
            shared_one.turn_back()
        _ends(self)


class _Shared:
    """A generator that a process has one of, in the state of the thread that draws from it."""

    random: Any

    def __init__(self) -> None:
        self.lock = Lock()
        self.owner = _process
        self.is_turned = False  # while it is, what that calls does not turn it

    def __enter__(self) -> None:
        before = _held(self.lock)
        try:
            self.lock.acquire()
            if self.owner is not _here.numbers and not self.is_turned:
                self._turn_to(_here.numbers)
        except BaseException:  # Ctrl-C
            if _held(self.lock) > before:
                self.lock.release()
            raise

    @property
    def __exit__(self) -> Any:
        """The lock's own, written in C: no interrupt comes between its call and what it does."""
        return self.lock.__exit__

    def turn_back(self) -> None:
        """To the thread's own, where the row that was drawn for has been made."""
        if self.owner.is_over:
            with self:
                pass

    def _turn_to(self, numbers: Numbers) -> None:
        outer, before = self.owner, None
        self.is_turned = True
        try:
            before = _process.states.get(self) if outer.is_over else self.get()
            if self in numbers.states:
                self.set(numbers.states[self])
            else:
                self.random.seed(self.as_seed(numbers.seed()))
            if not outer.is_over:
                outer.states[self] = before
            self.owner = numbers
        except BaseException:  # Ctrl-C: nothing has changed
            if before is not None:
                self.owner = _process if outer.is_over else outer
                self.set(before)
            raise
        finally:
            self.is_turned = False

    def get(self) -> Any:
        """The state."""
        raise NotImplementedError

    def set(self, state: Any) -> None:
        """Set the state."""
        raise NotImplementedError

    def as_seed(self, words: np.ndarray) -> Any:
        """What `random.seed` takes."""
        return words


class _OfNumPy(_Shared):
    """np.random's, an MT19937 with a lock that turns it."""

    random = np.random.rand.__self__  # type: ignore[attr-defined]
    bits: Any = None
    replaced: Any = None

    def get(self) -> Any:
        """The words, and the second of two normal numbers if it is still there."""
        self.bits.is_copied = True
        try:
            rest = self.random.get_state(legacy=False)
        finally:
            self.bits.is_copied = False
        return rest, ctypes.string_at(self.bits.ctypes.state_address, _BYTES)

    def set(self, state: Any) -> None:
        """Set what `get` gave."""
        rest, words = state
        self.bits.is_copied = True
        try:
            self.random.set_state(rest)
        finally:
            self.bits.is_copied = False
        ctypes.memmove(self.bits.ctypes.state_address, words, _BYTES)

    def install(self) -> None:
        """Put a bit generator with this lock in the place of an MT19937."""
        found = _global.get_bit_generator()
        if type(found) is np.random.MT19937:
            self.replaced, self.bits = found, _Turned(0)
            self._replace(self.bits)

    def uninstall(self) -> None:
        """Put the one that was there back, in the state of the process's own."""
        with self:
            if self.replaced is not None and _global.get_bit_generator() is self.bits:
                self._replace(self.replaced)
        self.replaced = None

    def _replace(self, bits: Any) -> None:
        state = self.random.get_state(legacy=False)
        bits.state = {key: state[key] for key in ("bit_generator", "state")}
        try:
            with _global.get_bit_generator().lock:  # nobody is drawing
                _global.set_bit_generator(bits)
        finally:
            self.random.set_state(state)  # with the second of two normal numbers


class _Turned(np.random.MT19937):
    """An MT19937 that is turned to the thread that draws: RandomState takes `lock` before it does.

    In some versions of NumPy it cannot read the state or set a seed.
    """

    lock: Any = property(lambda self: of_numpy)  # type: ignore[assignment]
    is_copied = False  # whether its words are copied as they lie in memory, 40 times as fast

    @property
    def state(self) -> Any:
        """The state for the thread that asks."""
        if self.is_copied:
            return {"bit_generator": "MT19937", "state": None}
        with of_numpy:
            return np.random.MT19937.state.__get__(self)  # type: ignore[attr-defined]

    @state.setter
    def state(self, state: Any) -> None:
        if not self.is_copied:
            with of_numpy:
                np.random.MT19937.state.__set__(self, state)  # type: ignore[attr-defined]

    def _legacy_seeding(self, seed: Any) -> None:
        with of_numpy:
            super()._legacy_seeding(seed)  # type: ignore[misc]

    def __reduce__(self) -> Any:
        plain = np.random.MT19937()
        plain.state = self.state
        return plain.__reduce__()


_Turned.__name__ = "MT19937"  # by which NumPy knows whose a state is
_BYTES = (624 + 1) * 4  # of the state of an MT19937: its words, and the place among them


class _OfPython(_Shared):
    """random's."""

    random: Any = python.seed.__self__  # type: ignore[attr-defined]

    def __init__(self) -> None:
        super().__init__()
        self.get, self.set = self.random.getstate, self.random.setstate  # type: ignore[method-assign]
        self.replaced: dict[str, Any] = {}

    def as_seed(self, words: np.ndarray) -> Any:
        """Random.seed takes a whole number."""
        return int.from_bytes(words.tobytes())

    def install(self) -> None:
        """Put functions that turn it first in the place of the module's."""
        for name, fn in vars(python).copy().items():
            if getattr(fn, "__self__", None) is self.random:
                self.replaced[name] = fn
                setattr(python, name, self._turning(fn))
        for name in ("random", "getrandbits"):  # all others come down to these
            setattr(self.random, name, getattr(python, name))

    def uninstall(self) -> None:
        """Put the module's functions back, and the process's own state."""
        with self:
            for name, fn in self.replaced.items():
                setattr(python, name, fn)
            for name in ("random", "getrandbits"):
                vars(self.random).pop(name, None)

    def _turning(self, fn: Callable) -> Callable:
        @functools.wraps(fn)
        def turned(*args: Any, **kwargs: Any) -> Any:
            with self:
                return fn(*args, **kwargs)

        return turned


of_numpy, of_python = _OfNumPy(), _OfPython()
_makers: set[Any] = set()  # who makes rows now
_counting = Lock()


def _begins(maker: Any) -> None:
    with _counting:
        is_first = not _makers
        _makers.add(maker)
        if is_first:
            of_numpy.install()
            of_python.install()


def _ends(maker: Any) -> None:
    with _counting:
        if _makers <= {maker}:
            of_python.uninstall()
            of_numpy.uninstall()
        _makers.discard(maker)


class shared:
    """Inside, this process makes rows."""

    def __enter__(self) -> None:
        _begins(self)

    @left_always(_makers.__contains__)
    def __exit__(self, *exc: object) -> None:
        _ends(self)


def begin_process() -> None:
    """For a process that makes nothing but rows; threads of its parent may have held the locks."""
    global _counting
    _counting = Lock()
    for one in (of_numpy, of_python):
        one.lock, one.is_turned = Lock(), False
    _begins(_process)
