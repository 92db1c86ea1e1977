"""Cross entropy on class indices in one pass over the logits, and its gradient in another.

Threads share blocks of samples; few classes are reduced by columns; results are written in place.
"""

from typing import Any

import numpy as np

from ...backends.blocks import BUFFER, in_blocks, long_runs, part, scratch, single
from ...backends.device import array_module
from ...custom.variants import ANY
from ...ops.loss.classes import counted, cross_entropy_dx, cross_entropy_index, shares_of
from ...ops.softmax import NEARLY_ALL
from ..forms import Forms
from ..row_sums import SHORT_ROW, largest_over, sum_over
from .softmax import less_the_largest

form = Forms()


@form(cross_entropy_index, "blocks", on=ANY)
def loss_by_blocks(x: Any, index: Any, scale: Any, *, total: bool = True) -> tuple:
    xp = array_module(x)
    plain = xp is np and x.ndim == 2 and x.dtype == scale.dtype
    if plain and x.shape[1] <= SHORT_ROW and single(x):
        lse, losses = _of_few_classes(x, index)
    elif single(x):
        with long_runs(x, (1,)):
            lse, losses = _lse_and_losses(x, index, scale.dtype)
    else:
        shape = (len(x), 1, *x.shape[2:])
        lse, losses = xp.empty(shape, scale.dtype), xp.empty(shape, scale.dtype)

        def work(piece: tuple) -> None:
            block = x[piece]
            memory = scratch.empty("block 0", block.shape, x, scale.dtype)
            found = _lse_and_losses(block, part(index, piece), scale.dtype, memory)
            part(lse, piece)[...], part(losses, piece)[...] = found

        in_blocks(work, x, (1,))
    y = losses[:, 0] * scale
    if xp is not np or not _all_count(scale):
        y = counted(y, index, scale)
    if total:
        y = y.sum() if xp is not np else np.add.reduce(y, axis=None)
    return y, lse


def _lse_and_losses(x: Any, index: Any, dtype: Any, memory: Any = None) -> tuple:
    """log Σ_c exp x_nc, and the same minus x_n,index, both (N, 1, ...), of a block of x.

    memory: for intermediate results, an array of x's shape and of this dtype
    """
    top = largest_over(x, (1,)).astype(dtype, copy=False)
    e = array_module(x).empty(x.shape, dtype) if memory is None else memory
    less_the_largest(x, top, e)
    picked = _at(e, index)
    log = np.log(sum_over(np.exp(e, out=e), (1,), dtype))
    return log + top, log - picked


def _of_few_classes(x: Any, index: Any) -> tuple:
    """The same of a matrix x with short rows: by columns, as NumPy starts a loop for each row."""
    a = x.T.copy()
    top = np.maximum.reduce(a)
    if not len(x) or (top.item(top.argmax()) < np.inf and top.item(top.argmin()) > -np.inf):
        a -= top
    else:
        less_the_largest(a, top, a)
    picked = a[index[:, 0], np.arange(len(x))]
    log = np.log(np.add.reduce(np.exp(a, out=a)))
    return (log + top)[:, None], (log - picked)[:, None]


def _all_count(scale: Any) -> bool:
    """Whether no sample of a NumPy array has scale 0; takes a third of the time of scale.all()."""
    return np.count_nonzero(scale) == scale.size


def _at(x: Any, index: Any) -> Any:
    """x[n, index_n, ...] of each sample: take_along_axis, without its checks for a matrix."""
    if x.ndim == 2:
        return x[array_module(index).arange(len(index))[:, None], index]
    return np.take_along_axis(x, index, 1)


@form(cross_entropy_dx, "blocks", on=ANY)
def gradient_by_blocks(a: Any, x: Any, lse: Any, index: Any) -> Any:
    a = a.reshape((len(a), 1, *a.shape[1:]))
    if x.ndim == 2 and x.size <= BUFFER and single(x):
        return _dx_of(x, a, lse, index).astype(x.dtype, copy=False)
    if single(x):
        with long_runs(x, (1,)):
            return _dx_of(x, a, lse, index).astype(x.dtype, copy=False)
    y = np.empty(x.shape, np.result_type(x, lse, a))

    def work(piece: tuple) -> None:
        _dx_of(x[piece], part(a, piece), part(lse, piece), part(index, piece), y[piece])

    in_blocks(work, x, (1,))
    return y.astype(x.dtype, copy=False)


def _dx_of(x: Any, a: Any, lse: Any, index: Any, y: Any = None) -> Any:
    """a (exp(x − lse) − onehot index) of a block of x; 0 where a is 0, for every x.

    a, lse and index (N, 1, ...); y: memory for the result
    """
    xp = array_module(x)
    some_endless = xp is not np or (lse.size and not lse.item(lse.argmax()) < np.inf)  # or NaN
    y = np.subtract(x, np.where(lse == np.inf, 0, lse) if some_endless else lse, out=y)
    np.exp(y, out=y)
    if some_endless:
        y[...] = shares_of(x, lse)
    if y.ndim == 2:
        places = xp.arange(len(y)), index[:, 0]
        picked = y[places]
        if xp is np and picked.size and picked.item(picked.argmax()) <= NEARLY_ALL:
            y[places] = picked - 1
        else:
            y[places] = 0
            y[places] = _less_1(picked, y)
    else:
        picked = np.take_along_axis(y, index, 1)
        np.put_along_axis(y, index, 0, 1)
        np.put_along_axis(y, index, _less_1(picked, y), 1)
    y *= a
    if xp is not np or not _all_count(a):
        y[...] = np.where(a == 0, 0, y)
    return y


def _less_1(picked: Any, others: Any) -> Any:
    """p − 1 of the targets' shares p; where p is nearly 1, minus the sum of the other shares."""
    y = picked - 1
    near = picked > NEARLY_ALL
    if array_module(near) is np and not near.any():
        return y
    sums = sum_over(others, (1,), others.dtype).reshape(y.shape)
    return np.where(near, -sums, y)


form.install()
