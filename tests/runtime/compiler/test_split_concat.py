"""Convolutions of large joined images are split, which takes less memory and changes the numbers by rounding alone."""

from collections import Counter

import numpy as np
import pytest
import torch
from alcove.runtime import load
from alcove.runtime.compiler import export, pipeline
from alcove.runtime.format.spec import ProgramSpec
from torch import Tensor, nn
from torch.export import Dim


class Decoder(nn.Module):
    """Joins images by channels, then filters each channel and mixes them."""

    def __init__(self, widths: tuple[int, ...], outputs: int, *, bound: float = 6.0, axis: int = 1) -> None:
        super().__init__()
        channels = sum(widths) if axis == 1 else widths[0]
        self.before = nn.ModuleList(nn.Conv2d(width, width, 1) for width in widths)
        self.depthwise = nn.Conv2d(channels, channels, 3, 1, 1, groups=channels)
        self.project = nn.Conv2d(channels, outputs, 1)
        self.bound, self.axis = bound, axis

    def join(self, *parts: Tensor) -> Tensor:
        """Return the joined image."""
        return torch.cat([layer(part) for layer, part in zip(self.before, parts, strict=True)], self.axis)

    def forward(self, *parts: Tensor) -> Tensor:
        """Run."""
        joined = self.join(*parts)
        return self.project(self.depthwise(joined).clamp(-1, self.bound)).clamp(-2, self.bound)


def ops(spec: ProgramSpec) -> Counter[str]:
    """Return how often a program has each operator."""
    return Counter(op.name for op in spec.ops)


def images(widths: tuple[int, ...], size: int, batch: int = 1) -> tuple[Tensor, ...]:
    """Return one image for each width."""
    return tuple(torch.randn(batch, width, size, size + 3) for width in widths)


@pytest.mark.parametrize("widths", [(32, 16), (16, 32), (16, 16, 48), (32, 20)])
def test_a_split_convolution_answers_as_torch_does_and_takes_less_memory(
    widths: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two parts or more, the last one of any width; bounds on both convolutions; batches."""
    torch.manual_seed(2)
    module = Decoder(widths, 16).eval()
    parts = images(widths, 66, batch=2)
    split = export(module, parts)
    monkeypatch.setattr(pipeline, "choose_split", lambda _graph: frozenset())
    joined = export(module, parts)
    assert ops(joined.spec)["concat"] == 1
    assert ops(split.spec)["concat"] == 0
    assert ops(split.spec)["separable_conv2d"] == len(widths)
    assert split.spec.arena_bytes < joined.spec.arena_bytes
    given = [part.numpy() for part in parts]
    answer = load(bytes(split))(*given)[0]
    with torch.no_grad():
        np.testing.assert_allclose(answer, module(*parts).numpy(), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(answer, load(bytes(joined))(*given)[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("widths", "outputs", "size"),
    [((32, 16), 16, 20), ((24, 24), 16, 66), ((16, 16), 40, 90), ((16,) * 5, 16, 66)],
    ids=["in the cache", "panels half empty", "sums larger than the parts", "many parts"],
)
def test_what_would_not_pay_stays_joined(widths: tuple[int, ...], outputs: int, size: int) -> None:
    """Small images, widths that would take more panels, many outputs, many parts."""
    program = export(Decoder(widths, outputs).eval(), images(widths, size))
    assert ops(program.spec)["concat"] == 1


def test_rows_joined_by_height_stay_joined() -> None:
    """A convolution sees the rows of both images at their seam."""
    module, parts = Decoder((48, 48), 16, axis=2).eval(), images((48, 48), 66)
    program = export(module, parts)
    assert ops(program.spec)["concat"] == 1
    with torch.no_grad():
        expected = module(*parts).numpy()
    answer = load(bytes(program))(*(part.numpy() for part in parts))[0]
    np.testing.assert_allclose(answer, expected, rtol=1e-4, atol=1e-5)


def test_a_joined_image_that_something_else_reads_stays() -> None:
    """It has to be made anyway."""

    class Skipping(Decoder):
        def forward(self, *parts: Tensor) -> Tensor:
            joined = self.join(*parts)
            return self.project(self.depthwise(joined)) + joined.mean(1, keepdim=True)

    program = export(Skipping((32, 16), 16).eval(), images((32, 16), 66))
    assert ops(program.spec)["concat"] == 1


def test_sizes_that_vary_have_the_same_split() -> None:
    """What pays at the largest size is done at all of them."""
    module, parts = Decoder((32, 16), 16).eval(), images((32, 16), 66)
    height = Dim("height", min=4, max=66)
    program = export(module, parts, dynamic_shapes=[{2: height}, {2: height}])
    assert ops(program.spec)["concat"] == 0
    for rows in (4, 31, 66):
        given = [part[:, :, :rows].contiguous() for part in parts]
        with torch.no_grad():
            expected = module(*given).numpy()
        answer = load(bytes(program))(*(part.numpy() for part in given))[0]
        np.testing.assert_allclose(answer, expected, rtol=1e-4, atol=1e-5)
