"""Caches are bounded, counted and listed; clearing them changes no result."""

import gc
import os
import signal
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import minigrad as mg
from minigrad.backends.caches import Cache, cached

pytestmark = pytest.mark.promise("caches are bounded, counted, listed; clearing changes no result")


def test_the_entry_used_longest_ago_goes_first():
    cache = Cache("of a test", max_entries=2)
    cache.put("a", 1)
    cache.put("b", 2)
    assert cache.get("a") == 1
    cache.put("c", 3)
    assert "b" not in cache
    assert (cache.get("a"), cache.get("c")) == (1, 3)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 60)), max_size=60))
def test_the_bounds_hold_and_the_bytes_are_those_of_the_entries(writes):
    cache = Cache("of a test", max_entries=4, max_bytes=100, size_of=int)
    kept = {}
    for key, size in writes:
        cache.put(key, size)
        kept[key] = size
        stats = cache.stats()
        assert stats["entries"] <= 4 and stats["bytes"] <= 100
        assert cache.get(key) == size
        assert stats["bytes"] == sum(kept[key] for key in kept if key in cache)


def test_hits_misses_and_evictions_are_counted():
    cache = Cache("of a test", max_entries=1)
    cache.get("a")
    cache.put("a", 1)
    cache.get("a")
    cache.put("b", 2)
    stats = cache.stats()
    assert (stats["hits"], stats["misses"], stats["evictions"]) == (1, 1, 1)


def test_an_array_larger_than_the_bound_is_not_kept_and_throws_nothing_out():
    cache = Cache("of a test", max_bytes=100)
    cache.put("small", np.zeros(10))
    cache.put("large", np.zeros(1000))
    assert "small" in cache and "large" not in cache


def test_a_lower_limit_evicts_at_once_what_was_used_longest_ago():
    cache = Cache("of a test", max_entries=8)
    for key in "abcd":
        cache.put(key, key, size=10)
    cache.get("a")
    cache.max_entries = 3
    assert "b" not in cache and len(cache) == 3
    cache.max_bytes = 10
    stats = cache.stats()
    assert "a" in cache and (stats["entries"], stats["bytes"], stats["evictions"]) == (1, 10, 3)
    assert (stats["max_entries"], stats["max_bytes"]) == (3, 10)
    cache.max_entries, cache.max_bytes = None, 100
    for key in range(10):
        cache.put(key, key, size=10)
    assert len(cache) == 10 and cache.max_entries is None


def test_of_a_lower_limit_in_bytes_the_entries_that_are_larger_go_first():
    cache = Cache("of a test", max_bytes=100)
    cache.put("small", 1, size=10)
    cache.put("large", 2, size=60)
    cache.max_bytes = 50
    assert "small" in cache and "large" not in cache and cache.stats()["bytes"] == 10


def test_a_limit_that_is_none_or_too_low_is_refused_and_changes_nothing():
    cache = Cache("of a test", max_entries=2)
    cache.put("a", 1)
    with pytest.raises(ValueError, match="no bound"):
        cache.max_entries = None
    with pytest.raises(ValueError, match="max_bytes must be 1 or more, got 0"):
        cache.max_bytes = 0
    assert (cache.max_entries, cache.max_bytes, len(cache)) == (2, None, 1)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 60), st.integers(1, 120)), max_size=40))
def test_the_bounds_hold_while_they_change(steps):
    cache = Cache("of a test", max_bytes=100)
    for key, size, limit in steps:
        cache.put(key, None, size=size)
        cache.max_bytes = limit
        held = [s for _, s in cache._entries.values()]
        assert cache.stats()["bytes"] == sum(held) <= limit


