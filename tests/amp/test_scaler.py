"""GradScaler: scaled losses, unscaled gradients, steps left out on Inf, a scale that adapts."""

import copy
import pickle

import numpy as np
import pytest

import minigrad as mg
from minigrad.amp import GradScaler
from minigrad.data import load_digits

pytestmark = pytest.mark.promise(
    "autocast: policy, recorded casts, backward in the forward's dtypes"
)


def one_parameter(value=1.0, **options):
    p = mg.tensor([value], dtype="float32", requires_grad=True)
    return p, mg.optim.SGD([p], lr=1.0), GradScaler(**options)


def test_a_step_is_that_of_the_unscaled_loss():
    p, optimizer, scaler = one_parameter()
    scaler.scale((p * 3).sum()).backward()
    assert p.grad.item() == 3 * 2.0**16
    scaler.step(optimizer)
    assert p.grad.item() == 3 and p.item() == -2
    scaler.update()
    assert scaler.get_scale() == 2.0**16


@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
def test_a_step_with_inf_or_nan_is_left_out_and_the_scale_falls(bad):
    p, optimizer, scaler = one_parameter()
    scaler.scale((p * bad).sum()).backward()
    assert scaler.step(optimizer) is None and p.item() == 1
    scaler.update()
    assert scaler.get_scale() == 2.0**15


def test_one_gradient_with_inf_leaves_out_the_step_of_all():
    p, q = (mg.tensor([1.0], dtype="float32", requires_grad=True) for _ in range(2))
    optimizer, scaler = mg.optim.SGD([p, q], lr=1.0), GradScaler()
    scaler.scale((p + q * np.inf).sum()).backward()
    assert scaler.step(optimizer) is None and p.item() == q.item() == 1


def test_the_scale_grows_after_so_many_good_steps():
    p, optimizer, scaler = one_parameter(growth_interval=2, init_scale=4.0)
    scales = []
    for factor in (1, 1, 1, np.inf, 1, 1):
        optimizer.zero_grad()
        scaler.scale((p * factor).sum()).backward()
        scaler.step(optimizer)
        scaler.update()
        scales.append(scaler.get_scale())
    assert scales == [4, 8, 8, 4, 4, 8]


def test_small_float16_gradients_survive():
    p = mg.tensor([1e-4], dtype="float32", requires_grad=True)
    scaler = GradScaler()

    def loss():
        with mg.autocast(mg.float16):
            return (p.reshape(1, 1) @ mg.tensor([[1e-6]], dtype="float32")).sum() * 1e-4

    loss().backward()
    assert p.grad.item() == 0  # 1e-4 · 1e-6 is below float16's smallest number
    p.grad = None
    scaler.scale(loss()).backward()
    scaler.unscale_(mg.optim.SGD([p], lr=1.0))
    assert p.grad.item() == pytest.approx(1e-10, rel=0.05)


def test_a_float16_loss_is_scaled_in_float32():
    y = mg.tensor(3.0, dtype="float16", requires_grad=True)
    scaled = GradScaler().scale({"loss": [y]})["loss"][0]
    assert scaled.dtype == np.float32 and scaled.item() == 3 * 2.0**16


def test_unscaling_first_allows_clipping():
    p, optimizer, scaler = one_parameter()
    scaler.scale((p * 3).sum()).backward()
    scaler.unscale_(optimizer)
    assert p.grad.item() == 3
    p.grad = p.grad * 0.5
    scaler.step(optimizer)
    assert p.item() == -0.5


def test_calls_in_the_wrong_order_are_told():
    p, optimizer, scaler = one_parameter()
    with pytest.raises(RuntimeError, match="update is called after step"):
        scaler.update()
    scaler.scale((p * 3).sum()).backward()
    scaler.unscale_(optimizer)
    with pytest.raises(RuntimeError, match="unscale_ was called already"):
        scaler.unscale_(optimizer)
    scaler.step(optimizer)
    with pytest.raises(RuntimeError, match="step was called already"):
        scaler.step(optimizer)
    with pytest.raises(RuntimeError, match="before step"):
        scaler.unscale_(optimizer)


def test_float16_parameters_are_refused():
    p = mg.tensor([1.0], dtype="float16", requires_grad=True)
    scaler, optimizer = GradScaler(init_scale=2.0), mg.optim.SGD([p], lr=1.0)
    scaler.scale((p * 3).sum()).backward()
    with pytest.raises(ValueError, match="Keep parameters in float32"):
        scaler.step(optimizer)


def test_state_goes_on_where_it_was():
    p, optimizer, scaler = one_parameter(growth_interval=3, init_scale=4.0)
    scaler.scale((p * 1).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    other = GradScaler()
    other.load_state_dict(scaler.state_dict())
    assert other.state_dict() == scaler.state_dict()
    assert other.state_dict()["_growth_tracker"] == 1
    with pytest.raises(ValueError, match="missing"):
        other.load_state_dict({"scale": 1.0})
    with pytest.raises(ValueError, match="init_scale must be above 0"):
        other.load_state_dict({**scaler.state_dict(), "scale": -1.0})
    assert other.get_scale() == 4


def test_a_scaler_is_not_copied_where_the_copy_would_unscale_twice():
    p, optimizer, scaler = one_parameter()
    scaler.scale((p * p).sum()).backward()
    scaler.unscale_(optimizer)
    for clone in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(RuntimeError, match="before scale\\(\\) or after update\\(\\)"):
            clone(scaler)
    scaler.step(optimizer)
    scaler.update()
    assert copy.deepcopy(scaler).state_dict() == scaler.state_dict()


def test_a_disabled_scaler_passes_everything_through():
    p, optimizer, scaler = one_parameter(enabled=False)
    loss = (p * 3).sum()
    assert scaler.scale(loss) is loss and scaler.get_scale() == 1 and scaler.state_dict() == {}
    loss.backward()
    scaler.step(optimizer)
    scaler.update()
    assert p.item() == -2


@pytest.mark.parametrize(
    ("name", "value"),
    [("init_scale", 0), ("growth_factor", 1), ("backoff_factor", 1), ("growth_interval", 0)],
)
def test_values_out_of_range_are_refused(name, value):
    with pytest.raises(ValueError, match=name):
        GradScaler(**{name: value})


def accuracy_after_training(dtype):
    """A small MLP on the digits, three passes, without or with autocast and a scaler."""
    mg.manual_seed(0)
    model = mg.nn.Sequential(mg.nn.Linear(64, 32), mg.nn.ReLU(), mg.nn.Linear(32, 10))
    for p in model.parameters():
        p.data = p.data.astype(np.float32)
    optimizer = mg.optim.Adam(model.parameters(), lr=3e-3)
    scaler = GradScaler(enabled=dtype == mg.float16)
    images, labels = (column for column in load_digits()[:])
    x, targets = mg.tensor(images.reshape(-1, 64)), mg.tensor(labels)
    for start in [*range(0, 1400, 50)] * 6:
        optimizer.zero_grad()
        with mg.autocast(dtype or mg.float16, enabled=dtype is not None):
            y = model(x[start : start + 50])
            loss = mg.cross_entropy(y, targets[start : start + 50])
        assert y.dtype == (dtype or np.float32) and loss.dtype == np.float32
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    with mg.no_grad():
        return float((model(x[1400:]).argmax(axis=1) == targets[1400:]).mean())


def test_training_in_16_bits_ends_near_float32():
    exact = accuracy_after_training(None)
    assert exact > 0.85
    for dtype in (mg.bfloat16, mg.float16):
        assert accuracy_after_training(dtype) > exact - 0.02
