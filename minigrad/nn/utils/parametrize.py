"""Parameters as functions of others: a weight that stays symmetric, of a low rank, of norm one.

    class Symmetric(nn.Module):
        def forward(self, x):
            return mg.triu(x) + mg.triu(x, 1).T

    layer = register_parametrization(nn.Linear(3, 3), "weight", Symmetric())
    layer.weight                                  # computed from what is learned:
    layer.parametrizations.weight.original        # a parameter, and so it is called in state_dict

Names are PyTorch's.
"""

from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from ...engine.errors import describe
from ...engine.versions import note_write
from ...modes.recording import no_grad
from ...tensor_api.create import as_tensor
from ...tensor_api.tensor import Tensor
from ..containers import ModuleDict, ModuleList
from ..derived import cached, class_before, derive, rules_of, underive
from ..module import Module
from ..parameter import Parameter

__all__ = [
    "ParametrizationList", "cached", "is_parametrized", "register_parametrization",
    "remove_parametrizations", "type_before_parametrizations",
]  # fmt: skip


class ParametrizationList(ModuleList):
    """The parametrizations of one tensor, called one after the other, and what is learned.

    That is `original`, or `original0`, `original1` ... where the first parametrization takes
    several tensors: where its right_inverse gives a tuple of them.
    """

    def __init__(self, modules: Iterable[Module], original: Tensor):
        super().__init__(modules)
        begun = _inverted(self, original, required=False)
        several = isinstance(begun, tuple | list)
        self.count = len(begun) if several else 0
        values = dict(zip(self._names(), begun if several else (begun,), strict=True))
        for name, value in values.items():
            _require_tensor(value, f"right_inverse of {type(self[0]).__name__}")
            kept = original
            if several:
                value = value.detach()
                learned = isinstance(original, Parameter)
                kept = Parameter(value, original.requires_grad) if learned else value
            elif value is not original:
                _put(original, value)
            if isinstance(kept, Parameter):
                setattr(self, name, kept)
            else:
                self.register_buffer(name, kept)

    def _names(self) -> list[str]:
        return [f"original{i}" for i in range(self.count)] if self.count else ["original"]

    def originals(self) -> list[Any]:
        """The inputs of the parametrizations: the learned tensors."""
        return [getattr(self, name) for name in self._names()]

    def forward(self) -> Any:
        """The tensor that the module shows."""
        first, *others = self._entries()
        x = first(*self.originals())
        for parametrization in others:
            x = parametrization(x)
        return x

    def right_inverse(self, value: Any) -> None:
        """Set the tensor to `value` (or the closest possible) by writing into the originals.

        They keep their dtypes.
        """
        given = _inverted(self, as_tensor(value), required=True)
        for x, new in zip(self.originals(), given if self.count else (given,), strict=True):
            _put(x, as_tensor(new, dtype=x.dtype))


class _Rule:
    """Reads a tensor from its parametrizations (see nn/derived.py)."""

    def __init__(self, name: str):
        self.name = name

    def __call__(self, module: Any) -> Any:
        return module.parametrizations[self.name]()

    def assign(self, module: Any, value: Any) -> None:
        module.parametrizations[self.name].right_inverse(value)


