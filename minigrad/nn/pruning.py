"""Ways to prune a parameter: to learn it times a mask of ones and zeros. Names are PyTorch's.

nn/utils/prune.py has the functions that use them.
"""

from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np

from ..backends.device import array_module, at
from ..engine.errors import describe
from ..engine.registry import op
from ..engine.versions import note_write
from ..modes.recording import no_grad
from ..tensor_api import create
from ..tensor_api.composite import on_its_gpu
from ..tensor_api.tensor import Tensor
from .derived import Derivation, derive, rules_of, underive
from .module import Module
from .parameter import Parameter

__all__ = [
    "BasePruningMethod", "CustomFromMask", "Identity", "L1Unstructured", "LnStructured",
    "PruningContainer", "RandomStructured", "RandomUnstructured",
]  # fmt: skip


class BasePruningMethod(Derivation):
    """A way to choose what is pruned; a subclass defines compute_mask.

        class EveryOther(prune.BasePruningMethod):
            def compute_mask(self, t, default_mask):
                mask = default_mask.clone()
                mask[::2] = 0
                return mask

        EveryOther.apply(layer, "bias")

    PRUNING_TYPE names the part of an already pruned tensor that compute_mask is given.
    "unstructured" means the elements that are left, in a row; "structured" the slices along `dim`
    in which some are; "global" all of it.
    """

    PRUNING_TYPE = "unstructured"
    made = ("_orig", "_mask")

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """1 for what stays and 0 for what goes, by the importance t; default_mask is what was."""
        raise NotImplementedError(f"{type(self).__name__}.compute_mask(t, default_mask)")

    def __call__(self, module: Module) -> Tensor:
        return self.apply_mask(module)

    def apply_mask(self, module: Module) -> Tensor:
        """The learned tensor times the mask."""
        original, mask = (getattr(module, self._tensor_name + end) for end in self.made)
        return original * mask

    @classmethod
    def apply(
        cls, module: Module, name: str, *args: Any, importance_scores: Any = None, **kwargs: Any
    ) -> "BasePruningMethod":
        """Prune module.<name> by cls(*args, **kwargs); returns what prunes it now.

        importance_scores, of its shape, replace its values in the choice of what to prune.
        """
        method: BasePruningMethod = cls(*args, **kwargs)
        method._tensor_name = name
        before = rules_of(module).get(name)
        if isinstance(before, BasePruningMethod):
            both = PruningContainer(*(before if isinstance(before, PruningContainer) else [before]))
            both._tensor_name = name
            both.add_pruning_method(method)
            method, mask = both, getattr(module, f"{name}_mask")
        else:
            _parameter(module, name)
            mask = None
        now = getattr(module, name).detach()
        mask = method._mask(now, mask, importance_scores)  # all that can fail, before any change
        if mask.shape != now.shape:
            raise ValueError(
                f"{cls.__name__}: compute_mask gave {describe(mask)} for {describe(now)}; a mask "
                "has the shape of its tensor"
            )
        if not isinstance(before, BasePruningMethod):
            setattr(module, f"{name}_orig", _parameter(module, name))
        module.register_buffer(f"{name}_mask", mask)
        derive(module, name, method)
        return method

    def prune(self, t: Any, default_mask: Any = None, importance_scores: Any = None) -> Tensor:
        """A tensor times the mask that is computed for it; no module has a part in it."""
        t = create.as_tensor(t)
        return t * self._mask(t, default_mask, importance_scores)

    def _mask(self, t: Tensor, default_mask: Any, importance_scores: Any) -> Tensor:
        """compute_mask, its arguments checked and in their full form."""
        name = type(self).__name__
        scores = t if importance_scores is None else create.as_tensor(importance_scores)
        kept = create.ones_like(t) if default_mask is None else create.as_tensor(default_mask)
        for what, x in (("importance_scores", scores), ("default_mask", kept)):
            if x.shape != t.shape:
                raise ValueError(f"{name}: {what} {describe(x)} must have the shape {t.shape}")
        with no_grad():
            mask = self.compute_mask(scores.detach(), kept.detach().clone())
            return create.as_tensor(mask, dtype=t.dtype)

    def remove(self, module: Module) -> None:
        """Make the pruned tensor, as it is, the parameter that was learned."""
        name = self._tensor_name
        original, mask = (getattr(module, name + end) for end in self.made)
        underive(module, name)
        with at(mask.data):
            original.data[...] *= mask.data
        note_write(original.data, "prune.remove")
        for end in self.made:
            delattr(module, name + end)
        setattr(module, name, original)


