"""What the signature of a forward or a rule says of it."""

import inspect
from collections.abc import Callable


def argument_names(fn: Callable) -> tuple[str, ...]:
    """What a function asks for by name."""
    return tuple(inspect.signature(fn).parameters)


def split_signature(fn: Callable, named: str | None) -> tuple[tuple, list[str], dict, bool]:
    """(arrays, optional ones, defaults of the static parameters, variadic) of a forward.

    Positional arguments without a default are arrays, unless `named` says which ones are. A static
    parameter without a default has `inspect.Parameter.empty` for one: a call always gives it.
    """
    parameters = inspect.signature(fn).parameters
    starred = [name for name, p in parameters.items() if p.kind is p.VAR_POSITIONAL]
    if named is not None:
        arrays = named.split()
    else:
        plain = [p for p in parameters.values() if p.kind is p.POSITIONAL_OR_KEYWORD]
        arrays = starred or [p.name for p in plain if p.default is p.empty]
    optional = [name for name in arrays if parameters[name].default is None]
    defaults = {name: p.default for name, p in parameters.items() if name not in arrays}
    return tuple(arrays), optional, defaults, bool(starred)
