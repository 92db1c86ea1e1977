"""What a user's backward, rule, jvp or hook is handed cannot be changed under others' feet."""

import numpy as np
import pytest

import minigrad as mg
from minigrad import func
from minigrad.engine.errors import RuleError
from minigrad.engine.registry import op as registry

pytestmark = pytest.mark.promise(
    "a user's backward, rule, jvp or hook gets views that it cannot write"
)

WRITES = {
    "g *= 2": lambda g: g.__imul__(2.0),
    "g += g": lambda g: g.__iadd__(g),
    "g[...] = 0": lambda g: g.__setitem__(..., 0.0),
    "g[0] = 0": lambda g: g.__setitem__(0, 0.0),
    "np.multiply(g, 2, out=g)": lambda g: np.multiply(g, 2.0, out=g),
    "g.fill": lambda g: g.fill_(0.0) if isinstance(g, mg.Tensor) else g.fill(0.0),
    "of its array": lambda g: (g.numpy() if isinstance(g, mg.Tensor) else g).__setitem__(0, 0.0),
    "a view of it": lambda g: g.reshape(-1).__imul__(2.0),
}
writes = pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)


def told(error):
    """Whether an error says that the write was refused."""
    return any(text in str(error) for text in ("read-only", "cannot be tracked", ": out= "))


