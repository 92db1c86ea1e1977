"""Python text that shows a wrong gradient outside the harness: paste it and run it."""

import inspect
import textwrap
from typing import Any

import numpy as np

from ..tensor_api.tensor import Tensor
from .case import primitive_of
from .errors import Entry
from .function import Function, as_array
from .spec import specs

_NONE = ("", "__main__")  # modules that a snippet cannot import from
_LARGE = 64  # larger arrays are made by an expression, not printed


def literal(x: Any) -> str:
    """An expression, in NumPy's names, that gives x again; exact for floats."""
    if not isinstance(x, np.ndarray):
        return repr(x)
    if x.size > _LARGE:
        shape, dtype = x.shape, x.dtype
        return f"np.random.default_rng(0).standard_normal({shape}).astype('{dtype}')  # some values"
    return f"np.array({x.tolist()!r}, dtype='{x.dtype}').reshape({x.shape})"


def gradcheck_snippet(function: Function, entry: Entry | None) -> str:
    """Source that repeats gradcheck on the same function at the same inputs."""
    lines = ["import minigrad as mg", "import numpy as np", "from numpy import inf, nan"]
    lines += ["from minigrad.testing import gradcheck", source_of(function.fn)]
    names = [f"x{i}" for i in range(len(function.args))]
    given = [literal(as_array(x) if isinstance(x, Tensor) else x) for x in function.args]
    lines += [f"{name} = {text}" for name, text in zip(names, given, strict=True)]
    if not any("inf" in text or "nan" in text for text in given):
        lines.remove("from numpy import inf, nan")
    lines.append(f"gradcheck(fn, ({', '.join(names)},))")
    if entry is not None and function.positions[0] <= entry.position < len(function.args):
        lines.append(
            f"# looks at x{entry.position}{list(entry.index) or ''}: "
            f"analytic {entry.analytic!r}, numeric {entry.numeric!r}"
        )
    return textwrap.indent("\n".join(lines), "    ")


def source_of(fn: Any) -> str:
    """The line or lines that define `fn`: an import, or the source of a local function."""
    owner = getattr(fn, "__self__", None)
    if isinstance(owner, type):  # the apply of an mg.Function
        whole = _import_of(owner) or _source(owner)
        called = f"{owner.__name__}.{fn.__name__}"
        return f"{whole}\nfn = {called}" if whole else f"fn = ...  # {called}, under test"
    if imported := _import_of(fn):
        return f"{imported} as fn"
    if source := _source(fn):
        return f"{source}\nfn = {fn.__name__}"
    code = getattr(fn, "__code__", None)
    place = f" ({code.co_filename}:{code.co_firstlineno})" if code is not None else ""
    return f"fn = ...  # the function under test{place}"


def _import_of(thing: Any) -> str:
    """The line that imports a function or class; "" if no module has it by its name."""
    name, module = getattr(thing, "__qualname__", ""), getattr(thing, "__module__", "")
    return f"from {module} import {name}" if name.isidentifier() and module not in _NONE else ""


def _source(thing: Any) -> str:
    """The lines that define a function or class; "" for a method or a lambda."""
    try:
        source = textwrap.dedent(inspect.getsource(thing)).rstrip()
    except (OSError, TypeError):
        return ""
    return source if source.startswith(("def ", "class ")) else ""


def op_snippet(op: str, check: str, sample: str, seed: int, level: str, module: str) -> str:
    """Source that repeats one check of one op."""
    lines = ["from minigrad.testing import run_check"]
    if module and not module.startswith("minigrad.testing."):
        lines.append(f"import {module}  # registers the op")
    options = f", sample={sample!r}" if sample else ""
    options += f", seed={seed}" if seed else ""
    options += f", level={level!r}" if level != "fast" else ""
    lines.append(f"run_check({op!r}, {check!r}{options})")
    return textwrap.indent("\n".join(lines), "    ")


def rules_of(op: str) -> list[str]:
    """The file and line of an op's forward and of each of its rules, one a line."""
    if op not in specs:
        return []
    primitive = primitive_of(specs[op])
    if primitive is None:
        return _place("the function", specs[op].call)
    rules = dict(primitive.rules) if primitive.joint is None else {"all inputs": primitive.joint}
    found = _place("the forward", primitive.forward)
    for name, rule in rules.items():
        found += _place(f"the rule for {name}", rule.fn)
    if primitive.jvp_rule is not None:
        found += _place("the jvp rule", primitive.jvp_rule.fn)
    return found + _place("the batch rule", primitive.batch_rule)


def _place(what: str, fn: Any) -> list[str]:
    """[file and line of a function]; [] without source, as for NumPy's own."""
    code = getattr(inspect.unwrap(fn), "__code__", None) if callable(fn) else None
    return [] if code is None else [f"{what}: {code.co_filename}:{code.co_firstlineno}"]
