"""Optimizers that see a matrix as a whole: Adafactor by its rows and columns, Muon by its SVD."""

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from ..engine.registry import op
from ..tensor_api.tensor import Tensor
from .arguments import at_least_zero, numbers
from .optimizer import Optimizer, average
from .packs import State, scratch


class Adafactor(Optimizer):
    """u = g/√v ;  x ← (1 − lr·weight_decay)·x − α·u/max(1, rms(u)/d)

    The means of g² along rows and columns give the second moment of a matrix, v = r·c/mean(r): a
    state of m + n numbers, not m·n. Here r and c (v itself where x has one axis) are running means
    with β₂ = 1 − t^beta2_decay. α = max(eps₂, rms(x))·min(lr, 1/√t). Of more than two axes the last
    two count. eps₁ is the least √v, by default the dtype's eps. The form is PyTorch's. Shazeer and
    Stern, Adafactor: Adaptive Learning Rates with Sublinear Memory Cost, 2018.
    """

    elementwise = False

    def __init__(
        self,
        params: Iterable,
        lr: float = 1e-2,
        beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0,
        weight_decay: float = 0.0,
        *,
        maximize: bool = False,
    ):
        eps = numbers("Adafactor", "eps are two numbers, the first or None", eps, 2)
        at_least_zero("Adafactor", lr=lr, weight_decay=weight_decay, eps1=eps[0] or 0, eps2=eps[1])
        if not beta2_decay <= 0:
            raise ValueError(f"Adafactor: beta2_decay must be 0 or less, got {beta2_decay}")
        if not d >= 1:
            raise ValueError(f"Adafactor: d must be 1 or more, got {d}")
        options = {"lr": lr, "beta2_decay": beta2_decay, "eps": eps, "d": d}
        super().__init__(params, {**options, "weight_decay": weight_decay, "maximize": maximize})

    def add_param_group(self, param_group: Mapping[str, Any]) -> None:
        super().add_param_group(param_group)
        _refuse(self, lambda p: p.data.dtype.kind == "c", "is complex; its parameters are real")

    def buffers(self, group: Mapping[str, Any]) -> tuple[str, ...]:
        return ("row_var", "col_var", "variance")

    def shape(self, name: str, x: Any) -> tuple[int, ...] | None:
        if (name == "variance") != (x.ndim < 2):
            return None
        return {
            "row_var": (*x.shape[:-1], 1),
            "col_var": (*x.shape[:-2], 1, *x.shape[-1:]),
        }.get(name, x.shape)

    def update(self, x: Any, g: Any, state: State, group: Mapping[str, Any]) -> None:
        t, lr, work = state["step"], group["lr"], scratch(x)
        eps1, eps2 = group["eps"]
        eps1 = np.finfo(x.dtype).eps if eps1 is None else eps1
        rate = np.maximum(_rms(x, work), eps2) * min(lr, 1 / math.sqrt(t))
        beta2 = 1 - t ** group["beta2_decay"]
        x *= 1 - lr * group["weight_decay"]
        np.multiply(g, g, out=work)
        if x.ndim < 2:
            v = state["variance"]
            average(v, work, beta2, work)
            np.maximum(v, eps1**2, out=work)
        else:
            rows, columns = state["row_var"], state["col_var"]
            for mean, axis in ((rows, -1), (columns, -2)):
                of_axis = work.mean(axis, keepdims=True)
                average(mean, of_axis, beta2, of_axis)
            np.multiply(rows, columns, out=work)
            work /= np.maximum(rows.mean(-2, keepdims=True), eps1)
            np.maximum(work, eps1**2, out=work)
        np.sqrt(work, out=work)
        u = np.divide(g, work, out=work)
        size = _rms(u, scratch(x, 1))
        u *= rate / np.maximum(size / group["d"], 1)
        x -= u


