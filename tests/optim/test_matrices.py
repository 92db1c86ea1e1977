"""Adafactor and Muon step as PyTorch's do; they see a parameter as a whole."""

import numpy as np
import pytest

import minigrad as mg
from minigrad import optim

SETTINGS = [
    ("Adafactor", {}),
    ("Adafactor", {"lr": 1.0, "maximize": True}),
    ("Adafactor", {"lr": 0.1, "beta2_decay": -0.5, "eps": (0.5, 0.1), "d": 1.5}),
    ("Adafactor", {"weight_decay": 0.2}),
    ("Muon", {}),
    ("Muon", {"lr": 0.1, "weight_decay": 0.3, "momentum": 0.5, "nesterov": False, "ns_steps": 3}),
    ("Muon", {"adjust_lr_fn": "match_rms_adamw"}),
    ("Muon", {"adjust_lr_fn": "original", "ns_coefficients": (2, -1.5, 0.5), "eps": 10.0}),
]
SHAPES = {
    "Adafactor": [(3, 4), (7,), (), (2, 3, 4), (2, 2, 3, 2), (1, 5)],
    "Muon": [(3, 4), (5, 3), (4, 4), (1, 6)],
}
BY_DEFAULT = [("Adafactor", {"lr": 0.1}), ("Muon", {"lr": 0.1})]


def leaf(data, dtype=np.float64):
    return mg.tensor(np.asarray(data, dtype), requires_grad=True)


def grouped(cls, params, **options):
    """Two groups, the second one with a learning rate of its own."""
    half = len(params) // 2
    return cls([{"params": params[:half]}, {"params": params[half:], "lr": 0.03}], **options)


def step_all(optimizer, params, gradients):
    for p, g in zip(params, gradients, strict=True):
        p.grad = None if g is None else mg.tensor(g)
    optimizer.step()


@pytest.fixture
def torch(monkeypatch):
    """PyTorch, whose Muon stays in float64 in place of bfloat16, so that digits can be compared."""
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.Tensor, "bfloat16", torch.Tensor.clone)
    return torch


@pytest.mark.parametrize(("name", "options"), SETTINGS)
def test_steps_resumed_and_from_pytorchs_state_equal_pytorchs(name, options, torch):
    rng = np.random.default_rng(0)
    ours = [leaf(rng.standard_normal(shape)) for shape in SHAPES[name]]
    theirs = [torch.tensor(p.data, requires_grad=True) for p in ours]
    one = grouped(getattr(optim, name), ours, **options)
    other = grouped(getattr(torch.optim, name), theirs, **options)
    schedules = [optim.lr_scheduler.ExponentialLR(one, 0.95),
                 torch.optim.lr_scheduler.ExponentialLR(other, 0.95)]  # fmt: skip
    for i in range(25):
        gradients = [np.asarray(rng.standard_normal(p.shape)) for p in ours]
        if i % 7 == 3:
            gradients[1] = None
        for p, g in zip(theirs, gradients, strict=True):
            p.grad = None if g is None else torch.tensor(g)
        other.step()
        step_all(one, ours, gradients)
        for schedule in schedules:
            schedule.step()
        for p, q in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(p.data, q.detach().numpy(), rtol=1e-11, atol=1e-14)
        if i in (9, 17):  # go on with new parameters and a new optimizer
            saved = (one if i == 9 else other).state_dict()
            ours = [leaf(p.data) for p in ours]
            one = grouped(getattr(optim, name), ours)
            one.load_state_dict(saved)
            state = schedules[0].state_dict()
            schedules[0] = optim.lr_scheduler.ExponentialLR(one, 0.95)
            schedules[0].load_state_dict(state)


@pytest.mark.parametrize("shape", [(32, 32), (50, 20), (15, 100)])
def test_muon_differs_from_pytorchs_bfloat16_by_its_rounding(shape):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    start = rng.standard_normal(shape).astype(np.float32)
    p, q = leaf(start, np.float32), torch.tensor(start, requires_grad=True)
    ours, theirs = optim.Muon([p], lr=0.1), torch.optim.Muon([q], lr=0.1)
    for _ in range(20):
        g = rng.standard_normal(shape).astype(np.float32)
        q.grad = torch.tensor(g)
        theirs.step()
        step_all(ours, [p], [g])
    moved = np.linalg.norm(q.detach().numpy() - start)
    # bfloat16 has 8 digits: 2⁻⁸ = 0.004 each time
    assert np.linalg.norm(p.data - q.detach().numpy()) < 0.01 * moved


def test_muon_moves_along_all_singular_vectors_alike():
    rng = np.random.default_rng(0)
    u, _, v = np.linalg.svd(rng.standard_normal((6, 9)), full_matrices=False)
    p = leaf(np.zeros((6, 9)))
    step_all(optim.Muon([p], lr=1.0, weight_decay=0), [p], [u @ np.diag(0.5 ** np.arange(6)) @ v])
    steps = u.T @ -p.data @ v.T
    np.testing.assert_allclose(steps, np.diag(np.diag(steps)), atol=1e-12)
    assert (np.diag(steps) > 0.65).all() and (np.diag(steps) < 1.2).all()


