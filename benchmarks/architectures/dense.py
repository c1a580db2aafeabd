"""Models whose output is an image again, or a map: segmentation, depth, super-resolution, style, detection, pose."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - as everybody calls it

from benchmarks.architectures.layers import InvertedResidual, LayerNorm2d, conv_bn
from benchmarks.architectures.registry import Architecture, image


def double(channels_in: int, channels: int) -> nn.Sequential:
    """Return two 3x3 convolutions with batch norm."""
    return nn.Sequential(
        conv_bn(channels_in, channels, activation=nn.ReLU()), conv_bn(channels, channels, activation=nn.ReLU())
    )


class UNet(nn.Module):
    """Down three times and up again with skips (Ronneberger et al. 2015, figure 1), transposed convolutions."""

    def __init__(self) -> None:
        super().__init__()
        widths = (8, 16, 32, 64)
        self.down = nn.ModuleList(double(i, o) for i, o in zip((3, *widths), widths, strict=False))
        self.up = nn.ModuleList(nn.ConvTranspose2d(2 * w, w, 2, 2) for w in widths[-2::-1])
        self.merge = nn.ModuleList(double(2 * w, w) for w in widths[-2::-1])
        self.head = nn.Conv2d(widths[0], 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Return a mask [N, 2, H, W]."""
        skips = []
        for index, block in enumerate(self.down):
            x = block(F.max_pool2d(x, 2) if index else x)
            skips.append(x)
        skips.pop()
        for up, merge in zip(self.up, self.merge, strict=True):
            x = merge(torch.cat([skips.pop(), up(x)], 1))
        y: Tensor = self.head(x)
        return y


class PromptedSegmenter(nn.Module):
    """An image encoder, points encoded by random Fourier features, and a decoder with attention both ways (SAM-like).

    Two upscaling steps and a hypernetwork make masks from tokens (Kirillov et al. 2023, figure 14).
    """

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.encoder = nn.Sequential(
            conv_bn(3, 16, 3, 2, activation=nn.ReLU6()),
            InvertedResidual(16, 24, expansion=4, stride=2),
            InvertedResidual(24, 24, expansion=4),
            InvertedResidual(24, width, expansion=4, stride=2),
            nn.Conv2d(width, width, 1), LayerNorm2d(width),
        )  # fmt: skip
        self.frequencies = nn.Parameter(torch.randn(2, width // 2))
        self.tokens = nn.Parameter(torch.randn(4, width))
        self.to_image = nn.MultiheadAttention(width, 4, batch_first=True)
        self.to_tokens = nn.MultiheadAttention(width, 4, batch_first=True)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.up = nn.Sequential(
            nn.ConvTranspose2d(width, 16, 2, 2), LayerNorm2d(16), nn.GELU(), nn.ConvTranspose2d(16, 8, 2, 2), nn.GELU()
        )
        self.hyper = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 8))
        self.quality = nn.Linear(width, 3)

    def forward(self, x: Tensor, points: Tensor) -> tuple[Tensor, Tensor]:
        """Return masks [N, 3, H/2, W/2] and their predicted quality [N, 3]; points [N, P, 2] lie in 0..1."""
        features = self.encoder(x)
        n, c, h, w = features.shape
        angles = 2 * torch.pi * ((2 * points - 1) @ self.frequencies)
        prompts = torch.cat([angles.sin(), angles.cos()], -1)
        tokens = torch.cat([self.tokens.expand(n, -1, -1), prompts], 1)
        pixels = features.flatten(2).transpose(1, 2)
        tokens = self.norms[0](tokens + self.to_image(tokens, pixels, pixels, need_weights=False)[0])
        pixels = self.norms[1](pixels + self.to_tokens(pixels, tokens, tokens, need_weights=False)[0])
        large = self.up(pixels.transpose(1, 2).reshape(n, c, h, w))
        weights = self.hyper(tokens[:, 1:4])
        masks = (weights @ large.flatten(2)).view(n, 3, *large.shape[2:])
        return masks, self.quality(tokens[:, 0])


class Aspp(nn.Module):
    """Dilated branches and a global one (DeepLabV3, figure 5), resized to the input."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            conv_bn(3, 16, 3, 2, activation=nn.ReLU()), conv_bn(16, 32, 3, 2, activation=nn.ReLU())
        )
        self.branches = nn.ModuleList(conv_bn(32, 16, 3, dilation=d, activation=nn.ReLU()) for d in (1, 2, 4))
        self.mean = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(32, 16, 1), nn.ReLU())
        self.head = nn.Sequential(conv_bn(64, 16, 1, activation=nn.ReLU()), nn.Conv2d(16, 5, 1))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return classes [N, H, W] of pixels, and their scores."""
        y = self.stem(x)
        mean = F.interpolate(self.mean(y), size=y.shape[2:], mode="bilinear", align_corners=False)
        y = self.head(torch.cat([*(branch(y) for branch in self.branches), mean], 1))
        y = F.interpolate(y, size=x.shape[2:], mode="bilinear", align_corners=False)
        return y.argmax(1), y


