"""Lowers sampling of images: resizing by all of torch's rules, and sampling on a grid.

Resizing with antialiasing is a product with one constant matrix a dimension.
"""

import math
from typing import TYPE_CHECKING, Final

import numpy as np
from alcove.runtime.compiler.builder import Builder
from alcove.runtime.compiler.graph import Value
from alcove.runtime.compiler.rules.convolution import from_channels_last, image_shape, to_channels_last
from alcove.runtime.compiler.rules.registry import Call, Refused, rule
from alcove.runtime.compiler.sizes import values_where_equal
from alcove.runtime.format.attributes import GridSampleAttributes, LinearAttributes, Resize2dAttributes
from alcove.runtime.format.spec import DType
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Sequence

_MODES: Final = {"nearest_exact": 1, "nearest": 0, "linear": 2, "bilinear": 2, "bicubic": 3}
_PLAIN: Final = LinearAttributes(has_residual=0, activation=0, low=-math.inf, high=math.inf)
_CUBIC_A: Final = -0.5
"""Of bicubic with antialiasing, as in Pillow; without antialiasing torch has -0.75."""


@rule("aten.upsample_nearest2d.vec", "aten.upsample_bilinear2d.vec", "aten.upsample_bilinear2d.default")
@rule(
    "aten.upsample_nearest1d.vec",
    "aten.upsample_nearest1d.default",
    "aten.upsample_nearest2d.default",
    "aten._upsample_nearest_exact1d.vec",
    "aten._upsample_nearest_exact1d.default",
    "aten._upsample_nearest_exact2d.vec",
    "aten._upsample_nearest_exact2d.default",
    "aten.upsample_linear1d.vec",
    "aten.upsample_linear1d.default",
    "aten.upsample_bicubic2d.vec",
    "aten.upsample_bicubic2d.default",
    keep=True,
)
def upsample(call: Call, b: Builder) -> Value:
    """Float32, any sizes and scales."""
    x = _float(call, "input" if call.target.endswith(".vec") else "self")
    align_corners = bool(call.arguments.get("align_corners") or False)
    mode = next(number for name, number in _MODES.items() if name in call.target)
    sizes, results = x.shape[2:], call.shape[2:]
    scales = _scales(call, len(sizes))
    if mode == _MODES["nearest"] and len(sizes) == 2:
        # Torch has a shortcut for these sizes, whatever the scale; without one the sizes give it anyway.
        scales = [
            (scale and _exact_ratio(size, result, scale)) or scale
            for size, result, scale in zip(sizes, results, scales, strict=True)
        ]
    if len(scales) == 1:
        scales = [0.0, *scales]
    image = to_channels_last(b, x)
    scale_h, scale_w = scales
    attributes = Resize2dAttributes(mode=mode, align_corners=int(align_corners), scale_h=scale_h, scale_w=scale_w)
    output = b.op("resize2d", [image], DType.F32, image_shape(call.shape), attributes)
    return from_channels_last(b, output, call.shape)


@rule(
    "aten._upsample_bilinear2d_aa.vec",
    "aten._upsample_bilinear2d_aa.default",
    "aten._upsample_bicubic2d_aa.vec",
    "aten._upsample_bicubic2d_aa.default",
    keep=True,
)
def upsample_antialiased(call: Call, b: Builder) -> Value:
    """A constant matrix for rows, another for columns."""
    x = _float(call, "input" if call.target.endswith(".vec") else "self")
    is_cubic = "bicubic" in call.target
    n, c, height, width = x.shape
    _, _, out_h, out_w = call.shape
    scale_h, scale_w = _scales(call, 2)
    align_corners = bool(call["align_corners"])
    across = antialias_matrix(width, out_w, scale_w, align_corners=align_corners, is_cubic=is_cubic)
    down = antialias_matrix(height, out_h, scale_h, align_corners=align_corners, is_cubic=is_cubic)
    rows = b.reshape(x, (n * c * height, width))
    result = b.op("linear", [rows, b.constant(across), b.zeros(out_w)], DType.F32, (n * c * height, out_w), _PLAIN)
    turned = b.permute(b.reshape(result, (n * c, height, out_w)), (0, 2, 1))
    columns = b.reshape(turned, (n * c * out_w, height))
    result = b.op("linear", [columns, b.constant(down), b.zeros(out_h)], DType.F32, (n * c * out_w, out_h), _PLAIN)
    return b.reshape(b.permute(b.reshape(result, (n * c, out_w, out_h)), (0, 2, 1)), call.shape)


