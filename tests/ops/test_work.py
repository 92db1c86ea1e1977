"""The work of ops: hand counts of every family, and an answer from every op there is."""

import numpy as np
import pytest

import minigrad as mg
from minigrad.engine import events
from minigrad.engine.primitive import Primitive
from minigrad.engine.registry import op as registry
from minigrad.ops import work
from minigrad.ops.windows import windows
from minigrad.ops.work import Array, Work, of, of_backward

pytestmark = pytest.mark.promise("every op says how its work is counted; hand counts agree")


def array(*shape, dtype="float64"):
    x = np.empty(shape, dtype)
    return Array(x.shape, x.dtype, x.nbytes)


def _of_this_project(forward):
    """Not of another test's op; before NumPy 2.2 a ufunc names no module."""
    return getattr(forward, "__module__", "numpy").startswith(("minigrad", "numpy"))


OURS = [
    entry for entry in registry if isinstance(entry, Primitive) and _of_this_project(entry.forward)
]


@pytest.mark.parametrize("entry", OURS, ids=lambda entry: entry.name)
def test_every_op_says_how_its_work_is_counted(entry):
    if entry.kind == "elementwise":
        forward, partials = work._weights_of(entry)
        assert forward >= 0 and partials.keys() == entry.rules.keys()
    else:
        assert entry.name in work._table or entry.view, f"{entry.name} has no row in work_table.py"


@pytest.mark.parametrize(
    ("name", "inputs", "output", "params", "flops", "back"),
    [
        ("matmul", [(3, 4), (4, 5)], (3, 5), {}, 2 * 3 * 4 * 5, 4 * 3 * 4 * 5),
        ("matmul", [(7, 3, 4), (7, 4, 5)], (7, 3, 5), {}, 840, 1680),
        ("linear", [(8, 4), (5, 4), (5,)], (8, 5), {}, 2 * 160 + 40, 4 * 160 + 40),
        ("contract", [(2, 3), (3, 4)], (2, 4), {"labels": ("ij", "jk", "ik")}, 48, 96),
        ("add", [(6,), (6,)], (6,), {}, 6, 0),
        ("mul", [(6,), (1,)], (6,), {}, 6, 12),
        ("div", [(6,), (6,)], (6,), {}, 4 * 6, (4 + 6) * 6),
        ("tanh", [(10,)], (10,), {}, 100, 3 * 10),
        ("sum", [(4, 5)], (4,), {"axis": 1}, 20, 0),
        ("mean", [(4, 5)], (4,), {"axis": 1}, 20, 4),
        ("reshape", [(4, 5)], (20,), {"shape": (20,)}, 0, 0),
        ("inv", [(10, 10)], (10, 10), {}, 2000, 4000),
        ("cholesky", [(2, 6, 6)], (2, 6, 6), {}, 2 * 6**3 / 3, 2 * 4 * 6**3),
        ("solve", [(6, 6), (6, 2)], (6, 2), {}, 288, 288 + 144),
    ],
)  # fmt: skip
def test_hand_counts(name, inputs, output, params, flops, back):
    arrays = [array(*shape) for shape in inputs]
    assert of(name, arrays, [array(*output)], params).flops == flops
    assert of_backward(name, arrays, [array(*output)], params).flops == back


def test_a_convolution_counts_a_multiply_add_for_each_weight_of_its_channel():
    how = windows("conv2d", (3, 3), 1, 0, 1)
    x, w, y = array(2, 4, 10, 10), array(6, 4, 3, 3), array(2, 6, 8, 8)
    assert of("conv", [x, w, None], [y], {"how": how}).flops == 2 * 2 * 6 * 64 * 36
    assert (
        of_backward("conv", [x, w, None], [y], {"how": how}, [0, 1]).flops
        == 2 * 2 * 2 * 6 * 64 * 36
    )


def test_a_fourier_transform_counts_five_n_log_n():
    x = array(3, 8, dtype="complex128")
    assert of("dft", [x], [x], {"axes": (1,)}).flops == 3 * 5 * 8 * 3
    y = array(3, 5, dtype="complex128")
    assert of("rdft", [array(3, 8)], [y], {"axes": (1,)}).flops == 3 * 5 * 8 * 3 // 2


def test_complex_numbers_count_four_times():
    x = array(3, 3, dtype="complex128")
    assert of("matmul", [x, x], [x]).flops == 4 * 2 * 27


