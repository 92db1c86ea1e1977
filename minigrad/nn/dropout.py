"""Dropout layers. Each draws from its own generator, or from the library's (mg.manual_seed)."""

import numpy as np

from ..engine.registry import op
from ..ops.dropout import drop
from ..tensor_api.tensor import Tensor
from .module import Module


class _Dropout(Module):
    def __init__(
        self, p: float = 0.5, inplace: bool = False, *, generator: np.random.Generator | None = None
    ):
        if isinstance(p, str | None) or not 0 <= p <= 1:
            raise ValueError(f"{type(self).__name__}: p is a probability from 0 to 1, got {p!r}")
        self.p = p
        self.inplace = inplace  # PyTorch's; without effect, see nn/inplace.py
        self.generator = generator

    def extra_repr(self) -> str:
        return f"p={self.p}"


class Dropout(_Dropout):
    """In training, each element is 0 with probability p, else x / (1 − p); else x itself.

    `generator` is its own numpy.random.Generator; left out, it is the library's (mg.manual_seed).
    Srivastava et al., Dropout, 2014.
    """

    def forward(self, x: Tensor) -> Tensor:
        return op.dropout(x, self.p, self.training, self.generator)


class Dropout1d(_Dropout):
    """Dropout of whole channels of x (n, c, w) or (c, w)"""

    def forward(self, x: Tensor) -> Tensor:
        return op.dropout1d(x, self.p, self.training, self.generator)


class Dropout2d(_Dropout):
    """Dropout of whole channels of x (n, c, h, w) or (c, h, w)"""

    def forward(self, x: Tensor) -> Tensor:
        return op.dropout2d(x, self.p, self.training, self.generator)


class Dropout3d(_Dropout):
    """Dropout of whole channels of x (n, c, d, h, w) or (c, d, h, w)"""

    def forward(self, x: Tensor) -> Tensor:
        if x.ndim not in (4, 5):
            raise ValueError(f"Dropout3d: x must have 4 or 5 axes, got shape {x.shape}")
        if not self.training or not self.p:
            return x
        space = (x.ndim - 3, x.ndim - 2, x.ndim - 1)
        return drop(x, p=self.p, shared=space, generator=self.generator)


class AlphaDropout(_Dropout):
    """Dropout that keeps mean 0 and variance 1 behind SELU: Klambauer et al., 2017"""

    def forward(self, x: Tensor) -> Tensor:
        return op.alpha_dropout(x, self.p, self.training, self.generator)


class FeatureAlphaDropout(_Dropout):
    """AlphaDropout of whole channels of x (N, C, ...)"""

    def forward(self, x: Tensor) -> Tensor:
        return op.feature_alpha_dropout(x, self.p, self.training, self.generator)
