"""Devices by name, what is copied between them, and what the errors say."""

import subprocess
import sys

import numpy as np
import pytest

import minigrad as mg


def test_importing_minigrad_does_not_import_cupy():
    code = "import minigrad, sys; minigrad.cuda.is_available; print('cupy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout == "False\n"


def test_without_a_gpu_the_error_says_what_is_missing():
    if mg.cuda.is_available():
        pytest.skip("there is a GPU here")
    with pytest.raises(mg.cuda.DeviceError, match="CuPy"):
        mg.zeros(3, device="cuda")
    assert mg.cuda.device_count() == 0


def test_the_array_namespace_lists_the_gpus_that_are_there(fake, monkeypatch):
    def none_there():
        raise RuntimeError("cudaErrorNoDevice: no CUDA-capable device is detected")

    devices = mg.array_api.__array_namespace_info__().devices
    assert devices() == ["cpu", "cuda:0"]
    monkeypatch.setattr(fake.cuda, "is_available", lambda: False)
    monkeypatch.setattr(fake.cuda.runtime, "getDeviceCount", none_there)
    assert devices() == ["cpu"]


@pytest.mark.parametrize("name", ["gpu", "cuda:x", "cuda:-1", "cpu:0", ""])
def test_an_unknown_device_names_the_choices(name):
    with pytest.raises(ValueError, match="use 'cpu', 'cuda' or 'cuda:0'"):
        mg.zeros(3, device=name)


def test_a_gpu_that_is_not_there_is_named_with_how_many_there_are(fake):
    with pytest.raises(mg.cuda.DeviceError, match=r"'cuda:7'.*1 GPU"):
        mg.zeros(3, device="cuda:7")


@pytest.mark.parametrize(
    "make",
    [
        lambda d: mg.zeros(2, 3, device=d),
        lambda d: mg.ones(2, device=d),
        lambda d: mg.empty(2, device=d),
        lambda d: mg.full((2,), 3.0, device=d),
        lambda d: mg.arange(4, device=d),
        lambda d: mg.linspace(0, 1, 5, device=d),
        lambda d: mg.eye(3, device=d),
        lambda d: mg.rand(5, device=d),
        lambda d: mg.randn(5, device=d),
        lambda d: mg.randint(0, 9, (5,), device=d),
        lambda d: mg.tensor([1.0, 2.0], device=d),
        lambda d: mg.zeros_like(mg.ones(3, device=d)),
        lambda d: mg.tensor(np.ones(3)).to(d),
    ],
)
def test_creation_puts_the_array_where_it_is_told(make, fake):
    assert make("cuda").device == "cuda:0"
    assert make("cpu").device == "cpu"


@pytest.mark.parametrize("make", [mg.tensor, mg.as_tensor])
def test_an_array_on_a_gpu_becomes_a_tensor_there_unless_told_otherwise(make, fake):
    array = mg.arange(4.0, device="cuda").data
    before = mg.cuda.transfers()
    assert make(array).device == "cuda:0"
    assert mg.cuda.transfers() == before
    assert make(array, device="cpu").device == "cpu"


def test_there_and_back_is_the_same_and_the_gradient_comes_home(fake):
    x = mg.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = (x.to("cuda") * 2).sum()
    assert y.device == "cuda:0"
    y.backward()
    assert x.grad.device == "cpu"
    np.testing.assert_array_equal(x.grad.numpy(), [2, 2, 2])


def test_every_copy_between_host_and_device_is_counted(fake):
    before = mg.cuda.transfers()
    x = mg.tensor(np.ones(4), device="cuda")
    x.sum().item()
    x.numpy()
    after = mg.cuda.transfers()
    assert after.to_device - before.to_device == 1
    assert after.to_host - before.to_host == 2
    assert after.bytes_to_host - before.bytes_to_host == 8 + 32


@pytest.mark.layer("courtesy")
def test_a_numpy_array_beside_a_device_tensor_is_an_error_that_says_where_each_lies(fake):
    x = mg.ones(3, device="cuda")
    with pytest.raises(mg.cuda.DeviceError, match=r"mul\(.*cpu and cuda:0.*x\.to\(device\)"):
        x * np.ones(3)
    with pytest.raises(mg.cuda.DeviceError, match="different devices"):
        mg.matmul(mg.ones(3, 3), mg.ones(3, 3, device="cuda"))