def test_moved_is_every_array_once():
    x, w, y = array(8, 4), array(4, 5), array(8, 5)
    assert of("matmul", [x, w], [y]).moved == 8 * (32 + 20 + 40)
    # the cotangent, both saved inputs, both gradients
    assert of_backward("matmul", [x, w], [y]).moved == 8 * (40 + 2 * 52)
    assert of("transpose", [x], [array(4, 8)]) == Work(0, 0)


def test_a_gradient_that_is_the_cotangent_or_a_view_of_it_moves_nothing():
    x, y = array(8, 4), array(8, 4)
    assert of_backward("add", [x, x], [y]) == Work(0, 0)
    assert of_backward("sum", [x], [array(8)], {"axis": 1}) == Work(0, 0)
    assert of_backward("concatenate_arrays", [x, x], [array(16, 4)], {"axis": 0}) == Work(0, 0)
    assert of_backward("mean", [x], [array(8)], {"axis": 1}) == Work(8, 8 * 8)  # g is read
    assert of_backward("sub", [x, x], [y]) == Work(32, 2 * 8 * 32)  # g is read, −g written


VIEWED = {
    "add": lambda x: x + x,
    "cast": lambda x: mg.astype(x, "float64"),
    "concatenate_arrays": lambda x: np.concatenate([x, x]),
    "contiguous": lambda x: registry.contiguous(x),
    "copy": lambda x: np.copy(x),
    "diagonal_dx": lambda x: np.diag(x[0]),
    "expand_dims": lambda x: np.expand_dims(x, 0),
    "flip": lambda x: np.flip(x, 0),
    "join_heads": lambda x: registry.join_heads(*[x.reshape(2, 3, 20, 1000)] * 3),
    "mean": lambda x: x.mean(0),
    "pad_zeros": lambda x: np.pad(x, 1),
    "positive": lambda x: +x,
    "real": lambda x: registry.real(x),
    "reshape": lambda x: x.reshape(-1),
    "squeeze": lambda x: np.squeeze(x.reshape(300, 1, 400)),
    "stack_arrays": lambda x: np.stack([x, x]),
    "sum": lambda x: x.sum(0),
    "swapaxes": lambda x: np.swapaxes(x, 0, 1),
    "transpose": lambda x: x.T,
}


@pytest.mark.parametrize("name", VIEWED)
def test_what_is_counted_as_a_view_is_one(name):
    seen = []

    def hear(event):
        kind, op, _, _, _, (g, *_), outputs, _ = event
        if kind == "backward" and op == name:
            few = [np.may_share_memory(c, g) or 0 in c.strides for c in outputs if c is not None]
            seen.extend(few)

    events.listen(hear)
    try:
        y = VIEWED[name](mg.ones(300, 400, requires_grad=True))
        y.backward(mg.ones(*y.shape))
    finally:
        events.unlisten(hear)
    assert name == "add" or name in work._GRADIENT_IS_A_VIEW
    assert seen and all(seen)


def test_only_gradients_that_are_needed_count():
    x, w, y = array(8, 4), array(4, 5), array(8, 5)
    both = of_backward("matmul", [x, w], [y])
    one = of_backward("matmul", [x, w], [y], needed=[1])
    assert one.flops * 2 == both.flops and one.moved < both.moved


def test_arrays_tensors_and_bare_shapes_are_taken():
    x = mg.ones(3, 4)
    assert of("matmul", [x, x.T], [(3, 3)]).flops == of("matmul", [(3, 4), (4, 3)], [(3, 3)]).flops


def test_an_op_that_is_not_in_the_table_answers_with_its_bytes():
    @mg.primitive(name="work_test_op")
    def doubled(x):
        return 2 * x

    assert of(doubled, [array(4)], [array(4)]) == Work(None, 64)
    assert of_backward(doubled, [array(4)], [array(4)]).flops is None


def test_a_function_that_unpacks_its_numbers_is_not_run_for_ever():
    """SciPy 1.18 unpacks what np.broadcast_arrays returns, which of tallies is a tally."""

    def unpacks(x):
        first, *others = np.broadcast_arrays(x, x)
        return first

    assert work._run(unpacks, [work._Tally]) is None
    assert work._run(np.exp, [work._Tally]) == 10
