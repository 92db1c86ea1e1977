"""mg.backward and mg.grad: they check the arguments and prepare a run of the engine."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from ..backends.device import DeviceError, array_module, at, device_of, plain_arrays
from ..backends.dtypes import is_differentiable
from ..backends.pool import is_count
from ..engine import graph, modes
from ..engine.backward import accumulate, engines, run_backward
from ..engine.errors import SeedError, about, describe
from ..engine.graph import Leaf, raw, wrap
from ..engine.registry import engine as functions
from ..engine.registry import op
from ..errors import HookError, TransformError
from ..modes import hooks
from .tensor import Tensor


def backward(
    tensors: Tensor | Sequence[Tensor],
    gradients: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Tensor | Sequence[Tensor] | None = None,
    engine: Any = "serial",
    workers: int | None = None,
    min_work: float | None = None,
    *,
    leaf_ready: Callable[[Tensor, Tensor], Any] | None = None,
) -> None:
    """Add ∂(Σ gradients · tensors)/∂leaf to the `.grad` of every leaf that requires one.

    gradients     the cotangent of each root, of its shape; may be left out for one element
    retain_graph  keep saved arrays for another backward (default: the value of create_graph)
    create_graph  record the backward itself: `.grad` can then be differentiated. `.grad` then
                  refers to its graph and so to its leaf: a reference cycle. mg.grad has none.
    inputs        only these receive a gradient: leaves, or inner tensors
    engine        "serial", or another of the same bits: "parallel" runs independent nodes at once
                  (with BLAS held to one thread), "tape" (or the mg.Tape itself) reads the order
                  from the tape that recorded the forward
    workers       for "parallel": how many threads take part (None: mg.get_num_threads())
    min_work      for "parallel": the estimated microseconds from which a node may go to another
                  thread (None: a measured default; 0: every node may)
    leaf_ready    fn(leaf, gradient), a hook of this call alone: called for each leaf as soon as its
                  gradient is complete, behind its other hooks but those registered for the same
                  moment. It gets a copy of this backward's gradient, not the sum in `.grad`.

    If the backward raises, leaves whose gradient was complete have the new value, others the old.
    Inside a transform of mg.func a tensor of that transform is an error (TransformError): leaves
    from outside are constants there, and would get nothing.
    """
    if modes.state.pending is not None:
        options = (gradients, retain_graph, create_graph or None, inputs, workers, leaf_ready)
        is_plain = engine == "serial" and all(option is None for option in options)
        if is_plain and modes.state.pending.backward(tensors):
            return
    if modes.state.level and inputs is None:
        tensors = listed(tensors)
        _refuse_transformed(tensors)
    chosen = {
        vertex_of(x, "backward: inputs"): x for x in (() if inputs is None else listed(inputs))
    }
    if inputs is not None and not chosen:
        raise ValueError("backward: inputs is empty; leave it out to reach every leaf")

    def deposit(vertex: Any, g: Any) -> None:
        x = vertex.tensor() if vertex.__class__ is Leaf else chosen[vertex]
        # a leaf that has been dropped or frozen since gets none; an inner tensor that retains its
        # gradient has it already
        if x is None or x.node is None or (vertex.__class__ is not Leaf and x.retains_grad):
            return
        accumulate(x, g if isinstance(g, Tensor) else wrap(g), create_graph)
        if graph.hook_count:
            for fn in hooks.of(vertex, "accumulated"):
                if fn(x) is not None:
                    raise HookError(
                        f"a post-accumulate hook of {vertex!r} returned something, which has no "
                        "place to go: .grad is updated by then. Return None and change the leaf's "
                        ".grad, or give register_hook a function that returns another gradient"
                    )

    wanted = None if inputs is None else set(chosen)
    differentiate(
        tensors, gradients, deposit, wanted, retain_graph, create_graph, deposits=True,
        engine=engine, workers=workers, min_work=min_work, leaf_ready=leaf_ready,
    )  # fmt: skip


def grad(
    outputs: Tensor | Sequence[Tensor],
    inputs: Tensor | Sequence[Tensor],
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    allow_unused: bool = False,
    engine: Any = "serial",
    workers: int | None = None,
    min_work: float | None = None,
    *,
    materialize_grads: bool = False,
    only_inputs: bool = True,
    is_grads_batched: bool = False,
    leaf_ready: Callable[[Tensor, Tensor], Any] | None = None,
) -> Any:
    """∂(Σ grad_outputs · outputs)/∂input for each input, a leaf or an inner tensor.

    `.grad` is not touched, and only the rules that lead to an input run. Returns a tuple, or one
    tensor if `inputs` is one tensor. An empty `inputs` gives the empty tuple, but an exhausted
    iterator is an error. So is an input that the outputs do not depend on: with allow_unused=True
    it gets None, with materialize_grads=True zeros (differentiable again with create_graph). The
    other options are those of mg.backward. PyTorch's only_inputs and is_grads_batched are accepted
    with their defaults only.

    For a batch of cotangents: mg.func.vmap(lambda g: mg.grad(y, x, g, retain_graph=True))(gs).
    """
    _refuse_torchs(only_inputs, is_grads_batched)
    outputs, wanted = listed(outputs, "grad"), listed(inputs, "grad")
    vertices = [vertex_of(x, "grad: inputs") for x in wanted]
    if not vertices and isinstance(inputs, Iterator):
        raise ValueError(
            "grad: inputs is an iterator that gives no tensor. It may be used up, as "
            "model.parameters() is by the first that reads it; keep list(model.parameters())"
        )
    found: dict[Any, Any] = {}
    differentiate(
        outputs, grad_outputs, found.__setitem__, set(vertices), retain_graph, create_graph,
        engine=engine, workers=workers, min_work=min_work, leaf_ready=leaf_ready, called="grad",
    )  # fmt: skip
    results, given = [], set()
    for i, (x, vertex) in enumerate(zip(wanted, vertices, strict=True)):
        g = found.get(vertex)
        if g is not None and vertex in given:
            g = g.copy()  # an input given twice: no two gradients share memory
        given.add(vertex)
        if g is None and materialize_grads:
            g = op.zeros_like(x.detach()).requires_grad_(create_graph)
        if g is None and not allow_unused:
            raise _unused(i, vertex)
        results.append(g if g is None or isinstance(g, Tensor) else wrap(g))
    return results[0] if isinstance(inputs, Tensor) else tuple(results)


def _refuse_torchs(only_inputs: bool, is_grads_batched: bool) -> None:
    """Errors for two of PyTorch's options with values that grad does not support."""
    if not only_inputs:
        raise ValueError(
            "grad: only_inputs=False would add to the .grad of the other leaves; that is "
            "outputs.backward()"
        )
    if is_grads_batched:
        raise NotImplementedError(
            "grad: is_grads_batched=True is a map over the cotangents: "
            "mg.func.vmap(lambda g: mg.grad(y, x, g, retain_graph=True))(gs)"
        )


