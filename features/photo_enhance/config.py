"""Defines the shape of each version of the programs; needs no torch."""

from typing import Final

DEFAULT_VERSION: Final = "1.0.0"
SIZE: Final = 256
"""Width and height of the small picture that the analysis sees; that of the published classifier."""
DETAIL: Final = 128
"""Width and height of the part that noise is measured on, cut from the middle without resizing."""
STEPS: Final = 33
"""Points of a table of colours along each colour."""
STATISTICS: Final = ("mean", "dark", "middle", "bright", "spread", "noise")
"""What is measured: mean of the luma, its 5th, 50th and 95th percentile, their distance, and noise, all in [0, 1]."""
NEEDS: Final = ("low_light", "retouch", "clean")
"""What a picture needs, or is: more light, other colours, free of noise; each a probability."""
SCALE: Final = 4
TILE_PX: Final = 128
"""Side of a tile of super-resolution, halo included; smaller pictures are continued by their border."""
HALO_PX: Final = 16
"""Of a tile: the network's attention sees further, so tiles differ a little; CARD.md says how much."""
BLOCK_ROWS: Final = 64
"""Of a block of pixels that are changed each by itself: what a processor's cache holds."""
BLOCK_COLUMNS: Final = 512
"""Of such a block."""
VARIANTS: Final = ("int8", "f32")
"""Programs of a version: super-resolution in int8, or in float32."""
