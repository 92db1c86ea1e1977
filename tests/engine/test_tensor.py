"""A tensor: what it is, what it refuses."""

import copy
import pickle
from fractions import Fraction

import numpy as np
import pytest

import minigrad as mg
from minigrad.engine import modes


def test_a_tensor_copies_the_data_it_is_made_of():
    source = np.ones(3)
    x = mg.tensor(source)
    source[0] = 7
    assert x.tolist() == [1, 1, 1]


@pytest.mark.parametrize("dtype", ["bool", "int8", "int32", "int64", "uint8"])
def test_an_integer_or_bool_leaf_cannot_require_a_gradient(dtype):
    with pytest.raises(TypeError, match=f"dtype {dtype} cannot require a gradient"):
        mg.tensor([1, 0], dtype=dtype, requires_grad=True)


def test_numpy_is_read_only_while_the_tensor_is_tracked():
    x = mg.tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises(ValueError, match="read-only"):
        x.numpy()[0] = 5
    assert np.shares_memory(x.numpy(), x.data)


def test_asarray_of_a_tracked_tensor_says_what_would_be_lost():
    x = mg.tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises(TypeError, match="detach"):
        np.asarray(x)
    with mg.no_grad():
        assert np.asarray(x).tolist() == [1, 2]
    assert np.asarray(x.detach()).tolist() == [1, 2]


def test_detach_shares_memory_and_drops_history():
    x = mg.tensor([1.0, 2.0], requires_grad=True)
    y = (x * 2).detach()
    assert y.is_leaf and not y.requires_grad


def test_requires_grad_cannot_be_switched_off_on_a_result():
    y = mg.tensor([1.0], requires_grad=True) * 2
    with pytest.raises(RuntimeError, match="detach"):
        y.requires_grad = False


def test_a_leaf_can_be_switched_on_and_off():
    x = mg.tensor([1.0])
    assert x.requires_grad_().requires_grad
    x.requires_grad = False
    assert not x.requires_grad


def test_pickle_keeps_data_flag_and_gradient_and_makes_results_leaves():
    x = mg.tensor([1.0, 2.0], requires_grad=True)
    y = x * 3
    y.sum().backward()
    again = pickle.loads(pickle.dumps(x))
    assert again.tolist() == [1, 2] and again.requires_grad and again.grad.tolist() == [3, 3]
    assert pickle.loads(pickle.dumps(y)).is_leaf


def test_deepcopy_shares_nothing():
    x = mg.tensor([1.0, 2.0], requires_grad=True)
    again = copy.deepcopy(x)
    assert not np.shares_memory(again.data, x.data)


class Labelled(mg.Tensor):
    def __init__(self, data, label):
        super().__init__(data)
        self.label = label


@pytest.mark.parametrize(
    "clone", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))]
)
def test_copies_of_a_subclass_keep_its_attributes(clone):
    x = Labelled([1.0, 2.0], ["train"])
    again = clone(x)
    assert type(again) is Labelled and again.tolist() == [1, 2] and again.label == ["train"]
    parameter = mg.nn.Parameter(x)
    parameter.decay = 0.5  # what a script keeps there for its optimizer
    assert clone(parameter).decay == 0.5


def test_repr_shows_values_dtype_and_history():
    x = mg.tensor([1.0, 2.0], dtype="float32", requires_grad=True)
    assert repr(x) == "tensor([1., 2.], dtype=float32, requires_grad=True)"
    assert "grad_fn=<mul #" in repr(x * x)


def test_iteration_and_len_follow_the_first_axis():
    x = mg.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert len(x) == 2 and [row.tolist() for row in x] == [[1, 2], [3, 4]]
    with pytest.raises(TypeError, match="0-d"):
        iter(mg.tensor(1.0))


def test_the_rows_of_a_recorded_tensor_come_from_one_node():
    x = mg.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], requires_grad=True)
    a, b, c = x * 2
    assert a.grad_fn.parents == b.grad_fn.parents == c.grad_fn.parents
    (a * a + b).sum().backward()
    assert x.grad.tolist() == [[8, 16], [2, 2], [0, 0]]
    assert [row.requires_grad for row in x.detach()] == [False] * 3


def test_in_asks_whether_any_element_equals_the_value():
    x = mg.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert 3.0 in x and mg.tensor([1.0, 5.0]) in x
    assert 5 not in x and "a" not in x and 1 not in mg.ones((0, 2))


