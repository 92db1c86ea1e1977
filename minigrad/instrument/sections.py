"""The engine's own time in a call, section by section: where an op's overhead goes.

    scan     modes are read, and arguments bound to names
    unwrap   classes are looked at, arrays and nodes taken out of tensors
    forward  NumPy's work
    link     the node, and what it saves
    wrap     the result is looked at, and made a tensor

With a listener here, ops run by the source of their ordinary calls (`Primitive.general`, and
`instrumented`, generated for each op). The source gets a look at the clock where a comment begins a
section. A section holds one such look. Without a listener nothing of this is there.
"""

import inspect
import re
import textwrap
from collections.abc import Callable
from functools import cached_property, partial
from operator import ne
from time import perf_counter_ns
from typing import Any

from ..backends.locks import Lock
from ..backends.source import compiled
from ..custom.function_call import FunctionCall
from ..engine import modes, primitive
from ..engine.primitive import Primitive

NAMES = ("scan", "unwrap", "forward", "link", "wrap")
Spans = tuple[tuple[str, int, int], ...]  # (section, t0, t1), as they follow each other

hearing: tuple[Callable[[str, Spans], None], ...] = ()
_lock = Lock()
_general, _instrumented = Primitive.__dict__["general"], Primitive.__dict__["instrumented"]


def listen(hear: Callable[[str, Spans], None]) -> None:
    """Call hear(op, spans) after every call of an op that listeners of events.py hear of."""
    global hearing
    with _lock:
        hearing = (*hearing, hear)
        if len(hearing) == 1:
            _switch(with_clocks(_general), _property_of_instrumented())


def unlisten(hear: Callable[[str, Spans], None]) -> None:
    """Stop that; unknown listeners are ignored."""
    global hearing
    with _lock:
        before, hearing = hearing, tuple(filter(partial(ne, hear), hearing))
        if before and not hearing:
            _switch(_general, _instrumented)


def tell(op: str, spans: Spans) -> None:
    """The end of a call with clocks."""
    if not modes.state.muted:
        for hear in hearing:
            hear(op, spans)


def _property_of_instrumented() -> Any:
    made = cached_property(lambda op: with_clocks(primitive.make_call(op, "instrumented")))
    made.__set_name__(Primitive, "instrumented")
    return made


def _switch(general: Callable, instrumented: Any) -> None:
    """Let all ops be called in this way, those too whose calls are generated already."""
    for kind, name, value in (
        (Primitive, "general", general),
        (Primitive, "instrumented", instrumented),
        (FunctionCall, "apply", general),
    ):
        setattr(kind, name, value)
    for op in [ref() for ref in list(primitive.holders.values())]:
        held = {} if op is None else vars(op)
        held.pop("instrumented", None)
        if inspect.ismethod(held.get("apply")):  # `general` itself
            held.pop("apply", None)


def with_clocks(fn: Any) -> Any:
    """`general`, or an op's `instrumented`, that reads the clock between its sections."""
    if inspect.ismethod(fn):  # `instrumented` of this op is `general`, which has clocks already
        return fn
    try:
        lines = textwrap.dedent(inspect.getsource(fn)).splitlines()
    except OSError:  # an installation without sources: those calls are not split
        return fn
    begin = 2 if '"""' in lines[1] else 1
    written = [lines[0], "    s_scan = clock()"]
    order: list[str] = []
    for i, line in enumerate(lines[begin:], begin):
        section = re.fullmatch(r"( +)# (unwrap|run|wrap|link)", line)
        indent = line[: len(line) - len(line.lstrip())]
        following = lines[i + 1] if i + 1 < len(lines) else ""
        if section:
            order.append(section[2])
            written.append(f"{indent}s_{section[2]} = clock()")
        elif "events.emit(" in following or " tell(self, " in following:
            written.append(f"{indent}s_told = clock()")
        elif "return self._wrap_outputs(" in line or line.endswith("return result"):
            if "self." in line:
                written.append(line.replace("return", "result ="))
                line = f"{indent}return result"
            written += [f"{indent}{told}" for told in _told(order)]
        written.append(line)
    known = {**fn.__globals__, "clock": perf_counter_ns, "tell_sections": tell}
    name = fn.__globals__["op"].name if "op" in fn.__globals__ and order[-1] == "link" else ""
    return compiled(fn.__name__, written, known, f"<{fn.__name__} of {name}, in sections>")


def _told(order: list[str]) -> list[str]:
    """The lines that tell the sections of a call, in the order in which it has them."""
    spans = '("scan", s_scan, s_unwrap), ("unwrap", s_unwrap, t0), ("forward", t0, t1), '
    spans += '("wrap", t1, s_link), ("link", s_link, s_told)'
    if order[-1] == "link":  # generated for one op
        return ["if listeners:", f"    tell_sections(op.name, ({spans}))"]
    return [
        "if heard and not kind.level:",
        f'    tell_sections(self.name, ({spans}, ("wrap", s_wrap, clock())))',
    ]
