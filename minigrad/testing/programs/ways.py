"""The ways of running a program, each compared with one plain backward.

The ways of exact.py give the same bits. Those here compute differently, and agree to rounding, or
with finite differences. `compare` repeats one of them.
"""

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np

import minigrad as mg

from ...backends.optional import optional
from ...engine.errors import RuleError
from ...errors import TapeError, TransformError
from ...tensor_api.tensor import Tensor
from ..checks.nearness import require_same_bits
from ..checks.nestings import Gradient, Ways, in_products, nestings_agree
from ..compare import check_direction
from ..errors import GradcheckError, Inconclusive
from ..function import Arrays, Function, as_array
from ..numeric import normal, pack
from .exact import as_gradients, exact, hooked, pulled, tracked
from .subject import Refused, Subject

_CANCELS = 1e-6  # of 1, the size of a program's values
_ULPS = {4: 3e-4, 8: 1e-9}  # of the largest gradient, by bytes: other orders, other algorithms


def near() -> dict[str, Callable[[Subject], None]]:
    """Ways that compute differently; each raises where it disagrees."""
    return {
        "create_graph": _recorded, "hooks that return": _replaced,
        "func.vjp": _func_vjp, "forward mode": _forward,
        "second order": _second, "vmap of the gradient": _vmapped, "without fuse": _unfused,
        "linearize": _linearized, "each leaf alone": _alone,
        "finite differences": _differences, "nestings": _nestings,
        "accelerate": _accelerated, "autocast": _autocast,
    }  # fmt: skip


def _near(found: Arrays, expected: Arrays, what: str, ulps: float = 0.0) -> None:
    """Equal to rounding of 1, the size of a program's values, and of the largest entry: terms
    cancel."""
    size = max([1.0, *[float(np.abs(e).max(initial=0.0)) for e in expected]])
    for i, (a, b) in enumerate(zip(found, expected, strict=True)):
        a = as_array(a)
        if a.shape != b.shape or a.dtype != b.dtype:
            raise GradcheckError(f"{what}, {i}: {a.dtype} {a.shape} became {b.dtype} {b.shape}")
        room = max(ulps, _ULPS[np.real(b).itemsize]) * size
        if not (np.abs(a - b) <= room).all():
            raise GradcheckError(f"{what}, {i}: {a!r} where a plain backward gives {b!r}")


def _recorded(s: Subject) -> None:
    _near(pulled(s.function, s, create_graph=True), s.gradients, "create_graph")


def _replaced(s: Subject) -> None:
    """Hooks that replace each gradient by a copy."""
    _near(hooked(s, lambda g: g.copy()), s.gradients, "hooks that return copies")


def _func_vjp(s: Subject) -> None:
    ys, vjp_fn = mg.func.vjp(lambda *xs: tuple(s.function.call(xs)), *map(Tensor, s.xs))
    _near([as_array(g) for g in vjp_fn(tuple(map(Tensor, s.vs)))], s.gradients, "func.vjp")


def _forward(s: Subject) -> None:
    tangents = s.function.jvp(s.xs, s.us)
    a = float(pack(s.vs) @ pack(tangents))
    b = float(pack(s.gradients) @ pack(s.us))
    terms = max(1.0, float(np.abs(pack(s.vs)) @ np.abs(pack(tangents))))
    terms = max(terms, float(np.abs(pack(s.gradients)) @ np.abs(pack(s.us))))
    least = min(np.real(x).itemsize for x in s.xs)
    if not abs(a - b) <= 10 * _ULPS[least] * terms:
        raise GradcheckError(f"forward mode: ⟨v, Ju⟩ is {a!r} where ⟨Jᵀv, u⟩ is {b!r}")


def _linearized(s: Subject) -> None:
    """Two pushes of one linearize, the second compared with jvp."""
    _, push = mg.func.linearize(lambda *xs: tuple(s.function.call(xs)), *map(Tensor, s.xs))
    push(*[Tensor(x) for x in s.xs])
    found = [as_array(t) for t in push(*map(Tensor, s.us))]
    least = min(np.real(x).itemsize for x in s.xs)  # a tangent passes through every dtype
    _near(found, s.function.jvp(s.xs, s.us), "linearize", ulps=_ULPS[least])


def _alone(s: Subject) -> None:
    for i in range(len(s.xs)):
        leaves, ys = s.function.record(s.xs)
        ys, vs = tracked(ys, s.vs)
        if ys:
            g = mg.grad(ys, [leaves[i]], vs, allow_unused=True)
            _near(as_gradients([leaves[i]], g), [s.gradients[i]], f"the gradient of leaf {i} alone")


def _scalar(s: Subject) -> Function:
    return in_products(s.function, np.random.default_rng(1), ("w", "f"))


def _second(s: Subject) -> None:
    """Hessian times a vector by five ways, with constants held in each."""
    s = s.in_double()
    scalar = _scalar(s)
    us = normal(np.random.default_rng(2), scalar.xs)
    with _refusals():
        expected = Gradient(scalar).vjp(scalar.xs, us)
        for name, way in Ways(scalar, us, us).vectors().items():
            _near(list(way(*map(Tensor, scalar.xs))), expected, name)


