"""`minigrad-gradcheck wrong.py`: run a program, and check the rules that it defines.

Every node of its backwards is checked against finite differences. Ops and classes of the file that
no backward reached are checked at a few points of small arrays, if they accept those.
"""

import inspect
import os
import runpy
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..custom.custom import Function
from ..engine.primitive import Primitive
from ..instrument.recorder import record_backward
from .errors import GradcheckError, Inconclusive
from .gradcheck import gradcheck

_SHAPES = ((3,), (2, 3), (3, 3), (1, 2, 4, 4))


class _Badges(record_backward):
    """The verdicts on all nodes, by op."""

    def __init__(self) -> None:
        super().__init__(check=True)
        self.by_op: dict[str, list[dict]] = {}

    def done(self, graph: dict[str, Any]) -> None:
        for record in graph["nodes"]:
            if "check" in record:
                self.by_op.setdefault(record["op"], []).append(record)


def check_file(path: str) -> int:
    """Print the findings, a line for each op; 1 if a rule is wrong or none was checked."""
    sys.argv = [path]
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    badges = _Badges()
    with badges:
        names = runpy.run_path(path, run_name="__main__")
    own = dict(_rules_of(names))
    told = [_told_of_nodes(op, records, op in own) for op, records in badges.by_op.items()]
    reached = {
        op for op, (verdict, _) in zip(badges.by_op, told, strict=True) if verdict != "wrong"
    }
    told += [line for name in own if name in reached for line in _elsewhere(name, own[name])]
    told += [_told_of_points(name, own[name]) for name in own if name not in badges.by_op]
    for _, line in sorted(told, key=lambda pair: pair[0] != "wrong"):
        print(line)
    wrong = sum(verdict == "wrong" for verdict, _ in told)
    checked = sum(verdict in ("right", "wrong") for verdict, _ in told)
    print(f"{path}: {checked} of {len(told)} ops checked, {wrong} wrong")
    return 1 if wrong or not checked else 0


def _rules_of(names: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """(name, op or class) of the rules that a file defines itself."""
    for value in names.values():
        if isinstance(value, Primitive):
            if getattr(value.forward, "__globals__", {}).get("__file__") == names["__file__"]:
                yield value.name, value
        elif isinstance(value, type) and issubclass(value, Function):
            if value.__module__ == names["__name__"] and value is not Function:
                yield value.__name__, value


def _told_of_nodes(op: str, records: list[dict], own: bool) -> tuple[str, str]:
    """(verdict, line) of an op by its nodes."""
    for verdict in ("wrong", "right", "unsure", "skipped"):
        found = [record for record in records if record["check"]["verdict"] == verdict]
        if found:
            break
    first = found[0]
    site = first.get("site") or {}
    where = f"{site['file']}:{site['line']}: " if site else ""
    check = first["check"]
    line = f"{where if verdict != 'right' else ''}{op}: {verdict}"
    if verdict == "wrong":
        line += f", off by {check['error']:.2g} where {check['tolerance']:.2g} is rounding"
        line += "; its rule is yours" if own else ""
    elif check.get("why"):
        line += f" ({check['why']})"
    return verdict, f"{line} ({len(records)} nodes)" if len(records) > 1 else line


def _told_of_points(name: str, rule: Any) -> tuple[str, str]:
    """(verdict, line) of an op or class that no backward has reached."""
    call: Callable = rule if isinstance(rule, Primitive) else rule.apply
    count = rule.arity if isinstance(rule, Primitive) else _inputs_of(rule)
    rng = np.random.default_rng(0)
    why = ""
    for shape in _SHAPES:
        try:
            gradcheck(call, tuple(rng.uniform(0.5, 1.5, shape) for _ in range(count)))
            return "right", f"{name}: right (no backward came to it; at {shape})"
        except Inconclusive as error:
            why = error.what
        except GradcheckError as error:
            return "wrong", f"{name}: wrong: {error}"
        except Exception as error:
            why = f"{type(error).__name__}: {str(error).splitlines()[0][:120]}"
    return "skipped", f"{name}: not checked, no backward came to it, and at small arrays: {why}"


def _elsewhere(name: str, rule: Any) -> Iterator[tuple[str, str]]:
    """Faults of an op or class of the file at other points than those of its nodes."""
    verdict, line = _told_of_points(name, rule)
    if verdict == "wrong":
        yield verdict, line.replace("wrong: ", "wrong elsewhere: ", 1)


def _inputs_of(rule: type) -> int:
    """How many inputs without a default a class's forward takes after ctx."""
    parameters = list(inspect.signature(rule.forward).parameters.values())  # type: ignore
    given = [p for p in parameters if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD]
    return len(given) - any(p.name == "ctx" for p in given)
