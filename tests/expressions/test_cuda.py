"""The CUDA sources: every op's kernel compiles, without a GPU; and what the source says."""

import importlib.util
import os
import pathlib

import numpy as np
import pytest

import minigrad as mg
from minigrad.backends.philox import _SOURCE as PHILOX
from minigrad.engine.plan import Plan
from minigrad.engine.primitive import Primitive
from minigrad.engine.registry import op
from minigrad.expressions import cuda
from minigrad.expressions.cuda_rows import VALUES, layout_of
from minigrad.expressions.passes import steps
from minigrad.expressions.trace import InFull, NotFusible, require_lines_of, trace
from minigrad.fusion.launch import Kernel, _prepared, kind_of
from minigrad.on_gpu import rows

pytestmark = pytest.mark.promise("all CUDA sources compile without a GPU")

spec = importlib.util.spec_from_file_location(
    "nvrtc", pathlib.Path(__file__).parent / "nvrtc.py"
)  # the tests are no package
nvrtc = importlib.util.module_from_spec(spec)
spec.loader.exec_module(nvrtc)
DTYPES = [np.dtype("float32"), mg.bfloat16]  # a plain one, and one computed in another


@pytest.fixture
def compiler():
    if nvrtc.root() is None:
        assert not os.environ.get("CI"), "CI compiles the CUDA sources: install nvidia-cuda-nvrtc"
        pytest.skip("NVIDIA's compiler is not there: pip install nvidia-cuda-nvrtc")
    return nvrtc.compile


def rule_of(entry: Primitive):
    """The op's rules, cotangent included, as a function of the arrays they need."""
    ruled = [entry.joint is not None or name in entry.rules for name in entry.arrays]
    plan = Plan(
        entry, sum(1 << i for i, rule in enumerate(ruled) if rule and entry.tracked >> i & 1)
    )
    known = {name: entry.defaults[name] for name in plan.names if name in entry.defaults}
    known |= {name: (2, 3) for name in plan.names if name.endswith("_shape")}
    known |= {"needs": [True] * entry.arity, "xp": np}
    arrays = [name for name in plan.names if name not in known]

    def rule(g, *values):
        given = known | dict(zip(arrays, values, strict=True))
        return plan.apply_rules((g, *[given[name] for name in plan.names]))

    return rule, 1 + len(arrays)


def kernels():
    """(name, source) of every kernel of the table that there is."""
    for entry in op:
        if not isinstance(entry, Primitive) or entry.kind != "elementwise":
            continue
        functions = [("forward", lambda *x, entry=entry: entry.forward(*x), entry.arity)]
        if entry.tracked:
            functions.append(("gradient", *rule_of(entry)))
        for what, fn, count in functions:
            for dtype in DTYPES:
                try:
                    made = Kernel(fn, [dtype] * count, ["full"] * count)
                except NotFusible:
                    continue
                yield f"{entry.name}, {what}, {dtype}", made.source()
    for name, words in rows.ROWS.items():
        count = words.__code__.co_argcount
        for dtype in (DTYPES[0], DTYPES[-1]):
            dtypes = [dtype, dtype, np.dtype(bool)][:count]
            kinds = ["full", "full", "line"][:count]
            for length in (7, 8192, 200_000):  # several rows a warp, a row a block, a row in a loop
                yield f"{name}, {dtype}, {length}", Kernel(words, dtypes, kinds).source(length)


def test_every_kernel_of_the_table_compiles(compiler):
    found = dict(kernels())
    assert len(found) > 300, "most ops have kernels"
    parts = [cuda.HEADERS, cuda.PRELUDE]
    for i, source in enumerate(found.values()):
        body = source.replace(cuda.HEADERS, "").replace(cuda.PRELUDE, "")
        body = body.replace('extern "C"', "")
        parts.append(f"namespace k{i} {{ {body} }}")
    for start in range(2, len(parts), 100):
        compiler("\n".join(parts[:2] + parts[start : start + 100]))


def test_the_generator_of_random_numbers_compiles(compiler):
    compiler(PHILOX)


def test_the_compiler_refuses_what_is_wrong(compiler):
    with pytest.raises(RuntimeError, match="undefined"):
        compiler('extern "C" __global__ void f(float* y) { y[0] = undefined_thing; }')


def test_a_kernel_computes_nothing_twice_and_nothing_that_is_not_needed():
    def fn(x):
        unused = np.sin(x)
        return [np.exp(x) + np.exp(x), None, np.where(unused > 0, x, x) * 1]

    source = Kernel(lambda x: fn(x)[0], [np.dtype("float32")], ["full"]).source()
    assert source.count(" = expf(v") == 2  # once in the wide path, once in the tail
    assert "sinf" not in source


def test_sixteen_bit_floats_are_computed_in_float32_and_loaded_eight_at_a_time():
    source = Kernel(lambda x: np.exp(x), [np.dtype("float16")], ["full"]).source()
    assert "constexpr int W = 8" in source
    assert "expf(" in source and "(__half)v" in source


