"""Packed sequences through recurrent layers agree with torch; lengths that eager refuses end the run."""

from collections.abc import Callable

import pytest
import torch
from alcove.runtime import ExportError, export, load
from alcove.runtime.errors import InputError
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

Agrees = Callable[..., None]


class Packed(nn.Module):
    """A layer over packed sequences: what it gives, padded, its last states, and the lengths."""

    def __init__(self, layer: nn.RNNBase, *, is_sorted: bool = False, total_length: int | None = 7) -> None:
        super().__init__()
        self.layer, self.is_sorted, self.total_length = layer, is_sorted, total_length

    def forward(self, x: Tensor, lengths: Tensor) -> tuple[Tensor, ...]:
        """Run."""
        first = self.layer.batch_first
        packed = pack_padded_sequence(x, lengths, first, enforce_sorted=self.is_sorted)
        output, states = self.layer(packed)
        padded, steps = pad_packed_sequence(output, first, -1.0, self.total_length)
        return (padded, steps, *(states if isinstance(states, tuple) else (states,)))


@pytest.mark.parametrize(
    "layer",
    [
        nn.LSTM(3, 4, batch_first=True),
        nn.LSTM(3, 5, num_layers=2, bidirectional=True, proj_size=2),
        nn.GRU(3, 4, num_layers=2, bidirectional=True, batch_first=True),
        nn.RNN(3, 4, bidirectional=True, bias=False),
    ],
    ids=lambda layer: type(layer).__name__ + "b" * layer.bidirectional,
)
def test_layers_over_packed_sequences(agrees: Agrees, layer: nn.RNNBase) -> None:
    """In any order of lengths, with more steps asked for than there are, both directions, layers and projections."""
    x = torch.randn(4, 6, 3) if layer.batch_first else torch.randn(6, 4, 3)
    agrees(Packed(layer).eval(), x, torch.tensor([2, 6, 1, 4]))


def test_lengths_that_eager_refuses_end_the_run() -> None:
    """None, more than there are, and out of order where an order is promised."""
    x = torch.randn(6, 2, 3)
    model = load(bytes(export(Packed(nn.GRU(3, 4), is_sorted=True).eval(), (x, torch.tensor([6, 2])))))
    assert model(x.numpy(), torch.tensor([6, 6]).numpy())[1].tolist() == [6, 6]
    for lengths in ([6, 0], [7, 2], [2, 6]):
        with pytest.raises(InputError, match="index 0 is 1"):
            model(x.numpy(), torch.tensor(lengths).numpy())


class Summed(nn.Module):
    """What has no meaning for a packed sequence of unknown size."""

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        """Add up the rows."""
        return pack_padded_sequence(x, lengths).data.sum()


@pytest.mark.parametrize(
    ("module", "reason"), [(Packed(nn.GRU(3, 4), total_length=None), "total_length"), (Summed(), "padded tensor")]
)
def test_sizes_of_the_data_are_refused_with_what_to_do(module: nn.Module, reason: str) -> None:
    """As many steps as the longest sequence has, and the packed rows themselves."""
    with pytest.raises(ExportError, match=reason):
        export(module.eval(), (torch.randn(6, 2, 3), torch.tensor([6, 2])))
