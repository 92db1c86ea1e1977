"""minigrad.array_api: every function of the standard is there, spelled so, and answers as NumPy's.

NumPy's main namespace implements the same standard, so it is the oracle: on random arrays of every
dtype both give the same values, dtype and shape, or both refuse.
"""

import inspect
import operator

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.array_api import make_strategies_namespace

import minigrad as mg
import minigrad.array_api as xp

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")
few = settings(max_examples=12, deadline=None, derandomize=True)
more = settings(max_examples=40, deadline=None, derandomize=True)

BOOL, FLOAT, COMPLEX = ["bool"], ["float32", "float64"], ["complex64", "complex128"]
SIGNED, UNSIGNED = [["int8", "int16", "int32", "int64"], ["uint8", "uint16", "uint32", "uint64"]]
WHOLE = SIGNED + UNSIGNED
BITS, REAL, INEXACT = BOOL + WHOLE, WHOLE + FLOAT, FLOAT + COMPLEX
NUMERIC = WHOLE + INEXACT
ALL = BOOL + NUMERIC

ONE = {
    "abs": NUMERIC, "acos": INEXACT, "acosh": INEXACT, "asin": INEXACT, "asinh": INEXACT,
    "atan": INEXACT, "atanh": INEXACT, "bitwise_invert": BITS, "ceil": REAL, "conj": NUMERIC,
    "cos": INEXACT, "cosh": INEXACT, "exp": INEXACT, "expm1": INEXACT, "floor": REAL,
    "imag": NUMERIC, "isfinite": NUMERIC, "isinf": NUMERIC, "isnan": NUMERIC, "log": INEXACT,
    "log10": INEXACT, "log1p": INEXACT, "log2": INEXACT, "logical_not": BOOL,
    "negative": NUMERIC, "positive": NUMERIC, "real": NUMERIC, "reciprocal": INEXACT,
    "round": NUMERIC, "sign": NUMERIC, "signbit": FLOAT, "sin": INEXACT, "sinh": INEXACT,
    "sqrt": INEXACT, "square": NUMERIC, "tan": INEXACT, "tanh": INEXACT, "trunc": REAL,
}  # fmt: skip
TWO = {
    "add": NUMERIC, "atan2": FLOAT, "bitwise_and": BITS, "bitwise_left_shift": WHOLE,
    "bitwise_or": BITS, "bitwise_right_shift": WHOLE, "bitwise_xor": BITS, "copysign": FLOAT,
    "divide": INEXACT, "equal": ALL, "floor_divide": REAL, "greater": REAL,
    "greater_equal": REAL, "hypot": FLOAT, "less": REAL, "less_equal": REAL, "logaddexp": FLOAT,
    "logical_and": BOOL, "logical_or": BOOL, "logical_xor": BOOL, "maximum": REAL,
    "minimum": REAL, "multiply": NUMERIC, "nextafter": FLOAT, "not_equal": ALL, "pow": NUMERIC,
    "remainder": REAL, "subtract": NUMERIC,
}  # fmt: skip
OPERATORS = {
    "add": NUMERIC, "sub": NUMERIC, "mul": NUMERIC, "truediv": INEXACT, "floordiv": REAL,
    "mod": REAL, "pow": NUMERIC, "and_": BITS, "or_": BITS, "xor": BITS, "lshift": WHOLE,
    "rshift": WHOLE, "eq": ALL, "ne": ALL, "lt": REAL, "le": REAL, "gt": REAL, "ge": REAL,
}  # fmt: skip

