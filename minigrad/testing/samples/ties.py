"""Long rows full of equal numbers, for ops that sort, search or take the largest.

Small rows have their ties at points; finite differences are inconclusive near a tie. So points also
state the results of forms for long rows.
"""

from typing import Any

import numpy as np

from ..spec import Point

ROWS = np.random.default_rng(0).integers(-4, 5, (3, 5001)) * 0.5


def tied(rng: np.random.Generator, dtype: Any, shape: tuple) -> np.ndarray:
    """Nine different values, in no order."""
    return (rng.integers(-4, 5, shape) * 0.5).astype(dtype)


def shares(value: np.ndarray) -> np.ndarray:
    """Each element's part of the gradient of its row's `value` in ROWS: ties share equally."""
    equal = ROWS == value[:, None]
    return equal / equal.sum(-1, keepdims=True)


def in_long_rows(value: np.ndarray, grads: np.ndarray | None = None, **params: Any) -> Point:
    """The value of each of ROWS, and its gradient: `shares` unless given."""
    gradient = shares(value) if grads is None else grads
    return Point("ties in long rows", (ROWS,), value, (gradient,), params)
