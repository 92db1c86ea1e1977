"""Stochastic gradient descent, with momentum; and Lion, which steps by signs."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from .optimizer import Optimizer, at_least_zero, average, decayed, fractions
from .packs import State, scratch


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
        *,
        maximize: bool = False,
    ):
        at_least_zero("SGD", lr=lr, momentum=momentum, weight_decay=weight_decay)
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("SGD: nesterov needs a momentum above 0 and no dampening")
        options = {"lr": lr, "momentum": momentum, "dampening": dampening}
        options |= {"weight_decay": weight_decay, "nesterov": nesterov, "maximize": maximize}
        super().__init__(params, options)

    def buffers(self, group: Mapping[str, Any]) -> tuple[str, ...]:
        return ("momentum_buffer",) if group["momentum"] else ()

    def update(self, x: Any, g: Any, state: State, group: Mapping[str, Any]) -> None:
        momentum, work = group["momentum"], scratch(x)
        d = decayed(x, g, group)
        if momentum:
            v = state["momentum_buffer"]
            new = 1.0 if state["step"] == 1 else 1 - group["dampening"]
            v *= momentum
            v += np.multiply(d, new, out=work) if new != 1 else d
            if group["nesterov"]:  # x − lr·(d + momentum·v), in two parts
                x -= np.multiply(d, group["lr"], out=work)
                d = np.multiply(v, momentum, out=work)
            else:
                d = v
        x -= np.multiply(d, group["lr"], out=work)


class Lion(Optimizer):
    """x ← (1 − lr·weight_decay)·x − lr·sign(β₁m + (1−β₁)g) ;  m ← β₂m + (1−β₂)g

    Chen et al., Symbolic Discovery of Optimization Algorithms, 2023, who advise an lr three to
    ten times below Adam's, and a weight_decay as many times above.
    """

    def __init__(
        self,
        params: Iterable,
        lr: float = 1e-4,
        betas: tuple[float, float] = (0.9, 0.99),
        weight_decay: float = 0.0,
        *,
        maximize: bool = False,
    ):
        at_least_zero("Lion", lr=lr, weight_decay=weight_decay)
        options = {"lr": lr, "betas": fractions("Lion", betas), "weight_decay": weight_decay}
        super().__init__(params, {**options, "maximize": maximize})

    def buffers(self, group: Mapping[str, Any]) -> tuple[str, ...]:
        return ("exp_avg",)

    def update(self, x: Any, g: Any, state: State, group: Mapping[str, Any]) -> None:
        m, work, other = state["exp_avg"], scratch(x), scratch(x, 1)
        beta1, beta2 = group["betas"]
        x *= 1 - group["lr"] * group["weight_decay"]
        np.multiply(m, beta1, out=work)
        work += np.multiply(g, 1 - beta1, out=other)
        np.sign(work, out=work)
        x -= np.multiply(work, group["lr"], out=work)
        average(m, g, beta2, work)
