"""autocast: matrix products in 16 bits, sums and exponentials in 32, without a change to the model.

    with mg.autocast(mg.bfloat16) as casting:
        loss = model(x)
    loss.backward()          # in the dtypes of the forward; gradients arrive in their leaves' dtype
    print(casting.log)

The policy says by an op's name in which precision it runs. A cast is a recorded op like any other,
so its gradient has the dtype of its input. Tensors of float64, complex numbers and integers are
never cast.

Micikevicius et al., Mixed Precision Training, 2018.
"""

import functools
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

from ..backends.caches import Cache
from ..backends.device import device_of
from ..backends.dtypes import bfloat16, resolve_dtype
from ..backends.fingerprint import fingerprint
from ..backends.leaving import contextmanager, ended_by, left_always
from ..engine import modes
from ..engine.graph import Leaf, raw
from ..engine.primitive import Primitive
from ..engine.registry import op as ops
from ..tensor_api.tensor import Tensor
from .recording import CalledFirst, decorated

__all__ = ["CastEvent", "autocast", "is_autocast_enabled"]

_LOW = "matmul linear contract conv attention"
_FLOAT32 = """
    exp exp2 expm1 log log2 log10 log1p logaddexp logaddexp2 xlogy xlog1py pow float_power
    reciprocal rsqrt tan sinh cosh arcsin arccos arccosh arctanh logit erfinv lgamma digamma
    gamma polygamma_of
    softplus softmax log_softmax
    sum mean prod var std p_norm cumsum cumprod logsumexp weighted_logsumexp logcumsumexp
    linear_recurrence standardize cross_entropy_index nll_index nll_pick smoothed_targets
    ctc_states ctc_terms bce_terms logit_terms ranked dft rdft irdft
    cholesky qr_factors svd_factors svdvals det slogdet_parts eigh_pairs eigvalsh eig_pairs
    matrix_exp inv solve triangular_solve banded_solve pseudoinverse least_squares lu_factors
"""
_FLOAT16, _SINGLE = np.dtype(np.float16), np.dtype(np.float32)
_NARROW = {_FLOAT16, bfloat16} - {None}
_CAST = _NARROW | {_SINGLE}


class CastEvent(NamedTuple):
    """How often autocast cast an argument of an op, from which dtype to which."""

    op: str
    source: str
    target: str
    count: int


class _Inside(modes.Outer):
    """The part of an autocast that its threads share."""

    weights: Cache | None = None  # the casts of leaves, while cache_enabled