def identity_with(write):
    class Writes(mg.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 1.0

        @staticmethod
        def backward(ctx, g):
            write(g)
            return g

        @staticmethod
        def jvp(ctx, t):
            write(t)
            return t

    return Writes.apply


def rule_with(write):
    op = mg.primitive(lambda x: x * 1.0, name="writes_into_its_cotangent")

    @op.vjp("x")
    def dx(g):
        write(g)
        return g

    @op.jvp
    def push(x_t):
        write(x_t)
        return x_t

    del registry.__dict__[op.name]
    return op


def joint_rule_with(write):
    op = mg.primitive(lambda x: x * 1.0, name="writes_into_its_cotangent")

    @op.vjp
    def dx(g):
        write(g)
        return (g,)

    del registry.__dict__[op.name]
    return op


def partial_with(write):
    """An elementwise op whose partial names g, and gives the product itself."""

    def dx(g):
        write(g)
        return g

    op = mg.elementwise(np.positive, name="writes_into_its_cotangent", dx=dx)
    del registry.__dict__[op.name]
    return op


MAKERS = [identity_with, rule_with, joint_rule_with, partial_with]


@pytest.fixture(autouse=True)
def numpy_keeps_its_table():
    from minigrad.engine.registry import numpy_table

    before = dict(numpy_table)
    yield
    numpy_table.clear()
    numpy_table.update(before)


LARGE = 3_000_000  # for which elementwise ops have a way of their own
CASES = [(make, again, 3) for make in MAKERS for again in (False, True)]


@writes
@pytest.mark.parametrize(("make", "create_graph", "size"), [*CASES, (partial_with, False, LARGE)])
def test_a_write_into_the_cotangent_reaches_no_other_branch_and_not_the_caller(
    make, write, create_graph, size
):
    x = mg.tensor(np.arange(1.0, size + 1), requires_grad=True)
    seed = mg.tensor(np.full(size, 3.0))
    a, b = x * 1.0, x * 1.0
    y = a + make(write)(b)
    try:
        ga, _ = mg.grad(y, [a, b], seed, create_graph=create_graph)
        assert ga.numpy().min() == ga.numpy().max() == 3.0
    except Exception as error:
        assert told(error), error
    assert seed.numpy().min() == seed.numpy().max() == 3.0


@writes
@pytest.mark.parametrize("make", [identity_with, rule_with])
def test_a_write_into_a_tangent_does_not_reach_the_caller(make, write):
    x, t = mg.tensor([1.0, 2.0]), mg.tensor([3.0, 3.0])
    f = make(write)
    try:
        found = func.jvp(lambda x: (x * 1.0, f(x)), (x,), (t,))[1][0]
        assert found.tolist() == [3.0, 3.0]
    except Exception as error:
        assert told(error), error
    assert t.tolist() == [3.0, 3.0]


@writes
@pytest.mark.parametrize("kind", ["tensor", "pre", "post"])
@pytest.mark.parametrize("create_graph", [False, True])
def test_a_write_in_a_hook_reaches_no_other_branch(write, kind, create_graph):
    x = mg.tensor([1.0, 2.0], requires_grad=True)
    seed = mg.tensor([3.0, 3.0])
    a, b = x * 1.0, x * 1.0
    y = a + b
    if kind == "tensor":
        b.register_hook(lambda g: write(g) and None)
    elif kind == "pre":
        b.grad_fn.register_prehook(lambda gs: write(gs[0]) and None)
    else:
        b.grad_fn.register_hook(lambda inputs, outputs: write(outputs[0]) and None)
    try:
        ga, _ = mg.grad(y, [a, x], seed, create_graph=create_graph)
        assert ga.tolist() == [3.0, 3.0]
    except Exception as error:
        assert told(error), error
    assert seed.tolist() == [3.0, 3.0]


def test_a_saved_argument_or_result_cannot_be_changed_in_backward():
    class Writes(mg.Function):
        @staticmethod
        def forward(ctx, x):
            y = np.exp(x)
            ctx.save_for_backward(x, y)
            return y

        @staticmethod
        def backward(ctx, g):
            _, saved = ctx.saved_tensors
            for tensor in ctx.saved_tensors:
                with pytest.raises(ValueError, match="read-only"):
                    tensor *= 2.0
            return g * saved

    x = mg.tensor([1.0], requires_grad=True)
    y = Writes.apply(x)
    y.backward()
    assert x.tolist() == [1.0] and y.tolist() == [np.e] and x.grad.tolist() == [np.e]


def test_a_rule_cannot_change_what_it_reads():
    op = mg.primitive(lambda x: x * x, name="writes_into_its_argument")

    @op.vjp("x")
    def dx(g, x):
        x *= 2.0
        return g * x

    del registry.__dict__[op.name]
    x = mg.tensor([3.0], requires_grad=True)
    with pytest.raises(ValueError, match="read-only"):
        op(x).backward()
    assert x.tolist() == [3.0]


@pytest.mark.parametrize("give", [lambda g: g, lambda g: g.reshape(-1)[::-1], lambda g: g[:]])
@pytest.mark.parametrize("make", ["function", "rule"])
def test_a_gradient_handed_out_may_be_changed_by_its_owner(give, make):
    class Gives(mg.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1.0

        @staticmethod
        def backward(ctx, g):
            return give(g)

    op = mg.primitive(lambda x: x * 1.0, name="gives_its_cotangent")
    op.vjp("x")(lambda g: give(g))
    del registry.__dict__[op.name]
    x = mg.tensor([1.0, 2.0], requires_grad=True)
    (Gives.apply if make == "function" else op)(x).sum().backward()
    x.grad *= 2.0
    x.grad.data[...] += 1.0
    assert x.grad.tolist() == [3.0, 3.0]


@pytest.mark.parametrize(
    ("given", "count"),
    [
        (lambda g: (g, g, None), 3),
        (lambda g: (g, g, g, None, None), 5),
        (lambda g: (g, None, g, None), 4),
        (lambda g: [g, g], 2),
        (lambda g: (), 0),
    ],
)
def test_the_message_counts_the_gradients_that_were_returned(given, count):
    class Wrong(mg.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1.0

        @staticmethod
        def backward(ctx, g):
            return given(g)

    y = Wrong.apply(mg.tensor([1.0], requires_grad=True))
    with pytest.raises(RuleError, match=f"returned {count} gradients; it must return 1"):
        y.backward()
