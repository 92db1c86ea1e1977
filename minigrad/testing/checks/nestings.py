"""K28: the second derivative is one number, however the transforms that give it are nested.

Each nesting takes another way through the engine: which level records which, whether a rule sees
arrays, recorded tensors, tensors of a level or dual numbers, and where the axis of vmap is. The
function is a scalar with the op inside of products, so that nothing in it is constant:

    S(x, w) = Re Σ f(x) · (w̄ + c f(x) + d h(x)),   h a polynomial in all elements of x

with x and w differentiated. Compared is H u, its Hessian times a random direction u; where a
transform gives whole matrices, those of a ↦ S((x, w) + a₀ t + a₁ u), two by two.
"""

import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ...core.errors import TransformError
from ...core.registry import op
from ...core.tensor import Tensor
from ..case import Case
from ..compare import check_direction, finite
from ..errors import DoesNotApply, GradcheckError
from ..function import Arrays, Function, as_array, gradients, pulled_back
from ..numeric import normal, pack
from .base import check

_AGREE = 1e-9  # of the largest entry: the ways differ in rounding alone, and in how it is magnified
_STEP = 0.01  # how far the second example lies from the first: inside the same domain
PARTS = ("w", "f", "h")  # what f(x) is multiplied by: another variable, itself, a function of x


@check("K28", "second order: the same by every nesting of transforms")
def k28(case: Case) -> int:
    """Against finite differences, and each nesting against the others, vmap over each too.

    At the fast level the first sample of each kind and each set of parameters, and vmap on the
    first; at the full level all samples, and the three products each alone.
    """
    function, rng = case.function(), case.rng("K28")
    if not function.xs or not sum(y.size for y in function.value(function.xs)):
        raise DoesNotApply("a sample without a differentiable argument and result")
    if not case.context.full and not is_first_of_its_parameters(case):
        raise DoesNotApply("other samples have the same parameters")
    count = nestings_agree(function, rng, PARTS, mapped=case.context.full or is_first(case))
    if case.context.full:
        count += sum(nestings_agree(function, rng, (part,), mapped=False) for part in PARTS)
    return count


def is_first(case: Case) -> bool:
    return case.sample is case.context.samples(case.spec, case.dtype)[0]


def is_first_of_its_parameters(case: Case) -> bool:
    """Whether no sample before it has the same kinds of arguments and the same parameters."""

    def form(sample: Any) -> tuple:
        kinds = [x.dtype.kind if isinstance(x, np.ndarray) else repr(x) for x in sample.args]
        return kinds, repr(sample.params)

    samples = case.context.samples(case.spec, case.dtype)
    return next(s for s in samples if form(s) == form(case.sample)) is case.sample


def nestings_agree(
    function: Function, rng: np.random.Generator, parts: Sequence[str], mapped: bool
) -> int:
    """How many ways gave the second derivative of S; GradcheckError at the first that differs."""
    scalar = in_products(function, rng, parts)
    point = scalar.xs
    us, ts = normal(rng, point), normal(rng, point)
    u, t = pack(us), pack(ts)
    hu = check_direction(Gradient(scalar), point, ts, us, "second derivative, create_graph twice")
    ht = pack(Gradient(scalar).vjp(point, ts))
    count = 1
    along = np.array([t, u]) @ np.stack([ht, hu], axis=1)  # [[tHt, tHu], [uHt, uHu]]
    sizes = np.abs([t, u]) @ np.abs(np.stack([ht, hu], axis=1))
    for name, way in vectors(scalar, us).items():
        _agree(pack(way(*_tensors(point))), hu, np.abs(hu).max(), name)
        count += 1
    for name, way in matrices(scalar, ts, us).items():
        _agree(way(*_tensors(point)), along, sizes.max(), name)
        count += 1
    return count + (_under_vmap(scalar, us, ts, hu, along, sizes.max()) if mapped else 0)


def in_products(function: Function, rng: np.random.Generator, parts: Sequence[str]) -> Function:
    """S as a function of the arguments of f and of one array w for each result."""
    xs, ys = function.xs, function.value(function.xs)
    n, weights = len(xs), normal(rng, ys)
    cs = [c / _largest(y) for c, y in zip(normal(rng, ys), ys, strict=True)]
    ds, slopes, bends = normal(rng, ys), normal(rng, xs), normal(rng, xs)
    share = max(1, sum(x.size for x in xs))
    slopes, bends = ([r / (share * _largest(x)) for r, x in zip(rs, xs, strict=True)]
                     for rs in (slopes, bends))  # fmt: skip
    known = [None if np.isfinite(x).all() else np.isfinite(x) for x in xs]  # nansum and its kin

    def polynomial(ts: Sequence[Any]) -> Any:
        total: Any = 1.0
        for t, r, q, good in zip(ts, slopes, bends, known, strict=True):
            t = t if good is None else op.where(good, t, 0.0)
            total = total + op.sum(op.real(t * (r + q * t)))
        return total

    def scalar(*args: Any) -> Any:
        ts, ws = args[:n], args[n:]
        h = polynomial(ts) if "h" in parts else 0.0
        total: Any = 0.0
        for y, w, c, d in zip(function.call(ts), ws, cs, ds, strict=True):
            factor = d * h
            factor = factor + op.conj(w) if "w" in parts else factor
            factor = factor + c * y if "f" in parts else factor
            total = total + op.sum(op.real(y * factor))
        return total

    names = [function.names[i] for i in function.positions] + ["w"] * len(weights)
    return Function(scalar, (*xs, *weights), None, range(len(names)), names)


