"""Jacobians, Hessians and their products: transforms made of vjp, jvp and vmap."""

from collections.abc import Callable
from typing import Any

from ..backends.device import array_module
from ..backends.dtypes import is_differentiable
from ..backends.pool import is_count
from ..engine.graph import raw
from ..engine.registry import op as ops
from ..errors import TransformError
from ..tensor_api.create import as_tensor
from ..tensor_api.tensor import Tensor
from . import tree
from .batching import vmap
from .forward import one_each, pushed, pushed_through
from .levels import named_after, value_of
from .randomness import drawing_the_same
from .reverse import Recorded, chosen, gradient_of, no_variable, pulled_back, which

__all__ = ["hessian", "hvp", "jacfwd", "jacobian", "jacrev", "vhp"]


def jacrev(
    fn: Callable,
    argnums: int | tuple = 0,
    has_aux: bool = False,
    chunk_size: int | None = None,
) -> Callable:
    """(*args) -> J of shape y.shape + x.shape, by one vjp for each element of y, batched.

    Where y or an argument is a tree, or argnums a tuple, J is a tree: the form of y, with the form
    of the arguments in place of each leaf; with argnums=() that is (). chunk_size bounds how many
    rows are computed at once, and so the memory. With has_aux, fn returns (y, aux), and this
    (J, aux).

    Complex numbers: where y is complex, J = ∂y/∂Re x, which is dy/dx where y is holomorphic (two
    vjps for each element). The rows of a real y are gradients, ∂y/∂Re x + i ∂y/∂Im x.
    """
    return _by_rows("jacrev", fn, argnums, has_aux, chunk_size)


def _by_rows(
    what: str, fn: Callable, argnums: Any, has_aux: bool, chunk_size: int | None
) -> Callable:
    """jacrev in the name of `what`, which users have called."""
    argnums = which(what, argnums)
    _require_rows(what, chunk_size)

    @named_after(what, fn)
    def transformed(*args: Any, **kwargs: Any) -> Any:
        of_chosen, primals = chosen(what, fn, argnums, args, kwargs)
        run = Recorded(what, of_chosen, primals, has_aux, lasting=True)

        def block(y: Tensor) -> Any:
            def gradients(basis: Any) -> list:
                return _mapped(lambda g: run.vjp([y], [g], again=True), basis, chunk_size)

            rows = gradients(_basis(y))
            if y.dtype.kind == "c":  # pulled back, 1 gives the gradient of Re y, i that of Im y
                turned = gradients(1j * _basis(y))
                rows = [ops.real(a) + 1j * ops.real(b) for a, b in zip(rows, turned, strict=True)]
            shaped = [
                ops.reshape(row, shape=(*y.shape, *x.shape))
                for row, x in zip(rows, run.xs, strict=True)
            ]
            return _chosen_form(run.inputs, shaped, argnums)

        jacobian = tree.tree_map(block, run.returned)
        return (jacobian, run.aux) if has_aux else jacobian

    return transformed


def jacfwd(
    fn: Callable,
    argnums: int | tuple = 0,
    has_aux: bool = False,
    chunk_size: int | None = None,
) -> Callable:
    """(*args) -> J of shape y.shape + x.shape, by one jvp for each element of x, batched.

    Trees, chunk_size, has_aux and complex numbers as in jacrev.
    """
    return _by_columns("jacfwd", fn, argnums, has_aux, chunk_size)


