"""The one doorway: unwrap, run, link, wrap."""

import gc
import sys

import numpy as np
import pytest

import minigrad as mg
from minigrad import func
from minigrad.engine.primitive import Primitive

pytestmark = pytest.mark.promise("`x * y` is two calls from NumPy; only what rules name is saved")


def leaf(*shape, dtype=np.float64):
    return mg.tensor(np.ones(shape), dtype=dtype, requires_grad=True)


@pytest.mark.layer("fast")
def test_x_times_y_reaches_numpy_in_two_calls():
    x, y = leaf(2), leaf(2)
    x * y  # the first call works out what such calls save
    calls = []

    def note_calls(frame, event, argument):
        if event == "call":
            calls.append(frame.f_code.co_name)

    gc.disable()  # a collection in between would call what others have put into gc.callbacks
    sys.setprofile(note_calls)
    try:
        x * y
    finally:
        sys.setprofile(None)
        gc.enable()
    assert calls == ["__mul__", "apply"]


def test_a_result_of_constants_is_a_constant():
    y = mg.tensor([1.0]) * mg.tensor([2.0])
    assert not y.requires_grad and y.node is None


def test_a_primitive_called_with_arrays_gives_an_array():
    y = mg.mul(np.ones(3), np.ones(3))
    assert type(y) is np.ndarray


def test_python_scalars_stay_weak():
    for dtype in ("float16", "float32"):
        x = mg.tensor([1.0], dtype=dtype)
        for y in (x * 2.0, 2.0 * x, x + 1, 1 - x, x / 3, x**2):
            assert y.dtype == dtype


def test_python_scalars_stay_weak_beside_bfloat16():
    pytest.importorskip("ml_dtypes")
    x = mg.tensor([1.0, 2.0], dtype="bfloat16")
    for y in (x * 2.0, 2.0 * x, x + 1, 1 - x, x / 3, x**2):
        assert y.dtype == x.dtype


def test_a_float64_scalar_may_promote_the_result_but_not_the_leafs_gradient():
    x = mg.tensor([1.0, 2.0], dtype="float32", requires_grad=True)
    y = np.float64(3.0) * x
    assert y.dtype == np.float64
    y.sum().backward()
    assert x.grad.dtype == np.float32


def test_zero_dimensional_results_stay_arrays():
    y = mg.tensor(2.0) * mg.tensor(3.0)
    assert isinstance(y.data, np.ndarray)
    y.data[...] = 5.0
    assert y.item() == 5.0


def test_only_what_the_needed_rules_name_is_saved():
    a, b = leaf(3), mg.tensor([1.0, 2.0, 3.0])
    node = (a * b).node
    assert list(node.plan.names) == ["b"]
    assert node.saved[0] is b.data


def test_only_parents_that_need_a_gradient_are_kept():
    a, b = leaf(3), mg.tensor([1.0, 2.0, 3.0])
    assert (a * b).node.parents == (a.node,)


def test_static_parameters_may_be_given_by_position_as_in_numpy():
    x = leaf(2, 3)
    assert mg.sum(x, 0).shape == np.sum(x, 0).shape == (3,)


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("alpha", lambda x, a: mg.elu(x, a)),
        ("beta", lambda x, a: mg.softplus(x, a)),
        ("p", lambda x, a: mg.cdist(x[None], 2 * x[None], p=a)),
        ("smoothing", lambda x, a: mg.cross_entropy(x, mg.tensor(1), label_smoothing=a)),
    ],
)
def test_a_static_parameter_that_asks_for_a_derivative_is_refused(name, call):
    x, a = mg.tensor([-1.0, 2.0]), mg.tensor(0.5, requires_grad=True)
    message = rf"{name} is a constant here.*pass {name}={name}\.item\(\)"
    with pytest.raises(TypeError, match=message):
        call(x, a)
    for way in (lambda f: func.grad(f)(0.5), lambda f: func.jvp(f, (0.5,), (1.0,))):
        with pytest.raises(TypeError, match=message):
            way(lambda a: call(x, a).sum())


