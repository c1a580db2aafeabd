"""Models that the exporter's tests share, and which of their cases `make test` runs."""

import logging
from itertools import pairwise
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - torch's own custom
from alcove.runtime.ops import LabelledTopK, NgramHash, Ranked
from torch import Tensor, nn

from tests.selection import thin_out

# Pytest listens to all that a logger records that does not propagate, so torch would record every step of every trace.
logging.getLogger("torch.__trace").propagate = True

LABELS = ("de", "en", "fr", "nl", "sv")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave two cases of three to `make thorough`: an export takes a tenth of a second, and there are thousands."""
    thin_out(items, Path(__file__).parent, 3)


class TextModel(nn.Module):
    """Text to the three best of five labels, the shape of a language identifier; `hidden` units or none."""

    def __init__(self, buckets: int = 512, dim: int = 12, hidden: int = 20, mode: str = "mean") -> None:
        super().__init__()
        self.hash = NgramHash(min_order=1, max_order=4, buckets=buckets, seed=7, capacity=96)
        self.table = nn.Parameter(torch.randn(buckets, dim))
        self.drop = nn.Dropout(0.1)
        self.hidden = nn.Linear(dim, hidden) if hidden else nn.Identity()
        self.out = nn.Linear(hidden or dim, len(LABELS))
        self.top = LabelledTopK(LABELS, 3)
        self.mode = mode

    def forward(self, utf8: Tensor) -> Ranked:
        """Run."""
        ids = self.hash(utf8)
        x = F.embedding_bag(ids, self.table, ids.new_zeros(1), mode=self.mode)
        x = F.relu(self.hidden(self.drop(x)))
        ranked: Ranked = self.top(F.softmax(self.out(x), dim=-1))
        return ranked


class Mlp(nn.Module):
    """Numbers to probabilities: `widths` linears with relus between."""

    def __init__(self, *widths: int) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for before, after in pairwise(widths):
            layers += [nn.Linear(before, after), nn.ReLU(inplace=True)]
        self.layers = nn.Sequential(*layers[:-1])

    def forward(self, x: Tensor) -> Tensor:
        """Run."""
        return torch.softmax(self.layers(x), dim=-1)


@pytest.fixture(autouse=True)
def _same_weights() -> None:
    """Make every test's random weights the same in every run."""
    torch.manual_seed(20240229)


@pytest.fixture
def text_model() -> TextModel:
    """A model in eval mode."""
    return TextModel().eval()


@pytest.fixture(scope="session")
def make_text_model() -> type[TextModel]:
    """The class, for models of other sizes."""
    return TextModel


@pytest.fixture(scope="session")
def make_mlp() -> type[Mlp]:
    """The class."""
    return Mlp
