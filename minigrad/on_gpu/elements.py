"""Elementwise ops on a GPU, with a kernel for each row of the calculus table, and casts."""

from collections.abc import Callable
from functools import cache, partial
from typing import Any

from ..backends.device import is_contiguous
from ..custom.rule_variants import add_to_rules
from ..custom.variants import Variant, add
from ..fusion import launch
from ..fusion.rules import contributions, elementwise_ops, fused_forward
from .install import on_gpu


def install() -> None:
    for entry in elementwise_ops():
        add(entry, Variant(partial(fused_forward, entry), "cuda", name="kernel"))
    add_to_rules(None, Variant(contributions, "cuda", name="kernel of the rules"))


@on_gpu("cast")
def cast(x: Any, dtype: Any = None) -> Any:
    """x in another real floating dtype; each thread moves 16 bytes of the wider one.

    CuPy's own kernel is slower, since it moves one element a thread. It serves complex numbers, and
    views, whose layout it keeps.
    """
    if x.dtype == dtype or "c" in x.dtype.kind + dtype.kind:
        return None
    if not is_contiguous(x) and any(x.strides):
        return None
    ys = launch.run(("cast", dtype), _to(dtype), [x])
    return None if ys is None else ys[0]


@cache
def _to(dtype: Any) -> Callable:
    """A cast, as the expression of a kernel."""
    return lambda x: [x.astype(dtype)]
