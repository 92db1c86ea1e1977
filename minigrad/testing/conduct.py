"""Conditions on a rule that a single comparison with finite differences does not test.

A rule writes only into its own arrays, gives zeros for a cotangent of zeros, and gives the same
result when it runs again. Its result does not depend on the memory layout, on the wanted gradients,
or on the used results. It is the same if two arguments are one tensor. The checks K4 to K8, K19 and
K20 demand this of ops, mostly bit for bit. A user's function may be ill-conditioned, so gradcheck
uses the tolerance of its comparisons.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from ..tensor_api.tensor import Tensor
from .compare import RTOL, name_of
from .errors import GradcheckError
from .function import Arrays, Function, as_array, pulled_back
from .layouts import layouts, repeated
from .numeric import normal

_CANCELLED = 1e-12  # of a gradient: the rounding left in one that is 0


def check_conduct(function: Function, rng: np.random.Generator, what: str) -> None:
    """fn and its gradient at function.xs, under all of these conditions."""
    xs = function.xs
    vs = normal(rng, function.value(xs))
    leaves, ys = function.record(xs)
    values = [as_array(y) for y in ys]
    watched = {f"result {i}": y for i, y in enumerate(values)}
    watched |= {f"cotangent {i}": v for i, v in enumerate(vs)}
    watched |= {f"argument {i}": x for i, x in zip(function.positions, xs, strict=True)}
    before = {name: x.tobytes() for name, x in watched.items()}

    def pull(cotangents: Sequence[Any]) -> Arrays:
        return pulled_back(leaves, ys, cotangents, retain_graph=True)

    expected = pull(vs)
    for name, x in watched.items():
        if x.tobytes() != before[name]:
            raise GradcheckError(f"{what}: the backward changes {name} in place")
    for i, g in enumerate(pull([np.zeros_like(v) for v in vs])):
        if g.any():  # NaN counts as true
            raise GradcheckError(
                f"{what}: a zero cotangent gives {g[g != 0][0]!r} for {name_of(function, i)}"
            )
    require_same_gradients(
        function, pull(vs), expected, f"{what}: in a second backward of the same call"
    )
    ones = [np.ones_like(v) for v in vs]  # the cotangent of a sum
    for scale, cotangents in ((4096.0, vs), (2.0**-12, vs), (2.0, ones)):  # exact, as powers of 2
        found = [g / scale for g in pull([scale * v for v in cotangents])]
        place = f"{what}: for a cotangent {scale:g} times as large"
        require_same_gradients(function, found, pull(cotangents), place)
    for i, v in enumerate(vs):
        for name, other in layouts(v):
            found = pull([*vs[:i], other, *vs[i + 1 :]])
            require_same_gradients(
                function, found, expected, f"{what}: for a cotangent in memory {name}"
            )
        for name, flat in repeated(v):  # as a sum passes it to a rule
            found, copied = (pull([*vs[:i], g, *vs[i + 1 :]]) for g in (flat, flat.copy()))
            place = f"{what}: for a cotangent in memory {name}"
            require_same_gradients(function, found, copied, place)
    for i, x in enumerate(xs):
        for name, other in layouts(x):
            found = function.vjp([*xs[:i], other, *xs[i + 1 :]], vs)
            place = f"{what}: for {name_of(function, i)} in memory {name}"
            require_same_gradients(function, found, expected, place)
    require_same_gradients(function, one_argument_alone(function, vs), expected,
             f"{what}: when no other argument needs a gradient")  # fmt: skip
    require_same_gradients(function, asked_for_alone(function, vs), expected,
             f"{what}: when no other argument's gradient is asked for")  # fmt: skip
    for used, found, full in some_results(function, vs):
        require_same_gradients(
            function, found, full, f"{what}: when no result but {[*used]} is used"
        )
    _check_tied(function, rng, expected, what)


def check_forward_conduct(function: Function, rng: np.random.Generator, what: str) -> None:
    """The same for forward mode at function.xs: linear in the tangent, independent of memory
    layout."""
    xs, us = function.xs, normal(rng, function.xs)
    watched = {name_of(function, i): x for i, x in enumerate(xs)}
    watched |= {f"the tangent of {name_of(function, i)}": u for i, u in enumerate(us)}
    before = {name: x.tobytes() for name, x in watched.items()}
    expected = function.jvp(xs, us)
    for name, x in watched.items():
        if x.tobytes() != before[name]:
            raise GradcheckError(f"{what}: forward mode changes {name} in place")
    # terms that a tangent may sum: they cancel for a constant function
    largest = [float(np.max(np.abs(a), initial=0.0)) for a in (*xs, *us)]
    sizes = [max(float(np.max(np.abs(y), initial=0.0)), *largest) for y in function.value(xs)]

    def require(tangents: Arrays, at: Arrays, exact: Arrays, terms: Arrays, place: str) -> None:
        factor = max(1.0, *[float(np.max(np.abs(u), initial=0.0)) for u in tangents])
        for i, (t, e, size) in enumerate(zip(function.jvp(at, tangents), exact, terms)):
            off = np.abs(t - e) > _CANCELLED * sizes[i] * factor
            if off.any() and not _near(t, e, np.abs(size)):
                k = int(np.argmax(np.where(t == e, 0, np.abs(t - e))))
                raise GradcheckError(
                    f"{what}: {place}: entry {k} of the tangent of result {i} is "
                    f"{t.reshape(-1)[k]!r}, it should be {e.reshape(-1)[k]!r}"
                )

    of_ones = function.jvp(xs, [np.ones_like(u) for u in us])
    for a, b in ((-1.75, 1.0), (4096.0, 0.0), (2.0**-12, 0.0), (0.0, 0.0)):
        exact = [a * t + b * s for t, s in zip(expected, of_ones, strict=True)]
        terms = [np.abs(a * t) + np.abs(b * s) for t, s in zip(expected, of_ones, strict=True)]
        place = f"not linear in the tangent, for one of {a:g} u + {b:g}"
        require([a * u + b for u in us], xs, exact, terms, place)
    for i, (x, u) in enumerate(zip(xs, us, strict=True)):
        for name, other in layouts(u):
            moved, place = [*us[:i], other, *us[i + 1 :]], f"for a tangent in memory {name}"
            require(moved, xs, expected, expected, place)
        for name, flat in repeated(u):
            moved, copied = ([*us[:i], t, *us[i + 1 :]] for t in (flat, flat.copy()))
            exact = function.jvp(xs, copied)
            require(moved, xs, exact, exact, f"for a tangent in memory {name}")
        for name, other in layouts(x):
            place = f"for {name_of(function, i)} in memory {name}"
            require(us, [*xs[:i], other, *xs[i + 1 :]], expected, expected, place)


def one_argument_alone(function: Function, vs: Sequence[Any]) -> Arrays:
    """The gradient of each argument with the others constant."""
    return [some_arguments(function, vs, [i])[0] for i in range(len(function.xs))]


def asked_for_alone(function: Function, vs: Sequence[Any]) -> Arrays:
    """The gradient of each argument, requested by itself in a backward of one recorded call."""
    leaves, ys = function.record(function.xs)
    return [pulled_back([leaf], ys, vs, retain_graph=True)[0] for leaf in leaves]


def all_arguments_but_one(function: Function, vs: Sequence[Any]) -> Iterator[tuple[int, Arrays]]:
    """(the constant argument, the gradients of the others), for three arguments or more."""
    n = len(function.xs)
    for i in range(n) if n > 2 else ():
        yield i, some_arguments(function, vs, [k for k in range(n) if k != i])


def some_arguments(function: Function, vs: Sequence[Any], wanted: Sequence[int]) -> Arrays:
    """The gradients of these arguments with the others constant."""
    tensors = [Tensor(x, requires_grad=i in wanted) for i, x in enumerate(function.xs)]
    return pulled_back([tensors[i] for i in wanted], function.call(tensors), vs)


def some_results(
    function: Function, vs: Sequence[Any]
) -> Iterator[tuple[tuple[int, ...], Arrays, Arrays]]:
    """(results, gradients where only these were used, gradients where the others got zeros).

    Each alone and, of three or more, all but each. A result that was not used has no cotangent:
    rules get None for it. Compared by numbers, and with a graph of the backward.
    """
    n = len(vs)
    if n < 2:
        return
    leaves, ys = function.record(function.xs)
    choices = [(i,) for i in range(n)]
    choices += [tuple(k for k in range(n) if k != i) for i in range(n)] if n > 2 else []
    for used in choices:
        padded = [v if k in used else np.zeros_like(v) for k, v in enumerate(vs)]
        some = [ys[k] for k in used], [vs[k] for k in used]
        expected = pulled_back(leaves, ys, padded, retain_graph=True)
        for options in ({"retain_graph": True}, {"create_graph": True}):
            yield used, pulled_back(leaves, *some, **options), expected


def ties(function: Function) -> list[tuple[int, ...]]:
    """Which differentiated arguments could be the same tensor: pairs, or all if there are three or
    more."""
    alike: dict[Any, list[int]] = {}
    for i, x in enumerate(function.xs):
        alike.setdefault((x.shape, x.dtype), []).append(i)
    pairs = [pair for places in alike.values() for pair in combinations(places, 2)]
    return sorted(pairs) + [tuple(places) for places in alike.values() if len(places) > 2]


def tied_gradients(
    function: Function, tied: Sequence[int], cotangents: Callable[[Arrays], Arrays]
) -> tuple[Any, list] | None:
    """(the gradient of f(x, x), those by its first x, by its second ...) at x = xs[tied[0]].

    None if f(x, x) is not finite, as x log x of a negative x.
    """
    i, *others = tied
    values = [function.xs[i].copy() if k in others else x for k, x in enumerate(function.xs)]
    ys = function.value(values)
    if not all(np.isfinite(y).all() for y in ys):
        return None
    vs = cotangents(ys)
    separate = function.vjp(values, vs)
    leaves = [Tensor(x, requires_grad=True) for x in values]
    for j in others:
        leaves[j] = leaves[i]
    ys = function.call(leaves)
    return pulled_back([leaves[i]], ys, vs)[0], [separate[k] for k in tied]


def _check_tied(function: Function, rng: np.random.Generator, usual: Arrays, what: str) -> None:
    """The gradient of f(x, x). `usual` are the gradients at other arguments: compared with them, a
    gradient that cancels is rounding. The correlation of x and x is 1 for every x."""
    rounding = _CANCELLED * max([float(np.max(np.abs(g), initial=0.0)) for g in usual], default=0.0)
    for tied in ties(function):
        try:
            with np.errstate(all="ignore"):
                found = tied_gradients(function, tied, lambda ys: normal(rng, ys))
        except GradcheckError:
            raise
        except Exception:
            continue  # fn has no value there
        if found is None:
            continue
        g, separate = found
        total, terms = np.sum(separate, axis=0), np.sum(np.abs(separate), axis=0)
        off = np.abs(g - total) > rounding
        if np.isfinite(terms).all() and off.any() and not _near(g, total, terms):
            names = " and ".join([name_of(function, i) for i in tied])
            raise GradcheckError(
                f"{what}: where {names} are the same tensor, its gradient is not the sum of theirs"
            )


def require_same_gradients(function: Function, found: Arrays, expected: Arrays, what: str) -> None:
    """Require the expected gradients, within gradcheck's tolerance; the error names the wrong
    entry."""
    for i, (g, exact) in enumerate(zip(found, expected, strict=True)):
        if not _near(g, exact, np.abs(exact)):
            k = int(np.argmax(np.where(g == exact, 0, np.abs(g - exact))))
            raise GradcheckError(
                f"{what}, the gradient of {name_of(function, i)} is {g.reshape(-1)[k]!r} at "
                f"{[int(n) for n in np.unravel_index(k, g.shape)]}, else {exact.reshape(-1)[k]!r}"
            )


def _near(a: np.ndarray, b: np.ndarray, terms: np.ndarray) -> bool:
    return bool((np.abs(a - b) <= RTOL * np.max(terms, initial=0.0)).all())
