"""L-BFGS: Newton's direction from the last few gradients, with a line search."""

import math
import warnings
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from ..backends.device import plain_array
from ..engine.errors import describe
from ..engine.versions import note_write
from ..modes.recording import enable_grad
from ..modes.scopes import spanned
from ..tensor_api.tensor import Tensor
from .arguments import at_least_zero, loads_whole, require_state
from .line_search import HALVINGS, strong_wolfe
from .optimizer import Optimizer
from .packs import working, working_dtype


class LBFGS(Optimizer):
    """x ← x + t·d, where d = −H·g and H is built from the last history_size steps

    A step needs a closure that clears the gradients, computes the loss and calls backward; it is
    called several times. With line_search_fn="strong_wolfe" a search chooses t; else t is lr (at
    first min(1, 1/‖g‖₁)·lr). A step ends after max_iter iterations or about max_eval calls, by
    default a quarter more than max_iter. If the loss or its gradient is not finite after a step,
    the step is halved until they are, as often as max_eval allows, and ten times at least. If they
    never are, a RuntimeWarning says so, and the parameters are those of the last finite loss. Else
    the order of operations is PyTorch's. Nocedal and Wright, Numerical Optimization, 2006,
    algorithms 7.4 and 3.5.
    """

    def __init__(
        self,
        params: Iterable,
        lr: float = 1.0,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ):
        at_least_zero("LBFGS", lr=lr)
        if line_search_fn not in (None, "strong_wolfe"):
            raise ValueError(
                f"LBFGS: line_search_fn is None or 'strong_wolfe', got {line_search_fn!r}"
            )
        options = {
            "lr": lr, "max_iter": max_iter, "tolerance_grad": tolerance_grad,
            "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
            "tolerance_change": tolerance_change,
            "history_size": history_size, "line_search_fn": line_search_fn,
        }  # fmt: skip
        super().__init__(params, options)
        if len(self.param_groups) > 1:
            raise ValueError("LBFGS: one group of parameters; it sees them as one vector")

    @property
    def _memory(self) -> dict[str, Any]:
        """The memory from step to step: the state of the first parameter, as PyTorch's."""
        return self._state[self.param_groups[0]["params"][0]]

    # -- parameters as one vector ------------------------------------------------------------

    def _read(self, gradients: bool) -> np.ndarray:
        parts = [
            (p.grad.data if p.grad is not None else np.zeros_like(p.data)) if gradients else p.data
            for p in self._params()
        ]
        flat = [working(part).reshape(-1) for part in parts]
        return np.concatenate([part.astype(working_dtype(part), copy=False) for part in flat])

    def _write(self, x: np.ndarray) -> None:
        start = 0
        for p in self._params():
            into = working(p.data)
            into[...] = x[start : start + into.size].reshape(into.shape)
            note_write(p.data, "LBFGS.step()")
            start += into.size

    # -- the step ----------------------------------------------------------------------------

    @spanned("optimizer")
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Up to max_iter iterations; returns the loss that the closure gave first."""
        if not callable(closure):
            raise (ValueError if closure is None else TypeError)(
                "LBFGS.step needs a closure that clears the gradients, computes the loss, calls "
                f"backward and returns the loss; got {describe(closure)}"
            )

        def value_and_gradient(x: np.ndarray | None = None) -> tuple[float, np.ndarray]:
            if x is not None:
                self._write(x)
            with enable_grad():
                loss = closure()
            if loss is None:
                raise ValueError("LBFGS.step: the closure returned None; it must return the loss")
            losses.append(loss)
            return float(loss), self._read(gradients=True)

        losses: list[Any] = []
        self._minimise(value_and_gradient, self.param_groups[0])
        return losses[0]

    def _minimise(self, f: Callable, group: dict[str, Any]) -> None:
        memory, (loss, g) = self._memory, f()
        memory.setdefault("n_iter", 0)
        used, left = 1, memory.pop("x", None)
        if not _is_finite(loss, g):
            if left is None or "d" not in memory:
                _warn("at the parameters given, which stay as they are")
                return
            # the last step ended where nothing was evaluated: back on its way
            loss, g, memory["t"], used = self._halved(f, left, memory["t"] / 2, memory["d"], group)
            if g is None:
                return
        if (np.abs(g) <= group["tolerance_grad"]).all():
            return
        for i in range(group["max_iter"]):
            memory["n_iter"] += 1
            d = self._direction(g, group)
            t = group["lr"]
            if memory["n_iter"] == 1:
                t *= min(1.0, 1.0 / float(np.abs(g).sum()))
            memory.update(prev_g=g.copy(), d=d, t=t)  # all three, wherever this iteration ends
            before, slope = loss, float(g @ d)
            if not slope <= -group["tolerance_change"]:
                break
            x = self._read(gradients=False)
            if group["line_search_fn"]:
                left = group["max_eval"] - used
                loss, g, t, evaluations = strong_wolfe(f, x, t, d, loss, g, slope, most=left)
                self._write(x + t * d)
                used += evaluations
            elif i + 1 < group["max_iter"]:
                loss, new, t, used = self._halved(f, x, t, d, group, used)
                if new is None:
                    break
                g = new
            else:  # the next step begins with the gradient here, and may have to go back
                self._write(x + t * d)
                memory["x"] = x
            memory["t"] = t
            small_step = np.abs(t * d).max() <= group["tolerance_change"]
            flat = np.abs(g).max() <= group["tolerance_grad"]
            if (
                used >= group["max_eval"] or flat or small_step or not math.isfinite(loss)
                or abs(loss - before) < group["tolerance_change"]
            ):  # fmt: skip
                break

    def _halved(
        self, f: Callable, x: np.ndarray, t: float, d: np.ndarray, group: dict[str, Any],
        used: int = 1,
    ) -> tuple[float, np.ndarray | None, float, int]:  # fmt: skip
        """(loss, gradient, t, evaluations) at x + t·d, t halved until they are finite.

        The gradient is None where max_eval ends the search before. Then the parameters are x, the
        memory is empty, and the next direction is that of the steepest descent.
        """
        most = max(group["max_eval"], used + HALVINGS)
        while used < most:
            loss, g = f(x + t * d)
            used += 1
            if _is_finite(loss, g):
                return loss, g, t, used
            t /= 2
        self._write(x)
        self._memory.clear()
        _warn("along the direction of the step; the parameters are those before it")
        return math.nan, None, t, used

    def _direction(self, g: np.ndarray, group: dict[str, Any]) -> np.ndarray:
        """−H·g by the two loops over remembered steps s and changes of gradient y."""
        memory = self._memory
        if memory["n_iter"] == 1:
            memory.update(s=[], y=[], scale=1.0)
            return -g
        s, y = memory["d"] * memory["t"], g - memory["prev_g"]
        curvature = float(y @ s)
        if curvature > 1e-10:
            if len(memory["s"]) == group["history_size"]:
                del memory["s"][0], memory["y"][0]
            memory["s"].append(s)
            memory["y"].append(y)
            memory["scale"] = curvature / float(y @ y)
        pairs = [(s, y, 1 / float(y @ s)) for s, y in zip(memory["s"], memory["y"], strict=True)]
        q, shares = -g, []
        for s, y, rho in reversed(pairs):
            shares.append(rho * float(s @ q))
            q = q - shares[-1] * y
        d = q * memory["scale"]
        for (s, y, rho), share in zip(pairs, reversed(shares), strict=True):
            d = d + s * (share - rho * float(y @ d))
        return d

    # -- saving ------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """The base's form; the whole memory is the state of the first parameter."""
        saved = super().state_dict()
        saved["state"] = {0: {k: _copies(v) for k, v in self._memory.items()}}
        return saved

    @loads_whole
    def load_state_dict(self, state_dict: Any) -> None:
        """Go on from a saved state of the same parameters, PyTorch's too."""
        require_state(type(self).__name__, state_dict, "state", "param_groups")
        saved = next(iter(state_dict["state"].values()), {})
        named = {_PYTORCHS.get(key, key): value for key, value in saved.items()}
        memory = {key: _copies(value) for key, value in named.items() if key in _KEPT}
        total = sum(working(p.data).size for p in self._params())
        vectors = [a for v in memory.values() for a in (v if isinstance(v, list) else [v])]
        if any(hasattr(a, "shape") and a.shape != (total,) for a in vectors):
            raise ValueError(f"LBFGS.load_state_dict: vectors of {total} elements are needed")
        super().load_state_dict({**state_dict, "state": {}})
        self._memory.update(memory)


# the memory from step to step, and PyTorch's names for it. x is the start of the last step, if
# nothing was evaluated at its end
_KEPT = ("n_iter", "s", "y", "scale", "prev_g", "t", "d", "x")
_PYTORCHS = {"old_stps": "s", "old_dirs": "y", "H_diag": "scale", "prev_flat_grad": "prev_g"}


def _is_finite(loss: float, g: np.ndarray) -> bool:
    return math.isfinite(loss) and bool(np.isfinite(g).all())


def _warn(where: str) -> None:
    warnings.warn(
        f"LBFGS.step: the loss or its gradient is not finite {where}. mg.detect_anomaly() finds "
        "the op that made the first such value; a smaller lr or line_search_fn='strong_wolfe' "
        "keeps steps short",
        RuntimeWarning,
        stacklevel=6,
    )


def _copies(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_copies(v) for v in value]
    if isinstance(value, Tensor):
        value = value.data
    elif hasattr(value, "detach"):  # PyTorch's
        value = plain_array(value.detach().cpu())
        value = value if value.shape else value.item()
    return value.copy() if hasattr(value, "shape") else value
