"""Parameters survive quantization, packing and export, and come back from a program under their names."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from alcove.runtime.compiler import export, load_state
from alcove.runtime.compiler.panels import panels, unpanel
from alcove.runtime.compiler.weights import quantize_columns
from alcove.runtime.errors import ExportError
from alcove.runtime.program import Program
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from torch import nn

FINITE = st.floats(min_value=-(2.0**119), max_value=2.0**119, width=32)


@given(hnp.arrays(np.float32, st.tuples(st.integers(1, 9), st.integers(1, 5)), elements=FINITE))
def test_quantizing_what_was_dequantized_changes_nothing(table: np.ndarray) -> None:
    """The integers and the scale of a second round are those of the first, bit for bit."""
    integers, scale = quantize_columns(table)
    dequantized = integers.astype(np.float32) * scale
    again, scale_again = quantize_columns(dequantized)
    assert np.array_equal(integers, again)
    assert scale.tobytes() == scale_again.tobytes()


@given(hnp.arrays(np.float32, st.tuples(st.integers(1, 9), st.integers(1, 5)), elements=FINITE))
def test_quantized_column_is_within_half_a_step(table: np.ndarray) -> None:
    """No element moves by more than half the scale, which is max|column| / 127 up to 2**-15."""
    integers, scale = quantize_columns(table)
    largest = np.abs(table.astype(np.float64)).max(axis=0)
    is_kept = largest >= 2.0**-100
    error = np.abs(integers.astype(np.float64) * scale - table)
    assert (error <= 0.5 * scale.astype(np.float64) * (1 + 2**-15))[:, is_kept].all()
    exact = largest[is_kept] / 127
    assert ((scale[is_kept] >= exact * (1 - 2**-40)) & (scale[is_kept] <= exact * (1 + 2**-15))).all()


def test_table_that_int8_cannot_scale_is_refused() -> None:
    """Values that are not finite or too large give a ValueError that names the bound."""
    for bad in (np.inf, np.nan, 2.0**121):
        with pytest.raises(ValueError, match=r"2\*\*113"):
            quantize_columns(np.array([[1.0, bad]], dtype=np.float32))


@given(st.integers(1, 40), st.integers(1, 9), st.booleans())
def test_panels_come_back_as_they_went_in(outputs: int, inputs: int, has_bias: bool) -> None:
    """Weight and bias of every size, tails of a panel included; what is beyond N is zero."""
    weight = np.arange(1, outputs * inputs + 1, dtype=np.float32).reshape(outputs, inputs)
    bias = -np.arange(1, outputs + 1, dtype=np.float32) if has_bias else None
    data = panels(weight, bias)
    assert data.shape == (-(-outputs // 16), inputs + 1, 16)
    back, back_bias = unpanel(data.reshape(-1), outputs, inputs)
    assert np.array_equal(back, weight)
    assert np.array_equal(back_bias, np.zeros(outputs) if bias is None else bias)
    beyond = data.transpose(0, 2, 1).reshape(-1, inputs + 1)[outputs:]
    assert not beyond.any()


def _reload(module: nn.Module, program: Program, fresh: nn.Module) -> nn.Module:
    state = load_state(program.spec)
    assert set(state) == set(module.state_dict())
    fresh.load_state_dict({name: torch.from_numpy(array) for name, array in state.items()})
    return fresh.eval()


@pytest.mark.parametrize("quantize", [None, "int8"])
@pytest.mark.parametrize("hidden", [0, 20])
def test_module_loaded_from_its_program_exports_to_the_same_bytes(
    make_text_model: Callable[..., nn.Module], quantize: str | None, hidden: int
) -> None:
    """The committed program is the checkpoint, for f32 and int8, with and without a hidden layer."""
    module = make_text_model(hidden=hidden).eval()
    program = export(module, ("hello",), quantize=quantize)
    fresh = _reload(module, program, make_text_model(hidden=hidden))
    assert bytes(export(fresh, ("another text",), quantize=quantize)) == bytes(program)


def test_transposed_and_shared_parameters_come_back_by_their_names() -> None:
    """`x @ w` stores w transposed, a linear without bias no bias, a shared table once; all come back."""

    class Shared(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Linear(8, 6, bias=False)
            self.w = nn.Parameter(torch.randn(6, 5))
            self.b = nn.Parameter(torch.randn(5))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            """Run."""
            y = torch.relu(self.first(x)) @ self.w + self.b
            return torch.nn.functional.linear(y, self.w)

    module = Shared().eval()
    program = export(module, (torch.zeros(1, 8),))
    fresh = _reload(module, program, Shared())
    for name, parameter in module.state_dict().items():
        assert torch.equal(parameter, fresh.state_dict()[name]), name
    assert bytes(export(fresh, (torch.zeros(1, 8),))) == bytes(program)


def test_constants_computed_at_export_are_no_parameters() -> None:
    """A bias that was added up from two is left out of the state."""

    class Summed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lin = nn.Linear(4, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            """Run."""
            y: torch.Tensor = self.lin(x) + torch.ones(3)
            return y

    program = export(Summed().eval(), (torch.zeros(1, 4),))
    assert set(load_state(program.spec)) == {"lin.weight"}


@pytest.mark.parametrize("length", [90, 140])
def test_parameters_of_a_deeply_nested_module_come_back(length: int) -> None:
    """Weight and bias are one constant, and both names together would be longer than a tensor's name may be."""
    path = "m" * length
    module = nn.Sequential()
    module.add_module(path, nn.Linear(3, 2))
    program = export(module.eval(), (torch.randn(1, 3),))
    state = load_state(program.spec)
    assert set(state) == {f"{path}.weight", f"{path}.bias"}
    for name, parameter in module.state_dict().items():
        assert np.array_equal(state[name], parameter.numpy())


def test_name_that_is_too_long_is_refused() -> None:
    """The finding names the bound."""
    module = nn.Sequential()
    module.add_module("m" * 250, nn.Linear(3, 2))
    with pytest.raises(ExportError, match="longer than 200 bytes"):
        export(module.eval(), (torch.randn(1, 3),))


@pytest.mark.parametrize("width", [4, 8])
def test_weights_of_groups_that_share_a_vector_come_back(width: int) -> None:
    """As the module had them."""
    layer = nn.Conv2d(32, 32, (3, 2), groups=32 // width).eval()
    state = load_state(export(layer, (torch.randn(1, 32, 7, 7),)).spec)
    for name, value in layer.state_dict().items():
        np.testing.assert_array_equal(np.asarray(state[name]), value.numpy(), err_msg=name)
