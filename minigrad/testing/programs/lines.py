"""The kinds of lines for programs, each with the values at which it is smooth."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

GAP = 0.05  # the least distance from a kink or a tie


@dataclass(frozen=True)
class Chosen:
    """A line's source, with {0}, {1} ... for the names it reads and <0>, <1> ... for those it
    sets."""

    form: str
    reads: tuple[str, ...]
    count: int = 1


class Operands:
    """The values so far, and draws from them."""

    def __init__(self, rng: Any, values: dict[str, np.ndarray]):
        self.rng, self.values = rng, values
        self.names = list(values)

    def one(self, fits: Callable[[np.ndarray], Any] = lambda x: True) -> str | None:
        """A name whose value fits, the later ones more often."""
        for _ in range(4):
            k = len(self.names) - 1 - int(len(self.names) * self.rng.random() ** 2)
            name = self.names[k]
            if fits(self.values[name]):
                return name
        return None

    def below(self, n: int) -> int:
        return int(self.rng.integers(n))

    def of(self, items: Any) -> Any:
        return items[self.below(len(items))]

    def number(self) -> float:
        """A constant, not near 0."""
        return float(np.round(self.rng.uniform(0.3, 1.7) * self.of([-1, 1]), 2))


def real(x: np.ndarray) -> bool:
    return x.dtype.kind == "f"


def _real(fits: Callable) -> Callable:
    return lambda x: real(x) and fits(x)


def _apart(x: np.ndarray) -> bool:
    """No two values are near each other."""
    flat = np.sort(x.reshape(-1))
    return real(x) and bool((np.diff(flat) > GAP).all())


def _off_axis(x: np.ndarray) -> bool:
    """Away from 0 and, if complex, from the negative axis, the cut of roots and logarithms."""
    if real(x):
        return bool(x.min() > 0.2)
    return bool((np.abs(x) > 0.3).all() and ((np.real(x) > 0.1) | (np.abs(np.imag(x)) > 0.2)).all())


def _within(low: float, high: float) -> Callable:
    return lambda x: real(x) and bool(x.min() >= low and x.max() <= high)


def _small(x: np.ndarray) -> bool:
    return bool(np.abs(x).max() < 1.7)


def _off_zero(x: np.ndarray) -> bool:
    return bool((np.abs(x) > 0.35).all())


def any_values(x: np.ndarray) -> bool:
    return True


LINES: list[Callable[[Operands], Chosen | None]] = []


def _add(make: Callable, times: int = 1) -> Callable:
    LINES.extend([make] * times)
    return make


def _unary(form: str, fits: Callable = any_values) -> None:
    def make(o: Operands) -> Chosen | None:
        name = o.one(fits)
        return None if name is None else Chosen(form.replace("#", str(o.number())), (name,))

    _add(make)


for _f in "sin cos square negative".split():
    _unary(f"<0> = mg.{_f}({{0}})")
for _f in ("tanh sigmoid silu gelu softplus erf arctan logsigmoid mish arcsinh softsign "
           "exp2 expm1 sinh cosh").split():  # fmt: skip
    _unary(f"<0> = mg.{_f}({{0}})", _real(lambda x: np.abs(x).max() < 2))
for _f in "exp sin cos square".split():
    _unary(f"<0> = mg.{_f}({{0}})", _small)
for _f in "log sqrt reciprocal".split():
    _unary(f"<0> = mg.{_f}({{0}})", _off_axis)
for _f in "log1p rsqrt cbrt log2 digamma lgamma".split():
    _unary(f"<0> = mg.{_f}({{0}})", _within(0.25, 6))
for _f in "arcsin arccos arctanh erfinv".split():
    _unary(f"<0> = mg.{_f}({{0}})", _within(-0.85, 0.85))
for _f in "relu abs elu selu celu hardtanh leaky_relu".split():
    _unary(f"<0> = mg.{_f}({{0}})", _real(lambda x: (np.abs(x) > GAP).all()
                                          and (np.abs(np.abs(x) - 1) > GAP).all()))  # fmt: skip
_unary("<0> = mg.abs({0})", _off_zero)
for _f in "conj real imag".split():
    _unary(f"<0> = mg.{_f}({{0}})", lambda x: not real(x))
_unary("<0> = {0} * #")
_unary("<0> = # + {0}")
_unary("<0> = # - {0}")
_unary("<0> = # / {0}", _off_zero)
_unary("<0> = {0} ** 2")
_unary("<0> = {0} ** 3", _small)
_unary("<0> = {0} ** 1.5", _within(0.2, 4))
_unary("<0> = {0} * (# + 0.5j)", lambda x: not real(x))
_unary("<0> = mg.clip({0}, -1.0, 1.0)", _real(lambda x: (np.abs(np.abs(x) - 1) > GAP).all()))
_unary("<0> = mg.fft.fft({0}, axis=-1) * 0.3", lambda x: x.ndim > 0 and x.size < 100)
# lines with more than one op
_unary("<0> = mg.checkpoint(lambda a: mg.sin(a) * mg.tanh(a) + a, {0})", real)
_unary("<0> = mg.checkpoint(lambda a: mg.sum(a * a, keepdims=True) * a, {0})", _small)
_unary("<0> = mg.fuse(lambda a: a * mg.tanh(a) + 0.5 * a)({0})", real)
_unary("<0> = mg.fuse(lambda a: mg.exp(-a * a) * a)({0})", _real(_small))
_unary("<0> = mg.func.grad(lambda a: mg.sum(mg.tanh(a) * a))({0})", real)
_unary(
    "<0> = mg.func.vmap(lambda a: a * mg.mean(mg.sin(a)))({0})",
    lambda x: 0 < x.ndim and x.shape[0] < 5,
)
_unary("<0> = mg.func.fori_loop(0, 2, lambda i, a: mg.sin(a) + a * 0.5, {0})", real)
_unary(
    "<0> = mg.func.cond(mg.sum({0}) > 0.1, mg.sin, mg.tanh, {0})",
    _real(lambda x: abs(x.sum() - 0.1) > GAP),
)
_unary("<0> = swish({0})", real)
_unary("<0> = gate({0})", real)
_unary("<0> = bump({0})", real)
_unary("<0> = detach({0})")
_unary("<0> = unrecorded(mg.sin, {0})", real)
_unary("<0> = {0} + detach(mg.tanh({0}))", real)
_unary("<0> = {0}.copy(); <0> *= #")
_unary("<0> = {0} * 1.0; <0> += {0}")
_unary("<0> = mg.sin({0}); <0> -= #")


def _broadcast(form: str, fits: Callable = lambda a, b: True, times: int = 1) -> None:
    """A line of two values that broadcast."""

    def make(o: Operands) -> Chosen | None:
        a, b = o.one(), o.one()
        if a is None or b is None:
            return None
        x, y = o.values[a], o.values[b]
        try:
            np.broadcast_shapes(x.shape, y.shape)
        except ValueError:
            return None
        return Chosen(form.replace("#", str(o.number())), (a, b)) if fits(x, y) else None

    _add(make, times)


def _reals(fits: Callable) -> Callable:
    return lambda x, y: real(x) and real(y) and fits(x, y)


_broadcast("<0> = {0} + {1}", times=3)
_broadcast("<0> = {0} - {1}", times=2)
_broadcast("<0> = {0} * {1}", times=4)
_broadcast("<0> = {0} / {1}", lambda x, y: _off_zero(y), times=2)
_broadcast("<0> = mg.maximum({0}, {1})", _reals(lambda x, y: (np.abs(x - y) > GAP).all()))
_broadcast("<0> = mg.minimum({0}, {1})", _reals(lambda x, y: (np.abs(x - y) > GAP).all()))
_broadcast("<0> = mg.where({0} > {1}, {0}, mg.sin({1}))",
           _reals(lambda x, y: (np.abs(x - y) > GAP).all()))  # fmt: skip
_broadcast("<0> = mg.hypot({0}, {1})", _reals(lambda x, y: _off_zero(x)))
_broadcast("<0> = mg.arctan2({0}, {1})", _reals(lambda x, y: bool(y.min() > 0.2)))
_broadcast("<0> = mg.logaddexp({0}, {1})", _reals(lambda x, y: True))
_broadcast("<0> = mg.pow({0}, {1})", _reals(lambda x, y: bool(x.min() > 0.3)))
_broadcast("<0> = mg.lerp({0}, {1}, 0.3)", _reals(lambda x, y: True))
_broadcast("<0> = mg.addcmul({0}, {0}, {1}, value=#)", _reals(lambda x, y: x.shape == y.shape))
_broadcast("<0> = mg.fuse(lambda a, b: a * mg.tanh(b) + b)({0}, {1})", _reals(lambda x, y: True))
_broadcast("<0> = mg.checkpoint(lambda a, b: mg.sin(a) * b, {0}, {1})", times=2)
_broadcast("<0> = mg.func.jvp(lambda a: mg.sin(a) * a, ({0},), ({1},))[1]", _reals(
    lambda x, y: x.shape == y.shape and x.dtype == y.dtype))  # fmt: skip
_broadcast("<0> = mg.func.vjp(lambda a: mg.sin(a) * a, {0})[1]({1})[0]", _reals(
    lambda x, y: x.shape == y.shape and x.dtype == y.dtype))  # fmt: skip
_broadcast("<0> = sine_of_product({0}, {1})", _reals(lambda x, y: x.shape == y.shape), times=2)
_broadcast("<0> = mg.outer({0}, {1})", lambda x, y: x.ndim == y.ndim == 1)
_broadcast("<0> = mg.stack([{0}, {1}])", lambda x, y: x.shape == y.shape)
_broadcast(
    "<0> = mg.concatenate([{0}, {1}], axis=-1)",
    lambda x, y: x.ndim == y.ndim and x.ndim > 0 and x.shape[:-1] == y.shape[:-1],
)
_broadcast("<0> = {0} * 1.0; <0> *= {1}",
           lambda x, y: np.broadcast_shapes(x.shape, y.shape) == x.shape
           and np.result_type(x, y) == x.dtype)  # fmt: skip
_broadcast(
    "<0> = {0}.copy(); <0>[0] = {1}[0]",
    lambda x, y: x.shape == y.shape and x.ndim and x.dtype == y.dtype,
    times=2,
)
_broadcast(
    "<0> = {0} + 0.0; <0>[..., 0] = <0>[..., 0] * {1}[..., 0]",
    lambda x, y: x.shape == y.shape and x.ndim and x.dtype == y.dtype,
    times=2,
)


def _along(form: str, fits: Callable = any_values, least: int = 1, times: int = 1) -> None:
    """A line with an axis; @ is the axis, ! whether it is kept."""

    def make(o: Operands) -> Chosen | None:
        name = o.one(lambda x: x.ndim > 0 and fits(x))
        if name is None:
            return None
        axis = o.below(o.values[name].ndim)
        if o.values[name].shape[axis] < least:
            return None
        axis -= o.values[name].ndim * o.below(2)
        text = form.replace("@", str(axis)).replace("!", str(bool(o.below(2))))
        return Chosen(text, (name,))

    _add(make, times)


for _f in "sum mean prod".split():
    _along(f"<0> = mg.{_f}({{0}}, axis=@, keepdims=!)", times=2)
_along("<0> = mg.sum({0}, keepdims=!)")
_along("<0> = mg.logsumexp({0}, axis=@, keepdims=!)", real)
_along("<0> = mg.var({0}, axis=@, keepdims=!)", real, 2)
_along("<0> = mg.std({0}, axis=@, keepdims=!)", _apart, 3)
_along("<0> = mg.max({0}, axis=@, keepdims=!)", _apart)
_along("<0> = mg.min({0}, axis=@, keepdims=!)", _apart)
_along("<0> = mg.norm({0}, axis=@, keepdims=!)", _off_zero)
_along("<0> = mg.cumsum({0}, axis=@)")
_along("<0> = mg.cumprod({0}, axis=@)", _off_zero)
_along("<0> = mg.softmax({0}, axis=@)", real, times=2)
_along("<0> = mg.log_softmax({0}, axis=@)", real, times=2)
_along("<0> = mg.sort({0}, axis=@)", _apart)
_along("<0> = mg.flip({0}, axis=@)")
_along("<0> = mg.roll({0}, 1, axis=@)")
_along("<0> = mg.expand_dims({0}, axis=@)")
_along("<0> = mg.repeat({0}, 2, axis=@)")
_along("<0> = mg.take({0}, [0, -1, 0], axis=@)")
_along("<0> = mg.median({0}, axis=@)", lambda x: _apart(x) and x.shape[-1] % 2)
_unary("<0> = {0}.reshape(-1)")
_unary("<0> = {0}.T", lambda x: x.ndim == 2)
_unary("<0> = mg.swapaxes({0}, 0, -1)", lambda x: x.ndim > 1)
_unary("<0> = mg.moveaxis({0}, 0, -1)", lambda x: x.ndim > 1)
_unary("<0> = mg.pad({0}, 1)", lambda x: 0 < x.ndim < 3)
_unary("<0> = mg.tile({0}, 2)", lambda x: x.ndim > 0)
_unary("<0> = mg.broadcast_to({0}, (2, 3))", lambda x: x.shape in [(3,), (1,), (2, 1), (1, 3), ()])
_unary("<0> = {0}[0]", lambda x: x.ndim > 0)
_unary("<0> = {0}[..., ::2]", lambda x: x.ndim > 0)
_unary("<0> = {0}[..., ::-1]", lambda x: x.ndim > 0)
_unary("<0> = {0}[None]", lambda x: x.ndim < 4)
_unary("<0> = {0}[[0, -1, 0]]", lambda x: x.ndim > 0)
_unary("<0> = {0}[..., np.array([0, 0, -1])]", lambda x: x.ndim > 0)
_unary("<0> = mg.tril({0})", lambda x: x.ndim == 2)
_unary("<0> = mg.diagonal({0})", lambda x: x.ndim == 2)
_unary("<0> = mg.diag({0})", lambda x: x.ndim == 1)
_unary("<0> = mg.trace({0})", lambda x: x.ndim == 2)
_unary("<0> = mg.layer_norm({0}, {0}.shape[-1:])",
       lambda x: _apart(x) and x.ndim > 0 and x.shape[-1] > 2)  # fmt: skip
_unary("<0> = mg.avg_pool1d({0}, 2)", lambda x: real(x) and x.ndim == 3 and x.shape[-1] > 1)
_unary("<0> = mg.max_pool1d({0}, 2)", lambda x: _apart(x) and x.ndim == 3 and x.shape[-1] > 1)
_unary("<0> = mg.linalg.inv({0} + 4 * np.eye({0}.shape[-1], dtype={0}.dtype))",
       lambda x: x.ndim == 2 and x.shape[0] == x.shape[1] and _small(x))  # fmt: skip
_unary("<0> = mg.einsum('ij,kj->ik', {0}, {0})", lambda x: x.ndim == 2)
_unary("<0> = mg.rms_norm({0}, {0}.shape[-1:])", _real(lambda x: x.ndim > 0 and _off_zero(x)))
_unary("<0> = mg.cross_entropy({0}, np.arange({0}.shape[0]) % {0}.shape[1])",
       _real(lambda x: x.ndim == 2))  # fmt: skip
_unary("<0> = mg.scaled_dot_product_attention({0}, {0} * #, {0})",
       _real(lambda x: x.ndim > 1 and x.size < 100))  # fmt: skip


@_add
def _halves(o: Operands) -> Chosen | None:
    name = o.one(lambda x: x.ndim > 0 and x.shape[-1] > 1)
    return Chosen("<0>, <1> = mg.split({0}, [1], axis=-1)", (name,), 2) if name else None


@_add
def _moments(o: Operands) -> Chosen | None:
    name = o.one(lambda x: real(x) and x.ndim > 0 and x.shape[-1] > 1)
    return Chosen("<0>, <1> = mg.var_mean({0}, axis=-1)", (name,), 2) if name else None


@_add
def _rows(o: Operands) -> Chosen | None:
    name = o.one(lambda x: x.ndim > 1 and x.shape[0] == 2)
    return Chosen("<0>, <1> = mg.unstack({0})", (name,), 2) if name else None


def _product(o: Operands) -> Chosen | None:
    a, b = o.one(lambda x: x.ndim > 0), o.one(lambda x: x.ndim > 0)
    if a is None or b is None:
        return None
    try:
        np.matmul(o.values[a], o.values[b])
    except ValueError:
        return None
    return Chosen("<0> = {0} @ {1}", (a, b))


_add(_product, 12)


def _conv(o: Operands) -> Chosen | None:
    x = o.one(lambda x: real(x) and x.ndim == 3 and x.shape[-1] > 1)
    if x is None:
        return None
    (_, channels, length), dtype = o.values[x].shape, o.values[x].dtype

    def is_kernel(w: np.ndarray) -> bool:
        fits = w.ndim == 3 and w.shape[1] == channels and w.shape[2] <= length + 4
        return fits and w.dtype == dtype

    w = o.one(is_kernel)
    return Chosen("<0> = mg.conv1d({0}, {1}, padding=2)", (x, w)) if w else None


_add(_conv, 4)