# what is neither of one nor of two arrays, element by element
SIGNATURES = """
arange(start, /, stop=None, step=1, *, dtype=None, device=None)
asarray(obj, /, *, dtype=None, device=None, copy=None)
empty(shape, *, dtype=None, device=None)
empty_like(x, /, *, dtype=None, device=None)
eye(n_rows, n_cols=None, /, *, k=0, dtype=None, device=None)
from_dlpack(x, /, *, device=None, copy=None)
full(shape, fill_value, *, dtype=None, device=None)
full_like(x, /, fill_value, *, dtype=None, device=None)
linspace(start, stop, /, num, *, dtype=None, device=None, endpoint=True)
meshgrid(*arrays, indexing='xy')
ones(shape, *, dtype=None, device=None)
ones_like(x, /, *, dtype=None, device=None)
tril(x, /, *, k=0)
triu(x, /, *, k=0)
zeros(shape, *, dtype=None, device=None)
zeros_like(x, /, *, dtype=None, device=None)
astype(x, dtype, /, *, copy=True, device=None)
broadcast_arrays(*arrays)
broadcast_to(x, /, shape)
can_cast(from_, to, /)
finfo(type, /)
iinfo(type, /)
isdtype(dtype, kind)
result_type(*arrays_and_dtypes)
clip(x, /, min=None, max=None)
take(x, indices, /, *, axis=None)
take_along_axis(x, indices, /, *, axis=-1)
__array_namespace_info__()
matmul(x1, x2, /)
matrix_transpose(x, /)
tensordot(x1, x2, /, *, axes=2)
vecdot(x1, x2, /, *, axis=-1)
concat(arrays, /, *, axis=0)
expand_dims(x, /, axis=0)
flip(x, /, *, axis=None)
moveaxis(x, source, destination, /)
permute_dims(x, /, axes)
repeat(x, repeats, /, *, axis=None)
reshape(x, /, shape, *, copy=None)
roll(x, /, shift, *, axis=None)
squeeze(x, /, axis)
stack(arrays, /, *, axis=0)
tile(x, repetitions, /)
unstack(x, /, *, axis=0)
argmax(x, /, *, axis=None, keepdims=False)
argmin(x, /, *, axis=None, keepdims=False)
count_nonzero(x, /, *, axis=None, keepdims=False)
nonzero(x, /)
searchsorted(x1, x2, /, *, side='left', sorter=None)
where(condition, x1, x2, /)
unique_all(x, /)
unique_counts(x, /)
unique_inverse(x, /)
unique_values(x, /)
argsort(x, /, *, axis=-1, descending=False, stable=True)
sort(x, /, *, axis=-1, descending=False, stable=True)
cumulative_prod(x, /, *, axis=None, dtype=None, include_initial=False)
cumulative_sum(x, /, *, axis=None, dtype=None, include_initial=False)
max(x, /, *, axis=None, keepdims=False)
mean(x, /, *, axis=None, keepdims=False)
min(x, /, *, axis=None, keepdims=False)
prod(x, /, *, axis=None, dtype=None, keepdims=False)
std(x, /, *, axis=None, correction=0.0, keepdims=False)
sum(x, /, *, axis=None, dtype=None, keepdims=False)
var(x, /, *, axis=None, correction=0.0, keepdims=False)
all(x, /, *, axis=None, keepdims=False)
any(x, /, *, axis=None, keepdims=False)
diff(x, /, *, axis=-1, n=1, prepend=None, append=None)
linalg.cholesky(x, /, *, upper=False)
linalg.cross(x1, x2, /, *, axis=-1)
linalg.det(x, /)
linalg.diagonal(x, /, *, offset=0)
linalg.eigh(x, /)
linalg.eigvalsh(x, /)
linalg.inv(x, /)
linalg.matmul(x1, x2, /)
linalg.matrix_norm(x, /, *, keepdims=False, ord='fro')
linalg.matrix_power(x, n, /)
linalg.matrix_rank(x, /, *, rtol=None)
linalg.matrix_transpose(x, /)
linalg.outer(x1, x2, /)
linalg.pinv(x, /, *, rtol=None)
linalg.qr(x, /, *, mode='reduced')
linalg.slogdet(x, /)
linalg.solve(x1, x2, /)
linalg.svd(x, /, *, full_matrices=True)
linalg.svdvals(x, /)
linalg.tensordot(x1, x2, /, *, axes=2)
linalg.trace(x, /, *, offset=0, dtype=None)
linalg.vecdot(x1, x2, /, *, axis=-1)
linalg.vector_norm(x, /, *, axis=None, keepdims=False, ord=2)
fft.fft(x, /, *, n=None, axis=-1, norm='backward')
fft.ifft(x, /, *, n=None, axis=-1, norm='backward')
fft.fftn(x, /, *, s=None, axes=None, norm='backward')
fft.ifftn(x, /, *, s=None, axes=None, norm='backward')
fft.rfft(x, /, *, n=None, axis=-1, norm='backward')
fft.irfft(x, /, *, n=None, axis=-1, norm='backward')
fft.rfftn(x, /, *, s=None, axes=None, norm='backward')
fft.irfftn(x, /, *, s=None, axes=None, norm='backward')
fft.hfft(x, /, *, n=None, axis=-1, norm='backward')
fft.ihfft(x, /, *, n=None, axis=-1, norm='backward')
fft.fftfreq(n, /, *, d=1.0, dtype=None, device=None)
fft.rfftfreq(n, /, *, d=1.0, dtype=None, device=None)
fft.fftshift(x, /, *, axes=None)
fft.ifftshift(x, /, *, axes=None)
""".split("\n")[1:-1]


