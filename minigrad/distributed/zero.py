"""Sharded optimizer state: each rank keeps and updates its part of the parameters.

ZeRO, stage 1 (Rajbhandari et al., 2020, arXiv:1910.02054): gradients are averaged as usual, so
every rank could step every parameter. Instead each steps its own part, whose optimizer state it
alone holds, and the results are gathered. State takes 1/size of the memory, the numbers stay the
same.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from ..engine.errors import describe
from ..modes.recording import enable_grad
from ..nn import Module
from ..nn.parameter import zero_grads
from ..optim import Optimizer
from ..optim.arguments import loads_whole, require_state
from ..tensor_api.tensor import Tensor
from .collectives import broadcast_together
from .ranks import world


class ZeroRedundancyOptimizer:
    """An optimizer whose state is spread over the ranks; parameters come out the same on each.

        optimizer = ZeroRedundancyOptimizer(model.parameters(), mg.optim.Adam, lr=1e-3)

    params            parameters, the same on every rank, or groups as any optimizer takes them
    optimizer_class   what steps each part; its update must treat each parameter by itself, as all
                      of minigrad.optim but LBFGS do
    parts             parts[r]: the numbers of the parameters that rank r owns. Large ones are dealt
                      out first, each to the rank with the least so far
    """

    def __init__(
        self, params: Iterable, optimizer_class: Callable[..., Optimizer], **defaults: Any
    ):
        if not hasattr(params, "__iter__") or isinstance(params, Module):
            raise TypeError(
                f"ZeroRedundancyOptimizer: params is {describe(params)}; pass model.parameters()"
            )
        entries: list[Any] = [params] if isinstance(params, Tensor | Mapping) else list(params)
        if entries and not isinstance(entries[0], Mapping):
            entries = [{"params": entries}]
        groups = [{**entry, "params": _listed(entry["params"])} for entry in entries]
        self.world = world()
        self._all: list[Tensor] = [p for group in groups for p in group["params"]]
        for i, p in enumerate(self._all):
            if not isinstance(p, Tensor):
                raise TypeError(
                    f"ZeroRedundancyOptimizer: params[{i}] is a {type(p).__name__}, not a tensor; "
                    "pass model.parameters()"
                )
        if not self._all:
            raise ValueError("ZeroRedundancyOptimizer got no parameters to optimise")
        self.parts = _dealt([p.data.nbytes for p in self._all], self.world.size)
        mine = {id(self._all[i]) for i in self.parts[self.world.rank]}
        own = [{**g, "params": [p for p in g["params"] if id(p) in mine]} for g in groups]
        self._kept = [i for i, g in enumerate(own) if g["params"]]
        self.inner: Optimizer | None = None
        if self._kept:
            self.inner = optimizer_class([own[i] for i in self._kept], **defaults)
        self._options = [
            {**optimizer_class([Tensor(np.zeros((1, 1)), True)], **defaults).defaults, **group}
            for group in groups
        ]

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        """All groups with their options; a schedule's changes there hold for the next step."""
        return self._options

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget every gradient, or set it to zeros with set_to_none=False."""
        zero_grads(self._all, set_to_none, "ZeroRedundancyOptimizer.zero_grad()")

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Step this rank's parameters, then take the others' from their owners."""
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        if self.inner is not None:
            for place, i in enumerate(self._kept):
                options = {k: v for k, v in self._options[i].items() if k != "params"}
                self.inner.param_groups[place].update(options)
            self.inner.step()
        self._gather()
        return loss

    def _gather(self) -> None:
        """Take each rank's parameters from it."""
        for owner, part in enumerate(self.parts):
            broadcast_together([self._all[i] for i in part], owner, "parameters")

    # -- saving ------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """This rank's shard, for save_checkpoint(shard=...): state by number of the parameter."""
        state: dict[int, Any] = {}
        if self.inner is not None:
            saved = self.inner.state_dict()["state"]
            number = {id(p): i for i, p in enumerate(self._all)}
            own = [p for group in self.inner.param_groups for p in group["params"]]
            state = {number[id(own[i])]: entry for i, entry in saved.items()}
        options = [{k: v for k, v in g.items() if k != "params"} for g in self._options]
        return {"state": state, "param_groups": options}

    @loads_whole
    def load_state_dict(self, shards: Any) -> None:
        """Go on from the shards of all ranks, as load_checkpoint gives them.

        Any number of ranks may have written them: each takes what its own parameters need.
        """
        given: list[Any] = [shards] if isinstance(shards, Mapping) else list(shards) or [None]
        merged: dict[int, Any] = {}
        for shard in given:
            require_state("ZeroRedundancyOptimizer", shard, "state", "param_groups")
            merged.update({int(i): entry for i, entry in shard["state"].items()})
        if len(given[0]["param_groups"]) != len(self._options):
            raise ValueError(
                f"ZeroRedundancyOptimizer.load_state_dict: {len(given[0]['param_groups'])} groups "
                f"given, {len(self._options)} needed"
            )
        pairs = zip(self._options, given[0]["param_groups"], strict=True)
        self._options = [{**options, **saved} for options, saved in pairs]
        if self.inner is None:
            return
        number = {id(p): i for i, p in enumerate(self._all)}
        groups, state, place = [], {}, 0
        for i, group in zip(self._kept, self.inner.param_groups, strict=True):
            options = {k: v for k, v in self._options[i].items() if k != "params"}
            groups.append({**options, "params": [*range(place, place + len(group["params"]))]})
            for p in group["params"]:
                if number[id(p)] in merged:
                    state[place] = merged[number[id(p)]]
                place += 1
        self.inner.load_state_dict({"state": state, "param_groups": groups})


def _listed(params: Any) -> list[Tensor]:
    return [params] if isinstance(params, Tensor) else list(params)


def _dealt(weights: list[int], size: int) -> list[list[int]]:
    """Numbers of parameters by rank: the heaviest first, each to the rank with the least so far."""
    parts: list[list[int]] = [[] for _ in range(size)]
    loads = [0] * size
    for i in sorted(range(len(weights)), key=lambda i: -weights[i]):
        least = loads.index(min(loads))
        parts[least].append(i)
        loads[least] += weights[i]
    return [sorted(part) for part in parts]
