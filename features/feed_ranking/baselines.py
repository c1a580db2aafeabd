"""Defines the networks compared with the feature, GRU4Rec and FPMC, trained with the same loss and draws.

No attributes reach them, as in their papers.  What is compared is what the models see, not the losses with one drawn
item (BPR) that they were first trained with.
"""

import numpy as np
import torch
from alcove.features.feed_ranking.network import ItemTable
from torch import Tensor, nn
from torch.nn import functional


class Gru4Rec(nn.Module):
    """A recurrent layer over the items (Hidasi et al., 2016; softmax over drawn items: Hidasi and Karatzoglou, 2018).

    Args:
        counts: how often each row's item was touched.
        dim: of an item's vector, and of the layer.
        dropout: share of the numbers that training leaves out.
    """

    def __init__(self, counts: np.ndarray, dim: int, dropout: float) -> None:
        super().__init__()
        self.items = ItemTable(counts, {}, dim)
        self.start = nn.Parameter(torch.randn(1, dim) * 0.05)
        self.layer = nn.GRU(dim, dim, batch_first=True)
        self.out = nn.Linear(dim, dim)
        self.dropout = dropout

    def states(self, _users: Tensor, rows: Tensor) -> Tensor:
        """Return vectors f32 [n, t + 1, dim], before the first item and after each."""
        vectors = self.items(rows)[..., :-1]
        read = torch.cat([self.start.expand(len(rows), 1, -1), vectors], dim=1)
        seen, _ = self.layer(functional.dropout(read, self.dropout, self.training))
        states: Tensor = self.out(functional.dropout(seen, self.dropout, self.training))
        return states

    def rows(self, rows: Tensor) -> Tensor:
        """Return vectors and popularity f32 [..., dim + 1]."""
        found: Tensor = self.items(rows)
        return found


class Fpmc(nn.Module):
    """Factorised first-order Markov chains: a user's vector and the last item's, each with vectors of the next one.

    Rendle, Freudenthaler and Schmidt-Thieme, "Factorizing Personalized Markov Chains", 2010.

    Args:
        counts: how often each row's item was touched.
        users: how many there are.
        dim: of the user's vector, and of the last item's.
        dropout: share of the numbers that training leaves out.
    """

    def __init__(self, counts: np.ndarray, users: int, dim: int, dropout: float) -> None:
        super().__init__()
        self.users = nn.Embedding(users + 1, dim)
        self.last = nn.Embedding(len(counts), dim)
        self.items = ItemTable(counts, {}, 2 * dim)
        self.dropout = dropout
        nn.init.normal_(self.users.weight, std=0.05)
        nn.init.normal_(self.last.weight, std=0.05)

    def states(self, users: Tensor, rows: Tensor) -> Tensor:
        """Return vectors f32 [n, t + 1, 2 dim]; a user without a line, -1, is one of their own."""
        before = functional.pad(rows, (1, 0))
        own = self.users(users + 1)[:, None].expand(-1, before.shape[1], -1)
        return functional.dropout(torch.cat([own, self.last(before)], dim=-1), self.dropout, self.training)

    def rows(self, rows: Tensor) -> Tensor:
        """Return vectors and popularity f32 [..., 2 dim + 1]."""
        found: Tensor = self.items(rows)
        return found
