"""Decoders that make one token after the other, with caches in and out, or kept as state."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - as everybody calls it

from benchmarks.architectures.registry import Architecture, Call

VOCABULARY, WIDTH, HEADS, LAYERS, LENGTH = 64, 32, 4, 2, 16
HEAD = WIDTH // HEADS


def rotate(x: Tensor, position: Tensor) -> Tensor:
    """Return [1, heads, n, head] turned by its positions [n] (RoPE, Su et al. 2021, equation 34)."""
    frequencies = 10000.0 ** (-torch.arange(0, HEAD, 2) / HEAD)
    angles = position[:, None].to(torch.float32) * frequencies
    cosine, sine = angles.cos().repeat(1, 2), angles.sin().repeat(1, 2)
    first, second = x.chunk(2, -1)
    return x * cosine + torch.cat([-second, first], -1) * sine


class RmsNorm(nn.Module):
    """x / sqrt(mean(x²) + eps), scaled."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(WIDTH) + 0.5)

    def forward(self, x: Tensor) -> Tensor:
        """Return `x` normalised."""
        return self.weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)


class Layer(nn.Module):
    """Attention over a cache, and a gated feed-forward layer, as in Llama."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = RmsNorm(), RmsNorm()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.out = nn.Linear(WIDTH, WIDTH, bias=False)
        self.gate, self.up = (nn.Linear(WIDTH, 2 * WIDTH, bias=False) for _ in range(2))
        self.down = nn.Linear(2 * WIDTH, WIDTH, bias=False)

    def heads(self, x: Tensor, position: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return queries, keys and values [1, heads, n, head], turned."""
        q, k, v = (part.view(1, -1, HEADS, HEAD).transpose(1, 2) for part in self.qkv(self.norm1(x)).chunk(3, -1))
        return rotate(q, position), rotate(k, position), v

    def finish(self, x: Tensor, attended: Tensor) -> Tensor:
        """Return the layer's output for what attention gave."""
        x = x + self.out(attended.transpose(1, 2).reshape(1, -1, WIDTH))
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Decoder(nn.Module):
    """What the decoders share."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm = RmsNorm()

    def logits(self, x: Tensor) -> Tensor:
        """Return scores by the embedding's own rows."""
        return F.linear(self.norm(x), self.embedding.weight)


class StatefulDecoder(Decoder):
    """Keeps keys, values and its position in buffers: one call a token, nothing else goes in."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("position", torch.zeros(1, dtype=torch.int64))
        self.register_buffer("keys", torch.zeros(LAYERS, 1, HEADS, LENGTH, HEAD))
        self.register_buffer("values", torch.zeros(LAYERS, 1, HEADS, LENGTH, HEAD))

    def forward(self, token: Tensor) -> Tensor:
        """Return the scores [1, 1, vocabulary] of the token after `token` [1, 1]."""
        position, keys, values = (self.get_buffer(name) for name in ("position", "keys", "values"))
        x = self.embedding(token)
        mask = torch.arange(LENGTH)[None, None, None, :] <= position
        for index, layer in enumerate(self.layers):
            q, k, v = layer.heads(x, position)
            keys[index].index_copy_(2, position, k)
            values[index].index_copy_(2, position, v)
            x = layer.finish(x, F.scaled_dot_product_attention(q, keys[index], values[index], attn_mask=mask))
        position.add_(1)
        return self.logits(x)


class CachePassingDecoder(Decoder):
    """Takes the caches and gives them back, one place longer."""

    def forward(self, token: Tensor, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return scores and caches [layers, 1, heads, n + 1, head]."""
        x = self.embedding(token)
        position = torch.full((1,), keys.shape[3])
        new_keys, new_values = [], []
        for index, layer in enumerate(self.layers):
            q, k, v = layer.heads(x, position)
            k, v = torch.cat([keys[index], k], 2), torch.cat([values[index], v], 2)
            x = layer.finish(x, F.scaled_dot_product_attention(q, k, v))
            new_keys.append(k)
            new_values.append(v)
        return self.logits(x), torch.stack(new_keys), torch.stack(new_values)


class FixedCacheDecoder(Decoder):
    """Takes caches of full length and the position, writes its row by `index_put`, gives them back."""

    def forward(self, token: Tensor, position: Tensor, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return scores and caches of the same shapes."""
        x = self.embedding(token)
        mask = torch.where(torch.arange(LENGTH) <= position, 0.0, float("-inf"))[None, None, None, :]
        new_keys, new_values = [], []
        for index, layer in enumerate(self.layers):
            q, k, v = layer.heads(x, position)
            k, v = (torch.index_copy(cache[index], 2, position, row) for cache, row in ((keys, k), (values, v)))
            scores = q @ k.transpose(-1, -2) / HEAD**0.5 + mask
            x = layer.finish(x, scores.softmax(-1) @ v)
            new_keys.append(k)
            new_values.append(v)
        return self.logits(x), torch.stack(new_keys), torch.stack(new_values)


class StatefulGru(nn.Module):
    """A GRU cell with its hidden state in a buffer; the best token comes back."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.cell = nn.GRUCell(WIDTH, WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY)
        self.register_buffer("hidden", torch.zeros(1, WIDTH))

    def forward(self, token: Tensor) -> tuple[Tensor, Tensor]:
        """Return the most likely next token [1] and all scores."""
        hidden = self.get_buffer("hidden")
        hidden.copy_(self.cell(self.embedding(token), hidden))
        scores = self.head(hidden)
        return scores.argmax(-1), scores


def token_after_token() -> list[Call]:
    """Return five calls with one token each."""
    return [(torch.randint(VOCABULARY, (1, 1)),) for _ in range(5)]


def passed_caches() -> list[Call]:
    """Return one call with caches of seven places."""
    shape = (LAYERS, 1, HEADS, 7, HEAD)
    return [(torch.randint(VOCABULARY, (1, 1)), torch.randn(shape), torch.randn(shape))]


def fixed_caches() -> list[Call]:
    """Return two calls at different positions."""
    shape = (LAYERS, 1, HEADS, LENGTH, HEAD)
    return [
        (torch.randint(VOCABULARY, (1, 1)), torch.tensor([at]), torch.randn(shape), torch.randn(shape)) for at in (0, 9)
    ]


ARCHITECTURES = (
    Architecture("decoder-state", "decoder", StatefulDecoder, token_after_token),
    Architecture("decoder-cache-grows", "decoder", CachePassingDecoder, passed_caches),
    Architecture("decoder-cache-fixed", "decoder", FixedCacheDecoder, fixed_caches),
    Architecture(
        "decoder-gru-state", "decoder", StatefulGru, lambda: [(torch.randint(VOCABULARY, (1,)),) for _ in range(4)]
    ),
)
