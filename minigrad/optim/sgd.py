"""Stochastic gradient descent, with momentum or averaged; Lion and Rprop, which step by signs."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from .arguments import at_least_zero, fractions, numbers
from .optimizer import Optimizer, average, decayed
from .packs import State, scratch


class SGD(Optimizer):
    """d = g + weight_decay·x ;  v ← momentum·v + (1 − dampening)·d ;  x ← x − lr·v

    The first step with momentum takes v = d. Without momentum the step is d itself; with nesterov
    it is d + momentum·v. The form is PyTorch's: lr is outside v (Sutskever et al., 2013, put it
    inside).
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

    def advance(self, state: State, group: Mapping[str, Any]) -> None:
        if group["momentum"]:  # counts these steps alone: it may be switched on later
            super().advance(state, group)

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


class ASGD(Optimizer):
    """x ← (1 − lambd·η)·x − η·g ;  ax ← ax + μ·(x − ax), the average of x, in the state

    η = lr/(1 + lambd·lr·(t−1))^alpha and μ = 1/max(1, t−1−t0), with the lr of the step before. Both
    are computed a step ahead, as in PyTorch. The average begins with step t0 + 2. Polyak and
    Juditsky, Acceleration of Stochastic Approximation by Averaging, 1992.
    """

    def __init__(
        self,
        params: Iterable,
        lr: float = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0.0,
        *,
        maximize: bool = False,
    ):
        at_least_zero("ASGD", lr=lr, weight_decay=weight_decay)
        options = {"lr": lr, "lambd": lambd, "alpha": alpha, "t0": t0}
        super().__init__(params, {**options, "weight_decay": weight_decay, "maximize": maximize})

    def buffers(self, group: Mapping[str, Any]) -> tuple[str, ...]:
        return ("ax",)

    def advance(self, state: State, group: Mapping[str, Any]) -> None:
        super().advance(state, group)
        t, lr = state["step"], group["lr"]
        # the values for this step, and (under PyTorch's names) those for the next one
        state["rate"], state["share"] = state.get("eta", lr), state.get("mu", 1.0)
        state["eta"] = lr / (1 + group["lambd"] * lr * t) ** group["alpha"]
        state["mu"] = 1 / max(1, t - group["t0"])

    def update(self, x: Any, g: Any, state: State, group: Mapping[str, Any]) -> None:
        ax, rate, work = state["ax"], state["rate"], scratch(x)
        d = decayed(x, g, group)
        x *= 1 - group["lambd"] * rate
        x -= np.multiply(d, rate, out=work)
        if state["share"] == 1:
            ax[...] = x
        else:
            np.subtract(x, ax, out=work)
            ax += np.multiply(work, state["share"], out=work)


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


class Rprop(Optimizer):
    """s ← s·η₊ where g has the sign of the last g, s·η₋ where it has turned ;  x ← x − s·sign(g)

    Where g has turned, x stays, and the next step takes s as it is. At first s is lr, and it stays
    within step_sizes; a schedule of lr has no effect. For whole batches: noise turns signs.
    Riedmiller and Braun, A Direct Adaptive Method for Faster Backpropagation Learning, 1993.
    """

    def __init__(
        self,
        params: Iterable,
        lr: float = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50),
        *,
        maximize: bool = False,
    ):
        at_least_zero("Rprop", lr=lr)
        etas = numbers("Rprop", "etas are two factors, such as (0.5, 1.2)", etas, 2)
        step_sizes = numbers("Rprop", "step_sizes are (least, largest)", step_sizes, 2)
        if not 0 < etas[0] < 1 < etas[1]:
            raise ValueError(f"Rprop: etas must be (below 1 and above 0, above 1), got {etas}")
        if not 0 <= step_sizes[0] <= step_sizes[1]:
            raise ValueError(f"Rprop: step_sizes must be (least, largest), got {step_sizes}")
        options = {"lr": lr, "etas": etas, "step_sizes": step_sizes}
        super().__init__(params, {**options, "maximize": maximize})

    def buffers(self, group: Mapping[str, Any]) -> tuple[str, ...]:
        return ("prev", "step_size")

    def start(self, name: str, group: Mapping[str, Any]) -> float:
        return group["lr"] if name == "step_size" else 0.0

    def update(self, x: Any, g: Any, state: State, group: Mapping[str, Any]) -> None:
        last, size, (down, up) = state["prev"], state["step_size"], group["etas"]
        least, largest = group["step_sizes"]
        turned, same, factor = scratch(x), scratch(x, 1), scratch(x, 2)
        np.multiply(g, last, out=factor)
        np.less(factor, 0, out=turned)  # 1 where the sign has turned, else 0
        np.greater(factor, 0, out=same)
        # η₊, η₋ or 1: sums and products with 0 and 1 are exact
        np.add(turned, same, out=factor)
        np.subtract(1, factor, out=factor)
        factor += np.multiply(same, up, out=same)
        factor += np.multiply(turned, down, out=same)
        size *= factor
        np.maximum(size, least, out=size)
        np.minimum(size, largest, out=size)
        np.subtract(1, turned, out=turned)
        np.multiply(g, turned, out=last)
        np.sign(last, out=factor)
        x -= np.multiply(factor, size, out=factor)
