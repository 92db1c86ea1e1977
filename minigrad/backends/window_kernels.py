"""Compiled kernels for windows of images, while mg.accelerate is on."""

from typing import Any

_given: Any = None


def use_compiled(kernels: Any) -> None:
    """Let `kernels` do what they can of windows; None: NumPy does.

    columns, fold   as those of fast/windows.py, or None as a result
    winograd        the transforms of Winograd's convolution, for the form that has them
    """
    global _given
    _given = kernels


def compiled_kernels() -> Any:
    """These kernels, or None."""
    return _given
