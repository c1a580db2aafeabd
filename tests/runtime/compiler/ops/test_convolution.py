"""Exported convolutions agree with torch: strides, paddings, dilations, groups and sizes of every kind."""

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - torch's own custom
from alcove.runtime import export
from alcove.runtime.compiler import load_state
from torch import Tensor, nn

Agrees = Callable[..., None]
CHANNELS = 12


class Many(nn.Module):
    """Every layer of the same input."""

    def __init__(self, layers: Sequence[nn.Module]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers).eval()

    def forward(self, x: Tensor) -> list[Tensor]:
        """Run."""
        return [layer(x) for layer in self.layers]


@pytest.mark.parametrize("groups", [1, 3, CHANNELS])
def test_every_stride_padding_and_dilation(agrees: Agrees, groups: int) -> None:
    """Two dimensions with unlike numbers, odd sizes, one group, several, and a channel each with a multiplier."""
    layers: list[nn.Module] = []
    for stride, padding, dilation in product([(1, 1), (2, 3)], [(0, 0), (2, 1)], [(1, 1), (2, 1)]):
        for outputs, kernel in ((24, (3, 3)), (36, (1, 4))):
            layers.append(nn.Conv2d(CHANNELS, outputs, kernel, stride, padding, dilation, groups, bias=stride[0] == 1))
    agrees(Many(layers), torch.randn(2, CHANNELS, 9, 11))


def test_outputs_around_a_panel_and_pixels_around_a_block(agrees: Agrees) -> None:
    """1 to 48 outputs; more than 64 pixels; a kernel of one pixel, which copies nothing."""
    agrees(Many([nn.Conv2d(5, outputs, 1) for outputs in (1, 15, 16, 17, 32, 33, 48)]), torch.randn(1, 5, 9, 15))
    agrees(Many([nn.Conv2d(5, outputs, 3, 1, 1) for outputs in (1, 16, 31)]), torch.randn(3, 5, 9, 15))


def test_large_patches(agrees: Agrees) -> None:
    """More than the scratch holds for 64 pixels, and more than it holds for 4."""
    agrees(Many([nn.Conv2d(200, 3, 3, 1, 1)]), torch.randn(1, 200, 6, 6), atol=1e-4)
    agrees(Many([nn.Conv2d(1000, 2, 3, 1, 1)]), torch.randn(1, 1000, 4, 4), atol=1e-3)


@pytest.mark.parametrize("mode", ["zeros", "reflect", "replicate", "circular"])
def test_every_padding_mode(agrees: Agrees, mode: Any) -> None:
    """In one and two dimensions; "same" with even kernels pads one side more."""
    same = [nn.Conv2d(CHANNELS, 4, k, padding="same", padding_mode=mode) for k in (3, (5, 1))]
    agrees(Many([*same, nn.Conv2d(CHANNELS, 4, 3, 2, 2, padding_mode=mode)]), torch.randn(2, CHANNELS, 7, 8))
    agrees(Many([nn.Conv1d(CHANNELS, 4, 5, padding=3, padding_mode=mode)]), torch.randn(2, CHANNELS, 17))


@pytest.mark.filterwarnings("ignore:Using padding='same'")
def test_same_padding_with_even_kernels(agrees: Agrees) -> None:
    """One more element after than before."""
    agrees(Many([nn.Conv2d(CHANNELS, 4, (2, 4), padding="same")]), torch.randn(1, CHANNELS, 5, 6))


def test_one_and_three_dimensions(agrees: Agrees) -> None:
    """A row, and a sum over depth."""
    rows = [nn.Conv1d(CHANNELS, 8, 3, s, p, d, g) for s, p, d, g in ((1, 0, 1, 1), (2, 3, 2, 2), (1, 1, 1, 4))]
    agrees(Many([*rows, nn.Conv1d(CHANNELS, CHANNELS, 7, groups=CHANNELS)]), torch.randn(2, CHANNELS, 31))
    volumes = [nn.Conv3d(4, 6, k, s, p, d, g) for k, s, p, d, g in ((3, 1, 1, 1, 1), ((2, 3, 1), 2, (1, 0, 2), 2, 2))]
    agrees(Many(volumes), torch.randn(2, 4, 7, 6, 5))


