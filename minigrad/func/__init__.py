"""mg.func: transforms of functions. They nest in any order; levels.py says how."""

from . import batch_rules
from .batching import VmapWarning, vmap
from .control import associative_scan, cond, fori_loop, scan, switch, while_loop
from .derived import hessian, hvp, jacfwd, jacobian, jacrev, vhp
from .forward import jvp
from .implicit import fixed_point, root
from .linear_map import linearize
from .modules import functional_call, per_sample_grad, stack_module_state
from .ode import odeint
from .reverse import grad, value_and_grad, vjp

batch_rules.install()

__all__ = [
    "VmapWarning", "associative_scan", "cond", "fixed_point", "fori_loop", "functional_call",
    "grad", "hessian", "hvp", "jacfwd", "jacobian", "jacrev", "jvp", "linearize",
    "odeint", "per_sample_grad", "root", "scan", "stack_module_state", "switch", "value_and_grad",
    "vhp", "vjp", "vmap", "while_loop",
]  # fmt: skip
