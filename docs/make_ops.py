"""Write docs/ops.md, the table of every op, from the registry and the harness's specs.

python docs/make_ops.py            # a test fails while the file is not what this writes
"""

import ast
import inspect
import runpy
import sys
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from types import ModuleType
from typing import Any

import minigrad
import minigrad.ops
import minigrad.special
import minigrad.testing.samples  # registers the specs
from minigrad.engine.primitive import Primitive
from minigrad.engine.registry import numpy_table, op
from minigrad.testing.spec import specs

listed = runpy.run_path(str(Path(__file__).with_name("two_columns.py")))["listed"]

HEADER = """# Every op

{count} ops: formula, derivative, how to call it. Find one by its name in [A to Z](#a-to-z), which
has NumPy's names too, or by its kind in [the families](#families). In Python, `help(mg.tan)`
says the same.

## How to read an entry

> **`tan`** y = tan x ;  dy/dx = 1 + y²<br>
> <sub>`mg.tan`, `np.tan` · primitive · elementwise · float64, float32, float16, …</sub>

First the formula, then the derivative where it fits on the line. An elementwise op has its partial
derivatives there, another op the value of its rule for a cotangent g. The second line says how to
call it (`x` is any tensor); an *inner* op is called by rules and other ops only. *Primitive* ops
have rules of their own, *composite* ones are made of other ops. *Elementwise*, *linear* and
*multilinear* ones need no further rule for forward mode; a *view* shares memory with its input.
Then come the dtypes in which it is checked, and below what the docstring says of shapes,
conventions and errors.

A derivative of a derivative is not written down anywhere: the engine differentiates the rule, which
is made of ops. Ask for its value, or read the rule:

```python
>>> import inspect
>>> import minigrad as mg
>>> second = mg.func.grad(mg.func.grad(mg.tan))  # 2 y (1 + y²)
>>> second(0.5)
tensor(1.41868901)
>>> print(inspect.getsource(mg.tan.rules["x"].fn).strip())
tan = elementwise(np.tan, dx=lambda y: 1 + y * y, doc="y = tan x ;  dy/dx = 1 + y²")

```

Answers at awkward points (kinks, ties, ±∞, NaN) are pinned in `minigrad/testing/samples/` and
checked by `minigrad-gradcheck --ops tan`. This page is made by `python docs/make_ops.py`.
"""
# Namespaces in which users find ops, by the name that they write before the dot.
NAMESPACES = {
    "mg": minigrad, "mg.special": minigrad.special, "mg.linalg": minigrad.linalg,
    "mg.fft": minigrad.fft, "mg.nn.functional": minigrad.nn.functional,
}  # fmt: skip
# What a reader looks for first; the other families follow in the order of their packages.
FIRST = ["elementwise.arithmetic", "elementwise.exponential", "elementwise.trigonometric",
         "elementwise.selection"]  # fmt: skip


def families() -> dict[str, ModuleType]:
    """The modules of minigrad/ops and minigrad/special by the name of their family."""
    found = [*walk_packages(minigrad.ops.__path__, "minigrad.ops."),
             *walk_packages(minigrad.special.__path__, "minigrad.special.")]  # fmt: skip
    modules = [import_module(info.name) for info in found if not info.ispkg]
    return {module.__name__.removeprefix("minigrad.").removeprefix("ops."): module
            for module in modules}  # fmt: skip


def names_bound(module: ModuleType) -> set[str]:
    """The names that a module's own statements bind, without those that it imports."""
    statements = ast.parse(inspect.getsource(module)).body
    defined = {node.name for node in statements if isinstance(node, ast.FunctionDef)}
    targets = [target for node in statements if isinstance(node, ast.Assign)
               for target in node.targets]  # fmt: skip
    names = {node.id for target in targets for node in ast.walk(target) if type(node) is ast.Name}
    return defined | names


def home(entry: Any, bound: dict[str, dict[str, Any]]) -> str:
    """The family whose file defines the op; `bound` has what each file's own names mean."""
    for family, values in bound.items():
        written = getattr(entry, "__module__", "") in (f"minigrad.ops.{family}",
                                                       f"minigrad.{family}")  # fmt: skip
        if written or any(value is entry for value in values.values()):
            return family
    return "defined elsewhere"


def paragraphs(text: str) -> str:
    """The rest of a docstring for the page: a line a paragraph; arguments in two columns a list."""
    blocks = listed(inspect.cleandoc(text)).strip().split("\n\n")
    return "\n\n".join(b if b.startswith("- ") else " ".join(b.split("\n")) for b in blocks)


