"""Splits steps in two, of which one can fuse with its neighbours."""

from typing import Any

from ..backends.device import is_contiguous
from ..engine.registry import op
from ..expressions.blocks import Ref
from ..fusion import launch
from ..on_gpu.products import biased
from ..tape.trace import Step, Trace, flat, mapped

ROW = 32  # elements from which a separate sum for each row pays


def split(step: Step, trace: Trace) -> list[Step]:
    """A step as its parts, or as itself.

    It splits a product or convolution from the sum with its bias, and the sums of rows from the sum
    of these. A norm's gradients are two steps. Only whole ops are split, and steps are whole ops on
    a GPU alone: NumPy adds in another order.
    """
    if step.whole == (op.standardize, "rules"):
        return _by_needs(step, trace)
    if step.whole in ((op.linear, "forward"), (op.conv, "forward")):
        return _without_bias(step, trace)
    if step.whole in ((op.sum, "forward"), (op.mean, "forward")):
        return _by_rows(step, trace)
    return [step]


def _by_needs(step: Step, trace: Trace) -> list[Step]:
    """The rule of a norm as two steps.

    One computes the gradient of its input, by a kernel of rows. The other computes the gradients of
    its weights, which are sums over the rows.
    """
    at = next(
        (k for k, x in enumerate(step.args) if type(x) is list and x[:2] == [True, True]), None
    )
    if at is None or not all(type(x) is bool for x in step.args[at]):
        return [step]
    values = [y for y in step.outputs if y is not None]
    needs = step.args[at]
    alone = [k == 0 for k in range(len(needs))]
    parts = []
    for wanted, own in (
        (alone, values[:1]),
        ([n and not a for n, a in zip(needs, alone)], values[1:]),
    ):
        part = Step("call", step.fn, (*step.args[:at], wanted, *step.args[at + 1 :]), {}, step.name)
        ys = list(flat(step.fn(*mapped(part.args, Ref, lambda ref: trace.arrays[ref.value]))))
        if [y.shape for y in ys if y is not None] != [trace.arrays[y].shape for y in own]:
            return [step]
        left = iter(own)
        part.outputs, part.several = [None if y is None else next(left) for y in ys], True
        parts.append(part)
    return parts


def _without_bias(step: Step, trace: Trace) -> list[Step]:
    x, w, b, *rest = step.args if len(step.args) > 2 else (*step.args, None)
    if type(b) is not Ref:
        return [step]
    bias, y = trace.arrays[b.value], trace.arrays[step.outputs[0]]
    shape = (-1,) if step.whole == (op.linear, "forward") else (-1, *(1,) * (y.ndim - 2))
    if bias.ndim != 1 or bias.dtype != y.dtype or not is_contiguous(bias):
        return [step]

    def add_bias(product: Any, b: Any) -> Any:
        b = b.reshape(shape)
        (y,) = launch.run("bias", biased, [product, b]) or [product + b]
        return y

    first = Step("call", step.fn, (x, w, None, *rest), {}, step.name)
    product = step.fn(*mapped(first.args, Ref, lambda ref: trace.arrays[ref.value]))
    value = trace.value(product, False).value
    first.outputs = [value]
    last = Step("call", add_bias, (Ref(value), b), {}, "bias")
    last.outputs = step.outputs
    return [first, last]


def _by_rows(step: Step, trace: Trace) -> list[Step]:
    (y,), x = step.outputs, trace.arrays[step.args[0].value]
    result = trace.arrays[y]
    if x.ndim < 2 or x.shape[-1] < ROW or result.shape or result.dtype != x.dtype:
        return [step]
    if x.dtype.kind != "f" or x.dtype.itemsize < 4 or len(step.reads()) > 1:
        return [step]  # 16-bit floats sum in float32, and a sum of rows would round
    count = x.size if step.name == "mean" else 1

    def of_rows(x: Any) -> Any:
        (rows,) = launch.run("sum of rows", _row_sums, [x]) or [x.sum(axis=-1, keepdims=True)]
        return rows

    def of_all(rows: Any) -> Any:
        return rows.sum() / rows.dtype.type(count) if count > 1 else rows.sum()

    rows = trace.value(of_rows(x), False).value
    first = Step("call", of_rows, step.args[:1], {}, f"{step.name} of rows")
    first.outputs = [rows]
    last = Step("call", of_all, (Ref(rows),), {}, step.name)
    last.outputs = [y]
    return [first, last]


def _row_sums(x: Any) -> list:
    return [x.sum(axis=-1, keepdims=True)]