def _largest(x: np.ndarray) -> float:
    largest = float(np.max(np.abs(finite(x)), initial=0.0))
    return largest or 1.0


class Gradient(Function):
    """The gradient of a scalar, by a plain backward; its own derivative by create_graph."""

    def __init__(self, scalar: Function):
        super().__init__(scalar.fn, scalar.args, None, scalar.positions, scalar.names)
        self.scalar = scalar

    def value(self, xs: Sequence[Any]) -> Arrays:
        return self.scalar.vjp(xs, [np.ones(())])

    def record(self, xs: Sequence[Any]) -> tuple[list[Tensor], list[Any]]:
        leaves, ys = self.scalar.record(xs)
        gs = gradients(leaves, ys, [Tensor(np.ones(()))], create_graph=True)
        return leaves, [Tensor(np.zeros_like(x)) if g is None else g for x, g in zip(xs, gs)]


def vectors(scalar: Function, us: Arrays) -> dict[str, Callable]:
    """The ways to H u without a Jacobian, by name: point -> one array for each variable."""
    from ... import func

    places, directions = tuple(range(len(us))), tuple(_tensors(us))
    gradient = func.grad(scalar.fn, places)

    def along(gs: Sequence[Any]) -> Any:
        return sum(op.sum(op.real(g * op.conj(u))) for g, u in zip(gs, directions, strict=True))

    def pulled(*point: Any) -> tuple:
        return func.vjp(scalar.fn, *point)[1](Tensor(np.ones(())))

    def pushed(*point: Any) -> Any:
        return func.jvp(scalar.fn, point, directions)[1]

    return {
        "grad of grad": func.grad(lambda *point: along(gradient(*point)), places),
        "grad of jvp": func.grad(pushed, places),
        "jvp of grad": lambda *point: func.jvp(gradient, point, directions)[1],
        "vjp of vjp": lambda *point: func.vjp(pulled, *point)[1](directions),
    }


def matrices(scalar: Function, ts: Arrays, us: Arrays) -> dict[str, Callable]:
    """The ways to a Hessian, by name: point -> [[tHt, tHu], [uHt, uHu]]."""
    from ... import func

    def of(transform: Callable) -> Callable:
        def way(*point: Any) -> Any:
            def at(a: Any) -> Any:
                moved = [x + a[0] * t + a[1] * u for x, t, u in zip(point, ts, us, strict=True)]
                return scalar.fn(*moved)

            return transform(at)(Tensor(np.zeros(2)))

        return way

    return {
        "hessian": of(func.hessian),
        "jacrev of jacfwd": of(lambda f: func.jacrev(func.jacfwd(f))),
        "jacfwd of jacfwd": of(lambda f: func.jacfwd(func.jacfwd(f))),
        "jacrev of jacrev": of(lambda f: func.jacrev(func.jacrev(f))),
    }


def _under_vmap(
    scalar: Function, us: Arrays, ts: Arrays, hu: np.ndarray, along: np.ndarray, size: float
) -> int:
    """How many ways were compared for two points at once; 0 where vmap or a point is refused."""
    from ... import func

    first = scalar.xs
    second = [x + _STEP * t for x, t in zip(first, ts, strict=True)]
    value = scalar.value_or_refusal(second)
    if value is None or not np.isfinite(value[0]):
        second = first
    points = [Tensor(np.stack(pair)) for pair in zip(first, second, strict=True)]
    expected = [hu, pack(Gradient(scalar).vjp(second, us))]
    largest = max([np.abs(h).max(initial=0.0) for h in expected])
    mapped = func.vmap(scalar.fn)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", func.VmapWarning)
        try:
            mapped(*points)
        except (TransformError, ValueError):
            return 0
        for name, way in vectors(scalar, us).items():
            found = [as_array(h) for h in func.vmap(way)(*points)]
            for k in range(2):
                _agree(pack([h[k] for h in found]), expected[k], largest, f"vmap of {name}")
        for name, way in matrices(scalar, ts, us).items():
            _agree(as_array(func.vmap(way)(*points))[0], along, size, f"vmap of {name}")
        total = Function(lambda *xs: op.sum(mapped(*xs)), [as_array(x) for x in points])
        both = [np.stack([u, u]) for u in us]
        ways = {"create_graph twice": lambda *xs: Gradient(total).vjp(total.xs, both)}
        for name, way in {**ways, **vectors(total, both)}.items():
            found = [as_array(h) for h in way(*points)]
            for k in range(2):
                _agree(pack([h[k] for h in found]), expected[k], largest, f"{name} of vmap")
    return 13


def _tensors(arrays: Sequence[Any]) -> list[Tensor]:
    return [Tensor(x) for x in arrays]


def _agree(found: Any, expected: np.ndarray, size: float, what: str) -> None:
    found = as_array(found)
    wrong = ~(np.abs(found - expected) <= _AGREE * size)
    if found.shape != expected.shape or wrong.any():
        k = int(np.argmax(wrong))
        raise GradcheckError(
            f"second derivative of op(x)·(w + op(x) + h(x)) by {what}: "
            f"{found.reshape(-1)[k]!r} where create_graph and finite differences give "
            f"{expected.reshape(-1)[k]!r} (the largest entry is {size:.3g})"
        )
