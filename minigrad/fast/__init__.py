"""Accelerations. Delete this folder, and everything still runs.

They change no bit of a result. Only the forms in the subfolders below differ from the table's, and
only by rounding.

fast_call.py       seam A: the calls of an op, generated for it alone
codegen.py         seam B: `save` and `vjp` of a plan, generated
ownership.py       seam D: sums in place, gradients handed out without a copy
blocked.py         elementwise functions of large arrays in blocks, on all threads
blocked_vjp.py     cotangents of large arrays in blocks, or lazy
function_quick.py  the fast call of a mg.Function
views.py           reshapes that copy images pixels first
forms.py           seam C: the lists of forms of the rooms below
windows.py         windows as columns and back; shifts.py: one window position as a shifted copy
row_sums.py        sums and extrema along rows; small_products.py: products in blocks
attention/         attention: blocks of scores, products written into the arrays that are read next
conv/              convolutions: Winograd, banded matrices, layouts, blocks
index/             sums by index: rows by a sparse product, lines and images in blocks
loss/              softmax and losses on classes: blocks of rows, never all logits of a linear map
norm/              normalisations: rows, sums over images in both orders, blocks, joint gradients
pool/              pooling: axis after axis, tiles, reductions, layouts, blocks
products/          matrix products: the BLAS call for each shape
elementwise/       activations, rules and selections of large arrays in place and in blocks
recurrent/         sequences and their backward in place, factors for many steps at once
reduce/            sums, extrema, spread and norms of rows and channels; running sums by steps
"""

import numpy as np

from ..backends.blocks import LARGE, NOTABLE
from ..custom import custom
from ..custom.variants import Variant, add, listed
from ..engine import backward, primitive, rule
from ..engine.registry import op as _ops
from . import (
    attention,
    codegen,
    conv,
    elementwise,
    fast_call,
    function_quick,
    index,
    loss,
    norm,
    ownership,
    pool,
    products,
    recurrent,
    reduce,
    views,
)
from .blocked import in_blocks

primitive.make_call = fast_call.generated_call
rule.make_save, rule.make_vjp = codegen.generate_save, codegen.generate_vjp
backward.add_into, backward.private = ownership.add_into, ownership.private
backward.blocked_vjp, backward.LARGE = ownership.blocked_vjp, LARGE
custom.make_call = function_quick.fast_call

for _op in _ops:
    if not isinstance(_op, primitive.Primitive):
        continue
    if isinstance(_op.reference, np.ufunc) and not listed(_op):
        # arrays of one op may differ in their memory order
        _least = LARGE if _op.arity == 1 else NOTABLE
        add(
            _op,
            Variant(in_blocks(_op.reference), "cpu", least=_least, name="blocks", followed=True),
        )
    _op.plans.clear()  # plans made before this module are made again