class Muon(Optimizer):
    """m ← μ·m + (1−μ)·g ;  x ← (1 − lr·weight_decay)·x − lr·a·O

    O is about U·Vᵀ of m = U·S·Vᵀ: all directions of m count alike. With nesterov it is that of μ·m
    + (1−μ)·g. The parameters are matrices; use AdamW for embeddings, outputs and vectors. With
    adjust_lr_fn="original" (the default) a = √max(1, rows/columns). With "match_rms_adamw" a =
    0.2·√max(rows, columns), which suits an lr of AdamW. The form is PyTorch's, but O is worked out
    in float32 or float64, not in bfloat16. Jordan, Muon: An Optimizer for Hidden Layers in Neural
    Networks, 2024.
    """

    elementwise = False

    def __init__(
        self,
        params: Iterable,
        lr: float = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = (3.4445, -4.775, 2.0315),
        eps: float = 1e-7,
        ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
    ):
        at_least_zero("Muon", lr=lr, weight_decay=weight_decay, momentum=momentum, eps=eps)
        if adjust_lr_fn not in (None, "original", "match_rms_adamw"):
            raise ValueError(
                f"Muon: adjust_lr_fn is None, 'original' or 'match_rms_adamw', got {adjust_lr_fn!r}"
            )
        ns_coefficients = numbers(
            "Muon", "ns_coefficients are three numbers, a, b and c", ns_coefficients, 3
        )
        if not 0 <= ns_steps < 100:
            raise ValueError(f"Muon: ns_steps must be from 0 to 99, got {ns_steps}")
        options = {"lr": lr, "weight_decay": weight_decay, "momentum": momentum}
        options |= {"nesterov": nesterov, "ns_coefficients": ns_coefficients, "eps": eps}
        super().__init__(params, {**options, "ns_steps": ns_steps, "adjust_lr_fn": adjust_lr_fn})

    def add_param_group(self, param_group: Mapping[str, Any]) -> None:
        super().add_param_group(param_group)
        advice = "; give it to AdamW, say, and matrices to Muon"
        _refuse(self, lambda p: p.ndim != 2, f"is not a matrix (2 axes){advice}")
        _refuse(self, lambda p: p.data.dtype.kind == "c", f"is complex{advice}")

    def buffers(self, group: Mapping[str, Any]) -> tuple[str, ...]:
        return ("momentum_buffer",)

    def update(self, x: Any, g: Any, state: State, group: Mapping[str, Any]) -> None:
        m, momentum, lr, work = state["momentum_buffer"], group["momentum"], group["lr"], scratch(x)
        average(m, g, momentum, work)
        d = m
        if group["nesterov"]:
            d = np.multiply(m, momentum, out=scratch(x, 1))
            d += np.multiply(g, 1 - momentum, out=work)
        o = orthogonalised(d, group["ns_coefficients"], group["ns_steps"], group["eps"])
        rows, columns = x.shape
        if group["adjust_lr_fn"] == "match_rms_adamw":
            adjusted = 0.2 * math.sqrt(max(rows, columns))
        else:
            adjusted = math.sqrt(max(1, rows / columns))
        x *= 1 - lr * group["weight_decay"]
        x -= np.multiply(o, lr * adjusted, out=work)


def orthogonalised(x: Any, coefficients: tuple, steps: int, eps: float) -> Any:
    """About U·Vᵀ of the matrix x = U·S·Vᵀ, by Newton and Schulz's iteration

    y ← a·y + (b·yyᵀ + c·(yyᵀ)²)·y applies s ↦ a·s + b·s³ + c·s⁵ to each singular value. With Muon's
    coefficients five steps bring those from 0.01 to 1 between 0.68 and 1.14, without an SVD.
    """
    a, b, c = coefficients
    y = x.T if x.shape[0] > x.shape[1] else x  # yyᵀ is then the smaller product
    y = y / np.maximum(op.vector_norm(y), eps)  # no singular value is above 1
    for _ in range(steps):
        gram = y @ y.T
        inner = gram @ gram
        inner *= c
        inner += np.multiply(gram, b, out=gram)
        new = inner @ y
        new += np.multiply(y, a, out=y)
        y = new
    return y.T if x.shape[0] > x.shape[1] else y


def _rms(x: Any, work: Any) -> Any:
    """√mean(x²), an array without axes: on a GPU nothing waits for it."""
    return np.sqrt(np.multiply(x, x, out=work).mean())


def _refuse(optimizer: Optimizer, unfit: Any, why: str) -> None:
    """ValueError if a parameter of the newest group is unfit; the group is taken out again."""
    params: list[Tensor] = optimizer.param_groups[-1]["params"]
    for i, p in enumerate(params):
        if unfit(p):
            optimizer.param_groups.pop()
            raise ValueError(
                f"{type(optimizer).__name__}: params[{i}] of shape {p.shape}, {p.dtype}, {why}"
            )
