"""Where arrays live. The rules are NumPy's words; CuPy arrays take the same words."""

import sys
from types import ModuleType
from typing import Any

import numpy as np


def array_module(x: Any) -> ModuleType:
    """The module whose arrays x is made of: numpy, or cupy for an array on a GPU."""
    cupy = sys.modules.get("cupy")  # CuPy is never imported on behalf of a NumPy user
    return cupy if cupy is not None and isinstance(x, cupy.ndarray) else np


def device_of(x: Any) -> str:
    """ "cpu", or "cuda:i" for a CuPy array."""
    return "cpu" if array_module(x) is np else f"cuda:{x.device.id}"


def resolve(device: str | None) -> ModuleType:
    """The array module that makes arrays on `device` ("cpu" when None)."""
    if device in (None, "cpu"):
        return np
    if not str(device).startswith("cuda"):
        raise ValueError(f"there is no device {device!r}; use 'cpu' or 'cuda:0'")
    try:
        import cupy
    except ImportError:
        raise RuntimeError(
            f"device {device!r} needs CuPy: pip install 'minigrad-engine[gpu]' from the checkout, "
            "on a machine with an NVIDIA driver"
        ) from None
    return cupy