def _vmapped(s: Subject) -> None:
    """vmap over the gradient against one example after the other."""
    s = s.in_double()
    points = [s.xs, [x + 0.01 * u for x, u in zip(s.xs, s.us, strict=True)]]
    if not s.is_defined_at(points[1]):
        raise Refused("the second example lies outside the program's domain")
    batches = [Tensor(np.stack(pair)) for pair in zip(*points, strict=True)]
    vs = tuple(map(Tensor, s.vs))

    def vjp_fn(*xs: Any) -> tuple:
        return mg.func.vjp(lambda *xs: tuple(s.function.call(xs)), *xs)[1](vs)

    with _refusals(), warnings.catch_warnings():
        warnings.simplefilter("ignore", mg.func.VmapWarning)
        found = [as_array(g) for g in mg.func.vmap(vjp_fn)(*batches)]
        for k in range(2):
            _near([g[k] for g in found], s.function.vjp(points[k], s.vs), f"vmap, example {k}")


@contextmanager
def _refusals() -> Iterator[None]:
    """A transform that refuses the program, or a Function without a second derivative, raises
    Refused."""
    try:
        yield
    except TransformError as error:
        raise Refused(str(error)) from error
    except RuleError as error:
        if "cannot be differentiated" not in str(error):
            raise
        raise Refused(str(error)) from error


class _Unfused:
    """The module mg, where fuse leaves a function unchanged."""

    fuse = staticmethod(lambda fn: fn)

    def __getattr__(self, name: str) -> Any:
        return getattr(mg, name)


def _unfused(s: Subject) -> None:
    other = s.with_globals(mg=_Unfused())
    _near(other.value(s.xs), s.values, "the value without fuse")
    _near(other.vjp(s.xs, s.vs), s.gradients, "without fuse")


def _uncancelled(s: Subject) -> Subject:
    """The program in double precision; Refused if its terms cancel. A tolerance in proportion to
    the result does not cover the remaining digits (‖x‖ − |x| of one number)."""
    s = s.in_double()
    if float(np.abs(pack(s.gradients)).max(initial=0.0)) < _CANCELS:
        raise Refused("the gradient is 0, or terms cancel in it")
    return s


def _differences(s: Subject) -> None:
    s = _uncancelled(s)
    held = s.with_held()
    _near(held.vjp(s.xs, s.vs), s.gradients, "with constants held")
    try:
        check_direction(held, s.xs, s.us, s.vs, "finite differences")
    except Inconclusive as error:
        raise Refused(str(error)) from error


def _nestings(s: Subject) -> None:
    s = _uncancelled(s)
    try:
        with _refusals():
            nestings_agree(s.with_held(), np.random.default_rng(3), ("w", "f", "h"), whole=True)
    except Inconclusive as error:
        raise Refused(str(error)) from error


@contextmanager
def _compiled() -> Iterator[None]:
    """mg.accelerate, with loops for arrays of any size but one: NumPy's numbers are no arrays."""
    from ...compiled import install

    least = install.LEAST
    install.LEAST = 2
    try:
        with mg.accelerate():
            yield
    finally:
        install.LEAST = least


def _accelerated(s: Subject) -> None:
    """Compiled loops: NumPy's numbers to rounding, and the same bits in every engine."""
    if optional("numba") is None:
        raise Refused("numba is not installed")
    with _compiled():
        fast = Subject(s.program, s.xs)
        _near(fast.values, s.values, "the value, compiled")
        _near(fast.gradients, s.gradients, "the gradient, compiled")
        _one_set_of_bits(fast, "compiled")


def _one_set_of_bits(s: Subject, what: str) -> None:
    """In a mode that computes differently, other engines give the bits of its plain backward."""
    for name in ("2 workers", "tape", "replayed tape", "checkpoint"):
        with suppress(TapeError):  # a step that no program can repeat
            for i, (a, b) in enumerate(zip(_EXACT[name](s), s.gradients, strict=True)):
                require_same_bits(b, a, f"{what}, {name}, leaf {i}")


def _autocast(s: Subject) -> None:
    """Products in 16 bits, of leaves in single precision: the same bits in every engine."""
    single = [x.astype(np.complex64 if x.dtype.kind == "c" else np.float32) for x in s.xs]
    with mg.autocast(mg.float16):
        _one_set_of_bits(Subject(s.program, single), "autocast")


# -- all of them -----------------------------------------------------------------------------------

_EXACT, _NEAR = exact(), near()
NAMES = [*_EXACT, "values", *_NEAR]


def check(way: str, s: Subject) -> None:
    """One way; a GradcheckError where it disagrees, Refused where it cannot run this program."""
    if way == "values":
        _same_values(s)
    elif way in _NEAR:
        _NEAR[way](s)
    else:
        try:
            found = _EXACT[way](s)
        except (
            TapeError
        ) as error:  # a step that no program can repeat: a Function, writes in constants
            raise Refused(str(error)) from error
        for i, (a, b) in enumerate(zip(found, s.gradients, strict=True)):
            require_same_bits(b, a, f"{way}: the gradient of leaf {i}")


def _same_values(s: Subject) -> None:
    """Recorded or not, the results have the same bits."""
    found = [[as_array(y) for y in s.function.record(s.xs)[1]]]
    try:
        with mg.inference_mode():
            found.append(s.function.value(s.xs))
    except RuntimeError as error:  # transforms record
        if "inside inference_mode" not in str(error):
            raise
    for values in found:
        for i, (a, b) in enumerate(zip(values, s.values, strict=True)):
            require_same_bits(b, a, f"result {i}")


def compare(way: str, program: Callable, xs: Sequence[Any]) -> None:
    """Run a program in one way; GradcheckError where it disagrees with a plain backward."""
    if way not in NAMES:
        raise ValueError(f"there is no way {way!r}; there are {', '.join(NAMES)}")
    check(way, Subject(program, xs))
    print(f"{way}: agrees")
