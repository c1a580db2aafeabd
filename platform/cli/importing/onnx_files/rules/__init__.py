"""Rules that make a torch function of a node, a file for each family of operators."""

from alcove.platform.cli.importing.onnx_files.rules import (
    convolutions,
    elementwise,
    indexing,
    norms,
    pools,
    products,
    quantization,
    recurrent,
    reductions,
    resizing,
    shapes,
)

__all__ = [
    "convolutions",
    "elementwise",
    "indexing",
    "norms",
    "pools",
    "products",
    "quantization",
    "recurrent",
    "reductions",
    "resizing",
    "shapes",
]
