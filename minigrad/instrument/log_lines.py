"""The lines of an event log: what was heard, as text, with names defined before they are used."""

import itertools
import re
import threading
from types import CodeType
from typing import Any

from ..backends.sites import site_of
from ..backends.threads import Local, identity
from ..ops import work
from .formats import json_text
from .reading import digest_of
from .records import MAX_ARRAYS, MAX_NAME, MAX_SOURCES

_MOST_NAMES = 50_000  # definitions remembered; forgotten ones are defined again when they return
_MOST_FORWARDS = 200_000  # recorded calls remembered, for the work of their backward


class Lines:
    """Writes events, marks and memory as lines of JSON, each with the definitions it needs."""

    def __init__(self) -> None:
        self.threads = Threads()
        self._names: dict[Any, int] = {}
        self._next_name = 0
        self._codes: list[CodeType] = []
        self._calls: dict[tuple, str] = {}  # signature -> its part of a line
        self._signatures: dict[tuple, tuple] = {}  # each once, so that many calls share it
        self._texts: dict[str, str] = {}
        self._forwards: dict[int, tuple] = {}  # seq -> (op, inputs, outputs, params)
        self._sources: set[str] = set()  # files whose digests are written

    def first_thread(self) -> str:
        """The line that defines this thread: the first one that a log names is its main thread."""
        lines: list[str] = []
        self._number(("thread", self.threads.here()), lines)
        return "".join(lines)

    def forget(self) -> None:
        """Define every name again when it returns."""
        self._names.clear()
        self._codes.clear()
        self._calls.clear()
        self._signatures.clear()

    def write_event(self, entry: tuple, lines: list[str]) -> None:
        """An op or a whole backward."""
        kind, op, t0, t1, thread, seq, inputs, outputs, origin, slots, came = entry
        middle = ""
        if kind != "pass":
            middle = self._call(kind, op, seq, (inputs, outputs), slots, lines)
        text = (
            f'{{"kind":"{kind}","op":{self._quoted(op)},"t0":{t0},"t1":{t1},'
            f'"thread":{self._number(("thread", thread), lines)},'
            f'"seq":{"null" if seq is None else seq}{middle}'
        )
        if came is not None:
            text += f',"came":{self._site(came[0], came[1], lines)}'
        lines.append(f"{text}{self._origin(origin, lines)}}}\n")

    def write_other(self, entry: tuple, lines: list[str]) -> None:
        """A mark, an op on a device, an allocation, a change of category or a release."""
        kind = entry[0]
        if kind == "release":
            _, number, t, used, used_forward = entry
            lines.append(
                f'{{"kind":"release","id":{number},"t":{t},"used":{used},'
                f'"used_forward":{used_forward}}}\n'
            )
        elif kind == "held":
            _, number, used, used_forward = entry
            lines.append(
                f'{{"kind":"held","id":{number},"used":{used},"used_forward":{used_forward}}}\n'
            )
        elif kind == "category":
            _, number, t, category = entry
            lines.append(f'{{"kind":"category","id":{number},"t":{t},"category":"{category}"}}\n')
        elif kind == "device":
            _, of, op, seq, thread, host, t0, t1, stream = entry
            lines.append(
                f'{{"kind":"device","of":"{of}","op":{self._quoted(op)},"host":{host},"t0":{t0},'
                f'"t1":{t1},"stream":{self._number(("stream", stream), lines)},'
                f'"thread":{self._number(("thread", thread), lines)},'
                f'"seq":{"null" if seq is None else seq}}}\n'
            )
        elif kind == "sample":
            _, t, thread, frames, doing, via, inside = entry
            sites = tuple([self._site(code, at, lines) for code, at in frames])
            lines.append(
                f'{{"kind":"sample","t":{t},"thread":{self._number(("thread", thread), lines)},'
                f'"stack":{self._number(("stack", sites), lines)},"doing":"{doing}",'
                f'"via":{self._quoted(via)},"inside":{inside}}}\n'
            )
        elif kind == "kept":
            _, t, count, nbytes, first, last, holder, code, line, made = entry
            at = self._number(("site", code.co_filename, line, code.co_qualname), lines)
            lines.append(
                f'{{"kind":"kept","t":{t},"nodes":{count},"bytes":{nbytes},"first":{first},'
                f'"last":{last},"holder":{json_text(holder[:MAX_NAME])},"site":{at},'
                f'"made":{self._site(made[0], made[1], lines)}}}\n'
            )
        elif kind == "mark":
            _, what, name, t0, t1, thread, origin = entry
            lines.append(
                f'{{"kind":"mark","what":{json_text(what)},"name":{json_text(name[:MAX_NAME])},'
                f'"t0":{t0},"t1":{t1},"thread":{self._number(("thread", thread), lines)}'
                f"{self._origin(origin, lines)}}}\n"
            )
        else:
            _, number, t, nbytes, category, phase, op, seq, thread, origin, shape, dtype = entry
            lines.append(
                f'{{"kind":"alloc","id":{number},"t":{t},"bytes":{nbytes},"category":"{category}",'
                f'"phase":"{phase}","op":{"null" if op is None else self._quoted(op)},'
                f'"seq":{"null" if seq is None else seq},"shape":{list(shape)},'
                f'"dtype":{self._quoted(str(dtype))},'
                f'"thread":{self._number(("thread", thread), lines)}'
                f"{self._origin(origin, lines)}}}\n"
            )

    # -- arrays and work -------------------------------------------------------------------------

    def _call(
        self, kind: str, op: str, seq: int | None, arrays: tuple, slots: Any, lines: list[str]
    ) -> str:
        """The fields "arrays", "flops" and "moved" of an event, worked out once per signature."""
        try:
            forward = None
            if kind == "backward":
                forward = self._forwards.get(-1 if seq is None else seq)
            key = (op, arrays, slots, forward)
            text = self._calls.get(key)
        except TypeError:  # a parameter that cannot be a key
            return self._arrays(arrays, lines)
        if text is None:
            if len(self._calls) >= _MOST_NAMES:
                self.forget()
            arrived = [y is not None for y in arrays[1]]
            text = self._arrays(arrays, lines) + _work_text(op, arrays, slots, forward, arrived)
            self._signatures[key] = key
            self._calls[key] = text
        if kind == "forward" and seq is not None:
            self._remember(seq, self._signatures[key])
        return text

    def _arrays(self, arrays: tuple, lines: list[str]) -> str:
        if not (arrays[0] or arrays[1]):
            return ""
        return f',"arrays":{self._number(("arrays", *arrays), lines)}'

    def _quoted(self, name: str) -> str:
        """An op's name as JSON, escaped once."""
        text = self._texts.get(name)
        if text is None:
            if len(self._texts) >= _MOST_NAMES:
                self._texts.clear()
            text = self._texts[name] = json_text(name[:MAX_NAME])
        return text

    def _remember(self, seq: int, call: tuple) -> None:
        forwards = self._forwards
        forwards[seq] = call
        if len(forwards) > _MOST_FORWARDS:
            for old in list(forwards)[: _MOST_FORWARDS // 2]:
                del forwards[old]

    # -- names -----------------------------------------------------------------------------------

    def _origin(self, origin: tuple | None, lines: list[str]) -> str:
        if origin is None:
            return ""
        code, instruction, scope, *frames = origin
        text = f',"scope":{self._number(("scope", scope), lines)}' if scope else ""
        text += f',"site":{self._site(code, instruction, lines)}'
        if len(frames) > 1:
            sites = tuple([self._site(frame[0], frame[1], lines) for frame in frames])
            text += f',"stack":{self._number(("stack", sites), lines)}'
        return text

    def _site(self, code: CodeType, instruction: int, lines: list[str]) -> int:
        """The number of a source line, which is looked up once for each instruction on it."""
        number = self._names.get((id(code), instruction))
        if number is None:
            site = site_of((code, instruction, "")) or {}
            number = self._number(("site", *site.values()), lines)
            self._write_source(site.get("file", ""), lines)
            self._codes.append(code)  # so that its id stays its own
            self._names[id(code), instruction] = number
        return number

    def _write_source(self, file: str, lines: list[str]) -> None:
        """The digest of a file, once: a report shows only the text that this log speaks of."""
        if file in self._sources or len(self._sources) >= MAX_SOURCES:
            return
        self._sources.add(file)
        digest = digest_of(file)
        if digest is not None:
            source = {"kind": "define", "what": "source", "id": len(self._sources)}
            lines.append(json_text(source | {"file": file, "sha256": digest}) + "\n")

    def _number(self, name: tuple, lines: list[str]) -> int:
        """The number that stands for a site, scope, thread or signature, defined when it is new."""
        number = self._names.get(name)
        if number is None:
            if len(self._names) >= _MOST_NAMES:
                self.forget()
            number = self._names[name] = self._next_name
            self._next_name += 1
            what = {"kind": "define", "what": name[0], "id": number}
            known = self.threads.told(name[1]) if name[0] == "thread" else _definition(*name)
            lines.append(json_text(what | known) + "\n")
        return number


def _work_text(
    op: str, arrays: tuple, slots: Any, forward: tuple | None, arrived: list[bool]
) -> str:
    """The work of a forward; with `forward`, its call, that of its backward."""
    if forward is not None:
        op, arrays, params, _ = forward
        if slots is not None:
            slots = [slot for slot, given in zip(slots, arrived, strict=False) if given]
        inputs, outputs = map(_as_arrays, arrays)
        found = _counted(work.of_backward, op, inputs, outputs, dict(params), slots)
    else:
        if slots is None or (slots and not isinstance(slots[0], tuple)):
            return ""  # a backward whose forward is not in this log
        inputs, outputs = map(_as_arrays, arrays)
        found = _counted(work.of, op, inputs, outputs, dict(slots))
    if found is None:
        return ""
    flops = "" if found.flops is None else f',"flops":{found.flops}'
    return f'{flops},"moved":{found.moved}'


def _as_arrays(described: tuple) -> list:
    return [None if x is None else work.Array(*x) for x in described]


def _counted(count: Any, *call: Any) -> Any:
    """The work of a call; None for an op that the table cannot read, such as one just defined."""
    try:
        return count(*call)
    except Exception:
        return None


def _definition(what: str, *content: Any) -> dict[str, Any]:
    if what == "arrays":
        inputs, outputs = map(_described, content)
        found: dict[str, Any] = {"inputs": inputs[:MAX_ARRAYS], "outputs": outputs[:MAX_ARRAYS]}
        if max(len(inputs), len(outputs)) > MAX_ARRAYS:
            rest = outputs[MAX_ARRAYS:]
            found["left_out"] = {
                "inputs": max(0, len(inputs) - MAX_ARRAYS),
                "outputs": len(rest),
                "bytes": sum(array["bytes"] for array in rest),
            }
        return found
    if what == "site":
        return dict(zip(("file", "line", "function"), content, strict=True))
    if what == "stack":
        return {"frames": list(content[0])}
    return {"name": content[0][:MAX_NAME]}


class Threads:
    """The threads that have been heard, each with a number of its own, and their names.

    What `threading.get_ident` gives is no such number: when a thread has ended, the next one that
    starts often gets the same.
    """

    def __init__(self) -> None:
        self._own = Local()
        self._numbers = itertools.count()
        self._given: dict[int, int] = {}  # identity -> number of one that has not been heard
        self._heard: dict[int, int] = {}  # identity -> number of the latest that was
        self._names: dict[int, str] = {}

    def here(self) -> int:
        """The number of the thread that calls this."""
        try:
            return self._own.number
        except AttributeError:
            return self._learned()

    def number_of(self, ident: int) -> int:
        """The number of a running thread; one that has not been heard yet is given its number."""
        number = self._heard.get(ident, self._given.get(ident))
        return self._numbered(ident, self._given) if number is None else number

    def _learned(self) -> int:
        """Give this thread a number, and keep its name: once it has ended nobody could tell it."""
        ident = identity()
        number = self._given.pop(ident, None)
        if number is None:
            number = self._numbered(ident, self._heard)
        self._heard[ident] = self._own.number = number
        return number

    def _numbered(self, ident: int, among: dict[int, int]) -> int:
        number = among[ident] = next(self._numbers)
        running = {thread.ident: thread.name for thread in threading.enumerate()}
        self._names[number] = running.get(ident, f"thread {ident}")
        return number

    def told(self, number: int) -> dict[str, Any]:
        """The definition of a thread: its name, and its number in a parallel backward, if any."""
        name = self._names[number]
        return {"name": name[:MAX_NAME], "worker": _worker(name)}


def _worker(name: str) -> int | None:
    """The number of the worker of a parallel backward that a thread's name tells."""
    found = re.fullmatch(r"minigrad-(\d+)", name)
    return int(found[1]) if found else None


def _described(arrays: tuple) -> list[dict[str, Any]]:
    return [
        {"shape": list(shape), "dtype": str(dtype), "bytes": nbytes}
        for shape, dtype, nbytes in filter(None, arrays)
    ]
