"""The ops that PyTorch has too, on every sample of the harness: values, gradients, second order.

In float64, with a random cotangent and a random second direction. Left out, and compared in the
tests of its family instead: functions of several results (lu, cummax), ctc_loss (PyTorch's gradient
differs by what log_softmax takes out again), clip (at a bound minigrad gives 0, the minimum-norm
choice) and hardsigmoid (PyTorch holds 1/6 in single precision). Forms that PyTorch does not take
are passed over; each op must have one that it does.
"""

import numpy as np
import pytest

import minigrad.testing.samples  # registers the specs  # noqa: F401
from minigrad.tensor_api.derivatives import grad
from minigrad.tensor_api.tensor import Tensor
from minigrad.testing.spec import specs

pytestmark = pytest.mark.promise("the same numbers as PyTorch")

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
F = torch.nn.functional

UNARY = """abs exp exp2 expm1 log log2 log10 log1p sqrt rsqrt reciprocal square sin cos tan sinh
cosh tanh arcsin arccos arctan arcsinh arccosh arctanh sinc sigmoid erf erfc erfinv lgamma
digamma logit floor ceil trunc rad2deg deg2rad sign nan_to_num angle real conj relu silu mish
softplus logsigmoid softsign hardswish selu relu6 tril triu ravel""".split()
BINARY = """add sub mul div pow hypot arctan2 fmod remainder maximum minimum fmax fmin logaddexp
logaddexp2 xlogy matmul inner vdot dot outer kron copysign""".split()
RENAMED = {
    "logsigmoid": F.logsigmoid, "softplus": F.softplus, "softsign": F.softsign, "relu6": F.relu6,
    "hardswish": F.hardswish, "selu": F.selu, "silu": F.silu,
    "mish": F.mish, "fix": torch.fix,
}  # fmt: skip


def dims(function):
    """The same function with PyTorch's names for axis and keepdims."""

    def renamed(*args, axis=None, keepdims=None, dtype=None, **params):
        if axis == ():
            raise NotImplementedError("an empty axis means no axis in NumPy, every one in PyTorch")
        if axis is not None:
            params["dim"] = axis
        if keepdims:
            params["keepdim"] = True
            params.setdefault("dim", tuple(range(args[0].ndim)))
        return function(*args, **params)

    return renamed


def var(function):
    def renamed(x, axis=None, ddof=0, correction=None, keepdims=False, dtype=None, mean=None):
        unbiased = ddof if correction is None else correction
        dim = tuple(range(x.ndim)) if axis is None else axis
        return function(x, dim=dim, correction=unbiased, keepdim=keepdims)

    return renamed


def along(function):
    """cumulative functions flatten when there is no axis."""

    def renamed(x, axis=None, dtype=None):
        return function(x.reshape(-1), 0) if axis is None else function(x, axis)

    return renamed


def reduced(function):
    """Extrema over an axis, a tuple, or everything."""

    def renamed(x, axis=None, keepdims=False, dtype=None):
        dim = tuple(range(x.ndim)) if axis is None else axis
        return function(x, dim=dim, keepdim=keepdims)

    return renamed


def celu(x, alpha=1.0):
    if alpha != float(np.float32(alpha)):
        raise NotImplementedError("PyTorch holds alpha in single precision")
    return F.celu(x, alpha)


def transform(function):
    """Transforms, with PyTorch's names for axis and axes."""

    def renamed(x, axis=None, axes=None, **params):
        if axis is not None or axes is not None:
            params["dim"] = axis if axes is None else axes
        return function(x, **params)

    return renamed


def with_weight(function):
    def renamed(x, target, weight=None, reduction="mean", pos_weight=None):
        pos_weight = None if pos_weight is None else torch.tensor(pos_weight)
        return function(x, target, weight, reduction=reduction, pos_weight=pos_weight)

    return renamed


