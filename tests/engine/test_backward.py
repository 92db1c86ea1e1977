"""backward and grad: seeds, accumulation, ownership, release, errors."""

import gc
import weakref

import numpy as np
import pytest

import minigrad as mg
from minigrad.engine.primitive import Primitive

pytestmark = pytest.mark.promise(
    "gradients never share memory; saved arrays go as nodes finish; a second backward says so",
    "a graph leaves no reference cycle",
)


def leaf(values, **options):
    return mg.tensor(values, requires_grad=True, **options)


def test_a_gradient_has_its_leafs_dtype_and_shape():
    for dtype in ("float16", "float32", "float64"):
        x = leaf(np.ones((2, 3)), dtype=dtype)
        (x * np.ones(3)).sum().backward()
        assert x.grad.dtype == dtype and x.grad.shape == (2, 3)


def test_grad_accumulates_over_backwards():
    x = leaf([1.0, 2.0])
    for _ in range(2):
        (3 * x).sum().backward()
    assert x.grad.tolist() == [6, 6]


def test_an_earlier_gradient_is_not_changed_by_a_later_backward():
    x = leaf([1.0, 2.0])
    (3 * x).sum().backward()
    first = x.grad
    (3 * x).sum().backward()
    assert first.tolist() == [3, 3]


def test_a_tensor_used_twice_gets_the_sum():
    x = leaf([3.0])
    (x * x + x).sum().backward()
    assert x.grad.tolist() == [7]


def test_a_gradient_that_a_rule_has_locked_is_summed_without_writing_into_it():
    locked = []

    def rule(g):
        locked.append(2 * g)
        locked[-1].flags.writeable = False
        return locked.pop()

    op = Primitive(lambda x: 2 * x, "locks_its_gradient", ["x"])
    op.vjp("x")(rule)
    x = leaf([1.0, 2.0])
    (op(x) + op(x)).sum().backward()
    assert x.grad.tolist() == [4, 4]


def test_a_non_scalar_needs_a_seed():
    x = leaf([1.0, 2.0])
    with pytest.raises(mg.errors.SeedError, match=r"shape \(2,\) needs a gradient"):
        (x * 2).backward()
    (x * 2).backward(np.array([1.0, 10.0]))
    assert x.grad.tolist() == [2, 20]


def test_a_seed_of_another_shape_is_refused():
    x = leaf([1.0, 2.0])
    with pytest.raises(mg.errors.SeedError, match=r"float64 \(3,\)"):
        (x * 2).backward(np.ones(3))


def test_several_roots_share_one_backward():
    x = leaf([1.0, 2.0])
    y = x * x
    mg.backward([y, y.sum()], [np.array([1.0, 0.0]), None])
    assert x.grad.tolist() == [4, 4]


def test_a_second_backward_names_the_node_and_the_way_out():
    x = leaf([1.0])
    y = (x * x).sum()
    y.backward()
    with pytest.raises(mg.errors.GraphReleasedError, match="retain_graph=True"):
        y.backward()
    assert x.grad.tolist() == [2]


def test_retain_graph_allows_a_second_backward():
    x = leaf([1.0])
    y = (x * x).sum()
    y.backward(retain_graph=True)
    y.backward()
    assert x.grad.tolist() == [4]


def test_a_constant_has_no_backward():
    with pytest.raises(ValueError, match="does not require a gradient"):
        mg.tensor([1.0]).backward()


def test_inputs_limits_who_gets_a_gradient():
    x, w = leaf([1.0]), leaf([2.0])
    (x * w).sum().backward(inputs=[w])
    assert x.grad is None and w.grad.tolist() == [1]


def test_grad_leaves_dot_grad_alone():
    x = leaf([2.0])
    assert mg.grad((x * x).sum(), x).tolist() == [4]
    assert x.grad is None


def test_grad_of_an_inner_tensor():
    x = leaf([2.0])
    h = x * 3
    gh, gx = mg.grad((h * h).sum(), [h, x])
    assert gh.tolist() == [12] and gx.tolist() == [36]


def test_an_unused_input_is_an_error_unless_allowed():
    x, w = leaf([2.0]), leaf([1.0])
    with pytest.raises(ValueError, match=r"inputs\[1\]"):
        mg.grad((x * x).sum(), [x, w])
    gx, gw = mg.grad((x * x).sum(), [x, w], allow_unused=True)
    assert gw is None and gx is not None


def test_create_graph_gives_derivatives_of_any_order():
    x = leaf([2.0])
    y = (x**4).sum()
    for expected in (32, 48, 48, 24):
        y = mg.grad(y, x, create_graph=True).sum()
        assert y.item() == expected


def test_backward_with_create_graph_can_be_differentiated():
    x = leaf([2.0])
    (x**3).sum().backward(create_graph=True)
    g, x.grad = x.grad, None
    g.sum().backward()
    assert x.grad.tolist() == [12]


