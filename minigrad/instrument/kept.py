"""Graphs that stay when their step is over: which nodes live on, and which line keeps them.

Some nodes of each step are followed by weak references. If most of those that one line made in
earlier steps are still alive, something holds them. It may be a list of losses, a sum over steps
that was not detached, or a parameter that was updated under recording. Who it is, the variables of
the running functions tell; it is looked for once for each line, since that takes some milliseconds.
"""

import ast
import linecache
import sys
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from inspect import CO_OPTIMIZED
from types import CodeType, FrameType, ModuleType
from typing import Any

from ..backends.sites import is_own, outermost
from ..engine.graph import Node, next_number
from ..tensor_api.tensor import Tensor

_FIRST_LOOK = 5  # steps before the first look; then twice as many each time
_FIRST_NODES = 128  # nodes before it where no backward comes
_LEAST = 3  # nodes of a line that stay before that says something
_MOST_SEEN = 200  # elements of a container that are looked at
_ADDERS = ("append", "extend", "add", "insert", "appendleft", "update", "setdefault")

Place = tuple[CodeType, int]  # and instruction


class KeptGraphs:
    """Follows nodes; tell(kept) is called when a line's nodes are found to stay.

    ("kept", t, nodes, bytes, first, last, holder, code, line, made)
        nodes    how many are alive of those followed, and bytes what these have saved
        first, last   their numbers: which forward calls they are
        holder   the variable that keeps them, or ""
        code, line    where it is added to; the line that made the nodes where that is not found
        made     (code, instruction) of the line that made them
    """

    def __init__(self, tell: Callable[[tuple], Any]) -> None:
        self.tell = tell
        self._nodes: list[tuple[weakref.ref, tuple | None]] = []  # with its line
        self._gone: dict[Place, int] = {}
        self._at_last_pass = 0  # a number that no node before then has reached
        self._steps = 0
        self._ends: deque[int] = deque([0, 0], maxlen=2)  # newest number as the last steps ended
        self._next_step, self._next_nodes = _FIRST_LOOK, _FIRST_NODES
        self._told: set[Place] = set()
        self._places: dict[Place, Place] = {}  # of an instruction: the first seen on its line
        self._lines: dict[tuple[CodeType, int], Place] = {}

    def follow(self, node: Any) -> None:
        """A forward call has been recorded."""
        self._nodes.append((weakref.ref(node), node.origin))

    def passed(self, t: int, newest: int) -> None:
        """A backward has ended; the newest node of its graph has this number.

        A step is over where the graph was recorded since the backward before: several backwards
        over graphs of one forward are one step.
        """
        if newest > self._at_last_pass:
            self._steps += 1
            self._ends.append(self._at_last_pass)
            if self._steps >= self._next_step:
                self._next_step *= 2
                self._look(t, self._ends[0])
        self._at_last_pass = next_number()

    def forward_only(self, t: int) -> None:
        """Called from time to time while no backward has come."""
        if not self._steps and len(self._nodes) >= self._next_nodes:
            self._next_nodes *= 2
            alive = [node for ref, _ in self._nodes if (node := ref()) is not None]
            if alive:
                self._look(t, alive[len(alive) // 2].number)

    def _look(self, t: int, before: int) -> None:
        """Tell the lines most of whose nodes from before this number are still alive."""
        by_line: dict[Place, list[Any]] = {}
        followed, self._nodes = self._nodes, []
        for ref, origin in followed:
            node = ref()
            if origin is None:
                continue
            at = self._places.get(origin[:2]) or self._place(origin[:2])
            if node is None:
                self._gone[at] = self._gone.get(at, 0) + 1
                continue
            self._nodes.append((ref, origin))
            if node.number < before:
                by_line.setdefault(at, []).append(node)
        kept = {
            at: nodes
            for at, nodes in by_line.items()
            if len(nodes) >= max(_LEAST, self._gone.get(at, 0))
        }
        if not kept:
            return
        made = max(kept, key=lambda at: kept[at][-1].number)  # the end of a step's graph
        if made in self._told:
            return
        self._told.add(made)
        everything = [node for nodes in kept.values() for node in nodes]
        numbers = {node.number for node in everything}
        holder, code, line = _keeper(numbers) or ("", made[0], _line_of(*made))
        self.tell(
            ("kept", t, len(everything), sum(map(_saved, everything)), min(numbers), max(numbers),
             holder, code, line, made)
        )  # fmt: skip

    def _place(self, at: Place) -> Place:
        """One place for a line: the interpreter moves an instruction as it adapts to a program."""
        place = self._lines.setdefault((at[0], _line_of(*at)), at)
        self._places[at] = place
        return place


def _saved(node: Any) -> int:
    """Bytes of the arrays that a node has saved."""
    values = node.saved if isinstance(node.saved, tuple) else ()
    return sum(getattr(value, "nbytes", 0) for value in values)


# -- who keeps them --------------------------------------------------------------------------------


def _keeper(numbers: set[int]) -> tuple[str, CodeType, int] | None:
    """(variable, code, line) of what holds these nodes, among the variables of running functions.

    A container that holds most of them comes first; then a tensor whose own graph leads to them.
    """
    best: tuple[int, str, FrameType | None] = (0, "", None)
    chained: tuple[str, CodeType, int] | None = None
    for frame in _users_frames():
        for name, value in _variables(frame).items():
            if isinstance(value, Tensor):
                node = value.node
                if chained is None and node.__class__ is Node and _leads_to(node, numbers):
                    if node.origin is not None:
                        chained = name, node.origin[0], _line_of(*node.origin[:2])
                continue
            for path, container in _containers(name, value):
                found = sum(_is_held(x, numbers) for x in container)
                if found > best[0]:
                    best = found, path, frame
    if best[0] > 1 and best[2] is not None:
        code, line = _adding_line(best[2], best[1].rpartition(".")[2])
        return best[1], code, line
    return chained


def _users_frames() -> Iterator[FrameType]:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and id(frame.f_code) not in outermost:
        if not is_own(frame):
            yield frame
        frame = frame.f_back


def _variables(frame: FrameType) -> dict[str, Any]:
    """A function's variables. The frame keeps nothing of this, which would keep the tensors."""
    shown = frame.f_locals
    found = dict(shown)
    # Before Python 3.13 a dict that the frame holds for as long as it runs. Where the program has
    # called locals() it holds the dict too, and goes on with it.
    alone = sys.version_info < (3, 13) and sys.getrefcount(shown) <= 3
    if alone and frame.f_code.co_flags & CO_OPTIMIZED:
        shown.clear()
    return found


def _containers(name: str, value: Any, depth: int = 2) -> Iterator[tuple[str, list]]:
    """(path, first elements) of a container, and of those that an object's attributes hold."""
    if isinstance(value, list | tuple | set | frozenset | deque):
        yield name, list(value)[:_MOST_SEEN]
    elif isinstance(value, dict):
        parts = list(value.values())[:_MOST_SEEN]
        yield name, parts
        if depth and not name.startswith("__"):
            for part in parts:
                if isinstance(part, list | deque):
                    yield name, list(part)[:_MOST_SEEN]
    elif depth and not isinstance(value, ModuleType | type) and hasattr(value, "__dict__"):
        for key, part in list(vars(value).copy().items())[:_MOST_SEEN]:
            if isinstance(part, list | dict | deque | set) or hasattr(part, "__dict__"):
                yield from _containers(f"{name}.{key}", part, depth - 1)


def _is_held(x: Any, numbers: set[int], depth: int = 2) -> bool:
    """Whether an element is, or holds, a tensor whose graph has one of these nodes at its end."""
    if isinstance(x, Tensor):
        node = x.node
        return node.__class__ is Node and (node.number in numbers or _leads_to(node, numbers))
    if depth and isinstance(x, list | tuple):
        return any(_is_held(part, numbers, depth - 1) for part in x[:20])
    if depth and isinstance(x, dict):
        return any(_is_held(part, numbers, depth - 1) for part in list(x.values())[:20])
    return False


def _leads_to(node: Any, numbers: set[int], most: int = 2000) -> bool:
    """Whether one of these nodes is among the ancestors of a node, a few thousand at the most."""
    waiting, seen = [node], set()
    least = min(numbers)
    while waiting and len(seen) < most:
        node = waiting.pop()
        for parent in node.parents:
            if parent.number in numbers:
                return True
            if parent.number >= least and parent.number not in seen:
                seen.add(parent.number)
                waiting.append(parent)
    return False


def _adding_line(frame: FrameType, name: str) -> tuple[CodeType, int]:
    """The line that adds to a container of this name: in the function, else in its file."""
    code = frame.f_code
    lines = linecache.getlines(code.co_filename, frame.f_globals)
    try:
        tree = ast.parse("".join(lines))
    except (SyntaxError, ValueError):
        return code, frame.f_lineno
    parts: list[Any] = [part for part in ast.walk(tree) if _adds_to(part, name)]
    found: list[int] = [part.lineno for part in parts]
    own = {line for _, _, line in code.co_lines()}
    return code, next(
        (line for line in found if line in own), found[0] if found else frame.f_lineno
    )


def _adds_to(part: Any, name: str) -> bool:
    """Whether a piece of the program adds to the variable or attribute of this name."""
    if isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute):
        return part.func.attr in _ADDERS and _last_name(part.func.value) == name
    if isinstance(part, ast.AugAssign):
        return _last_name(part.target) == name
    if isinstance(part, ast.Assign):
        return any(isinstance(t, ast.Subscript) and _last_name(t) == name for t in part.targets)
    return False


def _last_name(part: ast.AST) -> str:
    """`history` of self.history[k]."""
    while isinstance(part, ast.Subscript):
        part = part.value
    if isinstance(part, ast.Attribute):
        return part.attr
    return part.id if isinstance(part, ast.Name) else ""


def _line_of(code: CodeType, instruction: int) -> int:
    for start, stop, line in code.co_lines():
        if start <= instruction < stop and line is not None:
            return line
    return code.co_firstlineno
