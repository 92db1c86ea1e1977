"""Gates and whole sequences of recurrent networks as single ops, beside the same made of ops."""

import math
import warnings

import numpy as np
import pytest

import minigrad as mg
from minigrad.engine.registry import op
from minigrad.ops.recurrent.steps import unbind

rng = np.random.default_rng(0)
T, N, H = 4, 3, 5
LIVE = np.array([[1, 1, 0], [1, 1, 1], [1, 0, 1], [0, 0, 1]], bool)[..., None]


def lstm_step(x, r, states):
    i, f, g, o = np.split(x + r, 4, -1)
    c = op.sigmoid(f) * states[1] + op.sigmoid(i) * np.tanh(g)
    return op.sigmoid(o) * np.tanh(c), c


def gru_step(x, r, states):
    (a1, a2, a3), (r1, r2, r3) = np.split(x, 3, -1), np.split(r, 3, -1)
    z, n = op.sigmoid(a2 + r2), np.tanh(a3 + op.sigmoid(a1 + r1) * r3)
    return ((1 - z) * n + z * states[0],)


def loop(step, a, w, states, b, live, reverse):
    found = [None] * len(a)
    for t in range(len(a))[:: -1 if reverse else 1]:
        after = step(a[t], states[0] @ w.T + b, states)
        if live is not None:
            after = [op.where(live[t], y, x) for x, y in zip(states, after, strict=True)]
        found[t] = states = after
    return [op.stack(ys) for ys in zip(*found, strict=True)]


def lstm(a, w, h, c, live=None, reverse=False):
    return loop(lstm_step, a, w, (h, c), 0.0, live, reverse)


def gru(a, w, h, b, live=None, reverse=False):
    return loop(gru_step, a, w, (h,), b, live, reverse)


def tanh(a, w, h, live=None, reverse=False):
    step = lambda x, r, states: (np.tanh(x + r),)
    return loop(step, a, w, (h,), 0.0, live, reverse)


def relu(a, w, h, live=None, reverse=False):
    step = lambda x, r, states: (op.relu(x + r),)
    return loop(step, a, w, (h,), 0.0, live, reverse)


def tanh_scan(*given, **how):
    return op.rnn_scan(*given, **how)


def relu_scan(*given, **how):
    return op.rnn_scan(*given, relu=True, **how)


def lstm_scan(*given, **how):
    return op.lstm_scan(*given, **how)[:2]


def gru_scan(*given, **how):
    return op.gru_scan(*given, **how)[:1]


SHAPES = {
    tanh_scan: [(T, N, H), (H, H), (N, H)],
    relu_scan: [(T, N, H), (H, H), (N, H)],
    lstm_scan: [(T, N, 4 * H), (4 * H, H), (N, H), (N, H)],
    gru_scan: [(T, N, 3 * H), (3 * H, H), (N, H), (3 * H,)],
}
SCANS = [tanh_scan, relu_scan, lstm_scan, gru_scan]
PAIRS = list(zip(SCANS, [tanh, relu, lstm, gru], strict=True))
FORMS = [(None, False), (None, True), (LIVE, False), (LIVE, True)]


def drawn(fn):
    return [rng.standard_normal(shape) for shape in SHAPES[fn]]


def weighted(ys, weights):
    return sum([(y * g).sum() for y, g in zip(ys, weights, strict=True)])


def all_close(xs, ys, tolerance=1e-12):
    for x, y in zip(xs, ys, strict=True):
        np.testing.assert_allclose(x.detach().numpy(), y.detach().numpy(), tolerance, tolerance)


@pytest.mark.parametrize(("live", "reverse"), FORMS)
@pytest.mark.parametrize(("fused", "composed"), PAIRS)
def test_a_scan_and_its_first_two_derivatives_are_those_of_a_loop_of_ops(
    fused, composed, live, reverse
):
    arrays = drawn(fused)
    weights = [rng.standard_normal((T, N, H)) for _ in range(2)]
    inner = [rng.standard_normal(x.shape) for x in arrays]
    found = []
    for fn in (fused, composed):
        xs = [mg.tensor(x, requires_grad=True) for x in arrays]
        ys = fn(*xs, live=live, reverse=reverse)
        loss = weighted(ys, weights[: len(ys)])
        first = mg.grad(loss, xs, create_graph=True)
        second = mg.grad(weighted(first, inner), xs)
        found.append([*ys, *first, *second])
    all_close(*found)


