"""Piecewise linear activations, elu and Huber's loss in place, by the steps of the table."""

from typing import Any

import numpy as np

from ...ops.activation import elu
from ...ops.elementwise.near_one import exp_minus_1_below_0
from ...ops.loss.elements import huber_terms
from ...ops.straight import hardsigmoid, hardswish, leaky, softshrink
from .in_place import fills, fills_vjp, keep_into, one_of_two, room


@fills(hardsigmoid)
def fill_hardsigmoid(y: Any, x: Any) -> None:
    np.add(x, 3, out=y)
    np.clip(y, 0, 6, out=y)
    y *= 1 / 6


@fills_vjp(hardsigmoid)
def fill_hardsigmoid_dx(y: Any, g: Any, x: Any) -> None:
    inside = room(1, y, np.bool_)
    np.abs(x, out=y)
    np.greater_equal(y, 3, out=inside)
    np.logical_not(inside, out=inside)
    keep_into(y, g, inside)
    y *= 1 / 6


@fills(hardswish)
def fill_hardswish(y: Any, x: Any) -> None:
    fill_hardsigmoid(y, x)
    y *= x


@fills_vjp(hardswish)
def fill_hardswish_dx(y: Any, g: Any, x: Any) -> None:
    third = room(0, y)
    np.clip(x, -3, 3, out=third)
    third *= third.dtype.type(1) / 3
    np.trunc(third, out=y)
    y *= -0.5
    y += third
    y += 0.5
    y *= g


@fills(leaky)
def fill_leaky(y: Any, x: Any, slope: Any) -> None:
    if 0 < slope <= 1:
        np.multiply(x, slope, out=y)
        np.maximum(x, y, out=y)
    else:
        fill_leaky_dx(y, x, x, slope)


@fills_vjp(leaky)
def fill_leaky_dx(y: Any, g: Any, x: Any, slope: Any) -> None:
    above = room(1, y, np.bool_)
    np.greater(x, 0, out=above)
    one_of_two(y, above, 1, slope)
    y *= g


@fills(softshrink, lambda x, lambd=0.5: lambd >= 0)
def fill_softshrink(y: Any, x: Any, lambd: float = 0.5) -> None:
    np.clip(x, -lambd, lambd, out=y)
    np.subtract(x, y, out=y)


@fills(elu)
def fill_elu(y: Any, x: Any, alpha: float = 1.0) -> None:
    above = room(0, y)
    np.clip(x, -np.inf, 0, out=y)
    exp_minus_1_below_0(y, out=y)
    y *= alpha
    np.clip(x, 0, np.inf, out=above)
    y += above
    y += 0  # −0 becomes 0


@fills_vjp(elu)
def fill_elu_dx(y: Any, g: Any, x: Any, alpha: float) -> None:
    np.clip(x, -np.inf, 0, out=y)
    np.exp(y, out=y)
    if alpha != 1:
        factor, line = room(0, y), x >= 0 if alpha > 1 else x > 0
        one_of_two(factor, line, 1, alpha)
        y *= factor
    y *= g


@fills(huber_terms)
def fill_huber(y: Any, d: Any, delta: float = 1.0) -> None:
    near = room(0, y)
    np.clip(d, -delta, delta, out=near)
    np.multiply(near, -0.5, out=y)
    y += d
    y *= near
    y += 0  # −0 becomes 0
