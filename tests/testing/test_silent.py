"""No public function takes an argument for a constant in silence: it has a gradient or an error."""

import numpy as np
import pytest

import minigrad as mg
import minigrad.array_api as xp
from minigrad import func
from minigrad.engine.registry import numpy_table
from minigrad.engine.registry import op as registry
from minigrad.nn import functional as F
from minigrad.testing.checks.silent import compared
from minigrad.testing.errors import GradcheckError
from minigrad.testing.run import load_samples
from minigrad.testing.spec import specs

pytestmark = pytest.mark.promise(
    "no argument is a constant in silence: it has a gradient or an error (K33)"
)

X, W = np.array([0.31, -0.52, 0.77, 1.4]), np.array([0.4, 0.9, -0.2, 1.1])
M = np.arange(12.0).reshape(3, 4) ** 1.1 - 3
INDEX = np.array([2, 0, 1])

# what NumPy's functions that are no ops of their own are called with here
CALLS = {
    np.where: (X > 0, X, W),
    np.clip: (X, np.array(-0.3), np.array(0.9)),
    np.rollaxis: (M, 1),
    np.ix_: (X, W),
    np.histogram_bin_edges: (X, 3),
    np.union1d: (X, W),
    np.setdiff1d: (X, W),
    np.setxor1d: (X, W),
    np.unique_values: (X,),
    np.unique_all: (X,),
    np.unique_counts: (X,),
    np.unique_inverse: (X,),
    np.trim_zeros: (X,),
    np.real_if_close: (X,),
    np.sort_complex: (X,),
    np.apply_along_axis: (lambda row: row * row, 0, M),
    np.apply_over_axes: (np.sum, M, (0,)),
    np.linspace: (X, W, 3),
    np.logspace: (X, W, 3),
    np.geomspace: (np.abs(X), np.abs(W), 3),
    np.linalg.outer: (X, W),
}
# truths, places, counts and equal entries, which change by jumps; writes have tests of their own
BY_JUMPS = {
    np.isin, np.array_equiv, np.lexsort, np.unravel_index, np.ravel_multi_index, np.digitize,
    np.min_scalar_type, np.common_type, np.packbits, np.unpackbits, np.einsum_path, np.isposinf,
    np.isneginf, np.intersect1d, np.tril_indices_from, np.triu_indices_from, np.diag_indices_from,
}  # fmt: skip
WRITES = {np.copyto, np.fill_diagonal, np.put, np.putmask, np.place, np.put_along_axis}


def seen(fn, *args, **params):
    return compared(fn, args, params, np.random.default_rng(0))


def test_every_numpy_function_is_an_op_that_is_checked_or_one_of_these():
    load_samples()
    checked = {id(spec.call) for spec in specs.values()}
    checked |= {id(getattr(registry, name)) for name in specs if name in registry}
    others = {f for f, entry in numpy_table.items() if id(entry) not in checked}
    others = {f for f in others if f.__name__ not in specs or f in CALLS}
    assert others <= {*CALLS, *BY_JUMPS, *WRITES}


@pytest.mark.parametrize("function", CALLS, ids=lambda f: f.__name__)
def test_numpys_functions_have_gradients_where_they_have_slopes(function):
    assert seen(function, *CALLS[function]) > 0


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: mg.histogram(x, 3)[1],
        lambda x: mg.histogram(x, 3, density=True)[0],
        lambda x: mg.histogram(x, 3, density=True, weights=W)[0],
        lambda x: mg.histogram(W, mg.sort(x), density=True)[0],
        lambda x: mg.histogram2d(x, W, 2)[1],
        lambda x: mg.histogram2d(W, x, 2, density=True)[0],
        lambda x: mg.histogramdd(mg.stack([x, x * x], axis=1), 2)[1][1],
        lambda x: np.histogram_bin_edges(x, "auto"),
        lambda x: np.histogram_bin_edges(x * 0 + x[0], 2),
        lambda x: mg.nextafter(x, 10.0),
        lambda x: xp.nextafter(x, xp.asarray(10.0)),
        lambda x: mg.unique_all(x)[0],
        lambda x: xp.unique_counts(x).values,
        lambda x: mg.nansum(W, initial=x[0]),
        lambda x: mg.fft.fftfreq(5, x[0]),
        lambda x: mg.fft.rfftfreq(5, d=x[0], dtype="float64"),
    ],
)
def test_functions_that_go_through_numpy_have_gradients_where_they_have_slopes(fn):
    assert seen(fn, X) == 1


