"""einsum of any number of operands: an order of pairwise products, each of them one BLAS call.

Three steps: `_parse` turns what users write into labels, `_contraction_order` finds a cheap order,
`contract` multiplies two operands. Steps on one operand alone (a diagonal, a sum) come first. In
`contract` two of (a, b, y) then share every label. Then its derivatives are contractions of the
same kind.
"""

from math import prod
from typing import Any

import numpy as np

from ..backends.caches import cached
from ..backends.device import plain_array
from ..backends.dtypes import accumulator, common_dtype
from ..backends.optional import optional
from ..engine.errors import describe
from ..engine.primitive import multilinear
from ..engine.registry import op
from ..tensor_api.composite import composite
from .axes import array_like, in_wide
from .matmul import product

_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


@multilinear
def contract(a, b, *, labels=("", "", "")):
    """y = Σ a b over the labels that y has not ;  ga = contract(g, b̄), gb = contract(ā, g)

    labels (of a, of b, of y), each label in exactly two or in all three: ("ij", "jk", "ik") is the
    matrix product. Labels in all three are batch axes.
    """
    a_labels, b_labels, y_labels = labels
    if not {*a_labels} - {*y_labels}:  # nothing to sum: a product of arrays with their axes aligned
        return _aligned(a, a_labels, y_labels) * _aligned(b, b_labels, y_labels)
    a_axes, b_axes, y_axes, (n_batch, n_rows, n_inner) = _layout((a_labels, b_labels, y_labels))
    left, right = a.transpose(a_axes), b.transpose(b_axes)
    batch, rows = left.shape[:n_batch], left.shape[n_batch : n_batch + n_rows]
    inner, columns = left.shape[n_batch + n_rows :], right.shape[n_batch + n_inner :]
    m, k, p = prod(rows), prod(inner), prod(columns)
    stack = (prod(batch),) if batch else ()
    y = product(left.reshape((*stack, m, k)), right.reshape((*stack, k, p)))
    return y.reshape((*batch, *rows, *columns)).transpose(y_axes)


@cached("einsum layouts", max_entries=1024)
def _layout(labels: tuple) -> tuple:
    """How a contraction becomes a matrix product: the axes of a as (batch, rows, inner) labels, of
    b as (batch, inner, columns), of y from (batch, rows, columns), and (batch, rows, inner) counts.
    """
    a_labels, b_labels, y_labels = labels
    batch = [i for i in y_labels if i in a_labels and i in b_labels]
    rows = [i for i in y_labels if i not in b_labels]
    columns = [i for i in y_labels if i not in a_labels]
    inner = [i for i in a_labels if i not in y_labels]
    made = batch + rows + columns
    return (
        [a_labels.index(i) for i in batch + rows + inner],
        [b_labels.index(i) for i in batch + inner + columns],
        [made.index(i) for i in y_labels],
        (len(batch), len(rows), len(inner)),
    )


def _aligned(x, labels, y_labels):
    """x with its axes in the order of y_labels, and axes of length 1 for those it has not."""
    present = [i for i in y_labels if i in labels]
    x = x.transpose([labels.index(i) for i in present])
    return x[tuple(slice(None) if i in labels else None for i in y_labels)]


@contract.vjp("a")
def contract_da(g, b, labels):
    return contract(g, b.conj(), labels=(labels[2], labels[1], labels[0]))


@contract.vjp("b")
def contract_db(g, a, labels):
    return contract(a.conj(), g, labels=(labels[0], labels[2], labels[1]))


@contract.batch
def contract_batch(op_, xs, batched, params):
    """The batch axis is one more label, of those operands that have it."""
    used = "".join(params["labels"])
    new = next(letter for letter in _LETTERS if letter not in used)
    a, b, y = params["labels"]
    labels = (new + a if batched[0] else a, new + b if batched[1] else b, new + y)
    return contract(*xs, labels=labels)


