"""The network of style transfer: what it paints, its styles, its slider, and the program that comes of it."""

import numpy as np
import pytest
import torch
from alcove.features.style_transfer.config import CONFIGS, STYLES, ModelConfig
from alcove.features.style_transfer.network import ConditionalNorm, StyleModule, StyleNetwork, one_style
from alcove.features.style_transfer.speed import example, export_program, measure
from alcove.runtime import load
from torch import Tensor

TINY = ModelConfig(width=8, blocks=1)
ROWS, COLUMNS = 24, 40


@pytest.fixture(scope="module")
def module() -> StyleModule:
    """A tiny network with weights that differ from style to style."""
    torch.manual_seed(0)
    made = StyleModule(StyleNetwork(TINY))
    with torch.no_grad():
        for name, parameter in made.named_parameters():
            if name.endswith(("scale.weight", "shift.weight")):
                parameter.add_(torch.randn_like(parameter))
    return made.eval()


def frame(seed: int = 3) -> Tensor:
    """A frame of noise."""
    return example(ROWS, COLUMNS, seed)[0]


def test_a_frame_keeps_its_size_and_is_bytes(module: StyleModule) -> None:
    """Whatever the style."""
    painted = module(frame(), one_style(1), torch.ones(1))
    assert (painted.shape, painted.dtype) == ((ROWS, COLUMNS, 3), torch.uint8)


def test_strength_0_gives_the_frame_and_between_lies_between(module: StyleModule) -> None:
    """The slider mixes pixels: half of the strength is half of the way, to a rounding."""
    given = frame()
    nothing, half, whole = (module(given, one_style(2), torch.tensor([part])) for part in (0.0, 0.5, 1.0))
    assert torch.equal(nothing, given)
    middle = (given.to(torch.float32) + whole.to(torch.float32)) / 2.0
    assert (half.to(torch.float32) - middle).abs().max() <= 1.0


def test_each_style_paints_in_its_own_manner_and_a_mix_lies_between_tables(module: StyleModule) -> None:
    """One program has all of them: no two give the same picture, and the weights of a mix are linear in its tables."""
    painted = [module(frame(), one_style(number), torch.ones(1)) for number in range(len(STYLES))]
    for number, one in enumerate(painted):
        assert all((one != other).float().mean() > 0.1 for other in painted[:number])
    norm = module.network.norm
    mixed = 0.25 * one_style(0) + 0.75 * one_style(1)
    expected = 0.25 * norm.scale.weight[:, 0] + 0.75 * norm.scale.weight[:, 1]
    assert torch.allclose(norm.scale(mixed)[0], expected)


def test_a_conditional_norm_takes_the_frames_own_light_and_contrast_away() -> None:
    """Scaling and shifting its input changes nothing; its output has the style's mean and deviation."""
    norm = ConditionalNorm(4, 2)
    x = torch.rand(1, 4, 12, 10)
    found = norm(x, one_style(1, 2))
    assert torch.allclose(found, norm(3.0 * x + 2.0, one_style(1, 2)), atol=1e-3)
    assert torch.allclose(found.mean((2, 3))[0], norm.shift.weight[:, 1], atol=1e-4)
    assert torch.allclose(found.std((2, 3), correction=0)[0], norm.scale.weight[:, 1].abs(), atol=1e-2)


def test_a_program_paints_what_the_network_paints(module: StyleModule) -> None:
    """float32 to one step of a byte, at another style and strength than it was exported with."""
    program = load(export_program(module, "float32", ROWS, COLUMNS))
    inputs = frame(), one_style(3), torch.tensor([0.8])
    (found,) = program(*(each.numpy() for each in inputs))
    expected = module(*inputs).numpy()
    assert found.dtype == np.uint8
    assert np.abs(found.astype(int) - expected.astype(int)).max() <= 1


def test_an_int8_program_paints_nearly_the_same(module: StyleModule) -> None:
    """Its convolutions are int8; on average a value is a few steps off."""
    program = load(export_program(module, "int8", ROWS, COLUMNS))
    inputs = example(ROWS, COLUMNS)
    (found,) = program(*(each.numpy() for each in inputs))
    assert np.abs(found.astype(int) - module(*inputs).numpy().astype(int)).mean() < 6.0


def test_the_version_that_is_trained_is_small_enough() -> None:
    """At most 1.5 MB in int8, whose weights are a byte each; all styles together are a few thousand numbers."""
    network = StyleNetwork(CONFIGS["1.0.0"])
    weights = sum(parameter.numel() for parameter in network.parameters())
    tables = sum(each.numel() for name, each in network.named_parameters() if ".scale." in name or ".shift." in name)
    assert weights < 1_000_000
    assert tables < 10_000
    assert len(STYLES) >= 4


def test_a_cost_is_measured_with_its_size() -> None:
    """The table that sizes are chosen by has the program's bytes and frames a second."""
    cost = measure(TINY, "float32", rows=ROWS, columns=COLUMNS, frames=1)
    assert cost.size_bytes > 4 * sum(parameter.numel() for parameter in StyleNetwork(TINY).parameters())
    assert cost.frames_per_s == pytest.approx(1000.0 / cost.frame_ms)
