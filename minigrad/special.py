"""mg.special: functions by the names of scipy.special (see ops/elementwise/).

    >>> import minigrad as mg
    >>> mg.special.i0(mg.tensor([0.0, 1.0]))
    tensor([1.        , 1.26606588])

SciPy's own functions take tensors too, where they are ufuncs: scipy.special.erf(t) is
mg.special.erf(t), recorded. scipy.special.logsumexp and softmax are not ufuncs; use those here.
"""

from typing import Any

from .core.errors import teaching
from .core.registry import op, scipy_table
from .ops import (
    cbrt,
    digamma,
    erf,
    erfc,
    erfinv,
    exp2,
    expm1,
    gamma,
    log1p,
    log_softmax,
    logit,
    logsigmoid,
    polygamma,
    sigmoid,
    sinc,
    softmax,
    xlog1py,
    xlogy,
)
from .ops import lgamma as gammaln
from .ops.axes import array_like, as_floating
from .ops.elementwise.bessel import (
    i0,
    i0e,
    i1,
    i1e,
    iv,
    ive,
    j0,
    j1,
    jv,
    k0,
    k0e,
    k1,
    k1e,
    kv,
    kve,
    y0,
    y1,
    yv,
)
from .ops.elementwise.incomplete import betainc, gammainc, gammaincc
from .ops.elementwise.probability import (
    beta,
    betaln,
    entr,
    erfcinv,
    erfcx,
    log_ndtr,
    multigammaln,
    ndtr,
    ndtri,
    rel_entr,
)
from .ops.elementwise.special import gammasgn, rgamma

expit, log_expit, psi, jn, kn, yn = sigmoid, logsigmoid, digamma, jv, kv, yv

__all__ = [
    "beta", "betainc", "betaln", "cbrt", "digamma", "entr", "erf", "erfc", "erfcinv", "erfcx",
    "erfinv", "exp2", "expit", "expm1", "gamma", "gammainc", "gammaincc", "gammaln", "gammasgn",
    "i0", "i0e", "i1", "i1e", "iv", "ive", "j0", "j1", "jn", "jv", "k0", "k0e", "k1", "k1e", "kn",
    "kv", "kve", "log1p", "log_expit", "log_ndtr", "log_softmax", "logit", "logsumexp",
    "multigammaln", "ndtr", "ndtri", "polygamma", "psi", "rel_entr", "rgamma", "sinc", "softmax",
    "xlog1py", "xlogy", "y0", "y1", "yn", "yv",
]  # fmt: skip


@teaching
def logsumexp(
    a: Any, axis: Any = None, b: Any = None, keepdims: bool = False, return_sign: bool = False
) -> Any:
    """y = log Σ b exp a over `axis`, with SciPy's arguments; differentiable in a and in b.

    A sum below 0 gives NaN; with return_sign the result is (log |Σ|, the sign of Σ: 1, 0 or −1).
    A weight of 0 leaves its a out, whatever it is. TypeError for complex a or b where there are
    weights or a sign is asked for.
    """
    if b is None and not return_sign:
        return op.logsumexp(a, axis=axis, keepdims=keepdims)
    a = as_floating(array_like(a))
    b = 1.0 if b is None else b
    if isinstance(b, int | float):  # of a's dtype, as in a * b
        b = op.full_like(a, fill_value=b)
    a, b = op.broadcast_arrays(a, b)
    if a.dtype.kind == "c" or b.dtype.kind == "c":
        raise TypeError(
            f"logsumexp: weights and signs are of real numbers, got a {a.dtype} and b {b.dtype}; "
            "without them complex numbers are taken"
        )
    how = {"axis": axis, "keepdims": keepdims}
    y = op.weighted_logsumexp(a, b, **how, signed=return_sign)
    return (y, op.weighted_sign(a, b, **how)) if return_sign else y


_names: dict[str, Any] = {name: globals()[name] for name in __all__}
scipy_table.update(_names)
