"""Random ops inside vmap: refused, one draw for every example, or one for all."""

from collections.abc import Callable
from typing import Any

from ..backends import random
from ..engine import modes
from ..engine.graph import wrap
from ..engine.registry import op as ops
from ..errors import TransformError
from ..ops.batching import full

POLICIES = ("error", "different", "same")


class RandomPolicy:
    """The policy of one vmap that runs; `outer` is that of the vmap around it, or None.

    kind   the class of this vmap's tensors, known once its level is entered
    """

    __slots__ = ("kind", "outer", "policy", "size")

    kind: type

    def __init__(self, policy: str, size: int):
        self.policy, self.size, self.outer = policy, size, modes.state.randomness

    def __call__(self, make: Callable[[tuple], Any], shape: tuple) -> Any:
        """What make(shape), a new random tensor, is inside this vmap (mg.rand and its kin)."""
        if self.policy == "error":
            raise _refused("a random tensor")
        outer = make if self.outer is None else lambda s: self.outer(make, s)  # type: ignore[misc]
        if self.policy == "same":
            return outer(shape)
        return wrap(outer((self.size, *shape)), None, self.kind)


def _refused(what: str) -> TransformError:
    return TransformError(
        f"vmap: {what} was asked for inside. Say whether the examples share its draws: "
        'vmap(fn, randomness="different") draws for each, randomness="same" once for all'
    )


def drawing_the_same(run: Callable) -> Callable:
    """run, whose every call draws the random numbers that the first one draws.

    For runs that are parts of one: the chunks of a vmap, the columns of a Jacobian.
    """
    before = random.get_state()

    def again(*args: Any) -> Any:
        random.set_state(before)
        return run(*args)

    return again


def run_random(kind: type, op: Any, xs: list, batched: list[bool], params: dict) -> Any:
    """An op that draws (it takes a generator) on a batch, by the policy of its vmap."""
    policy: Any = modes.state.randomness
    while policy is not None and policy.kind is not kind:
        policy = policy.outer
    if policy is None or policy.policy == "error":
        raise _refused(f"the random op {op.name}")
    params = {**op.defaults, **params}
    if policy.policy == "same":  # one draw counts for all positions along the batch axis
        xs = full(xs, batched)
        shared = tuple([a + 1 if a >= 0 else a + xs[0].ndim for a in params["shared"]])
        found = op(*xs, **{**params, "shared": (0, *shared)})
        if not isinstance(found, tuple):
            return found
        # like its residuals: a mask has one leading entry, and each example is to have it
        size = (xs[0].shape[0],)
        return tuple([ops.broadcast_to(y, shape=size + y.shape[1:]) for y in found])
    return op.batch_rule(op, xs, batched, params)
