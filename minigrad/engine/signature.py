"""Reading signatures: the arrays and parameters of a forward, the names that a rule asks for."""

import inspect
from collections.abc import Callable
from typing import Any


def plain_name(name: Any) -> str:
    """The characters of a name, for source that is generated: a subclass of str may format itself
    as other ones. TypeError for what is no string.
    """
    if not isinstance(name, str):
        raise TypeError(f"a name must be a string, got {name!r:.40}")
    return str.__str__(name)


def argument_names(fn: Callable) -> tuple[str, ...]:
    """What a function asks for by name."""
    return tuple(map(plain_name, inspect.signature(fn).parameters))


def split_signature(fn: Callable, named: str | None) -> tuple[tuple, list[str], dict, bool]:
    """(arrays, optional ones, defaults of the static parameters, variadic) of a forward.

    Positional arguments without a default are arrays, unless `named` says which ones are. A static
    parameter without a default has `inspect.Parameter.empty` for one: a call always gives it.
    """
    parameters = inspect.signature(fn).parameters
    starred = [name for name, p in parameters.items() if p.kind is p.VAR_POSITIONAL]
    if named is not None:
        arrays = named.split()
        if unknown := [name for name in arrays if name not in parameters]:
            raise ValueError(
                f"{getattr(fn, '__name__', fn)}: arrays={named!r} names {unknown[0]!r}, and its "
                f"parameters are {', '.join(parameters)}"
            )
    else:
        plain = [p for p in parameters.values() if p.kind is p.POSITIONAL_OR_KEYWORD]
        arrays = starred or [p.name for p in plain if p.default is p.empty]
    optional = [name for name in arrays if parameters[name].default is None]
    defaults = {name: p.default for name, p in parameters.items() if name not in arrays}
    return tuple(arrays), optional, defaults, bool(starred)


def check_partials(name: str, forward: Any, partials: dict[str, Any]) -> None:
    """TypeError unless an elementwise op has one partial, or None, for each of its arguments."""
    arguments = _arguments_of(forward)
    wanted = " and ".join(f"d{argument}=" for argument in arguments)
    wanted = wanted or "dx= for x; da= and db= for a and b"
    if not partials:
        raise TypeError(
            f"{name}: an elementwise op needs a partial derivative for each argument, {wanted}: a "
            "function of what it names (dx=lambda y: y is that of exp), or None for a constant"
        )
    for keyword, partial in partials.items():
        if partial is not None and not callable(partial):
            raise TypeError(
                f"{name}: {keyword}={partial!r} is not a function; a partial is a function of what "
                f"it names, such as lambda y: y, or {keyword}=lambda: {partial!r}"
            )
    if arguments and len(arguments) != len(partials):
        raise TypeError(
            f"{name}: its forward has {len(arguments)} arguments, and {len(partials)} of them has "
            f"a partial ({', '.join(partials)}); give {wanted}, None for a constant"
        )


def _arguments_of(forward: Any) -> list[str]:
    """The arguments of an elementwise forward that a call gives by position; [] if unknown."""
    if count := getattr(forward, "nin", 0):
        return ["x"] if count == 1 else list("abcdefgh"[:count])
    try:
        parameters = inspect.signature(forward).parameters.values()
    except (TypeError, ValueError):  # of C, without a signature
        return []
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return []
    return [p.name for p in parameters if p.default is p.empty]


def in_own_names(given: dict[str, Any], others: dict[str, str]) -> dict[str, Any]:
    """The keywords of a call by the function's own names, for which `others` has other ones.

    What is given by both names stays twice, for the function to refuse.
    """
    own = {name: others.get(name, name) for name in given}
    return {name if own[name] in given else own[name]: x for name, x in given.items()}
