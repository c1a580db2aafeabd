"""Two images that are mixed by a matte become one operator, whose bits are those of the steps."""

import math
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - torch's own custom
from alcove.runtime import ProgramError, export, load, vision
from alcove.runtime.format.reader import read_spec
from alcove.runtime.format.spec import DType
from alcove.runtime.testing import Assembly
from torch import Tensor, nn

F32 = DType.F32


class Run(nn.Module):
    """A module of a function."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: Tensor) -> Any:
        """Return its answer."""
        return self.function(*inputs)


def run(function: Any, *inputs: Tensor) -> tuple[list[str], Any]:
    """Return the operators of the exported function, and its first answer."""
    program = bytes(export(Run(function), inputs))
    return [op.name for op in read_spec(program).ops], load(program)(*[each.numpy() for each in inputs])[0]


def share(frame: Tensor, alpha: Tensor, background: Tensor) -> tuple[Tensor, Tensor]:
    """Return a mix and the difference that it is of."""
    difference = frame - background
    return background + alpha * difference, difference


def spread(alpha: Tensor, height: int, width: int, *, align_corners: bool = False) -> Tensor:
    """Return a matte of this size."""
    return F.interpolate(alpha, (height, width), mode="bilinear", align_corners=align_corners)


@pytest.mark.parametrize(("channels", "height", "width"), [(1, 1, 1), (3, 7, 33), (5, 4, 1030)])
@pytest.mark.parametrize("size", [(1, 1), (3, 5), (9, 40)])
def test_a_mix_by_a_resized_matte_is_one_operator_with_the_bits_of_its_steps(
    channels: int, height: int, width: int, size: tuple[int, int]
) -> None:
    """Wider than a strip, smaller and larger mattes, two pictures; the steps are numpy's, each rounded."""
    torch.manual_seed(width)
    frame, background = torch.randn(2, 2, channels, height, width)
    alpha = torch.rand(2, 1, *size)
    operators, mixed = run(vision.composite, frame, alpha, background)
    _, matte = run(lambda x: spread(x, height, width), alpha)
    assert operators.count("composite") == 1
    assert not {"binary", "resize2d"} & set(operators)
    x, y = frame.numpy(), background.numpy()
    np.testing.assert_array_equal(mixed, y + matte * (x - y))


def test_a_mix_of_images_with_channels_last_is_one_operator() -> None:
    """What convolutions leave is mixed as it lies, with corners aligned; the matte of a network, too."""
    torch.manual_seed(0)
    narrow, wide = nn.Conv2d(3, 3, 3, padding=1), nn.Conv2d(3, 1, 3, stride=2, padding=1)

    def mix(frame: Tensor) -> Tensor:
        background = narrow(frame)
        matte = spread(torch.sigmoid(wide(frame)), 10, 90, align_corners=True)
        return narrow(matte * (frame - background) + background)

    frame = torch.randn(1, 3, 10, 90)
    with torch.no_grad():
        operators, mixed = run(mix, frame)
        assert operators.count("composite") == 1
        assert "resize2d" not in operators
        np.testing.assert_allclose(mixed, mix(frame), rtol=1e-4, atol=1e-5)


def test_mattes_of_the_images_size_are_mixed_at_once_and_other_sums_are_left() -> None:
    """A matte per color, a difference of other images and a product that others read stay as they are."""
    torch.manual_seed(1)
    frame, background, alpha = torch.randn(1, 3, 6, 9), torch.randn(1, 3, 6, 9), torch.rand(1, 1, 6, 9)
    inputs = (frame, alpha, background)
    operators, mixed = run(vision.composite, *inputs)
    assert operators == ["composite"]
    np.testing.assert_array_equal(mixed, vision.composite(*inputs))
    others: tuple[Any, ...] = (
        lambda x, a, y: y + a.expand(1, 3, 6, 9).flip(2) * (x - y) * 2,
        lambda x, a, y: y + a * (y - x),
        lambda x, a, y: y + a * (x + y),
        lambda x, a, y: y - a * (x - y),
        lambda x, a, y: x + a * (x - y),
        lambda x, a, y: y + a[..., :1, :] * (x - y),
    )
    for other in others:
        operators, mixed = run(other, *inputs)
        assert "composite" not in operators
        np.testing.assert_allclose(mixed, other(*inputs), rtol=1e-5, atol=1e-6)
    operators, _ = run(share, *inputs)
    assert "composite" not in operators


