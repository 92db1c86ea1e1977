"""The checks K1–K25 of every op, one module for each idea, listed in the order of their ids."""

from . import (
    batch,
    calls,
    conditions,
    cotangent,
    device,
    first,
    forward,
    kinks,
    layout,
    memory,
    messages,
    ownership,
    precision,
    repeat,
    rule,
    second,
    sizes,
    special,
    tied,
)
from .base import Check

CHECKS: tuple[Check, ...] = (
    forward.k1,
    first.k2,
    first.k3,
    cotangent.k4,
    cotangent.k5,
    layout.k6,
    ownership.k7,
    ownership.k8,
    rule.k9,
    second.k10,
    kinks.k11,
    special.k12,
    repeat.k13,
    device.k14,
    precision.k15,
    precision.k16,
    sizes.k17,
    sizes.k18,
    tied.k19,
    conditions.k20,
    messages.k21,
    memory.k22,
    batch.k23,
    calls.k24,
    calls.k25,
)

__all__ = ["CHECKS", "Check"]
