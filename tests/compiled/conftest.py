"""mg.accelerate for arrays of any size. What needs numba, the extra `fast`, skips without it."""

import pytest

import minigrad as mg


@pytest.fixture
def all_sizes(monkeypatch):
    """mg.accelerate on, for small arrays too."""
    from minigrad.compiled import install

    monkeypatch.setattr(install, "LEAST", 1)
    with mg.accelerate(process=False):
        yield
