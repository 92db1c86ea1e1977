"""Wrong rules for arguments plainer than any sample: equal numbers, zeros, whole numbers, squares.

Also ops that change state shared by the whole program.
"""

import sys

import numpy as np

from ..engine.backward import unbroadcast
from ..engine.modes import state
from ..tensor_api.tensor import Tensor
from .plant import OFF, PRODUCT, SINE, Plant, numbers, pairs, plant, sine_off, times, vectors
from .spec import Sample


def _alike(x):
    return x.size > 1 and bool((x == x.flat[0]).all())


def _of_sign(sign, x):
    return x.size > 4 and not _alike(x) and bool((sign * x > 0).all())


def _whole(x):
    return x.size > 1 and not _alike(x) and bool((x == np.round(x)).all())


def _total(x):
    return np.sum(np.sin(x))


def _total_off(wrong):
    """The rule of Σ sin x, off by 0.1 % where wrong(x) is true of an array."""

    def rule(g, x):
        off = isinstance(x, np.ndarray) and wrong(x)
        return g * np.cos(x) * (OFF if off else 1.0)

    return {"x": rule}


def _total_detached(wrong):
    """The rule of Σ sin x, without its derivative where wrong(array) is true."""

    def rule(g, x):
        out = isinstance(x, Tensor) and isinstance(x.data, np.ndarray) and wrong(x.data)
        return g * np.cos(x.detach() if out else x)

    return {"x": rule}


def _conjugate_off(wrong):
    """The rule of Σ sin z, off by 0.1 % where wrong(z) is true of an array."""

    def rule(g, x):
        off = isinstance(x, np.ndarray) and wrong(x)
        return g * np.conj(np.cos(x)) * (OFF if off else 1.0)

    return {"x": rule}


def _product_off(wrong):
    """The product's rules, off by 0.1 % in the first where wrong(a, b) is true of arrays."""

    def rule(g, a, b, a_shape):
        arrays = isinstance(a, np.ndarray) and isinstance(b, np.ndarray)
        return unbroadcast(g * b, a_shape) * (OFF if arrays and wrong(a, b) else 1.0)

    return {**PRODUCT, "a": rule}


def _product_of_zeros_off(g, a, b, a_shape):
    """As if b were ones where it is all zeros."""
    zeros = isinstance(b, np.ndarray) and b.size > 1 and not b.any()
    return unbroadcast(g * (b + 1.0 if zeros else b), a_shape)


def _is_outer(a, b):
    return a.ndim == b.ndim == 2 and a.shape[1] == 1 < b.shape[1] and b.shape[0] == 1 < a.shape[0]


def _some(rng, dtype):
    yield Sample("some", (numbers(rng, dtype, 5),))


def _with_detached_tangents(op):
    wrong = "wrong" in op.name
    op.jvp(lambda x_t, x: (x_t.detach() if wrong and hasattr(x_t, "node") else x_t) * np.cos(x))
    return op


def _with_batch_rule(wrong):
    """vmap runs the sine on the whole batch, off by 0.1 % where wrong(batch) is true."""

    def adapt(entry):
        def rule(op, xs, batched, params):
            return op(xs[0]) * (OFF if "wrong" in entry.name and wrong(xs[0]) else 1.0)

        entry.batch(rule)
        return entry

    return adapt


def _scattered(x):
    while isinstance(x, Tensor):
        x = x._data
    return x.ndim > 1 and not x.flags.c_contiguous


def _as_matrix(g, x):
    c = g * np.cos(x)
    return c.view(np.matrix) if isinstance(c, np.ndarray) and c.ndim == 2 else c


def _seeding(x):
    np.random.seed(0)
    return np.sin(x)


def _printing_less(g, x):
    np.set_printoptions(precision=3)
    return g * np.cos(x)


def _nesting_less(x):
    sys.setrecursionlimit(sys.getrecursionlimit() - 1)
    return np.sin(x)


def _buffering_less(g, x):
    np.setbufsize(4096)
    return g * np.cos(x)


def _other_inferred(x):
    return np.sin(x) * (OFF if state.inference else 1.0)


_TOTAL = {"forward": _total, "right": SINE, "samples": vectors(8)}
_ROWS = {"forward": np.sin, "right": SINE, "samples": vectors(5, (3, 4))}

