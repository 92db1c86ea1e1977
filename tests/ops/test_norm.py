"""Normalisation: equal to its composed form, running statistics, 16-bit floats, blocks, vmap."""

import numpy as np
import pytest

import minigrad as mg
from minigrad.backends import blocks
from minigrad.backends.dtypes import finfo
from minigrad.func import jvp, vmap

rng = np.random.default_rng(0)


def leaf(*shape, dtype=float):
    return mg.tensor(rng.standard_normal(shape), dtype=dtype, requires_grad=True)


def composed(x, axis, weight=None, bias=None, eps=1e-5, centre=True):
    """The same by mean and var, whose derivatives of every order are the engine's."""
    mean = mg.mean(x, axis=axis, keepdims=True) if centre else 0
    square = mg.mean(mg.square(x - mean), axis=axis, keepdims=True)
    y = (x - mean) / mg.sqrt(square + eps)
    y = y if weight is None else y * weight
    return y if bias is None else y + bias


def column(w):
    return mg.reshape(w, shape=(-1, 1, 1))


PAIRS = {
    "layer": (lambda x, w, b: mg.layer_norm(x, (3, 5), w, b),
              lambda x, w, b: composed(x, (2, 3), w, b), [(2, 4, 3, 5), (3, 5), (3, 5)]),
    "rms": (lambda x, w: mg.rms_norm(x, 5, w, 1e-5),
            lambda x, w: composed(x, -1, w, centre=False), [(4, 5), (5,)]),
    "batch": (lambda x, w, b: mg.batch_norm(x, None, None, w, b, training=True),
              lambda x, w, b: composed(x, (0, 2, 3), column(w), column(b)),
              [(3, 4, 2, 2), (4,), (4,)]),
    "instance": (lambda x, w, b: mg.instance_norm(x, weight=w, bias=b),
                 lambda x, w, b: composed(x, (2, 3), column(w), column(b)),
                 [(3, 4, 2, 2), (4,), (4,)]),
    "group": (lambda x, w, b: mg.group_norm(x, 2, w, b),
              lambda x, w, b: composed(x.reshape(3, 2, 8), -1).reshape(3, 4, 2, 2) * column(w)
              + column(b), [(3, 4, 2, 2), (4,), (4,)]),
}  # fmt: skip


def derivatives(function, xs, order):
    """Values and all gradients, of each order a weighted sum of those of the one before."""
    found = [function(*xs)]
    for k in range(order):
        weighted = [mg.sum(y * np.cos(k + np.arange(y.size)).reshape(y.shape)) for y in found]
        total = sum(weighted[1:], weighted[0])
        found = [
            g if g is not None else mg.zeros_like(x)
            for g, x in zip(
                mg.grad(total, xs, create_graph=True, allow_unused=True), xs, strict=True
            )
        ]
    return [y.numpy() for y in found]


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("order", [0, 1, 2, 3])
def test_the_fused_form_and_its_derivatives_equal_the_composed_form(name, order):
    fused, plain, shapes = PAIRS[name]
    xs = [leaf(*shape) for shape in shapes]
    for a, b in zip(derivatives(fused, xs, order), derivatives(plain, xs, order), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9 * max(1, np.abs(b).max()))


@pytest.mark.parametrize("block", [1 << 18, 16])
@pytest.mark.parametrize("name", PAIRS)
def test_one_walk_gives_the_gradients_that_ops_with_derivatives_give(name, block, monkeypatch):
    monkeypatch.setattr(blocks, "BLOCK", block)
    fused, _, shapes = PAIRS[name]
    xs = [leaf(*shape) for shape in shapes]
    y = fused(*xs)
    g = mg.tensor(rng.standard_normal(y.shape))
    recorded = mg.grad(y, xs, g, create_graph=True)
    for a, b in zip(mg.grad(fused(*xs), xs, g), recorded, strict=True):
        np.testing.assert_allclose(a.numpy(), b.detach().numpy(), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("wanted", [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2)])
