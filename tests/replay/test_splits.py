"""Steps that are two: both together give what the one gives."""

import numpy as np
import pytest

from minigrad.engine.primitive import Primitive
from minigrad.engine.registry import op
from minigrad.expressions.blocks import Ref
from minigrad.replay.splits import split
from minigrad.tape.trace import Step, Trace


def values(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype("float32")


def whole(function, part, name, fn, args, trace, several=False):
    """A step as a trace on a GPU has it: all of an op's forward or of its rules."""
    ys = fn(*[trace.arrays[x.value] if type(x) is Ref else x for x in args])
    step = Step("call", fn, tuple(args), {}, name)
    step.outputs = [trace.value(y, False).value for y in (ys if several else [ys])]
    step.several, step.whole = several, (function, part)
    return step


def made_by(steps, trace, value):
    """What these steps give for a value, run one after the other."""
    cells = list(trace.arrays)
    for step in steps:
        ys = step.fn(*[cells[x.value] if type(x) is Ref else x for x in step.args])
        ys = list(ys) if step.several else [ys]
        for y, number in zip(ys, step.outputs, strict=True):
            if number is not None:
                cells[number] = y
    return cells[value]


def refs(trace, *arrays):
    return [Ref(trace.value(x, False).value) for x in arrays]


@pytest.mark.parametrize("name", ["sum", "mean"])
def test_a_sum_of_all_is_split_into_the_sums_of_rows_and_that_of_those(name):
    trace, function = Trace(), getattr(op, name)
    step = whole(function, "forward", name, function.forward, refs(trace, values(48, 64)), trace)
    parts = split(step, trace)
    assert len(parts) == 2
    found = made_by(parts, trace, step.outputs[0])
    np.testing.assert_allclose(found, trace.arrays[step.outputs[0]], rtol=1e-5, atol=1e-6)


def test_a_linear_layer_is_split_into_the_product_and_its_bias():
    trace = Trace()
    args = refs(trace, values(6, 5), values(4, 5), values(4))
    step = whole(op.linear, "forward", "linear", op.linear.forward, args, trace)
    parts = split(step, trace)
    assert [part.name for part in parts] == ["linear", "bias"]
    found = made_by(parts, trace, step.outputs[0])
    np.testing.assert_allclose(found, trace.arrays[step.outputs[0]], rtol=1e-6)


def test_an_op_of_a_user_that_is_called_linear_is_not_split():
    """mg.fuse names its op by the function, which may be called as an op of the library."""

    trace = Trace()
    args = refs(trace, values(6, 4), values(6, 4, seed=1), values(4))
    own = Primitive(lambda x, w, b: x * w + b, "linear", ["x", "w", "b"])
    step = whole(own, "forward", "linear", own.forward, args, trace)
    assert split(step, trace) == [step]
