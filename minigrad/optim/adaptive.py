"""Optimizers that scale each element by the size of its gradients so far, without Adam's m."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from .arguments import at_least_zero
from .optimizer import Optimizer, average, average_square, decayed, step_by_ratio
from .packs import State, scratch


class RMSprop(Optimizer):
    """v ← αv + (1−α)g² ;  d = g / (√v + eps) ;  b ← momentum·b + d ;  x ← x − lr·b

    centered takes v − (mean g)² in place of v. Without momentum the step is d itself.
    Tieleman and Hinton, 2012; Graves, 2013.
    """

    def __init__(
        self,
        params: Iterable,
        lr: float = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        momentum: float = 0.0,
        centered: bool = False,
        *,
        maximize: bool = False,
    ):
        at_least_zero(
            "RMSprop", lr=lr, alpha=alpha, eps=eps, weight_decay=weight_decay, momentum=momentum
        )
        options = {"lr": lr, "alpha": alpha, "eps": eps, "weight_decay": weight_decay}
        options |= {"momentum": momentum, "centered": centered, "maximize": maximize}
        super().__init__(params, options)

    def buffers(self, group: Mapping[str, Any]) -> tuple[str, ...]:
        more = ["grad_avg"] * bool(group["centered"])
        return ("square_avg", *more, *["momentum_buffer"] * (group["momentum"] > 0))

    def update(self, x: Any, g: Any, state: State, group: Mapping[str, Any]) -> None:
        v, work = state["square_avg"], scratch(x)
        g = decayed(x, g, group)
        average_square(v, g, group["alpha"], work)
        if group["centered"]:
            mean = state["grad_avg"]
            average(mean, g, group["alpha"], work)
            np.multiply(mean, mean, out=work)
            np.subtract(v, work, out=work)
            np.sqrt(work, out=work)
        else:
            np.sqrt(v, out=work)
        work += group["eps"]
        d = np.divide(g, work, out=work)
        if group["momentum"]:
            b = state["momentum_buffer"]
            b *= group["momentum"]
            b += d
            d = b
        x -= np.multiply(d, group["lr"], out=work)


class Adagrad(Optimizer):
    """s ← s + g² ;  x ← x − lr/(1 + (t−1)·lr_decay) · g/(√s + eps): Duchi et al., 2011"""

    def __init__(
        self,
        params: Iterable,
        lr: float = 1e-2,
        lr_decay: float = 0.0,
        weight_decay: float = 0.0,
        initial_accumulator_value: float = 0.0,
        eps: float = 1e-10,
        *,
        maximize: bool = False,
    ):
        first = initial_accumulator_value
        at_least_zero(
            "Adagrad", lr=lr, lr_decay=lr_decay, weight_decay=weight_decay, eps=eps,
            initial_accumulator_value=first,
        )  # fmt: skip
        options = {"lr": lr, "lr_decay": lr_decay, "weight_decay": weight_decay, "eps": eps}
        options |= {"initial_accumulator_value": first, "maximize": maximize}
        super().__init__(params, options)

    def buffers(self, group: Mapping[str, Any]) -> tuple[str, ...]:
        return ("sum",)

    def start(self, name: str, group: Mapping[str, Any]) -> float:
        return group["initial_accumulator_value"]

    def update(self, x: Any, g: Any, state: State, group: Mapping[str, Any]) -> None:
        total, work = state["sum"], scratch(x)
        g = decayed(x, g, group)
        total += np.multiply(g, g, out=work)
        np.sqrt(total, out=work)
        rate = group["lr"] / (1 + (state["step"] - 1) * group["lr_decay"])
        step_by_ratio(x, g, work, rate, group["eps"])


class Adadelta(Optimizer):
    """v ← ρv + (1−ρ)g² ;  d = g·√(u + eps)/√(v + eps) ;  u ← ρu + (1−ρ)d² ;  x ← x − lr·d

    Zeiler, ADADELTA: An Adaptive Learning Rate Method, 2012.
    """

    def __init__(
        self,
        params: Iterable,
        lr: float = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0.0,
        *,
        maximize: bool = False,
    ):
        at_least_zero("Adadelta", lr=lr, rho=rho, eps=eps, weight_decay=weight_decay)
        if rho > 1:
            raise ValueError(f"Adadelta: rho must be from 0 to 1, got {rho}")
        options = {"lr": lr, "rho": rho, "eps": eps, "weight_decay": weight_decay}
        super().__init__(params, {**options, "maximize": maximize})

    def buffers(self, group: Mapping[str, Any]) -> tuple[str, ...]:
        return ("square_avg", "acc_delta")

    def update(self, x: Any, g: Any, state: State, group: Mapping[str, Any]) -> None:
        v, u, rho, eps = state["square_avg"], state["acc_delta"], group["rho"], group["eps"]
        work, d = scratch(x), scratch(x, 1)
        g = decayed(x, g, group)
        average_square(v, g, rho, work)
        np.add(u, eps, out=d)
        np.sqrt(d, out=d)
        np.add(v, eps, out=work)
        d /= np.sqrt(work, out=work)
        d *= g
        average_square(u, d, rho, work)
        x -= np.multiply(d, group["lr"], out=work)