def test_volumes_with_a_kernel_of_one_column_are_images(agrees: Agrees) -> None:
    """Each column is an image of depth and height, which kernels may exceed; strides and groups are as ever."""
    cases: list[Any] = [
        ((9, 9, 1), 1, (4, 4, 0), 1, 1),
        ((3, 2, 1), (1, 2, 1), (1, 0, 0), (2, 1, 1), 2),
        ((1, 1, 1), (2, 1, 1), 0, 1, 4),
    ]
    agrees(Many([nn.Conv3d(4, 8, *case) for case in cases]), torch.randn(2, 4, 7, 6, 5))


@pytest.mark.parametrize("groups", [1, 4])
def test_transposed(agrees: Agrees, groups: int) -> None:
    """Strides above the kernel leave pixels of bias alone; output padding; stride and dilation with a common factor."""
    cases: list[Any] = [
        (3, 2, 1, 1, 1),
        ((2, 3), (3, 1), 0, (1, 0), (1, 2)),
        (2, 4, 0, 3, 1),
        (3, 4, (2, 3), 0, 2),
        (1, 1, 0, 0, 1),
    ]
    layers: list[nn.Module] = [
        nn.ConvTranspose2d(CHANNELS, 20, kernel, stride, padding, extra, groups, dilation=dilation)
        for kernel, stride, padding, extra, dilation in cases
    ]
    agrees(Many(layers), torch.randn(2, CHANNELS, 5, 6))
    agrees(Many([nn.ConvTranspose1d(CHANNELS, 8, 5, 3, 1, 1, groups)]), torch.randn(2, CHANNELS, 9))


def test_weights_that_are_inputs_or_computed(agrees: Agrees) -> None:
    """They are packed on the device: one group, several, a channel each, transposed."""
    x, bias = torch.randn(2, CHANNELS, 5, 6), torch.randn(20)
    agrees(
        {
            "plain": lambda x, w, v, b: F.conv2d(x, w, b, padding=1),
            "groups": lambda x, w, v, b: F.conv2d(x, w[:, :3] * 2, b, groups=4),
            "each": lambda x, w, v, b: F.conv2d(x, w[:12, :1], b[:12], groups=12),
            "transposed": lambda x, w, v, b: F.conv_transpose2d(x, v, b, stride=(2, 4)),
            "groups transposed": lambda x, w, v, b: F.conv_transpose2d(x, v[:, :5], b, groups=4, dilation=2),
        },
        x,
        torch.randn(20, CHANNELS, 3, 3),
        torch.randn(CHANNELS, 20, 3, 2),
        bias,
    )


def test_whole_numbers(agrees: Agrees) -> None:
    """Exact int64 convolutions, forward and transposed."""
    agrees(
        {
            "plain": lambda x, w, b: F.conv2d(x, w, b, (2, 1), (1, 2), (1, 2)),
            "groups": lambda x, w, b: F.conv2d(x, w[:, :2], b, groups=3),
            "row": lambda x, w, b: F.conv1d(x[:, :, 0], w[:, :, 0], padding=1),
            "transposed": lambda x, w, b: F.conv_transpose2d(x, w, None, (3, 1), (1, 0), (2, 0), dilation=(2, 1)),
            "groups transposed": lambda x, w, b: F.conv_transpose2d(x, w, None, 2, groups=2),
        },
        torch.randint(-(2**30), 2**30, (2, 6, 5, 7)),
        torch.randint(-9, 10, (6, 6, 3, 2)),
        torch.randint(-(2**40), 2**40, (6,)),
    )


def test_infinities_and_nans_pass_as_in_eager(agrees: Agrees) -> None:
    """In the input; also through a bound, which keeps a NaN."""
    x = torch.randn(1, CHANNELS, 8, 8)
    x[0, 0, 1, 1], x[0, 3, 5, 5], x[0, 7, 6, 1] = float("nan"), float("inf"), float("-inf")
    layers = [nn.Sequential(nn.Conv2d(CHANNELS, 8, 3, padding=1), nn.ReLU6()), nn.Conv2d(CHANNELS, 12, 3, groups=12)]
    agrees(Many(layers), x)