def test_the_state_of_adafactor_is_of_rows_and_columns():
    params = [leaf(np.ones((4, 7))), leaf(np.ones(5)), leaf(np.ones((2, 4, 7)))]
    optimizer = optim.Adafactor(params)
    step_all(optimizer, params, [np.ones(p.shape) for p in params])
    shapes = [
        {name: value.shape for name, value in state.items() if name != "step"}
        for state in optimizer.state_dict()["state"].values()
    ]
    assert shapes == [
        {"row_var": (4, 1), "col_var": (1, 7)},
        {"variance": (5,)},
        {"row_var": (2, 4, 1), "col_var": (2, 1, 7)},
    ]


@pytest.mark.parametrize(("name", "options"), BY_DEFAULT)
def test_a_large_parameter_is_stepped_whole(name, options):
    """It is larger than the blocks of the elementwise ones; in them its norm would be another."""
    rng = np.random.default_rng(0)
    start, g = rng.standard_normal((2, 40, 15_000))
    whole, turned = leaf(start), leaf(start.T.copy())
    for p, gradient in ((whole, g), (turned, g.T)):
        optimizer = getattr(optim, name)([p], **options, weight_decay=0)
        scale = np.sqrt(40 / 15_000) if name == "Muon" and p is turned else 1.0
        optimizer.param_groups[0]["lr"] *= scale  # Muon's steps of tall matrices are longer
        step_all(optimizer, [p], [gradient])
    assert not np.array_equal(whole.data, start)
    np.testing.assert_allclose(whole.data, turned.data.T, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("name", "options"), BY_DEFAULT)
def test_a_step_writes_into_the_parameters_own_memory(name, options):
    p, empty = leaf(np.ones((3, 5)), np.float32), leaf(np.ones((0, 3)), np.float32)
    memory = p.data
    step_all(getattr(optim, name)([p, empty], **options), [p, empty],
             [np.eye(3, 5, dtype=np.float32), np.ones((0, 3), np.float32)])  # fmt: skip
    assert p.data is memory and p.data.dtype == np.float32
    assert not np.array_equal(p.data, np.ones((3, 5)))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize(("name", "options"), BY_DEFAULT)
def test_sixteen_bit_parameters_step_in_float32(name, options, dtype):
    rng = np.random.default_rng(0)
    start = rng.standard_normal((4, 3)).astype(np.float32)
    q = mg.tensor(start, dtype=dtype, requires_grad=True)
    p = leaf(q.data.astype(np.float32), np.float32)
    g = mg.tensor(rng.standard_normal((4, 3)), dtype=dtype)
    p.grad, q.grad = mg.tensor(g.data.astype(np.float32)), g
    for parameter in (p, q):
        getattr(optim, name)([parameter], **options).step()
    np.testing.assert_array_equal(p.data.astype(q.data.dtype), q.data)


def test_loading_refuses_a_state_of_another_shape():
    p = leaf(np.ones((4, 7)))
    optimizer = optim.Adafactor([p])
    step_all(optimizer, [p], [np.ones((4, 7))])
    with pytest.raises(ValueError, match=r"row_var of parameter 0 has shape \(4, 1\), not \(7, 1"):
        optim.Adafactor([leaf(np.ones((7, 4)))]).load_state_dict(optimizer.state_dict())


MATRIX, VECTOR, COMPLEX = np.ones((2, 2)), np.ones(3), np.ones((2, 2), complex)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: optim.Adafactor([leaf(MATRIX)], beta2_decay=0.8), "beta2_decay must be 0 or less"),
        (lambda: optim.Adafactor([leaf(MATRIX)], d=0.5), "d must be 1 or more, got 0.5"),
        (lambda: optim.Adafactor([leaf(MATRIX)], eps=(-1, 0)), "eps1 must be 0 or more, got -1"),
        (lambda: optim.Adafactor([leaf(MATRIX)], eps=(None, -1)), "eps2 must be 0 or more"),
        (lambda: optim.Adafactor([leaf(COMPLEX, complex)]), r"params\[0\] of shape \(2, 2\).*real"),
        (lambda: optim.Muon([leaf(MATRIX)], lr=-1), "lr must be 0 or more, got -1"),
        (
            lambda: optim.Muon([leaf(MATRIX)], ns_steps=100),
            "ns_steps must be from 0 to 99, got 100",
        ),
        (lambda: optim.Muon([leaf(MATRIX)], adjust_lr_fn="none"), "adjust_lr_fn is None, 'orig"),
        (lambda: optim.Muon([leaf(MATRIX), leaf(VECTOR)]), r"params\[1\] of shape \(3,\).*AdamW"),
        (lambda: optim.Muon([leaf(COMPLEX, complex)]), "is complex"),
    ],
)
def test_wrong_settings_and_parameters_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_a_group_that_is_refused_is_not_kept():
    optimizer = optim.Muon([leaf(MATRIX)])
    with pytest.raises(ValueError, match="is not a matrix"):
        optimizer.add_param_group({"params": leaf(VECTOR)})
    assert len(optimizer.param_groups) == 1