@composite(numpy=np.einsum)
def einsum(subscripts: Any, *operands: Any, optimize: Any = True) -> Any:
    """Einstein summation, einsum("bij,bjk->bik", a, b), with ellipsis, diagonals, implicit output.

    Any number of operands, multiplied pairwise in the order that opt_einsum (or NumPy) finds;
    optimize=False goes from left to right. Also NumPy's form einsum(a, [0, 1], b, [1, 2], [0, 2]).
    ValueError where subscripts and shapes do not fit.
    """
    if not isinstance(subscripts, str):
        if operands and isinstance(operands[0], str):
            raise TypeError(f"einsum: the subscripts come first: einsum({operands[0]!r}, x, ...)")
        subscripts, operands = _from_lists((subscripts, *operands))
    xs = [plain_array(x) for x in operands]  # anything that is no number is named by its place here
    for i, x in enumerate(xs):
        if x.dtype.kind in "OUS":
            what = describe(operands[i])
            raise TypeError(f"einsum: operand {i} is {what}, not an array of numbers")
    dtype = xs[0].dtype if xs else None
    if len({x.dtype for x in xs}) > 1:  # sums over one operand alone, too, are of the result's
        dtype = common_dtype(*[x.dtype for x in xs])
        narrow = [x.dtype.kind in "biu" or accumulator(x.dtype) is not None for x in xs]
        xs = [x.astype(dtype, copy=False) if n else x for x, n in zip(xs, narrow, strict=True)]
    if len(xs) > 2 and accumulator(dtype):  # products of two on the way to the last
        return in_wide(lambda *xs: einsum(subscripts, *xs, optimize=optimize), *xs)
    terms, y_labels, size = _parse(subscripts, tuple(tuple(x.shape) for x in xs))
    parts = [
        _single(x, term, y_labels, terms[:i] + terms[i + 1 :], size)
        for i, (x, term) in enumerate(zip(xs, terms, strict=True))
    ]
    labels = tuple(term for _, term in parts)
    order = _contraction_order(labels, y_labels, tuple(size.items()), bool(optimize))
    for places in order:
        chosen = [parts.pop(i) for i in sorted(places, reverse=True)][::-1]
        kept = set(y_labels).union(*(term for _, term in parts))
        while len(chosen) > 1:
            (a, a_labels), (b, b_labels), *rest = chosen
            wanted = kept.union(*(term for _, term in rest))
            chosen = [_pair(a, a_labels, b, b_labels, wanted), *rest]
        parts.append(chosen[0])
    y, labels_y = parts[0]
    if set(labels_y) - set(y_labels):  # one that others had at length 1, dropped by now
        y, labels_y = _single(y, labels_y, y_labels, (), size)
    present = [labels_y.index(i) for i in y_labels if i in labels_y]
    if present != sorted(present):
        y = op.transpose(y, axes=tuple(present))
    shape = tuple(size[i] for i in y_labels)
    return y if y.shape == shape else op.broadcast_to(y, shape=shape)


def _pair(a: Any, a_labels: str, b: Any, b_labels: str, wanted: set) -> tuple[Any, str]:
    """The product of two operands, with the labels that are wanted later."""
    shared = [i for i in a_labels if i in b_labels and i in wanted]
    y_labels = "".join(
        shared
        + [i for i in a_labels if i not in b_labels]
        + [i for i in b_labels if i not in a_labels]
    )
    return contract(a, b, labels=(a_labels, b_labels, y_labels)), y_labels


