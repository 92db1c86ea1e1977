"""Random tensors other than rand and randn: like a given tensor, or by probabilities.

All draw from the device's generator (mg.manual_seed) and are constants. Inside vmap its
`randomness` says whether the examples share a draw.
"""

from typing import Any

import numpy as np

from ..backends import random
from ..backends.device import to_host
from ..backends.dtypes import is_floating, require_fit, resolve_dtype, whole_numbers
from ..engine.graph import raw
from ..engine.registry import op
from ..errors import TransformError
from .create import Shape, as_tensor, drawn, rand, randn, tensor
from .help import with_call_context
from .tensor import Tensor

__all__ = [
    "bernoulli", "multinomial", "normal", "poisson", "rand_like", "randint", "randint_like",
    "randn_like", "randperm",
]  # fmt: skip


@with_call_context
def rand_like(x: Any, dtype: Any = None, requires_grad: bool = False) -> Tensor:
    """Uniform on [0, 1), of x's shape, dtype and device."""
    x = as_tensor(x)
    return rand(*x.shape, dtype=dtype or x.dtype, device=x.device, requires_grad=requires_grad)


@with_call_context
def randn_like(x: Any, dtype: Any = None, requires_grad: bool = False) -> Tensor:
    """Standard normal, of x's shape, dtype and device."""
    x = as_tensor(x)
    return randn(*x.shape, dtype=dtype or x.dtype, device=x.device, requires_grad=requires_grad)


@with_call_context
def randint(
    low: int,
    high: int | None = None,
    size: Shape = (),
    dtype: Any = None,
    device: str | None = None,
) -> Tensor:
    """Integers from [low, high), or from [0, low) when high is left out.

    ValueError where the dtype does not hold them all.
    """
    if np.ndim(low) or (high is not None and np.ndim(high)):
        raise TypeError(f"randint: low and high are one number each, got {low!r} and {high!r}; a "
                        "shape is named: randint(10, size=(2, 3))")  # fmt: skip
    low, high = (0, low) if high is None else (low, high)
    wanted = resolve_dtype(dtype or np.int64)
    least, most = whole_numbers(wanted)
    if low < least or high - 1 > most:
        raise ValueError(
            f"randint: {wanted} holds the integers from {least} to {most}, not all of [{low}, "
            f"{high}); give a wider dtype"
        )
    wide = np.uint64 if wanted == np.uint64 else np.int64
    return drawn(
        lambda size: tensor(
            random.generator_on(device).integers(low, high, size, dtype=wide), wanted, device
        ),
        size,
    )


@with_call_context
def randint_like(x: Any, low: int, high: int | None = None, dtype: Any = None) -> Tensor:
    """Integers from [low, high), or [0, low), of x's shape and device."""
    x = as_tensor(x)
    return randint(low, high, x.shape, dtype=dtype or x.dtype, device=x.device)


@with_call_context
def randperm(n: int, dtype: Any = None, device: str | None = None) -> Tensor:
    """The numbers 0 … n − 1 in random order; ValueError where the dtype does not hold them all."""
    wanted = resolve_dtype(dtype or np.int64)
    if n - 1 > (most := whole_numbers(wanted)[1]):
        raise ValueError(
            f"randperm: {wanted} holds integers to {most}, and {n - 1} is above; give a wider dtype"
        )

    def make(shape: tuple) -> Tensor:
        order = np.argsort(random.generator_on(device).random((*shape[:-1], n)), axis=-1)
        return tensor(order, wanted, device)

    return drawn(make, (n,))


@with_call_context
def bernoulli(p: Any) -> Tensor:
    """1 with probability p, else 0, for each entry of p; of p's shape and dtype, a constant."""
    p = as_tensor(p)
    _probabilities("bernoulli", p)
    uniform = rand(*p.shape, dtype=np.float64, device=p.device)
    return op.astype(uniform < p.detach(), dtype=p.dtype)


