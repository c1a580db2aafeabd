"""Common torch idioms (masks made within, padded encoders, compared rows) export to what eager gives."""

import pytest
import torch
from alcove.runtime import export, load
from torch import Tensor, nn


def assert_same(module: nn.Module, *inputs: Tensor) -> None:
    """Compare a program with the module run as users run it: eval mode, no gradients."""
    module.eval()
    with torch.no_grad():
        expected = module(*inputs)
    (seen,) = load(bytes(export(module, inputs)))(*(tensor.numpy() for tensor in inputs))
    torch.testing.assert_close(torch.from_numpy(seen), expected, rtol=1e-4, atol=1e-5)


def padded_encoder() -> nn.TransformerEncoder:
    """Return an encoder with a last norm, which eager runs without the padding."""
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    return nn.TransformerEncoder(layer, 2, norm=nn.LayerNorm(8))


class Padded(nn.Module):
    """An encoder whose mask is a second input."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = padded_encoder()

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """Run."""
        y: Tensor = self.encoder(x, src_key_padding_mask=mask)
        return y


def test_transformer_with_a_causal_mask_made_within() -> None:
    """Torch looks into the mask for whether it is causal; a trace cannot, and need not."""

    class Translate(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.transformer = nn.Transformer(8, 2, 1, 1, 16, batch_first=True)

        def forward(self, source: Tensor, target: Tensor) -> Tensor:
            mask = nn.Transformer.generate_square_subsequent_mask(target.shape[1])
            y: Tensor = self.transformer(source, target, tgt_mask=mask)
            return y

    torch.manual_seed(0)
    assert_same(Translate(), torch.randn(2, 5, 8), torch.randn(2, 3, 8))


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_encoder_gives_zeros_where_eager_leaves_padding_out() -> None:
    """Padding at the ends is left out by eager without gradients; padding elsewhere is not."""
    torch.manual_seed(0)
    x = torch.randn(2, 4, 8)
    at_the_ends = torch.tensor([[False, False, True, True], [False, False, False, True]])
    within = torch.tensor([[False, True, False, True], [False, False, False, True]])
    module = Padded().eval()
    program = load(bytes(export(module, (x, at_the_ends))))
    for mask in (at_the_ends, within):
        with torch.no_grad():
            expected = module(x, mask)
        (seen,) = program(x.numpy(), mask.numpy())
        torch.testing.assert_close(torch.from_numpy(seen), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_torch_is_left_as_it_was() -> None:
    """What stands in for torch's functions while a model is traced is gone after it."""
    torch.manual_seed(0)
    before = nn.TransformerEncoder.forward
    assert_same(Padded(), torch.randn(1, 3, 8), torch.zeros(1, 3, dtype=torch.bool))
    assert nn.TransformerEncoder.forward is before


def test_comparison_of_a_row_with_a_column_leaves_the_row_alone() -> None:
    """Four rows of bools have the bytes of the row of floats that they are made of, and are not written over it."""

    class Compare(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x < torch.arange(4.0).reshape(4, 1)

    assert_same(Compare(), torch.tensor([[3.0, 1.0, 0.0, 2.0, 5.0]]))
