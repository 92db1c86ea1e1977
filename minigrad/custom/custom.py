"""Function: an op as a class of two static methods, forward and backward, as in PyTorch.

    class Square(mg.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return 2 * x * g

    y = Square.apply(x)

No second mechanism: each call makes a `FunctionCall`, an op that goes through the doorway. Its
plan (`FunctionPlan`) saves what the forward asked for. An input or an output of the call is saved
as such. A recorded backward gets it linked to the graph and can be differentiated again.
"""

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any

from ..engine.errors import RuleError
from ..modes.recording import no_grad
from ..tensor_api.tensor import Tensor
from . import rule_hidden  # noqa: F401 (it enters itself into engine/rule.py)
from .function_call import kind_of

__all__ = ["Function", "once_differentiable"]


def _general(kind: Any) -> Callable[[tuple], Any]:
    return lambda args: kind(args).run()


make_call: Callable[[Any], Callable[[tuple], Any]] = _general  # seam A of Functions: see fast/


class Function:
    """Base of ops written as classes; call them with `apply`. All methods are static (or class).

    forward(ctx, *args)       computes the results; tensors arrive untracked. Results are tensors;
                              other values among them (None, numbers, strings) pass through. With
                              `setup_context(ctx, inputs, output)` it is forward(*args), and inputs
                              holds the default of each argument that was left out
    backward(ctx, *gs)        one gradient for each argument of forward, from one cotangent for each
                              result; None for anything that is not a tensor, or for a zero
                              gradient. A gradient of a shape to which the argument broadcasts is
                              summed
    jvp(ctx, *ts)             optional: the tangents of the results (by default from backward, by
                              transposition). A tensor without a tangent gets zeros
    vmap(info, in_dims, *args)  optional: (results, out_dims) for a batch of info.batch_size

    Without a backward a call that needs one is an error, never a zero.
    """

    def __init__(self, *_: Any, **__: Any) -> None:
        raise TypeError(f"{type(self).__name__} is not instantiated; call it with .apply(...)")

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for name in ("forward", "backward", "setup_context", "jvp", "vmap"):
            if name in vars(cls) and not isinstance(vars(cls)[name], staticmethod | classmethod):
                raise TypeError(f"{cls.__name__}.{name} must be a @staticmethod")
        cls._calls = {}
        if "forward" in vars(cls) or "setup_context" in vars(cls):
            cls._names, cls._defaults = _names_of(cls), _defaults_of(cls)

    _calls: dict[tuple[bool, ...], Callable] = {}  # `apply`, by which arguments are tensors
    _names: tuple[list[str], str] = ([], "args")  # of forward's arguments, and of the starred one
    _defaults: tuple = ()  # of forward's last arguments, where there is a setup_context

    @staticmethod
    def forward(ctx: Any, *args: Any) -> Any:
        """The results, from the arguments."""
        raise NotImplementedError("a Function needs a static method forward(ctx, *args)")

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: Any) -> None:
        """Optional: saves values, separately from the forward."""

    @staticmethod
    def backward(ctx: Any, *gs: Any) -> Any:
        """One gradient for each argument, from one for each result."""
        raise RuleError(
            f"{ctx._name} has no backward: give it a static method backward(ctx, *gs) that returns "
            "one gradient for each argument of forward, or detach its inputs",
            op=ctx._name,
        )

    @classmethod
    def defines(cls, name: str) -> bool:
        """Whether the class has this optional method."""
        return getattr(cls, name, None) is not getattr(Function, name, None)

    @classmethod
    def apply(cls, *args: Any) -> Any:
        """The results of forward(*args), recorded as one op with this class's name."""
        if cls._defaults:
            left_out = len(cls._names[0]) - len(args)
            if 0 < left_out <= len(cls._defaults):
                args = (*args, *cls._defaults[-left_out:])
        pattern = tuple([isinstance(x, Tensor) for x in args])
        call = cls._calls.get(pattern)
        if call is None:
            call = cls._calls[pattern] = make_call(kind_of(cls, pattern))
        return call(args)


_BY_POSITION = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def _names_of(cls: type[Function]) -> tuple[list[str], str]:
    """The names of forward's arguments, without ctx, and of its starred one."""
    parameters = [*inspect.signature(cls.forward).parameters.values()]
    if not cls.defines("setup_context"):
        parameters = parameters[1:]  # ctx
    starred = [p.name for p in parameters if p.kind is p.VAR_POSITIONAL]
    names = [p.name for p in parameters if p.kind in _BY_POSITION]
    return names, starred[0] if starred else "args"


def _defaults_of(cls: type[Function]) -> tuple:
    """The values that setup_context sees for arguments that were left out: forward's defaults."""
    if not cls.defines("setup_context"):
        return ()
    parameters = inspect.signature(cls.forward).parameters.values()
    defaults = [p.default for p in parameters if p.kind in _BY_POSITION]
    return tuple([value for value in defaults if value is not inspect.Parameter.empty])


def once_differentiable(backward: Callable) -> Callable:
    """Decorator of a backward that cannot itself be differentiated (it calls foreign code).

    Its gradients are right, and differentiating them is a RuleError, never a zero.
    """

    @wraps(backward)
    def run(ctx: Any, *gs: Any) -> Any:
        with no_grad():
            return backward(ctx, *gs)

    run.once_differentiable = True  # type: ignore[attr-defined]
    return run
