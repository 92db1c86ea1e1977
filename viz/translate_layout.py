"""Write assets/layout.js, the page's layout, from the three files of the layout in Python.

python viz/translate_layout.py     # a test fails while the file is not what this writes

PScript (in the extra `dev`) translates. PSCRIPT_OVERLOAD = False gives operators JavaScript's own
meaning, so the three files add and compare only numbers and texts, and ask for the length of a
list, never for its truth.
"""

import ast
import re
from pathlib import Path

from pscript import py2js

PACKAGE = Path(__file__).with_name("minigrad_viz")
SOURCES = ("layering.py", "ordering.py", "layout.py")
TARGET = PACKAGE / "assets/layout.js"
# PScript walks over the keys of anything but an array. Here all loops run over arrays.
GUARD = re.compile(
    r'if \(\(typeof (\w+) === "object"\) && \(!Array\.isArray\(\1\)\)\) '
    r"\{ ?\1 = Object\.keys\(\1\);\}\s*"
)
FRAME = """"use strict";
// Written by `python viz/translate_layout.py` from {sources}: edit those.
const layered = (() => {{
{code}
return {{ place, STUB }};
}})();
"""


class _Plain(ast.NodeTransformer):
    """Leaves out annotations and docstrings."""

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        assert node.value is not None
        return ast.Assign([node.target], node.value)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        self.generic_visit(node)
        if ast.get_docstring(node):
            del node.body[0]
        node.body[:0] = ast.parse("PSCRIPT_OVERLOAD = False").body
        node.returns = None
        for argument in node.args.args:
            argument.annotation = None
        return node


def _record(node: ast.ClassDef) -> str:
    """A dataclass as a function that `new` calls with every field."""
    fields = [ast.unparse(part.target) for part in node.body if isinstance(part, ast.AnnAssign)]
    names = ", ".join(fields)
    return f"function {node.name}({names}) {{ Object.assign(this, {{ {names} }}); }}"


def _is_type(node: ast.stmt) -> bool:
    return isinstance(node, ast.Assign) and isinstance(node.value, ast.Subscript)


def translated() -> str:
    """The text of assets/layout.js."""
    records, rest = [], []
    for name in SOURCES:
        for node in ast.parse((PACKAGE / name).read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef):
                records.append(_record(node))
            elif isinstance(node, ast.FunctionDef | ast.Assign) and not _is_type(node):
                rest.append(_Plain().visit(node))
    functions = py2js(ast.unparse(ast.fix_missing_locations(ast.Module(rest, []))))
    code = "\n".join([*records, GUARD.sub("", str(functions)).strip()])
    return FRAME.format(sources=", ".join(SOURCES), code=code)


if __name__ == "__main__":
    TARGET.write_text(translated(), encoding="utf-8", newline="\n")
