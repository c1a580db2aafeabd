"""Defines `HistogramLayout`, the order of the cells that reports name and servers count.

A cell is one place in the histogram arm x outcome x latency bin x covariate bin, in C order: the covariate (the share
of answers that the device accepted before the experiment) runs fastest.  Devices, ingress, statistics and simulations
take the order from here and from nowhere else.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Number = TypeVar("Number", bound=np.generic[Any])


class CellAxes(NamedTuple):
    """The place of one cell on each axis, each counted from 0."""

    arm: int
    outcome: int
    latency: int
    covariate: int


@dataclass(frozen=True)
class HistogramLayout:
    """Sizes of the four axes.

    Attributes:
        arms: arms or groups, >= 1.
        outcomes: outcomes that are counted, >= 1.
        latency_bins: bins of latency, >= 1.
        covariate_bins: bins of the covariate, >= 1; 1 where reports say nothing of it.

    Raises:
        ValueError: a size is below 1.
    """

    arms: int
    outcomes: int
    latency_bins: int
    covariate_bins: int = 1

    def __post_init__(self) -> None:
        for name, size in zip(CellAxes._fields, self.shape, strict=True):
            if size < 1:
                msg = f"the axis {name} must have at least 1 place, got {size}"
                raise ValueError(msg)

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Sizes of the axes, outermost first."""
        return self.arms, self.outcomes, self.latency_bins, self.covariate_bins

    @property
    def cell_count(self) -> int:
        """Number of cells."""
        return math.prod(self.shape)

    def cell_index(self, arm: int, outcome: int, latency: int = 0, covariate: int = 0) -> int:
        """Return the index of a cell, in [0, cell_count).

        Raises:
            ValueError: a place is outside its axis.
        """
        index = 0
        places = CellAxes(arm, outcome, latency, covariate)
        for name, place, size in zip(CellAxes._fields, places, self.shape, strict=True):
            if not 0 <= place < size:
                msg = f"{name} must be in [0, {size}), got {place}"
                raise ValueError(msg)
            index = index * size + place
        return index

    def axes(self, cell: int) -> CellAxes:
        """Return the place of a cell on each axis; the inverse of `cell_index`.

        Raises:
            ValueError: no such cell.
        """
        if not 0 <= cell < self.cell_count:
            msg = f"the cell must be in [0, {self.cell_count}), got {cell}"
            raise ValueError(msg)
        rest, covariate = divmod(cell, self.covariate_bins)
        rest, latency = divmod(rest, self.latency_bins)
        arm, outcome = divmod(rest, self.outcomes)
        return CellAxes(arm, outcome, latency, covariate)

    def reshape(self, counts: NDArray[Number]) -> NDArray[Number]:
        """Return counts per cell as an array [arm, outcome, latency bin, covariate bin].

        Raises:
            ValueError: another number of counts than there are cells.
        """
        return counts.reshape(self.shape)
