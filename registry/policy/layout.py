"""Defines `HistogramLayout`, the order of the cells that reports name and servers count.

A cell is one place in the histogram arm x outcome x latency bin x covariate bin that can occur.  A task counts groups
of outcomes, each as one; a group has latency bins only where each of its outcomes carries a latency, and one bin else.
The order is that of the arms, in an arm that of the groups, in a group that of the latency bins; the covariate (the
share of answers that the device accepted before the experiment) runs fastest.  Devices, ingress, statistics and
simulations take the order from here and from nowhere else.

Statistics read the full array [arm, outcome, latency bin, covariate bin].  `expand` makes it of the cells: the first
outcome of a group stands for the group, and what cannot occur is exactly zero, estimate and noise.
"""

from __future__ import annotations

import bisect
import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from alcove.registry.policy.outcome import OUTCOMES_WITH_LATENCY

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy as np
    from numpy.typing import NDArray

    Number = TypeVar("Number", bound=np.generic[Any])


class CellAxes(NamedTuple):
    """The place of one cell on each axis, each counted from 0; the outcome is the first of its group."""

    arm: int
    outcome: int
    latency: int
    covariate: int


class _Block(NamedTuple):
    """A group's part of an arm, in latency bins."""

    outcomes: tuple[int, ...]
    start: int
    bins: int


