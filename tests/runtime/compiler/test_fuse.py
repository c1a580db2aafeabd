"""Batch norms, scales, sums and bounds are fused into the products before them, and only where that is allowed."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - torch's own custom
from alcove.runtime import load
from alcove.runtime.compiler import export, load_state
from alcove.runtime.compiler.capture import capture
from alcove.runtime.compiler.codegen import generate_program
from alcove.runtime.compiler.dead_code_elimination import eliminate_dead_code
from alcove.runtime.compiler.fuse import fuse
from alcove.runtime.compiler.graph import Graph
from alcove.runtime.compiler.layout import layout
from alcove.runtime.compiler.legalize import legalize
from alcove.runtime.compiler.lower import lower
from torch import Tensor, nn

Norm = nn.BatchNorm1d | nn.BatchNorm2d


class Of(nn.Module):
    """A function of its layers and its input."""

    def __init__(self, function: Callable[..., Any], *layers: nn.Module) -> None:
        super().__init__()
        self.layers, self.function = nn.ModuleList(layers), function
        for part in self.modules():
            if isinstance(part, Norm):
                part.running_mean, part.running_var = (
                    torch.randn(part.num_features),
                    torch.rand(part.num_features) + 0.5,
                )
                nn.init.normal_(part.weight)
                nn.init.normal_(part.bias)

    def forward(self, x: Tensor) -> Any:
        """Run."""
        return self.function(x, *self.layers)


def operators(graph: Graph) -> Counter[str]:
    """Count the nodes that compute."""
    return Counter(node.op for node in graph.nodes if node.op not in {"as_strided_copy", "reshape"})


def fuse_ops(module: nn.Module, x: Tensor) -> Counter[str]:
    """Return the operators after the pass; the program answers as before, and as torch does."""
    module.eval()
    before = layout(legalize(eliminate_dead_code(lower(capture(module, (x,), None)))))
    after = fuse(before)
    with torch.no_grad():
        eager = module(x)
    expected = [y.numpy() for y in (eager if isinstance(eager, tuple) else (eager,))]
    for graph in (before, after):
        for seen, wanted in zip(load(generate_program(graph))(x.numpy()), expected, strict=True):
            np.testing.assert_allclose(seen, wanted, rtol=1e-4, atol=1e-5)
    return operators(after)


def conv(inputs: int = 6, outputs: int = 6, kernel: int = 3, **more: Any) -> nn.Conv2d:
    """An image of the same size."""
    return nn.Conv2d(inputs, outputs, kernel, padding=kernel // 2, **more)


IMAGE = (2, 6, 7, 5)


@pytest.mark.parametrize(
    ("layer", "name"),
    [
        (conv(), "conv2d"),
        (conv(groups=2, bias=False), "conv2d"),
        (conv(groups=6), "depthwise_conv2d"),
        (nn.ConvTranspose2d(6, 6, 3, 2, groups=3), "conv_transpose2d"),
        (nn.ConvTranspose2d(6, 6, 3, 2), "conv_transpose2d"),
    ],
)
def test_batch_norm_goes_into_the_convolution_before_it(layer: nn.Module, name: str) -> None:
    """In every form of one."""
    module = Of(lambda x, a, n: n(a(x)), layer, nn.BatchNorm2d(6))
    assert fuse_ops(module, torch.randn(IMAGE)) == {name: 1}


def test_batch_norm_goes_into_linear_and_rows() -> None:
    """And through the reshape after a convolution of one dimension."""
    assert fuse_ops(Of(lambda x, a, n: n(a(x)), nn.Linear(5, 8), nn.BatchNorm1d(8)), torch.randn(3, 5)) == {"linear": 1}
    module = Of(lambda x, a, n: F.relu(n(a(x))), nn.Conv1d(6, 8, 3), nn.BatchNorm1d(8))
    assert fuse_ops(module, torch.randn(2, 6, 9)) == {"conv2d": 1}


def test_scales_and_shifts_by_numbers() -> None:
    """Products, quotients, sums and differences, one after the other; a number minus a product stays."""
    module = Of(lambda x, a: ((a(x) * 3 + 0.5) / 7 - 2) * 0.1, conv())
    assert fuse_ops(module, torch.randn(IMAGE)) == {"conv2d": 1}
    assert fuse_ops(Of(lambda x, a: 1 - a(x), conv()), torch.randn(IMAGE))["binary"] >= 1


@pytest.mark.parametrize("bound", [F.relu, F.relu6, lambda x: x.clamp(-0.3, 0.7), lambda x: x.clamp(min=0.1)])
def test_bounds_go_into_products(bound: Callable[[Tensor], Tensor]) -> None:
    """A relu, a clamp, one bound alone."""
    for layer in (conv(), conv(groups=6)):
        assert sum(fuse_ops(Of(lambda x, a: bound(a(x)), layer), torch.randn(IMAGE)).values()) == 1
    assert fuse_ops(Of(lambda x, a: bound(a(x)), nn.Linear(5, 8)), torch.randn(3, 5)) == {"linear": 1}


def test_nothing_crosses_a_bound() -> None:
    """What follows a relu is computed after it; a second bound stays."""
    counts = fuse_ops(Of(lambda x, a: F.relu(a(x)) * 2 + 1, conv()), torch.randn(IMAGE))
    assert counts == {"conv2d": 1, "binary": 2}
    assert fuse_ops(Of(lambda x, a: F.relu(a(x)).clamp(max=0.2), conv()), torch.randn(IMAGE))["unary"] == 1


def test_sums_go_into_the_later_product() -> None:
    """A residual block as in ResNet, with and without a convolution on its short side."""
    norms = [nn.BatchNorm2d(6) for _ in range(3)]
    plain = Of(lambda x, a, b, n, m: F.relu(x + m(b(F.relu(n(a(x)))))), conv(), conv(), *norms[:2])
    assert fuse_ops(plain, torch.randn(IMAGE)) == {"conv2d": 2}
    both = Of(lambda x, a, b, c, n, m, o: F.relu(m(b(F.relu(n(a(x))))) + o(c(x))), conv(), conv(), conv(), *norms)
    assert fuse_ops(both, torch.randn(IMAGE)) == {"conv2d": 3}


def test_sums_in_linear_and_in_rows() -> None:
    """The other operand may come from after the product; of rows it is reshaped."""
    late = Of(lambda x, a: torch.tanh(x * 2) + a(x), nn.Linear(5, 5))
    assert fuse_ops(late, torch.randn(3, 4, 5)) == {"linear": 1, "binary": 1, "unary": 1}
    rows = Of(lambda x, a, b: F.relu(x + b(F.relu(a(x)))), nn.Conv1d(6, 6, 3, padding=1), nn.Conv1d(6, 6, 1))
    assert fuse_ops(rows, torch.randn(2, 6, 9)) == {"conv2d": 2}


def test_sums_that_no_product_takes() -> None:
    """A depthwise convolution has no room for one; a sum that broadcasts is none."""
    assert fuse_ops(Of(lambda x, a: x + a(x), conv(groups=6)), torch.randn(IMAGE))["binary"] == 1
    assert fuse_ops(Of(lambda x, a: x.mean((2, 3), keepdim=True) + a(x), conv()), torch.randn(IMAGE))["binary"] == 1


def test_a_value_that_others_read_is_computed() -> None:
    """The product's own output is an output of the module, or read twice."""
    counts = fuse_ops(Of(lambda x, a: (a(x), F.relu(a(x))), conv()), torch.randn(IMAGE))
    assert counts["conv2d"] == 2

    def twice(x: Tensor, a: nn.Module) -> tuple[Tensor, Tensor]:
        y = a(x)
        return y, F.relu(y) + y

    assert fuse_ops(Of(twice, conv()), torch.randn(IMAGE)) == {"conv2d": 1, "unary": 1, "binary": 1}


