"""Estimates kernel times for the exporter's choices: only what these depend on, relative to each other.

Times are a sum of what a kernel does, each with its cost; the costs are fitted by `python -m benchmarks.costs`, which
prints them beside the fit's error.  A program depends on them, so they change by hand and not with the machine that
exports.
"""

from dataclasses import dataclass
from typing import Final

from alcove.runtime.compiler.scratch import scratch_bytes
from alcove.runtime.format.spec import PANEL_COLUMNS

WINOGRAD_TILE: Final = 4
WINOGRAD_PLANES: Final = 36

DIRECT_NS: Final = (0.018, 0.0, 0.0, 250.0)
"""A multiply-add of a panel's column, a store of a panel, a load of an input, a line of the image."""
WINOGRAD_NS: Final = (0.016, 2.9, 4.3, 14.0)
"""A multiply-add of a panel's column, a store of a panel, 16 channels of a transformed input, a panel's begin."""

SEPARABLE_NS: Final = (0.023, 0.0095, 340.0, 0.014, 0.03)
"""A multiply-add of a panel's column, a tap of a depthwise output, a band, a byte out of the cache when it is read, a
byte of weights that a band reads again."""
DEPTHWISE_ROWS: Final = 4
"""Of a tile of depthwise outputs; a tile of fewer costs as much."""
CACHE_BYTES: Final = 512 << 10
"""A second-level cache: those of phones' large cores have 256 KiB to 1 MiB."""


POINTWISE_NS: Final = (0.0175, 0.15)
"""Of a 1x1 convolution between two transposes: a multiply-add of a panel's column, an element transposed."""
CHANNELS_FIRST_NS: Final = (0.0175, 0.07)
"""Of pointwise_conv2d: a multiply-add of a panel's column, an element packed."""
_FEWEST_ROWS: Final = 4
"""Of a product: one of fewer waits for loads as long."""


@dataclass(frozen=True)
class Pointwise:
    """A 1x1 convolution of images whose channels come first.

    Attributes:
        images: how many.
        pixels: of an image.
        inputs: channels.
        outputs: channels.
    """

    images: int
    pixels: int
    inputs: int
    outputs: int

    def channels_last_counts(self) -> tuple[float, ...]:
        """Return what conv2d and its transposes do, in the order of `POINTWISE_NS`."""
        pixels = self.images * self.pixels
        return pixels * _columns(self.outputs) * self.inputs, pixels * (self.inputs + self.outputs)

    def channels_first_counts(self) -> tuple[float, ...]:
        """Return what pointwise_conv2d does, in the order of `CHANNELS_FIRST_NS`."""
        pixels = self.images * _columns(self.pixels)
        return pixels * max(self.outputs, _FEWEST_ROWS) * (self.inputs + 1), pixels * self.inputs

    @property
    def is_faster(self) -> bool:
        """Whether pointwise_conv2d is expected to be faster."""
        last = _price(self.channels_last_counts(), POINTWISE_NS)
        return _price(self.channels_first_counts(), CHANNELS_FIRST_NS) < last


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
        return _price(self.direct_counts(), DIRECT_NS)

    @property
    def winograd_ns(self) -> float:
        """Expected time of winograd_conv2d."""
        return _price(self.winograd_counts(), WINOGRAD_NS)


@dataclass(frozen=True)
class Separable:
    """A depthwise convolution between two 1x1 convolutions, or before one.

    Attributes:
        images: how many.
        in_rows: of the input.
        in_columns: of the input.
        rows: of the output.
        columns: of the output.
        inputs: channels; 0 without an expansion.
        channels: between the convolutions.
        outputs: channels.
        kernel: height and width of the depthwise window.
        stride: of the depthwise window, down the image.
    """

    images: int
    in_rows: int
    in_columns: int
    rows: int
    columns: int
    inputs: int
    channels: int
    outputs: int
    kernel: tuple[int, int]
    stride: int

    @property
    def read(self) -> int:
        """Channels of the input."""
        return self.inputs or self.channels

    @property
    def line_bytes(self) -> int:
        """A line of the expanded image."""
        return self.in_columns * self.channels * 4

    @property
    def row_bytes(self) -> int:
        """A row of the depthwise image."""
        return self.columns * self.channels * 4

    @property
    def weight_bytes(self) -> int:
        """Of all convolutions."""
        panels = _columns(self.channels) * self.inputs + _columns(self.outputs) * self.channels
        return 4 * (panels + self.channels * self.kernel[0] * self.kernel[1])

    def held_bytes(self, rows: int) -> int:
        """Return the bytes of both images that exist between the convolutions, for `rows` at a time."""
        return scratch_bytes(
            "separable_conv2d",
            channels=self.channels,
            in_w=self.in_columns,
            out_w=self.columns,
            rows=rows,
            kernel_h=self.kernel[0],
            stride_h=self.stride,
            has_expand=int(self.inputs > 0),
        )

    def counts(self, rows: int) -> tuple[float, ...]:
        """Return what is done, in the order of `SEPARABLE_NS`: `rows` at a time, or with 0 image after image."""
        at_a_time = min(rows, self.rows) or self.rows
        bands, rest = divmod(self.rows, at_a_time)
        tiles = bands * -(-at_a_time // DEPTHWISE_ROWS) + -(-rest // DEPTHWISE_ROWS)
        pixels, above = self.rows * self.columns, self.in_rows * self.in_columns
        adds = above * _columns(self.channels) * self.inputs + pixels * _columns(self.outputs) * self.channels
        taps = tiles * DEPTHWISE_ROWS * self.columns * self.channels * self.kernel[0] * self.kernel[1]
        images = [self.rows * self.row_bytes] + ([self.in_rows * self.line_bytes] if self.inputs else [])
        far = sum(image * _miss_share(self.held_bytes(rows) if rows else image) for image in images)
        bands += 1 if rest else 0
        counts = (adds, taps, bands, far, (bands - 1) * self.weight_bytes)
        return tuple(float(self.images * count) for count in counts)

    def ns(self, rows: int) -> float:
        """Return the expected time, as `counts`."""
        return _price(self.counts(rows), SEPARABLE_NS)


def _columns(channels: int) -> int:
    return -(-channels // PANEL_COLUMNS) * PANEL_COLUMNS


def _miss_share(held_bytes: int) -> float:
    """Return the share of an image that has left the cache when it is read, after `held_bytes` were written."""
    return max(0.0, 1 - CACHE_BYTES / held_bytes)


def _price(counts: tuple[float, ...], costs: tuple[float, ...]) -> float:
    return sum(count * cost for count, cost in zip(counts, costs, strict=True))
