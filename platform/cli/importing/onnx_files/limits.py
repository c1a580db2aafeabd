"""Bounds what a file in the ONNX format may hold, before memory is taken for it."""

from typing import Final

MAX_FILE_BYTES: Final = 2 << 30
"""Of the file itself: protocol buffers have no larger ones."""

MAX_EXTERNAL_BYTES: Final = 4 << 30
"""Of all tensors in files beside it: four times what a phone gives an app."""

MAX_ELEMENTS: Final = 1 << 29
"""Of one tensor: 2 GiB in float32, as much as a program's arena may have."""

MAX_CONSTANT_ELEMENTS: Final = 1 << 28
"""Of one tensor that is computed while the file is read: 1 GiB in float32."""

MAX_RANK: Final = 8
"""Dimensions of a tensor: as many as a program's have."""

MAX_NODES: Final = 100_000
"""That are read, those of unrolled loops and of functions included: fifty times a large network's."""

MAX_DEPTH: Final = 16
"""Of graphs in graphs, and of functions in functions."""

MAX_STEPS: Final = 1024
"""Of one loop that is unrolled: a recurrent layer over ten seconds of sound."""