def _unused(i: int, vertex: Any) -> ValueError:
    """The error for an input of grad that the outputs do not depend on."""
    instead = "Pass allow_unused=True to get None for it."
    if modes.state.level:
        instead += (
            " To a transform of mg.func a tensor from outside is a constant: take "
            "mg.func.grad of a function of it"
        )
    return ValueError(
        f"grad: the outputs do not depend on inputs[{i}] ({describe(vertex)}). {instead}"
    )


def differentiate(
    tensors: Tensor | Sequence[Tensor],
    gradients: Any,
    on_gradient: Callable[[Any, Any], None],
    wanted: set | Callable[[list], set] | None,
    retain_graph: bool | None,
    create_graph: bool,
    deposits: bool = False,
    engine: Any = "serial",
    workers: int | None = None,
    min_work: float | None = None,
    leaf_ready: Callable | None = None,
    called: str = "backward",
) -> None:
    """One backward of tensors: engine.backward.run_backward with what they and the user give.

    called: the function whose errors these are.
    """
    if modes.state.pending is not None:  # first compute the results that a compiled function awaits
        modes.state.pending.aside(
            f"a {called} that a program cannot make", differentiate, tensors, gradients,
            on_gradient, wanted, retain_graph, create_graph, deposits, engine, workers, min_work,
            leaf_ready, called,
        )  # fmt: skip
        return
    if engine != "serial" or workers is not None or min_work is not None:
        require_engine(engine, workers, min_work)
    if leaf_ready is not None:
        hooks.require_function(leaf_ready)
    seeds = seeds_of(listed(tensors, called), gradients, create_graph, called)
    run_backward(
        seeds, on_gradient, wanted, retain_graph, create_graph, engine,
        deposits=deposits, workers=workers, min_work=min_work, leaf_ready=leaf_ready,
    )  # fmt: skip


def require_engine(name: Any, workers: Any, min_work: Any) -> None:
    """ValueError for an unknown engine, and for options that no engine can use."""
    if name not in engines if isinstance(name, str) else not hasattr(name, "walk"):
        raise ValueError(f"there is no engine {name!r}; choose one of {sorted(engines)}, or a tape")
    if workers is not None and not is_count(workers):
        raise ValueError(f"workers is a number of threads, at least 1, got {workers!r}")
    if min_work is not None and not min_work >= 0:
        raise ValueError(f"min_work is a time in microseconds, at least 0, got {min_work!r}")
    if (workers is not None or min_work is not None) and (
        name == "serial" or hasattr(name, "walk")
    ):
        raise ValueError(
            f"workers and min_work are options of engine='parallel', and {describe(name)} runs in "
            "one thread: pass engine='parallel' too, or leave them out"
        )


def _refuse_transformed(roots: list[Tensor]) -> None:
    root = next((root for root in roots if getattr(root, "level", 0)), None)
    if root is not None:
        raise TransformError(
            f"backward: {describe(root)} belongs to the transform of mg.func that runs here, to "
            "which leaves from outside (parameters, say) are constants: they would get no "
            "gradient. Take mg.func.grad or mg.func.vjp of a function of them here too, or return "
            "the loss and call backward outside"
        )


