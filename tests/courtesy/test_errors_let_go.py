"""What an error that was caught keeps in memory: nothing, without Python's cyclic collector."""

import gc
import weakref

import numpy as np
import pytest

import minigrad as mg
from minigrad.engine.primitive import Primitive
from minigrad.tensor_api.composite import composite


def _fails(error):
    def forward(x):
        raise error("too large")

    return Primitive(forward, "fails", ["x"])


@composite
def fails_inside(x, *, axis=0):
    """What a function made of ops does."""
    return _fails(TypeError)(x * 2)


class Failing(mg.nn.Module):
    def forward(self, x):
        return fails_inside(x)


CALLS = {
    **{kind.__name__: _fails(kind) for kind in (MemoryError, TypeError, RuntimeError, ValueError)},
    "composite": fails_inside,
    "module": Failing(),
    "nested": lambda x: mg.func.vmap(_fails(MemoryError))(x),
    "transform": lambda x: mg.func.grad(lambda x: _fails(MemoryError)(x).sum())(x),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.filterwarnings("ignore:fails has no batch rule")
def test_arrays_of_a_call_that_failed_are_freed_with_its_error(call):
    gc.collect()
    gc.disable()
    try:
        x = mg.tensor(np.ones((3, 2)))
        large = weakref.ref(x)
        with pytest.raises((MemoryError, TypeError, RuntimeError, ValueError), match="too large"):
            call(x)
        del x
        assert large() is None
    finally:
        gc.enable()


def test_an_error_made_better_still_says_what_it_came_from():
    with pytest.raises(ValueError, match=r"^fails\(x: float64 \(3,\)\): too large$") as found:
        _fails(ValueError)(mg.ones(3))
    assert str(found.value.__context__) == "too large"
    with pytest.raises(MemoryError) as found:
        _fails(MemoryError)(mg.ones(3))
    assert found.value.__context__ is None