@pytest.mark.parametrize(
    ("value", "word"), [(np.inf, "INFINITY"), (-np.inf, "-INFINITY"), (np.nan, "NAN"), (0.1, "0.1")]
)
def test_constants_are_written_exactly(value, word):
    source = Kernel(lambda x: x + value, [np.dtype("float64")], ["full"]).source()
    assert word in source


FLOATS = [np.dtype(name) for name in ("float16", "float32", "float64")] + [mg.bfloat16]


@pytest.mark.parametrize("source", FLOATS, ids=str)
@pytest.mark.parametrize("target", FLOATS, ids=str)
def test_casts_between_all_floats_compile(compiler, source, target):
    if source != target:
        compiler(Kernel(lambda x: [x.astype(target)], [source], ["full"]).source())


@pytest.mark.parametrize("narrow", [FLOATS[0], mg.bfloat16], ids=str)
def test_a_cast_moves_16_bytes_of_the_wider_type_at_once(narrow):
    for pair in [(FLOATS[1], narrow), (narrow, FLOATS[1])]:
        source = Kernel(lambda x: [x.astype(pair[1])], [pair[0]], ["full"]).source()
        assert "W = 4;" in source and "Lanes<float, W>" in source


@pytest.mark.parametrize("narrow", [FLOATS[0], mg.bfloat16], ids=str)
def test_float64_goes_to_16_bits_without_float32_between(narrow):
    source = Kernel(lambda x: [x.astype(narrow)], [FLOATS[2]], ["full"]).source()
    assert f"out0.v[k] = ({cuda.stored(narrow)})v0;" in source  # v0 is the double itself


def test_the_steps_of_a_kernel_are_all_that_its_results_need():
    fn = lambda a, b, c: (mg.exp(a) * mg.sin(b)) + (mg.cos(b) * mg.tanh(c))
    inputs, outputs = trace(fn, [np.dtype("float32")] * 3)
    found = [s.op for s in steps(outputs, {x.number for x in inputs})]
    assert sorted(found) == sorted(s.op for s in outputs[0].program.symbols if s.op != "input")


@pytest.mark.parametrize(
    ("own", "shape", "kind"),
    [
        ((2, 3, 4), (2, 3, 4), ("full", ())),
        ((), (2, 3), ("one", ())),
        ((1, 1), (2, 3), ("one", ())),
        ((3, 1), (2, 3, 4), ("part", (4, 3))),
        ((4,), (2, 3, 4), ("part", (1, 4))),
        ((2, 3, 1), (2, 3, 4), ("part", (4, 6))),
        ((2, 1, 4), (2, 3, 4), None),
        ((2, 1, 4, 1), (2, 3, 4, 5), None),
    ],
)
def test_how_an_elementwise_kernel_reads_an_array_that_is_broadcast(own, shape, kind):
    assert kind_of(own, shape) == kind


def test_what_is_read_as_one_number_is_no_shorter_for_it():
    def in_full(fn, *same):
        dtypes, kinds = [DTYPES[0]] * len(same), ["one" if x else "full" for x in same]
        found = Kernel(fn, dtypes, kinds, kinds).found
        try:
            require_lines_of(fn, dtypes, [(3, 4)] * len(same), 4, found)
        except InFull:
            return True
        return False

    assert in_full(rows.softmax, True) and not in_full(rows.softmax, False)
    assert in_full(rows.softmax_dx, True, True)
    assert not in_full(rows.softmax_dx, True, False)  # the gradient of a sum stays one number
    with pytest.raises(InFull):
        _prepared(rows.softmax, [((3, 4), DTYPES[0], True)], False, np)


def test_a_result_that_needs_no_later_sum_is_computed_in_the_pass_of_the_sum():
    def fn(x):
        y = np.tanh(x)
        return [(y * x).sum(-1, keepdims=True), y]

    kernel = Kernel(fn, [np.dtype("float32")], ["full"])
    assert kernel.source(8192).count("tanhf(") == 1
    assert kernel.source(100_000).count("tanhf(") == 1  # rows that are too long for registers


def test_a_result_that_needs_a_sum_is_computed_after_it():
    def fn(x):
        y = np.tanh(x)
        return [y / y.sum(-1, keepdims=True)]

    source = Kernel(fn, [np.dtype("float32")], ["full"]).source(8192)
    first, second = source.split("over_row_sum(r")
    assert "y0[" not in first and "y0 +" not in first.split("extern")[1]
    assert "y0 + row" in second


@pytest.mark.parametrize(
    ("length", "dtypes"), [(1024, "fffff"), (4096, "fffff"), (8192, "eee"), (8192, "f")], ids=str
)
def test_a_row_stays_in_registers_if_a_block_can_hold_it(length, dtypes):
    layout = layout_of(length, [np.dtype(dtype) for dtype in dtypes])
    assert layout.width * layout.items * len(dtypes) <= VALUES and layout.threads <= 1024
    assert layout.width * layout.items * layout.threads >= length


def test_a_row_that_no_block_can_hold_is_read_again_in_each_pass():
    assert layout_of(16384, [np.dtype("f")] * 5) is None