def test_a_size_that_is_stated_counts():
    cache = Cache("of a test", max_bytes=100)
    cache.put("handle", object(), size=70)
    assert cache.get_or_make("other", lambda: "made", size=20) == "made"
    assert cache.stats()["bytes"] == 90
    cache.get_or_make("third", lambda: "made", size=20)
    assert "handle" not in cache and cache.stats()["bytes"] == 40
    cache.put("other", "too large now", size=101)
    assert "other" not in cache and cache.stats()["bytes"] == 20
    with pytest.raises(ValueError, match="a size is 0 bytes or more, got -1"):
        cache.put("a", 1, size=-1)


def test_a_cache_without_a_bound_is_refused():
    with pytest.raises(ValueError, match="no bound; give max_entries= or max_bytes="):
        Cache("of a test")
    with pytest.raises(ValueError, match="max_entries must be 1 or more, got 0"):
        Cache("of a test", max_entries=0)


def test_a_cached_function_keeps_what_it_returned_even_none():
    calls = []

    @cached("of a test", max_entries=8)
    def remembered(x):
        calls.append(x)

    assert remembered(1) is None and remembered(1) is None
    assert calls == [1]


def test_threads_lose_no_count():
    cache = Cache("of a test", max_entries=8)

    def use():
        for i in range(2000):
            cache.get_or_make(i % 16, lambda: 0)

    threads = [threading.Thread(target=use) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    stats = cache.stats()
    assert stats["hits"] + stats["misses"] == 8000
    assert stats["entries"] <= 8


def test_every_cache_alive_is_listed_and_those_of_one_name_are_added_up():
    first, second = Cache("shared name", max_entries=2), Cache("shared name", max_entries=3)
    first.put(1, np.zeros(4))
    second.put(1, np.zeros(4))
    stats = mg.cache_stats()["shared name"]
    assert (stats["entries"], stats["bytes"], stats["max_entries"]) == (2, 64, 5)
    del first, second
    gc.collect()
    assert "shared name" not in mg.cache_stats()


def test_clearing_the_caches_changes_no_result():
    a, b = mg.tensor(np.ones((2, 3))), mg.tensor(np.ones((3, 4)))
    before = mg.einsum("ij,jk->ki", a, b)
    assert mg.cache_stats()["einsum subscripts"]["entries"] > 0
    mg.clear_caches()
    assert mg.cache_stats()["einsum subscripts"]["entries"] == 0
    assert np.array_equal(mg.einsum("ij,jk->ki", a, b).numpy(), before.numpy())


def test_einsum_orders_stay_bounded_over_many_shapes():
    for n in range(1, 400):
        mg.einsum("i,i->", mg.ones(n), mg.ones(n))
    stats = mg.cache_stats()["einsum subscripts"]
    assert stats["entries"] <= stats["max_entries"] and stats["evictions"] > 0


def small_convolution():
    x = mg.ones((1, 1, 8, 8), requires_grad=True)
    mg.conv2d(x, mg.ones((1, 1, 3, 3)), padding=1).sum().backward()


def test_plans_of_ops_are_reported():
    small_convolution()
    plans = mg.cache_stats()["plans of ops"]
    assert plans["entries"] > 0 and plans["bytes"] > 0


@pytest.mark.layer("fast")  # without it each op takes new memory
def test_workspaces_are_reported():
    small_convolution()
    workspace = mg.cache_stats()["workspaces of large ops (this thread)"]
    assert 0 < workspace["bytes"] <= workspace["max_bytes"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # forking beside threads, on purpose
def test_a_fork_while_another_thread_holds_the_lock_does_not_hang_the_child():
    cache = Cache("of a test", max_entries=8)
    cache.put(1, 1)
    held, done = threading.Event(), threading.Event()

    def hold():
        with cache._lock:
            held.set()
            done.wait(60)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(60)
    child = os.fork()
    if not child:
        signal.alarm(30)  # a child that hangs dies
        os._exit(0 if cache.get(1) == 1 and "of a test" in mg.cache_stats() else 1)
    done.set()
    thread.join()
    assert os.waitpid(child, 0)[1] == 0