# -- names and signatures --------------------------------------------------------------------


def signature_text(function):
    parameters = inspect.signature(function).parameters.values()
    bare = [p.replace(annotation=inspect.Parameter.empty) for p in parameters]
    return str(inspect.Signature(bare))


@pytest.mark.parametrize("line", SIGNATURES, ids=lambda line: line.partition("(")[0])
def test_a_function_has_the_standards_signature(line):
    name = line.partition("(")[0]
    assert name + signature_text(operator.attrgetter(name)(xp)) == line


@pytest.mark.parametrize("name", [*ONE, *TWO])
def test_an_elementwise_function_takes_arrays_by_position_only(name):
    assert signature_text(getattr(xp, name)) == ("(x, /)" if name in ONE else "(x1, x2, /)")


def test_constants_and_dtypes_are_there():
    assert (xp.e, xp.pi, xp.inf, xp.newaxis) == (np.e, np.pi, np.inf, None) and np.isnan(xp.nan)
    assert all(getattr(xp, name) == np.dtype(name) for name in ALL)


def test_a_tensor_names_the_namespace():
    x = mg.tensor([1.0], requires_grad=True)
    assert x.__array_namespace__() is xp is x.__array_namespace__(api_version="2023.12")
    with pytest.raises(ValueError, match="version '2030.12' of the array API standard"):
        x.__array_namespace__(api_version="2030.12")


def test_the_namespace_describes_itself_as_numpy_does():
    ours, theirs = xp.__array_namespace_info__(), np.__array_namespace_info__()
    assert ours.capabilities() == theirs.capabilities()
    assert ours.default_device() == "cpu" in ours.devices()
    assert ours.default_dtypes(device="cpu") == theirs.default_dtypes()
    assert ours.dtypes(kind="integral") == theirs.dtypes(kind="integral")


def test_hypothesis_can_draw_tensors():
    strategies = make_strategies_namespace(xp)

    @given(strategies.arrays(dtype=strategies.scalar_dtypes(), shape=(2, 3), unique=True))
    @few
    def check(x):
        assert isinstance(x, mg.Tensor) and x.shape == (2, 3)

    check()


# -- comparison with NumPy -------------------------------------------------------------------


def shapes(**options):
    return hnp.array_shapes(
        **({"min_dims": 0, "max_dims": 3, "min_side": 0, "max_side": 3} | options)
    )


def arrays(dtypes, shape=None, **elements):
    shape = shapes() if shape is None else shape
    return st.sampled_from(dtypes).flatmap(
        lambda dtype: hnp.arrays(dtype, shape, elements=elements or None)
    )


def several(dtypes, count):
    """Arrays of dtypes of one list whose shapes broadcast."""
    return hnp.mutually_broadcastable_shapes(num_shapes=count, max_dims=3, max_side=3).flatmap(
        lambda found: st.tuples(*[arrays(dtypes, shape) for shape in found.input_shapes])
    )


ERRORS = (TypeError, ValueError, IndexError, OverflowError, ZeroDivisionError)


def outcome(call):
    with np.errstate(all="ignore"):
        try:
            return call()
        except ERRORS as error:
            return error


