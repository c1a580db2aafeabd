"""Rules that make a torch function of a node, a file for each family of operators."""

from alcove.platform.cli.importing.onnx_files.rules import (
    attention,
    convolutions,
    elementwise,
    experimental,
    indexing,
    norms,
    pools,
    products,
    quantization,
    quantized_layers,
    recurrent,
    reductions,
    resizing,
    shapes,
    spectra,
)

__all__ = [
    "attention",
    "convolutions",
    "elementwise",
    "experimental",
    "indexing",
    "norms",
    "pools",
    "products",
    "quantization",
    "quantized_layers",
    "recurrent",
    "reductions",
    "resizing",
    "shapes",
    "spectra",
]