@rule("aten.grid_sampler_2d.default")
def grid_sampler(call: Call, b: Builder) -> Value:
    """Every mode and padding."""
    x, grid = _float(call, "input"), _float(call, "grid")
    attributes = GridSampleAttributes(
        mode=int(call["interpolation_mode"]),
        padding=int(call["padding_mode"]),
        align_corners=int(call["align_corners"]),
    )
    image = to_channels_last(b, x)
    result = b.op("grid_sample", [image, grid], DType.F32, image_shape(call.shape), attributes)
    return from_channels_last(b, result, call.shape)


def antialias_matrix(
    size: int, result: int, scale: float, *, align_corners: bool, is_cubic: bool
) -> NDArray[np.float32]:
    """Return f32 [result, size]: the weight of each input for each output, as torch's `_upsample_*_aa` computes them.

    Args:
        size: of the input.
        result: of the output.
        scale: as given to torch, or 0 for the ratio of the sizes.
        align_corners: whether the outermost inputs and outputs fall together.
        is_cubic: Keys' cubic with a = -0.5, or a triangle.
    """
    if align_corners:
        step = np.float32((size - 1) / (result - 1)) if result > 1 else np.float32(0)
    else:
        step = np.float32(1 / scale) if scale > 0 else np.float32(size) / np.float32(result)
    reach = np.float32(2 if is_cubic else 1)
    support = reach * step if step >= 1 else reach
    shrink = np.float32(1) / step if step >= 1 else np.float32(1)
    matrix = np.zeros((result, size), np.float32)
    for output in range(result):
        center = step * np.float32(output + 0.5)
        first = max(int(center - support + np.float32(0.5)), 0)
        last = min(int(center + support + np.float32(0.5)), size)
        distances = (np.arange(first, last, dtype=np.float32) - center + np.float32(0.5)) * shrink
        weights = _cubic(np.abs(distances)) if is_cubic else np.maximum(1 - np.abs(distances), 0)
        total = weights.sum()
        matrix[output, first:last] = weights / total if total else weights
    return matrix


def _cubic(distance: NDArray[np.float32]) -> NDArray[np.float32]:
    a, t = _CUBIC_A, distance.astype(np.float64)
    near = ((a + 2) * t - (a + 3)) * t * t + 1
    far = (((t - 5) * t + 8) * t - 4) * a
    weights: NDArray[np.float32] = np.where(t < 1, near, np.where(t < 2, far, 0)).astype(np.float32)
    return weights


def _exact_ratio(size: int, result: int, scale: float) -> float:
    """Return 1 or 2 for a result as large or twice as large, else 0.

    Raises:
        Refused: it is so at some sizes alone, and torch's shortcut takes other elements there than the scale does.
    """
    for ratio in (1, 2):
        if result == ratio * size:
            return float(ratio)
        for pixels in values_where_equal(size * ratio, result):
            places, count = np.arange(pixels), pixels // ratio
            scaled = np.minimum(np.floor(places.astype(np.float32) * np.float32(1 / scale)), count - 1)
            if not np.array_equal(scaled, places // ratio):
                raise Refused(f"a scale of {ratio} in place of {scale}, which torch rounds to {ratio} at size {count}")
    return 0.0


def _scales(call: Call, rank: int) -> list[float]:
    """Return the scale of each dimension as torch was given it, 0 for none."""
    names = ("scales",) if rank == 1 else ("scales_h", "scales_w")
    if call.target.endswith(".vec"):
        inputs: Sequence[float | None] = call["scale_factors"] or [None] * rank
    else:
        inputs = [call.arguments.get(name) for name in names]
    scales = [float(scale or 0) for scale in inputs]
    if not all(scale >= 0 and math.isfinite(scale) for scale in scales):
        raise Refused("a scale that is positive and finite")
    return scales


def _float(call: Call, name: str) -> Value:
    x = call.tensor(name)
    if x.dtype is not DType.F32:
        raise Refused("an image in float32; convert it first")
    return x
