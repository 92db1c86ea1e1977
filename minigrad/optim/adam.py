"""Adam: steps scaled by running means of the gradient and of its square."""

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from .optimizer import Optimizer, at_least_zero


class Adam(Optimizer):
    """m ← β₁m + (1−β₁)g ;  v ← β₂v + (1−β₂)g² ;  x ← x − lr·m̂ / (√v̂ + eps)

    m̂ = m/(1−β₁ᵗ) and v̂ = v/(1−β₂ᵗ) correct for the start at 0. weight_decay·x is added to g first.
    Kingma and Ba, Adam: A Method for Stochastic Optimization, 2015.
    """

    def __init__(
        self,
        params: Iterable,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
    ):
        at_least_zero("Adam", lr=lr, eps=eps, weight_decay=weight_decay)
        if not all(0 <= beta < 1 for beta in betas):
            raise ValueError(f"Adam: each of betas must be in [0, 1), got {betas}")
        options = {"lr": lr, "betas": tuple(betas), "eps": eps, "weight_decay": weight_decay}
        super().__init__(params, options)

    def update(self, x: Any, g: Any, state: dict[str, Any], group: Mapping[str, Any]) -> None:
        if not state:
            state |= {"step": 0, "exp_avg": np.zeros_like(x), "exp_avg_sq": np.zeros_like(x)}
        state["step"] += 1
        m, v, work = state["exp_avg"], state["exp_avg_sq"], self.scratch(x)
        beta1, beta2 = group["betas"]
        if group["weight_decay"]:
            decay = np.multiply(x, group["weight_decay"], out=self.scratch(x, 1))
            decay += g
            g = decay
        m *= beta1
        m += np.multiply(g, 1 - beta1, out=work)
        v *= beta2
        np.multiply(g, g, out=work)
        work *= 1 - beta2
        v += work
        np.sqrt(v, out=work)
        work *= 1 / math.sqrt(1 - beta2 ** state["step"])
        work += group["eps"]
        np.divide(m, work, out=work)
        work *= group["lr"] / (1 - beta1 ** state["step"])
        x -= work
