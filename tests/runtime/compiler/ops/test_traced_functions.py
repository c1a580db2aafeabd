"""Functions within which torch looks into its tensors agree with torch: covariances, counts, histograms."""

from collections.abc import Callable

import pytest
import torch
from alcove.runtime import ExportError, export, load
from alcove.runtime.errors import InputError
from torch import Tensor, nn

Agrees = Callable[..., None]


def test_covariances_and_correlations(agrees: Agrees) -> None:
    """Of rows, of one row, with other corrections and both kinds of weights."""
    often, much = torch.tensor([1, 2, 3, 0, 1, 1, 1, 2]), torch.rand(8)
    agrees(
        {
            "plain": lambda x: (torch.cov(x), x.cov(correction=0), torch.corrcoef(x), x[0].corrcoef()),
            "one": lambda x: torch.cov(x[0]),
            "often": lambda x: torch.cov(x, fweights=often),
            "much": lambda x: torch.cov(x, aweights=much, correction=0),
            "both": lambda x: torch.cov(x, fweights=often, aweights=much),
        },
        torch.randn(3, 8),
    )


def test_histograms_of_given_and_of_found_ends(agrees: Agrees) -> None:
    """Counts, weights, densities; edges as numbers, as a tensor, or the data's own; several dimensions."""
    edges, weight = torch.tensor([-2.0, -1.0, 0.0, 2.0]), torch.rand(6, 8)
    agrees(
        {
            "histc": lambda x: (torch.histc(x, 10, -2, 2), x.histc(7), torch.histc(x * 0 + 3, 4)),
            "range": lambda x: torch.histogram(x, 5, range=(-2.0, 2.0), weight=weight),
            "found": lambda x: torch.histogram(x, 6),
            "edges": lambda x: torch.histogram(x, edges, density=True),
            "several": lambda x: torch.histogramdd(x[:, :2], [3, 4], range=[-2.0, 2.0, -1.0, 1.0], density=True).hist,
        },
        torch.randn(6, 8),
    )


def test_counts_of_whole_numbers(agrees: Agrees) -> None:
    """As many as are asked for, with and without weights."""
    weights = torch.rand(12)
    agrees(
        {
            "counts": lambda x: torch.bincount(x, minlength=6),
            "weights": lambda x: x.bincount(weights, minlength=5),
        },
        torch.randint(0, 5, (12,)),
    )


def test_combinations_of_elements(agrees: Agrees) -> None:
    """Pairs, triples, with repetition; of fewer elements than are asked for there are none."""
    agrees(
        {
            "all": lambda x: (torch.combinations(x), torch.combinations(x, 3), torch.combinations(x, 2, True)),
            "one": lambda x: torch.combinations(x[:1], with_replacement=True),
        },
        torch.randn(4),
    )


class Count(nn.Module):
    """Counts, of a number that is said or not."""

    def __init__(self, minlength: int) -> None:
        super().__init__()
        self.minlength = minlength

    def forward(self, x: Tensor) -> Tensor:
        """Count."""
        return torch.bincount(x, minlength=self.minlength)


def test_numbers_beyond_the_counts_end_the_run() -> None:
    """Eager would give more counts, or refuses what is below 0."""
    model = load(bytes(export(Count(3).eval(), (torch.tensor([0, 2]),))))
    assert model(torch.tensor([2, 2]).numpy())[0].tolist() == [0, 0, 2]
    for numbers in ([0, 3], [-1, 0]):
        with pytest.raises(InputError):
            model(torch.tensor(numbers).numpy())
    with pytest.raises(ExportError, match="a minlength above"):
        export(Count(0).eval(), (torch.tensor([0, 2]),))


class Jagged(nn.Module):
    """Rows of different lengths as one tensor."""

    def forward(self, x: Tensor) -> Tensor:
        """Nest and pad again."""
        nested = torch.nested.nested_tensor([x[0], x[1, :5]], layout=torch.jagged)
        return torch.nested.to_padded_tensor(nested * 2, 0.0)


def test_nested_tensors_are_refused_with_masks_in_their_place() -> None:
    """The message shows how."""
    with pytest.raises(ExportError, match="a mask of what is used"):
        export(Jagged().eval(), (torch.randn(2, 8),))
