"""The lines of an event log: events as text, with names defined before they are used."""

import hashlib
import itertools
import re
import threading
from types import CodeType
from typing import Any

from ..backends.locks import Lock
from ..backends.sites import site_of
from ..backends.threads import Local, identity
from ..ops import work
from .calls import FIELDS, Call, Calls
from .formats import json_text
from .reading import is_cell, source_of
from .records import MAX_ARRAYS, MAX_NAME, MAX_SOURCES, MAX_TEXT, MAX_TEXTS

_MOST_NAMES = 50_000  # definitions remembered; forgotten ones are defined again when they return


class Lines:
    """Writes events, marks and memory as lines of JSON, each with the definitions it needs."""

    def __init__(self) -> None:
        self.threads = Threads()
        self._names: dict[Any, Any] = {}
        self._next_name = 0
        self._codes: list[CodeType] = []
        self.calls = Calls()
        self.heard = {"plain": 0, "described": 0, "backward": 0}  # events that were written
        self._told: list[Call] = []  # those whose text is made
        self._texts: dict[str | tuple, str] = {}
        self._sources: set[str] = set()  # files whose digests are written
        self._text_left = MAX_TEXTS  # characters of cells that may still be written
        self._stacks = self._frames = 0

    @property
    def typical_depth(self) -> int:
        """How many frames the stacks of calls have, on average."""
        return max(1, round(self._frames / max(1, self._stacks)))

    def first_thread(self) -> str:
        """The line that defines this thread: the first one that a log names is its main thread."""
        lines: list[str] = []
        self._number(("thread", self.threads.here()), lines)
        return "".join(lines)

    def forget(self) -> None:
        """Define every name again when it returns."""
        self._names.clear()
        self._codes.clear()
        for call in self._told:
            call.text = None
        self._told.clear()

    def write_events(self, events: list, lines: list[str]) -> None:
        """Ops and whole backwards: FIELDS values each."""
        add, heard = lines.append, self.heard
        for call, t0, t1, seq in zip(*[iter(events)] * FIELDS, strict=True):
            begin, middle, end = call.text or self._text(call, lines)
            add(f'{begin}{t0},"t1":{t1}{middle}{seq}{end}')
            heard[call.sort] += 1
        self.calls.forget_old()

    def write_others(self, entries: list[tuple], lines: list[str]) -> None:
        """Allocations and releases, of which there are many, and what else a log holds."""
        for entry in entries:
            if entry[0] == "release":
                _, number, t, used, used_forward = entry
                lines.append(
                    f'{{"kind":"release","id":{number},"t":{t},"used":{used},'
                    f'"used_forward":{used_forward}}}\n'
                )
            elif entry[0] == "alloc":
                _, number, t, _, category, phase, op, seq, thread, origin, shape, dtype = entry
                site = None
                if origin is not None:
                    site = id(origin[0]), origin[1], origin[2], len(origin)
                key = category, phase, op, thread, site, shape, dtype
                middle, end = self._names.get(key) or self._alloc(key, entry, lines)
                lines.append(
                    f'{{"kind":"alloc","id":{number},"t":{t}{middle}'
                    f"{'null' if seq is None else seq}{end}"
                )
            else:
                lines.append(getattr(self, f"_{entry[0]}")(*entry[1:], lines))

    def _alloc(self, key: tuple, entry: tuple, lines: list[str]) -> tuple[str, str]:
        """The text around the numbers in lines of such arrays, made by one op on one line."""
        _, _, _, nbytes, category, phase, op, _, thread, origin, shape, dtype = entry
        middle = (
            f',"bytes":{nbytes},"category":"{category}","phase":"{phase}",'
            f'"op":{"null" if op is None else self._quoted(op)},"seq":'
        )
        end = (
            f',"shape":{list(shape)},"dtype":{self._quoted(str(dtype))},'
            f'"thread":{self._number(("thread", thread), lines)}{self._origin(origin, lines)}}}\n'
        )
        if len(self._names) < _MOST_NAMES and (origin is None or len(origin) == 3):
            self._codes += [] if origin is None else [origin[0]]
            self._names[key] = middle, end
        return middle, end

    def _held(self, number: int, used: int, used_forward: int, lines: list[str]) -> str:
        return f'{{"kind":"held","id":{number},"used":{used},"used_forward":{used_forward}}}\n'

    def _category(self, number: int, t: int, category: str, lines: list[str]) -> str:
        return f'{{"kind":"category","id":{number},"t":{t},"category":"{category}"}}\n'

    def _device(
        self, of: str, op: str, seq: int | None, thread: int, host: int, t0: int, t1: int,
        stream: str, lines: list[str],
    ) -> str:  # fmt: skip
        return (
            f'{{"kind":"device","of":"{of}","op":{self._quoted(op)},"host":{host},"t0":{t0},'
            f'"t1":{t1},"stream":{self._number(("stream", stream), lines)},'
            f'"thread":{self._number(("thread", thread), lines)},'
            f'"seq":{"null" if seq is None else seq}}}\n'
        )

    def _sample(
        self, t: int, thread: int, frames: tuple, doing: str, via: str, inside: int,
        lines: list[str],
    ) -> str:  # fmt: skip
        sites = tuple([self._site(code, at, lines) for code, at in frames])
        return (
            f'{{"kind":"sample","t":{t},"thread":{self._number(("thread", thread), lines)},'
            f'"stack":{self._number(("stack", sites), lines)},"doing":"{doing}",'
            f'"via":{self._quoted(via)},"inside":{inside}}}\n'
        )

    def _kept(
        self, t: int, count: int, nbytes: int, first: int, last: int, holder: str, code: CodeType,
        line: int, made: tuple, lines: list[str],
    ) -> str:  # fmt: skip
        at = self._number(("site", code.co_filename, line, code.co_qualname), lines)
        return (
            f'{{"kind":"kept","t":{t},"nodes":{count},"bytes":{nbytes},"first":{first},'
            f'"last":{last},"holder":{json_text(holder[:MAX_NAME])},"site":{at},'
            f'"made":{self._site(made[0], made[1], lines)}}}\n'
        )

    def _mark(
        self, what: str, name: str | tuple, t0: int, t1: int, thread: int, origin: tuple | None,
        lines: list[str],
    ) -> str:  # fmt: skip
        return (
            f'{{"kind":"mark","what":{self._quoted(what)},"name":{self._quoted(name)},'
            f'"t0":{t0},"t1":{t1},"thread":{self._number(("thread", thread), lines)}'
            f"{self._origin(origin, lines)}}}\n"
        )

    # -- what calls have in common ---------------------------------------------------------------

    def _text(self, call: Call, lines: list[str]) -> tuple[str, str, str]:
        """The text of a call's lines before t0, between t1 and the number, and behind it."""
        begin = f'{{"kind":"{call.kind}","op":{self._quoted(call.op)},"t0":'
        middle = f',"thread":{self._number(("thread", call.thread), lines)},"seq":'
        end = ""
        if call.came is not None:
            end += f',"came":{self._site(call.came[0], call.came[1], lines)}'
        outputs, inputs = call.outputs_and_inputs()
        if inputs or outputs:
            end += f',"arrays":{self._number(("arrays", inputs, outputs), lines)}'
        end += f"{_work_text(call)}{self._origin(call.origin, lines)}}}\n"
        call.text = begin, middle, end
        self._told.append(call)
        return call.text

    def _quoted(self, name: str | tuple) -> str:
        """A name as JSON, escaped once. It may be in parts: a dtype is slow to tell its name."""
        text = self._texts.get(name)
        if text is None:
            if len(self._texts) >= _MOST_NAMES:
                self._texts.clear()
            whole = name if isinstance(name, str) else " ".join(map(str, name))
            text = self._texts[name] = json_text(whole[:MAX_NAME])
        return text

    # -- names -----------------------------------------------------------------------------------

    def _origin(self, origin: tuple | None, lines: list[str]) -> str:
        if origin is None:
            return ""
        code, instruction, scope, *frames = origin
        text = f',"scope":{self._number(("scope", scope), lines)}' if scope else ""
        text += f',"site":{self._site(code, instruction, lines)}'
        if len(frames) > 1:
            self._stacks, self._frames = self._stacks + 1, self._frames + len(frames)
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
            self._codes.append(code)  # no other object may get its id
            self._names[id(code), instruction] = number
        return number

    def _write_source(self, file: str, lines: list[str]) -> None:
        """The digest of a file, once: a report shows only the text that this log speaks of.

        The text of a notebook's cell is written too, since the notebook will be gone.
        """
        if file in self._sources or len(self._sources) >= MAX_SOURCES:
            return
        self._sources.add(file)
        content = source_of(file)
        if content is None:
            return
        source = {"kind": "define", "what": "source", "id": len(self._sources), "file": file}
        source["sha256"] = hashlib.sha256(content).hexdigest()
        if is_cell(file) and len(content) <= min(MAX_TEXT, self._text_left):
            source["text"] = content.decode()
            self._text_left -= len(content)
        lines.append(json_text(source) + "\n")

    def _number(self, name: tuple, lines: list[str]) -> int:
        """The number of a site, scope, thread or signature, defined when it is new."""
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


