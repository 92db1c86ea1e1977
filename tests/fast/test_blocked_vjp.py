"""Deferred contributions of large elementwise nodes: the bits of those computed at once."""

import tracemalloc

import numpy as np
import pytest

import minigrad as mg
from minigrad.backends import blocks as pieces
from minigrad.engine import backward
from minigrad.engine.primitive import Primitive
from minigrad.engine.registry import op as registry
from minigrad.fast.blocked_vjp import MOST, BlockedVjp, LazyCotangent
from tests.fast.large_arrays import ELEMENTWISE, enlarged_sample

pytestmark = pytest.mark.promise(
    "those deferred to the node that they go to are the bits of those computed at once, in "
    "all engines"
)

rng = np.random.default_rng(0)


def same(a, b):
    return (
        a.shape == b.shape
        and a.dtype == b.dtype
        and np.array_equal(a, b, equal_nan=a.dtype.kind in "fc")
    )


def large_node(name, dtype="float64"):
    args, params = enlarged_sample(name, dtype)
    y = getattr(registry, name)(*args, **params)
    if y.node is None or y.node.plan.blocked_vjp is None or y.dtype.kind == "c":
        pytest.skip("its rules compute nothing real in blocks")
    return y.node


def deferred(node, g, held=None):
    """{slot: deferred contribution} of the contributions of a node for the cotangent g."""
    vjp, saved = node.plan.blocked_vjp, [*node.saved]
    later = {
        i: vjp.deferred(i, g, saved, parent.dtype, held) for i, parent in enumerate(node.parents)
    }
    return {i: c for i, c in later.items() if c is not None}


def deferred_product(like, held=None):
    """(a deferred product, the same materialised): what a product behind a node hands to it."""
    a, b = (rng.standard_normal(like.shape).astype(like.dtype) for _ in range(2))
    behind = mg.tensor(np.ones_like(a), requires_grad=True) * b
    c = deferred(behind.node, a, held)[0]
    assert isinstance(c, LazyCotangent)
    return c, a * b


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", ELEMENTWISE)
def test_contributions_of_a_lazy_cotangent_are_those_of_a_materialised_one(name, dtype, small):
    with np.errstate(all="ignore"):
        node = large_node(name, dtype)
        g, made = deferred_product(node)
        vjp = node.plan.blocked_vjp
        found, expected = vjp(vjp.materialised(g), node.saved), vjp(made, node.saved)
    for a, b in zip(found, expected, strict=True):
        assert (a is b is None) or same(a, b)


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_a_deferred_contribution_is_materialised_with_the_same_bits(name, small):
    with np.errstate(all="ignore"):
        node = large_node(name)
        g = rng.standard_normal(node.shape).astype(node.dtype)
        expected = node.plan.blocked_vjp(g, node.saved)
        for i, c in deferred(node, g).items():
            assert same(c.materialise(), expected[i])


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_one_number_everywhere_is_deferred_with_the_bits_of_an_array_of_it(name, small):
    with np.errstate(all="ignore"):
        node = large_node(name)
        g = np.broadcast_to(np.array(0.7, node.dtype), node.shape)
        expected = node.plan.blocked_vjp(np.array(g), node.saved)
        for i, c in deferred(node, g).items():
            assert same(c.materialise(), expected[i])


@pytest.mark.parametrize(
    "rule",
    [
        lambda g, b: g / b,
        lambda b, g: g / b,
        lambda y, g, a, b: g / b,
        lambda b, g, a: a * b - g,
        lambda g: -g,
        lambda y: y,
    ],
)
def test_a_rule_reads_what_it_names_in_any_order(rule, small):
    op = Primitive(np.add, "an_op", ["a", "b"], kind="elementwise")
    op.vjp("a")(rule)
    a, b, g = rng.standard_normal((3, 20, 30))
    y = op(mg.tensor(a, requires_grad=True), b)
    (found,) = y.node.plan.blocked_vjp(g, y.node.saved)
    assert same(found, op.rules["a"].apply({"a": a, "b": b, "y": a + b, "g": g}))


def test_a_deferred_rule_may_ask_for_the_array_module(small):
    op = Primitive(np.add, "an_op", ["a", "b"], kind="elementwise")
    op.vjp("a")(lambda xp, g, b: g * xp.sin(b))
    a, b, g = rng.standard_normal((3, 20, 30))
    node = op(mg.tensor(a, requires_grad=True), b).node
    assert same(deferred(node, g)[0].materialise(), g * np.sin(b))


