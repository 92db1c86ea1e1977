"""K28: the second derivative is one number in every nesting of transforms.

Each nesting takes another path through the engine. It decides which level records which, and where
the axis of vmap is. A rule may see arrays, recorded tensors, tensors of a level or dual numbers.
The function is a scalar with the op inside of products, without any constant in it:

    S(x, w) = Re Σ f(x) · (w̄ + c f(x) + d h(x)),   h a polynomial in all elements of x

with x and w differentiated. The check compares H u, its Hessian times a random direction u. For
transforms that give whole matrices it compares those of a ↦ S((x, w) + a₀ t + a₁ u), two by two.
"""

import functools
import operator
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from ...engine.registry import op
from ...errors import TransformError
from ...tensor_api.tensor import Tensor
from ..case import Case
from ..compare import check_direction, finite
from ..errors import DoesNotApply, GradcheckError
from ..function import Arrays, Function, as_array, gradients
from ..numeric import normal, pack
from .base import check

_AGREE = 1e-9  # of the largest entry: the ways differ only in rounding, and in its magnification
_STEP = 0.01  # the distance of the second example from the first: inside the same domain
PARTS = ("w", "f", "h")  # the factors of f(x): another variable, itself, a function of x


@check("K28", "second order: the same by every nesting of transforms")
def k28(case: Case) -> int:
    """Against finite differences, and each nesting against the others, also with vmap over each.

    The fast level uses the first sample of each kind and each set of parameters; vmap and the third
    order use the first sample. The full level runs everything on all samples, each of the three
    products alone, and each argument alone.
    """
    function, rng = case.function(), case.rng("K28")
    if not function.xs or not sum(y.size for y in function.value(function.xs)):
        raise DoesNotApply("a sample without a differentiable argument and result")
    if not case.context.full and not is_first_of_its_parameters(case):
        raise DoesNotApply("other samples have the same parameters")
    full = case.context.full
    count, size = nestings_agree(function, rng, PARTS, whole=full or is_first(case))
    alone = [
        Function(function.fn, function.args, function.params, [i], function.names)
        for i in function.positions
    ]
    for f, parts in (
        *((function, (part,)) for part in PARTS if full),
        *((f, PARTS) for f in alone if full and len(alone) > 1 and f.xs[0].size),
    ):
        count += nestings_agree(f, rng, parts, whole=False, size=size)[0]
    return count


def is_first(case: Case) -> bool:
    return case.sample is case.context.samples(case.spec, case.dtype)[0]


def is_first_of_its_parameters(case: Case) -> bool:
    """Whether no earlier sample has the same kinds of arguments and the same parameters."""

    def form(sample: Any) -> tuple:
        kinds = [x.dtype.kind if isinstance(x, np.ndarray) else repr(x) for x in sample.args]
        return kinds, repr(sample.params)

    samples = case.context.samples(case.spec, case.dtype)
    return next(s for s in samples if form(s) == form(case.sample)) is case.sample


def nestings_agree(
    function: Function, rng: np.random.Generator, parts: Sequence[str], whole: bool,
    size: float = 0.0,
) -> tuple[int, float]:  # fmt: skip
    """(how many ways gave the second derivative of S, its size); an error at one that differs.

    whole   also under vmap, and the third derivative
    size    of the terms, which may cancel: √x · √x has a second derivative of 0
    """
    scalar = in_products(function, rng, parts)
    point = scalar.xs
    us, ts = normal(rng, point), normal(rng, point)
    u, t = pack(us), pack(ts)
    hu = check_direction(Gradient(scalar), point, ts, us, "second derivative, create_graph twice")
    ht = pack(Gradient(scalar).vjp(point, ts))
    along = np.array([t, u]) @ np.stack([ht, hu], axis=1)  # [[tHt, tHu], [uHt, uHu]]
    sizes = np.abs([t, u]) @ np.abs(np.stack([ht, hu], axis=1))
    ways, size = Ways(scalar, ts, us), max(size, float(np.abs(hu).max()))
    total = max(size, float(sizes.max()))
    for name, way in ways.vectors().items():
        _agree(pack(way(*_tensors(point))), hu, size, name)
    for name, way in ways.matrices().items():
        _agree(way(*_tensors(point)), along, total, name)
    if not whole:
        return 9, size
    third = pack(Gradient(scalar, us).vjp(point, us))
    for name, way in ways.thirds().items():
        _agree(pack(way(*_tensors(point))), third, max(size, np.abs(third).max()), name)
    return 13 + _under_vmap(scalar, ways, hu, along, total), size


