"""A model over two GPUs of one process: each op, rule and update runs where its arrays lie."""

import numpy as np
import pytest

import minigrad as mg
from minigrad import nn, optim

pytestmark = pytest.mark.promise(
    "a graph over several GPUs of one process has a backward; ops, rules and updates run on the "
    "GPU of their arrays"
)


@pytest.fixture(params=["stand-in", "real"])
def gpus(request):
    """CuPy with two GPUs."""
    if request.param == "stand-in":
        return request.getfixturevalue("two")
    cupy = request.getfixturevalue("gpu")
    if mg.cuda.device_count() < 2:
        pytest.skip("one GPU here, and two are needed")
    return cupy


class Split(nn.Module):
    """A model in two parts, the first and the second on the GPUs that `over` names."""

    def __init__(self, first, second):
        super().__init__()
        self.first, self.second = first, second
        self.places = ["cpu", "cpu"]

    def over(self, *places):
        self.places = places
        self.first.to(places[0])
        self.second.to(places[1])
        return self

    def forward(self, x):
        return self.second(self.first(x.to(self.places[0])).to(self.places[1]))


def mlp():
    first = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Dropout(0.0))
    return Split(first, nn.Sequential(nn.Linear(16, 6), nn.Tanh(), nn.Linear(6, 4)))


def attention():
    first = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    return Split(first, nn.Sequential(nn.Flatten(), nn.Linear(24, 4)))


def convnet():
    first = nn.Sequential(nn.Conv2d(1, 3, 3, padding=1), nn.BatchNorm2d(3), nn.ReLU())
    return Split(first, nn.Sequential(nn.MaxPool2d(2), nn.Flatten(), nn.Linear(48, 4)))


SHAPES = {mlp: (5, 8), attention: (5, 3, 8), convnet: (5, 1, 8, 8)}
OPTIMIZERS = {
    "SGD": lambda p: optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.01),
    "Adam": lambda p: optim.Adam(p, lr=0.05),
    "AdamW": lambda p: optim.AdamW(p, lr=0.05, amsgrad=True),
    "RMSprop": lambda p: optim.RMSprop(p, lr=0.01, centered=True, momentum=0.5),
    "Muon": lambda p: optim.Muon([x for x in p if x.ndim == 2], lr=0.01),
    "Adagrad": lambda p: optim.Adagrad(p, lr=0.05),
    "Lion": lambda p: optim.Lion(p, lr=0.01),
}


def trained(model, places, optimizer="Adam", backward=None, steps=3, clip=False):
    """(losses, parameters) of a few steps, with the parts of the model on these devices."""
    mg.manual_seed(0)
    parts = model().over(*places)
    rng = np.random.default_rng(0)
    x = mg.tensor(rng.standard_normal(SHAPES[model]))
    target = mg.tensor(rng.integers(0, 4, 5)).to(places[1])
    steps_of = OPTIMIZERS[optimizer]([*parts.parameters()])
    losses = []
    for _ in range(steps):
        steps_of.zero_grad()
        loss = mg.cross_entropy(parts(x), target)
        (backward or mg.Tensor.backward)(loss)
        if clip:
            nn.utils.clip_grad_norm_(parts.parameters(), 0.1)
            nn.utils.clip_grad_value_(parts.parameters(), 0.05)
        steps_of.step()
        losses.append(loss.item())
    for part, place in zip((parts.first, parts.second), places, strict=True):
        assert {p.device for p in part.parameters()} == {place}
        assert {p.grad.device for p in part.parameters()} == {place}
    return losses, [p.detach().numpy() for p in parts.parameters()]


def the_same(found, expected):
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-12)
    for x, y in zip(found[1], expected[1], strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-12, atol=1e-15)


ONE, APART = ("cuda:0", "cuda:0"), ("cuda:0", "cuda:1")


@pytest.mark.parametrize("places", [APART, ("cuda:1", "cuda:0"), ("cuda:1", "cuda:1")])
@pytest.mark.parametrize("model", [*SHAPES])
def test_a_model_over_two_gpus_trains_as_on_one(model, places, gpus):
    the_same(trained(model, places), trained(model, ONE))


