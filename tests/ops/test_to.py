"""x.to takes a device, a dtype or another tensor, as PyTorch's."""

import numpy as np
import pytest

import minigrad as mg


def test_to_takes_a_dtype_a_device_or_a_tensor():
    x = mg.tensor([1.0, 2.0], requires_grad=True)
    other = mg.tensor([1], dtype="float32")
    for y in (
        x.to("float32"), x.to(np.float32), x.to(mg.float32), x.to(other), x.to("cpu", "float32"),
        x.to("float32", device="cpu"), x.to(dtype="float32"), mg.to(x, "cpu", "float32"),
        x.to(other.numpy()),
    ):  # fmt: skip
        assert y.dtype == np.float32 and y.device == "cpu"
    assert x.to("bfloat16").dtype == mg.bfloat16
    assert x.to("cpu") is x and x.to(x) is x and x.to() is x


def test_the_gradient_comes_back_in_the_source_dtype():
    x = mg.tensor([1.0, 2.0], requires_grad=True)
    x.to(mg.float16).sum().backward()
    assert x.grad.dtype == np.float64


def test_what_is_neither_is_refused():
    x = mg.tensor([1.0])
    with pytest.raises(TypeError, match=r"to takes a device .* a dtype or a tensor, got 'tpu'"):
        x.to("tpu")
    with pytest.raises(TypeError, match="given already"):
        x.to("float32", mg.float16)
    with pytest.raises(TypeError, match="given already"):
        x.to("cpu", device="cuda")
