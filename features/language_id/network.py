"""The trainable part of the model: a bag of n-gram ids to one score per language."""

import torch
from alcove.features.language_id.config import LANGUAGES, ModelConfig
from torch import Tensor, nn
from torch.nn import functional


class LanguageIdNetwork(nn.Module):
    """Mean of the rows of a table, perhaps a hidden layer with ReLU, one score per language.

    The table starts near zero, so that an n-gram that training never met adds next to nothing.

    Args:
        config: gives buckets, dim and hidden.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.table = nn.EmbeddingBag(config.buckets, config.dim, mode="mean")
        nn.init.normal_(self.table.weight, std=0.01)
        self.hidden = nn.Linear(config.dim, config.hidden) if config.hidden else None
        self.out = nn.Linear(config.hidden or config.dim, len(LANGUAGES))

    def scores(self, mean: Tensor) -> Tensor:
        """Return the scores f32[n, 75] of bag means f32[n, dim]."""
        if self.hidden is not None:
            mean = functional.relu(self.hidden(mean))
        scores: Tensor = self.out(mean)
        return scores

    def forward(self, ids: Tensor, offsets: Tensor, table: Tensor | None = None) -> Tensor:
        """Return the scores f32[n, 75] of n bags.

        Args:
            ids: int32 or int64 ids of all bags, one after the other.
            offsets: where each bag begins.
            table: used instead of the own one (a quantised copy in training).
        """
        weight = self.table.weight if table is None else table
        return self.scores(functional.embedding_bag(ids, weight, offsets, mode="mean"))


def quantised(table: Tensor) -> Tensor:
    """Return `table` as the program stores it: int8, one symmetric scale per column; the gradient passes through."""
    with torch.no_grad():
        scale = table.abs().amax(dim=0).clamp_min(1e-12) / 127
        rounded = torch.round(table / scale) * scale
    return table + (rounded - table).detach()
