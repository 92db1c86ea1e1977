"""Caches: bounded, counted, and listed by name.

    plans = Cache("einsum orders", max_entries=256)
    order = plans.get_or_make(key, lambda: find_order(...))

The least recently used entry is dropped first. `mg.cache_stats()` reports every cache of the
process, `mg.clear_caches()` empties them; a cleared cache costs time, never a different result.
"""

import os
import sys
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable
from functools import partial, wraps
from operator import is_not
from typing import Any

from .locks import Lock

__all__ = ["Cache", "cache_stats", "cached", "clear_caches", "report"]

_reporting: list[weakref.ref] = []  # the caches alive, oldest first
_kept: list["Reported"] = []  # caches named by `report` live as long as the process
_lock = Lock()
_missing = object()


class Cache:
    """At most `max_entries` values of at most `max_bytes` together (None: no limit of that kind).

    Safe to use from several threads. A value larger than max_bytes is not kept. The limits may be
    set at any time, but not both to None: values beyond them are evicted at once.

    size_of   bytes of a value; by default its arrays' nbytes, else sys.getsizeof
    """

    def __init__(
        self,
        name: str,
        max_entries: int | None = None,
        max_bytes: int | None = None,
        size_of: Callable[[Any], int] | None = None,
    ):
        self.name = name
        self._limits: dict[str, int | None] = {"max_entries": max_entries, "max_bytes": max_bytes}
        self._require_limits(self._limits)
        self._size_of = size_of or size_of_value
        self._entries: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
        self._lock = Lock()  # re-entrant: code that measures a value may use the cache
        self._bytes = self._hits = self._misses = self._evictions = 0
        with _lock:
            _reporting.append(weakref.ref(self, _forget))

    def _require_limits(self, limits: dict[str, int | None]) -> None:
        for limit, value in limits.items():
            if value is not None and value < 1:
                raise ValueError(f"cache {self.name!r}: {limit} must be 1 or more, got {value}")
        if all(value is None for value in limits.values()):
            raise ValueError(f"cache {self.name!r} has no bound; give max_entries= or max_bytes=")

    @property
    def max_entries(self) -> int | None:
        """The most values to keep; setting it evicts at once."""
        return self._limits["max_entries"]

    @max_entries.setter
    def max_entries(self, value: int | None) -> None:
        self._limit("max_entries", value)

    @property
    def max_bytes(self) -> int | None:
        """The most bytes of all values together; setting it evicts at once."""
        return self._limits["max_bytes"]

    @max_bytes.setter
    def max_bytes(self, value: int | None) -> None:
        self._limit("max_bytes", value)

    def _limit(self, name: str, value: int | None) -> None:
        with self._lock:
            limits = {**self._limits, name: value}
            self._require_limits(limits)
            self._limits = limits
            self._evict_larger_than(limits["max_bytes"])
            self._evict_beyond()

    def _evict(self, key: Hashable) -> None:
        self._bytes -= self._entries.pop(key)[1]
        self._evictions += 1

    def _evict_larger_than(self, most: int | None) -> None:
        for key in [k for k, (_, size) in self._entries.items() if most and size > most]:
            self._evict(key)

    def _evict_beyond(self) -> None:
        """Evict the least recently used entries beyond the bounds."""
        while self._is_too_full():
            self._evict(next(iter(self._entries)))

    def get(self, key: Hashable, default: Any = None) -> Any:
        """The value of this key, now the most recently used; `default` if there is none."""
        with self._lock:
            found = self._entries.get(key)
            if found is None:
                self._misses += 1
                return default
            self._hits += 1
            self._entries.move_to_end(key)
            return found[0]

    def peek(self, key: Hashable) -> Any:
        """The value of this key or None, without the lock: for what every call asks.

        It does not count as used, so a cache that is only peeked into evicts the oldest entries.
        Of two threads one hit may go uncounted.
        """
        found = self._entries.get(key)
        if found is None:
            self._misses += 1
            return None
        self._hits += 1
        return found[0]

    def put(self, key: Hashable, value: Any, size: int | None = None) -> None:
        """Set the value of this key; evicts the least recently used entries beyond the bounds.

        size: its bytes, if the caller knows them better than size_of
        """
        if size is None:
            size = self._size_of(value)
        elif size < 0:
            raise ValueError(f"cache {self.name!r}: a size is 0 bytes or more, got {size}")
        with self._lock:
            self.drop(key)
            if self.max_bytes is not None and size > self.max_bytes:
                return
            self._entries[key] = value, size
            self._bytes += size
            self._evict_beyond()

    def get_or_make(self, key: Hashable, make: Callable[[], Any], size: int | None = None) -> Any:
        """The value of this key; if it is missing, make() creates it, and it is kept as by `put`.

        `make` runs outside the lock: if two threads miss at once, each makes the value.
        """
        value = self.get(key, _missing)
        if value is _missing:
            value = make()
            self.put(key, value, size)
        return value

    def drop(self, key: Hashable) -> None:
        """Forget one entry, if it exists; not counted as an eviction."""
        with self._lock:
            found = self._entries.pop(key, None)
            if found is not None:
                self._bytes -= found[1]

    def clear(self) -> None:
        """Forget all entries; the counts of hits, misses and evictions continue."""
        with self._lock:
            self._entries.clear()
            self._bytes = 0

    def _is_too_full(self) -> bool:
        return (self.max_entries is not None and len(self._entries) > self.max_entries) or (
            self.max_bytes is not None and self._bytes > self.max_bytes
        )

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: Hashable) -> bool:
        return key in self._entries

    def stats(self) -> dict[str, int | None]:
        """entries, bytes, hits, misses, evictions, max_entries, max_bytes."""
        with self._lock:
            return {
                "entries": len(self._entries),
                "bytes": self._bytes,
                "hits": self._hits,
                "misses": self._misses,
                "evictions": self._evictions,
                "max_entries": self.max_entries,
                "max_bytes": self.max_bytes,
            }

    def __repr__(self) -> str:
        stats = self.stats()
        return (
            f"<Cache {self.name!r}: {stats['entries']} entries, {stats['bytes']} bytes, "
            f"{stats['hits']} hits, {stats['misses']} misses, {stats['evictions']} evictions>"
        )