PLAIN: list[Plant] = [
    plant(
        "equal cotangents", "wrong for equal cotangents, as a mean brings", **_ROWS,
        wrong=sine_off(lambda g, x: _alike(g) and g.flat[0] != 1),
    ),
    plant(
        "positive cotangents", "wrong for cotangents that are all positive", **_ROWS,
        wrong=sine_off(lambda g, x: _of_sign(1, g)),
    ),
    plant(
        "square", "wrong for square matrices, as in no sample", **_ROWS,
        wrong=sine_off(lambda g, x: x.ndim == 2 and x.shape[0] == x.shape[1] > 1),
    ),
    plant(
        "one row", "wrong for a matrix of one row, as in no sample", **_ROWS,
        wrong=sine_off(lambda g, x: x.ndim == 2 and x.shape[0] == 1 < x.shape[1]),
    ),
    plant(
        "power of two", "wrong for 16 elements, as in no sample", **_ROWS,
        wrong=sine_off(lambda g, x: x.shape == (16,)),
    ),
    plant(
        "all equal", "wrong where all elements are equal", **_TOTAL,
        wrong=_total_off(lambda x: x.size > 2 and _alike(x)),
    ),
    plant(
        "zeros alone", "wrong where all elements are zero", **_TOTAL,
        wrong=_total_off(lambda x: x.size > 2 and not x.any()),
    ),
    plant(
        "whole numbers", "wrong for whole numbers in floats, as in no sample", **_TOTAL,
        wrong=_total_off(_whole),
    ),
    plant(
        "all positive", "wrong where all elements are positive, as in no sample", **_TOTAL,
        wrong=_total_off(lambda x: _of_sign(1, x)),
    ),
    plant(
        "real among complex", "wrong for complex numbers whose imaginary parts are all zero",
        forward=_total, right=_conjugate_off(lambda x: False), samples=_some,
        wrong=_conjugate_off(lambda x: x.dtype.kind == "c" and x.size > 1 and not x.imag.any()),
        dtypes=("float64", "complex128"),
    ),
    plant(
        "zeros beside", "wrong for an argument of zeros with another", forward=times,
        right=PRODUCT, wrong={**PRODUCT, "a": _product_of_zeros_off},
        samples=pairs(((4,), (4,))),
    ),
    plant(
        "row by column", "wrong for a column times a row, as in no sample", forward=times,
        right=PRODUCT, wrong=_product_off(_is_outer), samples=pairs(((3, 4), (3, 4))),
    ),
    plant(
        "second at ties", "the second derivative is wrong where two elements are equal", **_TOTAL,
        wrong=_total_detached(lambda x: np.unique(x).size < x.size),
    ),
    plant(
        "second if negative", "the second derivative is wrong where all elements are negative",
        **_TOTAL, wrong=_total_detached(lambda x: _of_sign(-1, x)),
    ),
    plant(
        "detached tangent", "the jvp rule is right, and has no derivative by the tangent",
        forward=np.sin, right=SINE, wrong=SINE, samples=vectors(5), call=_with_detached_tangents,
    ),
    plant(
        "numbers in a batch", "vmap is wrong for examples without axes, as no sample is",
        forward=np.sin, right=SINE, wrong=SINE, samples=vectors(5),
        call=_with_batch_rule(lambda x: x.ndim == 1),
    ),
    plant(
        "scattered batch", "vmap is wrong for examples not adjacent in memory", forward=np.sin,
        right=SINE, wrong=SINE, samples=vectors(5), call=_with_batch_rule(_scattered),
    ),
    plant(
        "matrix returned", "a rule returns a numpy.matrix, of which * is a product of matrices",
        **_ROWS, wrong={"x": _as_matrix},
    ),
    plant(
        "seed set", "the op sets the seed of numpy.random", forward=np.sin,
        wrong_forward=_seeding, right=SINE, wrong=SINE, samples=vectors(5),
    ),
    plant(
        "print options", "a rule sets NumPy's print options, and leaves them so", forward=np.sin,
        right=SINE, wrong={"x": _printing_less}, samples=vectors(5),
    ),
    plant(
        "recursion limit", "the forward lowers Python's limit of nested calls, and leaves it so",
        wrong_forward=_nesting_less, forward=np.sin, right=SINE, wrong=SINE, samples=vectors(5),
    ),
    plant(
        "buffer", "a rule sets the size of NumPy's buffer, and leaves it so", forward=np.sin,
        right=SINE, wrong={"x": _buffering_less}, samples=vectors(5),
    ),
    plant(
        "inference", "the value is another in inference_mode", forward=np.sin,
        wrong_forward=_other_inferred, right=SINE, wrong=SINE, samples=vectors(5),
    ),
]  # fmt: skip
