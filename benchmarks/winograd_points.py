"""Measures the rounding error of Winograd's form for choices of its points: `python -m benchmarks.winograd_points`.

The greatest error of one output tile over many tiles of 64 rectified channels, in float32 with one rounding for each
multiply-add as the kernels have it, beside that of a direct sum; for the choice in docs/decisions/0010.
"""

from itertools import product
from math import prod, sqrt
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

CHANNELS: Final = 64
TILES: Final = 300
POINTS: Final = {
    "F(2x2): 0, +-1": (2, (0.0, 1.0, -1.0)),
    "F(4x4): 0, +-sqrt 2, +-sqrt 1/2": (4, (0.0, sqrt(2), -sqrt(2), sqrt(0.5), -sqrt(0.5))),
    "F(4x4): 0, +-1, +-2": (4, (0.0, 1.0, -1.0, 2.0, -2.0)),
    "F(6x6): 0, +-1, +-1/2, +-2": (6, (0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0)),
}

Doubles = NDArray[np.float64]


def transforms(outputs: int, points: tuple[float, ...]) -> tuple[Doubles, Doubles, Doubles]:
    """Return B^T, G and A^T of F(outputs, 3) for finite points and infinity."""
    size = outputs + 2
    after = np.zeros((outputs, size))
    after[:, :-1] = [[point**power for point in points] for power in range(outputs)]
    after[-1, -1] = 1
    weights = np.zeros((size, 3))
    before = np.zeros((size, size))
    for i, point in enumerate(points):
        others = [other for other in points if other != point]
        weights[i] = [point**power / prod(point - other for other in others) for power in range(3)]
        before[i, :-1] = np.polynomial.polynomial.polyfromroots(others)
    weights[-1, -1] = 1
    before[-1] = np.polynomial.polynomial.polyfromroots(points)
    return before, weights, after


def to_f32(value: Any) -> NDArray[np.float32]:
    """Return float32."""
    made: NDArray[np.float32] = np.asarray(value).astype(np.float32)
    return made


def errors(outputs: int, points: tuple[float, ...]) -> tuple[float, float]:
    """Return the greatest errors of the form and of a direct sum."""
    before, weights, after = transforms(outputs, points)
    random = np.random.default_rng(0)
    size, worst, direct_worst = outputs + 2, 0.0, 0.0
    for _ in range(TILES):
        d = to_f32(np.maximum(random.normal(size=(CHANNELS, size, size)), 0))
        w = to_f32(random.normal(size=(CHANNELS, 3, 3)) / sqrt(9 * CHANNELS))
        u = to_f32(np.einsum("ij,cjk,lk->cil", weights, w.astype(np.float64), weights))
        v = to_f32(before) @ d @ to_f32(before).T
        products = np.zeros((size, size), np.float32)
        direct = np.zeros((outputs, outputs), np.float32)
        exact = np.zeros((outputs, outputs))
        for c in range(CHANNELS):
            products = to_f32(products + u[c].astype(np.float64) * v[c])
            for i, j in product(range(3), range(3)):
                term = d[c, i : i + outputs, j : j + outputs].astype(np.float64) * w[c, i, j]
                direct, exact = to_f32(direct + term), exact + term
        made = to_f32(after) @ products @ to_f32(after).T
        worst = max(worst, float(np.abs(made - exact).max()))
        direct_worst = max(direct_worst, float(np.abs(direct - exact).max()))
    return worst, direct_worst


def main() -> None:
    """Print a line for each choice."""
    table = Table("points and infinity", "greatest error", "of a direct sum")
    for name, (outputs, points) in POINTS.items():
        ours, direct = errors(outputs, points)
        table.add_row(name, f"{ours:.2g}", f"{direct:.2g}")
    Console().print(table)


if __name__ == "__main__":
    main()
