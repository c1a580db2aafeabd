"""Exported attention agrees with torch: masks of every form, groups of heads, and the layers of torch.nn around it."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - torch's own custom
from alcove.runtime import ExportError, export
from torch import Tensor, nn

from tests.selection import quick_every

Agrees = Callable[..., None]

attend = F.scaled_dot_product_attention

SHAPES = [
    ((2, 3, 5, 8), (2, 3, 7, 8), (2, 3, 7, 6)),
    ((1, 1, 1, 1), (1, 1, 1, 1), (1, 1, 1, 1)),
    ((3, 70, 16), (3, 33, 16), (3, 33, 17)),
    ((5, 4), (6, 4), (6, 4)),
    ((2, 1, 3, 9, 4), (2, 1, 3, 9, 4), (2, 1, 3, 9, 4)),
]


def masks(length: int, span: int) -> dict[str, Tensor]:
    """Of bool and float, one row of each without anything left."""
    bools = torch.rand(length, span) < 0.6
    bools[-1] = False
    minus = torch.zeros(length, span).masked_fill(~bools, -torch.inf)
    return {"bool": bools, "minus": minus, "bias": torch.randn(length, span)}


@pytest.mark.parametrize(("query", "key", "value"), SHAPES)
def test_attention_with_every_kind_of_mask(
    agrees: Agrees, query: tuple[int, ...], key: tuple[int, ...], value: tuple[int, ...]
) -> None:
    """Constant masks, causal ones, scales; rows without anything to attend to give zeros."""
    functions: dict[str, Any] = {
        "plain": attend,
        "scaled": lambda q, k, v: attend(q, k, v, scale=0.7),
        "causal": lambda q, k, v: attend(q, k, v, is_causal=True),
    }
    for name, mask in masks(query[-2], key[-2]).items():
        functions[name] = lambda q, k, v, mask=mask: attend(q, k, v, attn_mask=mask)
        functions[name + " row"] = lambda q, k, v, mask=mask: attend(q, k, v, attn_mask=mask[:1])
        functions[name + " column"] = lambda q, k, v, mask=mask: attend(q, k, v, attn_mask=mask[:, :1])
    agrees(functions, torch.randn(query), torch.randn(key), torch.randn(value))


def test_masks_that_are_computed(agrees: Agrees) -> None:
    """One a batch, one a head, of both types; made of what comes in."""
    q, k, v = torch.randn(2, 3, 5, 8), torch.randn(2, 3, 7, 8), torch.randn(2, 3, 7, 8)
    for shape in ((2, 1, 1, 7), (1, 3, 5, 7), (2, 3, 5, 1), (5, 7)):
        agrees(
            {
                "float": lambda q, k, v, m: attend(q, k, v, attn_mask=m),
                "bool": lambda q, k, v, m: attend(q, k, v, attn_mask=m > 0),
            },
            q,
            k,
            v,
            torch.randn(shape),
        )


def test_groups_of_heads_share_keys(agrees: Agrees) -> None:
    """Grouped and multi-query attention; broadcast batches; q, k and v that are one tensor."""
    grouped = {
        "grouped": lambda q, k, v: attend(q, k, v, enable_gqa=True),
        "causal": lambda q, k, v: attend(q, k, v, enable_gqa=True, is_causal=True),
        "repeated": lambda q, k, v: attend(q, k.repeat_interleave(q.shape[1] // k.shape[1], 1), v[:, :1]),
    }
    for heads in (1, 2, 3, 6):
        agrees(grouped, torch.randn(2, 6, 4, 8), torch.randn(2, heads, 7, 8), torch.randn(2, heads, 7, 5))
    agrees({"self": lambda x: attend(x, x, x), "half": lambda x: attend(x, x[:1], x[:1])}, torch.randn(2, 3, 4, 8))


def test_special_numbers_go_through(agrees: Agrees) -> None:
    """NaN in one key, infinity in another, in a row of their own."""
    q, k, v = torch.randn(3, 4, 8), torch.randn(3, 5, 8), torch.randn(3, 5, 8)
    k[0, 2, 1] = torch.nan
    v[1, 3, 0] = torch.inf
    agrees({"plain": attend}, q, k, v)


def test_dropout_is_refused_in_training() -> None:
    """With its remedy."""

    class Training(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return attend(x, x, x, dropout_p=0.1)

    with pytest.raises(ExportError, match="dropout_p=0"):
        export(Training().eval(), (torch.randn(2, 3, 4),))


class Called(nn.Module):
    """A module called in several ways."""

    def __init__(self, module: nn.Module, *calls: Callable[..., Any]) -> None:
        super().__init__()
        self.module = module
        self.calls = calls

    def forward(self, *inputs: Tensor) -> list[Any]:
        """Run."""
        return [call(self.module, *inputs) for call in self.calls]


@pytest.mark.parametrize("batch_first", [True, False])
def test_multihead_attention(agrees: Agrees, batch_first: bool) -> None:
    """With weights and without, padding and attention masks, other sizes of keys, extra keys."""
    x, y = torch.randn(2, 2, 12), torch.randn(2, 2, 12)
    padding = torch.tensor([[False, True], [False, False]])
    mask = torch.tensor([[False, True], [False, False]])
    calls = [
        lambda m, x, y, padding: m(x, x, x),
        lambda m, x, y, padding: m(x, y, y, need_weights=False),
        lambda m, x, y, padding: m(x, x, x, key_padding_mask=padding),
        lambda m, x, y, padding: m(x, x, x, key_padding_mask=padding, need_weights=False),
        lambda m, x, y, padding: m(x, y, y, attn_mask=mask, need_weights=False),
        lambda m, x, y, padding: m(x, x, x, attn_mask=mask, average_attn_weights=False),
    ]
    agrees(Called(nn.MultiheadAttention(12, 3, batch_first=batch_first), *calls).eval(), x, y, padding)
    extra = nn.MultiheadAttention(12, 4, add_bias_kv=True, add_zero_attn=True, bias=False, batch_first=batch_first)
    agrees(Called(extra, *calls[:1]).eval(), x, y, padding)
    other = nn.MultiheadAttention(12, 2, kdim=5, vdim=7, batch_first=batch_first)
    agrees(Called(other, lambda m, x, k, v: m(x, k, v)).eval(), x, torch.randn(2, 2, 5), torch.randn(2, 2, 7))


@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.parametrize("trains", quick_every([False, True], 2))
def test_transformer_layers(agrees: Agrees, norm_first: bool, trains: bool) -> None:
    """Encoder and decoder, with masks; parameters that are trained and frozen ones, which torch runs in another way."""
    options: dict[str, Any] = {"batch_first": True, "norm_first": norm_first}
    x, y, padding = torch.randn(2, 5, 12), torch.randn(2, 3, 12), torch.zeros(2, 5, dtype=torch.bool)
    padding[1, 3:] = True
    layer = nn.TransformerEncoderLayer(12, 3, 24, activation="gelu", **options)
    encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    calls = [
        lambda m, x, y, padding: m(x),
        lambda m, x, y, padding: m(x, src_key_padding_mask=padding),
        lambda m, x, y, padding: m(y, mask=nn.Transformer.generate_square_subsequent_mask(3), is_causal=True),
    ]
    agrees(Called(encoder, *calls).eval().requires_grad_(trains), x, y, padding)
    decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(12, 2, 24, **options), 1)
    agrees(
        Called(decoder, lambda m, x, y, padding: m(y, x, memory_key_padding_mask=padding))
        .eval()
        .requires_grad_(trains),
        x,
        y,
        padding,
    )
