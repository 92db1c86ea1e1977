"""Modules as functions of their parameters: functional_call, stacked ensembles, per-sample grads.

A module is anything that walks like minigrad.nn.Module: named_modules(), parameters and buffers
among its attributes.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ..backends.leaving import contextmanager, ended_by
from ..engine.errors import describe
from ..engine.registry import op as ops
from ..errors import TransformError
from ..tensor_api.create import as_tensor
from ..tensor_api.tensor import Tensor
from .batching import vmap
from .levels import named_after
from .reverse import grad, which

__all__ = ["functional_call", "per_sample_grad", "stack_module_state"]


def functional_call(
    module: Any,
    parameters_and_buffers: Mapping[str, Any] | Sequence[Mapping[str, Any]],
    args: Any = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """module(*args, **kwargs) with its tensors replaced by these, by path ("out.weight").

    A dict, or several that together name each path once; for other paths the module's tensors stay.
    The module is as before afterwards, also after an exception; during the call no other thread may
    use it. `args` is a tuple, or one argument that is none. A value for one path replaces a shared
    parameter under all its paths; with tie_weights=False only under the named one. With strict=True
    every path must be given. A buffer that the module writes to (running statistics) is written in
    the tensor given for it. TransformError for paths it does not have.
    """
    if not hasattr(module, "named_modules"):
        raise TypeError(
            "functional_call takes a module first, functional_call(module, parameters, (x,)), got "
            f"{describe(module)}"
        )
    given = _merged(parameters_and_buffers)
    with _replaced(module, given, tie_weights, strict):
        return module(*(args if isinstance(args, tuple) else (args,)), **(kwargs or {}))


def _merged(dicts: Any) -> dict[str, Any]:
    """One dict of several, in which no path comes twice."""
    merged: dict[str, Any] = {}
    for part in (dicts,) if isinstance(dicts, Mapping) else tuple(dicts):
        if not isinstance(part, Mapping):
            raise TypeError(
                "functional_call: its second argument is a dict, path to tensor, or a tuple of "
                f"dicts; it holds {describe(part)}. dict(module.named_parameters()) is one"
            )
        twice = merged.keys() & part.keys()
        if twice:
            raise TransformError(f"functional_call: {sorted(twice)} are given in two dicts")
        merged.update(part)
    return merged


def _slots(module: Any) -> dict[str, tuple[dict, str]]:
    """path -> (the attributes of the module that holds it, its name there)."""
    slots = {}
    for path, owner in module.named_modules():
        for name, value in vars(owner).items():
            if getattr(value, "is_parameter", False) or (
                name in owner._buffers and value is not None
            ):
                slots[f"{path}.{name}" if path else name] = vars(owner), name
    return slots


@contextmanager
def _replaced(module: Any, given: dict, tie_weights: bool, strict: bool) -> Iterator[None]:
    """The module with other tensors, for as long as the block runs."""
    slots = _slots(module)
    values = _with_tied(slots, given) if tie_weights else dict(given)
    unexpected = sorted(given.keys() - slots.keys())
    missing = sorted(slots.keys() - values.keys()) if strict else []
    if unexpected or missing:
        raise TransformError(
            f"functional_call: {type(module).__name__} has no {unexpected}; it has {list(slots)}"
            if unexpected
            else f"functional_call: strict=True, and no value is given for {missing}"
        )
    before = [(*slots[path], slots[path][0][slots[path][1]]) for path in values]

    def put_back() -> None:
        for attributes, name, value in before:
            attributes[name] = value

    with ended_by(put_back):
        for path, value in values.items():
            attributes, name = slots[path]
            attributes[name] = value if isinstance(value, Tensor) else as_tensor(value)
        yield


def _with_tied(slots: dict, given: dict) -> dict:
    """`given` with the other paths of each tensor that stands under several."""
    shared: dict[int, list[str]] = {}
    for path, (attributes, name) in slots.items():
        shared.setdefault(id(attributes[name]), []).append(path)
    values = dict(given)
    for paths in shared.values():
        named = [path for path in paths if path in given]
        if any(given[path] is not given[named[0]] for path in named):
            raise TransformError(
                f"functional_call: {named} are one tensor in the module, and are given different "
                "values; give one of them, or pass tie_weights=False"
            )
        values.update({path: given[named[0]] for path in paths if named})
    return values


def stack_module_state(models: Sequence[Any]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """(parameters, buffers) of several modules of one form, each stacked along a new first axis.

    For ensembles: vmap(lambda p, b: functional_call(models[0], (p, b), x))(parameters, buffers).
    The parameters are new leaves; those that are frozen in the modules are constants. One that is
    frozen in some modules only is an error, as are modules of other parameters, shapes or modes.
    """
    models = list(models) if hasattr(models, "__iter__") else [None]
    if any(not hasattr(model, "named_parameters") for model in models):
        raise TypeError("stack_module_state takes a list of modules, [first, second, …]")
    if not models:
        raise TransformError("stack_module_state: there is no module to stack")
    if any(type(model) is not type(models[0]) for model in models):
        raise TransformError("stack_module_state: all modules must be of one class")
    modes = [{path: part.training for path, part in model.named_modules()} for model in models]
    for path, training in modes[0].items():
        if any(of_model.get(path, training) != training for of_model in modes):
            raise TransformError(
                "stack_module_state: all modules must be in train() mode, or in eval()"
                + f"; {path!r} is in both" * bool(path)
            )
    parameters = _stacked([dict(model.named_parameters()) for model in models])
    buffers = _stacked([dict(model.named_buffers()) for model in models])
    return parameters, buffers


def _stacked(dicts: list[dict[str, Any]]) -> dict[str, Tensor]:
    stacked = {}
    for path in dict.fromkeys(path for named in dicts for path in named):
        values: list[Any] = [named.get(path) for named in dicts]
        shapes = [None if x is None else x.shape for x in values]
        if len(set(shapes)) > 1:
            raise TransformError(f"stack_module_state: {path} has the shapes {shapes}; they differ")
        frozen = [i for i, x in enumerate(values) if not x.requires_grad]
        if 0 < len(frozen) < len(values):
            raise TransformError(
                f"stack_module_state: {path} is frozen in modules {frozen} of {len(values)}, and "
                "one stacked tensor is trained as a whole; freeze it in all or in none of them"
            )
        constants = [x.detach() for x in values]
        stacked[path] = ops.stack(constants).requires_grad_(not frozen)
    return stacked


def per_sample_grad(
    f: Any,
    loss: Callable | None = None,
    argnums: int | tuple = 0,
    has_aux: bool = False,
    randomness: str = "error",
    chunk_size: int | None = None,
) -> Callable:
    """The gradient of each example of a batch by itself, along a new first axis.

    For a function f(parameters, *example) -> a scalar: (parameters, *batch) -> gradients in the
    form of args[argnums], each with the batch axis in front. The other arguments are batches.

    For a module and loss(output, target): (*inputs, target) -> {path: gradients}. The module sees
    batches of one example. Parameters that are frozen have none.
    """
    if hasattr(f, "named_modules"):
        return _of_module(f, loss, randomness, chunk_size)
    if loss is not None:
        raise TransformError(f"per_sample_grad: loss= is for modules; {describe(f)} is a function")

    argnums = which("per_sample_grad", argnums)

    @named_after("per_sample_grad", f)
    def transformed(*args: Any, **kwargs: Any) -> Any:
        numbers = (argnums,) if isinstance(argnums, int) else argnums
        shared = {i % len(args) for i in numbers if args}
        in_dims = tuple(None if i in shared else 0 for i in range(len(args)))
        one = grad(f, argnums, has_aux)
        return vmap(one, in_dims, 0, randomness, chunk_size=chunk_size)(*args, **kwargs)

    return transformed


def _of_module(
    module: Any, loss: Callable | None, randomness: str, chunk_size: int | None
) -> Callable:
    if loss is None:
        raise TransformError("per_sample_grad: a module needs loss=, a function (output, target)")

    def transformed(*batch: Any) -> dict[str, Tensor]:
        learned = {path: x for path, x in module.named_parameters() if x.requires_grad}
        values = {path: x.detach() for path, x in learned.items()}

        def loss_of_one(values: dict, *example: Any) -> Any:
            *inputs, target = [ops.expand_dims(as_tensor(x), axis=0) for x in example]
            return loss(functional_call(module, values, tuple(inputs)), target)

        of_batch = per_sample_grad(loss_of_one, randomness=randomness, chunk_size=chunk_size)
        return of_batch(values, *batch)

    return transformed