SCALAR = np.array(0.3)
LOGITS, CLASSES = np.array([[0.2, -0.4, 1.0], [0.5, 0.1, -1.0]]), np.array([1, 2])


@pytest.mark.parametrize(
    "name, fn, x",
    [
        ("weight", lambda w: mg.cross_entropy(LOGITS, CLASSES, w), np.array([1.0, 2.0, 0.5])),
        ("weight", lambda w: F.nll_loss(LOGITS, CLASSES, weight=w), np.array([1.0, 2.0, 0.5])),
        ("weight", lambda w: mg.linear_cross_entropy(LOGITS, np.eye(3), CLASSES, weight=w),
         np.array([1.0, 2.0, 0.5])),
        ("running_mean", lambda m: mg.batch_norm(LOGITS, m, np.ones(3)), np.zeros(3)),
        ("running_var", lambda v: F.batch_norm(LOGITS, np.zeros(3), v), np.ones(3)),
        ("positions", lambda p: mg.rotary(M[None], positions=p), np.array([0.5, 1.5, 2.5])),
        ("positions", lambda p: mg.rotary_angles(p, 4), np.array([0.5, 1.5, 2.5])),
        ("fill_value", lambda v: xp.full_like(xp.asarray(X), v), SCALAR),
        ("range", lambda r: mg.histogram(W, 3, range=(r, 2.0))[1], SCALAR),
        ("range", lambda r: mg.histogram2d(W, X, 3, range=((0.0, 2.0), (r, 2.0)))[2], SCALAR),
        ("range", lambda r: mg.histogramdd(M, 3, range=((r, 2.0),) * 4)[1][0], SCALAR),
        ("range", lambda r: np.histogram_bin_edges(mg.tensor(W), 3, range=(r, 2.0)), SCALAR),
        ("range", lambda r: mg.histogram(W, 3, range=r)[1], np.array([0.3, 2.0])),
        ("eps", lambda e: mg.layer_norm(M, 4, eps=e), SCALAR),
        ("ddof", lambda d: mg.var(X, ddof=d), SCALAR),
        ("correction", lambda d: mg.std(X, correction=d), SCALAR),
        ("beta", lambda b: mg.softplus(X, beta=b), SCALAR),
        ("delta", lambda d: mg.huber(X, W, delta=d), SCALAR),
        ("alpha", lambda a: mg.elu(X, alpha=a), SCALAR),
        ("max_norm", lambda n: F.embedding(INDEX, mg.tensor(M), max_norm=n), SCALAR),
    ],
)  # fmt: skip
def test_a_constant_that_requires_a_gradient_is_refused_by_its_name(name, fn, x):
    message = rf"{name} is a constant here.*pass {name}(\.detach\(\)|={name}\.item\(\))"
    with pytest.raises(TypeError, match=message):
        fn(mg.tensor(x, requires_grad=True))
    with pytest.raises(TypeError, match=message):
        func.jvp(fn, (mg.tensor(x),), (mg.ones_like(x),))
    with pytest.raises(TypeError, match=message):
        func.grad(lambda v: mg.sum(fn(v)))(mg.tensor(x))
    fn(mg.tensor(x))


def test_a_function_that_detaches_is_told_of():
    with pytest.raises(GradcheckError, match="depends on argument 0"):
        seen(lambda x: mg.tensor(np.square(x.numpy())), X)


def test_what_changes_by_jumps_alone_owes_no_gradient():
    for fn in (mg.floor, mg.sign, lambda x: mg.astype(mg.argsort(x), np.float64), mg.spacing):
        assert seen(fn, X) == 0