@pytest.mark.parametrize("groups", [1, 2, 4])
def test_parameters_come_back_from_a_program(groups: int) -> None:
    """Weights and biases of every form, bit for bit, by their names and in their shapes."""
    module = nn.Sequential(
        nn.Conv2d(4, 8, (3, 2), groups=groups),
        nn.ConvTranspose2d(8, 4, 3, 2, groups=groups, dilation=2),
        nn.Flatten(2),
        nn.Conv1d(4, 4, 3, groups=groups),
        nn.ConvTranspose1d(4, 4, 3, 2, groups=groups),
    ).eval()
    found = load_state(export(module, (torch.randn(1, 4, 6, 6),)).spec)
    assert set(found) == set(module.state_dict())
    for name, expected in module.state_dict().items():
        assert np.array_equal(found[name], expected.numpy()), name


def test_transposed_volumes(agrees: Agrees) -> None:
    """Strides, paddings that cut more than the kernel, dilations, output padding and groups, unlike in depth."""
    layers: list[nn.Module] = [
        nn.ConvTranspose3d(4, 6, 3, stride=2, padding=1, output_padding=1),
        nn.ConvTranspose3d(
            4, 6, (2, 3, 1), stride=(3, 1, 2), padding=(0, 1, 0), groups=2, dilation=(2, 1, 1), bias=False
        ),
        nn.ConvTranspose3d(4, 4, (1, 2, 3), stride=(4, 1, 1), output_padding=(3, 0, 0), groups=4),
        nn.ConvTranspose3d(4, 2, 3, stride=(3, 2, 1), padding=2, output_padding=(2, 1, 0)),
    ]
    agrees(Many(layers), torch.randn(2, 4, 3, 4, 5))


def test_a_convolution_twice_with_one_weight(agrees: Agrees) -> None:
    """Packed for each stride of a transposed one."""

    class Shared(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(4, 4, 3, 3))

        def forward(self, x: Tensor) -> Any:
            return [
                F.conv_transpose2d(x, self.weight, stride=2),
                F.conv_transpose2d(x, self.weight, stride=3),
                F.conv2d(x, self.weight),
                F.conv2d(x, self.weight, stride=2),
            ]

    agrees(Shared().eval(), torch.randn(1, 4, 6, 6))


@pytest.mark.parametrize("width", [4, 8])
def test_groups_that_share_a_vector(agrees: Agrees, width: int) -> None:
    """Strides, dilations, paddings, lines shorter and longer than a tile, a batch, a sum that is long, a residual."""
    layers: list[nn.Module] = [
        nn.Conv2d(48, 48, kernel, stride, padding, dilation, groups=48 // width, bias=stride == 1)
        for kernel in (1, 3, 4)
        for stride in (1, 2)
        for padding, dilation in ((0, 1), (3, 2))
    ]
    for columns in (9, 30):
        agrees(Many([*layers, nn.Conv2d(48, 48, 9, padding=4, groups=48 // width)]), torch.randn(2, 48, 10, columns))
    agrees(Many([nn.Conv2d(48, 48, 17, padding=8, groups=48 // width)]), torch.randn(1, 48, 5, 6))
    agrees(Many([nn.Conv1d(48, 48, 5, padding=2, groups=48 // width)]), torch.randn(1, 48, 33))


def test_groups_with_another_number_of_outputs_have_panels_of_their_own(agrees: Agrees) -> None:
    """Twice as many outputs as inputs; channels that fill no vector."""
    agrees(Many([nn.Conv2d(48, 96, 3, groups=12)]), torch.randn(1, 48, 8, 8))
    agrees(Many([nn.Conv2d(24, 24, 3, groups=6)]), torch.randn(1, 24, 8, 8))


def test_a_convolution_in_groups_and_without_with_one_weight_and_bias(agrees: Agrees) -> None:
    """Packed for each number of groups."""

    class Shared(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight, self.bias = nn.Parameter(torch.randn(16, 4, 3, 3)), nn.Parameter(torch.randn(16))

        def forward(self, x: Tensor) -> Any:
            return F.conv2d(x, self.weight, self.bias, groups=4), F.conv2d(x[:, :4], self.weight, self.bias)

    agrees(Shared().eval(), torch.randn(1, 16, 9, 9))
