"""How layers, optimizers and schedules are made: errors that teach, in the place of Python's."""

import inspect
from typing import Any

from .errors import describe


class Making:
    """Base: a wrong argument is named, beside those there are.

    So is a tensor among the options of a layer: nn.MSELoss(x, y) where nn.MSELoss()(x, y) is meant.
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        if args or kwargs:  # else __init__ says what it misses; pickle and copy pass nothing
            _check(cls, args, kwargs)
        return super().__new__(cls)


def _check(cls: type, args: tuple, kwargs: dict) -> None:
    """TypeError where cls(*args, **kwargs) cannot be."""
    init = cls.__init__  # type: ignore[misc]
    if init is object.__init__:  # which passes over arguments where there is a __new__
        init = _no_arguments
    signature = inspect.signature(init, follow_wrapped=False)  # a wrapper may take others
    own = [*signature.parameters][1:]
    try:
        given = signature.bind(None, *args, **kwargs).arguments
    except TypeError as error:
        said, misplaced = str(error), [x for x in (*args, *kwargs.values()) if _holds_numbers(x)]
    else:
        misplaced = _among_options(signature, given) if _is_ours(init) else []
        said = (
            f"{misplaced[0]} is a tensor, and the option wants a plain value" if misplaced else ""
        )
    if not said:
        return
    parts = [describe(x) for x in args] + [f"{name}={describe(x)}" for name, x in kwargs.items()]
    its = "it takes no arguments"
    if own:
        its = f"its argument{'s are' if len(own) > 1 else ' is'} {', '.join(own)}"
    call = f"{cls.__name__}({', '.join(parts)})"
    hint = ""
    if misplaced and callable(getattr(cls, "forward", None)):
        hint = f". A layer is made first and called then: layer = {cls.__name__}(...), layer(x)"
    raise TypeError(f"{call}: {said}; {its}{hint}")


def _no_arguments(self: Any) -> None:
    pass


def _is_ours(init: Any) -> bool:
    return init.__module__.partition(".")[0] == __name__.partition(".")[0]


def _holds_numbers(x: Any) -> bool:
    """Whether x is a tensor or an array of several numbers."""
    return getattr(x, "ndim", 0) > 0 and hasattr(x, "dtype")


def _among_options(signature: inspect.Signature, given: dict[str, Any]) -> list[str]:
    """Arguments that are arrays, where the default is one number, word or truth value."""
    return [
        name
        for name, x in given.items()
        if isinstance(signature.parameters[name].default, bool | int | float | str)
        and _holds_numbers(x)
    ]