def _single(x: Any, labels: str, y_labels: str, others: tuple, size: dict) -> tuple[Any, str]:
    """One operand made ready: diagonals of repeated labels, sums over labels of this operand alone.

    Axes of length 1 that broadcast against a longer one are dropped: the other operand has it.
    """
    thin = [k for k, i in enumerate(labels) if x.shape[k] == 1 != size[i]]
    if thin:
        x = op.squeeze(x, axis=tuple(thin))
        labels = "".join(i for k, i in enumerate(labels) if k not in thin)
    for i in sorted(set(labels)):
        while labels.count(i) > 1:
            first = labels.index(i)
            second = labels.index(i, first + 1)
            x = op.diagonal(x, axis1=first, axis2=second)  # the diagonal becomes the last axis
            labels = labels[:first] + labels[first + 1 : second] + labels[second + 1 :] + i
    used = set(y_labels).union(*others)
    alone = [k for k, i in enumerate(labels) if i not in used]
    if alone:
        x = op.sum(x, axis=tuple(alone), dtype=x.dtype)  # NumPy's sum would widen integers
        labels = "".join(i for i in labels if i in used)
    return x, labels


# -- reading the subscripts ------------------------------------------------------------------


def _from_lists(args: tuple) -> tuple[str, tuple]:
    """NumPy's second form, operands with lists of axis numbers, as subscripts and operands."""
    if not all(isinstance(axes, list | tuple | range) for axes in (args[1::2] or [None])):
        raise TypeError(
            "einsum: give subscripts and then the operands, einsum('ij,jk->ik', a, b), or each "
            "operand with the list of its axes, einsum(a, [0, 1], b, [1, 2], [0, 2])"
        )

    def term(axes: Any) -> str:
        if any(i is not Ellipsis and i not in range(len(_LETTERS)) for i in axes):
            raise ValueError(f"einsum: axes are numbered 0 … {len(_LETTERS) - 1}, got {axes}")
        return "".join("..." if axis is Ellipsis else _LETTERS[axis] for axis in axes)

    pairs = len(args) // 2
    text = ",".join(term(axes) for axes in args[1 : 2 * pairs : 2])
    if len(args) % 2:
        text += "->" + term(args[-1])
    return text, args[: 2 * pairs : 2]


@cached("einsum subscripts", max_entries=256)
def _parse(subscripts: str, shapes: tuple) -> tuple[tuple[str, ...], str, dict[str, int]]:
    """(labels of each operand, labels of the result, length of each label), no ellipses left."""
    text = subscripts.replace(" ", "")
    left, arrow, right = text.partition("->")
    terms = left.split(",")
    if len(terms) != len(shapes):
        named = "1 operand" if len(terms) == 1 else f"{len(terms)} operands"
        raise ValueError(
            f"einsum: {subscripts!r} names {named}, got {len(shapes)}; commas stand between the "
            "terms, one for each operand"
        )
    if any(term.count("...") > 1 for term in (*terms, right)):
        raise ValueError(
            f"einsum: {subscripts!r} has two ellipses in one term, and their axes are "
            "ambiguous; one '...' means all axes without a letter"
        )
    free = [i for i in _LETTERS if i not in text]
    hidden = max(
        (
            len(shape) - len(term) + 3
            for term, shape in zip(terms, shapes, strict=True)
            if "..." in term
        ),
        default=0,
    )
    ellipsis = "".join(free[: max(hidden, 0)])
    written = []
    for term, shape in zip(terms, shapes, strict=True):
        covered = len(shape) - len(term.replace("...", ""))
        if covered < 0 or ("..." not in term and covered):
            raise ValueError(
                f"einsum: the term {term!r} of {subscripts!r} does not fit the shape {shape}: give "
                "each axis a letter, or write '...' for the axes without one"
            )
        written.append(term.replace("...", ellipsis[len(ellipsis) - covered :]))
    if not arrow:  # implicit: the ellipsis, then the labels that appear once, in order
        once = sorted(i for i in set("".join(written)) if left.count(i) == 1)
        right = "..." + "".join(once)
    y_labels = right.replace("...", ellipsis)
    _check_labels(subscripts, "".join(written), y_labels)
    return tuple(written), y_labels, _lengths(subscripts, written, shapes)