@pytest.mark.parametrize("other", ["mean", b"mean", {}, object()])
def test_a_tensor_is_unequal_to_what_is_no_number(other):
    x = mg.tensor([1.0, 2.0], requires_grad=True)
    assert (x == other) is False and (other == x) is False and (x != other) is True


@pytest.mark.parametrize("entries", [[1, 2], ["1", "2"]], ids=["objects", "text"])
@pytest.mark.parametrize(
    "call",
    [
        lambda x, a: x * a,
        lambda x, a: a * x,
        lambda x, a: np.add(x, a),
        lambda x, a: mg.concatenate([x, a]),
        lambda x, a: mg.where(x > 1, x, a),
        lambda x, a: mg.add(a, a),
    ],
    ids=["after", "before", "NumPy's function", "one of several", "chosen", "no tensor"],
)
def test_an_array_without_numbers_is_no_operand(call, entries):
    x = mg.tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises(TypeError, match=r"holds no numbers .* x\.astype\(float\)"):
        call(x, np.array(entries, object if entries[0] == 1 else None))


@pytest.mark.parametrize("operand", [Fraction(1, 2), "a", [Fraction(1, 2), 1], object()])
@pytest.mark.parametrize("compute", [lambda x, b: x * b, lambda x, b: b + x, mg.maximum])
def test_no_op_computes_with_objects_one_by_one(operand, compute):
    with pytest.raises(TypeError, match="is neither a tensor nor|can only concatenate"):
        compute(mg.ones(2, requires_grad=True), operand)


def test_numbers_come_out_of_one_element_tensors():
    assert float(mg.tensor(2.5)) == 2.5 and int(mg.tensor(3)) == 3 and bool(mg.tensor(True))
    assert [10, 20, 30][mg.tensor(1)] == 20


def test_a_list_of_tensors_with_a_history_is_refused_with_the_way_out():
    with pytest.raises(TypeError, match="mg.stack"):
        mg.tensor([[1.0, mg.tensor(1.0, requires_grad=True)]])


def test_a_list_may_hold_constant_tensors():
    a = mg.tensor(1.5, dtype="float32")
    made = mg.tensor([(a, 2), (a, mg.tensor(3))])
    assert made.tolist() == [[1.5, 2], [1.5, 3]]
    assert mg.tensor([a, a]).dtype == "float32"
    assert mg.tensor([a.astype("bfloat16")]).dtype == mg.bfloat16


def test_creation_functions_follow_numpy():
    assert mg.zeros(2, 3).shape == mg.zeros((2, 3)).shape == (2, 3)
    assert mg.ones(2).dtype == np.float64
    assert mg.full((2,), 7).tolist() == [7, 7]
    assert mg.arange(4).tolist() == [0, 1, 2, 3]
    assert mg.linspace(0, 1, 3).tolist() == [0, 0.5, 1]
    assert mg.eye(2).tolist() == [[1, 0], [0, 1]]
    assert mg.ones_like(mg.zeros(3, dtype="float32")).dtype == np.float32
    assert mg.full_like(mg.zeros(2), 3.0, requires_grad=True).requires_grad


def test_full_like_takes_a_tensor_as_its_value_unless_that_has_a_history():
    assert mg.full_like(mg.zeros(2), mg.tensor(3.0)).tolist() == [3, 3]
    assert np.full_like(mg.zeros(2), mg.tensor([3.0, 4.0])).tolist() == [3, 4]
    with pytest.raises(
        TypeError, match=r"requires a gradient .* pass fill_value=fill_value\.item\(\)"
    ):
        mg.full_like(mg.zeros(2), mg.tensor(3.0, requires_grad=True))


def test_a_seed_makes_random_tensors_repeat():
    mg.manual_seed(3)
    first = mg.randn(4).tolist(), mg.rand(2).tolist(), mg.randint(10, size=3).tolist()
    mg.manual_seed(3)
    assert first == (mg.randn(4).tolist(), mg.rand(2).tolist(), mg.randint(10, size=3).tolist())


def test_an_unknown_device_names_the_choices():
    with pytest.raises(ValueError, match="use 'cpu', 'cuda' or 'cuda:0'"):
        mg.zeros(2, device="tpu")


