"""How long will a kernel take?  Only what a choice of the exporter depends on, relative to each other.

Times are a sum of what a kernel does, each with its cost; the costs are fitted by `python -m benchmarks.costs`, which
prints them beside the fit's error.  A program depends on them, so they change by hand and not with the machine that
exports.
"""

from dataclasses import dataclass
from typing import Final

from alcove.runtime.format.spec import PANEL_COLUMNS

WINOGRAD_TILE: Final = 4
WINOGRAD_PLANES: Final = 36

DIRECT_NS: Final = (0.018, 0.0, 0.0, 250.0)
"""A multiply-add of a panel's column, a store of a panel, a load of an input, a line of the image."""
WINOGRAD_NS: Final = (0.016, 2.9, 4.3, 14.0)
"""A multiply-add of a panel's column, a store of a panel, 16 channels of a transformed input, a panel's begin."""


@dataclass(frozen=True)
class Convolution:
    """A 3x3 convolution with stride 1, of one group.

    Attributes:
        images: how many.
        rows: of an output.
        columns: of an output.
        inputs: channels.
        outputs: channels.
    """

    images: int
    rows: int
    columns: int
    inputs: int
    outputs: int

    def direct_counts(self) -> tuple[float, ...]:
        """Return what the direct kernel does, in the order of `DIRECT_NS`."""
        pixels, panels = self.images * self.rows * self.columns, -(-self.outputs // PANEL_COLUMNS)
        taps = 9 * self.inputs
        return pixels * panels * PANEL_COLUMNS * taps, pixels * panels, pixels * taps, self.images * self.rows

    def winograd_counts(self) -> tuple[float, ...]:
        """Return what winograd_conv2d does, in the order of `WINOGRAD_NS`."""
        tiles = self.images * -(-self.rows // WINOGRAD_TILE) * -(-self.columns // WINOGRAD_TILE) * WINOGRAD_PLANES
        panels = -(-self.outputs // PANEL_COLUMNS)
        reads = tiles * -(-self.inputs // PANEL_COLUMNS)
        return tiles * panels * PANEL_COLUMNS * self.inputs, tiles * panels, reads, WINOGRAD_PLANES * panels

    @property
    def direct_ns(self) -> float:
        """Expected time of the direct kernel."""
        return _priced(self.direct_counts(), DIRECT_NS)

    @property
    def winograd_ns(self) -> float:
        """Expected time of winograd_conv2d."""
        return _priced(self.winograd_counts(), WINOGRAD_NS)


def _priced(counts: tuple[float, ...], costs: tuple[float, ...]) -> float:
    return sum(count * cost for count, cost in zip(counts, costs, strict=True))
