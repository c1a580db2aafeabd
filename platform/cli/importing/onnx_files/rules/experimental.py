"""Rules of operators that ONNX's first versions had, and of ONNX Runtime's that have another name alone."""

import math
from dataclasses import replace

import torch
from alcove.platform.cli.importing.onnx_files.errors import UnsupportedError
from alcove.platform.cli.importing.onnx_files.limits import MAX_CONSTANT_ELEMENTS
from alcove.platform.cli.importing.onnx_files.node import RULES, Call, Function, Node, Rule, rule
from alcove.platform.cli.importing.onnx_files.rules import indexing, products, resizing, shapes
from alcove.platform.cli.importing.onnx_files.rules.convolutions import activation
from alcove.platform.cli.importing.onnx_files.tensors import dtype_of


@rule("ImageScaler")
def image_scaler(node: Node) -> Function:
    """Times a number, plus one for each channel."""
    scale, bias = node.float_of("scale", 1.0), [float(each) for each in node.attributes.get("bias", [])]
    return lambda x: x * scale + torch.tensor(bias).reshape(1, -1, 1, 1)


@rule("Affine", "ScaledTanh", "ParametricSoftplus", "Scale")
def scale_function(node: Node) -> Function:
    """A function of one number with two parameters."""
    alpha, beta = node.float_of("alpha", 1.0), node.float_of("beta", 0.0)
    factor = node.float_of("scale", 1.0)
    functions: dict[str, Function] = {
        "Affine": lambda x: x * alpha + beta,
        "ScaledTanh": lambda x: alpha * torch.tanh(beta * x),
        "ParametricSoftplus": lambda x: alpha * torch.nn.functional.softplus(beta * x),
        "Scale": lambda x: x * factor,
    }
    return functions[node.kind]


@rule("ConstantFill", "GivenTensorFill")
def fill(node: Node) -> Call:
    """One number everywhere, or numbers that are listed."""
    shape = node.integers(0, "shape") if node.has(0) and node.int_of("input_as_shape") else node.ints("shape", [])
    shape = list(node.shape()) if node.has(0) and not shape else shape
    if any(size < 0 for size in shape) or math.prod(shape) > MAX_CONSTANT_ELEMENTS:
        raise UnsupportedError(f"shape {shape}")
    if node.kind == "GivenTensorFill":
        values = [float(each) for each in node.attributes.get("values", [])]
        return Call(lambda *_shape: torch.tensor(values).reshape(shape), is_known=True)
    value, dtype = node.float_of("value"), dtype_of(node.int_of("dtype", 1))
    return Call(lambda *_shape: torch.full(shape, value).to(dtype), is_known=True)


@rule("FC")
def fully_connected(node: Node) -> Function:
    """A linear layer whose weights are [outputs, inputs]."""
    rows = math.prod(node.shape()[: node.int_of("axis", 1)])
    return lambda x, weight, bias: torch.nn.functional.linear(x.reshape(rows, -1), weight, bias)


@rule("Crop")
def crop(node: Node) -> Function:
    """Without its borders, or a part of a given size."""
    left, top, right, bottom = node.ints("border")
    height, width = node.shape()[2:]
    size = node.ints("scale", []) or [height - top - bottom, width - left - right]
    if min(size) < 1 or top + size[0] > height or left + size[1] > width:
        raise UnsupportedError(f"a border of {[left, top, right, bottom]} of {height}x{width}")
    return lambda x: x[:, :, top : top + size[0], left : left + size[1]]


@rule("com.microsoft.FusedGemm")
def fused_gemm(node: Node) -> Function | Call:
    """A linear layer and what comes behind it."""
    made, after = products.gemm(node), activation(node)
    if isinstance(made, Call):
        inner = made.function
        return replace(made, function=lambda *given: after(inner(*given)))
    return lambda *given: after(made(*given))


_ALIASES: dict[str, Rule] = {
    "DynamicSlice": shapes.slice_,
    "com.microsoft.GatherND": indexing.gather_nd,
    "com.microsoft.GridSample": resizing.grid_sample,
    "com.microsoft.Trilu": shapes.trilu,
}
RULES.update(_ALIASES)


@rule("com.microsoft.ExpandDims")
def expand_dims(node: Node) -> Function:
    """A new axis of size 1."""
    axis = node.integers(1, "axis")[0]
    return lambda x, _axis: x.unsqueeze(axis)


@rule("com.microsoft.Inverse")
def inverse(_node: Node) -> Function:
    """Of matrices."""
    found: Function = torch.linalg.inv
    return found
