"""A module: parameters, buffers and submodules under one name, with a forward."""

import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Self

import numpy as np

from ..engine import events, modes
from ..engine.errors import describe
from ..modes.scopes import scope
from ..tensor_api.help import SignatureOfInit, with_class_context
from ..tensor_api.tensor import Tensor
from .arguments import check_arguments
from .hooks import ModuleHooks, call_with_hooks
from .named import is_of_library, keywords_of_layer, of_layer
from .parameter import Buffer, Parameter, zero_grads
from .state import ModuleState, at, join, move, require_entry, require_kind
from .summary import summary_of


class Module(ModuleHooks, ModuleState):
    """Base of layers and models. A subclass sets attributes and defines `forward`.

        class Net(nn.Module):
            def __init__(self):
                self.hidden = nn.Linear(64, 32)
                self.out = nn.Linear(32, 10)

            def forward(self, x):
                return self.out(mg.relu(self.hidden(x)))

    Attributes that are parameters or modules are found by themselves. A module inside a plain list
    is refused: use nn.Sequential or nn.ModuleList. While a listener (profile, graph dump) is on,
    calling a module opens a scope with its attribute's name; the outermost one has its class's
    name. A ModuleList or ModuleDict is not called, and its entries have scopes such as "layers.0".
    """

    __signature__ = SignatureOfInit()
    training = True
    _scope = ""  # the attribute under which a parent holds this module
    _buffers: tuple[str, ...] = ()
    _transient: tuple[str, ...] = ()  # buffers that state_dict leaves out

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "__init__" in vars(cls) and is_of_library(cls):
            cls.__init__ = with_class_context(cls.__init__)  # type: ignore[method-assign]

    def __new__(cls, /, *args: Any, **kwargs: Any) -> Self:
        if args or kwargs:  # neither: a copy, or an __init__ that will say what it misses
            check_arguments(cls, args, kwargs)
        new = super().__new__
        return new(cls) if new is object.__new__ else new(cls, *args, **kwargs)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The computation of the module; subclasses define it."""
        raise NotImplementedError(f"{type(self).__name__} has no forward; define forward(self, x)")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._hooks:
            args, call = (self, *args), call_with_hooks
        else:
            call = self.forward
        if kwargs:
            kwargs = keywords_of_layer(self.forward, kwargs)
        if modes.active and not self._hooks and (run := modes.state.pending) is not None:
            call = partial(run.inside, self, call)
        try:
            if events.listeners:
                with scope(self._scope or type(self).__name__):
                    return call(*args, **kwargs)
            return call(*args, **kwargs)
        except (TypeError, ValueError, AttributeError, IndexError) as error:
            raise of_layer(self, error, args[bool(self._hooks) :], kwargs)  # noqa: B904
        except RecursionError as error:
            raise _too_deep(self, error) from None

    # -- attributes --------------------------------------------------------------------------

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, Parameter):
            value.name = name
            self._forget_buffer(name)
        elif value is not None and isinstance(vars(self).get(name), Parameter):
            raise TypeError(
                f"{type(self).__name__}.{name} is a parameter, and a {type(value).__name__} in its "
                "place would be neither trained nor saved as one; assign nn.Parameter(value), or "
                f"write the values into it: with mg.no_grad(): module.{name}[...] = value"
            )
        elif isinstance(value, Module):
            value._enter_scope(name)
            self._forget_buffer(name)
            for path, parameter in value.named_parameters():
                parameter.name = f"{name}.{path}"
        elif isinstance(value, list | tuple) and any(isinstance(v, Module) for v in value):
            raise TypeError(
                f"{type(self).__name__}.{name}: modules in a plain {type(value).__name__} would "
                "not be found, so not trained or saved; use nn.ModuleList(modules) or "
                "nn.Sequential(*modules), which can be indexed and iterated over"
            )
        elif isinstance(value, bool) and name in ("train", "eval"):
            raise TypeError(
                f"{type(self).__name__}.{name} is a method: call it, module.train() or "
                f"module.eval(), instead of module.{name} = {value}"
            )
        elif isinstance(value, Buffer):
            self._keep_buffer(name, value.persistent)
        elif name in self._buffers:
            require_kind(self, name, value, Tensor, "buffer")
        super().__setattr__(name, value)

    def _enter_scope(self, name: str) -> None:
        """From now on a parent holds this module under this name."""
        self._scope = name

    def __delattr__(self, name: str) -> None:
        super().__delattr__(name)
        self._forget_buffer(name)

    def _forget_buffer(self, name: str) -> None:
        if name in self._buffers:
            self._buffers = tuple([n for n in self._buffers if n != name])
            self._transient = tuple([n for n in self._transient if n != name])

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Keep a tensor that is state but not learned (running statistics, a mask).

        `persistent=False` leaves it out of state_dict.
        """
        require_entry(self, name, tensor, Tensor, "buffer")
        setattr(self, name, tensor)
        self._keep_buffer(name, persistent)

    def _keep_buffer(self, name: str, persistent: bool) -> None:
        self._forget_buffer(name)  # it may be registered anew
        self._buffers = (*self._buffers, name)
        if not persistent:
            self._transient = (*self._transient, name)

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """The same as setting the attribute; None for a parameter that is left out."""
        require_entry(self, name, param, Parameter, "parameter")
        setattr(self, name, param)

    def register_module(self, name: str, module: "Module | None") -> None:
        """The same as setting the attribute, for a name that is made in code."""
        require_entry(self, name, module, Module, "module")
        setattr(self, name, module)

    add_module = register_module

    # -- walks: each thing once, under the first path that leads to it -------------------------

    def _held(self) -> list[tuple[str, "Module"]]:
        """(name, module) of the modules held directly, one of several names by each of them."""
        return [(name, value) for name, value in vars(self).items() if isinstance(value, Module)]

    def named_children(self) -> Iterator[tuple[str, "Module"]]:
        """(name, module) of the modules held directly."""
        seen: set[int] = set()
        for name, child in self._held():
            if id(child) not in seen:
                seen.add(id(child))
                yield name, child

    def children(self) -> Iterator["Module"]:
        """The modules held directly."""
        return (child for _, child in self.named_children())

    def named_modules(
        self, memo: set | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, "Module"]]:
        """(path, module) of this module ("") and all below it, parents first.

        memo is a set of modules to pass over, to which those met are added. With
        remove_duplicate=False a module comes by every path to it; none inside itself.
        """
        seen = {id(module) for module in memo or ()}
        stack: list[tuple[str | None, Module]] = [(prefix, self)]
        while stack:
            path, module = stack.pop()
            if path is None:  # all below has been given
                seen.discard(id(module))
            elif id(module) not in seen:
                seen.add(id(module))
                if memo is not None:
                    memo.add(module)
                yield path, module
                below = [(join(path, name), child) for name, child in module._held()]
                stack.extend([(None, module)] * (not remove_duplicate))
                stack.extend(reversed(below))

    def modules(self, remove_duplicate: bool = True) -> Iterator["Module"]:
        """This module and all below it."""
        return (module for _, module in self.named_modules(remove_duplicate=remove_duplicate))

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """(path, parameter); one used in two places comes once, unless remove_duplicate=False.

        With recurse=False only those that this module holds itself; with remove_duplicate=False
        each by every path to it.
        """
        held = lambda module: [x for x in vars(module).items() if isinstance(x[1], Parameter)]
        return self._named_below(held, prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """The parameters, for an optimizer: optim.SGD(model.parameters())."""
        return (parameter for _, parameter in self.named_parameters(recurse=recurse))

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """(path, buffer), as named_parameters; buffers that are None are left out."""
        held = lambda module: [(name, getattr(module, name)) for name in module._buffers]
        return self._named_below(held, prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """The buffers of this module and all below it."""
        return (buffer for _, buffer in self.named_buffers(recurse=recurse))

    def _named_below(
        self, held: Callable, prefix: str, recurse: bool, remove_duplicate: bool
    ) -> Iterator[tuple[str, Any]]:
        """(path, tensor) of all that the modules hold, by held(module) -> [(name, tensor)]."""
        seen: set[int] = set()
        below = self.named_modules(None, prefix, remove_duplicate) if recurse else [(prefix, self)]
        for path, module in below:
            for name, value in held(module):
                if value is not None and not (remove_duplicate and id(value) in seen):
                    seen.add(id(value))
                    yield join(path, name), value

    def get_submodule(self, target: str) -> "Module":
        """The module at a path such as "encoder.layers.0"; "" is this one. PathError if none is."""
        return at(self, target, Module, "module")

    def get_parameter(self, target: str) -> Parameter:
        """The parameter at a path such as "encoder.layers.0.weight"; PathError if none is."""
        return at(self, target, Parameter, "parameter")

    def get_buffer(self, target: str) -> Tensor:
        """The buffer at a path such as "norm.running_mean"; PathError if none is."""
        return at(self, target, Tensor, "buffer")

    def set_submodule(self, target: str, module: "Module", strict: bool = False) -> None:
        """Put a module at a path such as "encoder.layers.0", replacing one or as a new one.

        With strict=True there must be one already: PathError else.
        """
        if not isinstance(module, Module) or not target:
            raise TypeError(
                f"{type(self).__name__}.set_submodule: needs a path and a module, got {target!r} "
                f"and {type(module).__name__}"
            )
        path, _, name = target.rpartition(".")
        parent = self.get_submodule(path)
        if strict or vars(parent).get(name) is not None:
            self.get_submodule(target)
        parent.register_module(name, module)

    def apply(self, fn: Callable[["Module"], Any]) -> "Module":
        """Call fn on every module below this one, children first, then on this one itself."""
        order: list[Module] = []
        seen: set[int] = set()
        stack: list[tuple[Module, bool]] = [(self, False)]
        while stack:
            module, is_reached = stack.pop()  # all below it has been given then
            if is_reached:
                order.append(module)
            elif id(module) not in seen:
                seen.add(id(module))
                stack.append((module, True))
                stack.extend((child, False) for _, child in reversed(module._held()))
        for module in order:
            fn(module)
        return self

    # -- modes -------------------------------------------------------------------------------

    def train(self, mode: bool = True) -> "Module":
        """Set training mode (dropout drops) on this module and all below it; returns the module."""
        if not isinstance(mode, bool | int | np.bool_):
            raise TypeError(
                f"train(mode): mode is True or False, got {describe(mode)}; train() only sets the "
                "mode, and mg.train.Trainer(model, loss, optimizer) trains"
            )
        for module in self.modules():
            module.training = bool(mode)
        return self

    def eval(self) -> "Module":
        """Set evaluation mode: train(False)."""
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> "Module":
        """Freeze (False) or unfreeze every parameter; returns the module."""
        for parameter in self.parameters():
            parameter.requires_grad = requires_grad
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget every parameter's gradient, or set it to zeros with set_to_none=False."""
        zero_grads(self.parameters(), set_to_none, "zero_grad()")

    # -- dtype and device ---------------------------------------------------------------------

    def to(
        self, *args: Any, device: str | None = None, dtype: Any = None, non_blocking: bool = False
    ) -> "Module":
        """Move floating parameters and buffers to a dtype, all of them to a device; in place.

        to("cuda:0"), to(np.float64), to(device=..., dtype=...). Parameters stay the same objects,
        so an optimizer may be made before; gradients move with them. non_blocking has no effect.
        """
        for arg in args:
            if isinstance(arg, str) and arg.partition(":")[0] in ("cpu", "cuda"):
                device = arg
            else:
                dtype = arg
        move(type(self).__name__, [*self.parameters(), *self.buffers()], device, dtype)
        return self

    def float(self) -> "Module":
        """to(float32)"""
        return self.to(dtype="float32")

    def double(self) -> "Module":
        """to(float64)"""
        return self.to(dtype="float64")

    def half(self) -> "Module":
        """to(float16)"""
        return self.to(dtype="float16")

    def bfloat16(self) -> "Module":
        """to(bfloat16)"""
        return self.to(dtype="bfloat16")

    def type(self, dst_type: Any) -> "Module":
        """Make all parameters and buffers of a dtype, those of integers too; in place."""
        tensors = [*self.parameters(), *self.buffers()]
        move(type(self).__name__, tensors, None, dst_type, floating=False)
        return self

    def to_empty(self, *, device: str | None, recurse: bool = True) -> "Module":
        """Move to a device without the values: the parameters are arbitrary then."""
        tensors = [*self.parameters(recurse), *self.buffers(recurse)]
        move(type(self).__name__, tensors, device, None)
        return self

    def cpu(self) -> "Module":
        """to("cpu")"""
        return self.to(device="cpu")

    def cuda(self, device: int = 0) -> "Module":
        """to("cuda:0")"""
        return self.to(device=f"cuda:{device}")

    # -- looks -------------------------------------------------------------------------------

    def extra_repr(self) -> str:
        """The text between the brackets in repr: `in_features=64, out_features=10`."""
        return ""

    def summary(self, *inputs: Any) -> str:
        """A table of the modules with their parameters; given inputs, with result shapes too."""
        return summary_of(self, inputs)

    def __repr__(self) -> str:
        lines: list[str] = []
        stack: list[tuple[str, Module | None]] = [("", self)]
        opened: dict[int, Module] = {}  # by id, those with open brackets: a part may know its whole
        while stack:
            label, module = stack.pop()
            if module is None:  # all below an opened bracket has been written
                opened.popitem()
                lines.append("  " * len(opened) + ")")
                continue
            head = f"{'  ' * len(opened)}{label}{type(module).__name__}("
            if id(module) in opened:
                lines.append(head + "...)")
                continue
            head += module.extra_repr()
            children = module._held()
            lines.append(head if children else head + ")")
            if children:
                opened[id(module)] = module
                stack.append(("", None))
                stack.extend((f"({name}): ", child) for name, child in children[::-1])
        return "\n".join(lines)


def _too_deep(module: Module, error: RecursionError) -> RecursionError:
    """The error of Python's limit, once with what it means for modules."""
    if getattr(error, "explained", False):
        return error
    explained = RecursionError(
        f"{type(module).__name__}: Python's limit of {sys.getrecursionlimit()} nested calls was "
        "reached. Each module inside another takes about two of them (a chain of ops takes none): "
        "put layers side by side, as in nn.Sequential(*layers), or raise the limit with "
        "sys.setrecursionlimit. If the nesting is not deep, a forward calls itself."
    )
    explained.explained = True  # type: ignore[attr-defined]
    return explained