def test_gradients_never_share_memory():
    a, b = leaf(np.ones(4)), leaf(np.ones(4))
    seed = np.ones(4)
    y = a + b
    y.backward(seed)
    arrays = [a.grad.data, b.grad.data, seed, a.data, b.data, y.data]
    for i, one in enumerate(arrays):
        assert not any(np.shares_memory(one, other) for other in arrays[i + 1 :])


def test_gradients_of_views_do_not_share_memory_either():
    a, b = leaf(np.ones((2, 3))), leaf(np.ones((3, 2)))
    seed = np.arange(6.0).reshape(3, 2)
    (a.reshape(3, 2) + b).backward(seed)
    assert not np.shares_memory(a.grad.data, b.grad.data)
    assert not np.shares_memory(a.grad.data, seed)
    seed[:] = 0
    assert b.grad.tolist() == [[0, 1], [2, 3], [4, 5]]


def gradient_of(rule):
    """The gradient of y = x with this rule, for ones (2, 3)."""
    op = Primitive(lambda x: x.copy(), "copied", ["x"])
    op.vjp("x")(rule)
    x = leaf(np.ones((2, 3)))
    op(x).backward(np.ones((2, 3)))
    return x.grad.data


@pytest.mark.layer("fast")
def test_what_a_rule_has_made_and_reshaped_reaches_the_leaf_without_a_copy():
    places = []

    def rule(g):
        made = (2 * g).reshape(-1)
        places.append(made.ctypes.data)
        return made.reshape(2, 3)

    g = gradient_of(rule)
    assert g.ctypes.data == places[0] and (g == 2).all()


def test_what_somebody_else_holds_is_copied_before_it_reaches_the_leaf():
    held = np.full(6, 2.0)
    assert not np.shares_memory(gradient_of(lambda g: held.reshape(2, 3)), held)


def test_a_gradient_holds_no_more_memory_than_its_own():
    assert gradient_of(lambda g: np.ones(1000)[:6].reshape(2, 3)).base is None


def test_a_gradient_is_contiguous_where_its_rule_has_made_a_transpose():
    assert gradient_of(lambda g: (2 * g).reshape(3, 2).T).flags.c_contiguous


def test_gradients_are_not_added_to_a_view_whose_array_somebody_holds():
    held = np.full(6, 2.0)
    op = Primitive(lambda x: 2 * x, "doubled", ["x"])
    op.vjp("x")(lambda g: held.reshape(2, 3))
    x = leaf(np.ones((2, 3)))
    (op(x) + op(x) + 3 * x).backward(np.ones((2, 3)))
    assert (x.grad.data == 7).all() and (held == 2).all()


def test_many_contributions_to_one_leaf_are_summed_without_touching_the_seed():
    x = leaf(np.zeros(3))
    seed = np.array([1.0, 2.0, 3.0])
    y = x + x + x + x
    y.backward(seed)
    assert x.grad.tolist() == [4, 8, 12] and seed.tolist() == [1, 2, 3]


def test_a_broadcast_argument_gets_the_sum_over_its_copies():
    x, b = leaf(np.ones((4, 3))), leaf(np.ones(3))
    (x * b).sum().backward()
    assert b.grad.tolist() == [4, 4, 4]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_a_16_bit_bias_gradient_is_summed_in_float32(dtype):
    pytest.importorskip("ml_dtypes")
    b = mg.tensor([0.0], dtype=dtype, requires_grad=True)
    x = mg.ones(4096, 1, dtype=dtype)
    (x + b).backward(mg.ones(4096, 1, dtype=dtype))
    assert float(b.grad.data[0]) == 4096


def test_saved_arrays_go_as_each_node_finishes():
    x = leaf(np.ones(3))
    h = np.exp(x)
    y = (h * h).sum()
    held = weakref.ref(h.data)
    gc.disable()
    try:
        del h
        assert held() is not None
        y.backward()
        assert held() is None
    finally:
        gc.enable()


def test_a_graph_is_freed_without_the_cycle_collector():
    x = leaf(np.ones(3))
    gc.collect()
    gc.disable()
    try:
        y = np.tanh(x * x)
        node = weakref.ref(y.node)
        y.sum().backward()
        del y
        assert node() is None
        assert gc.collect() == 0
    finally:
        gc.enable()


def test_a_dropped_leaf_is_no_error():
    y = leaf([1.0]) * 2
    y.sum().backward()


def test_a_rule_of_wrong_shape_is_named():
    op = mg.primitive(lambda x: x * 2, name="doubles_with_wrong_rule")
    op.vjp("x")(lambda g: g[:1])
    with pytest.raises(mg.errors.RuleError, match=r"doubles_with_wrong_rule.*\(1,\).*\(3,\)"):
        op(leaf(np.ones(3))).sum().backward()


