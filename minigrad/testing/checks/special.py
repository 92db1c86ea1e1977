"""K12: infinities, NaN, signed zeros, subnormal, huge and tiny numbers."""

from collections.abc import Iterator

import numpy as np

from ...tensor_api.tensor import Tensor
from ..case import Context, differentiated, is_elementwise
from ..errors import DoesNotApply, GradcheckError
from ..function import Function, as_array, as_tensors, is_smooth_array, results
from ..spec import OpSpec, Sample
from .base import check
from .limits import at_the_ends
from .modes import modes_agree
from .nan_shows import nan_shows
from .poles import at_poles


def special_values(dtype: str) -> np.ndarray:
    """The awkward numbers of a floating dtype, and a few ordinary ones."""
    info = np.finfo(dtype)
    tiny, huge = info.smallest_normal, info.max
    some = [0.0, 1.0, 2.0, 0.5, 3.7, tiny, info.smallest_subnormal, huge, info.eps, huge / 4]
    return np.array([np.inf, -np.inf, np.nan, *some, *[-x for x in some]], dtype=dtype)


@check("K12", "special values: inf, nan, −0, subnormal, huge, tiny", per="op", gradient=False,
       optional=True)  # fmt: skip
def k12(spec: OpSpec, context: Context) -> int:
    """Values as the reference's; the gradient is never NaN where argument and value are finite.

    Elementwise ops get every combination of special values, for each set of parameters. For these
    and for ops without a reference, the derivative at the ends of the number line is its limit.
    There, plain, recorded and forward derivatives agree, and derivatives that grow without end are
    infinite. Other ops get a special value in each floating argument of a sample. Ops that define
    only their result for NaN (`nan_alone`) get no other special value. A result that is NaN by a
    NaN has a derivative by it.
    """
    count = 0
    if spec.nan_alone:
        context.notes.add((spec.name, "K12", f"NaN alone: {spec.nan_alone}"))
    for dtype in ("float64", "float32"):
        if dtype not in spec.dtypes:
            continue
        samples = context.samples(spec, dtype)
        first = {repr(s.params): s for s in reversed(samples)}.values()
        for sample in first if is_elementwise(spec) else ():
            count += derivatives_agree(spec, sample, dtype)
            count += at_poles(spec, sample) if dtype == "float64" else 0
        if is_elementwise(spec) and not spec.nan_alone:
            for sample in first:
                count += every_combination(spec, sample, dtype, with_values=sample is samples[0])
                count += at_the_ends(spec, sample, dtype)
        elif spec.reference is not None:
            for sample, place in with_special(spec, context, dtype):
                count += as_reference(spec, sample.args, sample.params, place)
    count += nan_shows(spec, context)
    if not count:
        raise DoesNotApply("no reference, and not elementwise")
    return count


def every_combination(spec: OpSpec, sample: Sample, dtype: str, with_values: bool) -> int:
    """All tuples of special values, in one call; the values as well, or the gradients alone."""
    args = combinations(sample, special_values(dtype))
    if not args:
        return 0
    count = 0
    if spec.reference is not None and with_values:
        count += as_reference(spec, tuple(args), sample.params, "special values")
    return count + gradient_is_a_number(spec, args, sample.params)


def derivatives_agree(spec: OpSpec, sample: Sample, dtype: str) -> int:
    """Derivatives agree in every mode at every tuple of special values; for three arguments, at
    tuples of every other value."""
    several = sum(map(is_smooth_array, sample.args)) > 2
    args = combinations(sample, special_values(dtype)[:: 2 if several else 1])
    places = differentiated(spec, tuple(args))
    return modes_agree(Function(spec.call, args, sample.params, places), dtype) if args else 0


def combinations(sample: Sample, values: np.ndarray) -> list:
    """The sample's arguments with all tuples of the values; none without a floating argument."""
    places = [i for i, x in enumerate(sample.args) if is_smooth_array(x)]
    if not places:
        return []
    grid = [x.reshape(-1) for x in np.meshgrid(*[values] * len(places), indexing="ij")]
    args = list(sample.args)
    for i, x in enumerate(args):
        if isinstance(x, np.ndarray):
            args[i] = grid[places.index(i)] if i in places else np.resize(x, grid[0].shape)
    return args


