"""How a tensor looks in the terminal."""

from typing import Any

import numpy as np

from .graph import Leaf


def tensor_text(x: Any) -> str:
    """NumPy's print of the values, then what NumPy does not know: dtype, device, history."""
    notes = []
    if x.level == 0 and hasattr(x.data, "__array_interface__"):
        body = np.array2string(x.data, separator=", ", prefix="tensor(")
        if x.dtype not in (np.dtype(float), np.dtype(int), np.dtype(bool), np.dtype(complex)):
            notes.append(f"dtype={x.dtype}")
    else:
        body = repr(x.data)
    if x.level == 0 and x.device != "cpu":
        notes.append(f"device={x.device}")
    if x.node is not None:
        notes.append("requires_grad=True" if x.node.__class__ is Leaf else f"grad_fn={x.node!r}")
    return f"tensor({', '.join([body, *notes])})"
