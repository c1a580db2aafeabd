"""Defines the networks whose weights lie in `shared/data/pretrained`, from their description in its WEIGHTS.md.

Names of parameters are those of the files.  Recurrent networks are left out: their layers stay float32 in "int8".
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.nn import functional

SHARED: Final = Path(__file__).resolve().parents[2].parent / "shared/data/pretrained"
_ROWS: Final = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)


def load_weights(module: nn.Module, name: str, folder: Path = SHARED) -> nn.Module:
    """Return the module with the weights of a folder, for inference.

    Raises:
        FileNotFoundError: there are none.
        RuntimeError: they are not the module's.
    """
    from safetensors.torch import load_file

    module.load_state_dict(load_file(folder / name / "model.safetensors"))
    return module.eval()


# -- MobileNetV2, DeepLab -----------------------------------------------------------------------------------------


def _pad_same(x: Tensor, kernel: int, stride: int) -> Tensor:
    """Return the image padded as TensorFlow's SAME does: the odd row and column below and right."""
    totals = [max((-(-size // stride) - 1) * stride + kernel - size, 0) for size in x.shape[2:]]
    height, width = totals
    return functional.pad(x, (width // 2, width - width // 2, height // 2, height - height // 2))


class _InvertedResidual(nn.Module):
    def __init__(self, inputs: int, outputs: int, expansion: int, stride: int, dilation: int) -> None:
        super().__init__()
        inner = inputs * expansion
        self.stride, self.is_residual = stride, stride == 1 and inputs == outputs
        self.expand = nn.Conv2d(inputs, inner, 1) if expansion > 1 else nn.Identity()
        padding = dilation if stride == 1 else 0
        self.depthwise = nn.Conv2d(inner, inner, 3, stride, padding, dilation, groups=inner)
        self.project = nn.Conv2d(inner, outputs, 1)
        self.is_expanded = expansion > 1

    def forward(self, x: Tensor) -> Tensor:
        y = functional.relu6(self.expand(x)) if self.is_expanded else x
        y = _pad_same(y, 3, self.stride) if self.stride > 1 else y
        y = self.project(functional.relu6(self.depthwise(y)))
        result: Tensor = x + y if self.is_residual else y
        return result


def _inverted_residuals(*, is_dilated: bool) -> nn.Sequential:
    blocks: list[nn.Module] = []
    inputs, dilation = 32, 1
    for expansion, width, repeats, first in _ROWS:
        for index in range(repeats):
            stride = first if index == 0 else 1
            keeps = is_dilated and width == 160 and index == 0
            blocks.append(_InvertedResidual(inputs, width, expansion, 1 if keeps else stride, dilation))
            dilation = 2 if keeps else dilation
            inputs = width
    return nn.Sequential(*blocks)


class MobileNetV2(nn.Module):
    """1000 classes of 224x224 images in [-1, 1]."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 32, 3, 2)
        self.blocks = _inverted_residuals(is_dilated=False)
        self.head = nn.Conv2d(320, 1280, 1)
        self.classifier = nn.Linear(1280, 1000)

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits for f32 [n, 3, height, width]."""
        x = functional.relu6(self.stem(_pad_same(x, 3, 2)))
        x = functional.relu6(self.head(self.blocks(x)))
        result: Tensor = self.classifier(x.mean((2, 3)))
        return result


class DeepLab(nn.Module):
    """21 classes of each eighth pixel of images in [-1, 1]; sides are multiples of 16, plus 1."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 32, 3, 2)
        self.blocks = _inverted_residuals(is_dilated=True)
        self.aspp_pooled = nn.Conv2d(320, 256, 1)
        self.aspp_local = nn.Conv2d(320, 256, 1)
        self.merge = nn.Conv2d(512, 256, 1)
        self.classifier = nn.Conv2d(256, 21, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits [n, 21, height, width] for f32 [n, 3, height, width]."""
        y = self.blocks(functional.relu6(self.stem(_pad_same(x, 3, 2))))
        pooled = functional.relu(self.aspp_pooled(y.mean((2, 3), keepdim=True))).expand(-1, -1, *y.shape[2:])
        y = functional.relu(self.merge(torch.cat([pooled, functional.relu(self.aspp_local(y))], 1)))
        return functional.interpolate(self.classifier(y), x.shape[2:], mode="bilinear", align_corners=True)


# -- images to images ---------------------------------------------------------------------------------------------


class _SpatialAttention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(46, 16, 1)
        self.conv2 = nn.Conv2d(16, 16, 3, 2)
        self.conv3 = nn.Conv2d(16, 16, 3, 1, 1)
        self.conv4 = nn.Conv2d(16, 46, 1)
        self.conv_f = nn.Conv2d(16, 16, 1)

    def forward(self, x: Tensor) -> Tensor:
        a = self.conv1(x)
        small = self.conv3(functional.max_pool2d(self.conv2(a), 7, 3))
        wide = functional.interpolate(small, x.shape[2:], mode="bilinear", align_corners=False)
        return x * torch.sigmoid(self.conv4(wide + self.conv_f(a)))


class _LocalFeatures(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.c1_r = nn.Conv2d(46, 48, 3, 1, 1)
        self.c2_r = nn.Conv2d(48, 48, 3, 1, 1)
        self.c3_r = nn.Conv2d(48, 46, 3, 1, 1)
        self.c5 = nn.Conv2d(46, 46, 1)
        self.esa = _SpatialAttention()

    def forward(self, x: Tensor) -> Tensor:
        y = x
        for layer in (self.c1_r, self.c2_r, self.c3_r):
            y = functional.leaky_relu(layer(y), 0.05)
        result: Tensor = self.esa(self.c5(x + y))
        return result


class SuperResolution(nn.Module):
    """Four times the sides of images in [0, 255]."""

    def __init__(self) -> None:
        super().__init__()
        self.conv_1 = nn.Conv2d(3, 46, 3, 1, 1)
        self.block_1, self.block_2, self.block_3, self.block_4 = (_LocalFeatures() for _ in range(4))
        self.conv_2 = nn.Conv2d(46, 46, 3, 1, 1)
        self.upsampler = nn.Sequential(nn.Conv2d(46, 48, 3, 1, 1), nn.PixelShuffle(4))

    def forward(self, x: Tensor) -> Tensor:
        """Return [n, 3, 4 * height, 4 * width] for f32 [n, 3, height, width]."""
        first = self.conv_1(x)
        y = self.block_4(self.block_3(self.block_2(self.block_1(first))))
        result: Tensor = self.upsampler(self.conv_2(y) + first)
        return result


class LowLight(nn.Module):
    """Brightens images in [0, 1]."""

    def __init__(self) -> None:
        super().__init__()
        self.in_conv = nn.Sequential(nn.Conv2d(3, 3, 3, 1, 1), nn.ReLU())
        self.conv = nn.Sequential(nn.Conv2d(3, 3, 3, 1, 1), nn.BatchNorm2d(3), nn.ReLU())
        self.out_conv = nn.Sequential(nn.Conv2d(3, 3, 3, 1, 1), nn.Sigmoid())

    def forward(self, x: Tensor) -> Tensor:
        """Return f32 [n, 3, height, width] of the same."""
        f = self.in_conv(x)
        light = (self.out_conv(f + self.conv(f)) + x).clamp(0.0001, 1.0)
        result: Tensor = (x / light).clamp(0.0, 1.0)
        return result


class Retouching(nn.Module):
    """Colours of images in [0, 1] by a mixture of three tables, chosen from the picture."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = [nn.Upsample((256, 256), mode="bilinear", align_corners=False)]
        widths = (3, 16, 32, 64, 128, 128)
        for place, (inputs, outputs) in enumerate(itertools.pairwise(widths)):
            layers += [nn.Conv2d(inputs, outputs, 3, 2, 1), nn.LeakyReLU(0.2)]
            layers += [nn.InstanceNorm2d(outputs, affine=True)] if place < len(widths) - 2 else []
        layers += [nn.Dropout(), nn.Conv2d(128, 3, 8)]
        self.model = nn.Sequential(*layers)
        self.luts = nn.Parameter(torch.zeros(3, 3, 33, 33, 33))

    def forward(self, x: Tensor) -> Tensor:
        """Return f32 [1, 3, height, width] of the same."""
        return self.mix(x, self.model(x))

    def mix(self, x: Tensor, shares: Tensor) -> Tensor:
        """Return `x` with its colours looked up in the mixture of tables."""
        table = (self.luts * shares.reshape(3)[:, None, None, None, None]).sum(0, keepdim=True)
        places = (x.permute(0, 2, 3, 1) * 2 - 1)[:, None]
        picked = functional.grid_sample(table, places, mode="bilinear", padding_mode="border", align_corners=True)
        return picked[:, :, 0]


# -- detectors ----------------------------------------------------------------------------------------------------


def _conv(inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1) -> list[nn.Module]:
    convolution = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False)
    return [convolution, nn.BatchNorm2d(outputs)]


class _ShuffleUnit(nn.Module):
    def __init__(self, inputs: int, outputs: int, *, is_first: bool) -> None:
        super().__init__()
        inner, stride = outputs // 2, 2 if is_first else 1
        branch = inputs if is_first else inputs // 2
        self.is_first = is_first
        self.branch_main = nn.Sequential(
            *_conv(branch, inner, 1),
            nn.ReLU(),
            *_conv(inner, inner, 3, stride, inner),
            *_conv(inner, inner, 1),
            nn.ReLU(),
        )
        if is_first:
            self.branch_proj = nn.Sequential(*_conv(branch, branch, 3, 2, branch), *_conv(branch, inner, 1), nn.ReLU())

    def forward(self, x: Tensor) -> Tensor:
        if self.is_first:
            return torch.cat([self.branch_proj(x), self.branch_main(x)], 1)
        n, channels, height, width = x.shape
        halves = x.reshape(n, channels // 2, 2, height, width)
        return torch.cat([halves[:, :, 0], self.branch_main(halves[:, :, 1])], 1)


class _Backbone(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first_conv = nn.Sequential(*_conv(3, 24, 3, 2), nn.ReLU())
        self.stage2, self.stage3, self.stage4 = (
            nn.Sequential(*(_ShuffleUnit(i if u == 0 else o, o, is_first=u == 0) for u in range(count)))
            for i, o, count in ((24, 48, 4), (48, 96, 8), (96, 192, 4))
        )

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x = functional.max_pool2d(self.first_conv(x), 3, 2, 1)
        two = self.stage2(x)
        three = self.stage3(two)
        return two, three, self.stage4(three)


class _Pointwise(nn.Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.conv1x1 = nn.Sequential(*_conv(inputs, outputs, 1), nn.ReLU())

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.conv1x1(x)
        return result


class _Pyramid(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.Conv1x1 = _Pointwise(336, 96)
        deep = [*_conv(96, 96, 5, 1, 96), nn.ReLU()]
        self.S1 = nn.Sequential(*deep)
        self.S2 = nn.Sequential(*(layer for _ in range(2) for layer in (*_conv(96, 96, 5, 1, 96), nn.ReLU())))
        self.S3 = nn.Sequential(*(layer for _ in range(3) for layer in (*_conv(96, 96, 5, 1, 96), nn.ReLU())))
        self.output = nn.Sequential(*_conv(288, 96, 1))

    def forward(self, x: Tensor) -> Tensor:
        f = self.Conv1x1(x)
        return torch.relu(f + self.output(torch.cat([self.S1(f), self.S2(f), self.S3(f)], 1)))


class _Head(nn.Module):
    def __init__(self, outputs: int) -> None:
        super().__init__()
        self.conv5x5 = nn.Sequential(*_conv(96, 96, 5, 1, 96), nn.ReLU(), *_conv(96, outputs, 1))

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.conv5x5(x)
        return result


class _Heads(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1x1 = _Pointwise(96, 96)
        self.obj_layers, self.reg_layers, self.cls_layers = _Head(1), _Head(4), _Head(80)

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv1x1(x)
        scores = torch.softmax(self.cls_layers(x), 1)
        return torch.cat([torch.sigmoid(self.obj_layers(x)), self.reg_layers(x), scores], 1)


class FastestDet(nn.Module):
    """Objects of 80 classes in 352x352 images in [0, 1], blue first."""

    def __init__(self) -> None:
        super().__init__()
        self.backbone, self.SPP, self.detect_head = _Backbone(), _Pyramid(), _Heads()

    def forward(self, x: Tensor) -> Tensor:
        """Return [n, 85, 22, 22]: object, box, classes."""
        two, three, four = self.backbone(x)
        two = functional.avg_pool2d(two, 3, 2, 1)
        four = functional.interpolate(four, scale_factor=2.0, mode="nearest")
        result: Tensor = self.detect_head(self.SPP(torch.cat([two, three, four], 1)))
        return result


class _FaceBlock(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int = 1) -> None:
        super().__init__()
        self.stride, self.extra = stride, outputs - inputs
        self.convs = nn.Sequential(
            nn.Conv2d(inputs, inputs, 3, stride, 1 if stride == 1 else 0, groups=inputs), nn.Conv2d(inputs, outputs, 1)
        )

    def forward(self, x: Tensor) -> Tensor:
        y = self.convs(functional.pad(x, (0, 2, 0, 2)) if self.stride == 2 else x)
        x = functional.max_pool2d(x, 2) if self.stride == 2 else x
        x = functional.pad(x, (0, 0, 0, 0, 0, self.extra)) if self.extra else x
        return torch.relu(x + y)


class BlazeFace(nn.Module):
    """Faces in 128x128 images in [-1, 1]."""

    def __init__(self) -> None:
        super().__init__()
        widths = (24, 24, 28, 32, 36, 42, 48, 56, 64, 72, 80, 88)
        pairs = itertools.pairwise(widths)
        blocks = [_FaceBlock(i, o, 2 if o in {32, 48} else 1) for i, o in pairs]
        self.backbone1 = nn.Sequential(nn.Conv2d(3, 24, 5, 2), nn.ReLU(), *blocks)
        self.backbone2 = nn.Sequential(_FaceBlock(88, 96, 2), *(_FaceBlock(96, 96) for _ in range(4)))
        self.classifier_8, self.classifier_16 = nn.Conv2d(88, 2, 1), nn.Conv2d(96, 6, 1)
        self.regressor_8, self.regressor_16 = nn.Conv2d(88, 32, 1), nn.Conv2d(96, 96, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return scores [n, 896, 1] and boxes [n, 896, 16]."""
        fine = self.backbone1(functional.pad(x, (1, 2, 1, 2)))
        coarse = self.backbone2(fine)
        n = x.shape[0]
        scores = [head(y).permute(0, 2, 3, 1).reshape(n, -1, 1) for head, y in self._pairs("classifier", fine, coarse)]
        boxes = [head(y).permute(0, 2, 3, 1).reshape(n, -1, 16) for head, y in self._pairs("regressor", fine, coarse)]
        return torch.sigmoid(torch.cat(scores, 1)), torch.cat(boxes, 1)

    def _pairs(self, name: str, fine: Tensor, coarse: Tensor) -> list[tuple[Any, Tensor]]:
        return [(getattr(self, f"{name}_8"), fine), (getattr(self, f"{name}_16"), coarse)]
