"""Which weights of attention are dropped: a function of a seed and a place, not a stored array.

The backward makes the mask of (..., L, S) weights again, block by block: no array of all weights is
kept. Each query row starts a sequence of SplitMix64 (G. Steele, D. Lea and C. Flood, Fast
splittable pseudorandom number generators, 2014); key j takes its j-th number. The mask does not
depend on the blocks, so both forms of attention drop the same weights.
"""

from typing import Any

import numpy as np

from ...backends import random
from ...backends.device import array_module
from ...engine.primitive import primitive
from ..axes import module_of
from ..batching import behind, full, one_more_axis

GOLDEN = 0x9E3779B97F4A7C15  # 2⁶⁴ / φ, the step of SplitMix64


@primitive(differentiable=False)
def attention_seeds(q, k, v, *, shared=(), generator=None):
    """A random integer for each matrix of weights: (..., 1, 1), from the library's generator.

    One draw counts for all matrices along the axes `shared`.
    """
    lead = q.shape[:-2]
    drawn = [1 if i in shared else n for i, n in enumerate(lead)]
    draws = (generator or random.generator()).integers(0, 2**63 - 1, (*drawn, 1, 1))
    return array_module(q).asarray(np.broadcast_to(draws, (*lead, 1, 1)))


@attention_seeds.batch
def seeds_batch(op_, xs, batched, params):
    """Examples differ in their seeds."""
    xs = full(xs, batched)
    shared = behind(tuple(params["shared"]), xs[0].ndim - 1)
    return op_(*xs, **{**params, "shared": shared})


@primitive(differentiable=False)
def attention_kept(seeds, *, queries, keys, p):
    """The mask of all weights, (..., queries, keys): True where one is kept."""
    return kept(seeds, slice(0, queries), slice(0, keys), p)


attention_kept.batch(one_more_axis)


def kept(seeds: Any, rows: slice, columns: slice, p: float) -> Any:
    """A block of the mask: each weight is kept with probability 1 − p."""
    xp = module_of(seeds)
    queries = xp.arange(rows.start + 1, rows.stop + 1, dtype=np.uint64)[:, None]
    keys = xp.arange(columns.start + 1, columns.stop + 1, dtype=np.uint64)
    starts = _mixed(seeds.astype(np.uint64) + queries * GOLDEN)
    numbers = _mixed(starts + keys * GOLDEN)
    return numbers >= min(round(p * 2.0**64), 2**64 - 1)


def _mixed(z: Any) -> Any:
    """SplitMix64's mixing of 64 bits, in place."""
    z ^= z >> 30
    z *= 0xBF58476D1CE4E5B9
    z ^= z >> 27
    z *= 0x94D049BB133111EB
    z ^= z >> 31
    return z


def kept_factor(p: float) -> float:
    """The factor of the kept weights, which preserves the mean."""
    return 0.0 if p == 1 else 1 / (1 - p)
