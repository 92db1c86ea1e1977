"""mg.special: functions by the names of scipy.special (see ops/elementwise/).

    >>> import minigrad as mg
    >>> mg.special.i0(mg.tensor([0.0, 1.0]))
    tensor([1.        , 1.26606588])

SciPy's own functions take tensors too, where they are ufuncs: scipy.special.erf(t) is
mg.special.erf(t), recorded. scipy.special.logsumexp and softmax are not ufuncs; use those here.
"""

from typing import Any

from ..engine.registry import op, scipy_table
from ..ops import (
    cbrt,
    digamma,
    erf,
    erfc,
    erfinv,
    exp2,
    expm1,
    gamma,
    log1p,
    logit,
    logsigmoid,
    polygamma,
    sigmoid,
    sinc,
    xlog1py,
    xlogy,
)
from ..ops import lgamma as gammaln
from ..ops.axes import array_like, as_floating
from ..ops.elementwise.special import gammasgn, loggamma, rgamma, zeta
from ..tensor_api.help import missing_names_of as _missing_names_of
from ..tensor_api.help import with_call_context
from .bessel import (
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
from .entropy import entr, pseudo_huber, rel_entr
from .entropy import huber_function as huber
from .entropy import kl_terms as kl_div
from .hypergeometric import (
    ellipe,
    ellipk,
    ellipkm1,
    exprel,
    hyp0f1,
    hyp1f1,
    hyp2f1,
)
from .incomplete import betainc, betaincc, gammainc, gammaincc
from .incomplete_inverse import betainccinv, betaincinv, gammainccinv, gammaincinv
from .integrals import (
    dawsn,
    erfi,
    exp1,
    expi,
    expn,
    fresnel,
    owens_t,
    shichi,
    sici,
    spence,
)
from .lambert import lambertw, wrightomega
from .orthogonal import (
    eval_chebyt,
    eval_chebyu,
    eval_gegenbauer,
    eval_genlaguerre,
    eval_hermite,
    eval_hermitenorm,
    eval_jacobi,
    eval_laguerre,
    eval_legendre,
)
from .power_transforms import (
    boxcox,
    boxcox1p,
    cosm1,
    exp10,
    inv_boxcox,
    inv_boxcox1p,
    powm1,
)
from .probability import (
    beta,
    betaln,
    erfcinv,
    erfcx,
    log_ndtr,
    multigammaln,
    ndtr,
    ndtri,
    ndtri_exp,
)
from .spherical import (
    airy,
    spherical_in,
    spherical_jn,
    spherical_kn,
    spherical_yn,
)

expit, log_expit, psi, jn, kn, yn = sigmoid, logsigmoid, digamma, jv, kv, yv

__all__ = [
    "airy", "beta", "betainc", "betaincc", "betainccinv", "betaincinv", "betaln", "boxcox",
    "boxcox1p", "cbrt", "cosm1", "dawsn", "digamma", "ellipe", "ellipk", "ellipkm1", "entr", "erf",
    "erfc", "erfcinv", "erfcx", "erfi", "erfinv", "eval_chebyt", "eval_chebyu", "eval_gegenbauer",
    "eval_genlaguerre", "eval_hermite", "eval_hermitenorm", "eval_jacobi", "eval_laguerre",
    "eval_legendre", "exp1", "exp10", "exp2", "expi", "expit", "expm1", "expn", "exprel", "fresnel",
    "gamma", "gammainc", "gammaincc", "gammainccinv", "gammaincinv", "gammaln", "gammasgn", "huber",
    "hyp0f1", "hyp1f1", "hyp2f1", "i0", "i0e", "i1", "i1e", "inv_boxcox", "inv_boxcox1p", "iv",
    "ive", "j0", "j1", "jn", "jv", "k0", "k0e", "k1", "k1e", "kl_div", "kn", "kv", "kve",
    "lambertw", "log1p", "log_expit", "log_ndtr", "log_softmax", "loggamma", "logit", "logsumexp",
    "multigammaln", "ndtr", "ndtri", "ndtri_exp", "owens_t", "polygamma", "powm1", "pseudo_huber",
    "psi", "rel_entr", "rgamma", "shichi", "sici", "sinc", "softmax", "spence", "spherical_in",
    "spherical_jn", "spherical_kn", "spherical_yn", "wrightomega", "xlog1py", "xlogy", "y0", "y1",
    "yn", "yv", "zeta",
]  # fmt: skip


@with_call_context
def softmax(x: Any, axis: Any = None) -> Any:
    """y = e^x / Σ e^x over `axis`, None for all axes as in SciPy; mg.softmax takes the last one."""
    return op.softmax(x, axis=axis)


@with_call_context
def log_softmax(x: Any, axis: Any = None) -> Any:
    """y = x − log Σ e^x over `axis`, None for all axes as in SciPy."""
    return op.log_softmax(x, axis=axis)


@with_call_context
def logsumexp(
    a: Any, axis: Any = None, b: Any = None, keepdims: bool = False, return_sign: bool = False
) -> Any:
    """y = log Σ b exp a over `axis`, with SciPy's arguments; differentiable in a and in b.

    A sum below 0 gives NaN; with return_sign the result is (log |Σ|, the sign of Σ: 1, 0 or −1).
    A weight of 0 leaves its a out, for any a. TypeError for complex a or b where there are
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

__getattr__ = _missing_names_of(__name__)
