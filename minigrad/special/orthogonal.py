"""Orthogonal polynomials by SciPy's names. Each derivative is a polynomial of one degree less.

Of Jacobi's, Gegenbauer's and Laguerre's families it is in the family again, a parameter higher;
Chebyshev's and Legendre's are Gegenbauer's with a parameter (DLMF 18.9.15 to 18.9.27).
"""

from collections.abc import Callable
from typing import Any

from ..engine.primitive import primitive
from ..ops.elementwise.support import number, of_parameters, whole_number, zero
from ..tensor_api.composite import composite

__all__: list[str] = []  # the names are those of mg.special


_t, _u, _legendre, _c, _p, _l, _h, _he = (
    of_parameters(f"eval_{name}")
    for name in (
        "chebyt", "chebyu", "legendre", "gegenbauer", "jacobi", "genlaguerre", "hermite",
        "hermitenorm",
    )
)  # fmt: skip


def _slope(g: Any, degree: int, derivative: Callable) -> Any:
    """g times the derivative, which takes the degree below; of a constant 0, for any g."""
    return g * derivative(degree - 1) if degree else zero(g)


@primitive(kind="elementwise")
def chebyshev(x, degree=0):
    """y = Tₙ(x), n = degree, Tₙ(cos φ) = cos nφ ;  dy/dx = n Uₙ₋₁(x)"""
    return _t(x, degree)


@chebyshev.vjp("x")
def chebyshev_dx(g, x, degree):
    return _slope(g, degree, lambda n: degree * gegenbauer(x, degree=n, alpha=1.0))


@primitive(kind="elementwise")
def gegenbauer(x, degree=0, alpha=1.0):
    """y = Cₙ⁽ᵅ⁾(x), n = degree ;  dy/dx = 2α Cₙ₋₁⁽ᵅ⁺¹⁾(x)"""
    if alpha in (0.5, 1):  # SciPy has separate functions for these, exact at ±1
        return (_legendre if alpha == 0.5 else _u)(x, degree)
    return _c(x, degree, alpha)


@gegenbauer.vjp("x")
def gegenbauer_dx(g, x, degree, alpha):
    return _slope(g, degree, lambda n: 2 * alpha * gegenbauer(x, degree=n, alpha=alpha + 1))


@primitive(kind="elementwise")
def jacobi(x, degree=0, alpha=0.0, beta=0.0):
    """y = Pₙ⁽ᵅ·ᵝ⁾(x), n = degree ;  dy/dx = (n + α + β + 1)/2 Pₙ₋₁⁽ᵅ⁺¹·ᵝ⁺¹⁾(x)"""
    return _p(x, degree, alpha, beta)


@jacobi.vjp("x")
def jacobi_dx(g, x, degree, alpha, beta):
    half = 0.5 * (degree + alpha + beta + 1)
    return _slope(g, degree, lambda n: half * jacobi(x, degree=n, alpha=alpha + 1, beta=beta + 1))


@primitive(kind="elementwise")
def laguerre(x, degree=0, alpha=0.0):
    """y = Lₙ⁽ᵅ⁾(x), n = degree ;  dy/dx = −Lₙ₋₁⁽ᵅ⁺¹⁾(x)"""
    return _l(x, degree, alpha)


@laguerre.vjp("x")
def laguerre_dx(g, x, degree, alpha):
    return _slope(-g, degree, lambda n: laguerre(x, degree=n, alpha=alpha + 1))


@primitive(kind="elementwise")
def hermite(x, degree=0):
    """y = Hₙ(x), n = degree, the physicists' polynomial ;  dy/dx = 2n Hₙ₋₁(x)"""
    return _h(x, degree)


@hermite.vjp("x")
def hermite_dx(g, x, degree):
    return _slope(g, degree, lambda n: 2 * degree * hermite(x, degree=n))


@primitive(kind="elementwise")
def hermite_e(x, degree=0):
    """y = Heₙ(x), n = degree, the probabilists' polynomial ;  dy/dx = n Heₙ₋₁(x)"""
    return _he(x, degree)


@hermite_e.vjp("x")
def hermite_e_dx(g, x, degree):
    return _slope(g, degree, lambda n: degree * hermite_e(x, degree=n))


@composite
def eval_chebyt(n: int, x: Any) -> Any:
    """y = Tₙ(x), Chebyshev's polynomial of the first kind ;  dy/dx = n Uₙ₋₁(x)"""
    return chebyshev(x, degree=whole_number("eval_chebyt", "degree n", n))


@composite
def eval_chebyu(n: int, x: Any) -> Any:
    """y = Uₙ(x) = Cₙ⁽¹⁾(x), Chebyshev's of the second kind ;  dy/dx = 2 Cₙ₋₁⁽²⁾(x)"""
    return gegenbauer(x, degree=whole_number("eval_chebyu", "degree n", n), alpha=1.0)


@composite
def eval_gegenbauer(n: int, alpha: float, x: Any) -> Any:
    """y = Cₙ⁽ᵅ⁾(x), Gegenbauer's polynomial ;  dy/dx = 2α Cₙ₋₁⁽ᵅ⁺¹⁾(x)"""
    alpha = number("eval_gegenbauer", "alpha", alpha)
    return gegenbauer(x, degree=whole_number("eval_gegenbauer", "degree n", n), alpha=alpha)


@composite
def eval_jacobi(n: int, alpha: float, beta: float, x: Any) -> Any:
    """y = Pₙ⁽ᵅ·ᵝ⁾(x), Jacobi's polynomial ;  dy/dx = (n + α + β + 1)/2 Pₙ₋₁⁽ᵅ⁺¹·ᵝ⁺¹⁾(x)"""
    alpha = number("eval_jacobi", "alpha", alpha)
    beta = number("eval_jacobi", "beta", beta)
    return jacobi(x, degree=whole_number("eval_jacobi", "degree n", n), alpha=alpha, beta=beta)


@composite
def eval_legendre(n: int, x: Any) -> Any:
    """y = Pₙ(x) = Cₙ⁽½⁾(x), Legendre's polynomial ;  dy/dx = Cₙ₋₁⁽³ᐟ²⁾(x)"""
    return gegenbauer(x, degree=whole_number("eval_legendre", "degree n", n), alpha=0.5)


@composite
def eval_genlaguerre(n: int, alpha: float, x: Any) -> Any:
    """y = Lₙ⁽ᵅ⁾(x), Laguerre's generalized polynomial ;  dy/dx = −Lₙ₋₁⁽ᵅ⁺¹⁾(x)"""
    alpha = number("eval_genlaguerre", "alpha", alpha)
    return laguerre(x, degree=whole_number("eval_genlaguerre", "degree n", n), alpha=alpha)


@composite
def eval_laguerre(n: int, x: Any) -> Any:
    """y = Lₙ(x) = Lₙ⁽⁰⁾(x), Laguerre's polynomial ;  dy/dx = −Lₙ₋₁⁽¹⁾(x)"""
    return laguerre(x, degree=whole_number("eval_laguerre", "degree n", n), alpha=0.0)


@composite
def eval_hermite(n: int, x: Any) -> Any:
    """y = Hₙ(x), Hermite's polynomial for the weight e^−x² ;  dy/dx = 2n Hₙ₋₁(x)"""
    return hermite(x, degree=whole_number("eval_hermite", "degree n", n))


@composite
def eval_hermitenorm(n: int, x: Any) -> Any:
    """y = Heₙ(x), Hermite's polynomial for the weight e^−x²/2 ;  dy/dx = n Heₙ₋₁(x)"""
    return hermite_e(x, degree=whole_number("eval_hermitenorm", "degree n", n))
