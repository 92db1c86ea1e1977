"""Stochastic gradient descent, with momentum."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from .optimizer import Optimizer, at_least_zero


class SGD(Optimizer):
    """d = g + weight_decay·x ;  v ← momentum·v + (1 − dampening)·d ;  x ← x − lr·v

    The first step takes v = d. Without momentum the step is d itself; with nesterov it is
    d + momentum·v. The form is PyTorch's: lr is outside v (Sutskever et al., 2013, put it inside).
    """

    def __init__(
        self,
        params: Iterable,
        lr: float = 1e-3,
        momentum: float = 0.0,
        dampening: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
    ):
        at_least_zero("SGD", lr=lr, momentum=momentum, weight_decay=weight_decay)
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("SGD: nesterov needs a momentum above 0 and no dampening")
        options = {"lr": lr, "momentum": momentum, "dampening": dampening}
        super().__init__(params, {**options, "weight_decay": weight_decay, "nesterov": nesterov})

    def update(self, x: Any, g: Any, state: dict[str, Any], group: Mapping[str, Any]) -> None:
        momentum, work = group["momentum"], self.scratch(x)
        d = g
        if group["weight_decay"]:
            d = np.multiply(x, group["weight_decay"], out=work)
            d += g
        if momentum:
            v = state.get("momentum_buffer")
            if v is None:
                v = state["momentum_buffer"] = d.copy()
            else:
                v *= momentum
                v += np.multiply(d, 1 - group["dampening"], out=work) if group["dampening"] else d
            if group["nesterov"]:  # x − lr·(d + momentum·v), in two parts
                x -= np.multiply(d, group["lr"], out=work)
                d = np.multiply(v, momentum, out=work)
            else:
                d = v
        x -= np.multiply(d, group["lr"], out=work)
