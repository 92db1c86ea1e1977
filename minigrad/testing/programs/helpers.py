"""Functions that programs call besides the ops: a Function, primitives, parts without a
derivative."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np

import minigrad as mg

from ...engine.primitive import Primitive


class Swish(mg.Function):
    """x / (1 + exp(−x)), by its own rules."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * mg.sigmoid(x)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        s = mg.sigmoid(x)
        return g * (s + x * s * (1 - s))


class Gate(mg.Function):
    """The same, but it saves an array that is neither argument nor result: so it has no second
    derivative."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        s = mg.sigmoid(x)
        ctx.save_for_backward(x, s)
        return x * s

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        x, s = ctx.saved_tensors
        return g * (s + x * s * (1 - s))


def swish(x: Any) -> Any:
    return Swish.apply(x)


def gate(x: Any) -> Any:
    return Gate.apply(x)


sine_of_product = Primitive(lambda a, b: np.sin(a * b), "sine_of_product", ["a", "b"])
sine_of_product.vjp("a")(lambda g, a, b: g * np.cos(a * b) * b)
sine_of_product.vjp("b")(lambda g, a, b: g * np.cos(a * b) * a)

# x·exp(−x²) keeps exp(−x²) for its rule
bump = Primitive(lambda x: (x * np.exp(-x * x), np.exp(-x * x)), "bump", ["x"],
                 residuals=["kept"])  # fmt: skip


@bump.vjp("x")
def _bump_dx(g: Any, x: Any, kept: Any) -> Any:
    if not isinstance(x, np.ndarray):
        kept = np.exp(-x * x)  # a residual is a constant; the second derivative needs its slope
    return g * (1 - 2 * x * x) * kept


def detach(x: Any) -> Any:
    """x as a constant."""
    return x.detach()


def unrecorded(f: Callable, x: Any) -> Any:
    """f(x) as a constant: nothing is recorded."""
    with mg.no_grad():
        return f(x)


OWN: dict[str, Any] = {
    "swish": swish, "gate": gate, "sine_of_product": sine_of_product, "bump": bump,
    "detach": detach, "unrecorded": unrecorded,
}  # fmt: skip


def names() -> dict[str, Any]:
    """The global names of a program."""
    return {"np": np, "mg": mg, **OWN}


def imports_of(source: str) -> str:
    """The lines that import the functions that a program calls."""
    used = [name for name in OWN if re.search(rf"\b{name}\b", source)]
    own = f"from {__name__} import {', '.join(used)}\n" if used else ""
    return f"import numpy as np, minigrad as mg\nfrom {__package__} import compare\n{own}"
