"""Recommendation: bags of ids, interactions, sequences."""

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


class DeepFm(nn.Module):
    """Second-order interactions by the square of sums minus the sum of squares (Guo et al. 2017, equation 2)."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Embedding(100, 1)
        self.second = nn.Embedding(100, 8)
        self.deep = mlp(5 * 8, 32, 1)

    def forward(self, ids: Tensor) -> Tensor:
        """Return probabilities [N] for ids [N, 5]."""
        v = self.second(ids)
        pairs = 0.5 * (v.sum(1).pow(2) - v.pow(2).sum(1)).sum(1)
        return torch.sigmoid(self.first(ids).sum((1, 2)) + pairs + self.deep(v.flatten(1)).squeeze(1))


class SasRec(nn.Module):
    """Causal attention over the last items (Kang and McAuley 2018), padding masked; candidates are ranked."""

    def __init__(self, items: int = 100, length: int = 12, width: int = 16) -> None:
        super().__init__()
        self.items = nn.Embedding(items, width, padding_idx=0)
        self.positions = nn.Embedding(length, width)
        self.attention = nn.ModuleList(nn.MultiheadAttention(width, 2, batch_first=True) for _ in range(2))
        self.norms = nn.ModuleList(nn.LayerNorm(width, eps=1e-8) for _ in range(5))
        self.feed = nn.ModuleList(
            nn.Sequential(nn.Conv1d(width, width, 1), nn.ReLU(), nn.Conv1d(width, width, 1)) for _ in range(2)
        )
        self.register_buffer("causal", ~torch.tril(torch.ones(length, length, dtype=torch.bool)))

    def forward(self, history: Tensor, candidates: Tensor) -> tuple[Tensor, Tensor]:
        """Return the three best scores [N, 3] and their places among the candidates [N, C]; id 0 is padding."""
        x = self.items(history) * self.items.embedding_dim**0.5
        x = x + self.positions(torch.arange(history.shape[1]))
        seen = (history != 0).unsqueeze(-1)
        x = x * seen
        for i in range(2):
            query = self.norms[2 * i](x)
            mixed, _ = self.attention[i](query, x, x, attn_mask=self.get_buffer("causal"), need_weights=False)
            x = self.norms[2 * i + 1](query + mixed)
            x = (x + self.feed[i](x.transpose(1, 2)).transpose(1, 2)) * seen
        last = self.norms[4](x)[:, -1]
        scores = (self.items(candidates) @ last.unsqueeze(-1)).squeeze(-1)
        best = torch.topk(scores, 3)
        return best.values, best.indices


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


class DinAttention(nn.Module):
    """Deep interest network: each past item weighs by a small network of it and the candidate (Zhou et al. 2018)."""

    def __init__(self) -> None:
        super().__init__()
        self.items = nn.Embedding(50, 8)
        self.weigh = nn.Sequential(nn.Linear(32, 16), nn.PReLU(), nn.Linear(16, 1))
        self.head = mlp(24, 16, 2)

    def forward(self, history: Tensor, length: Tensor, candidate: Tensor) -> Tensor:
        """Return log-probabilities [N, 2]."""
        past, now = self.items(history), self.items(candidate)
        both = now.unsqueeze(1).expand_as(past)
        scores = self.weigh(torch.cat([past, both, past - both, past * both], -1)).squeeze(-1)
        mask = torch.arange(history.shape[1]) < length[:, None]
        weights = scores.masked_fill(~mask, -1e9).softmax(-1)
        interest = torch.einsum("nt,ntc->nc", weights, past)
        return F.log_softmax(self.head(torch.cat([interest, now, interest * now], 1)), -1)


def dlrm_inputs() -> list[Call]:
    """Return one call: bags of different lengths, one empty."""
    offsets = torch.tensor([[0, 2, 2, 5], [0, 1, 4, 6], [0, 3, 5, 7]])
    return [(torch.randn(4, 13), torch.randint(50, (3, 9)), offsets)]


def sasrec_inputs() -> list[Call]:
    """Return one call with padded histories."""
    history = torch.randint(1, 100, (2, 12))
    history[0, :4] = 0
    return [(history, torch.randint(1, 100, (2, 8)))]


ARCHITECTURES = (
    Architecture("dlrm", "recommendation", Dlrm, dlrm_inputs),
    Architecture(
        "wide-and-deep", "recommendation", WideAndDeep, lambda: [(torch.randn(4, 4), torch.randint(10, (4, 3)))]
    ),
    Architecture("deepfm", "recommendation", DeepFm, lambda: [(torch.randint(100, (4, 5)),)]),
    Architecture("sasrec", "recommendation", SasRec, sasrec_inputs),
    Architecture(
        "two-tower",
        "recommendation",
        TwoTower,
        lambda: [(torch.randint(60, (3, 6)), torch.rand(3, 6), torch.randint(60, (5, 4)))],
    ),
    Architecture(
        "din",
        "recommendation",
        DinAttention,
        lambda: [(torch.randint(50, (3, 7)), torch.tensor([7, 2, 4]), torch.randint(50, (3,)))],
    ),
)
