"""The real GPU; without one a test is skipped."""

import pytest

import minigrad as mg


@pytest.fixture
def gpu():
    if not mg.cuda.is_available():
        pytest.skip("no GPU here: CuPy and an NVIDIA driver are needed")
    import cupy

    return cupy
