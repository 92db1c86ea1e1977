"""Averaged weights under PyTorch's names: a model whose parameters are averages of another's.

    averaged = AveragedModel(model)                       # each update counts as much
    averaged = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.999))  # the last ones more
    ...
    averaged.update_parameters(model)                     # after a step, or an epoch
    update_bn(loader, averaged)                           # statistics of the averaged weights

EMA (average.py) averages in float32, without a second model. Izmailov et al., Averaging Weights
Leads to Wider Optima, 2018.
"""

import copy
from collections.abc import Callable, Iterable
from typing import Any

from ..backends.device import at
from ..backends.leaving import ended_by
from ..engine.versions import note_write
from ..modes.recording import no_grad
from ..nn.module import Module
from ..nn.norm import _BatchNorm
from ..tensor_api import create
from ..tensor_api.tensor import Tensor
from .lr_scheduler import SWALR

__all__ = [
    "SWALR", "AveragedModel", "get_ema_avg_fn", "get_ema_multi_avg_fn", "get_swa_avg_fn",
    "get_swa_multi_avg_fn", "update_bn",
]  # fmt: skip


def get_swa_avg_fn() -> Callable[[Tensor, Tensor, Any], Tensor]:
    """(a, x, n) ↦ a + (x − a)/(n + 1), the even average of what has been seen"""
    return lambda a, x, n: a + (x - a) / (int(n) + 1)


def get_ema_avg_fn(decay: float = 0.999) -> Callable[[Tensor, Tensor, Any], Tensor]:
    """(a, x, n) ↦ decay·a + (1 − decay)·x"""
    if not 0 <= decay <= 1:
        raise ValueError(f"get_ema_avg_fn: decay must be in [0, 1], got {decay}")
    return lambda a, x, _: decay * a + (1 - decay) * x


def get_swa_multi_avg_fn() -> Callable[[list, list, Any], None]:
    """get_swa_avg_fn for lists of tensors; it writes into the first."""
    return _for_lists(get_swa_avg_fn())


def get_ema_multi_avg_fn(decay: float = 0.999) -> Callable[[list, list, Any], None]:
    """get_ema_avg_fn for lists of tensors; it writes into the first."""
    return _for_lists(get_ema_avg_fn(decay))


def _for_lists(
    average: Callable[[Tensor, Tensor, Any], Tensor],
) -> Callable[[list, list, Any], None]:
    @no_grad()
    def update(averages: list[Tensor], values: list[Tensor], n: Any) -> None:
        for a, x in zip(averages, values, strict=True):
            a.copy_(average(a, x, n))

    return update


class AveragedModel(Module):
    """A copy of the model, `module`, whose parameters are averages of the model's

    The first update_parameters copies the model's, each further one averages: evenly, or by

    avg_fn        (average, value, n) ↦ the new average, of one parameter
    multi_avg_fn  (averages, values, n), lists of tensors: it writes into the averages

    where n is the number of updates before. use_buffers: average the buffers too; else they are
    copied. Its state_dict, PyTorch's in form, has n as "n_averaged", but no function.
    """

    n_averaged: Tensor

    def __init__(
        self,
        model: Module,
        device: str | None = None,
        avg_fn: Callable[[Tensor, Tensor, Any], Any] | None = None,
        multi_avg_fn: Callable[[list, list, Any], Any] | None = None,
        use_buffers: bool = False,
    ):
        if avg_fn is not None and multi_avg_fn is not None:
            raise ValueError("AveragedModel: give avg_fn or multi_avg_fn, not both")
        self.module = copy.deepcopy(model)
        if device is not None:
            self.module.to(device)
        self.register_buffer("n_averaged", create.tensor(0, dtype="int64", device=device))
        self.avg_fn = avg_fn
        self.multi_avg_fn = multi_avg_fn
        self.use_buffers = use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.module(*args, **kwargs)

    @no_grad()
    def update_parameters(self, model: Module) -> None:
        """Take the model's present parameters into the averages."""
        own: list[Tensor] = [*self.module.parameters()]
        given: list[Tensor] = [*model.parameters()]
        buffers, others = [*self.module.buffers()], [*model.buffers()]
        if [x.shape for x in own + buffers] != [x.shape for x in given + others]:
            raise ValueError(
                f"AveragedModel.update_parameters: the {type(model).__name__} has other parameters "
                f"or buffers than the {type(self.module).__name__} that is averaged"
            )
        if self.use_buffers:
            own, given, buffers, others = own + buffers, given + others, [], []
        # the averages are written below, past the rule that leaves are not written to
        averages = [x.detach() for x in own]
        values = [x.detach().to(a.device) for a, x in zip(averages, given, strict=True)]
        if not int(self.n_averaged):
            new: Any = values
        elif self.multi_avg_fn is not None:
            self.multi_avg_fn(averages, values, self.n_averaged.detach())
            new = averages
        else:
            average = self.avg_fn or get_swa_avg_fn()
            pairs = zip(averages, values, strict=True)
            new = [average(a, x, self.n_averaged.detach()) for a, x in pairs]
        _write(own, new)
        _write(buffers, others)
        self.n_averaged += 1


def _write(tensors: list[Tensor], values: Iterable[Any]) -> None:
    for x, value in zip(tensors, values, strict=True):
        with at(x.data):
            x.data[...] = create.as_tensor(value, dtype=x.dtype, device=x.device).data
        note_write(x.data, "AveragedModel.update_parameters")


@no_grad()
def update_bn(loader: Iterable[Any], model: Module, device: str | None = None) -> None:
    """Set the running statistics of all BatchNorm layers to those of one pass over the loader.

    Its batches are tensors, or tuples or lists that begin with the model's input.
    """
    layers = [layer for layer in model.modules() if isinstance(layer, _BatchNorm)]
    if not layers:
        return
    before = [(layer, layer.momentum) for layer in layers]
    modes = [(module, module.training) for module in model.modules()]

    def put_back() -> None:
        for layer, momentum in before:
            layer.momentum = momentum
        for module, training in modes:
            module.training = training

    with ended_by(put_back):
        model.train()
        for layer in layers:
            layer.reset_running_stats()
            layer.momentum = None  # even averages
        for batch in loader:
            x = batch[0] if isinstance(batch, tuple | list) else batch
            model(x if device is None else x.to(device))
