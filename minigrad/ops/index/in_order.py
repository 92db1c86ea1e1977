"""Adding many values into few elements in a fixed order, in calls that also run on a GPU.

The values are sorted by place, stably. Each run of equal places is then summed by doubling steps
(Hillis and Steele, Data Parallel Algorithms, 1986): log₂ n steps, each an elementwise sum of array
and shifted array. Every bit is the same in every run; slower than atomics.
"""

from typing import Any

from ...backends.device import array_module


def sum_in_order(values: Any, index: Any, n: int) -> Any:
    """y[k] = Σ values[i] over the i with index[i] = k;  values, index (m,) → y (n,)."""
    xp = array_module(values)
    y = xp.zeros(n, dtype=values.dtype)
    if not values.size:
        return y
    order = xp.argsort(index, kind="stable")
    index, values = index[order], values[order]
    step = 1
    while step < index.size:
        same = index[step:] == index[:-step]  # sorted: then all between are the same too
        if not bool(same.any()):
            break
        added = xp.where(same, values[:-step], values.dtype.type(0))
        values = xp.concatenate([values[:step], values[step:] + added])
        step *= 2
    last = xp.concatenate([index[1:] != index[:-1], xp.ones(1, dtype=bool)])
    y[index[last]] = values[last]  # each place once
    return y