COUNTERPARTS = (
    {name: RENAMED.get(name) or getattr(torch, name) for name in [*UNARY, *BINARY]}
    | {
        "sum": dims(torch.sum), "mean": dims(torch.mean), "var": var(torch.var),
        "std": var(torch.std), "amax": reduced(torch.amax), "amin": reduced(torch.amin),
        "max": reduced(torch.amax), "min": reduced(torch.amin),
        "logsumexp": reduced(torch.logsumexp), "cumsum": along(torch.cumsum),
        "cumprod": along(torch.cumprod), "logcumsumexp": along(torch.logcumsumexp),
        "softmax": lambda x, axis=-1: F.softmax(x, axis),
        "log_softmax": lambda x, axis=-1: F.log_softmax(x, axis),
        "elu": lambda x, alpha=1.0: F.elu(x, alpha),
        "celu": celu,
        "gelu": lambda x, approximate="none": F.gelu(x, approximate=approximate),
        "glu": lambda x, axis=-1: F.glu(x, axis),
        "swapaxes": lambda x, axis1, axis2: x.swapaxes(axis1, axis2),
        "moveaxis": lambda x, source, destination: torch.movedim(x, source, destination),
        "broadcast_to": lambda x, shape: x.expand(shape),
        "roll": lambda x, shift, axis=None: torch.roll(x, shift, axis),
        "take_along_axis": lambda x, i, axis=-1: torch.take_along_dim(
            x.reshape(-1) if axis is None else x, i, 0 if axis is None else axis
        ),
        "tensordot": lambda a, b, axes=2: torch.tensordot(a, b, axes),
        "linear": lambda x, w, b=None: F.linear(x, w, b),
        "conv1d": F.conv1d, "conv2d": F.conv2d, "conv3d": F.conv3d,
        "avg_pool2d": F.avg_pool2d, "max_pool2d": F.max_pool2d,
        "mse": lambda x, target, reduction="mean": F.mse_loss(x, target, reduction=reduction),
        "l1": lambda x, target, reduction="mean": F.l1_loss(x, target, reduction=reduction),
        "masked_select": torch.masked_select,
    }
    | {
        name: getattr(F, name)
        for name in """avg_pool1d avg_pool3d max_pool1d max_pool3d adaptive_avg_pool1d
        adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d adaptive_max_pool2d
        adaptive_max_pool3d max_unpool1d max_unpool2d max_unpool3d lp_pool1d lp_pool2d lp_pool3d
        conv_transpose1d conv_transpose2d conv_transpose3d cross_entropy
        scaled_dot_product_attention""".split()
    }
    | {
        "im2col": F.unfold, "col2im": F.fold, "nll": F.nll_loss,
        "huber": lambda x, t, reduction="mean", delta=1.0: F.huber_loss(
            x, t, reduction=reduction, delta=delta
        ),
        "kl_div": F.kl_div, "bce_with_logits": with_weight(F.binary_cross_entropy_with_logits),
        "cosine_embedding": F.cosine_embedding_loss, "triplet": F.triplet_margin_loss,
        "matvec": lambda a, b: (a @ b[..., None])[..., 0],
        "vecmat": lambda a, b: (a.conj()[..., None, :] @ b)[..., 0, :],
    }
    | {
        name: transform(getattr(torch.fft, name))
        for name in """fft ifft fft2 ifft2 fftn ifftn rfft rfft2 rfftn irfft irfft2 irfftn hfft
        ihfft""".split()
    }
    | {
        name: getattr(torch.linalg, name)
        for name in "inv solve det matrix_exp svdvals".split()
    }
)  # fmt: skip


def as_torch(x):
    tensor = torch.tensor(np.asarray(x))
    return tensor.requires_grad_() if tensor.is_floating_point() or tensor.is_complex() else tensor


def tracked(x):
    array = np.asarray(x)
    return Tensor(array.copy(), requires_grad=True) if array.dtype.kind in "fc" else x


def numbers(shape, dtype, rng):
    values = rng.standard_normal(shape)
    return values + 1j * rng.standard_normal(shape) if dtype.kind == "c" else values


