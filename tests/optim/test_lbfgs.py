"""L-BFGS follows PyTorch's step for step, and finds minima that gradient descent does not."""

import numpy as np
import pytest

import minigrad as mg
from minigrad import optim


def rosenbrock(x):
    return ((1 - x[:-1]) ** 2 + 100 * (x[1:] - x[:-1] ** 2) ** 2).sum()


def run(optimizer, x, steps):
    losses = []

    def closure():
        optimizer.zero_grad()
        loss = rosenbrock(x)
        loss.backward()
        return loss

    for _ in range(steps):
        losses.append(optimizer.step(closure).item())
    return losses


@pytest.mark.parametrize("search", [None, "strong_wolfe"])
@pytest.mark.parametrize("history", [3, 100])
def test_ten_steps_equal_pytorchs(search, history):
    torch = pytest.importorskip("torch")
    start = np.array([-1.2, 1.0, 0.3, 2.0])
    options = {"lr": 1.0 if search else 1e-3, "max_iter": 4, "history_size": history}
    x, z = mg.tensor(start, requires_grad=True), torch.tensor(start, requires_grad=True)
    ours = run(optim.LBFGS([x], **options, line_search_fn=search), x, 10)
    theirs = run(torch.optim.LBFGS([z], **options, line_search_fn=search), z, 10)
    np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-14)
    np.testing.assert_allclose(x.data, z.detach().numpy(), rtol=1e-6)


def test_parameters_in_parts_step_as_one_whole_does():
    start, after = [-1.2, 1.0, 0.3, 2.0], []
    for cuts in ([4], [1, 2, 1]):
        ends = np.cumsum(cuts)
        parts = [
            mg.tensor(start[end - n : end], requires_grad=True)
            for n, end in zip(cuts, ends, strict=True)
        ]
        optimizer = optim.LBFGS(parts, max_iter=4, line_search_fn="strong_wolfe")

        def closure(parts=parts, optimizer=optimizer):
            optimizer.zero_grad()
            loss = rosenbrock(mg.concatenate(parts))
            loss.backward()
            return loss

        optimizer.step(closure)
        after.append(np.concatenate([p.data for p in parts]))
    assert np.array_equal(*after)


def test_the_minimum_is_found():
    x = mg.tensor([-1.2, 1.0], requires_grad=True)
    losses = run(optim.LBFGS([x], max_iter=50, line_search_fn="strong_wolfe"), x, 3)
    assert losses[-1] < 1e-8
    np.testing.assert_allclose(x.data, [1, 1], atol=1e-3)


def test_a_resumed_run_goes_on_as_if_never_stopped():
    x = mg.tensor([-1.2, 1.0], requires_grad=True)
    optimizer = optim.LBFGS([x], max_iter=3, line_search_fn="strong_wolfe")
    run(optimizer, x, 2)
    z = mg.tensor(x.data, requires_grad=True)
    resumed = optim.LBFGS([z])
    resumed.load_state_dict(optimizer.state_dict())
    run(optimizer, x, 2), run(resumed, z, 2)
    assert np.array_equal(x.data, z.data)


@pytest.mark.parametrize("search", [None, "strong_wolfe"])
def test_a_run_that_pytorch_began_goes_on(search):
    torch = pytest.importorskip("torch")
    options = {"lr": 1.0 if search else 1e-3, "max_iter": 4, "history_size": 3}
    z = torch.tensor([-1.2, 1.0, 0.3, 2.0], dtype=torch.float64, requires_grad=True)
    theirs = torch.optim.LBFGS([z], **options, line_search_fn=search)
    run(theirs, z, 5)
    x = mg.tensor(z.detach().numpy().copy(), requires_grad=True)
    ours = optim.LBFGS([x])
    ours.load_state_dict(theirs.state_dict())
    np.testing.assert_allclose(run(ours, x, 5), run(theirs, z, 5), rtol=1e-6, atol=1e-14)


@pytest.mark.parametrize("most", [0, 1, 2, 4, 7])
def test_a_line_search_ends_with_the_evaluations_of_its_step(most):
    x, calls = mg.tensor([-1.2, 1.0, 0.3, 2.0], requires_grad=True), []

    def closure():
        calls.append(1)
        optimizer.zero_grad()
        loss = rosenbrock(x)
        loss.backward()
        return loss

    options = {"max_iter": 50, "max_eval": most, "line_search_fn": "strong_wolfe"}
    optimizer = optim.LBFGS([x], lr=1e-6, **options)  # a step so small must grow many times
    optimizer.step(closure)
    assert len(calls) <= max(most, 1) + 1


def test_a_step_without_closure_says_what_one_is():
    with pytest.raises(ValueError, match="closure that clears the gradients"):
        optim.LBFGS([mg.tensor([1.0], requires_grad=True)]).step()