@pytest.mark.parametrize("optimizer", [*OPTIMIZERS])
def test_every_optimizer_updates_parameters_where_they_lie(optimizer, gpus):
    the_same(trained(mlp, APART, optimizer, clip=True), trained(mlp, ONE, optimizer, clip=True))


@pytest.mark.parametrize("which", [0, 1])
def test_which_gpu_is_the_current_one_makes_no_difference(which, gpus):
    with mg.cuda.device(which):
        found = trained(mlp, APART)
    the_same(found, trained(mlp, ONE))


@pytest.mark.parametrize("engine", ["serial", "parallel"])
def test_each_engine_walks_a_graph_over_two_gpus(engine, gpus):
    def backward(loss):
        loss.backward(engine=engine)

    the_same(trained(convnet, APART, backward=backward), trained(convnet, ONE))


def second_order(places):
    x = mg.tensor([1.0, 2.0, 3.0], device=places[0], requires_grad=True)
    w = mg.tensor([0.5, -1.0, 2.0], device=places[1], requires_grad=True)
    y = (mg.sin(x).to(places[1]) * w**2).sum()
    gx, gw = mg.grad(y, (x, w), create_graph=True)
    assert (gx.device, gw.device) == places
    (gx.to(places[1]) * gw).sum().backward()
    return [x.grad.numpy(), w.grad.numpy()]


def test_second_derivatives_cross_between_gpus(gpus):
    for found, expected in zip(second_order(APART), second_order(ONE), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12)


def pushed(places):
    def f(x):
        return mg.exp(mg.sin(x).to(places[1]) * 2).to(places[0])

    x = mg.tensor([1.0, 2.0], device=places[0])
    return [y.numpy() for y in mg.func.jvp(f, (x,), (mg.ones_like(x),))]


def test_forward_mode_crosses_between_gpus(gpus):
    np.testing.assert_allclose(pushed(APART), pushed(ONE), rtol=1e-12)


def test_vmap_crosses_between_gpus(gpus):
    x = mg.tensor(np.arange(6.0).reshape(3, 2), device="cuda:0")
    y = mg.func.vmap(lambda row: (row * 2).to("cuda:1").sum())(x)
    assert y.device == "cuda:1"
    np.testing.assert_array_equal(y.numpy(), [2, 10, 18])


def test_a_leaf_used_on_both_gpus_gets_the_sum_of_both_gradients(gpus):
    x = mg.tensor([1.0, 2.0], device="cuda:1", requires_grad=True)
    for _ in range(2):  # the second backward adds to .grad
        ((x.to("cuda:0") * 3).sum() + (x * x).sum().to("cuda:0")).backward()
    assert x.grad.device == "cuda:1"
    np.testing.assert_array_equal(x.grad.numpy(), [10, 14])


def test_hooks_and_checkpoints_get_arrays_of_the_right_gpu(gpus):
    seen = []
    x = mg.tensor([1.0, 2.0], device="cuda:1", requires_grad=True)
    y = mg.checkpoint(lambda x: mg.sin(x) * x, x)
    y.register_hook(lambda g: seen.append(g.device))
    x.register_hook(lambda g: g * 2)
    (y.to("cuda:0") * 3).sum().backward()
    assert seen == ["cuda:1"] and x.grad.device == "cuda:1"
    a = np.array([1.0, 2.0])
    np.testing.assert_allclose(x.grad.numpy(), 6 * (np.cos(a) * a + np.sin(a)))


def test_a_custom_function_runs_on_the_gpu_of_its_arrays(gpus):
    class Cube(mg.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x * x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return 3 * x * x * g

    x = mg.tensor([1.0, 2.0], device="cuda:1", requires_grad=True)
    y = Cube.apply(x)
    assert y.device == "cuda:1"
    y.to("cuda:0").sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), [3, 12])


