"""mg.accelerate for arrays of any size: its loops are what fused programs are on the host."""

import pytest

import minigrad as mg


@pytest.fixture
def loops(monkeypatch):
    """mg.accelerate on, for small arrays too; skips without numba, the extra `fast`."""
    pytest.importorskip("numba")
    from minigrad.compiled import install, launch

    monkeypatch.setattr(install, "LEAST", 1)
    monkeypatch.setattr(launch, "SHORT", 1)
    with mg.accelerate(process=False):
        yield


@pytest.fixture
def accelerated():
    """mg.accelerate as users have it: ops of small arrays run without loops."""
    pytest.importorskip("numba")
    with mg.accelerate(process=False):
        yield
