"""cond, switch, loops and scans: eager, differentiated, and under vmap."""

import numpy as np
import pytest

import minigrad as mg
from minigrad.errors import TransformError
from minigrad.func import (
    associative_scan,
    cond,
    fori_loop,
    grad,
    hessian,
    jacfwd,
    jvp,
    scan,
    switch,
    vmap,
    while_loop,
)  # fmt: skip

pytestmark = pytest.mark.promise("control flow per example, no NaN from the other branch")


def root_or_square(x):
    """√x where x > 0, −x² elsewhere: √ of a negative number would be NaN."""
    return cond(x > 0, np.sqrt, lambda x: -x * x, x)


def power(x):
    """x multiplied by itself until it is at least 100."""
    return while_loop(lambda s: s["y"] < 100, lambda s: {"y": s["y"] * x, "n": s["n"] + 1},
                      {"y": x, "n": mg.tensor(0)})["y"]  # fmt: skip


FUNCTIONS = {
    "cond": (root_or_square, np.array([4.0, -4.0, 9.0, -0.5, 0.0])),
    "while_loop": (power, np.array([2.0, 3.0, 50.0, 200.0])),
    "fori_loop": (
        lambda x: fori_loop(0, np.floor(x).astype(int), lambda i, s: s * x + i, x),
        np.array([0.5, 2.5, 5.0]),
    ),
    "scan": (
        lambda x: scan(lambda c, a: (np.tanh(c + a), c * x), x, mg.tensor([1.0, 2.0, 3.0]))[
            1
        ].sum(),
        np.array([0.5, -1.0]),
    ),
}
every_function = pytest.mark.parametrize(("f", "xs"), FUNCTIONS.values(), ids=FUNCTIONS)


@every_function
def test_under_vmap_each_example_goes_its_own_way(f, xs):
    np.testing.assert_allclose(vmap(f)(xs).data, [f(mg.tensor(x)).item() for x in xs])


@every_function
def test_gradients_of_all_orders_and_modes_are_those_of_each_example(f, xs):
    with np.errstate(all="raise"):
        singles = [grad(f)(mg.tensor(x)).item() for x in xs]
        np.testing.assert_allclose(vmap(grad(f))(xs).data, singles)
        np.testing.assert_allclose(grad(lambda xs: vmap(f)(xs).sum())(mg.tensor(xs)).data, singles)
        forward = vmap(lambda x: jvp(f, (x,), (mg.tensor(1.0),))[1])
        np.testing.assert_allclose(forward(xs).data, singles)
        seconds = [grad(grad(f))(mg.tensor(x)).item() for x in xs]
        np.testing.assert_allclose(vmap(grad(grad(f)))(xs).data, seconds, atol=1e-12)


def test_nested_vmaps_may_differ_in_both():
    xs = np.array([[4.0, -4.0], [-1.0, -1.0], [1.0, 9.0]])
    with np.errstate(all="raise"):  # no √ of a negative number, also where a whole row is negative
        got = vmap(vmap(grad(root_or_square)))(xs).data
    np.testing.assert_allclose(got, np.where(xs > 0, 0.5 / np.sqrt(np.abs(xs)), -2 * xs))


def test_only_the_branch_that_is_taken_runs_where_all_agree():
    def fails(x):
        raise AssertionError

    assert cond(True, lambda x: x, fails, mg.tensor(1.0)).item() == 1
    assert cond(mg.tensor(0), fails, lambda x: x, mg.tensor(1.0)).item() == 1
    same = vmap(lambda x: cond(x > 0, lambda x: x, fails, x))(mg.tensor([1.0, 2.0]))
    assert same.tolist() == [1, 2]


def test_branches_may_return_trees_and_take_several_operands():
    first = lambda a, b: {"s": a + b, "n": [a]}
    second = lambda a, b: {"s": a, "n": [b]}
    f = lambda p, a, b: cond(p, first, second, a, b)
    y = vmap(f, in_dims=(0, None, 0))(
        np.array([True, False]), mg.tensor(1.0), mg.tensor([5.0, 6.0])
    )
    assert y["s"].tolist() == [6, 1] and y["n"][0].tolist() == [1, 6]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: cond(x > 0, lambda x: x, lambda x: [x], x), "trees differ"),
        (lambda x: cond(x > 0, lambda x: x, lambda x: x[None], x), "same shape and dtype"),
        (lambda x: cond(mg.stack([x, x]) > 0, lambda x: x, lambda x: x, x), "one truth value"),
        (lambda x: while_loop(lambda s: s[None] > 0, lambda s: s, x), "one truth value"),
        (lambda x: scan(lambda c, a: c, x, mg.ones(2)), "returns .carry, y."),
        (lambda x: scan(lambda c, a: (c, a), x), "must agree"),
        (lambda x: scan(lambda c, a: (c, a), x, [mg.ones(2), mg.ones(3)]), r"\[2, 3\]"),
        (lambda x: scan(lambda c, a: (c, a), x, mg.tensor(1.0)), "first axis"),
    ],
)
def test_what_does_not_fit_is_said(call, message):
    with pytest.raises(TransformError, match=message):
        vmap(call)(mg.tensor([1.0, -1.0]))