class PruningContainer(BasePruningMethod):
    """Several methods for one tensor: the last chooses among what those before have left."""

    def __init__(self, *methods: BasePruningMethod):
        self._pruning_methods: tuple[BasePruningMethod, ...] = ()
        if methods:
            self._tensor_name = getattr(methods[0], "_tensor_name", "")
        for method in methods:
            self.add_pruning_method(method)

    def add_pruning_method(self, method: BasePruningMethod) -> None:
        """One more, for the tensor of the same name."""
        if not isinstance(method, BasePruningMethod):
            raise TypeError(f"add_pruning_method: {method!r} is not a BasePruningMethod")
        if method._tensor_name != self._tensor_name:
            raise ValueError(
                f"add_pruning_method: the method prunes {method._tensor_name!r}, and those here "
                f"{self._tensor_name!r}; a container is for one tensor"
            )
        self._pruning_methods = (*self._pruning_methods, method)

    def __len__(self) -> int:
        return len(self._pruning_methods)

    def __iter__(self) -> Iterator[BasePruningMethod]:
        return iter(self._pruning_methods)

    def __getitem__(self, index: Any) -> Any:
        return self._pruning_methods[index]

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        method = self._pruning_methods[-1]
        mask = default_mask.data.copy()
        left = _left(method, mask)
        chosen = method.compute_mask(Tensor(t.data[left]), Tensor(mask[left]))
        mask[left] = create.as_tensor(chosen, dtype=mask.dtype).data
        return Tensor(mask)


def _left(method: Any, mask: Any) -> Any:
    """The index of what a method may choose from."""
    if method.PRUNING_TYPE == "global":
        return ...
    if method.PRUNING_TYPE == "unstructured":
        return mask == 1
    if method.PRUNING_TYPE != "structured":
        raise ValueError(
            f"{type(method).__name__}.PRUNING_TYPE is {method.PRUNING_TYPE!r}; choose "
            "'unstructured', 'structured' or 'global'"
        )
    axis = _axis(method, mask)
    others = tuple([i for i in range(mask.ndim) if i != axis])
    return (slice(None),) * axis + ((mask != 0).any(others),)


# -- what is chosen, and how much ---------------------------------------------------------------


class Identity(BasePruningMethod):
    """Prunes nothing; it gives the names to a module that is pruned by hand."""

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        return default_mask


class CustomFromMask(BasePruningMethod):
    """Prunes by a mask that is given."""

    PRUNING_TYPE = "global"

    def __init__(self, mask: Any):
        self.mask = create.as_tensor(mask)

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        if self.mask.shape != default_mask.shape:
            raise ValueError(f"mask {describe(self.mask)} must have the shape {default_mask.shape}")
        return default_mask * create.as_tensor(
            self.mask, dtype=default_mask.dtype, device=default_mask.device
        )


class _ByAmount(BasePruningMethod):
    """Base: the `amount` of least importance goes."""

    def __init__(self, amount: float):
        whole = isinstance(amount, int | np.integer)
        if isinstance(amount, bool) or not isinstance(amount, int | float | np.number):
            raise TypeError(f"{type(self).__name__}: amount is a number, got {describe(amount)}")
        if not (amount >= 0 if whole else 0 <= amount <= 1):
            raise ValueError(
                f"{type(self).__name__}: amount={amount!r} must be a fraction from 0 to 1 or, "
                "as an int, a number of elements"
            )
        self.amount = amount

    def count(self, size: int) -> int:
        """How many of `size` elements are pruned."""
        if not isinstance(self.amount, int | np.integer):
            return round(self.amount * size)
        if self.amount > size:
            raise ValueError(
                f"{type(self).__name__}: amount={self.amount} is more than the {size} there are"
            )
        return int(self.amount)

    def least(self, importance: Any) -> Any:
        """The places of those that go, of a vector of importances; ties go from the front."""
        order = array_module(importance).argsort(importance, kind="stable")
        return order[: self.count(importance.size)]


