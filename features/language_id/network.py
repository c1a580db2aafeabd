"""Defines the part of the model that is trained: a bag of n-gram ids to one score per language."""

from typing import Final

import torch
from alcove.features.language_id.config import LANGUAGES, ModelConfig
from torch import Tensor, nn
from torch.nn import functional

BOUND: Final = 80.0
"""How far under the best score another can be: exp(-80) is still a normal f32."""

COUNTED_FROM: Final = 8.0
FIRST_WEIGHT, FIRST_SIZE, FIRST_SLOPE = 0.5, -3.0, -0.5
"""At the start a word's rows are about averaged, and longer texts give larger scores."""


class LanguageIdNetwork(nn.Module):
    """Rows of a table, added up, perhaps a hidden layer with ReLU, one score per language.

    The table starts near zero, so that an n-gram that training never met adds next to nothing.  Without `weighs` the
    sum is divided by the number of n-grams.  With it the last column is how much each n-gram counts, e their sum (or 0,
    where that is negative), and with l = log(1 + e / 8) the scores are

        s = W (sum of the other columns) exp(a + b l) + c

    a and b are learned with the table.  An answer is the softmax of h - max h, with

        h = s exp(sum of p_i t_i),  p = softmax s

    bounded below by -80 (`compress_scores`).  The t_i of the languages i, the temperature, are fitted afterwards
    (calibrate.py), so that a word and a page, Croatian and Korean get honest probabilities.  It changes no order, and
    the bound keeps the least likely language's probability above what f32 can hold: which language comes second never
    depends on how a machine rounds to zero.

    Args:
        config: gives buckets, dim, hidden and weighs.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.weighs = config.weighs
        self.table = nn.EmbeddingBag(config.buckets, config.dim, mode="sum" if config.weighs else "mean")
        nn.init.normal_(self.table.weight, std=0.01)
        columns = config.dim - config.weighs
        self.hidden = nn.Linear(columns, config.hidden) if config.hidden else None
        self.out = nn.Linear(config.hidden or columns, len(LANGUAGES))
        if config.weighs:
            with torch.no_grad():
                self.table.weight[:, -1] = FIRST_WEIGHT
            self.size = nn.Parameter(torch.tensor([FIRST_SIZE]))
            self.slope = nn.Parameter(torch.tensor([FIRST_SLOPE]))
            self.temperature = nn.Parameter(torch.zeros(len(LANGUAGES)), requires_grad=False)

    def scores(self, bag: Tensor) -> Tensor:
        """Return the scores f32[n, 75] of what the table gives for n bags, f32[n, dim]."""
        if not self.weighs:
            return self._layers(bag)
        return self._layers(bag[:, :-1] * torch.exp(self.slope * log_known(bag) + self.size))

    def _layers(self, bag: Tensor) -> Tensor:
        if self.hidden is not None:
            bag = functional.relu(self.hidden(bag))
        scores: Tensor = self.out(bag)
        return scores

    def forward(self, ids: Tensor, offsets: Tensor) -> Tensor:
        """Return what the probabilities of n bags are the softmax of, f32[n, 75].

        Args:
            ids: int32 or int64 ids of all bags, one after the other.
            offsets: where each bag begins.
        """
        bag = functional.embedding_bag(ids, self.table.weight, offsets, mode=self.table.mode)
        if not self.weighs:
            return self.scores(bag)
        return apply_temperature(self.scores(bag), self.temperature)

    def learn(self, ids: Tensor, offsets: Tensor, table: Tensor | None = None) -> Tensor:
        """Return the scores f32[n, 75] that training compares, without temperature and bound.

        Args:
            ids: as for `forward`.
            offsets: likewise.
            table: used instead of the own one (a quantized copy).
        """
        weight = self.table.weight if table is None else table
        return self.scores(functional.embedding_bag(ids, weight, offsets, mode=self.table.mode))


def apply_temperature(scores: Tensor, temperature: Tensor) -> Tensor:
    """Return what the probabilities are the softmax of, f32 [n, 75]: in the scores' order.

    Args:
        scores: f32 [n, 75].
        temperature: f32 [75], logarithms of factors, which count by the languages' probabilities.
    """
    logarithms = (functional.softmax(scores, dim=1) * temperature).sum(dim=1, keepdim=True)
    return compress_scores(scores * torch.exp(logarithms))


def compress_scores(scores: Tensor) -> Tensor:
    """Return how far scores are under the best of theirs, in (-80, 0], in the same order, little ones as they are."""
    under = scores - scores.amax(dim=1, keepdim=True)
    return under / (1 - under / BOUND)


def log_known(bag: Tensor) -> Tensor:
    """Return l = log(1 + e / 8), f32[n, 1], of sums f32[n, dim] whose last column is e."""
    return torch.log(functional.relu(bag[:, -1:]) / COUNTED_FROM + 1)


def fake_quantize(table: Tensor) -> Tensor:
    """Return `table` as the program stores it: int8, one symmetric scale per column; the gradient passes through."""
    with torch.no_grad():
        scale = table.abs().amax(dim=0).clamp_min(1e-12) / 127
        rounded = torch.round(table / scale) * scale
    return table + (rounded - table).detach()