@pytest.mark.parametrize("live", [None, LIVE])
@pytest.mark.parametrize("fn", SCANS)
def test_the_gradient_on_arrays_is_the_recorded_one(fn, live):
    xs = [mg.tensor(x, requires_grad=True) for x in drawn(fn)]
    loss = op.sum(op.square(fn(*xs, live=live)[-1]))
    all_close(mg.grad(loss, xs, retain_graph=True), mg.grad(loss, xs, create_graph=True))


@pytest.mark.parametrize(("live", "reverse"), FORMS)
@pytest.mark.parametrize(("fused", "composed"), PAIRS)
def test_forward_mode_in_any_input_is_that_of_a_loop_of_ops(fused, composed, live, reverse):
    xs, ts = ([mg.tensor(x) for x in drawn(fused)] for _ in range(2))
    for i in range(len(xs)):
        found = []
        for fn in (fused, composed):

            def moved(x, fn=fn, i=i):
                return fn(*xs[:i], x, *xs[i + 1 :], live=live, reverse=reverse)[-1]

            found.append(mg.func.jvp(moved, (xs[i],), (ts[i],))[1])
        all_close([found[0]], [found[1]], 1e-11)


@pytest.mark.parametrize(("fused", "composed"), PAIRS)
def test_forward_mode_over_reverse_and_over_vmap_is_that_of_a_loop_of_ops(fused, composed):
    xs, ts = ([mg.tensor(x) for x in drawn(fused)] for _ in range(2))
    many = mg.tensor(rng.standard_normal((2, *xs[0].shape)))
    found = []
    for fn in (fused, composed):

        def slope(*xs, fn=fn):
            return mg.func.grad(lambda *xs: (fn(*xs)[-1] ** 2).sum(), 1)(*xs)

        def each(a, fn=fn):
            return mg.func.vmap(lambda a: fn(a, *xs[1:])[0])(a)

        tangents = mg.func.jvp(slope, xs, ts)[1], mg.func.jvp(each, (many,), (2 * many,))[1]
        found.append(tangents)
    all_close(*found, 1e-10)


@pytest.mark.parametrize("which", [(0,), (1,), (0, 2), (1, -1), (0, 1, 2, 3)])
@pytest.mark.parametrize("fn", SCANS)
def test_vmap_gives_what_each_example_gives_in_one_call(fn, which):
    arrays = drawn(fn)
    count = len(arrays)
    in_dims = tuple([0 if i in which or i - count in which else None for i in range(count)])
    xs = [
        x if dim is None else rng.standard_normal((2, *x.shape))
        for x, dim in zip(arrays, in_dims, strict=True)
    ]

    def gradients(*xs):
        return mg.func.grad(lambda *xs: (fn(*xs, live=LIVE)[-1] ** 2).sum(), tuple(range(count)))(
            *xs
        )

    with warnings.catch_warnings():
        warnings.simplefilter("error", mg.func.VmapWarning)
        found = mg.func.vmap(gradients, in_dims)(*[mg.tensor(x) for x in xs])
    for k in range(2):
        own = [mg.tensor(x if dim is None else x[k]) for x, dim in zip(xs, in_dims, strict=True)]
        all_close([y[k] for y in found], gradients(*own), 1e-11)


@pytest.mark.parametrize("fn", SCANS)
def test_a_sequence_without_rows_is_batched_over_its_weights(fn):
    a, w, *rest = drawn(fn)
    a, rest = a[:, 0], [x[0] if x.shape == (N, H) else x for x in rest]
    ws = rng.standard_normal((2, *w.shape))
    found = mg.func.vmap(lambda w: fn(a, w, *rest)[0])(mg.tensor(ws))
    for k in range(2):
        np.testing.assert_allclose(found[k].numpy(), fn(a, ws[k], *rest)[0], 1e-12)