def in_products(function: Function, rng: np.random.Generator, parts: Sequence[str]) -> Function:
    """S as a function of the arguments of f and of one array w for each result."""
    xs, ys = function.xs, function.value(function.xs)
    n, weights = len(xs), normal(rng, ys)
    cs = _tensors([c / _largest(y) for c, y in zip(normal(rng, ys), ys, strict=True)])
    ds, slopes, bends = _tensors(normal(rng, ys)), normal(rng, xs), normal(rng, xs)
    share = max(1, sum(x.size for x in xs))
    slopes, bends = (_tensors([r / (share * _largest(x)) for r, x in zip(rs, xs, strict=True)])
                     for rs in (slopes, bends))  # fmt: skip
    known = [None if np.isfinite(x).all() else np.isfinite(x) for x in xs]  # as nansum's arguments

    def polynomial(ts: Sequence[Any]) -> Any:
        terms = []
        for t, r, q, good in zip(ts, slopes, bends, known, strict=True):
            t = t if good is None else op.where(good, t, 0.0)
            terms.append(op.sum(_real(t * (r + q * t))))
        return _total(terms)

    def scalar(*args: Any) -> Any:
        ts, ws = args[:n], args[n:]
        h, sums = polynomial(ts) if "h" in parts else None, []
        for y, w, c, d in zip(function.call(ts), ws, cs, ds, strict=True):
            terms = {"w": lambda: _conj(w), "f": lambda: c * y, "h": lambda: d * h}
            sums.append(op.sum(_real(y * _total(terms[part]() for part in parts))))
        return _total(sums)

    names = [function.names[i] for i in function.positions] + ["w"] * len(weights)
    return Function(scalar, (*xs, *weights), None, range(len(names)), names)


def _largest(x: np.ndarray) -> float:
    largest = float(np.max(np.abs(finite(x)), initial=0.0))
    return largest or 1.0


class Gradient(Function):
    """The gradient of a scalar, by a plain backward; its own derivative by create_graph.

    With `us`, the gradient of the scalar's derivative along these.
    """

    def __init__(self, scalar: Function, us: Arrays | None = None):
        super().__init__(scalar.fn, scalar.args, None, scalar.positions, scalar.names)
        self.scalar, self.us = scalar, us

    def value(self, xs: Sequence[Any]) -> Arrays:
        return self.scalar.vjp(xs, [np.ones(())])

    def record(self, xs: Sequence[Any]) -> tuple[list[Tensor], list[Any]]:
        leaves, [y] = self.scalar.record(xs)
        if self.us is not None:
            y = _inner(self._of(leaves, y), self.us)
        return leaves, self._of(leaves, y)

    def _of(self, leaves: list[Tensor], y: Any) -> list[Any]:
        gs = gradients(leaves, [y], [Tensor(np.ones(()))], create_graph=True)
        return [Tensor(np.zeros_like(x.data)) if g is None else g for x, g in zip(leaves, gs)]


class Ways:
    """The nestings that differentiate a scalar along directions, each a function of the point."""

    def __init__(self, scalar: Function, ts: Arrays, us: Arrays):
        from ... import func

        self.func, self.scalar, self.ts, self.us = func, scalar, ts, us
        self.planes = [Tensor(np.stack(pair, axis=-1)) for pair in zip(ts, us, strict=True)]
        self.directions = tuple(_tensors(us))

    def gradient(self, f: Callable) -> Callable:
        return self.func.grad(f, tuple(range(len(self.us))))

    def pulled(self, f: Callable) -> Callable:
        """The derivative of f along us, by reverse mode."""
        gradient = self.gradient(f)
        return lambda *point: _inner(gradient(*point), self.directions)

    def pushed(self, f: Callable) -> Callable:
        """The same by forward mode."""
        return lambda *point: self.func.jvp(f, point, self.directions)[1]

    def vectors(self) -> dict[str, Callable]:
        """point -> H u, one array for each variable."""
        func, f = self.func, self.scalar.fn
        one = Tensor(np.ones(()))
        once = lambda *point: func.vjp(f, *point)[1](one)
        return {
            "grad of grad": self.gradient(self.pulled(f)),
            "grad of jvp": self.gradient(self.pushed(f)),
            "jvp of grad": self.pushed(self.gradient(f)),
            "vjp of vjp": lambda *point: func.vjp(once, *point)[1](self.directions),
        }

    def thirds(self) -> dict[str, Callable]:
        """point -> the gradient of uᵀHu."""
        f = self.scalar.fn
        return {
            "grad of grad of grad": self.gradient(self.pulled(self.pulled(f))),
            "grad of grad of jvp": self.gradient(self.pulled(self.pushed(f))),
            "grad of jvp of grad": self.gradient(self.pushed(self.pulled(f))),
            "jvp of jvp of grad": self.pushed(self.pushed(self.gradient(f))),
        }

    def matrices(self) -> dict[str, Callable]:
        """point -> [[tHt, tHu], [uHt, uHu]]."""
        func = self.func

        def of(transform: Callable) -> Callable:
            def way(*point: Any) -> Any:
                def at(a: Any) -> Any:
                    moved = zip(point, self.planes, strict=True)
                    return self.scalar.fn(*[x + plane @ a for x, plane in moved])

                return transform(at)(Tensor(np.zeros(2)))

            return way

        return {
            "hessian": of(func.hessian),
            "jacrev of jacfwd": of(lambda f: func.jacrev(func.jacfwd(f))),
            "jacfwd of jacfwd": of(lambda f: func.jacfwd(func.jacfwd(f))),
            "jacrev of jacrev": of(lambda f: func.jacrev(func.jacrev(f))),
        }


