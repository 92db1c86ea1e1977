"""A parameter: the tensor that a module learns."""

from typing import Any

from ..core.tensor import Tensor


class Parameter(Tensor):
    """A leaf that requires a gradient and that modules find among their attributes.

    It shares the memory of `data`, a tensor or an array. `name` is its path in the outermost
    module it belongs to ("features.0.weight"): what graphs and profiles show. Ops on parameters
    give plain tensors.
    """

    is_parameter = True
    name = ""

    def __init__(self, data: Any, requires_grad: bool = True):
        super().__init__(data, requires_grad)

    def __reduce__(self) -> tuple:
        return (*super().__reduce__(), {"name": self.name})