@pytest.mark.parametrize("inner", [(0, None), (None, 0), (0, 0)])
def test_nested_vmap_over_sequences_and_weights_is_the_double_loop(inner):
    a, w, h, c = drawn(lstm_scan)
    many, ws = rng.standard_normal((2, *a.shape)), rng.standard_normal((3, 2, *w.shape))
    one = mg.func.vmap(lambda a, w: lstm_scan(a, w, h, c)[0], inner)
    given = many if inner[0] == 0 else many[0], ws if inner[1] == 0 else ws[:, 0]
    found = mg.func.vmap(one, (None, 0))(*[mg.tensor(x) for x in given]).numpy()
    for i, j in np.ndindex(3, 2):
        own = many[j if inner[0] == 0 else 0], ws[i, j if inner[1] == 0 else 0]
        np.testing.assert_allclose(found[i, j], lstm_scan(*own, h, c)[0], 1e-12)


STEPS = [
    (lambda z, c: op.lstm_gates(z, c)[:2], lambda z, c: lstm_step(z, 0.0, (None, c)), [4, 1]),
    (lambda a, r, h: op.gru_gates(a, r, h)[:1], lambda a, r, h: gru_step(a, r, (h,)), [3, 3, 1]),
]


@pytest.mark.parametrize(("fused", "composed", "sizes"), STEPS)
def test_the_gates_of_a_step_and_two_derivatives_are_those_of_single_ops(fused, composed, sizes):
    arrays, inner, ts = ([rng.standard_normal((N, size * H)) for size in sizes] for _ in range(3))
    weights = [rng.standard_normal((N, H)) for _ in range(2)]
    found = []
    for fn in (fused, composed):
        xs = [mg.tensor(x, requires_grad=True) for x in arrays]
        ys = fn(*xs)
        of_ys = weights[: len(ys)]
        first = mg.grad(weighted(ys, of_ys), xs, create_graph=True)
        plain = mg.grad(weighted(fn(*xs), of_ys), xs)
        second = mg.grad(weighted(first, inner), xs)
        tangent = mg.func.jvp(lambda *xs, fn=fn: fn(*xs)[0], arrays, ts)[1]
        found.append([*ys, *first, *plain, *second, tangent])
    all_close(*found)


@pytest.mark.parametrize(("fused", "composed", "sizes"), STEPS)
def test_vmap_runs_the_gates_of_all_examples_at_once(fused, composed, sizes):
    arrays = [mg.tensor(rng.standard_normal((2, N, size * H))) for size in sizes]
    in_dims = (None, *[0] * (len(sizes) - 1))  # the first is shared
    given = [arrays[0][0], *arrays[1:]]

    def gradients(fn, *xs):
        return mg.func.grad(lambda *xs: (fn(*xs)[0] ** 2).sum(), tuple(range(len(xs))))(*xs)

    with warnings.catch_warnings():
        warnings.simplefilter("error", mg.func.VmapWarning)
        found = mg.func.vmap(lambda *xs: gradients(fused, *xs), in_dims)(*given)
    for k in range(2):
        own = [given[0], *[x[k] for x in given[1:]]]
        all_close([y[k] for y in found], gradients(composed, *own))


