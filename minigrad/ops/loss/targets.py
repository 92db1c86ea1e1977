"""The targets of losses on classes, as indices and weights of samples, or as distributions."""

from typing import Any

import numpy as np

from ...backends.device import array_module
from ...backends.dtypes import accumulator
from ...engine import modes
from ...engine.primitive import primitive
from ...engine.registry import op
from ..batching import apart, flat, full, merged


@primitive(arrays="target weight", differentiable=False, outputs=3)
def class_targets(
    target, weight=None, *, shape=(), dtype=None, ignore_index=-100, reduction="mean", scores="x"
):
    """(index, kept, scale): the class that a sample of x picks, and the factor of its loss.

    target (N, ...), weight (C,), shape and dtype of x (N, C, ...) -> index (N, 1, ...), 0 for
    ignored samples; kept (N, ...), 0 for these and 1 for the others; scale, kept times the weight
    of the target's class. For the mean, both are divided by the sum of scale. If that is 0, they
    are NaN for samples that count, and ignored ones get index −1, whose loss is NaN. Errors call x
    by the name `scores`.
    """
    classes = shape[1]
    if target.shape != (*shape[:1], *shape[2:]):
        raise ValueError(
            f"target must have shape {(*shape[:1], *shape[2:])}, one class index for each sample "
            f"of {scores} {tuple(shape)} (classes along axis 1); got {target.shape}"
        )
    # looking at numbers on a GPU would wait for it, at every step: there anomaly mode looks
    looks = array_module(target) is np or modes.state.anomaly is not None
    wide = accumulator(dtype) or dtype
    if weight is None and looks and target.size and not 0 <= ignore_index < classes:
        index = target.astype(np.intp)  # a copy: the saved array is not the caller's memory
        if _in_range(index, classes):  # so no sample is ignored: the usual case, in few calls
            scale = array_module(index).empty(index.shape, wide)
            scale.fill(1 / index.size if reduction == "mean" else 1)
            return index[:, None], scale, scale
    chosen = target != ignore_index
    index = np.where(chosen, target, 0).astype(np.intp, copy=False)
    if looks and index.size and not _in_range(index, classes):
        raise ValueError(
            f"target has indices from {index.min()} to {index.max()}, but {scores} {tuple(shape)} "
            f"has {classes} classes: an index must lie in 0..{classes - 1}, or be "
            f"ignore_index={ignore_index}"
        )
    if weight is not None:
        check_weight(weight.shape, classes)
    kept = chosen.astype(wide)
    scale = kept if weight is None else kept * weight[index].astype(kept.dtype, copy=False)
    if reduction == "mean":
        total = scale.sum()
        none = total == 0
        if array_module(index) is not np or none:
            index = np.where(none & ~chosen, -1, index)
            total = np.where(none & chosen, np.nan, np.where(none, 1, total)).astype(scale.dtype)
        scale = scale / total
        kept = scale if weight is None else kept / total
    return index[:, None], kept, scale


def _in_range(index, classes):
    """Whether all indices are in 0..classes − 1: as an unsigned integer a negative one is large."""
    index = index.view(np.uintp)
    if type(index) is np.ndarray:
        return index.item(index.argmax()) < classes
    return bool(index.max() < classes)


def check_weight(shape: tuple, classes: int) -> None:
    """ValueError unless there is one weight for each class."""
    if shape != (classes,):
        raise ValueError(
            f"weight must have shape ({classes},), one entry for each class, got {shape}"
        )


@primitive(arrays="index kept scale weight", differentiable=False)
def smoothed_targets(index, kept, scale, weight=None, *, classes=0, smoothing=0.0):
    """q (N, C, ...): (1 − ε) scale at the index, plus ε/C times each class's weight everywhere.

    weight (C,), or (N, C): the weights of each sample's own.
    """
    shape = (len(kept), classes, *kept.shape[1:])
    q = np.broadcast_to(kept[:, None] * (smoothing / classes), shape)
    q = q.copy() if weight is None else q * weight.reshape((*weight.shape, *(1,) * (kept.ndim - 1)))
    picked = np.take_along_axis(q, index, 1) + (1 - smoothing) * scale[:, None]
    np.put_along_axis(q, index, picked, 1)
    return q


# -- batch rules: the examples are more samples ------------------------------------------------


@class_targets.batch
def class_targets_batch(op_, xs, batched, params):
    """Targets are more samples; weights of an example's own are looked up for its samples."""
    xs, batched = [*xs, None][:2], [*batched, False][:2]
    given = [x for x in xs if x is not None]
    target, *weights = full(given, batched[: len(given)])
    shape = (target.shape[0] * params["shape"][0], *params["shape"][1:])
    shared = [] if batched[1] else xs[1:]
    single = {**params, "shape": shape, "reduction": "none"}
    index, kept, scale = (
        apart(y, target.shape[:2]) for y in op_(merged(target), *shared, **single)
    )
    if batched[1]:
        check_weight(weights[0].shape[1:], shape[1])
        places = flat(index)
        picked = op.take_along_axis(weights[0], places, axis=1)
        scale = kept * op.astype(op.reshape(picked, shape=kept.shape), dtype=kept.dtype)
    if params["reduction"] == "mean":
        total = op.sum(scale, axis=tuple(range(1, scale.ndim)), keepdims=True)
        none, chosen = total == 0, kept != 0
        index = op.where(op.expand_dims(none & ~chosen, axis=2), -1, index)
        total = op.where(none & chosen, np.nan, op.where(none, 1, total))
        kept, scale = kept / total, scale / total
    return index, kept, scale


@smoothed_targets.batch
def smoothed_targets_batch(op_, xs, batched, params):
    weight: Any = xs[3] if len(xs) > 3 else None
    if weight is None or not batched[3] and weight.ndim == 1:
        samples = full(xs[:3], batched[:3])
    else:  # every sample gets the weights of its example, or has its own
        *samples, weight = full(xs, batched)
        if weight.ndim == 2:
            size, classes = weight.shape
            weight = op.broadcast_to(
                op.expand_dims(weight, axis=1), shape=(size, samples[0].shape[1], classes)
            )
        weight = merged(weight)
    return apart(op_(*map(merged, samples), weight, **params), samples[0].shape[:2])
