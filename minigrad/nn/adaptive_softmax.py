"""A softmax over very many classes, most of them rare (Grave et al., 2017)."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..engine.errors import describe
from ..engine.registry import op
from ..ops.axes import array_like, constant_like, constant_of_each, on_host
from ..tensor_api.tensor import Tensor
from .containers import ModuleList, Sequential
from .linear import Linear
from .module import Module


class AdaptiveResult(NamedTuple):
    """output (n,): log p of each example's target; loss: the mean of −output."""

    output: Tensor
    loss: Tensor


class AdaptiveLogSoftmaxWithLoss(Module):
    """log p(target | x) over n_classes, ordered from the most frequent to the rarest

    p(t) = softmax(head x)_t for t < cutoffs[0], else p(cluster of t) softmax(tail x)_t: the head
    has one more entry for each cluster of rare classes cutoffs[i] ≤ t < cutoffs[i + 1]. The softmax
    of a cluster is computed only if a target needs it, from x projected to in_features //
    div_value^(i + 1) features. Names, initial values and results are PyTorch's.
    """

    def __init__(
        self, in_features: int, n_classes: int, cutoffs: Sequence[int], div_value: float = 4.0,
        head_bias: bool = False, device: str | None = None, dtype: Any = np.float32,
    ):  # fmt: skip
        cutoffs = [int(c) for c in cutoffs]
        ordered = all(a < b for a, b in zip([0, *cutoffs], [*cutoffs, n_classes], strict=True))
        if not cutoffs or not ordered:
            raise ValueError(
                "AdaptiveLogSoftmaxWithLoss: cutoffs must be increasing integers between 1 "
                f"and n_classes − 1 = {n_classes - 1}; got {cutoffs}"
            )
        self.in_features, self.n_classes = in_features, n_classes
        self.cutoffs = [*cutoffs, n_classes]
        self.div_value = div_value
        self.shortlist_size = cutoffs[0]
        self.n_clusters = len(cutoffs)
        size = self.shortlist_size + self.n_clusters
        self.head = Linear(in_features, size, head_bias, device, dtype)
        self.tail = ModuleList()
        for i in range(self.n_clusters):
            narrow = int(in_features // div_value ** (i + 1))
            if not narrow:
                raise ValueError(
                    f"AdaptiveLogSoftmaxWithLoss: nothing is left of {in_features} features for "
                    f"cluster {i} with div_value={div_value}; choose a smaller div_value"
                )
            count = self.cutoffs[i + 1] - self.cutoffs[i]
            down = Linear(in_features, narrow, False, device, dtype)
            self.tail.append(Sequential(down, Linear(narrow, count, False, device, dtype)))

    def forward(self, x: Tensor, target: Any) -> AdaptiveResult:
        """x (n, in_features), target (n,) class indices; or one example without the axis n."""
        x, own = self._batch(x), constant_of_each(array_like(target))
        classes = np.atleast_1d(on_host(own))
        if np.ndim(target) != x.ndim - 1 or (x.ndim == 2 and len(own) != len(x)):
            raise ValueError(
                f"AdaptiveLogSoftmaxWithLoss: target {describe(target)} does not fit x "
                f"{describe(x)}; it holds one class index for each row of x"
            )
        if classes.dtype.kind not in "iu" or ((classes < 0) | (classes >= self.n_classes)).any():
            raise ValueError(
                "AdaptiveLogSoftmaxWithLoss: target must hold class indices from 0 to "
                f"{self.n_classes - 1}, got {describe(classes)} from {classes.min()} to "
                f"{classes.max()}"
            )
        rows = x if x.ndim == 2 else op.expand_dims(x, axis=0)
        if isinstance(own, Tensor):  # vmap: examples differ in their clusters, so all are taken
            named = op.reshape(own, shape=(-1, 1))
            y = op.take_along_axis(self.log_prob(rows), named, axis=1)[:, 0]
            return self._result(x, y)
        cluster = np.searchsorted(self.cutoffs, classes, side="right")  # 0: the shortlist
        entry = np.where(cluster > 0, self.shortlist_size + cluster - 1, classes)
        y = self._picked(op.log_softmax(self.head(rows), axis=1), entry)
        found, order = [], []
        for i in range(self.n_clusters):
            mine = np.flatnonzero(cluster == i + 1)
            if len(mine):
                inside = self._tail_log_prob(i, op.take(rows, constant_like(mine, rows), axis=0))
                found.append(self._picked(inside, classes[mine] - self.cutoffs[i]))
                order.append(mine)
        if found:
            places = constant_like(np.concatenate(order), rows)
            y = op.index_add(y, 0, places, op.concatenate(found))
        return self._result(x, y)

    @staticmethod
    def _result(x: Tensor, y: Tensor) -> AdaptiveResult:
        return AdaptiveResult(y if x.ndim == 2 else op.reshape(y, shape=()), -op.mean(y))

    def log_prob(self, x: Tensor) -> Tensor:
        """log p of every class: (n, n_classes) for x (n, in_features)."""
        head = op.log_softmax(self.head(self._batch(x)), axis=-1)
        parts = [head[..., : self.shortlist_size]]
        for i in range(self.n_clusters):
            k = self.shortlist_size + i
            parts.append(head[..., k : k + 1] + self._tail_log_prob(i, x))
        return op.concatenate(parts, axis=-1)

    def predict(self, x: Tensor) -> Tensor:
        """The most probable class of each example; no gradient."""
        return op.argmax(self.log_prob(x), axis=-1)

    def _batch(self, x: Any) -> Any:
        x = array_like(x)
        if x.ndim not in (1, 2) or x.shape[-1] != self.in_features:
            raise ValueError(
                f"AdaptiveLogSoftmaxWithLoss: x must be (n, {self.in_features}), or one example "
                f"({self.in_features},); got {describe(x)}"
            )
        return x

    def _tail_log_prob(self, i: int, x: Any) -> Any:
        return op.log_softmax(self.tail[i](x), axis=-1)

    def _picked(self, log_prob: Any, classes: np.ndarray) -> Any:
        """The entry of each row that `classes` names."""
        index = constant_like(classes[:, np.newaxis], log_prob)
        return op.take_along_axis(log_prob, index, axis=1)[:, 0]

    def extra_repr(self) -> str:
        return f"{self.in_features}, {self.n_classes}, cutoffs={self.cutoffs[:-1]}"
