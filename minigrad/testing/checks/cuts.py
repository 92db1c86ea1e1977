"""K30: no bit of an elementwise op depends on how an array was cut.

cut_table.py runs the same in full size, as a table.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import thread_time

import numpy as np

from ...backends import blocks
from ...backends.pool import get_num_threads, set_num_threads
from ...custom.variants import listed
from ...engine.registry import op as registry
from ...tensor_api.tensor import Tensor
from ..case import Context, differentiated, is_elementwise
from ..errors import DoesNotApply, GradcheckError
from ..function import Arrays, Function, as_array, is_smooth_array, pulled_back
from ..numeric import normal
from ..spec import OpSpec, Sample
from .base import check
from .nearness import same_bits
from .special import special_values

_OURS = "minigrad.testing.samples"
_DTYPES = ("float64", "float32", "complex128")
_SIZE = (1 << 15) + 4107  # elements: beyond the sizes at which rules switch to other forms
# From 256 KiB on NumPy computes g * p as p * g if p is a temporary array. A complex product then
# has other bits. Our rules prevent that; users' rules need not.
_NOT_TURNED = 16_000  # complex numbers of users' ops: fewer than 256 KiB
FEWER = 1 << 13  # elements for an op that takes long
_LONGEST = 0.02
_CUTS = (0, 1, 8, 11, 300, 556, 1600, 6000, 15000)  # between sizes at which forms change, and odd
_MOVED = 0.3  # the spread of a sample's repeated values
_SPECIAL = 7  # one in so many numbers is special: ±0, ±∞, NaN …
_BLOCK = 1 << 11  # elements of a block when blocks are small
WAYS = [(threads, how) for threads in (1, 2, 3) for how in ("plain", "hooks", "parallel")]


@check("K30", "the same bits however an array is cut: slices, blocks, threads, hooks", per="op",
       gradient=False, optional=True)  # fmt: skip
def k30(spec: OpSpec, context: Context) -> int:
    """Value, gradients and tangent of a part of an array equal that part of the whole's. They also
    do on 1, 2 and 3 threads, with hooks, and in the parallel engine, for arrays in several blocks.

    The check shrinks blocks, and the sizes from which arrays are cut into them.
    """
    if not is_elementwise(spec):
        raise DoesNotApply("not elementwise")
    count = 0
    for dtype in _DTYPES:
        turned = dtype == "complex128" and not spec.module.startswith(_OURS)
        size = _NOT_TURNED if turned else _SIZE
        case = _case(spec, context, dtype, size) if dtype in spec.dtypes else None
        if case is None:
            continue
        whole = case.computed()
        for start, stop in zip(_CUTS, (*_CUTS[1:], case.size), strict=True):
            if start < case.size:
                part = slice(start, min(stop, case.size))
                count += _require(case.of(part).computed(), whole, part, f"{dtype}: elements")
        if dtype != "float64" and not context.full:
            continue
        part = slice(0, min(case.size, 4 * _BLOCK + 10))
        with small_blocks():
            for threads, how in WAYS:
                what = f"{dtype}, {threads} threads, {how}: elements"
                count += _require(case.of(part).computed(threads, how), whole, part, what)
    if not count:
        raise DoesNotApply("no sample of floating arrays")
    return count


@dataclass(frozen=True)
class Cut:
    """An op at arrays of one axis; g for its result, and tangents for its arguments."""

    function: Function
    g: np.ndarray
    tangents: Arrays

    @property
    def size(self) -> int:
        return self.g.size

    def of(self, part: slice) -> "Cut":
        f = self.function
        args = [x[part] if isinstance(x, np.ndarray) else x for x in f.args]
        function = Function(f.fn, args, f.params, f.positions, f.names)
        return Cut(function, self.g[part], [t[part] for t in self.tangents])

    def computed(self, threads: int = 0, how: str = "plain") -> Arrays:
        """[results, gradients, tangents]."""
        before = get_num_threads()
        set_num_threads(threads or before)
        try:
            return self._computed(how)
        finally:
            set_num_threads(before)

    def _computed(self, how: str) -> Arrays:
        function, options = self.function, {}
        if how == "parallel":
            options = {"engine": "parallel", "workers": 2, "min_work": 0}
        leaves = function.leaves(function.xs)
        if how == "hooks":
            for leaf in leaves:
                leaf.register_hook(lambda g: g)
        ys = function.call(leaves)
        found = [as_array(y) for y in ys]
        if leaves and any(isinstance(y, Tensor) and y.requires_grad for y in ys):
            vs = [
                (self.g if y.dtype.kind == "c" else np.real(self.g)).astype(y.dtype) for y in found
            ]
            found += pulled_back(leaves, ys, vs, **options)
            if how == "plain":
                found += function.jvp(function.xs, self.tangents)
        return found


def _case(spec: OpSpec, context: Context, dtype: str, size: int) -> Cut | None:
    """The op at a sample's numbers, repeated and spread; fewer numbers if it takes long."""
    samples = [s for s in context.samples(spec, dtype) if fits(s)]
    if not samples:
        return None
    sample = max(samples, key=lambda s: min(x.size for x in s.args if isinstance(x, np.ndarray)))
    rng = context.rng(spec.name, dtype, "K30")
    few = grown(spec, sample, rng, FEWER)
    start = thread_time()
    few.computed()
    return few if thread_time() - start > _LONGEST else grown(spec, sample, rng, size)