def calls(name: str, entry: Any) -> list[str]:
    """How users call an op, its own name first; [] for an inner one."""
    spaces = [(before, vars(space)) for before, space in NAMESPACES.items()]
    ours = [f"{before}.{key}" for before, space in spaces
            for key, value in space.items()
            if inspect.unwrap(value) is inspect.unwrap(entry)]  # fmt: skip
    ours += [f"x.{name}"] if not ours and callable(getattr(minigrad.Tensor, name, None)) else []
    numpys = [function for function, means in numpy_table.items() if means is entry]
    theirs = {f"{getattr(f, '__module__', 'numpy')}.{f.__name__}" for f in numpys}
    own_first = sorted(ours, key=lambda call: not call.endswith(f".{name}"))
    return own_first + sorted(call.replace("numpy", "np", 1) for call in theirs)


def entry_text(name: str, entry: Any) -> str:
    """One op: formula, how to call it, kind, dtypes, conventions."""
    first, _, rest = (entry.__doc__ or "").strip().partition("\n")
    primitive = isinstance(entry, Primitive)
    facts = [", ".join(f"`{call}`" for call in calls(name, entry)) or "inner"]
    facts.append("primitive" if primitive else "composite")
    if primitive and entry.kind:
        facts.append(entry.kind)
    if primitive and entry.view:
        facts.append("view")
    if primitive and not (entry.rules or entry.joint):
        facts.append("no gradient")
    facts.append(", ".join(specs[name].dtypes))
    first = first.replace("][", "]\\[")  # else Markdown takes x[i][j] for a link
    lines = [f'<a id="op-{name}"></a>**`{name}`** {first}  ', f"<sub>{' · '.join(facts)}</sub>"]
    if rest.strip():
        lines.append(f"\n{paragraphs(rest)}")
    return "\n".join(lines)


def index(ops: dict[str, Any]) -> str:
    """All names from A to Z with links, an op's own and others that users know; inner ops last."""
    links = {name: f"[{name}](#op-{name})" for name in ops}
    places = {name: name[0].upper() if calls(name, ops[name]) else "Inner ops" for name in ops}
    for name, entry in ops.items():
        for other in {call.rpartition(".")[2] for call in calls(name, entry)} - ops.keys():
            links[other], places[other] = f"[{other}](#op-{name}) ({name})", other[0].upper()
    groups: dict[str, list[str]] = {}
    for name in sorted(links, key=lambda name: (len(places[name]), name)):
        groups.setdefault(places[name], []).append(links[name])
    return "\n\n".join(f"**{group}** {' · '.join(found)}" for group, found in groups.items())


def contents(by_family: dict[str, list[str]]) -> str:
    """Links to the families, a line for each package."""
    packages: dict[str, list[str]] = {}
    for family in by_family:
        package, _, part = family.partition(".")
        link = f"[{(part or package).replace('_', ' ')}](#family-{family})"
        packages.setdefault(package if part else "others", []).append(link)
    packages["others"] = packages.pop("others")  # last
    return "\n".join(f"- {package}: {' · '.join(found)}" for package, found in packages.items())


def page() -> str:
    """The whole page."""
    modules = families()
    bound = {
        family: {name: vars(module)[name] for name in names_bound(module) & vars(module).keys()}
        for family, module in modules.items()
    }
    ops = {e.name if isinstance(e, Primitive) else e.__name__: e for e in op}
    by_family: dict[str, list[str]] = {family: [] for family in FIRST}
    for name, entry in ops.items():
        by_family.setdefault(home(entry, bound), []).append(entry_text(name, entry))
    parts = [HEADER.replace("{count}", str(len(ops))), f"## A to Z\n\n{index(ops)}"]
    parts.append(f"## Families\n\n{contents(by_family)}")
    for family, texts in by_family.items():
        first, *_ = (modules[family].__doc__ or "").strip().split("\n\n")
        summary = " ".join(first.splitlines())
        title = f'<a id="family-{family}"></a>\n\n## {family.replace(".", " / ")}'
        parts.append(f"{title}\n\n{summary}\n\n" + "\n\n".join(texts))
    return "\n\n".join(parts) + "\n"


def main() -> int:
    target = Path(__file__).with_name("ops.md")
    target.write_text(page(), encoding="utf-8")
    print(f"wrote {target.name}: {len(list(op))} ops")
    return 0


if __name__ == "__main__":
    sys.exit(main())
