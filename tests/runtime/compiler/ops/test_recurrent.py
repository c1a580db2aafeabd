"""Exported recurrent layers agree with torch: every kind, layers, directions, biases and initial states."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from alcove.runtime import ExportError, export, load
from alcove.runtime.compiler.weights import load_state
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

Agrees = Callable[..., None]
LAYERS: dict[str, Callable[..., nn.Module]] = {
    "rnn": nn.RNN,
    "rnn relu": lambda *sizes, **options: nn.RNN(*sizes, nonlinearity="relu", **options),
    "gru": nn.GRU,
    "lstm": nn.LSTM,
}

# Torch says on every run that oneDNN lacks what it computes itself.
pytestmark = pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN")


class Several(nn.Module):
    """Layers of the same input; with states for those that take them."""

    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, x: Tensor, *states: Any) -> list[Any]:
        """Run."""
        return [layer(x, *states) for layer in self.layers]


@pytest.mark.parametrize("kind", LAYERS)
def test_layers_of_every_form(agrees: Agrees, kind: str) -> None:
    """One layer and three, one direction and both, with and without biases, batch first, without a batch."""
    forms: list[dict[str, Any]] = [{}, {"bias": False, "bidirectional": True}, {"num_layers": 3, "bidirectional": True}]
    for batch_first, x in ((True, torch.randn(2, 7, 5)), (False, torch.randn(40, 5))):
        agrees(Several(*(LAYERS[kind](5, 6, batch_first=batch_first, **form) for form in forms)).eval(), x)


@pytest.mark.parametrize("kind", LAYERS)
def test_states_come_in_and_go_out(agrees: Agrees, kind: str) -> None:
    """Of two layers in two directions; sizes around panels and blocks of steps."""
    for steps, batch, hidden in ((1, 1, 1), (33, 1, 16), (5, 40, 17)):
        layer = LAYERS[kind](3, hidden, num_layers=2, bidirectional=True)
        state = torch.randn(4, batch, hidden)
        if kind == "lstm":
            cells = Several(layer)
            module: nn.Module = _WithPair(cells)
            agrees(module.eval(), torch.randn(steps, batch, 3), state, torch.randn(4, batch, hidden))
        else:
            agrees(Several(layer).eval(), torch.randn(steps, batch, 3), state)


class _WithPair(nn.Module):
    """Gives an LSTM its two states as the pair that it wants."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, x: Tensor, state: Tensor, cell: Tensor) -> Any:
        """Run."""
        return self.module(x, (state, cell))


def test_projected_lstm(agrees: Agrees) -> None:
    """States narrower than cells, in layers and directions."""
    forms: list[dict[str, Any]] = [{}, {"num_layers": 2, "bidirectional": True}, {"bias": False}]
    agrees(Several(*(nn.LSTM(5, 20, proj_size=7, **form) for form in forms)).eval(), torch.randn(6, 2, 5))


class Steps(nn.Module):
    """A cell over some steps, as loops in Python have it."""

    def __init__(self, cell: nn.Module, steps: int) -> None:
        super().__init__()
        self.cell = cell
        self.steps = steps

    def forward(self, x: Tensor) -> list[Tensor]:
        """Return all states."""
        state = None
        states = []
        for step in range(self.steps):
            state = self.cell(x[:, step], state)
            states.append(state[0] if isinstance(state, tuple) else state)
        return states


@pytest.mark.parametrize("bias", [True, False])
def test_cells(agrees: Agrees, bias: bool) -> None:
    """Every kind, over a loop of three steps; the weights are in the program once."""
    relu = nn.RNNCell(5, 6, bias=bias, nonlinearity="relu")
    for cell in (nn.GRUCell(5, 6, bias=bias), nn.LSTMCell(5, 6, bias=bias), nn.RNNCell(5, 6, bias=bias), relu):
        module = Steps(cell, 3).eval()
        x = torch.randn(2, 3, 5)
        agrees(module, x)
        names = [tensor.name for tensor in export(module, (x,)).spec.tensors]
        assert sum("weight_ih" in name for name in names) == 1
        assert sum("weight_hh" in name for name in names) == 1


def test_a_layer_is_one_operator() -> None:
    """Beside the reshape of its states."""
    spec = export(nn.GRU(5, 6).eval(), (torch.randn(7, 1, 5),)).spec
    assert {op.name for op in spec.ops} == {"gru", "reshape"}


def test_sequences_of_any_length() -> None:
    """A length and a batch that vary, up to their bounds; tracing does not fix them."""
    layers = Several(nn.GRU(5, 6, batch_first=True), nn.LSTM(5, 6, 2, batch_first=True), nn.RNN(5, 6, batch_first=True))
    shapes = ({0: torch.export.Dim("batch", min=2, max=40), 1: torch.export.Dim("steps", min=2, max=70)},)
    model = load(bytes(export(layers.eval(), (torch.randn(2, 3, 5),), dynamic_shapes=shapes)))
    for batch, steps in ((2, 2), (40, 70), (17, 33), (31, 2), (2, 70)):
        x = torch.randn(batch, steps, 5)
        for ours, theirs in zip(model(x.numpy()), tree_leaves(layers(x)), strict=True):
            np.testing.assert_allclose(ours, theirs.detach().numpy(), rtol=1e-4, atol=1e-5)


def test_weights_come_back_by_name() -> None:
    """All parameters of layers and directions."""
    layer = nn.LSTM(5, 6, num_layers=2, bidirectional=True, proj_size=3).eval()
    state = load_state(export(layer, (torch.randn(7, 1, 5),)).spec)
    own = layer.state_dict()
    assert set(state) == set(own)
    assert all(torch.equal(torch.from_numpy(state[name]), own[name]) for name in own)


def test_weights_that_are_computed_are_refused() -> None:
    """A layer's weights must be known at export."""

    class Computed(nn.Module):
        def forward(self, x: Tensor, w: Tensor) -> Tensor:
            return torch.gru_cell(x, x, w, w)

    with pytest.raises(ExportError, match="weights that are parameters"):
        export(Computed().eval(), (torch.randn(2, 4), torch.randn(12, 4)))