class _Unstructured(_ByAmount):
    """Base: elements, by importance(t)."""

    def importance(self, t: Tensor) -> Tensor:
        raise NotImplementedError

    @on_its_gpu
    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        flat = default_mask.data.reshape(-1).copy()
        flat[self.least(self.importance(t).data.reshape(-1))] = 0
        return Tensor(flat.reshape(default_mask.shape))


class RandomUnstructured(_Unstructured):
    """Prunes elements at random."""

    def importance(self, t: Tensor) -> Tensor:
        return create.rand(*t.shape, device=t.device)


class L1Unstructured(_Unstructured):
    """Prunes the elements that are smallest in size."""

    def importance(self, t: Tensor) -> Tensor:
        return abs(t)


class _Structured(_ByAmount):
    """Base: whole slices along the axis dim, by importance(rows), one row for each."""

    PRUNING_TYPE = "structured"

    def __init__(self, amount: float, dim: int = -1):
        super().__init__(amount)
        self.dim = dim

    def importance(self, rows: Any, device: str) -> Any:
        raise NotImplementedError

    @on_its_gpu
    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        if t.ndim < 2:
            raise ValueError(
                f"{type(self).__name__}: needs a tensor of two axes or more, got {describe(t)}; "
                "an element of a vector is pruned by an unstructured method"
            )
        axis = _axis(self, t)
        rows = array_module(t.data).moveaxis(t.data, axis, 0)
        rows = rows.reshape((len(rows), prod(rows.shape[1:])))
        goes = self.least(self.importance(rows, t.device))
        mask = default_mask.data.copy()
        mask[(slice(None),) * axis + (goes,)] = 0
        return Tensor(mask)


class RandomStructured(_Structured):
    """Prunes slices at random."""

    def importance(self, rows: Any, device: str) -> Any:
        return create.rand(len(rows), device=device).data


class LnStructured(_Structured):
    """Prunes the slices with the smallest norm of order n: a number, inf, −inf or "fro"."""

    def __init__(self, amount: float, n: Any, dim: int = -1):
        super().__init__(amount, dim)
        if isinstance(n, str) and n not in ("fro", "inf", "-inf"):
            raise ValueError(f"LnStructured: n={n!r}; choose a number, inf, -inf or 'fro'")
        self.n = n

    def importance(self, rows: Any, device: str) -> Any:
        order = 2 if self.n == "fro" else float(self.n)
        return op.vector_norm(_wide(rows), ord=order, axis=1)


def _wide(x: Any) -> Any:
    """x in digits enough for a sum."""
    return x.astype(np.float32) if x.dtype.itemsize == 2 else x


def _axis(method: Any, x: Any) -> int:
    """The axis of x that a structured method goes along."""
    if not hasattr(method, "dim"):
        raise AttributeError(f"{type(method).__name__} is structured, and so needs a `dim`")
    if not -x.ndim <= method.dim < x.ndim:
        raise IndexError(
            f"{type(method).__name__}: dim={method.dim} is not an axis of a tensor of shape "
            f"{x.shape}"
        )
    return method.dim % x.ndim


def _parameter(module: Module, name: str) -> Parameter:
    found = vars(module).get(name)
    if not isinstance(found, Parameter):
        there = [name for name, _ in module.named_parameters(recurse=False)]
        raise ValueError(
            f"prune: {type(module).__name__} has no parameter {name!r} of its own; its parameters "
            f"are {there}"
        )
    return found
