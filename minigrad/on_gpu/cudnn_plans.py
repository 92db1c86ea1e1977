"""Convolution by cuDNN, through the Python front end that NVIDIA publishes (package `cudnn`).

A plan says how one convolution of given shapes, strides and dtype is computed; making it takes
milliseconds, so plans are kept. float32 is computed without tensor cores unless cublas.tf32 is set:
those would round its factors to 10 bits.
"""

import importlib
import importlib.util
import threading
from functools import cache
from typing import Any

import numpy as np

from ..backends import cublas
from ..backends.caches import Cache
from ..backends.dtypes import bfloat16

WORKSPACE = 1 << 30  # bytes a plan may ask for

plans = Cache("cuDNN plans", max_entries=512)


class Unsupported(Exception):
    """cuDNN has no way to compute this one."""


def _front_end() -> Any:
    return importlib.import_module("cudnn")


@cache
def installed() -> bool:
    """Whether the front end is there and finds cuDNN."""
    if importlib.util.find_spec("cudnn") is None:
        return False
    try:
        return _front_end().backend_version() > 0
    except Exception:  # a broken installation: there are products instead
        return False


_local = threading.local()  # cuDNN's handles belong to a thread


def _handle(cupy: Any) -> Any:
    """This thread's handle on the current device, put to the current stream."""
    device, stream = cupy.cuda.runtime.getDevice(), cupy.cuda.get_current_stream().ptr
    known = _local.__dict__.get(device)
    if known is None:
        known = _local.__dict__[device] = [_front_end().create_handle(), None]
    if known[1] != stream:
        _front_end().set_stream(known[0], stream)
        known[1] = stream
    return known[0]


def _names() -> dict:
    cudnn = _front_end()
    kinds = cudnn.data_type
    names = {"float32": kinds.FLOAT, "float64": kinds.DOUBLE, "float16": kinds.HALF}
    return names | {"bfloat16": kinds.BFLOAT16}


class Plan:
    """One convolution ("y", "x" for the gradient in x, "w" for that in w), ready to be run."""

    def __init__(
        self, cupy: Any, which: str, dtype: Any, shapes: tuple, how: tuple, deterministic: bool
    ):
        cudnn = _front_end()
        name = "bfloat16" if dtype == bfloat16 else np.dtype(dtype).name
        data = _names()[name]
        computed = cudnn.data_type.DOUBLE if name == "float64" else cudnn.data_type.FLOAT
        handle = _handle(cupy)
        graph = cudnn.pygraph(
            io_data_type=data, intermediate_data_type=computed, compute_data_type=computed,
            handle=handle,
        )  # fmt: skip
        first, second = (
            graph.tensor(name=name, dim=list(shape), stride=_strides(shape), data_type=data)
            for name, shape in zip(("first", "second"), shapes, strict=False)
        )
        _, stride, padding, dilation = how
        options = {
            "pre_padding": [before for before, _ in padding],
            "post_padding": [after for _, after in padding],
            "stride": list(stride), "dilation": list(dilation), "compute_data_type": computed,
        }  # fmt: skip
        if which == "y":
            y = graph.conv_fprop(image=first, weight=second, **options)
        elif which == "x":
            y = graph.conv_dgrad(loss=first, filter=second, **options)
        else:
            y = graph.conv_wgrad(image=second, loss=first, **options)
        self.shape, self.dtype = shapes[2], dtype
        y.set_output(True).set_data_type(data)
        y.set_dim(list(self.shape)).set_stride(_strides(self.shape))
        try:
            graph.validate()
            graph.build_operation_graph()
            graph.create_execution_plans([cudnn.heur_mode.A, cudnn.heur_mode.FALLBACK])
            notes = [cudnn.numerical_note.DOWN_CONVERT_INPUTS]
            if name == "float32" and not cublas.tf32:
                notes.append(cudnn.numerical_note.TENSOR_CORE)
            if deterministic:
                notes.append(cudnn.numerical_note.NONDETERMINISTIC)
            graph.deselect_numeric_notes(notes)
            graph.deselect_workspace_greater_than(WORKSPACE)
            graph.check_support()
            graph.build_plans()
        except Exception as error:
            raise Unsupported(str(error)) from error
        self.graph = graph
        self.numbers = [place.get_uid() for place in (first, second, y)]
        self.workspace = graph.get_workspace_size()

    def __call__(self, cupy: Any, first: Any, second: Any) -> Any:
        y = cupy.empty(self.shape, self.dtype)
        memory = cupy.empty(max(self.workspace, 1), np.uint8)
        a, b, c = self.numbers  # the front end would ask each tensor for its number, at every call
        pointers = {a: first.data.ptr, b: second.data.ptr, c: y.data.ptr}
        self.graph.execute(pointers, memory.data.ptr, handle=_handle(cupy))
        return y


def _strides(shape: tuple) -> list[int]:
    strides = [1] * len(shape)
    for i in reversed(range(len(shape) - 1)):
        strides[i] = strides[i + 1] * shape[i + 1]
    return strides


def convolution(
    cupy: Any, which: str, first: Any, second: Any, shape: tuple, how: tuple, deterministic: bool
) -> Any:
    """conv ("y"), conv_dx ("x") or conv_dw ("w") of two contiguous arrays; None: not by cuDNN.

    how     Windows: (kernel, stride, padding, dilation); groups follow from the shapes
    """
    key = (
        which, first.dtype, first.shape, second.shape, shape, how, cublas.tf32, deterministic,
        cupy.cuda.runtime.getDevice(), threading.get_ident(),
    )  # fmt: skip
    plan = plans.get(key)
    if plan is None:
        try:
            shapes = (first.shape, second.shape, shape)
            plan = Plan(cupy, which, first.dtype, shapes, how, deterministic)
        except Unsupported as reason:
            plan = reason
        plans.put(key, plan)
    return None if isinstance(plan, Unsupported) else plan(cupy, first, second)
