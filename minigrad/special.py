"""mg.special: functions by the names of scipy.special (see ops/elementwise/).

    >>> import minigrad as mg
    >>> mg.special.i0(mg.tensor([0.0, 1.0]))
    tensor([1.        , 1.26606588])

SciPy's own functions take tensors too, where they are ufuncs: scipy.special.erf(t) is
mg.special.erf(t), recorded. scipy.special.logsumexp and softmax are not ufuncs; use those here.
"""

from typing import Any

from .core.registry import scipy_table
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
    logsumexp,
    polygamma,
    sigmoid,
    sinc,
    softmax,
    xlog1py,
    xlogy,
)
from .ops import lgamma as gammaln
from .ops.elementwise.bessel import i0, i0e, i1, i1e, iv, ive, j0, j1, jv, y0, y1, yv
from .ops.elementwise.probability import (
    beta,
    betainc,
    betaln,
    entr,
    erfcinv,
    erfcx,
    gammainc,
    gammaincc,
    log_ndtr,
    multigammaln,
    ndtr,
    ndtri,
    rel_entr,
)

expit, log_expit, psi, jn, yn = sigmoid, logsigmoid, digamma, jv, yv

__all__ = [
    "beta", "betainc", "betaln", "cbrt", "digamma", "entr", "erf", "erfc", "erfcinv", "erfcx",
    "erfinv", "exp2", "expit", "expm1", "gamma", "gammainc", "gammaincc", "gammaln", "i0", "i0e",
    "i1", "i1e", "iv", "ive", "j0", "j1", "jn", "jv", "log1p", "log_expit", "log_ndtr",
    "log_softmax", "logit", "logsumexp", "multigammaln", "ndtr", "ndtri", "polygamma", "psi",
    "rel_entr", "sinc", "softmax", "xlog1py", "xlogy", "y0", "y1", "yn", "yv",
]  # fmt: skip

_names: dict[str, Any] = {name: globals()[name] for name in __all__}
scipy_table.update(_names)
