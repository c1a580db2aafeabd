"""Defines the whole model that is exported: ids of a history and of candidates in, scores out.

The table is in the program, in int8.  Items that came later are rows of an input, numbered on from the table's last, so
that a program need not change for them.  A row of zeros is no item.  What a request says beside ids goes through as it
came: an answer is read from outputs alone.
"""

import math
from typing import NamedTuple

import torch
from alcove.features.feed_ranking.config import HISTORY, ModelConfig
from alcove.features.feed_ranking.network import NONE, Encoder
from torch import Tensor, nn
from torch.nn import functional


class Ranked(NamedTuple):
    """What the program gives; c is the number of candidates.

    Attributes:
        scores: logarithms of odds, up to a constant of the request, f32 [1, c]; 0 for what is no item.
        users: the user vector, f32 [1, 51, dim]: first of the whole history, then without each of its items.
        rows: vectors and popularity of the candidates, f32 [1, c, dim + 1]; zeros for what is no item.
        known: 1.0 for each item of the history that has a row, f32 [1, 50].
        history: as it came in.
        candidates: as they came in.
        signals: as they came in.
        weights: as they came in.
    """

    scores: Tensor
    users: Tensor
    rows: Tensor
    known: Tensor
    history: Tensor
    candidates: Tensor
    signals: Tensor
    weights: Tensor


class FeedRankingModule(nn.Module):
    """Table and encoder.

    Args:
        config: shape.
        rows: of the table, with row 0, which is no item.
    """

    def __init__(self, config: ModelConfig, rows: int) -> None:
        super().__init__()
        self.config = config
        self.count = rows
        self.dim = config.dim
        self.table = nn.Embedding(rows, config.dim + 1)
        self.encoder = Encoder(config)

    def item_rows(self, ids: Tensor, added: Tensor) -> Tensor:
        """Return vectors and popularity f32 [n, dim + 1] of ids int64 [n]; zeros for ids that no row has."""
        of_table = self.table(torch.where((ids >= 0) & (ids < self.count), ids, 0))
        later = ids - self.count
        is_added = (later >= 0) & (later < added.shape[0])
        of_added = functional.embedding(torch.where(is_added, later, 0), added)
        return torch.where(is_added[:, None], of_added, of_table)

    def user_vectors(self, vectors: Tensor, known: Tensor) -> Tensor:
        """Return user vectors f32 [51, dim]: of the whole history, then without each item.

        Without an item means that attention does not see it, and that the one before it asks if it was the last.

        Args:
            vectors: of the history, f32 [50, dim].
            known: 1.0 for the items to read, f32 [50].
        """
        encoder = self.encoder
        # The start is always there, at place 0; places count what is read.
        seen = torch.cat([known.new_ones(1), known])
        place = torch.cumsum(seen, dim=0)
        read = torch.cat([encoder.start, vectors])
        x = encoder.before(read)
        from_end = seen * (seen.sum() - place + 1)  # 1 for the last that is read, 2 for the one before it
        asking = torch.stack([(from_end == 1).float(), (from_end == 2).float()]) @ x  # [2, dim]
        normal = encoder.first(x)
        query = encoder.split(encoder.query(encoder.first(asking))[None])[0]  # [heads, 2, dim / heads]
        key = encoder.split(encoder.key(normal)[None])[0]
        value = encoder.split(encoder.value(normal)[None])[0]
        # How far each item is from the one that asks.
        far = torch.stack([torch.relu(from_end - 1), torch.relu(from_end - 2)]).long()  # [2, 51]
        near = functional.embedding(far, encoder.near).permute(2, 0, 1)  # [heads, 2, 51]
        logits = query @ key.transpose(1, 2) / math.sqrt(query.shape[-1]) + near + (1 - seen) * NONE  # [heads, 2, 51]
        is_last = ((from_end == 1) & (place > 1)).float()[:, None]  # [51, 1], by what is left out
        hidden = torch.eye(HISTORY + 1)
        hidden[0, 0] = 0.0
        every = logits[:, :1] * (1 - is_last) + logits[:, 1:] * is_last + hidden * NONE  # [heads, 51, 51]
        mixed = (torch.softmax(every, dim=-1) @ value).transpose(0, 1).reshape(HISTORY + 1, self.dim)
        return encoder.finish_block(asking[:1] * (1 - is_last) + asking[1:] * is_last, mixed)

    def forward(  # noqa: PLR0917 (the program's inputs, in order)
        self, history: Tensor, candidates: Tensor, added: Tensor, offset: Tensor, signals: Tensor, weights: Tensor
    ) -> Ranked:
        """Return scores, and what explains them.

        Args:
            history: ids, the latest last, 0 where there is none, int64 [1, 50].
            candidates: ids, int64 [1, c], 1 to 1,000 of them.
            added: rows of items beyond the table, f32 [a, dim + 1]; one row of zeros for none.
            offset: of the user vector, learned on the device; zeros for none, f32 [1, dim].
            signals: of candidates, f32 [1, c, 2].
            weights: of the re-ranking, f32 [1, 4].
        """
        past = self.item_rows(history[0], added)
        known = (past.abs().sum(dim=-1) > 0).float()
        users = self.user_vectors(past[:, :-1] * known[:, None], known) + offset
        rows = self.item_rows(candidates[0], added)
        scores = (rows[:, :-1] @ users[0][:, None])[:, 0] + rows[:, -1]
        return Ranked(
            scores[None], users[None], rows[None], known[None], history * 1, candidates * 1, signals * 1, weights * 1
        )
