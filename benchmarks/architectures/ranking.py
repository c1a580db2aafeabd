"""Builds models of recommendation: bags of ids, interactions, sequences."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - as everybody calls it

from benchmarks.architectures.registry import Architecture, Call


def mlp(*widths: int) -> nn.Sequential:
    """Return linear layers with ReLU between them."""
    layers: list[nn.Module] = []
    for before, after in pairwise(widths):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


class Dlrm(nn.Module):
    """Dense features, bags of ids with offsets, and the dot products between all (Naumov et al. 2019, figure 1)."""

    def __init__(self) -> None:
        super().__init__()
        self.bottom, self.top = mlp(13, 32, 16), mlp(16 + 6, 32, 1)
        self.bags = nn.ModuleList(nn.EmbeddingBag(50, 16, mode="sum") for _ in range(3))
        rows, columns = torch.tril_indices(4, 4, -1)
        self.register_buffer("rows", rows)
        self.register_buffer("columns", columns)

    def forward(self, dense: Tensor, ids: Tensor, offsets: Tensor) -> Tensor:
        """Return click probabilities [N, 1]; ids [3, n], offsets [3, N]."""
        x = self.bottom(dense)
        vectors = [x, *(bag(ids[index], offsets[index]) for index, bag in enumerate(self.bags))]
        stacked = torch.stack(vectors, 1)
        products = torch.bmm(stacked, stacked.transpose(1, 2))
        pairs = products[:, self.get_buffer("rows"), self.get_buffer("columns")]
        return torch.sigmoid(self.top(torch.cat([x, pairs], 1)))


class WideAndDeep(nn.Module):
    """A linear model over crossed ids beside a deep one over embeddings (Cheng et al. 2016, figure 1)."""

    def __init__(self) -> None:
        super().__init__()
        self.wide = nn.EmbeddingBag(200, 1, mode="sum")
        self.embeddings = nn.ModuleList(nn.Embedding(size, 8) for size in (30, 20, 10))
        self.deep = mlp(24 + 4, 32, 16, 1)

    def forward(self, numbers: Tensor, categories: Tensor) -> Tensor:
        """Return probabilities [N]; categories [N, 3]."""
        crossed = torch.stack(
            [(categories[:, i] * 31 + categories[:, j] * 7) % 200 for i, j in ((0, 1), (0, 2), (1, 2))], 1
        )
        deep = [table(categories[:, index]) for index, table in enumerate(self.embeddings)]
        y: Tensor = self.wide(crossed) + self.deep(torch.cat([*deep, numbers], 1))
        return torch.sigmoid(y).squeeze(1)


class TwoTower(nn.Module):
    """Weighted bags on both sides, cosines between users and items."""

    def __init__(self) -> None:
        super().__init__()
        self.user = nn.EmbeddingBag(60, 16, mode="sum")
        self.item = nn.EmbeddingBag(60, 16, mode="max")
        self.user_net, self.item_net = mlp(16, 32, 8), mlp(16, 32, 8)

    def forward(self, history: Tensor, weights: Tensor, features: Tensor) -> Tensor:
        """Return cosines [users, items]; history and weights [users, n], features [items, m]."""
        users = F.normalize(self.user_net(self.user(history, per_sample_weights=weights)), dim=-1)
        items = F.normalize(self.item_net(self.item(features)), dim=-1)
        return users @ items.t()


def dlrm_inputs() -> list[Call]:
    """Return one call: bags of different lengths, one empty."""
    offsets = torch.tensor([[0, 2, 2, 5], [0, 1, 4, 6], [0, 3, 5, 7]])
    return [(torch.randn(4, 13), torch.randint(50, (3, 9)), offsets)]


ARCHITECTURES = (
    Architecture("dlrm", "recommendation", Dlrm, dlrm_inputs),
    Architecture(
        "wide-and-deep", "recommendation", WideAndDeep, lambda: [(torch.randn(4, 4), torch.randint(10, (4, 3)))]
    ),
    Architecture(
        "two-tower",
        "recommendation",
        TwoTower,
        lambda: [(torch.randint(60, (3, 6)), torch.rand(3, 6), torch.randint(60, (5, 4)))],
    ),
)
