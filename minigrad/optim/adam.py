"""Adam and its kin: steps scaled by running means of the gradient and of its size."""

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from .arguments import at_least_zero, fractions
from .optimizer import Optimizer, average, average_square, decayed, step_by_ratio
from .packs import State, scratch


class _AdamLike(Optimizer):
    """Base: options lr, betas, eps, weight_decay; states m = exp_avg and v = exp_avg_sq."""

    def __init__(
        self,
        params: Iterable,
        lr: float,
        betas: tuple,
        eps: float,
        weight_decay: float,
        **more: Any,
    ):
        name = type(self).__name__
        at_least_zero(name, lr=lr, eps=eps, weight_decay=weight_decay)
        options = {"lr": lr, "betas": fractions(name, betas), "eps": eps}
        super().__init__(params, {**options, "weight_decay": weight_decay, **more})

    def buffers(self, group: Mapping[str, Any]) -> tuple[str, ...]:
        return ("exp_avg", "exp_avg_sq")

    def prepared(self, x: Any, g: Any, group: Mapping[str, Any]) -> Any:
        """The gradient with weight decay; decoupled, the decay changes x itself at once."""
        if group.get("decoupled_weight_decay"):
            x *= 1 - group["lr"] * group["weight_decay"]
            return g
        return decayed(x, g, group)

    def _moments(self, x: Any, g: Any, state: State, group: Mapping[str, Any], work: Any) -> tuple:
        """(g with its decay, m, v, 1 − β₁ᵗ, 1 − β₂ᵗ), m and v brought forward; work is scratch."""
        m, v, t = state["exp_avg"], state["exp_avg_sq"], state["step"]
        beta1, beta2 = group["betas"]
        g = self.prepared(x, g, group)
        average(m, g, beta1, work)
        average_square(v, g, beta2, work)
        return g, m, v, 1 - beta1**t, 1 - beta2**t


class Adam(_AdamLike):
    """m ← β₁m + (1−β₁)g ;  v ← β₂v + (1−β₂)g² ;  x ← x − lr·m̂ / (√v̂ + eps)

    m̂ = m/(1−β₁ᵗ) and v̂ = v/(1−β₂ᵗ) correct for the start at 0. The decay weight_decay·x is added
    to g first. With amsgrad the largest v so far is used (Reddi et al., 2018). Kingma and Ba, Adam:
    A Method for Stochastic Optimization, 2015.
    """

    def __init__(
        self,
        params: Iterable,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        decoupled_weight_decay: bool = False,
    ):
        super().__init__(
            params, lr, betas, eps, weight_decay, amsgrad=amsgrad, maximize=maximize,
            decoupled_weight_decay=decoupled_weight_decay,
        )  # fmt: skip

    def buffers(self, group: Mapping[str, Any]) -> tuple[str, ...]:
        return (*super().buffers(group), *(["max_exp_avg_sq"] if group["amsgrad"] else []))

    def update(self, x: Any, g: Any, state: State, group: Mapping[str, Any]) -> None:
        work = scratch(x)
        _, m, v, bias1, bias2 = self._moments(x, g, state, group, work)
        if group["amsgrad"]:
            v = np.maximum(state["max_exp_avg_sq"], v, out=state["max_exp_avg_sq"])
        np.sqrt(v, out=work)
        work *= 1 / math.sqrt(bias2)
        step_by_ratio(x, m, work, group["lr"] / bias1, group["eps"])


class AdamW(Adam):
    """Adam with x ← (1 − lr·weight_decay)·x in place of a decay in the gradient

    Loshchilov and Hutter, Decoupled Weight Decay Regularization, 2019.
    """

    def __init__(
        self,
        params: Iterable,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
    ):
        super().__init__(
            params, lr, betas, eps, weight_decay, amsgrad, maximize=maximize,
            decoupled_weight_decay=True,
        )  # fmt: skip