def _check_labels(subscripts: str, known: str, y_labels: str) -> None:
    """ValueError unless all are letters, and those of the result, each once, are the operands'."""
    strange = [i for i in known + y_labels if i not in _LETTERS]
    twice = [i for i in y_labels if y_labels.count(i) > 1]
    from_nowhere = [i for i in y_labels if i not in known]
    if strange:
        raise ValueError(f"einsum: {strange[0]!r} in {subscripts!r} is no letter; a label is one")
    if twice:
        raise ValueError(
            f"einsum: the result of {subscripts!r} has {twice[0]!r} twice; leave one out, and put "
            "a diagonal into the result with mg.diag_embed"
        )
    if from_nowhere:
        raise ValueError(
            f"einsum: the result of {subscripts!r} has {from_nowhere[0]!r}, which no operand has; "
            "x[:, None] gives x an axis of length 1, mg.broadcast_to makes it longer"
        )


def _lengths(subscripts: str, terms: list, shapes: tuple) -> dict[str, int]:
    """The length of each label; a length of 1 broadcasts."""
    size: dict[str, int] = {}
    for term, shape in zip(terms, shapes, strict=True):
        own: dict[str, int] = {}
        for i, n in zip(term, shape, strict=True):
            if own.setdefault(i, n) != n:
                raise ValueError(
                    f"einsum: label {i!r} of {subscripts!r} names the diagonal of axes {own[i]} "
                    f"and {n} long in the term {term!r}; shapes {shapes}"
                )
            if size.setdefault(i, n) == 1:
                size[i] = n
            elif n not in (1, size[i]):
                raise ValueError(
                    f"einsum: label {i!r} of {subscripts!r} is {size[i]} long in one place and "
                    f"{n} in another; shapes {shapes}. Axes of one label are as long as each "
                    "other, or 1: look for an operand that should be transposed"
                )
    return size


@cached("einsum orders", max_entries=256)
def _contraction_order(terms: tuple, y_labels: str, sizes: tuple, optimize: bool) -> list:
    """Which operands to multiply next, as positions in a list that each product is put behind."""
    if len(terms) <= 2 or not optimize:
        return [(0, 1)] + [(0, i) for i in range(len(terms) - 2, 0, -1)] if len(terms) > 1 else []
    size = dict(sizes)
    shapes = [tuple(size[i] for i in term) for term in terms]
    text = ",".join(terms) + "->" + y_labels
    opt_einsum = optional("opt_einsum")
    if opt_einsum is not None:  # NumPy's order is as good for few operands
        return list(opt_einsum.contract_path(text, *shapes, shapes=True)[0])
    stand_ins = [np.broadcast_to(np.float64(0), shape) for shape in shapes]
    return np.einsum_path(text, *stand_ins, optimize="greedy")[0][1:]


@composite(numpy=np.linalg.multi_dot)
def multi_dot(arrays: Any) -> Any:
    """y = the matrix product of all arrays, in the cheapest order; the ends may be 1-d."""
    xs = [array_like(x) for x in arrays]
    shapes = [x.shape for x in xs]
    fit = all(a[-1] == b[0] for a, b in zip(shapes, shapes[1:], strict=False) if a and b)
    ends_fit = {len(shape) for shape in shapes[:1] + shapes[-1:]} <= {1, 2}
    if len(xs) < 2 or not (fit and ends_fit) or any(len(shape) != 2 for shape in shapes[1:-1]):
        raise ValueError(
            "multi_dot needs two or more matrices (the ends may be 1-d), each with as many rows as "
            f"the one before has columns; got shapes {shapes}"
        )
    terms = [_LETTERS[i : i + 2] for i in range(len(xs))]
    if xs[0].ndim == 1:
        terms[0] = terms[0][1]
    if xs[-1].ndim == 1:
        terms[-1] = terms[-1][0]
    ends = (terms[0][0] if xs[0].ndim == 2 else "") + (terms[-1][-1] if xs[-1].ndim == 2 else "")
    return einsum(",".join(terms) + "->" + ends, *xs)


__all__ = ["contract", "einsum", "multi_dot"]