def _by_columns(
    what: str, fn: Callable, argnums: Any, has_aux: bool, chunk_size: int | None
) -> Callable:
    """jacfwd in the name of `what`, which users have called."""
    argnums = which(what, argnums)
    _require_rows(what, chunk_size)

    @named_after(what, fn)
    def transformed(*args: Any, **kwargs: Any) -> Any:
        of_chosen, primals = chosen(what, fn, argnums, args, kwargs)
        primals = tree.tree_map(lambda x: value_of(what, x), primals)
        xs = tree.leaves(primals)
        for x in xs:
            if not is_differentiable(x.dtype):
                raise no_variable(what, x)
        results: list = []  # of each run: (y, aux), the same for every tangent
        mapped = drawing_the_same(_mapped)

        def columns(i: int) -> list:
            def push(t: Any) -> Any:
                ts = [t if k == i else None for k in range(len(xs))]
                y, ty, aux = pushed_through(what, of_chosen, primals, ts, has_aux)
                results.append((y, aux))
                return tree.leaves(ty)

            basis = _basis(xs[i])
            moved = mapped(push, basis, chunk_size)
            if basis.dtype.kind == "c" and any(ty.dtype.kind != "c" for ty in moved):
                turned = mapped(push, 1j * basis, chunk_size)  # a real result's way along Im x
                moved = [
                    ty if ty.dtype.kind == "c" else ty + 1j * t
                    for ty, t in zip(moved, turned, strict=True)
                ]
            moved = [ops.moveaxis(ty, source=0, destination=-1) for ty in moved]
            moved = [  # a result of integers has derivative 0, in x's dtype as in jacrev
                ty if is_differentiable(ty.dtype) else ops.astype(ty, dtype=xs[i].dtype)
                for ty in moved
            ]
            return [ops.reshape(ty, shape=(*ty.shape[:-1], *xs[i].shape)) for ty in moved]

        by_input = [columns(i) for i in range(len(xs))]
        if not xs:  # nothing to differentiate in, as with argnums=(): the form of y without blocks
            y, _, aux = pushed_through(what, of_chosen, primals, [], has_aux)
            results.append((y, aux))
        y, aux = results[0]
        rows = zip(*by_input, strict=True) if xs else [()] * len(tree.leaves(y))
        blocks = [_chosen_form(primals, list(row), argnums) for row in rows]
        jacobian = tree.rebuild(y, blocks)
        return (jacobian, aux) if has_aux else jacobian

    return transformed


def jacobian(
    fn: Callable,
    argnums: int | tuple = 0,
    has_aux: bool = False,
    chunk_size: int | None = None,
) -> Callable:
    """(*args) -> J of shape y.shape + x.shape: jacrev by its longer name."""
    return _by_rows("jacobian", fn, argnums, has_aux, chunk_size)


def hessian(
    fn: Callable,
    argnums: int | tuple = 0,
    has_aux: bool = False,
    chunk_size: int | None = None,
) -> Callable:
    """(*args) -> the second derivatives, y.shape + x.shape + x.shape, forward over reverse.

    Trees, chunk_size and has_aux as in jacrev.
    """
    gradient = _by_rows("hessian", fn, argnums, has_aux, chunk_size)
    return _by_columns("hessian", gradient, argnums, has_aux, chunk_size)


def hvp(fn: Callable, primals: tuple, tangents: tuple) -> Any:
    """The Hessian of a scalar function times tangents, without the Hessian: forward over reverse.

    A product for one primal, which may be a tree; a tuple of them for several.
    """
    primals = one_each("hvp", "primals", primals)
    tangents = one_each("hvp", "tangents", tangents)
    argnums = 0 if len(primals) == 1 else tuple(range(len(primals)))
    return pushed("hvp", gradient_of("hvp", fn, argnums), primals, tangents, False)[1]


def vhp(fn: Callable, primals: tuple, cotangents: tuple) -> Any:
    """vᵀ H of a scalar function, without the Hessian: reverse over reverse.

    The numbers of hvp, since H is symmetric, without a jvp of any op in fn: for those that have
    none. It records the first backward, so hvp takes less memory. Arguments and result as hvp's;
    torch.autograd.functional.vhp gives the pair (fn(*primals), this).
    """
    primals = one_each("vhp", "primals", primals)
    cotangents = one_each("vhp", "cotangents", cotangents)
    argnums = 0 if len(primals) == 1 else tuple(range(len(primals)))
    vjp_fn = pulled_back("vhp", gradient_of("vhp", fn, argnums), primals)[1]
    if len(primals) == 1:
        return vjp_fn(cotangents[0])[0]
    return vjp_fn(cotangents)


def _chosen_form(primals: tuple, values: list, argnums: int | tuple) -> Any:
    """The values in the form of the chosen arguments: of the one, or a tuple of all."""
    formed = tree.rebuild(primals, values)
    return formed[0] if isinstance(argnums, int) else formed


def _basis(x: Tensor) -> Any:
    """The unit arrays of x's shape, one after the other along a first axis."""
    xp = array_module(raw(x))
    return xp.eye(x.size, dtype=x.dtype).reshape(x.size, *x.shape)


def _require_rows(what: str, chunk_size: Any) -> None:
    if chunk_size is not None and not is_count(chunk_size):
        raise TransformError(
            f"{what}: chunk_size is a number of rows, at least 1, got {chunk_size!r}"
        )


def _mapped(fn: Callable, basis: Any, chunk_size: int | None) -> list:
    """vmap(fn) over the basis, at most chunk_size elements at a time; a list, as fn returns."""
    if len(basis) == 1:  # a scalar: nothing to batch
        return [ops.expand_dims(y, axis=0) for y in fn(as_tensor(basis[0]))]
    return vmap(fn, randomness="same", chunk_size=chunk_size)(basis)
