"""Each node of a recorded backward against finite differences: the badges that the viewer shows.

    with mg.record_backward(check=True) as rec:       # with the forward inside the block
        loss_of(model, batch).backward()
    rec.save("graph.json")                            # minigrad-viz check graph.json

A node's rule gives Jᵀv for a cotangent v. With the node's saved arrays, at the values of its call,
for random v and directions u,

    (Jᵀv)·u  by the node's rule    must be    v·(Ju)  by finite differences of its forward.

The rule runs in the graph's own dtype and the forward in double precision. The error of a right
rule is then the rounding of that dtype. The check leaves the recorded backward unchanged.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from ..backends import random
from ..backends.device import device_of, to_host
from ..backends.dtypes import finfo, is_differentiable, is_floating
from ..engine.graph import raw
from ..instrument.numbers import arrived
from ..modes.recording import inside_forward
from ..tensor_api.tensor import Tensor
from .function import is_smooth_array
from .numeric import normal, one_sided, pack, slope, unpack

DIRECTIONS = 2
LARGEST = 1 << 18  # elements of inputs and results together; larger nodes are skipped
SHRINK = 2.0**-7  # of numeric.slope's step: few values are so near to a kink
ULPS = 512  # of the coarsest dtype involved: the error that rounding may leave
SYMMETRIC = {"cholesky", "eigh_pairs", "eigvalsh"}
NOT_UNIQUE = {"eig_pairs", "svd_factors", "qr_factors"}
LEAST, MOST = 1e-6, 0.1  # and the limits of the tolerance


class _Undecided(Exception):
    """Why a node is not judged: verdict "skipped" or "unsure"."""

    def __init__(self, why: str, verdict: str = "skipped", error: float | None = None):
        super().__init__(why)
        self.badge = _badge(verdict, error, why=why)


class NodeChecks:
    """Keeps the inputs of each recorded call; then judges nodes, while they hold their arrays."""

    def __init__(self, seed: int = 0):
        self._calls: WeakKeyDictionary[Any, tuple] = WeakKeyDictionary()
        self._chance = np.random.default_rng(seed)

    def heard(self, node: Any, inputs: Sequence, params: dict) -> None:
        """A call was recorded. Copy its inputs: a write may change them before the backward."""
        arrays = [raw(x) for x in inputs]
        kept = [_copied(x) for x in arrays] if _size(arrays) <= LARGEST else None
        self._calls[node] = kept, dict(params)

    def badge(self, node: Any) -> dict[str, Any]:
        """{"verdict", "error", "tolerance", "why"} of a node.

        verdict  "right", "wrong", "unsure" (at a kink, or noise hides the answer), or "skipped"
        error    |(Jᵀv)·u − v·(Ju)| as a share of its size, the larger of two directions
        """
        state = random.get_state()
        try:
            with np.errstate(all="ignore"):
                return inside_forward(self._judged, node)
        except _Undecided as reason:
            return reason.badge
        except Exception as error:  # report a rule that raises here; the backward goes on
            why = f"{type(error).__name__}: {str(error)[:160]}"
            return _badge("skipped", why=f"the check could not run: {why}")
        finally:
            random.set_state(state)

    def _judged(self, node: Any) -> dict[str, Any]:
        kept, params = self._calls.get(node, (None, None))
        if params is None:
            raise _Undecided("its forward was not recorded; put it inside record_backward too")
        if kept is None or _size(kept) + sum(map(math.prod, _shapes(node))) > LARGEST:
            raise _Undecided(f"larger than {LARGEST:,} elements")
        if type(node.saved) is not tuple:
            raise _Undecided("its saved arrays are kept elsewhere (a checkpoint or pack hook)")
        if any(device_of(x) != "cpu" for x in kept):
            raise _Undecided("on a GPU")
        f, xs = _double(node, kept, params)
        dtypes = [x.dtype for x in kept if hasattr(x, "dtype") and is_differentiable(x.dtype)]
        tolerance = _tolerance(dtypes + _dtypes(node))
        errors = [_error(node, f, xs, self._chance, tolerance) for _ in range(DIRECTIONS)]
        worst = max(errors)
        why = "" if worst <= tolerance else _excuse(node.op, kept)
        verdict = "right" if worst <= tolerance else "unsure" if why else "wrong"
        return _badge(verdict, worst, tolerance, why)


def _badge(
    verdict: str, error: float | None = None, tolerance: float | None = None, why: str = ""
) -> dict[str, Any]:
    if error is not None and not np.isfinite(error):
        error, why = None, "the rule gave NaN or Inf at finite values"
    known = {"error": error, "tolerance": tolerance, "why": why or None}
    return {"verdict": verdict} | {key: value for key, value in known.items() if value is not None}


def _excuse(op: Any, kept: list) -> str:
    """Why a right rule may differ from these finite differences; "" if nothing excuses it."""
    if op.name in SYMMETRIC:
        return "it takes its matrix for symmetric; these directions are not"
    if op.name in NOT_UNIQUE:
        return "its result is not unique; the rule is for losses that do not see which one it is"
    for name, x in zip(op.arrays, kept, strict=False):  # second order: a softmax, a deviation
        if name in op.constants and is_smooth_array(x):
            return "its rule may know that an input, constant here, follows from the others"
    return ""


def _size(arrays: Sequence) -> int:
    return sum(getattr(x, "size", 1) for x in arrays)


def _copied(x: Any) -> Any:
    return x.copy() if hasattr(x, "dtype") else x


def _shapes(node: Any) -> list[tuple]:
    return list(node.shape) if isinstance(node.dtype, tuple) else [node.shape]


def _dtypes(node: Any) -> list[np.dtype]:
    return list(node.dtype) if isinstance(node.dtype, tuple) else [node.dtype]


def _tolerance(dtypes: Sequence[Any]) -> float:
    eps = [float(finfo(dtype).eps) for dtype in dtypes if is_differentiable(dtype)]
    return min(MOST, max(LEAST, ULPS * max(eps, default=0.0)))


def _double(node: Any, kept: list, params: dict) -> tuple[Callable, list[np.ndarray]]:
    """The node's forward as a map of packed real vectors, and the inputs of that map."""
    op, slots = node.op, node.plan.slots_of(node)
    if "generator" in op.defaults:
        raise _Undecided("it draws random numbers")
    wide = [_widened(x) for x in kept]
    xs = [wide[slot] for slot in slots]

    def f(vector: np.ndarray) -> np.ndarray:
        args = list(wide)
        for slot, x in zip(slots, unpack(vector, xs), strict=True):
            args[slot] = x
        if hasattr(op, "function"):  # a Function's call cannot run twice; a new one can
            y = op.function.apply(*op.filled([Tensor(x) for x in args]))
        else:
            y = op(*args, **params)
        several = isinstance(y, tuple | list)
        return pack([to_host(raw(part)) for part in (y if several else (y,))])

    x = pack(xs)
    if not np.array_equal(f(x), f(x), equal_nan=True):
        raise _Undecided("it gives another result each time")
    return f, xs