def cached(name: str, max_entries: int = 256) -> Callable:
    """Decorator: remember the results of a function of hashable arguments, in a Cache."""

    def decorate(fn: Callable) -> Callable:
        results = Cache(name, max_entries)

        @wraps(fn)
        def remembered(*args: Hashable) -> Any:
            value = results.get(args, _missing)
            if value is _missing:
                value = fn(*args)
                results.put(args, value)
            return value

        remembered.cache = results  # type: ignore[attr-defined]
        return remembered

    return decorate


class Reported:
    """An entry of the list of caches that bounds itself and does not count hits, like ops' plans.

    measure()   (entries, bytes) now
    empty       clears it; None if clearing gains nothing
    """

    def __init__(
        self,
        name: str,
        measure: Callable[[], tuple[int, int]],
        max_entries: int | None = None,
        max_bytes: int | None = None,
        empty: Callable[[], None] | None = None,
    ):
        self.name = name
        self.measure = measure
        self.limits = max_entries, max_bytes
        self.empty = empty
        with _lock:
            _reporting.append(weakref.ref(self, _forget))

    def clear(self) -> None:
        """Empty it, if it has an `empty`."""
        if self.empty is not None:
            self.empty()

    def stats(self) -> dict[str, int | None]:
        """The same keys as Cache.stats; None for values that are not counted."""
        entries, size = self.measure()
        counts = {"hits": None, "misses": None, "evictions": None}
        limits = dict(zip(("max_entries", "max_bytes"), self.limits, strict=True))
        return {"entries": entries, "bytes": size, **counts, **limits}


def report(
    name: str,
    measure: Callable[[], tuple[int, int]],
    max_entries: int | None = None,
    max_bytes: int | None = None,
    empty: Callable[[], None] | None = None,
) -> None:
    """List a cache that is kept elsewhere among the caches: see Reported.

    This is for workspaces of ops too, with max_bytes as their stated bound.
    """
    _kept.append(Reported(name, measure, max_entries, max_bytes, empty))


def cache_stats() -> dict[str, dict[str, int | None]]:
    """The contents and use of every cache of the process, by name.

    entries, bytes, hits, misses, evictions, max_entries, max_bytes; None for values that are not
    counted or not limited. Caches of one name are added up.
    """
    found: dict[str, dict[str, int | None]] = {}
    for cache in _alive():
        stats, known = cache.stats(), found.get(cache.name)
        found[cache.name] = stats if known is None else _added(known, stats)
    return found


def _added(a: dict, b: dict) -> dict:
    return {key: None if None in (a[key], b[key]) else a[key] + b[key] for key in a}


def clear_caches() -> None:
    """Empty every cache of the process. Results do not change; the next computations are slower
    once."""
    for cache in _alive():
        cache.clear()


def _alive() -> list[Any]:
    with _lock:
        refs = list(_reporting)
    return [cache for ref in refs if (cache := ref()) is not None]


def _in_forked_child() -> None:
    """Another thread of the parent may have held a lock; in the child no thread would release
    it."""
    global _lock
    _lock = Lock()
    for cache in _alive():
        if isinstance(cache, Cache):
            cache._lock = Lock()
            cache._bytes = sum(size for _, size in cache._entries.values())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_forked_child)


def _forget(ref: weakref.ref) -> None:
    with _lock:
        _reporting[:] = filter(partial(is_not, ref), _reporting)


def size_of_value(value: Any) -> int:
    """Bytes of a value: of its arrays, and of its Python containers."""
    total, waiting, seen = 0, [value], set()
    while waiting:
        part = waiting.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        size = getattr(part, "nbytes", None)
        if isinstance(size, int):
            total += size
            continue
        total += sys.getsizeof(part)
        if isinstance(part, dict):
            waiting += [*part.keys(), *part.values()]
        elif isinstance(part, tuple | list | set | frozenset):
            waiting += part
    return total