def register_parametrization(
    module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> Module:
    """Let module.<tensor_name>, a parameter or buffer, be parametrization(what is learned).

    A further one is called on the result of those before. If the parametrization has a
    `right_inverse(value)`, the tensor keeps its present value, and the attribute can be assigned.
    Otherwise the present value becomes the learned tensor. Unless `unsafe`, shape and dtype must
    stay what they are. Returns the module.
    """
    if not isinstance(parametrization, Module):
        raise TypeError(
            "register_parametrization: a parametrization is a module, whose forward computes the "
            f"tensor from the learned ones; got {describe(parametrization)}"
        )
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        rows = module.parametrizations[tensor_name]  # type: ignore[attr-defined]
        if not unsafe:
            with no_grad():
                before = getattr(module, tensor_name)
                after = parametrization(before)
                _require_same(type(parametrization).__name__, before, after)
                _require_inverse(parametrization, after)
        rows.append(parametrization)
        return module
    original = vars(module).get(tensor_name)
    known = isinstance(original, Parameter) or tensor_name in module._buffers
    if not isinstance(original, Tensor) or not known:
        there = [name for name, _ in module.named_parameters(recurse=False)]
        raise ValueError(
            f"register_parametrization: {type(module).__name__} has no parameter or buffer "
            f"{tensor_name!r}; its parameters are {there}"
        )
    before = Tensor(original.data.copy())
    with no_grad():
        rows = ParametrizationList([parametrization], original)
        try:
            if not unsafe:
                _require_same(type(parametrization).__name__, before, rows())
        except Exception:
            _put(original, before)
            raise
    all_rows = getattr(module, "parametrizations", None) or ModuleDict()
    all_rows[tensor_name] = rows
    module.parametrizations = all_rows  # type: ignore[attr-defined]
    derive(module, tensor_name, _Rule(tensor_name))
    return module


def remove_parametrizations(
    module: Module, tensor_name: str, leave_parametrized: bool = True
) -> Module:
    """Make module.<tensor_name> a plain parameter or buffer again; returns the module.

    It has the value that was computed last, or with leave_parametrized=False that of what was
    learned. It stays the parameter that an optimizer knows, where what is learned is one tensor.
    """
    if not is_parametrized(module, tensor_name):
        raise ValueError(
            f"remove_parametrizations: {tensor_name!r} of {type(module).__name__} has no "
            "parametrization"
        )
    rows = module.parametrizations[tensor_name]  # type: ignore[attr-defined]
    if rows.count and not leave_parametrized:
        raise ValueError(
            f"remove_parametrizations: {tensor_name!r} is computed from {rows.count} tensors, none "
            "of which could take its place; leave_parametrized=True keeps its value"
        )
    original, *others = rows.originals()
    if leave_parametrized:
        with no_grad():
            value = getattr(module, tensor_name).detach()
        if others:
            learned = any(x.requires_grad for x in (original, *others))
            is_parameter = isinstance(original, Parameter)
            original = Parameter(value.data.copy(), learned) if is_parameter else value
        else:
            _put(original, value)
    underive(module, tensor_name)
    del module.parametrizations[tensor_name]  # type: ignore[attr-defined]
    if not len(module.parametrizations):  # type: ignore[attr-defined]
        del module.parametrizations  # type: ignore[attr-defined]
    if isinstance(original, Parameter):
        setattr(module, tensor_name, original)
    else:
        module.register_buffer(tensor_name, original)
    return module


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Whether a tensor of the module, or any of them, has a parametrization."""
    names = [name for name, rule in rules_of(module).items() if isinstance(rule, _Rule)]
    return bool(names) if tensor_name is None else tensor_name in names


def type_before_parametrizations(module: Module) -> type:
    """The class of which the module was made."""
    return class_before(module)


def _inverted(rows: ParametrizationList, value: Any, required: bool) -> Any:
    """The originals of `value`: the inverses of the parametrizations, the last of them first."""
    with no_grad():
        for parametrization in reversed(rows._entries()):
            if hasattr(parametrization, "right_inverse"):
                try:
                    value = parametrization.right_inverse(value)
                    continue
                except NotImplementedError:
                    pass
            if required:
                raise RuntimeError(
                    f"{type(parametrization).__name__} has no right_inverse, so its result "
                    "cannot be assigned; define right_inverse(self, value), or write "
                    "into parametrizations.<name>.original"
                )
    return value


def _put(x: Tensor, value: Any) -> None:
    """Give x the values, shape and dtype of another tensor; it stays the same object."""
    data = value.data.copy()  # it may be a view of x
    if (data.shape, data.dtype) == (x.shape, x.dtype):
        x.data[...] = data
        note_write(x.data, "a parametrization")
    else:
        x.grad, x.data = None, data


def _require_tensor(value: Any, what: str) -> None:
    if not isinstance(value, Tensor):
        raise TypeError(f"register_parametrization: {what} must give a tensor, got {value!r}")


def _require_inverse(parametrization: Any, value: Tensor) -> None:
    """An error unless a right_inverse gives one tensor of the same shape and dtype.

    Only the first parametrization may compute its tensor from several.
    """
    if hasattr(parametrization, "right_inverse"):
        with suppress(NotImplementedError):
            given = parametrization.right_inverse(value)
            _require_same(f"right_inverse of {type(parametrization).__name__}", value, given)


def _require_same(name: str, before: Any, after: Any) -> None:
    """An error unless the tensor keeps its shape and dtype; `name` is what has made it."""
    _require_tensor(after, name)
    if (after.shape, after.dtype) != (before.shape, before.dtype):
        raise ValueError(
            f"register_parametrization: {name} makes {describe(after)} of {describe(before)}; "
            "keep shape and dtype, or pass unsafe=True"
        )