def test_a_sum_of_lazy_cotangents_is_added_in_the_order_of_arrival(small):
    like = np.empty((7, 40))
    (a, first), (b, second), (c, third) = (deferred_product(like) for _ in range(3))
    total = a.added(b).added(c)
    assert isinstance(total, LazyCotangent) and same(total.materialise(), first + second + third)


def test_an_array_is_added_to_a_lazy_cotangent(small):
    later, made = deferred_product(np.empty((7, 40)))
    c = rng.standard_normal((7, 40))
    assert same(later.added(c), made + c)


def gradients(function, *values, engine="serial"):
    leaves = [mg.tensor(x, requires_grad=True) for x in values]
    y = function(*leaves)
    g = np.random.default_rng(5).standard_normal(y.shape).astype(y.dtype)
    if engine == "tape":
        with mg.Tape() as tape:
            y = function(*leaves)
        tape.backward(y, g)
    else:
        y.backward(mg.tensor(g), engine=engine)
    return [leaf.grad.numpy() for leaf in leaves]


PROGRAMS = {
    "a product of two": lambda x, z: mg.gelu(x) * mg.tanh(x) + x / 2 + z,
    "a chain": lambda x, z: mg.exp(mg.sin(mg.tanh(mg.sigmoid(x * z)))),
    "a chain of many": lambda x, z: mg.tanh(mg.tanh(mg.tanh(mg.tanh(mg.tanh(mg.tanh(x * z)))))),
    "products of products": lambda x, z: ((x * z) * mg.sin(x)) * mg.cos(z),
    "used twice later": lambda x, z: (lambda h: mg.sin(h) * mg.cos(h))(mg.tanh(x * z)),
    "used by a sum of rows, too": lambda x, z: (lambda h: mg.sin(h) + h.sum(1, keepdims=True))(
        mg.tanh(x) * z
    ),
    "passed on and negated": lambda x, z: mg.sin(mg.tanh(x) - mg.exp(z)) * z,
    "a product with itself": lambda x, z: (lambda h: h * h)(mg.tanh(x)) * z,
    "transposed between": lambda x, z: mg.sin(mg.tanh(x).T) * z.T,
    "other dtypes between": lambda x, z: mg.tanh(mg.sin(x).astype("float32")) * mg.cos(z),
    "a row of exponentials": lambda x, z: mg.tanh(x * mg.exp(z[0])) * z,
    "a column of them": lambda x, z: mg.tanh(x * mg.exp(z[:, :1])) + z,
    "rows of a broadcast": lambda x, z: mg.tanh(x * z[0]) * z,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_all_engines_agree_bit_for_bit(name, small, monkeypatch):
    x, z = rng.standard_normal((2, 20, 30))
    found = gradients(PROGRAMS[name], x, z)
    for engine in ("parallel", "tape"):
        for a, b in zip(found, gradients(PROGRAMS[name], x, z, engine=engine), strict=True):
            assert same(a, b)
    monkeypatch.setattr(BlockedVjp, "deferred", lambda *args: None)
    for a, b in zip(found, gradients(PROGRAMS[name], x, z), strict=True):
        assert same(a, b)


def test_a_gradient_lies_in_memory_as_it_does_where_nothing_is_deferred(small, monkeypatch):
    x = mg.tensor(rng.standard_normal((20, 30)), requires_grad=True)
    g = mg.tensor(np.asfortranarray(rng.standard_normal((20, 30))))

    def strides():
        x.grad = None
        ((x + 1.0) * mg.tanh(x) + x / 2).backward(g)
        return x.grad.numpy().strides

    found = strides()
    monkeypatch.setattr(BlockedVjp, "deferred", lambda *args: None)
    assert found == strides()


def deferrals(monkeypatch):
    """The list of all that is deferred from now on."""
    made, method = [], BlockedVjp.deferred
    monkeypatch.setattr(
        BlockedVjp, "deferred", lambda *args: made.append(method(*args)) or made[-1]
    )
    return made


def test_all_contributions_between_elementwise_nodes_and_leaves_are_deferred(small, monkeypatch):
    made = deferrals(monkeypatch)
    gradients(lambda x: mg.gelu(x) * mg.tanh(x) + x / 2, rng.standard_normal((20, 30)))
    assert [isinstance(c, LazyCotangent) for c in made] == 5 * [True]  # of the product two


def test_a_leaf_that_is_used_often_holds_no_more_than_a_few_arrays(small, monkeypatch):
    made = deferrals(monkeypatch)
    x, *others = rng.standard_normal((9, 20, 30))

    def products(x):
        return sum([x * mg.tensor(z) * (i + 1.0) for i, z in enumerate(others)], 0 * x)

    (found,) = gradients(products, x)
    assert made.count(None) == 1  # from then on there is an array to add to
    monkeypatch.setattr(BlockedVjp, "deferred", lambda *args: None)
    assert same(found, gradients(products, x)[0])


def test_a_lazy_cotangent_is_materialised_for_an_inner_tensor_that_is_asked_for(small):
    x = mg.tensor(rng.standard_normal((20, 30)), requires_grad=True)
    h = mg.tanh(x)
    y = mg.sin(h) * mg.cos(x)
    dx, dh = mg.grad(y.sum(), [x, h], retain_graph=True)
    assert np.array_equal(dh.numpy(), np.cos(h.numpy()) * np.cos(x.numpy()))
    y.sum().backward()
    assert same(x.grad.numpy(), dx.numpy())


def test_hooks_and_retained_gradients_see_arrays(small):
    x = mg.tensor(rng.standard_normal((20, 30)), requires_grad=True)
    h, seen = mg.tanh(x), []
    h.retain_grad()
    k = mg.sin(h)
    k.register_hook(lambda g: seen.append(g.numpy().copy()))
    (k * 3.0).backward(mg.ones(20, 30))
    assert np.array_equal(seen[0], np.full((20, 30), 3.0))
    assert np.array_equal(h.grad.numpy(), 3.0 * np.cos(h.numpy()))


def deferred_products(count):
    """The last of so many products, one behind the other: of count + 1 arrays."""
    (c, _), i = deferred_product(np.empty((7, 40))), 1
    while c is not None and i < count:
        z = rng.standard_normal((7, 40))
        behind = mg.tensor(np.ones_like(z), requires_grad=True) * z
        c, i = deferred(behind.node, c).get(0), i + 1
    return c


def test_no_contribution_is_made_of_more_than_a_few_arrays(small):
    assert len(deferred_products(MOST - 1).arrays) == MOST
    assert deferred_products(MOST) is None


@pytest.mark.parametrize("shape", [(30,), (1, 30), (20, 1), (1, 1), ()])
def test_a_leaf_that_is_broadcast_gets_its_sum(shape, small):
    b, x = rng.standard_normal(shape), rng.standard_normal((20, 30))
    found = gradients(lambda b, x: mg.tanh(x) * b, b, x)
    for a, c in zip(found, gradients(lambda b, x: mg.tanh(x) * b, b, x, engine="parallel")):
        assert same(a, c)


def test_nor_is_what_is_held_for_a_parent(small):
    like = np.empty((7, 40))
    held, _ = deferred_product(like)
    for _ in range(MOST // 2 - 1):
        held = held.added(deferred_product(like, held)[0])
    assert len(held.arrays) == MOST
    node = (mg.tensor(np.ones((7, 40)), requires_grad=True) * np.ones((7, 40))).node
    assert not deferred(node, np.ones((7, 40)), held)


def test_a_backward_of_a_product_makes_no_array_but_the_gradient(two_threads):
    x = mg.tensor(np.ones(pieces.LARGE, np.float32), requires_grad=True)
    y = mg.exp(x) * mg.tanh(x) + x / 2
    g = mg.ones(*y.shape, dtype="float32")
    tracemalloc.start()
    try:
        y.backward(g)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    block = x.dtype.itemsize * pieces.BLOCK
    assert peak < x.nbytes + 2 * 3 * block + 100_000  # blocks of two threads


def test_nothing_is_deferred_while_someone_listens(small, monkeypatch):
    made = []
    monkeypatch.setattr(backward, "blocked_vjp", lambda *args: made.append(args))
    x = mg.tensor(rng.standard_normal((20, 30)), requires_grad=True)
    with mg.profile():
        (mg.tanh(x) * 2.0).sum().backward()
    assert not made and x.grad is not None
