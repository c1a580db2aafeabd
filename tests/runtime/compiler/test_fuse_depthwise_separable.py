"""Depthwise convolutions are fused with their neighbors where that pays, with the same bits."""

from collections import Counter
from itertools import product

import numpy as np
import pytest
import torch
from alcove.runtime import ProgramError, load
from alcove.runtime.compiler import export, fuse_depthwise_separable
from alcove.runtime.compiler.costs import DEPTHWISE_ROWS, Separable
from alcove.runtime.format.spec import DType, ProgramSpec
from alcove.runtime.testing import Assembly
from torch import nn
from torch.export import Dim


class Block(nn.Module):
    """An inverted residual with bounds, a hard gate and a residual where shapes allow."""

    def __init__(self, inputs: int, channels: int, outputs: int, kernel: int, stride: int, *, padding: int) -> None:
        super().__init__()
        self.expand = nn.Conv2d(inputs, channels, 1) if channels != inputs else nn.Identity()
        self.depthwise = nn.Conv2d(channels, channels, kernel, stride, padding, groups=channels)
        self.project = nn.Conv2d(channels, outputs, 1)
        self.is_sum = inputs == outputs and stride == 1 and kernel == 2 * padding + 1

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run."""
        y = torch.relu(self.expand(x)) if not isinstance(self.expand, nn.Identity) else x
        y = self.project(nn.functional.hardswish(self.depthwise(y)))
        return x + y if self.is_sum else y


def ops(spec: ProgramSpec) -> Counter[str]:
    """Return how often a program has each operator."""
    return Counter(op.name for op in spec.ops)


SHAPES = [
    (8, 40, 8, 3, 1, 1),
    (8, 40, 12, 3, 2, 1),
    (6, 33, 6, 5, 1, 2),
    (8, 24, 8, 5, 2, 2),
    (40, 40, 9, 3, 1, 0),
    (5, 20, 5, 1, 1, 0),
]


@pytest.mark.parametrize("sizes", SHAPES)
@pytest.mark.parametrize("rows", [1, 3, 8, 19])
def test_a_block_gives_the_bits_of_its_parts(
    sizes: tuple[int, int, int, int, int, int], rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With one row at a time, some, and all; every kernel, stride, padding; batches; heights that rows don't divide."""
    torch.manual_seed(1)
    *numbers, padding = sizes
    block = Block(*numbers, padding=padding).eval()
    x = torch.randn(2, sizes[0], 19, 23)
    monkeypatch.setattr(fuse_depthwise_separable, "choose_rows", lambda _sizes: 0)
    apart = export(block, (x,))
    monkeypatch.setattr(fuse_depthwise_separable, "choose_rows", lambda _sizes: rows)
    together = export(block, (x,))
    assert ops(apart.spec)["separable_conv2d"] == 0
    assert ops(together.spec)["separable_conv2d"] == 1
    assert ops(together.spec)["depthwise_conv2d"] == 0
    expected = load(bytes(apart))(x.numpy())[0]
    assert load(bytes(together))(x.numpy())[0].tobytes() == expected.tobytes()
    with torch.no_grad():
        np.testing.assert_allclose(expected, block(x).numpy(), rtol=1e-4, atol=1e-5)


def test_large_images_run_together_in_less_memory_and_small_ones_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """What fits the caches by itself stays as it was."""
    block = Block(16, 96, 16, 3, 1, padding=1).eval()
    large, small = torch.randn(1, 16, 64, 64), torch.randn(1, 16, 7, 7)
    together = export(block, (large,))
    assert ops(together.spec)["separable_conv2d"] == 1
    assert ops(export(block, (small,)).spec)["separable_conv2d"] == 0
    monkeypatch.setattr(fuse_depthwise_separable, "choose_rows", lambda _sizes: 0)
    apart = export(block, (large,))
    assert load(bytes(together)).memory_ceiling_bytes < 0.5 * load(bytes(apart)).memory_ceiling_bytes


def test_rows_fill_the_tiles_of_the_kernel_and_hold_little() -> None:
    """Whatever is chosen for large images is a multiple of a tile's rows and far from whole images."""
    for side, inputs, channels in product((56, 112, 224), (0, 16, 64), (64, 144, 384)):
        sizes = Separable(1, side, side, side, side, inputs, channels, 32, (3, 3), 1)
        rows = fuse_depthwise_separable.choose_rows(sizes)
        assert rows > 0
        assert rows % DEPTHWISE_ROWS == 0
        assert sizes.held_bytes(rows) < 0.4 * sizes.held_bytes(side)