def test_a_shared_weight_is_not_stored_twice() -> None:
    """Scaling one of its uses would."""
    module = Of(lambda x, a: a(x) + a(x * 2) * 3, nn.Linear(5, 5)).eval()
    assert fuse_ops(module, torch.randn(3, 5))["linear"] == 2
    program = export(module, (torch.randn(3, 5),))
    assert sum(tensor.shape == (5, 5) for tensor in program.spec.tensors) == 1


def test_folded_weights_do_not_come_back_and_others_do() -> None:
    """A weight that a batch norm has changed is no parameter any more."""
    module = nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 2, 1), nn.ReLU()).eval()
    found = load_state(export(module, (torch.randn(1, 3, 2, 2),)).spec)
    assert set(found) == {"3.weight", "3.bias"}


def branch(inputs: int = 6, outputs: int = 6, kernel: int = 3, **more: Any) -> nn.Sequential:
    """A convolution with its norm."""
    return nn.Sequential(conv(inputs, outputs, kernel, bias=False, **more), nn.BatchNorm2d(outputs))


@pytest.mark.parametrize(("groups", "name"), [(1, "conv2d"), (2, "conv2d"), (6, "depthwise_conv2d")])
def test_branches_that_were_trained_in_parallel_run_as_one_convolution(groups: int, name: str) -> None:
    """RepVGG's and MobileOne's block: kernels that one covers, and a norm of the image itself."""
    parts = [branch(groups=groups), branch(kernel=1, groups=groups), branch(groups=groups), nn.BatchNorm2d(6)]

    def forward(x: Tensor, stem: nn.Module, *parts: nn.Module) -> Tensor:
        x = torch.sin(stem(x))
        return torch.relu(parts[1](x) + parts[3](x) + parts[0](x) + parts[2](x))

    found = fuse_ops(Of(forward, nn.ConvTranspose2d(6, 6, 1), *parts), torch.randn(IMAGE))
    assert found == {"conv_transpose2d": 1, "unary": 1, name: 1}