def test_a_leaf_complete_before_an_error_keeps_its_new_gradient():
    op = mg.primitive(lambda x: x * 2, name="doubles_and_fails_in_backward")

    @op.vjp("x")
    def dx(g):
        raise ArithmeticError("no")

    early, late = leaf([1.0]), leaf([1.0])
    y = op(late) * early
    with pytest.raises(ArithmeticError):
        y.sum().backward()
    assert early.grad.tolist() == [2] and late.grad is None


def test_a_complex_leaf_gets_twice_the_conjugate_derivative():
    z = leaf([1.0 + 2.0j])
    (z * z.conj()).real.sum().backward()
    assert z.grad.tolist() == [2 + 4j]


def test_a_complex_root_needs_a_gradient_to_say_which_part_is_meant():
    x = leaf([3.0])
    y = x * 2j
    for start in (y.backward, lambda: mg.grad(y, x)):
        with pytest.raises(mg.errors.SeedError, match=r"complex tensor, complex128 \(1,\)"):
            start()
    assert mg.grad(y, x, np.array([1 + 0j]), retain_graph=True).tolist() == [0]
    assert mg.grad(y, x, np.array([1j])).tolist() == [2]


def test_a_real_leaf_in_complex_arithmetic_gets_a_real_gradient():
    x = leaf([3.0])
    (x * (2 + 1j)).real.sum().backward()
    assert x.grad.dtype == np.float64 and x.grad.tolist() == [2]


@pytest.mark.layer("fast")
def test_a_gradient_that_only_the_engine_holds_is_handed_over_without_a_copy():
    made = []
    op = mg.primitive(lambda x: x * 2, name="doubles_and_shows_its_gradient")

    @op.vjp("x")
    def dx(g):
        gx = g * 2
        made.append(gx.__array_interface__["data"][0])
        return gx

    x = leaf(np.ones(1000))
    op(x).backward(np.ones(1000))
    assert x.grad.data.__array_interface__["data"][0] == made[0]


def test_inputs_may_be_inner_tensors_which_then_accumulate_as_in_pytorch():
    x = leaf([1.0, 2.0])
    h = x * x
    y = h.sum()
    y.backward(inputs=[h], retain_graph=True)
    y.backward(inputs=h, retain_graph=True)
    assert h.grad.tolist() == [2, 2] and x.grad is None
    h.retain_grad()
    y.backward(inputs=[h, x])
    assert h.grad.tolist() == [3, 3] and x.grad.tolist() == [2, 4]


def test_no_inputs_are_refused():
    with pytest.raises(ValueError, match="inputs is empty"):
        leaf([1.0]).sum().backward(inputs=[])


def test_the_gradients_of_no_inputs_are_an_empty_tuple_but_a_used_up_iterator_is_an_error():
    x = leaf([1.0, 2.0])
    parameters = iter([x])
    assert len(mg.grad((x * x).sum(), parameters)) == 1
    assert mg.grad((x * x).sum(), []) == ()
    with pytest.raises(ValueError, match="an iterator that gives no tensor. It may be used up"):
        mg.grad((x * x).sum(), parameters)


def test_a_leaf_frozen_since_the_forward_receives_nothing():
    x = leaf([1.0])
    y = (x * x).sum()
    x.requires_grad_(False)
    y.backward()
    assert x.grad is None


@pytest.mark.parametrize("seed", [1j, "a", np.array(None)])
def test_a_seed_of_another_kind_of_number_is_refused(seed):
    with pytest.raises(mg.errors.SeedError, match=r"for a tensor float64 \(\)"):
        leaf([1.0]).sum().backward(seed)


@pytest.mark.parametrize("seed", [2, 2.0, np.float32(2), np.int8(2), True + 1, mg.tensor(2)])
def test_a_seed_may_be_any_number(seed):
    x = leaf([1.0])
    x.sum().backward(seed)
    assert x.grad.tolist() == [2]


@pytest.mark.parametrize(
    ("wrong", "error", "hint"),
    [
        (3.0, TypeError, "x.grad = 3.0, a float: x.grad can be None, or a tensor or array like x"),
        ([1.0, 2.0], TypeError, "a list"),
        (np.ones(1), ValueError, r"float64 \(1,\): .* its shape is another"),
        (mg.ones(3), ValueError, r"like x, float64 \(2,\) on cpu"),
        (mg.ones(2, dtype=np.float32), TypeError, r"cast it with \.astype\(float64\)"),
    ],
)
def test_setting_a_grad_that_does_not_fit_is_an_error_at_once(wrong, error, hint):
    x = leaf([1.0, 2.0])
    with pytest.raises(error, match=hint):
        x.grad = wrong
    assert x.grad is None


def test_a_grad_that_is_set_is_what_a_backward_adds_to():
    x, given = leaf([1.0, 2.0]), np.array([10.0, 20.0])
    x.grad = given
    x.sum().backward()
    assert x.grad.tolist() == [11, 21] and given.tolist() == [10, 20]
    x.grad = mg.zeros_like(x)
    x.sum().backward()
    assert x.grad.tolist() == [1, 1]
    x.grad = None
    assert x.grad is None
