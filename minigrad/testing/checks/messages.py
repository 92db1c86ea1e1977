"""K21: errors are raised where they should be, and their text helps."""

import re

import numpy as np

from ...engine.primitive import Primitive
from ..case import Context, is_elementwise
from ..errors import DoesNotApply, GradcheckError
from ..function import as_tensors
from ..spec import OpSpec
from .base import check
from .sizes import first_sample, resized


@check("K21", "error samples: the type and the text", per="op", gradient=False)
def k21(spec: OpSpec, context: Context) -> int:
    """The spec's error samples; for every op, no arguments, and shapes that do not broadcast."""
    for sample in spec.errors:
        try:
            spec.call(*as_tensors(sample.args), **sample.params)
        except sample.error as error:
            if not re.search(sample.match, told(error)):
                raise GradcheckError(
                    f"{sample.name}: the message {told(error)!r} does not match {sample.match!r}"
                ) from error
        except Exception as error:
            raise GradcheckError(
                f"{sample.name}: {type(error).__name__} ({error}), expected {sample.error.__name__}"
            ) from error
        else:
            raise GradcheckError(f"{sample.name}: no {sample.error.__name__} was raised")
    return len(spec.errors) + without_arguments(spec) + unbroadcastable(spec, context)


def told(error: Exception) -> str:
    """The calls named in the error's notes, and its message. Without courtesy/, `in f(x)` is a
    note; with it, the call precedes the message."""
    calls = [note.removeprefix("in ") for note in getattr(error, "__notes__", ())]
    return ": ".join([*calls, str(error)])


def without_arguments(spec: OpSpec) -> int:
    """A call without arguments is a TypeError that names the op."""
    try:
        spec.call()
    except TypeError as error:
        named = isinstance(spec.call, Primitive) and not spec.call.variadic
        if named and spec.name not in told(error):
            raise GradcheckError(f"no arguments: {told(error)!r} does not name the op") from error
    except Exception as error:
        if not str(error):
            raise GradcheckError(f"no arguments: {type(error).__name__} without a text") from error
    return 1


def unbroadcastable(spec: OpSpec, context: Context) -> int:
    """Shapes (2,) and (3,) in an elementwise op: a ValueError that names the op and both shapes."""
    if not is_elementwise(spec):
        return 0
    try:
        sample = first_sample(spec, context)
    except DoesNotApply:
        return 0
    if len(sample.args) < 2 or not all(isinstance(x, np.ndarray) for x in sample.args):
        return 0
    args = resized(sample, [(2,), (3,), *[()] * (len(sample.args) - 2)])
    try:
        spec.call(*as_tensors(args), **sample.params)
    except ValueError as error:
        for word in (spec.name, "(2,)", "(3,)"):
            if word not in told(error):
                raise GradcheckError(
                    f"shapes (2,), (3,): {told(error)!r} lacks {word!r}"
                ) from error
        return 1
    raise GradcheckError("shapes (2,) and (3,) gave a result instead of a ValueError")
