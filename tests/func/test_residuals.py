"""Ops that keep more than their result, in nests of transforms: gelu, users' ops of each kind."""

import numpy as np
import pytest

import minigrad as mg
from minigrad import func, nn
from minigrad.engine.primitive import Primitive
from minigrad.testing.checks.nestings import PARTS, nestings_agree
from minigrad.testing.function import Function

pytestmark = pytest.mark.promise(
    "every op, and users' ops with residuals, have one second and third derivative, however "
    "transforms nest (K28)"
)

REAL = np.array([0.3, -0.8, 1.1])
COMPLEX = REAL + 1j * REAL[::-1]


def rng():
    return np.random.default_rng(0)


def cosine(x, slope):
    """The residual, where nothing will be differentiated again."""
    return slope if isinstance(x, np.ndarray) else np.cos(x)


def by_partial():
    op = Primitive(lambda x: (np.sin(x), np.cos(x)), "user_sin", ["x"], kind="elementwise",
                   residuals=["slope"])  # fmt: skip
    op.partial("x")(cosine)
    return op


def by_partials_of_two():
    def forward(a, b):
        return np.sin(a) * b, np.sin(a), np.cos(a)

    op = Primitive(forward, "user_product", ["a", "b"], kind="elementwise",
                   residuals=["sine", "slope"])  # fmt: skip
    op.partial("a")(lambda a, b, slope: cosine(a, slope) * b)
    op.partial("b")(lambda a, sine: sine if isinstance(a, np.ndarray) else np.sin(a))
    return op


def by_rule():
    op = Primitive(lambda x: (np.sin(x), np.cos(x)), "user_sin", ["x"], residuals=["slope"])
    op.vjp("x")(lambda g, x, slope: g * cosine(x, slope))
    return op


def by_joint_rule():
    op = Primitive(lambda a, b: (np.sin(a) * b, np.cos(a)), "user_product", ["a", "b"],
                   residuals=["slope"])  # fmt: skip
    op.vjp(lambda g, a, b, slope, needs: [g * b * cosine(a, slope), g * np.sin(a)])
    return op


def of_several_outputs():
    op = Primitive(lambda x: ((np.sin(x), x * x * x), np.cos(x)), "user_pair", ["x"], outputs=2,
                   residuals=["slope"])  # fmt: skip

    @op.vjp("x")
    def gx(g, x, y, slope):
        s, c = (np.zeros_like(x) if t is None else t for t in g)
        return s * cosine(x, slope) + c * (3 * x * x) + 0 * y[0]

    return op


def as_function():
    class Sine(mg.Function):
        @staticmethod
        def forward(ctx, x):
            y = mg.sin(x)
            ctx.save_for_backward(x, y)
            return y

        @staticmethod
        def backward(ctx, g):
            x, y = ctx.saved_tensors
            return g * mg.cos(x) + 0 * y

    return Sine.apply


MAKERS = (by_partial, by_rule, of_several_outputs, as_function)


@pytest.mark.filterwarnings("ignore::minigrad.func.VmapWarning")
@pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__name__)
def test_a_users_op_has_one_second_derivative(make):
    count, _ = nestings_agree(Function(make(), (REAL,)), rng(), PARTS, whole=True)
    assert count > 20


@pytest.mark.filterwarnings("ignore::minigrad.func.VmapWarning")
@pytest.mark.parametrize("make", [by_partials_of_two, by_joint_rule], ids=["partials", "joint"])
@pytest.mark.parametrize("positions", [(0,), (1,), (0, 1)], ids=["a", "b", "both"])
def test_a_users_op_of_two_arguments_has_one_too(make, positions):
    function = Function(make(), (REAL, REAL[::-1] + 2), positions=positions)
    assert nestings_agree(function, rng(), PARTS, whole=True)[0] > 20


def test_arguments_that_broadcast_have_it():
    function = Function(by_partials_of_two(), (REAL[:, None], REAL[:2] + 2))
    assert nestings_agree(function, rng(), PARTS, whole=True)[0] > 20


