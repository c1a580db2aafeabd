"""Provides pictures and camera frames as torch functions that train in torch and run inside exported programs.

    rgb = nv12_to_rgb(luma, chroma)                 # uint8 planes of a camera to f32 [1, 3, height, width], 0 to 255
    matte = GuidedFilter(radius=4, eps=1e-4)(rgb / 255, coarse)
    shown = composite(rgb, matte, blur(rgb, radius=24))

Most are compositions of operators that every program may hold; components of masks and overlapping boxes have operators
of their own. All give the same bits on every device.
"""

from alcove.runtime.vision.boxes import KeptBoxes, non_maximum_suppression
from alcove.runtime.vision.color import (
    YuvMatrix,
    bgra_to_rgb,
    i420_to_rgb,
    nv12_to_rgb,
    nv21_to_rgb,
    rgb_to_bgra,
    rgb_to_i420,
    rgb_to_nv12,
    rgb_to_nv21,
)
from alcove.runtime.vision.components import (
    Components,
    connected_components,
    keep_largest,
    keep_touched,
    remove_small,
)
from alcove.runtime.vision.composite import blur, composite
from alcove.runtime.vision.guided_filter import GuidedFilter, box_mean
from alcove.runtime.vision.lut import apply_lut, identity_lut
from alcove.runtime.vision.orientation import orient

__all__ = [
    "Components",
    "GuidedFilter",
    "KeptBoxes",
    "YuvMatrix",
    "apply_lut",
    "bgra_to_rgb",
    "blur",
    "box_mean",
    "composite",
    "connected_components",
    "i420_to_rgb",
    "identity_lut",
    "keep_largest",
    "keep_touched",
    "non_maximum_suppression",
    "nv12_to_rgb",
    "nv21_to_rgb",
    "orient",
    "remove_small",
    "rgb_to_bgra",
    "rgb_to_i420",
    "rgb_to_nv12",
    "rgb_to_nv21",
]
