"""The transforms give torch.func's numbers on the same functions."""

import numpy as np
import pytest

import minigrad as mg

pytestmark = pytest.mark.promise("transforms take trees, aux, argnums; the numbers of torch.func")

torch = pytest.importorskip("torch")
F, G = mg.func, torch.func
rng = np.random.default_rng(0)
A, X, T = rng.normal(size=(4, 3)), rng.normal(size=3), rng.normal(size=3)
XS = rng.normal(size=(5, 3))


def ours(x):
    return np.tanh(mg.tensor(A) @ x) * mg.exp(-(x * x).sum())


def theirs(x):
    return torch.tanh(torch.tensor(A) @ x) * torch.exp(-(x * x).sum())


def scalars(f):
    return lambda x: (f(x) ** 2).sum()


CASES = {
    "grad": lambda F, f, t: F.grad(scalars(f))(t(X)),
    "vjp": lambda F, f, t: F.vjp(f, t(X))[1](t(np.arange(4.0)))[0],
    "jvp": lambda F, f, t: F.jvp(f, (t(X),), (t(T),))[1],
    "linearize": lambda F, f, t: F.linearize(f, t(X))[1](t(T)),
    "jacrev": lambda F, f, t: F.jacrev(f, chunk_size=2)(t(X)),
    "jacfwd": lambda F, f, t: F.jacfwd(f)(t(X)),
    "hessian": lambda F, f, t: F.hessian(f)(t(X)),
    "vmap of grad": lambda F, f, t: F.vmap(F.grad(scalars(f)), chunk_size=2)(t(XS)),
    "vmap of a column": lambda F, f, t: F.vmap(f, in_dims=1, out_dims=1)(t(XS.T)),
    "jvp of grad": lambda F, f, t: F.jvp(F.grad(scalars(f)), (t(X),), (t(T),))[1],
    "grad of vmap": lambda F, f, t: F.grad(lambda xs: (F.vmap(f)(xs) ** 2).sum())(t(XS)),
    "jacfwd of jacrev of jacfwd": lambda F, f, t: F.jacfwd(F.jacrev(F.jacfwd(f)))(t(X)),
    "argnums and aux": lambda F, f, t: F.grad(
        lambda x, y: ((f(x) * f(y)).sum(), x), argnums=(0, 1), has_aux=True
    )(t(X), t(T))[0][1],
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_values_are_torchs(case):
    np.testing.assert_allclose(
        case(F, ours, mg.tensor).data, case(G, theirs, torch.tensor).numpy(), rtol=1e-9, atol=1e-12
    )


def test_functional_call_and_stacked_modules_are_torchs():
    ours, theirs = [mg.nn.Linear(3, 2) for _ in range(2)], [torch.nn.Linear(3, 2) for _ in range(2)]
    for a, b in zip(ours, theirs, strict=True):
        a.load_state_dict({name: x.detach().numpy() for name, x in b.state_dict().items()})
    p, b = F.stack_module_state(ours)
    q, c = G.stack_module_state(theirs)
    assert {k: v.shape for k, v in p.items()} == {k: tuple(v.shape) for k, v in q.items()}
    x = XS.astype(np.float32)
    y = F.vmap(lambda p, b: F.functional_call(ours[0], (p, b), (mg.tensor(x),)))(p, b)
    z = G.vmap(lambda p, b: G.functional_call(theirs[0], (p, b), (torch.tensor(x),)))(q, c)
    np.testing.assert_allclose(y.data, z.detach().numpy(), rtol=1e-5, atol=1e-6)