def assert_same(ours, theirs, rtol=0.0):
    """The same tree of values, dtypes and shapes; or errors of one kind."""
    if isinstance(theirs, Exception):
        kind = next(kind for kind in ERRORS if isinstance(theirs, kind))
        assert isinstance(ours, kind), f"NumPy raised {theirs!r}, got {ours!r}"
        return
    if isinstance(theirs, tuple | list):
        assert len(ours) == len(theirs)
        for a, b in zip(ours, theirs, strict=True):
            assert_same(a, b, rtol)
        return
    assert isinstance(ours, mg.Tensor), ours
    y, expected = ours.numpy(), np.asarray(theirs)
    assert (y.dtype, y.shape) == (expected.dtype, expected.shape)
    np.testing.assert_allclose(y, expected, rtol=rtol, atol=rtol)
    if not rtol and expected.dtype.kind == "f":
        np.testing.assert_array_equal(
            np.signbit(y) | np.isnan(y), np.signbit(expected) | np.isnan(expected)
        )


def to_tensors(value):
    if isinstance(value, np.ndarray):
        return xp.asarray(value.copy())
    return type(value)(map(to_tensors, value)) if isinstance(value, tuple | list) else value


def compare(name, *args, rtol=0.0, **options):
    """xp.name and np.name on the same arguments."""
    find = operator.attrgetter(name)
    ours = outcome(lambda: find(xp)(*map(to_tensors, args), **options))
    theirs = outcome(lambda: find(np)(*args, **options))
    assert_same(ours, theirs, rtol)


@pytest.mark.parametrize("name", ONE)
def test_functions_of_one_array_agree(name):
    given(arrays(ONE[name]))(few(lambda x: compare(name, x)))()


@pytest.mark.parametrize("name", TWO)
def test_functions_of_two_arrays_agree(name):
    given(several(TWO[name], 2))(few(lambda xs: compare(name, *xs)))()


def numbers(dtypes):
    """Python numbers of the kind of some dtypes."""
    kinds = {"b": st.booleans(), "i": st.integers(-9, 9), "u": st.integers(0, 9),
             "f": st.floats(width=32), "c": st.complex_numbers(max_magnitude=9)}  # fmt: skip
    return kinds[np.dtype(dtypes[0]).kind]


@pytest.mark.parametrize("name", TWO)
def test_one_of_two_arrays_may_be_a_python_number(name):
    @given(st.data())
    @few
    def check(data):
        dtype = [data.draw(st.sampled_from(TWO[name]))]
        x, number = data.draw(arrays(dtype)), data.draw(numbers(dtype))
        compare(name, x, number)
        compare(name, number, x)

    check()


@pytest.mark.parametrize("name", OPERATORS)
def test_operators_agree_forwards_reflected_and_in_place(name):
    plain = getattr(operator, name)
    in_place = getattr(operator, f"i{name.rstrip('_')}", plain)

    @given(st.data())
    @few
    def check(data):
        dtype = [data.draw(st.sampled_from(OPERATORS[name]))]
        a, b = data.draw(several(dtype, 2))
        number = data.draw(numbers(dtype))
        for f, x, y in (
            (plain, a, b),
            (plain, a, number),
            (plain, number, a),
            (in_place, a, number),
        ):
            theirs = outcome(lambda: f(x if f is plain else x.copy(), y))
            assert_same(outcome(lambda: f(to_tensors(x), to_tensors(y))), theirs)

    check()


@pytest.mark.parametrize(
    ("name", "dtypes"), [("neg", NUMERIC), ("pos", NUMERIC), ("invert", BITS), ("abs", NUMERIC)]
)
def test_operators_of_one_tensor_agree(name, dtypes):
    f = getattr(operator, name)
    given(arrays(dtypes))(
        few(lambda x: assert_same(outcome(lambda: f(to_tensors(x))), outcome(lambda: f(x))))
    )()


@pytest.mark.parametrize("number", [bool, int, float, complex, operator.index])
def test_a_tensor_of_one_element_becomes_a_python_number(number):
    for dtype in ALL:
        x = np.asarray(1, dtype)
        ours, theirs = outcome(lambda: number(xp.asarray(x))), outcome(lambda: number(x))
        assert type(ours) is type(theirs)
        assert isinstance(theirs, Exception) or ours == theirs