@pytest.mark.parametrize("name", ["layer", "batch", "group"])
def test_a_gradient_has_the_same_bits_whichever_others_are_wanted(name, wanted):
    fused, _, shapes = PAIRS[name]
    xs = [leaf(*shape) for shape in shapes]
    y = fused(*xs)
    g = mg.tensor(rng.standard_normal(y.shape))
    all_three = mg.grad(y, xs, g)
    alone = [x if i in wanted else x.detach() for i, x in enumerate(xs)]
    found = mg.grad(fused(*alone), [xs[i] for i in wanted], g)
    for i, a in zip(wanted, found, strict=True):
        np.testing.assert_array_equal(a.numpy(), all_three[i].numpy())


@pytest.mark.parametrize("axis", [(1,), (0,), (0, 2), (-2,), (-3, 2)])
def test_many_blocks_give_what_one_block_gives(axis, monkeypatch):
    shape = (600, 300) if len(axis) == 1 else (40, 80, 60)
    monkeypatch.setattr(blocks, "BLOCK", 1 << 13)
    assert np.prod(shape) > 2 * blocks.BLOCK
    over = {k % len(shape) for k in axis}
    wide = tuple([n if k in over else 1 for k, n in enumerate(shape)])
    xs = [leaf(*shape), leaf(*wide), leaf(*wide)]
    ours = derivatives(
        lambda x, w, b: mg.engine.registry.op.standardize(x, w, b, axis=axis, eps=1e-5), xs, 1
    )
    theirs = derivatives(lambda x, w, b: composed(x, axis, w, b), xs, 1)
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_bits_of_rows_do_not_depend_on_the_number_of_threads(dtype):
    xs = [leaf(700, 1000, dtype=dtype), *(leaf(1000, dtype=dtype) for _ in range(2))]
    assert xs[0].size > 2 * blocks.BLOCK
    g, found = mg.tensor(rng.standard_normal((700, 1000)), dtype=dtype), []
    before = mg.get_num_threads()
    try:
        for threads in (1, 2, 3):
            mg.set_num_threads(threads)
            y = mg.layer_norm(xs[0], 1000, *xs[1:])
            found.append([a.numpy().tobytes() for a in (y, *mg.grad(y, xs, g))])
    finally:
        mg.set_num_threads(before)
    assert found[0] == found[1] == found[2]


def test_what_is_not_finite_in_a_row_stays_in_that_row_and_in_the_sums_of_its_places():
    values = rng.standard_normal((4, 6))
    values[1, 2], values[2, 3] = np.nan, np.inf
    x, w = mg.tensor(values, requires_grad=True), leaf(6)
    with np.errstate(invalid="ignore"):
        y = mg.layer_norm(x, 6, w)
        gx, gw = mg.grad(y.sum(), [x, w])
    for a in (y, gx):
        assert np.isnan(a.numpy()[1:3]).all() and np.isfinite(a.numpy()[[0, 3]]).all()
    assert np.isnan(gw.numpy()).all()


@pytest.mark.parametrize("shape", [(6,), (1, 6), (0, 6), (3, 1)])
def test_few_rows_none_and_rows_of_one_place_are_normalised_as_the_composed_form(shape):
    x, w = leaf(*shape), leaf(shape[-1])
    fused, plain = mg.layer_norm(x, shape[-1:], w), composed(x, -1, w)
    g = mg.tensor(rng.standard_normal(shape))
    pairs = zip((fused, *mg.grad(fused, [x, w], g)), (plain, *mg.grad(plain, [x, w], g)))
    for a, b in pairs:
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-9, atol=1e-9)


def test_forward_mode_agrees_with_the_composed_form():
    x, w, b = (leaf(*s).detach() for s in ((4, 5), (5,), (5,)))
    ts = [leaf(*s).detach() for s in ((4, 5), (5,), (5,))]
    _, ours = jvp(lambda x, w, b: mg.layer_norm(x, 5, w, b), (x, w, b), tuple(ts))
    _, theirs = jvp(lambda x, w, b: composed(x, -1, w, b), (x, w, b), tuple(ts))
    np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-12)


