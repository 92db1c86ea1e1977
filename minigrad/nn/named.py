"""Arguments by PyTorch's names, F.linear(input=x, weight=w) and layer(input=x), as by our own."""

from collections.abc import Collection
from functools import cache, wraps
from inspect import signature
from typing import Any

from ..backends.dtypes import plain_floats
from ..engine.errors import describe
from ..engine.help import signature_error
from ..engine.primitive import Primitive
from ..engine.rule import in_own_names
from ..tensor_api.help import Options, no_operand, of_call, several_tensors, without_call_context

# PyTorch's name -> ours; the two of one axis are taken in either spelling.
_OURS = {
    "input": ("x", "indices"), "input_": ("x",), "target_": ("target",), "tensor": ("x",),
    "log_input": ("x",), "input1": ("a",), "input2": ("b",), "weight": ("w",), "bias": ("b",),
    "query": ("q",), "key": ("k",), "value": ("v",), "axis": ("dim",), "keepdims": ("keepdim",),
}  # fmt: skip
_BEFORE_REDUCTION = {"size_average", "reduce"}


@cache
def other_names(own: tuple[str, ...]) -> dict[str, str]:
    """PyTorch's names for what a function's arguments are called. Its own come first: threshold's
    `value` is no attention's.
    """
    heres = {name: next((here for here in _OURS[name] if here in own), None) for name in _OURS}
    return {name: here for name, here in heres.items() if here and name not in own}


def keywords_of_layer(forward: Any, given: dict[str, Any]) -> dict[str, Any]:
    """The keywords that a layer is called with, by its own names; modules of others keep theirs."""
    code = getattr(forward, "__code__", None)  # reading a signature takes longer than most layers
    if code is None or not is_of_library(forward):
        return given
    own = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return in_own_names(given, other_names(own))


def refusal(layer: Any, error: Exception, args: tuple, kwargs: dict[str, Any]) -> str:
    """The message where layer(*args, **kwargs) failed for an unknown keyword, or for an argument
    that is None, text or a module. "" otherwise: the error itself is shown.
    """
    forward, kind = layer.forward, type(layer).__name__
    if isinstance(error, TypeError):
        better = signature_error(error, forward, args, kwargs)
        if better is not error:
            return f"{kind}.{better}"
    if not is_of_library(forward) or forward.__module__.endswith(".containers"):
        return ""  # containers pass on what they are given, and the layer inside has spoken
    parameters = signature(forward).parameters
    try:
        given = signature(forward).bind(*args, **kwargs).arguments
    except TypeError:
        return ""
    needed = [(n, given[n]) for n, p in parameters.items() if p.default is p.empty and n in given]
    hint = no_operand(needed, optional=())
    if not (hint or getattr(error, "explained", False)):
        hint = several_tensors(needed)
    call = ", ".join([f"{name}: {describe(x)}" for name, x in given.items()])
    return f"{kind}({call}): {hint.removeprefix('; ')}" if hint else ""


def of_layer(layer: Any, error: Exception, args: tuple, kwargs: dict[str, Any]) -> Exception:
    """The error to raise where layer(*args, **kwargs) failed. It has this call as its context,
    unless the module is a user's or passes its arguments on.
    """
    if said := refusal(layer, error, args, kwargs):
        in_context = TypeError(said)
        in_context.__suppress_context__ = True  # as `from None` does
        return in_context
    forward = layer.forward
    if not is_of_library(forward) or forward.__module__.endswith(".containers"):
        below = error.__traceback__ and error.__traceback__.tb_next
        return error.with_traceback(below)  # `raise` puts the frame of the call on top again
    return of_call(error, forward, args, kwargs, type(layer).__name__)


def is_of_library(forward: Any) -> bool:
    """Whether a method was written here, and not in a user's subclass."""
    return (getattr(forward, "__module__", None) or "").startswith(_HERE)


_HERE = __name__.rpartition(".")[0]


def by_pytorchs_names(fn: Any, name: str) -> Any:
    """fn as nn.functional's `name`: it takes PyTorch's names of arguments too, and its errors show
    the call. An op stays the op, and learns the names.
    """
    own = tuple(signature(fn).parameters)
    others = other_names(own)
    if isinstance(fn, Primitive):
        fn.other_names = others
        return fn
    # written there, it takes NumPy's numbers as Python's here; `composite` does so itself
    inner = plain_floats(fn) if fn.__module__ == f"{_HERE}.functional" else without_call_context(fn)
    options = Options(inner)

    @wraps(inner)
    def called(*args: Any, **kwargs: Any) -> Any:
        if kwargs:
            kwargs = _without_old_words(own, in_own_names(kwargs, others))
        try:
            y = inner(*args, **kwargs)
        except Exception as error:
            raise of_call(error, inner, args, kwargs, name)  # noqa: B904 (it knows its cause)
        options.check(name, args, kwargs)
        return y

    called.__module__, called.__name__, called.__qualname__ = f"{_HERE}.functional", name, name
    return called


def _without_old_words(own: Collection[str], given: dict[str, Any]) -> dict[str, Any]:
    """PyTorch's options before `reduction`, as reduction; options without effect are dropped."""
    if "reduction" in own and not _BEFORE_REDUCTION.isdisjoint(given):
        mean, reduce = given.pop("size_average", None), given.pop("reduce", None)
        if not mean is reduce is None:
            whole = "sum" if mean is False else "mean"
            given["reduction"] = "none" if reduce is False else whole
    given.pop("_stacklevel", None)
    if given.get("out", given) is None:  # any other is an error that says what to do
        del given["out"]
    return given
