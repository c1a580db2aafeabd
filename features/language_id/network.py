"""The trainable part of the model: a bag of n-gram ids to one score per language."""

from typing import Final

import torch
from alcove.features.language_id.config import LANGUAGES, ModelConfig
from torch import Tensor, nn
from torch.nn import functional

TEMPERATURE: Final = ("t0", "t1", "t2")
"""Names of the parameters of the temperature."""

COUNTED_FROM: Final = 8.0
FIRST_WEIGHT, FIRST_SIZE, FIRST_SLOPE = 0.5, -3.0, -0.5
"""At the start a word's rows are about averaged, and longer texts give larger scores."""


class LanguageIdNetwork(nn.Module):
    """Rows of a table, added up, perhaps a hidden layer with ReLU, one score per language.

    The table starts near zero, so that an n-gram that training never met adds next to nothing.  Without `weighs` the
    sum is divided by the number of n-grams.  With it the last column is how much each n-gram counts, e their sum (or 0,
    where that is negative), and with l = log(1 + e / 8) the scores are

        (W (sum of the other columns) exp(a + b l) + c) exp(t0 + t1 l + t2 l²)

    a and b are learned with the table; t, the temperature, is fitted afterwards (calibrate.py), so that a word and a
    page both get honest probabilities.  Until then it is 1.

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
            for name in TEMPERATURE:
                self.register_parameter(name, nn.Parameter(torch.zeros(1), requires_grad=False))

    def scores(self, bag: Tensor) -> Tensor:
        """Return the scores f32[n, 75] of what the table gives for n bags, f32[n, dim]."""
        if not self.weighs:
            return self._layers(bag)
        known = known_of(bag)
        plain = self._layers(bag[:, :-1] * torch.exp(self.slope * known + self.size))
        return plain * self.temperature(known)

    def temperature(self, known: Tensor) -> Tensor:
        """Return what the scores of a text with `known` l are multiplied with, f32[n, 1]."""
        t0, t1, t2 = (self.get_parameter(name) for name in TEMPERATURE)
        return torch.exp(known * (known * t2 + t1) + t0)

    def _layers(self, bag: Tensor) -> Tensor:
        if self.hidden is not None:
            bag = functional.relu(self.hidden(bag))
        scores: Tensor = self.out(bag)
        return scores

    def forward(self, ids: Tensor, offsets: Tensor, table: Tensor | None = None) -> Tensor:
        """Return the scores f32[n, 75] of n bags.

        Args:
            ids: int32 or int64 ids of all bags, one after the other.
            offsets: where each bag begins.
            table: used instead of the own one (a quantised copy in training).
        """
        weight = self.table.weight if table is None else table
        return self.scores(functional.embedding_bag(ids, weight, offsets, mode=self.table.mode))


def known_of(bag: Tensor) -> Tensor:
    """Return l = log(1 + e / 8), f32[n, 1], of sums f32[n, dim] whose last column is e."""
    return torch.log(functional.relu(bag[:, -1:]) / COUNTED_FROM + 1)


def quantised(table: Tensor) -> Tensor:
    """Return `table` as the program stores it: int8, one symmetric scale per column; the gradient passes through."""
    with torch.no_grad():
        scale = table.abs().amax(dim=0).clamp_min(1e-12) / 127
        rounded = torch.round(table / scale) * scale
    return table + (rounded - table).detach()
