"""The Python array API standard, version 2024.12: `x.__array_namespace__()` is this module.

    >>> import minigrad.array_api as xp
    >>> x = xp.asarray([3.0, 4.0])
    >>> xp.sqrt(xp.sum(x * x))
    tensor(5.)

The package `minigrad` keeps NumPy's signatures and PyTorch's names. Where the standard spells a
function otherwise (`zeros(shape)` and not `zeros(2, 3)`, `var(correction=)`, `unique_counts`), this
module has the standard's spelling. The functions are the same ops, so code written for the standard
is recorded and differentiated. Tensors of both are one class. The extensions are here too, as
`linalg` and `fft`. The conformance suite of the standard (data-apis/array-api-tests) is run on it
with ARRAY_API_TESTS_MODULE=minigrad.array_api.
"""

import sys

from ..engine.registry import engine
from . import creation, dtypes, elementwise, fft, linalg, manipulation, reductions
from .creation import *
from .dtypes import *
from .elementwise import *
from .linalg import matmul, matrix_transpose, tensordot, vecdot
from .manipulation import *
from .reductions import *

__array_api_version__ = "2024.12"

__all__ = [
    "__array_api_version__", *creation.__all__, *dtypes.__all__, *elementwise.__all__,
    *manipulation.__all__, *reductions.__all__, "fft", "linalg", "matmul", "matrix_transpose",
    "tensordot", "vecdot",
]  # fmt: skip

engine.register("array_namespace", sys.modules[__name__])  # Tensor.__array_namespace__ asks for it
