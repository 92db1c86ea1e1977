"""Samples of matrices times vectors, in stacks."""

import numpy as np

from ..spec import ErrorSample, register_op
from .forms import COMPLEX, of_several

_WRONG = "must be .* with the same .; got"
FORMS = [((2, 3), (3,)), ((2, 1, 1, 3), (4, 3)), ((2, 2, 3), (2, 3)), ((1, 1), (2, 1))]


def _vector(x):
    if x.ndim == 0:
        raise ValueError("a number is no vector")
    return x


def _matvec(a, b):
    if a.ndim < 2 or a.shape[-1] != _vector(b).shape[-1]:
        raise ValueError("shapes")
    return (a @ b[..., None])[..., 0].astype(np.result_type(a, b))


def _vecmat(a, b):
    if b.ndim < 2 or _vector(a).shape[-1] != b.shape[-2]:
        raise ValueError("shapes")
    return (a.conj()[..., None, :] @ b)[..., 0, :].astype(np.result_type(a, b))


register_op(
    "matvec",
    of_several([(pair, {}) for pair in FORMS]),
    reference=_matvec,
    dtypes=COMPLEX,
    errors=[ErrorSample("lengths", (np.ones((2, 3)), np.ones(2)), ValueError,
                        rf"matvec: a {_WRONG} \(2, 3\) and \(2,\)")],
)  # fmt: skip
register_op(
    "vecmat",
    of_several([((b, (*a[:-2], a[-1], a[-2])), {}) for a, b in FORMS]),
    reference=_vecmat,
    dtypes=COMPLEX,
    errors=[ErrorSample("lengths", (np.ones(2), np.ones((3, 2))), ValueError,
                        rf"vecmat: a {_WRONG} \(2,\) and \(3, 2\)")],
)  # fmt: skip