# -- reductions, sorting, sets ---------------------------------------------------------------


def axes(x, many=True):
    one = st.integers(-x.ndim, x.ndim - 1) if x.ndim else st.none()
    several_axes = hnp.valid_tuple_axes(x.ndim) if many else st.nothing()
    return st.none() | one | several_axes


@pytest.mark.parametrize(
    ("name", "dtypes"),
    [("sum", NUMERIC), ("prod", NUMERIC), ("mean", INEXACT), ("var", FLOAT), ("std", FLOAT),
     ("max", REAL), ("min", REAL), ("any", ALL), ("all", ALL), ("count_nonzero", ALL)],
)  # fmt: skip
def test_reductions_agree(name, dtypes):
    @given(st.data())
    @more
    def check(data):
        x = data.draw(arrays(dtypes))
        options = {"axis": data.draw(axes(x)), "keepdims": data.draw(st.booleans())}
        if name in ("sum", "prod"):
            wider = [None, *[d for d in dtypes if np.can_cast(x.dtype, d)]]
            options["dtype"] = data.draw(st.sampled_from(wider))
        if name in ("var", "std"):
            options["correction"] = data.draw(st.sampled_from([0, 0.0, 1, 0.5]))
        if (
            name == "std" and x.size
        ):  # of equal numbers ours is exactly 0, also where their mean is rounded
            assume(not (x.max(options["axis"]) == x.min(options["axis"])).any())
        compare(name, x, **options)

    check()


@pytest.mark.parametrize(
    "name", ["argmax", "argmin", "cumulative_sum", "cumulative_prod", "sort", "argsort"]
)
def test_functions_along_one_axis_agree(name):
    @given(st.data())
    @more
    def check(data):
        x = data.draw(
            arrays(REAL if name not in ("cumulative_sum", "cumulative_prod") else NUMERIC)
        )
        axis = data.draw(axes(x, many=False))
        if name in ("argmax", "argmin"):
            options = {"keepdims": data.draw(st.booleans())}
        elif "sort" in name:
            axis, options = -1 if axis is None else axis, {"stable": True}
        else:
            options = {"include_initial": data.draw(st.booleans())}
        compare(name, x, axis=axis, **options)

    check()


@given(arrays(FLOAT, shapes(min_dims=1, min_side=1), allow_nan=False))
@few
def test_descending_order_is_ascending_order_turned_round_with_equals_kept_in_place(x):
    y = xp.asarray(x)
    assert_same(xp.sort(y, descending=True), -np.sort(-x, stable=True))
    assert_same(xp.argsort(y, descending=True), np.argsort(-x, stable=True))


@given(several(REAL, 2), st.sampled_from(["left", "right"]))
@few
def test_searchsorted_agrees_also_with_a_sorter(xs, side):
    a, v = np.ravel(xs[0]), xs[1]
    sorter = np.argsort(a, stable=True)
    compare("searchsorted", np.sort(a), v, side=side)
    ours = xp.searchsorted(*map(xp.asarray, (a, v)), side=side, sorter=xp.asarray(sorter))
    assert_same(ours, np.searchsorted(a, v, side=side, sorter=sorter))


@given(several(ALL, 3))
@more
def test_where_nonzero_and_isin_agree(xs):
    condition, a, b = xs
    compare("where", condition.astype(bool), a, b)
    compare("nonzero", a)
    compare("isin", a, b, invert=True)


@given(arrays(ALL))
@more
def test_sets_agree_and_keep_nans_apart(x):
    compare("unique_all", x)
    compare("unique_counts", x)
    values, inverse = xp.unique_inverse(xp.asarray(x))  # NumPy's takes NaNs in any order
    assert_same(xp.take(values, inverse), x)
    assert xp.unique_all(xp.asarray(x))._fields == (
        "values",
        "indices",
        "inverse_indices",
        "counts",
    )
    assert_same(xp.unique_values(xp.asarray(x)), np.unique(x, equal_nan=False))