def test_branches_keep_the_residual_of_one_of_them() -> None:
    """And a bound behind."""

    def forward(x: Tensor, a: nn.Module, b: nn.Module, stem: nn.Module) -> Tensor:
        x = stem(x)
        y = torch.sin(x)
        return F.relu6(a(y) + x + b(y))

    found = fuse_ops(Of(forward, conv(), conv(kernel=1), conv()), torch.randn(IMAGE))
    assert found["conv2d"] == 2


def test_branches_that_step_and_widen_are_one() -> None:
    """Stride 2, more channels out than in; wide and tall kernels under a square one."""
    wide, tall = nn.Conv2d(6, 8, (1, 3), 2, (0, 1)), nn.Conv2d(6, 8, (3, 1), 2, (1, 0))
    module = Of(lambda x, a, b, c: a(x) + b(x) + c(x), conv(outputs=8, stride=2), wide, tall)
    assert fuse_ops(module, torch.randn(IMAGE)) == {"conv2d": 1}


def test_layers_of_rows_that_are_added_are_one() -> None:
    """With and without a bias."""
    module = Of(lambda x, a, b: a(x) + b(x), nn.Linear(5, 9), nn.Linear(5, 9, bias=False))
    assert fuse_ops(module, torch.randn(3, 5)) == {"linear": 1}


@pytest.mark.parametrize(
    ("function", "layers"),
    [
        (lambda x, a, b: a(x) + b(x + 1), (conv(), conv(kernel=1))),  # of two images
        (lambda x, a, b: a(x) + torch.relu(b(x)), (conv(), conv(kernel=1))),  # bounded before the sum
        (lambda x, a, b: a(x) + b(x), (nn.Conv2d(6, 6, 3, padding=2, dilation=2), conv())),  # taps apart
        (lambda x, a, b: a(x) + b(x), (conv(groups=2), conv(groups=1))),
        (
            lambda x, a, b: a(x) + b(x),
            (nn.Conv2d(6, 6, (1, 3), padding=(0, 1)), nn.Conv2d(6, 6, (3, 1), padding=(1, 0))),
        ),
    ],
)
def test_convolutions_that_no_kernel_covers_stay_two(
    function: Callable[..., Any], layers: tuple[nn.Module, ...]
) -> None:
    """The later one adds the other's result."""
    assert fuse_ops(Of(function, *layers), torch.randn(IMAGE))["conv2d"] == 2


def test_a_branch_that_something_else_reads_stays() -> None:
    """What is between leaves the module."""

    def forward(x: Tensor, a: nn.Module, b: nn.Module) -> tuple[Tensor, Tensor]:
        y = b(x)
        return a(x) + y, y * 2

    assert fuse_ops(Of(forward, conv(), conv(kernel=1)), torch.randn(IMAGE))["conv2d"] == 2


def test_the_image_itself_is_no_tap_of_a_convolution_that_steps() -> None:
    """A norm of it is of the same shape only where the kernel is padded more than it should be."""
    module = Of(lambda x, a, b: a(x) + b(x), nn.Conv2d(6, 6, 3, 2, padding=(4, 3)), nn.BatchNorm2d(6))
    found = fuse_ops(module, torch.randn(IMAGE))
    assert found["conv2d"] == 1
    assert found["binary"] >= 1


@pytest.mark.parametrize(("groups", "name"), [(1, "conv2d"), (6, "depthwise_conv2d")])
def test_zeros_around_an_image_are_the_padding_of_the_convolution(groups: int, name: str) -> None:
    """More behind than before, as TensorFlow pads; the convolution may pad too, and steps."""
    window = nn.Conv2d(6, 6, 3, 2, padding=(1, 0), groups=groups)

    def forward(x: Tensor, stem: nn.Module, window: nn.Module) -> Tensor:
        return F.relu(window(F.pad(F.relu(stem(x)), (0, 1, 1, 2))))

    assert fuse_ops(Of(forward, conv(kernel=1), window), torch.randn(IMAGE)) == Counter(("conv2d", name))


@pytest.mark.parametrize(
    "pad",
    [
        lambda y: F.pad(y, (1, 1, 1, 1), value=0.5),
        lambda y: F.pad(y, (1, 1, 1, 1), mode="reflect"),
        lambda y: F.pad(y, (0, 0, 0, 0, 1, 0)),
    ],
)
def test_other_margins_stay_before_the_convolution(pad: Callable[[Tensor], Tensor]) -> None:
    """Numbers that are not zero, mirror images, channels."""
    inputs = 7 if pad(torch.zeros(IMAGE)).shape[1] == 7 else 6

    def forward(x: Tensor, stem: nn.Module, window: nn.Module) -> Tensor:
        return F.relu(window(pad(F.relu(stem(x)))))

    found = fuse_ops(Of(forward, conv(kernel=1), conv(inputs)), torch.randn(IMAGE))
    assert found["pad"] == 1
