"""mg.compile: the decorator, and the programs that it keeps from call to call."""

import functools
import os
import sys
import types
from collections.abc import Callable
from typing import Any

import numpy as np

from ..backends import cublas
from ..backends.sites import calling_frame
from ..compiled.switch import is_accelerated
from ..engine import modes
from ..engine.errors import describe
from ..errors import CompileError
from ..instrument.formats import json_text
from ..instrument.graph_dump import no_graph_file
from ..instrument.writing import write_whole
from ..tensor_api.tensor import Tensor
from .calls import mode_in_the_way
from .dump import document
from .program import Program
from .run import Run

MOST = 8  # programs of one segment; a segment that needs more runs op by op


def compile(fn: Callable | None = None, *, fullgraph: bool = False) -> Any:
    """fn with its arithmetic recorded once and then replayed: the same numbers, in less time.

        @mg.compile
        def step(x, target):
            optimizer.zero_grad()
            loss = mg.cross_entropy(model(x), target)
            loss.backward()
            optimizer.step()
            return loss

    The Python of fn runs at each call. Its ops are awaited: each is compared with the recorded one.
    As soon as a number is needed (an optimizer reads a gradient), one program computes all of them.
    On the host that is a flat list of NumPy calls in buffers planned once, on a GPU a CUDA graph.
    Branches, counters, prints and random draws are those of fn. Another shape, dtype, branch or
    constant is recorded as another program, at most eight for each form of the arguments. Each new
    program runs once for a comparison: it has the bits of fn without mg.compile. On a GPU, and
    while mg.accelerate is on, one kernel or loop runs neighbouring ops, and rounding differs.

    Where no program can replace the ops, they run one by one as without mg.compile. This happens
    under autocast, in func transforms, with hooks, and in a backward with options (retain_graph,
    create_graph). It also happens where a number is read before the backward. fn may return a
    result before its backward: ops of that result (a loss) and the backward then join the program.
    step.explain() lists the programs and the reasons; MINIGRAD_COMPILE_LOG=1 prints them as they
    occur.

    fullgraph   raise a CompileError where ops run one by one
    """
    if fn is None:
        return functools.partial(compile, fullgraph=fullgraph)
    if not callable(fn):
        raise TypeError(f"mg.compile takes a function or a module, got {describe(fn)}")
    return Compiled(fn, fullgraph)


class Store:
    """The programs of one form of call: for each segment a list, the last used first."""

    def __init__(self, name: str, fullgraph: bool):
        self.name, self.fullgraph = name, fullgraph
        self.segments: dict[int, list[Program]] = {}
        self.varying: set[tuple] = set()  # first uses of objects that change from call to call
        self.earlier: dict[int, list] = {}  # segment -> the Outsides of a program that it replaces
        self.replays = 0
        self.open = 0  # the number of segments that ran one by one
        self.is_final = False  # whether a first segment without a program stays without one

    def programs(self, segment: int) -> list[Program]:
        """The programs of a segment."""
        return self.segments.setdefault(segment, [])

    def expected(self, segment: int) -> Program | None:
        """The program of a segment that was used last, or None."""
        known = self.programs(segment)
        return known[0] if known else None

    def begin_again(self) -> None:
        """Record the second call too: in the first one a lazy layer makes its parameters."""
        self.segments.clear()
        self.open, self.is_final = 0, True

    def used(self, segment: int, program: Program) -> None:
        """Count a replay, and move its program to the front."""
        self.replays += 1
        known = self.programs(segment)
        if program in known[1:]:
            known.remove(program)
            known.insert(0, program)

    def vary(self, segment: int, program: Program, first_use: tuple) -> None:
        """An object has changed between calls: it becomes an input of the next program."""
        self.varying.add(first_use)
        self.earlier[segment] = program.outsides
        known = self.programs(segment)
        if program in known:
            known.remove(program)

    def varies(self, segment: int, first_use: tuple, x: Any) -> bool:
        """Whether x, or another object that was used first there, changes from call to call."""
        for known in self.earlier.get(segment, ()):
            if known.first_use == first_use and known.is_of_its_kind(x) and not known.fits(x):
                self.varying.add(first_use)
        return first_use in self.varying

    def keep(self, segment: int, program: Program, ended: str) -> None:
        """Add a new program. It replaces one of the same calls, which handed out fewer results."""
        known = self.programs(segment)
        known[:] = [old for old in known if not _same_calls(old, program)]
        if len(known) == MOST:
            program.runner = None
            program.why = (
                f"{MOST} programs were recorded for this form of call, and none fits. A number "
                "that Python computes in each call (a counter, a schedule) is a constant of a "
                "program: pass it as a tensor"
            )
        # A rare call, such as one without the others' backward, must not displace their program.
        # It runs one by one, and the others are still replayed.
        self.open += program.runner is None
        is_rare = program.runner is None and self.open <= MOST + self.replays // MOST
        others = any(x.runner is not None for x in known) and len(known) < MOST
        known.insert(len(known) if is_rare and others else 0, program)
        size = f"{len(program.calls)} calls"
        if program.runner is not None:
            kind = ", as a CUDA graph" if program.captured else ""
            say(f"{self.name}: segment {segment}: {size} recorded as a program of "
                f"{program.size} calls{kind}; it ended since {ended}{_here()}")  # fmt: skip
            return
        say(f"{self.name}: segment {segment}: {size} run one by one: {program.why}{_here()}")
        if self.fullgraph:
            modes.state.pending = None
            raise CompileError(f"mg.compile: {self.name} is not one program: {program.why}.")


def _same_calls(a: Program, b: Program) -> bool:
    return len(a.calls) == len(b.calls) and all(
        x is y for x, y in zip(a.calls, b.calls, strict=True)
    )


