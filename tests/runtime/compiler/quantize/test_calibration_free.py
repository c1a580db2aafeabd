"""Weights in int8 or int4, quantized without calibration, keep a network's accuracy at a fraction of its size."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from alcove.runtime import InputError, export, load
from alcove.runtime.compiler.quantize import Quantization
from alcove.runtime.compiler.weights import load_state
from torch import Tensor, nn

from tests.runtime.compiler.quantize.nets import SmallMlp, accuracy, bars, train_net

OPS = {
    "int8_dynamic": "linear_qd8_qc8w",
    "int8_weights": "linear_f32_qc8w",
    "int4_dynamic": "linear_qd8_qb4w",
    "int4_weights": "linear_f32_qb4w",
}


@pytest.fixture(scope="module")
def mlp() -> nn.Module:
    """Trained."""
    return train_net(SmallMlp)


@pytest.mark.parametrize(
    ("mode", "share"), [("int8_dynamic", 0.35), ("int8_weights", 0.35), ("int4_dynamic", 0.25), ("int4_weights", 0.25)]
)
def test_smaller_weights_keep_the_accuracy(mode: str, share: float, mlp: nn.Module) -> None:
    """Of a third and a quarter of the size; every linear takes part and is reported."""
    example = (bars(1, 9)[0],)
    program, exact = export(mlp, example, quantize=mode), export(mlp, example)
    names = [op.name for op in program.spec.ops]
    assert names.count(OPS[mode]) == 3
    assert "linear" not in names
    assert accuracy(load(bytes(program))) >= accuracy(load(bytes(exact))) - 0.02
    report = program.quantization
    assert report is not None
    assert sum(layer.stored_bytes for layer in report.layers) < share * sum(
        layer.float_bytes for layer in report.layers
    )
    assert all(layer.snr_db is not None and layer.snr_db > 15 for layer in report.layers)


def test_groups_of_int4_can_be_larger(mlp: nn.Module) -> None:
    """64 inputs to a scale: smaller, a little rougher."""
    example = (bars(1, 9)[0],)
    small, large = (export(mlp, example, quantize=Quantization("int4_weights", group=group)) for group in (32, 64))
    assert len(bytes(large)) <= len(bytes(small))
    assert accuracy(load(bytes(large))) > 0.85


class Beside(nn.Module):
    """A linear with a sum and a bound beside it, and a convolution."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(4, 4, 3, padding=1)
        self.linear = nn.Linear(6, 6, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return [n, 4, 6]."""
        result: Tensor = torch.relu(self.linear(self.conv(x)) + x)
        return result


@pytest.mark.parametrize("mode", list(OPS))
def test_what_a_linear_does_beside_its_product_still_happens(mode: str) -> None:
    """Sum and bound become nodes of their own; the convolution stays float32 and the report says why."""
    torch.manual_seed(2)
    model, x = Beside().eval(), torch.randn(2, 4, 6)
    program = export(model, (x,), quantize=mode)
    expected = model(x).detach().numpy()
    (seen,) = load(bytes(program))(x.numpy())
    assert np.abs(seen - expected).max() < (0.4 if mode.startswith("int4") else 0.05)
    assert (seen >= 0).all()
    report = program.quantization
    assert report is not None
    assert [layer.reason for layer in report.kept_float] == ["only linears have smaller weights without calibration"]


def test_one_weight_of_two_linears_is_stored_once() -> None:
    """As in float32."""

    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(64, 64, bias=False)

        def forward(self, x: Tensor) -> Tensor:
            result: Tensor = self.linear(torch.tanh(self.linear(x)))
            return result

    program = export(Tied().eval(), (torch.randn(1, 64),), quantize="int8_weights")
    assert sum(len(tensor.data) for tensor in program.spec.tensors) < 64 * 64 * 1.5


class Embedded(nn.Module):
    """A table that only an embedding reads, and one that a linear shares."""

    def __init__(self) -> None:
        super().__init__()
        self.alone = nn.Embedding(50, 16)
        self.shared = nn.Embedding(20, 16)

    def forward(self, ids: Tensor) -> Tensor:
        """Return [n, 20]."""
        both: Tensor = self.alone(ids) + self.shared(ids % 20)
        return nn.functional.linear(both, self.shared.weight)


def test_tables_of_embeddings_become_int8_unless_they_are_shared() -> None:
    """Close to float32; an id outside the table is a typed error."""
    torch.manual_seed(3)
    model, ids = Embedded().eval(), torch.arange(6)[None]
    program = export(model, (ids,), quantize="int8")
    names = [op.name for op in program.spec.ops]
    assert names.count("embedding_i8") == names.count("embedding_panels") == 1
    run = load(bytes(program))
    expected = model(ids).detach().numpy()
    assert np.abs(run(ids.numpy())[0] - expected).max() < 0.02 * np.abs(expected).max()
    for wrong in (-1, 50):
        with pytest.raises(InputError, match="allowed are 0 to 49"):
            run(np.full((1, 6), wrong, np.int64))


def test_int8_tables_come_back_as_parameters() -> None:
    """By their names, within half a step."""
    model = nn.Embedding(30, 8).eval()
    program = export(model, (torch.arange(4),), quantize="int8")
    state = load_state(program.spec)
    assert np.abs(state["weight"] - model.weight.detach().numpy()).max() < np.abs(state["weight"]).max() / 250


@pytest.mark.parametrize("mode", ["int8_weights", "int8_dynamic"])
@pytest.mark.parametrize("make", [nn.RNN, nn.GRU, lambda *sizes: nn.LSTM(*sizes, proj_size=6)])
def test_recurrent_layers_have_int8_weights(make: Callable[..., nn.Module], mode: str) -> None:
    """Less than half the size, close to float32 over many steps, whether or not inputs and states are quantized too."""
    torch.manual_seed(4)
    model, x = make(20, 24).eval(), torch.randn(30, 2, 20)
    program, exact = export(model, (x,), quantize=mode), export(model, (x,))
    report = program.quantization
    assert report is not None
    assert [layer.precision for layer in report.layers] == [mode.replace("_", " ")]
    assert report.layers[0].stored_bytes < 0.5 * report.layers[0].float_bytes
    for one, other in zip(load(bytes(program))(x.numpy()), load(bytes(exact))(x.numpy()), strict=True):
        assert np.abs(one - other).max() < 0.02
