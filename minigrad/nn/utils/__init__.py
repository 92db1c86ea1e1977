"""Functions on the parameters of a whole model: clipping, vectors, weights in another form."""

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from ...backends.device import array_module, at
from ...backends.dtypes import accumulator
from ...engine.registry import op
from ...engine.versions import note_write
from ...ops.axes import constant_array
from ...tensor_api import create
from ...tensor_api.composite import on_its_gpu
from ...tensor_api.help import missing_names_of as _missing_names_of
from ...tensor_api.tensor import Tensor
from .. import init, singular
from ..arguments import at_least_zero
from ..containers import ParameterList
from ..derived import Derivation, derive, rules_of, underive
from ..module import Module
from ..parameter import Parameter
from . import fusion, parametrizations, parametrize, prune, rnn
from .fusion import (
    fuse_conv_bn_eval,
    fuse_conv_bn_weights,
    fuse_linear_bn_eval,
    fuse_linear_bn_weights,
)
from .parametrizations import (
    as_rows,
    axis_of_outputs,
    norm_except,
    weight_with_axis,
)

# -- gradients ---------------------------------------------------------------------------------


def get_total_norm(
    tensors: Iterable[Tensor],
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> float:
    """The norm of all tensors together, as one long vector; 16-bit ones are summed in float32.

    Where it is NaN or infinite: RuntimeError with error_if_nonfinite. foreach=, PyTorch's choice of
    an implementation, has no effect here or in the functions below.
    """
    norm_type = float(norm_type)
    instead = "; the norm of each is mg.linalg.vector_norm's"
    arrays = [constant_array(x.detach(), "a tensor", instead) for x in tensors if x.size]
    arrays = [x.astype(np.float32) if x.dtype.itemsize == 2 else x for x in arrays]
    norms = _lengths(arrays, norm_type)
    [total] = _lengths([np.array(norms)], norm_type) if norms else [0.0]
    if error_if_nonfinite and not math.isfinite(total):
        raise RuntimeError(
            f"get_total_norm: the norm is {total}; mg.detect_anomaly() finds the op that made the "
            "first such value"
        )
    return total


def _lengths(arrays: list[Any], p: float) -> list[float]:
    """The p-norms of arrays; of one over its largest element where the sum of powers is beyond the
    numbers of its dtype."""
    far = 0.0 if p == 0 or math.isinf(p) else 1 / abs(p)
    ends = {char: 2.0 ** min(far * exponent, 1023) for char, exponent in _EXPONENTS}
    found = []
    with np.errstate(over="ignore", under="ignore", divide="ignore"):
        for x in arrays:
            with at(x):
                x = x.reshape(-1)
                if p == 2 and type(x) is np.ndarray and x.dtype.kind == "f":
                    y = math.sqrt(x.dot(x))  # as linalg.norm's, in half of its time
                else:
                    y = float(array_module(x).linalg.norm(x, p))
                end = ends[x.dtype.char]
                if far and not 1 / end < y < end:
                    y = _scaled_length(x, p, y)
            found.append(y)
    return found


# by the dtype's character: powers of 2 up to this one, and down to the same below 0, are normal
_EXPONENTS = [(char, -int(np.finfo(char).minexp)) for char in "fdFD"]


def _scaled_length(x: Any, p: float, y: float) -> float:
    xp = array_module(x)
    top = float(xp.abs(x).max())
    if not 0 < top < math.inf:
        return y
    root = xp.sqrt(x.real.dtype.type(top))  # in two steps: 1/top may be infinite
    return float(xp.linalg.norm(x / root / root, p)) * float(root) * float(root)


def clip_grad_norm_(
    parameters: Any,
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Scale all gradients by one factor, in place, to a norm of at most max_norm.

    Returns the norm before. Where it is NaN or infinite: RuntimeError with error_if_nonfinite,
    else the gradients are scaled by it, as PyTorch does.
    """
    gradients = _gradients(parameters)
    total = get_total_norm(gradients, norm_type)
    if error_if_nonfinite and not math.isfinite(total):
        raise RuntimeError(
            f"clip_grad_norm_: the norm of the gradients is {total}, so they cannot be scaled; "
            "mg.detect_anomaly() finds the op that made the first such value"
        )
    _scale(gradients, max_norm, total)
    return create.tensor(total)


def clip_grads_with_norm_(
    parameters: Any, max_norm: float, total_norm: Any, foreach: bool | None = None
) -> None:
    """Scale all gradients by max_norm / total_norm where that is below 1; in place."""
    _scale(_gradients(parameters), max_norm, total_norm)


def _scale(gradients: list[Tensor], max_norm: float, total: Any) -> None:
    at_least_zero("clip_grad_norm_", max_norm=max_norm)
    scale = float(max_norm) / (float(total) + 1e-6)
    if not scale >= 1:
        for g in gradients:
            _scale_one(g, scale)
            note_write(g.data, "clipping of gradients by their norm")


@on_its_gpu
def _scale_one(g: Tensor, scale: float) -> None:
    wide = accumulator(g.dtype)
    if wide is None:
        _multiply(g.data, scale)
    else:  # a scale of 16 bits would have few digits, or none
        values = g.data.astype(wide)
        _multiply(values, scale)
        g.data[...] = values


def _multiply(x: Any, scale: float) -> None:
    """x ← x · scale, in two steps where the scale is no normal number of x's dtype."""
    number, tiny = x.dtype.type, float(np.finfo(x.dtype).tiny)
    if 0 < abs(scale) < tiny:
        np.multiply(x, number(tiny), out=x)
        scale /= tiny
    np.multiply(x, number(scale), out=x)


def clip_grad_value_(parameters: Any, clip_value: float, foreach: bool | None = None) -> None:
    """Cut every element of the gradients to [−clip_value, clip_value]; in place.

    TypeError for complex gradients, whose elements have no order: clip_grad_norm_ scales them.
    """
    at_least_zero("clip_grad_value_", clip_value=clip_value)
    gradients = _gradients(parameters)
    if any(g.dtype.kind == "c" for g in gradients):
        raise TypeError(
            "clip_grad_value_: a gradient is complex, and complex numbers have no order; "
            "clip_grad_norm_ scales them by their size"
        )
    for g in gradients:
        bound = g.dtype.type(clip_value)
        with at(g.data):
            np.minimum(np.maximum(g.data, -bound, out=g.data), bound, out=g.data)
        note_write(g.data, "clip_grad_value_")


def _gradients(parameters: Any) -> list[Tensor]:
    if isinstance(parameters, Tensor):
        parameters = [parameters]
    elif isinstance(parameters, ParameterList):
        parameters = [*parameters]
    # a model (a Sequential can be iterated over), or its method that was not called
    elif isinstance(parameters, Module) or not hasattr(parameters, "__iter__"):
        raise TypeError(f"parameters is {parameters!r}; pass model.parameters()")
    return [p.grad for p in parameters if p.grad is not None]


# -- parameters as one vector ------------------------------------------------------------------


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """All parameters behind one another, (total,); gradients flow back."""
    return op.concatenate([op.reshape(p, shape=-1) for p in parameters], axis=0)


def vector_to_parameters(vec: Any, parameters: Iterable[Tensor]) -> None:
    """Write the pieces of a vector (total,), a tensor or array, into the parameters, in place."""
    vec, parameters = create.as_tensor(vec), list(parameters)
    total = sum(p.size for p in parameters)
    if vec.shape != (total,):
        raise ValueError(f"vector_to_parameters: needs a vector ({total},), got {vec.shape}")
    start = 0
    for p in parameters:
        piece = op.to(vec[start : start + p.size], p.device).data
        with at(p.data):
            p.data[...] = piece.reshape(p.shape)
        note_write(p.data, "vector_to_parameters")
        start += p.size


# -- weights in another form -------------------------------------------------------------------


class _Norm(Derivation):
    """The rule of module.<name>, computed from other parameters of it (see nn/derived.py)."""

    def __init__(self, name: str, dim: int | None):
        self._tensor_name = name
        self.dim = dim

    def __call__(self, module: Module) -> Tensor:
        raise NotImplementedError


class _WeightNorm(_Norm):
    made = ("_g", "_v")

    def __call__(self, module: Module) -> Tensor:
        g, v = (getattr(module, f"{self._tensor_name}_{letter}") for letter in "gv")
        return v / norm_except(v, self.dim) * g


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """weight = g · v / ‖v‖, norms over all axes but dim; learned are weight_g and weight_v

    dim counts from the end below 0; None: one norm, of the whole weight (PyTorch 2.13 takes dim=-1
    for None). Salimans and Kingma, 2016. Returns the module.
    """
    weight = module.get_parameter(name)
    weight_with_axis("weight_norm", module, name, dim)
    setattr(module, f"{name}_g", Parameter(norm_except(weight.detach(), dim)))
    setattr(module, f"{name}_v", Parameter(weight.data.copy()))
    derive(module, name, _WeightNorm(name, dim))
    return module


def remove_weight_norm(module: Module, name: str = "weight") -> Module:
    """Make the weight that weight_norm derives a parameter again."""
    return _removed("weight_norm", _WeightNorm, module, name)


class _SpectralNorm(_Norm):
    made = ("_orig", "_u", "_v")

    dim: int

    def __init__(self, name: str, dim: int, iterations: int, eps: float):
        super().__init__(name, dim)
        self.iterations = iterations
        self.eps = eps

    def __call__(self, module: Module) -> Tensor:
        weight = getattr(module, f"{self._tensor_name}_orig")
        matrix = as_rows(weight, self.dim)
        u, v = (getattr(module, f"{self._tensor_name}_{letter}") for letter in "uv")
        sigma = op.sum(op.matmul(matrix, singular.constant(v)) * singular.constant(u).conj())
        return weight / sigma

    def iterate(self, module: Module, args: tuple = ()) -> None:
        """Bring u and v closer to the singular vectors; a forward pre-hook."""
        if not module.training:
            return
        matrix = as_rows(getattr(module, f"{self._tensor_name}_orig").detach(), self.dim)
        u, v = (getattr(module, f"{self._tensor_name}_{letter}") for letter in "uv")
        singular.iterate(matrix, u, v, self.iterations, self.eps, v_first=True)


def spectral_norm(
    module: Module,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> Module:
    """weight = weight_orig / σ, σ its largest singular value, by power iteration in training

    σ = uᴴ W v, where u and v are buffers. Miyato et al., 2018. Returns the module.
    """
    if n_power_iterations < 1:
        raise ValueError("spectral_norm: n_power_iterations must be 1 or more")
    dim = axis_of_outputs(module) if dim is None else dim
    weight = module.get_parameter(name)
    weight_with_axis("spectral_norm", module, name, dim)
    rows = weight.shape[dim]
    setattr(module, f"{name}_orig", Parameter(weight.data))
    rule = _SpectralNorm(name, dim, n_power_iterations, eps)
    for letter, size in (("u", rows), ("v", weight.size // rows)):
        x = init.normal_(create.empty(size, dtype=weight.dtype, device=weight.device))
        module.register_buffer(f"{name}_{letter}", singular.unit(x, eps))
    rule.iterate(module)
    derive(module, name, rule)
    module.register_forward_pre_hook(rule.iterate)
    return module


def remove_spectral_norm(module: Module, name: str = "weight") -> Module:
    """Make the weight that spectral_norm derives, as it is now, a parameter again."""
    return _removed("spectral_norm", _SpectralNorm, module, name)


def _removed(norm: str, kind: type[_Norm], module: Module, name: str) -> Module:
    rule = rules_of(module).get(name)
    if not isinstance(rule, kind):
        raise ValueError(f"remove_{norm}: {name!r} of {module!r} has no {norm}")
    weight = rule(module).detach()
    underive(module, name)
    for hook in [h for h in module._hooks if getattr(h.fn, "__self__", None) is rule]:
        hook.remove()
    for old in [name + made for made in kind.made]:
        delattr(module, old)
    setattr(module, name, Parameter(weight))
    return module


__getattr__ = _missing_names_of(__name__)
