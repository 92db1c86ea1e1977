"""Ops whose forward is given device by device, and the list of all that was added to ops.

@mg.extension
def scaled_sum(x, *, scale=1.0):
    '''y = scale · Σ x ;  gx = scale · g, broadcast'''

@scaled_sum.implementation("cpu")
def on_cpu(x, *, scale=1.0): ...

@scaled_sum.vjp("x")
def scaled_sum_dx(g, x_shape, scale): ...

weights = scaled_sum.cache("weights", max_entries=64, max_bytes=1 << 20)
"""

from collections.abc import Callable
from typing import Any

from ..engine.primitive import Primitive, primitive
from ..engine.registry import op as registry
from .variants import change, listed

__all__ = ["extension", "extensions"]


def extension(fn: Callable | None = None, **options: Any) -> Any:
    """Declare an op by a function without a body: its signature, name and docstring.

    Options are those of mg.primitive. A call on a device without an @op.implementation is an
    ImplementationError, a backward without an @op.vjp a RuleError: never a zero.
    """
    if fn is None:
        return lambda declared: extension(declared, **options)
    entry: Primitive = primitive(fn, **options)
    entry.reference = None
    change(entry, ())
    entry.__doc__ = fn.__doc__
    return entry


def extensions() -> dict[str, dict[str, Any]]:
    """Every op that was given implementations or caches, by name.

    implementations   the devices, "any" for the op's own forward
    rules             the inputs that have a derivative rule
    caches            name -> entries, bytes, hits, misses, evictions and limits
    """
    found = {}
    for entry in registry:
        caches = getattr(entry, "caches", [])
        given = [v for v in listed(entry) if v.origin]
        declared = isinstance(entry, Primitive) and entry.reference is None
        if caches or given or declared:
            found[entry.name] = {
                "implementations": sorted({v.on for v in given}) + ["any"] * (not declared),
                "rules": _rules(entry),
                "caches": {cache.name: cache.stats() for cache in caches},
            }
    return found


def _rules(entry: Any) -> list[str]:
    if entry.joint is None:
        return [name for name in entry.arrays if name in entry.rules]
    return [name for name in entry.arrays if name not in entry.constants]