@pytest.mark.parametrize("joined", [
    lambda x: np.r_[x, 1.0], lambda x: np.r_[1.0, x[0], x[1]], lambda x: np.r_["0,2", x, x],
    lambda x: np.c_[x, x],
])  # fmt: skip
def test_numpys_r_and_c_refuse_a_tracked_tensor_and_name_what_joins_some(joined):
    x = mg.tensor([2.0, 3.0], requires_grad=True)
    with pytest.raises(TypeError, match=r"mg\.hstack.* np\.r_.* mg\.column_stack.* np\.c_"):
        joined(x)
    with pytest.raises(TypeError, match=r"tangent in silence.*mg\.hstack"):
        mg.func.jvp(joined, (x.detach(),), (x.detach(),))
    with pytest.raises(mg.errors.TransformError, match=r"mg\.hstack join some, as .* np\.r_ would"):
        mg.func.vmap(joined)(mg.ones((3, 2)))
    np.testing.assert_array_equal(joined(x.detach()), joined(np.array([2.0, 3.0])))


def test_hstack_and_column_stack_are_r_and_c_with_a_gradient():
    x = mg.tensor([2.0, 3.0], requires_grad=True)
    for ours, numpys in (
        (mg.hstack([x, 1.0, x[0]]), np.r_[x.data, 1.0, x.data[0]]),
        (mg.column_stack([x, 5 * x]), np.c_[x.data, 5 * x.data]),
    ):
        np.testing.assert_array_equal(ours.detach(), numpys)
    assert mg.grad(ours.sum(), x).tolist() == [6, 6]


@pytest.mark.layer("courtesy")
@pytest.mark.parametrize(
    ("owner", "name", "hint"),
    [
        (mg.ones(2), "clamp", "here it is clip"),
        (mg.ones(2), "numel", "here it is size"),
        (mg.ones(2), "mul_", "new value of mul"),
        (mg.ones(2), "cross_entropy", "here it is mg.cross_entropy"),
        (mg.ones(2), "lu_factor", "here it is mg.linalg.lu_factor"),
        (mg, "cat", "here it is mg.concatenate"),
        (mg, "r_", "here it is mg.hstack"),
    ],
)
def test_a_name_of_pytorchs_that_is_another_here_is_said_so(owner, name, hint):
    with pytest.raises(AttributeError, match=f"no attribute '{name}'; .*{hint}"):
        getattr(owner, name)
    assert not hasattr(owner, "nothing_of_the_kind")


def test_what_only_points_elsewhere_is_not_listed_among_a_tensors_names():
    names = dir(mg.ones(2))
    assert "clip" in names and "clamp" not in names and not hasattr(mg.ones(2), "clamp")


def test_neither_tensors_nor_the_registry_have_a_getattr_that_would_slow_every_attribute():
    assert not hasattr(mg.Tensor, "__getattr__")
    assert not hasattr(type(mg.engine.registry.op), "__getattr__")


def test_data_in_the_other_byte_order_is_brought_into_the_machines():
    values = np.array([1.0, 2.0], np.dtype(float).newbyteorder())
    for x in (mg.tensor(values), mg.as_tensor(values)):
        assert x.dtype.isnative
        np.testing.assert_allclose(mg.softmax(x).numpy(), mg.softmax(mg.tensor([1.0, 2.0])).numpy())


def test_a_scope_may_be_entered_inside_itself():
    part = mg.scope("part")
    with part, part:
        assert modes.state.scope == "part/part"
    assert modes.state.scope == ""


def test_a_gradient_that_is_deleted_is_none_and_comes_anew():
    x = mg.ones(2).requires_grad_()
    x.sum().backward()
    del x.grad
    assert x.grad is None
    (2 * x).sum().backward()
    assert x.grad.tolist() == [2, 2]


@pytest.mark.parametrize(
    "new", [lambda w: mg.ones(2), lambda w: w.data - 0.1 * w.grad, lambda w: np.ones(2)]
)
def test_data_set_to_a_tensor_is_the_array_of_it(new):
    w = mg.tensor([1.0, 2.0], requires_grad=True)
    (w * w).sum().backward()
    w.data = value = new(w)
    assert type(w.data) is np.ndarray and w.is_leaf and w.requires_grad
    before = np.array(w.data)
    mg.optim.SGD([w], lr=0.5).step()
    np.testing.assert_allclose(w.data, before - 0.5 * w.grad.data)
    assert np.shares_memory(w.data, mg.as_tensor(value).data)


def test_data_set_to_a_numpy_number_is_an_array():
    w = mg.tensor(3.0, requires_grad=True)
    w.data = w.data - 1.0
    assert type(w.data) is np.ndarray and w.item() == 2.0