@pytest.mark.parametrize("pairs", [1, 1 << 15])  # the second goes other ways
def test_a_static_parameter_may_be_a_tensor_for_its_value(pairs):
    x = mg.tensor([-1.0, 2.0] * pairs, requires_grad=True)
    y = mg.elu(x, mg.tensor(0.5))
    assert type(y.data) is np.ndarray and y.tolist() == mg.elu(x, 0.5).tolist()
    assert mg.grad(y.sum(), x).tolist() == [0.5 * np.exp(-1.0), 1] * pairs


def test_bad_shapes_name_the_op_its_arguments_and_their_shapes():
    with pytest.raises(ValueError, match=r"mul\(a: float64 \(3,\), b: float64 \(4,\)\)"):
        leaf(3) * leaf(4)


def test_an_error_keeps_its_kind():
    with pytest.raises(np.exceptions.AxisError, match="sum"):
        leaf(3).sum(axis=5)


def test_too_many_or_missing_arguments_are_named():
    with pytest.raises(TypeError, match="mul takes at most 2"):
        mg.mul(leaf(1), leaf(1), leaf(1))
    with pytest.raises(TypeError, match=r"mul needs \['b'\]"):
        mg.mul(leaf(1))


def test_an_op_without_a_rule_says_so_instead_of_returning_zero():
    halve = Primitive(lambda x: x / 2, "halve_without_rule", ["x"])
    with pytest.raises(mg.errors.RuleError, match="has no derivative rule for its input 'x'"):
        halve(leaf(2))
    assert halve(mg.tensor([2.0])).item() == 1.0


def test_a_rule_that_asks_for_an_unknown_name_is_refused_when_it_is_defined():
    op = Primitive(lambda x: x, "asks_too_much", ["x"])
    with pytest.raises(ValueError, match="asks for"):
        op.vjp("x")(lambda g, q: g)


def test_an_op_name_can_be_taken_once():
    with pytest.raises(ValueError, match="registered already"):
        mg.elementwise(np.multiply, name="mul", da=lambda b: b, db=lambda a: a)


def test_a_constant_argument_never_gets_a_gradient():
    select = Primitive(lambda x, m: x * m, "select_by_mask", ["x", "m"], constants=["m"])
    select.vjp("x")(lambda g, m: g * m)
    x, m = leaf(2), leaf(2)
    select(x, m).sum().backward()
    assert m.grad is None and x.grad is not None


def test_residuals_reach_the_rules_and_not_the_caller():
    double = Primitive(
        lambda x: (2 * x, x * 0 + 2), "double_with_residual", ["x"], residuals=["two"]
    )
    double.vjp("x")(lambda g, two: g * two)
    x = leaf(2)
    y = double(x)
    assert isinstance(y, mg.Tensor)
    y.sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


def halves():
    op = Primitive(lambda x: (x[:2], x[2:]), "halves_of_four", ["x"], outputs=2)

    @op.vjp("x")
    def dx(g, y):
        first, second = (np.zeros_like(part) if c is None else c for part, c in zip(y, g))
        return mg.concatenate([first, second])

    return op


def test_each_output_of_an_op_with_several_passes_its_gradient():
    x = mg.tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True)
    first, second = halves()(x)
    (first.sum() + 3 * second.sum()).backward()
    assert x.grad.tolist() == [1, 1, 3, 3]


def test_an_output_that_is_not_used_counts_as_zero():
    x = mg.tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True)
    _, second = halves()(x)
    (second * second).sum().backward()
    assert x.grad.tolist() == [0, 0, 6, 8]


def test_ops_with_several_outputs_can_be_differentiated_twice():
    x = mg.tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True)
    first, second = halves()(x)
    (gx,) = mg.grad([(first * second * second).sum()], [x], create_graph=True)
    gxx = mg.grad(gx.sum(), x)
    expected = [2 * 3, 2 * 4, 2 * 3 + 2 * 1, 2 * 4 + 2 * 2]
    assert gxx.tolist() == expected