@with_call_context
def normal(
    mean: Any = 0.0, std: Any = 1.0, size: Any = None, dtype: Any = None,
    device: str | None = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """mean + std z, z standard normal: the reparametrised draw, differentiable in mean and std

    mean and std broadcast. Where both are numbers, `size` is the shape, and dtype, device and
    requires_grad are those of a new tensor. With tensors the draw has their dtype and device;
    giving either is a TypeError. ValueError for a number std below 0.
    """
    if not isinstance(std, Tensor | np.ndarray) and std < 0:
        raise ValueError(f"normal: std is a deviation, 0 or more; got {std}")
    shape = np.broadcast_shapes(np.shape(mean), np.shape(std)) if size is None else size
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    given = next((v for v in (mean, std) if hasattr(v, "dtype")), None)
    if given is not None:
        if dtype is not None or device is not None:
            raise TypeError(
                "normal: mean or std is an array and sets dtype and device; leave dtype= and "
                "device= out, and cast the draw by y.to(dtype)"
            )
        dtype, device = given.dtype, as_tensor(given).device
    y = mean + std * randn(*shape, dtype=dtype, device=device)
    return y.requires_grad_() if requires_grad else y


@with_call_context
def poisson(rate: Any) -> Tensor:
    """Counts of expectation `rate`, of its shape and dtype, drawn on the host; a constant.

    OverflowError where a count does not fit a rate of small integers.
    """
    rate = as_tensor(rate).detach()
    if rate.shape != raw(rate).shape:
        raise TransformError("poisson: inside vmap the rate must be the same for every example")
    lam = to_host(raw(rate))
    if not (lam >= 0).all():
        raise ValueError("poisson: rate holds negative numbers or NaN; a rate is 0 or more")

    def make(shape: tuple) -> Tensor:
        counts = random.generator_on(None).poisson(lam, shape)
        require_fit(counts, rate.dtype)
        return tensor(counts, rate.dtype, rate.device)

    return drawn(make, rate.shape)


@with_call_context
def multinomial(p: Any, num_samples: int, replacement: bool = False) -> Tensor:
    """Class numbers drawn by the weights p (c,) or (n, c): (num_samples,) or (n, num_samples).

    The weights need not add up to 1. Without replacement at most as many are drawn as have weight.
    Drawn as the largest of log p + Gumbel noise (Gumbel-top-k; Kool et al., 2019).
    """
    p = as_tensor(p).detach()
    if p.ndim not in (1, 2) or not is_floating(p.dtype):
        raise ValueError(f"multinomial: p must be weights (c,) or (n, c), got {p.dtype} {p.shape}")
    p = op.astype(p, dtype=np.float64)  # log p of 16 bits would be a few per cent off in p
    weights = raw(p)
    if not to_host((weights >= 0).all() & (weights.sum(-1) > 0).all()):
        raise ValueError("multinomial: each row of p needs weights of 0 or more, not all 0")
    if not to_host((weights < np.inf).all()):
        raise ValueError(
            "multinomial: a weight is infinite, and the others would have no share; make weights "
            "of scores by mg.softmax(scores), which does not overflow"
        )
    if not replacement and num_samples > (fewest := int(to_host((weights > 0).sum(-1).min()))):
        raise ValueError(
            f"multinomial: {num_samples} samples without replacement, but a row of p has only "
            f"{fewest} weights above 0"
        )
    draws = (*p.shape[:-1], num_samples, p.shape[-1]) if replacement else p.shape
    noise = -op.log(-op.log(rand(*draws, device=p.device) * (1 - 1e-12) + 1e-300))
    with np.errstate(divide="ignore"):
        scores = op.log(op.expand_dims(p, axis=-2) if replacement else p) + noise
    if replacement:
        return op.argmax(scores, axis=-1)
    return op.topk(scores, num_samples)[1]


def _probabilities(name: str, p: Tensor) -> None:
    values = raw(p)
    if not to_host(((values >= 0) & (values <= 1)).all()):
        raise ValueError(f"{name}: p must hold probabilities between 0 and 1")
