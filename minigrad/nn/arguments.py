"""Checks of the arguments that a layer is made with: names and kinds, from its annotations.

The first mistake with a layer is to give it tensors where it is made: nn.ReLU(x) would take x for
an option, and say nothing. So the annotations of the library's own layers are checked, as far as
they are plain: numbers, sizes, text. Annotations of other classes are their authors' business.
"""

import inspect
import operator
from collections.abc import Callable, Mapping
from types import FunctionType, UnionType
from typing import Any, get_args

import numpy as np

from ..backends.caches import cached
from ..backends.dtypes import is_truth
from ..engine.errors import describe
from ..tensor_api.help import unfit
from ..tensor_api.tensor import Tensor

_OURS = __name__.rpartition(".")[0]
_CALLED_THEN = "A layer is made with its options, and then called with tensors: nn.{0}(...)(x)"


def check_arguments(kind: type, args: tuple, kwargs: Mapping[str, Any]) -> None:
    """TypeError for arguments with which no module of this kind can be made."""
    init: Any = kind.__init__
    wanted = _signature_of(init)
    if wanted is None:
        return
    try:
        given = wanted.bind(None, *args, **kwargs).arguments
    except TypeError:
        said = unfit(kind.__name__, wanted, (None, *args), kwargs)
        called = any(isinstance(x, Tensor) for x in args)
        tail = f". {_CALLED_THEN.format(kind.__name__)}" if called else ""
        raise TypeError(said + tail) from None
    if getattr(init, "__module__", "").startswith(_OURS):
        for name, value in given.items():
            _check_kind(kind, name, value, wanted.parameters[name])


@cached("signatures of layers", max_entries=1024)
def _signature_of(init: Any) -> inspect.Signature | None:
    """The signature of an __init__, with self; None where Python knows none.

    To read a signature takes longer than to make most layers.
    """
    if init is object.__init__:
        return inspect.signature(lambda self: None)
    plain = isinstance(init, FunctionType)  # not one of C
    return inspect.signature(init, follow_wrapped=False) if plain else None


def _check_kind(kind: type, name: str, value: Any, option: inspect.Parameter) -> None:
    annotation = option.annotation
    choices = get_args(annotation) if isinstance(annotation, UnionType) else (annotation,)
    texts = [_PLAIN.get(choice) for choice in choices]
    if None in texts or any(text and text[1](value) for text in texts):
        return
    if value is None and option.default is None:
        return
    whole = " or ".join(text[0] for text in texts if text)
    tail = f". {_CALLED_THEN.format(kind.__name__)}" if _is_array(value) else ""
    raise TypeError(f"{kind.__name__}: {name} must be {whole}, got {describe(value)}{tail}")


def at_least_zero(owner: str, **options: Any) -> None:
    """Refuse negative (and NaN) options by name, and what is not a number."""
    for name, value in options.items():
        if isinstance(value, str | None | tuple | list) or getattr(value, "size", 1) != 1:
            raise TypeError(f"{owner}: {name} must be a number, 0 or more; got {value!r}")
        if not value >= 0:
            raise ValueError(f"{owner}: {name} must be 0 or more, got {value}")


def _is_array(value: Any) -> bool:
    return isinstance(value, Tensor | np.ndarray) and value.ndim > 0


def _is_whole(value: Any) -> bool:
    try:
        operator.index(value)
    except TypeError:
        return False
    return not isinstance(value, bool)


def _are_whole(value: Any) -> bool:
    return isinstance(value, list | tuple | range) and all(map(_is_whole, value))


# Annotation -> (what it asks for, whether a value will do). Of numbers and text only arrays are
# refused: the layers say themselves what a probability or a reduction can be.
_PLAIN: dict[Any, tuple[str, Callable[[Any], bool]]] = {
    int: ("an integer", _is_whole),
    tuple[int, ...]: ("a tuple of integers", _are_whole),
    bool: ("True or False", is_truth),
    float: ("a number", lambda value: not _is_array(value)),
    str: ("a string", lambda value: not _is_array(value)),
    type(None): ("None", lambda value: value is None),
}
