"""16-bit products on a GPU: autocast, and the scaler that keeps small gradients."""

import numpy as np
import pytest

import minigrad as mg
from minigrad import amp, nn, optim

pytestmark = pytest.mark.promise(
    "kernels agree with float64; cuDNN and products agree; a captured step gives the eager "
    "numbers (on a GPU)"
)


@pytest.mark.parametrize("dtype", [np.float16, mg.bfloat16], ids=str)
def test_training_under_autocast_follows_float32(gpu, dtype):
    def losses(cast):
        mg.manual_seed(0)
        model = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.LayerNorm(64), nn.Linear(64, 4))
        model.to(device="cuda")
        optimizer = optim.Adam(model.parameters(), lr=0.01)
        scaler = amp.GradScaler("cuda", enabled=cast and dtype == np.float16)
        rng = np.random.default_rng(0)
        x = mg.tensor(rng.standard_normal((64, 32)).astype(np.float32), device="cuda")
        target = mg.tensor(rng.integers(0, 4, 64), device="cuda")
        found = []
        for _ in range(30):
            optimizer.zero_grad()
            with mg.autocast(dtype, device="cuda", enabled=cast):
                y = model(x)
                assert y.dtype == (dtype if cast else np.float32)
                loss = mg.cross_entropy(y, target)
            scaler.scale(loss).backward()
            assert all(p.grad.dtype == np.float32 for p in model.parameters())
            scaler.step(optimizer)
            scaler.update()
            found.append(loss.item())
        return np.array(found)

    exact, low = losses(False), losses(True)
    assert exact[-1] < 0.5 * exact[0]
    np.testing.assert_allclose(low, exact, atol=0.05 * exact[0])


def test_a_step_with_infinite_gradients_is_left_out(gpu):
    w = mg.tensor(np.ones(3, np.float32), device="cuda", requires_grad=True)
    optimizer = optim.SGD([w], lr=1.0)
    scaler = amp.GradScaler("cuda")
    w.grad = mg.tensor(np.array([1, np.inf, 1], np.float32), device="cuda")
    scaler.step(optimizer)
    scaler.update()
    np.testing.assert_array_equal(w.detach().to("cpu").numpy(), 1)
    assert scaler.get_scale() == 2.0**15


def test_sixteen_bit_products_are_summed_in_float32(gpu):
    a = mg.tensor(np.full((1, 40_000), 0.1, np.float16), device="cuda")
    y = (a @ mg.tensor(np.ones((40_000, 1), np.float16), device="cuda")).to("cpu").numpy()
    assert abs(float(y[0, 0]) - 40_000 * float(np.float16(0.1))) < 4  # one rounding to float16