def _under_vmap(
    scalar: Function, ways: Ways, hu: np.ndarray, along: np.ndarray, size: float
) -> int:
    """How many ways were compared for two points at once; 0 if vmap refuses the value."""
    from ... import func

    def over(f: Callable) -> Callable:
        return func.vmap(f, randomness="same")

    first, us = scalar.xs, ways.us
    second = [x + _STEP * t for x, t in zip(first, ways.ts, strict=True)]
    value = scalar.value_or_refusal(second)
    if value is None or not np.isfinite(value[0]):
        second = first
    points = [Tensor(np.stack(pair)) for pair in zip(first, second, strict=True)]
    expected = [hu, pack(Gradient(scalar).vjp(second, us))]
    largest = max([np.abs(h).max(initial=0.0) for h in expected])

    def each(found: Sequence[Any], name: str) -> None:
        arrays = [as_array(h) for h in found]
        for k in range(2):
            _agree(pack([h[k] for h in arrays]), expected[k], largest, name)

    mapped = over(scalar.fn)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", func.VmapWarning)
        try:
            mapped(*points)
        except (TransformError, ValueError):
            return 0
        for name, way in ways.vectors().items():
            each(over(way)(*points), f"vmap of {name}")
        for name, way in ways.matrices().items():
            _agree(as_array(over(way)(*points))[0], along, size, f"vmap of {name}")
        total = Function(lambda *xs: op.sum(mapped(*xs)), [as_array(x) for x in points])
        both = [np.stack([u, u]) for u in us]
        each(Gradient(total).vjp(total.xs, both), "create_graph of vmap")
        of_both = Ways(total, both, both)
        for name, way in of_both.vectors().items():
            each(way(*points), f"{name} of vmap")
        between = over(ways.gradient(scalar.fn))
        pulled = of_both.gradient(lambda *xs: _inner(between(*xs), of_both.directions))
        each(pulled(*points), "grad of vmap of grad")
        each(of_both.pushed(between)(*points), "jvp of vmap of grad")
    return 15


def _inner(gs: Sequence[Any], us: Sequence[Any]) -> Any:
    """Re Σ ū·g over all arrays."""
    return _total(op.sum(_real(g * _conj(u))) for g, u in zip(gs, us, strict=True))


def _total(terms: Iterable[Any]) -> Any:
    """Their sum; `sum` begins with 0 and would add a node."""
    return functools.reduce(operator.add, terms)


def _real(x: Any) -> Any:
    """Re x; a real x itself: the functions compared here are long chains of nodes."""
    return op.real(x) if x.dtype.kind == "c" else x


def _conj(x: Any) -> Any:
    return op.conj(x) if x.dtype.kind == "c" else x


def _tensors(arrays: Sequence[Any]) -> list[Tensor]:
    return [Tensor(x) for x in arrays]


def _agree(found: Any, expected: np.ndarray, size: float, what: str) -> None:
    found = as_array(found)
    wrong = ~(np.abs(found - expected) <= _AGREE * size)
    if found.shape != expected.shape or wrong.any():
        k = int(np.argmax(wrong))
        raise GradcheckError(
            f"the derivative of op(x)·(w + op(x) + h(x)) by {what}: "
            f"{found.reshape(-1)[k]!r} where create_graph gives "
            f"{expected.reshape(-1)[k]!r} (the largest entry is {size:.3g})"
        )