def test_scan_is_the_loop_forwards_and_backwards():
    f = lambda c, x: ({"sum": c["sum"] + x["a"]}, [c["sum"] * x["b"]])
    init, xs = {"sum": mg.tensor(1.0)}, {"a": mg.arange(1.0, 4.0), "b": mg.ones(3)}
    carry, ys = scan(f, init, xs)
    assert carry["sum"].item() == 7 and ys[0].tolist() == [1, 2, 4]
    carry, ys = scan(f, init, xs, reverse=True)
    assert carry["sum"].item() == 7 and ys[0].tolist() == [6, 4, 1]
    assert scan(lambda c, _: (c * 2, c), mg.tensor(1.0), length=4)[1].tolist() == [1, 2, 4, 8]


@pytest.mark.parametrize("reverse", [False, True])
def test_a_scan_over_no_steps_gives_the_carry_and_no_ys_of_the_right_shapes(reverse):
    carry = mg.tensor(np.ones(3, np.float32), requires_grad=True)
    f = lambda c, x: (c * 2, {"sum": c + x["a"], "n": x["b"].sum()})
    xs = {"a": mg.zeros((0, 3), dtype=np.float32), "b": mg.zeros((0, 2), dtype=np.int64)}
    last, ys = scan(f, carry, xs, reverse=reverse)
    assert last is carry
    assert (ys["sum"].shape, ys["sum"].dtype) == ((0, 3), np.float32)
    assert (ys["n"].shape, ys["n"].dtype) == ((0,), np.int64)
    assert mg.grad(ys["sum"].sum(), carry).tolist() == [0, 0, 0]
    assert scan(lambda c, x: (c, x), 5.0, length=0, reverse=reverse) == (5.0, None)


def test_a_scan_over_no_steps_runs_under_vmap_and_jvp():
    last = lambda c: scan(lambda c, x: (c + x, c * x), c, mg.zeros((0, 2)))
    carries, ys = mg.func.vmap(last)(mg.ones((4, 2)))
    assert (carries.shape, ys.shape) == ((4, 2), (4, 0, 2))
    (carry, ys), (_, ts) = mg.func.jvp(last, (mg.ones(2),), (mg.ones(2),))
    assert (carry.shape, ys.shape, ts.shape) == ((2,), (0, 2), (0, 2))


def test_scan_has_second_derivatives():
    f = lambda xs: scan(lambda c, x: (np.tanh(c + x), c), mg.zeros(2), xs)[1][2:].sum()
    xs = mg.tensor(np.random.default_rng(0).normal(size=(4, 2)))
    np.testing.assert_allclose(hessian(f)(xs).data, jacfwd(jacfwd(f))(xs).data, atol=1e-14)


def test_the_gradient_of_scan_takes_linear_time():
    """One node takes xs apart, so its gradient is put together once, not once for each step."""
    xs = mg.ones(50, requires_grad=True)
    carry, _ = scan(lambda c, x: (c + x, None), mg.tensor(0.0), xs)
    nodes, stack = set(), [carry.node]
    while stack:
        node = stack.pop()
        if node not in nodes:
            nodes.add(node)
            stack.extend(node.parents)
    assert sum(xs.node in node.parents for node in nodes) == 1


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 8, 13])
@pytest.mark.parametrize("reverse", [False, True])
def test_associative_scan_gives_all_prefixes(n, reverse):
    rng = np.random.default_rng(0)
    a, m = rng.normal(size=(3, n)), rng.normal(size=(n, 2, 2))
    turned = a[:, ::-1] if reverse else a
    got = associative_scan(np.multiply, mg.tensor(a), reverse=reverse, axis=1).data
    expected = np.cumprod(turned, axis=1)
    np.testing.assert_allclose(got, expected[:, ::-1] if reverse else expected)
    order = (lambda p, q: q @ p) if reverse else (lambda p, q: p @ q)
    got = associative_scan(order, mg.tensor(m), reverse=reverse).data
    whole = np.linalg.multi_dot([*m, np.eye(2)])
    np.testing.assert_allclose(got[0 if reverse else -1], whole, rtol=1e-9)


