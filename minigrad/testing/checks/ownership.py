"""K7 and K8: no op writes into memory that it does not own, and no gradient is shared."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import combinations
from typing import Any

import numpy as np

from ...engine.graph import reachable
from ...engine.versions import owner_of
from ...tensor_api import derivatives
from ..case import DOUBLE, Case, argument_names
from ..errors import DoesNotApply, GradcheckError
from ..function import as_array, as_tensors, gradients
from ..numeric import normal
from .base import check
from .cotangent import recorded


def saved_arrays(ys: Iterable[Any]) -> Iterator[tuple[str, np.ndarray]]:
    """(op and name, array) for every array that the graph of ys holds for its rules."""
    roots = [y.node for y in ys if getattr(y, "requires_grad", False)]
    for node in reachable(roots):
        names = node.plan.names if node.saved else ()
        for name, value in zip(names, node.saved or (), strict=True):
            for x in value if isinstance(value, tuple | list) else (value,):
                if isinstance(x, np.ndarray):
                    yield f"{node.op.name} saved {name}", x


@check("K7", "inputs, cotangent, result and saved arrays are not written")
def k7(case: Case) -> int:
    """Compares their bytes before and after a forward and a backward, plain and with create_graph.
    No rule may write into one and later restore it: another thread may read it in between."""
    watched = [(f"argument {i}", x) for i, x in enumerate(case.sample.args)]
    watched = [(name, x) for name, x in watched if isinstance(x, np.ndarray)]
    before = [x.tobytes() for _, x in watched]
    function, leaves, ys, values = recorded(case)
    vs = normal(case.rng("K7"), values)
    _require_same(watched, before, "by the call itself")
    later = [(f"result {i}", y) for i, y in enumerate(values)]
    later += [(f"cotangent {i}", v) for i, v in enumerate(vs)]
    later += saved_arrays(ys)
    watched += later
    before += [x.tobytes() for _, x in later]
    for options, how in (({"retain_graph": True}, ""), ({"create_graph": True}, " for a graph")):
        gradients(leaves, ys, vs, **options)
        _require_same(watched, before, f"by a rule, in the backward{how}")
    with _read_only([x for _, x in watched]):
        try:
            gradients(leaves, ys, vs, retain_graph=True)
        except ValueError as error:
            if "read-only" not in str(error):
                raise
            raise GradcheckError(
                "a rule writes into an argument, the cotangent, the result or a saved array, and "
                "then restores it; another thread may read it in between. Work on a "
                f"copy ({error})"
            ) from error
    return 3 * len(watched)


def _require_same(watched: list, before: list, what: str) -> None:
    for (name, x), old in zip(watched, before, strict=True):
        if x.tobytes() != old:
            raise GradcheckError(f"{name} was changed in place {what}; work on a copy")


@contextmanager
def _read_only(arrays: Sequence[np.ndarray]) -> Iterator[None]:
    """Arrays that are read-only while the block runs. Arrays whose memory NumPy does not own stay
    writable, since NumPy could not make them writable again."""
    ours = [x for x in arrays if isinstance(x, np.ndarray) and owner_of(x).flags.owndata]
    writeable = [x for x in ours if x.flags.writeable]
    for x in writeable:
        x.flags.writeable = False
    try:
        yield
    finally:
        for x in sorted(writeable, key=_depth):  # a view becomes writable only after its base
            x.flags.writeable = True


def _depth(x: Any) -> int:
    """The length of the chain of views that ends in x."""
    return 0 if getattr(x, "base", None) is None else 1 + _depth(x.base)


@check("K8", "no result or gradient shares memory with another, with an argument or a cotangent",
       per="every", gradient=False)  # fmt: skip
def k8(case: Case) -> int:
    """Results of an op that is no view, in each dtype; gradients in double precision, also compared
    with the saved arrays."""
    count = of_results(case)
    if case.dtype in DOUBLE:
        with suppress(DoesNotApply):  # without a gradient
            count += of_gradients(case)
    return count


def of_results(case: Case) -> int:
    """How many pairs of arrays had to be separate. These are results and arguments of one call,
    with arguments in C and in Fortran order, and results of two calls."""
    primitive, count, earlier = case.primitive, 0, []
    for order in ("C", "F"):
        args = tuple([x.copy(order) if isinstance(x, np.ndarray) else x for x in case.sample.args])
        ys = [as_array(y) for y in case.call(*as_tensors(args)) if hasattr(y, "dtype")]
        given = [(_argument(case, i), x) for i, x in enumerate(args) if isinstance(x, np.ndarray)]
        made = [(f"result {i}", y) for i, y in enumerate(ys)]
        if primitive is not None and not primitive.view:
            pairs = [*combinations(made, 2), *[(y, x) for y in made for x in given]]
            count += len(pairs)
            for (one, a), (other, b) in pairs:
                if share_memory(a, b):
                    raise GradcheckError(
                        f"{one} and {other} share memory: a write into one of them (y += 1) would "
                        "change the other. Return a copy; or, if sharing is intended, make "
                        "the op with view=True"
                    )
        for name, y in made:
            for x in earlier:
                if y.flags.writeable and x.flags.writeable and share_memory(x, y):
                    raise GradcheckError(
                        f"{name} of two calls is one array, which the op keeps: a write into the "
                        "first result (y += 1) would change the second. Return a new array"
                    )
        earlier = ys
    return count + 1


def _argument(case: Case, i: int) -> str:
    names = argument_names(case.spec)
    return f"argument {i} ({names[i]})" if i < len(names) else f"argument {i}"


def share_memory(a: np.ndarray, b: np.ndarray) -> bool:
    return np.may_share_memory(a, b) and np.shares_memory(a, b)


def of_gradients(case: Case) -> int:
    """How many pairs of a gradient and another array were separate, in repeated backwards."""
    function, leaves, ys, values = recorded(case)
    vs = normal(case.rng("K8"), values)
    others = [(f"argument {i}", x) for i, x in enumerate(function.xs)]
    others += [(f"result {i}", y) for i, y in enumerate(values)]
    others += [(f"cotangent {i}", v) for i, v in enumerate(vs)]
    others += saved_arrays(ys)
    given = []
    for way in (
        "retain_graph",
        "retain_graph",
        "create_graph",
    ):  # twice: no backward may write an earlier gradient
        found = gradients(leaves, ys, vs, **{way: True})
        given += [(f"grad({way}) {i}", g.data) for i, g in enumerate(found) if g is not None]
    for _ in range(2):
        tracked = [(y, v) for y, v in zip(ys, vs, strict=True) if y.requires_grad]
        derivatives.backward([y for y, _ in tracked], [v for _, v in tracked], retain_graph=True)
    given += [(f".grad {i}", x.grad.data) for i, x in enumerate(leaves) if x.grad is not None]
    pairs = [*combinations(given, 2), *[(g, other) for g in given for other in others]]
    for (one, a), (other, b) in pairs:
        if share_memory(a, b):
            raise GradcheckError(f"{one} and {other} share memory")
    return len(pairs)