class Edsr(nn.Module):
    """EDSR (Lim et al. 2017, figure 3) with two blocks; means are taken off and put back by 1x1 convolutions."""

    def __init__(self) -> None:
        super().__init__()
        self.mean = nn.Parameter(torch.tensor([0.45, 0.44, 0.40]).view(1, 3, 1, 1), requires_grad=False)
        self.head = nn.Conv2d(3, 16, 3, padding=1)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Conv2d(16, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 16, 3, padding=1)) for _ in range(2)
        )
        self.tail = nn.Sequential(nn.Conv2d(16, 64, 3, padding=1), nn.PixelShuffle(2), nn.Conv2d(16, 3, 3, padding=1))

    def forward(self, x: Tensor) -> Tensor:
        """Return [N, 3, 2H, 2W]."""
        first = x = self.head(x - self.mean)
        for block in self.blocks:
            x = x + 0.1 * block(x)
        y: Tensor = self.tail(x + first)
        return y.add(self.mean).clamp(0, 1)


class StyleResidual(nn.Module):
    """Two reflected convolutions with instance norm."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.ReflectionPad2d(1), nn.Conv2d(channels, channels, 3), nn.InstanceNorm2d(channels, affine=True),
            nn.ReLU(),
            nn.ReflectionPad2d(1), nn.Conv2d(channels, channels, 3), nn.InstanceNorm2d(channels, affine=True),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        """Return the block of `x`."""
        return x + self.layers(x)


def style_transfer() -> nn.Module:
    """The image transformation network of Johnson et al. 2016, with resizing instead of transposed convolutions."""
    return nn.Sequential(
        nn.ReflectionPad2d(4), nn.Conv2d(3, 8, 9), nn.InstanceNorm2d(8, affine=True), nn.ReLU(),
        nn.Conv2d(8, 16, 3, 2, 1), nn.InstanceNorm2d(16, affine=True), nn.ReLU(), StyleResidual(16), StyleResidual(16),
        nn.Upsample(scale_factor=2), nn.ReflectionPad2d(1), nn.Conv2d(16, 8, 3), nn.InstanceNorm2d(8, affine=True),
        nn.ReLU(), nn.ReflectionPad2d(4), nn.Conv2d(8, 3, 9), nn.Tanh(),
    )  # fmt: skip


class Ssd(nn.Module):
    """A backbone with heads on three maps; boxes are decoded against anchors (Liu et al. 2016), without NMS."""

    def __init__(self, classes: int = 4, anchors: int = 3) -> None:
        super().__init__()
        self.classes = classes
        self.stem = conv_bn(3, 16, 3, 2, activation=nn.ReLU6())
        widths = (16, 24, 32, 48)
        self.stages = nn.ModuleList(InvertedResidual(i, o, expansion=3, stride=2) for i, o in pairwise(widths))
        self.boxes = nn.ModuleList(nn.Conv2d(w, 4 * anchors, 3, padding=1) for w in widths[1:])
        self.scores = nn.ModuleList(nn.Conv2d(w, classes * anchors, 3, padding=1) for w in widths[1:])
        count = anchors * (16 * 16 + 8 * 8 + 4 * 4)
        self.register_buffer("anchors", torch.rand(count, 4) * 0.5 + 0.25)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return corners [N, anchors, 4] in 0..1 and scores [N, anchors, classes]."""
        boxes, scores = [], []
        x = self.stem(x)
        for stage, box, score in zip(self.stages, self.boxes, self.scores, strict=True):
            x = stage(x)
            boxes.append(box(x).permute(0, 2, 3, 1).reshape(x.shape[0], -1, 4))
            scores.append(score(x).permute(0, 2, 3, 1).reshape(x.shape[0], -1, self.classes))
        offsets = torch.cat(boxes, 1)
        anchors = self.get_buffer("anchors")
        centres = anchors[:, :2] + 0.1 * offsets[..., :2] * anchors[:, 2:]
        sizes = anchors[:, 2:] * torch.exp(0.2 * offsets[..., 2:])
        corners = torch.cat([centres - sizes / 2, centres + sizes / 2], -1).clamp(0, 1)
        return corners, F.softmax(torch.cat(scores, 1), -1)


