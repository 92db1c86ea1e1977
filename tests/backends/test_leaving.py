"""Blocks that are always left, whatever comes between the end of __enter__ and the block."""

import ast
import sys
from pathlib import Path

import pytest

import minigrad
from minigrad.backends.leaving import contextmanager, ended_by, left_always

pytestmark = pytest.mark.promise(
    "Ctrl-C, before whichever instruction it comes, leaves no mode, level, setting or "
    "listener on, no lock held, no model half put back"
)


class Block:
    """Notes what it is called for."""

    def __init__(self):
        self.depth, self.calls = 0, []

    def __enter__(self):
        self.depth += 1
        self.calls.append("enter")
        return self

    @left_always(lambda block: block.depth)
    def __exit__(self, kind, error, trace):
        self.depth -= 1
        self.calls.append(kind)


def interrupted_behind(name, run):
    """run(), with KeyboardInterrupt as the function of this name returns."""

    def profile(frame, event, _):
        if event == "return" and frame.f_code.co_name == name:
            sys.setprofile(None)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sys.setprofile(profile)
        run()


def entered(block):
    with block:
        pass


def test_a_block_is_left_once_and_told_of_the_error():
    block = Block()
    with pytest.raises(ZeroDivisionError), block:
        raise ZeroDivisionError
    assert block.calls == ["enter", ZeroDivisionError]
    entered(block)
    assert block.calls[2:] == ["enter", None] and block.depth == 0


def test_a_block_is_left_where_an_interrupt_comes_as_enter_returns():
    block = Block()
    interrupted_behind("__enter__", lambda: entered(block))
    assert block.calls == ["enter", None] and block.depth == 0


def test_of_an_object_entered_twice_the_inner_block_alone_is_left():
    block = Block()
    with block:
        interrupted_behind("__enter__", lambda: entered(block))
        assert block.depth == 1
    assert block.depth == 0


def test_a_block_may_be_entered_and_left_by_hand():
    block = Block()
    block.__enter__()
    block.__exit__(None, None, None)
    assert block.calls == ["enter", None]


def test_an_exit_that_nobody_calls_leaves_no_block():
    block = Block()
    with block:
        assert callable(block.__exit__)
        assert block.depth == 1
    assert block.calls == ["enter", None]
    assert type(block).__exit__(block.__enter__(), None, None, None) is None and block.depth == 0


def test_a_way_out_that_a_frame_outlived_is_not_gone_again(monkeypatch):
    """A thread that looks at frames may keep that of `__get__` until the block is left."""
    block, frames, errors = Block(), [], []
    monkeypatch.setattr(sys, "unraisablehook", errors.append)

    def profile(frame, event, _):
        if event == "return" and frame.f_code.co_name == "__get__":
            frames.append(frame)

    sys.setprofile(profile)
    entered(block)
    sys.setprofile(None)
    assert len(frames) == 1
    frames.clear()
    assert block.calls == ["enter", None] and not errors


def test_a_generator_that_was_left_behind_is_closed_and_does_not_go_on():
    done = []

    @contextmanager
    def block():
        try:
            yield
            done.append("went on")
        finally:
            done.append("closed")

    interrupted_behind("__enter__", lambda: entered(block()))
    assert done == ["closed"]
    entered(block())
    assert done[1:] == ["went on", "closed"]


def test_what_ends_a_block_is_done_again_where_an_interrupt_cut_it_short():
    left = [1, 2, 3]

    def undo():
        for x in (1, 2, 3):
            note(x)
            if x in left:
                left.remove(x)

    def note(x):
        pass

    interrupted_behind("note", lambda: entered(ended_by(undo)))
    assert left == []


# blocks that change nothing, or a file of their own, or whose exit is C's
_HOLD_NOTHING = {"EventReader", "_Shared", "span", "guarded", "display"}


def blocks_of(path):
    """The names of classes with a plain __exit__, and of functions that contextlib decorates."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            for part in node.body:
                if isinstance(part, ast.FunctionDef) and part.name == "__exit__":
                    by = [ast.unparse(it) for it in part.decorator_list]
                    if not any(text.startswith("left_always(") for text in by):
                        yield node.name
    ours = any(
        isinstance(node, ast.ImportFrom) and (node.module or "").endswith("leaving")
        for node in ast.walk(tree)
    )
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            by = [ast.unparse(it) for it in node.decorator_list]
            if "contextlib.contextmanager" in by or ("contextmanager" in by and not ours):
                yield node.name


def test_every_block_of_the_package_is_always_left_unless_it_holds_nothing():
    package = Path(minigrad.__file__).parent
    found = {
        name: path.relative_to(package).as_posix()
        for path in package.rglob("*.py")
        if path.relative_to(package).parts[0] != "testing"
        for name in blocks_of(path)
    }
    assert {name: path for name, path in found.items() if name not in _HOLD_NOTHING} == {}
    assert _HOLD_NOTHING <= {*found}  # no name that is there no more