@dataclass(frozen=True)
class HistogramLayout:
    """Sizes of the four axes of the full array, and which of its cells can occur.

    Attributes:
        arms: arms or groups of devices, >= 1.
        outcomes: outcomes of the full array, >= 1.
        latency_bins: bins of latency, >= 1.
        covariate_bins: bins of the covariate, >= 1; 1 where reports say nothing of it.
        groups: outcomes that are counted as one; an outcome in none makes no report.  None: every cell of the full
            array can occur.

    Raises:
        ValueError: a size is below 1, or the groups are empty, share an outcome, or begin outside the full array.
    """

    arms: int
    outcomes: int
    latency_bins: int
    covariate_bins: int = 1
    groups: tuple[tuple[int, ...], ...] | None = None

    @classmethod
    def of_groups(
        cls, arms: int, groups: Iterable[Iterable[int]], *, latency_bins: int = 1, covariate_bins: int = 1
    ) -> HistogramLayout:
        """Return the layout of outcomes counted in groups; the full array ends at the last outcome that is counted.

        Raises:
            ValueError: as the class.
        """
        counted = tuple(tuple(int(outcome) for outcome in group) for group in groups)
        last = max((outcome for group in counted for outcome in group), default=0)
        return cls(arms, max(2, last + 1), latency_bins, covariate_bins, counted)

    def __post_init__(self) -> None:
        for name, size in zip(CellAxes._fields, self.shape, strict=True):
            if size < 1:
                msg = f"the axis {name} must have at least 1 place, got {size}"
                raise ValueError(msg)
        if self.groups is None:
            return
        counted = [outcome for group in self.groups for outcome in group]
        is_sound = all(group and 0 <= group[0] < self.outcomes for group in self.groups)
        if not (counted and is_sound and len(set(counted)) == len(counted)):
            msg = f"groups of outcomes are one or more, not empty and apart, the first of each below {self.outcomes}"
            msg += f", got {self.groups}"
            raise ValueError(msg)

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Sizes of the full array's axes, outermost first."""
        return self.arms, self.outcomes, self.latency_bins, self.covariate_bins

    @property
    def cell_count(self) -> int:
        """Number of cells that can occur."""
        return self.arms * self.arm_cell_count

    @cached_property
    def arm_cell_count(self) -> int:
        """Number of an arm's cells; those of arm 0 come first."""
        last = self._blocks[-1]
        return (last.start + last.bins) * self.covariate_bins

    @cached_property
    def places(self) -> tuple[int, ...]:
        """Each cell's index in the full array, flattened in C order."""
        found = []
        for cell in range(self.cell_count):
            index = 0
            for place, size in zip(self.axes(cell), self.shape, strict=True):
                index = index * size + place
            found.append(index)
        return tuple(found)

    def is_counted(self, outcome: int) -> bool:
        """Tell whether an outcome makes a report."""
        return outcome in self._block_of

    def latency_bins_of(self, outcome: int) -> int:
        """Return how many latency bins an outcome has; 0 where it makes no report."""
        block = self._block_of.get(outcome)
        return 0 if block is None else block.bins

    def tells_apart(self, outcomes: Iterable[int]) -> bool:
        """Tell whether the cells show how many reports have one of these outcomes, and no other."""
        asked = set(outcomes)
        return all(
            outcome in self._block_of and asked.issuperset(self._block_of[outcome].outcomes) for outcome in asked
        )

    def cell_index(self, arm: int, outcome: int, latency: int = 0, covariate: int = 0) -> int:
        """Return the index of a cell, in [0, cell_count).

        Raises:
            ValueError: a place is outside its axis, or the outcome makes no report.
        """
        block = self._block_of.get(outcome)
        if block is None:
            msg = f"outcome must be in {sorted(self._block_of)}, got {outcome}"
            raise ValueError(msg)
        sizes = (self.arms, block.bins, self.covariate_bins)
        for name, place, size in zip(("arm", "latency", "covariate"), (arm, latency, covariate), sizes, strict=True):
            if not 0 <= place < size:
                msg = f"{name} must be in [0, {size}), got {place}"
                raise ValueError(msg)
        return arm * self.arm_cell_count + (block.start + latency) * self.covariate_bins + covariate

    def axes(self, cell: int) -> CellAxes:
        """Return the place of a cell on each axis; the inverse of `cell_index`.

        Raises:
            ValueError: no such cell.
        """
        if not 0 <= cell < self.cell_count:
            msg = f"the cell must be in [0, {self.cell_count}), got {cell}"
            raise ValueError(msg)
        arm, rest = divmod(cell, self.arm_cell_count)
        place, covariate = divmod(rest, self.covariate_bins)
        block = self._blocks[bisect.bisect_right(self._blocks, place, key=lambda each: each.start) - 1]
        return CellAxes(arm, block.outcomes[0], place - block.start, covariate)

    def expand(self, values: NDArray[Number]) -> NDArray[Number]:
        """Return the full array [arm, outcome, latency bin, covariate bin] of values per cell.

        Raises:
            ValueError: another number of values than there are cells.
        """
        import numpy as np  # noqa: PLC0415 - an app's device needs the order alone

        if values.shape != (self.cell_count,):
            msg = f"{self.cell_count} cells, got values of shape {values.shape}"
            raise ValueError(msg)
        full = np.zeros(math.prod(self.shape), values.dtype)
        full[np.array(self.places)] = values
        return full.reshape(self.shape)

    def expand_covariance(self, covariance: NDArray[Number]) -> NDArray[Number]:
        """Return the covariance over the full array, flattened in C order, of that over the cells.

        Raises:
            ValueError: another number of rows or columns than there are cells.
        """
        import numpy as np  # noqa: PLC0415 - as in `expand`

        if covariance.shape != (self.cell_count, self.cell_count):
            msg = f"{self.cell_count} cells, got a covariance of shape {covariance.shape}"
            raise ValueError(msg)
        size = math.prod(self.shape)
        full = np.zeros((size, size), covariance.dtype)
        places = np.array(self.places)
        full[np.ix_(places, places)] = covariance
        return full

    @cached_property
    def _blocks(self) -> tuple[_Block, ...]:
        blocks: list[_Block] = []
        start = 0
        for group in self.groups or tuple((outcome,) for outcome in range(self.outcomes)):
            has_bins = self.groups is None or OUTCOMES_WITH_LATENCY.issuperset(group)
            blocks.append(_Block(group, start, self.latency_bins if has_bins else 1))
            start += blocks[-1].bins
        return tuple(blocks)

    @cached_property
    def _block_of(self) -> dict[int, _Block]:
        return {outcome: block for block in self._blocks for outcome in block.outcomes}