def test_mixes_hold_their_bits_where_numbers_are_none() -> None:
    """NaN and infinity come out as from the steps."""
    frame = torch.tensor([math.nan, math.inf, -0.0, 1.0, 3e38, 5.0]).reshape(1, 1, 1, 6)
    background = torch.tensor([1.0, math.inf, 0.0, -math.inf, -3e38, math.nan]).reshape(1, 1, 1, 6)
    _, mixed = run(vision.composite, frame, torch.tensor([0.5]).reshape(1, 1, 1, 1), background)
    with np.errstate(all="ignore"):
        x, y = frame.numpy(), background.numpy()
        np.testing.assert_array_equal(mixed, y + np.float32(0.5) * (x - y))


IMAGE: Any = (F32, (2, 3, 4, 5))
LAST: Any = (F32, (2, 4, 5, 3))


def open_program(inputs: list[Any], output: Any, *attributes: float) -> None:
    """Verify a program of one mix."""
    build = Assembly()
    tensors = [build.input(f"x{i}", dtype, shape) for i, (dtype, shape) in enumerate(inputs)]
    build.output("y", build.op("composite", tensors, output, attributes=attributes)[0])
    load(build.program())


@pytest.mark.parametrize(
    ("code", "inputs", "output", "attributes"),
    [
        ("op_attribute", [IMAGE, IMAGE, (F32, (2, 1, 4, 5))], IMAGE, (2, 0, 0, 0.0, 0.0)),
        ("op_attribute", [IMAGE, IMAGE, (F32, (2, 1, 4, 5))], IMAGE, (0, 2, 0, 0.0, 0.0)),
        ("op_attribute", [IMAGE, IMAGE, (F32, (2, 1, 4, 5))], IMAGE, (0, 0, 1, 0.0, 0.0)),
        ("op_attribute", [IMAGE, IMAGE, (F32, (2, 1, 4, 5))], IMAGE, (0, 1, 2, 0.0, 0.0)),
        ("op_attribute", [IMAGE, IMAGE, (F32, (2, 1, 4, 5))], IMAGE, (0, 1, 0, -1.0, 0.0)),
        ("op_attribute", [IMAGE, IMAGE, (F32, (2, 1, 4, 5))], IMAGE, (0, 1, 0, 0.0, 1e300)),
        ("op_shape", [IMAGE, IMAGE, (F32, (2, 1, 3, 5))], IMAGE, (0, 0, 0, 0.0, 0.0)),
        ("op_shape", [IMAGE, IMAGE, (F32, (2, 1, 4, 6))], IMAGE, (0, 0, 0, 0.0, 0.0)),
        ("op_shape", [IMAGE, IMAGE, (F32, (2, 2, 4, 5))], IMAGE, (0, 1, 0, 0.0, 0.0)),
        ("op_shape", [IMAGE, IMAGE, (F32, (1, 1, 4, 5))], IMAGE, (0, 1, 0, 0.0, 0.0)),
        ("op_shape", [IMAGE, IMAGE, (F32, (2, 4, 5))], IMAGE, (0, 0, 0, 0.0, 0.0)),
        ("op_shape", [IMAGE, (F32, (2, 3, 4, 4)), (F32, (2, 1, 4, 5))], IMAGE, (0, 0, 0, 0.0, 0.0)),
        ("op_shape", [IMAGE, IMAGE, (F32, (2, 1, 4, 5))], (F32, (2, 3, 4, 6)), (0, 0, 0, 0.0, 0.0)),
        ("op_shape", [LAST, LAST, (F32, (2, 1, 4, 5))], LAST, (1, 1, 0, 0.0, 0.0)),
        ("op_type", [IMAGE, IMAGE, (DType.I32, (2, 1, 4, 5))], IMAGE, (0, 0, 0, 0.0, 0.0)),
        ("op_type", [IMAGE, (DType.I32, (2, 3, 4, 5)), (F32, (2, 1, 4, 5))], IMAGE, (0, 0, 0, 0.0, 0.0)),
    ],
)
def test_hostile_programs_of_mixes_are_refused(
    code: str, inputs: list[Any], output: Any, attributes: tuple[float, ...]
) -> None:
    """Each rule is broken alone; the plain programs open."""
    open_program([IMAGE, IMAGE, (F32, (2, 1, 4, 5))], IMAGE, 0, 0, 0, 0.0, 0.0)
    open_program([LAST, LAST, (F32, (2, 9, 8, 1))], LAST, 1, 1, 1, 0.0, 0.0)
    with pytest.raises(ProgramError) as refused:
        open_program(inputs, output, *attributes)
    assert refused.value.code == code
