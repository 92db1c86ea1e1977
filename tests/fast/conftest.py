"""Blocks that are small enough to test with."""

import pytest

import minigrad as mg
from minigrad.backends import blocks as pieces
from minigrad.engine import backward
from tests.fast.large_arrays import let_blocks_take


@pytest.fixture
def two_threads():
    before = mg.get_num_threads()
    mg.set_num_threads(2)
    yield
    mg.set_num_threads(before)


@pytest.fixture
def small(monkeypatch, two_threads):
    """Blocks of 64 elements, for arrays of 128 and more, on two threads."""
    monkeypatch.setattr(pieces, "BLOCK", 64)
    monkeypatch.setattr(pieces, "LARGE", 128)
    monkeypatch.setattr(pieces, "BROADCAST", 128)
    let_blocks_take(128, monkeypatch)
    monkeypatch.setattr(backward, "LARGE", 128)