def test_one_step_is_pytorchs_cell():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    cell = torch.nn.LSTMCell(2, H, dtype=torch.float64)
    x, h, c = (torch.tensor(rng.standard_normal((N, n)), requires_grad=True) for n in (2, H, H))
    z = x @ cell.weight_ih.T + cell.bias_ih + h @ cell.weight_hh.T + cell.bias_hh
    z.retain_grad()
    g = rng.standard_normal((2, N, H))
    theirs = cell(x, (h, c))
    i, f, _, _ = torch.chunk(z, 4, -1)
    gz = mg.tensor(z.detach().numpy(), requires_grad=True)
    gc = mg.tensor(c.detach().numpy(), requires_grad=True)
    ours = op.lstm_gates(gz, gc)[:2]
    for mine, peer in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(mine.detach().numpy(), peer.detach().numpy(), 1e-12)
    weighted(ours, g).backward()
    sum((y * torch.tensor(w)).sum() for y, w in zip(theirs, g, strict=True)).backward()
    np.testing.assert_allclose(gc.grad.numpy(), c.grad.numpy(), 1e-12)
    # the bias of a cell gets the sum of gz over the rows
    np.testing.assert_allclose(gz.grad.numpy().sum(0), cell.bias_ih.grad.numpy(), 1e-11)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_gates_that_are_shut_or_wide_open_give_no_warning_and_no_nan(dtype):
    z = mg.tensor(np.repeat([-6e4, 6e4], 8).reshape(4, 4).astype(dtype), requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        h, c, _ = op.lstm_gates(z, mg.ones(4, 1, dtype=dtype))
        (h + c).sum().backward()
        a = op.reshape(z, shape=(4, 1, 4))[..., :3].detach()
        ys, _ = op.gru_scan(a, mg.ones(3, 1, dtype=dtype), mg.ones(1, 1, dtype=dtype))
    assert all(np.isfinite(x.detach().numpy()).all() for x in (h, c, z.grad, ys))


@pytest.mark.parametrize("fn", SCANS)
def test_rows_that_have_ended_keep_their_state_and_hand_its_gradient_on(fn):
    a, w, *rest = (mg.tensor(x, requires_grad=True) for x in drawn(fn))
    live = np.zeros((T, N, 1), bool)
    live[0, :2] = True
    y = fn(a, w, *rest, live=live)[0]
    assert all(np.array_equal(y.data[0], y.data[t]) for t in range(1, T))
    np.testing.assert_array_equal(y.data[0, 2], rest[0].data[2])
    y.sum().backward()
    assert not a.grad.numpy()[1:].any() and not a.grad.numpy()[0, 2].any()
    np.testing.assert_array_equal(rest[0].grad.numpy()[2], np.full(H, T))


@pytest.mark.parametrize(("fused", "composed"), PAIRS)
def test_16_bit_sequences_are_computed_in_float32_and_rounded_once(fused, composed):
    arrays = [x.astype("f2") for x in drawn(fused)]
    wide = composed(*[mg.tensor(x.astype("f4")) for x in arrays])[0].numpy()
    y = fused(*arrays)[0]
    assert y.dtype == np.float16
    np.testing.assert_allclose(y, wide, atol=2**-11, rtol=2**-11)


@pytest.mark.parametrize("narrow", range(3))
@pytest.mark.parametrize(("fused", "composed"), PAIRS)
def test_inputs_of_two_dtypes_are_computed_in_the_wider_one(fused, composed, narrow):
    arrays = drawn(fused)
    arrays[narrow] = arrays[narrow].astype("f4")
    found = []
    for fn in (fused, composed):
        xs = [mg.tensor(x, requires_grad=True) for x in arrays]
        ys = fn(*xs)
        found.append([*ys, *mg.grad(op.sum(op.square(ys[-1])), xs)])
    for x, y in zip(*found, strict=True):
        assert x.dtype == y.dtype
        tolerance = 1e-12 if x.dtype == np.float64 else 1e-6
        np.testing.assert_allclose(x.detach().numpy(), y.detach().numpy(), tolerance, tolerance)


def test_slices_share_one_gradient_and_one_that_is_not_used_has_zeros():
    x = mg.tensor(rng.standard_normal((3, 4)), requires_grad=True)
    first, _, last = unbind(x, 0)
    (first * 2 + last * 3).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), [[2.0] * 4, [0.0] * 4, [3.0] * 4])
    assert first.node.parents[0] is last.node.parents[0]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: op.lstm_gates(np.ones((2, 4)), np.ones((2, 2))), r"z must be \(…, 4H\)"),
        (lambda: lstm_scan(*[np.ones(s) for s in SHAPES[gru_scan]]), "a must be .* 4·H"),
        (lambda: lstm_scan(*drawn(lstm_scan), live=LIVE[:2]), r"live .* shape \(4, 3, 1\)"),
        (lambda: gru_scan(*drawn(gru_scan), live=1.0 * LIVE), "live must be boolean"),
        (lambda: gru_scan(*drawn(gru_scan)[:3], np.ones(H)), r"b must have shape \(15,\)"),
    ],
)
def test_a_wrong_call_says_what_is_needed(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_a_nan_before_relu_has_a_part_in_its_state_and_so_in_the_gradient():
    a = mg.tensor([[[math.nan]]], requires_grad=True)
    (h,) = op.rnn_scan(a, mg.tensor([[1.0]]), mg.tensor([[1.0]]), relu=True)
    h.backward(mg.tensor([[[1.0]]]))
    assert math.isnan(h.item())
    assert a.grad.item() == 1
