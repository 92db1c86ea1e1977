"""mg.func: functions of functions. They nest in any order; docs/transforms.md has examples.

gradients        grad, value_and_grad, vjp (reverse mode); jvp, linearize (forward mode)
whole matrices   jacrev, jacfwd, jacobian, hessian; hvp and vhp multiply without the matrix
batches          vmap, per_sample_grad
modules          functional_call, stack_module_state
control flow     cond, switch, while_loop, fori_loop, scan, associative_scan
trees            tree_map, tree_leaves, ravel_pytree
equations        root, fixed_point, odeint: solutions with their derivatives

    >>> import minigrad as mg
    >>> mg.func.vmap(mg.func.grad(lambda x: x**3))(mg.tensor([1.0, 2.0]))
    tensor([ 3., 12.])

Inside one call of these, tensors carry the level of the transform: see levels.py.
"""

from ..tensor_api.help import missing_names_of as _missing_names_of
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
from .tree import ravel_pytree, tree_leaves, tree_map

batch_rules.install()

__all__ = [
    "VmapWarning", "associative_scan", "cond", "fixed_point", "fori_loop", "functional_call",
    "grad", "hessian", "hvp", "jacfwd", "jacobian", "jacrev", "jvp", "linearize",
    "odeint", "per_sample_grad", "ravel_pytree", "root", "scan", "stack_module_state", "switch",
    "tree_leaves", "tree_map", "value_and_grad", "vhp", "vjp", "vmap", "while_loop",
]  # fmt: skip

__getattr__ = _missing_names_of(__name__)
