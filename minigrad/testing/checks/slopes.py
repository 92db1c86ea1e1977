"""Slopes of a row of the table at many points at once, by finite differences; which ones are
clear."""

import numpy as np

from ..function import Function
from ..numeric import ROUNDING, STEP

_STEP = STEP / 4
_CLEAR = 1e-5  # above this share of a slope, noise makes it unclear
_SIDES = 1e-2  # so does a larger difference of the slopes from left and right


def stencil(function: Function, i: int, unit: complex = 1) -> dict[int, np.ndarray]:
    """The values where argument i is k steps away along `unit`, 1 or i, by k."""
    xs = function.xs
    return {
        k: function.value([*xs[:i], xs[i] + k * unit * _STEP, *xs[i + 1 :]])[0]
        for k in (0, 1, -1, 2, -2, 4, -4)
    }


class Slopes:
    """Slopes at many points from a stencil `at` around x, their errors, and which ones are
    clear."""

    def __init__(self, at: dict, x: np.ndarray):
        h = _STEP
        odd = {k: at[k] - at[-k] for k in (1, 2, 4)}
        self.fine, coarse = (8 * odd[1] - odd[2]) / (12 * h), (8 * odd[2] - odd[4]) / (24 * h)
        right, left = (s * (-3 * at[0] + 4 * at[s] - at[2 * s]) / (2 * h) for s in (1, -1))
        size = np.max([np.abs(y) for y in at.values()], axis=0)
        self.rounding = 4 * ROUNDING * (size + np.abs(x * self.fine))
        self.noise = 10 * np.abs(self.fine - coarse)
        self.clear = np.isfinite(size)
        self.clear &= self.noise <= _CLEAR * np.abs(self.fine) + self.rounding
        self.clear &= np.abs(right - left) <= _SIDES * np.abs(self.fine) + self.rounding
