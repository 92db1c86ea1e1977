"""One variant of an op's forward against its reference, and its derivatives against the
reference's."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...backends.dtypes import finfo
from ...custom.rule_variants import own_rules
from ...custom.variants import Variant, Variants
from ...engine.primitive import Primitive
from ...tensor_api.tensor import Tensor
from ..case import Context, differentiated, is_elementwise
from ..errors import GradcheckError
from ..function import floating_results, gradients, is_smooth_array, results
from ..spec import OpSpec
from .device import on_device
from .nearness import allowed, same_bits
from .variant_calls import Call

_ROUNDINGS = 256  # tolerated for other arithmetic: compiled/functions.py
_FLOOR = 1 / 16  # of a unit, added to an element's size: terms of size one may cancel in it
_MOVES = 8  # times the change by one rounding of the arguments
_SUMS = 1000  # roundings of the largest entry: sums may add in another order


@dataclass
class Parity:
    """The findings for one variant.

    calls     the calls that it has computed and that were compared
    worst     the largest difference in units in the last place; 0: the same bits
    failure   the first difference that is too large
    """

    op: str
    variant: str
    device: str
    calls: int = 0
    worst: float = 0.0
    failure: str = ""
    unreached: str = "it took no call"


class Beside:
    """A forward that computes the reference, and also the variant's result, to compare."""

    def __init__(
        self, spec: OpSpec, op: Primitive, variant: Variant, found: Parity, xp: Any
    ):  # fmt: skip
        self.spec, self.op, self.reference = spec, op, op.reference
        self.variant, self.found = variant, found
        self.form, self.xp = Variants(op.name, op.reference, (variant,)), xp
        self.outputs = op.outputs or 1

    def __call__(self, *arrays: Any, **params: Any) -> Any:
        expected = self.reference(*arrays, **params)
        before = self.variant.calls
        try:
            y = self.form(*arrays, **params)
        except Exception as error:
            raise GradcheckError(f"it raises {error!r}, which the reference does not") from error
        if self.variant.calls > before:
            self.found.calls += 1
            self.near(
                self.numpys(expected, arrays, params), self.named(y), arrays,
                lambda moved: self.numpys(None, moved, params),
            )  # fmt: skip
        return expected

    def compare(self, spec: OpSpec, call: Call, context: Context, inside: bool = False) -> None:
        """One call: each run of the op's forward in it, then its derivatives as a whole.

        inside: a call of another function, whose rules may run the op
        """
        op, xp, before = self.op, self.xp, self.found.calls
        seed = int(context.rng(spec.name, "K34", call.what).integers(1 << 32))
        args, params = on_device(call.args, xp), on_device(call.params, xp)
        positions = differentiated(spec, call.args)

        def derived(args: tuple) -> dict[str, Any]:
            rng = np.random.default_rng(seed)
            return derivatives(spec.call, args, params, positions, rng, xp)

        def by_the_reference(args: tuple) -> dict[str, Any]:
            with with_forward(op, op.reference), own_rules(op):
                return derived(args)

        try:
            with with_forward(op, self):
                if inside:
                    derived(args)
                else:
                    spec.call(*[Tensor(x) if is_smooth_array(x) else x for x in args], **params)
            if self.found.calls == before or not call.differentiate or not positions:
                return
            expected = by_the_reference(args)
        except GradcheckError as error:
            raise GradcheckError(f"{call.what}: {error}") from error
        except Exception:
            return  # the op itself refuses; a matrix of equal rows has no derivative
        with with_forward(op, self.form):
            found = derived(args)
        try:
            self.near(expected, found, args, by_the_reference)
        except GradcheckError as error:
            raise GradcheckError(f"{call.what}: {error}") from error

    def named(self, y: Any) -> dict[str, Any]:
        """A forward's results and residuals; on a GPU the results alone. There a kernel may save
        other residuals than the reference, for its rules to read; their gradients are compared."""
        arrays = [a for a in results(y) if hasattr(a, "dtype")]
        several = len(arrays) if self.xp is np else self.outputs
        return {f"result {i}": a for i, a in enumerate(arrays[:several])}

    def numpys(self, expected: Any, arrays: tuple, params: dict) -> dict[str, Any]:
        """The reference's result. For a GPU's arrays the host computes it: CuPy's remainder(5, inf)
        is NaN, and its clip ignores a NaN among the bounds."""
        if self.xp is not np:
            arrays, params = _back_on_host(arrays), _back_on_host(params)
        if self.xp is not np or expected is None:
            expected = self.reference(*arrays, **params)
        return self.named(expected)

    def near(self, expected: dict, given: dict, args: tuple, at: Callable[[tuple], dict]) -> None:
        """Require the variant's arrays to equal the expected ones but for rounding; record the
        largest difference.

        at   returns the expected arrays for other arguments, called only if a value is off
        """
        if expected.keys() != given.keys():
            raise GradcheckError(f"it gives {[*given]}, the reference {[*expected]}")
        moved: dict = {}
        bounds = Bounds(self.spec, self.variant, [*expected.values()], args)
        for what, a in expected.items():
            b = _on_host(given[what])

            def change(what: str = what) -> np.ndarray:
                if not moved:
                    moved.update(at(_by_a_rounding(args, self.xp)))
                return _on_host(moved[what])

            off = bounds.difference(_on_host(a), b, what, change)
            self.found.worst = max(self.found.worst, off)


