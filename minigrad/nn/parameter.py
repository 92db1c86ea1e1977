"""A parameter: the tensor that a module learns; one whose shape is not known yet; a buffer."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from ..engine.events import capture_origin
from ..engine.versions import note_write
from ..tensor_api.tensor import Tensor


class Parameter(Tensor):
    """A leaf that requires a gradient and that modules find among their attributes.

    Only such attributes are trained and saved. A plain tensor with requires_grad=True is not, nor
    are parameters in a list or a dictionary; use nn.ParameterList or nn.ParameterDict. It shares
    the memory of `data`, a tensor or an array. `name` is its path in the outermost module it
    belongs to ("features.0.weight"): graphs and profiles show it. Ops on parameters give plain
    tensors.
    """

    is_parameter = True
    name = ""

    def __init__(self, data: Any, requires_grad: bool = True):
        super().__init__(data, requires_grad)


class Buffer(Tensor):
    """A tensor that a module keeps as a buffer when it is set as an attribute: state, not learned.

    It shares the memory of `data`, a tensor or an array; nothing is an empty one.
    persistent=False leaves it out of state_dict. `module.x = nn.Buffer(data)` is
    `module.register_buffer("x", data)`.
    """

    def __init__(self, data: Any = None, *, persistent: bool = True):
        super().__init__(np.empty(0, np.float32) if data is None else data)
        self.persistent = persistent


def zero_grads(parameters: Iterable, set_to_none: bool, what: str) -> None:
    """Forget the gradient of each, or write zeros into it; `what` names that write in errors."""
    origin = None if set_to_none else capture_origin()
    for parameter in parameters:
        if set_to_none:
            parameter.grad = None
        elif (grad := parameter.grad) is not None:
            grad.data[...] = 0
            note_write(grad.data, what, origin)


class UninitializedParameter(Parameter):
    """Stands in a lazy module (nn/lazy.py) for all its parameters until their shapes are known.

    It has no data, so any use of it is a ValueError that says what to do. Only what is to hold for
    the parameters can be set: requires_grad, and with Module.to the device and dtype.
    """

    def __init__(self, owner: str, device: str | None, dtype: Any, requires_grad: bool = True):
        self.owner, self.wanted_device, self.wanted_dtype = owner, device, dtype
        self.node = self._grad = None
        self.requires_grad = requires_grad

    @property
    def _data(self) -> Any:  # type: ignore[override]
        raise self.error()

    @property
    def requires_grad(self) -> bool:
        return self._learned

    @requires_grad.setter
    def requires_grad(self, wanted: bool) -> None:
        self._learned = bool(wanted)

    def error(self, user: str = "") -> ValueError:
        """The function that tells a user, of this name, that there are no values yet."""
        return ValueError(
            f"{user}{': ' * bool(user)}the parameters of {self.owner} ({self.name!r}) have no "
            "values before its first input, which gives them their shapes; call the model on one "
            "batch first, or load a state_dict"
        )

    def move(self, device: str | None, dtype: Any) -> None:
        """The device and dtype that the parameters are to have; None leaves it as it was."""
        self.wanted_device = device or self.wanted_device
        self.wanted_dtype = self.wanted_dtype if dtype is None else dtype

    def __repr__(self) -> str:
        return f"<uninitialized parameter {self.name!r} of {self.owner}>"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"text/plain": repr(self)}

    def __reduce__(self) -> tuple:
        made = (self.owner, self.wanted_device, self.wanted_dtype, self.requires_grad)
        return UninitializedParameter, made, {"name": self.name}