@pytest.mark.parametrize("name", ["dot", "inner", "outer", "kron", "append", "block_diag"])
def test_a_number_or_a_list_beside_a_device_tensor_goes_where_that_lies(name, fake):
    call, host = getattr(mg, name), mg.tensor([1.0, 2.0])
    for other in (3.0, np.float64(3.0), *([] if name in ("dot", "inner") else [[4.0, 5.0]])):
        for order in (1, -1):
            expected = call(*(host, other)[::order])
            x = mg.tensor([1.0, 2.0], device="cuda", requires_grad=True)
            y = call(*(x, other)[::order])
            assert y.device == "cuda:0" and y.dtype == expected.dtype
            np.testing.assert_array_equal(y.numpy(), expected.numpy())
            y.sum().backward()
            assert x.grad.device == "cuda:0"


@pytest.mark.layer("courtesy")
@pytest.mark.parametrize("name", ["dot", "inner", "outer", "kron", "append", "block_diag"])
def test_an_array_beside_a_device_tensor_stays_where_it_lies(name, fake):
    with pytest.raises(mg.cuda.DeviceError):
        getattr(mg, name)(mg.ones(2, device="cuda"), np.ones(2))


@pytest.mark.parametrize(
    "call",
    [
        lambda x: mg.diff(x, prepend=1.5),
        lambda x: mg.diff(x, append=2),
        lambda x: mg.choose([1, 0], [x, 1.5]),
        lambda x: mg.choose(np.array([1, 0]), [2.5, x]),
        lambda x: mg.choose(mg.astype(x, int) - 1, [2.5, 4.5]),
    ],
    ids=["prepended", "appended", "last choice", "first choice", "each choice"],
)
def test_a_number_for_an_edge_or_a_choice_goes_where_the_tensor_lies(call, fake):
    expected = call(mg.tensor([1.0, 2.0]))
    found = call(mg.tensor([1.0, 2.0], device="cuda"))
    assert found.device == "cuda:0" and found.dtype == expected.dtype
    np.testing.assert_array_equal(found.numpy(), expected.numpy())


def test_numbers_in_sums_of_products_go_where_the_tensors_lie(fake):
    x, a = (mg.tensor([[1.0, 2.0], [3.0, 4.0]], device=d) for d in ("cuda", "cpu"))
    for call in (
        lambda m: mg.addmm(1.0, m, m, beta=0.5),
        lambda m: mg.addcmul(m, 2.0, m),
        lambda m: mg.addcdiv(m, [1.0, 2.0], m),
    ):
        y = call(x)
        assert y.device == "cuda:0"
        np.testing.assert_array_equal(y.numpy(), call(a).numpy())


def test_random_numbers_on_a_device_repeat_with_the_seed_and_stay_there(fake):
    mg.manual_seed(3)
    before = mg.cuda.transfers()
    first = mg.randn(1000, device="cuda"), mg.rand(1000, device="cuda")
    assert mg.cuda.transfers() == before
    mg.manual_seed(3)
    again = mg.randn(1000, device="cuda"), mg.rand(1000, device="cuda")
    for a, b in zip(first, again, strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())
    normal, uniform = (x.numpy() for x in first)
    assert abs(normal.mean()) < 0.15 and abs(normal.std() - 1) < 0.1
    assert 0 <= uniform.min() and uniform.max() < 1 and abs(uniform.mean() - 0.5) < 0.05


def test_a_checkpoint_draws_the_same_dropout_mask_again_on_a_device(fake):
    x = mg.ones(200, device="cuda", requires_grad=True)
    y = mg.checkpoint(lambda x: mg.dropout(x, 0.5), x)
    kept = y.numpy() != 0
    y.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy() != 0, kept)
    assert 50 < kept.sum() < 150


