"""Folds, scans, orders and norms in float64."""

from typing import Any

import numpy as np

from tests.kernels.reference.elements import activate
from tests.kernels.reference.layouts import Array

FOLDS = (np.sum, np.mean, np.prod, np.max, np.min, np.argmax, np.argmin)


def reduce(a: Any, x: Array) -> list[Array]:
    """One number for the elements of some dimensions."""
    first, end = a.first_axis, a.first_axis + a.axis_count
    rows = x.reshape(*x.shape[:first], -1, *x.shape[end:])
    return [FOLDS[a.function](rows.astype(np.float64), axis=first)]


def scan(a: Any, x: Array) -> list[Array]:
    """Running sum, product or logarithm of the sum of exponentials."""
    wide = x.astype(np.float64)
    if a.function == 2:
        return [np.logaddexp.accumulate(wide, axis=a.axis)]
    return [(np.cumsum, np.cumprod)[a.function](wide, axis=a.axis)]


def scan_extreme(a: Any, x: Array) -> list[Array]:
    """Running extreme and its latest place."""
    rows = np.moveaxis(x, a.axis, 0)
    values, places = rows.copy(), np.zeros(rows.shape, np.int64)
    for i in range(1, len(rows)):
        is_new = rows[i] >= values[i - 1] if a.is_greatest else rows[i] <= values[i - 1]
        values[i] = np.where(is_new, rows[i], values[i - 1])
        places[i] = np.where(is_new, i, places[i - 1])
    return [np.moveaxis(values, 0, a.axis), np.moveaxis(places, 0, a.axis)]


def sort(a: Any, x: Array) -> list[Array]:
    """Each row in order, equal ones by index."""
    order = np.argsort(-x if a.is_descending else x, axis=-1, kind="stable")
    return [np.take_along_axis(x, order, -1), order]


def topk(a: Any, x: Array) -> list[Array]:
    """The k greatest or least of each row."""
    order = np.argsort(-x if a.is_largest else x, axis=-1, kind="stable")[..., : a.k]
    return [np.take_along_axis(x, order, -1), order]


def softmax(a: Any, x: Array) -> list[Array]:
    """Shares of the exponentials over the last dimension, or their logarithms."""
    wide = x.astype(np.float64)
    logs = wide - wide.max(-1, keepdims=True)
    logs -= np.log(np.exp(logs).sum(-1, keepdims=True))
    return [logs if a.is_log else np.exp(logs)]


def _scale(x: Array, mask: int, affine: tuple[Array, ...]) -> Array:
    rest = [each.astype(np.float64) for each in affine]
    x = x * rest.pop(0) if mask & 1 else x
    return x + rest.pop(0) if mask & 2 else x


def layer_norm(a: Any, x: Array, *affine: Array) -> list[Array]:
    """The last dimensions less their mean, divided by their deviation; or divided by their root mean square."""
    wide, axes = x.astype(np.float64), tuple(range(x.ndim - a.axis_count, x.ndim))
    if not a.is_rms:
        wide = wide - wide.mean(axes, keepdims=True)
    y = wide / np.sqrt((wide**2).mean(axes, keepdims=True) + a.eps)
    return [activate(_scale(y, a.mask, affine), a.activation, a.low, a.high)]


def group_norm(a: Any, x: Array, *affine: Array) -> list[Array]:
    """The same over positions and the channels of a group."""
    wide = x.astype(np.float64).reshape(x.shape[0], -1, a.groups, x.shape[-1] // a.groups)
    wide = wide - wide.mean((1, 3), keepdims=True)
    y = (wide / np.sqrt((wide**2).mean((1, 3), keepdims=True) + a.eps)).reshape(x.shape)
    return [activate(_scale(y, a.mask, affine), a.activation, a.low, a.high)]