def test_associative_scan_is_differentiable():
    x = mg.tensor(np.random.default_rng(0).normal(size=5))
    g = grad(lambda x: (associative_scan(np.multiply, x) ** 2).sum())(x)
    np.testing.assert_allclose(g.data, grad(lambda x: (mg.cumprod(x) ** 2).sum())(x).data)


BRANCHES = [lambda v: v * 0, mg.sqrt, lambda v: mg.log(-v)]
CHOICES, POINTS = mg.tensor([0, 1, 2, -5, 9]), mg.tensor([0.0, 4.0, -2.0, -1.0, -3.0])


def test_switch_runs_one_branch_and_the_nearest_beyond_the_ends():
    for i, x, branch in zip(CHOICES.tolist(), POINTS, [0, 1, 2, 0, 2], strict=True):
        assert switch(i, BRANCHES, x).item() == BRANCHES[branch](x).item()
        assert switch(mg.tensor(i), BRANCHES, x).item() == BRANCHES[branch](x).item()


def test_switch_under_vmap_takes_a_branch_for_each_example_without_a_nan_of_another():
    def value(i, x):
        return switch(i, BRANCHES, x)

    expected = [value(i, x).item() for i, x in zip(CHOICES.tolist(), POINTS, strict=True)]
    assert vmap(value)(CHOICES, POINTS).tolist() == expected
    slopes = vmap(grad(value, argnums=1))(CHOICES, POINTS)
    assert slopes.tolist() == [0, 0.25, -0.5, 0, -1 / 3]
    twice = vmap(vmap(value))(CHOICES.reshape(1, 5), POINTS.reshape(1, 5))
    assert twice.tolist() == [expected]
    pushed = jvp(lambda x: vmap(value)(CHOICES, x), (POINTS,), (mg.ones(5),))[1]
    assert pushed.tolist() == slopes.tolist()
    empty = vmap(value)(CHOICES[:0], POINTS[:0])
    assert empty.shape == (0,)


def test_switch_says_what_it_cannot_choose_by():
    with pytest.raises(TransformError, match="one integer, got"):
        switch(1.0, BRANCHES, POINTS)
    with pytest.raises(TransformError, match="one integer, got"):
        switch(CHOICES, BRANCHES, POINTS)
    with pytest.raises(TransformError, match="no branch"):
        switch(0, [], POINTS)


def test_the_bounds_of_fori_loop_are_whole_numbers():
    with pytest.raises(TypeError):
        fori_loop(0, 2.5, lambda i, c: c + 1, 0)


def test_associative_scan_names_the_axis_that_a_leaf_has_not():
    with pytest.raises(TransformError, match=r"along axis 1; their shapes are \[\(5,\)\]"):
        associative_scan(mg.add, POINTS, axis=1)
    with pytest.raises(TransformError, match=r"shapes are \[\(\)\]"):
        associative_scan(mg.add, mg.tensor(1.0))


def test_a_loop_may_change_the_state_that_it_is_given():
    def step(state, x):
        state["sum"] = state["sum"] + x
        return state, state

    start = {"sum": mg.tensor(0.0)}
    last, sums = scan(step, start, mg.tensor([1.0, 2.0, 3.0]))
    assert last["sum"].item() == 6 and sums["sum"].tolist() == [1, 3, 6]
    assert fori_loop(0, 3, lambda i, state: step(state, i)[0], start)["sum"].item() == 3
    below_three = lambda state: state["sum"] < 3
    assert while_loop(below_three, lambda state: step(state, 1)[0], start)["sum"].item() == 3
    assert scan(step, start, mg.zeros(0))[1]["sum"].shape == (0,)
    assert start["sum"].item() == 0


def test_associative_scan_says_what_its_function_is_to_return():
    with pytest.raises(TransformError, match="an array on the one side, a tuple of 2"):
        associative_scan(lambda a, b: (a, b), POINTS)
    with pytest.raises(TransformError, match=r"fn takes \(2,\) and returns \(\); it is to combine"):
        associative_scan(lambda a, b: (a * b).sum(), POINTS)


@pytest.mark.parametrize(("length", "error"), [(-1, TransformError), (2.0, TypeError)])
def test_a_scan_takes_a_whole_number_of_steps(length, error):
    with pytest.raises(error, match="a number of steps, 0 or more|as an integer"):
        scan(lambda carry, _: (carry, carry), mg.tensor(1.0), None, length=length)