@given(arrays(NUMERIC, shapes(min_dims=1)), st.integers(0, 2))
@few
def test_diff_agrees(x, n):
    compare("diff", x, n=n, axis=0)
    compare("diff", x, prepend=x, append=x)


# -- shapes, joins, indices ------------------------------------------------------------------


@given(st.data())
@more
def test_functions_of_shape_agree(data):
    x = data.draw(arrays(ALL, shapes(min_dims=1)))
    axis = data.draw(st.integers(-x.ndim, x.ndim - 1))
    order = data.draw(st.permutations(range(x.ndim)))
    repeats = data.draw(st.integers(0, 3))
    compare("flip", x, axis=data.draw(axes(x)))
    compare("roll", x, repeats, axis=data.draw(axes(x, many=False)))
    compare("moveaxis", x, axis, 0)
    compare("permute_dims", x, axes=tuple(order))
    compare("expand_dims", x, axis=axis)
    compare("squeeze", x, axis=axis)
    compare("reshape", x, (-1, x.shape[-1]))
    compare("repeat", x, repeats, axis=axis)
    compare("repeat", x, np.arange(x.shape[axis]), axis=axis)
    compare("tile", x, (2, repeats))
    compare("unstack", x, axis=axis)
    compare("broadcast_to", x, (2, *x.shape))
    compare("matrix_transpose", x)
    compare("tril", x, k=1)
    compare("triu", x, k=-1)


@given(several(ALL, 2))
@more
def test_joins_agree(xs):
    compare("broadcast_arrays", *xs)
    compare("concat", list(xs), axis=None)
    compare("concat", list(np.broadcast_arrays(*xs)), axis=0)
    compare("stack", list(np.broadcast_arrays(*xs)), axis=-1)
    assert_same(xp.meshgrid(*[xp.asarray(x.ravel()) for x in xs], indexing="ij"),
                list(np.meshgrid(*[x.ravel() for x in xs], indexing="ij")))  # fmt: skip


@given(arrays(ALL, (3, 2)), hnp.arrays("int64", (4,), elements=st.integers(-3, 2)))
@few
def test_takes_agree(x, indices):
    compare("take", x, indices, axis=0)
    compare("take_along_axis", x, indices.reshape(2, 2), axis=0)


def bounded(dtypes):
    """Values whose products and sums neither overflow nor vanish."""
    return arrays(dtypes, (3, 3)).map(
        lambda x: np.nan_to_num(x % 7 if x.dtype.kind != "c" else x * 0 + 2)
    )


@given(bounded(NUMERIC), bounded(FLOAT))
@few
def test_products_agree(a, b):
    for x, y in ((a, a), (a, b)):
        compare("matmul", x, y, rtol=1e-5)
        compare("vecdot", x, y, axis=0, rtol=1e-5)
        compare("tensordot", x, y, axes=1, rtol=1e-5)
        compare("tensordot", x, y, axes=((0,), (1,)), rtol=1e-5)


@given(st.data())
@more
def test_reading_and_writing_by_index_agree(data):
    x = data.draw(arrays(ALL, shapes(min_dims=1, min_side=1)))
    basic = hnp.basic_indices(x.shape, allow_newaxis=True)
    mask = hnp.arrays(bool, x.shape)
    key = data.draw(st.one_of(basic, hnp.integer_array_indices(x.shape), mask))
    y = xp.asarray(x, copy=True)
    assert_same(y[to_tensors(key)], x[key])
    value = data.draw(hnp.from_dtype(x.dtype))
    expected = x.copy()
    expected[key] = value
    y[to_tensors(key)] = xp.asarray(value) if data.draw(st.booleans()) else value.item()
    assert_same(y, expected)


def test_clip_keeps_the_dtype_of_its_array():
    x = xp.asarray([1, 5, 9], dtype=xp.int16)
    assert xp.clip(x, 2, 6).tolist() == [2, 5, 6]
    y = xp.clip(xp.asarray([1.0, 5.0], dtype=xp.float32), xp.asarray(2.0, dtype=xp.float64))
    assert y.dtype == xp.float32 and y.tolist() == [2, 5]


# -- the extensions --------------------------------------------------------------------------