def test_writes_reads_and_printing_need_no_current_gpu(gpus):
    x = mg.tensor(np.arange(6.0).reshape(2, 3), device="cuda:1")
    x[0] = 7.0
    x += 1
    x.data = x.clip(0, 6)
    assert x.tolist() == [[6, 6, 6], [4, 5, 6]] and float(x[1, 0]) == 4.0
    assert "cuda:1" in repr(x) and bool((x > 3).all())
    assert mg.zeros_like(x).device == mg.randn_like(x).device == "cuda:1"


def test_an_array_of_cupy_on_another_gpu_is_found_there(gpus):
    from minigrad.backends.device import On

    x = mg.Tensor(On(gpus, 1).asarray([1.0, 2.0]), requires_grad=True)
    (x * x).sum().backward()
    assert x.grad.device == "cuda:1"
    np.testing.assert_array_equal(x.grad.numpy(), [2, 4])


def test_arrays_of_two_gpus_in_one_op_are_refused(gpus):
    with pytest.raises(mg.cuda.DeviceError, match="cuda:0 and cuda:1"):
        mg.ones(2, device="cuda:0") + mg.ones(2, device="cuda:1")


def test_a_copy_waits_for_the_stream_that_writes_its_source(gpus):
    stream = mg.cuda.Stream()
    with mg.cuda.stream(stream):
        x = mg.tensor([1.0, 2.0], device="cuda:0") * 2
        y = x.to("cuda:1")
        del x
        z = mg.ones(2, device="cuda:0")  # may get the memory that the copy reads
        assert (y.tolist(), z.tolist()) == ([2, 4], [1, 1])


def test_the_whole_model_under_mixed_precision_and_its_scaler(gpus):
    def run(places):
        mg.manual_seed(0)
        model = mlp().over(*places)
        optimizer, scaler = optim.SGD(model.parameters(), lr=0.1), mg.amp.GradScaler(init_scale=8.0)
        with mg.autocast("float16", device=places[0].partition(":")[0]):
            loss = (model(mg.ones(5, 8, dtype="float32")) ** 2).mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        return [p.detach().numpy() for p in model.parameters()]

    for x, y in zip(run(APART), run(ONE), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-2, atol=1e-3)


def compiled_step(places):
    mg.manual_seed(0)
    model = mlp().over(*places)
    optimizer = optim.SGD(model.parameters(), lr=0.1)

    @mg.compile
    def step(x):
        optimizer.zero_grad()
        loss = (model(x) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss

    return step, mg.ones(5, 8)


def test_a_compiled_step_over_two_gpus_runs_as_it_stands_and_says_why(gpus):
    (step, x), (other, _) = compiled_step(APART), compiled_step(ONE)
    assert [step(x).item() for _ in range(4)] == [other.fn(x).item() for _ in range(4)]
    assert "several GPUs are in use" in step.explain()


def test_a_block_on_another_gpu_counts_once_it_is_left(fake, monkeypatch):
    monkeypatch.setattr(fake.cuda.runtime, "getDeviceCount", lambda: 2)
    seen = []
    monkeypatch.setattr(mg.backends.device, "notice_several", lambda: seen.append("several"))
    with mg.cuda.device(1):  # a program of one rank, all of which runs there
        mg.ones(2, device="cuda:1").sum()
        assert not seen
    assert seen == ["several"]
    with mg.cuda.device(0):
        pass
    assert seen == ["several"]
    with pytest.raises(KeyError), mg.cuda.device(1):
        raise KeyError  # what was made before it is there still
    assert seen == ["several", "several"]


def test_a_program_of_a_tape_refuses_arrays_of_another_gpu(gpus):
    x = mg.tensor([1.0, 2.0], device="cuda:0", requires_grad=True)
    with mg.Tape() as recorded:
        y = (mg.sin(x).to("cuda:1") * 2).sum()
    with pytest.raises(mg.errors.TapeError, match="a program runs on one GPU"):
        recorded.compile(y, inputs=[x], wrt=x)