@pytest.mark.parametrize("search", [None, "strong_wolfe"])
def test_complex_parameters_step_as_pytorchs_do(search):
    torch = pytest.importorskip("torch")
    start, goal = np.array([1 + 2j, -3j, 0.5]), np.array([2 - 1j, 1 + 1j, -4j])
    scale = np.array([1.0, 5.0, 20.0])
    options = {"lr": 1.0 if search else 1e-2, "max_iter": 3, "line_search_fn": search}

    def trained(library, make, steps, state=None):
        x, by = make(start), make(scale)
        x.requires_grad = True
        optimizer = library.LBFGS([x], **options)
        if state:
            optimizer.load_state_dict(state)

        def closure():
            optimizer.zero_grad()
            loss = (abs(x - make(goal)) ** 2 * by).sum()
            loss.backward()
            return loss

        for _ in range(steps):
            optimizer.step(closure)
        return x.detach().numpy(), optimizer.state_dict()

    (expected, theirs), (found, _) = (
        trained(torch.optim, torch.tensor, 2), trained(optim, mg.tensor, 2)
    )  # fmt: skip
    np.testing.assert_allclose(found, expected, rtol=1e-7)
    from_theirs, _ = trained(optim, mg.tensor, 2, theirs)
    going_on, _ = trained(torch.optim, torch.tensor, 2, theirs)
    np.testing.assert_allclose(from_theirs, going_on, rtol=1e-6)


@pytest.mark.parametrize("dtype", [mg.float16, mg.bfloat16])
def test_sixteen_bit_parameters_step_in_float32(dtype):
    x = mg.tensor([300.0, -200.0, 5.0], dtype=dtype, requires_grad=True)
    scale = mg.tensor([1.0, 2.0, 30.0], dtype=mg.float32)
    optimizer = optim.LBFGS([x], line_search_fn="strong_wolfe")

    def closure():
        optimizer.zero_grad()
        loss = ((x.astype(mg.float32) - 1) ** 2 * scale).sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    np.testing.assert_allclose(x.data.astype(np.float32), 1, rtol=1e-2)


@pytest.mark.parametrize(
    ("closure", "error", "said"),
    [
        (mg.ones(()), TypeError, r"needs a closure .* got float64 \(\)"),
        (lambda: None, ValueError, "the closure returned None; it must return the loss"),
    ],
)
def test_a_closure_is_a_function_that_returns_the_loss(closure, error, said):
    with pytest.raises(error, match=said):
        optim.LBFGS([mg.ones(2, requires_grad=True)]).step(closure)


# A valley among waves: the interpolated place lies close to an end of the bracket once, or twice.
@pytest.mark.parametrize(
    ("centre", "power", "scale", "pitch", "waves", "valley", "start"),
    [
        ((-0.6326, 0.8233), 2.0, 0.2388, 1.1836, 2.0119, 12.9438, (2.7104, 0.282)),
        ((2.7151, -0.1274), 1.5, 3.5869, 5.1426, 2.0334, 7.3764, (3.2422, 3.8505)),
        ((4.2376, -2.6841), 2.0, 4.9183, 5.1038, 2.3347, 17.7698, (0.16, 3.3022)),
        ((-0.9066, -1.5656), 4.0, 1.3052, 4.2079, 2.8491, 16.1547, (2.8283, 2.5956)),
    ],
)
def test_a_line_search_among_waves_takes_pytorchs_steps(
    centre, power, scale, pitch, waves, valley, start
):
    torch = pytest.importorskip("torch")

    def losses(library, optimizer_class, x, c):
        def closure():
            optimizer.zero_grad()
            loss = scale * (abs(x - c) ** power).sum() + waves * library.sin(pitch * x).sum()
            loss = loss + valley * (x[0] * x[1] - 1) ** 2
            loss.backward()
            return loss

        optimizer = optimizer_class(
            [x], lr=1.0, max_iter=5, history_size=5, line_search_fn="strong_wolfe"
        )
        return [optimizer.step(closure).item() for _ in range(6)]

    ours = losses(mg, optim.LBFGS, mg.tensor(start, requires_grad=True), np.array(centre))
    begin = torch.tensor(start, dtype=torch.float64, requires_grad=True)
    theirs = losses(torch, torch.optim.LBFGS, begin, torch.tensor(centre, dtype=torch.float64))
    np.testing.assert_allclose(ours, theirs, rtol=1e-6)


@pytest.mark.parametrize(
    ("loss", "start"),
    [
        (lambda x: abs(x - 7.0).sum(), [1.0, 1.0]),
        (lambda x: abs(x - 100.0).sum(), [1.0, 2.0]),
        (lambda x: ((1 - x) * (x < 1)).sum(), [-50.0, -2.0]),  # hinge
    ],
)
def test_a_line_search_along_a_straight_line_takes_pytorchs_steps(loss, start):
    torch = pytest.importorskip("torch")

    def losses(x, optimizer):
        def closure():
            optimizer.zero_grad()
            y = loss(x)
            y.backward()
            return y

        return [optimizer.step(closure).item() for _ in range(3)]

    x = mg.tensor(start, requires_grad=True)
    z = torch.tensor(start, dtype=torch.float64, requires_grad=True)
    ours = losses(x, optim.LBFGS([x], line_search_fn="strong_wolfe"))
    theirs = losses(z, torch.optim.LBFGS([z], line_search_fn="strong_wolfe"))
    np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("search", [None, "strong_wolfe"])
def test_a_step_after_one_that_found_the_slope_too_flat_to_move_stays_there_too(search):
    x = mg.tensor([1e-5], requires_grad=True)
    optimizer = optim.LBFGS([x], line_search_fn=search)

    def closure():
        optimizer.zero_grad()
        loss = (x * x).sum() / 2
        loss.backward()
        return loss

    losses = [optimizer.step(closure).item() for _ in range(3)]
    assert losses == pytest.approx([5e-11] * 3, rel=1e-12)
