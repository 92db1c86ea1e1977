"""Weighted reads of images in blocks, on all threads, with the channels last.

All channels of a pixel are then contiguous: a read copies rows, and its transpose, the sum back
into the image, is a sparse matrix times rows.
"""

from math import prod
from typing import Any

import numpy as np

from ...backends.blocks import over_leading
from ...backends.dtypes import common_dtype
from ...ops.weighted_reads import check, weighted_reads, weighted_reads_dw, weighted_reads_dx
from ..forms import Forms
from .rows import sum_weighted_rows

form = Forms()


@form(weighted_reads, "rows")
def read_by_rows(x: Any, weights: Any, places: Any) -> Any:
    lead = check(x.shape[-1], places, x, weights=weights)
    y = np.empty((*lead, x.shape[-2], places.shape[-1]), common_dtype(x, weights))
    over_leading(_read, 2, *_flat(y, x, weights, places))
    return y


@form(weighted_reads_dx, "rows")
def add_by_rows(u: Any, weights: Any, places: Any, *, count: int) -> Any:
    lead = check(count, places, u, weights=weights, u=u)
    y = np.empty((*lead, u.shape[-2], count), common_dtype(u, weights))
    over_leading(_add, 2, *_flat(y, u, weights, places))
    return y


@form(weighted_reads_dw, "rows")
def multiply_by_rows(u: Any, x: Any, places: Any) -> Any:
    lead = check(x.shape[-1], places, u, x, u=u)
    y = np.empty((*lead, *places.shape[-2:]), common_dtype(u, x))
    over_leading(_multiply, 2, *_flat(y, u, x, places))
    if y.dtype.kind == "c" and not np.isfinite(y).all():
        return None  # a product with a complex 1 turns ∞ into NaN
    return y


def _flat(*arrays: Any) -> list:
    """(…, ., .) as (n, ., .); a view of a contiguous array."""
    n = prod(arrays[0].shape[:-2])
    return [x.reshape((n, *x.shape[-2:])) for x in arrays]


def _rows(x: Any, dtype: Any, more: int = 0) -> Any:
    """x (n, C, S) with the channels last, as rows (n (S + more), C); the added rows are 0."""
    n, channels, count = x.shape
    rows = np.empty((n, count + more, channels), dtype)
    rows[:, :count] = x.swapaxes(1, 2)
    rows[:, count:] = 0
    return rows.reshape((n * (count + more), channels))


def _row_numbers(places: Any, count: int) -> Any:
    """The row numbers, in rows (n (count + 1), C), of the pixels `places` (n, K, P)."""
    return places + np.arange(0, len(places) * (count + 1), count + 1)[:, None, None]


def _read(y: Any, x: Any, weights: Any, places: Any) -> None:
    n, channels, count = y.shape
    rows, total = _rows(x, y.dtype, 1), np.zeros((n * count, channels), y.dtype)
    numbers = _row_numbers(places, x.shape[2])
    for k in range(places.shape[1]):
        values = rows.take(numbers[:, k].reshape(-1), axis=0)
        values *= weights[:, k].reshape((-1, 1))
        total += values
    y[...] = total.reshape((n, count, channels)).swapaxes(1, 2)


def _add(y: Any, u: Any, weights: Any, places: Any) -> None:
    n, channels, count = y.shape
    shape = (n * places.shape[2], places.shape[1])
    number = _row_numbers(places, count).swapaxes(1, 2).reshape(shape)
    weights = weights.swapaxes(1, 2).reshape(shape)
    total = sum_weighted_rows(_rows(u, y.dtype), weights, number, n * (count + 1))
    y[...] = total.reshape((n, count + 1, channels))[:, :count].swapaxes(1, 2)


def _multiply(y: Any, u: Any, x: Any, places: Any) -> None:
    rows, factor = _rows(x, y.dtype, 1), _rows(u, y.dtype)
    numbers, ones = _row_numbers(places, x.shape[2]), np.ones(x.shape[1], y.dtype)
    for k in range(places.shape[1]):
        values = rows.take(numbers[:, k].reshape(-1), axis=0)
        values *= factor
        y[:, k] = np.matmul(values, ones).reshape(y[:, k].shape)


form.install()
