"""Lowers sampling of volumes on a grid."""

from alcove.runtime.compiler.builder import Builder
from alcove.runtime.compiler.graph import Value
from alcove.runtime.compiler.rules.registry import Call, Refused, rule
from alcove.runtime.format.attributes import GridSample3dAttributes
from alcove.runtime.format.spec import DType


@rule("aten.grid_sampler_3d.default")
def grid_sampler(call: Call, b: Builder) -> Value:
    """Bilinear or nearest, every padding."""
    x, grid = call.tensor("input"), call.tensor("grid")
    if x.dtype is not DType.F32 or grid.dtype is not DType.F32:
        raise Refused("a volume and a grid in float32; convert them first")
    attributes = GridSample3dAttributes(
        mode=int(call["interpolation_mode"]),
        padding=int(call["padding_mode"]),
        align_corners=int(call["align_corners"]),
    )
    many, channels = x.shape[0], x.shape[1]
    volume = b.permute(x, (0, 2, 3, 4, 1))
    result = b.op("grid_sample3d", [volume, grid], DType.F32, (many, *grid.shape[1:4], channels), attributes)
    return b.permute(result, (0, 4, 1, 2, 3))