def as_reference(spec: OpSpec, args: tuple, params: dict, what: str) -> int:
    """The op's values equal the reference's, NaN for NaN. If the reference raises, the op raises;
    if it raises DoesNotApply, there is no result to compare with."""
    assert spec.reference is not None
    tensors = as_tensors(args)
    try:
        expected = results(spec.reference(*args, **params))
    except DoesNotApply:
        return 0
    except Exception as error:
        try:
            spec.call(*tensors, **params)
        except Exception:
            return 1
        raise GradcheckError(f"{what}: the reference raises {error!r}, the op does not") from error
    found = results(spec.call(*tensors, **params))
    for y, exact in zip(found, expected, strict=True):
        y, exact = as_array(y), np.asarray(exact)
        if y.dtype.kind in "fc":  # SciPy's references return float64 for float32
            exact = exact.astype(y.dtype)
        require_value(y, exact, what, is_elementwise(spec), args)
    return sum(np.size(y) for y in expected) or 1


def require_value(
    y: np.ndarray, exact: np.ndarray, what: str, signed: bool, args: tuple = ()
) -> None:
    """Equal or near, NaN where NaN; with `signed`, zeros of the same sign."""
    if y.shape != exact.shape:
        raise GradcheckError(f"{what}: shape {y.shape}, expected {exact.shape}")
    if y.dtype.kind not in "fc":
        wrong = y != exact
    else:
        eps = np.finfo(y.dtype).eps
        finite = np.isfinite(exact)
        scale = 0.0 if signed else _largest([exact, *args])
        near = np.abs(y - exact) <= 8 * eps * (np.abs(exact) + scale)
        wrong = ~((y == exact) | (near & finite) | (np.isnan(y) & np.isnan(exact)))
        if signed and y.dtype.kind == "f":
            wrong |= (y == 0) & (exact == 0) & (np.signbit(y) != np.signbit(exact))
    if wrong.any():
        where = tuple(int(k) for k in np.argwhere(np.atleast_1d(wrong))[0])[: y.ndim]
        given = [float(x[where]) for x in args if is_smooth_array(x) and x.shape == y.shape]
        at = f" for {given}" if signed and given else f" at {list(where)}"
        raise GradcheckError(f"{what}{at}: {y[where]!r}, expected {exact[where]!r}")


def _largest(arrays: list) -> float:
    """The largest finite magnitude, the scale of a sum's rounding."""
    sizes = [np.abs(x[np.isfinite(x)]) for x in arrays if is_smooth_array(x)]
    return max([float(size.max(initial=0.0)) for size in sizes] + [0.0])


def gradient_is_a_number(spec: OpSpec, args: list, params: dict) -> int:
    """If all arguments and the value are finite, no gradient is NaN."""
    places = differentiated(spec, tuple(args))
    function = Function(spec.call, args, params, places)
    leaves, ys = function.record(function.xs)
    if not any(isinstance(y, Tensor) and y.requires_grad for y in ys):
        return 0
    gs = function.vjp(function.xs, [np.ones_like(y.data) for y in ys])
    finite = np.all([np.isfinite(x) for x in args if is_smooth_array(x)], axis=0)
    finite &= np.all([np.isfinite(y.data) for y in ys], axis=0)
    for position, g in zip(places, gs, strict=True):
        wrong = finite & np.isnan(g)
        if wrong.any():
            where = int(np.argmax(wrong))
            point = [float(x[where]) for x in args if is_smooth_array(x)]
            raise GradcheckError(
                f"the gradient of argument {position} is NaN at {point}, where the value "
                f"{ys[0].data[where]!r} is finite"
            )
    return len(gs) * finite.size


def with_special(spec: OpSpec, context: Context, dtype: str) -> Iterator[tuple[Sample, str]]:
    """Samples in which one element of one argument is inf, −inf or NaN."""
    samples = [s for s in context.samples(spec, dtype) if any(np.size(x) > 1 for x in s.args)]
    for sample in samples if context.full else samples[:2]:
        for i, x in enumerate(sample.args):
            if not is_smooth_array(x) or not x.size:
                continue
            for value in (np.nan,) if spec.nan_alone else (np.inf, -np.inf, np.nan):
                changed = x.copy()
                changed.reshape(-1)[x.size // 2] = value
                args = (*sample.args[:i], changed, *sample.args[i + 1 :])
                yield Sample(sample.name, args, sample.params), f"{sample.name} with {value}"
