"""Defines the network that is trained: a causal transformer over the items of a history, which share attribute vectors.

SASRec (Kang and McAuley, 2018) with one block, and: attention adds a learned number for how far back an item is, where
SASRec adds a vector for its place (Raffel et al., 2020); every history begins with a start vector, so that one without
items has an answer too, the popularity that training saw; an item's vector is its own plus those of its attributes; and
a column for how popular it is.  Trained with a softmax over the item that came next and drawn ones (`train.loss_of`).
"""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import torch
from alcove.features.feed_ranking.config import HISTORY, ModelConfig
from torch import Tensor, nn
from torch.nn import functional

NONE: Final = -1e9
"""Added to a score that attention must not see."""
FALL: Final = 0.1
"""By which the first head's attention falls with each item further back, at first; the next head's by a quarter."""


class ItemTable(nn.Module):
    """Vectors of items, with those of their attributes, and how popular each one is.

    Args:
        counts: how often each row's item was touched, int64 [rows]; row 0 is no item.
        attributes: of rows, numbers from 0.
        dim: of a vector.
    """

    lengths: Tensor
    begins: Tensor
    flat: Tensor

    def __init__(self, counts: np.ndarray, attributes: Mapping[int, Sequence[int]], dim: int) -> None:
        super().__init__()
        lengths = np.zeros(len(counts), np.int64)
        for row, values in attributes.items():
            lengths[row] = len(values)
        flat = [value for row in sorted(attributes) for value in attributes[row]]
        self.register_buffer("lengths", torch.from_numpy(lengths), persistent=False)
        self.register_buffer("begins", torch.from_numpy(np.cumsum(lengths) - lengths), persistent=False)
        self.register_buffer("flat", torch.tensor(flat, dtype=torch.int64), persistent=False)
        logs = np.log(counts + 0.5)
        start = torch.randn(len(counts), dim + 1) * 0.05
        start[:, -1] = torch.from_numpy((logs - logs[1:].mean()).astype(np.float32))
        start[0] = 0.0
        self.own = nn.Parameter(start)
        self.shared = nn.Parameter(torch.randn(max(flat, default=0) + 1, dim + 1) * 0.05)
        with torch.no_grad():
            self.shared[:, -1] = 0.0
        self.has_attributes = bool(flat)

    def forward(self, rows: Tensor) -> Tensor:
        """Return vectors and popularity f32 [..., dim + 1] of rows int64 [...]."""
        found: Tensor = functional.embedding(rows, self.own)
        if not self.has_attributes:
            return found
        wanted = rows.reshape(-1)
        lengths = self.lengths[wanted]
        offsets = torch.cumsum(lengths, 0) - lengths
        places = torch.repeat_interleave(self.begins[wanted] - offsets, lengths)
        places = places + torch.arange(len(places), device=places.device)
        shared = functional.embedding_bag(self.flat[places], self.shared, offsets, mode="sum")
        # By the root of their number: the sum of many would drown the item's own.
        shared = shared / lengths.clamp_min(1).sqrt()[:, None]
        return found + shared.reshape(found.shape)

    @torch.no_grad()
    def fold(self) -> Tensor:
        """Return the whole table f32 [rows, dim + 1], attributes within: what a device gets; row 0 is zero."""
        table: Tensor = self(torch.arange(len(self.own), device=self.own.device))
        table[0] = 0.0
        return table


class Encoder(nn.Module):
    """Vectors of a history to what comes next.

    Args:
        config: dim, heads, hidden.
        dropout: share of the numbers that training leaves out.
    """

    def __init__(self, config: ModelConfig, dropout: float = 0.0) -> None:
        super().__init__()
        dim = config.dim
        self.heads, self.dropout = config.heads, dropout
        self.start = nn.Parameter(torch.randn(1, dim) * 0.05)
        falls = FALL * 4.0 ** -torch.arange(config.heads)
        self.near = nn.Parameter(-falls * torch.arange(HISTORY + 1)[:, None])
        self.before = nn.LayerNorm(dim)
        self.first = nn.LayerNorm(dim)
        self.second = nn.LayerNorm(dim)
        self.last = nn.LayerNorm(dim)
        self.query, self.key, self.value = (nn.Linear(dim, dim) for _ in range(3))
        self.mix = nn.Linear(dim, dim)
        self.wide, self.narrow = nn.Linear(dim, config.hidden), nn.Linear(config.hidden, dim)
        self.out = nn.Linear(dim, dim)

    def read(self, vectors: Tensor) -> Tensor:
        """Return what attention reads, f32 [n, t + 1, dim], of items f32 [n, t, dim]; the start comes before them."""
        start = self.start.expand(vectors.shape[0], 1, -1)
        return self._drop(self.before(torch.cat([start, vectors], dim=1)))

    def finish_block(self, residual: Tensor, seen: Tensor) -> Tensor:
        """Return the user vectors [..., dim] of what was read and what attention saw."""
        x = residual + self._drop(self.mix(seen))
        x = x + self._drop(self.narrow(self._drop(functional.relu(self.wide(self.second(x))))))
        result: Tensor = self.out(self.last(x))
        return result

    def split(self, x: Tensor) -> Tensor:
        """Return [n, t, dim] as [n, heads, t, dim / heads]."""
        n, t, dim = x.shape
        return x.reshape(n, t, self.heads, dim // self.heads).transpose(1, 2)

    def forward(self, vectors: Tensor) -> Tensor:
        """Return a user vector after the start and after each item, f32 [n, t + 1, dim], of items f32 [n, t, dim]."""
        x = self.read(vectors)
        normal = self.first(x)
        place = torch.arange(x.shape[1], device=x.device)
        distance = place[:, None] - place
        near = functional.embedding(distance.clamp_min(0), self.near).permute(2, 0, 1)
        seen = functional.scaled_dot_product_attention(
            self.split(self.query(normal)),
            self.split(self.key(normal)),
            self.split(self.value(normal)),
            attn_mask=near.masked_fill(distance < 0, NONE)[None],
        )
        return self.finish_block(x, seen.transpose(1, 2).reshape(x.shape))

    def _drop(self, x: Tensor) -> Tensor:
        return functional.dropout(x, self.dropout, self.training)


class FeedRankingNetwork(nn.Module):
    """Items, and what comes next: all that is trained.

    Args:
        config: shape.
        counts: for `ItemTable`.
        attributes: for `ItemTable`.
        dropout: for `Encoder`.
    """

    def __init__(
        self, config: ModelConfig, counts: np.ndarray, attributes: Mapping[int, Sequence[int]], dropout: float
    ) -> None:
        super().__init__()
        self.items = ItemTable(counts, attributes, config.dim)
        self.encoder = Encoder(config, dropout)

    def states(self, _users: Tensor, rows: Tensor) -> Tensor:
        """Return user vectors f32 [n, t + 1, dim] of histories int64 [n, t], after each item and before the first."""
        states: Tensor = self.encoder(self.items(rows)[..., :-1])
        return states

    def rows(self, rows: Tensor) -> Tensor:
        """Return vectors and popularity f32 [..., dim + 1] of rows."""
        found: Tensor = self.items(rows)
        return found