class Adamax(_AdamLike):
    """u ← max(β₂u, |g| + eps) ;  x ← x − lr·m / ((1−β₁ᵗ) u): Kingma and Ba, 2015, section 7.1"""

    def __init__(
        self,
        params: Iterable,
        lr: float = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        *,
        maximize: bool = False,
    ):
        super().__init__(params, lr, betas, eps, weight_decay, maximize=maximize)

    def buffers(self, group: Mapping[str, Any]) -> tuple[str, ...]:
        return ("exp_avg", "exp_inf")

    def update(self, x: Any, g: Any, state: State, group: Mapping[str, Any]) -> None:
        m, u, t, work = state["exp_avg"], state["exp_inf"], state["step"], scratch(x)
        beta1, beta2 = group["betas"]
        g = self.prepared(x, g, group)
        average(m, g, beta1, work)
        np.abs(g, out=work)
        work += group["eps"]
        u *= beta2
        np.maximum(u, work, out=u)
        np.divide(m, u, out=work)
        work *= group["lr"] / (1 - beta1**t)
        x -= work


class NAdam(_AdamLike):
    """Adam whose m̂ looks one step ahead, as Nesterov's momentum does: Dozat, 2016

    m̂ = μₜ₊₁m/(1 − Πμ·μₜ₊₁) + (1−μₜ)g/(1 − Πμ), where μₜ = β₁(1 − 0.96^(t·momentum_decay)/2).
    """

    def __init__(
        self,
        params: Iterable,
        lr: float = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        momentum_decay: float = 4e-3,
        decoupled_weight_decay: bool = False,
        *,
        maximize: bool = False,
    ):
        at_least_zero("NAdam", momentum_decay=momentum_decay)
        super().__init__(
            params, lr, betas, eps, weight_decay, momentum_decay=momentum_decay,
            decoupled_weight_decay=decoupled_weight_decay, maximize=maximize,
        )  # fmt: skip

    @staticmethod
    def momentum(t: int, group: Mapping[str, Any]) -> float:
        """μₜ, the share of the mean in step t."""
        return group["betas"][0] * (1 - 0.5 * 0.96 ** (t * group["momentum_decay"]))

    def advance(self, state: State, group: Mapping[str, Any]) -> None:
        super().advance(state, group)
        state["mu_product"] = state.get("mu_product", 1.0) * self.momentum(state["step"], group)

    def update(self, x: Any, g: Any, state: State, group: Mapping[str, Any]) -> None:
        t, product, work, other = state["step"], state["mu_product"], scratch(x), scratch(x, 1)
        now, ahead = self.momentum(t, group), self.momentum(t + 1, group)
        g, m, v, _, bias2 = self._moments(x, g, state, group, work)
        np.multiply(v, 1 / bias2, out=work)
        np.sqrt(work, out=work)
        work += group["eps"]
        np.multiply(g, group["lr"] * (1 - now) / (1 - product), out=other)
        x -= np.divide(other, work, out=other)
        np.multiply(m, group["lr"] * ahead / (1 - product * ahead), out=other)
        x -= np.divide(other, work, out=other)


class RAdam(_AdamLike):
    """Adam that steps by m̂ alone for as long as v̂ is too uncertain, then by r·m̂/√v̂

    ρ∞ = 2/(1−β₂) − 1, ρ = ρ∞ − 2tβ₂ᵗ/(1−β₂ᵗ); from ρ > 5 on
    r = √((ρ−4)(ρ−2)ρ∞ / ((ρ∞−4)(ρ∞−2)ρ)). Liu et al., On the Variance of the Adaptive Learning
    Rate, 2020.
    """

    def __init__(
        self,
        params: Iterable,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        decoupled_weight_decay: bool = False,
        *,
        maximize: bool = False,
    ):
        super().__init__(
            params, lr, betas, eps, weight_decay, decoupled_weight_decay=decoupled_weight_decay,
            maximize=maximize,
        )  # fmt: skip

    def update(self, x: Any, g: Any, state: State, group: Mapping[str, Any]) -> None:
        t, beta2, work = state["step"], group["betas"][1], scratch(x)
        _, m, v, bias1, bias2 = self._moments(x, g, state, group, work)
        rate, limit = group["lr"] / bias1, 2 / (1 - beta2) - 1
        rho = limit - 2 * t * beta2**t / bias2
        if rho <= 5:
            x -= np.multiply(m, rate, out=work)
            return
        ratio = (rho - 4) * (rho - 2) * limit / ((limit - 4) * (limit - 2) * rho)
        np.sqrt(v, out=work)
        step_by_ratio(x, m, work, rate * math.sqrt(ratio * bias2), group["eps"])
