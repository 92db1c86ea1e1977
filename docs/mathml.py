"""The formulas of the tutorials as MathML, which browsers draw without a program or the network.

It knows the words of TeX that the tutorials use; another one is an error, and is added here.
"""

import re
from html import escape

_TOKEN = re.compile(r"\\[a-zA-Z]+|\\.|\d+|\S", re.DOTALL)
_CODE_OR_FORMULA = re.compile(r"(```.*?```|`[^`]*`)|\$\$(.+?)\$\$|\$([^$]+)\$", re.DOTALL)

_LETTERS = {
    "alpha": "α", "gamma": "γ", "epsilon": "ϵ", "varepsilon": "ε", "lambda": "λ", "sigma": "σ",
    "mu": "μ", "ell": "ℓ", "infty": "∞", "partial": "∂", "nabla": "∇", "top": "⊤",
}  # fmt: skip
_SIGNS = {
    "cdot": "⋅", "cdots": "⋯", "dots": "…", "circ": "∘", "mapsto": "↦", "to": "→", "times": "×",
    "leftarrow": "←", "le": "≤", "ge": "≥", "ne": "≠", "approx": "≈", "in": "∈",
    "langle": "⟨", "rangle": "⟩", "pm": "±", "|": "‖", "-": "−", "{": "{", "}": "}",
}  # fmt: skip
_FUNCTIONS = {"tanh", "sinh", "sin", "cos", "log", "exp", "max", "min"}
_LARGE = {"sum": "∑", "int": "∫"}
_SPACES = {",": "0.17em", ";": "0.28em", "qquad": "2em"}
_ACCENTS = {"bar": "¯", "dot": "˙"}
_SIZES = {"big": "1.2em", "Big": "1.8em"}
_DOUBLE = {"1": "𝟙", "E": "𝔼", "R": "ℝ"}


def with_mathml(markdown: str) -> str:
    """The text with each $formula$ drawn; code stays as it is."""

    def drawn(found: re.Match) -> str:
        code, display, inline = found.groups()
        return code or mathml(display or inline, display is not None)

    return _CODE_OR_FORMULA.sub(drawn, markdown)


def mathml(tex: str, display: bool = False) -> str:
    """One formula, in one line."""
    how = ' display="block"' if display else ""
    return f"<math{how}>{_Reader(tex).row()}</math>"


