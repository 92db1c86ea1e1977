"""Batch normalisation over what all ranks have, as one process has it over the joined batch."""

from math import prod
from typing import Any

import numpy as np

from ..backends.device import array_module
from ..backends.dtypes import accumulator
from ..engine.graph import raw
from ..engine.registry import op
from ..engine.versions import note_write
from ..modes.saving import is_recomputing
from ..nn.module import Module
from ..nn.norm import BatchNorm1d, BatchNorm2d, BatchNorm3d, _BatchNorm
from ..ops.scaling import is_lost, overflow_ignored, power_of_two
from ..tensor_api.tensor import Tensor
from .collectives import all_reduce
from .ranks import is_initialized, size

_OF_ONE_RANK = (BatchNorm1d, BatchNorm2d, BatchNorm3d)


class SyncBatchNorm(_BatchNorm):
    """(x − mean)/√(var + eps) · weight + bias for each channel of x (N, C, ...)

    In training mean and var are those of all ranks' batches together. Batches may differ in N and
    may be empty; each rank holds the same running statistics. Every rank calls the layer, and runs
    its backward, as often as the others: two sums are added up over the ranks in either. With one
    rank, and in evaluation, this is BatchNorm1d, 2d or 3d.

    `SyncBatchNorm.convert_sync_batchnorm(model)` puts it in the place of those in a model.
    process_group is PyTorch's; there is one group, of all ranks, so it is None.
    """

    ndims = (2, 3, 4, 5)

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        process_group: None = None,
        device: str | None = None,
        dtype: Any = np.float32,
        *,
        bias: bool = True,
    ):
        if process_group is not None:
            raise ValueError(
                f"SyncBatchNorm: process_group={process_group!r}, but there is one group here, of "
                "all ranks; leave it out"
            )
        super().__init__(
            num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias
        )

    @classmethod
    def convert_sync_batchnorm(cls, module: Module, process_group: None = None) -> Module:
        """The module with a SyncBatchNorm for each BatchNorm1d, 2d and 3d in it.

        The parameters and buffers stay the same objects; a module that is itself one of the three
        is returned as a new one.
        """
        names = {parameter: parameter.name for parameter in module.parameters()}
        made: dict[Module, Module] = {}  # one used in two places stays one
        for path, found in list(module.named_modules(remove_duplicate=False)):
            if isinstance(found, _OF_ONE_RANK) and type(found) in _OF_ONE_RANK:  # and no lazy one
                if found not in made:
                    made[found] = cls(found.num_features, process_group=process_group)
                    vars(made[found]).clear()
                    vars(made[found]).update(vars(found))
                if not path:
                    return made[found]
                module.set_submodule(path, made[found])
        for parameter, name in names.items():  # each was given a shorter one, from its new place
            parameter.name = name
        return module

    def forward(self, x: Tensor) -> Tensor:
        by_batch = self.training or self.running_mean is None
        if not by_batch or not is_initialized() or size() == 1:
            return super().forward(x)
        weight = self._weight_for(self._checked(x), 1)
        momentum = self._momentum()
        shape = [1, -1, *(1,) * (x.ndim - 2)]  # of what there is one of for each channel
        axes = (0, *range(2, x.ndim))
        wide = op.astype(x, dtype=accumulator(x.dtype) or x.dtype)
        own = prod(x.shape[k] for k in axes)
        n = all_reduce(array_module(raw(x)).asarray(own))  # on x's device, and stays there
        if own < 2 and int(n) < 2:
            raise ValueError(
                "SyncBatchNorm: training needs more than one value for each channel on all ranks "
                f"together; x has shape {x.shape} here. Use a larger batch, or model.eval()"
            )
        n = n.astype(wide.dtype)
        mean = all_reduce(op.sum(wide, axis=axes)) / n
        centred = wide - mean.reshape(shape)
        with overflow_ignored():
            var = all_reduce(op.sum(op.square(centred), axis=axes)) / n
        unit: Any = 1
        if is_lost(var):  # for all ranks alike, which then divide by one power of two
            unit = power_of_two(all_reduce(op.sum(op.abs(centred), axis=axes).detach()) / n, ())
            centred = centred / unit.reshape(shape)
            var = all_reduce(op.sum(op.square(centred), axis=axes)) / n
        with overflow_ignored():  # of a variance that is no number
            self._move_running(mean, var * (n / (n - 1)) * unit * unit, momentum)
        scale = 1 / op.sqrt(var + self.eps / unit / unit)
        scale = scale if weight is None else scale * weight
        y = centred * scale.reshape(shape)
        y = y if self.bias is None else y + self.bias.reshape(shape)
        return op.astype(y, dtype=x.dtype)

    def _move_running(self, mean: Tensor, var: Tensor, momentum: float) -> None:
        """Move the running statistics towards these, once for each batch."""
        if not self.training or is_recomputing():
            return
        for old, new in ((self.running_mean, mean), (self.running_var, var)):
            if old is not None:
                old.data[...] = (1 - momentum) * old.data + momentum * new.data
                note_write(old.data, "the running statistics of SyncBatchNorm")
