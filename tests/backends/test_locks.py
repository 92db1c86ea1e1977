"""Locks that Ctrl-C leaves open, whenever it comes."""

import signal
import sys
import threading
import time

import pytest

from minigrad.backends.locks import Lock


class Interrupt(BaseException):
    """What a signal raises here in place of KeyboardInterrupt."""


def is_free(lock) -> bool:
    """Whether another thread could take it."""
    taken = []

    def take():
        taken.append(lock.acquire(blocking=False))
        if taken[0]:
            lock.release()

    thread = threading.Thread(target=take)
    thread.start()
    thread.join()
    return taken[0]


def test_a_thread_may_take_it_again_and_others_wait_until_it_is_given_back_as_often():
    lock = Lock()
    with lock:
        with lock:
            assert not is_free(lock)
        assert not is_free(lock)
    assert is_free(lock)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="this system has no timer signals")
def test_an_interrupt_in_a_block_or_on_its_edges_leaves_it_open():
    lock, interrupts, locked = Lock(), 0, 0

    def interrupt(*_):
        raise Interrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    deadline = time.monotonic() + 20
    try:
        while interrupts < 2_000 and time.monotonic() < deadline:
            try:
                signal.setitimer(signal.ITIMER_REAL, 2e-5)
                while True:
                    with lock:
                        pass
            except Interrupt:
                interrupts += 1
            if lock._is_owned():
                locked += 1
                lock.release()
    finally:
        signal.signal(signal.SIGALRM, before)
    assert interrupts > 100 and locked == 0


@pytest.mark.parametrize("place", ["before", "behind"])
def test_an_interrupt_beside_the_taking_leaves_what_the_thread_held_before(place):
    if sys.version_info < (3, 14):
        pytest.skip("before Python 3.14 no interrupt comes there")
    lock, calls = Lock(), 0

    def profile(frame, event, what):
        nonlocal calls
        wanted = "c_call" if place == "before" else "c_return"
        if event == wanted and what.__name__ == "acquire":
            calls += 1
            if calls == 2:
                raise Interrupt

    sys.setprofile(profile)
    try:
        with lock:
            with pytest.raises(Interrupt), lock:
                pytest.fail("the block was entered")
            sys.setprofile(None)
            assert lock._recursion_count() == 1
    finally:
        sys.setprofile(None)
    assert is_free(lock)