def _by_a_rounding(args: tuple, xp: Any) -> tuple:
    """The arguments, each number moved by one rounding, up or down."""
    moved = list(args)
    for i, x in enumerate(args):
        if is_smooth_array(x):
            signs = np.resize([1, -1, -1, 1, 1, -1, 1], x.shape) * float(finfo(x.dtype).eps)
            moved[i] = (x * xp.asarray((1 + signs).astype(np.float64))).astype(x.dtype)
    return tuple(moved)


@contextmanager
def with_forward(op: Primitive, forward: Callable) -> Iterator[None]:
    """The op with this forward alone."""
    before = op.forward
    op._set_forward(forward)
    try:
        yield
    finally:
        op._set_forward(before)


def derivatives(
    call: Callable, args: tuple, params: dict, positions: list[int], rng: np.random.Generator,
    xp: Any,
) -> dict[str, Any]:  # fmt: skip
    """The gradients for a random cotangent, and the gradients of a random sum of those."""
    given, leaves = list(args), [Tensor(args[i], requires_grad=True) for i in positions]
    for i, leaf in zip(positions, leaves, strict=True):
        given[i] = leaf
    ys = [y for y in floating_results(call(*given, **params)) if getattr(y, "requires_grad", False)]
    if not ys:
        return {}
    vs = [Tensor(xp.asarray(random_like(rng, y)), requires_grad=True) for y in ys]
    gs = gradients(leaves, ys, vs, create_graph=True)
    found = {f"the gradient of argument {i}": g for i, g in zip(positions, gs) if g is not None}
    again = [g for g in found.values() if g.requires_grad]
    ws = [xp.asarray(random_like(rng, g)) for g in again]
    names = [*[f"argument {i}" for i in positions], *["the cotangent"] * len(vs)]
    for name, h in zip(names, gradients([*leaves, *vs], again, ws), strict=True):
        if h is not None:
            found[f"the second derivative by {name}"] = h
    return {what: g.data for what, g in found.items()}


def random_like(rng: np.random.Generator, like: Any) -> np.ndarray:
    """N(0, 1) values of the shape and dtype, on the host; in the layout of a given array."""
    v = rng.standard_normal(like.shape)
    if like.dtype.kind == "c":
        v = v + 1j * rng.standard_normal(like.shape)
    y = like.data if isinstance(like.data, np.ndarray) else v
    laid = np.empty_like(y, like.dtype)
    laid[...] = v
    return laid


# -- how near ----------------------------------------------------------------------------------


def _back_on_host(value: Any) -> Any:
    """The same tuples, lists and dicts with NumPy's arrays in place of CuPy's."""
    if isinstance(value, dict):
        return {key: _back_on_host(x) for key, x in value.items()}
    if type(value) in (tuple, list):
        return type(value)([_back_on_host(x) for x in value])
    return value.get() if hasattr(value, "get") and hasattr(value, "dtype") else value


def _on_host(x: Any) -> np.ndarray:
    return x.get() if hasattr(x, "get") else np.asarray(x)