def ours(call, args, params, rng_seed):
    """Value, gradients, and the gradients of a random projection of the gradients."""
    rng = np.random.default_rng(rng_seed)
    xs = [tracked(x) for x in args]
    leaves = [x for x in xs if isinstance(x, Tensor)]
    y = call(*xs, **params)
    if y.node is None:
        return y.data, [], []
    v = numbers(y.shape, y.dtype, rng)
    gs = grad(y, leaves, [v], create_graph=True, allow_unused=True)
    pairs = [(g, numbers(x.shape, x.dtype, rng)) for g, x in zip(gs, leaves) if g is not None]
    pairs = [(g, u) for g, u in pairs if g.node is not None]
    hs = [None] * len(leaves)
    if pairs:
        hs = grad([g for g, _ in pairs], leaves, [u for _, u in pairs], allow_unused=True)
    return (
        y.data,
        [_zero(g, x) for g, x in zip(gs, leaves)],
        [_zero(h, x) for h, x in zip(hs, leaves)],
    )


def _zero(g, x):
    return np.zeros(x.shape) if g is None else g.detach().numpy()


def theirs(call, args, params, rng_seed):
    """The same from PyTorch; no second order where it has none."""
    zero = lambda g, x: np.zeros(tuple(x.shape)) if g is None else g.numpy(force=True)
    rng = np.random.default_rng(rng_seed)
    xs = [as_torch(x) for x in args]
    leaves = [x for x in xs if x.requires_grad]
    y = call(*xs, **params)
    if not y.requires_grad:
        return y.numpy(), [], []
    v = torch.tensor(numbers(tuple(y.shape), y.numpy(force=True).dtype, rng))
    gs = torch.autograd.grad(y, leaves, v, create_graph=True, allow_unused=True)
    pairs = []
    for g, x in zip(gs, leaves):
        if g is not None:
            pairs.append((g, torch.tensor(numbers(tuple(x.shape), x.numpy(force=True).dtype, rng))))
    pairs = [(g, u) for g, u in pairs if g.requires_grad]
    hs = [None] * len(leaves)
    if pairs:
        outputs, directions = [g for g, _ in pairs], [u for _, u in pairs]
        try:
            hs = torch.autograd.grad(outputs, leaves, directions, allow_unused=True)
        except RuntimeError as error:
            if "derivative" not in str(error):
                raise
            return y.numpy(force=True), [zero(g, x) for g, x in zip(gs, leaves)], None
    gs, hs = ([zero(g, x) for g, x in zip(found, leaves)] for found in (gs, hs))
    return y.numpy(force=True), gs, hs


def compare(mine, other, what):
    scale = max(1.0, float(np.max(np.abs(other), initial=0)))
    np.testing.assert_allclose(mine, other, rtol=1e-8, atol=1e-10 * scale, err_msg=what)


@pytest.mark.parametrize("name", sorted(COUNTERPARTS))
def test_values_gradients_and_second_order_agree(name):
    spec = specs[name]
    compared = 0
    for i, sample in enumerate(spec.samples(np.random.default_rng(7), np.dtype(np.float64))):
        if sample.params.get("return_indices"):
            continue  # a pair, of which the second has no gradient: K1 compares the places
        try:
            expected = theirs(COUNTERPARTS[name], sample.args, sample.params, i)
        except (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError):
            continue  # a form that PyTorch does not take: an empty maximum, an axis tuple ...
        found = ours(spec.call, sample.args, sample.params, i)
        where = f"{name}, sample {sample.name!r}: "
        compare(found[0], expected[0], where + "value")
        for kind, mine, other in zip(("gradient", "second order"), found[1:], expected[1:]):
            if other is None:
                continue
            for slot, (a, b) in enumerate(zip(mine, other, strict=True)):
                compare(a, b, f"{where}{kind} of argument {slot}")
        compared += 1
    assert compared, f"no sample of {name} is one that PyTorch takes"