@pytest.mark.parametrize("own_weight", [True, False])
@pytest.mark.filterwarnings("error")
def test_vmap_gives_each_example_what_it_gets_alone(own_weight):
    xs = leaf(3, 4, 5)
    ws = leaf(3, 5) if own_weight else leaf(5)
    axes = (0, 0) if own_weight else (0, None)

    def loss(x, w):
        return mg.sum(mg.square(mg.layer_norm(x, 5, w, w)) * np.arange(20.0).reshape(4, 5))

    total = mg.sum(vmap(loss, in_axes=axes)(xs, ws))
    alone = [loss(xs[i], ws[i] if own_weight else ws) for i in range(3)]
    for a, b in zip(
        mg.grad(total, [xs, ws]), mg.grad(sum(alone[1:], alone[0]), [xs, ws]), strict=True
    ):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-10, atol=1e-12)


# -- running statistics --------------------------------------------------------------------------


def test_training_moves_the_running_statistics_towards_mean_and_unbiased_variance():
    x = rng.standard_normal((6, 2, 3))
    mean, var = mg.tensor([1.0, 2.0]), mg.tensor([3.0, 4.0])
    mg.batch_norm(mg.tensor(x), mean, var, training=True, momentum=0.25)
    batch = x.swapaxes(0, 1).reshape(2, -1)
    np.testing.assert_allclose(mean.numpy(), 0.75 * np.array([1, 2]) + 0.25 * batch.mean(1))
    np.testing.assert_allclose(var.numpy(), 0.75 * np.array([3, 4]) + 0.25 * batch.var(1, ddof=1))


def test_evaluation_uses_the_running_statistics_and_leaves_them_alone():
    x, mean, var = leaf(4, 2), mg.tensor([1.0, 2.0]), mg.tensor([3.0, 4.0])
    y = mg.batch_norm(x, mean, var, eps=0.0)
    np.testing.assert_allclose(
        y.numpy(), (x.numpy() - mean.numpy()) / np.sqrt(var.numpy()), atol=1e-15
    )
    assert mean.tolist() == [1, 2] and var.tolist() == [3, 4]


def test_running_statistics_of_a_huge_variance_do_not_overflow():
    var = mg.tensor([1.0], dtype=np.float32)
    x = mg.tensor([[1e10], [-1e10]], dtype=np.float32)
    mg.batch_norm(x, mg.tensor([0.0], dtype=np.float32), var, training=True, momentum=1.0)
    assert var.item() == pytest.approx(2e20, rel=1e-5)


@pytest.mark.parametrize("shape", [(4, 2, 3), (64, 64, 32)])
def test_the_running_variance_of_equal_values_is_not_below_0(shape):
    mean, var = np.zeros(shape[1], np.float32), np.ones(shape[1], np.float32)
    mg.batch_norm(np.full(shape, 5, np.float32), mean, var, training=True, momentum=1.0)
    assert (var >= 0).all() and (var < 1e-10).all()


@pytest.mark.parametrize("shape", [(64, 3, 5), (64, 64, 48)], ids=["small", "large"])
def test_a_running_variance_far_below_eps_keeps_its_digits(shape):
    x = (rng.standard_normal(shape) * 1e-5).astype(np.float32)
    mean, var = np.zeros(shape[1], np.float32), np.ones(shape[1], np.float32)
    mg.batch_norm(x, mean, var, training=True, momentum=1.0, eps=1e-3)
    np.testing.assert_allclose(var, x.astype(float).var((0, 2), ddof=1), rtol=1e-5)


@pytest.mark.parametrize("norm", [mg.batch_norm, mg.instance_norm])
def test_one_running_statistic_without_the_other_is_refused(norm):
    x, some = np.ones((2, 3, 4)), np.ones(3)
    for running in ((some, None), (None, some)):
        with pytest.raises(ValueError, match="both running_mean and running_var, or neither"):
            norm(x, *running, **({"training": True} if norm is mg.batch_norm else {}))


@pytest.mark.parametrize("dtype", [np.float16, mg.bfloat16], ids=str)
def test_evaluation_of_16_bit_floats_is_rounded_once(dtype):
    x, mean, var, weight, bias = (
        rng.uniform(0.5, 3, shape).astype(dtype) for shape in ((8, 16, 5), *[(16,)] * 4)
    )
    y = mg.batch_norm(x, mean, var, weight, bias)
    exact = mg.batch_norm(*(a.astype(float) for a in (x, mean, var, weight, bias)))
    assert y.dtype == dtype
    np.testing.assert_array_equal(y, exact.astype(dtype))