def test_a_step_through_data_is_a_write_that_a_backward_notices():
    w = mg.tensor([1.0, 2.0], requires_grad=True)
    loss = (w * w).sum()
    loss.backward(retain_graph=True)
    w.data -= 0.1 * w.grad
    np.testing.assert_allclose(w.tolist(), [0.8, 1.6])
    with pytest.raises(mg.errors.InPlaceError, match=r"array \+= tensor"):
        loss.backward()


def test_a_product_in_place_through_data_is_a_write_that_a_backward_notices():
    w = mg.tensor([1.0, 2.0], requires_grad=True)
    loss = (w * w).sum()
    w.data *= 3
    with pytest.raises(mg.errors.InPlaceError, match=r"version 1 now.*`x.data \*= v`"):
        loss.backward()
    assert mg.grad((w * w).sum(), w).tolist() == [6, 12]


def test_data_set_to_the_array_that_it_is_changes_nothing_for_a_backward():
    layer = mg.nn.Linear(2, 1)
    loss = (layer(mg.ones(3, 2)) ** 2).sum()
    layer.to("cpu")
    layer.weight.data = layer.weight.data
    loss.backward()
    assert layer.weight.grad is not None


def test_a_step_through_data_by_a_gradient_with_a_history_is_refused():
    w = mg.tensor([1.0, 2.0], requires_grad=True)
    (w * w).sum().backward(create_graph=True)
    with pytest.raises(TypeError, match=r"`array \+= tensor\.detach\(\)`"):
        w.data -= 0.1 * w.grad
    assert w.tolist() == [1.0, 2.0]
    w.grad = None


@pytest.mark.parametrize("value", [None, "text", np.array(["2020-01-01"], "M8[D]"), [object()]])
def test_data_is_never_set_to_what_is_no_number(value):
    x = mg.ones(2)
    with pytest.raises(TypeError, match="cannot make a tensor of .* values; give numbers"):
        x.data = value
    assert x.tolist() == [1, 1]
    with pytest.raises(TypeError, match="cannot make a tensor of .* values; give numbers"):
        mg.Tensor(value)


def test_data_of_another_library_becomes_an_array():
    torch = pytest.importorskip("torch")
    x = mg.ones(2)
    x.data = torch.arange(3)
    assert isinstance(x.data, np.ndarray) and x.tolist() == [0, 1, 2]


def test_a_leaf_with_data_of_another_shape_gets_gradients_like_it():
    x = mg.ones(2, requires_grad=True)
    x.data = np.ones((3, 1), np.float32)
    (2 * x).sum().backward()
    assert x.grad.dtype == np.float32 and x.grad.tolist() == [[2], [2], [2]]


def test_a_leaf_is_given_no_data_that_has_no_derivative():
    x = mg.ones(2, requires_grad=True)
    with pytest.raises(TypeError, match=r"x.data = int64 \(2,\), and x requires a gradient: give"):
        x.data = np.arange(2)
    assert x.dtype == np.float64


@pytest.mark.parametrize("data", [1j, [1, 1j], [[1j]]])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", int])
def test_complex_numbers_are_not_cut_to_their_real_parts(data, dtype):
    with pytest.raises(TypeError, match=r"has no imaginary parts"):
        mg.tensor(data, dtype=dtype)


def test_a_complex_number_does_not_fill_real_tensors():
    for fill in (lambda: mg.full(2, 1j, dtype=float), lambda: mg.full_like(mg.ones(2), 1j)):
        with pytest.raises(TypeError, match=r"mg\.full.*float64 has no imaginary parts"):
            fill()
    assert mg.full_like(mg.ones(2), 1j, dtype=complex).tolist() == [1j, 1j]


def test_as_tensor_of_a_tensor_casts_as_to_does_and_keeps_its_history():
    x = mg.ones(2, requires_grad=True)
    assert mg.as_tensor(x) is x
    y = mg.as_tensor(x, dtype=mg.float32)
    (3 * y).sum().backward()
    assert y.dtype == np.float32 and x.grad.tolist() == [3.0, 3.0]


def test_a_tensor_is_not_its_own_gradient():
    x = mg.ones(2, requires_grad=True)
    with pytest.raises(ValueError, match="not its own gradient"):
        x.grad = x
    x.grad = x.detach()
    assert x.grad.tolist() == [1, 1]
