"""Samples of einsum: every way in which a label can be shared, summed or repeated."""

import numpy as np

from ..spec import ErrorSample, Sample, register_op
from .forms import COMPLEX, normal, of_several

FORMS = [
    ("ij,jk->ik", (2, 3), (3, 4)),
    ("ij,jk", (2, 3), (3, 4)),
    ("ij->ji", (2, 3)),
    ("ii->i", (3, 3)),
    ("ii", (3, 3)),
    ("iij->j", (3, 3, 2)),
    ("ijij->ji", (2, 3, 2, 3)),
    ("i,j->ij", (2,), (3,)),
    ("i,i->i", (3,), (3,)),
    ("i,i", (3,), (3,)),
    ("ij,j->", (2, 3), (3,)),
    ("bij,bjk->bki", (2, 3, 4), (2, 4, 2)),
    ("...ij,...jk->...ik", (2, 3, 4), (4, 2)),
    ("...ij,...jk", (2, 1, 3, 2), (4, 2, 3)),
    ("i...->...", (2, 3, 4)),
    ("i...", (2, 3)),
    ("ijk->", (2, 3, 2)),
    ("ij,kj->ik", (2, 1), (4, 5)),
    (",ij->ij", (), (2, 3)),
    ("ij,jk,kl->il", (2, 3), (3, 4), (4, 2)),
    ("i,ij,j", (2,), (2, 3), (3,)),
    ("ij,jk,kl,lm,i->m", (2, 3), (3, 2), (2, 3), (3, 2), (2,)),
    ("ab,bc,cd,bd->ad", (2, 3), (3, 2), (2, 4), (3, 4)),
    ("ab,bc,cd,de,bd->ae", (2, 3), (3, 2), (2, 4), (4, 2), (3, 4)),
    # two labels of the first product recur, one of them in the last operand alone
    ("ab,ab,bc,cd,de,ea->c", *[(2, 2)] * 6),
    ("ij,ij->i", (0, 3), (0, 3)),
]


_REORDERED = "a cheaper order of the sums: inf − inf in NumPy's order may be inf in another"


def _call(*arrays, subscripts):
    from ...engine.registry import op

    return op.einsum(subscripts, *arrays)


def _reference(*arrays, subscripts):
    return np.einsum(subscripts, *arrays).astype(np.result_type(*arrays))


def _samples(rng, dtype):
    for subscripts, *shapes in FORMS:
        args = tuple(normal(rng, dtype, shape) for shape in shapes)
        if len(args) > 3:  # NumPy has another order of the sums: their terms must not cancel
            args = tuple(abs(x).astype(x.dtype) for x in args)
        yield Sample(f"{subscripts} {shapes}", args, {"subscripts": subscripts})


def _error(name, subscripts, match, *shapes):
    arrays = tuple(np.ones(shape) for shape in shapes)
    return ErrorSample(name, arrays, ValueError, match, {"subscripts": subscripts})


register_op(
    "einsum",
    _samples,
    call=_call,
    reference=_reference,
    dtypes=COMPLEX,
    nan_alone=_REORDERED,
    errors=[
        _error("too few operands", "ij,jk", "names 2 operands, got 1", (2, 3)),
        _error("lengths differ", "ij,jk", "label 'j'.*3 long.*2 in another", (2, 3), (2, 3)),
        _error("too few axes", "ijk", r"the term 'ijk'.*does not fit the shape \(2, 3\)", (2, 3)),
        _error("unknown label in the result", "ij->k", "has 'k', which no operand has", (2, 3)),
        _error("label twice in the result", "ij->ii", "has 'i' twice", (2, 3)),
    ],
)


def _contract(a, b, labels):
    return np.einsum("{},{}->{}".format(*labels), a, b).astype(np.result_type(a, b))


register_op(
    "contract",
    of_several(
        [
            (((2, 3), (3, 4)), {"labels": ("ij", "jk", "ik")}),
            (((2, 3), (3, 4)), {"labels": ("ij", "jk", "ki")}),
            (((2, 3, 4), (4, 3, 2)), {"labels": ("bij", "jib", "b")}),
            (((2, 3, 4), (2, 4, 2)), {"labels": ("bij", "bjk", "kbi")}),
            (((2, 3), (3, 2)), {"labels": ("ij", "jk", "ijk")}),
            (((3,), (3,)), {"labels": ("i", "i", "")}),
            (((), (3,)), {"labels": ("", "i", "i")}),
        ]
    ),
    reference=_contract,
    dtypes=COMPLEX,
    skips={"K17": "einsum drops axes of length 1 that broadcast, before contract"},
)


def _chain(*arrays):
    from ...engine.registry import op

    return op.multi_dot(arrays)


def _chain_reference(*arrays):
    y = arrays[0]
    if any(x.ndim > 2 for x in arrays):
        raise ValueError("a stack of matrices")
    for x in arrays[1:]:
        y = np.matmul(y, x).astype(y.dtype)
    return y


register_op(
    "multi_dot",
    of_several(
        [
            (((2, 3), (3, 4)), {}),
            (((2, 3), (3, 4), (4, 2)), {}),
            (((3,), (3, 4), (4, 2), (2,)), {}),
        ]
    ),
    call=_chain,
    reference=_chain_reference,
    dtypes=COMPLEX,
    nan_alone=_REORDERED,
    errors=[
        ErrorSample("one matrix", (np.ones((2, 2)),), ValueError, "two or more matrices"),
        ErrorSample(
            "a stack", (np.ones((2, 2)), np.ones((1, 2, 2)), np.ones(2)), ValueError, "matrices"
        ),
    ],
)