def listed(tensors: Tensor | Iterable[Tensor], called: str = "backward") -> list[Tensor]:
    """One tensor or several as a list; TypeError for a module or a function, with what to pass."""
    if isinstance(tensors, Tensor):
        return [tensors]
    if not hasattr(tensors, "__iter__"):
        raise _no_tensor(tensors, called)
    return list(tensors)


def _no_tensor(x: Any, called: str) -> TypeError:
    """The error for what is neither a tensor nor several."""
    said = f"{called}: {describe(x)} is"
    if hasattr(x, "parameters"):
        return TypeError(f"{said} a module; pass list(model.parameters())")
    if callable(x):
        return TypeError(
            f"{said} a function; mg.grad and backward take its result: y = f(x) and "
            "mg.grad(y, x). mg.func.grad(f)(x) takes the function"
        )
    return TypeError(f"{said} not a tensor, so no gradient leads to or from it")


def vertex_of(x: Any, argument: str) -> Any:
    """Where x's gradient arrives: its leaf or the node that made it."""
    if not isinstance(x, Tensor):
        raise TypeError(f"{argument} must be tensors, got {type(x).__name__}")
    if x.node is None:
        raise _no_vertex(x, argument)
    return x.node


def _no_vertex(x: Tensor, argument: str) -> ValueError:
    """The error for a tensor that requires no gradient."""
    if is_differentiable(x.dtype):
        why = (
            "; make it with requires_grad=True before the computation. A result has none if it "
            "was computed under mg.no_grad(), from detached or from NumPy's values only"
        )
    else:
        why = f", since {x.dtype} has no derivative; differentiate what is computed in floats"
    return ValueError(f"{argument}: a tensor {describe(x)} does not require a gradient{why}")


def seeds_of(
    roots: list[Tensor], gradients: Any, as_tensors: bool, called: str = "backward"
) -> dict:
    """{vertex: cotangent} for the roots; ones for a single element, else what the user gives."""
    if gradients is None:
        gradients = [None] * len(roots)
    elif not isinstance(gradients, tuple | list):
        gradients = [gradients]
    if len(gradients) != len(roots):
        one = "; a list has one gradient for each root, and this one's is mg.tensor([...])"
        raise SeedError(
            f"{called}: {len(roots)} roots but {len(gradients)} gradients"
            + (one if len(roots) == 1 else "")
        )
    seeds: dict[Any, Any] = {}
    for root, g in zip(roots, gradients):
        vertex = vertex_of(root, called)
        g = _seed(root, g, as_tensors, called)
        seeds[vertex] = seeds[vertex] + g if vertex in seeds else g
    return seeds


def _seed(root: Tensor, g: Any, as_tensor: bool, called: str) -> Any:
    """The cotangent g of a root, checked; as a tensor of the root's level, or one level below."""
    data = root._data
    if g is not None:
        g = _fitting(root, g, called)
    elif data.size != 1 or data.dtype.kind == "c":
        raise _no_default(root, called)
    elif type(data) is np.ndarray:
        g = np.array(1, data.dtype, ndmin=data.ndim)  # in a third of the time of ones_like
    elif type(data) in plain_arrays:  # of a GPU: the same
        with at(data):
            g = type(data)(data.shape, data.dtype)
            g.fill(1)
    else:
        g = np.ones_like(data)
    kind = type(root) if root.level else Tensor
    at_root_level = isinstance(g, Tensor) and (type(g) is kind or g.level == root.level == 0)
    if not as_tensor:
        return g._data if at_root_level else g
    return g if at_root_level else wrap(g, None, kind)


def _fitting(root: Tensor, g: Any, called: str) -> Any:
    """The user's cotangent of a root: on its device, of its shape and dtype."""
    g = g if hasattr(g, "dtype") else array_module(raw(root)).asarray(g)
    if device_of(raw(g)) != root.device:
        raise DeviceError(
            f"{called}: the gradient {describe(g)} is on {device_of(raw(g))}, the tensor on "
            f"{root.device}; bring it there first, g.to({root.device!r})",
            device=root.device, devices=(root.device, device_of(raw(g))),
        )  # fmt: skip
    kinds = "biufVc" if root.dtype.kind == "c" else "biufV"
    if g.shape != root.shape or g.dtype.kind not in kinds:
        said = "the gradient is {}, the" if g.shape != root.shape else "a gradient {} for a"
        said = f"{called}: {said.format(describe(g))} tensor {describe(root)}"
        raise SeedError(said, **about(root, g))
    return g if g.dtype == root.dtype else g.astype(root.dtype)


def _no_default(root: Tensor, called: str) -> SeedError:
    """The error for a root that needs a gradient from the user: not one real number."""
    if root.size != 1:
        return SeedError(
            f"{called} from a tensor of shape {root.shape} needs a gradient of that shape "
            "(the cotangent v of vᵀJ). For a scalar loss reduce it first: y.sum().backward()",
            **about(root),
        )
    return SeedError(
        f"{called} from a complex tensor, {describe(root)}, needs a gradient too: only a "
        "real number has a direction of steepest ascent. Take a real loss of it, y.real or "
        "y.abs() ** 2, or say which combination of parts is meant: gradient 1 is ∂ Re y",
        **about(root),
    )


functions.register("backward", backward)
