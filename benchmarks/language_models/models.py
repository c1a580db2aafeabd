"""Defines language models in plain torch with random weights: one of GPT-2's shape, one of a small Llama's.

Each keeps keys and values of past tokens in buffers and counts its tokens, so that a call takes what is new alone: a
prompt, or one token.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention, silu

from benchmarks.language_models.limits import POSITIONS


@dataclass(frozen=True)
class Shape:
    """The sizes of a model.

    Attributes:
        vocabulary: tokens.
        width: of what goes from layer to layer.
        layers: how many.
        heads: of queries.
        kv_heads: of keys and values.
        inner: of the feed-forward layers.
        positions: tokens that the cache holds.
    """

    vocabulary: int
    width: int
    layers: int
    heads: int
    kv_heads: int
    inner: int
    positions: int = POSITIONS

    @property
    def head_width(self) -> int:
        """Numbers of one head."""
        return self.width // self.heads


SHAPES: Final = {
    "GPT-2 small, 124M": Shape(50257, 768, 12, 12, 12, 3072),
    "Llama-shaped, 135M": Shape(49152, 576, 30, 9, 3, 1536),
}


class Cache(nn.Module):
    """Keys and values of past tokens."""

    keys: Tensor
    values: Tensor

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        sizes = (1, shape.kv_heads, shape.positions, shape.head_width)
        self.register_buffer("keys", torch.zeros(sizes))
        self.register_buffer("values", torch.zeros(sizes))

    def forward(self, key: Tensor, value: Tensor, at: Tensor) -> tuple[Tensor, Tensor]:
        """Return all keys and values after those of the positions `at` have been put in."""
        self.keys.index_copy_(2, at, key)
        self.values.index_copy_(2, at, value)
        return self.keys, self.values


class Attention(nn.Module):
    """Attention over the cache, with or without rotary embedding and biases."""

    def __init__(self, shape: Shape, *, has_bias: bool, is_rotary: bool) -> None:
        super().__init__()
        self.shape, self.is_rotary = shape, is_rotary
        width, narrow = shape.heads * shape.head_width, shape.kv_heads * shape.head_width
        self.query = nn.Linear(shape.width, width, bias=has_bias)
        self.key = nn.Linear(shape.width, narrow, bias=has_bias)
        self.value = nn.Linear(shape.width, narrow, bias=has_bias)
        self.output = nn.Linear(width, shape.width, bias=has_bias)
        self.cache = Cache(shape)

    def forward(self, x: Tensor, at: Tensor, mask: Tensor, turns: tuple[Tensor, Tensor]) -> Tensor:
        """Return [1, length, width]."""
        query = self._heads(self.query(x), self.shape.heads)
        key, value = (self._heads(layer(x), self.shape.kv_heads) for layer in (self.key, self.value))
        if self.is_rotary:
            query, key = rotate(query, *turns), rotate(key, *turns)
        keys, values = self.cache(key, value, at)
        is_grouped = self.shape.heads != self.shape.kv_heads
        y = scaled_dot_product_attention(query, keys, values, attn_mask=mask, enable_gqa=is_grouped)
        result: Tensor = self.output(y.transpose(1, 2).reshape(x.shape[0], x.shape[1], -1))
        return result

    def _heads(self, x: Tensor, heads: int) -> Tensor:
        return x.view(x.shape[0], x.shape[1], heads, -1).transpose(1, 2)


def rotate(x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """Return x turned by its positions, as transformers writes it."""
    first, second = x.chunk(2, dim=-1)
    return x * cosine + torch.cat((-second, first), dim=-1) * sine


class Gated(nn.Module):
    """Feed-forward layers of a Llama: silu of one times the other."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.gate = nn.Linear(shape.width, shape.inner, bias=False)
        self.up = nn.Linear(shape.width, shape.inner, bias=False)
        self.down = nn.Linear(shape.inner, shape.width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return the shape of x."""
        result: Tensor = self.down(silu(self.gate(x)) * self.up(x))
        return result


class Block(nn.Module):
    """One layer: attention and feed-forward, each behind a norm."""

    def __init__(self, norm: Callable[[], nn.Module], attention: Attention, inner: nn.Module) -> None:
        super().__init__()
        self.first, self.second = norm(), norm()
        self.attention, self.inner = attention, inner

    def forward(self, x: Tensor, at: Tensor, mask: Tensor, turns: tuple[Tensor, Tensor]) -> Tensor:
        """Return the shape of x."""
        x = x + self.attention(self.first(x), at, mask, turns)
        result: Tensor = x + self.inner(self.second(x))
        return result


class LanguageModel(nn.Module):
    """A model whose embedding is its head too.

    Args:
        shape: its sizes.
        is_rotary: whether positions turn queries and keys, as in a Llama; else they have an embedding, as in GPT-2.
    """

    seen: Tensor
    columns: Tensor
    angles: Tensor

    def __init__(self, shape: Shape, *, is_rotary: bool) -> None:
        super().__init__()
        self.shape, self.is_rotary = shape, is_rotary
        self.embedding = nn.Embedding(shape.vocabulary, shape.width)
        nn.init.normal_(self.embedding.weight, std=0.02)
        if not is_rotary:
            self.places = nn.Embedding(shape.positions, shape.width)
        self.blocks = nn.ModuleList(self._block() for _ in range(shape.layers))
        self.last = self._norm()
        self.register_buffer("seen", torch.zeros((), dtype=torch.int64))
        self.register_buffer("columns", torch.arange(shape.positions), persistent=False)
        half = shape.head_width // 2
        self.register_buffer("angles", 10_000.0 ** -(torch.arange(half) / half), persistent=False)

    def _norm(self) -> nn.Module:
        return nn.RMSNorm(self.shape.width, eps=1e-5) if self.is_rotary else nn.LayerNorm(self.shape.width)

    def _block(self) -> Block:
        shape = self.shape
        attention = Attention(shape, has_bias=not self.is_rotary, is_rotary=self.is_rotary)
        plain = nn.Sequential(
            nn.Linear(shape.width, shape.inner), nn.GELU(approximate="tanh"), nn.Linear(shape.inner, shape.width)
        )
        return Block(self._norm, attention, Gated(shape) if self.is_rotary else plain)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the logits of what follows the last token, [1, vocabulary]; tokens is int64 [1, length]."""
        at = self.seen + self.columns[: tokens.shape[1]]
        self.seen.add_(tokens.shape[1])
        mask = self.columns <= at[:, None]
        x = self.embedding(tokens)
        angles = at[:, None] * self.angles
        angles = torch.cat((angles, angles), dim=-1)
        turns = (angles.cos(), angles.sin())
        if not self.is_rotary:
            x = x + self.places(at)
        for block in self.blocks:
            x = block(x, at, mask, turns)
        result: Tensor = nn.functional.linear(self.last(x[:, -1]), self.embedding.weight)
        return result


def make_model(name: str) -> LanguageModel:
    """Return one of `SHAPES`, with random weights, the same each time."""
    torch.manual_seed(7)
    return LanguageModel(SHAPES[name], is_rotary=name.startswith("Llama")).eval()
