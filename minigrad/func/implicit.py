"""root and fixed_point: the solution is a differentiable function of the parameters.

equations.py has the theorem and the op, solvers.py the searches.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from ..backends.dtypes import common_dtype, is_differentiable
from ..engine.errors import describe
from ..engine.graph import raw, wrap
from ..engine.registry import op as ops
from ..errors import ConvergenceError, TransformError
from ..modes.recording import no_grad
from ..tensor_api.create import as_tensor
from . import solvers, tree
from .equations import Equation, dense_solve, dense_transpose, gmres, implicit, is_dense
from .linear_map import linearize

__all__ = ["fixed_point", "root"]


def root(
    f: Callable,
    x0: Any,
    *params: Any,
    solver: str | Callable = "newton",
    tol: float | None = None,
    max_steps: int = 100,
    linear: str = "auto",
) -> Any:
    """x with f(x, *params) = 0, near x0, as a differentiable function of params.

    x and the parameters may be trees of tensors; f returns what has x's form and shapes. x0 is only
    where the search starts. Everything to be differentiated must be a parameter. f is called again
    for the derivatives: what else it reads must be the same then.

    solver     "newton", or any function (g, x0) -> x with g(x) = f(x, *params); the gradient does
               not depend on it
    tol        |f| ≤ tol · (1 + |x|), the largest element; ε^(3/4) of the dtype if left out
    linear     how Newton's steps and the adjoint system are solved: "dense" (J as a matrix),
               "gmres" (products with J only), "auto" (dense up to 256 unknowns)

    ConvergenceError if the solution is not reached, or if J is singular there. Complex functions
    must be holomorphic in x.
    """
    searches = {"newton": newton}
    return _solution("root", f, f, x0, params, (searches, solver, tol, max_steps), linear)


def fixed_point(
    f: Callable,
    x0: Any,
    *params: Any,
    solver: str | Callable = "iterate",
    tol: float | None = None,
    max_steps: int = 1000,
    linear: str = "auto",
) -> Any:
    """x with x = f(x, *params), reached from x0, as a differentiable function of params.

    solver     "iterate" (x ← f(x)), "anderson" (the same, accelerated), "newton", or any function
               (g, x0) -> x with g(x) = f(x, *params); the gradient does not depend on it
    tol        |f(x) − x| ≤ tol · (1 + |x|), the largest element

    All else is as in mg.func.root.
    """

    def residual(x: Any, *params: Any) -> Any:
        ys = tree.matched(x, f(x, *params), "fixed_point")
        pairs = zip(tree.leaves(x), ys, strict=True)
        return tree.rebuild(x, [a - _fitting("fixed_point", a, b) for a, b in pairs])

    searches = {"iterate": _iterating(solvers.iterate), "anderson": _iterating(solvers.anderson)}
    search = {**searches, "newton": newton}, solver, tol, max_steps
    return _solution("fixed_point", residual, f, x0, params, search, linear)


def _solution(
    name: str, residual: Callable, f: Callable, x0: Any, params: tuple, search: tuple, linear: str
) -> Any:
    """x with residual(x, *params) = 0 by the op `implicit`, which knows vectors only."""
    searches, solver, tol, max_steps = search
    if linear not in ("auto", "dense", "gmres"):
        raise TransformError(f'{name}: linear is "auto", "dense" or "gmres", got {linear!r}')
    if not callable(solver) and solver not in searches:
        raise TransformError(
            f"{name}: solver is one of {[*searches]} or a function (f, x0) -> x, got {solver!r}"
        )
    unknowns = _Unknowns(name, x0)

    def on_vectors(x: Any, *values: Any) -> Any:
        x = unknowns.apart(x)
        return unknowns.vector(residual(x, *tree.rebuild(params, values)))

    def solve(equation: Equation, x: Any, *values: Any) -> Any:
        limit = solvers.tolerance(x.dtype) if tol is None else tol
        if not callable(solver):
            return searches[solver](equation, x, values, limit, max_steps)
        given = tree.rebuild(params, [wrap(v) for v in values])
        found = solver(lambda x: f(x, *given), unknowns.apart(wrap(x)))
        return _checked(equation, raw(unknowns.vector(found)), values, limit)

    x = implicit(
        unknowns.start,
        *[as_tensor(p) for p in tree.leaves(params)],
        equation=Equation(name, on_vectors, _each(solve) if callable(solver) else solve, linear),
    )
    return unknowns.apart(x)


class _Unknowns:
    """The tree x as one vector, and back."""

    def __init__(self, name: str, x0: Any):
        self.name, self.x0 = name, x0
        xs = [as_tensor(x).detach() for x in tree.leaves(x0)]
        if not xs:
            raise TransformError(f"{name}: x0 holds no tensor, so there is nothing to solve for")
        dtype = common_dtype(*[x.dtype for x in xs])
        self.dtype = dtype if is_differentiable(dtype) else np.dtype(float)
        self.shapes = [x.shape for x in xs]
        self.start = self.vector(tree.rebuild(x0, xs))

    def apart(self, x: Any) -> Any:
        """The tree whose leaves stand one after the other in the vector x."""
        parts, at = [], 0
        for shape in self.shapes:
            size = int(np.prod(shape))
            parts.append(ops.reshape(x[at : at + size], shape=shape))
            at += size
        return tree.rebuild(self.x0, parts)

    def vector(self, values: Any) -> Any:
        """The leaves of a tree like x, one after the other."""
        leaves = tree.matched(self.x0, values, self.name)
        flat = []
        for shape, y in zip(self.shapes, leaves, strict=True):
            fitting = _fitting(self.name, np.empty(shape, self.dtype), y)
            flat.append(ops.reshape(fitting, shape=(-1,)))
        return ops.astype(ops.concatenate(flat), dtype=self.dtype)


def _fitting(name: str, x: Any, y: Any) -> Any:
    """What f returned for x, if it has its shape."""
    y = as_tensor(y)
    if y.shape != x.shape:
        raise TransformError(f"{name}: f returned {describe(y)} for an unknown {describe(x)}")
    return y


# -- searches: (equation, x0, θ, tol, max_steps) -> x, on arrays -----------------------------------


def _on_arrays(equation: Equation, values: Any) -> Callable:
    """x ↦ r(x, θ) on arrays."""
    tensors = [wrap(v) for v in values]
    return lambda x: raw(equation.residual(wrap(x), *tensors))


def _iterating(solver: Callable) -> Callable:
    """A solver of x = f(x), where r(x) = x − f(x)."""

    def search(equation: Equation, x: Any, values: Any, tol: float, max_steps: int) -> Any:
        r = _on_arrays(equation, values)
        return solver(lambda x: x - r(x), x, tol, max_steps)

    return search


def newton(equation: Equation, x: Any, values: Any, tol: float, max_steps: int) -> Any:
    """Newton's steps with J as a matrix, or from products with J."""
    tensors = [wrap(v) for v in values]

    def step(x: Any, r: Any) -> Any:
        if is_dense(equation.linear, x):
            transposed = raw(dense_transpose(equation, wrap(x), tensors))
            matrix = wrap(transposed.swapaxes(-1, -2).conj())
            try:
                return raw(dense_solve(equation, matrix, r))
            except ConvergenceError as error:
                raise ConvergenceError(
                    f"{equation.name}: Newton's search came to a point where the Jacobian is "
                    f"singular, with a residual of {float(solvers.largest(r).max()):.2g}; start "
                    "elsewhere (x0), or pass a solver of your own",
                    residual=float(solvers.largest(r).max()),
                ) from error
        push = linearize(lambda x: equation.residual(x, *tensors), wrap(x))[1]
        return gmres(push, r)

    return solvers.newton(_on_arrays(equation, values), step, x, tol, max_steps)


def _each(solve: Callable) -> Callable:
    """A user's solver, which knows one example, on each example of a batch."""

    def solve_each(equation: Equation, x: Any, *values: Any) -> Any:
        if equation.single is None:
            return solve(equation, x, *values)
        given = (x, *values)
        found = []
        for i in range(len(x)):
            example = [v if a is None else v[i] for v, a in zip(given, equation.in_dims)]
            found.append(solve_each(equation.single, *example))
        return np.stack(found)

    return solve_each


def _checked(equation: Equation, x: Any, values: Any, tol: float) -> Any:
    """The result of a user's solver, if it solves the equation."""
    with no_grad():
        r = _on_arrays(equation, values)(x)
    if not solvers.is_small(r, x, tol):
        raise ConvergenceError(
            f"{equation.name}: the solver returned a point where the equation is off by "
            f"{float(solvers.largest(r).max()):.2g}, more than tol={tol:.2g}; the derivative holds "
            "at solutions only. Let the solver go further, or raise tol=",
            residual=float(solvers.largest(r).max()), tol=float(tol),
        )  # fmt: skip
    return x