@pytest.mark.layer("courtesy")
def test_what_cupy_does_not_have_is_said_so(fake):
    with pytest.raises(TypeError, match=r"spacing\(.*CuPy has no such function.*x\.to\('cpu'\)"):
        mg.spacing(mg.ones(3, device="cuda"))


def test_a_number_is_a_gradient_on_a_gpu_too_and_an_array_from_elsewhere_is_refused(fake):
    x = mg.tensor(2.0, device="cuda", requires_grad=True)
    (x * 3).backward(2.0)
    assert x.grad.item() == 6 and x.grad.device == "cuda:0"
    with pytest.raises(
        mg.cuda.DeviceError, match=r"is on cpu, the tensor on cuda:0.*g\.to\('cuda:0'"
    ):
        (x * 3).backward(mg.tensor(2.0))


def test_what_probabilities_are_looked_at_for_is_a_counted_copy(fake):
    p = mg.tensor([0.2, 0.8], device="cuda")
    before = mg.cuda.transfers().to_host
    mg.bernoulli(p)
    assert mg.cuda.transfers().to_host == before + 1


def test_a_generator_that_has_not_drawn_yet_goes_on_from_the_state_it_is_given(fake):
    mg.rand(3, device="cuda")
    state = mg.get_rng_state()
    drawn = mg.rand(3, device="cuda").numpy()
    mg.manual_seed(0)
    mg.set_rng_state(state)
    np.testing.assert_array_equal(mg.rand(3, device="cuda").numpy(), drawn)


@pytest.mark.layer("courtesy")
def test_a_sum_takes_no_axes_that_the_host_refuses(fake):
    x = mg.tensor(np.ones((5, 6), np.float32))
    for axis, why in (([0, 1], "they are a tuple"), (True, "an integer is required")):
        for at in (x, x.to("cuda")):
            with pytest.raises(TypeError, match=why):
                mg.sum(at, axis=axis)


@pytest.mark.parametrize("dtype", ["bool", "int8", "int64", "float16", "float32", "complex64"])
@pytest.mark.parametrize("number", [True, 2, 0.5, 1j])
def test_a_choice_between_an_array_and_a_number_is_the_host_s(dtype, number, fake):
    x = mg.tensor(np.array([0, 1, 2, 3]).astype(dtype))
    condition = mg.tensor(np.array([True, False, True, False]))
    for pair in ((x, number), (number, x)):
        expected = mg.where(condition, *pair)
        there = [y.to("cuda") if isinstance(y, mg.Tensor) else y for y in pair]
        found = mg.where(condition.to("cuda"), *there)
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found.to("cpu").data, expected.data)


@pytest.mark.parametrize("name", ["xlogy", "xlog1py"])
@pytest.mark.parametrize("number_first", [True, False])
def test_products_with_a_logarithm_take_a_number(name, number_first, fake):
    def of(device):
        x = mg.tensor([0.5, 2.0, 3.0], dtype="float32", device=device, requires_grad=True)
        y = getattr(mg, name)(*((0.5, x) if number_first else (x, 0.5)))
        y.sum().backward()
        return y.detach().to("cpu"), x.grad.to("cpu")

    for found, expected in zip(of("cuda"), of("cpu"), strict=True):
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found.data, expected.data)


@pytest.mark.parametrize("bounds", [(0.5, 2.5), (None, 2.5), (0.5, None)])
def test_a_number_is_clipped_between_bounds_on_a_gpu(bounds, fake):
    low, high = (None if b is None else mg.tensor([b, b + 1], device="cuda") for b in bounds)
    found = mg.clip(np.float64(1.0), low, high)
    expected = mg.clip(np.float64(1.0), *(None if b is None else b.to("cpu") for b in (low, high)))
    assert found.device == "cuda:0"
    np.testing.assert_array_equal(found.numpy(), expected.numpy())


@pytest.mark.layer("courtesy")
def test_a_number_where_cupy_wants_an_array_is_named_with_the_way_to_make_one(fake):
    x = mg.tensor([1.0, 2.0], device="cuda")
    with pytest.raises(TypeError, match=r"3\.0.* is no array: give mg.tensor\(…, device='cuda:0'"):
        mg.stack([x[0], np.float64(3.0)])
