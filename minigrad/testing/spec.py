"""The harness's knowledge of an op: samples to check it on, and right answers at hard points.

A spec lives in testing/samples/<family>.py, outside of hot code. Third parties put their own ops
under the same checks by `register_op`.
"""

import importlib
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..engine.errors import describe

_OURS = __name__.rpartition(".")[0]


@dataclass(frozen=True)
class Sample:
    """One call: array arguments (floating ones are differentiated) and static parameters."""

    name: str
    args: tuple
    params: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.args, tuple | list):
            raise TypeError(
                f"Sample {self.name!r}: args is the tuple of a call's arguments, (x,) for one; "
                f"got {describe(self.args)}"
            )


@dataclass(frozen=True)
class ErrorSample:
    """A call that must raise `error` with a message that matches the pattern."""

    name: str
    args: tuple
    error: type[Exception]
    match: str
    params: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Point:
    """A hard point: the exact value there, and the exact gradients for a cotangent of ones.

    `kink` declares f not differentiable but locally Lipschitz there: check K11 (kinks) holds.
    """

    name: str
    args: tuple
    value: Any = None
    grads: tuple | None = None
    params: dict[str, Any] = field(default_factory=dict)
    kink: bool = False


@dataclass
class OpSpec:
    """All that the checks of one op need.

    call             the function under test, on tensors
    reference        the same on arrays by NumPy or SciPy, or None if no other code computes it
    samples          (rng, dtype) -> named samples; O(1) values, away from kinks
    dtypes           floating and complex dtypes the op takes, as names
    mp               the function in mpmath, for unary elementwise ops (K16)
    conditioned      why K16 adds to its tolerance the change when x moves by one ULP. Near its
                     zeros and poles and in its far tails a function magnifies any rounding of x
    tails            why K32 skips second derivatives
    tails_but        what K32 leaves out, as part of the name of a sample or of a derivative -> why
    skips            check id -> the reason why it does not apply
    nan_alone        why K12 uses NaN and no other special value. At infinity and other ends the
                     reference has another convention or none; a NaN must reach the result
    nan_hidden       why a NaN may make a result NaN that has no derivative by it, which K12
                     otherwise refuses
    constants        positions of floating arguments that carry no gradient; a primitive called
                     without an adapter declares its own `constants`
    zero_gradient    True, or positions: arguments whose gradient is zero wherever it exists
    differentiable   False: no result has a derivative. None: as the op itself shows
    module           the module that registered it: importing it registers the op again
    large            samples for K25 and K34, of sizes from which the op takes another form
    steps            whether the first axis is one of steps, each of which waits for the one before.
                     K34 then uses many rows in each, and no more steps than the samples
    """

    name: str
    call: Callable
    reference: Callable | None
    samples: Callable[[np.random.Generator, Any], Iterator[Sample]]
    errors: tuple[ErrorSample, ...] = ()
    points: tuple[Point, ...] = ()
    dtypes: tuple[str, ...] = ("float64", "float32", "float16")
    mp: Callable | None = None
    conditioned: str = ""
    tails: str = ""
    tails_but: dict[str, str] = field(default_factory=dict)
    skips: dict[str, str] = field(default_factory=dict)
    nan_alone: str = ""
    nan_hidden: str = ""
    constants: tuple[int, ...] = ()
    zero_gradient: bool | tuple[int, ...] = False
    differentiable: bool | None = None
    module: str = ""
    large: Callable[[np.random.Generator, Any], Iterator[Sample]] | None = None
    steps: bool = False

    def zero_at(self, position: int) -> bool:
        """Whether the gradient of this argument may be zero in every sample."""
        if isinstance(self.zero_gradient, bool):
            return self.zero_gradient
        return position in self.zero_gradient


specs: dict[str, OpSpec] = {}


def register_op(
    name: str,
    samples: Callable[[np.random.Generator, Any], Iterator[Sample]],
    *,
    call: Callable | None = None,
    reference: Callable | None = None,
    errors: Iterable[ErrorSample] = (),
    points: Iterable[Point] = (),
    **options: Any,
) -> OpSpec:
    """Put an op under every check. The default of `call` is the registered op of this name.

    A reloaded module, or a notebook's cell, may register the op again.
    """
    from ..engine.registry import op

    module = options.setdefault("module", sys._getframe(1).f_globals["__name__"])
    ours = module.startswith(_OURS)
    if not ours:
        importlib.import_module(
            f"{_OURS}.samples"
        )  # the names of minigrad's ops then count as taken
    if name in specs and (ours or specs[name].module != module):
        raise ValueError(f"the op {name!r} has samples already; register_op takes each name once")
    if call is None and name not in op:
        raise ValueError(f"there is no op {name!r}: define it first, or give it as call=...")
    function: Callable = call or getattr(op, name)
    specs[name] = OpSpec(
        name, function, reference, samples, tuple(errors), tuple(points), **options
    )  # fmt: skip
    return specs[name]