@dataclass
class Bounds:
    """The tolerances of a variant's arrays against the expected ones."""

    spec: OpSpec
    variant: Variant
    expected: list
    args: tuple

    def difference(
        self, a: np.ndarray, b: np.ndarray, what: str, moved: Callable[[], np.ndarray]
    ) -> float:
        """The largest difference of b from a in units in the last place; GradcheckError if it is
        too large. moved: returns a for arguments each moved by one rounding."""
        if a.shape != b.shape or a.dtype != b.dtype:
            told = f"{b.dtype} {b.shape}; the reference's {a.dtype} {a.shape}"
            raise GradcheckError(f"{what} is {told}")
        other = ~same_bits(a, b)
        if is_smooth_array(a):
            other &= ~(np.isnan(a) & np.isnan(b))
        if not other.any():
            return 0.0
        if not is_smooth_array(a):
            raise _differs(a, b, other, what)
        with np.errstate(all="ignore"):
            off, unit = _distance(a, b), self.unit(a)
            wrong = other & ~(off <= self.bound(a, unit))
            if wrong.any() and not self.is_exact(a):
                change = self.changes(a, moved())
                wrong &= ~(off <= self.bound(a, unit) + _MOVES * change)
                unit = unit + change
            if wrong.any():
                raise _differs(a, b, wrong, what)
            shares = np.where(other & np.isfinite(off) & (off > 0), off / unit, 0.0)
        return float(np.max(shares, initial=0.0))

    def sizes(self) -> list[int]:
        """Of the results, then of the arguments: see nearness.require_near."""
        arrays = [int(x.size) for x in self.args if hasattr(x, "size")]
        return [max([int(y.size) for y in self.expected], default=0), *arrays]

    def unit(self, a: np.ndarray) -> Any:
        """The rounding of an element, if elements are computed one by one; else of the largest."""
        eps = float(finfo(a.dtype).eps)
        if self.is_each(a):
            return eps * (np.where(np.isfinite(a), np.abs(a), 0) + _FLOOR)
        return eps * max([_largest(_on_host(y)) for y in self.expected])

    def is_each(self, a: np.ndarray) -> bool:
        """Whether an element of a comes from one element of each argument, without a sum over
        broadcast axes."""
        return is_elementwise(self.spec) and a.size == max(self.sizes())

    def is_exact(self, a: np.ndarray) -> bool:
        return self.variant.followed and allowed(self.spec, a, self.sizes()) is None

    def bound(self, a: np.ndarray, unit: Any) -> Any:
        """The tolerance; below 0 it is none: not even 0 and −0 are the same."""
        if self.is_exact(a):
            return -1.0
        if self.variant.followed:
            scale = max([_largest(_on_host(y)) for y in self.expected])
            return allowed(self.spec, a, self.sizes(), scale)
        return (_ROUNDINGS if self.is_each(a) else _SUMS) * unit

    def changes(self, a: np.ndarray, moved: np.ndarray) -> Any:
        """√n times the change by one rounding of the arguments, n the longest axis."""
        if moved.shape != a.shape:
            return 0.0
        if self.is_each(a):
            return np.abs(moved - a)
        longest = max([n for x in self.args for n in np.shape(x)], default=1)
        return longest**0.5 * _largest(moved - a)


def _distance(a: Any, b: Any) -> Any:
    """a − b|; a part of complex numbers that is infinite in both counts as equal."""
    if a.dtype.kind != "c":
        return np.abs(a - b)
    parts = (a.real, b.real), (a.imag, b.imag)
    return np.hypot(*[np.where(one == other, 0, one - other) for one, other in parts])


def _largest(a: np.ndarray) -> float:
    return float(np.max(np.abs(a[np.isfinite(a)]), initial=0.0)) if is_smooth_array(a) else 0.0


def _differs(a: np.ndarray, b: np.ndarray, wrong: np.ndarray, what: str) -> GradcheckError:
    at = tuple(int(k) for k in np.argwhere(np.atleast_1d(wrong))[0])[: a.ndim]
    return GradcheckError(
        f"{what} is {b[at]!r} at {list(at)}, the reference's {a[at]!r} ({int(wrong.sum()):,} of "
        f"{a.size:,} elements differ)"
    )
