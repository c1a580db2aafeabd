"""Networks calibrated to int8 keep their accuracy, with the bits of the reference; bad calibration is refused."""

from typing import Any

import numpy as np
import pytest
import torch
from alcove.runtime import CalibrationError, export, load
from alcove.runtime.compiler import reference
from alcove.runtime.compiler.quantize import Quantization
from torch import Tensor, nn

from tests.runtime.compiler.quantize.nets import SmallCnn, SmallMlp, accuracy, bars, samples, train_net


@pytest.fixture(scope="module", params=[SmallCnn, SmallMlp], ids=["cnn", "mlp"])
def network(request: pytest.FixtureRequest) -> nn.Module:
    """A trained network."""
    return train_net(request.param)


@pytest.fixture(scope="module")
def example() -> tuple[Tensor]:
    """What it takes."""
    return (bars(1, 9)[0],)


def in_int8(network: nn.Module) -> Quantization:
    """Static int8 to the very end."""
    linears = [name for name, module in network.named_modules() if isinstance(module, nn.Linear)]
    return Quantization("int8", layers={linears[-1]: "int8"})


def ops(program: Any) -> list[str]:
    """Names of a program's operators."""
    return [op.name for op in program.spec.ops]


def test_int8_keeps_the_accuracy_of_float32(network: nn.Module, example: tuple[Tensor]) -> None:
    """Within two points of float32, which tells nearly all."""
    exact = accuracy(load(bytes(export(network, example))))
    rough = accuracy(load(bytes(export(network, example, quantize="int8", calibration=samples(24)))))
    assert exact > 0.9
    assert rough >= exact - 0.02


def test_a_whole_network_gives_the_bits_of_the_reference(network: nn.Module, example: tuple[Tensor]) -> None:
    """From the first quantize to the last dequantize, tolerance zero."""
    program = export(network, example, quantize=in_int8(network), calibration=samples(8))
    model = load(bytes(program))
    for image in bars(5, 4)[0]:
        argument = image[None].numpy()
        (seen,), (expected,) = model(argument), reference.run(program.spec, [argument])
        assert seen.tobytes() == expected.tobytes()


def test_neighbours_hand_on_int8(network: nn.Module, example: tuple[Tensor]) -> None:
    """One conversion where the image enters, one where the logits leave."""
    names = ops(export(network, example, quantize=in_int8(network), calibration=samples(4)))
    assert names.count("quantize") == names.count("dequantize") == 1
    assert names[-1] == "dequantize"
    assert not {"conv2d", "linear", "depthwise_conv2d", "binary", "unary", "pool2d", "reduce"} & set(names)


def test_the_same_samples_give_the_same_bytes(network: nn.Module, example: tuple[Tensor]) -> None:
    """Nothing in it depends on time, order of sets or threads."""
    first, second = (export(network, example, quantize="int8", calibration=samples(4)) for _ in range(2))
    assert bytes(first) == bytes(second)


@pytest.mark.parametrize("clipping", ["minmax", "mse", "entropy"])
def test_each_clipping_keeps_the_accuracy(clipping: Any, network: nn.Module, example: tuple[Tensor]) -> None:
    """Whole range, least squares, least divergence."""
    options = Quantization("int8", clipping=clipping)
    program = export(network, example, quantize=options, calibration=samples(24))
    assert accuracy(load(bytes(program))) > 0.85


def test_a_layer_that_cannot_be_int8_stays_float32_among_others() -> None:
    """A softmax between layers runs on what is dequantized for it."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 8), nn.Softmax(-1), nn.Linear(8, 5)).eval()
    x = torch.randn(4, 8)
    options = Quantization("int8", layers={"0": "int8", "2": "int8"})
    program = export(model, (x,), quantize=options, calibration=[torch.randn(4, 8) for _ in range(8)])
    assert ops(program) == ["quantize", "linear_i8", "dequantize", "softmax", "quantize", "linear_i8", "dequantize"]
    (seen,) = load(bytes(program))(x.numpy())
    assert np.allclose(seen, model(x).detach().numpy(), atol=0.03)


@pytest.mark.parametrize("mode", ["int8", "int8_dynamic", "int8_weights", "int4_dynamic", "int4_weights"])
def test_sizes_may_vary(mode: str) -> None:
    """One program for 1 to 40 rows; samples of the largest size."""
    torch.manual_seed(1)
    model = nn.Sequential(nn.LayerNorm(16), nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 8)).eval()
    calibration = [torch.randn(40, 16) for _ in range(6)] if mode == "int8" else None
    sizes = {"input": {0: torch.export.Dim("n", max=40)}}
    program = export(model, (torch.randn(5, 16),), dynamic_shapes=sizes, quantize=mode, calibration=calibration)
    run = load(bytes(program))
    for rows in (1, 7, 40):
        x = torch.randn(rows, 16)
        assert np.abs(run(x.numpy())[0] - model(x).detach().numpy()).max() < (0.3 if mode.startswith("int4") else 0.05)


class Movements(nn.Module):
    """What moves elements, between layers: one scale for all of it."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(2, 6, 3, padding=1)
        self.second = nn.Conv2d(12, 4, 1)
        self.average = nn.AvgPool2d(2)

    def forward(self, x: Tensor) -> Tensor:
        """Return [n, 4, 5, 5]."""
        y = self.first(x)
        both = torch.cat([y, torch.roll(y, 1, 2).flip(3)], 1)
        padded = nn.functional.pad(both, (1, 1, 1, 1), value=0.25)
        result: Tensor = self.second(self.average(padded))
        return result


