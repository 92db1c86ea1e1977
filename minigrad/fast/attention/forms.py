"""The forms of attention that hold or copy less than the formulas.

blocks     attention and its gradient: never all scores; on a GPU, too, after its kernels
in place   self_attention: products write into the slices of one array; so does its gradient's rule
"""

import numpy as np

from ...custom.rule_variants import vjp_variant
from ...ops.attention.packed import self_attention
from ...ops.attention.primitives import attention, attention_grads
from ..forms import Forms
from . import blocks, in_place

form = Forms()


for device in ("cpu", "cuda"):
    form(attention, "blocks", on=device)(blocks.attention)
    form(attention_grads, "blocks", on=device)(blocks.gradients)
form(self_attention, "in place")(in_place.attention)


@vjp_variant(self_attention, "x", name="rule in place", on=("cpu",))
def self_attention_gradient(g, x, p, heads, scale, time, is_causal):
    """The gradient written into one array, for NumPy arrays of one dtype."""
    if type(g) is np.ndarray is type(x) and g.dtype == x.dtype == p.dtype:
        return in_place.gradient(g, x, p, heads, scale, time)
    return None


form.install()