class YoloHead(nn.Module):
    """An anchor-free head on a feature pyramid, distances as an expectation over bins (YOLOv8-like)."""

    def __init__(self, bins: int = 8) -> None:
        super().__init__()
        self.bins = bins
        self.first, self.second = (
            conv_bn(3, 16, 3, 4, activation=nn.SiLU()),
            conv_bn(16, 32, 3, 2, activation=nn.SiLU()),
        )
        self.lateral = conv_bn(48, 16, 1, activation=nn.SiLU())
        self.pool = nn.MaxPool2d(5, 1, 2)
        self.spp = conv_bn(128, 32, 1, activation=nn.SiLU())
        self.distances = nn.ModuleList([nn.Conv2d(16, 4 * bins, 1), nn.Conv2d(32, 4 * bins, 1)])
        self.scores = nn.ModuleList([nn.Conv2d(16, 3, 1), nn.Conv2d(32, 3, 1)])

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return boxes [N, cells, 4] in pixels and scores [N, cells, 3]."""
        a = self.first(x)
        b = self.second(a)
        pooled = [b]
        for _ in range(3):
            pooled.append(self.pool(pooled[-1]))
        b = self.spp(torch.cat(pooled, 1))
        a = self.lateral(torch.cat([a, F.interpolate(b, scale_factor=2.0, mode="nearest")], 1))
        boxes, scores = [], []
        for level, stride, distance, score in zip((a, b), (4, 8), self.distances, self.scores, strict=True):
            n, _, h, w = level.shape
            rows, columns = torch.meshgrid(torch.arange(h) + 0.5, torch.arange(w) + 0.5, indexing="ij")
            centres = torch.stack([columns, rows], -1).view(-1, 2)
            weights = distance(level).view(n, 4, self.bins, h * w).softmax(2)
            lengths = (weights * torch.arange(self.bins, dtype=torch.float32).view(1, 1, -1, 1)).sum(2).transpose(1, 2)
            corners = torch.cat([centres - lengths[..., :2], centres + lengths[..., 2:]], -1)
            boxes.append(corners * stride)
            scores.append(score(level).flatten(2).transpose(1, 2).sigmoid())
        return torch.cat(boxes, 1), torch.cat(scores, 1)


class Pose(nn.Module):
    """Heatmaps by transposed convolutions, peaks refined by the mean around them (SimpleBaseline and soft argmax)."""

    def __init__(self, joints: int = 5) -> None:
        super().__init__()
        self.backbone = nn.Sequential(
            conv_bn(3, 16, 3, 2, activation=nn.ReLU()), conv_bn(16, 32, 3, 2, activation=nn.ReLU()), double(32, 32)
        )
        self.up = nn.Sequential(nn.ConvTranspose2d(32, 16, 4, 2, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU())
        self.head = nn.Conv2d(16, joints, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return joints [N, J, 2], their confidence [N, J], and the peaks' positions [N, J] in the flat map."""
        maps = self.head(self.up(self.backbone(x)))
        n, j, h, w = maps.shape
        weights = maps.flatten(2).softmax(-1)
        rows = (weights.view(n, j, h, w).sum(3) * torch.arange(h)).sum(2)
        columns = (weights.view(n, j, h, w).sum(2) * torch.arange(w)).sum(2)
        confidence, peaks = maps.flatten(2).max(-1)
        return torch.stack([columns, rows], -1), confidence, peaks


class Warp(nn.Module):
    """A small flow moves an image by `grid_sample` (spatial transformer, Jaderberg et al. 2015)."""

    def __init__(self) -> None:
        super().__init__()
        self.localise = nn.Sequential(nn.Conv2d(3, 8, 5, 2), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten())
        self.theta = nn.Linear(32, 6)
        self.sharpen = nn.Conv2d(3, 3, 3, padding=1, padding_mode="replicate")

    def forward(self, x: Tensor) -> Tensor:
        """Return the image after an affine motion that it decides itself."""
        theta = 0.2 * self.theta(self.localise(x)).view(-1, 2, 3) + torch.eye(2, 3)
        grid = F.affine_grid(theta, list(x.shape), align_corners=False)
        y: Tensor = self.sharpen(F.grid_sample(x, grid, padding_mode="border", align_corners=False))
        return y


def points_and_image() -> list[tuple[Tensor, ...]]:
    """Return inputs of the prompted segmenter."""
    return [(torch.randn(1, 3, 64, 64), torch.rand(1, 3, 2))]


ARCHITECTURES = (
    Architecture("u-net", "segmentation", UNet, image(1, 3, 64, 64)),
    Architecture("deeplab-v3", "segmentation", Aspp, image(1, 3, 64, 64)),
    Architecture("squeeze-sam", "segmentation", PromptedSegmenter, points_and_image),
    Architecture("edsr", "super-resolution", Edsr, image(1, 3, 24, 24)),
    Architecture("style-transfer", "style transfer", style_transfer, image(1, 3, 32, 32)),
    Architecture("ssd", "detection", Ssd, image(1, 3, 64, 64)),
    Architecture("yolo-head", "detection", YoloHead, image(1, 3, 64, 64)),
    Architecture("pose-heatmap", "pose", Pose, image(1, 3, 64, 64)),
    Architecture("spatial-transformer", "warping", Warp, image(1, 3, 32, 32)),
)
