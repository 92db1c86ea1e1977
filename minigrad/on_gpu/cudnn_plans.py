"""Plans of cuDNN, through the Python front end that NVIDIA publishes (package `cudnn`).

A plan is cuDNN's choice of kernels for a graph of operations on arrays of given shapes, strides and
dtype. Building one is slow, so plans are cached.
"""

import importlib
import importlib.util
import threading
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from ..backends.caches import Cache
from ..backends.dtypes import bfloat16

WORKSPACE = 1 << 30  # bytes, the most that a plan may need

plans = Cache("cuDNN plans", max_entries=512)


class Unsupported(Exception):
    """cuDNN has no way to compute this graph."""


def front_end() -> Any:
    """The package, imported at its first use on a GPU."""
    return importlib.import_module("cudnn")


@cache
def installed() -> bool:
    """Whether the front end is installed and finds cuDNN."""
    if importlib.util.find_spec("cudnn") is None:
        return False
    try:
        return front_end().backend_version() > 0
    except Exception:  # a broken installation: products take its place
        return False


_local = threading.local()  # cuDNN's handles belong to a thread


def _handle(cupy: Any) -> Any:
    """This thread's handle on the current device, set to the current stream."""
    device, stream = cupy.cuda.runtime.getDevice(), cupy.cuda.get_current_stream().ptr
    known = _local.__dict__.get(device)
    if known is None:
        known = _local.__dict__[device] = [front_end().create_handle(), None]
    if known[1] != stream:
        front_end().set_stream(known[0], stream)
        known[1] = stream
    return known[0]


def kind(dtype: Any) -> Any:
    """cuDNN's name of the dtype."""
    kinds = front_end().data_type
    names = {"float32": kinds.FLOAT, "float64": kinds.DOUBLE, "float16": kinds.HALF}
    if dtype == bfloat16:
        return kinds.BFLOAT16
    return names[np.dtype(dtype).name]


def contiguous_strides(shape: tuple) -> list[int]:
    """The strides of a contiguous array, in elements, as cuDNN expects them."""
    strides = [1] * len(shape)
    for i in reversed(range(len(shape) - 1)):
        strides[i] = strides[i + 1] * shape[i + 1]
    return strides


def new_graph(cupy: Any, dtype: Any) -> Any:
    """An empty graph for arrays of this dtype, computed in at least float32."""
    computed = kind(np.float64 if dtype == np.float64 else np.float32)
    return front_end().pygraph(
        io_data_type=kind(dtype), intermediate_data_type=computed, compute_data_type=computed,
        handle=_handle(cupy),
    )  # fmt: skip


def described(graph: Any, name: str, shape: tuple, dtype: Any, strides: Any = None) -> Any:
    """The graph's tensor for an array; contiguous, if strides (in elements) are None."""
    strides = contiguous_strides(shape) if strides is None else list(strides)
    return graph.tensor(name=name, dim=list(shape), stride=strides, data_type=kind(dtype))


class Plan:
    """A graph that is ready to run: called with arrays for its inputs, it returns its results.

    inputs   its tensors, in the order of the arrays
    results  (tensor, shape, dtype) of each; they are contiguous
    refused  numerical notes of algorithms that cuDNN must not choose
    """

    def __init__(self, graph: Any, inputs: list, results: list, refused: list):
        cudnn = front_end()
        self.made = [(shape, dtype) for _, shape, dtype in results]
        for y, shape, dtype in results:
            y.set_output(True).set_data_type(kind(dtype))
            y.set_dim(list(shape)).set_stride(contiguous_strides(shape))
        try:
            graph.validate()
            graph.build_operation_graph()
            graph.create_execution_plans([cudnn.heur_mode.A, cudnn.heur_mode.FALLBACK])
            graph.deselect_numeric_notes(refused)
            graph.deselect_workspace_greater_than(WORKSPACE)
            graph.check_support()
            graph.build_plans()
        except Exception as error:
            raise Unsupported(str(error)) from error
        self.run = runner(graph)
        # Numbers instead of tensors: the front end would ask each tensor for its own at every call.
        self.numbers = [x.get_uid() for x in (*inputs, *[y for y, _, _ in results])]
        self.workspace = graph.get_workspace_size()

    def __call__(self, cupy: Any, *arrays: Any) -> list:
        # cupy.ndarray is what cupy.empty calls, and the host has less to do
        ys = [cupy.ndarray(shape, dtype) for shape, dtype in self.made]
        memory = cupy.ndarray(max(self.workspace, 1), np.uint8)
        pointers = {n: x.data.ptr for n, x in zip(self.numbers, (*arrays, *ys), strict=True)}
        self.run(pointers, memory.data.ptr, _handle(cupy))
        return ys


def runner(graph: Any) -> Callable:
    """run(pointers, memory, handle) of a built graph.

    It stands for graph.execute. There the front end 1.32 describes the tensor of each pointer
    again, which takes the host longer than the launch. Its last step runs the graph that it has
    lowered for cuDNN; where that graph is accessible, `run` calls it directly.
    """
    lowered, plans = getattr(graph, "_lowered_graph", None), getattr(graph, "_plans", None)
    run = getattr(lowered, "_execute_plan_at_index", None)
    of_cudnn = getattr(graph, "selected_engine", None) is None  # other engines are in Python
    number = getattr(plans[graph._plan_index], "cpp_index", None) if plans and of_cudnn else None
    if run is None or number is None:
        return lambda pointers, memory, handle: graph.execute(pointers, memory, handle=handle)

    def at_once(pointers: dict, memory: int, handle: Any) -> None:
        run(pointers, memory, number, handle.backend_handle, None, None, None)

    return at_once


def kept(cupy: Any, key: tuple, make: Callable[[], Plan]) -> Plan | None:
    """The cached plan of this key for the current device and thread; None where cuDNN has none."""
    key = (*key, cupy.cuda.runtime.getDevice(), threading.get_ident())
    plan = plans.get(key)
    if plan is None:
        try:
            plan = make()
        except Unsupported as reason:
            plan = reason
        plans.put(key, plan)
    return None if isinstance(plan, Unsupported) else plan