def fits(sample: Sample) -> bool:
    arrays = [x for x in sample.args if isinstance(x, np.ndarray)]
    return any(map(is_smooth_array, arrays)) and all(x.size for x in arrays)


def grown(spec: OpSpec, sample: Sample, rng: np.random.Generator, n: int) -> Cut:
    args = list(sample.args)
    for i, x in enumerate(args):
        if isinstance(x, np.ndarray):
            args[i] = np.resize(x, n)
            if is_smooth_array(x):
                args[i] = (args[i] * (1 + rng.uniform(-_MOVED, _MOVED, n))).astype(x.dtype)
            if x.dtype.kind == "f":
                special = args[i][:: _SPECIAL * (1 + i % 2)]  # in one of two arguments, or in both
                special[...] = rng.choice(special_values(x.dtype.name), special.size)
    function = Function(spec.call, args, sample.params, differentiated(spec, tuple(args)))
    # with both parts: complex products have other bits in the other order
    (g,) = normal(rng, [np.empty(n, complex)])
    return Cut(function, g, normal(rng, function.xs))


def _require(found: Arrays, whole: Arrays, part: slice, what: str) -> int:
    for i, (y, all_of_y) in enumerate(zip(found, whole, strict=False)):
        equal = same(y, all_of_y[part])
        if not equal.all():
            at = int(np.argmin(equal))
            raise GradcheckError(
                f"{what} {part.start} to {part.stop} alone: array {i} of value, gradients and "
                f"tangents has other bits in {np.sum(~equal)} elements, {y[at]!r} for "
                f"{all_of_y[part][at]!r} at {part.start + at}. Results may depend on "
                "values and the dtype, never on the size of an array"
            )
    return sum(y.size for y in found)


def same(y: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """The same bits, or NaN, of which there are several."""
    return same_bits(y, exact) | ((y != y) & (exact != exact))


@contextmanager
def small_blocks() -> Iterator[None]:
    """Inside, arrays are cut into blocks from some thousands of elements on.

    Generated code for an op contains the sizes, so all code is generated anew.
    """
    sizes = {"LARGE": 2 * _BLOCK, "BLOCK": _BLOCK, "NOTABLE": _BLOCK, "BROADCAST": _BLOCK}
    before = {name: getattr(blocks, name) for name in sizes}
    places = [
        (names, name)
        for module in [m for key, m in sys.modules.items() if key.startswith("minigrad.")]
        for names in (vars(module), getattr(module, "_KNOWN", {}))
        for name in sizes
        if isinstance(names, dict) and names.get(name) == before[name]
    ]

    asked = [v for entry in registry if listed(entry) for v in (*listed(entry), entry.forward)]
    large = [
        (v, v.least) for v in asked if getattr(v, "least", 0) >= before["NOTABLE"]
    ]  # variants in blocks

    def change(values: dict[str, int]) -> None:
        for names, name in places:
            names[name] = values[name]
        for variant, least in large:
            variant.least = least if values is before else values["LARGE"]
        for entry in registry:
            if hasattr(entry, "plans"):
                entry.plans.clear()

    change(sizes)
    try:
        yield
    finally:
        change(before)
