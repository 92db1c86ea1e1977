"""The programs of rows and columns that are kernels on a GPU (on_gpu/), as loops on the host."""

from ..on_gpu import losses, norms, rows
from ..on_gpu.install import forwards
from .install import on_host

__all__ = ["losses", "norms", "rows"]

for _name in (
    "softmax softmax_dx log_softmax log_softmax_dx standardize standardize_dx standardize_dw sum "
    "cross_entropy_index cross_entropy_dx"
).split():
    on_host(_name, launches=True)(forwards[_name])
