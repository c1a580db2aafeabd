"""The exporter puts convolutions into Winograd's form where that pays, and their programs keep the accuracy."""

from collections import Counter

import numpy as np
import pytest
import torch
from alcove.runtime import load
from alcove.runtime.compiler import export, load_state
from alcove.runtime.compiler.costs import Convolution
from alcove.runtime.format.spec import ProgramSpec
from torch import nn
from torch.export import Dim


def ops(spec: ProgramSpec) -> Counter[str]:
    """Return how often a program has each operator."""
    return Counter(op.name for op in spec.ops)


class Tower(nn.Module):
    """Two convolutions with a sum and functions, and three that never have the form."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(24, 40, 3, padding=1)
        self.second = nn.Conv2d(40, 40, 3, padding=1)
        self.others = nn.Sequential(
            nn.Conv2d(40, 32, 3, stride=2), nn.Conv2d(32, 32, 3, dilation=2), nn.Conv2d(32, 32, 3, groups=2)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run."""
        x = torch.relu(self.first(x))
        out: torch.Tensor = self.others(nn.functional.hardswish(x + self.second(x)))
        return out


@pytest.fixture
def tower() -> Tower:
    """A tower of fixed weights."""
    torch.manual_seed(3)
    return Tower().eval()


def test_dense_three_by_three_convolutions_take_the_form_and_agree_with_eager(tower: Tower) -> None:
    """With residual and functions inside; strides, dilations and groups stay direct."""
    x = torch.randn(2, 24, 33, 30)
    program = export(tower, (x,))
    assert ops(program.spec)["winograd_conv2d"] == 2
    assert ops(program.spec)["conv2d"] == 3
    with torch.no_grad():
        expected = tower(x).numpy()
    np.testing.assert_allclose(load(bytes(program))(x.numpy())[0], expected, rtol=1e-4, atol=1e-5)


def test_growth_bounds_the_program(tower: Tower) -> None:
    """None with no room; with room for one, the one that saves more for its bytes; and never more than allowed."""
    x = torch.randn(1, 24, 32, 32)
    small, large = (export(tower, (x,), growth_bytes=growth) for growth in (0, 8 << 20))
    assert ops(small.spec)["winograd_conv2d"] == 0
    whole = len(bytes(large)) - len(bytes(small))
    one = export(tower, (x,), growth_bytes=whole - 1)
    assert ops(one.spec)["winograd_conv2d"] == 1
    assert len(bytes(one)) - len(bytes(small)) < whole
    with pytest.raises(ValueError, match="growth_bytes must be 0 or more, not -1"):
        export(tower, (x,), growth_bytes=-1)


def test_a_small_convolution_stays_direct() -> None:
    """Nobody would notice, and an infinity stays where it is."""
    module = nn.Conv2d(8, 8, 3, padding=1).eval()
    assert ops(export(module, (torch.randn(1, 8, 8, 8),)).spec)["winograd_conv2d"] == 0


def test_sizes_may_vary(tower: Tower) -> None:
    """One program for all of them, with the operators of the largest."""
    height = Dim("height", min=8, max=40)
    program = export(tower.first, (torch.randn(1, 24, 32, 32),), dynamic_shapes={"input": {2: height}})
    assert ops(program.spec)["winograd_conv2d"] == 1
    model = load(bytes(program))
    for rows in (8, 9, 31, 40):
        x = torch.randn(1, 24, rows, 32)
        with torch.no_grad():
            expected = tower.first(x).numpy()
        np.testing.assert_allclose(model(x.numpy())[0], expected, rtol=1e-4, atol=1e-5)


def test_parameters_come_back_within_rounding(tower: Tower) -> None:
    """By name and shape; biases exactly, weights to a few units in the last place of the kernel's largest."""
    state = load_state(export(tower, (torch.randn(1, 24, 32, 32),)).spec)
    for name, tensor in tower.state_dict().items():
        if name in {"first.weight", "second.weight"}:
            np.testing.assert_allclose(state[name], tensor.numpy(), rtol=0, atol=float(tensor.abs().max()) * 2**-21)
        else:
            assert np.array_equal(state[name], tensor.numpy()), name


@pytest.mark.parametrize(
    ("sizes", "is_faster"),
    [
        ((1, 64, 64, 64, 64), True),
        ((1, 14, 14, 128, 128), True),
        ((1, 224, 224, 3, 16), False),
        ((1, 56, 56, 2, 16), False),
    ],
)
def test_costs_know_where_the_form_pays(sizes: tuple[int, int, int, int, int], *, is_faster: bool) -> None:
    """Many channels pay, images of three do not: measured by `python -m benchmarks.costs`."""
    found = Convolution(*sizes)
    assert (found.winograd_ns < found.direct_ns) is is_faster