def test_vmap_refuses_to_move_running_statistics():
    mean, var = mg.zeros(2), mg.ones(2)
    with pytest.raises(mg.errors.TransformError, match="running statistics would be moved"):
        vmap(lambda x: mg.batch_norm(x, mean, var, training=True))(leaf(3, 4, 2))


# -- narrow dtypes -------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_statistics_of_16_bit_floats_are_formed_in_float32(dtype):
    if dtype == "bfloat16" and not hasattr(mg, "bfloat16"):
        pytest.skip("ml_dtypes is not installed")
    x = mg.tensor(300 + rng.standard_normal((2, 4096)), dtype=dtype, requires_grad=True)
    y = mg.layer_norm(x, 4096)
    exact = x.data.astype(float)
    exact = (exact - exact.mean(1, keepdims=True)) / exact.std(1, keepdims=True)
    assert y.dtype == x.dtype
    step = 2.0**-10 if dtype == "float16" else 2.0**-7
    np.testing.assert_allclose(y.data.astype(float), exact, rtol=2 * step, atol=2 * step)


def test_a_weight_in_float32_serves_x_in_float16_and_gets_its_gradient_in_float32():
    x, w = leaf(3, 4, dtype=np.float16), leaf(4, dtype=np.float32)
    mg.sum(mg.layer_norm(x, 4, w)).backward()
    assert x.grad.dtype == np.float16 and w.grad.dtype == np.float32


@pytest.mark.parametrize("dtype", [np.float16, mg.bfloat16], ids=str)
def test_the_gradient_of_16_bit_floats_is_rounded_once(dtype):
    x, w, g = (rng.standard_normal(shape).astype(dtype) for shape in ((50, 60), (60,), (50, 60)))

    def gradient(*values):
        x, w, g = map(mg.tensor, values)
        return mg.grad(mg.layer_norm(x.requires_grad_(), 60, w), x, g).numpy()

    found, exact = gradient(x, w, g), gradient(*(a.astype(float) for a in (x, w, g)))
    assert found.dtype == dtype
    np.testing.assert_allclose(found.astype(float), exact, rtol=finfo(dtype).eps, atol=1e-5)


# -- PyTorch -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["layer", "rms", "batch", "instance", "group"])
def test_pytorch_gives_the_same_values_gradients_and_second_derivatives(name):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    f = torch.nn.functional
    peer = {
        "layer": lambda x, w, b: f.layer_norm(x, (3, 5), w, b),
        "rms": lambda x, w: f.rms_norm(x, (5,), w, 1e-5),
        "batch": lambda x, w, b: f.batch_norm(x, None, None, w, b, training=True),
        "instance": lambda x, w, b: f.instance_norm(x, weight=w, bias=b),
        "group": lambda x, w, b: f.group_norm(x, 2, w, b),
    }[name]
    fused, _, shapes = PAIRS[name]
    xs = [leaf(*shape) for shape in shapes]
    ts = [torch.tensor(x.numpy().copy(), requires_grad=True) for x in xs]
    y, z = fused(*xs), peer(*ts)
    v = rng.standard_normal(y.shape)
    gx = mg.grad(y, xs, v, create_graph=True)
    gt = torch.autograd.grad(z, ts, torch.tensor(v), create_graph=True)
    u = rng.standard_normal(xs[0].shape)
    hx = mg.grad(mg.sum(gx[0] * u), xs[:2])
    ht = torch.autograd.grad((gt[0] * torch.tensor(u)).sum(), ts[:2])
    for a, b in zip([y, *gx, *hx], [z, *gt, *ht], strict=True):
        np.testing.assert_allclose(a.numpy(), b.detach().numpy(), rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("dtype", [np.float16, mg.bfloat16, np.float32, np.float64], ids=str)
def test_rms_norm_without_eps_takes_that_of_the_dtype_it_computes_in(dtype):
    x = mg.tensor(np.full(4, 1e-3), dtype=dtype)  # its square is far below float16's ε
    of = np.float64 if dtype is np.float64 else np.float32
    value = float(x[0])
    expected = value / np.sqrt(value**2 + np.finfo(of).eps)
    y = mg.rms_norm(x, 4).numpy().astype(np.float64)
    assert np.allclose(y, expected, rtol=2 * float(finfo(dtype).eps))
