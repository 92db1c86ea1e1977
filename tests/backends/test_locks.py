"""Locks that Ctrl-C leaves open, whenever it comes."""

import ast
import dis
import functools
import re
import signal
import sys
import threading
import time
from pathlib import Path
from types import CodeType

import pytest

import minigrad
from minigrad.backends.locks import Lock

pytestmark = pytest.mark.promise("an interrupt next to a lock's block leaves it open")

SOURCES = {
    str(path): path.read_text(encoding="utf-8")
    for path in sorted(Path(minigrad.__file__).parent.rglob("*.py"))
}
NAMES = set(re.findall(r"(\w+) = Lock\(\)", "\n".join(SOURCES.values())))


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


def code_objects(code):
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from code_objects(constant)


def unprotected_jumps(code):
    """The line of each loop in a `with` or `try` whose jump back lies outside of it.

    Python 3.12 and 3.13 compile a loop so whose body ends in a condition, and 3.13.0 looks for
    signals there; 3.11 jumps from inside.
    """
    found = dis.Bytecode(code)

    def handlers(offset):
        while at := [it.target for it in found.exception_entries if it.start <= offset < it.end]:
            yield (offset := at[0])

    instructions = {instruction.offset: instruction for instruction in found}
    for instruction in instructions.values():
        if instruction.opname == "JUMP_BACKWARD":
            body = instruction.argval
            if [*handlers(body)] and not [*handlers(instruction.offset)]:
                yield instructions[body].positions.lineno


@functools.cache
def blocks_of_locks(source):
    """The lines of each `with` on something that is called as minigrad's locks are."""
    blocks = []
    if not any(name in source for name in NAMES):  # as in most
        return blocks
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.With):
            names = {ast.unparse(item.context_expr).rpartition(".")[2] for item in node.items}
            if names & NAMES:
                blocks.append(range(node.lineno, node.end_lineno + 1))
    return blocks


def loops_that_could_leave_a_lock_locked(source):
    """Their lines, as this Python compiles them."""
    blocks = blocks_of_locks(source)
    for code in code_objects(compile(source, "source", "exec")) if blocks else ():
        for line in unprotected_jumps(code):
            if any(line in block for block in blocks):
                yield line


def test_no_loop_in_a_block_of_a_lock_jumps_back_outside_of_it():
    assert {"_lock", "lock", "growing"} <= NAMES
    assert sum(len(blocks_of_locks(source)) for source in SOURCES.values()) > 50
    lines = {path: [*loops_that_could_leave_a_lock_locked(it)] for path, it in SOURCES.items()}
    assert {path: found for path, found in lines.items() if found} == {}


@pytest.mark.skipif(
    sys.version_info[:2] not in ((3, 12), (3, 13)),
    reason="Python 3.11 compiles no loop so; of 3.14 we do not know",
)
@pytest.mark.parametrize(
    "loop", ["x = [i for i in xs if i]", "for i in xs:\n   if i: f(i)", "while f(x):\n   x = g(x)"]
)
def test_a_loop_that_could_leave_a_lock_locked_is_found(loop):
    source = f"def function(self, xs, x):\n with self.lock:\n  {loop}\n  return x\n"
    assert len([*loops_that_could_leave_a_lock_locked(source)]) == 1
    elsewhere = source.replace("self.lock", "no_grad()")
    assert [*loops_that_could_leave_a_lock_locked(elsewhere)] == []