def test_complex_numbers_have_it():
    assert nestings_agree(Function(by_partial(), (COMPLEX,)), rng(), PARTS, whole=True)[0] > 20


def test_elementwise_ops_with_residuals_need_no_batch_rule(recwarn):
    op = by_partial()
    xs = mg.tensor(np.stack([REAL, REAL + 1]))
    found = func.vmap(func.grad(lambda x: (op(x) * op(x)).sum()))(xs)
    np.testing.assert_allclose(found.data, np.sin(2 * xs.data), rtol=1e-14)
    assert not recwarn.list


def test_a_rule_gets_its_residual_in_forward_mode():
    op = by_partial()
    ty = func.jvp(op, (mg.tensor(REAL),), (mg.tensor([1.0, 1.0, 1.0]),))[1]
    np.testing.assert_array_equal(ty.data, np.cos(REAL))


def test_a_residual_may_be_none():
    op = Primitive(lambda x: (np.sin(x), None), "user_sin", ["x"], kind="elementwise",
                   residuals=["slope"])  # fmt: skip
    op.partial("x")(lambda x, slope: np.cos(x) if slope is None else slope)
    assert nestings_agree(Function(op, (REAL,)), rng(), PARTS, whole=True)[0] > 20


@pytest.mark.parametrize("form", ["none", "tanh"])
def test_the_hessian_of_gelu_squared_is_that_of_the_formula(form):
    mpmath = pytest.importorskip("mpmath")

    def exact(x):
        if form == "none":
            return (x * mpmath.ncdf(x)) ** 2
        u = mpmath.sqrt(2 / mpmath.pi) * (x + mpmath.mpf("0.044715") * x**3)
        return (x * (1 + mpmath.tanh(u)) / 2) ** 2

    f = lambda x: mg.gelu(x, approximate=form) * mg.gelu(x, approximate=form)
    for at in (0.5, -1.3, 2.0):
        with mpmath.workdps(40):
            right = float(mpmath.diff(exact, mpmath.mpf(at), 2))
        for second in (func.grad(func.grad(f)), func.hessian(f), func.jacrev(func.jacfwd(f))):
            assert second(mg.tensor(at)).item() == pytest.approx(right, rel=1e-12)


@pytest.mark.parametrize("form", ["none", "tanh"])
def test_the_hessian_of_a_gelu_network_is_that_of_finite_differences(form):
    mg.manual_seed(0)
    net = nn.Sequential(nn.Linear(2, 3), nn.GELU(form), nn.Linear(3, 2), nn.GELU(form))
    net = net.astype(mg.float64) if hasattr(net, "astype") else net
    weights = {name: mg.tensor(p.data.astype(np.float64)) for name, p in net.named_parameters()}
    sizes = [w.size for w in weights.values()]
    data = mg.tensor(rng().normal(size=(4, 2)))

    def loss(vector):
        parts = mg.split(vector, [*np.cumsum(sizes)[:-1]])
        given = {n: p.reshape(*w.shape) for p, (n, w) in zip(parts, weights.items())}
        return (func.functional_call(net, given, data) ** 2).mean()

    at = np.concatenate([w.data.reshape(-1) for w in weights.values()])
    gradient = func.grad(loss)
    h = 1e-5
    numeric = np.stack([
        (gradient(mg.tensor(at + h * e)).data - gradient(mg.tensor(at - h * e)).data) / (2 * h)
        for e in np.eye(at.size)
    ])  # fmt: skip
    found = func.hessian(loss)(mg.tensor(at)).data
    np.testing.assert_allclose(found, numeric, atol=1e-8)
    np.testing.assert_allclose(func.jacrev(gradient)(mg.tensor(at)).data, found, atol=1e-13)


def test_one_draw_for_all_examples_gives_each_its_hessian():
    loss = lambda x: (mg.dropout(x, p=0.5) ** 2).sum()
    found = func.vmap(func.hessian(loss), randomness="same")(mg.ones((3, 4)))
    assert found.shape == (3, 4, 4)
    assert found.data[0].tobytes() == found.data[2].tobytes()