class _Reader:
    """Reads a formula from left to right."""

    def __init__(self, tex: str):
        self.tex, self.at = tex, 0

    def peek(self) -> str:
        while self.at < len(self.tex) and self.tex[self.at].isspace():
            self.at += 1
        found = _TOKEN.match(self.tex, self.at)
        return found[0] if found else ""

    def take(self) -> str:
        token = self.peek()
        self.at += len(token)
        return token

    def row(self, end: str = "") -> str:
        """What stands before `end`, which is taken too."""
        items = []
        while (token := self.peek()) != end:
            if not token:
                raise ValueError(f"{end!r} is missing in the formula {self.tex!r}")
            items.append(self.with_scripts())
        self.take()
        return f"<mrow>{''.join(items)}</mrow>"

    def cases(self) -> str:
        """A brace, and a line for each case: the value, and where it holds."""
        if self.raw() != "cases":
            raise ValueError(f"docs/mathml.py knows \\begin{{cases}} alone, in {self.tex!r}")
        table, cells, items = "", "", ""
        while (token := self.peek()) != r"\end":
            if not token:
                raise ValueError(f"\\end is missing in the formula {self.tex!r}")
            if token in ("&", r"\\"):
                cells, items = f"{cells}<mtd>{items}</mtd>", ""
                self.take()
            else:
                items += self.with_scripts()
            if token == r"\\":
                table, cells = f"{table}<mtr>{cells}</mtr>", ""
        self.take()
        self.raw()
        lines = f"{table}<mtr>{cells}<mtd>{items}</mtd></mtr>"
        return f'<mo stretchy="true">{{</mo><mtable columnalign="left">{lines}</mtable>'

    def with_scripts(self) -> str:
        limits = self.peek() in (r"\sum", r"\underbrace")
        base, below, above = self.atom(), "", ""
        while (token := self.peek()) in ("_", "^", "'") and token:
            self.take()
            if token == "_":
                below = self.argument()
            else:
                above += self.argument() if token == "^" else "<mo>′</mo>"
        above = f"<mrow>{above}</mrow>" if above else ""
        kind = ("under" * bool(below) + "over" * bool(above)) if limits else (
            "sub" * bool(below) + "sup" * bool(above)
        )  # fmt: skip
        return f"<m{kind}>{base}{below}{above}</m{kind}>" if kind else base

    def raw(self) -> str:
        """The letters of a {group}, spaces and all."""
        if self.take() != "{":
            raise ValueError(f"a word in braces is missing in the formula {self.tex!r}")
        stop = self.tex.index("}", self.at)
        text, self.at = self.tex[self.at : stop], stop + 1
        return text

    def fence(self, attributes: str) -> str:
        token = self.take()
        sign = _SIGNS.get(token[1:], token) if token.startswith("\\") else token
        return "" if sign == "." else f"<mo {attributes}>{_safe(sign)}</mo>"

    def argument(self) -> str:
        """What a script or a fraction takes: a group, a word, or one digit of several."""
        if self.peek().isdigit():
            self.at += 1
            return f"<mn>{self.tex[self.at - 1]}</mn>"
        return self.atom()

    def atom(self) -> str:
        token = self.take()
        name = token[1:] if token.startswith("\\") else ""
        grows = 'stretchy="true"'
        if token == "{":
            return self.row("}")
        if name in ("frac", "tfrac"):
            return f"<mfrac>{self.argument()}{self.argument()}</mfrac>"
        if name == "sqrt":
            return f"<msqrt>{self.argument()}</msqrt>"
        if name in _ACCENTS:
            return f'<mover accent="true">{self.atom()}<mo>{_ACCENTS[name]}</mo></mover>'
        if name == "begin":
            return f"<mrow>{self.cases()}</mrow>"
        if name == "underbrace":
            return f"<munder>{self.atom()}<mo {grows}>⏟</mo></munder>"
        if name == "text":
            words = self.raw().replace(" ", "\N{NO-BREAK SPACE}")  # else dropped at the ends
            return f"<mtext>{_safe(words)}</mtext>"
        if name in ("mathrm", "operatorname"):
            body = self.raw() if self.peek() == "{" else self.take()
            space = '<mspace width="0.17em"/>' if name == "operatorname" else ""
            return f'{space}<mi mathvariant="normal">{_safe(body)}</mi>'
        if name == "mathbb":
            return f"<mi>{_DOUBLE[self.raw() if self.peek() == '{' else self.take()]}</mi>"
        if name in _SIZES:
            size = _SIZES[name]
            return self.fence(f'stretchy="true" minsize="{size}" maxsize="{size}"')
        if name == "left":
            parts = self.fence(grows), self.row(r"\right"), self.fence(grows)
            return f"<mrow>{''.join(parts)}</mrow>"
        if name in _SPACES:
            return f'<mspace width="{_SPACES[name]}"></mspace>'
        if name in _FUNCTIONS:
            return f"<mi>{name}</mi>" + ("" if self.peek() == "(" else '<mspace width="0.17em"/>')
        if name in _LARGE:
            return f"<mo>{_LARGE[name]}</mo>"
        if name in _LETTERS:
            return f"<mi>{_LETTERS[name]}</mi>"
        if name and name not in _SIGNS:
            raise ValueError(f"docs/mathml.py does not know {token} in the formula {self.tex!r}")
        if token.isdigit():
            return f"<mn>{token}</mn>"
        if token.isalpha():
            return f"<mi>{token}</mi>"
        return f'<mo stretchy="false">{_safe(_SIGNS.get(name or token, token))}</mo>'


def _safe(text: str) -> str:
    """As HTML, in which Markdown finds no mark of its own."""
    return re.sub(r"[*_|`\[\]\\]", lambda found: f"&#{ord(found[0])};", escape(text))
