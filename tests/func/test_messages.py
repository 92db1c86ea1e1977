"""An error of a transform begins with the name that was called, also where others are inside."""

import pytest

import minigrad as mg
from minigrad import func

x = mg.tensor([1.0, 2.0], requires_grad=True)
y = (x * x).sum()


def f(x):
    return (x * x).sum()


CALLS = {
    "grad": [
        lambda: func.grad(3),
        lambda: func.grad(f)("x"),
        lambda: func.grad(lambda x: x)(x),
        lambda: mg.grad(3, x),
        lambda: mg.grad(f, x),
        lambda: mg.grad(y, "x"),
        lambda: mg.grad(y, mg.ones(2)),
        lambda: mg.grad(mg.ones(()), x),
        lambda: mg.grad(x * x, x),
        lambda: mg.grad(y, x, [1.0, 2.0]),
        lambda: mg.grad(y, x, mg.ones(2)),
    ],
    "value_and_grad": [
        lambda: func.value_and_grad(3),
        lambda: func.value_and_grad(f)("x"),
        lambda: func.value_and_grad(f, argnums=2)(x),
        lambda: func.value_and_grad(lambda x: x)(x),
    ],
    "vjp": [
        lambda: func.vjp(3, x),
        lambda: func.vjp(f, "x"),
        lambda: func.vjp(f, x)[1]("x"),
        lambda: func.vjp(f, x)[1](x),
    ],
    "jvp": [
        lambda: func.jvp(3, (x,), (x,)),
        lambda: func.jvp(f, x, x),
        lambda: func.jvp(f, ("x",), (x,)),
        lambda: func.jvp(f, (x,), ("x",)),
        lambda: func.jvp(lambda x: "x", (x,), (x,)),
    ],
    "vmap": [
        lambda: func.vmap(3),
        lambda: func.vmap(f)("x"),
        lambda: func.vmap(lambda x: "x")(x),
        lambda: func.vmap(f)(),
    ],
    "jacrev": [
        lambda: func.jacrev(3),
        lambda: func.jacrev(f)("x"),
        lambda: func.jacrev(f, chunk_size=0),
    ],
    "jacobian": [
        lambda: func.jacobian(3),
        lambda: func.jacobian(f)("x"),
        lambda: func.jacobian(f, chunk_size=0),
        lambda: func.jacobian(f, argnums=2)(x),
    ],
    "jacfwd": [
        lambda: func.jacfwd(3),
        lambda: func.jacfwd(f)("x"),
        lambda: func.jacfwd(f, chunk_size=0),
    ],
    "hessian": [
        lambda: func.hessian(3),
        lambda: func.hessian(f)("x"),
        lambda: func.hessian(f, argnums=2)(x),
        lambda: func.hessian(f, chunk_size=0),
    ],
    "hvp": [
        lambda: func.hvp(3, (x,), (x,)),
        lambda: func.hvp(f, x, x),
        lambda: func.hvp(f, (x,), ()),
        lambda: func.hvp(f, ("x",), (x,)),
        lambda: func.hvp(f, (x,), (mg.ones(3),)),
    ],
    "vhp": [
        lambda: func.vhp(3, (x,), (x,)),
        lambda: func.vhp(f, x, x),
        lambda: func.vhp(f, ("x",), (x,)),
        lambda: func.vhp(f, (x,), (mg.ones(3),)),
    ],
    "linearize": [
        lambda: func.linearize(3, x),
        lambda: func.linearize(f, "x"),
        lambda: func.linearize(f, x)[1]("x"),
    ],
    "backward": [
        lambda: mg.backward(3),
        lambda: mg.backward(f),
        lambda: y.backward(inputs="x"),
        lambda: y.backward(mg.ones(2)),
        lambda: (x * x).backward(),
    ],
}
EACH = [(name, i) for name in CALLS for i in range(len(CALLS[name]))]


@pytest.mark.parametrize(("name", "i"), EACH)
def test_a_bad_call_is_told_by_the_name_that_was_called(name, i):
    begins = rf"(mg\.func\.|the function of )?{name}\b"
    with pytest.raises((TypeError, ValueError, mg.errors.MinigradError), match=f"^{begins}"):
        CALLS[name][i]()
