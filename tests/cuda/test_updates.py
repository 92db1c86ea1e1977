"""An optimizer's update on a GPU: recorded once, however its numbers change from step to step."""

import numpy as np
import pytest

import minigrad as mg
from minigrad import optim
from minigrad.backends.caches import Cache
from minigrad.expressions.trace import NotFusible
from minigrad.fusion import writes

on_both = pytest.mark.parametrize("kernels", ["stand-in", "gpu"], indirect=True)
OPTIMIZERS = [
    (optim.SGD, {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1}),
    (optim.Adam, {}), (optim.AdamW, {"amsgrad": True, "maximize": True}), (optim.Adamax, {}),
    (optim.NAdam, {}), (optim.RMSprop, {}), (optim.Adagrad, {}), (optim.Adadelta, {}),
    (optim.Lion, {}), (optim.ASGD, {"lr": 0.1, "lambd": 0.1, "t0": 2}), (optim.Rprop, {}),
]  # fmt: skip


@pytest.fixture
def programs(monkeypatch):
    monkeypatch.setattr(writes, "_programs", Cache("updates of a test", max_entries=64))
    return writes._programs


def stepped(cls, options, device, dtype=np.float32, steps=5):
    """Parameters after some steps, each with a learning rate of its own."""
    rng = np.random.default_rng(0)
    shapes = [(3, 5), (1000,), (30, 31), ()]
    params = [
        mg.tensor(rng.standard_normal(shape).astype(dtype), device=device, requires_grad=True)
        for shape in shapes
    ]
    optimizer = cls(params, **options)
    for i in range(steps):
        optimizer.param_groups[0]["lr"] = 0.01 / (i + 1)
        for p in params:
            p.grad = mg.tensor(rng.standard_normal(p.shape).astype(dtype), device=device)
        optimizer.step()
    return [p.detach().to("cpu").numpy() for p in params]


@on_both
@pytest.mark.parametrize("case", range(len(OPTIMIZERS)))
def test_steps_of_changing_numbers_are_the_host_s_by_one_program(kernels, programs, case):
    cls, options = OPTIMIZERS[case]
    found = stepped(cls, options, "cuda")
    for a, b in zip(found, stepped(cls, options, "cpu"), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-6, atol=2e-6)
    # the first step of momentum has no buffer yet, so a program of its own
    assert len(programs) <= 2
    assert kernels is None or len(kernels) == 5, "a step of four parameters is one kernel"


@on_both
def test_an_update_that_takes_another_branch_is_another_program(kernels, programs):
    """RAdam steps without a second moment until that is certain enough."""
    found = stepped(optim.RAdam, {}, "cuda", steps=8)
    for a, b in zip(found, stepped(optim.RAdam, {}, "cpu", steps=8), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-6, atol=2e-6)
    assert len(programs) == 2


@on_both
def test_options_that_are_no_floats_are_part_of_the_program(kernels, programs):
    stepped(optim.Adam, {}, "cuda")
    stepped(optim.Adam, {"weight_decay": 0.5}, "cuda")
    assert len(programs) == 2
    stepped(optim.Adam, {"weight_decay": 0.25}, "cuda")
    assert len(programs) == 2


@on_both
def test_sixteen_bit_parameters_are_stepped_in_float32(kernels, programs):
    found = stepped(optim.Adam, {}, "cuda", np.float16)
    for a, b in zip(found, stepped(optim.Adam, {}, "cpu", np.float16), strict=True):
        np.testing.assert_allclose(a.astype(float), b, rtol=2e-3, atol=2e-3)


def reads_an_array(x, g, state):
    x -= np.multiply(g, np.ones(3))


def looks_at_a_value(x, g, state):
    if x > 0:
        x -= g


@pytest.mark.parametrize("update", [reads_an_array, looks_at_a_value])
def test_an_update_that_is_no_work_on_one_element_is_left_to_the_words(update):
    dtypes = (np.dtype(np.float32),) * 2
    assert isinstance(writes.recorded(update, dtypes, [], {}), NotFusible)


def test_a_float_is_an_argument_and_an_integer_part_of_the_program(programs):
    def update(x, g, state):
        x -= state["rate"] * g**2

    dtypes = (np.dtype(np.float32),) * 2
    first, numbers = writes.recorded(update, dtypes, [], {"rate": 0.5})
    again, others = writes.recorded(update, dtypes, [], {"rate": 0.25})
    assert first is again and (numbers, others) == ([0.5], [0.25])
    assert writes.recorded(update, dtypes, [], {"rate": 2})[0] is not first


@on_both
@pytest.mark.parametrize("cls", [optim.Adafactor, optim.Muon])
def test_whole_matrices_are_stepped_where_they_are_without_a_kernel_of_their_own(
    kernels, programs, cls
):
    def stepped(device):
        rng = np.random.default_rng(0)
        params = [
            mg.tensor(rng.standard_normal(shape, np.float32), device=device, requires_grad=True)
            for shape in [(3, 5), (20, 7)]
        ]
        optimizer = cls(params, lr=0.1)
        for _ in range(3):
            for p in params:
                p.grad = mg.tensor(rng.standard_normal(p.shape, np.float32), device=device)
            optimizer.step()
        return [p.detach().to("cpu").numpy() for p in params]

    for a, b in zip(stepped("cuda"), stepped("cpu"), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)
    assert len(programs) == 0


@pytest.mark.parametrize("line_search_fn", [None, "strong_wolfe"])
def test_lbfgs_takes_the_steps_of_the_host(line_search_fn, fake):
    found = []
    for device in ("cpu", "cuda"):
        p = mg.tensor([3.0, -1.0, 0.5], device=device, requires_grad=True)
        optimizer = optim.LBFGS([p], lr=0.1, line_search_fn=line_search_fn)

        def closure(p=p, optimizer=optimizer):
            optimizer.zero_grad()
            loss = (p**4).sum()
            loss.backward()
            return loss

        optimizer.step(closure)
        found.append(p.to("cpu").detach().numpy())
    np.testing.assert_allclose(found[1], found[0], rtol=1e-12)