def _widened(x: Any) -> Any:
    if not hasattr(x, "dtype") or not is_differentiable(x.dtype):
        return x
    return x.astype(np.float64 if is_floating(x.dtype) else np.complex128)


def _error(
    node: Any, f: Callable, xs: list, chance: np.random.Generator, tolerance: float
) -> float:
    """The error along one random direction, as a share of the derivative's size."""
    us = normal(chance, xs)
    vs = normal(chance, [np.empty(shape, _wide_of(dtype)) for shape, dtype in _results(node)])
    x, u, v = pack(xs), pack(us), pack(vs)
    ju = slope(f, x, SHRINK * u)
    ju_value, change = ju.value / SHRINK, ju.change / SHRINK
    if not np.isfinite(ju_value).all():
        raise _Undecided("its forward is not finite near here")
    c = _vjp_of(node, vs)
    if not np.isfinite(c).all():
        return float("inf")
    size = float(np.hypot(np.linalg.norm(v * ju_value), np.linalg.norm(c * u)))
    if size == 0.0:
        return 0.0
    error = abs(float(v @ ju_value) - float(c @ u)) / size
    noise = 10 * float(np.linalg.norm(v * change)) / size
    if error > tolerance and (noise > tolerance or _has_kink(f, x, u, v, size * tolerance)):
        why = "its values lie at a kink, or noise hides the answer"
        raise _Undecided(why, "unsure", error)
    return error


def _has_kink(f: Callable, x: np.ndarray, u: np.ndarray, v: np.ndarray, allowed: float) -> bool:
    left, right = one_sided(lambda t: float(v @ f(x + t * u)), step=2.0**-18)
    return not abs(left - right) <= allowed


def _results(node: Any) -> list[tuple]:
    return list(zip(_shapes(node), _dtypes(node), strict=True))


def _wide_of(dtype: Any) -> Any:
    if not is_differentiable(dtype):
        raise _Undecided("one of its results has no derivative")
    return np.float64 if is_floating(dtype) else np.complex128


def _vjp_of(node: Any, vs: list[np.ndarray]) -> np.ndarray:
    """Jᵀv by the node's own rules, from its saved arrays, as one packed vector."""
    given = [v.astype(dtype) for v, dtype in zip(vs, _dtypes(node), strict=True)]
    cotangent = given if isinstance(node.dtype, tuple) else given[0]
    parts = node.plan.apply_rules((cotangent, *node.saved))
    gradients = []
    for c, parent in zip(parts, node.parents, strict=True):
        zeros = np.zeros(parent.shape, parent.dtype) if c is None else None
        gradients.append(zeros if c is None else to_host(arrived(c, parent.shape, parent.dtype)))
    return pack(gradients)