def _work_text(call: Call) -> str:
    """The fields "flops" and "moved" of a call, where its work is known."""
    if call.kind == "pass" or call.kind == "backward" and call.forward is None:
        return ""  # the second: of a forward that is not in this log
    forward = call.forward or call
    outputs, inputs = map(_as_arrays, forward.outputs_and_inputs())
    params = dict(forward.more or ())
    if call.kind == "forward":
        found = _counted(work.of, call.op, inputs, outputs, params)
    else:
        slots = call.more or None
        if slots is not None:
            arrived = [y is not None for y in call.outputs_and_inputs()[0]]
            slots = [slot for slot, given in zip(slots, arrived, strict=False) if given]
        found = _counted(work.of_backward, forward.op, inputs, outputs, params, slots)
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
    """The threads in the log, each with a number, and their names.

    What `threading.get_ident` gives is no such number: when a thread has ended, the next one that
    starts often gets the same.
    """

    def __init__(self) -> None:
        self.own = Local()
        self._numbers = itertools.count()
        self._given: dict[int, int] = {}  # identity -> number of one that has not been heard
        self._heard: dict[int, int] = {}  # identity -> number of the latest that was
        self._names: dict[int, str] = {}
        self._lock = Lock()  # a thread may be numbered by the sampler as it asks for a number

    def here(self) -> int:
        """The number of the thread that calls this."""
        try:
            return self.own.number
        except AttributeError:
            return self._learned()

    def number_of(self, ident: int) -> int:
        """The number of a running thread; one that has not been heard yet is given its number."""
        number = self._heard.get(ident, self._given.get(ident))
        return self._numbered(ident) if number is None else number

    def _learned(self) -> int:
        """Give this thread a number, and keep its name: it is unknown once the thread has ended."""
        self.own.number = number = self._numbered(identity(), heard=True)
        return number

    def _numbered(self, ident: int, heard: bool = False) -> int:
        """A thread's number, perhaps one that the sampler or the thread has asked for before."""
        running = {thread.ident: thread.name for thread in threading.enumerate()}
        with self._lock:
            if heard:  # for the first time: the former thread of this identity has ended
                number = self._given.pop(ident, None)
            else:
                number = self._heard.get(ident, self._given.get(ident))
            if number is None:
                number = next(self._numbers)
                # before the number can be found: who finds it may ask at once
                self._names[number] = running.get(ident, f"thread {ident}")
                if not heard:
                    self._given[ident] = number
            if heard:
                self._heard[ident] = number
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