def _here() -> str:
    frame = calling_frame()
    return f" ({os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno})"


def say(text: str) -> None:
    """Print a line of the log, if MINIGRAD_COMPILE_LOG=1."""
    if os.environ.get("MINIGRAD_COMPILE_LOG", "0") not in ("", "0"):
        print(f"mg.compile: {text}", file=sys.stderr)


class Compiled:
    """A function or module under mg.compile (see there), with the attributes of fn."""

    def __init__(self, fn: Callable, fullgraph: bool):
        self.fn, self.fullgraph = fn, fullgraph
        self.name = getattr(fn, "__qualname__", type(fn).__name__)
        self.stores: dict[Any, Store] = {}
        self.as_it_stands: dict[str, None] = {}  # why some calls ran without awaited ops
        functools.update_wrapper(self, fn, updated=())

    def __getattr__(self, name: str) -> Any:
        if name == "fn":  # not set yet, during unpickling
            raise AttributeError(name)
        return getattr(self.fn, name)

    def __get__(self, owner: Any, kind: Any = None) -> Any:
        return self if owner is None else types.MethodType(self, owner)

    def __repr__(self) -> str:
        return f"<compiled {self.name}>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        state, here = modes.state, modes.state.__dict__
        outer = here["pending"]
        if outer is not None and outer.is_outside_fn:
            outer.end("a compiled function is called")
        why = mode_in_the_way(here) if here["pending"] is None else _NESTED
        if why:
            return self._plainly(why, args, kwargs)
        given: set[int] = set()
        settings = here["recording"], is_accelerated(), cublas.tf32
        key = settings, *[_form(x, given) for x in args], _form(kwargs, given) if kwargs else None
        store = self.stores.get(key)
        if store is None:
            store = self.stores[key] = Store(self.name, self.fullgraph)
        if (first := store.expected(0)) is not None and first.runner is None:
            if store.is_final:
                return self.fn(*args, **kwargs)
            store.begin_again()
        run = Run(store, given)
        modes.add_reason()
        goes_on = False
        try:
            state.set({"pending": run})
            result = self.fn(*args, **kwargs)
            is_awaited = here["pending"] is run
            goes_on = is_awaited and run.goes_on()
        except BaseException:
            if state.pending is run:
                state.pending = None
                run.abandon()
            raise
        finally:
            if not goes_on:
                if here["pending"] is not None:
                    state.set({"pending": None})
                modes.add_reason(-1)
        if is_awaited and not goes_on:
            run.finish()
        return result

    def _plainly(self, why: str, args: tuple, kwargs: dict) -> Any:
        if why not in self.as_it_stands:
            self.as_it_stands[why] = None
            say(f"{self.name}: runs as it stands: {why}")
        if self.fullgraph and why != _NESTED:
            raise CompileError(f"mg.compile: {self.name} is not one program: {why}.")
        return self.fn(*args, **kwargs)

    def explain(self) -> str:
        """The programs, one line each, and the reasons why other ops run one by one."""
        lines = [f"{self.name}: {len(self.stores)} forms of arguments"]
        for store in self.stores.values():
            lines.append(f"  {store.replays:,} replays")
            for segment, programs in sorted(store.segments.items()):
                for program in programs:
                    said = f"    segment {segment}: {len(program.calls)} calls"
                    if program.runner is None:
                        lines.append(f"{said}, one by one: {program.why}")
                        continue
                    kind = "CUDA graph" if program.captured else "program"
                    lines.append(f"{said}, a {kind} of {program.size} calls, "
                                 f"{program.runner.nbytes:,} bytes of buffers")  # fmt: skip
                    lines += [f"      one of {len(names)} steps: {' + '.join(names)}"
                              for names in program.fused]  # fmt: skip
                    if program.unfused:
                        lines.append(f"      not fused: {program.unfused}")
        lines += [f"  as it stands: {why}" for why in self.as_it_stands]
        return "\n".join(lines)

    def dump_graph(self, path: str | os.PathLike) -> None:
        """Write the programs to a JSON file that `minigrad-viz` draws.

            step.dump_graph("step.json")       # after calls of step, then: minigrad-viz step.json

        A node is one step of a program: a call of NumPy, or the forward or backward of an op. It
        has the line that recorded it. Each fused kernel is a frame around its steps. ValueError if
        no program is recorded.
        """
        path = os.fspath(path)
        if said := no_graph_file(path):
            raise ValueError(f"dump_graph: {said}")
        stores = self.stores.values()
        programs = [x for store in stores for known in store.segments.values() for x in known]
        programs = [program for program in programs if program.runner is not None]
        if not programs:
            raise ValueError(
                f"dump_graph: {self.name} has no program yet. Call it first; explain() gives the "
                "reason if a call records none."
            )
        write_whole(path, json_text(document(programs)))


_NESTED = "it is called by a compiled function, and is part of that"


def _form(x: Any, given: set[int]) -> Any:
    """The key of calls that share programs; adds the ids of arrays in the arguments to `given`."""
    if isinstance(x, Tensor):
        array = x._data
        if x.node is None:  # else x is one object in all calls, until `vary` finds another
            given.add(id(array))
        return Tensor, array.shape, array.dtype, x.node is not None, type(array)
    if isinstance(x, np.ndarray):
        given.add(id(x))
        return np.ndarray, x.shape, x.dtype
    if isinstance(x, _COMPARED):
        return x
    if isinstance(x, _NUMBERS):
        return type(x)
    if isinstance(x, tuple | list):
        return type(x), *[_form(part, given) for part in x]
    if isinstance(x, dict):
        return dict, *[(key, _form(part, given)) for key, part in x.items()]
    return id(x)


_COMPARED = bool, str, bytes, type(None)  # arguments whose values are part of the form
_NUMBERS = int, float, complex  # arguments that are constants of a program