def test_large_weights_are_read_once() -> None:
    """A small image of many channels is no larger than the weights, which each band would read again."""
    assert fuse_depthwise_separable.choose_rows(Separable(1, 7, 7, 7, 7, 192, 1152, 192, (5, 5), 1)) == 0


def test_counts_of_a_block_by_hand() -> None:
    """Two images of 6 lines, 4 rows at a time: two bands, the second one padded to a tile; nothing leaves the cache."""
    sizes = Separable(2, 6, 5, 6, 5, 3, 20, 7, (3, 3), 1)
    adds = 2 * (30 * 32 * 3 + 30 * 16 * 20)
    weights = 4 * (32 * 3 + 16 * 20 + 20 * 9)
    assert sizes.counts(4) == (adds, 2 * 8 * 5 * 20 * 9, 2 * 2, 0, 2 * weights)
    assert sizes.counts(0) == (adds, 2 * 8 * 5 * 20 * 9, 2, 0, 0)
    assert sizes.held_bytes(4) == (6 + 4) * 5 * 20 * 4


def test_blocks_in_a_row_share_no_convolution(monkeypatch: pytest.MonkeyPatch) -> None:
    """Depthwise and 1x1 by turns, as MobileNetV1 has them: what ends one block does not begin the next."""
    torch.manual_seed(3)
    layers = [nn.Conv2d(12, 12, 3, padding=1, groups=12) if i % 2 else nn.Conv2d(12, 12, 1) for i in range(7)]
    chain, x = nn.Sequential(*layers).eval(), torch.randn(1, 12, 21, 17)
    monkeypatch.setattr(fuse_depthwise_separable, "choose_rows", lambda _sizes: 4)
    program = export(chain, (x,))
    assert ops(program.spec)["separable_conv2d"] == 3
    assert ops(program.spec)["conv2d"] == 0
    with torch.no_grad():
        np.testing.assert_allclose(load(bytes(program))(x.numpy())[0], chain(x).numpy(), rtol=1e-4, atol=1e-5)


def test_an_image_that_someone_else_reads_is_made() -> None:
    """The output of a depthwise convolution that is also an answer."""

    class Shown(Block):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:  # type: ignore[override]
            y = self.depthwise(self.expand(x))
            return y, self.project(y)

    program = export(Shown(16, 96, 16, 3, 1, padding=1).eval(), (torch.randn(1, 16, 64, 64),))
    assert ops(program.spec)["separable_conv2d"] == 0


def test_sizes_may_vary() -> None:
    """One program for all heights."""
    torch.manual_seed(2)
    block = Block(8, 48, 8, 3, 1, padding=1).eval()
    height = Dim("height", min=2, max=64)
    program = export(block, (torch.randn(1, 8, 64, 64),), dynamic_shapes={"x": {2: height}})
    assert ops(program.spec)["separable_conv2d"] == 1
    model = load(bytes(program))
    for rows in (2, 3, 17, 64):
        x = torch.randn(1, 8, rows, 64)
        with torch.no_grad():
            np.testing.assert_allclose(model(x.numpy())[0], block(x).numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("place", "value", "problem"),
    [
        (4, 3, "padding"),
        (8, 0, "rows"),
        (8, 1 << 21, "rows"),
        (9, 2, "has_expand"),
        (10, 1, "inputs"),
        (3, 2, "output"),
    ],
)
def test_wrong_attributes_are_refused(place: int, value: int, problem: str) -> None:
    """As much padding as kernel, no rows, inputs that are not there, another shape."""
    numbers = [3, 3, 1, 1, 1, 1, 1, 1, 2, 1, 0, *(0, 0.0, 0.0) * 3]

    def program(attributes: list[float]) -> bytes:
        build = Assembly()
        x = build.input("x", DType.F32, (1, 5, 6, 2))
        expand = build.panels("e", np.ones((4, 2), np.float32), np.ones(4, np.float32))
        depthwise = build.constant("d", np.ones((10, 4), np.float32))
        project = build.panels("p", np.ones((3, 4), np.float32), np.ones(3, np.float32))
        room = (4 * 6 + 2 * 6) * 4 * 4
        outputs = [(DType.F32, (1, 5, 6, 3)), (DType.U8, (room,))]
        result = build.op("separable_conv2d", [x, expand, depthwise, project], *outputs, attributes=tuple(attributes))
        build.output("y", result[0])
        return build.program()

    load(program(numbers))
    numbers[place] = value
    with pytest.raises(ProgramError, match=problem):
        load(program(numbers))
