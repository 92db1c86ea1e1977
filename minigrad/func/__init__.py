"""mg.func: transforms of functions. They nest in any order; levels.py says how."""

from . import batch_rules
from .batching import VmapWarning, vmap
from .derived import hessian, hvp, jacfwd, jacobian, jacrev
from .forward import jvp
from .reverse import grad, value_and_grad, vjp

batch_rules.install()

__all__ = [
    "VmapWarning", "grad", "hessian", "hvp", "jacfwd", "jacobian", "jacrev", "jvp",
    "value_and_grad", "vjp", "vmap",
]  # fmt: skip