def matrices(dtypes, m, n):
    """Stacks of m × n matrices of numbers of size one; square ones are far from singular."""

    def well_placed(seed_and_dtype):
        seed, dtype = seed_and_dtype
        rng = np.random.default_rng(seed)
        x = rng.standard_normal((2, m, n))
        x = x + 1j * rng.standard_normal(x.shape) if dtype in COMPLEX else x
        return (x + 4 * np.eye(m, n)).astype(dtype)

    return st.tuples(st.integers(0, 999), st.sampled_from(dtypes)).map(well_placed)


@given(matrices(INEXACT, 3, 3), matrices(INEXACT, 3, 2))
@few
def test_linear_algebra_agrees(a, b):
    positive = a @ a.conj().mT
    for name in ("det", "inv", "slogdet", "matrix_rank", "matrix_norm", "vector_norm", "trace"):
        compare(f"linalg.{name}", a, rtol=1e-4)
    for name in ("eigvalsh", "inv", "pinv", "svdvals", "cholesky"):
        compare(f"linalg.{name}", positive, rtol=1e-3)
    compare("linalg.cholesky", positive, upper=True, rtol=1e-3)
    compare("linalg.solve", a, b, rtol=1e-3)
    compare("linalg.solve", a, b[0, :, 0], rtol=1e-3)
    compare("linalg.matrix_power", a, 3, rtol=1e-4)
    compare("linalg.matrix_power", a, -1, rtol=1e-4)
    compare("linalg.diagonal", b, offset=1)
    compare("linalg.cross", b, b, axis=-2)
    compare("linalg.outer", b[0, 0], a[0, 0], rtol=1e-6)
    compare("linalg.outer", a, a)
    compare("linalg.cross", a[..., :2], a[..., :2])
    for ord in ("fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf):
        compare("linalg.matrix_norm", b, ord=ord, keepdims=True, rtol=1e-4)
    for ord in (0, 1, 2, 3.5, np.inf, -np.inf):
        compare("linalg.vector_norm", b, axis=(0, 1), ord=ord, rtol=1e-4)


@given(matrices(INEXACT, 3, 3), matrices(INEXACT, 4, 2))
@few
def test_decompositions_have_named_parts_that_multiply_to_the_matrix(a, b):
    symmetric = a + a.conj().mT
    w, v = found = xp.linalg.eigh(xp.asarray(symmetric))
    assert found._fields == ("eigenvalues", "eigenvectors")
    assert (w.dtype, v.dtype) == (symmetric.real.dtype, symmetric.dtype)
    np.testing.assert_allclose(
        ((v * w[..., None, :]) @ xp.conj(v).mT).numpy(), symmetric, atol=1e-4
    )
    for x in (a, b):
        q, r = found = xp.linalg.qr(xp.asarray(x))
        assert found._fields == ("Q", "R") and q.dtype == r.dtype == x.dtype
        np.testing.assert_allclose((q @ r).numpy(), x, atol=1e-4)
        u, s, vh = found = xp.linalg.svd(xp.asarray(x), full_matrices=False)
        assert found._fields == ("U", "S", "Vh") and s.dtype == x.real.dtype
        np.testing.assert_allclose(((u * s[..., None, :]) @ vh).numpy(), x, atol=1e-4)
    assert [y.shape for y in xp.linalg.svd(xp.asarray(b))] == [(2, 4, 4), (2, 2), (2, 2, 2)]


@given(matrices(INEXACT, 4, 3), st.sampled_from(["backward", "ortho", "forward"]))
@few
def test_fourier_transforms_agree(x, norm):
    for name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft"):
        compare(f"fft.{name}", x, norm=norm, rtol=1e-3)
        compare(f"fft.{name}", x, n=5, axis=1, rtol=1e-3)
    for name in ("fftn", "ifftn", "rfftn", "irfftn"):
        compare(f"fft.{name}", x, s=(3, 4), axes=[2, 1], norm=norm, rtol=1e-3)
        compare(f"fft.{name}", x, rtol=1e-3)
    for name in ("fftshift", "ifftshift"):
        compare(f"fft.{name}", x)
        compare(f"fft.{name}", x, axes=[1])
    for name in ("fftfreq", "rfftfreq"):
        compare(f"fft.{name}", 5, d=0.5)
    assert xp.fft.fftfreq(4, dtype=xp.float32).dtype == np.float32


# -- creation and dtypes ---------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [None, *NUMERIC])
def test_creation_agrees(dtype):
    compare("zeros", (2, 3), dtype=dtype)
    compare("ones", 3, dtype=dtype)
    compare("full", (2,), 7, dtype=dtype)
    compare("eye", 3, 2, k=1, dtype=dtype)
    compare("arange", 5, dtype=dtype)
    compare("arange", 1, 9, 3, dtype=dtype)
    compare("linspace", 0, 9, num=4, endpoint=False, dtype=dtype)
    x = np.arange(4, dtype=dtype)
    for name in ("zeros_like", "ones_like"):
        compare(name, x)
        compare(name, x, dtype="float32")
    compare("full_like", x, 3)
    assert xp.empty((2, 3), dtype=dtype).shape == xp.empty_like(xp.zeros((2, 3))).shape == (2, 3)


@given(arrays(BITS), st.sampled_from(ALL))
@few
def test_astype_agrees(x, dtype):
    compare("astype", x, np.dtype(dtype))


def test_asarray_copies_only_when_asked_or_needed():
    x = xp.asarray([1.0, 2.0])
    assert xp.asarray(x) is x and xp.asarray(x, copy=False) is x
    assert not np.shares_memory(xp.asarray(x, copy=True), x)
    assert xp.asarray([[1, 2], [3, 4]], dtype=xp.uint16).dtype == np.uint16
    with pytest.raises(ValueError, match="needs a copy"):
        xp.asarray(x, dtype=xp.float32, copy=False)
    with pytest.raises(TypeError, match="give numbers"):
        xp.asarray(["a"])


def test_reshape_says_when_it_cannot_share_memory():
    x = xp.zeros((2, 3))
    assert np.shares_memory(xp.reshape(x, (3, 2), copy=False), x)
    assert not np.shares_memory(xp.reshape(x, (3, 2), copy=True), x)
    with pytest.raises(ValueError, match="needs a copy"):
        xp.reshape(x.T, (6,), copy=False)


@pytest.mark.parametrize("dtype", [*INEXACT, *WHOLE])
def test_limits_of_dtypes_are_python_numbers(dtype):
    ours = (xp.finfo if dtype in INEXACT else xp.iinfo)(np.dtype(dtype))
    theirs = (np.finfo if dtype in INEXACT else np.iinfo)(dtype)
    number = float if dtype in INEXACT else int
    assert type(ours.max) is type(ours.min) is number and type(ours.bits) is int
    assert (ours.max, ours.min, ours.bits) == (theirs.max, theirs.min, theirs.bits)
    array_info = (xp.finfo if dtype in INEXACT else xp.iinfo)(xp.zeros(2, dtype=dtype))
    assert array_info.dtype == ours.dtype == theirs.dtype


def test_questions_about_dtypes_agree():
    for a in ALL:
        for kind in ("bool", "signed integer", "integral", "real floating", "numeric", np.dtype(a)):
            assert xp.isdtype(np.dtype(a), kind) is np.isdtype(np.dtype(a), kind)
        for b in ALL:
            assert xp.can_cast(xp.zeros(1, dtype=a), b) is np.can_cast(a, b)
            assert xp.result_type(xp.zeros(1, dtype=a), np.dtype(b)) == np.result_type(a, b)
    assert xp.result_type(xp.zeros(1, dtype=xp.float32), 1.0) == np.float32


# -- and it is still minigrad ----------------------------------------------------------------


def test_code_written_for_the_standard_is_differentiated():
    x = mg.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    y = xp.asarray(x, dtype=xp.float32)
    z = xp.sum(xp.concat([xp.exp(y), xp.permute_dims(y * y, (1, 0))], axis=0))
    z.backward()
    np.testing.assert_allclose(
        x.grad.numpy(), np.exp(x.detach().numpy()) + 2 * x.detach().numpy(), rtol=1e-6
    )
