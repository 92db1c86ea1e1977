"""Compiled kernels for windows of images, while mg.accelerate is on."""

from typing import Any

_given: Any = None


def use_compiled(kernels: Any) -> None:
    """Let `kernels` compute windows where they can; None: NumPy computes all.

    columns, fold   like those of fast/windows.py; None as a result: NumPy computes it
    winograd        the transforms of Winograd's convolution, for the form that uses them
    """
    global _given
    _given = kernels


def compiled_kernels() -> Any:
    """The kernels in use, or None."""
    return _given