def test_movements_between_layers_stay_in_int8() -> None:
    """Concatenation, padding with a value, views and average windows; close to float32."""
    torch.manual_seed(0)
    model = Movements().eval()
    x = torch.randn(1, 2, 8, 8)
    program = export(model, (x,), quantize="int8", calibration=[(torch.randn(1, 2, 8, 8),) for _ in range(16)])
    names = ops(program)
    assert names.count("quantize") == names.count("dequantize") == 1
    argument = x.numpy()
    (seen,), (expected,) = load(bytes(program))(argument), reference.run(program.spec, [argument])
    assert seen.tobytes() == expected.tobytes()
    error = seen - model(x).detach().numpy()
    assert np.abs(error).max() < 0.1 * np.abs(seen).max()


@pytest.mark.parametrize(
    ("calibration", "sample", "words"),
    [
        ([], None, "expected at least 1 sample, got none"),
        ("text", None, "sequence of samples"),
        (7, None, "sequence of samples"),
        ([(torch.zeros(1, 1, 16, 16),), ()], 1, "0 tensors, expected 1"),
        ([torch.zeros(2, 1, 16, 16)], 0, "shape [2, 1, 16, 16], expected [1, 1, 16, 16]"),
        ([torch.zeros(1, 1, 16, 16, dtype=torch.float64)], 0, "float64, expected float32"),
        ([torch.full((1, 1, 16, 16), torch.nan)], 0, "NaN or an infinity"),
        (["text"], 0, "str, expected a tensor"),
    ],
)
def test_bad_calibration_is_a_typed_error(calibration: Any, sample: int | None, words: str) -> None:
    """It names the sample, what was expected and what was seen."""
    with pytest.raises(CalibrationError) as caught:
        export(SmallMlp().eval(), (torch.zeros(1, 1, 16, 16),), quantize="int8", calibration=calibration)
    assert caught.value.sample == sample
    assert words in str(caught.value)


class Overflow(nn.Module):
    """Infinite for large inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        """Return [n, 4]."""
        result: Tensor = self.linear(torch.exp(x))
        return result


def test_a_sample_that_overflows_inside_is_a_typed_error() -> None:
    """It names the sample."""
    good = torch.zeros(1, 4)
    with pytest.raises(CalibrationError) as caught:
        export(Overflow().eval(), (good,), quantize="int8", calibration=[good, good + 1000])
    assert caught.value.sample == 1


@pytest.mark.parametrize(
    ("wishes", "words"),
    [
        ({"quantize": "int7"}, "int7"),
        ({"quantize": "int8_weights", "calibration": [1]}, "no other mode"),
        ({"calibration": [1]}, "no other mode"),
        ({"quantize": "int8", "max_drop": 0.1}, "need calibration"),
        ({"quantize": "int8", "calibration": [1], "max_drop": -1.0}, "0 or more"),
        ({"quantize": "int8", "calibration": [1], "metric": 3}, "function of a program"),
    ],
)
def test_wishes_that_contradict_each_other_are_refused(wishes: dict[str, Any], words: str) -> None:
    """Before anything is traced."""
    with pytest.raises(ValueError, match=words):
        export(SmallMlp().eval(), (torch.zeros(1, 1, 16, 16),), **wishes)


def test_options_have_known_values_only() -> None:
    """Mode, clipping and group."""
    for wrong in ({"mode": "int9"}, {"mode": "int8", "clipping": "all"}, {"mode": "int4_weights", "group": 7}):
        with pytest.raises(ValueError, match="must be one of"):
            Quantization(**wrong)
