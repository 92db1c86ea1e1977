"""Products of matrices in blocks that BLAS multiplies without first copying (packing) them.

A large product begins with copies of both factors, in the order in which BLAS's kernel reads them.
Where a matrix has few rows or columns, each copied number is used only a few times. Copying then
takes up to half of the time. OpenBLAS has kernels for AVX-512 that read the factors unpacked, for
up to a million multiplications: a product is cut into blocks of that size. With any other BLAS,
products stay whole.

Where BLAS may use several threads, products from `blas.MIDDLE` on stay whole too: this is faster on
two threads.

Rounding. These kernels add all terms one after the other, whereas BLAS otherwise adds some 320 at a
time and then those sums. A long inner axis is therefore cut into parts whose products are added.
The parts are shorter where the sum is over all pixels of images: the error is then as small as
BLAS's.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from ..backends import blas
from ..backends.blocks import Steps, scratch, take_steps
from ..backends.caches import cached
from ..backends.cuts import divisor

MOST = 100**3  # multiplications that the kernels for small matrices accept
LONGEST = 800  # terms that they add up,
SHORT = 256  # or these, for sums over pixels
WIDEST = 64  # columns of a block: more bring no gain
MOST_TRANSPOSED = 32 * 32  # entries of the result where b's columns are contiguous,
LEAST_INNER = 96  # and the least inner length: shorter columns are faster to copy


def multiply(a: Any, b: Any, y: Any, longest: int = LONGEST) -> None:
    """y = a b for stacks of matrices of one dtype; `longest`: terms that one product adds up."""
    take_steps(product_steps(a, b, y, longest))


def add_product(a: Any, b: Any, total: Any) -> None:
    """total += a b, matrices whose inner axis is long: all pixels of images."""
    product = scratch.empty("product", total.shape, total)
    multiply(a, b, product, SHORT)
    total += product


def product_steps(a: Any, b: Any, y: Any, longest: int = LONGEST) -> Steps:
    """The steps of y = a b."""
    blocks = blocks_for(a, b, longest)
    return [(np.matmul, (a, b, y))] if blocks is None else steps_in_blocks(a, b, y, *blocks)


MANY_ROWS = 48  # rows of a from which copying bᵀ costs less than it saves


def transposed_for(n: int, b: Any) -> Any:
    """bᵀ of a stack of matrices b, for products of n rows each with it.

    A view, or, where BLAS would pack the view, a copy with contiguous rows, which it reads
    unpacked.
    """
    view = b.swapaxes(-1, -2)
    k, m = view.shape[-2:]
    copied = n >= MANY_ROWS and n * m > MOST_TRANSPOSED and n * k * m <= MOST
    copied = copied and isinstance(b, np.ndarray) and b.dtype.char in "fd"
    return view.copy() if copied and blas.packs_no_small_factors() else view


def multiplier(b: Any, n: int) -> Callable | None:
    """product(a, y): y = a b for contiguous a of n rows, many times: b's blocks are found once.

    None where the product stays whole, or a would be divided too.
    """
    k, m = b.shape
    blocks = blocks_of(n, b)
    if blocks is None or blocks[:2] != (n, k):
        return None
    columns = blocks[2]
    parts, shape = b.reshape((k, m // columns, columns)).swapaxes(0, 1), (n, m // columns, columns)
    return lambda a, y: np.matmul(a, parts, out=y.reshape(shape).swapaxes(0, 1))


def blocks_for(a: Any, b: Any, longest: int = LONGEST) -> tuple[int, int, int] | None:
    """(rows, inner length, columns) of the blocks for a b; None where it stays whole."""
    return blocks_of(a.shape[-2], b, longest)


def blocks_of(n: int, b: Any, longest: int = LONGEST) -> tuple[int, int, int] | None:
    """The same for n rows times b."""
    k, m = b.shape[-2:]
    if not isinstance(b, np.ndarray) or b.dtype.char not in "fd":  # also while a tape is traced
        return None
    if not blas.packs_no_small_factors():
        return None
    if n * k * m >= blas.MIDDLE and not blas.on_one_thread():
        return None
    return _blocks(n, k, m, longest, b.strides[-1] != b.itemsize and m > 1)


def steps_in_blocks(a: Any, b: Any, y: Any, rows: int, inner: int, columns: int) -> Steps:
    """The steps of y = a b in blocks of `rows` and `columns`, and parts of `inner` of the inner
    axis.

    A stack of products: a (..., row blocks, 1, rows, inner), b (..., 1, column blocks, inner,
    columns); several parts come as an axis in front of the blocks.
    """
    n, k, m = *a.shape[-2:], b.shape[-1]
    parts, target = (), y
    if inner < k:
        parts = (k // inner,)
        target = scratch.empty("parts", (*y.shape[:-2], *parts, n, m), y)
        a = a.reshape((*a.shape[:-1], *parts, inner)).swapaxes(-3, -2)
        b = b.reshape((*b.shape[:-2], *parts, inner, m))
    a = a.reshape((*a.shape[:-2], n // rows, 1, rows, inner))
    b = b.reshape((*b.shape[:-1], m // columns, columns)).swapaxes(-3, -2)[..., None, :, :, :]
    blocks = target.reshape((*target.shape[:-2], n // rows, rows, m // columns, columns))
    steps: Steps = [(np.matmul, (a, b, blocks.swapaxes(-3, -2)))]
    if parts:
        steps.append((np.add.reduce, (target, -3, None, y)))
    return steps


@cached("blocks of small products", max_entries=1024)
def _blocks(n: int, k: int, m: int, longest: int, transposed: bool) -> tuple[int, int, int] | None:
    """(rows, inner length, columns) of the blocks; None where a whole product is faster.

    transposed: whether b's columns are contiguous
    """
    most = MOST_TRANSPOSED if transposed else MOST
    if n * k * m <= MOST and n * m <= most and k <= longest:
        return None  # BLAS takes it without packing
    inner = divisor(k, longest)
    if inner < (LEAST_INNER if transposed else min(k, LEAST_INNER)):
        return None
    entries = min(MOST // inner, most) if inner else 0
    columns = divisor(m, min(WIDEST, entries))
    rows = divisor(n, entries // columns) if columns else 0
    enough = rows >= min(n, 4) and columns >= min(m, 16) and rows
    return (rows, inner, columns) if enough else None


MANY_NUMBERS = 1 << 10  # of a result; with fewer np.matmul takes no longer


def are_many_outer(a: Any, b: Any) -> bool:
    """Whether a (..., n, 1) b (..., 1, m) has many entries; for NumPy arrays."""
    return (
        a.shape[-1] == 1
        and a.ndim > 1 < b.ndim
        and a.size * b.shape[-1] >= MANY_NUMBERS
        and type(a) is np.ndarray is type(b)
    )


def outer_products(a: Any, b: Any) -> Any:
    """a b where the summed axis has length 1.

    BLAS would pack its factors even for one multiplication per number. The bits are the same,
    except for the sign of a 0.
    """
    return np.einsum("...ij,...jk->...ik", a, b)
