"""The kernels of norms, losses, attention, pooling and dropout compile, without a GPU."""

import importlib.util
import os
import pathlib

import numpy as np
import pytest

import minigrad as mg
from minigrad.expressions import cuda_columns
from minigrad.expressions.trace import trace
from minigrad.fusion import writes
from minigrad.fusion.launch import Kernel, row_kind_of
from minigrad.on_gpu import attention, dropout, losses, norms, pooling, pooling_rows
from minigrad.ops.windows import windows

pytestmark = pytest.mark.promise("all CUDA sources compile without a GPU")

spec = importlib.util.spec_from_file_location(
    "nvrtc", pathlib.Path(__file__).parents[1] / "expressions" / "nvrtc.py"
)  # the tests are no package
nvrtc = importlib.util.module_from_spec(spec)
spec.loader.exec_module(nvrtc)
SINGLE, HALF = np.dtype(np.float32), np.dtype(np.float16)
INTEGER, BOOLEAN = np.dtype(np.int64), np.dtype(bool)


@pytest.fixture
def compiler():
    if nvrtc.root() is None:
        assert not os.environ.get("CI"), "CI compiles the CUDA sources: install nvidia-cuda-nvrtc"
        pytest.skip("NVIDIA's compiler is not there: pip install nvidia-cuda-nvrtc")
    return nvrtc.compile


@pytest.mark.parametrize("length", [5, 8192, 500_000])
@pytest.mark.parametrize("dtype", [SINGLE, mg.bfloat16])
def test_norms(compiler, dtype, length):
    for centre in (True, False):
        words = norms.words(1e-5, centre, True, True, SINGLE, True)
        compiler(Kernel(words, [dtype] * 3, ["full", "row", "row"]).source(length))
        words = norms.words_dx(centre, True, SINGLE)
        kernel = Kernel(words, [dtype, dtype, SINGLE, SINGLE, dtype],
                        ["full", "full", "line", "line", "row"])  # fmt: skip
        compiler(kernel.source(length))


@pytest.mark.parametrize("length", [10, 50_000])
def test_cross_entropy(compiler, length):
    kinds = ["full", "line", "line"]
    compiler(Kernel(losses.loss_words, [HALF, INTEGER, SINGLE], kinds).source(length))
    kernel = Kernel(losses.dx_words, [HALF, SINGLE, SINGLE, INTEGER], ["full", *["line"] * 3])
    compiler(kernel.source(length))


@pytest.mark.parametrize("mask", [None, BOOLEAN, SINGLE, INTEGER])
def test_attention(compiler, mask):
    masks = [] if mask is None else [mask]
    kinds = ["lines" if mask == INTEGER else "rows"] * len(masks)
    words = attention.probability_words(HALF)
    compiler(Kernel(words, [SINGLE, *masks], ["full", *kinds]).source(512))
    words = attention.gradient_words(SINGLE)
    kernel = Kernel(words, [SINGLE] * 4 + masks, ["full", "full", "line", "line", *kinds])
    compiler(kernel.source(512))


def test_a_causal_mask_is_read_as_one_number_a_query():
    """Query i, row i of each example, sees the keys 0 … i: no array of (L, S) is made."""
    (query,) = attention._masks(None, True, np, (2, 3, 70, 90))
    np.testing.assert_array_equal(query, np.arange(70).reshape(1, 70, 1))
    assert row_kind_of(query.shape, (6, 70, 90)) == ("lines", (1, 70))
    kernel = Kernel(attention.probability_words(HALF), [SINGLE, INTEGER], ["full", "lines"])
    assert "x1[row / s1 % n1]" in kernel.source(90)


@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("dtype", [SINGLE, HALF, mg.bfloat16, np.dtype(np.float64)], ids=str)
@pytest.mark.parametrize("index", ["unsigned int", "long long"])
def test_pooling(compiler, dims, dtype, index):
    for how in (windows("pool", (3,) * dims, 2, 1), windows("pool", (2,) * dims, 2)):
        size, counted = (12, 10, 16)[-dims:], ((0, 0),) * dims
        shapes = (how, size, how.count("pool", size), dtype, index)
        compiler(pooling_rows.largest_source(*shapes))
        compiler(pooling_rows.largest_gradient_source(*shapes))
        for divisor in (4, counted):
            compiler(pooling_rows.sum_source(*shapes, divisor))
            compiler(pooling_rows.sum_gradient_source(*shapes, divisor))


@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("index", ["unsigned int", "long long"])
def test_pooling_in_windows_of_any_size(compiler, dims, index):
    how = windows("pool", (3,) * dims, 2, 1, 2)
    compiler(pooling.forward_source(how, HALF, index))
    compiler(pooling.gradient_source(how, HALF, index))
    how = windows("pool", (9,) * dims, 9, 1)
    for divisor in (0.3, ((0, 0),) * dims):
        compiler(pooling.sum_by_elements(how, SINGLE, index, divisor))
        compiler(pooling.sum_gradient_by_elements(how, SINGLE, index, divisor))


@pytest.mark.parametrize("dtype", [SINGLE, HALF, mg.bfloat16, np.dtype(np.float64)], ids=str)
@pytest.mark.parametrize("index", ["unsigned int", "long long"])
def test_dropout(compiler, dtype, index):
    compiler(dropout.source(dtype, index))
    for run, shared in ((4, (False, True)), (1, (False, True, False)), (2, (True,))):
        compiler(dropout.source(dtype, index, run, shared))


@pytest.mark.parametrize("width", [1, 4])
def test_sums_down_columns(compiler, width):
    def summands(a, x, mean):
        return [a.astype(SINGLE) * (x.astype(SINGLE) - mean), a.astype(SINGLE)]

    inputs, outputs = trace(summands, [HALF, HALF, SINGLE])
    compiler(cuda_columns.column_source(inputs, outputs, ["full", "full", "line"], width))


@pytest.mark.parametrize("dtype", [SINGLE, HALF])
@pytest.mark.parametrize("cls", [mg.optim.SGD, mg.optim.Adam])
def test_updates_of_many_parameters_at_once(compiler, cls, dtype):
    """The table of addresses must fit into what a kernel may be given, numbers included."""
    p = mg.tensor(np.zeros(3, np.float32), requires_grad=True)
    optimizer = cls([p], lr=0.1)
    group = optimizer.param_groups[0]
    names = list(optimizer.buffers(group))
    dtypes = [dtype, dtype, *[SINGLE] * len(names)]
    update = optimizer._update_in(group)
    program, numbers = writes.recorded(update, tuple(dtypes), names, {"step": 1})
    assert len(numbers) == program.numbers
    assert program.form.itemsize <= 4096
    compiler(program.source())
