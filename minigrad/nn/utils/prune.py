"""Pruning: a parameter as what is learned times a mask of ones and zeros. Names are PyTorch's.

    layer = l1_unstructured(nn.Linear(8, 4), "weight", amount=0.25)
    layer.weight                # computed from weight_orig, a parameter, and weight_mask, a buffer
    remove(layer, "weight")     # the parameter again, with zeros in it

An amount is how many to prune: a fraction from 0 to 1, or an int, the number. A tensor that is
pruned again keeps the zeros that it has, and the amount counts among what is left.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np

from ...backends.device import array_module, at
from ...modes.recording import no_grad
from ...tensor_api import create
from ...tensor_api.help import missing_names_of as _missing_names_of
from ...tensor_api.tensor import Tensor
from ..derived import rules_of
from ..module import Module
from ..pruning import (
    BasePruningMethod,
    CustomFromMask,
    Identity,
    L1Unstructured,
    LnStructured,
    PruningContainer,
    RandomStructured,
    RandomUnstructured,
)

__all__ = [
    "BasePruningMethod", "CustomFromMask", "Identity", "L1Unstructured", "LnStructured",
    "PruningContainer", "RandomStructured", "RandomUnstructured", "custom_from_mask",
    "global_unstructured", "identity", "is_pruned", "l1_unstructured", "ln_structured",
    "random_structured", "random_unstructured", "remove",
]  # fmt: skip


def identity(module: Module, name: str) -> Module:
    """Give module.<name> the form of a pruned parameter, with nothing pruned; returns the module"""
    Identity.apply(module, name)
    return module


def random_unstructured(module: Module, name: str, amount: float) -> Module:
    """Prune elements of module.<name> at random; returns the module"""
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(
    module: Module, name: str, amount: float, importance_scores: Any = None
) -> Module:
    """Prune the elements of module.<name> that are smallest in size; returns the module"""
    L1Unstructured.apply(module, name, amount, importance_scores=importance_scores)
    return module


def random_structured(module: Module, name: str, amount: float, dim: int) -> Module:
    """Prune slices of module.<name> along the axis dim at random; returns the module"""
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(
    module: Module, name: str, amount: float, n: Any, dim: int, importance_scores: Any = None
) -> Module:
    """Prune the slices along the axis dim with the smallest norm of order n; returns the module"""
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def custom_from_mask(module: Module, name: str, mask: Any) -> Module:
    """Prune module.<name> where the mask, of its shape, is 0; returns the module"""
    CustomFromMask.apply(module, name, mask)
    return module


def global_unstructured(
    parameters: Iterable[tuple[Module, str]],
    pruning_method: type[BasePruningMethod],
    importance_scores: dict | None = None,
    **kwargs: Any,
) -> None:
    """Prune parameters, pairs (module, name), as if they were one: pruning_method(**kwargs)

    importance_scores {(module, name): scores} replace the values of these tensors.
    """
    pairs, scores = list(parameters), importance_scores or {}
    if not isinstance(scores, dict):
        raise TypeError("global_unstructured: importance_scores is {(module, name): scores}")
    if not all(isinstance(pair, tuple | list) and len(pair) == 2 for pair in pairs) or not pairs:
        raise TypeError(f"global_unstructured: parameters are pairs (module, name), got {pairs!r}")
    method = pruning_method(**kwargs)
    if method.PRUNING_TYPE != "unstructured":
        raise TypeError(
            f"global_unstructured: {pruning_method.__name__} is {method.PRUNING_TYPE}; elements of "
            "several tensors are pruned by an unstructured method"
        )
    method._tensor_name = ""
    now = [getattr(module, name).detach() for module, name in pairs]
    given = [
        create.as_tensor(scores.get((module, name), x)).data.reshape(-1)
        for (module, name), x in zip(pairs, now, strict=True)
    ]
    masks = [
        getattr(module, f"{name}_mask", create.ones_like(x)).data.reshape(-1)
        for (module, name), x in zip(pairs, now, strict=True)
    ]
    xp = array_module(now[0].data)
    with no_grad(), at(given[0]):
        mask = PruningContainer(method).compute_mask(
            Tensor(xp.concatenate(given)), Tensor(xp.concatenate(masks))
        )
    parts = xp.split(mask.data, np.cumsum([x.size for x in now])[:-1].tolist())
    for (module, name), x, part in zip(pairs, now, parts, strict=True):
        custom_from_mask(module, name, Tensor(part.reshape(x.shape)))


def is_pruned(module: Module) -> bool:
    """Whether a parameter of the module, or of one below it, is pruned."""
    below = (rule for part in module.modules() for rule in rules_of(part).values())
    return any(isinstance(rule, BasePruningMethod) for rule in below)


def remove(module: Module, name: str) -> Module:
    """Make the pruned module.<name>, as it is, the parameter that was learned; returns the module

    It stays the parameter that an optimizer knows, and what is pruned is 0 in it from then on.
    """
    rule = rules_of(module).get(name)
    if not isinstance(rule, BasePruningMethod):
        raise ValueError(f"remove: {name!r} of {type(module).__name__} is not pruned")
    rule.remove(module)
    return module


__getattr__ = _missing_names_of(__name__)
