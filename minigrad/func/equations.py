"""The op behind root and fixed_point: a solution, differentiated by the implicit function theorem.

r(x, θ) = 0 defines x(θ). Differentiating both sides, J ẋ = −∂r/∂θ θ̇ with J = ∂r/∂x. So for a
cotangent g of x, solve Jᵀu = g once; the gradient of θ is −(∂r/∂θ)ᵀu. The steps of the solver are
not recorded. So any solver gives the same gradient, and memory does not grow with its steps.

The rule consists of vjps of r at the solution and of one linear solve. All of them are
differentiable, so derivatives of any order and forward mode follow. With linear="gmres" the solve
is itself the root of Jᵀu − g, an equation like any other.

Griewank and Walther, Evaluating Derivatives, 2008, chapter 15; Blondel et al., Efficient and
modular implicit differentiation, 2022.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..backends.device import array_module
from ..engine import modes
from ..engine.graph import raw, wrap
from ..engine.primitive import Primitive
from ..engine.registry import op as ops
from ..errors import ConvergenceError, TransformError
from ..modes.recording import no_grad
from ..tensor_api.create import as_tensor
from ..tensor_api.tensor import Tensor
from . import solvers
from .batching import vmap
from .linear_map import linearize
from .reverse import vjp

_DENSE_UP_TO = 256  # unknowns; beyond, linear="auto" means gmres


@dataclass(frozen=True)
class Equation:
    """r(x, *θ) = 0 for vectors x; leading axes count examples.

    name      of the function that the user called, for errors
    residual  (x, *θ) -> r, on tensors
    solve     (equation, x0, *θ) -> x, on arrays
    linear    how Jᵀu = g is solved: "dense", "gmres" or "auto"
    single    under vmap, the equation of one example; `in_dims` says what of (x, *θ) is batched
    """

    name: str
    residual: Callable
    solve: Callable
    linear: str
    single: "Equation | None" = None
    in_dims: tuple = ()

    def batched(self, in_dims: tuple) -> "Equation":
        """The same equation for a batch of (x, *θ)."""
        residual = vmap(self.residual, in_dims, randomness="same")
        return replace(self, residual=residual, single=self, in_dims=in_dims)

    def transposed(self) -> "Equation":
        """Jᵀu − g = 0 for u, with (g, x, *θ) in place of θ."""

        def residual(u: Any, g: Any, x: Any, *params: Any) -> Any:
            return self.vjp_x(x, params)(u)[0] - g

        def solve(equation: Equation, u: Any, *values: Any) -> Any:
            r, product = linearize(
                lambda u: equation.residual(u, *[wrap(v) for v in values]), wrap(u * 0)
            )
            return gmres(product, -raw(r))

        return Equation(self.name, residual, solve, "gmres")

    def vjp_x(self, x: Any, params: Any) -> Callable:
        """u ↦ (Jᵀu,) at x."""
        return vjp(lambda x: self.residual(x, *params), x)[1]

    def adjoint(self, g: Any, x: Any, params: list) -> Any:
        """u with Jᵀu = g, differentiable in g, x and θ."""
        if is_dense(self.linear, x):
            u = dense_solve(self, dense_transpose(self, x, params), g)
        else:
            u = implicit(g * 0, g, x, *params, equation=self.transposed())
        return u


def is_dense(linear: str, x: Any) -> bool:
    """Whether the adjoint system is solved with J as a matrix (else by GMRES)."""
    return linear == "dense" or (linear == "auto" and x.shape[-1] <= _DENSE_UP_TO)


def dense_transpose(equation: Equation, x: Any, params: Any) -> Any:
    """Jᵀ (its conjugate for complex x) as a matrix for each example: one vjp for each unknown."""
    vjp_fn, n = equation.vjp_x(x, params), x.shape[-1]
    units = array_module(raw(x)).eye(n, dtype=x.dtype)
    rows = vmap(lambda e: vjp_fn(ops.broadcast_to(e, shape=x.shape))[0], randomness="same")(units)
    return ops.moveaxis(rows, source=0, destination=-1)


def dense_solve(equation: Equation, matrix: Any, g: Any) -> Any:
    """u with matrix · u = g for each example; ConvergenceError for a singular matrix."""
    try:
        u = ops.solve(matrix, ops.expand_dims(as_tensor(g), axis=-1))[..., 0]
    except np.linalg.LinAlgError as error:
        raise _singular(equation) from error
    size = np.abs(raw(matrix)).max(axis=(-2, -1)) * np.abs(raw(u)).max(axis=-1)
    if not (size * np.finfo(u.dtype).eps <= np.abs(raw(g)).max(axis=-1)).all():
        raise _singular(equation)  # u is as large as rounding alone makes it
    return u


def _singular(equation: Equation) -> ConvergenceError:
    return ConvergenceError(
        f"{equation.name}: the Jacobian of the equation by its unknowns is singular at this point "
        "(a multiple root, or fewer equations than unknowns). There the solution is not a "
        "differentiable function of the parameters; choose others"
    )


def gmres(product: Callable, b: Any) -> Any:
    """u with product(u) = b, where product is linear; to the default tolerance of the dtype."""

    def on_arrays(u: Any) -> Any:
        return raw(product(wrap(u)))

    return solvers.gmres(on_arrays, b, solvers.tolerance(b.dtype), 10 * b.shape[-1] + 30)


# -- the op ----------------------------------------------------------------------------------------


def _solved(x0: Any, *params: Any, equation: Equation) -> Any:
    """x with r(x, *θ) = 0, on arrays; nothing of the search is recorded."""
    recording = modes.state.recording
    with no_grad():
        x = raw(equation.solve(equation, x0, *params))
    if recording:
        r = equation.residual(wrap(x), *map(wrap, params))
        if r.level or r.node is not None:
            raise TransformError(
                f"{equation.name}: the function uses a tensor that is being differentiated and is "
                "not among its parameters, whose gradient would be lost; pass it as one: "
                f"{equation.name}(f, x0, *params) calls f(x, *params)"
            )
    return x


# Its arguments are the start x0, which has no part in the solution, and the parameters.
implicit = Primitive(_solved, "implicit", ["arrays"], variadic=True, defaults={"equation": None})


@implicit.vjp
def implicit_vjp(g, arrays, y, equation, needs):
    """Jᵀu = g ;  gθ = −(∂r/∂θ)ᵀ u"""
    _, *params = arrays
    wanted = [i for i, need in enumerate(needs[1:]) if need]
    u = equation.adjoint(g, y, params)

    def by_wanted(*values: Any) -> Any:
        given = dict(zip(wanted, values, strict=True))
        return equation.residual(as_tensor(y), *[given.get(i, p) for i, p in enumerate(params)])

    found = vjp(by_wanted, *[params[i] for i in wanted])[1](u)
    gs: list = [None] * len(arrays)
    for i, c in zip(wanted, found, strict=True):
        gs[1 + i] = -c if any(isinstance(v, Tensor) for v in (g, y, *arrays)) else (-c).data
    return gs


@implicit.batch
def implicit_batch(op, xs, batched, params):
    x0, *rest = xs
    if not batched[0]:
        size = next(x.shape[0] for x, b in zip(xs, batched, strict=True) if b)
        x0 = ops.broadcast_to(x0, shape=(size, *x0.shape))
    dims = (0, *[0 if b else None for b in batched[1:]])
    return op(x0, *rest, equation=params["equation"].batched(dims))