class autocast(metaclass=CalledFirst):
    """Inside, ops run in the precision of their policy. A context manager and a decorator.

    dtype          of the "low" ops: float16 or bfloat16 (default: bfloat16; float16 with
                   device="cuda")
    device         "cpu" or "cuda": only tensors there are cast (default: all). PyTorch's
                   device_type= is the same, and by position the two may stand in either order:
                   autocast("cuda", mg.float16)
    enabled        False: no casts inside, also within another autocast
    cache_enabled  cast a weight of the host once for all its uses inside. It is cast again where
                   it has changed, through its array too: w.data *= 0.5, w.data[0] = 0

    policy   op name -> "low" (matrix products, convolution, attention), "float32" (reductions,
             softmax, norms, losses, exp, log, pow); all others run in the widest of their dtypes.
             A dict of the class: autocast.policy["my_op"] = "low" adds an op. Of a recurrent layer
             the product with the input is low; its steps, whose roundings add up, are in the dtype
             of its weights and state, and so is the result
    log      the casts made so far, as CastEvents, most frequent first
    """

    policy: dict[str, str] = {
        **dict.fromkeys(_LOW.split(), "low"),
        **dict.fromkeys(_FLOAT32.split(), "float32"),
    }

    def __init__(
        self,
        dtype_or_device: Any = None,
        device_or_dtype: Any = None,
        enabled: bool = True,
        cache_enabled: bool | None = None,
        *,
        dtype: Any = None,
        device: str | None = None,
        device_type: str | None = None,
    ):
        for given in (dtype_or_device, device_or_dtype):
            if isinstance(given, str) and "float" not in given:
                device = _only("device", device, given)
            elif given is not None:
                dtype = _only("dtype", dtype, given)
        kind = _only("device", device, device_type)
        self.device = None if kind is None else str(kind).partition(":")[0]
        if self.device not in (None, "cpu", "cuda"):
            raise ValueError(f"autocast: there is no device {kind!r}; use 'cpu' or 'cuda'")
        if dtype is None:
            dtype = "float16" if self.device == "cuda" else "bfloat16"
        self.dtype = resolve_dtype(dtype)
        if self.dtype not in _NARROW:
            raise ValueError(f"autocast: dtype is float16 or bfloat16, got {self.dtype}")
        self.enabled = bool(enabled)
        self.cache_enabled = cache_enabled is not False
        self._casts: Counter = Counter()
        self._inside = _Inside()

    def __repr__(self) -> str:
        return f"autocast({self.dtype}, device={self.device!r}, enabled={self.enabled})"

    def __enter__(self) -> "autocast":
        outer = modes.state.autocast
        if self._inside.weights is None:
            self._inside.weights = outer._inside.weights if outer is not None else None
        if self._inside.weights is None:
            self._inside.weights = Cache("autocast weights", 4096, 1 << 30, _size)
        modes.add_reason()
        self._inside.enter({"autocast": self if self.enabled else None})
        return self

    @left_always(attrgetter("_inside.depth"))
    def __exit__(self, *exc: object) -> None:
        self._inside.leave()
        modes.add_reason(-1)
        if self._inside.stack or self._inside.weights is None:
            return
        if modes.state.autocast is None:  # weights change between steps: keep none for the next
            self._inside.weights.clear()
        self._inside.weights = None

    def __call__(self, fn: Callable) -> Callable:
        return decorated(fn, self._again)

    def _again(self) -> "autocast":
        """A copy for one call of a decorated function: several threads may be in it at once."""
        again = autocast(self.dtype, self.device, self.enabled, self.cache_enabled)
        again._casts = self._casts  # what self.log shows
        return again

    @property
    def log(self) -> list[CastEvent]:
        """The casts made so far under this object, most frequent first."""
        counts = self._casts.most_common()
        return [CastEvent(op, str(a), str(b), count) for (op, a, b), count in counts]

    # -- for the slow path ------------------------------------------------------------------

    def cast(self, op: Any, args: tuple) -> tuple:
        """The arguments in the precision in which the op runs; the same tuple if all are."""
        floats = [x.dtype for x in args if hasattr(x, "dtype") and x.dtype in _CAST]
        if not floats or not any(isinstance(x, Tensor) for x in args):
            return args  # rules of a plain backward run on arrays, in the dtypes of the forward
        target = self._target(op, floats)
        if target is None or all(dtype == target for dtype in floats):
            return args
        return tuple([self._converted(op.name, x, target) for x in args])

    def widened(self, name: str, x: Any) -> Any:
        """A 16-bit tensor in float32, for the function of this name; anything else as it is."""
        if not isinstance(x, Tensor) or x.dtype not in _NARROW:
            return x
        return self._converted(name, x, _SINGLE)

    def _target(self, op: Any, floats: list) -> Any:
        """The dtype that this op's 16- and 32-bit arguments are to have; None: as they are."""
        wanted = self.policy.get(op.name)
        if wanted == "low":
            return self.dtype
        if wanted == "float32":
            return _SINGLE
        if wanted is not None:
            raise ValueError(
                f"autocast.policy[{op.name!r}] is {wanted!r}; it may be 'low' or 'float32'"
            )
        if len(set(floats)) > 1 and op.name in ops:  # the widest; of the two 16-bit ones neither is
            return _SINGLE
        return None

    def _converted(self, name: str, x: Any, target: Any) -> Any:
        if not hasattr(x, "dtype") or x.dtype not in _CAST or x.dtype == target:
            return x
        if self.device and device_of(raw(x)).partition(":")[0] != self.device:
            return x
        weights = self._inside.weights
        if weights is None or not self._is_weight(x, target):
            return self._cast(name, x, target)
        kept = weights.get((id(x), target))
        if kept is None or not kept.is_good_for(x):
            kept = _CastWeight(x, self._cast(name, x.detach(), target))
            weights.put((id(x), target), kept)
        return _of_weight(x, kept.cast)

    def _cast(self, name: str, x: Any, target: Any) -> Any:
        self._casts[name, x.dtype, target] += 1
        return ops.cast(x, dtype=target)

    def _is_weight(self, x: Any, target: Any) -> bool:
        """Whether one cast may serve all uses of x inside.

        Not while a checkpoint, a saved-tensor hook or a tape takes part: the same ops must run
        when it all runs again. Nor on a GPU: there only a wait shows whether its array has been
        written to, and a cast is one kernel without a wait.
        """
        state = modes.state
        again = state.saving or state.tapes
        is_leaf = isinstance(x, Tensor) and x.node.__class__ is Leaf and not x.level
        on_host = is_leaf and isinstance(x.data, np.ndarray)
        return self.cache_enabled and on_host and not again and target in _NARROW


def in_float32(fn: Callable) -> Callable:
    """Decorator of a function of several ops that is to run in float32 as a whole (a loss).

    Under autocast its 16-bit arguments are cast; otherwise the decorator costs one attribute read.
    """

    @functools.wraps(fn)
    def run(*args: Any, **kwargs: Any) -> Any:
        casting = modes.state.autocast
        if casting is not None:
            args = tuple([casting.widened(fn.__name__, x) for x in args])
            kwargs = {key: casting.widened(fn.__name__, x) for key, x in kwargs.items()}
        return fn(*args, **kwargs)

    return run


def _only(what: str, one: Any, other: Any) -> Any:
    """Whichever of the two is given; TypeError if both are."""
    if one is not None and other is not None:
        raise TypeError(f"autocast: {what} is given twice, {one!r} and {other!r}")
    return other if one is None else one


# y = cast, which is x in 16 bits ;  gx = g in x's dtype. Each use has a node of its own: what the
# backward of one loss frees is not needed by another loss of this weight.
_of_weight = Primitive(lambda x, cast: cast, "cast_weight", ["x", "cast"], constants=["cast"])
_of_weight.vjp("x")(lambda g: g)


class _CastWeight:
    """A weight's cast, a constant, for as long as the weight is what it was."""

    __slots__ = ("weight", "bits", "cast")

    def __init__(self, weight: Tensor, cast: Any):
        self.weight = weakref.ref(weight)
        self.bits = fingerprint(weight.data)
        self.cast = cast

    def is_good_for(self, x: Tensor) -> bool:
        """Whether this is x's cast still. Its bits show it, since no counter sees a write to
        x.data. Comparing bits is far faster than a cast.
        """
        return self.weight() is x and fingerprint(x.data) == self.bits


def _size(kept: _CastWeight) -> int:
    return kept.cast.nbytes


def is_autocast_enabled() -> bool:
    """Whether ops of this thread are cast now."""
    return modes.state.autocast is not None


@contextmanager
def paused() -> Iterator[None]:
    """For the engine: autocast off, since a backward runs in the dtypes of its forward."""
    outer = modes.state.autocast
    with ended_by(lambda: modes.state.set({"autocast": outer})):
        modes.state.autocast = None
        yield
