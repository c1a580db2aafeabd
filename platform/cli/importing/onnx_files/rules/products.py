"""Rules of matrix products."""

import torch
import torch.nn.functional as F  # noqa: N812 - the name that torch uses
from alcove.platform.cli.importing.onnx_files.node import Call, Function, Node, rule
from torch import Tensor


def _weight(node: Node, index: int) -> Tensor | None:
    """Return a matrix of the file that is multiplied with what depends on inputs, or None."""
    value, other = node.value(index), node.value(1 - index)
    if value is None or other is None or not value.is_constant or other.is_constant or value.tensor.dim() != 2:
        return None
    return value.tensor


@rule("MatMul")
def matmul(node: Node) -> Function | Call:
    """With a constant matrix on the right it is a linear layer."""
    weight = _weight(node, 1)
    if weight is not None and node.rank(0) >= 2:
        return Call(lambda x, _weight, matrix: F.linear(x, matrix), (weight.T.contiguous(),), frozenset({1}))
    return torch.matmul


@rule("Gemm")
def gemm(node: Node) -> Function | Call:
    """A linear layer, where the second matrix is a constant."""
    alpha, beta = node.float_of("alpha", 1.0), node.float_of("beta", 1.0)
    flips_a, flips_b = bool(node.int_of("transA")), bool(node.int_of("transB"))
    weight, bias = _weight(node, 1), node.value(2)
    is_plain = bias is None or (bias.is_constant and bias.tensor.dim() == 1 and bias.tensor.shape[0] > 1)
    if weight is not None and not flips_a and is_plain and weight.is_floating_point():
        matrix = (weight if flips_b else weight.T).contiguous() * alpha
        is_row = bias is not None and bias.tensor.shape[0] == matrix.shape[0]
        if bias is None or is_row:
            extras = (matrix,) if bias is None else (matrix, bias.tensor * beta)
            return Call(lambda x, *rest: F.linear(x, *rest[len(rest) - len(extras) :]), extras, frozenset({1, 2}))

    def function(a: Tensor, b: Tensor, c: Tensor | None = None) -> Tensor:
        y = torch.matmul(a.T if flips_a else a, b.T if flips_b else b)
        y = y if alpha == 1 else y * alpha
        if c is None:
            return y
        return y + (c if beta == 1 else c * beta)

    return function


@rule("com.microsoft.FusedMatMul", "com.microsoft.TransposeMatMul")
def fused_matmul(node: Node) -> Function:
    """A product of transposed matrices, times a number."""
    alpha = node.float_of("alpha", 1.0)
    flips_a, flips_b = bool(node.int_of("transA")), bool(node.int_of("transB"))
    batches_a, batches_b = bool(node.int_of("transBatchA")), bool(node.int_of("transBatchB"))

    def function(a: Tensor, b: Tensor) -> Tensor:
        a, b = a.movedim(0, -2) if batches_a else a, b.movedim(0, -2) if batches_b else b
        y = torch.matmul(a.transpose(-1, -2) if flips_a else a, b.transpose(-1, -2) if flips_b else b)
        return y if alpha == 1 else y * alpha

    return function


@rule("Einsum")
def einsum(node: Node) -> Function:
    """By Einstein's convention."""
    equation = node.text_of("equation", "").replace(" ", "")
    return lambda *tensors: torch.einsum(equation, *tensors)
