"""Convolution by cuDNN (see cudnn_plans.py).

float32 uses no tensor cores unless cublas.tf32 is set: they would round its factors to 10 bits.
"""

from typing import Any

import numpy as np

from ..backends import cublas
from . import cudnn_plans
from .cudnn_plans import Plan, described, kept, kind, new_graph


def _plan(
    cupy: Any, which: str, dtype: Any, shapes: tuple, how: tuple, deterministic: bool
) -> Plan:
    """One convolution ("y", "x" for the gradient in x, "w" for that in w)."""
    graph = new_graph(cupy, dtype)
    first, second = (
        described(graph, name, shape, dtype)
        for name, shape in zip(("first", "second"), shapes, strict=False)
    )
    _, stride, padding, dilation = how
    options = {
        "pre_padding": [before for before, _ in padding],
        "post_padding": [after for _, after in padding],
        "stride": list(stride), "dilation": list(dilation),
        "compute_data_type": kind(np.float64 if dtype == np.float64 else np.float32),
    }  # fmt: skip
    if which == "y":
        y = graph.conv_fprop(image=first, weight=second, **options)
    elif which == "x":
        y = graph.conv_dgrad(loss=first, filter=second, **options)
    else:
        y = graph.conv_wgrad(image=second, loss=first, **options)
    notes = cudnn_plans.front_end().numerical_note
    refused = [notes.DOWN_CONVERT_INPUTS]
    if dtype == np.float32 and not cublas.tf32:
        refused.append(notes.TENSOR_CORE)
    if deterministic:
        refused.append(notes.NONDETERMINISTIC)
    return Plan(graph, [first, second], [(y, shapes[2], dtype)], refused)


def convolution(
    cupy: Any, which: str, first: Any, second: Any, shape: tuple, how: tuple, deterministic: bool
) -> Any:
    """conv ("y"), conv_dx ("x") or conv_dw ("w") of two contiguous arrays; None without a plan.

    how     Windows: (kernel, stride, padding, dilation); groups follow from the shapes
    """
    shapes = (first.shape, second.shape, shape)
    key = (which, first.dtype, shapes, how, cublas.tf32, deterministic)
    plan = kept(cupy, key, lambda: _plan(cupy, which, first.dtype, shapes, how, deterministic))
    return None if plan is None else plan(cupy, first, second)[0]
